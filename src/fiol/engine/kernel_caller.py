"""`KernelCaller`: calls of kernels, compiled once for the types of an engine, or interpreted."""

from __future__ import annotations

from typing import Any

import numpy as np

from fiol.algorithms.plan import Plan


class KernelCaller:
    """The plans of an engine, and calls of kernels with them: the types of a kernel's arguments never change."""

    def __init__(self, plan: Plan, intercept_plan: Plan, compiled: bool) -> None:
        self.plan, self.intercept_plan = plan, intercept_plan
        #: Whether kernels are compiled.
        self.compiled = compiled
        #: Kernels, compiled for the types that this engine calls them with.
        self.bound: dict[Any, Any] = {}

    @property
    def plans(self) -> tuple[Plan, Plan]:
        """The plans of features and intercept, as kernels take them."""
        return self.plan, self.intercept_plan

    def call(self, kernel: Any, *arguments: Any) -> Any:
        """Call a kernel, compiled for the types of the first arguments."""
        bound = self.bound.get(kernel)
        if bound is None:
            bound = self.bound[kernel] = bound_kernel(kernel, arguments, self.compiled)
        return bound(*arguments)

    def call_for_intercept(self, kernel: Any, *arguments: Any) -> Any:
        """Call a kernel for the intercept, whose plan has another type than that of features."""
        key = kernel, "intercept"
        bound = self.bound.get(key)
        if bound is None:
            bound = self.bound[key] = bound_kernel(kernel, arguments, self.compiled)
        return bound(*arguments)


def bound_kernel(kernel: Any, arguments: tuple[Any, ...], compiled: bool) -> Any:
    """Return a kernel compiled for arguments of these types; or the plain Python function."""
    from fiol.compiler import compiled as compiler

    if compiled and hasattr(kernel, "py_func"):
        return compiler.bind(kernel, *arguments)
    plain = compiler.interpreted(kernel)

    def quiet(*args: Any) -> Any:
        with np.errstate(all="ignore"):  # the interpreter warns where compiled code continues with infinity
            return plain(*args)

    return quiet
