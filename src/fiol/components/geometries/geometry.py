"""The base class of geometries: the path of a row's weights, and the divergence of whole vectors.

For one row, a geometry and a regularizer determine how the weights move when the loss pulls with strength beta:

    w(beta) = argmin_w  -beta <x, w> + r(w) + B(w, w_hat) / eta,        g(beta) = <x, w(beta)>.

Solvers follow this path by the methods `path_...`.

Where steps are long, eta beta x and eta lam are both huge, and a weight is their small difference: neighboring doubles
beta then give weights that differ in the first digit. There the path is followed from a fixed beta by its *excess*:
for each weight psi'(w(beta)) / metric, computed without that cancellation (`path_excess`). For beta + delta the excess
is larger by eta delta x / metric, for a delta far below the last digit of beta, and the weights follow from it
(`path_near`).
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fiol.components.component import Component, place
from fiol.components.geometries.reparametrization import IDENTITY, Reparametrization
from fiol.components.regularizers import Regularizer
from fiol.components.row import Floats, Row


class Geometry(Component):
    """A Bregman divergence B(u, w) = psi(u) - psi(w) - <psi'(w), u - w>, of weights w or of `working` weights.

    Most geometries are `Separable`, which has all of this but for four methods. Of a row, for solvers:

    | method | meaning |
    |---|---|
    | `path_start(row)` | (p, q): slope and score of the path at beta = 0, as if there were no regularizer |
    | `path_fill(regularizer, row, beta, out)` | writes w(beta), returns its score g(beta) |
    | `path_point(regularizer, row, beta, out)` | writes w(beta), returns (g(beta), g'(beta)) |
    | `path_score(regularizer, row, beta)` | g(beta); the default calls `path_fill` |
    | `path_line(regularizer, row, beta)` | (p, q) with g = p beta + q around beta; the default calls `path_point` |
    | `path_excess(regularizer, row, beta, out)` | writes the excess of w(beta), see the module; optional |
    | `path_near(regularizer, row, beta, delta, excess, out)` | writes w(beta + delta), by its excess; optional |

    Of whole vectors, for the theory: `distance(u, w)`, that is B; `norm` and `dual_norm`; `strong_convexity(u, w)`.

    | attribute | meaning |
    |---|---|
    | `quadratic` | whether w(beta) is piecewise linear, so that a regularizer acts through its Euclidean prox |
    | `unit_metric` | whether B is half the squared Euclidean distance |
    | `sums_to_one` | whether all weights sum to 1 |
    | `alias` | the name of the geometry, with its defaults, in estimators |
    """

    protocol: ClassVar[dict[str, tuple[str, ...]]] = {
        "path_start": ("row",),
        "path_fill": ("regularizer", "row", "beta", "out"),
        "path_point": ("regularizer", "row", "beta", "out"),
    }
    required: ClassVar[tuple[str, ...]] = tuple(protocol)
    protocol |= {
        "path_score": ("regularizer", "row", "beta"),
        "path_line": ("regularizer", "row", "beta"),
        "path_excess": ("regularizer", "row", "beta", "out"),
        "path_near": ("regularizer", "row", "beta", "delta", "excess", "out"),
    }
    quadratic: ClassVar[bool] = False
    unit_metric: ClassVar[bool] = False
    sums_to_one: ClassVar[bool] = False
    alias: ClassVar[str] = ""

    if TYPE_CHECKING:

        def path_start(self, row: Row) -> tuple[float, float]: ...
        def path_fill(self, regularizer: Regularizer, row: Row, beta: float, out: Floats) -> float: ...
        def path_point(self, regularizer: Regularizer, row: Row, beta: float, out: Floats) -> tuple[float, float]: ...

    def path_score(self, regularizer: Regularizer, row: Row, beta: float) -> float:
        return self.path_fill(regularizer, row, beta, np.empty(row.x.shape[0]))

    def path_line(self, regularizer: Regularizer, row: Row, beta: float) -> tuple[float, float]:
        z, p = self.path_point(regularizer, row, beta, np.empty(row.x.shape[0]))
        return p, z - p * beta

    def path_excess(self, regularizer: Regularizer, row: Row, beta: float, out: Floats) -> None:
        """Write the excess of w(beta); by default nothing, and `path_near` needs none."""

    def path_near(
        self, regularizer: Regularizer, row: Row, beta: float, delta: float, excess: Floats, out: Floats
    ) -> float:
        """Write w(beta + delta), whose excess is given; return its score without the intercept.

        A constant that all entries of `excess` have in common may be taken from it, where it makes no difference.
        """
        return self.path_fill(regularizer, row, beta + delta, out) - (row.shift + row.lift * (beta + delta))

    def metric(self, i: int) -> float:
        """Return psi'' of weight i in a quadratic geometry, by which its step is divided; 1 in others."""
        return 1.0

    # The domain, and where learning starts.

    def objection_to(self, regularizer: Regularizer) -> str:
        """Return why this geometry cannot be combined with `regularizer`, or ''."""
        return ""

    def least_weight(self) -> float:
        """Return the lower end of the geometry's domain, the same for every weight."""
        return -inf

    def check_domain(self, w: Floats) -> None:
        """Raise ValueError unless the weights `w` lie in the geometry's domain."""
        least = self.least_weight()
        if (w < least).any():
            where = f"w{place(w < least)} = {w[w < least][0]:g}"
            raise ValueError(f"{type(self).__name__} keeps weights at {least:g} or above, got {where}")

    def first_weight(self, features: int) -> float:
        """Return the value of every working weight before the first round: the minimizer of psi."""
        return 0.0

    # The coordinates that steps are solved in.

    def reparametrization(self) -> Reparametrization:
        """Return how rows and weights become those of the working geometry; the identity by default."""
        return IDENTITY

    def working(self) -> Geometry:
        """Return the geometry to solve in, the divergence of reparametrized weights."""
        return self

    # Whole vectors.

    def distance(self, u: Floats, w: Floats) -> float:
        """Return B(u, w)."""
        raise NotImplementedError

    def norm(self, v: Floats) -> float:
        """Return the norm in which psi is strongly convex."""
        raise NotImplementedError

    def dual_norm(self, v: Floats) -> float:
        """Return the largest <v, w> over all w with norm(w) <= 1."""
        raise NotImplementedError

    def strong_convexity(self, u: Floats, w: Floats) -> float:
        """Return a c with B >= c/2 norm^2 between any two points of the segment from u to w."""
        raise NotImplementedError
