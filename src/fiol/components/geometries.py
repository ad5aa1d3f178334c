"""Geometries: the Bregman divergence B(w, w_hat) that keeps the new weights near the old.

A geometry answers, for one row, how the weights move when the loss pulls with strength beta:

    w(beta) = argmin_w  -beta <x, w> + r(w) + B(w, w_hat) / eta,        g(beta) = <x, w(beta)>.

`path_fill` writes w(beta), `path_score` returns g(beta), and `path_line` the line (p, q) with p beta + q
equal to g to first order at beta (exactly, as far as the linear piece goes, in quadratic geometries). `path_point`
writes w(beta) and returns (g(beta), p) in one pass.

Where steps are long, eta beta x and eta lam are both huge, and a weight is their small difference: neighbouring doubles
beta then give weights that differ in the first digit. There the path is followed in steps from a fixed beta:
`path_excess` writes those differences, and `path_near` w(beta + delta) from them, for a delta far below the last digit
of beta.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property
from math import exp, inf, log1p
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fiol.components.component import Component, PerFeature, at, common, own, place, require
from fiol.components.regularizers import Regularizer
from fiol.components.row import CSR, Floats, Row, nth
from fiol.components.scalars import HUGE, safe_exp, safe_log, wright_omega


class Geometry(Component):
    """A Bregman divergence B(u, w) = psi(u) - psi(w) - <psi'(w), u - w>.

    On rows: `path_start`, `path_line`, `path_score`, `path_fill` and `path_point`, for solvers. On whole vectors:
    `distance` (that is B), `norm` and `dual_norm`, and `strong_convexity`, the largest known c with
    B(u, w) >= c/2 norm(u - w)^2.
    """

    protocol: ClassVar[dict[str, tuple[str, ...]]] = {
        "path_start": ("row",),
        "path_line": ("regularizer", "row", "beta"),
        "path_score": ("regularizer", "row", "beta"),
        "path_fill": ("regularizer", "row", "beta", "out"),
        "path_point": ("regularizer", "row", "beta", "out"),
    }
    required: ClassVar[tuple[str, ...]] = tuple(protocol)
    protocol |= {
        "path_excess": ("regularizer", "row", "beta", "out"),
        "path_near": ("regularizer", "row", "beta", "delta", "excess", "out"),
    }
    #: Whether w(beta) is piecewise linear, so that a regularizer acts through its Euclidean prox.
    quadratic: ClassVar[bool] = False
    #: Whether B is half the squared Euclidean distance, with a metric of 1 for every feature.
    unit_metric: ClassVar[bool] = False
    #: Whether a row must hold every feature, the absent ones as zeros.
    whole_rows: ClassVar[bool] = False
    #: Whether a weight is the difference of two weights of the working geometry; `w` then has the shape (2, d).
    paired: ClassVar[bool] = False
    #: Whether all weights sum to 1.
    sums_to_one: ClassVar[bool] = False
    #: What the geometry with its defaults is called by estimators, '' if it has no such name.
    called: ClassVar[str] = ""

    if TYPE_CHECKING:

        def path_start(self, row: Row) -> tuple[float, float]: ...
        def path_line(self, regularizer: Regularizer, row: Row, beta: float) -> tuple[float, float]: ...
        def path_score(self, regularizer: Regularizer, row: Row, beta: float) -> float: ...
        def path_fill(self, regularizer: Regularizer, row: Row, beta: float, out: Floats) -> float: ...
        def path_point(self, regularizer: Regularizer, row: Row, beta: float, out: Floats) -> tuple[float, float]: ...
        def metric(self, i: int) -> float: ...
        def mirror(self, w: float, i: int) -> float: ...
        def inverse(self, theta: float, i: int) -> float: ...
        def moved(self, w: float, push: float, step: float, i: int) -> float: ...
        def weight(self, regularizer: Regularizer, w: float, x: float, beta: float, step: float, i: int) -> float: ...
        def share_of(
            self, regularizer: Regularizer, w: float, x: float, beta: float, step: float, i: int
        ) -> tuple[float, float]: ...

    def path_excess(self, regularizer: Regularizer, row: Row, beta: float, out: Floats) -> None:
        """Write what `path_near` needs to know of w(beta): nothing, by default."""

    def path_level(self, excess: Floats) -> None:
        """Take away what the excess of all weights has in common, where that makes no difference but costs digits."""

    def reach(self, row: Row, k: int) -> float:
        """How far the excess of the k-th weight moves per unit of beta."""
        return at(row.steps, k) * row.x[k]

    def path_near(
        self, regularizer: Regularizer, row: Row, beta: float, delta: float, excess: Floats, out: Floats
    ) -> float:
        """Write w(beta + delta) and return its score less the intercept's part; `excess` is that of w(beta)."""
        return self.path_fill(regularizer, row, beta + delta, out) - (row.shift + row.lift * (beta + delta))

    def objection_to(self, regularizer: Regularizer) -> str:
        """Why this geometry cannot be combined with `regularizer`, or ''."""
        return ""

    def check_domain(self, w: Floats) -> None:
        """Raise ValueError unless the weights `w` lie in the geometry's domain."""

    def least_weight(self) -> float:
        """The lower end of the geometry's domain, the same for every weight."""
        return -inf

    def mixes_features(self) -> bool:
        """Whether a row holds all features once it has entered the working geometry, so that none is ever absent."""
        return self.whole_rows and not self.paired

    # How a row enters the geometry that does the work, and how its weights come back.

    def working(self) -> Geometry:
        """The geometry to solve in, once x and w have been through `enter`."""
        return self

    def enter(self, x: Floats, w: Floats) -> tuple[Floats, Floats]:
        return x, w

    def leave(self, w: Floats, entered: Floats, solved: Floats) -> Floats:
        """New weights from the old ones, the old ones entered, and the solution for those."""
        return solved

    # The same for streams: how whole chunks of rows enter, and how a learner's weights come back.

    def entered(self, features: int) -> int:
        """How many weights the working geometry has for so many features."""
        return features

    def enter_rows(self, csr: CSR, features: int) -> CSR:
        """The rows as the working geometry sees them."""
        return csr

    def enter_strengths(self, regularizer: Regularizer) -> Regularizer:
        """The regularizer with a strength for every weight of the working geometry."""
        return regularizer

    def enter_weights(self, w: Floats) -> Floats:
        """The weights of the features as weights of the working geometry; ValueError outside the domain."""
        self.check_domain(w)
        return self.enter(np.zeros_like(w), w)[1]

    def leave_weights(self, w: Floats) -> Floats:
        """The weights of the features from those of the working geometry."""
        return w

    def first_weight(self, features: int) -> float:
        """Every weight of the working geometry before the first round: the least of psi."""
        return 0.0

    def distance(self, u: Floats, w: Floats) -> float:
        raise NotImplementedError

    def norm(self, v: Floats) -> float:
        raise NotImplementedError

    def dual_norm(self, v: Floats) -> float:
        raise NotImplementedError

    def strong_convexity(self, u: Floats, w: Floats) -> float:
        """A c with B >= c/2 norm^2 between any two points of the segment from u to w."""
        raise NotImplementedError


class Separable(Geometry):
    """psi(w) = sum of psi_i(w_i). A user's own geometry needs the first four methods.

    | method | meaning |
    |---|---|
    | `mirror(w, i)` | psi'(w), minus infinity at 0 if weights are kept positive |
    | `inverse(theta, i)` | the w with psi'(w) = theta |
    | `inverse_hess(w, i)` | 1 / psi''(w) |
    | `divergence(u, w, i)` | B of one coordinate |
    | `resolve(theta, ridge, i)` | the w with psi'(w) + ridge w = theta; the default finds the root |

    >>> from math import asinh, sinh, sqrt
    >>> class Hypentropy(Separable):  # Ghai, Hazan, Singer 2020: between gradient and exponentiated gradient
    ...     scale: float = 1.0
    ...     def mirror(self, w, i): return asinh(w / self.scale)
    ...     def inverse(self, theta, i): return self.scale * sinh(theta)
    ...     def inverse_hess(self, w, i): return sqrt(w * w + self.scale * self.scale)
    ...     def divergence(self, u, w, i):
    ...         return (u * (asinh(u / self.scale) - asinh(w / self.scale))
    ...                 - self.inverse_hess(u, i) + self.inverse_hess(w, i))
    >>> round(Hypentropy().resolve(2.0, 0.5, 0), 6)
    1.552705
    """

    protocol: ClassVar[dict[str, tuple[str, ...]]] = {
        **Geometry.protocol,
        "mirror": ("w", "i"),
        "inverse": ("theta", "i"),
        "inverse_hess": ("w", "i"),
        "divergence": ("u", "w", "i"),
        "resolve": ("theta", "ridge", "i"),
    }
    required: ClassVar[tuple[str, ...]] = ("mirror", "inverse", "inverse_hess", "divergence")

    if TYPE_CHECKING:

        def mirror(self, w: float, i: int) -> float: ...
        def inverse(self, theta: float, i: int) -> float: ...
        def inverse_hess(self, w: float, i: int) -> float: ...
        def divergence(self, u: float, w: float, i: int) -> float: ...

    def objection_to(self, regularizer: Regularizer) -> str:
        for verb in ("l1", "l2", "clip"):
            if not regularizer.has(verb):
                return (
                    f"{type(self).__name__} needs `{verb}`; {type(regularizer).__name__} has none: "
                    "use Euclidean() or DiagonalMetric()"
                )
        return ""

    def least_weight(self) -> float:
        return 0.0 if self.mirror(0.0, 0) == -inf else -inf

    def resolve(self, theta: float, ridge: float, i: int) -> float:
        free = self.inverse(theta, i)
        if ridge == 0.0 or free == 0.0:
            return free
        low, high = min(free, 0.0), max(free, 0.0)
        w = free / (1.0 + ridge * self.inverse_hess(free, i))
        for _ in range(200):
            gap = self.mirror(w, i) + ridge * w - theta
            low, high = (low, w) if gap > 0.0 else (w, high)
            inverse_hess = self.inverse_hess(w, i)
            new = w - gap * inverse_hess / (1.0 + ridge * inverse_hess)
            if not low <= new <= high:
                new = low + 0.5 * (high - low)
            if abs(new - w) <= 1e-16 * abs(new):
                break
            w = new
        return w

    def moved(self, w: float, push: float, step: float, i: int) -> float:
        """argmin_v  -push v + B(v, w) / step."""
        return self.inverse(self.mirror(w, i) + step * push, i)

    def lowered(self, regularizer: Regularizer, w: float, step: float, i: int) -> float:
        """argmin_v  r'(w) v + B(v, w) / step."""
        return self.moved(w, -regularizer.slope(w, 0, i), step, i)

    def unclipped(self, regularizer: Regularizer, w: float, x: float, beta: float, step: float, i: int) -> float:
        theta = self.mirror(w, i) + step * beta * x
        shrink, ridge = step * regularizer.l1(i), step * regularizer.l2(i)
        origin = self.mirror(0.0, i)
        if theta - shrink > origin:
            return self.resolve(theta - shrink, ridge, i)
        if theta + shrink < origin:
            return self.resolve(theta + shrink, ridge, i)
        return 0.0

    def weight(self, regularizer: Regularizer, w: float, x: float, beta: float, step: float, i: int) -> float:
        """argmin_v  -beta x v + r(v) + B(v, w) / step."""
        return regularizer.clip(self.unclipped(regularizer, w, x, beta, step, i))

    def point_of(
        self, regularizer: Regularizer, w: float, x: float, beta: float, step: float, i: int
    ) -> tuple[float, float]:
        """(v, a): v = w(beta), and x v moves by step a per unit of beta there."""
        free = self.unclipped(regularizer, w, x, beta, step, i)
        v = regularizer.clip(free)
        inverse_hess = self.inverse_hess(v, i) if v == free and v != 0.0 else 0.0
        return v, inverse_hess / (1.0 + step * regularizer.l2(i) * inverse_hess) * x * x

    def share_of(
        self, regularizer: Regularizer, w: float, x: float, beta: float, step: float, i: int
    ) -> tuple[float, float]:
        """(a, b) with x w(beta) = step a beta + b to first order."""
        v, a = self.point_of(regularizer, w, x, beta, step, i)
        return a, x * v - step * a * beta

    def excess_of(self, regularizer: Regularizer, w: float, x: float, beta: float, step: float, i: int) -> float:
        """psi' of the new weight before a ridge shrinks it, whichever side of the kink at 0 it is on."""
        theta = self.mirror(w, i)
        side = 1.0 if theta + step * beta * x > self.mirror(0.0, i) else -1.0
        push = beta * x - side * regularizer.l1(i)
        return theta + (step * push if abs(push) < inf else step * beta * x)  # a short step may make it a double again

    def weight_near(
        self, regularizer: Regularizer, excess: float, w: float, x: float, beta: float, step: float, i: int
    ) -> float:
        """The weight of a pull near beta, given by its excess."""
        origin, ridge = self.mirror(0.0, i), step * regularizer.l2(i)
        side = 1.0 if self.mirror(w, i) + step * beta * x > origin else -1.0
        other = excess + side * (2.0 * step * regularizer.l1(i))
        v = 0.0
        if side * excess > side * origin:
            v = self.resolve(excess, ridge, i)
        elif side * other < side * origin:
            v = self.resolve(other, ridge, i)
        return regularizer.clip(v)

    def first_weight(self, features: int) -> float:
        return self.inverse(0.0, 0)

    # Rows: the only loops. A penalty that counts n times is a step n times as long under a pull n times weaker.

    def path_start(self, row: Row) -> tuple[float, float]:
        """`path_line` at beta = 0 as if there were no regularizer; its q is the score where the step starts."""
        p = q = 0.0
        for k in range(row.x.shape[0]):
            x, w = row.x[k], row.center[k]
            p += own(row.steps, k) * (self.inverse_hess(w, nth(row.feature, k)) * (x * x))
            q += x * w
        return common(row.steps) * p + row.lift, q + row.shift

    def path_line(self, regularizer: Regularizer, row: Row, beta: float) -> tuple[float, float]:
        p = q = 0.0
        pull = beta / row.rounds
        for k in range(row.x.shape[0]):
            step = row.rounds * at(row.steps, k)
            a, b = self.share_of(regularizer, row.center[k], row.x[k], pull, step, nth(row.feature, k))
            p += own(row.steps, k) * a
            q += b
        return common(row.steps) * p + row.lift, q + row.shift

    def path_score(self, regularizer: Regularizer, row: Row, beta: float) -> float:
        z = 0.0
        pull = beta / row.rounds
        for k in range(row.x.shape[0]):
            x, step = row.x[k], row.rounds * at(row.steps, k)
            z += x * self.weight(regularizer, row.center[k], x, pull, step, nth(row.feature, k))
        return z + (row.shift + row.lift * beta)

    def path_fill(self, regularizer: Regularizer, row: Row, beta: float, out: Floats) -> float:
        """Write w(beta) into `out` and return its score."""
        z = 0.0
        pull = beta / row.rounds
        for k in range(row.x.shape[0]):
            x, step = row.x[k], row.rounds * at(row.steps, k)
            w = self.weight(regularizer, row.center[k], x, pull, step, nth(row.feature, k))
            z += x * w
            out[k] = w
        return z + (row.shift + row.lift * beta)

    def path_point(self, regularizer: Regularizer, row: Row, beta: float, out: Floats) -> tuple[float, float]:
        """`path_fill`, with the slope of the score as well."""
        p = z = 0.0
        pull = beta / row.rounds
        for k in range(row.x.shape[0]):
            x, step = row.x[k], row.rounds * at(row.steps, k)
            w, a = self.point_of(regularizer, row.center[k], x, pull, step, nth(row.feature, k))
            p += own(row.steps, k) * a
            z += x * w
            out[k] = w
        return z + (row.shift + row.lift * beta), common(row.steps) * p + row.lift

    def path_excess(self, regularizer: Regularizer, row: Row, beta: float, out: Floats) -> None:
        pull = beta / row.rounds
        for k in range(row.x.shape[0]):
            step = row.rounds * at(row.steps, k)
            out[k] = self.excess_of(regularizer, row.center[k], row.x[k], pull, step, nth(row.feature, k))

    def path_near(
        self, regularizer: Regularizer, row: Row, beta: float, delta: float, excess: Floats, out: Floats
    ) -> float:
        z = 0.0
        pull = beta / row.rounds
        for k in range(row.x.shape[0]):
            x, step, i = row.x[k], row.rounds * at(row.steps, k), nth(row.feature, k)
            moved = excess[k] + delta * self.reach(row, k)
            out[k] = self.weight_near(regularizer, moved, row.center[k], x, pull, step, i)
            z += x * out[k]
        return z

    # Whole vectors.

    def distance(self, u: Floats, w: Floats) -> float:
        return float(sum(self.divergence(a, b, i) for i, (a, b) in enumerate(zip(u, w, strict=True))))


# --- quadratic geometries ---------------------------------------------------------------------


class Quadratic(Separable):
    """psi(w) = sum of h_i w_i^2 / 2: a step of eta / h_i, then the Euclidean prox."""

    quadratic: ClassVar[bool] = True

    def metric(self, i: int) -> float:
        return 1.0

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

    def moved(self, w: float, push: float, step: float, i: int) -> float:
        return w + step / self.metric(i) * push

    def lowered(self, regularizer: Regularizer, w: float, step: float, i: int) -> float:
        return self.moved(w, -regularizer.slope_for(w, step / self.metric(i), i), step, i)

    def weight(self, regularizer: Regularizer, w: float, x: float, beta: float, step: float, i: int) -> float:
        s = step / self.metric(i)
        return regularizer.prox(w + s * beta * x, s, i)

    def share_of(
        self, regularizer: Regularizer, w: float, x: float, beta: float, step: float, i: int
    ) -> tuple[float, float]:
        h = self.metric(i)
        a, b = regularizer.share(x, w, beta, step / h, i)
        return a / h, b

    def point_of(
        self, regularizer: Regularizer, w: float, x: float, beta: float, step: float, i: int
    ) -> tuple[float, float]:
        h = self.metric(i)
        v, a = regularizer.value_and_slope(x, w, beta, step / h, i)
        return v, a / h

    def excess_of(self, regularizer: Regularizer, w: float, x: float, beta: float, step: float, i: int) -> float:
        return regularizer.excess(w, beta * x, step / self.metric(i), i)

    def weight_near(
        self, regularizer: Regularizer, excess: float, w: float, x: float, beta: float, step: float, i: int
    ) -> float:
        s = step / self.metric(i)
        return regularizer.prox_of_excess(excess, w + s * beta * x, s, i)

    def reach(self, row: Row, k: int) -> float:
        return at(row.steps, k) / self.metric(nth(row.feature, k)) * row.x[k]

    def strong_convexity(self, u: Floats, w: Floats) -> float:
        return 1.0


class Euclidean(Quadratic):
    """B(u, w) = |u - w|^2 / 2.

    >>> Euclidean().distance([3.0, 4.0], [0.0, 0.0])
    12.5
    """

    unit_metric: ClassVar[bool] = True
    called: ClassVar[str] = "euclidean"

    def norm(self, v: Floats) -> float:
        return float(np.linalg.norm(v))

    def dual_norm(self, v: Floats) -> float:
        return float(np.linalg.norm(v))


class DiagonalMetric(Quadratic):
    """B(u, w) = sum of h_i (u_i - w_i)^2 / 2: a small h_i lets weight i move more.

    >>> DiagonalMetric([1.0, 4.0]).distance([1.0, 1.0], [0.0, 0.0])
    2.5
    """

    h: PerFeature

    def validate(self) -> None:
        require("DiagonalMetric.h", self.h, 0.0, HUGE, open_low=True)

    def metric(self, i: int) -> float:
        return at(self.h, i)

    def norm(self, v: Floats) -> float:
        return float(np.sqrt(np.sum(self.h * np.square(v))))

    def dual_norm(self, v: Floats) -> float:
        return float(np.sqrt(np.sum(np.square(v) / self.h)))


class Mahalanobis(Geometry):
    """B(u, w) = (u - w)' M (u - w) / 2 with a symmetric positive definite matrix M.

    Solved in the eigenbasis of M, where B is that of a `DiagonalMetric`; so the regularizer must not depend on the
    basis: `Unregularized()` or `Ridge(number)`.

    >>> Mahalanobis([[2.0, 0.0], [0.0, 2.0]]).distance(np.array([1.0, 1.0]), np.zeros(2))
    2.0
    """

    matrix: PerFeature
    required: ClassVar[tuple[str, ...]] = ()  # `working` does the work
    quadratic: ClassVar[bool] = True
    whole_rows: ClassVar[bool] = True

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

    def working(self) -> Geometry:
        return DiagonalMetric(self.eigen[0])

    def enter(self, x: Floats, w: Floats) -> tuple[Floats, Floats]:
        basis = self.eigen[1]
        return basis.T @ x, basis.T @ w

    def leave(self, w: Floats, entered: Floats, solved: Floats) -> Floats:
        # Small moves keep the digits of w; weights shrunk to a small part of themselves keep their own.
        move, basis = solved - entered, self.eigen[1]
        return w + basis @ move if np.abs(move).max(initial=0.0) < np.abs(solved).max(initial=0.0) else basis @ solved

    def enter_rows(self, csr: CSR, features: int) -> CSR:
        # Row by row: the last bits of a product of matrices depend on how many rows there are.
        turned = [row @ self.eigen[1] for row in dense_rows(csr, features)]
        return all_entries(np.array(turned).reshape(-1, features))

    def leave_weights(self, w: Floats) -> Floats:
        return self.eigen[1] @ w

    def distance(self, u: Floats, w: Floats) -> float:
        return 0.5 * self.norm(u - w) ** 2

    def norm(self, v: Floats) -> float:
        return float(np.sqrt(v @ self.matrix @ v))  # type: ignore[operator]

    def dual_norm(self, v: Floats) -> float:
        values, basis = self.eigen
        return float(np.sqrt(np.sum(np.square(basis.T @ v) / values)))

    def strong_convexity(self, u: Floats, w: Floats) -> float:
        return 1.0


# --- entropic geometries ----------------------------------------------------------------------


def relative_entropy(u: float, w: float) -> float:
    """u log(u / w) - u + w, without cancellation when u is near w."""
    if u == 0.0:
        return w
    if w == 0.0:
        return inf
    if abs(u - w) < 0.5 * w:
        d = (u - w) / w
        return w * ((1.0 + d) * log1p(d) - d)
    return u * (safe_log(u) - safe_log(w)) - u + w


class Entropy(Separable):
    """B(u, w) = sum of u log(u/w) - u + w, on weights >= 0: w(beta) = w exp(eta (beta x - lam)).

    Weights change by factors, and a weight at 0 stays there.

    >>> from fiol import Unregularized
    >>> Entropy().weight(Unregularized(), 1.0, 1.0, 0.5, 2.0, 0)  # exp(1)
    2.718281828459045
    """

    called: ClassVar[str] = "entropy"

    def mirror(self, w: float, i: int) -> float:
        return safe_log(w)

    def inverse(self, theta: float, i: int) -> float:
        return safe_exp(theta)

    def inverse_hess(self, w: float, i: int) -> float:
        return w

    def divergence(self, u: float, w: float, i: int) -> float:
        return relative_entropy(u, w)

    def resolve(self, theta: float, ridge: float, i: int) -> float:
        # log(w) + ridge w = theta; with v = ridge w this reads v + log(v) = theta + log(ridge).
        if ridge == 0.0 or theta + safe_log(ridge) < -36.0:
            return safe_exp(theta)
        v = wright_omega(theta + safe_log(ridge))
        return safe_exp(theta - v) if v < 1.0 else v / ridge  # the logarithm of a small ridge takes digits of w

    def objection_to(self, regularizer: Regularizer) -> str:
        if regularizer.has("clip") and regularizer.clip(inf) <= 0.0:
            return f"{type(self).__name__} keeps weights positive and {regularizer} allows none"
        return super().objection_to(regularizer)

    def check_domain(self, w: Floats) -> None:
        if (w < 0.0).any():
            where = f"w{place(w < 0.0)} = {w[w < 0.0][0]:g}"
            raise ValueError(f"{type(self).__name__} keeps weights at 0 or above, got {where}")

    def norm(self, v: Floats) -> float:
        return float(np.sum(np.abs(v)))

    def dual_norm(self, v: Floats) -> float:
        return float(np.max(np.abs(v), initial=0.0))

    def strong_convexity(self, u: Floats, w: Floats) -> float:
        return 1.0 / max(float(np.sum(u)), float(np.sum(w)), 1e-300)


class SignedEntropy(Entropy):
    """Weights of either sign as differences of two positive vectors (EG plus/minus).

    The weights are an array of shape (2, d); the model is `w[0] - w[1]`. Every feature enters twice,
    as x and as -x, and an L1 penalty counts both parts.

    >>> pair = SignedEntropy.split(np.array([0.5, -2.0]), scale=1.0)
    >>> SignedEntropy.join(pair)
    array([ 0.5, -2. ])
    >>> SignedEntropy().enter_weights(np.array([0.5, -2.0]))  # the smallest pairs, feature by feature
    array([0.5, 0. , 0. , 2. ])
    """

    whole_rows: ClassVar[bool] = True
    paired: ClassVar[bool] = True
    called: ClassVar[str] = "signed_entropy"

    @staticmethod
    def split(w: Floats, scale: float = 1.0) -> Floats:
        """Two positive vectors with difference `w` and product `scale`^2."""
        root = np.hypot(w, 2.0 * scale)
        larger = 0.5 * (root + np.abs(w))
        smaller = scale * scale / larger
        return np.where(np.asarray(w) >= 0.0, [larger, smaller], [smaller, larger])

    @staticmethod
    def join(pair: Floats) -> Floats:
        return pair[0] - pair[1]

    def working(self) -> Geometry:
        return Entropy()

    def enter(self, x: Floats, w: Floats) -> tuple[Floats, Floats]:
        return np.concatenate([x, -x]), w.ravel()

    def leave(self, w: Floats, entered: Floats, solved: Floats) -> Floats:
        return solved.reshape(w.shape)

    def entered(self, features: int) -> int:
        return 2 * features

    def enter_rows(self, csr: CSR, features: int) -> CSR:
        indptr, indices, data = csr
        pairs = 2 * np.repeat(indices, 2)
        pairs[1::2] += 1
        signed = np.repeat(data, 2)
        signed[1::2] *= -1.0
        return 2 * indptr, pairs, signed

    def enter_strengths(self, regularizer: Regularizer) -> Regularizer:
        return in_pairs(regularizer)

    def enter_weights(self, w: Floats) -> Floats:
        return np.stack([np.maximum(w, 0.0), np.maximum(-w, 0.0)], axis=1).ravel()

    def leave_weights(self, w: Floats) -> Floats:
        return w[::2] - w[1::2]

    def distance(self, u: Floats, w: Floats) -> float:
        return super().distance(np.ravel(u), np.ravel(w))


class Simplex(Geometry):
    """Relative entropy on the probability simplex: w(beta) proportional to w exp(eta (beta x - lam)).

    The weights of all features share one normaliser, so a row holds all of them. A penalty `L1` with
    one strength for all is constant here and changes nothing.

    >>> Simplex().distance(np.array([0.5, 0.5]), np.array([0.5, 0.5]))
    0.0
    """

    whole_rows: ClassVar[bool] = True
    sums_to_one: ClassVar[bool] = True
    called: ClassVar[str] = "simplex"

    def least_weight(self) -> float:
        return 0.0

    def objection_to(self, regularizer: Regularizer) -> str:
        if not regularizer.has_ridge() and not regularizer.is_bounded():
            return ""
        return f"Simplex goes with Unregularized() and L1(), not {regularizer}: use Entropy()"

    def check_domain(self, w: Floats) -> None:
        if (w < 0.0).any():
            raise ValueError(
                f"Simplex needs weights of at least 0, got w[{int(np.argmax(w < 0.0))}] = {w[w < 0.0][0]:g}"
            )
        if abs(float(np.sum(w)) - 1.0) > 1e-6:
            raise ValueError(f"Simplex needs weights that sum to 1, got {float(np.sum(w)):g}")

    def logit(self, regularizer: Regularizer, row: Row, beta: float, k: int) -> float:
        push = beta * row.x[k] - row.rounds * regularizer.l1(nth(row.feature, k))
        return safe_log(row.center[k]) + common(row.steps) * push

    def path_fill(self, regularizer: Regularizer, row: Row, beta: float, out: Floats) -> float:
        n = row.x.shape[0]
        top = -inf
        for k in range(n):
            out[k] = self.logit(regularizer, row, beta, k)
            top = max(top, out[k])
        return self.normalise(row, out, top) + (row.shift + row.lift * beta)

    def path_excess(self, regularizer: Regularizer, row: Row, beta: float, out: Floats) -> None:
        least = inf  # what all strengths have in common costs digits as well
        for k in range(row.x.shape[0]):
            least = min(least, regularizer.l1(nth(row.feature, k)))
        for k in range(row.x.shape[0]):
            push = beta * row.x[k] - row.rounds * (regularizer.l1(nth(row.feature, k)) - least)
            out[k] = safe_log(row.center[k]) + common(row.steps) * push
        self.path_level(out)

    def path_level(self, excess: Floats) -> None:
        top = -inf
        for k in range(excess.shape[0]):
            top = max(top, excess[k])
        for k in range(excess.shape[0]):
            excess[k] -= top

    def path_near(
        self, regularizer: Regularizer, row: Row, beta: float, delta: float, excess: Floats, out: Floats
    ) -> float:
        n = row.x.shape[0]
        top = -inf
        for k in range(n):
            out[k] = excess[k] + delta * self.reach(row, k)
            top = max(top, out[k])
        return self.normalise(row, out, top)

    def normalise(self, row: Row, out: Floats, top: float) -> float:
        """Logits, the largest of which is `top`, become weights; return their score."""
        total = 0.0
        for k in range(row.x.shape[0]):
            out[k] = exp(out[k] - top)
            total += out[k]
        z = 0.0
        for k in range(row.x.shape[0]):
            out[k] /= total
            z += row.x[k] * out[k]
        return z

    def path_score(self, regularizer: Regularizer, row: Row, beta: float) -> float:
        return self.path_fill(regularizer, row, beta, np.empty(row.x.shape[0]))

    def path_point(self, regularizer: Regularizer, row: Row, beta: float, out: Floats) -> tuple[float, float]:
        """The slope of the mean of x under w(beta) is eta times its variance."""
        z = self.path_fill(regularizer, row, beta, out)
        mean, p = z - (row.shift + row.lift * beta), 0.0
        for k in range(row.x.shape[0]):
            p += out[k] * (row.x[k] - mean) * (row.x[k] - mean)
        return z, common(row.steps) * p + row.lift

    def path_line(self, regularizer: Regularizer, row: Row, beta: float) -> tuple[float, float]:
        z, p = self.path_point(regularizer, row, beta, np.empty(row.x.shape[0]))
        return p, z - p * beta

    def path_start(self, row: Row) -> tuple[float, float]:
        p = q = 0.0
        for k in range(row.x.shape[0]):
            q += row.x[k] * row.center[k]
        for k in range(row.x.shape[0]):
            p += row.center[k] * (row.x[k] - q) * (row.x[k] - q)
        return common(row.steps) * p + row.lift, q + row.shift

    def enter_rows(self, csr: CSR, features: int) -> CSR:
        return all_entries(dense_rows(csr, features))

    def first_weight(self, features: int) -> float:
        return 1.0 / features

    def distance(self, u: Floats, w: Floats) -> float:
        return float(sum(map(relative_entropy, u, w)))

    def norm(self, v: Floats) -> float:
        return float(np.sum(np.abs(v)))

    def dual_norm(self, v: Floats) -> float:
        return float(np.max(np.abs(v), initial=0.0))

    def strong_convexity(self, u: Floats, w: Floats) -> float:
        return 1.0


def in_pairs(component: Any) -> Any:
    """A component with every entry of its arrays, and of those inside it, twice.

    >>> from fiol import L1
    >>> in_pairs(L1([0.1, 0.2])).lam
    array([0.1, 0.1, 0.2, 0.2])
    """
    changes = {}
    for name in (field.name for field in fields(component)):
        value = getattr(component, name)
        if isinstance(value, Component):
            changes[name] = in_pairs(value)
        elif isinstance(value, np.ndarray):
            changes[name] = np.repeat(value, 2)
    return component.replace(**changes)


# --- rows that hold every feature -------------------------------------------------------------


def dense_rows(csr: CSR, features: int) -> Floats:
    """CSR rows as a matrix."""
    indptr, indices, data = csr
    matrix = np.zeros((indptr.shape[0] - 1, features))
    matrix[np.repeat(np.arange(matrix.shape[0]), np.diff(indptr)), indices] = data
    return matrix


def all_entries(matrix: Floats) -> CSR:
    """A matrix as CSR rows that hold its zeros too."""
    n, features = matrix.shape
    indices = np.tile(np.arange(features, dtype=np.int32), n)
    return np.arange(n + 1, dtype=np.int64) * features, indices, np.ascontiguousarray(matrix).ravel()
