"""HTML report of one run: losses, metrics of predictions, important features, and the command to repeat it."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import re
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from fiol.learner import Learner
from fiol.persistence.component_json import to_json
from fiol.readers.reader_config import ReaderConfig
from fiol.reports.effect_cards import effect_cards
from fiol.reports.html import LONGEST_CELL, Card, bar_table, command_box, html_page, plain_table, shaded_table
from fiol.reports.svg import Axis, DrawnCurve, axis_for, figure, histogram, short_number, shortened
from fiol.summary import brief_member
from fiol.training.column_summary import COLUMNS_PRINTED, column_rows, count_columns, count_features
from fiol.training.evaluation import Evaluation
from fiol.training.metrics import Line, Speed, TargetTable, Window
from fiol.training.task_inference import Task

#: Features, and classes of a confusion matrix, that are shown.
FEATURES_SHOWN, MOST_CLASSES = 15, 12
#: A change of the loss in standard errors that is reported.
SURELY = 4.0
#: Bins of a histogram.
COLUMNS = 31
#: Names of metrics.
NAMES_OF_FIGURES = {
    "auc": "AUC",
    "accuracy": "accuracy",
    "f1": "F1",
    "brier": "Brier score",
    "r2": "R²",
    "rmse": "RMSE",
    "mae": "mean absolute error",
}


@dataclasses.dataclass
class RunOnPage:
    """The facts for a report."""

    learner: Learner
    task: Task
    evaluation: Evaluation
    evaluated_on: str  #: the rows of `evaluation`, such as "rows of later.csv"
    command: str  #: the command that repeats it
    data: str  #: names of the data files
    windows: Sequence[Window]  #: losses of consecutive rows
    history: Sequence[Line] = ()
    speeds: Sequence[Speed] = ()
    compiling: float = 0.0  #: seconds
    skipped: int = 0  #: lines that could not be read, and rows without a target
    first_cards: Sequence[Card] = ()  #: shown before all others

    def html(self) -> str:
        """Return the page."""
        from fiol import __version__

        found = self.evaluation.results()
        cards = [card for card in self.cards(found) if card is not None]
        lead = f"{self.data}, target: {self.task.why}. Evaluated on {self.evaluated_on}."
        same_rows = sum(window.rows for window in self.windows) == found["rows"]
        title = headline(self.task, found, self.windows if same_rows else ())
        return html_page(title, lead, self.tiles(found), cards, f"Written by fiol {__version__}.")

    def cards(self, found: dict[str, Any]) -> Iterator[Card | None]:
        """Yield all cards for which there are facts."""
        yield from self.first_cards
        first = [line for line in self.history if line.number == 1]
        yield loss_card(first, self.task, self.learner)
        yield passes_card(self.history, self.task)
        yield drift_card(self.windows)
        yield calibration_card(found.get("calibration"))
        yield confusion_card(found, self.task)
        yield residual_card(self.evaluation.residuals)
        yield column_importance_card(self.learner)
        yield feature_card(self.learner, self.task)
        yield weights_card(first)
        yield speed_card(self.speeds, self.compiling)
        yield from effect_cards(self.learner, score_unit(self.task), labels_of_scores(self.learner))
        yield member_card(self.learner)
        yield column_card(self.learner)
        yield components_card(self.learner, self.task, self.history)
        yield Card("The command that repeats this", command_box(self.command), wide=True)

    def tiles(self, found: dict[str, Any]) -> list[tuple[str, str]]:
        """Return the main metrics."""
        shown = [("rows evaluated", f"{found['rows']:,}")]
        for name, title in NAMES_OF_FIGURES.items():
            if found.get(name) is not None:
                shown.append((title, percent(found[name]) if name == "accuracy" else f"{found[name]:.4g}"))
        shown.append(("features with a weight", f"{self.learner.n_nonzero:,}"))
        if self.skipped:
            shown.append(("lines left out", f"{self.skipped:,}"))
        return shown


# --- titles ---------------------------------------------------------------------------------------


def loss_name(task: Task) -> str:
    """Return the name of the loss.

    >>> from fiol import EpsilonInsensitive, Logistic, Softmax
    >>> [loss_name(Task(loss, None, "")) for loss in (Logistic(), Softmax(), EpsilonInsensitive(0.1))]
    ['Log loss', 'Log loss', 'Epsilon insensitive loss']
    """
    name = task.loss.alias or type(task.loss).__name__
    if name == "softmax":
        name = "log_loss"
    text = name.removesuffix("_error").removesuffix("_loss").replace("_", " ")
    return f"{text[:1].upper()}{text[1:]} loss"


def headline(task: Task, found: dict[str, Any], windows: Sequence[Window] = ()) -> str:
    """Return the result in a line; `windows` are losses of consecutive rows.

    >>> from fiol import Logistic
    >>> task = Task(Logistic(), [0, 1], "")
    >>> headline(task, {"loss": 0.332, "constant_loss": 0.552})
    'Log loss 0.332, 40 % below the best constant'
    >>> headline(task, {"loss": 0.69, "constant_loss": 0.69}), headline(task, {"loss": 1.4, "constant_loss": 0.69})
    ('Log loss 0.69, that of the best constant', 'Log loss 1.4, above that of the best constant (0.69)')
    >>> headline(task, {"loss": 0.7, "constant_loss": 0.69}, [Window(9, 9.0, 9.0), *[Window(9, 9.0, 4.5)] * 3])
    'Log loss 0.5 in the last quarter of the rows, 28 % below the best constant; 0.7 over all rows'
    """
    loss, constant = found["loss"], found["constant_loss"]
    text = f"{loss_name(task)} {three_digits(loss)}"
    if loss is None or constant is None or not math.isfinite(loss) or constant <= 0.0:
        return text
    share = 1.0 - loss / constant
    if share >= 0.005:
        return f"{text}, {100.0 * share:.0f} % below the best constant"
    late = loss_of_last_quarter(windows)
    if late is not None and late < 0.995 * constant:  # the first rows cost more than a constant ever does
        below = f"{100.0 * (1.0 - late / constant):.0f} % below the best constant"
        last = f"{loss_name(task)} {three_digits(late)} in the last quarter of the rows"
        return f"{last}, {below}; {three_digits(loss)} over all rows"
    if share > -0.005:
        return f"{text}, that of the best constant"
    return f"{text}, above that of the best constant ({three_digits(constant)})"


def loss_of_last_quarter(windows: Sequence[Window]) -> float | None:
    """Return the mean loss of the last quarter of the rows; None without finite losses of four windows."""
    rows = np.cumsum([window.rows for window in windows])
    last = [window for window, end in zip(windows, rows, strict=True) if 4 * end > 3 * rows[-1]]
    mass, total = sum(window.mass for window in last), sum(window.total for window in last)
    return total / mass if len(windows) >= 4 and mass > 0.0 and math.isfinite(total) else None


def three_digits(value: float | None) -> str:
    """Return a number with three digits.

    >>> three_digits(0.33249), three_digits(None), three_digits(123456.0)
    ('0.332', 'not defined', '123,000')
    """
    if value is None:
        return "not defined"
    return f"{float(f'{value:.3g}'):,.0f}" if 1e3 <= abs(value) < 1e12 else f"{value:.3g}"


def percent(share: float) -> str:
    """Return a fraction in percent.

    >>> percent(0.7992)
    '79.9 %'
    """
    return f"{100.0 * share:.1f} %"


def member_name(update: Any) -> str:
    """Return the name of a member of an ensemble, in two or three words.

    >>> from fiol import FIOL, AdaGrad, Logistic, ScaleFree
    >>> member_name(FIOL(Logistic(), step_size=ScaleFree(AdaGrad(300.0))))
    'AdaGrad 300'
    """
    text = brief_member(update)
    if ", " in text:  # a gate with its penalty, say
        return text
    text = re.sub(r"\bScaleFree\((.*)\)$", r"\1", text)
    return re.sub(r"\(\)|\)$", "", text).replace("size=", "").replace("(", " ")


# --- how learning went ----------------------------------------------------------------------------


def loss_card(lines: Sequence[Line], task: Task, learner: Learner) -> Card | None:
    """Return the card of the progressive loss of the first pass, with the best constant and each member."""
    lines = [line for line in lines if math.isfinite(line.loss)]
    if len(lines) < 3:
        return None
    rows, last = [float(line.rows) for line in lines], lines[-1]
    curves = [DrawnCurve(rows, [line.loss for line in lines], f"this model {three_digits(last.loss)}")]
    if all(line.constant is not None for line in lines):
        constants = [float(line.constant or 0.0) for line in lines]
        curves.append(DrawnCurve(rows, constants, f"best constant {three_digits(constants[-1])}", "level"))
    highest = 1.08 * max(max(curve.y) for curve in curves)
    names = [member_name(member.update) for member in learner.members]
    away, inside = list[str](), list[tuple[float, str]]()
    for k, name in enumerate(names[: len(last.members)]):
        y = [line.members[k] if len(line.members) > k and line.members[k] <= highest else math.nan for line in lines]
        if math.isfinite(y[-1]):
            curves.append(DrawnCurve(rows, y, name, "members"))
            inside.append((y[-1], name))
        else:
            away.append(f"{name} ({three_digits(last.members[k])})")
    start = f"{three_digits(lines[0].loss)} after {lines[0].rows:,} rows"
    title = f"{loss_name(task)} {start}, {three_digits(last.loss)} in the end"
    if inside:
        least, best = min(inside)
        ahead = "The combination is ahead of its best member" if last.loss < least else "The best member is ahead"
        title = f"{ahead}: {three_digits(last.loss)} against {three_digits(least)} ({best})"
        if three_digits(last.loss) == three_digits(least):
            title = f"The combination is as good as its best member: {three_digits(least)} ({best})"
        elif last.loss >= least:
            title = f"{ahead}: {three_digits(least)} ({best}) against {three_digits(last.loss)} of the combination"
    remark = "Mean loss of all training rows so far, in the first pass, each before it was learned from."
    if away:
        remark += f" Members beyond the figure: {', '.join(away)}."
    values = [v for curve in curves for v in curve.y if math.isfinite(v)]
    picture = figure(curves, axis_for("rows", rows, log=True), axis_for("", values), title)
    return Card(title, picture, remark)


def passes_card(history: Sequence[Line], task: Task) -> Card | None:
    """Return the card of the loss of every pass, and of held-out rows."""
    ends = [list(lines)[-1] for _, lines in itertools.groupby(history, key=lambda line: line.number)]
    if len(ends) < 2:
        return None
    numbers = [float(line.number) for line in ends]
    curves = [DrawnCurve(numbers, [line.loss for line in ends], f"learned {three_digits(ends[-1].loss)}", "level")]
    title = (
        f"{loss_name(task)} {three_digits(ends[0].loss)} in the first pass, {three_digits(ends[-1].loss)} in the last"
    )
    if all(line.held_out is not None for line in ends):
        held = [float(line.held_out or 0.0) for line in ends]
        best = int(np.argmin(held))
        curves.insert(0, DrawnCurve(numbers, held, f"held out {three_digits(held[-1])}"))
        title = f"Pass {best + 1} of {len(ends)} was best on the rows held out: {three_digits(held[best])}"
    values = [v for curve in curves for v in curve.y if math.isfinite(v)]
    if not values:
        return None
    picture = figure(curves, axis_for("pass", numbers), axis_for("", values), title)
    return Card(title, picture, "Mean loss of the rows of each pass; those held out are never learned from.")


def drift_card(windows: Sequence[Window]) -> Card | None:
    """Return the card of the loss over rows, and whether it changed."""
    windows = [window for window in windows if math.isfinite(window.loss) and window.rows]
    if len(windows) > 1 and 2 * windows[-1].rows < windows[-2].rows:
        windows = windows[:-1]  # too few rows
    if len(windows) < 8:
        return None
    losses = [window.loss for window in windows]
    before, after = halves_after_start(losses)
    noise = np.std(np.diff(losses)) / math.sqrt(2.0)
    chance = noise * math.sqrt(1.0 / len(before) + 1.0 / len(after))
    was, now = float(np.mean(before)), float(np.mean(after))
    quarters = f"{three_digits(was)} in the third quarter of the rows, {three_digits(now)} in the last"
    if abs(now - was) <= SURELY * chance:
        title = f"The loss has no clear change: {quarters}"
    else:
        title = f"The loss {'falls' if now < was else 'rises'}: {quarters}"
    ends = np.cumsum([window.rows for window in windows]).astype(float)
    middles = (ends - 0.5 * np.array([window.rows for window in windows])).tolist()
    smooth = [float(np.mean(losses[max(0, k - 4) : k + 5])) for k in range(len(losses))]
    curves = [DrawnCurve(middles, smooth, ""), DrawnCurve(middles, losses, "", "members")]
    across = Axis("rows", 0.0, float(ends[-1]))
    picture = figure(curves, across, axis_for("", losses), title)
    long = three_digits(median(window.rows for window in windows))
    return Card(title, picture, f"Mean loss of every {long} rows or so (gray), and of nine such windows together.")


def halves_after_start(losses: Sequence[float]) -> tuple[Sequence[float], Sequence[float]]:
    """Return the third and the fourth quarter."""
    half, three = len(losses) // 2, (3 * len(losses)) // 4
    return losses[half:three], losses[three:]


def weights_card(lines: Sequence[Line]) -> Card | None:
    """Return the card of the number of features and of weights other than 0."""
    if len(lines) < 3 or not lines[-1].features:
        return None
    rows, last = [float(line.rows) for line in lines], lines[-1]
    some, all_ = [float(line.nonzeros) for line in lines], [float(line.features) for line in lines]
    if some == all_:
        title = f"{last.features:,} features, and all of them have a weight"
        curves = [DrawnCurve(rows, some, f"features {last.features:,}")]
    else:
        zeros = percent(1.0 - last.nonzeros / last.features)
        title = f"{last.nonzeros:,} of {last.features:,} features have a weight, {zeros} are 0"
        curves = [
            DrawnCurve(rows, some, f"with a weight {last.nonzeros:,}"),
            DrawnCurve(rows, all_, f"all {last.features:,}", "level"),
        ]
    up = axis_for("", [*some, *all_], zero=True)
    picture = figure(curves, axis_for("rows", rows, log=True), up, title)
    return Card(title, picture, "In the first pass, at every line of the table.")


def speed_card(speeds: Sequence[Speed], compiling: float) -> Card | None:
    """Return the card of rows per second between lines of the table."""
    steps = [(a, b) for a, b in itertools.pairwise(speeds) if b.rows > a.rows and b.seconds > a.seconds]
    if len(steps) < 3:
        return None
    rates = [(b.rows - a.rows) / (b.seconds - a.seconds) for a, b in steps]
    whole = speeds[-1].seconds - speeds[0].seconds
    read = (speeds[-1].read - speeds[0].read) / whole / 1e6
    mean = (speeds[-1].rows - speeds[0].rows) / whole
    title = f"{three_digits(mean)} rows and {read:.1f} MB a second"
    rows = [float(b.rows) for _, b in steps]
    curves = [DrawnCurve(rows, rates, f"median {short_number(float(f'{median(rates):.2g}'))}")]
    picture = figure(curves, axis_for("rows", rows, log=True), axis_for("rows/s", rates, zero=True), title)
    remark = "Between lines of the table."
    if compiling >= 0.5:
        remark += f" Compiling took {compiling:.1f} s before that; it does so once."
    return Card(title, picture, remark)


# --- metrics of predictions -----------------------------------------------------------------------


def calibration_card(parts: Sequence[dict[str, Any]] | None) -> Card | None:
    """Return the card of predicted against observed frequencies."""
    there = [part for part in parts or [] if part["weight"]]
    if len(there) < 2:
        return None
    mass = sum(part["weight"] for part in there)
    off = sum(part["weight"] * abs(part["predicted"] - part["happened"]) for part in there) / mass
    title = f"What was predicted happened, to within {100 * off:.1f} percentage points on average"
    largest = max(part["weight"] for part in there)
    radius = [2.5 + 7.0 * math.sqrt(part["weight"] / largest) for part in there]
    dots = DrawnCurve([p["predicted"] for p in there], [p["happened"] for p in there], dots=radius)
    same = DrawnCurve([0.0, 1.0], [0.0, 1.0], "as predicted", "level")
    axes = Axis("predicted", 0.0, 1.0, unit="%"), Axis("happened", 0.0, 1.0, unit="%")
    picture = figure([dots, same], *axes, title)
    return Card(title, picture, "A dot is a tenth of the range of probabilities, its area the share of rows there.")


def confusion_card(found: dict[str, Any], task: Task) -> Card | None:
    """Return the card of the confusion matrix."""
    cells = found.get("confusion")
    if not cells or found["accuracy"] is None or len(cells["labels"]) < 2:
        return None
    labels, counts = [str(label) for label in cells["labels"]], np.array(cells["counts"], float)
    right = f"{percent(found['accuracy'])} of the labels are right"
    most = float(counts.sum(axis=1).max() / counts.sum()) if counts.sum() else math.nan
    title = f"{right}; always the commonest would be {percent(most)}"
    remark = "Shares of each true label."
    if task.kind == "two classes" and found.get("recall") is not None and found.get("precision") is not None:
        there, right_ones = percent(found["recall"]), percent(found["precision"])
        remark = f"Of the rows that are {labels[1]}, {there} were found; of those predicted so, {right_ones} are right."
    if len(labels) > MOST_CLASSES:
        wrong = counts - np.diag(np.diagonal(counts))
        order = np.argsort(-wrong, axis=None, kind="stable")[:10]
        pairs = [(int(k) // len(labels), int(k) % len(labels)) for k in order if wrong.flat[k] > 0.0]
        if not pairs:
            return None
        rows = [[labels[i], labels[j], f"{wrong[i, j]:,.6g}"] for i, j in pairs]
        return Card(title, plain_table(["true", "predicted", "rows"], rows, (0, 1)), "The commonest errors.")
    return Card(title, shaded_table(labels, counts.tolist()), remark)


class ResidualShares(NamedTuple):
    """Distribution of residuals: quantiles of their size, and the share of rows between edges."""

    half: float
    most: float
    edges: Any
    shares: Any

    @property
    def title(self) -> str:
        """The quantiles in words."""
        half, most = three_digits(self.half), three_digits(self.most)
        return f"Half of the predictions are within ±{half}, nine of ten within ±{most}"


def residual_shares(residuals: TargetTable) -> ResidualShares | None:
    """Return the shares of residuals in bins, with the outer hundredth in the end bins; None if there are too few."""
    values, masses = residuals.values, residuals.masses
    if len(values) < 8 or masses.sum() <= 0.0:
        return None
    order = np.argsort(np.abs(values))
    share = np.cumsum(masses[order]) / masses.sum()
    half, most = (float(np.abs(values)[order][np.searchsorted(share, q)]) for q in (0.5, 0.9))
    end = float(np.abs(values)[order][min(np.searchsorted(share, 0.99), len(values) - 1)])
    if end <= 0.0:
        return None
    edges = np.linspace(-end, end, COLUMNS + 1)
    heights, _ = np.histogram(np.clip(values, -end, end), edges, weights=masses / masses.sum())
    return ResidualShares(half, most, edges, heights)


def residual_card(residuals: TargetTable) -> Card | None:
    """Return the card of residuals."""
    found = residual_shares(residuals)
    if found is None:
        return None
    across = Axis("target minus prediction", float(found.edges[0]), float(found.edges[-1]))
    up = axis_for("", found.shares.tolist(), zero=True, unit="%")
    picture = histogram(found.edges.tolist(), found.shares.tolist(), across, up, found.title)
    remark = "Shares of all rows; the one in a hundred that is further off is in the outer columns."
    return Card(found.title, picture, remark)


# --- the model ------------------------------------------------------------------------------------


def column_importance_card(learner: Learner) -> Card | None:
    """Return the card of the most important columns, if there are several."""
    if learner.table_encoding is None or learner.names is None:
        return None
    top = list(learner.importances(FEATURES_SHOWN, by="column").items())
    if len(top) < 2:
        return None
    first = [shortened(name, LONGEST_CELL) for name, _ in top[:2]]
    title = f"Column {first[0]} matters most" + "".join(f", then {name}" for name in first[1:])
    return Card(title, bar_table(top), "Standard deviation of what all features of a column add to the score.")


def feature_card(learner: Learner, task: Task) -> Card | None:
    """Return the card of the most important features."""
    top = [(feature_name(name), value) for name, value in learner.importances(FEATURES_SHOWN).items()]
    if not top:
        return None
    first = [shortened(name, LONGEST_CELL) for name, _ in top[:2]]
    title = f"{first[0]} matters most" + "".join(f", then {name}" for name in first[1:])
    remark = "Weight times standard deviation: how far a feature moves the score."
    if learner.table_encoding is not None and learner.names is not None:
        remark += " All categories of a column may have a part of the intercept in their weights."
    if task.labels is not None:
        remark += f" To the right: speaks for {task.labels[1]}."
    elif task.kind == "classes":
        remark += " Root mean square over classes."
    return Card(title, bar_table(top), remark)


def score_unit(task: Task) -> str:
    """Return the unit of scores."""
    return {"logit": "log odds", "log": "logarithms"}.get(task.loss.link, "units of the target")


def labels_of_scores(learner: Learner) -> Sequence[Any] | None:
    """Return the labels of the scores of a model with several; None for one score."""
    return None if learner.classes is None else list(learner.classes)


def feature_name(name: str | int) -> str:
    """Return the name of a feature for display.

    >>> feature_name(7), feature_name("age")
    ('feature 7', 'age')
    """
    return f"feature {name}" if isinstance(name, int) else name


def member_card(learner: Learner) -> Card | None:
    """Return the card of the members of an ensemble."""
    members = sorted(learner.members, key=lambda member: member.loss)
    if not members:
        return None
    rows = [
        [
            member_name(m.update),
            three_digits(m.loss),
            "overflowed" if m.overflowed else f"{m.weight:+.3f}",
            f"{m.nonzero:,}",
        ]
        for m in members
    ]
    heaviest = max(members, key=lambda member: abs(member.weight))
    title = f"{len(members)} learners are combined; the largest weight: {member_name(heaviest.update)}"
    table = plain_table(["member", "loss", "counts", "non-zeros"], rows)
    return Card(title, table, "Progressive loss of each, and what its score counts with in the end.")


def column_card(learner: Learner) -> Card | None:
    """Return kinds, missing values, features and examples of columns; of models without them, descriptions."""
    summaries = count_features(learner.meta.get("training", {}).get("columns", []), learner)
    if summaries:
        head, *rows = column_rows(summaries[:COLUMNS_PRINTED])
        title = f"{learner.n_features:,} features of {count_columns(summaries)}"
        more = f" The first {COLUMNS_PRINTED} are shown." if len(summaries) > COLUMNS_PRINTED else ""
        remark = f"Missing values and examples are those of the first rows.{more}"
        return Card(title, plain_table(head, rows, (0, 1, 4)), remark, wide=True)
    reading = learner.meta.get("reading")
    if reading is None:
        return None
    encoding = ReaderConfig.from_json(reading).table_encoding
    if encoding is None:
        return None
    described = [
        list(column.describe().partition(": ")[::2]) for column in encoding.columns if column.name != reading["target"]
    ]
    if not described:
        return None
    title = f"{len(described)} columns became {learner.n_features:,} features"
    return Card(title, plain_table(["column", "what it is"], described, (0, 1)))


def components_card(learner: Learner, task: Task, history: Sequence[Line]) -> Card:
    """Return the card of the components."""
    facts = [["learner", learner.update.brief()], ["loss", loss_name(task)]]
    if not learner.members:
        facts.append(["step", brief_member(learner.update)])
    facts.append(["rounds", f"{learner.rounds:,}"])
    if history:
        facts.append(["passes", str(history[-1].number)])
    facts.append(["features", "named" if learner.names is not None else "numbered"])
    if learner.bits is not None:
        facts[-1] = ["features", f"hashed into 2^{learner.bits}"]
    facts.append(["stored as", str(np.dtype(learner.dtype).name)])
    components = json.dumps(to_json(learner.update), indent=1)
    whole = f"<details><summary>Every part, as JSON</summary>{command_box(components)}</details>"
    return Card("Components", plain_table(["", ""], facts, (0, 1)) + whole)
