"""All names of numba and llvmlite that the library uses, except those of the optional folder `linking/`."""
# ruff: noqa: F401

from __future__ import annotations

import numba

from fiol.compiler.linking import TESTED_BOUNDS

try:
    from llvmlite import binding, ir
    from numba import config, typeof
    from numba.core import cgutils, types
    from numba.core.caching import FunctionCache
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.errors import LoweringError, NumbaError, TypingError
    from numba.core.imputils import impl_ret_borrowed, lower_cast
    from numba.core.registry import CPUDispatcher
    from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_global, signature
    from numba.extending import (
        NativeValue,
        infer_getattr,
        intrinsic,
        lower_builtin,
        lower_getattr,
        lower_getattr_generic,
        models,
        overload,
        register_model,
        typeof_impl,
        unbox,
    )
except ImportError as error:
    text = f"numba {numba.__version__} does not fit this version of fiol ({error})"
    raise ImportError(f"{text}: install '{TESTED_BOUNDS}'") from error
