"""The intake of a model: rows in any container become canonical chunks, all or nothing.

An `Intake` owns what has to be remembered so that the same feature, wherever and however it comes, has the same number:
names, hashing, columns, how many features there are, how many may be held, and the codes of labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from numbers import Integral
from typing import Any

import numpy as np

from fiol.components.row import Floats, Indices
from fiol.features.capacity import renumbered, rows_that_fit
from fiol.features.chunk import Chunk
from fiol.features.coding import Coding, Column, needs_coding
from fiol.features.containers import as_matrix, check_two_dimensional, to_chunk
from fiol.features.frames import Frame, as_frame, converted, eager
from fiol.features.hashing import CRC32, Hashing
from fiol.features.labels import Labels
from fiol.features.named_rows import NamedRows
from fiol.features.numbered_rows import NOTHING, NumberedRow, number_dict
from fiol.features.transaction import Counting, Rewindable, Transaction
from fiol.features.vocabulary import NAME_TYPES, Vocabulary

#: After features had to be dropped, so many rows at first are looked at to find which of them fit.
ROWS_AFTER_PRUNING = 16


class Intake:
    """Rows in any container as canonical chunks, and what is remembered of their features and labels.

    Parameters
    ----------
    n_features : how many features there are, if that is known.
    bits : fold all features, named or numbered, into 2**bits by hashing.
    max_features : hold at most so many.
    counts_unseen : whether a feature that was never seen has a weight, so that it counts when rows are read.
    any_names : rows are dicts or frames, and what is neither str nor int is called by its repr.
    coding : how columns of frames become features, or as much of it as is told by hand. Without one, frames of plain
        numbers have a feature per column, and the first frame with anything else (texts, dates, holes) makes a coding.

    Learning (`take_in`, `take_in_row`, `blocks`) remembers what is new, inside `transaction()`; reading (`read`,
    `read_row`) changes nothing.

    >>> intake = Intake()
    >>> with intake.transaction():
    ...     rows = intake.take_in([{"age": 30.0, "color": "red"}, {"age": 31.0}])
    >>> rows.indices, intake.features, intake.names
    (array([0, 1, 0], dtype=int32), 2, ['age', 'color=red'])
    >>> with intake.transaction():
    ...     rows = intake.take_in([{"income": 1.0}, {"age": float("nan")}])
    Traceback (most recent call last):
    ValueError: X[1, 'age'] must be finite, got nan
    >>> intake.read([{"income": 1.0, "age": 3.0}]).data, intake.names
    (array([3.]), ['age', 'color=red'])
    """

    coding: Coding | None = None  #: of intakes that were pickled before there was one

    def __init__(
        self,
        n_features: int | None = None,
        bits: int | None = None,
        max_features: int | None = None,
        counts_unseen: bool = False,
        any_names: bool = False,
        coding: Coding | None = None,
    ) -> None:
        self.bits, self.max_features, self.counts_unseen, self.any_names = bits, max_features, counts_unseen, any_names
        #: How names become numbers; None for features that are numbers already.
        self.encoder: Vocabulary | Hashing | None = None if bits is None else Hashing(bits)
        if bits is None and (any_names or max_features is not None):
            self.encoder = Vocabulary()
        #: How many features there are, if that was known from the start.
        self.width = n_features if bits is None else Hashing(bits).size
        #: Features there are, or were seen so far.
        self.features = self.width or 0
        #: Names of the columns, if the first rows had any.
        self.columns: tuple[str, ...] | None = None
        #: How many columns dense rows have, once some were learned from; sparse rows may have features beyond them.
        self.dense_columns: int | None = None
        #: How columns become features with names, once there is a frame that is more than plain numbers.
        self.coding = coding
        #: The classes there are, in a model that has any.
        self.labels: Labels | None = None

    @property
    def names(self) -> list[str | int] | None:
        """The names of the features, in the order of their numbers; None if they are numbers."""
        if isinstance(self.encoder, Vocabulary):
            return list(self.encoder.names)
        return None if self.columns is None else list(self.columns)

    # --- all or nothing -----------------------------------------------------------------------

    def transaction(self, *others: Rewindable, learner: Counting | None = None) -> Transaction:
        """`with intake.transaction():` whatever is raised inside, this intake, and the others, are as they were.

        They stay as they are if the `learner` has learned from rows inside: see `Transaction`.
        """
        return Transaction(self, *others, learner=learner)

    def mark(self) -> Any:
        """A token for `rewind`."""
        encoder, labels = self.encoder, self.labels
        marks = None if encoder is None else encoder.mark(), None if labels is None else labels.mark()
        return encoder, self.columns, self.dense_columns, self.coding, self.features, labels, marks

    def rewind(self, mark: Any) -> None:
        """Take back all names, columns, features and labels since the mark."""
        self.encoder, self.columns, self.dense_columns, self.coding, self.features, self.labels, marks = mark
        if self.encoder is not None:
            self.encoder.rewind(marks[0])
        if self.labels is not None:
            self.labels.rewind(marks[1])

    # --- files --------------------------------------------------------------------------------

    def header(self) -> dict[str, Any]:
        """The features and labels that are remembered, as a file's header has them."""
        vocabulary = self.encoder if isinstance(self.encoder, Vocabulary) else None
        return {
            "features": self.features,
            "columns": None if self.columns is None else list(self.columns),
            "names": None if vocabulary is None else list(vocabulary.names),
            **({} if self.dense_columns is None else {"dense_columns": self.dense_columns}),
            **({} if self.coding is None else {"coding": self.coding.to_json()}),
            **({"hash": self.encoder.function} if isinstance(self.encoder, Hashing) else {}),
            **({} if self.labels is None else {"labels": self.labels.header()}),
        }

    def restore(self, header: Mapping[str, Any]) -> None:
        """Take over the features and labels of a header."""
        self.features = header["features"]
        self.columns = None if header["columns"] is None else tuple(header["columns"])
        self.dense_columns = header.get("dense_columns")
        self.coding = None if header.get("coding") is None else Coding.from_json(header["coding"])
        if header["names"] is not None:
            self.encoder = Vocabulary(header["names"])
        if self.bits is not None:
            self.encoder = Hashing(self.bits, header.get("hash", CRC32))
        labels = header.get("labels")
        self.labels = None if labels is None else Labels(labels["classes"], labels["closed"])

    # --- learning -----------------------------------------------------------------------------

    def take_in(self, X: Any) -> Chunk:
        """The rows as a chunk, their features taken in; call it inside a transaction."""
        if X is NOTHING:
            return X
        frame = as_frame(X)
        if frame is None or self.any_names:
            return self.take_in_plain(X, frame)
        if self.codes_all_frames:
            return self.take_in_plain(self.coded(frame), None)
        try:
            return self.take_in_plain(X, frame)
        except (TypeError, ValueError):
            if self.fixed or not needs_coding(frame):
                raise
        return self.take_in_plain(self.coded(frame), None)

    def take_in_plain(self, X: Any, frame: Frame | None) -> Chunk:
        """Return rows that need no coding as a chunk, and add their new features."""
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

    def take_in_chunk(self, chunk: Chunk) -> Chunk:
        """A canonical chunk of numbered features, which are taken in; TypeError or ValueError unless it is one."""
        found = self.read_chunk(chunk)
        if self.width is None:
            self.features = max(self.features, int(found.indices.max(initial=-1)) + 1)
        return found

    def take_in_row(self, row: Mapping[Any, Any]) -> tuple[Indices, Floats]:
        """Indices, which rise, and values of a dict, its names taken in; call it inside a transaction."""
        encoder = self.encoder if isinstance(self.encoder, Hashing) else self.vocabulary()
        found = encoder.encode_one(self.with_names(row))
        if isinstance(encoder, Vocabulary):
            self.encoder, self.features = encoder, encoder.size
        return found

    def number_dict(self, row: Any, learning: bool) -> NumberedRow | None:
        """Return a dict as a numbered row, with new names numbered if it is learned from; None if it needs `read_row`.

        Call it inside a transaction to learn from the row.
        """
        encoder = self.encoder
        if encoder is None or not isinstance(row, dict):
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

    # --- reading: nothing is remembered -------------------------------------------------------

    def read(self, X: Any) -> Chunk:
        """The rows as a chunk. Features never seen are left out, or, if they count, all number `features`."""
        if X is NOTHING:
            return X
        frame = as_frame(X)
        if frame is None or self.any_names:
            return self.read_plain(X, frame)
        if not self.codes_all_frames:
            try:
                return self.read_plain(X, frame)
            except (TypeError, ValueError):
                if self.fixed or self.columns is not None or not needs_coding(frame):
                    raise
        coding = Coding.given() if self.coding is None else self.coding
        return self.read_plain(coding.completed(frame).named_rows(frame), None)

    def read_plain(self, X: Any, frame: Frame | None) -> Chunk:
        """Return rows that need no coding as a chunk, and add no features."""
        if isinstance(self.encoder, Hashing):
            return self.hashed(X if frame is None else frame)
        if self.max_features is not None:
            chunk, names = self.chunk_and_names(X, frame)
            numbers = self.numbers(names)
            numbers[numbers < 0] = self.features
            return renumbered(chunk, numbers)
        if is_named(X) or (self.any_names and frame is not None):
            vocabulary, unseen = self.vocabulary(), self.unseen
            if frame is not None:
                return named_columns(vocabulary, frame, False, unseen)
            return self.with_numbers(X, vocabulary, False, unseen)
        return self.numbered(X, frame)[2]

    def read_chunk(self, chunk: Chunk) -> Chunk:
        """A canonical chunk of numbered features, folded if features are; TypeError or ValueError unless it is one."""
        if not isinstance(chunk, Chunk):
            raise TypeError(f"chunk must be a fiol.Chunk, got {type(chunk).__name__}: use to_chunk")
        if isinstance(self.encoder, Hashing):
            return self.encoder.fold(chunk.checked())
        if isinstance(self.encoder, Vocabulary):
            raise TypeError("this learner has named features: pass dicts")
        return chunk.checked(self.width if self.columns is None else len(self.columns))

    def read_row(self, row: Mapping[Any, Any]) -> tuple[Indices, Floats]:
        """Indices, which rise, and values of a dict, as `read` has them."""
        encoder = self.encoder if isinstance(self.encoder, Hashing) else self.vocabulary()
        return encoder.encode_one(self.with_names(row), None, False, self.unseen)

    def moments(self, X: Any) -> tuple[Floats, Floats]:
        """Mean and mean square of every feature in some rows, as `read` has them."""
        X, rows = counted(X, "a list of such dicts")
        chunk = self.read(list(X) if rows is None else X)
        known = chunk.indices < self.features
        indices, data = chunk.indices[known], chunk.data[known]
        mean, square = (np.bincount(indices, data**k, self.features) / max(chunk.rows, 1) for k in (1, 2))
        return mean, square

    @property
    def unseen(self) -> int | None:
        """The number of all features that were never seen; None if they do not count."""
        return self.features if self.counts_unseen else None

    # --- bounded memory -----------------------------------------------------------------------

    def blocks(self, X: Any, prune: Callable[[], int]) -> Iterator[tuple[int, Chunk]]:
        """Rows that fit into `max_features` beside what is held, block by block, and where each block starts.

        Before a row that does not fit, `prune` drops features by `keep` and says how many; ValueError if there are none
        to drop. The features of a block are held when it is handed out.
        """
        assert self.max_features is not None
        frame = as_frame(X)
        if frame is not None and self.codes_all_frames:
            X, frame = self.coded(frame), None
        try:
            chunk, names = self.chunk_and_names(X, frame)
        except (TypeError, ValueError):
            if frame is None or not needs_coding(frame):
                raise
            X, frame = self.coded(frame), None
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
                    f"row {start} brings more features than max_features={self.max_features} leaves room for: "
                    "all others have weights that are not 0; raise max_features or the strength of l1"
                )
            else:
                numbers, ahead, pruned = self.numbers(names), ROWS_AFTER_PRUNING, True

    def keep(self, kept: Any) -> None:
        """Hold these features only, numbered anew in this order."""
        names = self.vocabulary().names
        self.encoder, self.features = Vocabulary([names[i] for i in kept]), len(kept)

    def chunk_and_names(self, X: Any, frame: Frame | None) -> tuple[Chunk, list[str | int]]:
        """Rows with features numbered for these rows only, in the order of their names; and these names."""
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
        """The features of these names, -1 for those not held."""
        vocabulary = self.vocabulary()
        return np.array([vocabulary.number(name) if vocabulary.knows(name) else -1 for name in names], np.int64)

    # --- columns that are more than numbers ---------------------------------------------------

    @property
    def fixed(self) -> bool:
        """Whether features are so many numbers, whatever comes."""
        return self.width is not None and self.bits is None

    @property
    def codes_all_frames(self) -> bool:
        """Whether all frames go by a coding: there is one, or features have got names from dicts."""
        named = isinstance(self.encoder, Vocabulary) and self.max_features is None
        return self.coding is not None or (named and self.features > 0)

    def coded(self, frame: Frame) -> NamedRows:
        """The rows of a frame by the coding, which is made, or completed, if need be; call it inside a transaction."""
        if self.coding is None and self.encoder is None and self.features:
            self.name_columns(frame)
        coding = Coding.given() if self.coding is None else self.coding
        self.coding = coding.completed(frame)
        return self.coding.named_rows(frame)

    def name_columns(self, frame: Frame) -> None:
        """Let features that were columns of numbers go on as names, and their columns have a coding as numbers."""
        names = self.columns
        if names is None and self.dense_columns == self.features == frame.shape[1]:
            names = frame.names
        if names is None:
            self.vocabulary()  # says why not
            return
        self.coding = Coding(tuple(Column(name, "number") for name in names))
        self.encoder, self.columns, self.dense_columns = Vocabulary(names), None, None

    def share_features(self, other: Intake) -> None:
        """Know the features that another intake knows, by copies of its names."""
        labels = self.labels
        self.restore(other.header())
        self.labels = labels

    # --- parts --------------------------------------------------------------------------------

    def vocabulary(self) -> Vocabulary:
        """The names of the features, none yet if there may still be some; TypeError if they are numbers."""
        if isinstance(self.encoder, Vocabulary):
            return self.encoder
        if self.columns is not None:
            raise TypeError("this learner has columns: pass frames or arrays, or bits=... to a new learner")
        if self.features:
            raise TypeError("this learner has numbered features: pass arrays, or bits=... to a new learner")
        return Vocabulary()

    def numbered(self, X: Any, frame: Frame | None) -> tuple[Any, tuple[str, ...] | None, Chunk]:
        """Rows whose features are numbers or columns: as a frame if they are one, its names, and the chunk."""
        if isinstance(self.encoder, Vocabulary):
            raise TypeError("this learner has named features: pass dicts, or frames with names of columns")
        names, held = (None, X) if frame is None else (frame.names, frame)
        chunk = to_chunk(held, columns=self.columns or names, n_features=self.width)
        self.check_width(X, frame)
        return held, names, chunk

    def check_width(self, X: Any, frame: Frame | None) -> None:
        """ValueError if rows of an array, which has all columns of its table, are others than those learned from."""
        width = dense_width(X, frame)
        if width is not None and self.dense_columns not in (None, width):
            raise ValueError(f"X has {width} columns, but the rows learned from have {self.dense_columns}")

    def remember_width(self, X: Any, frame: Frame | None) -> None:
        """Expect as many columns of later arrays as these rows have, if they are of an array."""
        width = dense_width(X, frame)
        if width and self.dense_columns is None:
            self.dense_columns = width

    def hashed(self, X: Any) -> Chunk:
        """Rows whose features, named or numbered, are folded; the columns of a frame are names."""
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
        """Dicts, or rows with names of a reader, with the numbers that an encoder has for their names."""
        if isinstance(X, NamedRows):
            return X.encoded(encoder, grow, unseen)
        return encoder.encode(self.named(X), grow, unseen)

    def with_names(self, row: Any) -> Any:
        """A row whose keys are names."""
        if self.any_names and isinstance(row, Mapping) and not NAME_TYPES.issuperset(map(type, row)):
            return {name_of(key): value for key, value in row.items()}
        return row

    def named(self, rows: Iterable[Any]) -> Iterable[Any]:
        """Rows whose keys are names."""
        return map(self.with_names, rows) if self.any_names else rows


def named_columns(encoder: Vocabulary | Hashing, frame: Frame, grow: bool = True, unseen: int | None = None) -> Chunk:
    """The rows of a frame, to the bit as `encoder.encode` has them as dicts."""
    names = [name_of(label) for label in frame.column_labels]
    try:
        chunk = to_chunk(frame)
    except TypeError:  # texts, perhaps
        return encoder.encode((dict(zip(names, row, strict=True)) for row in frame.rows()), grow, unseen)
    seen, first = np.unique(chunk.indices, return_index=True)
    numbers = np.full(len(names), -1 if unseen is None else unseen, np.int64)
    for i in seen[np.argsort(first)]:  # new names are numbered as they appear
        if grow or encoder.knows(names[i]):
            numbers[i] = encoder.number(names[i])
    return renumbered(chunk, numbers)


def name_of(key: Any) -> str | int:
    """The name of a feature: River allows any hashable, such as the pairs of words of a `BagOfWords`.

    >>> name_of("age"), name_of(7), name_of(("new", "york"))
    ('age', 7, "('new', 'york')")
    """
    return key if isinstance(key, (str, Integral)) and not isinstance(key, bool) else repr(key)  # type: ignore[return-value]


def dense_width(X: Any, frame: Frame | None) -> int | None:
    """How many columns the rows of an array, or of a frame without names, have; None for all other rows."""
    if frame is not None:
        return frame.shape[1] if frame.names is None and len(frame) else None
    if isinstance(X, (Chunk, NamedRows)) or hasattr(X, "tocsr") or not hasattr(X, "shape") or not X.shape[0]:
        return None
    return int(X.shape[1])


# --- rows as they come ------------------------------------------------------------------------


def counted(X: Any, of_one: str = "learn_named") -> tuple[Any, int | None]:
    """X and its number of rows, None for a generator; nested lists become a matrix.

    `of_one` is what takes a single dict, for an error message.
    """
    X = converted(X)
    if isinstance(X, Mapping) and not hasattr(X, "tocsr"):  # scipy's dok_matrix is a dict as well
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
    """Whether the features of the rows have names that are no columns: dicts, and rows of a reader."""
    return isinstance(X, NamedRows) or is_dicts(X)


def is_dicts(X: Any) -> bool:
    """Whether the rows are dicts."""
    return isinstance(X, (list, tuple)) and not isinstance(X, Chunk) and len(X) > 0 and isinstance(X[0], Mapping)


def one_row(indices: Any, values: Any) -> Chunk:
    """One row given by indices and values, in whatever state."""
    index, data = np.asarray(indices), np.asarray(values)
    if index.size == 0:
        index = index.astype(np.int32)
    if index.ndim != 1 or index.shape != data.shape:
        raise ValueError(f"indices and values must have one length, got shapes {index.shape} and {data.shape}")
    return Chunk(np.array([0, index.shape[0]]), index, data)
