"""Check the checkpoint of a training run in `meta` of a model file, before it is used."""

from __future__ import annotations

import dataclasses
import math
import reprlib
from collections.abc import Callable, Mapping
from typing import Any

from fiol.components.losses import Binary
from fiol.features.column_kinds import COLUMN_KINDS
from fiol.features.feature_moments import FeatureMoments
from fiol.training.metrics import BLOCK_ROWS, Line, from_base64
from fiol.training.run import Regime

FieldCheck = Callable[[Any], bool]


def check_checkpoint(meta: Mapping[str, Any]) -> None:
    """Raise ValueError, with the key, if a value differs from what `Training.note` and the command write.

    >>> check_checkpoint({"history": [], "training": {"asked": {"data": ["a.csv"]}}})
    >>> check_checkpoint({"training": {"regime": {"passes": 0}}})
    Traceback (most recent call last):
    ValueError: its training is not as fiol train writes it: regime = {'passes': 0}
    >>> check_checkpoint({"history": [{"rows": 5}]})
    Traceback (most recent call last):
    ValueError: its history is not as fiol train writes it: number is missing
    """
    training, history = meta.get("training", {}), meta.get("history", [])
    if "moments" in meta:
        FeatureMoments.from_json(meta["moments"])
    check_schema(
        "training", training, RUN_FIELDS if isinstance(training, dict) and "regime" in training else ASKED_FIELDS
    )
    if not isinstance(history, list):
        raise ValueError(f"its history is not as fiol train writes it, but {reprlib.repr(history)}")
    for line in history:
        check_schema("history", line, LINE_FIELDS)
        if not line.keys() <= LINE_FIELDS.keys():
            raise ValueError(
                f"its history is not as fiol train writes it: it has {sorted(line.keys() - LINE_FIELDS.keys())}"
            )


def check_stored_labels(meta: Mapping[str, Any], loss: Any) -> list[Any] | None:
    """Return the labels of two classes in a file, the negative one first; None if there are none.

    >>> from fiol import Logistic
    >>> check_stored_labels({"labels": ["no", "yes"]}, Logistic())
    ['no', 'yes']
    >>> check_stored_labels({"labels": "yes"}, Logistic())
    Traceback (most recent call last):
    ValueError: its labels must be the two of a loss of two classes, got 'yes'
    """
    labels = meta.get("labels")
    if labels is None:
        return None
    plain = isinstance(labels, list) and all(type(label) in (str, int, float, bool) for label in labels)
    if not plain or len(labels) != 2 or labels[0] == labels[1] or not isinstance(loss, Binary):
        raise ValueError(f"its labels must be the two of a loss of two classes, got {labels!r}")
    return labels


def check_schema(name: str, value: Any, parts: Mapping[str, FieldCheck]) -> None:
    """Raise ValueError unless a value is a mapping whose fields pass their checks."""
    if not isinstance(value, dict):
        raise ValueError(f"its {name} is not as fiol train writes it, but {reprlib.repr(value)}")
    for part, check in parts.items():
        if part not in value and part not in OPTIONAL_FIELDS:
            raise ValueError(f"its {name} is not as fiol train writes it: {part} is missing")
        if part in value and not check(value[part]):
            raise ValueError(f"its {name} is not as fiol train writes it: {part} = {reprlib.repr(value[part])}")


def whole_from(least: int) -> FieldCheck:
    """Return a check for whole numbers of at least `least`."""
    return lambda value: type(value) is int and least <= value < 2**63


def is_finite_number(value: Any) -> bool:
    """Return whether a value is a finite number."""
    return type(value) in (int, float) and abs(value) < 2**1023 and math.isfinite(value)


def is_total(value: Any) -> bool:
    """Return whether a value is a number as `metrics.as_text` writes it."""
    return is_finite_number(value) or value in ("inf", "-inf", "nan")


def is_loss(value: Any) -> bool:
    """Return whether a value is a loss, or None."""
    return value is None or is_finite_number(value)


def made_of(*checks: FieldCheck) -> FieldCheck:
    """Return a check for a list with one entry for each of these checks."""
    return lambda value: (
        isinstance(value, list)
        and len(value) == len(checks)
        and all(check(v) for check, v in zip(checks, value, strict=True))
    )


def list_of(check: FieldCheck) -> FieldCheck:
    """Return a check for a list of any length."""
    return lambda value: isinstance(value, list) and all(map(check, value))


def is_regime(value: Any) -> bool:
    """Return whether a value is a `Regime` as a mapping."""
    try:
        plain = {name: value for name, value in value.items() if name != "jobs"} if isinstance(value, dict) else None
        return plain is not None and dataclasses.asdict(Regime.from_json(value)) == plain
    except (TypeError, ValueError):
        return False


def is_target_table(value: Any) -> bool:
    """Return whether a value is a list of targets, ascending, and a list of their weights."""
    return (
        made_of(list_of(is_finite_number), list_of(is_finite_number))(value)
        and len(value[0]) == len(value[1])
        and value[0] == sorted(value[0])
    )


def are_pending(value: Any) -> bool:
    """Return whether a value is scores, targets and weights of rows as `PassMetrics.to_json` writes them."""
    try:
        scores, y, weights = map(from_base64, value)
    except (TypeError, ValueError):
        return False
    return (
        0 < len(y) == len(weights) <= BLOCK_ROWS and len(scores) % len(y) == 0 and (y.dtype.kind != "i" or min(y) >= 0)
    )


def is_label(value: Any) -> bool:
    """Return whether a value is a label as JSON has it."""
    return isinstance(value, (str, bool, int, float))


def is_asked(value: Any) -> bool:
    """Return whether a value holds the options and file names of a command."""
    return isinstance(value, dict) and list_of(lambda name: isinstance(name, str))(value.get("data", []))


def is_column_summary(value: Any) -> bool:
    """Return whether a value is the summary of a column as `column_summary.summarize_columns` writes it."""
    return (
        isinstance(value, dict)
        and is_label(value.get("name"))
        and isinstance(value.get("kind"), str)
        and value["kind"].partition(":")[0] in COLUMN_KINDS
        and list_of(lambda text: isinstance(text, str))(value.get("examples"))
        and all(value.get(part) is None or is_finite_number(value[part]) for part in ("missing", "features"))
    )


def are_metrics(value: Any) -> bool:
    """Return whether a value is `PassMetrics` as a mapping."""
    return isinstance(value, dict) and all(
        check(value[part]) if part in value else part in OPTIONAL_FIELDS for part, check in METRIC_FIELDS.items()
    )


#: Fields that older files or first checkpoints do not have.
OPTIONAL_FIELDS = (
    "windows", "members", "asked", "columns", "pending", "classes", "base", "rows_read", "digests", "class_weight",
    "digests_before",
)  # fmt: skip
ASKED_FIELDS: dict[str, FieldCheck] = {"asked": is_asked, "columns": list_of(is_column_summary)}
METRIC_FIELDS: dict[str, FieldCheck] = {
    "rows": whole_from(0),
    "targets": is_target_table,
    "windows": made_of(whole_from(1), list_of(made_of(whole_from(0), is_finite_number, is_total))),
    **dict.fromkeys(("loss", "since", "held_out"), made_of(is_total, is_finite_number)),
    "pending": are_pending,
    "classes": whole_from(0),
}
RUN_FIELDS: dict[str, FieldCheck] = {
    **ASKED_FIELDS,
    "regime": is_regime,
    **dict.fromkeys(("pass", "piece"), whole_from(1)),
    **dict.fromkeys(("rows", "scored", "missing"), whole_from(0)),
    "figures": are_metrics,
    "best": lambda value: value is None or made_of(whole_from(1), is_finite_number)(value),
    "why": lambda value: isinstance(value, str),
    "finished": lambda value: type(value) is bool,
    "base": made_of(*[whole_from(0)] * 4),
    "rows_read": whole_from(0),
    "digests": list_of(
        made_of(lambda value: isinstance(value, str), whole_from(0), lambda value: isinstance(value, str))
    ),
    "digests_before": whole_from(0),
    "class_weight": lambda value: value is None or list_of(made_of(is_label, is_finite_number))(value),
}
LINE_FIELDS: dict[str, FieldCheck] = {
    **dict.fromkeys(Line._fields, is_loss),
    **dict.fromkeys(("number", "rows", "nonzeros", "features"), whole_from(0)),
    "members": list_of(is_loss),
}
