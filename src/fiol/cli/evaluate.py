"""`fiol evaluate`: how good a model's predictions are on other rows."""

from __future__ import annotations

from typing import Any

import click

from fiol.cli.data_options import print_skipped, reading_options, take_reader_options
from fiol.cli.errors import handle_errors, json_text, print_page, refuse_existing
from fiol.cli.sections import typed_command
from fiol.cli.terminal import echo

#: What figures are called for people.
TITLES = {
    "rows": "rows",
    "loss": "loss",
    "constant_loss": "loss of the best constant",
    "log_loss": "log loss",
    "auc": "AUC",
    "auc_doubt": "AUC is off by at most",
    "accuracy": "accuracy",
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "brier": "Brier score",
    "rmse": "RMSE",
    "mae": "MAE",
    "r2": "R²",
}
#: Advice for predictions that no model would improve.
WORSE_THAN_CONSTANT = (
    "The loss is above that of the best constant. Are these rows like those of the training data? A model of one pass "
    "over rows in order of time fits the last of them; fiol train --passes 2 --shuffle 100000 fits all."
)
#: Confusions of more classes are left to --json.
MOST_SHOWN = 12


@click.command()
@click.argument("model", type=click.Path(exists=True, dir_okay=False))
@click.argument("sources", nargs=-1, required=True, metavar="DATA...")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@click.option(
    "--plot",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Draw the ROC curve and the calibration, the confusion, or the residuals (.png .svg .pdf).",
)
@click.option(
    "--report",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write a page about model and predictions (.html).",
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@reading_options
@handle_errors
def evaluate(
    model: str,
    sources: tuple[str, ...],
    as_json: bool,
    plot: str | None,
    report: str | None,
    force: bool,
    target: str | None,
    on_error: str,
    reader_options: tuple[str, ...],
    signals: Any,
) -> None:
    """Compare the predictions of MODEL for DATA with the targets in it.

    Two classes: log loss, AUC, accuracy, precision, recall, F1, Brier score, calibration, confusion. Classes: log loss,
    accuracy, the mean F1 of the classes, confusion. Numbers: RMSE, MAE, R². All in one pass and constant memory; AUC
    is exact for up to 4 million different scores.

    \b
    fiol evaluate clicks.fiol more_clicks.csv
    fiol evaluate clicks.fiol more_clicks.csv --report clicks.html
    fiol evaluate clicks.fiol more_clicks.csv --json --plot clicks.svg
    """
    from fiol.workflow.model import open_model, write_evaluation_page

    if plot is not None:
        refuse_existing(plot, force)
        load_pictures()  # better now than in ten minutes
    if report is not None:
        refuse_existing(report, force)
    evaluation, reader, missing = open_model(model).evaluation(
        list(sources), on_error=on_error, options=take_reader_options(reader_options), target=target
    )
    found = evaluation.results()
    if plot is not None:
        draw(evaluation, found, plot)
    if report is not None:
        write_evaluation_page(report, evaluation, sources, reader.skipped + missing, typed_command())
    print_skipped(reader, missing)
    if as_json:
        echo(json_text({**found, "skipped": reader.skipped, "missing": missing}))
    else:
        for line in report_lines(found):
            echo(line)
    if found["constant_loss"] is not None and found["loss"] > found["constant_loss"]:
        echo(WORSE_THAN_CONSTANT, err=True)
    print_page(report)


def report_lines(found: dict[str, Any]) -> list[str]:
    """Figures as a table of text."""
    shown = [(title, found[name]) for name, title in TITLES.items() if name in found]
    width = max(len(title) for title, _ in shown)
    lines = [f"{title:<{width}}  {figure_text(value)}" for title, value in shown]
    if "calibration" in found:
        lines += ["", "predicted   happened   mean prediction     weight"]
        for part in found["calibration"]:
            if part["weight"]:
                said = f"{part['happened']:10.4f}   {part['predicted']:15.4f}   {part['weight']:8.6g}"
                lines.append(f"{part['from']:.1f} - {part['to']:.1f}  {said}")
    cells = found.get("confusion")
    if cells and len(cells["labels"]) <= MOST_SHOWN:
        names = [str(label)[:12] for label in cells["labels"]]
        lines += ["", "true \\ predicted  " + "  ".join(f"{name:>12}" for name in names)]
        for name, row in zip(names, cells["counts"], strict=True):
            lines.append(f"{name:>16}  " + "  ".join(f"{count:>12,.6g}" for count in row))
    return lines


def figure_text(value: Any) -> str:
    """Return a metric as text with a fixed number of digits.

    >>> figure_text(12345), figure_text(0.123456789), figure_text(None)
    ('12,345', '0.123457', 'not defined')
    """
    if value is None:
        return "not defined"
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def load_pictures() -> Any:
    """Import the plotting library; raise ImportError, with what to install, if it is missing."""
    from fiol.plots import load_matplotlib

    return load_matplotlib()


def draw(evaluation: Any, found: dict[str, Any], path: str) -> None:
    """Draw what there is to see: ROC curve and calibration of two classes, the confusion, or residuals of numbers."""
    import numpy as np

    load_pictures()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 4.2) if "calibration" in found else (5.0, 4.6), layout="constrained")
    axes: Any = figure.subplots(1, 2 if "calibration" in found else 1, squeeze=False)[0]
    if found.get("auc") is not None:
        negative, positive = evaluation.curve.masses[::-1].T
        start = np.zeros(1)
        x, y = (np.concatenate([start, np.cumsum(m) / m.sum()]) for m in (negative, positive))
        axes[0].plot(x, y)
        axes[0].plot([0, 1], [0, 1], color="0.7", linewidth=0.8)
        axes[0].set(xlabel="share of negative rows", ylabel="share of positive rows", title=f"AUC {found['auc']:.4f}")
    elif "confusion" in found:
        labels = found["confusion"]["labels"]
        axes[0].imshow(found["confusion"]["counts"], cmap="Blues")
        axes[0].set(xlabel="predicted", ylabel="true", title=f"Accuracy {found['accuracy']:.4f}")
        axes[0].set_xticks(range(len(labels)), labels, rotation=45)
        axes[0].set_yticks(range(len(labels)), labels)
    else:
        from fiol.reports.run_page import residual_shares

        shares = residual_shares(evaluation.residuals)
        if shares is None:
            raise ValueError("--plot needs eight rows with different residuals")
        axes[0].stairs(100.0 * shares.shares, shares.edges, fill=True, color="tab:blue")
        axes[0].set_title(shares.title.replace(", ", ",\n"), fontsize="medium")
        axes[0].set(xlabel="target minus prediction", ylabel="% of rows")
    if "calibration" in found:
        parts = [part for part in found["calibration"] if part["weight"]]
        axes[1].plot([part["predicted"] for part in parts], [part["happened"] for part in parts], marker="o")
        axes[1].plot([0, 1], [0, 1], color="0.7", linewidth=0.8)
        axes[1].set(xlabel="predicted", ylabel="happened", title=f"Brier score {found['brier']:.4f}")
    figure.savefig(path)
