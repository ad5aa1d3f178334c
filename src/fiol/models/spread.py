"""The members of an ensemble apart from each other, each share of them with all rows: the same learner, to the bit.

| who | does |
|---|---|
| the director | `shares = shares_of_members(learner, 3)`: which members go together |
| each share | `share = Share(learner, places)`; for every block of rows `said = share.learn(X, y)` |
| the stack | `stack = Stacking(learner, shares)`; for every block, in their order, `stack.learn([said, ...])` |
| in the end | `stack.ended([share.known(), ...])`: the learner that has learned from all rows |

Nothing is approximated: a member does not see the others, and the stack sees nothing but their scores. Whoever has a
share reads all rows, and those behind a gate have one of their own. It pays where members are many or slow, such as
those of a joint loss; members that are lanes (`fiol.engine.lanes`) take little more time together than one alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from fiol.components.row import Floats
from fiol.engine.ensemble import EnsembleEngine
from fiol.engine.lane_group import WIDTHS
from fiol.engine.member_share import MemberShare
from fiol.intake.targets import check_sample_weights
from fiol.learner import Learner
from fiol.models.together import rows_there, targets_of


class Said(NamedTuple):
    """What the members of a share said of some rows before they learned from them."""

    scores: Floats  #: [row, member], or [row, score, member]
    targets: Any  #: numbers, or codes of classes
    sample_weights: Floats


class Known(NamedTuple):
    """What the members of a share know in the end, and what is remembered of features and labels."""

    arrays: dict[str, Any]
    header: dict[str, Any]


def shares_of_members(learner: Learner, workers: int) -> list[tuple[int, ...]]:
    """The places of the members of an ensemble in at most so many shares; TypeError for a learner without members.

    Lanes are three to a share, which is as quick as fewer, unless weights are single precision: there one lane's size
    may decide on the digits of all.

    >>> shares_of_members(Learner(compiled=False), 3)
    [(0, 3, 6), (1, 4), (2, 5)]
    """
    engine = learner.engine
    if not isinstance(engine, EnsembleEngine):
        raise TypeError(f"there are no members to be spread: {learner.update.brief()}")
    room = WIDTHS[0] - 1 if engine.dtype.itemsize == 8 else WIDTHS[-1]
    lanes = [engine.in_lanes[k : k + room] for k in range(0, len(engine.in_lanes), room)]
    units = [*lanes, *([k] for k in engine.beside)]
    found: list[list[int]] = [[] for _ in range(min(workers, len(units)))]
    for k, unit in enumerate(units):
        found[k % len(found)] += unit
    return [tuple(sorted(share)) for share in found]


class Share:
    """Some members of an ensemble that learn from all rows: see the module.

    >>> learner = Learner(compiled=False)
    >>> share = Share(learner, (0, 2))
    >>> share.learn([[1.0], [2.0]], [1, -1]).scores.shape
    (2, 2)
    """

    def __init__(self, learner: Learner, places: Sequence[int]) -> None:
        self.learner = learner.copy()
        engine: Any = self.learner.engine
        self.engine = self.learner.engine = MemberShare(engine, places)

    def learn(self, X: Any, y: Any, sample_weight: Any = None) -> Said:
        """A round per row of every member; what they said before."""
        X, rows = rows_there(X)
        weights = check_sample_weights(sample_weight, rows)
        self.learner.learn(X, y, weights)
        said, self.engine.said = self.engine.said, []
        targets = targets_of(self.learner, y, rows)
        shape = (0, *self.engine.trailing, len(self.engine.places))
        return Said(np.concatenate([np.zeros(shape), *said]), targets, weights)

    def known(self) -> Known:
        """What its members know now."""
        return Known(self.learner.arrays(), self.learner.header())


class Stacking:
    """The stack of an ensemble whose members learn elsewhere, in these shares: see the module.

    >>> base, X, y = Learner(compiled=False), [[1.0], [2.0], [0.5]], [1, -1, 1]
    >>> places = shares_of_members(base, 2)
    >>> shares, stack = [Share(base, some) for some in places], Stacking(base, places)
    >>> scores = stack.learn([share.learn(X, y) for share in shares])
    >>> new, one = stack.ended([share.known() for share in shares]), base.copy()
    >>> scores.tolist() == one.learn(X, y).tolist(), new.weights.tolist() == one.weights.tolist(), new.rows
    (True, True, 3)
    """

    def __init__(self, learner: Learner, shares: Sequence[Sequence[int]]) -> None:
        self.learner, self.places = learner.copy(), [list(places) for places in shares]
        self.engine: Any = self.learner.engine

    def learn(self, said: Sequence[Said], again: bool = False) -> Floats:
        """Learn from what all shares said of the same rows, perhaps `again`; the scores of the whole before."""
        Z = np.zeros((*said[0].scores.shape[:-1], len(self.engine.ensemble.updates)))
        for places, one in zip(self.places, said, strict=True):
            Z[..., places] = one.scores
        with self.engine.rows_again() if again else nullcontext():
            return self.engine.learn_stack(Z, said[0].targets, said[0].sample_weights)  # type: ignore[no-any-return]

    def best_losses(self) -> list[float]:
        """For every share, the mean loss of the rows so far with the best of its members."""
        losses = self.engine.mean_losses()[1:]
        return [float(losses[places].min()) for places in self.places]

    def ended(self, known: Sequence[Known]) -> Learner:
        """The learner of what all shares know, and this stack."""
        own = {name: array for name, array in self.learner.arrays().items() if name.startswith("stack.")}
        state = {**self.learner.__getstate__(), "header": known[0].header}
        state["arrays"] = {**own, **{name: a for one in known for name, a in one.arrays.items()}}
        new = object.__new__(Learner)
        new.__setstate__(state)
        return new
