"""The benchmark page as Markdown, made of the numbers of one run."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown; numbers stand at the right."""
    shown = [f"| {' | '.join(line)} |" for line in (head, *rows)]
    return "\n".join([shown[0], f"|---{'|---:' * (len(head) - 1)}|", *shown[1:]]) + "\n"


def number(value: float | None, digits: int = 4) -> str:
    """Return a number with a few digits; infinite is "overflow", None a dash."""
    if value is None:
        return "-"
    if not math.isfinite(value):
        return "overflow"
    return f"{value:.{digits}g}" if 1e-4 < abs(value) < 1e5 else f"{value:.1e}"


def default_loss(losses: dict[str, float] | None) -> float | None:
    """Return the loss of a library's default, its first setting."""
    return next(iter(losses.values())) if losses else None


def best_loss(losses: dict[str, float] | None) -> float | None:
    """Return the least loss of a library's settings."""
    return min(losses.values()) if losses else None


def geometric_mean(ratios: Sequence[float]) -> float:
    """Return the geometric mean; a ratio below 1/100, as to an overflow, counts as 1/100."""
    return math.exp(sum(math.log(max(ratio, 0.01)) for ratio in ratios) / len(ratios)) if ratios else math.nan


PEERS = ("scikit-learn", "Vowpal Wabbit", "River")


def contest_rows(contests: list[dict[str, Any]], choose: Any) -> list[list[str]]:
    """Return the lines of a table of losses, the best of each in bold, and the geometric mean of ratios."""
    lines, ratios = [], {peer: list[float]() for peer in PEERS}
    for found in contests:
        losses = found["losses"]
        ours, theirs = losses["fiol"]["default"], {peer: choose(losses.get(peer)) for peer in PEERS}
        least = min(value for value in (ours, *theirs.values()) if value is not None)
        shown = [f"**{number(v)}**" if v == least else number(v) for v in (ours, *theirs.values())]
        for peer, value in theirs.items():
            if value is not None:
                ratios[peer].append(ours / value)
        lines.append([found["name"], f"{found['rows']:,}", *shown])
    means = [number(geometric_mean(ratios[peer]), 3) if ratios[peer] else "-" for peer in PEERS]
    return [*lines, ["fiol divided by it, geometric mean", "", "1", *means]]


def losing(found: dict[str, Any]) -> str:
    """Return the section on where fiol is worse."""
    lines = []
    for each in found["trees"]:
        (trees, their_time), (ours, our_time) = each["HistGradientBoosting"], each["fiol, curves and pairs"]
        if trees < ours:
            ratio = our_time / their_time
            longer = f"; curves and pairs take {number(ratio, 2)} times as long" if ratio > 1.0 else ""
            plain = number(trees / each["fiol"][0], 2)
            lines.append(
                f"- **{each['name']}**: the error of boosted trees is {number(trees / ours, 2)} times that of fiol "
                f"with curves and pairs, {plain} times that with plain columns{longer}."
            )
    for each in found["contests"]:
        ours = each["losses"]["fiol"]["default"]
        for peer in PEERS:
            losses = each["losses"].get(peer)
            if losses and min(losses.values()) < ours:
                setting = min(losses, key=losses.__getitem__)
                lines.append(
                    f"- **{each['name']}**: {peer} with `{setting}`, chosen in hindsight, has "
                    f"{number(losses[setting])} where fiol has {number(ours)}."
                )
        if each["shuffled"] and max(theirs for _, theirs in each["shuffled"]) < min(us for us, _ in each["shuffled"]):
            lines.append(f"- **{each['name']}, shuffled**: scikit-learn with its best rate is better, see below.")
    for each in found["robustness"]:
        for kind in ("exact steps", "gradient steps"):
            if min(each[kind]) < each["default"]:
                lines.append(
                    f"- **{each['name']}**: one learner of fiol with {kind} of the best size, chosen in hindsight, has "
                    f"{number(min(each[kind]))} where the default has {number(each['default'])}."
                )
    return "\n".join([*lines, *slower(found), *denser(found["sparsity"])])


def slower(found: dict[str, Any]) -> list[str]:
    """Return lines on what takes longer."""
    speed, events = found["speed"], found["events"]
    plain, l1 = (speed[f"fiol, default{p}"] / speed[f"scikit-learn SGD{p}"] for p in ("", ", L1"))
    lines = [
        f"- **Time**: one pass of the default takes {number(plain, 2)} times as long as one pass of scikit-learn's SGD "
        f"at one given learning rate; with L1 {number(l1, 2)} times."
    ]
    ratio = events["fiol.river, default"] / events["River LogisticRegression"]
    if ratio > 1.0:
        lines.append(
            f"- **Single events**: `learn_one` of the default takes {number(ratio, 2)} times as long as that of "
            "River's logistic regression."
        )
    shards = dict(map(tuple, found["growth"].get("shards, all threads together", [])))
    if 2 in shards and shards[2] > shards[1]:
        lines.append(
            f"- **Parallel learning**: two shards take {number(shards[2] / shards[1], 2)} times the processor time "
            "of one stream."
        )
    return lines


def denser(found: list[dict[str, Any]]) -> list[str]:
    """Return lines on penalties with which scikit-learn has less loss."""
    lines = []
    for each in found:
        worse = sum(theirs[2] < ours[2] for ours, theirs in zip(each["fiol"], each["scikit-learn"], strict=True))
        if worse:
            lines.append(
                f"- **L1 on {each['name']}**: at {worse} of {len(each['fiol'])} strengths scikit-learn, with the best "
                "of three learning rates, has less loss on held-out rows."
            )
    return lines


def spread(contests: list[dict[str, Any]]) -> str:
    """Return the table of losses over shuffles."""
    rows = []
    for each in contests:
        if each["shuffled"]:
            ours, theirs = zip(*each["shuffled"], strict=True)
            rows.append([each["name"], *(f"{number(min(v))} to {number(max(v))}" for v in (ours, theirs))])
    return table(["other orders of the rows", "fiol", "scikit-learn, best rate"], rows) if rows else ""


def robustness(found: list[dict[str, Any]]) -> str:
    """Return the table of losses over step sizes."""
    rows = []
    for each in found:
        default = each["default"]
        line = [each["name"], number(default)]
        for kind in ("exact steps", "gradient steps"):
            near = sum(loss <= 1.1 * default for loss in each[kind])
            line.append(f"{number(min(each[kind]))} / {number(max(each[kind]))} / {near} of {len(each[kind])}")
        rows.append(line)
    return table(["best / worst / sizes within 10 % of the default", "default", "exact steps", "gradient steps"], rows)


def growth(found: dict[str, list[list[float]]]) -> str:
    """Return the table of times of a row."""
    rows = [
        [f"{name}: {', '.join(f'{n:,.0f}' for n, _ in points)}", ", ".join(number(t, 2) for _, t in points)]
        for name, points in found.items()
    ]
    return table(["default learner, made-up text", "µs a row"], rows)


def trees(found: list[dict[str, Any]]) -> str:
    """Return the table of errors and times of tables."""
    if not found:
        return ""
    models = [key for key in found[0] if key not in ("name", "rows")]
    rows = [[each["name"], *(f"{number(each[m][0], 3)} ({number(each[m][1], 2)})" for m in models)] for each in found]
    return table(["", *models], rows)


def sparsity(found: list[dict[str, Any]]) -> str:
    """Return the table of non-zeros and losses."""

    def shown(points: list[list[float]]) -> str:
        return "; ".join(f"{nonzero:,}: {number(loss, 3)}" for _, nonzero, loss in points)

    return table(["", "fiol", "scikit-learn"], [[e["name"], shown(e["fiol"]), shown(e["scikit-learn"])] for e in found])


def render(found: dict[str, Any]) -> str:
    """Return the page."""
    template = Path(__file__).with_suffix(".md").read_text(encoding="utf-8")
    head = ["loss", "rows", "fiol", *PEERS]
    page = template.format(
        command=found["command"],
        cpu=found["cpu"],
        platform=found["platform"],
        date=found["date"][:10],
        note=found.get("note", ""),
        versions=", ".join(f"{name} {version}" for name, version in found["versions"].items() if version),
        losing=losing(found),
        defaults=table(head, contest_rows(found["contests"], default_loss)),
        hindsight=table(head, contest_rows(found["contests"], best_loss)),
        spread=spread(found["contests"]),
        robustness=robustness(found["robustness"]),
        trees=trees(found["trees"]),
        sparsity=sparsity(found["sparsity"]),
        speed=table(["", "µs a row"], [[name, number(v, 3)] for name, v in found["speed"].items()]),
        events=table(["", "µs an event"], [[name, number(v, 3)] for name, v in found["events"].items()]),
        memory=table(["", "bytes for each feature seen"], [[n, number(v, 3)] for n, v in found["memory"].items()]),
        growth=growth(found["growth"]),
    )
    return re.sub(r"\n{3,}", "\n\n", page)
