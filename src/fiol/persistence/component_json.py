"""Convert components to JSON values and back, without importing or running anything that a file names.

| value | as JSON |
|---|---|
| component | `{"component": name, "fields": {name: value, ...}}`, every field present |
| tuple of components | a list of them |
| number | a number, as many digits as it takes to be exact; infinities as `"inf"` and `"-inf"` |
| array | `{"array": base64 of little-endian float64 in C order, "shape": [...]}` |
| None | `null` |

A component of this package is stored by its registered name, such as `L1`, so its class may move between modules;
`registered = "L1"` in the body of a class keeps the stored name when the class is renamed. Any other class is stored as
`module.Class`. Old files must load: a missing field takes its default, or its value in `of_older_files` of the class,
which must do what the class did before the field was added. A field that was renamed is found by its old name in
`renamed_fields` of the class. An unknown field is an error.
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
#: Classes found before, by name; one is current as long as its module has it under this name.
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
        raise TypeError(f"only a component can be stored as JSON, got {component!r}")
    names = [field.name for field in dataclasses.fields(component)]  # type: ignore[arg-type]
    own = type(component).__name__
    fields = {name: field_to_json(f"{own}.{name}", getattr(component, name)) for name in names}
    return {"component": stored_name(type(component)), "fields": fields}


def from_json(value: Any) -> Component:
    """Return the component that `to_json` stored as `value`; raise ValueError with the path to what is wrong.

    Its class must be defined already. Of several definitions the newest is used.

    >>> from fiol import L1, Box
    >>> from_json(to_json(Box(L1([0.5, 1.0]), lo=0.0)))
    Box(regularizer=L1(lam=array([0.5, 1. ])), lo=0.0, hi=inf)
    >>> from_json({"component": "Box", "fields": {"regularizer": to_json(L1(1.0)), "hi": 2.0}})
    Box(regularizer=L1(lam=1.0), lo=-inf, hi=2.0)
    >>> from_json({"component": "L1", "fields": {"lam": -0.5}})
    Traceback (most recent call last):
    ValueError: component.lam must be at least 0 and finite, got -0.5
    >>> from_json({"component": "os.system", "fields": {}})
    Traceback (most recent call last):
    ValueError: component names os.system, which is no component known here: define or import os.system before loading
    """
    try:
        return component_from_json("component", value)
    except RecursionError:
        raise ValueError("component is nested too deeply") from None


def field_to_json(path: str, value: Any) -> Any:
    """Return the value of a field as JSON; raise TypeError for a type that no component has."""
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
    """Return the component at `path`, its fields first."""
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
    fields = {name if (new := cls.renamed_fields.get(name, name)) in fields else new: fields[name] for name in fields}
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
    except Exception as error:  # a user's `validate` may raise anything
        own, message = f"{cls.__name__}.", str(error)
        where = f"{path}.{message[len(own) :]}" if message.startswith(own) else f"{path}: {message}"
        raise ValueError(where) from error


def field_from_json(path: str, value: Any) -> Any:
    """Return a number, array, component, tuple of components or None; the constructor checks it."""
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
    """Return the array at `path`; its shape must account for every byte."""
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
    """Return the name of a class in files: the registered one in this package, else `module.Class`.

    A registered name is not inherited.
    """
    if cls.__module__.startswith(PACKAGE):
        return vars(cls).get("registered", cls.__name__)
    return f"{cls.__module__}.{cls.__qualname__}"


def find_class(name: str) -> type[Component] | None:
    """Return the newest component class of that name, None if there is none. Imports nothing.

    >>> find_class("Huber"), find_class("os.system")
    (<class 'fiol.components.losses.Huber'>, None)
    """
    known = FOUND.get(name)
    if known is not None and is_bound(known) and stored_name(known) == name:
        return known
    found = [cls for cls in subclasses(Component) if stored_name(cls) == name]
    # Subclasses are listed in order of definition only within one base: the name in the module decides.
    bound = next((cls for cls in found if is_bound(cls)), None)
    if bound is not None:
        FOUND[name] = bound
    return bound or (found[-1] if found else None)


def subclasses(cls: type[Component]) -> Iterator[type[Component]]:
    """Yield all classes derived from `cls`, directly or not."""
    for child in type.__subclasses__(cls):
        yield child
        yield from subclasses(child)


def is_bound(cls: type) -> bool:
    """Return whether the module of `cls` has this class under its name."""
    scope: Any = sys.modules.get(cls.__module__)
    for part in cls.__qualname__.split("."):
        scope = getattr(scope, "__dict__", {}).get(part)  # getattr might run a module's __getattr__
    return scope is cls
