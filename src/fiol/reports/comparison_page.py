"""HTML report of a sweep: loss against step size, for exact and explicit steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fiol.reports.html import Card, command_box, html_page, plain_table
from fiol.reports.run_page import loss_name, three_digits
from fiol.reports.svg import Axis, DrawnCurve, figure
from fiol.training.sweep import Sweep, SweepResult, best_results, count_near_best

#: The name of the default, which has no step size.
ENSEMBLE = "ensemble"


def comparison_title(found: Sequence[SweepResult]) -> str:
    """Return the result in a line.

    >>> sizes = [SweepResult("SGD", 0.1, 0.5, 1), SweepResult("SGD", 1.0, 9.0, 1)]
    >>> comparison_title([SweepResult("ensemble", None, 0.4, 1), *sizes])
    'Nothing chosen: 0.4; the best of 2 choices in hindsight: 0.5 (SGD at 0.1)'
    """
    chosen = [finish for finish in found if finish.size is not None]
    best = min(chosen, key=lambda finish: finish.loss)
    level = next((finish for finish in found if finish.size is None), None)
    text = f"the best of {len(chosen)} choices in hindsight: {three_digits(best.loss)}"
    text += f" ({best.algorithm} at {best.size:g})"
    return text[:1].upper() + text[1:] if level is None else f"Nothing chosen: {three_digits(level.loss)}; {text}"


def comparison_rows(found: Sequence[SweepResult]) -> list[list[str]]:
    """Return a row per algorithm: best loss, its step size, worst loss, and sizes within 10 % of the best of all."""
    least = min(finish.loss for finish in found)
    rows = []
    for name, best in best_results(found).items():
        good, many, worst = count_near_best([finish for finish in found if finish.algorithm == name], least)
        size = "" if best.size is None else f"{best.size:g}"
        shown = "overflow" if math.isinf(worst) else three_digits(worst)
        rows.append([name, three_digits(best.loss), size, shown, f"{good} of {many}", f"{best.nonzeros:,}"])
    return rows


HEAD = ["algorithm", "best loss", "at size", "worst loss", "within 10 %", "non-zeros"]


def comparison_page(comparison: Sweep, exact: Sequence[str], data: str, command: str) -> str:
    """Return the page; `exact` are the algorithms whose steps do not linearize the loss."""
    found, constant = comparison.results(), comparison.constant_loss()
    title = comparison_title(found)
    curves, sizes = list[DrawnCurve](), sorted({finish.size for finish in found if finish.size is not None})
    ends = [sizes[0], sizes[-1]]
    for finish in found:
        if finish.size is None and math.isfinite(finish.loss):
            curves.append(DrawnCurve(ends, [finish.loss] * 2, f"nothing chosen {three_digits(finish.loss)}", "level"))
    if constant is not None:
        curves.append(DrawnCurve(ends, [constant] * 2, f"best constant {three_digits(constant)}", "members"))
    top = 3.0 * max(curve.y[0] for curve in curves) if curves else 3.0 * min(finish.loss for finish in found)
    least = min(finish.loss for finish in found)
    for name in best_results(found):
        own = [finish for finish in found if finish.algorithm == name and finish.size is not None]
        if own:
            y = [min(finish.loss, top) for finish in own]
            x = [float(finish.size or 0.0) for finish in own]
            curves.insert(
                0, DrawnCurve(x, y, f"{name}, {'exact' if name in exact else 'explicit'}", kind_of_steps(name, exact))
            )
    up = Axis("", max(0.0, least - 0.1 * (top - least)), top)
    picture = figure(curves, Axis("step size", sizes[0], sizes[-1], log=True), up, title)
    name = loss_name(comparison.task)
    remark = f"Mean progressive {name.lower()} after {comparison.rows:,} rows; what is higher ends at the upper edge."
    worst = {
        kind: max((f.loss for f in found if f.size is not None and (f.algorithm in exact) == kind), default=None)
        for kind in (True, False)
    }
    cards = [
        Card(worst_title(worst), picture, remark),
        Card("All algorithms", plain_table(HEAD, comparison_rows(found))),
    ]
    table: list[list[str]] = []
    algorithms = [name for name in best_results(found) if name != ENSEMBLE]
    losses = {(finish.algorithm, finish.size): finish.loss for finish in found}
    for size in sizes:
        cells = [losses.get((name, size)) for name in algorithms]
        table.append(
            [f"{size:g}", *("overflow" if c is not None and math.isinf(c) else three_digits(c) for c in cells)]
        )
    cards.append(Card("Every step size", plain_table(["step size", *algorithms], table)))
    cards.append(Card("The command that repeats this", command_box(command), wide=True))
    from fiol import __version__

    lead = f"{data}, target: {comparison.task.why}. Everybody saw the same rows in the same order, once."
    return html_page(title, lead, [], cards, f"Written by fiol {__version__}.")


def kind_of_steps(name: str, exact: Sequence[str]) -> str:
    """Return the style of an algorithm's curve, by whether its steps are exact."""
    return "main" if name in exact else "other"


def worst_title(worst: dict[bool, Any]) -> str:
    """Return the cost of the worst choice.

    >>> worst_title({True: 1.2, False: math.inf})
    'The worst choice: 1.2 with exact steps, overflow with explicit ones'
    """
    shown = {k: None if v is None else "overflow" if math.isinf(v) else three_digits(v) for k, v in worst.items()}
    parts = [f"{shown[k]} with {name}" for k, name in ((True, "exact steps"), (False, "explicit ones")) if shown[k]]
    return f"The worst choice: {', '.join(parts)}"
