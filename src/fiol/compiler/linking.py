"""Code that is compiled only to be inlined: it becomes machine code where it ends up.

Left alone, numba makes machine code of every function, which nobody calls, and wraps it for Python: a good part of the
time that a kernel of a hundred functions takes to compile. Here, parts of kernels are optimized and linked, no more.

This needs classes of numba that are not public. Importing this file raises ImportError where one of them is not as it
should be, and `fiol.compiler.compiled` then does without.
"""

from __future__ import annotations

import gc
from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.environment import lookup_environment
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering

#: What is relied upon of each class.
NEEDED = {
    JITCodeLibrary: (
        "finalize",
        "get_pointer_to_function",
        "codegen",
        "enable_object_caching",
        "_ensure_finalized",
        "_finalize_final_module",
    ),
    Lower: ("incref", "decref"),
    NativeLowering: ("run_pass", "lowering_class"),
    CompilerBase: ("compile_extra", "define_pipelines"),
    DefaultPassBuilder: ("define_nopython_pipeline",),
    PassManager: ("add_pass", "finalize"),
}
for _owner, _names in NEEDED.items():
    for _name in _names:
        if not hasattr(_owner, _name):
            raise ImportError(f"{_owner.__name__} of this numba has no {_name}")


class Part(JITCodeLibrary):
    """Optimized code for other libraries to link; no machine code is made of it."""

    def _finalize_final_module(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> Any:
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """There is no code yet that could look for the environment: `Whole` sets it."""


class Whole(JITCodeLibrary):
    """Machine code with all its parts inside."""

    def _finalize_final_module(self) -> None:
        super()._finalize_final_module()
        for variable in self._final_module.global_variables:
            environment = lookup_environment(variable.name) if variable.name.startswith("_ZN08NumbaEnv") else None
            if environment is not None:
                self._codegen.set_env(variable.name, environment)


class Lean(Lower):
    """Lowering that takes values apart to count references only if there are any in them."""

    def incref(self, kind: Any, value: Any) -> None:
        if counts(self.context, kind):
            super().incref(kind, value)

    def decref(self, kind: Any, value: Any) -> None:
        if counts(self.context, kind):
            super().decref(kind, value)


def counts(context: Any, kind: Any) -> bool:
    """Whether references are counted in values of this type."""
    return bool(context.data_model_manager[kind].contains_nrt_meminfo())


def compiler(whole: bool) -> type[CompilerBase]:
    """A compiler for kernels, or for parts of them."""

    @register_pass(mutates_CFG=True, analysis_only=False)
    class Lowering(NativeLowering):
        _name = "fiol_kernel" if whole else "fiol_part"

        @property
        def lowering_class(self) -> type[Lower]:
            return Lean

        def run_pass(self, state: Any) -> bool:
            library = Whole if whole else Part
            state.library = library(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.enable_object_caching()
            return bool(super().run_pass(state))

    class Compiler(CompilerBase):
        def compile_extra(self, function: Any) -> Any:
            # Next to nothing that compiling allocates is garbage, and looking for it takes a tenth of the time.
            collecting = gc.isenabled()
            gc.disable()
            try:
                return super().compile_extra(function)
            finally:
                if collecting:
                    gc.enable()

        def define_pipelines(self) -> list[Any]:
            default = DefaultPassBuilder.define_nopython_pipeline(self.state)
            own = PassManager("fiol")
            for step, description in default.passes:
                own.add_pass(Lowering if step is NativeLowering else step, description)
            own.finalize()
            return [own]

    return Compiler


PART, WHOLE = compiler(whole=False), compiler(whole=True)
