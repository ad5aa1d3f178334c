"""What a training run keeps in its model's file, looked at before anybody relies on it: `meta` may hold anything."""

from __future__ import annotations

import dataclasses
import math
import reprlib
from collections.abc import Callable, Mapping
from typing import Any

from fiol.components.losses import Binary
from fiol.training.metrics import BLOCK_ROWS, Line, from_base64
from fiol.training.run import Regime

RecordCheck = Callable[[Any], bool]


def check_checkpoint(meta: Mapping[str, Any]) -> None:
    """ValueError, with the place, if something is not as `Training.note` and the command write it.

    >>> check_checkpoint({"history": [], "training": {"asked": {"data": ["a.csv"]}}})
    >>> check_checkpoint({"training": {"regime": {"passes": 0}}})
    Traceback (most recent call last):
    ValueError: its training is not as fiol train writes it: regime = {'passes': 0}
    >>> check_checkpoint({"history": [{"rows": 5}]})
    Traceback (most recent call last):
    ValueError: its history is not as fiol train writes it: number is missing
    """
    training, history = meta.get("training", {}), meta.get("history", [])
    check_checkpoint_fields(
        "training", training, RUN_PARTS if isinstance(training, dict) and "regime" in training else ASKED_PARTS
    )
    if not isinstance(history, list):
        raise ValueError(f"its history is not as fiol train writes it, but {reprlib.repr(history)}")
    for line in history:
        check_checkpoint_fields("history", line, LINE_PARTS)
        if not line.keys() <= LINE_PARTS.keys():
            raise ValueError(
                f"its history is not as fiol train writes it: it has {sorted(line.keys() - LINE_PARTS.keys())}"
            )


def check_two_labels(meta: Mapping[str, Any], loss: Any) -> list[Any] | None:
    """The labels of two classes that a file keeps, the negative one first; None if there are none to keep.

    >>> from fiol import Logistic
    >>> check_two_labels({"labels": ["no", "yes"]}, Logistic())
    ['no', 'yes']
    >>> check_two_labels({"labels": "yes"}, Logistic())
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


def check_checkpoint_fields(name: str, told: Any, parts: Mapping[str, RecordCheck]) -> None:
    """ValueError unless a value is a mapping whose parts are what they should be."""
    if not isinstance(told, dict):
        raise ValueError(f"its {name} is not as fiol train writes it, but {reprlib.repr(told)}")
    for part, check in parts.items():
        if part not in told and part not in PARTS_OF_LATER:
            raise ValueError(f"its {name} is not as fiol train writes it: {part} is missing")
        if part in told and not check(told[part]):
            raise ValueError(f"its {name} is not as fiol train writes it: {part} = {reprlib.repr(told[part])}")


def whole_from(least: int) -> RecordCheck:
    """Whether something is a whole number from here on."""
    return lambda told: type(told) is int and least <= told < 2**63


def is_finite_number(told: Any) -> bool:
    """Whether something is a finite number."""
    return type(told) in (int, float) and abs(told) < 2**1023 and math.isfinite(told)


def is_total(told: Any) -> bool:
    """Whether something is a number as `metrics.as_text` writes it."""
    return is_finite_number(told) or told in ("inf", "-inf", "nan")


def is_told_loss(told: Any) -> bool:
    """Whether something is a loss that may not be known."""
    return told is None or is_finite_number(told)


def made_of(*checks: RecordCheck) -> RecordCheck:
    """Whether something is a list of just these."""
    return lambda told: (
        isinstance(told, list)
        and len(told) == len(checks)
        and all(check(v) for check, v in zip(checks, told, strict=True))
    )


def list_of(check: RecordCheck) -> RecordCheck:
    """Whether something is a list of any number of these."""
    return lambda told: isinstance(told, list) and all(map(check, told))


def is_regime(told: Any) -> bool:
    """Whether something is a `Regime` as a mapping."""
    try:
        plain = {name: value for name, value in told.items() if name != "jobs"} if isinstance(told, dict) else None
        return plain is not None and dataclasses.asdict(Regime.from_json(told)) == plain
    except (TypeError, ValueError):
        return False


def is_target_table(told: Any) -> bool:
    """Whether something is the targets so far, rising, and the weight of each."""
    return (
        made_of(list_of(is_finite_number), list_of(is_finite_number))(told)
        and len(told[0]) == len(told[1])
        and told[0] == sorted(told[0])
    )


def are_pending(told: Any) -> bool:
    """Return whether a value is scores, targets and weights of rows as `PassMetrics.to_json` writes them."""
    try:
        scores, y, weights = map(from_base64, told)
    except (TypeError, ValueError):
        return False
    return (
        0 < len(y) == len(weights) <= BLOCK_ROWS and len(scores) % len(y) == 0 and (y.dtype.kind != "i" or min(y) >= 0)
    )


def is_label(told: Any) -> bool:
    """Return whether a value is a label as JSON has it."""
    return isinstance(told, (str, bool, int, float))


def is_asked(told: Any) -> bool:
    """Whether something is a command as it was typed: options, and the names of files."""
    return isinstance(told, dict) and list_of(lambda name: isinstance(name, str))(told.get("data", []))


def are_figures(told: Any) -> bool:
    """Whether something is `PassMetrics` as a mapping."""
    return isinstance(told, dict) and all(
        check(told[part]) if part in told else part in PARTS_OF_LATER for part, check in FIGURE_PARTS.items()
    )


#: Parts that older files do not have, or that come later.
PARTS_OF_LATER = ("windows", "members", "asked", "pending", "classes", "base", "rows_read", "digests", "class_weight")
ASKED_PARTS: dict[str, RecordCheck] = {"asked": is_asked}
FIGURE_PARTS: dict[str, RecordCheck] = {
    "rows": whole_from(0),
    "targets": is_target_table,
    "windows": made_of(whole_from(1), list_of(made_of(whole_from(0), is_finite_number, is_total))),
    **dict.fromkeys(("loss", "since", "held_out"), made_of(is_total, is_finite_number)),
    "pending": are_pending,
    "classes": whole_from(0),
}
RUN_PARTS: dict[str, RecordCheck] = {
    **ASKED_PARTS,
    "regime": is_regime,
    **dict.fromkeys(("pass", "piece"), whole_from(1)),
    **dict.fromkeys(("rows", "scored", "missing"), whole_from(0)),
    "figures": are_figures,
    "best": lambda told: told is None or made_of(whole_from(1), is_finite_number)(told),
    "why": lambda told: isinstance(told, str),
    "finished": lambda told: type(told) is bool,
    "base": made_of(*[whole_from(0)] * 4),
    "rows_read": whole_from(0),
    "digests": list_of(made_of(lambda told: isinstance(told, str), whole_from(0), lambda told: isinstance(told, str))),
    "class_weight": lambda told: told is None or list_of(made_of(is_label, is_finite_number))(told),
}
LINE_PARTS: dict[str, RecordCheck] = {
    **dict.fromkeys(Line._fields, is_told_loss),
    **dict.fromkeys(("number", "rows", "nonzeros", "features"), whole_from(0)),
    "members": list_of(is_told_loss),
}
