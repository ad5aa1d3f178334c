"""`fiol train`: from files to a model."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import Any

import click
from click.core import ParameterSource

from fiol.cli.data_options import data_options, print_skipped, take_data_options
from fiol.cli.errors import check_folder, handle_errors, json_text, print_page, refuse_existing
from fiol.cli.learning_options import learning_options
from fiol.cli.sections import OptionSections, option_in, typed_command
from fiol.cli.terminal import echo
from fiol.option_names import split_names
from fiol.readers.bad_lines import unmet_pair_messages

learning, repeating, keeping = option_in("Learning"), option_in("Passes"), option_in("Model")


@click.command("train", cls=OptionSections)
@click.argument("sources", nargs=-1, required=True, metavar="DATA...")
@data_options
@learning_options(learning)
@learning(
    "--algorithm",
    metavar="NAME",
    help="A single learner: FIOL, SGD, PA, PA1, PA2, IOL, COMID, RDA, ISGD, FTRLProximal, ImplicitFTRL, Coin or "
    "ImplicitCoin [default: an ensemble of FIOL that needs no tuning].",
)
@learning(
    "--step-size",
    default="auto",
    metavar="SIZE",
    help="auto: the ensemble of seven step sizes; single: one learner with the default steps of its algorithm; "
    "a number, scale_free, adagrad or inverse_sqrt: one learner with these steps [default: auto].",
)
@learning(
    "--features",
    type=click.Choice(["linear", "additive", "pairwise", "auto"]),
    help="linear: columns as they are; additive: with curves of columns of numbers; pairwise: with pairs of columns, "
    "too; auto: what suits the table. linear is the smallest and the easiest to read; compare by --holdout "
    "[default: auto for the columns of a table, linear for text and sparse formats].",
)
@learning("--max-features", type=click.IntRange(1), help="Keep at most this many features with a weight other than 0.")
@learning(
    "--class-weight",
    metavar="WEIGHTS",
    help="Factors of sample weights by label, A=2,B=1, a label with a comma in double quotes; balanced: inverse to the "
    "counts of labels in the first rows.",
)
@learning("--no-intercept", is_flag=True, help="Learn no intercept.")
@learning("--average", is_flag=True, help="Predict with the average of the weights; not for the ensemble.")
@learning(
    "--dtype",
    type=click.Choice(["float64", "float32"]),
    default="float64",
    show_default=True,
    help="How numbers are stored.",
)
@click.option("--dry-run", is_flag=True, help="Print what is inferred about data and target, and stop.")
@repeating("--follow", is_flag=True, help="Wait for rows at the end of the last file, as tail -f does, until Ctrl-C.")
@repeating(
    "--follow-seconds",
    type=click.FloatRange(0.0),
    metavar="S",
    help="End --follow after S seconds without a new row.",
)
@repeating("--passes", type=click.IntRange(1), default=1, show_default=True, help="Passes over the data.")
@repeating(
    "--shuffle",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="ROWS",
    help="Shuffle rows in a buffer of this size.",
)
@repeating("--seed", type=click.IntRange(0), help="Random seed for shuffling and hold-out [default: 1].")
@repeating(
    "--holdout",
    type=click.FloatRange(0.0, 1.0, max_open=True),
    default=0.0,
    show_default=True,
    metavar="SHARE",
    help="Never learn from this share of the rows, and print their loss.",
)
@repeating(
    "--early-stop",
    type=click.IntRange(1),
    metavar="PASSES",
    help="Stop after this many passes without a better loss on the rows held out, and return to the best pass.",
)
@keeping("-o", "--output", type=click.Path(dir_okay=False), metavar="MODEL", help="The file to write.")
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
    help="Continue from MODEL if it exists: the same command with --resume ends with the same model, bit for bit.",
)
@keeping(
    "--update",
    type=click.Path(exists=True, dir_okay=False),
    metavar="MODEL",
    help="Continue MODEL with new rows: the same model, bit for bit, as if its first run had had them. "
    "Replaces MODEL unless -o names another file.",
)
@keeping(
    "--report", type=click.Path(dir_okay=False), metavar="FILE", help="Write a page about the run (.html) at the end."
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object at the end instead of the table.")
@handle_errors
def train_command(
    sources: tuple[str, ...],
    output: str | None,
    force: bool,
    resume: bool,
    update: str | None,
    dry_run: bool,
    report: str | None,
    as_json: bool,
    signals: Any,
    **options: Any,
) -> None:
    """Learn a model from DATA: files, folders, patterns in quotes, or - for standard input.

    The format, the kinds of columns and the loss are inferred from the first rows and printed. The table shows the mean
    loss of all rows so far, each before it was learned from; that of the rows since the line above; and that of the
    best constant prediction in hindsight. Rows of a pipe are learned from as they arrive. Ctrl-C stops with a
    checkpoint.

    \b
    fiol train clicks.csv --target clicked -o clicks.fiol
    fiol train clicks.csv --target clicked -o clicks.fiol --report clicks.html
    fiol train tomorrow.csv --update clicks.fiol
    fiol train rcv1.svm.gz --penalty l1 --alpha 1e-5 -o rcv1.fiol
    zcat log.vw.gz | fiol train - --bits 24 -o log.fiol
    fiol train day1.csv --target price --passes 20 --shuffle 10000 --holdout 0.1 --early-stop 2 -o price.fiol
    """
    if dry_run:
        refuse_without_effect()
    rows, seconds = options.pop("checkpoint_rows"), options.pop("checkpoint_seconds")
    if not math.isfinite(seconds):
        raise click.UsageError(f"--checkpoint-seconds must be a finite number, got {seconds}")
    output = update if output is None else output
    job = make_job(sources, output, options)
    if dry_run:
        print_inferred(job, update)
        return
    if output is None:
        raise click.UsageError("Missing option '-o' / '--output'.")
    goes_on = (resume and os.path.exists(output)) or output == update
    if goes_on:
        check_folder(output)
    else:
        refuse_existing(output, force)
    if report is not None:
        refuse_existing(report, force)
    job.start(resume, update)
    run(job, signals, rows or math.inf, seconds, as_json, report)


def make_job(sources: tuple[str, ...], output: str | None, options: dict[str, Any]) -> Any:
    """Return the job of a command line."""
    from fiol.workflow.job import TrainingJob
    from fiol.workflow.options import TrainOptions

    follow, idle = options.pop("follow"), options.pop("follow_seconds")
    if idle is not None and not follow:
        raise click.UsageError("--follow-seconds has no effect without --follow")
    options["intercept"] = not options.pop("no_intercept")
    options["class_weight"] = class_weight(options["class_weight"])
    given = TrainOptions(**take_data_options(options), **options)
    return TrainingJob(list(sources), given, output, follow, idle)


def refuse_without_effect() -> None:
    """UsageError if an option was given that has no effect with --dry-run."""
    context = click.get_current_context()
    for name in ("report", "resume", "checkpoint_rows", "checkpoint_seconds", "force", "as_json"):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = next(one.opts[0] for one in context.command.params if one.name == name)
            raise click.UsageError(f"{option} has no effect with --dry-run, which learns nothing and writes no file")


def print_inferred(job: Any, update: str | None) -> None:
    """Print what is inferred about data and target, or what the model of an update knows about them."""
    if update is None:
        job.infer()
        job.model = job.make_model()
    else:
        job.update(update)
    columns = job.column_summaries().get("columns", []) if update is None else job.new_column_summaries()
    for line in inferred_lines(job, columns):
        echo(line)
    job.close()


def collector_of(job: Any, held_out: bool) -> Any:
    """Return what a report collects while the job runs."""
    from fiol.reports.collector import MetricsCollector

    return MetricsCollector(job.model, job.task, held_out)


def run(
    job: Any, signals: Any, every_rows: float, every_seconds: float, as_json: bool, report: str | None = None
) -> None:
    """Train, show progress, save, and print the result."""
    from fiol.cli.progress import TrainingProgress
    from fiol.training.signals import Stopped

    held_out = bool(job.options.holdout)
    collector = None if report is None else collector_of(job, held_out)
    training = job.prepare(
        defer_signals=signals.deferred, every_rows=every_rows, every_seconds=every_seconds, watch=collector
    )
    progress = TrainingProgress(job.sources.size, training.regime.passes, held_out, training.rows, as_json)
    stored = job.model.meta.get("training", {}).get("columns", [])
    for text in inferred_lines(job, job.new_column_summaries() if job.is_update else stored):
        progress.print(text)
    for message in job.repetition_messages():
        echo(f"Warning: {message}", err=True)
    if training.finished:
        job.remove_best()
        again = ": without --resume, the same rows are learned again" if job.asked.get("updated") else ""
        progress.print(f"{job.output} is finished already: nothing is left to do{again}")
    else:
        if job.sources.is_live:
            signals.on_signal = job.sources.stop.set
        try:
            with progress:
                for event in job.run():
                    progress.print_compiling()
                    progress.show(event, training.current_line)
        except Stopped as stopped:
            signals.acknowledge()
            raise Stopped(stopped.number, *stop(job)) from None
        if signals.handled:
            raise Stopped(signals.handled, *stop(job))
    page = write_page(report, job, collector, progress) if collector is not None and report is not None else None
    for message in job.new_class_messages():
        echo(message[0].upper() + message[1:], err=True)
    for message in unmet_pair_messages(job.reader):
        echo(f"Warning: {message}", err=True)
    print_skipped(job.reader, training.missing)
    if job.loss_of_new_rows() is not None:
        new = training.rows - job.state["rows"]
        progress.print(f"Loss of the {new:,} new rows, each before it was learned from: {job.loss_of_new_rows():.6g}")
    progress.quiet = progress.quiet and not as_json
    progress.print(json_text(summary(job)) if as_json else result_line(job))
    print_page(page)


def write_page(path: str, job: Any, collector: Any, progress: Any) -> str | None:
    """Write the page about a run and return its path; None if no row was learned from this time."""
    from fiol.reports.run_page import RunOnPage
    from fiol.workflow.files import atomic_write

    training = job.training
    if not collector.evaluation.rows:
        echo(f"{path} is not written: no row was learned from this time", err=True)
        return None
    collector.evaluation.learner = training.learner  # that of the best pass, if the last one was not the best
    page = RunOnPage(
        training.learner,
        job.task,
        collector.evaluation,
        evaluated_on=collector.evaluated_on(training),
        command=typed_command(),
        data=", ".join(job.asked["data"]),
        windows=collector.evaluation.windows.all,
        history=training.history,
        speeds=progress.speeds,
        compiling=progress.compiling if progress.has_compiled else 0.0,
        skipped=getattr(job.reader, "skipped", 0) + training.missing,
    )
    with atomic_write(path) as file:
        file.write(page.html())
    return path


def stop(job: Any) -> list[str]:
    """Save what is learned, and return how to continue."""
    training = job.training
    if not training.rows:
        return ["Stopped before the first row was learned from."]
    training.checkpoint()
    return [f"Stopped after {training.rows:,} rows: {job.output} is a checkpoint, --resume goes on from it."]


def inferred_lines(job: Any, columns: list[dict[str, Any]]) -> Iterator[str]:
    """Return what is inferred, or known from the model, before the first row."""
    from fiol.training.column_summary import column_lines, count_columns

    reading, model = job.reading, job.model
    if reading is not None:
        unnamed = ", without a header" if reading.options.get("header") is False else ""
        yield f"{reading.format}: {count_columns(columns)}{unnamed}" if columns else reading.format
    if columns:
        yield from column_lines(columns)
        if reading is not None and reading.table_encoding is not None and reading.table_encoding.ids_message:
            yield f"Columns {reading.table_encoding.ids_message}"
    if reading is not None and job.state is None and not job.is_update and job.features_line():
        yield job.features_line()
    target = None if reading is None else reading.target
    yield f"Target{'' if target is None else f' {target}'}: {job.task.why}"
    if job.class_weight:
        weights = ", ".join(f"{label}={weight:.4g}" for label, weight in job.class_weight.items())
        yield f"Class weights: {weights}"
    if model is not None:
        yield f"Learner: {model.update.brief()}"
    if job.state is not None:
        yield f"{'Updating' if job.is_update else 'Going on'} after {job.state['rows']:,} rows"


def result_line(job: Any) -> str:
    """Return the line that is printed at the end."""
    model = job.training.learner
    features = f"{model.n_nonzero:,} of {model.n_features:,} features have a weight"
    return f"{job.output}: {features}, {job.training.rows:,} rows learned from"


def summary(job: Any) -> dict[str, Any]:
    """Return what was learned, and the table of losses, as plain JSON values."""
    training, model = job.training, job.training.learner
    last = training.history[-1].to_json() if training.history else {}
    return {
        "model": job.output,
        "rows": training.rows,
        "passes": training.number,
        **{name: last.get(name) for name in ("loss", "constant", "held_out")},
        "loss_of_new_rows": job.loss_of_new_rows(),
        "nonzeros": model.n_nonzero,
        "features": model.n_features,
        "labels": job.task.labels if job.task.labels is not None else model.classes,
        "why": job.task.why,
        "skipped": getattr(job.reader, "skipped", 0),
        "missing": training.missing,
        "best_pass": training.best_pass or None,
        "history": [line.to_json() for line in training.history],
    }


def class_weight(text: str | None) -> Any:
    """Return weights by label, or "balanced"; UsageError for other strings.

    >>> class_weight("yes=2,no=0.5"), class_weight("balanced")
    ({'yes': 2.0, 'no': 0.5}, 'balanced')
    >>> class_weight('"more, or less"=2,no=1')
    {'more, or less': 2.0, 'no': 1.0}
    """
    if text is None or text == "balanced":
        return text
    found = {}
    for part in split_names(text):
        label, _, number = part.rpartition("=")
        try:
            found[label] = float(number)
        except ValueError:
            found[label] = math.nan
        if not label or not 0.0 <= found[label] < math.inf:
            raise click.UsageError(
                f"--class-weight is balanced or LABEL=WEIGHT,..., weights from 0 on, got {text!r}; a label with a "
                "comma is in double quotes"
            )
    return found
