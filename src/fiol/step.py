"""`solve_step`, one exact step, with its arguments checked."""

from __future__ import annotations

from typing import Any, NamedTuple, Union

import numpy as np
from numpy.typing import ArrayLike

from fiol.components.component import Component, per_feature_sizes, place
from fiol.components.geometries import Euclidean, Geometry
from fiol.components.losses import Loss
from fiol.components.regularizers import Regularizer, Unregularized
from fiol.components.row import Floats, Indices, Row
from fiol.components.scalars import STEEP
from fiol.components.solvers import Solver
from fiol.components.subproblem import Problem, make_problem

#: The largest relative error of beta and of the score in their equation; rounding errors are far smaller.
UNSOLVED = 1e-8


class Step(NamedTuple):
    """The result of one exact step."""

    w: Floats  #: the new weights
    beta: float  #: the dual scalar, minus the derivative of the loss at the new score
    z: float  #: the new score <x, w>
    iterations: int  #: passes over the row
    residual: float  #: how far beta is from solving its equation


def solve_step(
    x: Union[ArrayLike, tuple[ArrayLike, ArrayLike]],
    y: float,
    w: ArrayLike,
    *,
    loss: Loss,
    regularizer: Regularizer | None = None,
    geometry: Geometry | None = None,
    eta: float = 1.0,
    solver: Solver | None = None,
    sample_weight: float = 1.0,
    compiled: bool = True,
) -> Step:
    """Return the exact minimizer of one round,

        argmin_v  sample_weight * loss(<x, v>; y) + sum_i regularizer(v_i) + B(v, w) / eta.

    Parameters
    ----------
    x : d features, dense, as a tuple (indices, values) with increasing indices, or a row of a scipy sparse matrix.
    y : target; -1 or +1 for the binary losses.
    w : the d weights before the step, not changed. Shape (2, d) for `SignedEntropy`.
    loss, regularizer, geometry : components; no regularizer and `Euclidean()` by default.
    eta : step size, positive and finite. The answer is exact for any size from 1e-12 to 1e12, and beyond as long as
        eta * sample_weight * x**2 is a finite double: OverflowError otherwise. A penalty of your own where eta is
        beyond 1e6, or a beta near the least double, may need more digits than there are: an OverflowError too.
    solver : by default the fastest that goes with the other components. All solvers find the same weights.
    sample_weight : multiplies the loss.
    compiled : whether to compile the step; False runs the same code in the interpreter.

    Examples
    --------
    >>> from fiol import L1, Sorting, Squared, solve_step
    >>> step = solve_step([1.0, 2.0], 3.0, [0.0, 0.0], loss=Squared(), regularizer=L1(0.5), eta=10.0)
    >>> step.w, round(step.z, 6), round(step.beta, 6)
    (array([0.        , 1.34146341]), 2.682927, 0.317073)

    The pull beta = 0.317 on the first feature is weaker than its penalty 0.5, so its weight is
    exactly 0. A sparse row and another solver give the same weights:

    >>> solve_step(([0, 1], [1.0, 2.0]), 3.0, [0.0, 0.0], loss=Squared(), regularizer=L1(0.5),
    ...            eta=10.0, solver=Sorting()).w
    array([0.        , 1.34146341])

    References
    ----------
    Song, Liu, Liu, Jiang, Zhang, "Fully Implicit Online Learning", Eq. 3, with the divergence weighted
    by 1/eta as in its Lemma 1.
    """
    geometry = Euclidean() if geometry is None else geometry
    problem = make_problem(loss, Unregularized() if regularizer is None else regularizer, geometry, solver)
    old = check_start(w, geometry)
    problem, row, before = make_row(problem, geometry, x, y, old, eta, sample_weight)
    (beta, z, passes, residual, reach), solved, after = solve_problem(problem, row, before, compiled)
    to = geometry.reparametrization()
    with np.errstate(all="ignore"):
        new = to.restore_step(old, before, after)
    refuse_overflow(problem, row, beta, z, reach, new, to.weights_per_feature)
    refuse_unsolved(problem, row, solved, float(beta), float(z), reach)
    return Step(new, float(beta) + 0.0, float(z) + 0.0, int(passes), float(residual))


def solve_problem(problem: Problem, row: Row, before: Floats, compiled: bool) -> tuple[Any, Floats, Floats]:
    """Return the results of `step_row`, the row's new weights, and all new weights, given those before the step."""
    solved, after = np.empty_like(row.x), np.empty_like(before)
    step_row, absent_weights = kernels(compiled)
    with np.errstate(all="ignore"):  # the interpreter warns where compiled code goes on with infinity
        found = step_row(problem, row, solved)
        if row.x.shape[0] < before.shape[0]:
            absent_weights(problem, before, row.steps, after)
    after[row.feature] = solved
    return found, solved, after


def refuse_unsolved(problem: Problem, row: Row, solved: Floats, beta: float, z: float, reach: float) -> None:
    """Raise OverflowError if the step was so long that rounding errors have spoiled the solution."""
    size = float(np.abs(row.x) @ (np.abs(row.center) + np.abs(solved)))
    steep = problem.geometry.quadratic and reach > STEEP
    if steep and not problem.solves(row, beta, z, UNSOLVED * abs(beta), UNSOLVED * size):
        raise OverflowError(
            f"the step needs more digits than double precision has: eta = {row.steps:g} is too large for these numbers "
            f"and {problem.regularizer!r}, which may take back nearly all of what the loss pulls; make eta smaller"
        )


def refuse_overflow(
    problem: Problem, row: Row, beta: Any, z: Any, reach: float, new: Floats, weights_per_feature: int
) -> None:
    """Raise OverflowError unless all results are finite, and, where weights are proportional to it, the reach is."""
    with np.errstate(all="ignore"):
        pulls = row.weight * beta, row.steps * beta  # a row multiplies them by x, 0 included
    finite = np.isfinite([z, beta, *pulls]).all() and np.isfinite(new).all()
    if not finite or (problem.geometry.quadratic and not np.isfinite(reach)):
        largest = int(row.feature[np.abs(row.x).argmax()]) // weights_per_feature
        raise OverflowError(
            f"the step leaves the range of double precision: eta * sample_weight * x[{largest}]**2, or the derivative "
            "of the loss, is too large; scale the features"
        )


def make_row(
    problem: Problem, geometry: Geometry, x: Any, y: float, w: Floats, eta: float, sample_weight: float
) -> tuple[Problem, Row, Floats]:
    """Check the arguments of `solve_step`; return problem, row and weights in the coordinates of the solver."""
    d, reparametrization = w.shape[-1], geometry.reparametrization()
    check_per_feature(problem, d)
    index, values = check_row(x, d)
    target = check_target(y, problem.loss)
    eta = check_number("eta", eta, positive=True)
    weight = check_number("sample_weight", sample_weight)
    _, feature, values = reparametrization.transform_rows((np.array([0, len(index)]), index, values), d)
    working = reparametrization.transform_weights(w)
    if not reparametrization.is_identity:
        problem = problem.replace(regularizer=reparametrization.transform_regularizer(problem.regularizer))
    return problem, Row(feature, values, working[feature], eta, target, weight), working


def kernels(compiled: bool) -> tuple[Any, Any]:
    """Return the compiled kernels, or their Python functions."""
    from fiol.compiler import compiled as layer  # imported here: `import fiol` loads no compiler
    from fiol.engine.round.exact_step import absent_weights, step_row

    both = step_row, absent_weights
    return both if compiled else (layer.interpreted(step_row), layer.interpreted(absent_weights))


# --- checks of the arguments, each naming the place that is wrong ------------------------------


def check_start(w: ArrayLike, geometry: Geometry) -> Floats:
    """Return a copy of the weights before a step; ValueError unless shape and domain fit the geometry."""
    weights, name = as_floats("w", w), type(geometry).__name__
    paired = geometry.reparametrization().weights_per_feature == 2
    if paired and (weights.ndim != 2 or weights.shape[0] != 2):
        raise ValueError(f"w must have shape (2, d) for {name}, got {weights.shape}; see SignedEntropy.split")
    if not paired and weights.ndim != 1:
        raise ValueError(f"w must be one-dimensional, got shape {weights.shape}")
    geometry.check_domain(weights)
    return weights


def check_row(x: Any, d: int) -> tuple[Indices, Floats]:
    """Return indices and values of a row of `d` features."""
    if hasattr(x, "tocsr"):  # a row of a scipy sparse matrix
        if x.shape not in ((1, d), (d,)):
            raise ValueError(f"a sparse x must be one row of {d} features, got shape {x.shape}")
        row = x.tocsr()
        x = (row.indices, row.data)
    elif not (isinstance(x, tuple) and len(x) == 2 and np.ndim(x[0]) == 1):
        values = as_floats("x", x)
        if values.shape != (d,):
            raise ValueError(f"x must have as many features as w has weights: shape ({d},), got {values.shape}")
        return np.arange(d, dtype=np.int32), values
    index, values = np.asarray(x[0]), as_floats("x values", x[1])
    if index.size == 0:
        index = index.astype(np.int32)
    if index.ndim != 1 or index.dtype.kind not in "iu":
        raise TypeError(f"x indices must be one-dimensional integers, got {index.dtype} of shape {index.shape}")
    if index.shape != values.shape:
        raise ValueError(f"x indices and values must have the same length, got {index.size} and {values.size}")
    outside = (index < 0) | (index >= d)
    if outside.any():
        k = int(outside.argmax())
        raise ValueError(f"x indices must be from 0 to {d - 1}, got {index[k]} at position {k}")
    falling = index[1:] <= index[:-1]
    if falling.any():
        k = int(falling.argmax()) + 1
        kind = "duplicate" if index[k] == index[k - 1] else "unsorted"
        raise ValueError(f"x indices must increase, got {index[k]} after {index[k - 1]} at position {k} ({kind})")
    return index.astype(np.int32), values


def check_per_feature(component: Component, d: int) -> None:
    """Raise ValueError unless every array in a component, or in one inside it, has one entry per feature."""
    for name, shape in per_feature_sizes(component):
        if shape != (d,):
            raise ValueError(f"{name} has shape {shape}, but there are {d} features")


def check_target(y: float, loss: Loss) -> float:
    """Return the target as a float; ValueError unless the loss accepts it."""
    target = check_number("y", y, negative=True)
    if not loss.accepts(target):
        raise ValueError(f"y must be {loss.targets} for {type(loss).__name__}, got {target:g}")
    return target


def check_number(name: str, value: Any, positive: bool = False, negative: bool = False) -> float:
    """Return `value` as a finite float, which must be above 0 if `positive`, and at least 0 unless `negative`."""
    try:
        if isinstance(value, (str, bytes)) or np.ndim(value) > 0:  # float() takes "1", and older numpy's takes [1.0]
            raise TypeError
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, got {value!r}") from None
    except OverflowError:  # an int beyond the largest double
        number = np.inf
    if not np.isfinite(number):
        raise ValueError(f"{name} must be finite, got {number}")
    if (positive and number <= 0.0) or (not negative and number < 0.0):
        raise ValueError(f"{name} must be {'positive' if positive else 'at least 0'}, got {number:g}")
    return number


def as_floats(name: str, value: Any) -> Floats:
    """Return a contiguous float64 copy; ValueError at the first entry that is not finite."""
    try:
        array = np.asarray(value)
    except ValueError:  # a nested list with rows of different lengths
        array = np.array(None)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be an array of numbers, got {type(value).__name__}")
    array = np.array(array, dtype=np.float64, order="C")
    wrong = ~np.isfinite(array)
    if wrong.any():
        raise ValueError(f"{name}{place(wrong)} must be finite, got {array[wrong][0]}")
    return array
