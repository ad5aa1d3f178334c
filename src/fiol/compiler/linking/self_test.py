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
    def half(x):  # type: ignore[no-untyped-def]
        if x < 0.0:
            raise ValueError("negative number")
        return 0.5 * x

    @part
    def sum_of_halves(values):  # type: ignore[no-untyped-def]
        total = 0.0
        for k in range(values.shape[0]):
            total += half(values[k])
        return total

    @njit(**OPTIONS, pipeline_class=KERNEL_UNTESTED)
    def kernel(values):  # type: ignore[no-untyped-def]
        return sum_of_halves(values), half(values[0])

    values = np.arange(1.0, 20.0)
    found = kernel(values)
    if found != (95.0, 0.5):
        raise AssertionError(f"a kernel returned {found} instead of (95.0, 0.5)")
    try:
        kernel(-values)
    except ValueError as error:
        if str(error) == "negative number":
            return
    raise AssertionError("the error of an inlined function was lost")
