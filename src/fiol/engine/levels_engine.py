"""`LevelsEngine`: an ensemble at several levels of features (as they are, with curves, with pairs), and their stack."""

from __future__ import annotations

import contextlib
import copy
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fiol.algorithms.ensemble import Ensemble
from fiol.components.row import Floats
from fiol.engine.centering import Centering, less
from fiol.engine.engine import IN_ORDER, Engine
from fiol.engine.ensemble.engine import EnsembleEngine, Member
from fiol.engine.ensemble.newton_stack_engine import NewtonStackEngine, sum_of_products
from fiol.engine.ensemble.restacking import restacked
from fiol.engine.ensemble.stack_state import FROZEN, LAST, NEXT, T
from fiol.engine.kept_rows import NO_KEPT_ROWS, KeptRows, restored_rows
from fiol.engine.level_knots import Levels, extended, refined, with_known_sizes
from fiol.engine.level_rows import rows_for_levels
from fiol.engine.level_stack import stack_of_levels
from fiol.engine.single_row.fast_path import NO_FAST_PATH, FastPath
from fiol.engine.single_row.level_path import prepare_levels_path
from fiol.engine.update_engine import UpdateEngine
from fiol.features.basis import ColumnBasis, Expander, find_basis, next_check, pairs_that_fit
from fiol.features.basis_extension import extended_basis, with_pairs
from fiol.features.chunk import Chunk
from fiol.features.column_roles import NO_ROLE, Roles, columns_of_numbers
from fiol.features.missing_values import indicators_at_level, roles_with_never_seen
from fiol.features.numbered_rows import NumberedRow
from fiol.features.pair_choice import STRONG_PAIR, best_pairs, judged_pairs

#: The least unit of nodes of pairs that explain little: with these 16 times as large units, they learn slowly.
SIZE_OF_WEAK = 4.0
#: Entries of rows with all features that are made at a time.
EXPANDED_AT_ONCE = 2**20
#: Before the names of the arrays of each level.
PREFIXES = "", "curves/", "pairs/"


class LevelsStorage(NamedTuple):
    """Everything of a `LevelsEngine` that learning changes."""

    levels: Levels  #: the first alone until the basis is found
    stack: NewtonStackEngine
    basis: ColumnBasis | None
    kept: KeptRows  #: rows so far, until the basis is found; later the rows before columns are looked at again
    centering: None = None


class LevelsEngine(Engine):
    """An engine whose score is a linear combination of the scores of two or three levels.

    Rows come with features as they are. After the first rows the basis is found, and levels 2 and 3 begin as copies of
    level 1: what it has learned is what they would have, and hats and nodes begin at 0. From then on a row is learned
    from by every level, each with its own features, and then by the stack of their scores. All of it is one linear
    model of the features of the last level, which are those of all levels.
    """

    storage: LevelsStorage
    #: Whether this is a shard, which is merged with others before columns are looked at.
    is_shard: bool = False

    def __init__(self, ensemble: Ensemble, first: EnsembleEngine) -> None:
        super().__init__(first.plan, first.intercept_plan, first.compiled)
        assert ensemble.basis is not None
        self.ensemble, self.options = ensemble, ensemble.basis
        self.dtype, self.longest, self.limits = first.dtype, first.longest, first.limits
        stack = stack_of_levels(self.options.levels, first.plan.problem.loss, first.compiled)
        self.storage = LevelsStorage((first,), stack, None, NO_KEPT_ROWS)
        #: The columns of the features; None if every feature is a column of numbers.
        self.roles: Roles | None = None
        self.expander: Expander | None = None

    # --- levels and stack ---------------------------------------------------------------------

    @property
    def levels(self) -> Levels:
        """The engine of every level."""
        return self.storage.levels

    @property
    def stack(self) -> NewtonStackEngine:
        """The stack of the scores of all levels."""
        return self.storage.stack

    @property
    def basis(self) -> ColumnBasis | None:
        """Knots, points and pairs; None until they are found."""
        return self.storage.basis

    @property
    def members(self) -> list[UpdateEngine]:
        """The members of the last level, which has all features; copies."""
        return self.levels[-1].members

    @property
    def trailing(self) -> tuple[int, ...]:
        return self.levels[0].trailing

    @property
    def ticks(self) -> Any:
        return self.stack.ticks

    @property
    def rows(self) -> int:
        return self.levels[0].rows

    @property
    def nbytes(self) -> int:
        parts = [*self.levels, self.stack, self.storage.kept, *(() if self.basis is None else self.basis)]
        return sum(part.nbytes for part in parts)

    def roles_for(self, features: int) -> Roles:
        """Return the columns of at least this many features."""
        if self.roles is not None and self.roles.size < features and self.indicators is not None:
            return roles_with_never_seen(self.roles, self.indicators, features)
        return columns_of_numbers(features) if self.roles is None or self.roles.size < features else self.roles

    # --- missing values: see `fiol.engine.centering` ------------------------------------------

    def set_storage(self, storage: Any) -> None:
        super().set_storage(storage)
        self.set_indicators(self.indicators)

    def set_indicators(self, indicators: Any) -> None:
        self.indicators = indicators
        for k, level in enumerate(self.levels):
            level.set_indicators(None if indicators is None else indicators_at_level(indicators, self.basis, k))

    def watches_missing(self, row: NumberedRow) -> bool:
        return self.levels[0].watches_missing(row)

    # --- learning -----------------------------------------------------------------------------

    def make_place(self, features: int, longest: int) -> bool:
        return False  # levels allocate memory when they learn

    def learn_plainly(self, chunk: Chunk, y: Floats, sample_weights: Floats, order: Any = IN_ORDER) -> Floats:
        scores = np.zeros((chunk.rows, *self.trailing))
        if len(order):
            chosen = chunk.take(order), y[order], sample_weights[order]
            scores[order] = self.learn_plainly(*chosen)
            return scores
        start = 0
        if self.basis is None:
            start = min(chunk.rows, int(self.options.rows) - self.storage.kept.rows)
            done = 0
            while done < start:
                some = slice(done, min(start, done + self.levels[0].steady_rows))
                done = some.stop
                scores[some] = self.learn_first(chunk.row_block(some.start, done), y[some], sample_weights[some])
        while start < chunk.rows:
            rest = chunk.row_block(start, start + min(self.rows_until_look(), self.levels[0].steady_rows))
            for rows, block in self.in_blocks(rest):
                some = slice(start + rows.start, start + rows.stop)
                scores[some] = self.learn_piece(block, y[some], sample_weights[some])
            start += rest.rows
        return scores

    @property
    def origin(self) -> float:
        return self.levels[0].origin

    def rows_until_look(self) -> int:
        """Return how many rows can be learned from before columns are looked at; look at them now if it is time."""
        assert self.basis is not None
        if self.is_shard:
            return sys.maxsize
        if self.rounds >= self.basis.check[0]:
            self.look_again()
        return int(self.basis.check[0]) - self.rounds

    def begin_shard(self) -> None:
        """Let the merge of this shard with others look at columns, for which the last rows are kept."""
        self.is_shard = True
        if self.basis is not None:
            self.replace(kept=NO_KEPT_ROWS)

    def look_again(self) -> None:
        """Add knots for columns that have moved, or are no longer constant; judge pairs, refine knots if it is time."""
        basis: Any = self.basis
        kept, features = self.storage.kept, len(basis.codes)
        last = kept.chunk.row_block(max(kept.rows - int(self.options.rows), 0), kept.rows)
        roles = self.roles_for(features).first(features)
        found = extended_basis(self.options, basis, last, roles) if kept.rows else None
        if found is not None:
            self.set_levels(extended(self.levels, basis, found))
        if basis.undecided and kept.rows >= self.options.choice_rows:
            self.judge_pairs(roles)
        new: Any = self.basis
        new_rows = not self.ticks[FROZEN]  # rows that are learned from again tell nothing finer
        if new_rows and 0 < self.options.refine_rows <= self.rounds and not new.refined[0]:
            self.set_levels(refined(self.options, self.levels, new))
            new = self.basis
        kept = kept if new.undecided else NO_KEPT_ROWS
        check = next_check(self.rounds, self.options, new.undecided, kept.rows)
        self.replace(basis=new._replace(check=np.array([check], np.int64)), kept=kept)

    def judge_pairs(self, roles: Roles) -> None:
        """Choose pairs by the rows that were kept; if all are there, those that explain little learn slowly."""
        basis: Any = self.basis
        rows, targets = self.storage.kept
        scores = self.levels[1].scores(self.expanded(rows)[1])
        gains = judged_pairs(basis, roles, rows, self.plan.problem.loss, scores, targets)
        if not len(basis.left):
            found = with_pairs(basis, pairs_that_fit(self.options, basis.points, best_pairs(gains)))
            self.set_levels(extended(self.levels, basis, found))
            return
        level, end = self.levels[2].copy(), int(basis.known[0]) + basis.hats
        for left, right, nodes in zip(
            basis.left.tolist(), basis.right.tolist(), basis.node_counts.tolist(), strict=True
        ):
            end += nodes
            if gains.get((left, right), 0.0) < STRONG_PAIR:
                level.expect_values(slice(end - nodes, end), SIZE_OF_WEAK)
        decided = basis._replace(candidates=np.zeros_like(basis.candidates))
        self.replace(levels=(*self.levels[:2], level), basis=decided)

    @property
    def window(self) -> int:
        """The number of rows that are kept until columns are looked at."""
        undecided = self.basis is not None and self.basis.undecided
        return int(self.options.choice_rows if undecided else self.options.rows)

    def set_levels(self, found: tuple[Levels, ColumnBasis]) -> None:
        """Use levels with other knots or pairs, and their basis."""
        levels, basis = found
        self.replace(levels=levels, basis=basis)

    def learn_first(self, chunk: Chunk, y: Floats, sample_weights: Floats) -> Floats:
        """Learn from rows before the basis is found, and find it after the last of them."""
        scores = self.learn_levels(chunk, y, sample_weights)
        self.keep_rows(chunk, y)
        if self.storage.kept.rows >= self.options.rows:
            self.find_basis()
        return scores

    def find_basis(self) -> None:
        """Find the basis from the first rows, and begin the levels that use it."""
        rows, first = self.storage.kept.chunk, self.levels[0]
        known = int(rows.indices.max(initial=-1)) + 1
        roles = self.roles_for(known).first(known)
        columns = len(np.unique(roles.column[roles.role != NO_ROLE]))
        if columns > self.options.max_columns:
            text = f"{columns:,} columns are more than {int(self.options.max_columns):,}: there are no curves and pairs"
            warnings.warn(text, stacklevel=2)
        basis = find_basis(self.options, rows, roles)
        levels = with_known_sizes([first, *(first.copy() for _ in range(1, self.options.levels))], basis)
        self.replace(levels=levels, basis=basis, kept=NO_KEPT_ROWS)
        losses = self.stack.state.losses
        losses[0] = losses[1]  # scores so far were those of level 1

    def learn_piece(self, chunk: Chunk, y: Floats, sample_weights: Floats) -> Floats:
        """Learn from rows after the basis was found."""
        assert self.basis is not None
        self.add_codes(chunk)
        scores = self.learn_levels(chunk, y, sample_weights)
        keep_last(self, chunk, y)
        return scores

    def add_codes(self, chunk: Chunk) -> None:
        """Give points to the values of categories that are new in these rows."""
        assert self.basis is not None
        features = int(chunk.indices.max(initial=-1)) + 1
        if features > len(self.basis.codes):
            self.replace(basis=self.basis.with_codes(self.roles_for(features), features))

    def learn_levels(self, chunk: Chunk, y: Floats, sample_weights: Floats) -> Floats:
        """Make a round per row of every level and of the stack; an interrupt is raised after the last round.

        Until the basis is found, scores are those of level 1. The stack makes no rounds for rows whose scores an
        interrupt has lost. It learns from scores and targets less their origin, as the levels do.
        """
        before, waits = self.origin, self.levels[0].awaits_target
        Z = np.zeros((len(y), *self.trailing, self.options.levels))
        ends, last = [level.rounds + len(y) for level in self.levels], self.rounds + len(y)
        try:
            for k, (rows, given) in enumerate(rows_for_levels(self, chunk)):
                Z[..., k] = self.levels[k].learn(rows, y, sample_weights, less_origin=True, given=given)
            Z[..., len(self.levels) :] = Z[..., len(self.levels) - 1 :][..., :1]
            learned = less(y, self.origin if waits else before)
            if waits and self.origin:
                self.stack.add_first_loss(y, sample_weights)
            scores = self.stack.learn(self.call, Z, learned, sample_weights)
            return (Z[..., 0] if self.basis is None else scores) + before
        except KeyboardInterrupt:
            for level, rows, end in zip(self.levels, self.expanded(chunk), ends, strict=True):
                while level.rounds < end:
                    done = len(y) - (end - level.rounds)
                    with contextlib.suppress(KeyboardInterrupt):  # one more signal: the first is raised in the end
                        level.learn(rows.row_block(done, len(y)), y[done:], sample_weights[done:])
            self.ticks[[T, LAST, NEXT]] += last - self.rounds
            raise

    def expanded(self, chunk: Chunk, reuse: bool = False) -> list[Chunk]:
        """Return the rows with the features of every level; for `reuse` see `Expander.expanded`."""
        if self.basis is None:
            return [chunk]
        return [chunk, *self.expander_for(chunk).expanded(chunk, reuse)][: self.options.levels]

    def expander_for(self, chunk: Chunk) -> Expander:
        """Return what adds the features of levels to these rows."""
        assert self.basis is not None
        features = max(int(chunk.indices.max(initial=-1)) + 1, len(self.basis.codes))
        expander = self.expander
        if expander is None or not expander.fits(self.basis, features):
            roles = self.roles_for(features)
            self.expander = expander = Expander(self.basis, roles)
        return expander

    @property
    def row_cost(self) -> float:
        pairs = 0 if self.basis is None else 3 * len(self.basis.left) + 4 * len(self.basis.member)
        return sum(level.row_cost for level in self.levels) + pairs

    @contextlib.contextmanager
    def freeze_stack(self) -> Iterator[None]:
        with contextlib.ExitStack() as frozen:
            for level in self.levels:
                frozen.enter_context(level.freeze_stack())
            was, self.ticks[FROZEN] = self.ticks[FROZEN], 1.0
            try:
                yield
            finally:
                self.ticks[FROZEN] = was

    def restack(self, chunk: Chunk, y: Floats, sample_weights: Floats) -> Floats:
        """Let the stacks of all levels learn anew, and then that of their scores; see `Engine.restack`."""
        each = zip(self.levels, self.expanded(chunk), strict=True)
        Z = np.stack([level.restack(rows, y, sample_weights) for level, rows in each], axis=-1) - self.origin
        if self.basis is None:
            return Z[..., 0] + self.origin
        now = sum_of_products(self.mixing, np.moveaxis(Z, -1, 0))
        scores, stack = restacked(self, self.stack, Z, now, less(y, self.origin), sample_weights)
        if stack is not self.stack:
            self.replace(stack=stack)
        return scores + self.origin

    def expect_random_order(self) -> None:
        for level in self.levels:
            level.expect_random_order()

    def without_outliers(self, chunk: Chunk, among: Chunk | None = None) -> Chunk:
        return chunk  # every level learns from its own features, without their outliers

    def raise_peaks(self, largest: Floats) -> None:
        """Change nothing: levels center their own features, of which the rows tell no sizes."""

    def event_kernels(self) -> None:
        return None  # see `prepare_fast_path`

    def prepare_fast_path(self, learning: bool) -> FastPath:
        self.fast_path = prepared = prepare_levels_path(self, learning)
        return prepared

    def enlarge_window(self, entries: int) -> None:
        for level in self.levels:
            level.enlarge_window(entries)

    def keep_rows(self, rows: Chunk, y: Any) -> None:
        """Add rows that have been learned from to those that knots will be found from."""
        # The fast path does not point to them, so that it is still valid.
        self.storage = self.storage._replace(kept=self.storage.kept.followed_by(rows, y))

    def start_from(self, w: Floats, intercept: Any) -> None:
        raise TypeError("a model with curves and pairs cannot start from given weights")

    def settle(self) -> None:
        for level in self.levels:
            level.settle()

    def centered_storage(self, centering: Centering) -> Any:
        raise NotImplementedError  # each level centers its own rows

    # --- reading ------------------------------------------------------------------------------

    @property
    def mixing(self) -> Floats:
        """The weight of the score of every level."""
        return np.ones(1) if self.basis is None else self.stack.member_weights()

    def scores_of_levels(self, chunk: Chunk) -> Floats:
        """Return the scores of rows by every level, [row, ..., level], less the origin."""
        Z = np.zeros((chunk.rows, *self.trailing, len(self.levels)))
        for k, (level, rows) in enumerate(zip(self.levels, self.expanded(chunk), strict=True)):
            Z[..., k] = level.scores_less_origin(rows)
        return Z

    def in_blocks(self, chunk: Chunk) -> Iterator[tuple[slice, Chunk]]:
        """Yield blocks of rows that have few entries once they are expanded."""
        per_row = chunk.indices.shape[0] / max(chunk.rows, 1) + self.row_cost
        size = max(int(EXPANDED_AT_ONCE / per_row), 1)
        for start in range(0, chunk.rows, size):
            stop = min(start + size, chunk.rows)
            yield slice(start, stop), chunk.row_block(start, stop)

    def scores(self, chunk: Chunk) -> Floats:
        scores = np.zeros((chunk.rows, *self.trailing))
        for some, block in self.in_blocks(chunk):
            scores[some] = sum_of_products(self.mixing, np.moveaxis(self.scores_of_levels(block), -1, 0))
        return scores + self.origin

    def variances(self, chunk: Chunk) -> Floats:
        """Return the variances of scores: of the best level, plus those of the stack's weights."""
        found = np.zeros(chunk.rows)
        best = int(np.argmin(self.stack.mean_losses()[1:][: len(self.levels)]))
        for some, block in self.in_blocks(chunk):
            own = self.levels[best].variances(self.expanded(block)[best])
            Z = self.scores_of_levels(block)
            if self.basis is None:
                Z = np.repeat(Z, self.options.levels, axis=-1)
            found[some] = own + self.stack.variances(Z).reshape(block.rows, -1).mean(axis=1)
        return found

    def places(self, features: int) -> list[Any]:
        """Return the numbers that the features of every level have at the last level."""
        if self.basis is None:
            return [np.arange(features)]
        return self.basis.places_at_last(features, self.options.levels)

    def total_features(self, features: int) -> int:
        """Return the number of features at the last level, given that of the features as they are."""
        return features if self.basis is None else features + self.basis.added[self.options.levels - 1]

    def united(self, found: list[Floats], features: int) -> Floats:
        """Return numbers of the features of every level, weighted by level, for the features of the last one."""
        out = np.zeros((self.total_features(features), *found[0].shape[1:]))
        for numbers, part in zip(self.places(features), found, strict=True):
            out[numbers] += part
        return out

    def weights(self, features: int, averaged: bool) -> Floats:
        """Return the weights of all features of the last level, given the number of features as they are."""
        each = zip(self.mixing, self.levels, self.places(features), strict=True)
        return self.united([v * level.raw_weights(len(numbers), averaged) for v, level, numbers in each], features)

    def stiffness(self, features: int) -> Floats:
        return self.levels[-1].stiffness(self.total_features(features))

    def intercept_stiffness(self) -> float:
        return self.levels[-1].intercept_stiffness()

    @property
    def knows_scales(self) -> bool:
        return self.levels[-1].knows_scales

    def scales(self, features: int) -> Floats:
        return self.levels[-1].scales(self.total_features(features))

    def working_intercept(self, averaged: bool) -> Any:
        levels = [level.uncentered(level.working_intercept(averaged), averaged) for level in self.levels]
        found = [v * level for v, level in zip(self.mixing, levels, strict=True)]
        return sum(found[1:], found[0])

    def report(self, features: int) -> list[Member]:
        """Return the weight and the loss of every level."""
        losses = self.stack.mean_losses()[1:].tolist()
        parts = zip(self.mixing.tolist(), losses, self.levels, self.places(features), strict=False)
        bases = None, replace(self.options, max_pairs=0), self.options
        return [
            Member(replace(self.ensemble, basis=basis), v, loss, False, int(engine.weighed(len(numbers)).sum()), True)  # type: ignore[arg-type]
            for basis, (v, loss, engine, numbers) in zip(bases, parts, strict=False)
        ]

    def mean_losses(self) -> Floats:
        """Return the mean loss of the model, and of every level."""
        found = self.stack.mean_losses()
        return found if self.basis is not None else np.append(found[1], found[1:])

    @property
    def progressive_loss(self) -> float:
        return float(self.mean_losses()[0])

    # --- the state as a whole -----------------------------------------------------------------

    def storage_in_use(self) -> Any:
        return self.storage, [level.storage_in_use() for level in self.levels]

    def put_back(self, storage: Any) -> None:
        own, of_levels = storage
        for level, its in zip(own.levels, of_levels, strict=True):
            level.put_back(its)
        self.set_storage(own)

    def undo_growth(self, storage: Any) -> None:
        own, of_levels = storage
        for level, its in zip(own.levels, of_levels, strict=True):
            level.undo_growth(its)

    def add_scores(self, places: Any, scores: int) -> None:
        for level in self.levels:
            level.add_scores(places, scores)

    def arrays(self) -> dict[str, Any]:
        levels = zip(PREFIXES, self.levels, strict=False)
        found = {f"{prefix}{name}": a for prefix, level in levels for name, a in level.arrays().items()}
        found |= {f"levels/{name}": a for name, a in self.stack.arrays().items()}
        found |= self.storage.kept.arrays()
        return found | ({} if self.basis is None else {f"basis.{name}": a for name, a in self.basis._asdict().items()})

    @property
    def needed_arrays(self) -> tuple[str, ...]:
        return *self.levels[0].needed_arrays, "levels/stack.alone"  # without it, no level is alone

    def restore(self, arrays: dict[str, Any]) -> None:
        basis, levels, kept = None, [self.levels[0].copy()], restored_rows(arrays)
        if "basis.knots" in arrays:
            known = {"period": np.zeros(len(arrays["basis.points"])), "inherited": np.empty(0)}
            added = {f"basis.{name}": a for name, a in known.items()} | {"basis.refined": np.zeros(1, np.int32)}
            stored = {**added, **arrays}  # older files have none of these
            basis = ColumnBasis(**{name: stored[f"basis.{name}"].copy() for name in ColumnBasis._fields})
            levels += [levels[0].copy() for _ in range(1, self.options.levels)]
        for prefix, level in zip(PREFIXES, levels, strict=False):
            own = {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}
            level.restore(own)
            if level.rows != levels[0].rows:
                raise ValueError(f"level {prefix!r} has learned from {level.rows} rows, level 1 from {levels[0].rows}")
        stack = {name.removeprefix("levels/"): a for name, a in arrays.items() if name.startswith("levels/")}
        self.set_storage(LevelsStorage(tuple(levels), self.stack.restored(stack), basis, kept))
        self.rewind_observer(arrays)

    def select(self, kept: Any) -> None:
        raise TypeError("features of a model with curves and pairs are not dropped")

    def copy(self) -> LevelsEngine:
        new = copy.copy(self)
        new.expander, new.fast_path, new.observer = None, NO_FAST_PATH, None
        own, basis = self.storage, self.basis
        new.storage = own._replace(
            levels=tuple(level.copy() for level in own.levels),
            stack=own.stack.copy(),
            basis=None if basis is None else ColumnBasis(*(array.copy() for array in basis)),
        )
        return new

    def placed(self, places: Any, features: int, score_places: Any = None, scores: int | None = None) -> LevelsEngine:
        new, basis = self.copy(), self.basis
        new.indicators = None
        if basis is None:
            level = self.levels[0].placed(places, features, score_places, scores)
            new.replace(levels=(level,), kept=self.storage.kept.placed(places))
            return new
        levels = [
            level.placed(basis.level_places(places, features, k), features + basis.added[k], score_places, scores)
            for k, level in enumerate(self.levels)
        ]
        kept = self.storage.kept.placed(places)
        new.replace(levels=tuple(levels), basis=basis.placed(places, features), kept=kept)
        return new


def keep_last(engine: LevelsEngine, chunk: Chunk, y: Floats) -> None:
    """Keep those of the last rows that have been learned from which are needed to look at columns."""
    assert engine.basis is not None
    needed = engine.window if engine.is_shard else engine.rounds - int(engine.basis.check[0]) + engine.window
    if needed > 0:
        first = max(chunk.rows - min(needed, engine.window), 0)
        engine.keep_rows(chunk.row_block(first, chunk.rows), y[first:])
        if engine.is_shard:
            engine.storage = engine.storage._replace(kept=engine.storage.kept.last(engine.window))
