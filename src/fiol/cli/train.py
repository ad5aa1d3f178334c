"""`fiol train`: from files to a model."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import math
import os
from collections.abc import Iterator
from typing import Any

import click

from fiol.cli.data import given_reading, reading_options, tell_skipped
from fiol.cli.outcome import answering, check_folder, json_text, refuse_existing, tell_page, whole_file
from fiol.cli.sections import OptionSections, option_in, typed_command

#: While all targets are the same, so many batches of rows are looked at for another one.
BATCHES_FOR_TARGETS = 16
#: What the model after the best pass is called while there may be a better one.
BEST = ".best"

learning, repeating, keeping = option_in("Learning"), option_in("Passes"), option_in("Model")


@click.command(cls=OptionSections)
@click.argument("sources", nargs=-1, required=True, metavar="DATA...")
@reading_options
@learning(
    "--loss",
    metavar="NAME",
    help="log_loss, squared_error, softmax, hinge, quantile:0.9, ... [default: by the target].",
)
@learning(
    "--penalty",
    type=click.Choice(["none", "l1", "l2", "elasticnet"]),
    default="none",
    show_default=True,
    help="On weights.",
)
@learning("--alpha", type=click.FloatRange(0.0), default=1e-4, show_default=True, help="The strength of the penalty.")
@learning(
    "--l1-ratio", type=click.FloatRange(0.0, 1.0), default=0.15, show_default=True, help="The l1 part of elasticnet."
)
@learning(
    "--algorithm", metavar="NAME", help="FIOL, SGD, FTRLProximal, PA1, ... [default: the ensemble, nothing to tune]."
)
@learning(
    "--step-size",
    default="auto",
    metavar="SIZE",
    help="A number, scale_free, adagrad, inverse_sqrt, single [default: auto].",
)
@learning(
    "--bits", type=click.IntRange(1, 30), help="Fold all features into 2^BITS by hashing [default: keep all names]."
)
@learning("--max-features", type=click.IntRange(1), help="Hold at most so many features with a weight other than 0.")
@learning("--no-intercept", is_flag=True, help="Learn no constant.")
@learning("--average", is_flag=True, help="Predict with the average of the weights; not for the ensemble.")
@learning(
    "--dtype",
    type=click.Choice(["float64", "float32"]),
    default="float64",
    show_default=True,
    help="How numbers are stored.",
)
@repeating("--passes", type=click.IntRange(1), default=1, show_default=True, help="How often to go through the data.")
@repeating(
    "--shuffle",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="ROWS",
    help="Mix rows in a buffer of so many.",
)
@repeating(
    "--seed", type=click.IntRange(0), default=1, show_default=True, help="Of the shuffling, and of the rows held out."
)
@repeating(
    "--holdout",
    type=click.FloatRange(0.0, 1.0, max_open=True),
    default=0.0,
    show_default=True,
    metavar="SHARE",
    help="Never learn from this share of the rows, and tell their loss.",
)
@repeating(
    "--early-stop",
    type=click.IntRange(1),
    metavar="PASSES",
    help="Stop after so many passes without a better loss on the rows held out, and go back to the best pass.",
)
@keeping("-o", "--output", required=True, type=click.Path(dir_okay=False), metavar="MODEL", help="The file to write.")
@keeping("--force", is_flag=True, help="Replace MODEL if it exists.")
@keeping("--checkpoint-rows", type=click.IntRange(1), metavar="N", help="Write MODEL every N rows.")
@keeping(
    "--checkpoint-seconds",
    type=click.FloatRange(0.0, min_open=True),
    default=300.0,
    show_default=True,
    metavar="S",
    help="Write MODEL every S seconds.",
)
@keeping(
    "--resume",
    is_flag=True,
    help="Go on from MODEL if it is there: the same command with --resume ends with the same model, bit for bit.",
)
@keeping(
    "--report", type=click.Path(dir_okay=False), metavar="FILE", help="Write a page about the run (.html) at the end."
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object at the end instead of the table.")
@answering
def train(
    sources: tuple[str, ...],
    output: str,
    force: bool,
    resume: bool,
    report: str | None,
    as_json: bool,
    signals: Any,
    **options: Any,
) -> None:
    """Learn a model from DATA: files, folders, patterns in quotes, or - for standard input.

    The format, what columns mean and the loss are found out from the first rows, and said. The table shows the mean
    loss of all rows so far, each before it was learned from; that of the rows since the line above; and that of the
    best constant prediction in hindsight. Ctrl-C stops with a checkpoint.

    \b
    fiol train clicks.csv --target clicked -o clicks.fiol
    fiol train clicks.csv --target clicked -o clicks.fiol --report clicks.html
    fiol train rcv1.svm.gz --penalty l1 --alpha 1e-5 -o rcv1.fiol
    zcat log.vw.gz | fiol train - --bits 24 -o log.fiol
    fiol train day1.csv --target price --passes 20 --shuffle 10000 --holdout 0.1 --early-stop 2 -o price.fiol
    """
    rows, seconds = options.pop("checkpoint_rows"), options.pop("checkpoint_seconds")
    check_numbers(options)
    if resume and os.path.exists(output):
        check_folder(output)
    else:
        refuse_existing(output, force)
    if report is not None:
        refuse_existing(report, force)
    job = Job(list(sources), output, options)
    if resume and os.path.exists(output):
        job.go_on()
    else:
        job.begin()
    job.run(signals, rows or math.inf, seconds, as_json, report)


def check_numbers(options: dict[str, Any]) -> None:
    """UsageError for numbers that click lets pass, and for options that exclude each other."""
    for name in ("alpha", "l1_ratio", "holdout"):
        if not math.isfinite(options[name]):
            raise click.UsageError(f"--{name.replace('_', '-')} must be a finite number")
    if options["early_stop"] is not None and not options["holdout"]:
        raise click.UsageError("--early-stop needs --holdout: rows that tell which pass was the best")
    if options["bits"] is not None and options["max_features"] is not None:
        raise click.UsageError("--bits and --max-features exclude each other")


class Job:
    """One run of `fiol train`: what was asked for, the learner, how its data are read, and what is learned."""

    def __init__(self, names: list[str], output: str, options: dict[str, Any]) -> None:
        from fiol.readers.sources import Sources

        self.output, self.options = output, options
        #: What a run that goes on must have been asked for, too.
        self.asked: dict[str, Any] = json.loads(json.dumps({"data": names, **options}))
        self.sources = Sources(names)
        if options["passes"] > 1 and not self.sources.is_seekable:
            raise click.UsageError("--passes needs data that can be read again: not standard input, no pipe")
        self.learner: Any = None
        self.reading: Any = None
        self.task: Any = None
        self.state: dict[str, Any] | None = None  #: where to go on, if that is not the beginning
        self.first: list[Any] = []  #: batches that were read to find out about the target
        self.reader: Any = None
        self.saved_best = 0

    # --- what to learn ------------------------------------------------------------------------

    def find_out(self) -> None:
        """How the data are read, and what is to be learned."""
        from fiol.readers.reading import guess

        reading, bits = guess(self.sources, **given_reading(dict(self.options))), self.options["bits"]
        if bits is not None and "bits" in reading.kind.options and reading.option("bits") is None:
            reading = dataclasses.replace(reading, options={**reading.options, "bits": bits})  # names are hashed there
        self.reading = reading
        self.reader = self.read()
        self.task = self.task_of_first_rows()

    def begin(self) -> None:
        """Find out how the data are read and what is to be learned, and make a learner."""
        self.find_out()
        self.learner = self.make_learner()
        self.learner.meta["reading"] = self.reading.to_json()
        self.learner.meta["training"] = {"asked": self.asked}

    def go_on(self) -> None:
        """Load the checkpoint; UsageError if it was made by another command."""
        from fiol.cli.data import load_trained

        self.learner, self.reading, self.task = load_trained(self.output)
        self.state = self.learner.meta.get("training", {})
        then = self.state.get("asked")
        if then is None or "regime" not in self.state or "history" not in self.learner.meta:
            raise ValueError(f"{self.output} was not made by fiol train: there is nothing to go on with")
        if then.pop("jobs", None) not in (None, 1):
            raise click.UsageError(
                f"{self.output} was made with --jobs, which fiol train no longer has: train anew without --resume"
            )
        for name in sorted({*then, *self.asked}):
            if then.get(name) != self.asked.get(name):
                option = "DATA" if name == "data" else f"--{name.rstrip('_').replace('_', '-')}"
                other = f"{self.output} was made with {option} {then.get(name)!r}, not {self.asked.get(name)!r}"
                raise click.UsageError(f"{other}: --resume goes on with the same command")

    def read(self) -> Any:
        """The data, from the beginning."""
        return self.reading.batches(self.sources, on_error=self.options["on_error"])

    def task_of_first_rows(self) -> Any:
        """What to learn: the loss that was named, or the one for the targets of the first rows."""
        import numpy as np

        from fiol.training.task_inference import distinct, has_value, infer_task, plain_values

        loss = named_loss(self.options["loss"])
        targets = []
        for batch in itertools.islice(self.reader, BATCHES_FOR_TARGETS):
            self.first.append(batch)
            if batch.y is None:
                raise ValueError(self.without_target(batch.place))
            targets.append(plain_values(batch.y))
            there = targets[-1][has_value(targets[-1])]
            if len(distinct(np.concatenate([there, *(some[:1] for some in targets)]))) > 1:
                break
        if not self.first:
            raise ValueError(f"{self.sources.files[0]}: there are no rows")
        return infer_task(np.concatenate(targets), loss)

    def without_target(self, place: Any) -> str:
        """What to say where rows have no target: which columns there are, those that are called alike first."""
        from fiol.readers.columns import no_column

        names = [] if self.reading.coding is None else [column.name for column in self.reading.coding.columns]
        if not self.reading.kind.has_columns:
            return f"{place}: the rows have no target"
        if self.reading.target is not None:
            return f"{place.file}: {no_column(self.reading.target, names)}"
        some = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
        return f"{place.file}: say by --target which column is to be predicted: {some}"

    def make_learner(self) -> Any:
        """A learner as the options say; UsageError if it cannot be."""
        from fiol.components.joint_losses import JointLoss
        from fiol.integrations.parameters import STEP_SIZES, make_regularizer, make_update
        from fiol.learner import Learner
        from fiol.names import ALGORITHMS
        from fiol.readers.columns import coding_of
        from fiol.training.task_inference import distinct, has_value, plain_values

        o, loss = self.options, self.task.loss
        penalty = None if o["penalty"] == "none" else o["penalty"]
        step_size = number_or_name(o["step_size"], ("auto", "single", *STEP_SIZES))
        if o["algorithm"] is not None and o["algorithm"] not in ALGORITHMS:
            raise click.UsageError(f"there is no algorithm {o['algorithm']!r}: choose from {', '.join(ALGORITHMS)}")
        parts = {
            "bits": o["bits"],
            "max_features": o["max_features"],
            "table_encoding": None if self.reading.coding is None else coding_of(self.reading),
            "intercept": not o["no_intercept"],
            "average": o["average"],
            "dtype": o["dtype"],
        }
        try:
            if o["algorithm"] is None and step_size == "auto" and not o["average"]:
                learner = Learner(loss=loss, regularizer=make_regularizer(penalty, o["alpha"], o["l1_ratio"]), **parts)
            else:
                name, alone = o["algorithm"] or "FIOL", o["algorithm"] is not None or o["average"]
                learner = Learner(
                    make_update(loss, penalty, o["alpha"], o["l1_ratio"], name, step_size, alone=alone), **parts
                )
        except (TypeError, ValueError) as error:
            raise click.UsageError(" ".join(str(error).split())) from error
        if isinstance(loss, JointLoss):
            for batch in self.first:
                values = plain_values(batch.y)
                labels = {*distinct(values[has_value(values)]), *(learner.classes or [])}
                learner.add_classes(
                    sorted(labels - {*(learner.classes or [])}, key=lambda label: (str(type(label)), label))
                )
        return learner

    # --- the run ------------------------------------------------------------------------------

    def batches(self) -> Iterator[Any]:
        """The data of the next pass."""
        if self.reader is None or not self.first:
            self.reader = self.read()
        first, self.first = self.first, []
        return itertools.chain(first, self.reader)

    def save(self, learner: Any) -> None:
        """Write the model, and before it, if it is another, the one after the best pass."""
        if self.training.best is not None and self.training.best_pass != self.saved_best:
            self.training.best.save(self.output + BEST)
            self.saved_best = self.training.best_pass
        learner.save(self.output)

    def run(
        self, signals: Any, every_rows: float, every_seconds: float, as_json: bool, report: str | None = None
    ) -> None:
        """Train, show and save."""
        from fiol.cli.screen import Screen
        from fiol.reports.collector import MetricsCollector
        from fiol.training.run import Regime, Training
        from fiol.training.signals import Stopped

        o = self.options
        regime = Regime(o["passes"], o["shuffle"], o["seed"], o["holdout"], o["early_stop"])
        collector = None if report is None else MetricsCollector(self.learner, self.task, bool(regime.holdout))
        self.training = training = Training(
            self.learner,
            self.task,
            self.batches,
            regime,
            defer_signals=signals.deferred,
            skip_missing=o["on_error"] == "skip",
            save=self.save,
            every_rows=every_rows,
            every_seconds=every_seconds,
            watch=collector,
        )
        if self.state is not None:
            if Regime.from_json(self.state["regime"]) != regime:
                raise ValueError(f"{self.output} says that rows are learned from in another way than its command does")
            training.go_on_from(self.state, self.learner.meta["history"], self.load_best())
            self.saved_best = training.best_pass
        screen = Screen(self.sources.size, regime.passes, bool(regime.holdout), training.rows, as_json)
        for text in self.first_words():
            screen.say(text)
        if training.finished:
            screen.say(f"{self.output} is finished already: nothing is left to do")
        else:
            try:
                with screen:
                    for event in training.events():
                        screen.compiled(training.compiling)
                        screen.show(event)
                training.checkpoint()
            except Stopped as stopped:
                signals.acknowledge()
                raise Stopped(stopped.number, *self.stop()) from None
            finally:
                if self.reader is not None:
                    self.reader.close()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.output + BEST)
        page = self.write_page(report, collector, screen) if collector is not None and report is not None else None
        tell_skipped(self.reader, training.missing)
        if as_json:
            click.echo(json_text(self.summary()))
        else:
            click.echo(self.last_words())
        tell_page(page)

    def write_page(self, path: str, collector: Any, screen: Any) -> str | None:
        """The page about the run, and its path; a run that was finished before has nothing new to tell."""
        from fiol.reports.run_page import RunOnPage

        training = self.training
        if not collector.evaluation.rows:
            click.echo(f"{path} is not written: no row was learned from this time", err=True)
            return None
        collector.evaluation.learner = training.learner  # the best pass's, if that was not the last one
        page = RunOnPage(
            training.learner,
            self.task,
            collector.evaluation,
            judged=collector.judged(training),
            command=typed_command(),
            data=", ".join(self.asked["data"]),
            windows=collector.evaluation.windows.all,
            history=training.history,
            speeds=screen.speeds,
            compiling=training.compiling,
            skipped=getattr(self.reader, "skipped", 0) + training.missing,
        )
        with whole_file(path) as file:
            file.write(page.html())
        return path

    def load_best(self) -> Any:
        """The model after the best pass of a run that goes on; None if there is none to go back to."""
        from fiol.learner import Learner

        assert self.state is not None
        if self.options["early_stop"] is None or self.state["best"] is None or self.state["finished"]:
            return None
        return Learner.load(self.output + BEST)

    def stop(self) -> list[str]:
        """Save what is learned, and tell how to go on."""
        if not self.training.rows:
            return ["Stopped before the first row was learned from."]
        self.training.checkpoint()
        return [f"Stopped after {self.training.rows:,} rows: {self.output} is a checkpoint, --resume goes on from it."]

    def first_words(self) -> Iterator[str]:
        """What is found out before the first row."""
        reading = self.reading
        columns = (
            []
            if reading.coding is None
            else [column.name for column in reading.coding.columns if column.kind != "skip"]
        )
        shown = ", ".join(columns[:8]) + (", ..." if len(columns) > 8 else "")
        yield f"{reading.format}: {len(columns)} columns ({shown})" if columns else reading.format
        yield f"Target{'' if reading.target is None else f' {reading.target}'}: {self.task.why}"
        yield f"Learner: {self.learner.update.brief()}"
        if self.state is not None:
            yield f"Going on after {self.state['rows']:,} rows"

    def last_words(self) -> str:
        """What has come of it."""
        learner = self.training.learner
        features = f"{learner.n_nonzero:,} of {learner.n_features:,} features have a weight"
        return f"{self.output}: {features}, {self.training.rows:,} rows learned from"

    def summary(self) -> dict[str, Any]:
        """Return what was learned, and the table of losses, as plain JSON values."""
        training, learner = self.training, self.training.learner
        last = training.history[-1].to_json() if training.history else {}
        return {
            "model": self.output,
            "rows": training.rows,
            "passes": training.number,
            **{name: last.get(name) for name in ("loss", "constant", "held_out")},
            "nonzeros": learner.n_nonzero,
            "features": learner.n_features,
            "labels": self.task.labels if self.task.labels is not None else learner.classes,
            "why": self.task.why,
            "skipped": getattr(self.reader, "skipped", 0),
            "missing": training.missing,
            "best_pass": training.best_pass or None,
            "history": [line.to_json() for line in training.history],
        }


def named_loss(name: str | None) -> Any:
    """Return the loss of a name, None for None; UsageError if there is none."""
    from fiol.names import loss_named

    try:
        return None if name is None else loss_named(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def number_or_name(text: str, names: tuple[str, ...]) -> Any:
    """A step size: a number above 0, or one of these names."""
    if text in names:
        return text
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0.0 < number < math.inf:
        raise click.UsageError(f"--step-size is a number above 0 or one of {', '.join(names)}, got {text!r}")
    return number
