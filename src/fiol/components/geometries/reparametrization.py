"""Reparametrizations: rows, penalties and weights in the working coordinates that steps are solved in.

A geometry such as `SignedEntropy` or `Mahalanobis` is a simpler divergence, `Geometry.working()`, of other weights,
`Geometry.reparametrization()`. Scores are the same in both coordinates: <x, w> = <working row, working weights>.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, ClassVar

import numpy as np

from fiol.components.component import Component
from fiol.components.regularizers import Regularizer
from fiol.components.row import CSR, Floats


class Reparametrization:
    """The identity, and the base class of others.

    | method | returns |
    |---|---|
    | `transform_rows(csr, features)` | rows of `features` features in working coordinates |
    | `transform_weights(w)` | the working weights of the weights w |
    | `restore_weights(w)` | the weights of the working weights w |
    | `restore_step(old, before, after)` | the weights after one step; see the method |

    >>> Reparametrization().restore_weights(np.array([1.0, 2.0])), Reparametrization().is_identity
    (array([1., 2.]), True)
    """

    #: How many working weights a feature has; those of feature i are number i * weights_per_feature and the following.
    weights_per_feature: ClassVar[int] = 1
    #: Whether every row holds every feature, absent ones as zeros, so that no weight is ever left out of a step.
    whole_rows: ClassVar[bool] = False

    @property
    def is_identity(self) -> bool:
        """Whether rows and weights are used as they are."""
        return self.weights_per_feature == 1 and not self.whole_rows

    def transform_rows(self, csr: CSR, features: int) -> CSR:
        return csr

    def transform_weights(self, w: Floats) -> Floats:
        return w

    def restore_weights(self, w: Floats) -> Floats:
        return w

    def restore_step(self, old: Floats, before: Floats, after: Floats) -> Floats:
        """Return the weights after a step from `old`, given the working weights `before` and `after` the step."""
        return after

    def transform_regularizer(self, regularizer: Regularizer) -> Regularizer:
        """Return the regularizer with a strength for every working weight."""
        return regularizer if self.weights_per_feature == 1 else repeat_entries(regularizer, self.weights_per_feature)  # type: ignore[no-any-return]


class WholeRows(Reparametrization):
    """Rows that hold every feature, absent ones as zeros; weights are used as they are.

    >>> WholeRows().transform_rows((np.array([0, 1]), np.array([1], np.int32), np.array([5.0])), 3)[2]
    array([0., 5., 0.])
    """

    whole_rows: ClassVar[bool] = True

    def transform_rows(self, csr: CSR, features: int) -> CSR:
        return all_entries(dense_rows(csr, features))


class Basis(WholeRows):
    """Weights by their coefficients in an orthonormal basis, the columns of a matrix.

    >>> turn = Basis(np.array([[0.0, -1.0], [1.0, 0.0]]))
    >>> turn.transform_weights(np.array([1.0, 2.0])), turn.restore_weights(np.array([2.0, -1.0]))
    (array([ 2., -1.]), array([1., 2.]))
    """

    def __init__(self, vectors: Floats) -> None:
        self.vectors = np.asarray(vectors, np.float64)

    def transform_rows(self, csr: CSR, features: int) -> CSR:
        # Row by row: the last bits of a matrix product depend on the number of rows.
        turned = [row @ self.vectors for row in dense_rows(csr, features)]
        return all_entries(np.array(turned).reshape(-1, features))

    def transform_weights(self, w: Floats) -> Floats:
        return self.vectors.T @ w  # type: ignore[no-any-return]

    def restore_weights(self, w: Floats) -> Floats:
        return self.vectors @ w  # type: ignore[no-any-return]

    def restore_step(self, old: Floats, before: Floats, after: Floats) -> Floats:
        # Adding a small move keeps the digits of `old`; weights shrunk to a small part of themselves keep their own.
        move = after - before
        small = np.abs(move).max(initial=0.0) < np.abs(after).max(initial=0.0)
        return old + self.vectors @ move if small else self.vectors @ after


class Pairs(Reparametrization):
    """Weights of either sign as differences of two positive weights, u - v; a value x of a row becomes x and -x.

    `transform_weights` takes weights, and returns their smallest pairs, or an array of shape (2, d) with all u and
    all v, in which form `restore_step` returns weights.

    >>> Pairs().transform_weights(np.array([0.5, -2.0]))
    array([0.5, 0. , 0. , 2. ])
    >>> Pairs().restore_weights(np.array([0.5, 0.0, 0.0, 2.0]))
    array([ 0.5, -2. ])
    """

    weights_per_feature: ClassVar[int] = 2

    def transform_rows(self, csr: CSR, features: int) -> CSR:
        indptr, indices, data = csr
        pairs = 2 * np.repeat(indices, 2)
        pairs[1::2] += 1
        signed = np.repeat(data, 2)
        signed[1::2] *= -1.0
        return 2 * indptr, pairs, signed

    def transform_weights(self, w: Floats) -> Floats:
        u, v = w if w.ndim == 2 else (np.maximum(w, 0.0), np.maximum(-w, 0.0))
        return np.stack([u, v], axis=1).ravel()

    def restore_weights(self, w: Floats) -> Floats:
        return w[::2] - w[1::2]

    def restore_step(self, old: Floats, before: Floats, after: Floats) -> Floats:
        return np.ascontiguousarray(after.reshape(-1, 2).T)


#: Rows and weights as they are.
IDENTITY = Reparametrization()


def repeat_entries(component: Any, times: int) -> Any:
    """Return a component with every entry of its arrays, and of those of components inside it, repeated.

    >>> from fiol import L1
    >>> repeat_entries(L1([0.1, 0.2]), 2).lam
    array([0.1, 0.1, 0.2, 0.2])
    """
    changes = {}
    for name in (field.name for field in fields(component)):
        value = getattr(component, name)
        if isinstance(value, Component):
            changes[name] = repeat_entries(value, times)
        elif isinstance(value, np.ndarray):
            changes[name] = np.repeat(value, times)
    return component.replace(**changes)


def dense_rows(csr: CSR, features: int) -> Floats:
    """Return CSR rows as a matrix."""
    indptr, indices, data = csr
    matrix = np.zeros((indptr.shape[0] - 1, features))
    matrix[np.repeat(np.arange(matrix.shape[0]), np.diff(indptr)), indices] = data
    return matrix


def all_entries(matrix: Floats) -> CSR:
    """Return a matrix as CSR rows that hold its zeros too."""
    n, features = matrix.shape
    indices = np.tile(np.arange(features, dtype=np.int32), n)
    return np.arange(n + 1, dtype=np.int64) * features, indices, np.ascontiguousarray(matrix).ravel()
