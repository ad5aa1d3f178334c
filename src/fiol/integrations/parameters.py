"""The parameters of estimators, named as in other libraries, and the components that they stand for."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from itertools import product
from numbers import Real
from typing import Any, ClassVar

from fiol.algorithms.ensemble import Ensemble
from fiol.algorithms.grid import KEEP_BEST, values_of
from fiol.algorithms.update import TUNING_FREE, Update
from fiol.components import geometries
from fiol.components.geometries import Geometry
from fiol.components.losses import Loss
from fiol.components.regularizers import Regularizer, Unregularized, non_negative
from fiol.components.solvers import Bisection, ClosedForm, Newton, Partition, Solver, Sorting
from fiol.components.step_sizes import AdaGrad, Constant, Polynomial, StepSize
from fiol.names import ALGORITHMS, DEFAULT_ALPHA, algorithm_named, by_name, component_named, penalty_named
from fiol.presets import Stacked

#: Step sizes that need no choice: of an ensemble where there can be one, and of one learner.
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


#: Parameters that describe the update, all but the loss; in River they can be changed in the middle of a stream.
UPDATE_PARAMETERS = ("penalty", "alpha", "l1_ratio", "algorithm", "step_size", "geometry", "solver", "positive")

#: The part of the docstrings of estimators about `UpdateParameters`.
UPDATE_DOCS = """
    penalty : None, "l1", "l2", "elasticnet", or a `fiol.Regularizer`
        Added to the loss of every row: alpha (l1_ratio abs(w) + (1 - l1_ratio) w^2 / 2) for the elastic net,
        l1_ratio 1 for "l1" and 0 for "l2". Absent features are shrunk too, exactly. The intercept is not penalized.
    alpha : float, by default 0.0001
        Strength of a penalty given by name. Without a penalty it has no effect.
    l1_ratio : float from 0 to 1, by default 0.15
        The share of l1 in "elasticnet"; no effect elsewhere, where it may be None.
    algorithm : name of a preset, "FIOL" by default: "SGD", "PA", "PA1", "PA2", "IOL", "COMID", "RDA", "ISGD",
        "FTRLProximal", "ImplicitFTRL", "Coin", "ImplicitCoin" (see `fiol.presets`).
    step_size : "auto" (for FIOL and a loss of one score seven step sizes at once, `fiol.Stacked`, without tuning;
        "single" if a geometry, a solver, average, positive, bounds of weights or an account of rounds is asked for,
        which ensembles do not have), "stacked" (the seven for a score per class, too: better probabilities in about
        eight times the time), "single" (the default of the preset; for FIOL steps that need no tuning), "scale_free",
        "adagrad", "inverse_sqrt", a number (constant steps; the aggressiveness of PA1 and PA2), or a `fiol.StepSize`.
    geometry : None (Euclidean), "euclidean", "entropy", "signed_entropy", "simplex", or a `fiol.Geometry`.
    solver : None (the fastest), "newton", "closed_form", "bisection", "sorting", "partition", or a `fiol.Solver`.
    average : predict with the average of the weights over all rounds.
    positive : keep the weights at 0 or above.
    fit_intercept : whether there is an intercept.
    features : "linear" (every column as it is), "additive" (a curve for every column of numbers, too), "pairwise" or
        "auto" (a table of cells for every pair of columns as well), or a `fiol.TableBasis`: docs/guides/tables.md. Only
        ensembles have curves and pairs.
"""


@dataclass(eq=False, repr=False)
class UpdateParameters:
    """Parameters that the estimators for scikit-learn and for River share, with their defaults.

    A dataclass writes the explicit signature of `__init__` that both libraries read, and stores parameters as they are
    given. `{parameters}` in the docstring of a subclass is replaced by the text of the parameters.
    """

    loss: Any
    _: KW_ONLY
    penalty: Any = None
    alpha: float = 0.0001
    l1_ratio: float | None = 0.15
    algorithm: str = "FIOL"
    step_size: Any = "auto"
    geometry: Any = None
    solver: Any = None
    average: bool = False
    positive: bool = False
    fit_intercept: bool = True
    features: Any = "linear"

    _parameter_docs: ClassVar[str] = UPDATE_DOCS

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__doc__ = (cls.__doc__ or "").replace("    {parameters}\n", cls._parameter_docs.strip("\n") + "\n")

    def update_parameters(self) -> dict[str, Any]:
        """Return the parameters that describe the update, by name; curves and pairs need an ensemble."""
        found = {name: getattr(self, name) for name in UPDATE_PARAMETERS}
        if self.features != "linear" and found["step_size"] == "auto":
            found["step_size"] = "stacked"
        return found


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
    """Return the update that parameters describe; ValueError if the algorithm does not take one that is given.

    Components may be given by name; a number as step_size is a constant one, or PA's aggressiveness. "stacked" is
    `Stacked`, and so is "auto" unless `alone` or another parameter needs a single learner. Otherwise "auto" means the
    default steps of the algorithm, as "single" always does; so does "auto" for a score per class: seven members take
    seven to eleven times as long there, since they do not run in SIMD lanes, and three times as long to compile.

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
    several = several and regularizer.strengths() is not None and not regularizer.is_bounded()
    if several and (step_size == "stacked" or (step_size == "auto" and isinstance(loss, Loss))):
        return Stacked(loss, regularizer)
    if step_size == "stacked":
        others = (
            "no algorithm but FIOL, no geometry, solver, average, positive, record_every, nor bounds of weights or a "
            "penalty of your own"
        )
        raise ValueError(f"step_size='stacked', and features other than 'linear', are seven learners with {others}")
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
    """Return an ensemble of an update for every combination of the values in `tune`, each a single learner.

    Predictions are those of the member with the least progressive loss so far.

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
    """Return the parameters of a preset."""
    return inspect.signature(preset).parameters


def make_step_size(given: Any) -> StepSize:
    """Return a step size given by name, as a component, or as a number, which is a constant one.

    >>> make_step_size(2)
    Constant(size=2.0)
    """
    return Constant(given) if isinstance(given, Real) else component_named(given, STEP_SIZES)  # type: ignore[arg-type]


def make_regularizer(penalty: Any, alpha: float, l1_ratio: float | None, positive: bool = False) -> Regularizer:
    """Return the penalty that parameters describe (`fiol.names.penalty_named`); `positive` keeps weights at 0 or above.

    >>> make_regularizer("l1", 0.1, 0.5), make_regularizer("l2", 0.1, 0.5), make_regularizer(None, 0.1, 0.5)
    (L1(lam=0.1), Ridge(lam=0.1), Unregularized())
    """
    if isinstance(penalty, str) and ":" in penalty and alpha != DEFAULT_ALPHA:
        raise ValueError(f"alpha={alpha:g} has no effect: penalty {penalty!r} has a strength")
    found = penalty_named(penalty, alpha, l1_ratio)
    return non_negative(found) if positive else found
