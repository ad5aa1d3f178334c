"""Loops that are compiled when they are first needed, in modules that load without the compiler."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


@functools.cache
def compiled_loop(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Return the loop as a kernel: see `fiol.compiler.compiled.jit`."""
    from fiol.compiler.compiled import jit  # imported here: `import fiol` loads no compiler

    return jit(loop)
