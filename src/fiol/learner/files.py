"""The header of a model file: the checks that every kind of model makes before it is built."""

from __future__ import annotations

from typing import Any

from fiol.algorithms.ensemble import Ensemble
from fiol.algorithms.update import Update
from fiol.components.joint_losses import JointLoss
from fiol.features.file_header import check_header, classes_in
from fiol.features.labels import labels_from_header
from fiol.learner.core import LearnerCore, make_learner_core
from fiol.persistence import component_json
from fiol.persistence.state_checks import check_weights_stored

#: The kind of a file that `Learner.save` writes.
LEARNER = "learner"


def update_from_header(header: dict[str, Any]) -> Any:
    """Return the update of a header, whose features and options are checked."""
    check_header(header)
    update = component_json.from_json(header["update"])
    if not isinstance(update, (Update, Ensemble)):
        raise ValueError(f"its update is a {type(update).__name__}, not an Update")
    return update


def check_features(header: dict[str, Any], features: int) -> None:
    """Raise ValueError if the options of a file fix another number of features; 0 is a number that is not fixed."""
    if features not in (0, header["features"]):
        raise ValueError(f"it has {header['features']} features, but its options say {features}")


def learner_from_parts(header: dict[str, Any], arrays: dict[str, Any], compiled: bool) -> LearnerCore:
    """Return the core of a learner in a file; an array that an older version did not write is as in a new learner."""
    update = update_from_header(header)
    kept = list(update.statistics())
    if header.get("statistics", kept) != kept:  # an older version did not write them
        raise ValueError(f"array of statistics {header['statistics']!r} does not fit the update")
    labels = labels_from_header(header.get("labels"))
    if (labels is None) == isinstance(update.loss, JointLoss):
        raise ValueError(f"its labels do not go with {type(update.loss).__name__}")
    check_weights_stored(update, header, arrays)
    core = make_learner_core(update, **header["options"], classes=classes_in(labels), compiled=compiled)
    check_features(header, core.space.features)
    core.restore(header, arrays)
    return core
