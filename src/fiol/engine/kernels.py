"""The compiled loops over rows. A kernel calls only components' methods and other kernels."""

from __future__ import annotations

import numpy as np

from fiol.compiler.compiled import borrowed, inlined, jit, prefetch
from fiol.components.component import at, begun, ended, entry, put, scores_of
from fiol.components.row import Room
from fiol.update.state import Clock, Sums

#: The intercept as a row of its own: feature 0 with value 1.
ZERO = np.zeros(1, np.int32)
ONE = np.ones(1)
#: So many rows before its turn, a row in random order is asked for.
AHEAD = 4


# --- one exact step ---------------------------------------------------------------------------


@jit
def step_row(problem, row, out):  # type: ignore[no-untyped-def]
    """Solve one row into `out`; return beta, new score, passes, residual, and how far a unit of pull can reach."""
    beta, z, passes = problem.step(row, out)
    reach, _ = problem.start(row)
    return beta, z, passes, problem.residual(row, beta, z), row.weight * reach


@jit
def settle(problem, w, eta, out):  # type: ignore[no-untyped-def]
    """What a round does to weights whose feature is absent."""
    for i in range(w.shape[0]):
        out[i] = problem.geometry.weight(problem.regularizer, w[i], 0.0, 0.0, eta, i)


# --- streams ----------------------------------------------------------------------------------


@inlined
def clock_from(ticks):  # type: ignore[no-untyped-def]
    """The clock, as it is kept between calls."""
    return Clock(ticks[0], ticks[1], ticks[2], ticks[3], ticks[4], ticks[5])


@inlined
def clock_into(ticks, clock):  # type: ignore[no-untyped-def]
    """Keep the clock until the next call."""
    ticks[0], ticks[1], ticks[2] = clock.t, clock.eta, clock.scale
    ticks[3], ticks[4], ticks[5] = clock.shrunk, clock.path, clock.slopes


@inlined
def uses_of(space):  # type: ignore[no-untyped-def]
    """Working space by its uses. With many scores most of them waste some, for the sake of one array."""
    if space.ndim == 2:
        return Room(space[0], space[1], space[2], space[3], space[4], space[5], space[6:], 0.0, 0.0, 0.0)
    size, last = space.shape[1] * space.shape[2], space.shape[0] - 1
    step, before, passed = space[3].reshape(size), space[4].reshape(size), space[5].reshape(size)
    records, rest = space[6:last].reshape((last - 6, size)), space[last]
    return Room(space[0], space[1], space[2], step, before, passed, records, rest[0], rest[1], rest[2])


@inlined
def rooms(space):  # type: ignore[no-untyped-def]
    """Working space for one row, as an array has it between calls."""
    return uses_of(borrowed(space))


@inlined
def begin(plan, state, feature, x, eta, clock, room, z):  # type: ignore[no-untyped-def]
    """Bring the weights of a row up to date, and add their score to z."""
    plan.step_size.collect(feature, state.statistics, room)
    if state.total.shape[0] > 0:
        for j in range(x.shape[0]):
            i = np.uint64(np.uint32(feature[j]))
            k = 0
            while True:
                put(state.total, i, k, entry(state.total, i, k) + plan.laziness.missed(plan, state, i, k, clock))
                k += 1
                if k == scores_of(state.w):
                    break
    return plan.anchor.gather(plan, state, feature, x, eta, clock, room, z)


@inlined
def centers(plan, state, feature, x, square, eta, room):  # type: ignore[no-untyped-def]
    """The steps of a row's weights, and where their paths start."""
    steps = plan.step_size.steps(x, square, eta, room)
    start = plan.anchor.centers_of_row(plan, state, feature, room.w[: x.shape[0]], steps, eta, room)
    return steps, start


@inlined
def remember(plan, state, feature, x, beta, room, clock):  # type: ignore[no-untyped-def]
    """Keep what the round did to a row's weights."""
    plan.step_size.store(feature, state.statistics, room)
    plan.anchor.finish(plan, state, feature, x, beta, room.new, clock)
    if state.total.shape[0] > 0 and not plan.laziness.everywhere:
        for j in range(x.shape[0]):
            i = np.uint64(np.uint32(feature[j]))
            k = 0
            while True:
                put(state.total, i, k, entry(state.total, i, k) + entry(room.new, j, k))

                k += 1
                if k == scores_of(state.w):
                    break


@inlined
def learn_row(plan, bias_plan, feature, x, y, weight, state, bias, clock, room, bias_room):  # type: ignore[no-untyped-def]
    """One round; returns the score before it, and the clock after it. `bias` is the intercept's state, or empty.

    The numbers are those of docs/streams.md. A score is a number, or an array where there are many.
    """
    # 1. Read the weights of the row's features, and their score.
    eta = plan.step_size.eta(clock.t + 1.0)
    clock = plan.laziness.before_round(plan, state, clock, eta)
    own = begun(bias_room.z, 0.0)
    if bias.w.shape[0] > 0:
        own = begin(bias_plan, bias, ZERO, ONE, eta, clock, bias_room, own)
    z = ended(begin(plan, state, feature, x, eta, clock, room, begun(room.z, own)), own)
    plan.laziness.visit_all(plan, state, eta, clock)
    # 2. Give every feature its step: `square` times x^2 is what its squared gradient counts.
    square = plan.step_size.square_slope(plan.problem.loss, z, y)
    slopes = clock.slopes + square
    unit = plan.step_size.square_unit(plan.problem.loss, slopes, clock.t + 1.0)
    square *= weight * weight * plan.step_size.square_length(x, 1.0 * bias.w.shape[0], room)
    square = square / unit if unit > 0.0 else 0.0
    if bias.w.shape[0] > 0:
        plan.laziness.visit_all(bias_plan, bias, eta, clock)
        bias_steps, bias_start = centers(bias_plan, bias, ZERO, ONE, square, eta, bias_room)
        lift, shift = at(bias_steps, 0), bias_start[0]
    else:
        lift, shift = 0.0, begun(bias_room.score, 0.0)
    steps, start = centers(plan, state, feature, x, square, eta, room)
    # 3. Find beta, and with it the new weights of the row's features.
    rounds = plan.anchor.rounds(plan, clock.t + 1.0)
    row = plan.problem.row(feature, x, start, steps, y, weight, rounds, lift, shift, z, room)
    beta, _ = plan.loss_step.pull(plan.problem, row, z, room.new[: x.shape[0]])
    # 4. Let every other feature meet the regularizer: the clock says what it missed when somebody looks at it.
    clock = Clock(clock.t, clock.eta, clock.scale, clock.shrunk, clock.path, slopes)
    after = plan.laziness.after_round(plan, state, feature, plan.laziness.tick(plan, clock, eta))
    remember(plan, state, feature, x, beta, room, after)
    if bias.w.shape[0] > 0:
        k = 0
        while True:
            put(bias_room.new, 0, k, at(shift, k) + lift * at(beta, k))
            k += 1
            if k == scores_of(bias.w):
                break
        remember(bias_plan, bias, ZERO, ONE, beta, bias_room, after)
    plan.laziness.add_totals(plan, state, after)
    return z, after


@jit
def learn_rows(plan, bias_plan, chunk, order, y, weight, state, bias, ticks, room, bias_room, scores):  # type: ignore[no-untyped-def]
    """A round for every row, in `order` unless that is empty; writes the scores before each."""
    (indptr, indices, data), order, y, weight = borrowed(chunk), borrowed(order), borrowed(y), borrowed(weight)
    state, bias, room, bias_room = borrowed(state), borrowed(bias), rooms(room), rooms(bias_room)
    clock = clock_from(ticks)
    shuffled = order.shape[0] > 0
    for turn in range(order.shape[0] if shuffled else y.shape[0]):
        if shuffled and turn + 2 * AHEAD < order.shape[0]:
            prefetch(indptr, order[turn + 2 * AHEAD])
            soon = order[turn + AHEAD]
            prefetch(y, soon)
            prefetch(weight, soon)
            prefetch(indices, indptr[soon])
            prefetch(data, indptr[soon])
            prefetch(data, indptr[soon] + 8)
        r = order[turn] if shuffled else turn
        first, last = indptr[r], indptr[r + 1]
        feature, x = indices[first:last], data[first:last]
        z, clock = learn_row(plan, bias_plan, feature, x, y[r], weight[r], state, bias, clock, room, bias_room)
        k = 0
        while True:
            put(scores, r, k, at(z, k))
            k += 1
            if k == scores_of(scores):
                break
    clock_into(ticks, clock)


@jit
def learn_one_row(  # type: ignore[no-untyped-def]
    plan, bias_plan, feature, x, y, weight, state, bias, ticks, room, bias_room, features, low, high, heaviest
):
    """A round for one row that nobody has looked at: returns whether it is in order, and its score.

    Out of order is whatever needs a second look: indices that do not rise or have no place yet, values that
    are 0 or out of range, a target or weight that may be wrong. Then nothing has happened.
    """
    feature, x, state, bias = borrowed(feature), borrowed(x), borrowed(state), borrowed(bias)
    room, bias_room, n = rooms(room), rooms(bias_room), x.shape[0]
    fine = feature.shape[0] == n and n <= room.w.shape[0]
    fine &= abs(y) <= high and 0.0 <= weight <= heaviest and plan.problem.loss.accepts(y)
    if not fine:
        return False, 0.0
    last = -1
    for k in range(n):
        fine &= feature[k] > last and low <= abs(x[k]) <= high
        last = feature[k]
    if not fine or last >= min(features, state.w.shape[0]):
        return False, 0.0
    clock = clock_from(ticks)
    z, clock = learn_row(plan, bias_plan, feature, x, y, weight, state, bias, clock, room, bias_room)
    clock_into(ticks, clock)
    return True, z


@jit
def predict_all(loss, scores):  # type: ignore[no-untyped-def]
    """What each score says, in place."""
    for r in range(scores.shape[0]):
        scores[r] = loss.predict(scores[r])


@jit
def total_loss(loss, scores, order, y, weight):  # type: ignore[no-untyped-def]
    """The weighted sum of the losses of all scores, or of those that `order` names, and that of the weights.

    A score is a number, or a row of them where there is one per class.
    """
    total = mass = 0.0
    for k in range(order.shape[0] if order.shape[0] > 0 else y.shape[0]):
        r = order[k] if order.shape[0] > 0 else k
        total += weight[r] * loss.value(scores[r], y[r])
        mass += weight[r]
    return total, mass


@inlined
def value_of(plan, state, i, k, clock):  # type: ignore[no-untyped-def]
    """The weight of feature i for score k, or its average over all rounds if that is kept."""
    if state.total.shape[0] > 0 and clock.t > 0.0:
        return (entry(state.total, i, k) + plan.laziness.missed(plan, state, i, k, clock)) / clock.t
    return plan.anchor.weight_of_score(plan, state, i, k, clock)


@jit
def score_rows(plan, bias_plan, chunk, state, bias, fresh, ticks, linear, scores):  # type: ignore[no-untyped-def]
    """The scores of rows; `fresh` stands for features that have no place in the state yet.

    Weights are ready for the row's values as before learning from it, unless scores are to be linear in these.
    """
    (indptr, indices, data), state, bias, fresh = borrowed(chunk), borrowed(state), borrowed(bias), borrowed(fresh)
    clock = clock_from(ticks)
    shift = value_of(bias_plan, bias, np.uint64(0), 0, clock) if bias.w.shape[0] > 0 else 0.0
    unseen = value_of(plan, fresh, np.uint64(0), 0, clock)
    for r in range(scores.shape[0]):
        z = 0.0
        for k in range(indptr[r], indptr[r + 1]):
            i = np.uint64(np.uint32(indices[k]))
            if i < state.w.shape[0]:
                w = value_of(plan, state, i, 0, clock)
                z += data[k] * (w if linear else plan.anchor.weight_for_value(plan, state, i, data[k], w))
            else:
                z += data[k] * unseen
        scores[r] = z + shift


@jit
def score_rows_of_many(plan, bias_plan, chunk, state, bias, fresh, ticks, linear, scores):  # type: ignore[no-untyped-def]
    """`score_rows` of many scores; the intercepts come first, and what a feature's weights share is found once."""
    (indptr, indices, data), state, bias, fresh = borrowed(chunk), borrowed(state), borrowed(bias), borrowed(fresh)
    clock, shift, unseen = clock_from(ticks), np.zeros(scores.shape[1]), np.zeros(scores.shape[1])
    plain = linear and state.total.shape[0] == 0
    for k in range(scores.shape[1]):
        if bias.w.shape[0] > 0:
            shift[k] = value_of(bias_plan, bias, np.uint64(0), k, clock)
        unseen[k] = value_of(plan, fresh, np.uint64(0), k, clock)
    for r in range(scores.shape[0]):
        for k in range(scores.shape[1]):
            scores[r, k] = shift[k]
        for j in range(indptr[r], indptr[r + 1]):
            i = np.uint64(np.uint32(indices[j]))
            if i >= state.w.shape[0]:
                for k in range(scores.shape[1]):
                    scores[r, k] += data[j] * unseen[k]
            elif plain:
                factor = data[j] * plan.anchor.shared_factor(plan, state, i, clock)
                for k in range(scores.shape[1]):
                    scores[r, k] += plan.anchor.weight_times(plan, state, i, k, clock, factor)
            else:
                for k in range(scores.shape[1]):
                    w = value_of(plan, state, i, k, clock)
                    w = w if linear else plan.anchor.weight_for_value(plan, state, i, data[j], w)
                    scores[r, k] += data[j] * w


@jit
def read_weights(plan, state, ticks, averaged, out):  # type: ignore[no-untyped-def]
    """All weights, or all averages, without changing the state."""
    clock = clock_from(ticks)
    for i in range(np.uint64(out.shape[0])):
        k = 0
        while True:
            if averaged:
                put(out, i, k, value_of(plan, state, i, k, clock))
            else:
                put(out, i, k, plan.anchor.weight_of_score(plan, state, i, k, clock))

            k += 1
            if k == scores_of(out):
                break


@jit
def settle_all(plan, state, ticks):  # type: ignore[no-untyped-def]
    """Bring every weight up to date."""
    clock = plan.laziness.settled(plan, state, clock_from(ticks))
    clock_into(ticks, clock)


@jit
def store_weights(plan, state, ticks, w):  # type: ignore[no-untyped-def]
    """Take over weights that are up to date."""
    clock = clock_from(ticks)
    for i in range(np.uint64(w.shape[0])):
        k = 0
        while True:
            plan.laziness.keep(plan, state, i, k, entry(w, i, k), clock)
            k += 1
            if k == scores_of(w):
                break
        plan.laziness.set_mark(state, i, clock)


# --- accounts ---------------------------------------------------------------------------------

#: The end of weights that are not in the books.
NOT_BOOKED = -1.0
#: So many ends a round may be looked at to see which are near.
ENTRIES = 32.0


@inlined
def sit(books, k, i, key):  # type: ignore[no-untyped-def]
    """Put feature i in place k of the heap."""
    books.queue[k] = i
    books.key[k] = key
    books.seat[i] = k


@inlined
def sift_up(books, k, i, key):  # type: ignore[no-untyped-def]
    """Put feature i into the heap, starting at place k, which is free."""
    while k > 0 and key < books.key[(k - 1) // 2]:
        up = (k - 1) // 2
        sit(books, k, books.queue[up], books.key[up])
        k = up
    sit(books, k, i, key)


@inlined
def sift_down(books, i, key):  # type: ignore[no-untyped-def]
    """Put feature i into the heap, whose first place is free."""
    k, waiting = 0, books.waiting[0]
    while 2 * k + 1 < waiting:
        down = 2 * k + 1
        if down + 1 < waiting and books.key[down + 1] < books.key[down]:
            down += 1
        if key <= books.key[down]:
            break
        sit(books, k, books.queue[down], books.key[down])
        k = down
    sit(books, k, i, key)


@inlined
def drop_first(books):  # type: ignore[no-untyped-def]
    """Take the first feature out of the heap."""
    books.seat[books.queue[0]] = -1
    books.waiting[0] -= 1
    last = books.waiting[0]
    if last > 0:
        sift_down(books, books.queue[last], books.key[last])


@inlined
def queue_up(books, i, end):  # type: ignore[no-untyped-def]
    """Let feature i come up at `end` at the latest."""
    if books.seat[i] < 0:
        books.waiting[0] += 1
        sift_up(books, books.waiting[0] - 1, i, end)
    elif end < books.key[books.seat[i]]:
        sift_up(books, books.seat[i], i, end)


@inlined
def look_ahead(books, near):  # type: ignore[no-untyped-def]
    """Let all features come up whose end is before `near`."""
    books.near[0] = near
    for i in range(np.uint64(books.end.shape[0])):
        if 0.0 <= books.end[i] < near:
            queue_up(books, i, books.end[i])


@inlined
def rate_of(plan, state, i):  # type: ignore[no-untyped-def]
    """What an absent weight loses per unit of `clock.shrunk`."""
    l1 = plan.regularizer.l1(i)
    return l1 * plan.step_of(state, i, 1.0) if l1 > 0.0 else 0.0


@inlined
def add_to(sums, times, u, rate, along):  # type: ignore[no-untyped-def]
    """Add a weight to the sums (`times` = 1), or take it away (-1)."""
    return Sums(
        sums.number + times,
        sums.size + times * u,
        sums.rate + times * rate,
        sums.square + times * u * u,
        sums.fall + times * rate * u,
        sums.rate_square + times * rate * rate,
        sums.along + times * along * u,
        sums.rate_along + times * along * rate,
    )


@inlined
def book(books, sums, i, w, rate, clock):  # type: ignore[no-untyped-def]
    """Enter weight i, whose feature is absent from now on."""
    if w == 0.0:
        return sums
    u = abs(w) / clock.scale
    books.end[i] = np.inf
    if rate > 0.0:
        end = clock.shrunk + u / rate
        books.end[i] = end
        if end < books.near[0]:
            queue_up(books, i, end)
    return add_to(sums, 1.0, u, rate, books.best[i] if w > 0.0 else -books.best[i])


@inlined
def unbook(books, sums, i, u, positive, rate):  # type: ignore[no-untyped-def]
    """Take weight i out. The books, not the last bit of the weight, know whether it is in them."""
    if books.end[i] < 0.0:
        return sums
    books.end[i] = NOT_BOOKED
    return add_to(sums, -1.0, u, rate, books.best[i] if positive else -books.best[i])


@inlined
def open_books(plan, state, books, clock):  # type: ignore[no-untyped-def]
    """The sums over all weights, from nothing."""
    sums = Sums(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    books.end[:] = NOT_BOOKED
    books.seat[:] = -1
    books.waiting[0] = 0
    books.near[0] = 0.0
    for i in range(np.uint64(state.w.shape[0])):
        w = plan.anchor.weight_of_feature(plan, state, i, clock)
        sums = book(books, sums, i, w, rate_of(plan, state, i), clock)
    return sums


@inlined
def pass_round(plan, state, books, sums, clock, after):  # type: ignore[no-untyped-def]
    """A round of all absent weights: the sums after it, and the sum of (w_new - w)^2."""
    moved, more = 0.0, after.shrunk - clock.shrunk
    if after.shrunk >= books.near[0] and more > 0.0:
        look_ahead(books, after.shrunk + more * max(16.0, books.end.shape[0] / ENTRIES))
    while books.waiting[0] > 0 and books.key[0] <= after.shrunk:
        i = books.queue[0]
        end = books.end[i]
        if end > after.shrunk:
            sift_down(books, i, end)  # the key was too early
            continue
        drop_first(books)
        if end >= 0.0:
            rate = rate_of(plan, state, i)
            u = rate * (end - clock.shrunk)
            sums = unbook(books, sums, i, u, state.w[i] > 0.0, rate)
            moved += (clock.scale * u) * (clock.scale * u)
    lost = clock.scale - after.scale
    taken = after.scale * more
    moved += lost * lost * sums.square + 2.0 * lost * taken * sums.fall + taken * taken * sums.rate_square
    return moved, Sums(
        sums.number,
        sums.size - more * sums.rate,
        sums.rate,
        sums.square + more * (more * sums.rate_square - 2.0 * sums.fall),
        sums.fall - more * sums.rate_square,
        sums.rate_square,
        sums.along - more * sums.rate_along,
        sums.rate_along,
    )


@jit
def account_rows(  # type: ignore[no-untyped-def]
    plan,
    bias_plan,
    chunk,
    y,
    weight,
    state,
    bias,
    ticks,
    room,
    bias_room,
    books,
    l1,
    l2,
    far,
    bias_best,
    stale,
    scores,
    out,
):
    """`learn_rows` with an account of every round, at a cost that hardly depends on the number of features.

    For the last iterate in Euclidean geometry, with a penalty l1 |w| + l2 w^2 / 2. The columns of `out` are those of
    `fiol.regret.accounting.COLUMNS`. `far` is the comparator's square; `stale` says, coming in and going out, that the
    books have to be opened anew.
    """
    (indptr, indices, data), y, weight = borrowed(chunk), borrowed(y), borrowed(weight)
    state, bias, room, bias_room = borrowed(state), borrowed(bias), rooms(room), rooms(bias_room)
    books = borrowed(books)
    loss, clock, zero, kept = plan.problem.loss, clock_from(ticks), np.uint64(0), books.sums
    sums = Sums(kept[0], kept[1], kept[2], kept[3], kept[4], kept[5], kept[6], kept[7])
    for r in range(y.shape[0]):
        first, last = indptr[r], indptr[r + 1]
        feature, x, h = indices[first:last], data[first:last], weight[r]
        eta = plan.step_size.eta(clock.t + 1.0)
        ready = plan.laziness.ahead(plan, state, clock, eta)
        if stale or ready.scale != clock.scale:
            sums = open_books(plan, state, books, ready)
        clock = ready
        # The weights of the row leave the books.
        for k in range(x.shape[0]):
            i = np.uint64(np.uint32(feature[k]))
            w = plan.anchor.weight_of_feature(plan, state, i, clock)
            sums = unbook(books, sums, i, abs(w) / clock.scale, state.w[i] > 0.0, rate_of(plan, state, i))
            books.before[k] = plan.anchor.ready(plan, state, i, x[k], w)
        old_bias = bias_plan.anchor.weight_of_feature(bias_plan, bias, zero, clock) if bias.w.shape[0] > 0 else 0.0
        # What the others say, before the round and after it.
        scale = clock.scale
        penalty = scale * (l1 * sums.size + 0.5 * l2 * scale * sums.square)
        norm = l1 * l1 * sums.number + l2 * scale * (2.0 * l1 * sums.size + l2 * scale * sums.square)
        distance = far + scale * (scale * sums.square - 2.0 * sums.along)
        z, new = learn_row(plan, bias_plan, feature, x, y[r], h, state, bias, clock, room, bias_room)
        after = plan.laziness.tick(plan, clock, eta)
        moved, sums = pass_round(plan, state, books, sums, clock, after)
        penalty_after = after.scale * (l1 * sums.size + 0.5 * l2 * after.scale * sums.square)
        # What the row's own weights say.
        slope = h * loss.grad(z, y[r])
        bent = z_after = z_best = square = 0.0
        for k in range(x.shape[0]):
            i = np.uint64(np.uint32(feature[k]))
            old, best = books.before[k], books.best[i]
            w = plan.anchor.weight_of_feature(plan, state, i, new)
            sign = 1.0 * (old > 0.0) - 1.0 * (old < 0.0)
            pull = slope * x[k] + (l1 * sign + l2 * old)
            penalty += l1 * abs(old) + 0.5 * l2 * old * old
            penalty_after += l1 * abs(w) + 0.5 * l2 * w * w
            bent += abs(w) - sign * w  # |w| - |old| - sign (w - old)
            moved += (w - old) * (w - old)
            norm += pull * pull
            distance += (best - old) * (best - old) - best * best
            square += x[k] * x[k]
            z_after += x[k] * w
            z_best += x[k] * best
            sums = book(books, sums, i, w, rate_of(plan, state, i), after)
        if bias.w.shape[0] > 0:
            z_after += bias_plan.anchor.weight_of_feature(bias_plan, bias, zero, new)
            z_best += bias_best
            square += 1.0
            norm += slope * slope
            distance += (bias_best - old_bias) * (bias_best - old_bias)
        stale = new.scale != after.scale
        if sums.number == 0.0:  # nothing is left: neither is rounding
            sums = Sums(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        clock = new
        value, value_after = h * loss.value(z, y[r]), h * loss.value(z_after, y[r])
        improvement = (value_after - value - slope * (z_after - z)) + l1 * bent + 0.5 * l2 * moved
        scores[r] = z
        out[r, 0], out[r, 1], out[r, 2], out[r, 3] = value, penalty, improvement, np.sqrt(norm)
        out[r, 4], out[r, 5], out[r, 6], out[r, 7] = 0.5 * distance, sums.number, value_after, penalty_after
        out[r, 8], out[r, 9], out[r, 10], out[r, 11] = abs(slope), square, h * loss.value(z_best, y[r]), h
    kept[0], kept[1], kept[2], kept[3] = sums.number, sums.size, sums.rate, sums.square
    kept[4], kept[5], kept[6], kept[7] = sums.fall, sums.rate_square, sums.along, sums.rate_along
    clock_into(ticks, clock)
    return stale
