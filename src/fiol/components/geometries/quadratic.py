"""Quadratic geometries: half the squared Euclidean distance, with a metric per feature, or with a matrix."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from fiol.components.component import PerFeature, common_factor, own_factor, require, value_at
from fiol.components.geometries.geometry import Geometry
from fiol.components.geometries.reparametrization import Basis, Reparametrization
from fiol.components.geometries.separable import Separable
from fiol.components.regularizers import Regularizer
from fiol.components.row import Floats, Row, nth
from fiol.components.scalars import HUGE


class Quadratic(Separable):
    """psi(w) = sum of h_i w_i^2 / 2, h_i being `metric(i)`: a step of eta / h_i, then the Euclidean prox."""

    quadratic: ClassVar[bool] = True

    def objection_to(self, regularizer: Regularizer) -> str:
        return ""

    def mirror(self, w: float, i: int) -> float:
        return self.metric(i) * w

    def inverse(self, theta: float, i: int) -> float:
        return theta / self.metric(i)

    def inverse_hess(self, w: float, i: int) -> float:
        return 1.0 / self.metric(i)

    def divergence(self, u: float, w: float, i: int) -> float:
        return 0.5 * self.metric(i) * (u - w) * (u - w)

    def resolve(self, theta: float, ridge: float, i: int) -> float:
        return theta / (self.metric(i) + ridge)

    def gradient_step(self, regularizer: Regularizer, w: float, step: float, i: int) -> float:
        s = step / self.metric(i)
        return w - s * regularizer.slope_for(w, s, i)

    def weight(self, regularizer: Regularizer, w: float, x: float, beta: float, step: float, i: int) -> float:
        s = step / self.metric(i)
        return regularizer.prox(w + s * beta * x, s, i)

    def weight_and_slope(
        self, regularizer: Regularizer, w: float, x: float, beta: float, step: float, i: int
    ) -> tuple[float, float]:
        h = self.metric(i)
        v, a = regularizer.value_and_slope(x, w, beta, step / h, i)
        return v, a / h

    def share_of(
        self, regularizer: Regularizer, w: float, x: float, beta: float, step: float, i: int
    ) -> tuple[float, float]:
        """Return (a, b): x times `weight` is step a beta + b around beta, with all digits of b."""
        h = self.metric(i)
        a, b = regularizer.share(x, w, beta, step / h, i)
        return a / h, b

    def excess_of(self, regularizer: Regularizer, w: float, x: float, beta: float, step: float, i: int) -> float:
        return regularizer.excess(w, beta * x, step / self.metric(i), i)

    def weight_near(
        self, regularizer: Regularizer, excess: float, w: float, x: float, beta: float, step: float, i: int
    ) -> float:
        s = step / self.metric(i)
        return regularizer.prox_of_excess(excess, w + s * beta * x, s, i)

    def path_line(self, regularizer: Regularizer, row: Row, beta: float) -> tuple[float, float]:
        p = q = 0.0
        pull = beta / row.rounds
        for k in range(row.x.shape[0]):
            step = row.rounds * value_at(row.steps, k)
            a, b = self.share_of(regularizer, row.center[k], row.x[k], pull, step, nth(row.feature, k))
            p += own_factor(row.steps, k) * a
            q += b
        return common_factor(row.steps) * p + row.lift, q + row.shift

    def strong_convexity(self, u: Floats, w: Floats) -> float:
        return 1.0


class Euclidean(Quadratic):
    """B(u, w) = |u - w|^2 / 2.

    >>> Euclidean().distance([3.0, 4.0], [0.0, 0.0])
    12.5
    """

    unit_metric: ClassVar[bool] = True
    alias: ClassVar[str] = "euclidean"

    def norm(self, v: Floats) -> float:
        return float(np.linalg.norm(v))

    def dual_norm(self, v: Floats) -> float:
        return self.norm(v)


class DiagonalMetric(Quadratic):
    """B(u, w) = sum of h_i (u_i - w_i)^2 / 2: a small h_i lets weight i move more.

    Parameters
    ----------
    h : float or array
        The metric, one for all features or one per feature.

    Examples
    --------
    >>> DiagonalMetric([1.0, 4.0]).distance([1.0, 1.0], [0.0, 0.0])
    2.5
    """

    h: PerFeature

    def validate(self) -> None:
        require("DiagonalMetric.h", self.h, 0.0, HUGE, open_low=True)

    def metric(self, i: int) -> float:
        return value_at(self.h, i)

    def norm(self, v: Floats) -> float:
        return float(np.sqrt(np.sum(self.h * np.square(v))))

    def dual_norm(self, v: Floats) -> float:
        return float(np.sqrt(np.sum(np.square(v) / self.h)))


class Mahalanobis(Geometry):
    """B(u, w) = (u - w)' M (u - w) / 2 with a symmetric positive definite matrix M.

    Solved in the eigenbasis of M, where B is that of a `DiagonalMetric`; so the regularizer must not depend on the
    basis: `Unregularized()` or `Ridge(number)`.

    Parameters
    ----------
    matrix : array
        M, with a row and a column per feature.

    Examples
    --------
    >>> Mahalanobis([[2.0, 0.0], [0.0, 2.0]]).distance(np.array([1.0, 1.0]), np.zeros(2))
    2.0
    """

    matrix: PerFeature
    required: ClassVar[tuple[str, ...]] = ()  # the working geometry has the path
    quadratic: ClassVar[bool] = True

    def validate(self) -> None:
        matrix = np.asarray(self.matrix)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"Mahalanobis.matrix must be square, got shape {matrix.shape}")
        if not np.isfinite(matrix).all():
            raise ValueError("Mahalanobis.matrix must be finite")
        if not np.allclose(matrix, matrix.T, rtol=1e-12, atol=0.0):
            raise ValueError("Mahalanobis.matrix must be symmetric")
        least = self.eigen[0][0]
        if least <= 0.0:
            raise ValueError(f"Mahalanobis.matrix must be positive definite, its least eigenvalue is {least:g}")

    @cached_property
    def eigen(self) -> tuple[Floats, Floats]:
        """Eigenvalues of the matrix in increasing order, and its eigenvectors as columns."""
        values, basis = np.linalg.eigh(self.matrix)
        return values, basis

    def objection_to(self, regularizer: Regularizer) -> str:
        if regularizer.ridge_is_common() and not regularizer.has_l1() and not regularizer.is_bounded():
            return ""
        return (
            f"Mahalanobis couples the weights, so only Unregularized() and Ridge(number) keep the step "
            f"a scalar equation, not {regularizer}: use DiagonalMetric()"
        )

    def check_domain(self, w: Floats) -> None:
        if np.shape(self.matrix) != 2 * w.shape:
            raise ValueError(f"Mahalanobis.matrix has shape {np.shape(self.matrix)}, but there are {w.size} features")

    def reparametrization(self) -> Reparametrization:
        return Basis(self.eigen[1])

    def working(self) -> Geometry:
        return DiagonalMetric(self.eigen[0])

    def distance(self, u: Floats, w: Floats) -> float:
        return 0.5 * self.norm(u - w) ** 2

    def norm(self, v: Floats) -> float:
        return float(np.sqrt(v @ self.matrix @ v))  # type: ignore[operator]

    def dual_norm(self, v: Floats) -> float:
        return self.working().dual_norm(self.eigen[1].T @ v)

    def strong_convexity(self, u: Floats, w: Floats) -> float:
        return 1.0
