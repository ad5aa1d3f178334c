"""`ExportedModel`: the linear model that is exported, whatever kind of model it comes from."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from fiol.components.joint_losses import AnyLoss, JointLoss
from fiol.components.losses import Binary, Loss
from fiol.components.row import Floats
from fiol.exports.basis import ExportedBasis, exported_basis
from fiol.features.hashing import Hashing
from fiol.features.labels import plain_label
from fiol.features.table_encoding import TableEncoding
from fiol.learner import Learner
from fiol.models.one_vs_rest import OneVsRest
from fiol.readers.columns import encoding_of
from fiol.readers.reader_config import ReaderConfig
from fiol.training.checkpoint_schema import check_stored_labels

#: Labels of a binary loss where the model has none of its own: the targets it learned from.
BINARY_LABELS = [-1, 1]
#: Modules of estimators that can be exported.
ESTIMATORS = {"fiol.integrations.estimators", "fiol.integrations.passive_aggressive"}


class NoExportError(TypeError):
    """A model that a format cannot express; the message has the reason, and a format that can."""


@dataclasses.dataclass(frozen=True)
class ExportedModel:
    """A linear model at one moment: score k of a row x is <weights[k], x> + intercepts[k], plus curves and pairs.

    Parameters
    ----------
    weights : of shape (scores, features); one score, or one per class.
    intercepts : one per score.
    names : names of the features; None if they are numbers.
    plain_columns : whether the names are columns of numbers in a frame.
    hashing : how names become numbers, where they are hashed.
    table_encoding : how columns become named features; None where rows have features.
    pairs : columns or namespaces that are multiplied.
    reading : how files with such rows are read; None if the model does not store it.
    labels : [negative, positive] of one score, or one label per score; None where numbers are predicted.
    per_class : whether there is one score per label.
    loss : the loss of the scores, which has the link; None for the identity.
    basis : curves and pairs, whose terms are added to the scores; None without any.
    """

    weights: Floats
    intercepts: Floats
    names: list[str | int] | None
    plain_columns: bool
    hashing: Hashing | None
    table_encoding: TableEncoding | None
    pairs: tuple[tuple[str, ...], ...]
    reading: ReaderConfig | None
    labels: list[Any] | None
    per_class: bool
    loss: AnyLoss | None
    basis: ExportedBasis | None = None

    @property
    def link(self) -> str:
        """The link between scores and predictions: see `fiol.Loss`."""
        return "identity" if self.loss is None else self.loss.link

    @property
    def link_factor(self) -> float:
        """The factor of scores inside the link."""
        return 1.0 if self.loss is None else self.loss.link_factor

    @property
    def probability(self) -> str | None:
        """How scores become probabilities of labels; None if they do not.

        "sigmoid" of the one score, "softmax" of all, or "shares": the sigmoid of every score, divided by their sum.
        """
        if self.labels is None or self.link != "logit":
            return None
        if not self.per_class:
            return "sigmoid"
        return "softmax" if isinstance(self.loss, JointLoss) else "shares"

    @property
    def kind(self) -> str:
        """What features are: "columns" (that a table encoding names), "names", "hashes" or "numbers"."""
        if self.table_encoding is not None:
            return "columns"
        if self.hashing is not None:
            return "hashes"
        return "numbers" if self.names is None else "names"

    def score_name(self, k: int) -> str:
        """Return the name of score k: `score`, or `score of LABEL` where every class has one."""
        return f"score of {self.labels[k]}" if self.per_class and self.labels is not None else "score"

    def entries(self) -> Iterator[tuple[str | int, list[float]]]:
        """Yield the name or number of every feature with a weight other than 0, and its weights, one per score."""
        for i in np.flatnonzero(self.weights.any(axis=0)).tolist():
            yield i if self.names is None else self.names[i], self.weights[:, i].tolist()


def linear_model(model: Any, complete: bool = True) -> ExportedModel:
    """Return the linear model that a `Learner`, a `OneVsRest` or a fitted estimator is now.

    Unless `complete`, it has the features of the model alone: see `completed`.

    Scores are those of the model except for the last digits: rows may be centered before they are multiplied.

    Raises
    ------
    TypeError : the object is no such model, or predicts by more than weights.

    >>> from fiol import FIOL, Learner, Squared
    >>> learner = Learner(FIOL(Squared()), compiled=False)
    >>> score = learner.learn_named({"age": 30.0, "city": "Rome"}, y=1.0)
    >>> model = linear_model(learner)
    >>> model.kind, [name for name, weight in model.entries()]
    ('names', ['age', 'city=Rome'])
    """
    if isinstance(model, (Learner, OneVsRest)):
        found = of_model(completed(model) if complete else model.copy())
    else:
        found = of_estimator(model, complete)
    if isinstance(found.loss, Loss) and not found.loss.states_link():
        raise NoExportError(f"{type(found.loss).__name__} has a predict of its own, which has no graph, SQL or source")
    if not (np.isfinite(found.weights).all() and np.isfinite(found.intercepts).all()):
        raise NoExportError("the weights of this model are not finite")
    return found


def completed(model: Any) -> Any:
    """Return a copy of a `Learner` or `OneVsRest` with `c is missing` of all centered columns, also if never seen."""
    model = model.copy()
    model.core.name_missing()
    return model


def of_model(model: Learner | OneVsRest) -> ExportedModel:
    """Return the linear model of a `Learner` or `OneVsRest`."""
    if model.core.space.counts_unseen and model.width is None:
        raise NoExportError(
            "features never seen have a weight in this model's geometry: no list of weights is complete"
        )
    loss = model.update.loss
    stored = model.meta.get("reading")
    reading = None if stored is None else ReaderConfig.from_json(stored)
    encoding = model.table_encoding if reading is None or reading.table_encoding is None else encoding_of(reading)
    pairs = encoding.pairs if encoding is not None else reading.pairs if reading is not None else ()
    hashing = None if model.bits is None else Hashing(model.bits, model.core.header()["hash"])
    labels = None if model.classes is None else [plain_label(label) for label in model.classes]
    if isinstance(model, Learner) and isinstance(loss, Binary):
        labels = check_stored_labels(model.meta, loss) or BINARY_LABELS
    weights, intercepts = np.atleast_2d(model.weights), np.atleast_1d(model.intercept)
    basis = exported_basis(model.core, weights)
    weights = weights[:, model.core.own_numbers()]
    plain = model.core.space.columns is not None  # `columns` of a trained model are those of its data
    per_class = model.classes is not None
    names = model.core.space.names
    return ExportedModel(
        weights, intercepts, names, plain, hashing, encoding, pairs, reading, labels, per_class, loss, basis
    )


def of_estimator(estimator: Any, complete: bool) -> ExportedModel:
    """Return the linear model of a fitted estimator; TypeError for any other object.

    Scores are those of `decision_function`: one of two classes, otherwise one per class, in the order of `classes_`.
    """
    check_is_ours(estimator)
    if not hasattr(estimator, "_inside"):
        return of_passive_aggressive(estimator)
    inside = model_inside(estimator)
    found = of_model(completed(inside) if complete else inside.copy())
    columns = getattr(estimator, "feature_names_in_", None)
    if found.table_encoding is None and columns is not None:
        found = dataclasses.replace(found, names=[str(name) for name in columns], plain_columns=True)
    if not hasattr(estimator, "classes_"):
        return dataclasses.replace(found, labels=None, per_class=False)
    labels = estimator.classes_.tolist()
    order = [inside.classes.index(label) for label in labels]

    def chosen(scores: Floats) -> Floats:
        found = scores[order]
        if len(labels) != 2:
            return found
        return found[1:] if isinstance(inside, OneVsRest) else found[1:] - found[:1]

    return dataclasses.replace(
        found,
        weights=chosen(found.weights),
        intercepts=chosen(found.intercepts),
        labels=labels,
        per_class=len(labels) != 2,
        basis=None if found.basis is None else found.basis.of_scores(chosen),
    )


def of_passive_aggressive(estimator: Any) -> ExportedModel:
    """Return the linear model of a fitted passive-aggressive estimator."""
    coef = estimator.coef_
    weights = np.atleast_2d(coef.toarray() if hasattr(coef, "toarray") else coef)
    intercepts = np.atleast_1d(estimator.intercept_)
    columns = getattr(estimator, "feature_names_in_", None)
    names: list[str | int] | None = None if columns is None else [str(name) for name in columns]
    labels = estimator.classes_.tolist() if hasattr(estimator, "classes_") else None
    per_class = labels is not None and len(intercepts) > 1
    return ExportedModel(weights, intercepts, names, names is not None, None, None, (), None, labels, per_class, None)


def model_inside(model: Any) -> Any:
    """Return the `Learner` or `OneVsRest` inside an estimator; another model as it is."""
    return model._inside() if hasattr(model, "_inside") else model


def check_is_ours(model: Any) -> None:
    """TypeError unless a model is an estimator of fiol, and scikit-learn's NotFittedError unless that is fitted."""
    name, modules = type(model).__name__, {kind.__module__ for kind in type(model).__mro__}
    if modules & ESTIMATORS:
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(model)
    elif "fiol.integrations.river" in modules:
        raise NoExportError(
            f"{name} of fiol.river takes dicts, and is not exported: fit a fiol.{name}, or export a Learner of "
            "this one (model.learner, model.learners), whose columns are the features in the order they appeared"
        )
    elif "sklearn.pipeline" in modules:
        raise NoExportError(f"{name} is no single model: convert the last step: to_onnx(pipeline[-1])")
    elif any(module.startswith("sklearn.") for module in modules):
        raise NoExportError(f"{name} is no model of fiol: skl2onnx converts those of scikit-learn")
    else:
        raise NoExportError(f"model must be a fitted estimator or a Learner, got {name}")


def two_or_more_labels(model: ExportedModel) -> list[Any]:
    """Return the labels of a model that has some; NoExportError if there are fewer than two."""
    labels = model.labels or []
    if len(labels) < 2:
        raise NoExportError("a model that has seen a single class predicts nothing else: learn from two classes first")
    return labels
