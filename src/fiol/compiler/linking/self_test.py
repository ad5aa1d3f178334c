"""A kernel with the kinds of parts that linking treats in its own way, and its results by plain arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

OPTIONS: dict[str, Any] = {"error_model": "numpy", "forceinline": True, "no_cfunc_wrapper": True}


def check() -> None:
    """Compile a kernel with an inlined function, a loop and an error; raise if it does not do what it should."""
    from fiol.compiler.linking.pipelines import INLINED_UNTESTED, KERNEL_UNTESTED

    inner = {"no_cpython_wrapper": True, "fastmath": {"reassoc"}, "pipeline_class": INLINED_UNTESTED}
    part = njit(**OPTIONS | inner)

    @part
    def half(values, k):  # type: ignore[no-untyped-def]
        if k < 0:
            raise ValueError("negative index")
        return 0.5 * values[k], values

    @part
    def sum_of_halves(values, start):  # type: ignore[no-untyped-def]
        total = 0.0
        for k in range(start, values.shape[0]):
            total += half(values, k)[0]
        return total

    @njit(**OPTIONS, pipeline_class=KERNEL_UNTESTED)
    def kernel(values, start):  # type: ignore[no-untyped-def]
        return sum_of_halves(values, start), half(values, 1)[0]

    values = np.arange(1.0, 20.0)
    found = kernel(values, 0)
    if found != (95.0, 1.0):
        raise AssertionError(f"a kernel returned {found} instead of (95.0, 1.0)")
    try:
        kernel(values, -1)
    except ValueError as error:
        if str(error) == "negative index":
            return
    raise AssertionError("the error of an inlined function was lost")
