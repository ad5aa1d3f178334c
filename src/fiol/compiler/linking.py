"""Code that is compiled only to be inlined: it becomes machine code where it ends up.

Left alone, numba makes machine code of every function, which nobody calls, wraps it for Python, links into it all that
it calls, and looks at it in passes for things that this library's code has none of. That takes most of the time of a
kernel of a hundred functions. Here a part of a kernel is improved by itself, kept, and linked once, into its kernel.

This needs classes of numba that are not public. Importing this file raises ImportError where one of them is not as it
should be, and `fiol.compiler.compiled` then does without.
"""

from __future__ import annotations

import contextlib
import dis
import inspect
from collections.abc import Iterator
from functools import partial
from typing import Any

import llvmlite.binding as llvm
from numba.core import cgutils, dispatcher, ir
from numba.core.base import BaseContext
from numba.core.codegen import CodeLibrary, CPUCodegen, JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, Flags
from numba.core.compiler_machinery import FunctionPass, PassManager, register_pass
from numba.core.environment import lookup_environment
from numba.core.funcdesc import default_mangler
from numba.core.lowering import Lower
from numba.core.sigutils import normalize_signature
from numba.core.typed_passes import NativeLowering, NopythonTypeInference
from numba.core.types import unliteral
from numba.core.typing import Context, signature

from fiol.compiler.calling import MayFail, call_of
from fiol.compiler.constants import settle
from fiol.compiler.fingerprint import digest
from fiol.compiler.lowering import REAL_NUMBERS, Lean, LeanPart

#: What is relied upon of each class.
NEEDED: dict[type, tuple[str, ...]] = {
    dispatcher.Dispatcher: ("compile", "add_overload", "is_compiling"),
    CodeLibrary: ("_ensure_finalized", "enable_object_caching"),
    JITCodeLibrary: (
        "finalize",
        "get_pointer_to_function",
        "codegen",
        "add_ir_module",
        "add_linking_library",
        "_get_module_for_linking",
        "_optimize_functions",
        "_optimize_final_module",
        "_finalize_final_module",
    ),
    CPUCodegen: ("_function_pass_manager", "_create_empty_module"),
    BaseContext: ("mangler", "subtarget", "insert_user_function"),
    Lower: (
        "incref",
        "decref",
        "lower_inst",
        "pre_block",
        "post_block",
        "lower_binop",
        "lower_getitem",
        "getvar",
        "loadvar",
        "storevar",
        "delvar",
        "alloca",
        "_alloca_var",
        "_find_singly_assigned_variable",
    ),
    NativeLowering: ("run_pass", "lowering_class"),
    CompilerBase: ("define_pipelines", "_compile_core"),
    ir.Inst: ("_rec_list_vars", "list_vars"),
    DefaultPassBuilder: ("define_nopython_pipeline",),
    PassManager: ("add_pass", "finalize", "run", "_runPass"),
    Flags: ("values", "copy"),
    Context: ("resolve_function_type", "resolve_value_type"),
}
for _owner, _names in NEEDED.items():
    for _name in _names:
        if not hasattr(_owner, _name):
            raise ImportError(f"{_owner.__name__} of this numba has no {_name}")

#: Before llvmlite 0.44, functions are improved by what is made for their module.
BY_MODULE = "llvm_module" in inspect.signature(CPUCodegen._function_pass_manager).parameters
#: Where a `for` goes on, in bytecode.
FOR = dis.opmap["FOR_ITER"]
#: Passes of numba for what this library's own code has none of: `with`, closures, generators, `isinstance`, expressions
#: of whole arrays, functions to inline as source; or that write reports nobody reads.
NOT_NEEDED = {
    "IRProcessing",
    "WithLifting",
    "InlineClosureLikes",
    "MakeFunctionToJitFunction",
    "InlineInlinables",
    "InlineOverloads",
    "NopythonRewrites",
    "FindLiterallyCalls",
    "LiteralUnroll",
    "LiteralPropagationSubPipelinePass",
    "RewriteDynamicRaises",
    "AnnotateTypes",
    "NoPythonSupportedFeatureValidation",
    "DumpParforDiagnostics",
}


# --- libraries of code ------------------------------------------------------------------------


class Part(JITCodeLibrary):
    """A function for other libraries to link, improved by itself; no machine code is made of it."""

    #: Whether it is called with values as they are: see `fiol.compiler.calling`.
    never_fails = False

    def __init__(self, codegen: Any, name: str) -> None:
        CodeLibrary.__init__(self, codegen, name)
        self._linking_libraries: list[Any] = []
        self._final_module: Any = None
        self._shared_module: Any = None

    def add_ir_module(self, ir_module: Any) -> None:
        module = improved(self, ir_module)
        if self._final_module is None:
            self._final_module = module
        else:
            self._final_module.link_in(module)

    def finalize(self) -> None:
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage.name == "external":
                function.linkage = "linkonce_odr"  # to be dropped wherever it has been inlined
        self._shared_module, self._finalized = self._final_module, True

    def _get_module_for_linking(self) -> Any:
        """For somebody else's kernel, which links no more than what it calls: with all parts inside."""
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
        """There is no code yet that could look for the environment: `Whole` sets it."""


class Loop(Part):
    """A part with a `for` whose sums may be rearranged, with all its parts inside, optimized alone.

    The order in which a vectorized loop adds is decided here, and is the same in all kernels that have the part.
    """

    def finalize(self) -> None:
        link_parts(self)
        self._optimize_final_module()
        super().finalize()


class Whole(JITCodeLibrary):
    """Machine code with all its parts inside."""

    def add_ir_module(self, ir_module: Any) -> None:
        self._final_module.link_in(improved(self, ir_module))

    def finalize(self) -> None:
        link_parts(self)
        super().finalize()

    def _finalize_final_module(self) -> None:
        super()._finalize_final_module()
        for variable in self._final_module.global_variables:
            environment = lookup_environment(variable.name) if variable.name.startswith("_ZN08NumbaEnv") else None
            if environment is not None:
                self._codegen.set_env(variable.name, environment)


def improved(library: Any, ir_module: Any) -> Any:
    """A module whose functions are improved, each by itself."""
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
    """These libraries and all that is to be linked with them, callers first: what nobody calls yet is not linked."""
    seen, order = set(), []

    def visit(library: Any) -> None:
        if library not in seen:
            seen.add(library)
            if isinstance(library, Part):
                for part in library._linking_libraries:
                    visit(part)
            order.append(library)

    for library in libraries:
        visit(library)
    return order[::-1]


def link_parts(library: Any) -> None:
    """Link all that a library calls into it."""
    for part in with_their_parts(library._linking_libraries):
        if hasattr(part, "_reload_init"):  # in later numbas
            library._reload_init.update(part._reload_init)
        library._final_module.link_in(module_of(part), preserve=True)
    library._linking_libraries = []


def module_of(library: Any) -> Any:
    """What is to be linked of a library, if its parts are linked, too."""
    return library._shared_module if isinstance(library, Part) else library._get_module_for_linking()


def short_name(name: str, kinds: Any, *, abi_tags: Any = (), uid: Any = None) -> str:
    """The symbol of a function: a digest stands for the types of its arguments, whose names fill a page."""
    told = [str(part).encode() for part in (*abi_tags, *kinds)]
    return str(default_mangler(name, (), abi_tags=[digest(told)], uid=uid))


# --- compilers --------------------------------------------------------------------------------


class Told(Flags):
    """Flags that are compared by what they said at first: numba looks overloads up by them, at every operator."""

    __slots__ = ("_said",)

    def said(self) -> dict[str, Any]:
        try:
            return self._said
        except AttributeError:
            self._said: dict[str, Any] = self.values()
            return self._said

    def __hash__(self) -> int:
        return hash(tuple(sorted(self.said())))  # as numba's own, to be found among them

    def __eq__(self, other: Any) -> bool:
        return self.said() == (other.said() if isinstance(other, Told) else other.values())


class Fresh:
    """A context that needs no refreshing, since that was done when the kernel was begun."""

    def __init__(self, context: Any) -> None:
        self.context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self.context, name)

    def refresh(self) -> None:
        """Nothing is to be done."""


class Remembering:
    """A typing context that remembers what calls return: numba finds that out anew whenever it looks at one."""

    operators: dict[Any, Any] = {}  # noqa: RUF012 - of all contexts

    def __init__(self, context: Any) -> None:
        self.context = context
        self.calls: dict[Any, Any] = {}  # of one function

    def __getattr__(self, name: str) -> Any:
        return getattr(self.context, name)

    def resolve_function_type(self, function: Any, args: Any, kws: Any) -> Any:
        """The signature of a call, as the context itself would find it."""
        if getattr(function, "typing_key", None) in (min, max) and len(args) > 1 and not kws:
            plain = [unliteral(kind) for kind in args]
            whole = self.context.unify_types(*plain) if all(isinstance(kind, REAL_NUMBERS) for kind in plain) else None
            if isinstance(whole, REAL_NUMBERS):
                return signature(whole, *plain)
        operator = getattr(getattr(function, "typing_key", None), "__module__", "") == "_operator"
        known = self.operators if operator else self.calls
        key = getattr(function, "typing_key", None) if operator else function, tuple(args), tuple(kws.items())
        then, found = known.get(key, (None, None))
        if then is not function or found is None:  # or somebody has added an overload
            found = self.context.resolve_function_type(function, args, kws)
            known[key] = function, found
        return found


#: What no variable is inside of.
NO_VARIABLES = {str, int, float, bool, type(None), ir.Loc, ir.Const, ir.Global, ir.FreeVar, ir.Arg, type(ir.UNDEFINED)}
NO_VARIABLES |= {type(lambda: None), type(len)}


def variables_in(self: Any, thing: Any) -> list[Any]:
    """The variables in a statement or an expression: numba's list, which it makes five times of every function."""
    found: list[Any] = []
    for each in thing.values() if type(thing) is dict else (thing,):
        kind = type(each)
        if kind is ir.Var:
            found.append(each)
        elif kind is ir.Expr:
            found += variables_in(each, each._kws)
        elif kind is list or kind is tuple:
            for one in each:
                found += variables_in(self, one)
        elif kind not in NO_VARIABLES:
            found += all_variables_in(self, each)
    return found


all_variables_in = ir.Inst._rec_list_vars


@contextlib.contextmanager
def variables_found_fast() -> Iterator[None]:
    """Within, numba finds the variables of statements by `variables_in`. There is one compiler at a time."""
    instruction: Any = ir.Inst
    before, instruction._rec_list_vars = instruction._rec_list_vars, variables_in
    try:
        yield
    finally:
        instruction._rec_list_vars = before


class Manager(PassManager):
    """Runs passes without telling anybody, and without checking numba's work after each."""

    def _runPass(self, index: int, step: Any, state: Any) -> None:  # noqa: N802 - numba's name
        step.analysis, context = self._analysis, state.typingctx
        if isinstance(step, NopythonTypeInference):
            state.typingctx = Remembering(context)
        try:
            step.run_initialization(state)
            step.run_pass(state)
            step.run_finalizer(state)
        finally:
            state.typingctx = context


#: What a value of a type has under a name, for `settle`; `fiol.compiler.compiled` knows.
constant_lookup: Any = None


@register_pass(mutates_CFG=False, analysis_only=False)
class Settling(FunctionPass):
    """Constants in place of what is known of components."""

    _name = "fiol_constants"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        settle(state.func_ir, state.args, constant_lookup)
        return True


def insert_part(context: Any, function: Any, described: Any, libraries: Any = ()) -> None:
    """Tell a context how a part is called."""
    call = call_of(described, libraries)
    context._defns[function].append(call, call.signature)


def compiler(whole: bool) -> type[CompilerBase]:
    """A compiler for kernels, or for parts of them."""

    @register_pass(mutates_CFG=True, analysis_only=False)
    class Lowering(NativeLowering):
        _name = "fiol_kernel" if whole else "fiol_part"

        lowering_class = Lean

        def run_pass(self, state: Any) -> bool:
            counts_through = FOR in state.func_id.func.__code__.co_code[::2]
            rearranged = bool(state.flags.fastmath)
            library = Whole if whole else Loop if counts_through and rearranged else Part
            context = state.targetctx  # a copy for this function
            context.mangler = short_name

            def run() -> bool:
                state.library = library(context.codegen(), state.func_id.func_qualname)
                state.library.enable_object_caching()
                return bool(super(Lowering, self).run_pass(state))

            if whole or state.func_ir.is_generator:
                return run()
            self.lowering_class, context.insert_user_function = LeanPart, partial(insert_part, context)
            try:
                changed = run()
                state.library.never_fails = True
                return changed
            except MayFail:
                self.lowering_class = Lean
                del context.insert_user_function
                return run()

    class Compiler(CompilerBase):
        def __init__(self, typing_context: Any, target_context: Any, *rest: Any) -> None:
            if whole:
                super().__init__(typing_context, target_context, *rest)
            else:
                super().__init__(Fresh(typing_context), Fresh(target_context), *rest)
                self.state.typingctx = typing_context
            self.state.flags = Told(self.state.flags)

        def _compile_core(self) -> Any:
            with variables_found_fast():
                return super()._compile_core()

        def define_pipelines(self) -> list[Any]:
            default = DefaultPassBuilder.define_nopython_pipeline(self.state)
            ours = str(self.state.func_id.func.__globals__.get("__name__")).partition(".")[0] == "fiol"
            manager = Manager("fiol") if ours else PassManager("fiol")
            for step, description in default.passes:
                if step.__name__ == "RewriteSemanticConstants":
                    manager.add_pass(Settling, "constants of components")
                if not (ours and step.__name__ in NOT_NEEDED):
                    manager.add_pass(Lowering if step is NativeLowering else step, description)
            manager.finalize()
            return [manager]

    return Compiler


PART, WHOLE = compiler(whole=False), compiler(whole=True)


def unobserved(part: Any) -> Any:
    """The same part of kernels, compiled within its kernel's turn: no lock, no cache, no timers of its own."""

    def compile_now(signature: Any) -> Any:
        args, return_type = normalize_signature(signature)
        if tuple(args) not in part.overloads:
            with part._compiling_counter:
                part.add_overload(part._compiler.compile(args, return_type))
        return part.overloads[tuple(args)].entry_point

    if hasattr(part, "_compiling_counter") and hasattr(part, "_compiler"):
        part.compile = compile_now
    return part
