"""Estimators as files: parameters, columns, classes and the model inside. The bytes are those of `fiol.files.model`.

| key of the header | what |
|---|---|
| `parameters` | those of the constructor: plain values, and components as recipes |
| `columns` | `n_features_in_` |
| `names` | `feature_names_in_`, null without names |
| `passes`, `rounds_before` | `n_iter_`, and rounds made before the last `fit` began |
| `sparse` | whether `coef_` is a sparse matrix |
| `inner`, `model` | the kind and the header of the model inside; its classes are called by their codes |
| `labels` | of classifiers: `classes_` if they are texts, else null |
| `order`, `closed` | the place in `classes_` of each class of the model; whether there will be no others |

The arrays are those of the model, `losses` (`loss_curve_`), and of classifiers `classes` (unless they are texts) and
`class_weights` (one per class, empty without any).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fiol.components.component import Component
from fiol.files import recipe
from fiol.intake.labels import AnyLabels
from fiol.learner import Learner
from fiol.models.one_vs_rest import OneVsRest

#: The models that an estimator may have inside, by kind.
INNER: dict[str, Any] = {"learner": Learner, "one-vs-rest": OneVsRest}
#: Arrays that are not the model's.
OWN_ARRAYS = ("losses", "classes", "class_weights")


def parts_of(estimator: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and the arrays of a fitted estimator; TypeError if a file cannot hold them."""
    model = estimator._inside()
    known = {name: value_to_json(name, value) for name, value in estimator.get_params(deep=False).items()}
    names = getattr(estimator, "feature_names_in_", None)
    header = {
        "parameters": known,
        "columns": int(estimator.n_features_in_),
        "names": None if names is None else [str(name) for name in names],
        "passes": int(estimator.n_iter_),
        "rounds_before": int(estimator._rounds_before_fit),
        "sparse": bool(estimator._sparse),
        "inner": next(kind for kind, of in INNER.items() if isinstance(model, of)),
        "model": model._header(),
    }
    arrays = {**model.arrays(), "losses": np.array(estimator._losses, np.float64)}
    if not hasattr(estimator, "classes_"):
        return header, arrays
    classes, weights = estimator.classes_, estimator._class_weights
    plain = classes.tolist()
    header["model"]["labels"]["classes"] = list(range(len(plain)))
    header |= {"labels": None, "order": [plain.index(label) for label in model.classes], "closed": estimator._closed}
    arrays["class_weights"] = np.empty(0) if weights is None else weights
    if classes.dtype.kind in "biuf":
        arrays["classes"] = classes
    elif all(isinstance(label, str) for label in plain):
        header["labels"] = {"texts": plain, "objects": classes.dtype.kind == "O"}
    else:
        raise TypeError(f"a file holds classes that are numbers or texts, got {plain}")
    return header, arrays


def restore(estimator: Any, header: dict[str, Any], arrays: dict[str, Any], compiled: bool) -> None:
    """Let an estimator before its first fit be the one of a header and arrays; ValueError if these make no sense."""
    own = {name: arrays.pop(name) for name in OWN_ARRAYS if name in arrays}
    counts = {name: header[name] for name in ("columns", "passes", "rounds_before")}
    for name, count in counts.items():
        if type(count) is not int or count < 0:
            raise ValueError(f"its {name} are given as {count!r}")
    names, inner = header["names"], INNER.get(header["inner"])
    if inner is None:
        raise ValueError(f"its model is of the unknown kind {header['inner']!r}")
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError("its names are no texts")
    model = inner.from_parts(header["model"], arrays, compiled)
    if model.n_features != counts["columns"] or (names is not None and len(names) != counts["columns"]):
        raise ValueError(f"its model has {model.n_features} features, not its {counts['columns']} columns")
    if "losses" not in own or own["losses"].ndim != 1:
        raise ValueError("array 'losses' is missing, or not one number per pass")
    if hasattr(estimator, "class_weight"):
        restore_classes(estimator, header, own, model)
    estimator._begin()
    estimator._go_on_with(model)
    estimator.n_features_in_, estimator.n_iter_ = counts["columns"], counts["passes"]
    estimator._rounds_before_fit, estimator._sparse = counts["rounds_before"], header["sparse"] is True
    estimator._losses.extend(own["losses"].tolist())
    if names is not None:
        estimator.feature_names_in_ = np.array(names, object)


def restore_classes(estimator: Any, header: dict[str, Any], own: dict[str, Any], model: Any) -> None:
    """Let a classifier, and the model inside, have the classes of a file."""
    labels, order = header["labels"], header["order"]
    if labels is None:
        classes = own.get("classes", np.empty(0))
    else:
        texts = labels["texts"]
        if not isinstance(texts, list) or not all(isinstance(label, str) for label in texts):
            raise ValueError("its classes are no texts")
        classes = np.array(texts, object if labels["objects"] is True else None)
    count, weights = len(classes), own.get("class_weights", np.empty(0))
    distinct = classes.ndim == 1 and len(set(classes.tolist())) == count > 0
    if not distinct or list(model.classes or ()) != list(range(count)):
        raise ValueError(f"its model has not the {count} classes that it names")
    if not isinstance(order, list) or sorted(order, key=str) != sorted(range(count), key=str):
        raise ValueError(f"the order of its classes is given as {order!r}")
    if weights.shape not in ((0,), (count,)) or weights.dtype != np.float64:
        raise ValueError("array 'class_weights' has not one number per class")
    if header["closed"] is not model.closed:
        raise ValueError("its model and its header differ on whether there will be other classes")
    plain = classes.tolist()
    model.rename(AnyLabels(plain[k] for k in order))
    estimator.classes_, estimator._closed = classes, model.closed
    estimator._class_weights = weights if len(weights) else None


def value_to_json(name: str, value: Any) -> Any:
    """A parameter as plain JSON, a component as its recipe; TypeError if it is neither."""
    if isinstance(value, Component):
        return {"recipe": recipe.to_json(value)}
    if isinstance(value, dict):
        pairs = [[value_to_json(name, key), value_to_json(name, entry)] for key, entry in value.items()]
        return {"pairs": pairs}
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a file holds parameters that are plain values or components, but {name} is {value!r}")


def value_from_json(value: Any) -> Any:
    """The parameter that `value_to_json` wrote."""
    if isinstance(value, dict) and "pairs" in value:
        return {value_from_json(key): value_from_json(entry) for key, entry in value["pairs"]}
    return recipe.from_json(value["recipe"]) if isinstance(value, dict) else value
