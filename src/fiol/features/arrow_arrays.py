"""Arrow arrays as numpy arrays, by their buffers.

pyarrow's own `to_numpy` imports pandas, which takes longer than all else that a small file needs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

#: Types of numpy by the names of Arrow's types with values of a fixed width.
NUMPY_TYPES = {
    **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "bool": "bool",
    "halffloat": "float16",
    "float": "float32",
    "double": "float64",
}


def arrow_whole(array: Any) -> Any:
    """Return an Arrow array in one piece, without a dictionary."""
    import pyarrow

    whole = array.combine_chunks() if isinstance(array, pyarrow.ChunkedArray) else array
    if isinstance(whole, pyarrow.ChunkedArray):  # older versions
        whole = whole.chunk(0) if whole.num_chunks == 1 else pyarrow.concat_arrays(whole.chunks)
    return whole.dictionary_decode() if pyarrow.types.is_dictionary(whole.type) else whole


def null_mask(array: Any) -> Any:
    """Return which values of an Arrow array are null, None if none are.

    >>> import pyarrow
    >>> null_mask(pyarrow.array(["a", None])), null_mask(pyarrow.array([1]))
    (array([False,  True]), None)
    """
    if not array.null_count:
        return None
    if array.null_count == len(array):
        return np.ones(len(array), bool)
    whole = arrow_whole(array)
    return ~bits_of(whole.buffers()[0], whole.offset, len(whole))


def numbers_of_arrow(array: Any) -> Any:
    """Return the values of an Arrow array of numbers or booleans, anything where it is null; None for other types.

    >>> import pyarrow
    >>> numbers_of_arrow(pyarrow.array([0.5, 2.0])[1:]), numbers_of_arrow(pyarrow.array(["a"]))
    (array([2.]), None)
    """
    name = str(array.type)
    if name not in NUMPY_TYPES:
        return None
    kind = np.dtype(NUMPY_TYPES[name])
    if not len(array):
        return np.empty(0, kind)
    whole = arrow_whole(array)
    data, offset = whole.buffers()[1], whole.offset
    if name == "bool":
        return bits_of(data, offset, len(whole))
    return np.frombuffer(data, kind, len(whole), offset * kind.itemsize)


def bits_of(data: Any, start: int, count: int) -> Any:
    """Return `count` bits of a buffer, from bit `start` on."""
    found = np.unpackbits(np.frombuffer(data, np.uint8), count=start + count, bitorder="little")
    return found[start:].astype(bool)
