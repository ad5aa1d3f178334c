"""Vectors of LLVM as compiled values: what `fiol.components.simd` calls lanes.

Operators, comparisons and `abs` apply to every lane; a number among them is a number in every lane. No sum of lanes is
reordered, whatever the kernel allows. A product that is written as a term of a sum is fused with it where processors
can do that; it is here that this is decided, not where a function has been inlined, so that the same source has the
same bits in every kernel. Code that relies on how a sum is rounded, as `whole_power` does, is safe in lanes.
"""

from __future__ import annotations

import math
import operator
import platform
from typing import Any

from fiol.compiler.component_types import portable, register_helpers
from fiol.compiler.instructions import TRIED_FIRST, argument, field_of, instructions, sum_type
from fiol.compiler.numba_names import (
    AbstractTemplate,
    binding,
    cgutils,
    config,
    infer_global,
    ir,
    lower_builtin,
    models,
    overload,
    register_model,
    signature,
    types,
)
from fiol.compiler.options import METHOD
from fiol.components import simd
from fiol.components.step_sizes.rule import FORMULAS

LANE_INDEX, DOUBLE = ir.IntType(32), ir.DoubleType()
#: Whether processors have an instruction for a * b + c.
FUSES = platform.machine() in ("aarch64", "arm64") or "+fma" in (
    config.CPU_FEATURES or binding.get_host_cpu_features().flatten()
).split(",")
#: Of all arithmetic with lanes: a flag that changes no sum. Without any, numba adds those of the kernel.
PLAIN_FLAGS = ("nsz",)
#: 1.5 * 2^52 + 1023: what is added to it is rounded to a whole number n, and its last bits are n + 1023.
ROUNDER = 1.5 * 2.0**52 + 1023.0


class Lanes(types.Type):  # type: ignore[misc]
    """A number of doubles, floats or truth values, side by side."""

    def __init__(self, count: int, element: Any) -> None:
        self.count, self.element = count, element
        super().__init__(f"lanes({count} x {element})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Lanes) -> None:
        super().__init__(manager, kind, vector(kind.count, kind.element))


def vector(count: int, element: Any) -> Any:
    """Return the vector type of LLVM for `count` numbers of a type."""
    inside = {types.float64: DOUBLE, types.float32: ir.FloatType(), types.boolean: ir.IntType(1)}
    return ir.VectorType(inside[element], count)


def is_truth(kind: Any) -> bool:
    """Return whether a type is that of lanes of truth values."""
    return isinstance(kind, Lanes) and kind.element == types.boolean


def common_lanes(*kinds: Any) -> Any:
    """Return the type in which values of these types are computed: float lanes only if all lanes are float."""
    found = [kind for kind in kinds if isinstance(kind, Lanes)]
    single = all(kind.element == types.float32 for kind in found)
    return Lanes(found[0].count, types.float32 if single else types.float64)


def in_lanes_of(context: Any, builder: Any, value: Any, kind: Any, to: Lanes) -> Any:
    """Convert a value to a type of lanes: a number fills every lane, truth is 1, widths are adapted."""
    if kind == to:
        return value
    whole = context.get_value_type(to)
    if is_truth(kind):
        return builder.uitofp(value, whole)
    if isinstance(kind, Lanes):
        return (builder.fpext if to.element == types.float64 else builder.fptrunc)(value, whole)
    one = builder.insert_element(
        ir.Constant(whole, ir.Undefined), context.cast(builder, value, kind, to.element), LANE_INDEX(0)
    )
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(LANE_INDEX, to.count), [0] * to.count))


def in_lanes(*kinds: Any) -> bool:
    """Return whether any of these types is one of lanes."""
    return any(isinstance(kind, Lanes) for kind in kinds)


def in_common_type(context: Any, builder: Any, value: Any, kind: Any, to: Any) -> Any:
    """Return a number or lanes as another type of numbers or lanes."""
    if isinstance(to, Lanes):
        return in_lanes_of(context, builder, value, kind, to)
    return context.cast(builder, value, kind, to)


def in_every_lane(to: Any, value: Any) -> Any:
    """Return a vector with a number in every lane; the number itself if the LLVM type is no vector."""
    return ir.Constant(to, [value] * to.count if isinstance(to, ir.VectorType) else value)


def llvm(builder: Any, name: str, result: Any, *arguments: Any) -> Any:
    """Call an intrinsic function of LLVM, named after the type of its last argument."""
    kind = arguments[-1].type
    suffix = f"v{kind.count}{kind.element.intrinsic_name}" if isinstance(kind, ir.VectorType) else kind.intrinsic_name
    function = ir.FunctionType(result, [argument.type for argument in arguments])
    called = cgutils.get_or_insert_function(builder.module, function, f"llvm.{name}.{suffix}")
    return builder.call(called, arguments)


# --- operators --------------------------------------------------------------------------------


def define(op: Any, emit: Any, inputs: int = 2, truth: bool = False, of_truth: bool = False) -> None:
    """Let an operator work for lanes: `emit(builder, a, b)` with both in the same lanes; its result may be truth."""

    class Template(AbstractTemplate):  # type: ignore[misc]
        key = op
        metadata = TRIED_FIRST

        def generic(self, args: Any, kws: Any) -> Any:
            if not of_truth and args == (types.float64,) * inputs:  # numba would try twenty rules before its own
                return signature(types.boolean if truth else types.float64, *args)
            found = [kind for kind in args if isinstance(kind, Lanes)]
            if len(args) != inputs or not found or len({kind.count for kind in found}) > 1:
                return None
            if of_truth:
                return signature(args[0], *args) if all(map(is_truth, args)) else None
            plain = Lanes(found[0].count, types.boolean) if truth else common_lanes(*args)
            return signature(plain, *args)

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        to = sig.args[0] if of_truth else common_lanes(*sig.args)
        pairs = zip(args, sig.args, strict=True)
        return emit(builder, *(in_lanes_of(context, builder, value, kind, to) for value, kind in pairs))

    infer_global(op)(Template)
    for kinds in ((Lanes, Lanes), (Lanes, types.Number), (types.Number, Lanes)) if inputs == 2 else ((Lanes,),):
        lower_builtin(op, *kinds)(lower)


def is_term(value: Any) -> bool:
    """Return whether a value is a product that a sum is fused with."""
    return FUSES and getattr(value, "opname", "") == "fmul"


def fused(builder: Any, a: Any, b: Any) -> Any:
    """a + b, rounded once if one of them is a product, the first if both are."""
    if not (is_term(a) or is_term(b)):
        return builder.fadd(a, b, flags=PLAIN_FLAGS)
    product, rest = (a, b) if is_term(a) else (b, a)
    return llvm(builder, "fma", product.type, *product.operands, rest)


def fused_difference(builder: Any, a: Any, b: Any) -> Any:
    """a - b, rounded once if one of them is a product, the first if both are."""
    if is_term(a):
        return llvm(builder, "fma", a.type, *a.operands, builder.fneg(b))
    if is_term(b):
        return llvm(builder, "fma", b.type, builder.fneg(b.operands[0]), b.operands[1], a)
    return builder.fsub(a, b, flags=PLAIN_FLAGS)


define(operator.add, fused)
define(operator.sub, fused_difference)
define(operator.mul, lambda builder, a, b: builder.fmul(a, b, flags=PLAIN_FLAGS))
define(operator.truediv, lambda builder, a, b: builder.fdiv(a, b, flags=PLAIN_FLAGS))
for _op, _sign in (
    (operator.lt, "<"),
    (operator.le, "<="),
    (operator.gt, ">"),
    (operator.ge, ">="),
    (operator.eq, "=="),
):
    define(_op, lambda builder, a, b, sign=_sign: builder.fcmp_ordered(sign, a, b), truth=True)
define(operator.ne, lambda builder, a, b: builder.fcmp_unordered("!=", a, b), truth=True)
define(operator.and_, lambda builder, a, b: builder.and_(a, b), of_truth=True)
define(operator.or_, lambda builder, a, b: builder.or_(a, b), of_truth=True)
define(operator.neg, lambda builder, a: builder.fneg(a), inputs=1)
define(abs, lambda builder, a: llvm(builder, "fabs", a.type, a), inputs=1)


# --- functions --------------------------------------------------------------------------------


def common_type(context: Any, *kinds: Any) -> Any:
    """Return the type in which values of these types are compared: lanes, if any are lanes."""
    return common_lanes(*kinds) if in_lanes(*kinds) else sum_type(context, *kinds)


@instructions(simd.choose)
def _choose(context: Any, condition: Any, a: Any, b: Any) -> Any:
    if in_lanes(condition) and not in_lanes(a, b):
        to = Lanes(condition.count, types.float64)
    else:
        to = common_type(context, a, b)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        values = [in_common_type(context, builder, args[k], sig.args[k], to) for k in (1, 2)]
        truth = args[0] if in_lanes(condition) else context.cast(builder, args[0], sig.args[0], types.boolean)
        return builder.select(truth, *values)

    return to(condition, a, b), codegen


def foremost(sign: str) -> Any:
    """Return how the second of two values is chosen where it is less or greater than the first."""

    def typed(context: Any, a: Any, b: Any) -> Any:
        to = common_type(context, a, b)

        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            first, second = (in_common_type(context, builder, args[k], sig.args[k], to) for k in (0, 1))
            compare = builder.icmp_signed if isinstance(to, types.Integer) else builder.fcmp_ordered
            return builder.select(compare(sign, second, first), second, first)

        return to(a, b), codegen

    return typed


instructions(simd.larger)(foremost(">"))
instructions(simd.smaller)(foremost("<"))


@instructions(simd.anywhere)
def _anywhere(context: Any, condition: Any) -> Any:
    if not in_lanes(condition):
        return argument((condition,), 0)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        found = builder.bitcast(args[0], ir.IntType(condition.count))
        return builder.icmp_unsigned("!=", found, found.type(0))

    return types.boolean(condition), codegen


@instructions(simd.square_root)
def _square_root(context: Any, x: Any) -> Any:
    to = x if isinstance(x, (Lanes, types.Float)) else types.float64

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        value = in_common_type(context, builder, args[0], sig.args[0], to)
        return llvm(builder, "sqrt", value.type, value)

    return to(x), codegen


@overload(simd.exponential, strict=False, jit_options=METHOD)
def _exponential(x: Any) -> Any:
    return portable(simd.lane_exponential) if in_lanes(x) else lambda x: math.exp(x)


@overload(simd.log_one_plus, strict=False, jit_options=METHOD)
def _log_one_plus(x: Any) -> Any:
    return portable(simd.lane_log_one_plus) if in_lanes(x) else lambda x: math.log1p(x)


@instructions(simd.lanes)
def _lanes(context: Any, numbers: Any) -> Any:
    """Make lanes of a tuple of numbers: float lanes if all numbers are float."""
    single = all(kind == types.float32 for kind in numbers.types)
    to = Lanes(len(numbers), types.float32 if single else types.float64)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        found = ir.Constant(context.get_value_type(to), ir.Undefined)
        for k, value in enumerate(cgutils.unpack_tuple(builder, args[0])):
            number = context.cast(builder, value, numbers.types[k], to.element)
            found = builder.insert_element(found, number, LANE_INDEX(k))
        return found

    return to(numbers), codegen


@overload(len, strict=False, jit_options=METHOD)
def _count(values: Any) -> Any:
    if not isinstance(values, Lanes):
        return None
    count = values.count
    return lambda values: count


@instructions(simd.like_lanes)
def _like_lanes(context: Any, values: Any, like: Any) -> Any:
    """Numbers in lanes of the type of `like`."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return in_lanes_of(context, builder, args[0], values, like)

    return like(values, like), codegen


def place_in(context: Any, builder: Any, kinds: Any, args: Any, to: Lanes) -> Any:
    """Return the address of lanes in an array, from an index on."""
    data = field_of(context, builder, kinds[0], args[0], "data")
    index = context.cast(builder, args[1], kinds[1], types.intp)
    return builder.bitcast(builder.gep(data, [index]), context.get_value_type(to).as_pointer())


@instructions(simd.is_short)
def _is_short(context: Any, like: Any) -> Any:
    short = like.element == types.float32
    return types.boolean(like), lambda context, builder, sig, args: context.get_constant(types.boolean, short)


@instructions(simd.load_lanes)
def _load_lanes(context: Any, values: Any, place: Any, like: Any) -> Any:
    """Numbers of an array, side by side, as lanes of the type of `like`."""
    kept = Lanes(like.count, values.dtype)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        found = builder.load(place_in(context, builder, sig.args, args, kept), align=values.dtype.bitwidth // 8)
        return in_lanes_of(context, builder, found, kept, like)

    return like(values, place, like), codegen


@instructions(simd.store)
def _store_lanes(context: Any, values: Any, place: Any, new: Any) -> Any:
    """Lanes into an array, side by side."""
    kept = Lanes(new.count, values.dtype)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        value = in_lanes_of(context, builder, args[2], new, kept)
        builder.store(value, place_in(context, builder, sig.args, args, kept), align=values.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(values, place, new), codegen


@instructions(simd.lane)
def _lane(context: Any, values: Any, k: Any) -> Any:
    """Read the number of one lane."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.extract_element(args[0], args[1])

    return values.element(values, k), codegen


@instructions(simd.with_lane)
def _with_lane(context: Any, values: Any, k: Any, x: Any) -> Any:
    """Replace the number of one lane."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.insert_element(args[0], context.cast(builder, args[2], x, values.element), args[1])

    return values(values, k, x), codegen


def picked(builder: Any, one: Any, other: Any, places: Any) -> Any:
    """Lanes of two values, by their places in both."""
    return builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(LANE_INDEX, len(places)), list(places)))


@instructions(simd.first_lanes)
def _first_lanes(context: Any, values: Any, like: Any) -> Any:
    """Return the first of several lanes."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        few = picked(builder, args[0], args[0], range(like.count))
        return in_lanes_of(context, builder, few, Lanes(like.count, values.element), like)

    return like(values, like), codegen


@instructions(simd.with_first)
def _with_first(context: Any, values: Any, first: Any) -> Any:
    """Replace the first lanes."""
    few, many = first.count, values.count

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        new = in_lanes_of(context, builder, args[1], first, Lanes(few, values.element))
        if few == many:
            return new
        wide = picked(builder, new, new, [*range(few), *(0 for _ in range(many - few))])
        return picked(builder, wide, args[0], [*range(few), *range(many + few, 2 * many)])

    return values(values, first), codegen


@instructions(simd.second_of_both)
def _second_of_both(context: Any, values: Any, like: Any) -> Any:
    """Some of several lanes, from the middle on."""
    middle = values.count // 2

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return picked(builder, args[0], args[0], range(middle, middle + like.count))

    return Lanes(like.count, values.element)(values, like), codegen


@instructions(simd.both_lanes)
def _both_lanes(context: Any, a: Any, b: Any) -> Any:
    """Join the lanes of two values; the second is repeated until it has as many as the first."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        new = in_lanes_of(context, builder, args[1], b, Lanes(b.count, a.element))
        other = picked(builder, new, new, [k % b.count for k in range(a.count)])
        return picked(builder, args[0], other, range(2 * a.count))

    return Lanes(2 * a.count, a.element)(a, b), codegen


@instructions(simd.total)
def _total(context: Any, values: Any) -> Any:
    """Return the sum of lanes, by halves."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        found, width = args[0], values.count
        while width > 1:
            width //= 2
            halves = (picked(builder, found, found, range(start, start + width)) for start in (0, width))
            found = builder.fadd(*halves, flags=PLAIN_FLAGS)
        return builder.extract_element(found, LANE_INDEX(0))

    return values.element(values), codegen


@instructions(simd.totals)
def _totals(context: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Return the sums of four values of 4 or 8 lanes, each by halves as in `sum_of`, in four lanes."""
    to = Lanes(4, a.element)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        def added(one: Any, other: Any, low: list[int], high: list[int]) -> Any:
            halves = (picked(builder, one, other, places) for places in (low, high))
            return builder.fadd(*halves, flags=PLAIN_FLAGS)

        halves = args if a.count == 4 else [added(one, one, [0, 1, 2, 3], [4, 5, 6, 7]) for one in args]
        first, second = (added(halves[k], halves[k + 1], [0, 1, 4, 5], [2, 3, 6, 7]) for k in (0, 2))
        return added(first, second, [0, 2, 4, 6], [1, 3, 5, 7])

    return to(a, b, c, d), codegen


@instructions(simd.whole_power)
def _whole_power(context: Any, x: Any) -> Any:
    """Return the integer n nearest to x, and 2^n, for a number or lanes."""
    both = types.UniTuple(x, 2)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = args[0].type
        whole = ir.VectorType(ir.IntType(64), kind.count) if isinstance(kind, ir.VectorType) else ir.IntType(64)
        magic = in_every_lane(kind, ROUNDER)
        moved = builder.fadd(args[0], magic, flags=PLAIN_FLAGS)  # with no other flag, which would take the sum back
        n = builder.fsub(moved, magic, flags=PLAIN_FLAGS)
        power = builder.bitcast(builder.shl(builder.bitcast(moved, whole), in_every_lane(whole, 52)), kind)
        return context.make_tuple(builder, both, [n, power])

    return both(x), codegen


@instructions(simd.rough_log2)
def _rough_log2(context: Any, x: Any) -> Any:
    """2^-20 times the first 32 bits of a double, less 1023: its logarithm, or nearly."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = args[0].type
        whole = ir.VectorType(ir.IntType(64), kind.count) if isinstance(kind, ir.VectorType) else ir.IntType(64)
        first = builder.lshr(builder.bitcast(args[0], whole), in_every_lane(whole, 32))
        moved = builder.bitcast(builder.or_(first, in_every_lane(whole, 0x4330 << 48)), kind)  # 2^52 and as much
        bits = builder.fsub(moved, in_every_lane(kind, 2.0**52), flags=PLAIN_FLAGS)
        scaled = builder.fmul(bits, in_every_lane(kind, 2.0**-20), flags=PLAIN_FLAGS)
        return builder.fsub(scaled, in_every_lane(kind, 1023.0), flags=PLAIN_FLAGS)

    return x(x), codegen


register_helpers(simd.lane_exponential, simd.small_expm1, simd.near_one, simd.lane_log_one_plus, simd.log_of_ratio)
register_helpers(simd.log_of_small_ratio, simd.decay, simd.repeated, *FORMULAS)
