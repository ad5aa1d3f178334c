"""Checks of the arrays of a model file: all numbers are finite, and there are weights for all features.

The memory that the arrays take is checked where they are unpacked, in `fiol.persistence.records`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fiol.algorithms.ensemble import Ensemble
from fiol.algorithms.update import Update
from fiol.components.joint_losses import JointLoss
from fiol.persistence.model_file import Array, Selected, array_pieces


def find_not_finite(arrays: Mapping[str, Array | Selected]) -> list[str]:
    """Return the names of the arrays that hold NaN or an infinity.

    >>> find_not_finite({"state.w": np.array([0.0, np.nan]), "clock": np.ones(3)})
    ['state.w']
    """
    return [plain_name(name) for name, array in arrays.items() if first_not_finite(array) is not None]


def check_finite(arrays: Mapping[str, Array], exempt: list[str]) -> None:
    """Raise ValueError for the first NaN or infinity in the packed arrays of a file, except for arrays in `exempt`.

    >>> check_finite({"seen": np.array([3, 7]), "seen.w": np.array([[0.0, 1.0], [np.inf, 2.0]])}, [])
    Traceback (most recent call last):
    ValueError: array 'state.w' must be finite, got inf at [7, 0]
    """
    for name, array in arrays.items():
        place = None if plain_name(name) in exempt else first_not_finite(array)
        if place is None:
            continue
        where, seen = list(place), arrays.get(name.rpartition(".")[0])
        if is_packed(name) and seen is not None and seen.ndim == 1 and where[0] < len(seen):
            where[0] = int(seen[where[0]])
        raise ValueError(f"array {plain_name(name)!r} must be finite, got {array[place]} at {where}")


def check_weights_stored(update: Update | Ensemble, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Raise ValueError unless the weights of all features are stored, if the options fix their number.

    A new learner with these options takes memory for all features, so a header must not claim more than arrays hold.
    """
    if header["options"]["n_features"] is None and header["options"]["bits"] is None:
        return
    features = update.geometry.reparametrization().weights_per_feature * header["features"]
    scores = (len(header["labels"]["classes"]),) if isinstance(update.loss, JointLoss) else ()
    for owner in [f"{k}/" for k in range(len(update.updates))] if isinstance(update, Ensemble) else [""]:
        stored = arrays.get(f"{owner}state.w")
        if stored is None or stored.shape[:1] < (features,) or stored.shape[1:] != scores:
            raise ValueError(
                f"array '{owner}state.w' is missing or does not fit the update: expected shape {(features, *scores)}, "
                f"got {None if stored is None else stored.shape}"
            )


def first_not_finite(array: Array | Selected) -> tuple[int, ...] | None:
    """Return the index of the first NaN or infinity; None if all entries are finite."""
    if array.dtype.kind != "f":
        return None
    for first, piece in array_pieces(array):
        wrong = ~np.isfinite(piece)
        if wrong.any():
            place = tuple(int(i) for i in np.unravel_index(wrong.argmax(), wrong.shape))
            return (place[0] + first, *place[1:]) if place else ()
    return None


def plain_name(name: str) -> str:
    """Return the name of an array once it is unpacked: `a/state.w` for `a/seen.w`."""
    if not is_packed(name):
        return name
    owner, slash, own = name.rpartition("/")
    return f"{owner}{slash}state.{own.removeprefix('seen.')}"


def is_packed(name: str) -> bool:
    """Return whether an array holds the records of features seen only."""
    return name.rpartition("/")[2].startswith("seen.")
