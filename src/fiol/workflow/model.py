"""`TrainedModel`: a learner that has labels, and that knows how the data it was trained on are read."""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fiol.components.losses import Binary
from fiol.features.column_kinds import MISSING
from fiol.features.frames import as_frame
from fiol.features.max_features import renumbered
from fiol.features.named_rows import NamedRows
from fiol.features.table_encoding import Column, TableEncoding
from fiol.learner import Learner
from fiol.learner.model import Model
from fiol.models.one_vs_rest import OneVsRest
from fiol.models.one_vs_rest_core import named_core
from fiol.persistence.model import Path
from fiol.readers.bad_lines import warn_of_reading
from fiol.snapshot import Snapshot
from fiol.training.checkpoint_schema import check_checkpoint, check_stored_labels
from fiol.training.task_inference import Task, UnclearTargetError
from fiol.workflow.frame_file import frame_file

if TYPE_CHECKING:
    from fiol.readers.batch import Batch
    from fiol.readers.reader_config import ReaderConfig
    from fiol.training.evaluation import Evaluation


class Trained(Model):
    """Labels, predictions of files and frames, evaluation and reports of `TrainedModel` and `TrainedOneVsRest`."""

    #: The estimator that the model was loaded from, which `save` writes; None for models of `fiol train`.
    estimator: Any = None

    @property
    def task(self) -> Task:
        """What is predicted: the loss, and the labels of two classes."""
        loss = self.update.loss
        labels = None if isinstance(self, OneVsRest) else check_stored_labels(self.meta, loss)
        if labels is None and isinstance(self, Learner) and isinstance(loss, Binary):
            labels = [-1, 1]
        return Task(loss, labels, self.meta.get("training", {}).get("why", ""), isinstance(self, OneVsRest))

    @property
    def reading(self) -> ReaderConfig | None:
        """How the training data were read; None for the model of an estimator."""
        from fiol.readers.reader_config import ReaderConfig

        return ReaderConfig.from_json(self.meta["reading"]) if "reading" in self.meta else None

    @property
    def labels(self) -> list[Any] | None:
        """The labels that are predicted, in the order of `predict_proba`; None if numbers are predicted."""
        found = self.task.labels
        return list(self.classes) if found is None and self.classes is not None else found

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns that features are made of; None if rows have no columns."""
        reading, encoding = self.reading, self.table_encoding
        encoding = encoding if encoding is not None or reading is None else reading.table_encoding
        if encoding is None:
            return self.core.space.columns
        aside = set() if reading is None else {reading.target, reading.weight, reading.tag}
        return tuple(c.name for c in encoding.columns if not c.is_left_out and c.name not in aside)

    def save(self, path: Path) -> None:
        """Write the model to a file, that of an estimator as an estimator.

        The model of a passive-aggressive estimator is a copy of its weights: once the copy has learned rows, the file
        has the copy, a linear model, and no longer the estimator.
        """
        inside = self.estimator is not None and has_model_inside(self.estimator)
        if self.estimator is None or (not inside and self.rounds):
            super().save(path)
            return
        if inside:
            space, own = self.estimator._inside().core.space, self.core.space
            space.encoder, space.features = own.encoder, own.features
            self.estimator._coef = None
        self.estimator.save(path)

    # --- learning -----------------------------------------------------------------------------

    def targets_of(self, y: Any) -> Any:
        """Return -1 and +1 for the two `labels` of a loss of two classes; any other targets as they are.

        Raises
        ------
        ValueError : a target is missing, or is none of the two labels.
        """
        if self.meta.get("labels") is None:
            return y
        try:
            codes, there = self.task.coded(y)
        except UnclearTargetError as error:
            raise error if error.row is None else UnclearTargetError(f"y[{error.row}]: {error}") from None
        if not there.all():
            raise ValueError(f"y[{int(np.argmin(there))}] is missing")
        return codes

    def target_of(self, y: Any) -> Any:
        """Return one target as `targets_of` does."""
        negative, positive = self.meta.get("labels") or (None, None)
        if positive is None or y in (positive, negative):
            return y if positive is None else 1.0 if y == positive else -1.0
        codes, there = self.task.coded([y])
        if not there[0]:
            raise ValueError("y is missing")
        return codes[0]

    def learn_one(self, indices: Any, values: Any, y: Any, sample_weight: float = 1.0) -> Any:
        """Make one round for the row with these values at these indices, and return its score before."""
        return super().learn_one(indices, values, self.target_of(y), sample_weight)

    def learn_named(self, features: Mapping[Any, Any], y: Any, sample_weight: float = 1.0) -> Any:
        """Make one round for a row given as a dict, with a target as `predict_named` returns it.

        >>> import pandas as pd, fiol
        >>> frame = pd.DataFrame({"size": [1.0, 2.0, 8.0, 9.0] * 50, "sold": ["no", "no", "yes", "yes"] * 50})
        >>> model = fiol.train(frame, target="sold")
        >>> score = model.learn_named({"size": 7.0}, "yes")
        >>> model.learn_named({"size": 7.0}, "maybe")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        fiol.training.task_inference.UnclearTargetError: the target 'maybe' is neither 'no' nor 'yes', the two ...
        """
        return super().learn_named(features, self.target_of(y), sample_weight)

    # --- rows ---------------------------------------------------------------------------------

    def batches(
        self,
        data: Any,
        y: Any = None,
        on_error: str = "missing",
        needs_target: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> Iterator[Batch]:
        """Yield the rows of files or of a frame, as the model reads them; warn at the end of cells that are missing."""
        with self.reader(data, y, on_error, needs_target, options=options) as reader:
            yield from reader
        warn_of_reading(reader, 3)

    def reader(
        self,
        data: Any,
        y: Any = None,
        on_error: str = "missing",
        needs_target: bool = True,
        target: str | None = None,
        options: Mapping[str, Any] | None = None,
        all_columns: bool = False,
    ) -> Any:
        """Return a `Reader` of files or a frame; targets are in the column of the training data, `target`, or `y`.

        `options` of the format replace those of the training data, such as {"delimiter": ";"}. Columns that the model
        does not know are left out; absent ones are missing, or an error with `all_columns`.
        """
        from fiol.readers.reader_config import as_sources, format_of, infer_config
        from fiol.readers.sources import START_SIZE

        frame, given_target = as_frame(data), target
        if self.reading is not None:
            target = self.reading.target
            if given_target not in (None, target):
                raise ValueError(f"the target of the model is {target!r}, not {given_target!r}: rename the column")
        if frame is not None:
            data = frame_file(data, target or "target", y)
            target = target or "target"
        sources, reading = as_sources(data), self.reading
        start, name = sources.start(START_SIZE)
        found = format_of(start, name)
        if reading is not None and found == "csv" and not reading.kind.has_columns:
            found = reading.format  # lines of names, such as Vowpal Wabbit's with named labels, look like CSV
        if not needs_target and reading is not None:
            reading, target = dataclasses.replace(reading, target=None, weight=None), None  # predictions need neither
        if reading is None or reading.format != found:
            given = {} if reading is None else {name: getattr(reading, name) for name in ("target", "weight", "tag")}
            encoding = (
                self.table_encoding if self.table_encoding is not None else getattr(reading, "table_encoding", None)
            )
            if encoding is None and self.core.space.columns is not None:
                encoding = TableEncoding(tuple(Column(name, "number") for name in self.core.space.columns))
            if encoding is not None and given_target is not None:  # estimators do not store it
                encoding = encoding.with_skipped(given_target)
            given = {"target": target, **given, "table_encoding": encoding, "format": found}
            reading = infer_config(sources, **given, options=options or {})
        else:
            reading = dataclasses.replace(reading, options={**reading.options, **(options or {})})
            if "quote" not in (options or {}):
                reading.kind.warn_of_start(reading, start, name)
        if not needs_target:
            reading = dataclasses.replace(reading, target=None)
        plain = self.core.space.columns is not None and self.core.space.encoder is None  # knows no missing values
        return reading.batches(sources, on_error=on_error, all_columns=all_columns or plain)

    def rows_of(self, X: Any) -> Any:
        """Return rows of a batch as the model takes them: numbered, if its features are columns without an encoding."""
        columns = self.core.space.columns
        if not isinstance(X, NamedRows) or self.core.space.encoder is not None:
            return X
        if columns is None:
            if self.estimator is not None:
                raise ValueError(
                    f"the {type(self.estimator).__name__} learned from arrays, whose columns have no names: "
                    "fit it on a frame, pass svmlight data, or predict arrays in Python"
                )
            return X
        places = {name: k for k, name in enumerate(columns)}
        unknown = next((name for name in X.names if name not in places), None)
        if unknown is not None and unknown.removesuffix(MISSING) in places:
            raise ValueError(
                f"column {unknown.removesuffix(MISSING)!r} has missing values, but the model learned from numbers "
                "alone: fill them, or train the model on rows of which some have missing values"
            )
        if unknown is not None:
            raise ValueError(f"the model has no feature {unknown!r}: its columns are numbers, {', '.join(columns)}")
        return renumbered(X.chunk, np.array([places[name] for name in X.names], np.int64))

    # --- predictions --------------------------------------------------------------------------

    def scores(self, X: Any, *, on_error: str = "missing", reader: Mapping[str, Any] | None = None) -> Any:
        """Return the score of every row, of shape (rows,) or (rows, classes); X may be a path as well.

        `on_error` and `reader` are for paths, as in `fiol.train`; `reader` has the options of the format that differ
        from the training data, such as {"delimiter": ";"}.
        """
        if is_path(X):
            batches = self.batches(X, on_error=on_error, options=reader)
            parts = [super(Trained, self).scores(self.rows_of(batch.X)) for batch in batches]
            return np.concatenate(parts) if parts else np.empty(0)
        if reader is not None:
            raise ValueError(f"reader={reader!r} is for files, but X is no path: leave it out")
        return super().scores(self.rows_of(X))

    def predict(self, X: Any, *, on_error: str = "missing", reader: Mapping[str, Any] | None = None) -> Any:
        """Return the label of every row, or the number that is predicted; X is a frame, a path or other rows.

        `on_error` and `reader` are those of `scores`.

        >>> import pandas as pd, fiol
        >>> frame = pd.DataFrame({"size": [1.0, 2.0, 8.0, 9.0] * 50, "sold": ["no", "no", "yes", "yes"] * 50})
        >>> model = fiol.train(frame, target="sold")
        >>> model.labels, model.columns, model.predict(frame)[:4].tolist()
        (['no', 'yes'], ('size',), ['no', 'no', 'yes', 'yes'])
        """
        scores = self.scores(X, on_error=on_error, reader=reader)
        labels = self.labels
        if labels is None:
            return self.core.predictions(scores)
        best = (scores > 0.0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.array(labels, object if len({type(label) for label in labels}) > 1 else None)[best]

    def predict_named(self, features: Any) -> Any:
        """Return the label of one row given as a dict, or the number that is predicted."""
        labels = self.labels
        if labels is None:
            return super().predict_named(features)
        scores = self.score_named(features)
        return labels[scores > 0.0] if isinstance(scores, float) else labels[int(np.argmax(scores))]

    @property
    def has_probabilities(self) -> bool:
        """Whether the loss has probabilities of labels."""
        return self.labels is not None and self.update.loss.link == "logit"

    def predict_proba(self, X: Any, *, on_error: str = "missing", reader: Mapping[str, Any] | None = None) -> Any:
        """Return the probability of every label, of shape (rows, labels), in the order of `labels`.

        `on_error` and `reader` are those of `scores`.

        Raises
        ------
        TypeError : the model predicts numbers, or its loss has no probabilities.
        """
        if not self.has_probabilities:
            raise TypeError(f"{type(self.update.loss).__name__} has no probabilities: use predict or scores")
        return self.probabilities_of(self.scores(X, on_error=on_error, reader=reader))

    def probabilities_of(self, scores: Any) -> Any:
        """Return the probability of every label from scores."""
        if isinstance(self, OneVsRest):
            return self.core.probabilities(scores)
        p = self.core.predictions(scores.copy())
        return p if p.ndim == 2 else np.column_stack([1.0 - p, p])

    def snapshot(self) -> TrainedSnapshot:
        """Return a scorer with the state of this moment, which never changes, with labels and probabilities."""
        return TrainedSnapshot(self.copy())

    # --- evaluation ---------------------------------------------------------------------------

    def evaluation(
        self,
        data: Any,
        y: Any = None,
        on_error: str = "missing",
        options: Mapping[str, Any] | None = None,
        target: str | None = None,
    ) -> tuple[Evaluation, Any, int]:
        """Return the `Evaluation` of files or a frame with targets, its reader, and how many rows have no target."""
        from fiol.training.evaluation import Evaluation
        from fiol.training.run import rows_of_batch

        found, missing, task = Evaluation(self, self.task), 0, self.task  # type: ignore[arg-type]
        with self.reader(data, y, on_error, target=target, options=options) as reader:
            for batch in reader:
                if batch.y is None:
                    raise ValueError(self.without_target(batch.place))
                rows, there = rows_of_batch(batch._replace(X=self.rows_of(batch.X)), task, on_error == "skip")
                missing += int(np.count_nonzero(~there))
                found.add(self.scores(rows.X)[there], rows.y[there], rows.weights[there])
        if not found.rows:
            raise ValueError("there are no rows to compare")
        return found, reader, missing

    def without_target(self, place: Any) -> str:
        """Return the message for rows without a target: which column is missing, if rows have columns."""
        target = None if self.reading is None else self.reading.target
        lacking = "" if target is None else f": there is no column {target!r}"
        return f"{place if target is None else place.file}: the rows have no target{lacking}"

    def evaluate(
        self, data: Any, y: Any = None, *, on_error: str = "missing", reader: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return metrics of the predictions for files, or for a frame with its target in a column or in `y`.

        `on_error` and `reader` are those of `scores`.

        >>> import pandas as pd, fiol
        >>> frame = pd.DataFrame({"size": [1.0, 2.0, 8.0, 9.0] * 50, "sold": ["no", "no", "yes", "yes"] * 50})
        >>> fiol.train(frame, target="sold").evaluate(frame)["accuracy"]
        1.0
        """
        found, rows, _ = self.evaluation(data, y, on_error, reader)
        warn_of_reading(rows, 2)
        return found.results()

    def report(
        self,
        path: Path,
        data: Any,
        y: Any = None,
        command: str = "",
        *,
        on_error: str = "missing",
        reader: Mapping[str, Any] | None = None,
    ) -> None:
        """Write an HTML page about the model and its predictions for files or a frame with targets.

        `on_error` and `reader` are those of `scores`.
        """
        found, rows, missing = self.evaluation(data, y, on_error, reader)
        warn_of_reading(rows, 2)
        name = data if is_path(data) else "a frame" if as_frame(data) is not None else "the data"
        write_evaluation_page(path, found, [os.fspath(name)], rows.skipped + missing, command)


class TrainedSnapshot(Snapshot):
    """A `Snapshot` of a `TrainedModel`, with its labels and the probability of each."""

    __slots__ = ("labels",)
    labels: list[Any] | None

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        object.__setattr__(self, "labels", model.labels)

    def __reduce__(self) -> tuple[Any, ...]:
        return TrainedSnapshot, (self._model,)

    @property
    def has_probabilities(self) -> bool:
        """Whether the loss has probabilities of labels."""
        return self._model.has_probabilities  # type: ignore[no-any-return]

    def scores(self, X: Any, **options: Any) -> Any:
        """Return the score of every row, or the scores by class; options are those of `TrainedModel.scores`."""
        return self._model.scores(X, **options)

    def predict(self, X: Any, **options: Any) -> Any:
        """Return the label of every row, or the number that is predicted; options are those of `scores`."""
        return self._model.predict(X, **options)

    def predict_proba(self, X: Any, **options: Any) -> Any:
        """Return the probability of every label, of shape (rows, labels), in the order of `labels`.

        Options are those of `scores`.

        >>> import pandas as pd, fiol
        >>> frame = pd.DataFrame({"size": [1.0, 2.0, 8.0, 9.0] * 50, "sold": ["no", "no", "yes", "yes"] * 50})
        >>> snapshot = fiol.train(frame, target="sold").snapshot()
        >>> snapshot.labels, snapshot.predict_proba([{"size": 9.0}]).round().tolist()
        (['no', 'yes'], [[0.0, 1.0]])
        """
        return self._model.predict_proba(X, **options)

    def probabilities_of(self, scores: Any) -> Any:
        """Return the probability of every label from scores."""
        return self._model.probabilities_of(scores)

    def numbers_of(self, scores: Any) -> Any:
        """Return the numbers that a model without labels predicts from scores."""
        return self._model.core.predictions(scores.copy())


class TrainedModel(Trained, Learner):
    """A `Learner` that knows its labels and columns: `fiol.train` and `fiol.load` return it.

    In addition to the methods of a `Learner` it has `labels`, `columns`, `predict` (labels, or numbers),
    `predict_proba`, `evaluate` and `report`. `learn` takes labels as `predict` returns them. Rows are frames, dicts,
    arrays, or names of files.

    Examples
    --------
    >>> import pandas as pd, fiol
    >>> frame = pd.DataFrame({"city": ["Rome", "Oslo"] * 99, "sold": ["yes", "no"] * 99})
    >>> model = fiol.train(frame, target="sold")
    >>> model.labels, model.columns, model.predict([{"city": "Rome"}]).tolist()
    (['no', 'yes'], ('city',), ['yes'])
    """


class TrainedOneVsRest(Trained, OneVsRest):
    """The model of an estimator with one learner per class, with the methods of a `TrainedModel`."""

    #: Those of an ensemble: every class has its own.
    members = ()

    @property
    def n_nonzero(self) -> int:
        """The number of features that have a weight other than 0 for some class."""
        return int((self.weights != 0.0).any(axis=0).sum())


def is_path(data: Any) -> bool:
    """Return whether data are named by a path."""
    return isinstance(data, (str, os.PathLike))


def open_model(path: Path, **options: Any) -> Any:
    """Return the model in a file of any kind as a `TrainedModel`, or as a `TrainedOneVsRest`.

    Options are those of `fiol.load`. ValueError if what the file says about its training is wrong.
    """
    from fiol.public import load  # here: it knows all kinds of files, and training needs none of them

    found = as_trained(load(path, **options))
    try:
        check_checkpoint(found.meta)
        _ = found.task, found.reading
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from None
    return found


def as_trained(model: Any) -> Any:
    """Return a model, or that of an estimator, as a `TrainedModel` or `TrainedOneVsRest`; memory is shared."""
    if isinstance(model, Trained):
        return model
    if isinstance(model, Learner):
        return TrainedModel.from_core(model.core, model.meta)
    if isinstance(model, OneVsRest):
        return TrainedOneVsRest.from_core(model.core, model.meta)
    given = getattr(model, "feature_names_in_", None)
    names = None if given is None else [str(name) for name in given]
    return trained_of_estimator(model, model._inside(), names) if has_model_inside(model) else linear_copy(model, names)


def has_model_inside(estimator: Any) -> bool:
    """Return whether an estimator predicts with one model, which passive-aggressive estimators do not."""
    return hasattr(estimator, "_inside")


def linear_copy(estimator: Any, names: Sequence[str] | None) -> Any:
    """Return a model with the coefficients and labels of a passive-aggressive estimator, which predicts as it does."""
    from fiol.presets import PA1

    coef = estimator.coef_.toarray() if hasattr(estimator.coef_, "toarray") else estimator.coef_
    weights, intercepts = np.atleast_2d(coef), np.atleast_1d(estimator.intercept_)
    compiled = estimator._learners[0].compiled
    update, options = PA1(estimator.C, estimator._judge), {"n_features": weights.shape[1], "compiled": compiled}
    found: Any
    if len(intercepts) == 1:
        found = TrainedModel(update, **options)
        learners = [found.core]
    else:
        found = TrainedOneVsRest(update, classes=plain_labels(estimator.classes_), **options)
        learners = [learner.core for learner in found.learners.values()]
    for learner, w, b in zip(learners, weights, intercepts, strict=True):
        learner.start_from(w, b)
    found.meta = {**getattr(estimator, "meta", {})}
    if hasattr(estimator, "classes_") and len(intercepts) == 1:
        found.meta["labels"] = plain_labels(estimator.classes_)
    found.core.space.columns = None if names is None else tuple(names)
    found.estimator = estimator
    return found


def trained_of_estimator(estimator: Any, inner: Any, names: Sequence[str] | None) -> Any:
    """Return the model inside an estimator, with its labels and names of columns; memory is shared."""
    meta, pair = {**getattr(estimator, "meta", {})}, isinstance(inner, OneVsRest) and len(inner.classes) == 2
    if "moments" in inner.meta:
        meta["moments"] = inner.meta["moments"]
    kind: Any = TrainedOneVsRest
    if pair and inner.closed:
        core: Any = named_core(inner.core, inner.classes[1], "the estimator")
        meta["labels"], kind = plain_labels(inner.classes), TrainedModel
    elif isinstance(inner, OneVsRest):
        core = copy.copy(inner.core)
        core.space = copy.copy(inner.core.space)
    else:
        core, kind = inner.core.with_engine(inner.core.engine, copy.copy(inner.core.space)), TrainedModel
    if names is not None and core.space.table_encoding is None:
        core.space.columns = tuple(names)
    found = kind.from_core(core, meta)
    found.estimator = estimator
    return found


def plain_labels(labels: Any) -> list[Any]:
    """Return labels without numpy's types."""
    return [label.item() if isinstance(label, np.generic) else label for label in labels]


def write_evaluation_page(
    path: Path,
    evaluation: Any,
    sources: Sequence[str],
    skipped: int = 0,
    command: str = "",
    first_cards: Sequence[Any] = (),
) -> None:
    """Write a page about a model and what its predictions are worth; `first_cards` are shown before all others."""
    from fiol.reports.run_page import RunOnPage
    from fiol.training.metrics import Line
    from fiol.workflow.files import atomic_write

    model = evaluation.learner
    page = RunOnPage(
        model,
        evaluation.task,
        evaluation,
        evaluated_on=f"{evaluation.rows:,} rows of {', '.join(sources)}",
        command=command,
        data=", ".join(model.meta.get("training", {}).get("asked", {}).get("data", [])) or "data that are not named",
        windows=evaluation.windows.all,
        history=[Line.from_json(line) for line in model.meta.get("history", [])],
        skipped=skipped,
        first_cards=first_cards,
    )
    with atomic_write(os.fspath(path)) as file:
        file.write(page.html())
