"""Rounds of an ensemble whose members all learn in SIMD lanes, but for a gate: members and stack, row by row."""

from __future__ import annotations

from fiol.compiler.compiled import inlined_strictly, jit
from fiol.components.component import borrowed
from fiol.components.simd import both_lanes, first_lanes, lanes, second_of_both, smaller, with_lane
from fiol.components.step_sizes.rule import LARGEST_SUM
from fiol.engine.ensemble.exact_root import root_in_lanes
from fiol.engine.ensemble.lane_records import prefetch_row
from fiol.engine.ensemble.lane_stack import finish_stacks, prepare_stacks, root_problem
from fiol.engine.ensemble.member_rounds import finish_members, prepare_members, read_members


@inlined_strictly
def ensemble_round(
    stack, loss, like, quad, digits, members, feature, x, y, weight, gate_scores, r, memory, state, buffers
):
    """Make a round of members in lanes and of their stack; return the score of the ensemble before it.

    `gate_scores` has the scores of the last member, the gate, with that of this row at place r; or it is None. The
    roots of members and stacks are found together, in one vector: most of the time of a root is latency.
    """
    # 1. Read the weights of the row's features, and the scores of all members.
    row = read_members(like, feature, x, memory)
    z = row.z
    if gate_scores is not None:
        z = with_lane(z, members - 1, gate_scores[r])
    # 2. Give every feature its step, and every stack.
    mixed = prepare_stacks(stack, loss, quad, z, y, weight, members, state, buffers)
    steps = prepare_members(loss, like, digits, feature, x, y, weight, memory, row)
    # 3. Find beta of every member and of every stack.
    s, p, tolerance, reach = root_problem(quad, mixed)
    q, p = both_lanes(steps.q, s), both_lanes(weight * steps.p, p)
    tolerance, reach = both_lanes(steps.tolerance, tolerance), both_lanes(steps.scale.step_scale, reach)
    roots, met = root_in_lanes(loss, both_lanes(like, quad), q, p, tolerance, reach, y, 1.0, buffers.spare)
    beta, curvature = weight * first_lanes(roots, like), smaller(weight * first_lanes(met, like), LARGEST_SUM)
    # 4. Move the weights of the members, and those of the stacks.
    finish_members(loss, like, digits, feature, x, y, weight, memory, steps, beta, curvature)
    root, curved = second_of_both(roots, quad), second_of_both(met, quad)
    finish_stacks(stack, loss, quad, z, y, weight, members, state, buffers, mixed, root, curved)
    return mixed.score


@jit
def learn_stacked_rows(
    stack, loss, zero, four, digits, members, chunk, y, weight, gate_scores, memory, state, buffers, scores
):
    """Make an `ensemble_round` for every row; write the score before each. `gate_scores` may be None."""
    (indptr, indices, data), y, weight = borrowed(chunk), borrowed(y), borrowed(weight)
    stack, gate_scores, memory = borrowed(stack), borrowed(gate_scores), borrowed(memory)
    state, buffers, scores = borrowed(state), borrowed(buffers), borrowed(scores)
    like, quad, digits = lanes(zero), lanes(four), lanes(digits)
    for r in range(y.shape[0]):
        first, last = indptr[r], indptr[r + 1]
        if r + 1 < y.shape[0]:
            prefetch_row(indices, last, indptr[r + 2], memory.records, memory.vectors, len(zero))
        feature, x = indices[first:last], data[first:last]
        scores[r] = ensemble_round(
            stack,
            loss,
            like,
            quad,
            digits,
            members,
            feature,
            x,
            y[r],
            weight[r],
            gate_scores,
            r,
            memory,
            state,
            buffers,
        )
