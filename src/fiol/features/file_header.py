"""Check the options, features and classes in the header of a model file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fiol.features.chunk import MOST_FEATURES
from fiol.features.hashing import FUNCTIONS, Hashing
from fiol.features.labels import AnyLabels
from fiol.features.table_encoding import TableEncoding

#: Keys of every header; later keys are optional.
NEEDED_KEYS = ("update", "options", "features", "columns", "names")
#: Options of every header.
NEEDED_OPTIONS = ("n_features", "bits", "intercept", "average")
#: The types of options in a file; those that are integers may also be null.
OPTION_TYPES = {
    **dict.fromkeys(("n_features", "bits", "max_features"), (int, "an integer or null")),
    **dict.fromkeys(("intercept", "average"), (bool, "true or false")),
    "dtype": (str, "a name"),
}


def check_header(header: dict[str, Any]) -> None:
    """Raise ValueError if the options, features and names in the header of a file are invalid."""
    for key in NEEDED_KEYS:
        if key not in header:
            raise ValueError(f"{key!r} is missing from its header")
    options, features, columns, names = (header[key] for key in NEEDED_KEYS[1:])
    if not isinstance(options, dict):
        raise ValueError(f"its options must be a mapping, got {options!r}")
    for name in NEEDED_OPTIONS:
        if name not in options:
            raise ValueError(f"{name!r} is missing from its options")
    for name, value in options.items():
        kind, wanted = OPTION_TYPES.get(name, (object, "anything"))  # the constructor refuses unknown options
        if type(value) is not kind and kind is not object and not (value is None and kind is int):
            raise ValueError(f"its {name} must be {wanted}, got {value!r}")
    if type(features) is not int or not 0 <= features <= MOST_FEATURES:
        raise ValueError(f"its number of features is given as {features!r}")
    for what, found, kinds in (("columns", columns, (str,)), ("names", names, (str, int))):
        if found is None:
            continue
        if not isinstance(found, list) or len(found) != features or not all(type(name) in kinds for name in found):
            raise ValueError(f"its {what} are not one name for each of {features} features")
        if len(set(found)) < len(found):
            raise ValueError(f"its {what} are not all different")
    if header.get("coding") is not None:
        TableEncoding.from_json(header["coding"])
    width = header.get("dense_columns")
    if width is not None and (type(width) is not int or not 1 <= width <= MOST_FEATURES):
        raise ValueError(f"the columns of its dense rows are given as {width!r}")
    if header.get("hash") not in (None, *FUNCTIONS):
        raise ValueError(f"its hash must be one of {', '.join(FUNCTIONS)}, got {header['hash']!r}")
    hashed, bounded = options.get("bits") is not None, options.get("max_features") is not None
    fixed = Hashing(options["bits"]).size if hashed else options.get("n_features")
    if fixed not in (None, features):  # before memory for them is allocated
        raise ValueError(f"it has {features} features, but its options say {fixed}")
    if (names is None and bounded) or (names is not None and fixed is not None):
        raise ValueError("its names do not go with its options")
    if bounded and features > options["max_features"]:
        raise ValueError(f"it has {features} features, more than its max_features of {options['max_features']}")


def classes_in(labels: Mapping[str, Any] | None) -> list[Any] | None:
    """Return the classes in a header, None if there are none yet."""
    return None if labels is None or not labels["classes"] else AnyLabels(labels["classes"])
