"""Models as JSON, and back: to read, to keep in version control, and to move between versions.

An object with these keys; numbers have all their digits:

| key | contents |
|---|---|
| `fiol_json` | 1, the version of the format |
| `kind` | the kind of model, as in model files; `"learner"` if it is absent |
| `learner`, `labels`, `link` | for readers: the algorithm, the labels, and the link between scores and predictions |
| `intercept` | a number, or one per class |
| `weights` | a list of [name or number, weight], or [name, [weight of every class]]; weights of 0 are left out |
| `meta` | how data are read, the history, and what the user stores with the model |
| `model` | update, options, names, classes: the header of a model file (`fiol.persistence.model`) |
| `state` | all arrays that change while learning, or null |

With its state a model predicts and continues learning to the same bits. Without, a `Learner` predicts, up to the last
digits, by the weights in the file, which may have been edited by hand; it would learn anew, from these.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

import fiol.public  # noqa: F401 - registers the classes of estimators
from fiol.algorithms.update import Update
from fiol.exports.linear import ExportedModel, NoExportError, completed, linear_model
from fiol.features.file_header import check_header, classes_in
from fiol.learner import Learner
from fiol.learner.model import Model
from fiol.persistence import component_json, records
from fiol.persistence.model import (
    BUILDERS,
    Path,
    StoredModel,
    build_model,
    builder_for,
    with_encoding_in_meta,
    without_repeated_encoding,
)
from fiol.persistence.model_file import ModelFileError, Selected

#: The version of the format.
JSON_VERSION = 1
#: Keys that every file has.
JSON_KEYS = ("intercept", "weights", "meta", "model", "state")
#: Numbers that JSON cannot express.
NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def model_to_json(model: Any, state: bool = True) -> dict[str, Any]:
    """Return a model as plain JSON values; without `state`, which only a `Learner` can do, for predicting alone.

    >>> from fiol import FIOL, Learner, Squared
    >>> learner = Learner(FIOL(Squared()), compiled=False)
    >>> score = learner.learn_named({"age": 2.0, "city": "Rome"}, y=1.0)
    >>> value = model_to_json(learner)
    >>> value["weights"] == [["age", learner.weights[0]], ["city=Rome", learner.weights[1]]]
    True
    >>> model_from_json(value, compiled=False).score_named({"age": 3.0}) == learner.score_named({"age": 3.0})
    True
    """
    if isinstance(model, Model):
        model = model.copy() if state else completed(model)
    linear = linear_model(model)
    kind, header, arrays = parts_of_model(model)
    meta = getattr(model, "meta", {})
    header = without_repeated_encoding(header, meta)
    if not state:
        if linear.basis is not None:
            raise NoExportError("a model with curves and pairs has no JSON without its state: leave state True")
        if not isinstance(model, Learner):
            raise NoExportError(f"a {type(model).__name__} has no JSON without its state: leave state True")
        update = Update(model.update.loss)
        header = {**header, "update": component_json.to_json(update), "statistics": list(update.statistics())}
    return {
        "fiol_json": JSON_VERSION,
        "kind": kind,
        "learner": model.update.brief() if isinstance(model, Model) else type(model).__name__,
        "labels": linear.labels,
        "link": linear.link,
        "intercept": one_or_all(linear.intercepts.tolist(), linear.per_class),
        "weights": [[name, one_or_all(weights, linear.per_class)] for name, weights in entries_of_all_features(linear)],
        "meta": meta,
        "model": header,
        "state": {name: array_to_json(a) for name, a in records.pack(arrays).items()} if state else None,
    }


def entries_of_all_features(linear: ExportedModel) -> Iterable[tuple[str | int, list[float]]]:
    """Return names and weights of all features with a weight other than 0, hats and nodes included."""
    if linear.basis is not None:
        linear = dataclasses.replace(linear, weights=linear.basis.weights, names=linear.basis.names)
    return linear.entries()


def parts_of_model(model: Any) -> tuple[str, dict[str, Any], Any]:
    """Return the kind, the header and the arrays that a model file would have."""
    if isinstance(model, Model):
        if model.core.labels is not None:
            model.core.labels.check_storable()
        return model.KIND, model.core.header(), model.core.arrays()
    return (model._kind, *model._parts())


def model_from_json(value: Any, compiled: bool = True) -> Any:
    """Return the model of `model_to_json`; ValueError for anything else."""
    if not isinstance(value, dict) or value.get("fiol_json") != JSON_VERSION:
        raise ValueError(f'it is no model: an object with "fiol_json": {JSON_VERSION}')
    for key in JSON_KEYS:
        if key not in value:
            raise ValueError(f"its {key!r} is missing")
    header, meta, state, kind = value["model"], value["meta"], value["state"], value.get("kind", Learner.KIND)
    if not isinstance(header, dict) or not isinstance(meta, dict):
        raise ValueError("its model or its meta is no object")
    if kind not in BUILDERS:
        raise ValueError(f"its kind must be one of {', '.join(sorted(BUILDERS))}, got {kind!r}")
    header, build = with_encoding_in_meta(header, meta), builder_for(kind, meta)
    if state is None:
        if kind != Learner.KIND:
            raise ValueError(f"its state is null, and a {kind} needs one")
        learner = learner_of_weights({**value, "model": header}, compiled)
        model = build(learner.core.header(), learner.core.arrays(), compiled)
        model.meta = meta
        return model
    if not isinstance(state, dict):
        raise ValueError("its state is no object")
    arrays = records.unpack({name: array_from(name, stored) for name, stored in state.items()})
    model = build(header, arrays, compiled)
    model.meta = meta
    found = model_to_json(model)["weights"]
    if not agree(dict(found), dict(with_names_of(found, [*weights_in(value)]))):
        raise ValueError(
            'its weights are not those of its state: with "state": null it predicts by the weights in the file'
        )
    return model


def learner_of_weights(value: dict[str, Any], compiled: bool) -> Learner:
    """Return the learner that begins with the weights of a JSON object."""
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
    for name, weight in weights_in(value):
        if name not in places:
            raise ValueError(f"its weights have {name!r}, which is none of its features")
        weights[..., places[name]] = weight
    learner.start_from(weights, value["intercept"])
    return learner


def weights_in(value: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the name or number of every feature and its weight, or its weights."""
    if not isinstance(value["weights"], list):
        raise ValueError("its weights are no list")
    for entry in value["weights"]:
        if not isinstance(entry, list) or len(entry) != 2 or not isinstance(entry[0], (str, int)):
            raise ValueError(f"its weights are pairs of a name and a weight, got {entry!r}")
        yield entry[0], entry[1]


def with_names_of(found: list[Any], given: list[Any]) -> list[Any]:
    """Return names and weights of a file with the names `found` where only digits differ, as in older files.

    >>> with_names_of([["a~0.3", 1.0], ["b", 2.0]], [["a~0.3000000000000001", 1.0], ["c", 2.0]])
    [['a~0.3', 1.0], ['c', 2.0]]
    """
    if len(found) != len(given):
        return given
    pairs = zip(found, given, strict=True)
    return [[name if six_digits(name) == six_digits(other) else other, w] for (name, _), (other, w) in pairs]


def six_digits(name: Any) -> str:
    """Return a name with its numbers rounded to six digits.

    >>> six_digits("a~-0.006666666666666661 & b=3.0")
    'a~-0.00666667 & b=3'
    """
    return re.sub(r"-?\d+(\.\d+)?(e[+-]?\d+)?", lambda number: f"{float(number[0]):.6g}", str(name))


def agree(found: dict[Any, Any], given: dict[Any, Any]) -> bool:
    """Return whether weights by name are equal but for last digits, which compiled code may round in another way.

    >>> agree({"age": 1.0 + 1e-15}, {"age": 1.0}), agree({"age": 1.001}, {"age": 1.0}), agree({}, {"age": 1.0})
    (True, False, False)
    """
    if found.keys() != given.keys():
        return False
    try:
        own, other = (np.array([weights[name] for name in found], np.float64) for weights in (found, given))
    except (TypeError, ValueError):
        return False
    return own.shape == other.shape and bool(
        np.allclose(own, other, rtol=1e-9, atol=1e-12 * np.abs(own).max(initial=0))
    )


def one_or_all(values: list[float], joint: bool) -> Any:
    """Return the only value, or all of them, one per class."""
    return values if joint else values[0]


def array_to_json(array: Any) -> dict[str, Any]:
    """Return an array as JSON values, which `array_from` reads back to the same bits; all NaN are one.

    >>> array_to_json(np.array([[0.1, -0.0], [np.inf, 1.0]]))
    {'dtype': 'float64', 'shape': [2, 2], 'values': [0.1, -0.0, 'inf', 1.0]}
    """
    whole = array.array[array.chosen] if isinstance(array, Selected) else array
    values = whole.ravel().tolist()
    if whole.dtype.kind == "f" and not np.isfinite(whole).all():
        values = [number if math.isfinite(number) else str(number) for number in values]
    return {"dtype": whole.dtype.name, "shape": list(whole.shape), "values": values}


def array_from(name: str, stored: Any) -> Any:
    """Return the array of `array_to_json`; ValueError for anything else."""
    if not isinstance(stored, dict) or stored.keys() != {"dtype", "shape", "values"}:
        raise ValueError(f"its state {name!r} has not a dtype, a shape and values")
    values = [NOT_FINITE.get(number, number) if isinstance(number, str) else number for number in stored["values"]]
    try:
        dtype = np.dtype(stored["dtype"])
        if dtype.kind not in "biuf":
            raise ValueError(f"{dtype} is no type of numbers")
        return np.array(values, dtype).reshape(stored["shape"])
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"its state {name!r} is no array: {error}") from None


def model_as_json(model: Any, state: bool = True) -> str:
    """Return a model as JSON text with one weight on a line, so that two models can be compared line by line."""
    parts = []
    for key, value in model_to_json(model, state).items():
        if key == "weights":
            lines = ",\n  ".join(on_one_line(entry) for entry in value)
            parts.append(f'"weights": [\n  {lines}\n ]' if value else '"weights": []')
        elif key == "state" and value is not None:
            lines = ",\n  ".join(f"{on_one_line(name)}: {on_one_line(array)}" for name, array in value.items())
            parts.append(f'"state": {{\n  {lines}\n }}')
        else:
            parts.append(f"{on_one_line(key)}: {on_one_line(value)}")
    return "{\n " + ",\n ".join(parts) + "\n}\n"


def on_one_line(value: Any) -> str:
    """Return a JSON value on one line; where it has characters that are not printable, all beyond ASCII are escaped.

    >>> on_one_line("Zürich"), on_one_line("Z\x9b1m")
    ('"Zürich"', '"Z\\\\u009b1m"')
    """
    text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(value, allow_nan=False)


def load_json(path: Path, compiled: bool = True) -> Any:
    """Return the model in a JSON file that `fiol export --to json` or `model.to_json()` wrote.

    With its state the model predicts and continues learning to the same bits as the model that was exported; without,
    it predicts the same except for the last digits. Nothing in the file is run or imported. ModelFileError for a file
    that is no such model.

    >>> import pathlib, tempfile, fiol
    >>> learner = fiol.Learner(fiol.FIOL(fiol.Squared()), compiled=False)
    >>> score = learner.learn_named({"age": 2.0}, y=1.0)
    >>> path = pathlib.Path(tempfile.mkdtemp(), "model.json")
    >>> _ = path.write_text(learner.to_json(), encoding="utf-8")
    >>> fiol.load_json(path, compiled=False).weights == learner.weights
    array([ True])
    """
    if isinstance(path, str) and path.lstrip().startswith("{"):
        raise ValueError("path must be that of a file, got the text of a model: write the text to a file first")
    with open(path, encoding="utf-8") as file:
        try:
            value = json.load(file)
        except (ValueError, RecursionError) as error:
            raise ModelFileError(f"{os.fspath(path)} is no JSON: {error}") from None
    stored = StoredModel("", {}, {}, value.get("meta", {}) if isinstance(value, dict) else {})
    return build_model(path, stored, lambda *_: model_from_json(value, compiled), compiled)
