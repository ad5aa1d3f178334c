"""`TrainingJob`: one run of `fiol.train` or `fiol train`, from data and options to a model."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from fiol.components.joint_losses import JointLoss
from fiol.features.column_roles import has_curve
from fiol.integrations.parameters import STEP_SIZES, make_regularizer, make_update
from fiol.learner import Learner
from fiol.names import DEFAULT_ALPHA, DEFAULT_L1_RATIO, algorithm_named, loss_named
from fiol.option_names import option_text
from fiol.readers.bad_lines import unreadable_column
from fiol.readers.columns import encoding_of, no_column
from fiol.readers.reader_config import infer_config
from fiol.readers.sources import Sources
from fiol.training.column_summary import summarize_columns
from fiol.training.run import Regime, Training
from fiol.training.task_inference import Task, distinct, has_value, infer_task, plain_values
from fiol.workflow.errors import OptionError
from fiol.workflow.model import TrainedModel, has_model_inside, is_path, open_model
from fiol.workflow.options import STORED_DEFAULTS, TrainOptions, option_difference

#: While all targets are the same, this many batches are read to find another one; of live data, this many rows.
BATCHES_FOR_TARGETS, ROWS_FOR_TARGETS = 16, 100_000
#: The file of the model after the best pass, while there may be a better one.
BEST = ".best"
#: How often, in seconds, a run without new rows looks whether a checkpoint is due.
TICK_SECONDS = 1.0


class TrainingJob:
    """One run of training: data and options become a model.

    Parameters
    ----------
    data : names of files, or one open file.
    options : see `TrainOptions`.
    output : the model file, where checkpoints go; None for none.
    """

    def __init__(
        self,
        data: Sequence[Any],
        options: TrainOptions,
        output: str | None = None,
        follow: bool = False,
        follow_seconds: float | None = None,
    ) -> None:
        self.options, self.output = options, output
        names = [os.fspath(one) if is_path(one) else str(getattr(one, "name", "a frame")) for one in data]
        #: The command, as a checkpoint keeps it.
        self.asked: dict[str, Any] = {"data": names, **options.stored()}
        try:
            self.sources = Sources(list(data), follow, follow_seconds)
        except ValueError as error:
            raise OptionError(str(error)) from error
        if options.passes > 1 and not self.sources.is_seekable:
            raise OptionError(
                f"{option_text('passes')} needs data that can be read again: no pipe, and no file that is followed"
            )
        self.model: Any = None
        self.reading: Any = None
        self.task: Task = None  # type: ignore[assignment]
        self.training: Training = None  # type: ignore[assignment]
        self.class_weight: dict[Any, float] | None = None
        self.state: dict[str, Any] | None = None  #: of the run that is resumed or updated
        self.is_update = False
        self.first: list[Any] = []  #: batches that were read to infer the task
        self.reader: Any = None
        self.saved_best = 0
        self.loss_before: Any = None  #: of an update: the sum of losses of the rows before it
        self.grown: list[str] = []  #: files of a finished run that have more rows now
        self.added: list[str] = []  #: files that a finished run did not have
        self.digests_before: list[Any] = []  #: of an update: records of the files before its own
        self.repeated: list[str] = []  #: rows of an update that the model has learned before, in words
        self.new_classes = Counter[Any]()  #: rows of classes that the model of an update did not have

    # --- what to learn ------------------------------------------------------------------------

    def start(self, resume: bool = False, update: str | None = None) -> None:
        """Begin a run, or continue the checkpoint in `output` or the model in the file `update`."""
        if resume and self.output is None:
            raise OptionError(f"{option_text('resume', True)} has no effect without {option_text('output')}")
        there = self.output is not None and os.path.exists(self.output)
        if resume and there and (update is None or self.is_same_update()):
            self.resume()
        elif update is not None:
            self.update(update)
        else:
            self.begin()

    def is_same_update(self) -> bool:
        """Return whether `output` is of an update with these files: a checkpoint, or finished with the same bytes."""
        training = open_model(self.output or "").meta.get("training", {})
        if training.get("asked", {}).get("updated") != self.asked["data"]:
            return False
        files, records = self.sources.files, training.get("digests", [])
        if not training.get("finished"):
            return True
        known = self.sources.learned_before(records[-len(files) :])
        return len(known) == len(files) and all(is_all for *_, is_all in known)

    def infer(self) -> None:
        """Infer how the data are read, and what is learned."""
        try:
            loss = None if self.options.loss is None else loss_named(self.options.loss)
        except ValueError as error:
            raise OptionError(str(error)) from None
        reading, bits = infer_config(self.sources, **self.options.reading()), self.options.bits
        if bits is not None and "bits" in reading.kind.options and reading.option("bits") is None:
            reading = dataclasses.replace(reading, options={**reading.options, "bits": bits})  # names are hashed there
        self.reading = reading
        self.reader = self.read()
        self.task = self.task_of_first_rows(loss)
        self.class_weight = self.weights_of_classes()

    def begin(self) -> None:
        """Infer how the data are read and what is learned, and make a model."""
        self.sources.keep_digests()
        self.infer()
        self.model = self.make_model()
        self.model.meta["reading"] = self.reading.to_json()
        self.model.meta["training"] = {"asked": self.asked, **self.column_summaries()}

    def resume(self) -> None:
        """Continue from the checkpoint in `output`; OptionError if another command made it."""
        assert self.output is not None
        self.load(self.output)
        assert self.state is not None
        then = dict(self.state["asked"])
        if then.pop("jobs", None) not in (None, 1):
            raise OptionError(
                f"{self.output} was made with {option_text('jobs')}, which fiol train no longer has: train anew "
                f"without {option_text('resume', True)}"
            )
        if then.get("updated"):  # all other options are those of the model
            other = option_difference({"data": then["updated"]}, {"data": self.asked["data"]})
            self.asked = then
        else:
            other = option_difference(then, self.asked)
        if other is not None:
            raise OptionError(
                f"{self.output} was made {other}: {option_text('resume', True)} continues a run with the same options"
            )
        records = self.state.get("digests", [])
        first = self.state.get("digests_before", len(records) - len(self.sources.files) if then.get("updated") else 0)
        self.digests_before = records[: max(0, first)]
        self.expect(records[len(self.digests_before) :])

    def expect(self, records: Sequence[Sequence[Any]]) -> None:
        """Compare the files with those of the run that is resumed, records of `FileDigest`; OptionError for others."""
        assert self.state is not None
        then, now = [name for name, _, _ in records], self.sources.files
        self.added = [name for name in now if name not in then] if then else []
        if then and then != now and not self.state.get("finished"):
            gone = [name for name in then if name not in now]
            found = [*(f"{name} is new" for name in self.added), *(f"{name} is gone" for name in gone)]
            raise OptionError(
                f"the files are not those of {self.output}: {', '.join(found) or 'their order is another'}. "
                f"Restore them, resume, and update the model with new files ({option_text('update')}); or train anew "
                f"without {option_text('resume', True)}"
            )
        expected = {name: (size, text) for name, size, text in records}
        self.sources.keep_digests(
            [(size, text) for _, size, text in records] if then == now else [expected.get(name) for name in now]
        )
        self.grown = self.sources.grown() if self.state.get("finished") else []

    def update(self, path: str) -> None:
        """Continue the model in a file with new rows."""
        self.is_update = True
        given = [name for name in self.options.stored() if name not in ("on_error", "target")]
        if given:
            raise OptionError(
                f"{option_text('update')} takes {', '.join(map(option_text, given))} from the model: leave that out"
            )
        self.load(path)
        self.refuse_several_learners(path)
        asked, learned = self.options.target, None if self.reading is None else self.reading.target
        if asked is not None and learned is not None and asked != learned:
            raise OptionError(
                f"{path} predicts the column {learned!r}: an update cannot change {option_text('target')} to {asked!r}"
            )
        if self.state is not None and Regime.from_json(self.state["regime"]) != Regime(
            holdout=self.state["regime"]["holdout"], seed=self.state["regime"]["seed"]
        ):
            raise OptionError(
                f"{path} was made with several passes or of shuffled rows, and cannot be updated exactly: "
                "train again with all rows"
            )
        self.digests_before = (self.state or {}).get("digests", [])
        self.repeated = [
            f"the rows of {name}"
            if is_all
            else f"{'the' if unit == 'rows' else 'rows of the'} first {size:,} {unit} of {name}"
            for name, size, unit, is_all in self.sources.learned_before(self.digests_before)
        ]
        self.sources.keep_digests()
        self.read_first_batch()
        then = {} if self.state is None else dict(self.state["asked"])
        data = [*then.get("data", []), *self.asked["data"]]
        self.asked = {**then, "data": data, "updated": self.asked["data"]}

    def refuse_several_learners(self, path: str) -> None:
        """Raise OptionError for models of several learners and passive-aggressive estimators."""
        estimator = self.model.estimator
        if isinstance(self.model, Learner) and (estimator is None or has_model_inside(estimator)):
            return
        name, learn = ("OneVsRest", "learn") if estimator is None else (type(estimator).__name__, "partial_fit")
        raise OptionError(
            f"{option_text('update')} cannot continue the {name} in {path}, but Python can: "
            f"model = fiol.load({path!r}); model.{learn}(X, y); model.save({path!r})"
        )

    def repetition_messages(self) -> list[str]:
        """Return a sentence for every file with rows that are learned again, or not learned as the run is finished."""
        return [
            *(f"the model has learned {rows} before" for rows in self.repeated),
            *(
                f"{name} has grown since the run was finished: its new rows are not learned; update the model with "
                f"them ({option_text('update')}), or train anew without {option_text('resume', True)}"
                for name in self.grown
            ),
            *(
                f"{name} was not there when the run was finished: its rows are not learned; update the model with it "
                f"({option_text('update')}), or train anew without {option_text('resume', True)}"
                for name in self.added
            ),
        ]

    def read_first_batch(self) -> None:
        """Read the first rows of an update, unless they are live, so that errors of columns come before the output."""
        if self.sources.is_live:
            return
        self.reader = self.read()
        self.first = list(itertools.islice(self.reader, 1))
        if self.first and self.first[0].y is None:
            raise ValueError(self.model.without_target(self.first[0].place))

    def refuse_unreadable_columns(self) -> None:
        """Raise ValueError if most cells of a number or date in the rows of an update cannot be read."""
        if not self.asked.get("updated") or self.reading is None or self.reading.table_encoding is None:
            return
        columns = self.reading.table_encoding.columns
        kinds = {column.name: column.kind for column in columns if column.rules.is_number or column.rules.parts}
        found = unreadable_column(self.reader, kinds)
        if found is not None:
            raise ValueError(
                f"{found}. The model is unchanged: mend the column, empty its cells, or leave these lines out "
                f"({option_text('on_error', 'skip')})"
            )

    def load(self, path: str) -> None:
        """Load a model; ValueError if nothing can follow it."""
        self.model = open_model(path)
        self.reading, self.task = self.model.reading, self.model.task
        state = self.model.meta.get("training", {})
        if not self.is_update and ("asked" not in state or "regime" not in state or "history" not in self.model.meta):
            raise ValueError(f"{path} was not made by fiol train: there is nothing to continue")
        self.state = state if "regime" in state else None
        weights = state.get("class_weight")
        self.class_weight = None if weights is None else dict(weights)

    def read(self) -> Any:
        """Return a reader of the data, from the beginning."""
        if self.state is not None or self.is_update:
            return self.model.reader(
                self.sources, on_error=self.options.on_error, target=self.options.target, all_columns=True
            )
        return self.reading.batches(self.sources, on_error=self.options.on_error)

    def task_of_first_rows(self, loss: Any) -> Task:
        """Return what to learn: the loss that is named, or the one for the targets of the first rows."""
        targets: list[Any] = []
        for batch in self.reader:
            self.first.append(batch)
            if batch.y is None:
                raise ValueError(self.without_target(batch.place))
            targets.append(plain_values(batch.y))
            there = targets[-1][has_value(targets[-1])]
            several = len(distinct(np.concatenate([there, *(some[:1] for some in targets)]))) > 1
            enough = sum(map(len, targets)) >= ROWS_FOR_TARGETS or not self.sources.is_live
            if several or (len(targets) >= BATCHES_FOR_TARGETS and enough):
                break
        if not self.first:
            raise ValueError(f"{self.sources.files[0]}: there are no rows")
        return infer_task(np.concatenate(targets), loss)

    def without_target(self, place: Any) -> str:
        """Return the message for rows without a target: which columns there are, those with a similar name first."""
        names = (
            []
            if self.reading.table_encoding is None
            else [column.name for column in self.reading.table_encoding.columns]
        )
        if not self.reading.kind.has_columns:
            return f"{place}: the rows have no target"
        if self.reading.target is not None:
            return f"{place.file}: {no_column(self.reading.target, names)}"
        some = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
        return f"{place.file}: name the column to predict ({option_text('target')}): {some}"

    def weights_of_classes(self) -> dict[Any, float] | None:
        """Return the weight of every label: as given, or "balanced" by the counts of the first rows."""
        given = self.options.class_weight
        if given is None:
            return None
        if self.task.kind == "numbers":
            raise OptionError(f"{option_text('class_weight')} has no effect on numbers: it is for classes")
        values = np.concatenate([plain_values(batch.y) for batch in self.first])
        values = values[has_value(values)]
        labels = distinct(values)
        if given == "balanced":
            counts = {label: int(sum(value == label for value in values.tolist())) for label in labels}
            return {label: len(values) / (len(labels) * count) for label, count in counts.items() if count}
        known = {str(label): label for label in [*(self.task.labels or []), *labels]}
        unknown = [label for label in given if str(label) not in known]
        if unknown and self.task.labels is not None:
            raise OptionError(
                f"{option_text('class_weight')} has the label {unknown[0]!r}, but labels are {', '.join(known)}"
            )
        return {known.get(str(label), label): float(weight) for label, weight in given.items()}

    def column_summaries(self) -> dict[str, Any]:
        """Return the summaries of columns as a model's file keeps them; nothing if rows have no columns."""
        if self.reading.table_encoding is None:
            return {}
        found = summarize_columns(self.reading, self.first)
        if self.features != "linear":
            for summary in found:
                summary["curve"] = has_curve(summary["kind"].partition(":")[0])
        return {"columns": found}

    def new_column_summaries(self) -> list[dict[str, Any]]:
        """Return the columns of a model with missing values and features in the first rows of an update."""
        stored = self.model.meta.get("training", {}).get("columns", [])
        if not self.first or self.reading is None or self.reading.table_encoding is None:
            return [{**column, "missing": None, "features": None, "examples": []} for column in stored]
        new = {column["name"]: column for column in summarize_columns(self.reading, self.first)}
        return [{**column, **new.get(column["name"], {})} for column in stored]

    @property
    def features(self) -> str:
        """Which features are made of columns: as given, or inferred."""
        return self.options.inferred_features(self.encoding)[0]

    @property
    def encoding(self) -> Any:
        """The encoding of the columns of a table; None for other data."""
        return None if self.reading.table_encoding is None else encoding_of(self.reading)

    def features_line(self) -> str:
        """Return what is made of the columns, in words; nothing if there are no columns, or "linear" is given."""
        features, why = self.options.inferred_features(self.encoding)
        if features == "linear":
            return f"Features: columns as they are; {why}" if why else ""
        pairs = "" if features == "additive" else ", and pairs of columns"
        plain = option_text("features", "linear")
        return f"Features: columns, curves of columns of numbers{pairs} ({plain}: columns as they are)"

    def make_model(self) -> Any:
        """Return a new model as the options describe it; OptionError if there is none."""
        loss = self.task.loss
        model = model_of_options(self.options, loss, self.encoding)
        if isinstance(loss, JointLoss):
            for batch in self.first:
                values = plain_values(batch.y)
                labels = {*distinct(values[has_value(values)]), *(model.classes or [])}
                new = labels - {*(model.classes or [])}
                model.add_classes(sorted(new, key=lambda label: (str(type(label)), label)))
        return model

    # --- the run ------------------------------------------------------------------------------

    def batches(self) -> Iterator[Any]:
        """Yield the data of the next pass; None while no rows of live data arrive."""
        if self.reader is None or not self.first:
            self.reader = self.read()
        first, self.first = self.first, []
        found: Iterator[Any] = itertools.chain(first, self.live_batches() if self.sources.is_live else self.reader)
        if self.is_update and isinstance(self.task.loss, JointLoss):
            found = self.count_new_classes(found)
        if self.model is None or self.model.core.space.columns is None:
            return found
        return (batch if batch is None else batch._replace(X=self.model.rows_of(batch.X)) for batch in found)

    def count_new_classes(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield batches, and count the rows of every class that the model did not have before."""
        known = frozenset(self.model.classes or ())
        for batch in batches:
            if batch is not None and batch.y is not None:
                values = plain_values(batch.y)
                for label in distinct(values[has_value(values)]):
                    if label not in known:
                        self.new_classes[label] += int(np.count_nonzero(values == label))
            yield batch

    def new_class_messages(self) -> list[str]:
        """Return one sentence for every class that an update added.

        >>> job = TrainingJob.__new__(TrainingJob)
        >>> job.new_classes = Counter({"repair": 1})
        >>> job.new_class_messages()
        ["new class 'repair': 1 row"]
        """
        return [f"new class {label!r}: {count:,} row{'s' * (count != 1)}" for label, count in self.new_classes.items()]

    def loss_of_new_rows(self) -> float | None:
        """Return the mean loss of the rows of an update, each before it was learned from; None if there is none."""
        if self.loss_before is None:
            return None
        now = self.training.summed_loss()
        mass = now.mass - self.loss_before.mass
        return (now.total - self.loss_before.total) / mass if mass > 0.0 else None

    def live_batches(self) -> Iterator[Any]:
        """Yield batches as they arrive, and None for every `TICK_SECONDS` without one."""
        with contextlib.suppress(StopIteration):
            while True:
                yield self.reader.next_within(TICK_SECONDS)

    def prepare(
        self,
        *,
        defer_signals: Callable[[], AbstractContextManager[Any]] = nullcontext,
        every_rows: float = float("inf"),
        every_seconds: float = float("inf"),
        watch: Any = None,
    ) -> Training:
        """Make the `Training` of the run, at its beginning or where an earlier one ended."""
        o = self.options
        regime = Regime(
            o.passes, o.shuffle, STORED_DEFAULTS["seed"] if o.seed is None else o.seed, o.holdout, o.early_stop
        )
        from_estimator = self.model.estimator
        self.training = training = Training(
            self.model,
            self.task,
            self.batches,
            regime,
            defer_signals=defer_signals,
            skip_missing=o.on_error == "skip",
            class_weight=self.class_weight,
            stopped=self.sources.stop.is_set,
            save=None if self.output is None else self.save,
            every_rows=every_rows,
            every_seconds=every_seconds,
            watch=watch,
        )
        if self.state is not None and self.is_update:
            training.extend_from(self.state, self.model.meta["history"])
            self.loss_before = training.summed_loss()
        elif self.state is not None:
            if Regime.from_json(self.state["regime"]) != regime and not self.state["asked"].get("updated"):
                raise ValueError(f"{self.output} has other passes, shuffling or held-out rows than its command")
            training.go_on_from(self.state, self.model.meta["history"], self.load_best())
            self.saved_best = training.best_pass
        if self.is_update and from_estimator is None:
            self.model.meta["training"] = {**self.model.meta.get("training", {}), "asked": self.asked}
        return training

    def run(self) -> Iterator[Any]:
        """Train; yield the events of `Training.events`, and save at the end, unless the run was finished before."""
        if self.training.finished:
            self.remove_best()
            return
        try:
            yield from self.training.events()
            self.refuse_unreadable_columns()
            if self.training.finished:
                self.training.checkpoint()
        finally:
            self.close()
        if self.training.finished:
            self.remove_best()

    def close(self) -> None:
        """Stop reading."""
        if self.reader is not None:
            self.reader.close()

    def save(self, model: Any) -> None:
        """Write the model, and before it, if it is another, the model after the best pass."""
        assert self.output is not None
        self.refuse_unreadable_columns()
        if self.training.best is not None and self.training.best_pass != self.saved_best:
            self.training.best.save(self.output + BEST)
            self.saved_best = self.training.best_pass
        digests = [] if self.sources.digests is None else [digest.record() for digest in self.sources.digests]
        if model.estimator is None:
            model.meta["training"]["digests"] = [*self.digests_before, *digests]
            if self.asked.get("updated"):
                model.meta["training"]["digests_before"] = len(self.digests_before)
        else:
            for name in ("training", "history"):
                model.meta.pop(name, None)
        model.save(self.output)

    def load_best(self) -> Any:
        """Return the model after the best pass of a run that is resumed; None if there is none to return to."""
        assert self.state is not None
        assert self.output is not None
        if self.options.early_stop is None or self.state["best"] is None or self.state["finished"]:
            return None
        return TrainedModel.load(self.output + BEST)

    def remove_best(self) -> None:
        """Remove the file of the model after the best pass."""
        if self.output is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.output + BEST)


def model_of_options(o: TrainOptions, loss: Any, encoding: Any) -> TrainedModel:
    """Return a model before its first row, with a loss and a table encoding; OptionError if there is none."""
    alpha = DEFAULT_ALPHA if o.alpha is None else o.alpha
    l1_ratio = DEFAULT_L1_RATIO if o.l1_ratio is None else o.l1_ratio
    parts = {
        "bits": o.bits,
        "max_features": o.max_features,
        "table_encoding": encoding,
        "intercept": o.intercept,
        "average": o.average,
        "dtype": o.dtype,
        "features": o.inferred_features(encoding)[0],
    }
    try:
        algorithm = None if o.algorithm is None else algorithm_named(o.algorithm)
        step_size = step_size_given(o.step_size)
        if algorithm is None and isinstance(step_size, str) and step_size == "auto" and not o.average:
            regularizer = make_regularizer(o.penalty, alpha, l1_ratio)
            return TrainedModel(loss=loss, regularizer=regularizer, **parts)  # type: ignore[arg-type]
        alone = algorithm is not None or o.average
        update = make_update(loss, o.penalty, alpha, l1_ratio, algorithm or "FIOL", step_size, alone=alone)  # type: ignore[arg-type]
        return TrainedModel(update, **parts)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise OptionError(" ".join(str(error).split())) from error


def step_size_given(given: Any) -> Any:
    """Return a step size: a number above 0, a name, or a component; ValueError for other strings."""
    names = ("auto", "single", *STEP_SIZES)
    if not isinstance(given, str) or given in names:
        return given
    try:
        number = float(given)
    except ValueError:
        number = float("nan")
    if not 0.0 < number < float("inf"):
        raise ValueError(f"{option_text('step_size')} is a number above 0 or one of {', '.join(names)}, got {given!r}")
    return number
