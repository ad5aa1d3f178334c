"""`fiol predict`: predictions for rows of files, in their order."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from typing import Any

import click

from fiol.cli.data import load_trained, tell_skipped
from fiol.cli.outcome import answering, refuse_existing, whole_file


@click.command()
@click.argument("model", type=click.Path(exists=True, dir_okay=False))
@click.argument("sources", nargs=-1, required=True, metavar="DATA...")
@click.option("--scores", is_flag=True, help="The score of every row, or one per class.")
@click.option("--probabilities", is_flag=True, help="The probability of the positive label, or of every class.")
@click.option("--labels", is_flag=True, help="The label that is most probable, or the number that is predicted.")
@click.option(
    "--uncertainty",
    is_flag=True,
    help="The standard deviation of the score: what the data left open (of an ensemble, to its best member).",
)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), metavar="FILE", help="Where to write; whole or not at all."
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object per row instead of CSV with a header.")
@click.option(
    "--on-error",
    type=click.Choice(["missing", "skip", "stop"]),
    default="missing",
    show_default=True,
    help="At bad lines.",
)
@answering
def predict(
    model: str,
    sources: tuple[str, ...],
    output: str | None,
    force: bool,
    as_json: bool,
    on_error: str,
    signals: Any,
    **wanted: bool,
) -> None:
    """Predict for every row of DATA by MODEL, which knows how data are read: CSV, a line per row.

    Without options: the label and the probability of the positive one (of classes, its own), or the number that is
    predicted. Tags of rows, where there are any, are the first column.

    \b
    fiol predict clicks.fiol new.csv > predictions.csv
    fiol predict clicks.fiol new.csv --probabilities --uncertainty -o predictions.csv
    cat new.csv | fiol predict clicks.fiol - --json
    """
    if output is not None:
        refuse_existing(output, force)
    learner, reading, task = load_trained(model)
    prediction = Prediction(learner, task, [name for name, chosen in wanted.items() if chosen])
    with reading.batches(list(sources), on_error=on_error) as reader, whole_file(output) as file:
        header: list[str] | None = None
        tagged = False
        lines: Any = None
        for batch in reader:
            if header is None:
                tagged = batch.tags is not None
                header = ["tag"] * tagged + prediction.columns
                lines = None if as_json else csv.writer(file, lineterminator="\n")
                if lines is not None:
                    lines.writerow(header)
            tags = [batch.tags or [""] * batch.rows] if tagged else []
            rows = zip(*tags, *prediction.of(batch.X), strict=True)
            if lines is not None:
                lines.writerows(rows)
            else:
                file.writelines(json_lines(header, rows))
        file.flush()
    tell_skipped(reader)


def json_lines(header: list[str], rows: Iterator[Any]) -> Iterator[str]:
    """A JSON object per row."""
    for row in rows:
        yield json.dumps(dict(zip(header, row, strict=True))) + "\n"


class Prediction:
    """Columns of predictions: what was asked for, or what says most about rows of this kind."""

    def __init__(self, learner: Any, task: Any, wanted: list[str]) -> None:
        self.learner, self.task = learner, task
        self.has_probabilities = task.kind != "numbers" and learner.update.loss.link == "logit"
        if "probabilities" in wanted and not self.has_probabilities:
            raise click.UsageError("--probabilities needs a loss that has some: log_loss, exponential or softmax")
        if "uncertainty" in wanted and not learner.update.has_variance():
            brief = learner.update.brief()
            raise click.UsageError(f"--uncertainty needs Curvature steps, which this model has not: {brief}")
        several = task.kind == "classes"
        self.classes = list(learner.classes or []) if several else []
        #: The columns that go without being asked for: whether the label, and whether its own probability.
        self.usual = not wanted
        self.wanted = wanted or ["labels"]
        self.columns = self.titles(several)

    def titles(self, several: bool) -> list[str]:
        """The header."""
        titles = []
        if "labels" in self.wanted:
            titles.append("prediction" if self.task.kind == "numbers" else "label")
        if self.usual and self.task.kind != "numbers":
            titles.append("probability" if self.has_probabilities else "score")
        if "probabilities" in self.wanted:
            titles += [f"probability of {label}" for label in self.classes] if several else ["probability"]
        if "scores" in self.wanted:
            titles += [f"score of {label}" for label in self.classes] if several else ["score"]
        return titles + ["uncertainty"] * ("uncertainty" in self.wanted)

    def of(self, X: Any) -> list[list[Any]]:
        """The columns for some rows, as lists."""
        scores = self.learner.scores(X)
        found: Any = self.learner.core.predictions(scores.copy())
        columns: list[Any] = []
        kind = self.task.kind
        if kind == "numbers":
            if "labels" in self.wanted:
                columns.append(found.tolist())
        else:
            best = (scores > 0.0).astype(int) if kind == "two classes" else scores.argmax(axis=1)
            names = self.task.labels if kind == "two classes" else self.classes
            if "labels" in self.wanted:
                columns.append([names[k] for k in best.tolist()])
            if self.usual:
                sure = found if self.has_probabilities else scores
                if kind == "classes":
                    sure = sure.max(axis=1)
                columns.append(sure.tolist())
        if "probabilities" in self.wanted:
            columns += found.T.tolist() if kind == "classes" else [found.tolist()]
        if "scores" in self.wanted:
            columns += scores.T.tolist() if kind == "classes" else [scores.tolist()]
        if "uncertainty" in self.wanted:
            columns.append(self.learner.uncertainty(X).tolist())
        return columns
