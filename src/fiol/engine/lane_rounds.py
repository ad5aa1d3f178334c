"""The rounds of an ensemble whose members are all lanes, but for a gate: those of members and stack, row by row."""

from __future__ import annotations

from fiol.compiler.compiled import inlined_strictly, jit
from fiol.components.component import borrowed
from fiol.components.lanes import both_lanes, first_lanes, lanes, second_of_both, smaller, with_lane
from fiol.components.step_sizes import LARGEST_SUM
from fiol.engine.lane_stack import begin_stack_row, end_stack_row, stack_start
from fiol.engine.lanes import begin_lane_row, end_lane_row, fetch_row, lane_root, read_lane_row


@inlined_strictly
def stacked_round(stack, loss, zero, four, digits, members, feature, x, y, weight, said, r, held, state, room):  # type: ignore[no-untyped-def]
    """A round of members in lanes and of their stack; returns the score of the whole before it.

    `said` has the scores of the last member, the gate, with that of the row at place r; or it is None. The roots of
    members and stacks are found together, in one vector: a root waits for itself most of its time.
    """
    like, quad, row = lanes(zero), lanes(four), read_lane_row(zero, feature, x, held)
    z = row.z
    if said is not None:
        z = with_lane(z, members - 1, said[r])
    mixed = begin_stack_row(stack, loss, zero, four, z, y, weight, members, state, room)
    begun = begin_lane_row(loss, zero, digits, feature, x, y, weight, held, row)
    s, p, doubt, reach = stack_start(four, mixed)
    start = (
        both_lanes(begun.q, s),
        both_lanes(weight * begun.p, p),
        both_lanes(begun.doubt, doubt),
        both_lanes(begun.stride, reach),
    )
    pulls, bends = lane_root(loss, both_lanes(like, quad), *start, y, 1.0, room.spare)
    beta, bend = weight * first_lanes(pulls, like), smaller(weight * first_lanes(bends, like), LARGEST_SUM)
    end_lane_row(loss, zero, digits, feature, x, y, weight, held, begun, beta, bend)
    root, h = second_of_both(pulls, quad), second_of_both(bends, quad)
    end_stack_row(stack, loss, zero, four, z, y, weight, members, state, room, mixed, root, h)
    return mixed.score


@jit
def learn_stacked_rows(stack, loss, zero, four, digits, members, chunk, y, weight, said, held, state, room, scores):  # type: ignore[no-untyped-def]
    """A `stacked_round` for every row; writes the score before each. `said` are the scores of the gate, or None."""
    (indptr, indices, data), y, weight, scores = borrowed(chunk), borrowed(y), borrowed(weight), borrowed(scores)
    stack, said, held, state, room = borrowed(stack), borrowed(said), borrowed(held), borrowed(state), borrowed(room)
    parts = stack, loss, zero, four, digits, members
    for r in range(y.shape[0]):
        first, last = indptr[r], indptr[r + 1]
        if r + 1 < y.shape[0]:
            fetch_row(indices, last, indptr[r + 2], held.records, held.vectors, len(zero))
        row = indices[first:last], data[first:last], y[r], weight[r], said, r
        scores[r] = stacked_round(*parts, *row, held, state, room)
