"""A model as one of scikit-learn's own, fitted: whoever loads it needs no fiol, as a rule.

| link of the loss | estimator |
|---|---|
| logit | `LogisticRegression`, for softmax with a row of `coef_` per class |
| identity | `LinearRegression` |
| sign | `LinearSVC`: hinges, and Crammer and Singer's loss |
| log | `PoissonRegressor` |

Numbered features are the columns of a matrix. Where features have names the estimator is the last step of a pipeline,
whose first one makes a matrix of rows: a `DictVectorizer`, for dicts; for frames of columns with a coding, and for
hashed names, a `RowVectorizer`, which is fiol's, so that fiol has to be there to load it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fiol.exports.linear import ExportedModel, NoExportError, linear_model
from fiol.features.chunk import Chunk
from fiol.features.frames import as_frame
from fiol.features.hashing import Hashing
from fiol.features.table_encoding import TableEncoding
from fiol.features.vocabulary import Encoder, Vocabulary


class RowVectorizer:
    """Frames, or dicts, as a sparse matrix with a column per feature of a model: its coding, and names or hashes.

    Features that the model does not know are left out. `fit` does nothing.
    """

    def __init__(self, coding: TableEncoding | None, names: Any, bits: int | None, function: str | None = None) -> None:
        self.coding, self.names, self.bits, self.function = coding, names, bits, function

    def fit(self, X: Any, y: Any = None) -> RowVectorizer:
        """Nothing is learned."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        """It always is."""
        return True

    def transform(self, X: Any) -> Any:
        """The rows as a matrix in CSR form."""
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
        """What it was made of."""
        return {"coding": self.coding, "names": self.names, "bits": self.bits, "function": self.function}

    def set_params(self, **given: Any) -> RowVectorizer:
        """Take other values."""
        for name, value in given.items():
            setattr(self, name, value)
        return self


def to_sklearn(learner: Any) -> Any:
    """The fitted estimator, or a pipeline that ends with it; scores are those of the learner up to the last digits.

    >>> from fiol import FIOL, Learner, Logistic
    >>> learner = Learner(FIOL(Logistic()), compiled=False)
    >>> scores = learner.learn([[1.0, 0.0], [0.0, 1.0]], [1, -1])
    >>> model, X = to_sklearn(learner), [[3.0, 2.0]]
    >>> type(model).__name__, model.classes_, bool(np.allclose(model.decision_function(X), learner.scores(X)))
    ('LogisticRegression', array([-1,  1]), True)
    """
    model = linear_model(learner)
    estimator = fitted_estimator(model)
    if model.kind == "numbers" or model.plain_columns:
        if model.names is not None:
            estimator.feature_names_in_ = np.array(model.names, object)
        return estimator
    from sklearn.pipeline import make_pipeline

    if model.pairs and model.coding is None:
        raise NoExportError("products of namespaces are made while files are read: export to python or json")
    if model.kind == "names" and all(isinstance(name, str) for name in model.names or ()):
        return make_pipeline(dict_vectorizer(model), estimator)
    bits = None if model.hashing is None else model.hashing.bits
    function = None if model.hashing is None else model.hashing.function
    return make_pipeline(RowVectorizer(model.coding, model.names, bits, function), estimator)


def dict_vectorizer(model: ExportedModel) -> Any:
    """A fitted `DictVectorizer` with the features of a model, in their order."""
    from sklearn.feature_extraction import DictVectorizer

    found = DictVectorizer(sort=False)
    found.feature_names_ = list(model.names or ())
    found.vocabulary_ = {name: i for i, name in enumerate(found.feature_names_)}
    return found


def fitted_estimator(model: ExportedModel) -> Any:
    """The estimator with these weights."""
    from sklearn import linear_model as theirs
    from sklearn.svm import LinearSVC

    kinds = {
        "logit": theirs.LogisticRegression,
        "identity": theirs.LinearRegression,
        "sign": LinearSVC,
        "log": theirs.PoissonRegressor,
    }
    estimator = kinds[model.link]()
    factor = model.loss.link_factor
    weights, intercepts = factor * model.weights, factor * model.intercepts
    if model.link in ("logit", "sign"):
        labels = list(model.labels or [-1, 1])
        if len(labels) < 2:
            raise NoExportError("a model that knows a single class has nothing to tell apart")
        if model.joint and len(labels) == 2:  # one score there: the difference of the two
            weights, intercepts = weights[1:] - weights[:1], intercepts[1:] - intercepts[:1]
        estimator.classes_ = np.array(labels, object if len({type(label) for label in labels}) > 1 else None)
        estimator.coef_, estimator.intercept_ = weights.copy(), intercepts.copy()
        estimator.n_iter_ = np.array([1], np.int32)
    else:
        estimator.coef_, estimator.intercept_ = weights[0].copy(), float(intercepts[0])
        if model.link == "log":
            estimator.n_iter_ = 1
            estimator._base_loss = estimator._get_loss()
    estimator.n_features_in_ = weights.shape[1]
    return estimator
