"""Components as JSON values, and back, without importing or running anything a file names.

| value | as JSON |
|---|---|
| component | `{"component": name, "fields": {name: value, ...}}`, every field present |
| tuple of components | a list of them |
| number | a number, as many digits as it takes to be exact; infinities as `"inf"` and `"-inf"` |
| array | `{"array": base64 of little-endian float64 in C order, "shape": [...]}` |
| None | `null` |

A component of this package goes by its registered name, such as `L1`, and may therefore move between modules; with
`registered = "L1"` in its body the class itself can be renamed. Any other class goes by `module.Class`: a name with a
dot is never one of ours. Recipes are read for ever: a field that is missing takes its default, or what its class
names in `of_older_files`: a field added to a class of this package needs one of them that does what the class did
before. An unknown field is refused.
"""

from __future__ import annotations

import base64
import dataclasses
import math
import reprlib
import sys
from collections.abc import Iterator
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from fiol.components.component import Component

INFINITIES = {"inf": math.inf, "-inf": -math.inf}
STORED_FLOAT = np.dtype("<f8")
#: The modules of classes with registered names.
PACKAGE = "fiol."
#: Classes that were looked for, by name: as long as the name in a module stands for one, there is none newer.
FOUND: WeakValueDictionary[str, type[Component]] = WeakValueDictionary()


def to_json(component: Component) -> dict[str, Any]:
    """Return a component as a JSON value that `from_json` turns into an equal one; see the module for its form.

    >>> from fiol import L1, Box
    >>> to_json(Box(L1(0.5), lo=0.0))["fields"]["regularizer"]
    {'component': 'L1', 'fields': {'lam': 0.5}}
    >>> to_json(L1([1.0, 2.0]))["fields"]["lam"]
    {'array': 'AAAAAAAA8D8AAAAAAAAAQA==', 'shape': [2]}
    """
    if not isinstance(component, Component):
        raise TypeError(f"only a component has a recipe, got {component!r}")
    names = [field.name for field in dataclasses.fields(component)]  # type: ignore[arg-type]
    own = type(component).__name__
    fields = {name: field_to_json(f"{own}.{name}", getattr(component, name)) for name in names}
    return {"component": stored_name(type(component)), "fields": fields}


def from_json(value: Any) -> Component:
    """The component `to_json` made `value` from. ValueError, with the path to what is wrong, if there is none.

    The class must be defined already; if it was defined more than once, the newest definition is taken.

    >>> from fiol import L1, Box
    >>> from_json(to_json(Box(L1([0.5, 1.0]), lo=0.0)))
    Box(regularizer=L1(lam=array([0.5, 1. ])), lo=0.0, hi=inf)
    >>> from_json({"component": "Box", "fields": {"regularizer": to_json(L1(1.0)), "hi": 2.0}})
    Box(regularizer=L1(lam=1.0), lo=-inf, hi=2.0)
    >>> from_json({"component": "L1", "fields": {"lam": -0.5}})
    Traceback (most recent call last):
    ValueError: recipe.lam must be at least 0 and finite, got -0.5
    >>> from_json({"component": "os.system", "fields": {}})
    Traceback (most recent call last):
    ValueError: recipe names os.system, which is no component known here: define or import os.system before loading
    """
    try:
        return component_from_json("recipe", value)
    except RecursionError:
        raise ValueError("recipe is nested too deeply") from None


# --- pieces of the above ----------------------------------------------------------------------


def field_to_json(path: str, value: Any) -> Any:
    """One field; TypeError if it is nothing a component holds."""
    if isinstance(value, Component):
        return to_json(value)
    if isinstance(value, tuple):
        return [field_to_json(f"{path}[{k}]", part) for k, part in enumerate(value)]
    if isinstance(value, np.ndarray) and value.dtype == np.float64:
        data = value.astype(STORED_FLOAT, copy=False).tobytes()
        return {"array": base64.b64encode(data).decode("ascii"), "shape": list(value.shape)}
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, float) and not math.isnan(value):
        return float(value) if math.isfinite(value) else str(float(value))
    raise TypeError(f"{path} must be a number, a float64 array, a component or None to be written, got {value!r}")


def component_from_json(path: str, value: Any) -> Component:
    """The component at `path`, its fields first."""
    check_keys(path, value, ("component", "fields"))
    name, fields = value["component"], value["fields"]
    if not isinstance(name, str):
        raise ValueError(f"{path} must name its class, got {reprlib.repr(name)}")
    if not isinstance(fields, dict):
        raise ValueError(f"{path} must have fields by name, got {reprlib.repr(fields)}")
    cls = find_class(name)
    if cls is None:
        raise ValueError(
            f"{path} names {name}, which is no component known here: define or import {name} before loading"
        )
    known = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for name in fields:
        if name not in known:
            raise ValueError(f"{path}.{name} is unknown: {cls.__name__} has {', '.join(known) or 'no fields'}")
    for name, field in known.items():
        if name not in fields and field.default is dataclasses.MISSING is field.default_factory:
            raise ValueError(f"{path}.{name} is missing")
    values = {name: field_from_json(f"{path}.{name}", fields[name]) for name in known if name in fields}
    values = {**cls.of_older_files, **values}
    try:
        return cls(**values)
    except Exception as error:  # a user's `validate` may stumble over anything
        own, message = f"{cls.__name__}.", str(error)
        where = f"{path}.{message[len(own) :]}" if message.startswith(own) else f"{path}: {message}"
        raise ValueError(where) from error


def field_from_json(path: str, value: Any) -> Any:
    """A number, array, component, several of them or None; whether it suits the field is for the constructor to say."""
    if isinstance(value, list) and value and all(isinstance(part, dict) for part in value):
        return tuple(component_from_json(f"{path}[{k}]", part) for k, part in enumerate(value))
    if isinstance(value, dict):
        return array_from_json(path, value) if "array" in value else component_from_json(path, value)
    if isinstance(value, str) and value in INFINITIES:
        return INFINITIES[value]
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
        raise ValueError(f"{path} must be a number, an array, a component or null, got {reprlib.repr(value)}")
    return value


def array_from_json(path: str, value: dict[str, Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The array at `path`; its shape must account for every byte."""
    check_keys(path, value, ("array", "shape"))
    shape = value["shape"]
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"{path} must have a shape of whole numbers, got {reprlib.repr(shape)}")
    try:
        data = base64.b64decode(value["array"], validate=True)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} must be an array in base64: {error}") from error
    if len(data) != 8 * math.prod(shape):
        raise ValueError(f"{path} must have 8 bytes per entry, got {len(data)} for the shape {reprlib.repr(shape)}")
    try:
        return np.frombuffer(data, STORED_FLOAT).astype(np.float64).reshape(shape)
    except (ValueError, OverflowError) as error:  # an empty array, but of absurd extent
        raise ValueError(f"{path} cannot have the shape {reprlib.repr(shape)}: {error}") from error


def check_keys(path: str, value: Any, keys: tuple[str, str]) -> None:
    """Raise ValueError unless `value` is a dict with exactly these keys."""
    if not isinstance(value, dict) or value.keys() != set(keys):
        raise ValueError(f'{path} must be {{"{keys[0]}": ..., "{keys[1]}": ...}}, got {reprlib.repr(value)}')


def stored_name(cls: type) -> str:
    """The name of a class in recipes: the registered one of a class of this package, else `module.Class`.

    A registered name is not inherited: a class derived from a renamed one has a name of its own.
    """
    if cls.__module__.startswith(PACKAGE):
        return vars(cls).get("registered", cls.__name__)
    return f"{cls.__module__}.{cls.__qualname__}"


def find_class(name: str) -> type[Component] | None:
    """The newest component class of that name among those defined so far, or None. Imports nothing.

    >>> find_class("Huber"), find_class("os.system")
    (<class 'fiol.components.losses.Huber'>, None)
    """
    known = FOUND.get(name)
    if known is not None and is_bound(known) and stored_name(known) == name:
        return known
    found = [cls for cls in subclasses(Component) if stored_name(cls) == name]
    # Siblings are listed in order of definition, cousins are not: there, the name in the module tells the newest.
    bound = next((cls for cls in found if is_bound(cls)), None)
    if bound is not None:
        FOUND[name] = bound
    return bound or (found[-1] if found else None)


def subclasses(cls: type[Component]) -> Iterator[type[Component]]:
    """All classes derived from `cls`, directly or not."""
    for child in type.__subclasses__(cls):
        yield child
        yield from subclasses(child)


def is_bound(cls: type) -> bool:
    """Whether the name of `cls` in its module stands for this very class."""
    scope: Any = sys.modules.get(cls.__module__)
    for part in cls.__qualname__.split("."):
        scope = getattr(scope, "__dict__", {}).get(part)  # getattr might run a module's __getattr__
    return scope is cls
