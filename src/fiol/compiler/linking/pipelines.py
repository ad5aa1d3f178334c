"""Compiler pipelines: passes of numba, a code library of our own, and constants before dead branches are pruned."""

from __future__ import annotations

import dis
from collections.abc import Callable
from typing import Any

from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, PassManager, register_pass
from numba.core.typed_passes import NopythonTypeInference
from numba.core.untyped_passes import RewriteSemanticConstants

from fiol.compiler.linking import passes_self_test
from fiol.compiler.linking.constants import insert_constants
from fiol.compiler.linking.libraries import InlinedLibrary, KernelLibrary, LoopLibrary

FOR_ITER = dis.opmap["FOR_ITER"]


@register_pass(mutates_CFG=False, analysis_only=False)
class ClassConstants(FunctionPass):
    """Replace attributes of components by constants of their classes."""

    _name = "fiol_class_constants"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        return insert_constants(state.func_ir, state.args)


def library_pass(name: str, library_of: Callable[[Any], Any]) -> Any:
    """Return a pass after which numba's lowering writes into a library of the class that `library_of` returns."""

    @register_pass(mutates_CFG=False, analysis_only=False)
    class ChooseLibrary(FunctionPass):
        _name = name

        def __init__(self) -> None:
            super().__init__()

        def run_pass(self, state: Any) -> bool:
            state.library = library_of(state)(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.enable_object_caching()
            return False

    return ChooseLibrary


def inlined_library(state: Any) -> Any:
    """Return the library of a function that is compiled into kernels."""
    loops = FOR_ITER in state.func_id.func.__code__.co_code[::2]
    return LoopLibrary if loops and state.flags.fastmath else InlinedLibrary


#: Passes of numba for what kernels do not contain: `with`, closures, generators, whole-array expressions, functions to
#: inline as source; and checks and reports that change no code.
NOT_NEEDED = {
    "AnnotateTypes",
    "DumpParforDiagnostics",
    "FindLiterallyCalls",
    "InlineClosureLikes",
    "InlineInlinables",
    "InlineOverloads",
    "IRProcessing",
    "LiteralPropagationSubPipelinePass",
    "LiteralUnroll",
    "MakeFunctionToJitFunction",
    "NoPythonSupportedFeatureValidation",
    "NopythonRewrites",
    "RewriteDynamicRaises",
    "WithLifting",
}


def pipeline(chooser: Any, tested: bool) -> type[CompilerBase]:
    """Return a compiler with a library of our own; numba's default where linking fails its self-test.

    Code of users is compiled by all of numba's passes.
    """

    class Compiler(CompilerBase):
        def define_pipelines(self) -> list[Any]:
            default = DefaultPassBuilder.define_nopython_pipeline(self.state)
            if tested and not passes_self_test():
                return [default]
            ours = self.state.func_id.func.__globals__.get("__name__", "").partition(".")[0] == "fiol"
            manager = PassManager("fiol")
            for step, description in default.passes:
                if step is RewriteSemanticConstants:
                    manager.add_pass(ClassConstants, "class constants of components")
                if not (ours and step.__name__ in NOT_NEEDED):
                    manager.add_pass(step, description)
                if step is NopythonTypeInference:
                    manager.add_pass(chooser, "code library")
            manager.finalize()
            return [manager]

    return Compiler


CHOOSERS = (
    library_pass("fiol_kernel_library", lambda state: KernelLibrary),
    library_pass("fiol_inlined_library", inlined_library),
)
KERNEL_PIPELINE, INLINED_PIPELINE = (pipeline(chooser, tested=True) for chooser in CHOOSERS)
KERNEL_UNTESTED, INLINED_UNTESTED = (pipeline(chooser, tested=False) for chooser in CHOOSERS)
