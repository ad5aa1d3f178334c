"""`Members`: the members of an ensemble; some share SIMD lanes, the others have an engine each."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from fiol.components.row import Floats
from fiol.engine.centering import Centering
from fiol.engine.ensemble.lane_group import LaneGroup
from fiol.engine.update_engine import UpdateEngine
from fiol.features.chunk import Chunk


class Members:
    """Engines of members by their places in the ensemble, packed into lanes where possible.

    A `gate` is the member at that place, -1 for none: the other members see the features that have a weight there.

    Members at `lane_places` share lanes, unless they have learned from different rows. With `with_ridge` their records
    have a vector for a ridge, whether or not one of these members has one. States of `new` engines are all 0.
    """

    def __init__(
        self,
        engines: dict[int, UpdateEngine],
        lane_places: Sequence[int],
        gate: int = -1,
        with_ridge: bool = False,
        new: bool = False,
    ) -> None:
        self.lane_places, self.gate, self.with_ridge = tuple(lane_places), gate, with_ridge
        self.group: LaneGroup | None = None
        #: The members that are lanes now.
        self.in_lanes: list[int] = []
        if lane_places:
            together = [engines[k] for k in lane_places]
            group = LaneGroup(together, with_ridge)
            if group.pack(together, new):
                self.group, self.in_lanes = group, [*lane_places]
        #: The engines of all others.
        self.separate = {k: engine for k, engine in sorted(engines.items()) if k not in self.in_lanes}

    @property
    def places(self) -> list[int]:
        """The places of all members in the ensemble."""
        return sorted([*self.in_lanes, *self.separate])

    def engines(self) -> list[UpdateEngine]:
        """Return an engine per member; those of lanes are copies."""
        found = dict(self.separate)
        if self.group is not None:
            found.update(zip(self.in_lanes, self.group.unpacked(), strict=True))
        return [found[k] for k in sorted(found)]

    def with_engines(self, engines: Sequence[UpdateEngine]) -> Members:
        """Return members at the same places, with these engines."""
        return Members(dict(zip(self.places, engines, strict=True)), self.lane_places, self.gate, self.with_ridge)

    def knowing_stiffness(self) -> UpdateEngine:
        """Return the engine of the first member that knows the stiffness of weights best; a copy of one of lanes."""
        found: dict[int, UpdateEngine] = dict(self.separate)
        if self.group is not None:
            found.update(zip(self.in_lanes, self.group.engines, strict=True))
        best = min(sorted(found), key=lambda k: found[k].stiffness_known_by)
        if self.group is None or best in self.separate:
            return found[best]
        return self.group.unpacked_member(self.in_lanes.index(best))

    @property
    def learners(self) -> list[Any]:
        """What learns separately: the group of lanes, and the engines of all other members, a gate last."""
        return [*([] if self.group is None else [self.group]), *self.separate.values()]

    @property
    def templates(self) -> list[UpdateEngine]:
        """An engine for every member that has its plan; those of lanes have no features."""
        return [*([] if self.group is None else self.group.engines), *self.separate.values()]

    @property
    def rows(self) -> int:
        """Rows learned from."""
        return int(self.learners[0].rows)

    @property
    def nbytes(self) -> int:
        """Bytes of the state."""
        return sum(learner.nbytes for learner in self.learners)

    # --- reading ------------------------------------------------------------------------------

    def passing(self, features: Any) -> Any:
        """Return which of these features the gate lets pass now; all without one."""
        if self.gate < 0:
            return np.ones(len(features), bool)
        from fiol.engine.ensemble.feature_gate import mark_weights  # imported here: `import fiol` loads no compiler

        gate, out = self.separate[self.gate], np.zeros(len(features))
        gate.call(mark_weights, *gate.known, features, out)
        return out > 0.0

    def passing_rows(self, chunk: Chunk) -> Chunk:
        """Return rows with 0 for values of features that the gate does not let pass."""
        return chunk if self.gate < 0 else chunk._replace(data=np.where(self.passing(chunk.indices), chunk.data, 0.0))

    def with_weight(self, features: int) -> list[Any]:
        """Return, for every member, which of the first features have a weight other than 0 and pass the gate."""
        indices, weights = np.arange(features, dtype=np.int32), dict[int, Any]()
        if self.group is not None:
            weights.update(zip(self.in_lanes, self.group.weights(features).T, strict=True))
        for k, member in self.separate.items():
            weights[k] = np.zeros((features, *member.trailing))
            member.add_weights(indices, 1.0, weights[k])
        passing = self.passing(indices)
        nonzero = (w != 0.0 if w.ndim == 1 else w.any(axis=1) for _, w in sorted(weights.items()))
        return [its & passing for its in nonzero]

    def add_weights(self, features: Any, v: Floats, out: Floats) -> None:
        """Add the weights of these features, times v of every member; those that do not pass the gate have 0."""
        if self.group is not None:
            self.group.add_weights(features, v[self.in_lanes], out)
        for k, member in self.separate.items():
            if v[k] != 0.0:
                member.add_weights(features, float(v[k]), out)
        if self.gate >= 0:
            out[~self.passing(features)] = 0.0

    def add_intercepts(self, v: Floats, out: Floats) -> None:
        """Add the intercepts times v of every member."""
        if self.group is not None and self.group.has_intercept:
            self.group.add_intercepts(v[self.in_lanes], out)
        for k, member in self.separate.items():
            if v[k] != 0.0:
                out[0] += v[k] * np.asarray(member.intercept_weight(False))

    @property
    def knows_scales(self) -> bool:
        """Whether any member stores the largest value of every feature."""
        return any(learner.knows_scales for learner in self.learners)

    def scales(self, features: int) -> Floats:
        """Return the largest value of each of the first features."""
        return max(self.learners, key=lambda learner: learner.knows_scales).scales(features)  # type: ignore[no-any-return]

    # --- changing -----------------------------------------------------------------------------

    def move(self, v: Floats, change: Floats, shift: Any) -> None:
        """Add v times the change to the weights of the first features, and v times the shift to intercepts."""
        indices = np.arange(change.shape[0], dtype=np.int32)
        if self.group is not None:
            self.group.move(v[self.in_lanes], change, shift)
        for k, member in self.separate.items():
            if v[k] != 0.0:
                moved = v[k] * change
                member.add_weights(indices, 1.0, moved)
                member.start_from(moved, member.intercept_weight(False) + v[k] * shift)

    def interpolate(self, old: Members, features: slice, corners: Any, shares: Floats) -> None:
        """Give features the sums of shares times the weights of other members, which are up to date, at some features.

        Parameters
        ----------
        old : the same members with other features.
        features : those that get weights.
        corners : [feature, corner] features of `old`.
        shares : of corners.
        """

        def mixed(w: Any) -> Any:
            return sum((shares[:, k] * w[corners[:, k]].T.astype(np.float64)).T for k in range(shares.shape[1]))

        if self.group is not None and old.group is not None:
            self.group.weights_in_place[features] = mixed(old.group.weights_in_place)
        for k, member in self.separate.items():
            before = old.separate[k].state
            member.state.w[features] = mixed(before.w)
            if before.total.shape[0]:
                member.state.total[features] = mixed(before.total)

    def centered(self, centering: Centering) -> Members:
        """Return a copy after means are subtracted from values of features: see `Engine.centered_storage`."""
        new = self.copy()
        if new.group is not None:
            new.group.center(centering)
        for member in new.separate.values():
            member.set_storage(member.centered_storage(centering))
        return new

    def shifted(self, shift: float) -> Members:
        """Return members with other intercepts: see `Engine.shifted_storage`."""
        new = copy.copy(self)
        new.group = None if self.group is None else self.group.shifted(shift)
        new.separate = {k: copy.copy(member) for k, member in self.separate.items()}
        for member in new.separate.values():
            member.set_storage(member.shifted_storage(shift))
        return new

    def settle(self) -> None:
        """Bring every stored weight up to date."""
        for learner in self.learners:
            learner.settle()

    def make_place(self, features: int, longest: int) -> bool:
        """Allocate memory for this many features, and for rows of `longest` entries; whether arrays were replaced."""
        replaced = [learner.make_place(features, longest) for learner in self.learners]
        return any(replaced)

    def add_scores(self, places: Any, scores: int) -> None:
        """Have more scores, see `Engine.add_scores`; lanes have one score."""
        for member in self.separate.values():
            member.add_scores(places, scores)

    def select(self, kept: Any) -> None:
        """Keep these features only, in this order."""
        for learner in self.learners:
            learner.select(kept)

    def storage_in_use(self) -> tuple[Any, ...]:
        """Return a token for `put_back`: the arrays in use, not copies."""
        records = None if self.group is None else self.group.records
        return records, [member.storage for member in self.separate.values()]

    def put_back(self, storage: tuple[Any, ...]) -> None:
        """Use these arrays again."""
        records, rest = storage
        if self.group is not None:
            self.group.records = records
        for member, its_storage in zip(self.separate.values(), rest, strict=True):
            member.put_back(its_storage)

    def undo_growth(self, storage: tuple[Any, ...]) -> None:
        """Use arrays of a `storage_in_use` again where memory for more features was allocated since then."""
        records, rest = storage
        if (records is None) != (self.group is None):
            return
        if self.group is not None and records.shape != self.group.records.shape:
            self.group.records = records
        for member, its_storage in zip(self.separate.values(), rest, strict=True):
            member.undo_growth(its_storage)

    def copy(self, records: Any = None) -> Members:
        """Return members with their own copy of the state; records of lanes are in `records`, if that is given."""
        new = copy.copy(self)
        new.group = None if self.group is None else self.group.copy(records)
        new.separate = {k: member.copy() for k, member in self.separate.items()}
        return new

    def placed(self, places: Any, features: int, score_places: Any, scores: int | None) -> Members:
        """Return a copy with its features and scores at other places: see `Engine.placed`."""
        if self.group is not None and not self.separate:
            new = self.copy()
            new.settle()
            new.group.place(places, features)  # type: ignore[union-attr]
            return new
        return self.with_engines([one.placed(places, features, score_places, scores) for one in self.engines()])
