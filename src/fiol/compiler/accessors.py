"""Compiled forms of the helpers of `fiol.components.component`, which depend on the types of their arguments."""

from __future__ import annotations

from typing import Any

from fiol.compiler.instructions import (
    argument,
    constant,
    field_of,
    indexed_place,
    instructions,
    load_entry,
    store_entry,
    sum_type,
)
from fiol.compiler.numba_names import cgutils, impl_ret_borrowed, ir, overload, types
from fiol.compiler.options import METHOD
from fiol.components.component import (
    InPlace,
    add_to_score,
    choose_row_storage,
    common_factor,
    count_scores,
    get_center,
    get_first_weights,
    get_row_weight,
    get_weight,
    next_score,
    own_factor,
    score_after_row,
    score_before_row,
    set_row_weight,
    set_score,
    set_weight,
    value_at,
    weights_of_score,
    zero_score,
)


def is_array(kind: Any) -> bool:
    """Return whether a type is that of arrays."""
    return isinstance(kind, types.Array)


def number_of(kinds: Any, array: Any, place: int) -> Any:
    """Return signature and code of a function that returns the entry of an array at an index that is not negative."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        index = context.cast(builder, values[place], signature.args[place], types.intp)
        return load_entry(context, builder, array, values[0], [(types.uintp, index)])

    return array.dtype(*kinds), codegen


@instructions(value_at)
def _value_at(context: Any, values: Any, i: Any) -> Any:
    return number_of((values, i), values, 1) if is_array(values) else argument((values, i), 0)


@instructions(common_factor)
def _common_factor(context: Any, values: Any) -> Any:
    return constant((values,), types.float64, 1.0) if is_array(values) else argument((values,), 0)


@instructions(own_factor)
def _own_factor(context: Any, values: Any, k: Any) -> Any:
    return number_of((values, k), values, 1) if is_array(values) else constant((values, k), types.float64, 1.0)


@instructions(count_scores)
def _count_scores(context: Any, w: Any) -> Any:
    if w.ndim == 1:
        return constant((w,), types.intp, 1)

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.extract_value(field_of(context, builder, w, values[0], "shape"), 1)

    return types.intp(w), codegen


@instructions(next_score)
def _next_score(context: Any, w: Any, k: Any) -> Any:
    if w.ndim == 1:
        return constant((w, k), types.intp, 1)

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        index = context.cast(builder, values[1], signature.args[1], types.intp)
        return builder.add(index, index.type(1), flags=["nsw"])

    return types.intp(w, k), codegen


def of_weights(context: Any, builder: Any, w: Any, indices: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return the indices of a weight, feature and score: the feature's alone in a vector; no score is negative."""
    (feature, score) = indices
    if w.ndim == 1:
        return [feature]
    return [feature, (types.uintp, context.cast(builder, score[1], score[0], types.intp))]


def weight_read(kinds: Any, w: Any, places: tuple[int, int], whose: Any = None) -> Any:
    """Return signature and code of reading a weight: the array is `w`, or `whose(builder, values)`."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        array = values[0] if whose is None else whose(builder, values)
        indices = of_weights(context, builder, w, [(signature.args[p], values[p]) for p in places])
        return load_entry(context, builder, w, array, indices)

    return w.dtype(*kinds), codegen


def weight_written(kinds: Any, w: Any, places: tuple[int, int], whose: Any = None) -> Any:
    """Return signature and code of storing the last argument as a weight, see `weight_read`."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        array = values[0] if whose is None else whose(builder, values)
        indices = of_weights(context, builder, w, [(signature.args[p], values[p]) for p in places])
        return store_entry(context, builder, w, array, indices, (signature.args[-1], values[-1]))

    return types.void(*kinds), codegen


@instructions(get_weight)
def _get_weight(context: Any, w: Any, i: Any, k: Any) -> Any:
    return weight_read((w, i, k), w, (1, 2))


@instructions(set_weight)
def _set_weight(context: Any, w: Any, i: Any, k: Any, value: Any) -> Any:
    return weight_written((w, i, k, value), w, (1, 2))


def in_place(kind: Any) -> bool:
    """Return whether a type is that of `InPlace`."""
    return isinstance(kind, types.BaseTuple)


@instructions(get_row_weight)
def _get_row_weight(context: Any, weights: Any, i: Any, j: Any, k: Any) -> Any:
    kinds = weights, i, j, k
    if in_place(weights):
        return weight_read(kinds, weights.types[0], (1, 3), lambda builder, values: builder.extract_value(values[0], 0))
    return weight_read(kinds, weights, (2, 3))


@instructions(set_row_weight)
def _set_row_weight(context: Any, weights: Any, i: Any, j: Any, k: Any, value: Any) -> Any:
    kinds = weights, i, j, k, value
    if in_place(weights):
        whose = lambda builder, values: builder.extract_value(values[0], 0)  # noqa: E731
        return weight_written(kinds, weights.types[0], (1, 3), whose)
    return weight_written(kinds, weights, (2, 3))


@instructions(get_center)
def _get_center(context: Any, center: Any, new: Any, i: Any, j: Any, k: Any) -> Any:
    kinds = center, new, i, j, k
    if not in_place(center):
        return weight_read(kinds, center, (3, 4))
    if in_place(new):
        return weight_read(kinds, new.types[0], (2, 4), lambda builder, values: builder.extract_value(values[1], 0))
    return weight_read(kinds, new, (3, 4), lambda builder, values: values[1])


@instructions(set_score)
def _set_score(context: Any, scores: Any, r: Any, z: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        if scores.ndim > 1:
            return context.get_dummy_value()
        index = signature.args[1], values[1]
        return store_entry(context, builder, scores, values[0], [index], (signature.args[2], values[2]))

    return types.void(scores, r, z), codegen


@instructions(add_to_score)
def _add_to_score(context: Any, z: Any, k: Any, value: Any) -> Any:
    result = z if is_array(z) else sum_type(context, z, value)

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        if not is_array(z):
            terms = (context.cast(builder, values[p], signature.args[p], result) for p in (0, 2))
            return builder.fadd(*terms)
        index = [(types.uintp, context.cast(builder, values[1], signature.args[1], types.intp))]
        place, _, _ = indexed_place(context, builder, z, values[0], index)
        added = context.cast(builder, values[2], signature.args[2], z.dtype)
        builder.store(builder.fadd(builder.load(place), added), place)
        return impl_ret_borrowed(context, builder, z, values[0])

    return result(z, k, value), codegen


@instructions(score_before_row)
def _score_before_row(context: Any, intercept: Any) -> Any:
    return argument((intercept,), 0) if is_array(intercept) else constant((intercept,), types.float64, 0.0)


@instructions(score_after_row)
def _score_after_row(context: Any, z: Any, intercept: Any) -> Any:
    if is_array(z):
        return argument((z, intercept), 0)
    result = sum_type(context, z, intercept)

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.fadd(*(context.cast(builder, values[p], signature.args[p], result) for p in (0, 1)))

    return result(z, intercept), codegen


@instructions(zero_score)
def _zero_score(context: Any, z: Any) -> Any:
    if not is_array(z):
        return constant((z,), types.float64, 0.0)

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        size = builder.extract_value(field_of(context, builder, z, values[0], "shape"), 0)
        with cgutils.for_range(builder, size) as loop:
            zero = types.float64, context.get_constant(types.float64, 0.0)
            store_entry(context, builder, z, values[0], [(types.uintp, loop.index)], zero)
        return impl_ret_borrowed(context, builder, z, values[0])

    return z(z), codegen


@instructions(choose_row_storage)
def _choose_row_storage(context: Any, lazy_update: Any, w: Any, buffer: Any) -> Any:
    kinds = lazy_update, w, buffer
    if w.ndim == 1 or not lazy_update.attribute("in_place"):
        return argument(kinds, 2)
    result = types.NamedTuple((w,), InPlace)

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return impl_ret_borrowed(context, builder, result, context.make_tuple(builder, result, [values[1]]))

    return result(*kinds), codegen


@instructions(weights_of_score)
def _weights_of_score(context: Any, w: Any, k: Any) -> Any:
    return argument((w, k), 0) if w.ndim == 1 else None


@overload(weights_of_score, strict=False, jit_options=METHOD)
def _column_of_weights(w: Any, k: Any) -> Any:
    return (lambda w, k: w[:, k]) if w.ndim == 2 else None


@instructions(get_first_weights)
def _get_first_weights(context: Any, weights: Any) -> Any:
    if in_place(weights) or weights.ndim > 1:
        return None

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        first = [(types.uintp, context.get_constant(types.intp, 0))]
        return load_entry(context, builder, weights, values[0], first)

    return weights.dtype(weights), codegen


@overload(get_first_weights, strict=False, jit_options=METHOD)
def _first_row_of_weights(weights: Any) -> Any:
    if in_place(weights):
        return lambda weights: weights.w[0]
    return (lambda weights: weights[0]) if weights.ndim == 2 else None


def prefetch(values: Any, i: Any) -> None:
    """Ask for values[i] to be in the cache soon. Rows in random order otherwise wait for memory one after the other."""


@instructions(prefetch)
def _prefetch(context: Any, values: Any, i: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        ask = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        index = context.cast(builder, arguments[1], signature.args[1], types.intp)
        place = builder.gep(field_of(context, builder, values, arguments[0], "data"), [index])
        builder.call(ask, [builder.bitcast(place, byte), word(0), word(3), word(1)])  # to read, into all caches, data
        return context.get_dummy_value()

    return types.void(values, i), codegen
