"""What an exported model is: weights of features with names, numbers or hashes, and how rows get these features."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from fiol.components.joint_losses import AnyLoss, JointLoss
from fiol.components.losses import Binary, Loss
from fiol.components.row import Floats
from fiol.features.hashing import Hashing
from fiol.features.table_encoding import TableEncoding
from fiol.learner import Learner
from fiol.readers.columns import coding_of
from fiol.readers.reading import Reading
from fiol.training.checkpoint_schema import check_two_labels


class NoExportError(TypeError):
    """A model that a format has no words for: the reason, and what has them."""


@dataclasses.dataclass(frozen=True)
class ExportedModel:
    """The linear model that a learner is at one moment: score k of a row x is <weights[k], x> + intercepts[k].

    Parameters
    ----------
    weights : of shape (scores, features); one score, or one per class.
    intercepts : one per score.
    names : what the features are called; None if they are numbers.
    plain_columns : whether these are the columns of frames, which have plain numbers alone.
    hashing : how names became numbers, where they are hashed.
    coding : how columns become features with names; None where rows have features.
    pairs : columns or namespaces that are multiplied.
    reading : how files with such rows are read; None if the learner does not say.
    labels : [negative, positive] of one score, or one label per score; None where numbers are predicted.
    loss : what the scores were learned by, which says what predictions they make.
    """

    weights: Floats
    intercepts: Floats
    names: list[str | int] | None
    plain_columns: bool
    hashing: Hashing | None
    coding: TableEncoding | None
    pairs: tuple[tuple[str, ...], ...]
    reading: Reading | None
    labels: list[Any] | None
    loss: AnyLoss

    @property
    def joint(self) -> bool:
        """Whether there is a score per class."""
        return isinstance(self.loss, JointLoss)

    @property
    def link(self) -> str:
        """What predictions are made of scores: see `fiol.Loss`."""
        return self.loss.link

    @property
    def kind(self) -> str:
        """What features are: "columns" (that a coding names), "names", "hashes" or "numbers"."""
        if self.coding is not None:
            return "columns"
        if self.hashing is not None:
            return "hashes"
        return "numbers" if self.names is None else "names"

    def entries(self) -> Iterator[tuple[str | int, list[float]]]:
        """The name or number of every feature with a weight other than 0, and its weights, one per score."""
        for i in np.flatnonzero(self.weights.any(axis=0)).tolist():
            yield i if self.names is None else self.names[i], self.weights[:, i].tolist()


def linear_model(learner: Any) -> ExportedModel:
    """The linear model that a learner is now; NoExportError if it is none.

    Scores of a learner are those of its linear model but for the last digits: rows may be centred before they are
    multiplied.

    >>> from fiol import FIOL, Learner, Squared
    >>> learner = Learner(FIOL(Squared()), compiled=False)
    >>> score = learner.learn_named({"age": 30.0, "city": "Rome"}, y=1.0)
    >>> model = linear_model(learner)
    >>> model.kind, [name for name, weight in model.entries()]
    ('names', ['age', 'city=Rome'])
    """
    if not isinstance(learner, Learner):
        raise NoExportError(f"only a Learner is exported, got {type(learner).__name__}")
    learner = learner.copy()  # one moment of it
    if learner.core.counts_unseen:
        raise NoExportError(
            "features never seen have a weight in this model's geometry: no list of weights is complete"
        )
    loss = learner.update.loss
    if isinstance(loss, Loss) and not loss.says_link():
        raise NoExportError(f"{type(loss).__name__} has a predict of its own, which cannot be written in another way")
    weights, intercepts = np.atleast_2d(learner.weights), np.atleast_1d(learner.intercept)
    if not (np.isfinite(weights).all() and np.isfinite(intercepts).all()):
        raise NoExportError("the weights of this model are not finite")
    told = learner.meta.get("reading")
    reading = None if told is None else Reading.from_json(told)
    coding = learner.table_encoding if reading is None or reading.coding is None else coding_of(reading)
    pairs = coding.pairs if coding is not None else reading.pairs if reading is not None else ()
    bits = learner.bits
    hashing = None if bits is None else Hashing(bits, learner.core.header()["hash"])
    labels = learner.classes if isinstance(loss, JointLoss) else None
    if isinstance(loss, Binary):
        labels = check_two_labels(learner.meta, loss)
    plain = learner.core.space.columns is not None
    return ExportedModel(weights, intercepts, learner.names, plain, hashing, coding, pairs, reading, labels, loss)


def joint_labels(model: ExportedModel) -> list[Any]:
    """The label of every score."""
    assert model.labels is not None
    return model.labels
