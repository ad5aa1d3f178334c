"""`Chunk`: rows as CSR with ascending indices, without zeros and with values that cannot overflow a step.

Every container becomes a chunk (`fiol.features.containers`); learners learn from chunks only.
"""

from __future__ import annotations

import functools
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn

import numpy as np

from fiol.components.row import Floats, Indices

Pointers = np.ndarray[Any, np.dtype[np.int64]]
Names = tuple[str, ...]

#: Range of values other than 0: products of two of them do not overflow.
SMALLEST, LARGEST = 1e-100, 1e100
#: One more than the largest index.
MOST_FEATURES = 2**31 - 1
#: The largest sample weight.
HEAVIEST = 1e30
#: Entries per call of compiled code.
AT_ONCE = 2**20
#: First bytes of a stored chunk; checksum, number of rows and number of entries follow.
CHUNK_MAGIC = b"FIOLROWS"
HEADER = struct.Struct("<8sQQQ")


class Chunk(NamedTuple):
    """Rows as canonical CSR: indices ascend within a row and no value is 0. Arrays are contiguous and writeable.

    >>> from fiol import to_chunk
    >>> chunk = to_chunk([[0.0, 2.0, 3.0], [0.0, 0.0, 0.0], [4.0, 0.0, 0.0]])
    >>> chunk.rows, chunk.indptr, chunk.indices, chunk.data
    (3, array([0, 2, 2, 3]), array([1, 2, 0], dtype=int32), array([2., 3., 4.]))
    """

    indptr: Pointers  #: start of each row, and the end of the last one
    indices: Indices  #: the feature of each entry
    data: Floats  #: the value of each entry

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.indptr.shape[0] - 1

    def row_block(self, start: int, stop: int) -> Chunk:
        """Return rows `start` to `stop`, as a slice; the entries are shared.

        >>> from fiol import to_chunk
        >>> to_chunk([[0.0, 2.0], [3.0, 0.0]]).row_block(1, 2)
        Chunk(indptr=array([0, 1]), indices=array([0], dtype=int32), data=array([3.]))
        """
        start, stop, _ = slice(start, stop).indices(self.rows)
        indptr = self.indptr[start : max(start, stop) + 1]
        entries = slice(indptr[0], indptr[-1])
        return Chunk(indptr - indptr[0], self.indices[entries], self.data[entries])

    def take(self, order: Any, buffers: Chunk | None = None) -> Chunk:
        """Return copies of these rows, in this order, written into the arrays of `buffers` if these are long enough.

        >>> from fiol import to_chunk
        >>> to_chunk([[0.0, 2.0], [3.0, 0.0]]).take([1, 0, 1]).data
        array([3., 2., 3.])
        """
        order = kernel_array(order, np.int64)
        indptr = np.zeros(order.shape[0] + 1, np.int64)
        np.cumsum((self.indptr[1:] - self.indptr[:-1])[order], out=indptr[1:])
        entries = int(indptr[-1])
        if buffers is None or buffers.data.shape[0] < entries:
            buffers = Chunk(indptr, np.empty(entries, np.int32), np.empty(entries))
        new = Chunk(indptr, buffers.indices[:entries], buffers.data[:entries])
        loops().take(*self, order, *new)
        return new

    def to_bytes(self) -> bytes:
        """Return the chunk as bytes for another process or machine; see `from_bytes`.

        Little-endian, without gaps: the 8 bytes FIOLROWS; the CRC-32 of the rest, the number of rows and the number of
        entries, 8 bytes each; then indptr (rows + 1 times 8 bytes, signed), data (8 bytes each, IEEE double) and
        indices (4 bytes each, signed).

        >>> from fiol import Chunk, to_chunk
        >>> data = to_chunk([[0.0, 2.0], [3.0, 0.0]]).to_bytes()
        >>> len(data) == 8 + 3 * 8 + 3 * 8 + 2 * 8 + 2 * 4, data[:8]
        (True, b'FIOLROWS')
        >>> Chunk.from_bytes(data).indices
        array([1, 0], dtype=int32)
        """
        arrays = [np.ascontiguousarray(a, t).tobytes() for a, t in zip(self, self.layout(), strict=True)]
        body = b"".join([struct.pack("<QQ", self.rows, self.data.shape[0]), arrays[0], arrays[2], arrays[1]])
        return b"".join([CHUNK_MAGIC, struct.pack("<Q", zlib.crc32(body)), body])

    @classmethod
    def from_bytes(cls, data: Any) -> Chunk:
        """Return the chunk in these bytes; raise ValueError if they are damaged or not canonical.

        Arrays share the memory of a writeable buffer, such as a bytearray; `bytes` are copied.

        >>> from fiol import Chunk, to_chunk
        >>> Chunk.from_bytes(to_chunk([[1.0]]).to_bytes()[:-1])
        Traceback (most recent call last):
        ValueError: the bytes of a chunk of 1 rows and 1 entries are 60, got 59
        """
        view = memoryview(data).cast("B")
        if len(view) < HEADER.size or bytes(view[: len(CHUNK_MAGIC)]) != CHUNK_MAGIC:
            raise ValueError(f"these are not the bytes of a chunk: they do not begin with {CHUNK_MAGIC.decode()}")
        _, checksum, rows, entries = HEADER.unpack_from(view)
        wanted = HEADER.size + 8 * (rows + 1) + 12 * entries
        if len(view) != wanted:
            raise ValueError(f"the bytes of a chunk of {rows} rows and {entries} entries are {wanted}, got {len(view)}")
        if zlib.crc32(view[16:]) != checksum:
            raise ValueError("the bytes of a chunk are damaged: the checksum does not match")
        middle = HEADER.size + 8 * (rows + 1)
        places = (HEADER.size, rows + 1), (middle + 8 * entries, entries), (middle, entries)
        types = zip(cls.layout(), (np.int64, np.int32, np.float64), places, strict=True)
        own = (kernel_array(np.frombuffer(view, t, n, start), kind) for t, kind, (start, n) in types)
        chunk = cls(*own)
        if canonical(chunk.checked(), spot) is not chunk:
            raise ValueError("the bytes of a chunk are not canonical: indices must rise within a row, without zeros")
        return chunk

    @staticmethod
    def layout() -> tuple[str, str, str]:
        """Return the types of the arrays in bytes."""
        return "<i8", "<i4", "<f8"

    def checked(self, n_features: int | None = None) -> Chunk:
        """Return this chunk if kernels can read it safely; raise TypeError or ValueError otherwise.

        Order and range of the entries are not checked: `to_chunk`, `from_bytes` and `FeatureSpace` guarantee them.
        """
        for name, array, dtype in zip(self._fields, self, (np.int64, np.int32, np.float64), strict=True):
            if type(array) is not np.ndarray or array.dtype != dtype or array.ndim != 1 or not array.flags.carray:
                raise TypeError(f"{name} of a canonical chunk is a plain array of {np.dtype(dtype).name}: use to_chunk")
        entries = self.indices.shape[0]
        check_indptr(self.indptr, self.rows, entries)
        if self.data.shape[0] != entries or self.indptr[-1] != entries:
            raise ValueError(
                f"a canonical chunk has as many indices as values, and none to spare: use to_chunk; got {entries} "
                f"indices, {self.data.shape[0]} values and {self.indptr[-1]} entries in all rows"
            )
        check_indices(self.indptr, self.indices, MOST_FEATURES if n_features is None else n_features)
        return self


@functools.cache
def loops() -> Any:
    """Return the module of compiled loops."""
    from fiol.features import canonicalize  # imported here: `import fiol` loads no compiler

    return canonicalize


def kernel_array(array: Any, dtype: Any) -> Any:
    """Return an array, or a copy, of the one array type that kernels are compiled for."""
    new = np.asarray(array, dtype, order="C")
    return new if new.flags.carray else new.copy()


# --- the canonical form ------------------------------------------------------------------------


def from_csr(X: Chunk, rows: int, width: int, names: Names | None, n_features: int | None) -> Chunk:
    """Return the arrays of any CSR matrix as a chunk."""
    check_indptr(X.indptr, rows, min(X.indices.shape[0], X.data.shape[0]))
    indptr = kernel_array(X.indptr, np.int64)
    indices, data = X.indices[: indptr[-1]], X.data[: indptr[-1]]
    if data.dtype.kind not in "biuf":
        raise TypeError(f"X must hold numbers, got {data.dtype}")
    check_indices(indptr, indices, min(width, MOST_FEATURES if n_features is None else n_features, MOST_FEATURES))
    chunk = Chunk(indptr, kernel_array(indices, np.int32), kernel_array(data, np.float64))
    return canonical(chunk, functools.partial(spot, names=names))


def canonical(chunk: Chunk, where: Callable[[int, int], str]) -> Chunk:
    """Return the chunk if it is canonical, else a copy with rows sorted, duplicates added up and zeros removed.

    `where(row, index)` names an entry in error messages.
    """
    indptr, indices, data = chunk
    if data.shape[0] <= AT_ONCE:  # usually
        falls, zeros, wrong = loops().flaws(*chunk, SMALLEST, LARGEST)
    else:
        found = [loops().flaws(*piece, SMALLEST, LARGEST) for piece in pieces(chunk)]
        falls, zeros, wrong = map(sum, zip(*found, strict=True))
    if wrong:
        k = first_wrong(data)
        refuse_value(where(row_of(indptr, k), int(indices[k])), float(data[k]))
    if not (falls or zeros):
        return chunk
    new = arranged_rows(chunk)
    return canonical(new, where) if falls else new  # sums may leave the range


def arranged_rows(chunk: Chunk) -> Chunk:
    """Return a copy with every row sorted by index, duplicates added up and zeros removed.

    >>> arranged_rows(Chunk(np.array([0, 1, 4]), np.array([5, 2, 1, 2], np.int32), np.array([1.0, 2.0, 3.0, 4.0])))
    Chunk(indptr=array([0, 1, 3]), indices=array([5, 1, 2], dtype=int32), data=array([1., 3., 6.]))
    """
    new = Chunk(*map(np.empty_like, chunk))
    new.indptr[0] = left = row = 0
    for some in pieces(chunk):
        starts = np.empty(some.rows + 1, np.int64)
        kept = loops().arrange_rows(*some, starts, new.indices[left:], new.data[left:])
        new.indptr[row + 1 : row + 1 + some.rows] = left + starts[1:]
        left, row = left + kept, row + some.rows
    return Chunk(new.indptr, new.indices[:left], new.data[:left])


def pieces(chunk: Chunk) -> Iterator[Chunk]:
    """Yield the rows in pieces, so that interrupts are handled between them.

    >>> rows = Chunk(np.array([0, 1, 3]), np.array([5, 2, 1], np.int32), np.array([1.0, 2.0, 3.0]))
    >>> [piece.rows for piece in pieces(rows)]
    [2]
    """
    start, indptr = 0, chunk.indptr
    if indptr[-1] <= AT_ONCE:
        yield chunk
        return
    while start < chunk.rows:
        stop = max(start + 1, int(np.searchsorted(indptr, indptr[start] + AT_ONCE, side="right")) - 1)
        yield chunk.row_block(start, stop)
        start = stop


def row_of(indptr: Pointers, k: int) -> int:
    """Return the row of entry `k`."""
    return int(np.searchsorted(indptr, k, side="right")) - 1


def first_wrong(values: Floats) -> int:
    """Return the index of the first value that is neither 0 nor in range."""
    return int(np.argmin(allowed(values)))


def allowed(values: Floats) -> Any:
    """Return a mask of the values that are 0 or in range."""
    size = np.abs(values)
    return (values == 0.0) | ((size >= SMALLEST) & (size <= LARGEST))


# --- errors -----------------------------------------------------------------------------------


def spot(row: int, column: int, names: Names | None = None) -> str:
    """Return the name of an entry of X for error messages, with the name of its column if it has one."""
    return f"X[{row}, {column_label(column, names)}]"


def column_label(column: int, names: Names | None) -> str:
    """Return the name of a column, or its number."""
    return repr(names[column]) if names is not None and 0 <= column < len(names) else str(column)


def check_indptr(indptr: Any, rows: int, entries: int) -> None:
    """Raise ValueError unless `indptr` cuts `entries` into rows (scipy allows some to be left over)."""
    if indptr.ndim != 1 or indptr.dtype.kind not in "iu":
        raise TypeError(f"X.indptr must be one-dimensional integers, got {indptr.dtype} of shape {indptr.shape}")
    if indptr.shape[0] != rows + 1:
        raise ValueError(f"X.indptr must have one entry more than there are rows: {rows + 1}, got {indptr.shape[0]}")
    if indptr[0] != 0:
        raise ValueError(f"X.indptr must start at 0, got {indptr[0]}")
    falls = indptr[1:] < indptr[:-1]
    if np.count_nonzero(falls):
        k = int(falls.argmax()) + 1
        raise ValueError(f"X.indptr must not decrease, got {indptr[k]} after {indptr[k - 1]} at row {k - 1}")
    if indptr[-1] > entries:
        raise ValueError(f"X.indptr must end at the number of entries: {entries}, got {indptr[-1]}")


class FeatureCountError(ValueError):
    """Rows with more features than there are, or with another number of columns."""


def check_indices(indptr: Pointers, indices: Any, limit: int) -> None:
    """Raise ValueError unless every index is from 0 to `limit` - 1."""
    if indices.dtype.kind == "O" and any(isinstance(v, int) and abs(v) >= 2**63 for v in indices.flat):
        raise ValueError(f"X.indices must be from 0 to {MOST_FEATURES - 1}, got an integer of more than 64 bits")
    if indices.ndim != 1 or indices.dtype.kind not in "iu":
        raise TypeError(f"X.indices must be one-dimensional integers, got {indices.dtype} of shape {indices.shape}")
    if not indices.size or (indices.min() >= 0 and indices.max() < limit):
        return
    k = int(np.argmax((indices < 0) | (indices >= limit)))
    index = int(indices[k])
    where = f"X[{row_of(indptr, k)}, {index}] is no entry"
    if index < 0:
        raise ValueError(f"{where}: an index is at least 0")
    if index >= MOST_FEATURES:
        raise ValueError(f"{where}: index overflow, the largest is {MOST_FEATURES - 1}")
    raise FeatureCountError(f"{where}: there are {limit} features")


def refuse_value(where: str, value: float) -> NoReturn:
    """Raise the ValueError of a value that is out of range."""
    raise ValueError(f"{where} {range_reason(value)}")


def range_reason(value: float) -> str:
    """Return why a value that is not allowed is refused, for an error message."""
    wanted = f"0 or between {SMALLEST:g} and {LARGEST:g} in size" if np.isfinite(value) else "finite"
    return f"must be {wanted}, got {value:g}"
