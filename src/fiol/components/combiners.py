"""Stacks: combinations of the scores of several learners into one score, with weights that are learned.

The learners of an ensemble are its members. Before every row each of K members gives it a score; a stack has a weight
for each, v, and the ensemble's score is <v, z>. So an ensemble of linear models is one linear model, whose weights are
sum_k v_k w_k. (`Bayes` takes the mean of probabilities instead, where scores have them, and is none.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from fiol.components.component import Component, PerFeature, require, value_at
from fiol.components.joint_losses import AnyLoss
from fiol.components.simd import larger, smaller

#: Information about members is updated at least every this many rounds, or when an eighth of all rounds is new.
PERIOD = 128.0
#: Members keep at most this many times the information of the prior, so that doubles hold both.
MOST_INFORMATION = 1e10
#: A row adds at most this many times the information about its score that there was before.
MOST_GROWTH = 1e6
#: Variances are computed anew after they have shrunk by this factor through subtraction.
MOST_DECLINE = 1e4
#: Labels of rows with scores beyond this hardly count as wrong: rounding would move scores farther.
ABSURD = 1e6
#: A member with a score beyond this has overflowed: squares must be doubles.
OVERFLOWN = 1e145


class Stack(Component):
    """The base class of stacks."""

    of_features: ClassVar[bool] = False

    def linear_for(self, loss: AnyLoss) -> bool:
        """Return whether the score is linear in those of the members, with weights that do not depend on them."""
        return True

    def variance_known_with(self, members: Sequence[bool]) -> bool:
        """Return whether variances of scores are known, given for every member whether its own are."""
        return False


class NewtonStack(Stack):
    """Newton stacks that forget at different rates, pooled: one exact step a row, in as many dimensions as members.

    Stack j has weights v_j, 1/K each before the first row, and information A_j, at first I / prior. In round t = 1, 2,
    ..., z are the scores of the members before the row, y its target, phi the loss (times the sample weight) and d its
    unit:

        score     <v, z>,  v = sum_j pi_j v_j                       linear in the row, as every member's is
        pool      pi_j <- pi_j max(exp(min_i l_i - l_j), 1/(1+t)),  l_j = phi(<v_j, z>) / d, and normalized;
                  pi_j <- (1 - s) pi_j + s / J with s = min(1/2, 1/t): what was bad may come back
        learn     v_j <- argmin_v phi(<v, z>) / d + |v - v_j|_A^2 / 2                 one fully implicit step
                  A_j <- A_j + (h / d) z z'                                           h is the curvature of phi
        forget    A_j <- f A_j + (1 - f) I / prior                                    so A_j >= I / prior for ever

    The step is a scalar equation, as every exact step: with u = A_j^-1 z and p = <z, u> / d, v_j moves by beta u / d
    where beta = -phi'(<v_j, z> + p beta), which `Loss.dual` solves.

    **Forgetting** happens in rounds t that are n after the last, n = min(128, 1 + floor of t/8): f is (1 -
    forgets_j)^n, or (1 - n/t)^burn if that is less, because early scores of
    members, which learn fast at first, are outdated. A stack with the rate 0 has f = 1.

    **Curvature.** h is phi'' after the step, at least `floor`, where the unit is 1 and phi'' is known. Otherwise it is
    the mean of phi'' around the score before the step, (phi(z + r) - 2 phi(z) + phi(z - r)) / r^2: r is 1 if d is, and
    else twice the mean distance to the minimum as the derivative sees it, 2 sum phi / sum abs(phi').

    **Units.** d makes information a pure number: 1 for losses of classes (`Loss.value_unit`); for others the sum of
    phi'^2 by the sum of mean curvatures, over all rounds so far at the score of the ensemble. That is the mean squared
    error of the squared loss, and 1 / (twice the density of errors at 0) for the absolute one; phi / d has as
    much information about v as minus a log-likelihood. So multiplying all targets by a constant multiplies scores by
    it.

    **Rare rows.** A squared error beyond `robust` predictive standard deviations, sqrt(d (1 + p)), pulls as in Huber's
    loss and counts as much less; the phi'^2 of a loss without kinks count no more than robust^2 h d. Labels: of all
    that a stack remembers, `doubt` labels count as wrong: phi + wrong y z stands for phi, wrong = doubt max(1/t,
    forgets_j), so that scores beyond all experience cost something (with more classes the score of the right one, less
    the mean of the others, stands for y z), and where a member has a score of m > 1e6, (1e6 / m)^2 of that. A row of
    classes with a score of m > `limit` adds (limit / m)^2 of its curvature. No row adds more than 1e6 times what was
    known about its score, and no member keeps information of more than 1e10 / prior, so that doubles hold the prior
    beside it. A member with a score that is not finite, or beyond 1e145, is taken out for ever: its weight is 0,
    weights and information of all others stay.

    **A score per class** (`Softmax`, `CrammerSinger`): v is shared by all classes, z_c are the scores of class c, and
    h z z' is the covariance of the z_c, with the probabilities of the classes after the step; where there are kinks,
    with those that an exact step of length 1 for the scores themselves leads to.

    >>> stack = NewtonStack()
    >>> stack.kept(0, 64.0, 1e6), round(stack.kept(2, 64.0, 1e6), 4), stack.kept(1, 1.0, 8.0)
    (1.0, 0.8251, 0.669921875)
    """

    prior: float = 0.1
    forgets: PerFeature = (0.0, 3e-4, 3e-3)  # type: ignore[assignment]
    burn: float = 3.0
    floor: float = 1e-3
    limit: float = 20.0
    robust: float = 5.0
    doubt: float = 0.5

    def validate(self) -> None:
        require("NewtonStack.prior", self.prior, 0.0, 1e100, open_low=True)
        require("NewtonStack.forgets", self.forgets, 0.0, 0.5)
        require("NewtonStack.burn", self.burn, 0.0, 100.0)
        require("NewtonStack.floor", self.floor, 0.0, 1e100)
        require("NewtonStack.limit", self.limit, 0.0, OVERFLOWN, open_low=True)
        require("NewtonStack.robust", self.robust, 0.0, 1e100, open_low=True)
        require("NewtonStack.doubt", self.doubt, 0.0, 1e100)
        if np.ndim(self.forgets) != 1 or np.size(self.forgets) == 0:
            raise ValueError(f"NewtonStack.forgets must be a list of rates, got {self.forgets!r}")

    def period(self, t: float) -> float:
        """Return the number of rounds from round t to the next update of information."""
        return smaller(PERIOD, 1.0 + t // 8.0)

    def kept(self, j: int, n: float, t: float) -> float:
        """Return the fraction of the information of stack j that is kept over the n rounds up to round t."""
        rate = value_at(self.forgets, j)
        return smaller((1.0 - rate) ** n, (1.0 - n / t) ** self.burn) if rate > 0.0 else 1.0

    def wrong(self, rate: Any, t: float, peak: float) -> Any:
        """Return the fraction of labels that a stack with this rate of forgetting counts as wrong in round t.

        `peak` is the largest member score of the row; rates may be lanes.
        """
        found = smaller(self.doubt * larger(rate, 1.0 / t), 0.5)
        part = ABSURD / peak if peak > ABSURD else 1.0
        return found * (part * part)

    def variance_known_with(self, members: Sequence[bool]) -> bool:
        return any(members)

    def common_share(self, t: float) -> float:
        """Return the part of all shares that is divided equally in round t."""
        return smaller(0.5, 1.0 / t)


class Bayes(Stack):
    """Exponential weights: a member has weight exp(-its losses so far), normalized.

    With the weights pi of K members, at first 1/K each, their scores z before the row and the loss phi (times the
    sample weight),

        score     log(sum_k pi_k sigmoid(z_k)) - log(sum_k pi_k sigmoid(-z_k))       the mean of probabilities, or
                  sum_k pi_k z_k                                                     that of scores
        learn     pi_k <- pi_k exp(-phi(z_k) / d), normalized
        share     pi_k <- (1 - switching) pi_k + switching / K                       with K the members that are in

    Probabilities are averaged where the loss is minus their logarithm (`Loss.is_probability`: `Logistic`; with a score
    per class `Softmax`, whose scores are then the logarithms of mean probabilities); d is 1 there. Then for
    sample weights of at most 1, whatever the rows,

        loss of the ensemble  <=  loss of the best member + log K                    (switching = 0),
        loss of the ensemble  <=  loss of any sequence of members that changes m times in T rounds
                                  + log K + m log(K / switching) - (T - 1 - m) log(1 - switching).

    The score is then not linear in the row: there are no weights, no intercept and no ONNX. For other losses it is,
    with d as in `NewtonStack`, and by convexity its loss is at most the mean of the members'; no bound is known there.
    A member with a score that is not finite is taken out for ever.

    Parameters
    ----------
    switching : float
        The share that is divided equally among all members after every round; 0 for the bound by the best.

    Examples
    --------
    >>> from fiol import FIOL, AdaGrad, Constant, Ensemble, Learner, Logistic, ScaleFree
    >>> sizes = [ScaleFree(Constant(10.0)), ScaleFree(AdaGrad(1.0)), ScaleFree(AdaGrad(30.0))]
    >>> learner = Learner(Ensemble([FIOL(Logistic(), step_size=size) for size in sizes], Bayes()))
    >>> scores = learner.learn([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]] * 40, [1, -1, 1] * 40)
    >>> best = min(member.loss for member in learner.members)
    >>> bool(120 * learner.progressive_loss <= 120 * best + np.log(3))
    True
    """

    switching: float = 0.0

    def validate(self) -> None:
        require("Bayes.switching", self.switching, 0.0, 0.5)

    def linear_for(self, loss: AnyLoss) -> bool:
        return not loss.is_probability


class BestMember(Stack):
    """The member with the least loss so far: the ensemble has its scores and its weights, zeros included.

    In round t that is the member k with the least sum of phi(z_k) over the rows before (times sample weights), of equal
    ones the first. A member with a score that is not finite is taken out for ever. Where rows are drawn at random, the
    choice soon stays the same; unlike `Bayes`, there is no bound for adversarial rows.

    >>> from fiol import FIOL, AdaGrad, Ensemble, Learner, Logistic
    >>> updates = [FIOL(Logistic(), step_size=AdaGrad(size)) for size in (1e-6, 1.0)]
    >>> learner = Learner(Ensemble(updates, BestMember()))
    >>> scores = learner.learn([[1.0], [-1.0]] * 20, [1, -1] * 20)
    >>> [member.weight for member in learner.members]
    [0.0, 1.0]
    """

    def variance_known_with(self, members: Sequence[bool]) -> bool:
        return all(members)
