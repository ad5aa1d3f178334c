"""Users' own losses and step sizes in SIMD lanes give what they give alone."""

from math import sqrt

import numpy as np
import pytest
from interpreted import check_uncompiled
from tests.partly_seen import partly_seen

import fiol
from fiol.components.simd import anywhere, choose
from fiol.components.step_sizes.rule import add_to_sum, metric, rule_of_squares
from fiol.engine.ensemble import lane_group


class TwoSlopes(fiol.Loss):
    """Squared error that counts over-prediction more."""

    weight: float = 4.0
    lanes = True

    def value(self, z, y):
        return 0.5 * (z - y) * (z - y) * choose(z > y, self.weight, 1.0)

    def grad(self, z, y):
        return (z - y) * choose(z > y, self.weight, 1.0)

    def hess(self, z, y):
        return choose(z > y, self.weight, 1.0)

    def dual(self, q, p, y):
        c = choose(q > y, self.weight, 1.0)
        return c * (y - q) / (1.0 + c * p)


class LongTail(fiol.Adaptive):
    """AdaGrad whose steps fall faster where gradients add up to much."""

    size: float = 0.5
    keeps = ("square",)
    constant = True

    def eta(self, t):
        return self.size

    def rule(self):
        return rule_of_squares(self.size, base=0.1, root=1.0, part=0.01)

    def h(self, s, unit):
        return metric(self.rule(), 0.1, sqrt(s[0] / unit), s[0] / unit)

    def observe(self, s, seen):
        s[0] = add_to_sum(s[0], seen.square * (seen.x * seen.x))


class OtherName(LongTail):
    """A sum under a name that lanes do not have."""

    keeps = ("mine",)


def ensemble(loss, *step_sizes):
    return fiol.Ensemble([fiol.FIOL(loss, step_size=step_size) for step_size in step_sizes], fiol.NewtonStack())


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("loss", [TwoSlopes(), fiol.Squared()], ids=repr)
def test_own_components_in_lanes_match_scalars(loss, compiled, monkeypatch):
    stream = partly_seen(fiol.Squared(), 40, 10, seed=1)
    sizes = LongTail(), fiol.ScaleFree(LongTail(2.0)), fiol.ScaleFree(fiol.Curvature())
    scores = []
    for in_lanes in (False, True):
        monkeypatch.setattr(lane_group, "INTERPRETED", in_lanes)
        learner = fiol.Learner(ensemble(loss, *sizes), compiled=compiled and in_lanes)
        scores.append(learner.learn(stream.named(), stream.y, stream.weight))
        assert (learner.engine.group is not None) == in_lanes
    np.testing.assert_allclose(scores[1], scores[0], rtol=1e-9, atol=1e-9)


def test_own_step_size_with_another_statistic_learns_beside_lanes(monkeypatch):
    monkeypatch.setattr(lane_group, "INTERPRETED", True)
    learner = fiol.Learner(ensemble(fiol.Squared(), LongTail(), LongTail(2.0), OtherName()), compiled=False)
    assert learner.engine.members_in_use.in_lanes == [0, 1]
    assert [member.in_lanes for member in learner.members] == [True, True, False]
    assert [line.split()[-1] for line in str(learner).splitlines() if "LongTail" in line or "OtherName" in line] == [
        "lanes", "lanes", "alone"
    ]  # fmt: skip


def test_own_loss_in_lanes_needs_a_closed_form():
    with pytest.raises(TypeError, match="Rough sets lanes = True, but its dual is found by a loop"):

        class Rough(fiol.Loss):
            lanes = True

            def value(self, z, y):
                return 0.5 * (z - y) * (z - y)

            def grad(self, z, y):
                return z - y


class Branchy(TwoSlopes):
    lanes = True

    def grad(self, z, y):
        return (z - y) * (self.weight if z > y else 1.0)

    hess, dual = TwoSlopes.hess, TwoSlopes.dual


class Roughly(TwoSlopes):
    """Its root loses digits where steps are long."""

    lanes = True

    def dual(self, q, p, y):
        c = choose(q > y, self.weight, 1.0)
        return c * (y - q) / (1.0 + c * choose(p > 1e8, 1e8, p))


class OffInLanes(TwoSlopes):
    """Its step in lanes is wrong for scores above 1e5."""

    lanes = True

    def lane_step(self, z, p, tolerance, reach, y, weight):
        return self.exact_step(choose(z > 1e5, 1e5, z), p, tolerance, reach, y, weight)


class KnowsItsLimit(OffInLanes):
    lanes = True

    def lane_exact(self, z, p, y):
        return not anywhere(z > 1e5)


class WrongRule(LongTail):
    def rule(self):
        return rule_of_squares(self.size, base=0.1, root=1.0, part=1.0)

    def h(self, s, unit):
        return 0.1 + sqrt(s[0] / unit) + 0.01 * s[0] / unit


class WrongSum(LongTail):
    """Adds up something else than lanes do, of which a stream alone has a trace."""

    def rule(self):
        return LongTail.rule(self)

    def observe(self, s, seen):
        s[0] = add_to_sum(s[0], seen.square * abs(seen.x))


BRANCHES = "`Branchy.grad` branches on the score: use `choose`"


def test_check_loss_names_the_method_that_branches():
    with pytest.raises(fiol.checks.CheckError, match=BRANCHES):
        fiol.checks.check_loss(Branchy())


def test_learning_with_a_loss_that_branches_in_lanes_names_the_method(monkeypatch):
    monkeypatch.setattr(lane_group, "INTERPRETED", True)
    with pytest.raises(TypeError, match=BRANCHES):
        fiol.Learner(ensemble(Branchy(), LongTail(), LongTail(2.0)), compiled=False)


@pytest.mark.parametrize("loss", [Roughly(), OffInLanes()], ids=repr)
def test_check_loss_compares_steps_in_lanes_on_large_rows(loss, monkeypatch):
    check_uncompiled(monkeypatch)
    with pytest.raises(fiol.checks.CheckError, match=r"lane_step: for z = .*beta is"):
        fiol.checks.check_loss(loss)


def test_check_loss_uses_lane_exact(monkeypatch):
    check_uncompiled(monkeypatch)
    fiol.checks.check_loss(KnowsItsLimit())


@pytest.mark.parametrize("step_size", [WrongRule(), WrongSum()], ids=repr)
def test_check_step_size_compares_rule_and_h(step_size, monkeypatch):
    check_uncompiled(monkeypatch)
    assert fiol.components.step_sizes.states_its_rule(step_size)
    with pytest.raises(fiol.checks.CheckError, match=r"rule: in lanes the step is .*, by `h` it is"):
        fiol.checks.check_step_size(step_size)
