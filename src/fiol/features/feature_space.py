"""`FeatureSpace` encodes rows in any container as canonical chunks, and stores names, columns and labels of a model."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from numbers import Integral
from typing import Any

import numpy as np

from fiol.components.row import Floats, Indices
from fiol.features.chunk import Chunk
from fiol.features.column_roles import ColumnRoles, Roles
from fiol.features.column_values import BadValueError
from fiol.features.containers import as_matrix, check_two_dimensional, to_chunk
from fiol.features.frames import Frame, as_frame, converted, eager, is_sparse
from fiol.features.hashing import CRC32, Hashing
from fiol.features.labels import Labels
from fiol.features.max_features import renumbered, rows_that_fit
from fiol.features.missing_values import has_never_seen, indicators_of, number_never_seen
from fiol.features.named_rows import NamedRows
from fiol.features.numbered_rows import NOTHING, NumberedRow, number_dict
from fiol.features.table_encoding import Column, TableEncoding
from fiol.features.table_rows import (
    UnknownKeys,
    encoding_by_types,
    features_of_dict,
    holds_only_numbers,
    infer_from_dicts,
    needs_encoding,
    rows_of_table,
)
from fiol.features.transaction import Counting, Rewindable, Transaction
from fiol.features.vocabulary import NAME_TYPES, Vocabulary

#: After features had to be dropped, how many rows are tried at first to find which of them fit.
ROWS_AFTER_PRUNING = 16


class FeatureSpace:
    """Encode rows in any container as canonical chunks, with one number per feature and one code per label.

    Parameters
    ----------
    n_features : number of features, if it is fixed.
    bits : hash all features, named or numbered, into 2**bits.
    max_features : largest number of features to store.
    counts_unseen : whether a feature that was never seen has a weight other than 0, so that it is read.
    any_names : rows are dicts or frames, and a name that is neither str nor int is replaced by its repr.
    table_encoding : how columns of frames become features; kinds that are not given are inferred from the first frame.
        Without one, frames of numbers have a feature per column, and a frame with text, dates or missing values infers
        one.

    `encode_rows`, `encode_row` and `blocks` add new features; call them inside `transaction()`. `read` and `read_row`
    change nothing.

    >>> space = FeatureSpace()
    >>> with space.transaction():
    ...     rows = space.encode_rows([{"age": 30.0, "color": "red"}, {"age": 31.0}])
    >>> rows.indices, space.features, space.names
    (array([0, 1, 0], dtype=int32), 2, ['age', 'color=red'])
    >>> with space.transaction():
    ...     rows = space.encode_rows([{"income": 1.0}, {"age": float("nan")}])
    Traceback (most recent call last):
    ValueError: X[1, 'age'] must be finite, got nan
    >>> space.read([{"income": 1.0, "age": 3.0}]).data, space.names
    (array([3.]), ['age', 'color=red'])
    """

    def __init__(
        self,
        n_features: int | None = None,
        bits: int | None = None,
        max_features: int | None = None,
        counts_unseen: bool = False,
        any_names: bool = False,
        table_encoding: TableEncoding | None = None,
    ) -> None:
        self.bits, self.max_features, self.counts_unseen, self.any_names = bits, max_features, counts_unseen, any_names
        #: Numbers names; None if features are numbers already.
        self.encoder: Vocabulary | Hashing | None = None if bits is None else Hashing(bits)
        if bits is None and (any_names or max_features is not None):
            self.encoder = Vocabulary()
        #: The number of features, if it is fixed.
        self.width = n_features if bits is None else Hashing(bits).size
        #: The number of features so far.
        self.features = self.width or 0
        #: Names of columns, if the first rows had any.
        self.columns: tuple[str, ...] | None = None
        #: The number of columns of the dense rows learned from; sparse rows may have more features.
        self.dense_columns: int | None = None
        #: How columns become features, once a frame with more than numbers was learned from.
        self.table_encoding = table_encoding
        #: Counts keys of dicts and cells of frames that belong to no column of the table encoding.
        self.unknown = UnknownKeys()
        #: The space whose features have the names, where those of this one are its numbers.
        self.outer: FeatureSpace | None = None
        self.column_roles = ColumnRoles()
        self.known_indicators: tuple[Any, Indices | None] = None, None
        #: The classes of a model that has classes.
        self.labels: Labels | None = None

    @property
    def names(self) -> list[str | int] | None:
        """The names of the features, in the order of their numbers; None if features have no names."""
        if isinstance(self.encoder, Vocabulary):
            return list(self.encoder.names)
        return None if self.columns is None else list(self.columns)

    @property
    def roles(self) -> Roles:
        """The column of every feature, and what the feature is there."""
        if self.outer is not None:
            return self.outer.roles
        names = self.encoder.names if isinstance(self.encoder, Vocabulary) else None
        return self.column_roles.of(names, self.features, self.table_encoding)

    @property
    def indicators(self) -> Indices | None:
        """The feature `c is missing` of every feature c, see `indicators_of`; None if rows have no missing values."""
        if self.outer is not None:
            return self.outer.indicators
        named = self.table_encoding is not None and isinstance(self.encoder, Vocabulary)
        if self.counts_unseen or not (named or self.columns is not None):
            return None
        known = self.roles if named else self.columns
        if self.known_indicators[0] is not known:
            self.known_indicators = known, indicators_of(self.roles)
        return self.known_indicators[1]

    # --- transactions -------------------------------------------------------------------------

    def transaction(self, *others: Rewindable, learner: Counting | None = None) -> Transaction:
        """Return a `Transaction` that restores this space and `others` if an exception leaves it."""
        return Transaction(self, *others, learner=learner)

    def mark(self) -> Any:
        """Return a token for `rewind`."""
        encoder, labels = self.encoder, self.labels
        marks = None if encoder is None else encoder.mark(), None if labels is None else labels.mark()
        return encoder, self.columns, self.dense_columns, self.table_encoding, self.features, labels, marks

    def rewind(self, mark: Any) -> None:
        """Remove all names, columns, features and labels added since the mark."""
        self.encoder, self.columns, self.dense_columns, self.table_encoding, self.features, self.labels, marks = mark
        self.column_roles.clear()
        if self.encoder is not None:
            self.encoder.rewind(marks[0])
        if self.labels is not None:
            self.labels.rewind(marks[1])

    # --- files --------------------------------------------------------------------------------

    def header(self) -> dict[str, Any]:
        """Return features, columns and labels, as the header of a file stores them."""
        vocabulary = self.encoder if isinstance(self.encoder, Vocabulary) else None
        return {
            "features": self.features,
            "columns": None if self.columns is None else list(self.columns),
            "names": None if vocabulary is None else list(vocabulary.names),
            **({} if self.dense_columns is None else {"dense_columns": self.dense_columns}),
            **({} if self.table_encoding is None else {"coding": self.table_encoding.to_json()}),
            **({"hash": self.encoder.function} if isinstance(self.encoder, Hashing) else {}),
            **({} if self.labels is None else {"labels": self.labels.header()}),
        }

    def restore(self, header: Mapping[str, Any]) -> None:
        """Replace features, columns and labels by those of a header."""
        self.features = header["features"]
        self.column_roles.clear()
        self.columns = None if header["columns"] is None else tuple(header["columns"])
        self.dense_columns = header.get("dense_columns")
        self.table_encoding = None if header.get("coding") is None else TableEncoding.from_json(header["coding"])
        if header["names"] is not None:
            self.encoder = Vocabulary(header["names"])
        if self.bits is not None:
            self.encoder = Hashing(self.bits, header.get("hash", CRC32))
        labels = header.get("labels")
        self.labels = None if labels is None else Labels(labels["classes"], labels["closed"])

    # --- learning -----------------------------------------------------------------------------

    def encode_rows(self, X: Any) -> Chunk:
        """Return the rows as a chunk, and add their new features; call it inside a transaction."""
        if X is NOTHING:
            return X
        frame = as_frame(X)
        if not self.is_table(X, frame):
            return self.encode_plain(X, frame)
        space = self.with_named_columns(frame)
        chunk = space.encode_plain(space.table_rows(X, frame, learning=True), None)
        if space is not self and space.features > self.features:
            self.take_features(space)
        return chunk

    def encode_plain(self, X: Any, frame: Frame | None) -> Chunk:
        """Return rows that need no table encoding as a chunk, and add their new features."""
        if isinstance(self.encoder, Hashing):
            return self.hashed(X if frame is None else frame)
        if is_named(X) or (self.any_names and frame is not None):
            vocabulary = self.vocabulary()
            chunk = self.with_numbers(X, vocabulary) if frame is None else named_columns(vocabulary, frame)
            self.encoder, self.features = vocabulary, vocabulary.size
            return chunk
        X, names, chunk = self.numbered(X, frame)
        if names is not None and self.columns is None:
            if self.features and len(names) != self.features:
                raise ValueError(f"X has {len(names)} columns, but there are {self.features} features")
            self.columns = names
        seen = X.shape[1] if hasattr(X, "shape") else int(chunk.indices.max(initial=-1)) + 1
        self.features = max(self.features, seen)
        self.remember_width(X, frame)
        return chunk

    def encode_chunk(self, chunk: Chunk) -> Chunk:
        """Return a canonical chunk of numbered features, and add new ones; raise as `read_chunk` does."""
        found = self.read_chunk(chunk)
        if self.width is None:
            self.features = max(self.features, int(found.indices.max(initial=-1)) + 1)
        return found

    def encode_row(self, row: Mapping[Any, Any]) -> tuple[Indices, Floats]:
        """Return the indices (ascending) and values of a dict, and add its new names; call it inside a transaction."""
        if self.is_table([row], None):
            return only_row(self.encode_rows, row)
        encoder = self.encoder if isinstance(self.encoder, Hashing) else self.vocabulary()
        found = encoder.encode_one(self.with_names(row))
        if isinstance(encoder, Vocabulary):
            self.encoder, self.features = encoder, encoder.size
        return found

    def number_dict(self, row: Any, learning: bool) -> NumberedRow | None:
        """Return a dict as a numbered row, with new names numbered if it is learned from; None if it needs `read_row`.

        Call it inside a transaction to learn from the row.
        """
        if learning and not self.features and self.columns is None and self.table_encoding is None:
            self.encoder = self.encoder or Vocabulary()
        encoder = self.encoder
        if encoder is None or not isinstance(row, dict):
            return None
        if self.table_encoding is not None:
            row = features_of_dict(self.table_encoding, row)
            if row is None or (not learning and has_never_seen(row, encoder)):
                return None
        plain = isinstance(encoder, Vocabulary) and self.max_features is None
        found = number_dict(
            encoder,
            row,
            grow=learning and plain and self.width is None,
            leave_out=not learning and plain and not self.counts_unseen,
        )
        if learning and plain:
            self.features = encoder.size
        return found

    # --- reading: no features are added -------------------------------------------------------

    def read(self, X: Any) -> Chunk:
        """Return the rows as a chunk, without features never seen; if `counts_unseen`, these get number `features`."""
        if X is NOTHING:
            return X
        frame = as_frame(X)
        if not self.is_table(X, frame):
            return self.read_plain(X, frame)
        space = self.with_named_columns(frame)
        return space.read_plain(space.table_rows(X, frame, learning=False), None)

    def read_plain(self, X: Any, frame: Frame | None) -> Chunk:
        """Return rows that need no table encoding as a chunk, and add no features."""
        if isinstance(self.encoder, Hashing):
            return self.hashed(X if frame is None else frame)
        if self.max_features is not None:
            chunk, names = self.chunk_and_names(X, frame)
            numbers = number_never_seen(names, self.numbers(names), self.vocabulary())
            numbers[numbers < 0] = self.features
            return renumbered(chunk, numbers)
        if is_named(X) or (self.any_names and frame is not None):
            vocabulary, unseen = self.vocabulary(), self.unseen
            if frame is not None:
                return named_columns(vocabulary, frame, False, unseen)
            return self.with_numbers(X, vocabulary, False, unseen)
        return self.numbered(X, frame)[2]

    def read_chunk(self, chunk: Chunk) -> Chunk:
        """Return a canonical chunk of numbered features, hashed if `bits` are given; raise TypeError or ValueError."""
        if not isinstance(chunk, Chunk):
            raise TypeError(f"chunk must be a fiol.Chunk, got {type(chunk).__name__}: use to_chunk")
        if isinstance(self.encoder, Hashing):
            return self.encoder.fold(chunk.checked())
        if isinstance(self.encoder, Vocabulary):
            raise TypeError("this learner has named features: pass dicts")
        return chunk.checked(self.width if self.columns is None else len(self.columns))

    def read_row(self, row: Mapping[Any, Any]) -> tuple[Indices, Floats]:
        """Return the indices (ascending) and values of a dict; see `read`."""
        if self.is_table([row], None):
            return only_row(self.read, row)
        encoder = self.encoder if isinstance(self.encoder, Hashing) else self.vocabulary()
        return encoder.encode_one(self.with_names(row), None, False, self.unseen)

    def read_all(self, X: Any) -> Chunk:
        """Return the rows of any container, or of a generator, as a chunk; no features are added."""
        X, rows = counted(X, "a list of such dicts")
        return self.read(list(X) if rows is None else X)

    @property
    def unseen(self) -> int | None:
        """The number that features never seen get; None if they are left out."""
        return self.features if self.counts_unseen else None

    # --- bounded memory -----------------------------------------------------------------------

    def blocks(self, X: Any, prune: Callable[[], int]) -> Iterator[tuple[int, Chunk]]:
        """Yield blocks of rows whose new features fit into `max_features`, each with the row where it starts.

        Before a row that does not fit, `prune` drops features by `keep` and returns how many. Raise ValueError if there
        are none to drop. The features of a block are added before it is yielded.
        """
        assert self.max_features is not None

        frame = as_frame(X)
        if self.is_table(X, frame):
            X, frame = self.table_rows(X, frame, learning=True), None
        chunk, names = self.chunk_and_names(X, frame)
        self.remember_width(X, frame)
        numbers, start, ahead, pruned = self.numbers(names), 0, chunk.rows, False
        while start < chunk.rows:
            block = chunk.row_block(start, start + ahead)
            fit, new = rows_that_fit(block, numbers, self.max_features - self.features)
            if fit > 0:
                vocabulary = self.vocabulary()
                numbers[new] = [vocabulary.number(names[i]) for i in new]
                self.features = vocabulary.size
                yield start, renumbered(block.row_block(0, fit), numbers)
                start, ahead, pruned = start + fit, 2 * ahead, False
            elif pruned or not prune():
                raise ValueError(
                    f"row {start} brings more features than max_features={self.max_features} has place for: "
                    "the weights of all others are not 0; raise max_features or the strength of l1"
                )
            else:
                numbers, ahead, pruned = self.numbers(names), ROWS_AFTER_PRUNING, True

    def keep(self, kept: Any) -> None:
        """Drop all features but these, and number them in this order."""
        names = self.vocabulary().names
        self.encoder, self.features = Vocabulary([names[i] for i in kept]), len(kept)

    def chunk_and_names(self, X: Any, frame: Frame | None) -> tuple[Chunk, list[str | int]]:
        """Return rows with features numbered within these rows, in the order of their names, and the names."""
        names: list[str | int]
        if is_named(X):
            vocabulary = Vocabulary()
            chunk, names = self.with_numbers(X, vocabulary), vocabulary.names
        else:
            columns = None if frame is None else frame.names
            chunk = X if X is NOTHING else to_chunk(X if frame is None else frame, columns=columns)
            self.check_width(X, frame)
            found, local = np.unique(chunk.indices, return_inverse=True)
            chunk = chunk._replace(indices=local.astype(np.int32))
            names = [int(i) if columns is None else columns[i] for i in found]
        order = sorted(range(len(names)), key=lambda i: (isinstance(names[i], str), names[i]))
        return renumbered(chunk, np.argsort(order)), [names[i] for i in order]

    def numbers(self, names: list[str | int]) -> Any:
        """Return the numbers of these names, -1 for those that are not stored."""
        vocabulary = self.vocabulary()
        return np.array([vocabulary.number(name) if vocabulary.knows(name) else -1 for name in names], np.int64)

    # --- rows of a table: frames with text, dates and missing values, and dicts ----------------

    @property
    def find(self) -> Callable[[Any], int] | None:
        """Return the number of a name in a dict, or raise; None if dicts are no plain names and values."""
        encoder = self.encoder
        return None if encoder is None or self.table_encoding is not None else encoder.find

    @property
    def fixed(self) -> bool:
        """Whether the number of features is fixed, so that there are no names."""
        return self.width is not None and self.bits is None

    def is_table(self, X: Any, frame: Frame | None) -> bool:
        """Return whether rows are encoded by a table encoding.

        All rows are if the model has one. Otherwise frames are if a column has text, dates or missing values, if the
        features have names from dicts, or if they are other columns; and dicts are if the features are columns.
        """
        if self.any_names or self.fixed:
            return False
        if frame is None:
            return is_dicts(X) and (self.table_encoding is not None or self.columns is not None)
        named = isinstance(self.encoder, Vocabulary) and self.max_features is None and self.features > 0
        other = self.columns is not None and frame.names is not None and {*self.columns} != {*frame.names}
        return self.table_encoding is not None or named or other or needs_encoding(frame)

    def table_rows(self, X: Any, frame: Frame | None, learning: bool) -> NamedRows:
        """Return the features of rows of a table, and store the table encoding if it was completed to learn."""
        if learning and frame is not None:
            self.begin_with_numbers(frame)
        encoding = self.completed(X, frame, learning)
        is_inferred = learning and (self.table_encoding is None or not self.table_encoding.complete)
        if is_inferred and encoding.ids_message:
            warnings.warn(f"columns are {encoding.ids_message}", stacklevel=2)
        self.table_encoding = encoding if learning else self.table_encoding
        return rows_of_table(encoding, X, frame, self.unknown, learning, is_inferred)

    def completed(self, X: Any, frame: Frame | None, learning: bool) -> TableEncoding:
        """Return the table encoding; the first rows to learn from decide about kinds that are not given."""
        encoding = self.table_encoding
        if encoding is None and not learning:
            assert frame is not None
            return encoding_by_types(frame)  # whatever the rows to predict are
        encoding = TableEncoding.from_spec() if encoding is None else encoding
        return infer_from_dicts(encoding, X) if frame is None else encoding.completed(frame)

    def with_named_columns(self, frame: Frame | None) -> FeatureSpace:
        """Return a copy in which features that are columns of numbers have names; this space if there are none."""
        if self.table_encoding is not None or self.encoder is not None or not self.features:
            return self
        space = copy.copy(self)
        space.name_columns(frame)
        return space

    def take_features(self, other: FeatureSpace) -> None:
        """Replace the features by those of another feature space, not by copies."""
        self.encoder, self.features, self.table_encoding = other.encoder, other.features, other.table_encoding
        self.columns, self.dense_columns = other.columns, other.dense_columns
        self.column_roles.clear()

    def name_columns(self, frame: Frame | None) -> None:
        """Turn features that were columns of numbers into names, and make a table encoding with these columns."""
        names = self.columns
        if names is None and frame is not None and self.dense_columns == self.features == frame.shape[1]:
            names = frame.names
        if names is None:
            self.vocabulary()  # raises TypeError
            return
        self.table_encoding = TableEncoding(tuple(Column(name, "number") for name in names))
        self.encoder, self.columns, self.dense_columns = Vocabulary(names), None, None

    def begin_with_numbers(self, frame: Frame) -> None:
        """Number the columns of a first frame of numbers alone, as if nothing were missing: its rows may come cut."""
        is_new = not self.features and self.encoder is None and self.table_encoding is None and not self.max_features
        if is_new and frame.names is not None and holds_only_numbers(frame):
            self.columns, self.features = frame.names, len(frame.names)
            self.name_columns(frame)

    def share_features(self, other: FeatureSpace) -> None:
        """Replace the features by copies of those of another feature space; keep the labels."""
        labels = self.labels
        self.restore(other.header())
        self.labels = labels

    # --- parts --------------------------------------------------------------------------------

    def vocabulary(self) -> Vocabulary:
        """Return the vocabulary, an empty one if there are no features yet; raise TypeError if features are numbers."""
        if isinstance(self.encoder, Vocabulary):
            return self.encoder
        if self.columns is not None:
            raise TypeError("this learner has columns: pass frames or arrays, or bits=... to a new learner")
        if self.features:
            raise TypeError("this learner has numbered features: pass arrays, or bits=... to a new learner")
        return Vocabulary()

    def numbered(self, X: Any, frame: Frame | None) -> tuple[Any, tuple[str, ...] | None, Chunk]:
        """Return rows of numbers or columns, as a frame if X is one, the names of its columns, and the chunk."""
        if isinstance(self.encoder, Vocabulary):
            raise TypeError("this learner has named features: pass dicts, or frames with names of columns")
        names, held = (None, X) if frame is None else (frame.names, frame)
        chunk = to_chunk(held, columns=self.columns or names, n_features=self.width)
        self.check_width(X, frame)
        return held, names, chunk

    def check_width(self, X: Any, frame: Frame | None) -> None:
        """Raise ValueError if a dense array has another number of columns than the rows learned from."""
        width = dense_width(X, frame)
        if width is not None and self.dense_columns not in (None, width):
            raise ValueError(f"X has {width} columns, but the rows learned from have {self.dense_columns}")

    def remember_width(self, X: Any, frame: Frame | None) -> None:
        """Store the number of columns of a dense array, which later arrays must have."""
        width = dense_width(X, frame)
        if width and self.dense_columns is None:
            self.dense_columns = width

    def hashed(self, X: Any) -> Chunk:
        """Return rows with hashed features; the columns of a frame are names."""
        hashing = self.encoder
        assert isinstance(hashing, Hashing)
        if is_named(X):
            return self.with_numbers(X, hashing)
        if isinstance(X, Frame) and (self.any_names or X.names is not None):
            return named_columns(hashing, X)
        return hashing.fold(to_chunk(X))

    def with_numbers(
        self, X: Any, encoder: Vocabulary | Hashing, grow: bool = True, unseen: int | None = None
    ) -> Chunk:
        """Return dicts, or `NamedRows` of a reader, encoded by an encoder."""
        if isinstance(X, NamedRows):
            if self.table_encoding is not None and isinstance(encoder, Vocabulary) and not grow and unseen is None:
                found = encoder.numbers_of_names(X.names, False, -1)
                return renumbered(X.chunk, number_never_seen(X.names, found, encoder))
            return X.encoded(encoder, grow, unseen)
        return encoder.encode(self.named(X), grow, unseen)

    def with_names(self, row: Any) -> Any:
        """Return a row with str or int keys."""
        if self.any_names and isinstance(row, Mapping) and not NAME_TYPES.issuperset(map(type, row)):
            return {name_of(key): value for key, value in row.items()}
        return row

    def named(self, rows: Iterable[Any]) -> Iterable[Any]:
        """Return rows with str or int keys."""
        return map(self.with_names, rows) if self.any_names else rows


def named_columns(encoder: Vocabulary | Hashing, frame: Frame, grow: bool = True, unseen: int | None = None) -> Chunk:
    """Return the rows of a frame, encoded to the same bits as if they were dicts."""
    names = [name_of(label) for label in frame.column_labels]
    try:
        chunk = to_chunk(frame)
    except TypeError:  # text, perhaps
        return encoder.encode((dict(zip(names, row, strict=True)) for row in frame.rows()), grow, unseen)
    seen, first = np.unique(chunk.indices, return_index=True)
    numbers = np.full(len(names), -1 if unseen is None else unseen, np.int64)
    for i in seen[np.argsort(first)]:  # new names are numbered as they appear
        if grow or encoder.knows(names[i]):
            numbers[i] = encoder.number(names[i])
    return renumbered(chunk, numbers)


def name_of(key: Any) -> str | int:
    """Return the name of a feature; River allows any hashable, such as the pairs of words of a `BagOfWords`.

    >>> name_of("age"), name_of(7), name_of(("new", "york"))
    ('age', 7, "('new', 'york')")
    """
    return key if isinstance(key, (str, Integral)) and not isinstance(key, bool) else repr(key)  # type: ignore[return-value]


def dense_width(X: Any, frame: Frame | None) -> int | None:
    """Return the number of columns of an array, or of a frame without names; None for any other container."""
    if frame is not None:
        return frame.shape[1] if frame.names is None and len(frame) else None
    if isinstance(X, (Chunk, NamedRows)) or is_sparse(X) or not hasattr(X, "shape") or not X.shape[0]:
        return None
    return int(X.shape[1])


def only_row(encode: Callable[[Any], Chunk], row: Any) -> tuple[Indices, Floats]:
    """Return indices and values of one dict that is a row of a table."""
    try:
        _, indices, data = encode([row])
    except BadValueError as error:
        raise ValueError(f"x[{error.column!r}] {error.reason}") from None
    return indices, data


# --- rows as they come ------------------------------------------------------------------------


def counted(X: Any, of_one: str = "learn_named") -> tuple[Any, int | None]:
    """Return X, nested lists as a matrix, and its number of rows, None for a generator.

    `of_one` names the method for a single dict in the error message.
    """
    X = converted(X)
    if isinstance(X, Mapping) and not is_sparse(X):  # scipy's dok_matrix is a dict as well
        raise TypeError(f"X must be rows, not a single dict: use {of_one}, or put it in a list")
    if isinstance(X, (Chunk, NamedRows)):
        return X, X.rows
    if hasattr(X, "shape") and len(X.shape) > 0:
        check_two_dimensional(X.shape)
        return X, int(X.shape[0])
    if isinstance(X, (str, bytes)) or not isinstance(X, Iterable):
        raise TypeError(f"X must be a matrix, a frame or a list of dicts, got {type(X).__name__}{eager(X)}")
    if isinstance(X, Iterator):
        return X, None
    X = X if isinstance(X, (list, tuple)) else list(X)
    if len(X) == 0:
        return NOTHING, 0
    if not is_dicts(X):
        X = as_matrix(X)
    return X, len(X)


def is_named(X: Any) -> bool:
    """Return whether rows are dicts or `NamedRows` of a reader."""
    return isinstance(X, NamedRows) or is_dicts(X)


def is_dicts(X: Any) -> bool:
    """Return whether the rows are dicts."""
    return isinstance(X, (list, tuple)) and not isinstance(X, Chunk) and len(X) > 0 and isinstance(X[0], Mapping)
