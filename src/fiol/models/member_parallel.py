"""Subsets of the members of an ensemble in parallel, each of which learns from all rows: the same bits as one learner.

| who | does |
|---|---|
| the coordinator | `subsets = split_members(learner, 3)`: which members go together |
| each subset | `subset = MemberSubset(learner, places)`; for every block of rows `scores = subset.learn(X, y)` |
| the stack | `stack = StackLearner(learner, subsets)`; for every block, in their order, `stack.learn([scores, ...])` |
| in the end | `stack.finish([subset.state(), ...])`: the learner that has learned from all rows |

Nothing is approximated: a member depends on no other, and the stack on their scores alone. Every subset reads all rows,
and members behind a gate have a gate of their own. This pays where members are many or slow, such as those of a joint
loss; members in SIMD lanes (`fiol.engine.ensemble.member_rounds`) take little more time together than one alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from fiol.components.row import Floats
from fiol.engine.ensemble.engine import EnsembleEngine
from fiol.engine.ensemble.lane_group import WIDTHS
from fiol.engine.ensemble.member_subset import subset_arrays, subset_engine
from fiol.features.file_header import classes_in
from fiol.features.targets import check_sample_weights
from fiol.learner import Learner
from fiol.learner.core import make_learner_core
from fiol.models.distributed_round import check_countable, targets_of


class MemberScores(NamedTuple):
    """Scores of some rows by the members of a subset, before they learned from the rows."""

    scores: Floats  #: [row, member], or [row, score, member]; less the origin of targets
    targets: Any  #: numbers, or codes of classes
    sample_weights: Floats
    learned: Any  #: the targets less the origin that members learned from
    origin: Floats  #: of the scores: 0 before the first target


class SubsetState(NamedTuple):
    """The state of the members of a subset, and the features and labels they know."""

    arrays: dict[str, Any]
    header: dict[str, Any]


def split_members(learner: Learner, workers: int) -> list[tuple[int, ...]]:
    """Return the members of an ensemble in at most `workers` subsets; TypeError for a learner without members.

    A subset has up to three SIMD lanes, which are as fast as fewer, unless weights are float32: there the size of
    one lane may change the digits of all.

    >>> split_members(Learner(compiled=False), 3)
    [(0, 3, 6), (1, 4), (2, 5)]
    """
    engine = learner.core.engine
    if learner.core.levels is not None:
        raise TypeError(
            "members of a model with curves and pairs do not learn in parallel: learn from all rows in one process"
        )
    if not isinstance(engine, EnsembleEngine):
        raise TypeError(f"there are no members to learn in parallel: {learner.update.brief()}")
    width = WIDTHS[0] - 1 if engine.dtype.itemsize == 8 else WIDTHS[-1]
    members = engine.members_in_use
    lanes = [members.in_lanes[k : k + width] for k in range(0, len(members.in_lanes), width)]
    units = [*lanes, *([k] for k in members.separate)]
    found: list[list[int]] = [[] for _ in range(min(workers, len(units)))]
    for k, unit in enumerate(units):
        found[k % len(found)] += unit
    return [tuple(sorted(subset)) for subset in found]


class MemberSubset:
    """Some members of an ensemble that learn from all rows: see the module.

    >>> learner = Learner(compiled=False)
    >>> subset = MemberSubset(learner, (0, 2))
    >>> subset.learn([[1.0], [2.0]], [1, -1]).scores.shape
    (2, 2)
    """

    def __init__(self, learner: Learner, places: Sequence[int]) -> None:
        self.learner = learner.copy()
        engine: Any = self.learner.core.engine
        self.places = tuple(places)
        self.learner.core.engine = subset_engine(engine, places)

    def learn(self, X: Any, y: Any, sample_weight: Any = None) -> MemberScores:
        """Make a round per row and member, and return the scores before."""
        X, rows = check_countable(X)
        weights = check_sample_weights(sample_weight, rows)
        origin = self.learner.learn(X, y, weights)  # a recorder returns scores of 0, to which the origin is added
        engine: Any = self.learner.core.engine
        recorded = engine.stack.take_recorded()
        targets = targets_of(self.learner, y, rows)
        shape = (0, *engine.trailing, len(self.places))
        scores = np.concatenate([np.zeros(shape), *(Z for Z, _ in recorded)])
        return MemberScores(scores, targets, weights, np.concatenate([targets[:0], *(y for _, y in recorded)]), origin)

    def state(self) -> SubsetState:
        """Return the state of the members."""
        return SubsetState(subset_arrays(self.learner.core.arrays(), self.places), self.learner.core.header())


class StackLearner:
    """The stack of an ensemble whose members learn elsewhere, in these subsets: see the module.

    >>> base, X, y = Learner(compiled=False), [[1.0], [2.0], [0.5]], [1, -1, 1]
    >>> places = split_members(base, 2)
    >>> subsets, stack = [MemberSubset(base, some) for some in places], StackLearner(base, places)
    >>> scores = stack.learn([subset.learn(X, y) for subset in subsets])
    >>> new, one = stack.finish([subset.state() for subset in subsets]), base.copy()
    >>> scores.tolist() == one.learn(X, y).tolist(), new.weights.tolist() == one.weights.tolist(), new.rows
    (True, True, 3)
    """

    def __init__(self, learner: Learner, subsets: Sequence[Sequence[int]]) -> None:
        self.learner, self.places = learner.copy(), [list(places) for places in subsets]
        self.engine: Any = self.learner.core.engine

    def learn(self, scores: Sequence[MemberScores], freeze: bool = False) -> Floats:
        """Learn from the scores of all subsets for the same rows, and return the scores of the ensemble before.

        `freeze` keeps the combination weights, for rows that were learned from before.
        """
        given, engine = scores[0], self.engine
        Z = np.zeros((*scores[0].scores.shape[:-1], len(self.engine.ensemble.updates)))
        for places, one in zip(self.places, scores, strict=True):
            Z[..., places] = one.scores
        first = given.targets - given.learned != given.origin.reshape(len(given.targets), -1)[:, 0]
        if first.any():
            engine.stack.add_first_loss(given.targets[first], given.sample_weights[first])
        with engine.freeze_stack() if freeze else nullcontext():
            return engine.stack.learn(engine.call, Z, given.learned, given.sample_weights) + given.origin  # type: ignore[no-any-return]

    def best_losses(self) -> list[float]:
        """Return, for every subset, the mean loss of the rows so far by the best of its members."""
        losses = self.engine.mean_losses()[1:]
        return [float(losses[places].min()) for places in self.places]

    def finish(self, states: Sequence[SubsetState]) -> Learner:
        """Return the learner with the members of all subsets and this stack."""
        core, header = self.learner.core, states[0].header
        own = {name: array for name, array in core.arrays().items() if name.startswith("stack.")}
        arrays = {**own, **{name: a for state in states for name, a in state.arrays.items()}}
        classes = classes_in(header.get("labels"))
        new = make_learner_core(core.update, **core.options(), classes=classes, compiled=core.compiled)
        new.restore(header, arrays)
        return Learner.from_core(new, self.learner.meta)
