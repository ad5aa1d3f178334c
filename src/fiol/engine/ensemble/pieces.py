"""`Piece`: some rows that all members of an ensemble and its stack learn from, or none of them."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import numpy as np

from fiol.components.row import Floats
from fiol.engine.engine import IN_ORDER
from fiol.engine.ensemble.lane_group import LaneGroup
from fiol.engine.ensemble.members import Members
from fiol.features.chunk import Chunk

#: How often a piece is finished after an interrupt, if more interrupts follow.
ENDINGS = 10


class Piece:
    """A round per row of every member, then of the stack.

    `passed` is where the gate writes the entries that the other members see; the rows themselves without a gate.
    `kept_scores`, if not None, receives [row, member + 1]: scores of all members, then of the ensemble.
    """

    def __init__(
        self, engine: Any, chunk: Chunk, passed: Chunk, y: Floats, sample_weights: Floats, kept_scores: Any
    ) -> None:
        self.engine, self.rows, self.passed, self.targets = engine, chunk, passed, (y, sample_weights)
        self.members: Members = engine.members_in_use
        self.kept_scores = kept_scores
        shape = chunk.rows, *engine.trailing
        #: The scores of the ensemble before its rounds.
        self.scores = np.zeros(shape)
        group, learners = self.members.group, self.members.learners
        lanes = [] if group is None else [group.new_scores(chunk.rows)]
        self.member_scores = [*lanes, *(np.zeros(shape) for _ in self.members.separate)]
        self.ends = [learner.rounds + chunk.rows for learner in learners]
        self.end = engine.rounds + chunk.rows
        #: A lock for each learner: after an interrupt, another thread may still be making its rounds.
        self.locks = [threading.Lock() for _ in learners]

    def learn(self) -> Floats:
        """Make all rounds and return the scores before; an interrupt is raised after the last round."""
        try:
            self.finish()
        except BaseException:
            if self.engine.compiled:  # so no component has raised
                for _ in range(ENDINGS):
                    with contextlib.suppress(BaseException):  # one more signal: the first is raised in the end
                        self.finish()
                        break
            raise
        return self.scores

    def finish(self) -> None:
        """Make the rounds that have not been made yet, by the clocks."""
        engine, learners = self.engine, range(len(self.ends))
        if self.members.gate >= 0:
            learners = learners[:-1]
            of_gate = self.learn_gate()
            if self.kept_scores is None and engine.lanes_behind_gate:
                if engine.rounds < self.end:
                    rows = self.passed, *self.targets
                    engine.stack.learn_with_lanes(engine.call, self.members.group, *rows, of_gate, self.scores)
                return
        for _ in engine.each(self.learn_member, learners):
            pass
        if engine.rounds < self.end:
            Z = self.scores_of_members()
            self.scores[...] = engine.stack.learn(engine.call, Z, *self.targets)
            if self.kept_scores is not None:
                self.kept_scores[:, :-1], self.kept_scores[:, -1] = Z, self.scores

    def learn_gate(self) -> Floats:
        """Make the rounds of the gate and write the entries that pass it; return its scores."""
        from fiol.engine.ensemble.feature_gate import gate_rows  # imported here: `import fiol` loads no compiler

        gate, scores = self.members.separate[self.members.gate], self.member_scores[-1]
        if gate.rounds < self.ends[-1]:
            gate.call(gate_rows, *gate.plans, self.rows, *self.targets, *gate.memory, scores, self.passed)
        return scores

    def learn_member(self, k: int) -> None:
        """Make the rounds of one learner."""
        from fiol.engine.round.rounds import learn_rows

        learner, scores = self.members.learners[k], self.member_scores[k]
        with self.locks[k]:
            if learner.rounds >= self.ends[k]:
                return
            if isinstance(learner, LaneGroup):
                learner.learn(self.passed, *self.targets, scores)
            else:
                rows = *learner.plans, self.passed, IN_ORDER, *self.targets
                learner.call(learn_rows, *rows, *learner.memory, scores)

    def scores_of_members(self) -> Floats:
        """Return the scores of all members, [row, member] or [row, score, member]; 0 for members that are not here."""
        members, group = self.members, self.members.group
        rest = self.member_scores[len(self.member_scores) - len(members.separate) :]
        Z = np.zeros((*self.scores.shape, self.engine.stack.members))
        if group is not None:
            Z[..., members.in_lanes] = group.scores_of_members(self.member_scores[0])
        for k, its_scores in zip(members.separate, rest, strict=True):
            Z[..., k] = its_scores
        return Z
