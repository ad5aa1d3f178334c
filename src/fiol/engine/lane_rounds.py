"""The rounds of an ensemble whose members are all lanes, but for a gate: those of members and stack, row by row."""

from __future__ import annotations

from fiol.compiler.compiled import inlined_strictly, jit
from fiol.components.component import borrowed
from fiol.components.lanes import lanes, with_lane
from fiol.engine.lane_stack import begin_stack_row, end_stack_row, stack_root
from fiol.engine.lanes import begin_lane_row, end_lane_row, fetch_row, lane_root


@inlined_strictly
def stacked_round(stack, loss, zero, four, digits, members, feature, x, y, weight, said, held, state, room):  # type: ignore[no-untyped-def]
    """A round of members in lanes and of their stack; returns the score of the whole before it.

    `said` has the score of the last member, the gate, or is empty. The roots of both stand side by side: neither waits
    for the other, and a root waits for itself most of its time.
    """
    begun = begin_lane_row(loss, zero, digits, feature, x, y, weight, held)
    z = begun.z
    if said.shape[0] > 0:
        z = with_lane(z, members - 1, said[0])
    mixed = begin_stack_row(stack, loss, zero, four, z, y, weight, members, state, room)
    start = begun.q, begun.p, begun.doubt, begun.stride
    beta, bend = lane_root(loss, lanes(zero), *start, y, weight, held.spare)
    if mixed.goes_on:
        root, h = stack_root(loss, four, mixed, y, room)
        end_lane_row(loss, zero, digits, feature, x, y, weight, held, begun, beta, bend)
        end_stack_row(stack, loss, zero, four, y, members, state, room, mixed, root, h)
    else:
        end_lane_row(loss, zero, digits, feature, x, y, weight, held, begun, beta, bend)
    return mixed.score


@jit
def learn_stacked_rows(stack, loss, zero, four, digits, members, chunk, y, weight, said, held, state, room, scores):  # type: ignore[no-untyped-def]
    """A `stacked_round` for every row; writes the score before each. `said` are the scores of the gate, if any."""
    (indptr, indices, data), y, weight, scores = borrowed(chunk), borrowed(y), borrowed(weight), borrowed(scores)
    stack, said, held, state, room = borrowed(stack), borrowed(said), borrowed(held), borrowed(state), borrowed(room)
    parts = stack, loss, zero, four, digits, members
    for r in range(y.shape[0]):
        first, last = indptr[r], indptr[r + 1]
        if r + 1 < y.shape[0]:
            fetch_row(indices, last, indptr[r + 2], held.records, held.vectors, len(zero))
        row = indices[first:last], data[first:last], y[r], weight[r], said[r : r + 1]
        scores[r] = stacked_round(*parts, *row, held, state, room)
