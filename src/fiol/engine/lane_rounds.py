"""The rounds of an ensemble whose members are all lanes: those of the members and of their stack, row by row."""

from __future__ import annotations

from fiol.compiler.compiled import jit
from fiol.components.component import borrowed
from fiol.engine.lane_stack import lane_stack_row
from fiol.engine.lanes import fetch_row, next_lane_row


@jit
def learn_stacked_rows(stack, loss, zero, four, digits, members, chunk, y, weight, held, state, room, scores):  # type: ignore[no-untyped-def]
    """`learn_lanes` and `lane_stack_rows` in one loop: writes the score of the whole before each row's round."""
    (indptr, indices, data), y, weight, scores = borrowed(chunk), borrowed(y), borrowed(weight), borrowed(scores)
    stack, held, state, room = borrowed(stack), borrowed(held), borrowed(state), borrowed(room)
    for r in range(y.shape[0]):
        first, last = indptr[r], indptr[r + 1]
        if r + 1 < y.shape[0]:
            fetch_row(indices, last, indptr[r + 2], held.records, held.vectors, len(zero))
        z = next_lane_row(loss, zero, digits, indices[first:last], data[first:last], y[r], weight[r], held)
        scores[r] = lane_stack_row(stack, loss, zero, four, z, y[r], weight[r], members, state, room)
