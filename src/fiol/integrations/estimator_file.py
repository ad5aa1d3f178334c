"""Estimators as files: parameters, columns, classes and the model inside. The bytes are those of
`fiol.persistence.model`.

| key of the header | what |
|---|---|
| `parameters` | those of the constructor: plain values, and components as JSON |
| `columns` | `n_features_in_` |
| `names` | `feature_names_in_`, null without names |
| `passes`, `rounds_before` | `n_iter_`, and rounds made before the last `fit` began |
| `sparse` | whether `coef_` is a sparse matrix |
| `inner`, `model` | the kind and the header of the model inside; its classes are called by their codes |
| `labels` | of classifiers: `classes_` if they are strings, else null |
| `order`, `closed` | the place in `classes_` of each class of the model; whether there will be no others |

The arrays are those of the model, `losses` (`loss_curve_`), and of classifiers `classes` (unless they are strings) and
`class_weights` (one per class, empty without any).

Passive-aggressive estimators have `parameters`, `columns`, `names`, `passes`, `sparse` and `labels` as above, and

| key of the header | what |
|---|---|
| `steps` | `t_` |
| `sparse_rows` | whether they learn from sparse rows, whose intercept moves by a hundredth |
| `learners` | the headers of the learners; the arrays of the k-th begin with `k/` |

The arrays are, besides, `before` (per learner, the average weights and intercept of the rounds before averages count)
and `classes`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from fiol.components.component import Component
from fiol.exportable import Exportable
from fiol.features.feature_moments import FeatureMoments
from fiol.features.labels import AnyLabels
from fiol.features.table_encoding import TableEncoding
from fiol.learner import Learner
from fiol.models.one_vs_rest import OneVsRest
from fiol.models.one_vs_rest_core import joined_arrays
from fiol.persistence import component_json
from fiol.persistence.model import Path, build_model, read_model, write_model

#: The models that an estimator may have inside, by kind.
MODELS: dict[str, Any] = {"learner": Learner, "one-vs-rest": OneVsRest}
#: Parameters that classes had in an earlier version, and that files may still have.
DROPPED_PARAMETERS = ("n_jobs",)
#: Parameters by the names of earlier versions.
RENAMED_PARAMETERS = {"coding": "table_encoding"}
#: Arrays that are not the model's.
OWN_ARRAYS = ("losses", "classes", "class_weights")


class Saved(Exportable):
    """An estimator that is saved, loaded and exported."""

    #: What files of the class hold.
    _kind: ClassVar[str]

    def save(self, path: Path) -> None:
        """Write the fitted estimator to a file: atomically, checksummed, no pickle; see `fiol.persistence.model`.

        One that is loaded from it, by `load` of its class or by `fiol.load`, predicts and goes on learning as this one
        would, to the bit. Parameters must be plain values or components, classes numbers or strings. A dict `meta` of
        plain JSON values, if you give the estimator one, is kept with it.

        >>> import os, tempfile, fiol
        >>> model = fiol.FIOLRegressor(fiol.Huber(2.0), max_iter=1, shuffle=False).fit([[1.0], [2.0]], [1.0, 2.0])
        >>> path = os.path.join(tempfile.mkdtemp(), "model.fiol")
        >>> model.save(path)
        >>> again = fiol.load(path)
        >>> again.loss, bool(again.coef_ == model.coef_)
        (Huber(delta=2.0), True)
        """
        check_is_fitted(self)
        write_model(path, self._kind, *self._parts(), getattr(self, "meta", {}))

    @classmethod
    def load(cls, path: Path, compiled: bool = True) -> Any:
        """Return the estimator in a file of any version; raise ModelFileError for a model of another kind."""
        return build_model(path, read_model(path, cls._kind), cls.from_parts, compiled)

    @classmethod
    def from_parts(cls, header: dict[str, Any], arrays: dict[str, Any], compiled: bool = True) -> Any:
        """Return the estimator of a header and arrays."""
        known = cls._get_param_names()  # type: ignore[attr-defined]
        parameters = {
            RENAMED_PARAMETERS.get(name, name): value_from_json(value)
            for name, value in header["parameters"].items()
            if name in known or name not in DROPPED_PARAMETERS
        }
        new: Any = cls(**parameters)
        new._validate_params()
        new._become(header, arrays, compiled)
        return new

    def _parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the header and the arrays of the fitted estimator; raise TypeError if a file cannot hold them."""
        raise NotImplementedError

    def _become(self, header: dict[str, Any], arrays: dict[str, Any], compiled: bool) -> None:
        """Be the one of a header and arrays, before the first fit; ValueError if these make no sense."""
        raise NotImplementedError


# --- what all have in common ------------------------------------------------------------------


def common_parts(estimator: Any) -> dict[str, Any]:
    """Return the part of the header with parameters, columns and passes."""
    known = {name: value_to_json(name, value) for name, value in estimator.get_params(deep=False).items()}
    names = getattr(estimator, "feature_names_in_", None)
    return {
        "parameters": known,
        "columns": int(estimator.n_features_in_),
        "names": None if names is None else [str(name) for name in names],
        "passes": int(estimator.n_iter_),
    }


def restore_common(estimator: Any, header: dict[str, Any], models: list[Any], *counts: str) -> None:
    """Let an estimator have the columns and passes of a file whose models are these; `counts` are checked as well."""
    for name in ("columns", "passes", *counts):
        if type(header[name]) is not int or header[name] < 0:
            raise ValueError(f"its {name} are given as {header[name]!r}")
    names, columns = header["names"], header["columns"]
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError("its names are no strings")
    plain = [model for model in models if model.table_encoding is None]
    if any(model.core.space.features != columns for model in plain) or (names is not None and len(names) != columns):
        raise ValueError(f"its model has {models[0].core.space.features} features, not its {columns} columns")
    estimator.n_features_in_, estimator.n_iter_ = columns, header["passes"]
    if names is not None:
        estimator.feature_names_in_ = np.array(names, object)


def put_classes(classes: Any, header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write the classes of an estimator into a header, or among arrays; TypeError if a file cannot hold them."""
    header["labels"] = None
    if classes.dtype.kind in "biuf":
        arrays["classes"] = classes
    elif all(isinstance(label, str) for label in classes.tolist()):
        header["labels"] = {"texts": classes.tolist(), "objects": classes.dtype.kind == "O"}
    else:
        raise TypeError(f"a file holds classes that are numbers or strings, got {classes.tolist()}")


def classes_of(header: dict[str, Any], arrays: dict[str, Any]) -> Any:
    """Return the classes that `put_classes` wrote; raise ValueError if two are equal."""
    labels = header["labels"]
    if labels is None:
        classes = arrays.get("classes", np.empty(0))
    else:
        strings = labels["texts"]
        if not isinstance(strings, list) or not all(isinstance(label, str) for label in strings):
            raise ValueError("its classes are no strings")
        classes = np.array(strings, object if labels["objects"] is True else None)
    if classes.ndim != 1 or not len(set(classes.tolist())) == len(classes) > 0:
        raise ValueError(f"its classes are given as {classes.tolist()}")
    return classes


# --- estimators with a model inside -----------------------------------------------------------


def parts_of(estimator: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header and the arrays of a fitted estimator; raise TypeError if a file cannot hold them."""
    model = estimator._inside()
    header = {
        **common_parts(estimator),
        "rounds_before": int(estimator._rounds_before_fit),
        "sparse": bool(estimator._sparse),
        "inner": next(kind for kind, of in MODELS.items() if isinstance(model, of)),
        "model": model.core.header(),
        **({"moments": model.meta["moments"]} if "moments" in model.meta else {}),
    }
    arrays = {**model.core.stored_arrays(), "losses": np.array(estimator._losses, np.float64)}
    if not hasattr(estimator, "classes_"):
        return header, arrays
    weights, plain = estimator._class_weights, estimator.classes_.tolist()
    header["model"]["labels"]["classes"] = list(range(len(plain)))
    header |= {"order": [plain.index(label) for label in model.classes], "closed": estimator._closed}
    arrays["class_weights"] = np.empty(0) if weights is None else weights
    put_classes(estimator.classes_, header, arrays)
    return header, arrays


def restore(estimator: Any, header: dict[str, Any], arrays: dict[str, Any], compiled: bool) -> None:
    """Let an estimator before its first fit be the one of a header and arrays; ValueError if these make no sense."""
    own = {name: arrays.pop(name) for name in OWN_ARRAYS if name in arrays}
    inner = MODELS.get(header["inner"])
    if inner is None:
        raise ValueError(f"its model is of the unknown kind {header['inner']!r}")
    model = inner.from_parts(header["model"], arrays, compiled)
    if "moments" in header:
        model.meta["moments"] = FeatureMoments.from_json(header["moments"]).to_json()
    restore_common(estimator, header, [model], "rounds_before")
    if "losses" not in own or own["losses"].ndim != 1:
        raise ValueError("array 'losses' is missing, or not one number per pass")
    if hasattr(estimator, "class_weight"):
        restore_classes(estimator, header, own, model)
    estimator._begin()
    estimator._go_on_with(model)
    estimator._rounds_before_fit, estimator._sparse = header["rounds_before"], header["sparse"] is True
    estimator._losses.extend(own["losses"].tolist())


def restore_classes(estimator: Any, header: dict[str, Any], own: dict[str, Any], model: Any) -> None:
    """Let a classifier, and the model inside, have the classes of a file."""
    classes, order = classes_of(header, own), header["order"]
    count, weights = len(classes), own.get("class_weights", np.empty(0))
    if list(model.classes or ()) != list(range(count)):
        raise ValueError(f"its model has not the {count} classes that it names")
    if not isinstance(order, list) or sorted(order, key=str) != sorted(range(count), key=str):
        raise ValueError(f"the order of its classes is given as {order!r}")
    if weights.shape not in ((0,), (count,)) or weights.dtype != np.float64:
        raise ValueError("array 'class_weights' has not one number per class")
    if header["closed"] is not model.closed:
        raise ValueError("its model and its header differ on whether there will be other classes")
    plain = classes.tolist()
    model.core.rename(AnyLabels(plain[k] for k in order))
    estimator.classes_, estimator._closed = classes, model.closed
    estimator._class_weights = weights if len(weights) else None


# --- passive-aggressive estimators ------------------------------------------------------------


def passive_parts_of(estimator: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header and the arrays of a fitted passive-aggressive estimator."""
    learners, columns = estimator._learners, int(estimator.n_features_in_)
    header = {
        **common_parts(estimator),
        "steps": float(estimator.t_),
        "sparse": bool(sparse.issparse(estimator.coef_)),
        "sparse_rows": estimator._stretch != 1.0,
        "learners": [learner.core.header() for learner in learners],
    }
    arrays = joined_arrays(learner.core.stored_arrays() for learner in learners)
    before = [np.append(np.broadcast_to(w, columns), b) for w, b in estimator._before]
    arrays["before"] = np.array(before)
    if hasattr(estimator, "classes_"):
        put_classes(estimator.classes_, header, arrays)
    return header, arrays


def passive_learners(header: dict[str, Any], arrays: dict[str, Any], compiled: bool) -> tuple[list[Learner], Any]:
    """Return the learners of a passive-aggressive estimator in a file, and the averages that count before theirs."""
    headers, before = header["learners"], arrays.get("before")
    if not isinstance(headers, list) or not headers:
        raise ValueError("its learners are missing")
    learners = []
    for k, one in enumerate(headers):
        own = {name.removeprefix(f"{k}/"): a for name, a in arrays.items() if name.startswith(f"{k}/")}
        learners.append(Learner.from_parts(one, own, compiled))
    shape = len(learners), learners[0].n_features + 1
    if before is None or before.dtype != np.float64 or before.shape != shape:
        raise ValueError("array 'before' has not one number per weight and intercept of each learner")
    if not (type(header["steps"]) is float and header["steps"] >= 0.0):
        raise ValueError(f"its steps are given as {header['steps']!r}")
    return learners, before


# --- parameters -------------------------------------------------------------------------------


def value_to_json(name: str, value: Any) -> Any:
    """Return a parameter as plain JSON, a component as its JSON, a sequence as a list; raise TypeError for others."""
    if isinstance(value, Component):
        return {"recipe": component_json.to_json(value)}
    if isinstance(value, TableEncoding):
        return {"coding": value.to_json()}
    if isinstance(value, dict):
        pairs = [[value_to_json(name, key), value_to_json(name, entry)] for key, entry in value.items()]
        return {"pairs": pairs}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [value_to_json(name, entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a file holds parameters that are plain values or components, but {name} is {value!r}")


def value_from_json(value: Any) -> Any:
    """Return the parameter that `value_to_json` wrote."""
    if isinstance(value, dict) and "pairs" in value:
        return {value_from_json(key): value_from_json(entry) for key, entry in value["pairs"]}
    if isinstance(value, list):
        return [value_from_json(entry) for entry in value]
    if isinstance(value, dict) and "coding" in value:
        return TableEncoding.from_json(value["coding"])
    return component_json.from_json(value["recipe"]) if isinstance(value, dict) else value
