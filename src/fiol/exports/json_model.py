"""A model as JSON, and back: for people to read, to keep in version control, and to carry between versions.

An object with these keys; numbers have all their digits:

| key | what |
|---|---|
| `fiol_json` | 1, the version of this form |
| `learner`, `labels`, `link` | for people: what learned, the labels, and what predictions are made of scores |
| `intercept` | a number, or one per class |
| `weights` | a list of [name or number, weight], or [name, [weight of every class]]; those that are 0 are left out |
| `meta` | how data are read, the history, and whatever the user keeps with the model |
| `model` | update, options, names, classes: the header of a model file (`fiol.persistence.model`) |
| `state` | all arrays that change while learning, or null |

With its state a model goes on learning, and predicts, to the same bits. Without, it is one to predict with, up to the
last digits, by the weights that stand there, which may have been edited by hand; it would learn anew, from these.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from fiol.algorithms.update import Update
from fiol.exports.linear import NoExportError, linear_model
from fiol.features.file_header import check_header, classes_in
from fiol.learner import Learner
from fiol.persistence import component_json, records
from fiol.persistence.model import Path, StoredModel, build_model, with_encoding_in_meta, without_repeated_encoding
from fiol.persistence.model_file import ModelFileError, Selected

#: The version of the form.
JSON_FORM = 1
#: The keys that every such file has.
JSON_KEYS = ("intercept", "weights", "meta", "model", "state")
#: Numbers that JSON does not have.
NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def model_to_json(learner: Any, state: bool = True) -> dict[str, Any]:
    """A learner as plain JSON values; without `state` for predicting alone.

    >>> from fiol import FIOL, Learner, Squared
    >>> learner = Learner(FIOL(Squared()), compiled=False)
    >>> score = learner.learn_named({"age": 2.0, "city": "Rome"}, y=1.0)
    >>> told = model_to_json(learner)
    >>> told["weights"] == [["age", learner.weights[0]], ["city=Rome", learner.weights[1]]]
    True
    >>> model_from_json(told, compiled=False).score_named({"age": 3.0}) == learner.score_named({"age": 3.0})
    True
    """
    if not isinstance(learner, Learner):
        raise NoExportError(f"only a Learner is exported, got {type(learner).__name__}")
    learner = learner.copy()
    linear = linear_model(learner)
    header = without_repeated_encoding(learner.core.header(), learner.meta)
    if not state:
        update = Update(learner.update.loss)
        header = {**header, "update": component_json.to_json(update), "statistics": list(update.statistics())}
    return {
        "fiol_json": JSON_FORM,
        "learner": learner.update.brief(),
        "labels": linear.labels,
        "link": linear.link,
        "intercept": one_or_all(linear.intercepts.tolist(), linear.joint),
        "weights": [[name, one_or_all(weights, linear.joint)] for name, weights in linear.entries()],
        "meta": learner.meta,
        "model": header,
        "state": {name: array_to_json(a) for name, a in records.pack(learner.core.arrays()).items()} if state else None,
    }


def model_from_json(value: Any, compiled: bool = True) -> Learner:
    """The learner that `model_to_json` told; ValueError if it makes no sense."""
    if not isinstance(value, dict) or value.get("fiol_json") != JSON_FORM:
        raise ValueError(f'it is no model: an object with "fiol_json": {JSON_FORM}')
    for key in JSON_KEYS:
        if key not in value:
            raise ValueError(f"its {key!r} is missing")
    header, meta, state = value["model"], value["meta"], value["state"]
    if not isinstance(header, dict) or not isinstance(meta, dict):
        raise ValueError("its model or its meta is no object")
    header = with_encoding_in_meta(header, meta)
    if state is None:
        learner = learner_of_weights({**value, "model": header}, compiled)
        learner.meta = meta
        return learner
    if not isinstance(state, dict):
        raise ValueError("its state is no object")
    arrays = records.unpack({name: array_from(name, told) for name, told in state.items()})
    learner = Learner.from_parts(header, arrays, compiled)
    learner.meta = meta
    if dict(model_to_json(learner)["weights"]) != dict(told_weights(value)):
        raise ValueError(
            'its weights are not those of its state: with "state": null it predicts by the weights as they stand there'
        )
    return learner


def learner_of_weights(value: dict[str, Any], compiled: bool) -> Learner:
    """The learner that begins with weights as they are told."""
    header = value["model"]
    check_header(header)
    update: Any = component_json.from_json(header["update"])
    known = classes_in(header.get("labels"))
    learner = Learner(update, **header["options"], classes=known, compiled=compiled)
    learner.core.space.restore(header)
    names = learner.names
    features = learner.n_features
    places = {name: i for i, name in enumerate(range(features) if names is None else names)}
    many = () if learner.classes is None else (len(learner.classes),)
    weights = np.zeros((*many, features))
    for name, weight in told_weights(value):
        if name not in places:
            raise ValueError(f"its weights have {name!r}, which is none of its features")
        weights[..., places[name]] = weight
    learner.start_from(weights, value["intercept"])
    return learner


def told_weights(value: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Names, or numbers, and weights."""
    if not isinstance(value["weights"], list):
        raise ValueError("its weights are no list")
    for entry in value["weights"]:
        if not isinstance(entry, list) or len(entry) != 2 or not isinstance(entry[0], (str, int)):
            raise ValueError(f"its weights are pairs of a name and a weight, got {entry!r}")
        yield entry[0], entry[1]


def one_or_all(values: list[float], joint: bool) -> Any:
    """The only value, or one per class."""
    return values if joint else values[0]


def array_to_json(array: Any) -> dict[str, Any]:
    """An array as JSON values that `array_from` turns into the same bits, all NaN being one.

    >>> array_to_json(np.array([[0.1, -0.0], [np.inf, 1.0]]))
    {'dtype': 'float64', 'shape': [2, 2], 'values': [0.1, -0.0, 'inf', 1.0]}
    """
    whole = array.array[array.chosen] if isinstance(array, Selected) else array
    values = whole.ravel().tolist()
    if whole.dtype.kind == "f" and not np.isfinite(whole).all():
        values = [number if math.isfinite(number) else str(number) for number in values]
    return {"dtype": whole.dtype.name, "shape": list(whole.shape), "values": values}


def array_from(name: str, told: Any) -> Any:
    """The array that `array_to_json` told; ValueError if it makes no sense."""
    if not isinstance(told, dict) or told.keys() != {"dtype", "shape", "values"}:
        raise ValueError(f"its state {name!r} has not a dtype, a shape and values")
    values = [NOT_FINITE.get(number, number) if isinstance(number, str) else number for number in told["values"]]
    try:
        dtype = np.dtype(told["dtype"])
        if dtype.kind not in "biuf":
            raise ValueError(f"{dtype} is no type of numbers")
        return np.array(values, dtype).reshape(told["shape"])
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"its state {name!r} is no array: {error}") from None


def model_as_json(learner: Any, state: bool = True) -> str:
    """A learner as text: one weight a line, so that two models can be compared line by line."""
    parts = []
    for key, value in model_to_json(learner, state).items():
        if key == "weights":
            lines = ",\n  ".join(in_a_line(entry) for entry in value)
            parts.append(f'"weights": [\n  {lines}\n ]' if value else '"weights": []')
        elif key == "state" and value is not None:
            lines = ",\n  ".join(f"{in_a_line(name)}: {in_a_line(array)}" for name, array in value.items())
            parts.append(f'"state": {{\n  {lines}\n }}')
        else:
            parts.append(f"{in_a_line(key)}: {in_a_line(value)}")
    return "{\n " + ",\n ".join(parts) + "\n}\n"


def in_a_line(value: Any) -> str:
    """A JSON value in a line."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def load_json(path: Path, compiled: bool = True) -> Learner:
    """The learner in a file of JSON, as `fiol export --to json` and `fiol.exports.json_model.model_as_json` write it.

    With its state it goes on, and predicts, to the same bits as the learner that was exported; without, it predicts up
    to the last digits. Nothing in the file is run or imported. ModelFileError if it makes no sense.

    >>> import pathlib, tempfile, fiol
    >>> learner = fiol.Learner(fiol.FIOL(fiol.Squared()), compiled=False)
    >>> score = learner.learn_named({"age": 2.0}, y=1.0)
    >>> path = pathlib.Path(tempfile.mkdtemp(), "model.json")
    >>> _ = path.write_text(model_as_json(learner), encoding="utf-8")
    >>> fiol.load_json(path, compiled=False).weights == learner.weights
    array([ True])
    """
    with open(path, encoding="utf-8") as file:
        try:
            value = json.load(file)
        except (ValueError, RecursionError) as error:
            raise ModelFileError(f"{os.fspath(path)} is no JSON: {error}") from None
    stored = StoredModel(Learner.KIND, {}, {}, value.get("meta", {}) if isinstance(value, dict) else {})
    return build_model(path, stored, lambda *_: model_from_json(value, compiled), compiled)  # type: ignore[no-any-return]
