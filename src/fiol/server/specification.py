"""Models without rows, made from a specification of their training."""

from __future__ import annotations

import json
import os
from typing import Any

from fiol.components.joint_losses import JointLoss
from fiol.components.losses import Binary
from fiol.features.table_encoding import TableEncoding
from fiol.names import loss_named
from fiol.workflow.job import model_of_options
from fiol.workflow.model import TrainedModel, open_model
from fiol.workflow.options import TrainOptions

#: Options of `fiol.train` that concern files, rows and passes, and that a model without rows does not have.
NOT_SERVED = (
    *("target", "weight", "class_weight", "tag", "format", "reader"),
    *("on_error", "passes", "shuffle", "seed", "holdout", "early_stop"),
)


def empty_model(given: dict[str, Any]) -> TrainedModel:
    """Return a model before its first row, by options of `fiol.train` and `labels`.

    Parameters
    ----------
    given : `loss` (required), `labels` (the two labels of a binary loss, negative first, or all classes), `columns`
        (the kind of every column; without it rows are dicts of named features), `pairs`, `penalty`, `alpha`,
        `l1_ratio`, `algorithm`, `step_size`, `bits`, `max_features`, `intercept`, `average`, `dtype`, `features`
        ("linear" unless given).

    Examples
    --------
    >>> model = empty_model({"loss": "log_loss", "labels": ["no", "yes"]})
    >>> model.labels, model.rounds
    (['no', 'yes'], 0)
    """
    given = dict(given)
    labels = given.pop("labels", None)
    wrong = next((name for name in given if name in NOT_SERVED), None)
    if wrong is not None:
        raise ValueError(f"a specification of a served model has no option {wrong!r}")
    if not isinstance(given.get("loss"), str):
        raise ValueError('a specification names the loss, such as {"loss": "log_loss", "labels": ["no", "yes"]}')
    try:
        options = TrainOptions(**{"features": "linear", **given})
    except TypeError as error:
        raise ValueError(f"a specification has options of fiol.train, and labels: {error}") from None
    loss = loss_named(options.loss)
    encoding = None
    if options.columns:
        spec = TableEncoding.from_spec(options.columns, missing=options.missing or None)
        encoding = TableEncoding(
            tuple(column.with_all_parts() for column in spec.columns),
            pairs=tuple(map(tuple, options.pairs)),
            complete=True,
            missing=spec.missing,
        )
    model = model_of_options(options, loss, encoding)
    if isinstance(loss, Binary):
        if not isinstance(labels, list) or len(labels) != 2:
            raise ValueError(f"labels are the two labels of {options.loss}, the negative one first; got {labels!r}")
        model.meta["labels"] = labels
    elif isinstance(loss, JointLoss):
        if not isinstance(labels, (list, type(None))):
            raise ValueError(f"labels are a list of the classes of {options.loss}, got {labels!r}")
        model.add_classes(labels or [])
    elif labels is not None:
        raise ValueError(f"{options.loss} predicts numbers, and has no labels")
    _ = model.task
    return model


def model_from_file(path: str) -> Any:
    """Return the model in a model file, or the empty model of a specification in a JSON file."""
    if path.endswith(".json"):
        with open(path, encoding="utf-8") as file:
            try:
                given = json.load(file)
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from None
        if not isinstance(given, dict):
            raise ValueError(f"{path}: a specification is a JSON object")
        return empty_model(given)
    return open_model(os.fspath(path))
