"""The merge of engines by weighted means, in proportion to the rows that each learned from.

With the rows n_k of engine k and its share c_k = n_k / (n_1 + n_2 + ...), every number v of the merged engine is the
sum of c_k v_k, but for the largest values that step sizes keep, which are the largest, and for the rows, which add up.
The result does not depend on the order of merges.

The clock is such a mean, too, and counts whole rounds: `Uncounted` keeps the rest of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import floor
from typing import Any

import numpy as np

from fiol.algorithms.plan import Plan
from fiol.algorithms.state import START, Clock, State, Uncounted, realigned
from fiol.components.row import Floats
from fiol.engine.centering import (
    NO_FIRST,
    NO_TARGETS,
    NO_WINDOW,
    Centering,
    after_first,
    joined_targets,
    none_missing,
    united_windows,
)
from fiol.engine.engine import Engine
from fiol.engine.ensemble.engine import EnsembleEngine
from fiol.engine.first_rows import WINDOW
from fiol.engine.levels_engine import LevelsEngine
from fiol.engine.update_engine import UpdateEngine

#: A mean of clocks so near to half a round is rounded as the half: by how it was added up, it may lie on either side.
TIE = 1e-6


def shares_of(weights: Sequence[float] | None, rows: Sequence[float], base: float = 0.0) -> Floats:
    """Return the shares of merged learners, in proportion to `weights`, by default to the rows beyond the base's.

    All are equal if there are no such rows.

    >>> shares_of(None, [30, 10]), shares_of(None, [30, 10], base=10), shares_of([1e308, 1e308], [30, 10])
    (array([0.75, 0.25]), array([1., 0.]), array([0.5, 0.5]))
    """
    for k, n in enumerate(rows):
        if n < base:
            raise ValueError(f"learners[{k}] has learned from {n} rows, base from {base}: it did not go on from there")
    try:
        share = np.asarray(rows if weights is None else weights, np.float64)
    except (TypeError, ValueError, OverflowError):  # no numbers, or an int beyond the largest double
        share = np.empty(0)
    if share.shape != (len(rows),) or not np.isfinite(share).all() or (share < 0.0).any():
        raise ValueError(f"weights must be one number of at least 0 per learner, got {weights!r}")
    if weights is None:
        share = share - base
    if not share.any():
        if weights is not None:
            raise ValueError("weights must not all be 0")
        share = np.ones(len(rows))
    share = share / share.max()  # their sum may be beyond the largest number
    return share / share.sum()


def merge_engines(engines: Sequence[Engine], share: Floats, base: float = 0.0) -> Engine:
    """Return the mean, with these shares, of engines with one plan, features and scores, each up to date.

    Its rows are the `base`'s and those that each engine has beyond them. Features that any engine centers are centered
    by the mean of the means; the records of engines that do not center them are left out. The origin of targets is the
    mean of the origins: intercepts are means, too, so the scores of an update, and of every member of an ensemble, are
    means of scores. So they are for missing values of centered columns (`engine.indicators`); one that no engine has
    seen still counts as the mean, unless its column is centered by some of the engines only, in which case it has to
    have a feature.

    With anchors that keep all rounds the sums are means, and weights are those of the mean sums: scores are means only
    as far as weights are, and the intercept changes so that this holds at the means of centered columns. Sums of
    features are left out where their records are. A missing value that no engine has seen always counts as the mean.
    """
    if isinstance(engines[0], LevelsEngine):
        from fiol.engine.parallel.levels import merge_levels  # which merges levels by this function

        return merge_levels(engines, share, base)  # type: ignore[arg-type]
    if engines[0].centering is None:
        return mean_engine(engines, share, base)
    counted = [(engine, c) for engine, c in zip(engines, share, strict=True) if c > 0.0]
    known: list[Any] = [engine.centering for engine, _ in counted]
    features = np.unique(np.concatenate([one.features for one in known])).astype(np.int32)
    means, parts = np.zeros((len(counted), len(features))), np.zeros((len(counted), len(features)))
    for k, (_, c) in enumerate(counted):
        places = np.searchsorted(features, known[k].features)
        means[k, places], parts[k, places] = known[k].means, c
    pooled = np.sum(parts * means, axis=0) / np.where(parts.any(axis=0), parts.sum(axis=0), 1.0)
    change = sum(c * products_with(engine, features, pooled - m) for (engine, c), m in zip(counted, means, strict=True))
    for (engine, _), part in zip(counted, parts, strict=True):
        change_members(engine, partial(forget_values, features=features[part == 0.0]))
    missing = missing_of(engines[0], features)
    seen = np.any(
        [weighed_places(member.state.w, missing) for engine, _ in counted for member in members_of(engine)], axis=0
    )
    new = mean_engine(engines, share, base)
    move_means(new, missing, seen | (parts == 0.0).any(axis=0), change, subtracted_means(features, pooled, missing))
    known_means = merged_means(known, features, pooled, float(new.rows))
    origin = sum(c * one.origin[0] for (_, c), one in zip(counted, known, strict=True))
    number, targets = joined_targets(known) if known_means.watches else (1.0, NO_TARGETS)
    new.replace(centering=known_means._replace(origin=np.array([origin, number]), targets=targets))
    new.set_means(new.centering)  # type: ignore[arg-type] # the window may end
    return new


def merged_means(known: list[Centering], features: Any, means: Floats, rows: float) -> Centering:
    """Return the centering of a merged engine after this many rows."""
    if len(known) == 1:
        return known[0]
    far = np.max([one.far for one in known], axis=0)  # with rows of a stream among them, means may move
    if len(features) or any(not one.watches for one in known):
        rows = max(rows, WINDOW)
        widths = np.zeros(len(features))
        for one in known:
            places = np.searchsorted(features, one.features)
            widths[places] = np.maximum(widths[places], one.widths)
        return known[0]._replace(
            so_far=np.array([rows]),
            window=NO_WINDOW,
            first=NO_FIRST,
            features=features,
            sums=means * rows,
            widths=widths,
            far=far,
            missing=none_missing(len(features)),
        )
    return after_first(united_windows(known), sum(one.rows for one in known), far)


def members_of(engine: Engine) -> list[UpdateEngine]:
    """Return the engines that hold weights: those of an ensemble's members, or the engine itself."""
    return engine.members if isinstance(engine, EnsembleEngine) else [engine]  # type: ignore[list-item]


def products_with(engine: Engine, features: Any, values: Floats) -> Any:
    """Return [member, 2, feature]: values of features times their weights, and times the averages of these.

    With a joint loss they have the scores as a last axis. Weights of features that do not pass a gate count as 0.
    """
    n, passing = int(features[-1]) + 1 if len(features) else 0, passing_of(engine, features)
    both = [[member.weights(n, averaged)[features] for averaged in (False, True)] for member in members_of(engine)]
    return np.array([[(np.where(passing, values, 0.0) * w.T).T for w in pair] for pair in both])


def passing_of(engine: Engine, features: Any) -> Any:
    """Return which features pass the gate of an ensemble; all without one."""
    if isinstance(engine, EnsembleEngine):
        return engine.members_in_use.passing(np.ascontiguousarray(features, np.int32))
    return np.ones(len(features), bool)


def missing_of(engine: Engine, features: Any) -> Any:
    """Return the indicators of missing values of features, -1 without one."""
    missing, indicators = none_missing(len(features)), engine.indicators
    if indicators is not None:
        known = features < len(indicators)
        missing[known] = indicators[features[known]]
    return missing


def weighed_places(w: Any, places: Any) -> Any:
    """Return which places of an array of weights, [feature] or [feature, ...], have one other than 0."""
    there = (places >= 0) & (places < len(w))
    there[there] = np.any(np.atleast_2d(w[places[there]].T != 0.0), axis=0)
    return there


def subtracted_means(features: Any, means: Floats, places: Any) -> Floats:
    """Return the means that are subtracted from features at these places; 0 for others, and for a place of -1.

    >>> subtracted_means(np.array([2, 5]), np.array([0.5, 300.0]), np.array([5, -1, 3, 2]))
    array([300. ,   0. ,   0. ,   0.5])
    """
    found, there = np.zeros(len(places)), np.isin(places, features)
    found[there] = means[np.searchsorted(features, places[there])]
    return found


def move_means(engine: Engine, missing: Any, changed: Any, change: Any, means: Floats) -> None:
    """Let members keep their scores where means change, whose products with weights have this `change`.

    The intercepts get it, and the weights of missing values lose it: there the mean is in the score without the change.
    Missing values may be centered themselves, by these new `means`: the intercepts make up for what rows without a
    missing value gain by that.
    Those that are not to be `changed` count as the mean, whatever that is. A gate opens for those that change; other
    members may have weights there, which did not count before.
    """
    each, opened = iter(change), changed & ~passing_of(engine, missing)
    opened &= np.any(change[-1, 0], axis=tuple(range(1, change.ndim - 2)))  # the gate is the last member

    def move(member: UpdateEngine) -> None:
        by_weight, by_average = next(each)
        there = changed & (missing >= 0) & (missing < len(member.state.w))
        if there.any():
            member.state.w[missing[there & opened]] = member.fresh.w[0]
            there[there] = member.add_to_weights(missing[there], -by_weight[there], -by_average[there])
        part = 1.0 - np.where(there, means, 0.0)
        member.shift(part @ by_weight, part @ by_average)

    change_members(engine, move)


def change_members(engine: Engine, change: Callable[[UpdateEngine], None]) -> None:
    """Apply `change` to every engine that holds weights."""
    members = members_of(engine)
    for member in members:
        change(member)
    if isinstance(engine, EnsembleEngine):
        engine.members = members


def forget_values(engine: UpdateEngine, features: Any) -> None:
    """Reset the records of these features, and weights that follow from sums: records tell what a sum weighs."""
    if len(features):
        engine.state.statistics[features] = engine.fresh.statistics[0]
        if engine.plan.anchor.keeps_all_rounds:
            engine.state.w[features] = engine.fresh.w[0]


def mean_engine(engines: Sequence[Engine], share: Floats, base: float) -> Engine:
    """Return the mean of engines whose rows are centered alike, or not at all."""
    if isinstance(engines[0], EnsembleEngine):
        return merge_ensembles(engines, share, base)  # type: ignore[arg-type]
    return mean_of_updates(engines, share, base)  # type: ignore[arg-type]


def mean_of_updates(engines: Sequence[UpdateEngine], share: Floats, base: float) -> UpdateEngine:
    """Return the mean of engines of one update."""
    new = engines[0].copy()
    clocks = [Clock(*engine.ticks) for engine in engines]
    rounds = [clock.t + Uncounted(*engine.uncounted).rounds for clock, engine in zip(clocks, engines, strict=True)]
    exact = float(mean(rounds, share))
    t = whole_rounds(exact)
    eta = new.plan.step_size.eta(max(t, 1.0))
    ticks = np.array(START._replace(t=t, eta=eta, slopes=mean([clock.slopes for clock in clocks], share)))
    rows = base + sum(engine.rows - base for engine in engines)
    new.replace(
        ticks=ticks,
        uncounted=np.array(Uncounted(rows - t, exact - t)),
        state=mean_state(new.call, new.plan, [(e.state, e.ticks) for e in engines], share, ticks),
        fresh=mean_state(new.call, new.plan, [(e.fresh, e.ticks) for e in engines], share, ticks),
        intercept=mean_state(
            new.call_for_intercept, new.intercept_plan, [(e.intercept, e.ticks) for e in engines], share, ticks
        ),
    )
    return new


def merge_ensembles(engines: Sequence[EnsembleEngine], share: Floats, base: float) -> EnsembleEngine:
    """Return the mean of engines of one ensemble, member by member; so are their stacks."""
    new = engines[0].copy()
    together = zip(*(engine.members for engine in engines), strict=True)
    members = [mean_of_updates(members, share, base) for members in together]
    stack = new.stack.merged([engine.stack for engine in engines[1:]], share, float(members[0].rounds))
    new.replace(members=new.members_in_use.with_engines(members), stack=stack)
    return new


def mean_state(
    call: Callable[..., Any], plan: Plan, states: list[tuple[State, Any]], share: Floats, ticks: Any
) -> State:
    """Return the mean of states that are up to date, each with its clock, for an engine with the clock `ticks`.

    An average over rounds becomes the mean of averages, however many rounds each is over. Kernels are called by `call`.
    """
    from fiol.engine.round.reading import read_weights, store_weights  # imported here: `import fiol` loads no compiler

    w = mean([state.w for state, _ in states], share)
    found = State(*(realigned(a) for a in states[0][0]))
    found.statistics[...] = plan.step_size.merged([state.statistics.astype(np.float64) for state, _ in states], share)
    if found.total.shape[0]:
        averages = [np.empty(state.w.shape) for state, _ in states]
        for (state, its_ticks), out in zip(states, averages, strict=True):
            call(read_weights, plan, state, its_ticks, True, out)
        found.total[...] = mean(averages, share) * ticks[0]
    call(store_weights, plan, found, ticks, w)
    return found


def mean(values: Sequence[Any], share: Floats) -> Any:
    """Return the sum of share times value, in float64; a value without a share does not count, whatever it is."""
    return sum(c * np.asarray(v, np.float64) for c, v in zip(share, values, strict=True) if c > 0.0)


def whole_rounds(exact: float) -> float:
    """Return a mean of clocks as whole rounds: the nearest number, even in a tie; at least 1 if there was a round.

    >>> [whole_rounds(t) for t in (0.0, 0.1, 1.4, 2.5, 2.4999999999, 3.5000000001, 3.6)]
    [0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0]
    """
    half = floor(exact) + 0.5
    t = float(round(half if abs(exact - half) < TIE else exact))
    return max(t, 1.0) if exact > 0.0 else t
