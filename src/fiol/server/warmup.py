"""`warm_up_served`: compile what a model needs to learn and predict, before requests wait for it."""

from __future__ import annotations

import datetime
from typing import Any

from fiol.features.table_encoding import Column
from fiol.server.messages import Features, LabelRules, LearnRecord
from fiol.server.model_metrics import adwin
from fiol.server.served_model import ROW_ERRORS, ServedModel

#: Rows of the requests that are tried: one row, and many, take different paths through the library.
SAMPLE_COUNTS = (1, 2, 40)
#: Numbers in sample rows are about this one, and the first rows have the same strings: ensembles center features that
#: all first rows have and whose values are far from 0.
FAR_NUMBER, SAME_TEXT_ROWS = 100.0, 30
#: The number of the row without its first value; its strings are those of row 0.
LACKING_ROW = 36
#: The time in sample rows.
SAMPLE_TIME = datetime.datetime(2024, 3, 4, 13, 45)


def warm_up_served(model: Any) -> str | None:
    """Compile, or load, everything that learning and predicting need; return why sample rows were refused, if so.

    A copy of the model learns from sample rows of the model's own columns. The model itself does not change. Runs in
    any thread, if no other thread changes the model meanwhile.

    >>> from fiol.server.specification import empty_model
    >>> model = empty_model({"loss": "log_loss", "labels": ["no", "yes"], "columns": {"day": "date", "size": "number"}})
    >>> warm_up_served(model), model.rounds
    (None, 0)
    """
    adwin()  # importing River takes a second
    labels: list[Any] = model.labels or [0.0, 1.0]
    served = ServedModel("warm-up", model.copy(), LabelRules())
    try:
        for position, count in enumerate((*SAMPLE_COUNTS, *SAMPLE_COUNTS), 1):  # new features, then known ones
            rows = [sample_row(model, row) for row in range(count)]
            targets = [labels[row % len(labels)] for row in range(count)]
            served_scores = [one.score for one in served.reader.predict(rows)]
            encoded = served.encode(rows, targets, [1.0] * count)
            served.learn(encoded, LearnRecord(rows, targets, None, None, served_scores), position)
            served.refresh()
            served.publish()
        _ = served.reader.snapshot.weights
        served.file_copy()
    except ROW_ERRORS as error:
        return str(error) or type(error).__name__
    return served.metrics_error


def sample_row(model: Any, number: int) -> Features:
    """Return a row of the kind that a model takes; rows of different numbers differ.

    One row lacks its first value, and odd rows are reversed, so that indices of features have to be sorted.

    >>> from fiol.server.specification import empty_model
    >>> sample_row(empty_model({"loss": "squared_error", "columns": {"color": "category", "at": "time"}}), 1)
    {'at': '13:46', 'color': 'a'}
    """
    encoding = model.table_encoding
    if encoding is not None and encoding.columns:
        aside = set() if model.reading is None else {model.reading.target, model.reading.weight, model.reading.tag}
        columns = [one for one in encoding.columns if not one.is_left_out and one.name not in aside]
        row = {one.name: sample_value(one, number) for one in columns}
        if number == LACKING_ROW:
            row.update({one.name: None for one in columns[:1]})
    else:
        names = model.columns or ("a", "b", "cdefgh"[number % 6])
        row = {str(name): FAR_NUMBER + (number + k) % 5 for k, name in enumerate(names)}
    return dict(reversed(row.items())) if number % 2 else row


def sample_value(column: Column, number: int) -> Any:
    """Return a value of a column's kind."""
    if column.kind == "number":
        return FAR_NUMBER + number % 5
    if column.kind == "numeric_text":
        return str(FAR_NUMBER + number % 5)
    when = SAMPLE_TIME + datetime.timedelta(days=number, minutes=number)
    if column.kind == "date":
        has_hour = "hour" in column.parts
        return when.strftime(column.format or ("%Y-%m-%dT%H:%M:%S" if has_hour else "%Y-%m-%d"))
    if column.kind == "time":
        return when.strftime("%H:%M")
    text = "abcdef"[max(0, number - SAME_TEXT_ROWS) % 6]
    return [text] if column.kind == "tags" else text
