"""One update with three switches: every algorithm of the paper's Table 1, and those that followed it."""

from __future__ import annotations

import dataclasses
from math import isnan

import numpy as np

from fiol.algorithms.anchors import Anchor, LastIterate
from fiol.algorithms.loss_steps import ImplicitLoss, LossStep
from fiol.algorithms.regularizer_steps import ImplicitRegularizer, RegularizerStep
from fiol.components.component import Component
from fiol.components.geometries import Euclidean, Geometry
from fiol.components.joint_losses import AnyLoss, JointLoss
from fiol.components.losses import Loss
from fiol.components.regularizers import Regularizer, Unregularized
from fiol.components.solvers import Solver
from fiol.components.step_sizes import AdaGrad, ScaleFree, StepSize
from fiol.components.subproblem import expect

#: Steps that need no tuning, the default of updates.
TUNING_FREE = ScaleFree(AdaGrad())


class Update(Component):
    """The minimization that a learner makes in every round:

        w_new = argmin_w  A(w) + B(w) + C(w)

    with A the loss (implicit, linearized, importance-aware or truncated), B the regularizer (implicit,
    linearized, ignored, or once for all rounds) and C the anchor (the last iterate, the origin, or all past
    iterates). The default is fully implicit with steps that need no tuning. `fiol.presets` has the named ones.

    >>> from fiol import L1, Logistic
    >>> Update(Logistic(), L1(0.01)).anchor
    LastIterate()
    """

    loss: AnyLoss
    regularizer: Regularizer = Unregularized()
    step_size: StepSize = TUNING_FREE
    loss_step: LossStep = ImplicitLoss()
    regularizer_step: RegularizerStep = ImplicitRegularizer()
    anchor: Anchor = LastIterate()
    geometry: Geometry = Euclidean()
    solver: Solver | None = None

    def brief(self) -> str:
        """Return the parts that are not the default ones.

        >>> from fiol import L1, Logistic
        >>> Update(Logistic(), L1(0.01)).brief()
        'Update(loss=Logistic(), regularizer=L1(lam=0.01))'
        """
        parts = dataclasses.fields(self)  # type: ignore[arg-type]
        own = ((part.name, getattr(self, part.name)) for part in parts if getattr(self, part.name) != part.default)
        return f"Update({', '.join(f'{name}={value!r}' for name, value in own)})"

    def __post_init__(self) -> None:
        self.validate()  # first, for better messages about a text or a number in the place of a part
        super().__post_init__()

    def statistics(self) -> tuple[str, ...]:
        """Return the names of the numbers kept per feature, in the order of its record."""
        return self.step_size.for_loss(self.loss).statistics()

    def has_variance(self) -> bool:
        """Return whether variances of weights, and so of scores, are known."""
        step_size = self.step_size.for_loss(self.loss)
        return self.loss.has("dispersion") and not isnan(step_size.variance(np.ones(step_size.width()), 1.0, 1.0, 1.0))

    def starts_anywhere(self) -> bool:
        """Return whether learning can begin from given weights."""
        return self.geometry.reparametrization().is_identity and not self.anchor.keeps_all_rounds

    def centers_features(self) -> bool:
        """Return whether features far from 0 are learned as if their mean were 0, where there is an intercept."""
        return (
            self.step_size.properties().centers_features
            and self.geometry.quadratic
            and self.geometry.reparametrization().is_identity
        )

    def is_symmetric(self) -> bool:
        """Return whether weights may have any sign, so that targets times -1 make weights times -1."""
        low, high = self.regularizer.bounds()
        return self.geometry.least_weight() != 0.0 and low == -high

    def leaves_zeros(self) -> bool:
        """Return whether weights start at exactly 0, and may be set there."""
        starts, step = self.geometry.least_weight() != 0.0, self.regularizer_step
        return starts and self.regularizer.has_l1() and not (step.pushes or step.ignores)

    def is_linear(self) -> bool:
        """Return whether the score is <x, w> plus an intercept, for some weights."""
        return True

    def is_implicit(self) -> bool:
        """Return whether the loss is minimized as it is, so that no step overshoots."""
        return self.loss_step.solves

    def validate(self) -> None:
        expect("loss", self.loss, JointLoss if isinstance(self.loss, JointLoss) else Loss)
        expect("regularizer", self.regularizer, Regularizer)
        expect("step_size", self.step_size, StepSize)
        expect("loss_step", self.loss_step, LossStep)
        expect("regularizer_step", self.regularizer_step, RegularizerStep)
        expect("anchor", self.anchor, Anchor)
        expect("geometry", self.geometry, Geometry)
        if self.solver is not None:
            expect("solver", self.solver, Solver)
