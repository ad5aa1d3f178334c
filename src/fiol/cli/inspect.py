"""`fiol inspect`: what is in a model."""

from __future__ import annotations

from typing import Any

import click

from fiol.cli.errors import handle_errors, json_text
from fiol.cli.terminal import echo

#: How many arrays of all weights are in memory at once, with those they are made of.
COPIES_IN_MEMORY = 4


@click.command("inspect")
@click.argument("model", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--top",
    type=click.IntRange(0),
    default=20,
    show_default=True,
    help="Number of columns and features to show, those that matter most.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@handle_errors
def inspect_model(model: str, top: int, as_json: bool, signals: Any) -> None:
    """Show what MODEL has learned, and which features matter most.

    Also how it learned, from which data, and the history of its loss.

    \b
    fiol inspect clicks.fiol
    fiol inspect clicks.fiol --top 100 --json
    """
    from fiol.persistence.memory import check_memory
    from fiol.workflow.model import open_model

    learner = open_model(model, compiled=False)
    check_memory(
        COPIES_IN_MEMORY * 8.0 * learner.n_features, f"to look at the weights of {learner.n_features:,} features"
    )
    found = facts_of_model(learner, top)
    if as_json:
        echo(json_text({"model": model, **found}))
        return
    for line in fact_lines(found):
        echo(line)


def facts_of_model(learner: Any, top: int) -> dict[str, Any]:
    """Everything about a model, as plain JSON values."""
    from fiol.persistence.component_json import to_json
    from fiol.summary import brief_member
    from fiol.training.column_summary import count_features

    training = learner.meta.get("training", {})
    nonzeros, features = learner.n_nonzero, learner.n_features
    members = [
        {"update": brief_member(member.update), "loss": member.loss, "share": float(share)}
        for member, share in zip(getattr(learner, "members", ()), getattr(learner, "mixing", ()), strict=False)
    ]
    intercept = learner.intercept
    return {
        "learner": learner.update.brief(),
        "recipe": to_json(learner.update),
        "rounds": learner.rounds if learner.estimator is None else rounds_of(learner.estimator, learner.rounds),
        "features": features,
        "nonzeros": nonzeros,
        "zeros_share": 1.0 - nonzeros / features if features else None,
        "bits": learner.bits,
        "labels": learner.labels,
        "columns": count_features(training.get("columns", []), learner),
        "intercept": intercept.tolist() if hasattr(intercept, "tolist") else intercept,
        "members": members,
        "reading": learner.meta.get("reading"),
        "training": {
            name: training.get(name) for name in ("why", "regime", "rows", "pass", "finished", "best", "asked")
        },
        "top_columns": top_columns(learner, top),
        "top": top_features(learner, top),
        "history": learner.meta.get("history", []),
    }


def rounds_of(estimator: Any, rounds: int) -> int:
    """Return the rounds of an estimator; `rounds` are those of the model inside, a copy of passive-aggressive ones."""
    from fiol.workflow.model import has_model_inside

    return rounds if has_model_inside(estimator) else int(estimator.t_) - 1


def top_columns(learner: Any, count: int) -> list[dict[str, Any]]:
    """Return the columns that matter most, if columns are known and are not features themselves."""
    if not count or learner.table_encoding is None or learner.names is None:
        return []
    found = learner.importances(count, by="column")
    return [{"column": name, "matters": matters} for name, matters in found.items()]


def top_features(learner: Any, count: int) -> list[dict[str, Any]]:
    """Return the features that matter most (`Learner.importances`), each with its weight, or one per class."""
    if not count:
        return []
    weights, names = learner.weights, learner.names
    places = {} if names is None else {name: k for k, name in enumerate(names)}
    columns = learner.core.space.columns if names is None else None
    found = []
    for name, matters in learner.importances(count).items():
        k = places.get(name, name)
        weight = float(weights[k]) if weights.ndim == 1 else weights[:, k].tolist()
        called = name if columns is None else columns[k]
        found.append({"feature": called, "weight": weight, "matters": matters})
    return found


def fact_lines(found: dict[str, Any]) -> list[str]:
    """Return the facts of a model as lines of text."""
    lines = [found["learner"]]
    share = "" if found["zeros_share"] is None else f", {found['zeros_share']:.1%} are 0"
    folded = "" if found["bits"] is None else f", folded into 2^{found['bits']}"
    lines.append(f"{found['rounds']:,} rounds; {found['nonzeros']:,} of {found['features']:,} weights{share}{folded}")
    if found["labels"] is not None:
        lines.append("Labels: " + ", ".join(str(label) for label in found["labels"][:20]))
    training = found["training"]
    if training["why"]:
        lines.append(f"Target: {training['why']}")
    if training["regime"] is not None:
        state = "finished" if training["finished"] else "a checkpoint: fiol train --resume goes on from it"
        passes = f"pass {training['pass']} of {training['regime']['passes']}"
        lines.append(f"{training['rows']:,} rows learned from, {passes}, {state}")
    lines += reading_lines(found["reading"], found["columns"])
    if found["members"]:
        lines += ["", f"{'loss':>10}  {'share':>8}  member"]
        lines += [f"{m['loss']:10.6g}  {m['share']:8.3f}  {m['update']}" for m in found["members"]]
    if found["top_columns"]:
        lines += ["", f"{'matters':>10}  column (standard deviation of what it adds to scores)"]
        lines += [f"{column['matters']:10.4g}  {column['column']}" for column in found["top_columns"]]
    if found["top"]:
        lines += ["", f"{'matters':>10}  {'weight':>12}  feature (weight times standard deviation)"]
        for feature in found["top"]:
            weight = feature["weight"]
            text = f"{weight:12.6g}" if isinstance(weight, float) else " ".join(f"{w:.4g}" for w in weight)
            lines.append(f"{feature['matters']:10.4g}  {text}  {feature['feature']}")
    if found["history"]:
        lines += ["", f"{'pass':>4}  {'rows':>11}  {'loss':>10}  {'constant':>10}  {'held out':>10}  {'non-zeros':>10}"]
        for line in found["history"]:
            losses = (line["loss"], line["constant"], line["held_out"])
            cells = "  ".join(f"{'-' if loss is None else format(loss, '.6g'):>10}" for loss in losses)
            lines.append(f"{line['number']:>4}  {line['rows']:>11,}  {cells}  {line['nonzeros']:>10,}")
    return lines


def reading_lines(reading: dict[str, Any] | None, columns: list[dict[str, Any]]) -> list[str]:
    """Return how data are read: the format, and every column with what becomes of it."""
    if reading is None:
        return ["The file does not say how data are read."]
    from fiol.readers.reader_config import ReaderConfig
    from fiol.training.column_summary import column_lines

    known = ReaderConfig.from_json(reading)
    named = {name: getattr(known, name) for name in ("target", "weight", "tag") if getattr(known, name) is not None}
    plain = {name: value for name, value in known.options.items() if isinstance(value, (str, bool, int, float))}
    more = "".join(f", {name} {value!r}" for name, value in {**named, **plain}.items())
    lines = [f"Data: {known.format}{more}"]
    if columns:
        lines += column_lines(columns)
    elif known.table_encoding is not None:
        lines += [
            f"  {column.describe()}" for column in known.table_encoding.columns if column.name not in named.values()
        ]
    lines += [f"  {' times '.join(name or '(unnamed)' for name in pair)}" for pair in known.pairs]
    return lines
