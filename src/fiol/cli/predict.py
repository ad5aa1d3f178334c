"""`fiol predict`: predictions for rows of files, in their order."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from typing import Any

import click

from fiol.cli.data_options import print_skipped, reading_options, take_reader_options
from fiol.cli.errors import handle_errors, refuse_existing
from fiol.cli.terminal import echo, printable


@click.command()
@click.argument("model", type=click.Path(exists=True, dir_okay=False))
@click.argument("sources", nargs=-1, required=True, metavar="DATA...")
@click.option("--scores", is_flag=True, help="The score of every row, or one per class.")
@click.option("--probabilities", is_flag=True, help="The probability of the positive label, or of every class.")
@click.option("--labels", is_flag=True, help="The label that is most probable, or the number that is predicted.")
@click.option(
    "--uncertainty",
    is_flag=True,
    help="Add the standard deviation of the score: how much few rows leave its weights open (of an ensemble: of its "
    "best member). Noise of the target is not in it.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="The file to write; it appears when it is complete.",
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object per row instead of CSV with a header.")
@reading_options
@handle_errors
def predict(
    model: str,
    sources: tuple[str, ...],
    output: str | None,
    force: bool,
    as_json: bool,
    target: str | None,
    on_error: str,
    reader_options: tuple[str, ...],
    signals: Any,
    **wanted: bool,
) -> None:
    """Write the predictions of MODEL for the rows of DATA, as CSV.

    The data are read as those of the training. Without options: the label and the probability of the positive one (of
    classes, its own), or the number that is predicted. Tags of rows, where there are any, are the first column.

    \b
    fiol predict clicks.fiol new.csv > predictions.csv
    fiol predict clicks.fiol new.csv --probabilities --uncertainty -o predictions.csv
    cat new.csv | fiol predict clicks.fiol - --json
    """
    if output is not None:
        refuse_existing(output, force)
    from fiol.workflow.files import atomic_write
    from fiol.workflow.model import open_model

    found = open_model(model)
    prediction = Prediction(found, [name for name, chosen in wanted.items() if chosen])
    options = take_reader_options(reader_options)
    reading = found.reader(list(sources), on_error=on_error, needs_target=False, target=target, options=options)
    with reading as reader, atomic_write(output) as file:
        file = file if output is not None or not file.isatty() else PrintableFile(file)
        header: list[str] | None = None
        tagged = False
        lines: Any = None
        for batch in reader:
            predicted = prediction.of(found.rows_of(batch.X))
            if header is None:
                tagged = batch.tags is not None
                header = ["tag"] * tagged + prediction.columns
                lines = None if as_json else csv.writer(file, lineterminator="\n")
                if lines is not None:
                    lines.writerow(header)
            tags = [batch.tags or [""] * batch.rows] if tagged else []
            rows = zip(*tags, *predicted, strict=True)
            if lines is not None:
                lines.writerows(rows)
            else:
                file.writelines(json_lines(header, rows))
        if header is None:
            tagged = found.reading is not None and found.reading.tag is not None
            if not as_json:
                csv.writer(file, lineterminator="\n").writerow(["tag"] * tagged + prediction.columns)
            echo("There are no rows to predict for", err=True)
        file.flush()
    print_skipped(reader)


def json_lines(header: list[str], rows: Iterator[Any]) -> Iterator[str]:
    """Return a JSON object per row."""
    for row in rows:
        yield json.dumps(dict(zip(header, row, strict=True))) + "\n"


class PrintableFile:
    """A terminal that shows control characters of labels and tags as escapes."""

    def __init__(self, file: Any) -> None:
        self.file, self.flush = file, file.flush

    def write(self, text: str) -> int:
        """Write text."""
        return self.file.write(printable(text))  # type: ignore[no-any-return]

    def writelines(self, lines: Iterator[str]) -> None:
        """Write lines of text."""
        self.file.writelines(map(printable, lines))


class Prediction:
    """Columns of predictions: those that are asked for, or label and probability."""

    def __init__(self, model: Any, wanted: list[str]) -> None:
        learner, task = model, model.task
        self.learner, self.kind = learner, task.kind if learner.labels is None or task.labels is not None else "classes"
        self.labels, self.has_probabilities = learner.labels, learner.has_probabilities
        if "probabilities" in wanted and not self.has_probabilities:
            raise click.UsageError("--probabilities needs a loss that has some: log_loss, exponential or softmax")
        if "uncertainty" in wanted and not learner.update.has_variance():
            brief = learner.update.brief()
            raise click.UsageError(f"--uncertainty needs Curvature steps, which this model has not: {brief}")
        several = self.kind == "classes"
        self.classes = self.labels if several else []
        #: The columns that go without being asked for: whether the label, and whether its own probability.
        self.usual = not {*wanted} - {"uncertainty"}
        self.wanted = ["labels", *wanted] if self.usual else wanted
        self.columns = self.titles(several)

    def titles(self, several: bool) -> list[str]:
        """Return the header."""
        titles = []
        if "labels" in self.wanted:
            titles.append("prediction" if self.kind == "numbers" else "label")
        if self.usual and self.kind != "numbers":
            titles.append("probability" if self.has_probabilities else "score")
        if "probabilities" in self.wanted:
            titles += [f"probability of {label}" for label in self.classes] if several else ["probability"]
        if "scores" in self.wanted:
            titles += [f"score of {label}" for label in self.classes] if several else ["score"]
        return titles + ["uncertainty"] * ("uncertainty" in self.wanted)

    def of(self, X: Any) -> list[list[Any]]:
        """Return the columns of some rows, as lists."""
        scores, kind = self.learner.scores(X), self.kind
        columns: list[Any] = []
        p = self.learner.probabilities_of(scores) if self.has_probabilities else None
        if kind == "numbers":
            if "labels" in self.wanted:
                columns.append(self.learner.core.predictions(scores.copy()).tolist())
        else:
            best = (scores > 0.0).astype(int) if kind == "two classes" else scores.argmax(axis=1)
            if "labels" in self.wanted:
                columns.append([self.labels[k] for k in best.tolist()])
            if self.usual:
                sure = scores if p is None else p if kind == "classes" else p[:, 1]
                columns.append((sure.max(axis=1) if kind == "classes" else sure).tolist())
        if "probabilities" in self.wanted:
            assert p is not None
            columns += p.T.tolist() if kind == "classes" else [p[:, 1].tolist()]
        if "scores" in self.wanted:
            columns += scores.T.tolist() if kind == "classes" else [scores.tolist()]
        if "uncertainty" in self.wanted:
            columns.append(self.learner.uncertainty(X).tolist())
        return columns
