"""Engines of several levels in parallel: every level is merged, or learned in shards, as an ensemble of its own."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from fiol.components.row import Floats
from fiol.components.table_basis import TableBasis
from fiol.engine.centering import less
from fiol.engine.ensemble.newton_stack_engine import NewtonStackEngine
from fiol.engine.kept_rows import NO_KEPT_ROWS, joined_rows, last_of_shards
from fiol.engine.level_knots import at_knots, with_known_sizes
from fiol.engine.levels_engine import LevelsEngine, keep_last
from fiol.engine.parallel.merge import mean, members_of, merge_engines
from fiol.engine.parallel.shards import lanes_alone, losses_along, merge_of, pooled_means, scores_of_members
from fiol.features.basis import NO_CODE, ColumnBasis
from fiol.features.basis_extension import SlotKnots, united_knots
from fiol.features.chunk import Chunk


def merge_levels(engines: Sequence[LevelsEngine], share: Floats, base: float) -> LevelsEngine:
    """Return the mean of engines of several levels, level by level; ValueError if their columns or pairs differ.

    Knots are those of all, so that curves are means of curves. An engine that has not found its knots yet gets those of
    the others. If none has, the first rows of all are joined.
    """
    new, known = engines[0].copy(), next((engine for engine in engines if engine.basis is not None), None)
    if known is None:
        new.replace(levels=(merge_engines([engine.levels[0] for engine in engines], share, base),))  # type: ignore[arg-type]
        kept, needed = joined_rows(engine.storage.kept for engine in engines), int(new.options.rows)
        new.replace(kept=kept.first(needed))
        if kept.rows >= needed:
            new.find_basis()
    else:
        aligned, basis = aligned_levels(engines, known)
        together = zip(*(engine.levels for engine in aligned), strict=True)
        levels = tuple(merge_engines(levels, share, base) for levels in together)
        inherited = [mine.basis.inherited for mine in aligned]  # type: ignore[union-attr]
        size = max(map(len, inherited))
        each = [np.append(one, np.zeros(size - len(one))) for one in inherited]
        new.replace(levels=levels, basis=basis._replace(inherited=mean(each, share)), kept=NO_KEPT_ROWS)
    t = float(new.levels[0].rounds)
    first, *others = map(stack_with_losses, engines)
    new.replace(stack=first.merged(others, share, t))
    return new


def stack_with_losses(engine: LevelsEngine) -> NewtonStackEngine:
    """Return a copy of the stack, with the losses of the engine's scores: those of level 1 until knots are found."""
    stack = engine.stack.copy()
    if engine.basis is None:
        stack.state.losses[0] = stack.state.losses[1]
    return stack


def aligned_levels(engines: Sequence[LevelsEngine], known: LevelsEngine) -> tuple[list[LevelsEngine], ColumnBasis]:
    """Return copies of engines whose levels have the same features, and the basis of these; `known` is one of them.

    Knots are those of all engines; one that has not found its knots yet gets those of `known`. ValueError if columns or
    pairs differ.
    """
    assert known.basis is not None
    parts = [with_basis(engine, known.basis) if engine.basis is None else engine for engine in engines]
    bases: list[Any] = [engine.basis for engine in parts]
    for k, basis in enumerate(bases):
        check_same_columns(k, known.options, bases[0], basis)
    knots, aligned, codes = united_knots(known.options, bases), list[LevelsEngine](), known.basis.codes
    for engine in parts:
        engine, codes = with_codes(with_other_knots(engine, knots), codes)
        aligned.append(engine)
    refined = np.max([basis.refined for basis in bases], axis=0)
    return aligned, aligned[0].basis._replace(codes=codes, refined=refined)  # type: ignore[union-attr]


def with_basis(engine: LevelsEngine, basis: ColumnBasis) -> LevelsEngine:
    """Return a copy with a basis whose features are all known, in which hats and nodes have not been seen."""
    new, codes = engine.copy(), np.full(int(basis.known[0]), NO_CODE, np.int32)
    levels = [new.levels[0], *(new.levels[0].copy() for _ in range(1, new.options.levels))]
    own = basis._replace(codes=codes, inherited=np.empty(0))
    new.replace(levels=with_known_sizes(levels, own), basis=own, kept=NO_KEPT_ROWS)
    return new


def with_other_knots(engine: LevelsEngine, slots: Sequence[SlotKnots]) -> LevelsEngine:
    """Return a copy with other knots, see `at_knots`."""
    new = engine.copy()
    assert new.basis is not None
    new.set_levels(at_knots(new.levels, new.basis, slots))
    return new


class LevelsMerge:
    """A merge of engines of several levels that went on from a base, level by level; see `ShardMerge`.

    Losses and steps are those of the members of all levels, one after the other.

    Parameters
    ----------
    base : an engine that has found its knots; ValueError otherwise.
    """

    def __init__(self, base: LevelsEngine, engines: Sequence[LevelsEngine]) -> None:
        if base.basis is None:
            raise ValueError(
                f"a model with curves and pairs finds its knots from the first {int(base.options.rows)} rows: let the "
                "base learn from them before its copies learn apart"
            )
        (self.base, *shards), basis = aligned_levels([base, *engines], base)
        window = self.base.window
        last = last_of_shards([shard.storage.kept for shard in shards], window)
        self.base.replace(basis=basis, kept=joined_rows([self.base.storage.kept, last]).last(window))
        features = len(basis.codes)
        for engine in (self.base, *shards):
            for k, level in enumerate(engine.levels):
                level.grow(features + basis.added[k])
        together = list(zip(*(shard.levels for shard in shards), strict=True))
        centered = [level.centering for level in self.base.levels]
        self.means = [
            None if own is None else pooled_means(own, [level.centering for level in levels])
            for own, levels in zip(centered, together, strict=True)
        ]
        pairs = zip(self.base.levels, together, strict=True)
        self.merges = [merge_of(level, levels) for level, levels in pairs]

    def with_levels(self, levels: Sequence[Any]) -> LevelsEngine:
        """Return a copy of the base with other levels."""
        new = self.base.copy()
        new.replace(levels=tuple(levels))
        return new

    def full(self) -> LevelsEngine:
        """Return the engine after the full step of all levels."""
        return self.with_levels([merge.full() for merge in self.merges])

    def finish(self, losses: Floats) -> tuple[LevelsEngine, Floats]:
        """Return the merged engine, given the losses of all rows; and the step of every member of every level."""
        parts = np.split(losses, len(self.merges))
        each = zip(self.merges, parts, self.means, strict=True)
        found = [merge.finish(np.ascontiguousarray(part), means) for merge, part, means in each]
        return self.with_levels([level for level, _ in found]), np.concatenate([steps for _, steps in found])


def level_losses(
    base: LevelsEngine, full: LevelsEngine, chunk: Chunk, y: Any, sample_weights: Floats, parts: int
) -> Floats:
    """Return `losses_along` of the members of all levels, one after the other."""
    levels = zip(base.levels, full.levels, base.expanded(chunk), strict=True)
    return np.concatenate([losses_along(own, its, rows, y, sample_weights, parts) for own, its, rows in levels])


def level_scores(engine: LevelsEngine, chunk: Chunk) -> Floats:
    """Return the scores of rows by the members of all levels, one after the other, and then by the levels."""
    found = list[Floats]()
    for level, rows in zip(engine.levels, engine.expanded(chunk), strict=True):
        members = [] if lanes_alone(level) else members_of(level)
        found.append(scores_of_members(level, members, rows))
    return np.concatenate([*found, engine.scores_of_levels(chunk)], axis=-1)


def teach_stacks(engine: LevelsEngine, rows: int, Z: Floats, y: Any, sample_weights: Floats) -> None:
    """Let the stacks of all levels, and that of their scores, learn from `level_scores` of a sample of `rows` rows.

    This ends a round: columns are looked at if it is time, by the last rows of the shards.
    """
    count = len(engine.levels)
    y = less(y, engine.origin)
    *members, levels = np.split(Z, np.cumsum([(Z.shape[-1] - count) // count] * count), axis=-1)
    for level, part in zip(engine.levels, members, strict=True):
        level.stack.learn_sample(level.call, rows, np.ascontiguousarray(part), y, sample_weights)
    engine.stack.learn_sample(engine.call, rows, np.ascontiguousarray(levels), y, sample_weights)
    engine.rows_until_look()


def check_same_columns(k: int, options: TableBasis, expected: ColumnBasis, found: ColumnBasis) -> None:
    """Raise ValueError unless two bases have the same columns, pairs and points of categories.

    So have copies of one learner, which may have added knots since.
    """
    categories = expected.numeric == 0
    names = "numeric", "period", "left", "right"
    same = all(np.array_equal(getattr(expected, name), getattr(found, name)) for name in names)
    if not same or not np.array_equal(expected.points[categories], found.points[categories]):
        rows, more = int(options.rows), int(options.rows + options.choice_rows)
        raise ValueError(
            f"learners[{k}] has other columns or pairs: merge learners that are copies of one learner, which has found "
            f"its knots (after {rows:,} rows), and chosen pairs if there are more than {int(options.max_pairs):,} "
            f"(after {more:,} rows)"
        )


def with_codes(engine: LevelsEngine, codes: Any) -> tuple[LevelsEngine, Any]:
    """Return an engine whose values of categories have these codes, and the codes with those of its other values."""
    basis: Any = engine.basis
    own, codes = basis.codes, codes.copy()
    points = [np.arange(count) for count in basis.points.tolist()]  # of every slot, the new point of each point
    slots = basis.slots_of(engine.roles_for(len(codes)))[: len(codes)]
    for s in np.flatnonzero(basis.numeric == 0).tolist():
        mine = np.flatnonzero(slots == s)
        new = mine[(codes[mine] == NO_CODE) & (own[mine] != NO_CODE)]
        taken = int(codes[mine].max(initial=NO_CODE)) + 1
        codes[new] = np.minimum(taken + np.arange(len(new)), basis.points[s] - 1)
        seen = mine[own[mine] != NO_CODE]
        points[s] = completed_places(own[seen], codes[seen], int(basis.points[s]))
    return with_points(engine, points, codes), codes


def with_points(engine: LevelsEngine, points: Sequence[Any], codes: Any) -> LevelsEngine:
    """Return a copy in which points[s][k] is the point of slot s that was point k, and these are the codes."""
    new, basis = engine.copy(), engine.basis
    assert basis is not None
    if len(engine.levels) > 2 and any((own != np.arange(len(own))).any() for own in points):
        size = len(basis.codes) + basis.added[2]
        where, start = np.arange(size), int(basis.known[0]) + basis.hats
        for a, b in zip(basis.left.tolist(), basis.right.tolist(), strict=True):
            own = points[a][:, None] * basis.points[b] + points[b]
            where[start : start + own.size] = start + own.ravel()
            start += own.size
        new.replace(levels=(*new.levels[:2], engine.levels[2].placed(where, size)))
        places = where[int(basis.known[0]) :][: len(basis.inherited)] - int(basis.known[0])
        basis = basis._replace(inherited=basis.inherited[np.argsort(places)])
    new.replace(basis=basis._replace(codes=codes))
    return new


def completed_places(before: Any, after: Any, size: int) -> Any:
    """Return a permutation that takes before[k] to after[k], for the first k of those with one place; the rest follow.

    >>> completed_places(np.array([0, 1]), np.array([2, 0]), 4)
    array([2, 0, 1, 3])
    """
    found, free = np.full(size, -1), np.ones(size, bool)
    for old, new in zip(before.tolist(), after.tolist(), strict=True):
        if found[old] < 0 and free[new]:
            found[old], free[new] = new, False
    found[found < 0] = np.flatnonzero(free)
    return found


def learn_levels_in_rounds(
    engine: LevelsEngine, chunk: Chunk, y: Any, sample_weights: Floats, parts: int, each: Any
) -> tuple[LevelsEngine, Floats]:
    """Return an engine that has learned from the rows, each round of each level in shards; and the scores before.

    Between rounds columns are looked at, as between the rows of a stream.
    """
    from fiol.engine.parallel.rounds import learn_round, round_ends
    from fiol.engine.parallel.shards import ShardMemory

    scores = np.zeros((chunk.rows, *engine.trailing))
    first, *ends = round_ends(chunk.rows, engine.rows)
    if engine.basis is None:  # one engine finds it
        first = min(chunk.rows, max(first, int(engine.options.rows) - engine.storage.kept.rows))
    rows = slice(0, first)
    scores[rows] = engine.learn(chunk.row_block(0, first), y[rows], sample_weights[rows])
    while (
        engine.basis is not None and engine.basis.undecided and first < chunk.rows
    ):  # pairs are judged by rows in order
        last = min(chunk.rows, first + int(engine.basis.check[0]) - engine.rounds + 1)
        rows, first = slice(first, last), last
        scores[rows] = engine.learn(chunk.row_block(rows.start, last), y[rows], sample_weights[rows])
    ends = [end for end in ends if end > first]
    memories = [ShardMemory() for _ in range(engine.options.levels)]
    for start, stop in pairwise([first, *ends]):
        block = chunk.row_block(start, stop)
        engine.rows_until_look()
        engine.add_codes(block)
        cuts = np.linspace(0, stop - start, min(parts, stop - start) + 1).astype(int)
        targets, weights = y[start:stop], sample_weights[start:stop]
        Z, levels = np.zeros((stop - start, *engine.trailing, engine.options.levels)), list[Any]()
        for k, (level, its_rows) in enumerate(zip(engine.levels, engine.expanded(block), strict=True)):
            level.fit_in(its_rows)
            pieces = [(its_rows.row_block(a, b), targets[a:b], weights[a:b]) for a, b in pairwise(cuts)]
            new, Z[..., k] = learn_round(level, pieces, each, memories[k])
            levels.append(new)
        engine.replace(levels=tuple(levels))
        origin = engine.origin
        scores[start:stop] = engine.stack.learn(engine.call, Z - origin, less(targets, origin), weights) + origin
        keep_last(engine, block, targets)
    return engine, scores
