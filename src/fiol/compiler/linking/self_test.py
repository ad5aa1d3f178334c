"""A kernel with the kinds of parts that linking treats in its own way, and its results by plain arithmetic."""

from __future__ import annotations

from functools import partial
from typing import Any

from numba import njit

OPTIONS: dict[str, Any] = {"error_model": "numpy", "forceinline": True, "no_cfunc_wrapper": True}


def check() -> None:
    """Compile a kernel with an inlined function, a loop and an error; raise if it does not do what it should."""
    from fiol.compiler.linking.pipelines import INLINED_UNTESTED, KERNEL_UNTESTED
    from fiol.compiler.options import InlinedFunction

    inner = {**OPTIONS, "nopython": True, "no_cpython_wrapper": True, "fastmath": {"reassoc"}}
    part = partial(InlinedFunction, targetoptions=inner, pipeline_class=INLINED_UNTESTED)

    @part
    def half(x):  # type: ignore[no-untyped-def]
        if x < 0.0:
            raise ValueError("negative number")
        return 0.5 * x

    @part
    def sum_of_halves(n, sign):  # type: ignore[no-untyped-def]
        total = 0.0
        for k in range(n):
            total += half(sign * k)
        return total

    @njit(**OPTIONS, pipeline_class=KERNEL_UNTESTED)
    def kernel(n, sign):  # type: ignore[no-untyped-def]
        return sum_of_halves(n, sign) + half(1.0)

    found = kernel(20, 1.0)
    if found != 95.5:
        raise AssertionError(f"a kernel returned {found} instead of 95.5")
    try:
        kernel(20, -1.0)
    except ValueError as error:
        if str(error) == "negative number":
            return
    raise AssertionError("the error of an inlined function was lost")
