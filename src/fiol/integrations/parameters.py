"""Updates by words and numbers: the parameters of estimators, as other libraries have them, as components."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from itertools import product
from numbers import Real
from typing import Any

from fiol.algorithms.ensemble import Ensemble
from fiol.algorithms.grid import KEEP_BEST, values_of
from fiol.algorithms.update import TUNING_FREE, Update
from fiol.components import geometries
from fiol.components.geometries import Geometry
from fiol.components.losses import Loss
from fiol.components.regularizers import Regularizer, Unregularized, non_negative
from fiol.components.solvers import Bisection, ClosedForm, Newton, Partition, Solver, Sorting
from fiol.components.step_sizes import AdaGrad, Constant, Polynomial, StepSize
from fiol.names import ALGORITHMS, algorithm_named, by_name, component_named, penalty_named
from fiol.presets import Stacked

#: Step sizes that nobody chooses: of an ensemble where there can be one, and of one learner.
AUTOMATIC = ("auto", "single", "stacked")
STEP_SIZES: dict[str, StepSize] = {
    "scale_free": TUNING_FREE,
    "adagrad": AdaGrad(),
    "inverse_sqrt": Polynomial(),
}
GEOMETRIES: dict[str, Geometry] = by_name(geometries)
SOLVERS: dict[str, Solver] = {
    "newton": Newton(),
    "closed_form": ClosedForm(),
    "bisection": Bisection(),
    "sorting": Sorting(),
    "partition": Partition(),
}

#: Parameters of which several values can be tried in one pass.
TUNABLE = ("alpha", "l1_ratio", "penalty", "step_size", "algorithm")


def make_update(
    loss: Loss,
    penalty: Any = None,
    alpha: float = 1e-4,
    l1_ratio: float | None = 0.15,
    algorithm: str = "FIOL",
    step_size: Any = "auto",
    geometry: Any = None,
    solver: Any = None,
    positive: bool = False,
    alone: bool = False,
) -> Update | Ensemble:
    """The update that parameters describe; ValueError if the algorithm has no use for one that is given.

    Components may be given by name; a number as step_size is a constant one, or PA's aggressiveness. "stacked" is
    `Stacked`, and so is "auto" where nothing is asked for that an ensemble does not have, and it need not be `alone`;
    otherwise, as "single" always is, the steps that the algorithm prefers. So is "auto" for a score per class: seven
    members take seven to eleven times as long there, since they are no lanes, and three times as long to compile.

    >>> from fiol import Logistic
    >>> make_update(Logistic(), "elasticnet", 0.1, 0.5, step_size=2).regularizer
    ElasticNet(lam1=0.05, lam2=0.05)
    >>> make_update(Logistic(), "l1").brief()
    'Ensemble of 7 with Logistic() behind a gate with L1(lam=0.0001)'
    >>> make_update(Logistic(), "l1", algorithm="PA1")
    Traceback (most recent call last):
    ValueError: PA1 has no use for penalty='l1'
    """
    algorithm = algorithm_named(algorithm)
    preset = ALGORITHMS[algorithm]
    accepted = accepted_by(preset)
    regularizer = make_regularizer(penalty, alpha, l1_ratio, positive)
    given: dict[str, tuple[str, Any, Any]] = {
        "regularizer": ("positive", positive, regularizer) if penalty is None else ("penalty", penalty, regularizer),
        "geometry": ("geometry", geometry, component_named(geometry, GEOMETRIES)),
        "solver": ("solver", solver, component_named(solver, SOLVERS)),
    }
    several = algorithm == "FIOL" and not (alone or positive or geometry or solver)
    several = several and regularizer.strengths() is not None
    if several and (step_size == "stacked" or (step_size == "auto" and isinstance(loss, Loss))):
        return Stacked(loss, regularizer)
    if step_size == "stacked":
        others = (
            "no algorithm but FIOL, no geometry, solver, average, positive, record_every, nor a penalty of one's own"
        )
        raise ValueError(f"step_size='stacked' is seven learners, which have {others}")
    if regularizer == Unregularized():
        del given["regularizer"]
    if isinstance(step_size, Real) and "aggressiveness" in accepted:
        given["aggressiveness"] = "step_size", step_size, step_size
    elif step_size not in AUTOMATIC:
        given["step_size"] = "step_size", step_size, make_step_size(step_size)
    parts = {}
    for part, (name, value, component) in given.items():
        if component is not None:
            if part not in accepted:
                raise ValueError(f"{algorithm} has no use for {name}={value!r}")
            parts[part] = component
    return preset(loss=loss, **parts)


def make_grid(loss: Loss, tune: Mapping[str, Any], **given: Any) -> Ensemble:
    """The updates that parameters describe, one for every combination of the values in `tune`, in one pass.

    What is predicted is what the one with the least progressive loss so far predicts. Each is a single learner.

    >>> from fiol import Logistic
    >>> grid = make_grid(Logistic(), {"alpha": [0.1, 1.0]}, penalty="l1")
    >>> [member.regularizer for member in grid.members], grid.stack
    ([L1(lam=0.1), L1(lam=1.0)], BestMember())
    >>> make_grid(Logistic(), {"alhpa": [0.1]})
    Traceback (most recent call last):
    ValueError: tune has no use for 'alhpa': there are alpha, l1_ratio, penalty, step_size, algorithm
    """
    unknown = [name for name in tune if name not in TUNABLE]
    if unknown or not tune:
        wrong = f"has no use for {unknown[0]!r}" if unknown else "is empty"
        raise ValueError(f"tune {wrong}: there are {', '.join(TUNABLE)}")
    if given.pop("alone", False):
        raise ValueError("tune has several learners, which keep no average and no account: leave those out")
    if given.get("step_size", "auto") == "auto":
        given["step_size"] = "single"
    values = [values_of(name, some, "tune") for name, some in tune.items()]
    members = [make_update(loss, **{**given, **dict(zip(tune, some, strict=True))}) for some in product(*values)]
    if any(isinstance(member, Ensemble) for member in members):
        raise ValueError("tune tries single learners: step_size='auto' and 'stacked' are seven each")
    return Ensemble(members, KEEP_BEST)  # type: ignore[arg-type]


@functools.cache
def accepted_by(preset: Callable[..., Update]) -> Mapping[str, Any]:
    """The parameters of a preset."""
    return inspect.signature(preset).parameters


def make_step_size(given: Any) -> StepSize:
    """A step size by name, as a component, or as a number: a constant one.

    >>> make_step_size(2)
    Constant(size=2.0)
    """
    return Constant(given) if isinstance(given, Real) else component_named(given, STEP_SIZES)  # type: ignore[arg-type]


def make_regularizer(penalty: Any, alpha: float, l1_ratio: float | None, positive: bool = False) -> Regularizer:
    """Return the penalty that parameters describe (`fiol.names.penalty_named`); `positive` keeps weights at 0 or above.

    >>> make_regularizer("l1", 0.1, 0.5), make_regularizer("l2", 0.1, 0.5), make_regularizer(None, 0.1, 0.5)
    (L1(lam=0.1), Ridge(lam=0.1), Unregularized())
    """
    found = penalty_named(penalty, alpha, l1_ratio)
    return non_negative(found) if positive else found
