"""Read and write models of every kind.

The bytes are those of `fiol.persistence.model_file`. The header of a file is this JSON object:

| key | what |
|---|---|
| `kind` | the kind of the model, such as `"learner"` |
| `model` | the header of that kind: see the class |
| `meta` | any JSON object of the user, such as how the data are read |
| `not_finite` | after divergence: the names of the arrays that hold NaN or an infinity; all others must be finite |

The arrays are those of the model, without features that were never seen: see `fiol.persistence.records`.

A file holds the table encoding once. If `meta["reading"]`, where `fiol train` stores how it reads data, has the same
table encoding as the model, `model` has no key `coding`, and loading takes the table encoding from `meta["reading"]`.

Every version reads the files of all earlier ones. Keys and arrays that a kind has had from the beginning are required.
Later ones have a value for files without them: a key its default, an array that of a new model. Unknown keys are
ignored, except for options and fields of components, which decide how a model learns: an unknown one is an error. A
change that an older version would misread raises the format, and that version refuses the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Union

from fiol.persistence import model_file, records
from fiol.persistence.model_file import Array, ModelFileError
from fiol.persistence.state_checks import check_finite, find_not_finite

Path = Union[str, "os.PathLike[str]"]
#: Makes a model from header, arrays and `compiled`.
Builder = Callable[[dict[str, Any], dict[str, Array], bool], Any]
#: The function that makes models of each kind whose `meta` says how data are read, for `load`.
TRAINED_BUILDERS: dict[str, Builder] = {}
#: The function that makes models of each kind, for `load`.
BUILDERS: dict[str, Builder] = {}


class StoredModel(NamedTuple):
    """The parts of a file: the kind of the model, its header, meta and arrays."""

    kind: str
    header: dict[str, Any]
    arrays: dict[str, Array]
    meta: dict[str, Any]


def register_kind(kind: str, build: Builder) -> None:
    """Register `build` as the function that makes models of this kind for `load`; it raises ValueError if invalid."""
    if kind in BUILDERS:
        raise ValueError(f"there is a kind of model called {kind!r} already")
    BUILDERS[kind] = build


def load(path: Path, compiled: bool = True) -> Any:
    """Return the model in a file, of any kind; `compiled=False` runs it in the interpreter.

    Nothing in a file is run or imported: your own components must have been defined or imported before.

    >>> import tempfile, fiol
    >>> learner = fiol.Learner(fiol.FIOL(fiol.Squared()), n_features=2)
    >>> learner.meta["target"] = "price"
    >>> path = os.path.join(tempfile.mkdtemp(), "model.fiol")
    >>> learner.save(path)
    >>> again = fiol.load(path)
    >>> type(again).__name__, again.meta
    ('Learner', {'target': 'price'})
    """
    stored = read_model(path)
    if stored.kind not in BUILDERS:
        known = ", ".join(sorted(BUILDERS))
        raise ModelFileError(
            f"{os.fspath(path)}: it holds {stored.kind!r}, a kind of model unknown here: known are {known}"
        )
    return build_model(path, stored, builder_for(stored.kind, stored.meta), compiled)


def builder_for(kind: str, meta: dict[str, Any]) -> Builder:
    """Return the function that makes models of a registered kind, by whether their `meta` says how data are read."""
    reading = meta.get("reading")
    trained = isinstance(reading, dict) and isinstance(reading.get("format"), str)
    return TRAINED_BUILDERS[kind] if trained and kind in TRAINED_BUILDERS else BUILDERS[kind]


def write_model(
    path: Path, kind: str, header: dict[str, Any], arrays: Mapping[str, Array], meta: dict[str, Any]
) -> None:
    """Write a model atomically, see `model_file.write`; header and meta are plain JSON values.

    >>> import tempfile
    >>> import numpy as np
    >>> path = os.path.join(tempfile.mkdtemp(), "model.fiol")
    >>> write_model(path, "mean", {"rows": 3}, {"sum": np.array([6.0])}, {"unit": "m"})
    >>> read_model(path, "mean")
    StoredModel(kind='mean', header={'rows': 3}, arrays={'sum': array([6.])}, meta={'unit': 'm'})
    """
    model_file.plain_text("meta", meta)  # for the name in error messages
    packed = records.pack(arrays)
    diverged = find_not_finite(packed)
    whole = {
        "kind": kind,
        "model": without_repeated_encoding(header, meta),
        "meta": meta,
        **({"not_finite": diverged} if diverged else {}),
    }
    model_file.write(path, whole, packed)


def read_model(path: Path, kind: str | None = None) -> StoredModel:
    """Return the parts of a file; raise ModelFileError if it is damaged, no model, or of another kind."""
    whole, arrays = model_file.read(path)
    try:
        found, header, meta = whole.get("kind"), whole.get("model"), whole.get("meta", {})
        if not isinstance(found, str) or (kind is not None and found != kind):
            raise ValueError(f"it holds {found!r}, not a {kind or 'model'}")
        if not isinstance(header, dict) or not isinstance(meta, dict):
            raise ValueError("its header or its meta is no object")
        diverged = whole.get("not_finite", [])
        if not isinstance(diverged, list):
            raise ValueError(f"its not_finite must be a list of arrays, got {diverged!r}")
        check_finite(arrays, diverged)
        return StoredModel(found, header, records.unpack(arrays), meta)
    except ValueError as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}") from error


def build_model(path: Path, stored: StoredModel, build: Builder, compiled: bool) -> Any:
    """Return the model of the parts of a file; raise ModelFileError, with the path, if they are invalid."""
    try:
        model = build(with_encoding_in_meta(stored.header, stored.meta), stored.arrays, compiled)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}") from error
    model.meta = stored.meta
    return model


# --- the table encoding, once -----------------------------------------------------------------


def encoding_in_meta(meta: dict[str, Any]) -> dict[str, Any] | None:
    """Return the complete encoding in `meta["reading"]`, as the header of a model has it; None if there is none.

    >>> encoding = {"columns": [{"name": "age", "kind": "number"}], "pairs": [], "complete": True}
    >>> encoding_in_meta({"reading": {"format": "csv", "coding": encoding}}) == encoding
    True
    >>> encoding_in_meta({"reading": "on Monday"}), encoding_in_meta({})
    (None, None)
    """
    reading = meta.get("reading")
    if not isinstance(reading, dict) or not isinstance(reading.get("format"), str):
        return None
    encoding = reading.get("coding")
    if not isinstance(encoding, dict) or encoding.get("complete") is not True:
        return None
    return {**encoding, "pairs": reading.get("pairs") or encoding.get("pairs", [])}


def without_repeated_encoding(header: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
    """Return the header without its encoding if `meta["reading"]` has the same one."""
    encoding = encoding_in_meta(meta)
    if encoding is None or header.get("coding") != encoding:
        return header
    return {name: value for name, value in header.items() if name != "coding"}


def with_encoding_in_meta(header: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
    """Return the header of a model of named or hashed features, with the table encoding in `meta["reading"]` added.

    A model without the table encoding of its training data would infer another one from every frame it predicts for.
    """
    encoding, options = encoding_in_meta(meta), header.get("options")
    hashed = isinstance(options, dict) and options.get("bits") is not None
    if encoding is None or header.get("coding") is not None or not (hashed or header.get("names") is not None):
        return header
    return {**header, "coding": encoding}
