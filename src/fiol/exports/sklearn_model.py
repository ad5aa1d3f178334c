"""Models as fitted estimators of scikit-learn, which need no fiol to load unless rows are text, dates or hashed names.

| predictions | estimator |
|---|---|
| labels, probabilities by the sigmoid or the softmax | `LogisticRegression`, softmax with a `coef_` row per class |
| labels, probabilities of one class against the rest | `SGDClassifier(loss="log_loss")` |
| labels without probabilities | `LinearSVC` |
| numbers | `LinearRegression` |
| counts, link log | `PoissonRegressor` |

Numbered features are the columns of a matrix. Where features have names the estimator is the last step of a pipeline,
whose first step makes a matrix of rows: a `DictVectorizer` for dicts; a `RowVectorizer`, a class of fiol, for frames
with a coding and for hashed names. Where a loss has a factor inside its link, weights are multiplied by that factor.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from fiol.exports.linear import ExportedModel, NoExportError, completed, linear_model, model_inside
from fiol.features.basis import ColumnBasis, Expander
from fiol.features.chunk import Chunk
from fiol.features.column_roles import Roles
from fiol.features.containers import to_chunk
from fiol.features.frames import as_frame
from fiol.features.hashing import Hashing
from fiol.features.labels import label_array
from fiol.features.table_encoding import TableEncoding
from fiol.features.vocabulary import Encoder, Vocabulary


class RowVectorizer:
    """Turns frames or dicts into a sparse matrix with a column per feature of a model.

    Features that the model does not know are left out. `fit` does nothing.
    """

    def __init__(self, coding: TableEncoding | None, names: Any, bits: int | None, function: str | None = None) -> None:
        self.coding, self.names, self.bits, self.function = coding, names, bits, function

    def fit(self, X: Any, y: Any = None) -> RowVectorizer:
        """Return the vectorizer itself."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        """Return True: there is nothing to fit."""
        return True

    def transform(self, X: Any) -> Any:
        """Return the rows as a matrix in CSR form."""
        import scipy.sparse

        hashed = self.bits is not None
        encoder: Encoder = Hashing(self.bits, self.function) if hashed else Vocabulary(self.names)  # type: ignore[arg-type]
        frame = as_frame(X)
        if frame is not None and self.coding is not None:
            chunk: Chunk = self.coding.named_rows(frame).encoded(encoder, grow=hashed)
        else:
            chunk = encoder.encode(X, grow=hashed)
        return scipy.sparse.csr_matrix((chunk.data, chunk.indices, chunk.indptr), (chunk.rows, encoder.size))

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Return the rows as a sparse matrix; there is nothing to fit."""
        return self.transform(X)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments of the constructor by name."""
        return {"coding": self.coding, "names": self.names, "bits": self.bits, "function": self.function}

    def set_params(self, **given: Any) -> RowVectorizer:
        """Set arguments of the constructor by name."""
        for name, value in given.items():
            setattr(self, name, value)
        return self


class BasisVectorizer:
    """Adds hats and nodes to a matrix with a column per feature of a model. `fit` does nothing.

    A frame must have the `columns`, if these are given, in any order.
    """

    def __init__(self, basis: ColumnBasis, roles: Roles, cells: bool, columns: Sequence[str] | None = None) -> None:
        self.basis, self.roles, self.cells, self.columns = basis, roles, cells, columns

    def fit(self, X: Any, y: Any = None) -> BasisVectorizer:
        """Return the vectorizer itself."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        """Return True: there is nothing to fit."""
        return True

    def transform(self, X: Any) -> Any:
        """Return the rows as a matrix in CSR form."""
        import scipy.sparse

        given = to_chunk(X, self.columns, self.roles.size)
        chunk = Expander(self.basis, self.roles).expanded(given)[int(self.cells)]
        size = self.roles.size + self.basis.added[1 + int(self.cells)]
        return scipy.sparse.csr_matrix((chunk.data, chunk.indices, chunk.indptr), (chunk.rows, size))

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Return the rows as a sparse matrix; there is nothing to fit."""
        return self.transform(X)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments of the constructor by name."""
        return {"basis": self.basis, "roles": self.roles, "cells": self.cells, "columns": self.columns}


def to_sklearn(model: Any) -> Any:
    """Return the fitted estimator, or a pipeline that ends with it.

    >>> from fiol import FIOL, Learner, Logistic
    >>> learner = Learner(FIOL(Logistic()), compiled=False)
    >>> scores = learner.learn([[1.0, 0.0], [0.0, 1.0]], [1, -1])
    >>> model, X = to_sklearn(learner), [[3.0, 2.0]]
    >>> type(model).__name__, model.classes_, bool(np.allclose(model.decision_function(X), learner.scores(X)))
    ('LogisticRegression', array([-1,  1]), True)
    """
    from sklearn.pipeline import make_pipeline

    linear, expand = linear_model(model), list[Any]()
    if linear.basis is not None:
        core = completed(model_inside(model)).core
        columns = [str(name) for name in linear.names or ()] if linear.plain_columns else None
        expand = [BasisVectorizer(core.levels.basis, core.space.roles, bool(linear.basis.pairs), columns)]
        linear = dataclasses.replace(linear, weights=linear.basis.weights)
    estimator = fitted_regressor(linear) if linear.labels is None else fitted_classifier(linear)
    estimator.n_features_in_ = linear.weights.shape[1]
    if linear.kind == "numbers" or linear.plain_columns:
        if linear.names is not None and not expand:
            estimator.feature_names_in_ = np.array(linear.names, object)
        return make_pipeline(*expand, estimator) if expand else estimator

    if linear.pairs and linear.table_encoding is None:
        raise NoExportError("interactions of namespaces are made while files are read: export to python or json")
    if linear.kind == "names" and all(isinstance(name, str) for name in linear.names or ()):
        return make_pipeline(dict_vectorizer(linear), *expand, estimator)
    bits = None if linear.hashing is None else linear.hashing.bits
    function = None if linear.hashing is None else linear.hashing.function
    return make_pipeline(RowVectorizer(linear.table_encoding, linear.names, bits, function), *expand, estimator)


def dict_vectorizer(model: ExportedModel) -> Any:
    """Return a fitted `DictVectorizer` with the features of a model, in their order."""
    from sklearn.feature_extraction import DictVectorizer

    found = DictVectorizer(sort=False)
    found.feature_names_ = list(model.names or ())
    found.vocabulary_ = {name: i for i, name in enumerate(found.feature_names_)}
    return found


def fitted_classifier(model: ExportedModel) -> Any:
    """Return the classifier with the weights of a model."""
    from sklearn.linear_model import LogisticRegression, SGDClassifier
    from sklearn.svm import LinearSVC

    labels = model.labels or []
    if len(labels) < 2:
        only = f": {labels[0]!r} is the only one so far" if labels else ""
        raise ValueError(f"no model of scikit-learn knows a single class{only}")
    weights, intercepts = model.link_factor * model.weights, model.link_factor * model.intercepts
    if model.probability in ("sigmoid", "softmax"):
        estimator = LogisticRegression()
    else:
        shares = model.probability == "shares" and len(labels) > 2
        estimator = SGDClassifier(loss="log_loss") if shares else LinearSVC()
    if model.per_class and len(labels) == 2:  # scikit-learn has one score: the difference of the two
        weights, intercepts = weights[1:] - weights[:1], intercepts[1:] - intercepts[:1]
    estimator.classes_ = label_array(labels)
    estimator.coef_, estimator.intercept_ = weights.copy(), intercepts.copy()
    estimator.n_iter_ = np.array([1], np.int32)
    return estimator


def fitted_regressor(model: ExportedModel) -> Any:
    """Return the regressor with the weights of a model."""
    from sklearn.linear_model import LinearRegression, PoissonRegressor

    if model.link not in ("identity", "log"):
        raise NoExportError(f"no regressor of scikit-learn has the link {model.link}: export to python")
    estimator = PoissonRegressor() if model.link == "log" else LinearRegression()
    estimator.coef_ = model.link_factor * model.weights[0]
    estimator.intercept_ = float(model.link_factor * model.intercepts[0])
    if model.link == "log":
        estimator.n_iter_ = 1
        estimator._base_loss = estimator._get_loss()
    return estimator
