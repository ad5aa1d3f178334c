"""Code libraries for functions that are compiled only to be inlined into kernels.

numba makes machine code of every function, also of functions that are called from compiled code alone, and links
into each function all that it calls. Here a part of a kernel is optimized by itself, kept as LLVM code, and linked
once, into its kernel; only the kernel becomes machine code.
"""

from __future__ import annotations

import inspect
from typing import Any

import llvmlite.binding as llvm
from numba.core import cgutils
from numba.core.codegen import CodeLibrary, CPUCodegen, JITCodeLibrary
from numba.core.environment import lookup_environment

#: Whether functions are optimized by passes made for their module, as before llvmlite 0.44.
BY_MODULE = "llvm_module" in inspect.signature(CPUCodegen._function_pass_manager).parameters


class InlinedLibrary(JITCodeLibrary):
    """A function for other libraries to link; no machine code is made of it."""

    def __init__(self, codegen: Any, name: str) -> None:
        CodeLibrary.__init__(self, codegen, name)
        self._linking_libraries: list[Any] = []
        self._final_module: Any = None
        self._shared_module: Any = None

    def add_ir_module(self, ir_module: Any) -> None:
        module = optimized_by_function(self, ir_module)
        if self._final_module is None:
            self._final_module = module
        else:
            self._final_module.link_in(module)

    def finalize(self) -> None:
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage.name == "external":
                function.linkage = "linkonce_odr"  # dropped wherever it has been inlined
        self._shared_module, self._finalized = self._final_module, True

    def _get_module_for_linking(self) -> Any:
        """Return the function with all its parts, for a kernel that is not ours and links only what it calls."""
        self._ensure_finalized()
        module = self._shared_module.clone()
        for part in with_their_parts(self._linking_libraries):
            module.link_in(module_of(part), preserve=True)
        return module

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> Any:
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Do nothing: there is no code yet that reads the environment, and `KernelLibrary` sets it."""


class LoopLibrary(InlinedLibrary):
    """An inlined function with a `for` whose sums may be reordered, optimized alone with all its parts inside.

    The order in which a vectorized loop adds is decided here, so it is the same in all kernels that contain the loop.
    """

    def finalize(self) -> None:
        link_parts(self)
        self._optimize_final_module()
        super().finalize()


class KernelLibrary(JITCodeLibrary):
    """Machine code with all its parts inside."""

    def add_ir_module(self, ir_module: Any) -> None:
        self._final_module.link_in(optimized_by_function(self, ir_module))

    def finalize(self) -> None:
        link_parts(self)
        super().finalize()

    def _finalize_final_module(self) -> None:
        super()._finalize_final_module()
        for variable in self._final_module.global_variables:
            environment = lookup_environment(variable.name) if variable.name.startswith("_ZN08NumbaEnv") else None
            if environment is not None:
                self._codegen.set_env(variable.name, environment)


def optimized_by_function(library: Any, ir_module: Any) -> Any:
    """Return a module whose functions are optimized, each by itself."""
    module = llvm.parse_assembly(cgutils.normalize_ir_text(str(ir_module)))
    module.name, module.data_layout = ir_module.name, library._codegen._data_layout
    if BY_MODULE:
        library._optimize_functions(module)
    else:  # without the declarations, which are most
        for function in module.functions:
            if not function.is_declaration:
                passes, builder = library._codegen._function_pass_manager()
                passes.run(function, builder)
    return module


def with_their_parts(libraries: list[Any]) -> list[Any]:
    """Return these libraries and all that they need, callers first: LLVM links only what is called already."""
    seen, order = set(), []

    def visit(library: Any) -> None:
        if library not in seen:
            seen.add(library)
            if isinstance(library, InlinedLibrary):
                for part in library._linking_libraries:
                    visit(part)
            order.append(library)

    for library in libraries:
        visit(library)
    return order[::-1]


def link_parts(library: Any) -> None:
    """Link all that a library calls into it."""
    for part in with_their_parts(library._linking_libraries):
        if hasattr(part, "_reload_init"):  # numba 0.58 and later
            library._reload_init.update(part._reload_init)
        library._final_module.link_in(module_of(part), preserve=True)
    library._linking_libraries = []


def module_of(library: Any) -> Any:
    """Return the module to link for a library whose parts are linked as well."""
    return library._shared_module if isinstance(library, InlinedLibrary) else library._get_module_for_linking()
