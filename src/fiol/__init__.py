"""fiol: online learning with linear models by exact steps.

Every round solves  argmin_w  loss(<x, w>; y) + regularizer(w) + B(w, w_hat) / eta  exactly, linearizing
neither loss nor regularizer (Song, Liu, Liu, Jiang, Zhang, "Fully Implicit Online Learning").

>>> import fiol
>>> fiol.solve_step([1.0, 2.0], 3.0, [0.0, 0.0], loss=fiol.Squared(), regularizer=fiol.L1(0.5), eta=10.0).w
array([0.        , 1.34146341])
"""

from fiol import checks
from fiol.geometries import (
    DiagonalMetric,
    Entropy,
    Euclidean,
    Geometry,
    Mahalanobis,
    Separable,
    SignedEntropy,
    Simplex,
)
from fiol.losses import (
    Absolute,
    EpsilonInsensitive,
    Exponential,
    Hinge,
    Huber,
    Logistic,
    Loss,
    Poisson,
    Quantile,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)
from fiol.regularizers import L1, Box, ElasticNet, Regularizer, Ridge, Unregularized, non_negative
from fiol.solvers import (
    Bisection,
    ClosedForm,
    MedianOfMedians,
    Newton,
    Partition,
    RandomPivot,
    Solver,
    Sorting,
)
from fiol.step import Step, solve_step

__version__ = "0.1.0"

__all__ = [
    "L1",
    "Absolute",
    "Bisection",
    "Box",
    "ClosedForm",
    "DiagonalMetric",
    "ElasticNet",
    "Entropy",
    "EpsilonInsensitive",
    "Euclidean",
    "Exponential",
    "Geometry",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "Mahalanobis",
    "MedianOfMedians",
    "Newton",
    "Partition",
    "Poisson",
    "Quantile",
    "RandomPivot",
    "Regularizer",
    "Ridge",
    "Separable",
    "SignedEntropy",
    "Simplex",
    "Solver",
    "Sorting",
    "Squared",
    "SquaredEpsilonInsensitive",
    "SquaredHinge",
    "Step",
    "Unregularized",
    "checks",
    "non_negative",
    "solve_step",
]
