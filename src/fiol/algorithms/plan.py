"""A plan: an update with all choices made, the value that compiled loops are specialized on."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np

from fiol.algorithms.anchors import Anchor
from fiol.algorithms.layout import Layout, choose_layout
from fiol.algorithms.lazy_updates import LAZY_UPDATES, AlwaysPresent, LazyUpdate, NothingDeferred, UpdateProperties
from fiol.algorithms.loss_steps import LossStep
from fiol.algorithms.regularizer_steps import IgnoredRegularizer, RegularizerStep
from fiol.algorithms.state import State, empty_state
from fiol.algorithms.units import RawUnits, Units, choose_units
from fiol.algorithms.update import Update
from fiol.components.component import Component
from fiol.components.geometries import Euclidean, Geometry
from fiol.components.joint_losses import JointLoss
from fiol.components.regularizers import Regularizer, Unregularized
from fiol.components.step_sizes import Adaptive, Observation, StepOutcome, StepSize
from fiol.components.subproblem import JointProblem, Problem, has_common_line, make_joint_problem, make_problem, refuse

#: The largest l1 strength times step size where weights follow from sums over all rounds.
MOST_SHRUNK = 1e9


class Plan(Component):
    """An `Update` in the form its loops take: with the problem that its solver solves, and a lazy update."""

    problem: Any  #: a `Problem`, or a `JointProblem`
    regularizer: Regularizer
    loss_step: LossStep
    regularizer_step: RegularizerStep
    anchor: Anchor
    step_size: StepSize
    lazy_update: LazyUpdate
    units: Units
    layout: Layout

    def step_of(self, state: State, i: int, eta: float) -> float:
        """Return the step of feature i; 0 for a feature about which nothing is known."""
        return self.step_size.step_of_feature(eta, state.statistics[i])

    def l1_rate(self, step: float, i: int) -> float:
        """Return the loss of abs(weight) / `clock.scale` to l1 per unit of `clock.cumulative_l1`, if Euclidean."""
        return self.regularizer.l1(i) * step

    def unit_of(self, state: State, i: int) -> float:
        """Return the factor of the weight of feature i in the penalty."""
        return self.units.unit_of(self.step_size, state.statistics[i])

    def first_weight(self, features: int) -> float:
        """Return every weight before the first round: the origin of the geometry, on the set Omega."""
        return self.regularizer.clip(self.problem.geometry.first_weight(features))

    def first_entry(self, features: int) -> float:
        """Return every entry of `State.w` before the first round: the weight, or the empty sum of pulls."""
        return 0.0 if self.anchor.keeps_all_rounds else self.first_weight(features)

    def new_state(self, shape: tuple[int, ...], first: float, dtype: Any, averaging: bool) -> State:
        """Return the state before the first round, with weights of this shape; `first` is every entry of `State.w`."""
        return empty_state(shape, first, dtype, self.lazy_update.records, self.step_size.width(), averaging)


@functools.lru_cache(maxsize=64)  # learners of equal updates share a plan, and with it compiled code
def make_plan(update: Update, averaging: bool = False) -> Plan:
    """Return the plan of an update; TypeError if its parts do not fit."""
    regularizer = update.geometry.reparametrization().transform_regularizer(update.regularizer)
    seen = update.regularizer_step.seen(regularizer)
    problem = subproblem(update, seen)
    refuse(objection(update, problem.geometry))
    refuse(record_objection(update.step_size))
    check_digits(update)
    lazy_update = choose_lazy_update(properties_of(update, problem.geometry, averaging))
    step_size = update.step_size.for_loss(update.loss)
    parts = update.loss_step, update.regularizer_step, update.anchor, step_size
    how, joint = update.regularizer_step, isinstance(update.loss, JointLoss)
    units = choose_units(step_size, update.regularizer, how, problem.geometry, joint)
    layout = choose_layout(seen, problem.geometry, joint)
    return Plan(problem, seen if how.ignores else regularizer, *parts, lazy_update, units, layout)


def subproblem(update: Update, seen: Regularizer) -> Problem | JointProblem:
    """Return the problem that the update's solver solves, with the regularizer `seen`."""
    parts = seen, update.geometry, update.solver
    if isinstance(update.loss, JointLoss):
        start = not update.anchor.keeps_all_rounds and not update.regularizer_step.pushes
        if update.loss_step.solves and not has_common_line(seen):
            refuse(
                f"{type(update.loss).__name__} goes with Ridge(lam) of one strength or one per feature, or "
                f"Unregularized(), not {seen!r}, where the loss is implicit: use LinearizedLoss()"
            )
        return make_joint_problem(update.loss, *parts, at_weights=start)
    return make_problem(update.loss, *parts)


@functools.lru_cache(maxsize=64)
def intercept_plan(plan: Plan) -> Plan:
    """Return the plan of the intercept: one Euclidean weight, always present, never penalized."""
    problem: Problem | JointProblem
    if isinstance(plan.problem, JointProblem):
        problem = make_joint_problem(plan.problem.loss, Unregularized(), Euclidean())
    else:
        problem = make_problem(plan.problem.loss, Unregularized(), Euclidean())
    parts = plan.loss_step, IgnoredRegularizer(), plan.anchor, plan.step_size
    lazy_update = AlwaysPresent() if plan.lazy_update.averages else NothingDeferred()
    own = Plan(problem, Unregularized(), *parts, lazy_update, RawUnits(), plan.layout)  # which is for rows
    # How no penalty is taken makes no difference: one compiled code instead of two.
    return plan if plan.replace(regularizer_step=IgnoredRegularizer()) == own else own


def objection(update: Update, geometry: Geometry) -> str:
    """Return why the parts of an update do not fit (`geometry` is the working one), or ''."""
    name = type(update.geometry).__name__
    if not update.loss.has(update.loss_step.needs):
        step, loss, verb = type(update.loss_step).__name__, type(update.loss).__name__, update.loss_step.needs
        return f"{step} needs `{verb}`; {loss} has none: use ImplicitLoss()"
    if update.regularizer_step.pushes and not update.regularizer.has("slope"):
        return (
            f"LinearizedRegularizer needs `slope`; {type(update.regularizer).__name__} has none: "
            "use ImplicitRegularizer()"
        )
    if update.regularizer_step.counts_once and not update.anchor.keeps_all_rounds:
        step = type(update.regularizer_step).__name__
        return f"{step} goes with anchors that keep all rounds, Origin() and AllIterates()"
    if update.step_size.properties().uses_pulls and update.anchor.follows_eta:
        rule, anchor = update.step_size, type(update.anchor).__name__
        return f"{rule} changes steps after a round, {anchor}() keeps sums of what they were before: use Origin()"
    if update.geometry.reparametrization().whole_rows:
        if update.step_size.per_feature:
            return f"{name} mixes the features, so steps per feature make no sense: use Constant() or another Schedule"
        if update.anchor.keeps_all_rounds:
            return f"{name} goes with LastIterate(), not {update.anchor}"
        if update.regularizer_step.pushes and not geometry.quadratic:
            return f"{name} goes with ImplicitRegularizer(), not {update.regularizer_step}"
    return ""


def check_digits(update: Update) -> None:
    """Raise ValueError where sums of pulls have no digits left for the weights that solve a round.

    With an l1 part a weight is eta (sum of pulls - rounds l1), and both sums are kept to sixteen digits. Linearized
    losses solve nothing: their pulls are what they are.
    """
    parts = update.regularizer.strengths()
    if (
        not (update.anchor.keeps_all_rounds and update.loss_step.solves)
        or update.regularizer_step.ignores
        or parts is None
    ):
        return
    eta, l1 = update.step_size.eta(1.0), float(np.max(parts[0]))
    if eta * l1 > MOST_SHRUNK:
        name = type(update.anchor).__name__
        raise ValueError(
            f"{name} keeps sums, whose digits do not suffice for a step size of {eta:g} with an l1 strength of {l1:g}: "
            f"their product must be at most {MOST_SHRUNK:g}; use LastIterate()"
        )


def record_objection(step_size: StepSize) -> str:
    """Return which method of an adaptive step size uses an entry beyond its record, or '': compiled code has no check.

    Its methods are called in the interpreter, once; a round raises whatever else they raise.
    """
    rule = getattr(step_size, "step_size", step_size)  # the one inside, if there is one
    if not isinstance(rule, Adaptive):
        return ""
    n = len(rule.statistics())
    record = np.zeros(n)
    observed: dict[str, tuple[Any, ...]] = {"observe": (Observation(1.0, 1.0, 2.0),), "h": (1.0,)}
    observed["observe_step"] = (StepOutcome(1.0, 1.0, 1.0, 1.0),)
    for method, arguments in observed.items():
        try:
            with np.errstate(all="ignore"):
                getattr(rule, method)(record, *arguments)
        except IndexError as error:
            found = re.search(rf"index (-?\d+) is out of bounds for axis 0 with size {n}$", str(error))
            if found:
                many = f"{n} statistic{'' if n == 1 else 's'}"
                return f"{type(rule).__name__}.{method} uses s[{found[1]}], but keeps names {many}"
        except Exception:
            continue
    return undeclared_fact(rule, n)


#: How a step size declares that it uses the curvatures that steps observe.
BY_CURVATURE = "return `rule_of_curvatures(size, base, part)` from `rule`, or derive it from fiol.Curvature"


def undeclared_fact(rule: Adaptive, n: int) -> str:
    """Return which fact of a round a step size uses without declaring it, or '': such facts are not computed."""
    seen, outcome = Observation(1.0, 1.0, 2.0), StepOutcome(1.0, 1.0, 1.0, 1.0)
    for method, declared, how, fact, other in (
        ("observe", rule.uses_length, "declare `uses_length = True`", seen, seen._replace(length=5.0)),
        ("observe_step", rule.uses_pulls, "declare `uses_pulls = True`", outcome, outcome._replace(pull=3.0, gain=2.0)),
        ("observe_step", rule.rule().curvatures, BY_CURVATURE, outcome, outcome._replace(curvature=4.0)),
    ):
        records = np.zeros((2, n))
        try:
            with np.errstate(all="ignore"):
                for record, given in zip(records, (fact, other), strict=True):
                    getattr(rule, method)(record, given)
        except Exception:
            continue
        if not declared and not np.array_equal(records[0], records[1], equal_nan=True):
            names = " and ".join(name for name, a, b in zip(fact._fields, fact, other, strict=True) if a != b)
            return f"{type(rule).__name__}.{method} uses {names}, which is not computed: {how}"
    return ""


def properties_of(update: Update, geometry: Geometry, averaging: bool) -> UpdateProperties:
    """Return the properties by which a lazy update is chosen; `geometry` is the working one."""
    how, anchor, step_size = update.regularizer_step, update.anchor, update.step_size
    penalty = update.regularizer.omega() if how.ignores else update.regularizer
    return UpdateProperties(
        l1=penalty.has_l1(),
        ridge=penalty.has_ridge(),
        common_ridge=penalty.ridge_is_common(),
        bounded=penalty.is_bounded(),
        replayable=penalty.has("catch_up"),
        linearized=how.pushes,
        constant=step_size.properties().constant,
        one_step=not step_size.per_feature,
        quadratic=geometry.quadratic,
        unit_metric=geometry.unit_metric,
        keeps_all_rounds=anchor.keeps_all_rounds,
        follows_eta=anchor.follows_eta,
        mixes_features=update.geometry.reparametrization().whole_rows,
        averaged=averaging,
    )


def choose_lazy_update(update: UpdateProperties) -> LazyUpdate:
    """Return the cheapest lazy update that is exact for an update; see `fiol.algorithms.lazy_updates`.

    >>> from fiol import L1, AdaGrad, ElasticNet, Euclidean, Logistic, Polynomial, Ridge
    >>> [choose_lazy_update(properties_of(Update(Logistic(), r, s), Euclidean(), False)) for r, s in [
    ...     (L1(0.1), Polynomial()), (Ridge(0.1), Polynomial()), (ElasticNet(0.1, 0.1), AdaGrad())]]
    [CumulativeL1(), ScaledRidge(), CatchUpReplay()]
    """
    return min((lazy for lazy in LAZY_UPDATES if lazy.exact_for(update)), key=lambda lazy: lazy.cost)
