r"""File format of models: a JSON header and named arrays with a checksum; nothing in a file is ever executed.

Formats 1 and 2. Integers are unsigned and little-endian; all bytes not listed are padding and 0.

| at byte | size | what |
|---|---|---|
| 0 | 8 | the magic bytes 89 66 69 6F 6C 0D 0A 1A: \x89, "fiol", \r, \n, \x1A |
| 8 | 4 | the format, 1 or 2 |
| 12 | 8 | the size of the file, S |
| 20 | 8 | the size of the header, H |
| 28 | H | the header: one JSON object in UTF-8, without NaN and Infinity |
| D | | the arrays, where D is 28 + H rounded up to a multiple of 64 |
| S - 32 | 32 | the SHA-256 of all bytes before it |

The header is `{"header": {...}, "arrays": [...]}`: the caller's header, and for each array, in the order
of their bytes, `{"name", "dtype", "shape", "offset", "length"}`.

- `name`: any text, no two the same.
- `dtype`: `|b1` (a byte, 0 for false), `|i1 <i2 <i4 <i8`, `|u1 <u2 <u4 <u8` (integers, two's complement),
  `<f2 <f4 <f8` (IEEE 754). The digit is the size in bytes, `<` means little-endian.
- `shape`: at most 32 extents; `[]` is a single entry. Entries are in C order, the last index running fastest.
- `length`: the size in bytes, which is that of an entry times all extents.
- `offset`: the array begins at byte D + offset. The first has 0, the next the end of the one before it rounded
  up to a multiple of 64. The checksum follows the last array, or D, without padding.

Format 2 stores nothing twice. A file has this format only if an array differs from format 1 in one of these:

- An array with the bytes of an earlier one, of the same dtype and shape, has the `offset` and `length` of that one, and
  takes no bytes of its own.
- An array of at least two entries along its first axis that are all the same has the `length` of a single one.

`fiol.persistence.model` describes the header and arrays of a model. A change that an older version would misread raises
the format, and every version reads all formats from 1 to its own.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple, NoReturn

import numpy as np

from fiol.persistence.atomic_file import atomic_file
from fiol.persistence.memory import check_memory

Array = np.ndarray[Any, np.dtype[Any]]

MAGIC = b"\x89fiol\r\n\x1a"
#: The formats of files in which every array is stored as it is, and of others: the newest one.
PLAIN_FORMAT, FORMAT = 1, 2
PREFIX = struct.Struct("<8sIQQ")
CHECKSUM = hashlib.sha256
CHECKSUM_SIZE = 32
ALIGNMENT = 64
MAX_NDIM = 32
DTYPES = ("|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8")
#: Bytes of a piece in memory, besides the arrays.
CHUNK = 1 << 20


class ModelFileError(ValueError):
    """A file that `read` refuses; the message gives the file and the reason."""


class Selected(NamedTuple):
    """Some entries of an array along its first axis, gathered in pieces while they are written."""

    array: Array
    chosen: Array  #: their indices

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of an entry."""
        return self.array.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the selection."""
        return (self.chosen.shape[0], *self.array.shape[1:])

    @property
    def nbytes(self) -> int:
        """The size of the selection in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


def write(path: str | os.PathLike[str], header: dict[str, Any], arrays: Mapping[str, Array | Selected]) -> None:
    """Write a file atomically: `path` holds the old content or the new, complete.

    The header must consist of plain JSON values, the arrays of booleans, integers or floats of at most 64 bits. `read`
    returns `Selected` entries as a plain array. An existing file keeps its permissions; of a symbolic link the target
    is replaced. A killed process can leave a file `.fiol-*.tmp`, which the next write into that folder deletes (where
    files can be locked; elsewhere delete it yourself).

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.fiol")
    >>> write(path, {"rounds": 7}, {"w": np.array([0.5, -1.0])})
    >>> read(path)
    ({'rounds': 7}, {'w': array([ 0.5, -1. ])})
    """
    entries, version = layout(arrays)
    text = f'{{"header":{plain_text("a header", header)},"arrays":{plain_text("arrays", entries, list)}}}'
    with atomic_file(path) as file:
        pour(file, version, text.encode("ascii"), entries, arrays)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the header and the arrays of a file, the arrays writable and in the byte order of the machine.

    Raises ModelFileError if the file is incomplete, damaged or invalid, or if its arrays need more memory than is free.
    Memory for an array is allocated after the file is known to hold it.
    """
    with open(path, "rb") as file:
        try:
            entries, header, start = read_header(file)
            arrays = {entry["name"]: read_array(file, entry, start) for entry in entries}
        except ModelFileError as error:
            raise ModelFileError(f"{os.fspath(path)}: {error}") from error.__cause__
    return header, arrays


# --- writing ----------------------------------------------------------------------------------


def plain_text(name: str, value: Any, kind: type = dict) -> str:
    """Return a dict as JSON; raise TypeError or ValueError if the text would not give it back unchanged.

    >>> plain_text("meta", {"shape": [2, 3]})
    '{"shape":[2,3]}'
    >>> plain_text("meta", {"shape": (2, 3)})
    Traceback (most recent call last):
    TypeError: meta must be a dict of plain JSON values: names are str, lists are no tuples
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    if not isinstance(value, kind) or json.loads(text) != value:
        raise TypeError(f"{name} must be a {kind.__name__} of plain JSON values: names are str, lists are no tuples")
    return text


def layout(arrays: Mapping[str, Array | Selected]) -> tuple[list[dict[str, Any]], int]:
    """Return the entry of each array in the header, and the format; TypeError or ValueError if one cannot be written.

    >>> layout({"n": np.arange(3, dtype=np.int16), "w": np.zeros((2, 2))})[0][1]
    {'name': 'w', 'dtype': '<f8', 'shape': [2, 2], 'offset': 64, 'length': 32}
    >>> entries, version = layout({"w": np.arange(9.0), "v": np.arange(9.0), "zeros": np.zeros(1000)})
    >>> [(entry["offset"], entry["length"]) for entry in entries], version
    ([(0, 72), (0, 72), (128, 8)], 2)
    """
    entries, end, version = list[dict[str, Any]](), 0, PLAIN_FORMAT
    alike: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for name, array in arrays.items():
        if not isinstance(name, str):
            raise TypeError(f"the name of an array must be a str, got {name!r}")
        source = array.array if isinstance(array, Selected) else array
        if type(source) not in (np.ndarray, np.memmap):  # subclasses may have a mask
            raise TypeError(f"{name!r} must be a plain array, got {type(source).__name__}")
        dtype = array.dtype.newbyteorder("<").str
        if dtype not in DTYPES:
            raise TypeError(f"{name!r} must hold booleans, integers or floats of at most 64 bits, got {array.dtype}")
        if source.ndim > MAX_NDIM:
            raise ValueError(f"{name!r} must have at most {MAX_NDIM} dimensions, got {source.ndim}")
        shape, length = list(array.shape), array.nbytes
        entry: dict[str, Any] = {"name": name, "dtype": dtype, "shape": shape}
        entry |= {"offset": aligned_offset(end), "length": length}
        entries.append(entry)
        if length > ALIGNMENT:  # smaller ones would save nothing
            if repeats_one_entry(array):
                entry["length"] = length // shape[0]
            others = alike.setdefault((dtype, *shape, entry["length"]), [])
            twin = next((other for other in others if have_same_bytes(arrays[other["name"]], array)), None)
            if twin is not None:
                entry["offset"] = twin["offset"]
            else:
                others.append(entry)
            if twin is not None or entry["length"] < length:
                version = FORMAT
        end = max(end, entry["offset"] + entry["length"])
    return entries, version


def repeats_one_entry(array: Array | Selected) -> bool:
    """Return whether all entries along the first axis, of which there are two or more, have the same bytes.

    >>> repeats_one_entry(np.zeros((3, 2))), repeats_one_entry(np.array([0.0, -0.0])), repeats_one_entry(np.zeros(1))
    (True, False, False)
    """
    if array.shape[:1] < (2,):
        return False
    first = next(array_pieces(array))[1][:1]
    return all((entry_bytes(piece) == entry_bytes(first)).all() for _, piece in array_pieces(array))


def have_same_bytes(a: Array | Selected, b: Array | Selected) -> bool:
    """Return whether two arrays of the same shape have the same bytes in a file."""
    pieces = zip(array_pieces(a), array_pieces(b), strict=True)
    return all((entry_bytes(one) == entry_bytes(other)).all() for (_, one), (_, other) in pieces)


def entry_bytes(piece: Array) -> Array:
    """Return the bytes in a file of every entry along the first axis."""
    plain = np.ascontiguousarray(piece, piece.dtype.newbyteorder("<"))
    return plain.reshape(len(piece), -1).view(np.uint8)


def pour(
    file: BinaryIO, version: int, header: bytes, entries: list[dict[str, Any]], arrays: Mapping[str, Array | Selected]
) -> None:
    """Write header, arrays and checksum in one pass."""
    checksum, position = CHECKSUM(), 0

    def emit(data: Any) -> None:
        nonlocal position
        checksum.update(data)
        file.write(data)
        position += len(data)

    start = aligned_offset(PREFIX.size + len(header))
    end = start + max((entry["offset"] + entry["length"] for entry in entries), default=0)
    emit(PREFIX.pack(MAGIC, version, end + CHECKSUM_SIZE, len(header)))
    emit(header)
    emit(bytes(start - position))
    for entry in entries:
        array = arrays[entry["name"]]
        if start + entry["offset"] < position:  # stored already
            continue
        emit(bytes(start + entry["offset"] - position))
        if entry["length"] < array.nbytes:
            array = next(array_pieces(array))[1][:1]
        for chunk in chunks(array, np.dtype(entry["dtype"])):
            emit(chunk)
    file.write(checksum.digest())


def chunks(array: Array | Selected, dtype: np.dtype[Any]) -> Iterator[Array]:
    """Yield the bytes of `array` as `dtype` in C order, in pieces."""
    if isinstance(array, Selected):
        for _, piece in array_pieces(array):
            yield from chunks(piece, dtype)
        return
    entries: Any = array.reshape(-1) if array.flags.c_contiguous else array.flat
    size = CHUNK // dtype.itemsize
    for first in range(0, array.size, size):
        yield entries[first : first + size].astype(dtype, copy=False).view(np.uint8)


def array_pieces(array: Array | Selected) -> Iterator[tuple[int, Array]]:
    """Yield an array in pieces of about a megabyte along its first axis, each with the index of its first entry."""
    if not array.shape:
        yield 0, array  # type: ignore[misc]
        return
    few = max(1, CHUNK // max(1, array.nbytes // max(1, array.shape[0])))
    for first in range(0, array.shape[0], few):
        part = slice(first, first + few)
        yield first, array.array[array.chosen[part]] if isinstance(array, Selected) else array[part]


def aligned_offset(offset: int) -> int:
    """Return the next offset at which an array may begin."""
    return -(-offset // ALIGNMENT) * ALIGNMENT


# --- reading ----------------------------------------------------------------------------------


def read_header(file: BinaryIO) -> tuple[list[dict[str, Any]], dict[str, Any], int]:
    """Return the checked entries of the arrays, the caller's header, and the start of the arrays."""
    size, prefix = os.fstat(file.fileno()).st_size, file.read(PREFIX.size)
    if not prefix.startswith(MAGIC[: len(prefix)]):
        refuse_file("not a fiol model file")
    if len(prefix) < PREFIX.size:
        refuse_file(f"truncated: expected at least {PREFIX.size + CHECKSUM_SIZE} bytes, found {size}")
    _, version, promised, length = PREFIX.unpack(prefix)
    if version > FORMAT:
        refuse_file(f"written by a newer fiol (format {version}); this one reads format {FORMAT}")
    if version < 1:
        refuse_file(f"not a fiol model file: there is no format {version}")
    if size != promised:
        refuse_file(f"{'truncated' if size < promised else 'too long'}: expected {promised} bytes, found {size}")
    start = aligned_offset(PREFIX.size + length)
    if start + CHECKSUM_SIZE > size:
        refuse_file(f"nonsense in the header: its size is given as {length} bytes")
    check_checksum(file, size)
    file.seek(PREFIX.size)
    entries, header = parse(file.read(length))
    end = check_entries(entries, version)
    if start + end + CHECKSUM_SIZE != size:
        refuse_file(f"nonsense in the header: the arrays take {end} bytes, the file has {size - CHECKSUM_SIZE - start}")
    return entries, header, start


def check_checksum(file: BinaryIO, size: int) -> None:
    """Raise ModelFileError unless the file ends with the checksum of its bytes."""
    file.seek(0)
    checksum, left = CHECKSUM(), size - CHECKSUM_SIZE
    while left > 0:
        data = file.read(min(left, CHUNK))
        if not data:
            refuse_file(f"truncated: expected {size} bytes, found {size - CHECKSUM_SIZE - left}")
        checksum.update(data)
        left -= len(data)
    if file.read(CHECKSUM_SIZE) != checksum.digest():
        refuse_file("damaged: its checksum does not match")


def parse(text: bytes) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the two parts of the header."""
    try:
        value = json.loads(text.decode("utf-8"), parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        refuse_file(f"nonsense in the header: {error}", error)
    if not isinstance(value, dict) or value.keys() != {"header", "arrays"}:
        refuse_file('nonsense in the header: it is not {"header": ..., "arrays": ...}')
    if not isinstance(value["header"], dict) or not isinstance(value["arrays"], list):
        refuse_file('nonsense in the header: "header" is no object or "arrays" is no list')
    return value["arrays"], value["header"]


def check_entries(entries: list[Any], version: int) -> int:
    """Raise ModelFileError unless the entries describe arrays as the format says; return the end of the last one."""
    end, names, shared, whole = 0, set[str](), set[tuple[Any, ...]](), 0
    for k, entry in enumerate(entries):
        where = f"nonsense in the header: arrays[{k}]"
        if not isinstance(entry, dict) or entry.keys() != {"name", "dtype", "shape", "offset", "length"}:
            refuse_file(f"{where} is not name, dtype, shape, offset and length")
        name, dtype, shape, offset, length = (entry[key] for key in ("name", "dtype", "shape", "offset", "length"))
        if not isinstance(name, str) or name in names:
            refuse_file(f"{where} has no name of its own")
        names.add(name)
        if not isinstance(dtype, str) or dtype not in DTYPES:
            refuse_file(f"{where} has a dtype other than {' '.join(DTYPES)}")
        if not isinstance(shape, list) or len(shape) > MAX_NDIM or not all(map(is_size, shape)):
            refuse_file(f"{where} has an impossible shape")
        size = np.dtype(dtype).itemsize * math.prod(shape)
        repeated = version > PLAIN_FORMAT and shape[:1] > [1] and length == size // shape[0]
        if not is_size(length) or not (length == size or repeated):
            refuse_file(f"{where} has a length that is not that of its shape")
        key = (dtype, *shape, offset, length)
        if not is_size(offset) or not (offset == aligned_offset(end) or (version > PLAIN_FORMAT and key in shared)):
            refuse_file(f"{where} does not follow the array before it")
        shared.add(key)
        end, whole = max(end, offset + length), whole + size
    if whole > end:  # more than the file holds
        try:
            check_memory(whole, f"a file of {len(entries)} arrays")
        except ValueError as error:
            refuse_file(str(error), error)
    return end


def read_array(file: BinaryIO, entry: dict[str, Any], start: int) -> Array:
    """Return the array of a checked entry."""
    dtype = np.dtype(entry["dtype"])
    try:
        array = np.empty(entry["shape"], np.uint8 if dtype.kind == "b" else dtype)
    except (ValueError, OverflowError) as error:  # an empty array with a huge extent
        refuse_file(f"nonsense in the header: {entry['name']!r} cannot have its shape: {error}", error)
    file.seek(start + entry["offset"])
    stored = array if array.nbytes == entry["length"] else array[:1]
    if file.readinto(stored.reshape(-1).view(np.uint8)) != entry["length"]:  # type: ignore[attr-defined]
        refuse_file("truncated while it was read")
    if stored is not array:
        array[1:] = stored
    if dtype.kind == "b":
        return np.minimum(array, np.uint8(1), out=array).view(np.bool_)  # numpy's booleans must be 0 or 1
    return array.astype(dtype.newbyteorder("="), copy=False)


def is_size(value: Any) -> bool:
    """Return whether a JSON value is a number of entries or bytes."""
    return type(value) is int and 0 <= value < 2**63


def refuse_constant(name: str) -> NoReturn:
    """Raise ValueError for NaN and infinities, which Python's parser accepts."""
    raise ValueError(f"{name} is not JSON")


def refuse_file(reason: str, cause: BaseException | None = None) -> NoReturn:
    """Raise ModelFileError."""
    raise ModelFileError(reason) from cause
