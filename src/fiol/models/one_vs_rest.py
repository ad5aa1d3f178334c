"""`OneVsRest`: many classes by one learner per class, which separates the class from all others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from fiol.algorithms.ensemble import Ensemble
from fiol.algorithms.update import Update
from fiol.components.row import Floats
from fiol.features.file_header import classes_in
from fiol.features.labels import labels_from_header, plain_label
from fiol.features.numbered_rows import one_row
from fiol.learner import Learner
from fiol.learner.files import check_features, update_from_header
from fiol.learner.merge import check_mergeable
from fiol.learner.model import Model, is_canonical_row
from fiol.models.one_vs_rest_core import OneVsRestCore, arrays_by_learner, make_one_vs_rest_core, merge_one_vs_rest
from fiol.persistence.model import register_kind
from fiol.persistence.state_checks import check_weights_stored
from fiol.summary import SHOWN, Summary

Self = TypeVar("Self", bound="OneVsRest")


class OneVsRest(Model):
    """A linear model with one learner per class, each of which separates its class from all others.

    Parameters
    ----------
    update : the update rule of every learner: an `Update`, or an `Ensemble`, whose loss has one score.
    classes : the labels of all classes. For two of them one learner is enough, that of the second; the score of the
        first is the negated score of the second. By default classes may appear at any time.
    n_features, bits, table_encoding, intercept, average, dtype, compiled : as for a `Learner`.

    Notes
    -----
    Unless the classes are given, one more learner, the standby, gets the target -1 in every round. A new class starts
    from a copy of it, so that the model is exactly the one that knew all classes from the start. Rows are encoded once
    for all learners, and an error in a chunk leaves everything as it was.

    A model is thread-safe, and signals stop it, as `Model` says: all learners have learned from the same rows.

    Examples
    --------
    >>> from fiol import FIOL, Logistic, OneVsRest
    >>> fruit = OneVsRest(FIOL(Logistic()))
    >>> fruit.learn([{"color": "red"}, {"color": "green"}, {"color": "red"}], ["apple", "pear", "apple"]).shape
    (3, 2)
    >>> fruit.classes, fruit.weights.shape, fruit.names
    (['apple', 'pear'], (2, 2), ['color=red', 'color=green'])
    >>> fruit.predict([{"color": "green"}])
    array(['pear'], dtype='<U5')

    Labels that are none of the given classes are refused:

    >>> from fiol import Hinge
    >>> model = OneVsRest(FIOL(Hinge()), classes=[1, 2, 3])
    >>> model.learn([[1.0], [2.0]], [1, 4])
    Traceback (most recent call last):
    ValueError: y[1]: 4 is none of the classes [1, 2, 3]
    >>> model.rounds
    0

    A copy accepts new classes all the same:

    >>> model = OneVsRest(FIOL(Hinge()), classes=[False, True])
    >>> scores = model.learn([[1.0], [-1.0]], [True, False])
    >>> more = model.opened()
    >>> more.learn([[3.0]], ["perhaps"]).shape, more.classes
    ((1, 3), [False, True, 'perhaps'])
    """

    KIND = "one-vs-rest"
    core: OneVsRestCore
    _make_core = staticmethod(make_one_vs_rest_core)

    def __init__(
        self,
        update: Update | Ensemble,
        *,
        classes: Sequence[Any] | None = None,
        n_features: int | None = None,
        bits: int | None = None,
        table_encoding: Any = None,
        intercept: bool = True,
        average: bool = False,
        dtype: Any = "float64",
        compiled: bool = True,
    ) -> None:
        self.core = make_one_vs_rest_core(
            update,
            classes=classes,
            n_features=n_features,
            bits=bits,
            table_encoding=table_encoding,
            intercept=intercept,
            average=average,
            dtype=dtype,
            compiled=compiled,
        )
        self.meta = {}

    @property
    def learners(self) -> dict[Any, Learner]:
        """The learners by class; of two given classes that of the second alone."""
        return self.core.learners

    def learn_one(self, indices: Any, values: Any, y: Any, sample_weight: float = 1.0) -> Floats:
        """Make one round for the row with these values at these indices; return its scores before, one per class.

        >>> from fiol import FIOL, Hinge, OneVsRest
        >>> OneVsRest(FIOL(Hinge()), classes=["a", "b", "c"]).learn_one([3, 5], [1.0, 2.0], y="b")
        array([0., 0., 0.])
        """
        core = self.core
        if core.space.encoder is None and is_canonical_row(indices, values):
            with core.lock:
                scores = core.fast_learn_row(indices, values, y, sample_weight)
            if scores is not None:
                return core.by_class(np.array([scores]))[0]  # type: ignore[no-any-return]
        return self.learn(one_row(indices, values), [y], [sample_weight])[0]  # type: ignore[no-any-return]

    def learn_named(self, features: Mapping[Any, Any], y: Any, sample_weight: float = 1.0) -> Floats:
        """Make one round for a dict of features, see `Learner.learn_named`; return its scores before, one per class."""
        with self.core.lock:
            return self.core.learn_dict(features, y, sample_weight)

    def with_update(self: Self, update: Update | Ensemble) -> Self:
        """Return a model with another update that starts from the weights of this one, without statistics of steps."""
        with self.core.lock:
            return self.from_core(self.core.with_update(update), self.meta)

    def predict_named(self, features: Mapping[Any, Any]) -> Any:
        """Return the label of a dict of features: that of the highest score.

        >>> from fiol import FIOL, Hinge, OneVsRest
        >>> fruit = OneVsRest(FIOL(Hinge()))
        >>> scores = fruit.learn([{"color": "red"}, {"color": "green"}], ["apple", "pear"])
        >>> fruit.predict_named({"color": "green"})
        'pear'
        """
        return plain_label(super().predict_named(features))

    def probabilities(self, X: Any) -> Floats:
        """Return the probability of every class for every row: those of one against the rest, divided by their sum.

        TypeError unless the scores of the loss are log-odds.

        >>> from fiol import FIOL, Logistic, OneVsRest
        >>> OneVsRest(FIOL(Logistic()), classes=["a", "b", "c", "d"]).probabilities([[1.0]])
        array([[0.25, 0.25, 0.25, 0.25]])
        """
        return self.core.probabilities(self.scores(X))

    @classmethod
    def merge(
        cls: type[Self], models: Iterable[Self], weights: Sequence[float] | None = None, base: Self | None = None
    ) -> Self:
        """Return the mean of models with the same update and options that saw different rows: see `Learner.merge`.

        Learners are merged class by class, and classes are united by label. The standby of a model takes the place of
        a class that the model has not met, as if all models had known all classes from the start.

        >>> from fiol import FIOL, Hinge, OneVsRest
        >>> parts = [OneVsRest(FIOL(Hinge())) for _ in range(2)]
        >>> for part, fruit in zip(parts, ("apple", "pear")):
        ...     score = part.learn_named({"size": 3.0}, fruit)
        >>> whole = OneVsRest.merge(parts)
        >>> whole.classes, whole.rows, bool((whole.weights[0] == -whole.weights[1]).all())
        (['apple', 'pear'], 2, True)
        """
        parts = [model.copy() for model in check_mergeable(cls, models, base)]  # one moment of each
        start = None if base is None else base.copy().core
        return cls.from_core(merge_one_vs_rest([part.core for part in parts], weights, start), parts[0].meta)

    @classmethod
    def from_parts(cls: type[Self], header: dict[str, Any], arrays: dict[str, Any], compiled: bool = True) -> Self:
        """Return the model of the header and the arrays of a file."""
        update, labels = update_from_header(header), labels_from_header(header.get("labels"))
        if labels is None:
            raise ValueError("its labels are missing from its header")
        for part in arrays_by_learner(arrays, len(labels["classes"]), labels["closed"]):
            check_weights_stored(update, header, part)
        core = make_one_vs_rest_core(update, **header["options"], classes=classes_in(labels), compiled=compiled)
        check_features(header, core.space.features)
        core.restore(header, arrays)
        return cls.from_core(core)

    def __repr__(self) -> str:
        return f"<OneVsRest of {len(self.core.labels)} classes after {self.rounds} rounds of {self.update.brief()}>"

    def _summary(self) -> Summary:
        counts = {"features": self.n_features, "classes": len(self.core.labels), "rounds": self.rounds}
        facts = {"update of every class": self.update.brief(), **counts}
        return Summary("fiol.OneVsRest", facts, [], self.importances(SHOWN))


register_kind(OneVsRest.KIND, OneVsRest.from_parts)
