"""What a component is: a frozen value whose methods are plain Python on scalars.

Losses, regularizers, geometries and solvers are components. A component prints, compares,
hashes, pickles and copies by its fields, and nothing in it refers to a compiler;
`fiol.compiled` turns it into a compiled value the first time a kernel sees one.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import numbers
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, Union

import numpy as np

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Any:
        return lambda cls: cls


#: A strength that is one number for all features, or an array with one number per feature.
PerFeature = Union[float, "np.ndarray[Any, np.dtype[np.float64]]"]
Self = TypeVar("Self", bound="Component")


def at(values: PerFeature, i: int) -> float:
    """The number for feature `i`: `values` itself, or its i-th entry if it is an array.

    >>> at(0.5, 3), at(np.array([1.0, 2.0]), 1)
    (0.5, 2.0)
    """
    return float(values[i]) if isinstance(values, np.ndarray) else values


@dataclass_transform(frozen_default=True, eq_default=False)
class Component:
    """A frozen dataclass with scalar methods; subclassing is all it takes.

    Every field is a number, an array of numbers (one per feature) or another component. Numbers
    are stored as float unless annotated `int`; arrays as read-only float64 copies.

    >>> class Scaled(Component):
    ...     factor: float = 2
    ...     def times(self, z): return self.factor * z
    >>> Scaled(), Scaled(3) == Scaled(3.0), Scaled(3).times(2.0)
    (Scaled(factor=2.0), True, 6.0)
    """

    #: Methods a family knows, with their parameters; a subclass's methods are held to them.
    protocol: ClassVar[dict[str, tuple[str, ...]]] = {}
    #: The methods of `protocol` without which a member of the family is not complete.
    required: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, method in own_methods(cls):
            if name in cls.protocol:
                check_signature(cls, name, method)
        dataclasses.dataclass(frozen=True, eq=False)(cls)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = canonical(f"{type(self).__name__}.{field.name}", getattr(self, field.name), field.type)
            object.__setattr__(self, field.name, value)
        self.validate()

    def validate(self) -> None:
        """Raise ValueError if a field is out of range. Called once, at construction."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and comparable(self) == comparable(other)  # type: ignore[arg-type]

    def __hash__(self) -> int:
        return hash((type(self), comparable(self)))

    def __reduce__(self) -> tuple[Any, ...]:
        # Rebuilding through the constructor leaves compiled leftovers behind.
        return type(self), field_values(self)

    def has(self, verb: str) -> bool:
        """Whether this component defines the method `verb`.

        >>> import fiol
        >>> fiol.Logistic().has("hess"), fiol.Hinge().has("hess")
        (True, False)
        """
        return callable(getattr(self, verb, None))

    def missing(self) -> str:
        """The first method of `required` that this component lacks, or ''."""
        return next((verb for verb in self.required if not self.has(verb)), "")

    def replace(self: Self, **changes: Any) -> Self:
        """A copy with some fields changed.

        >>> import fiol
        >>> fiol.ElasticNet(0.1, 0.2).replace(lam2=0.3)
        ElasticNet(lam1=0.1, lam2=0.3)
        """
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]


def check_complete(component: Component) -> None:
    """Raise TypeError if `component` lacks a method its family requires."""
    verb = component.missing()
    if verb:
        signature = ", ".join(("self", *component.protocol[verb]))
        raise TypeError(f"{type(component).__name__} has no `{verb}`: define {verb}({signature})")


def check_signature(cls: type, name: str, method: types.FunctionType) -> None:
    expected = ("self", *cls.protocol[name])  # type: ignore[attr-defined]
    found = tuple(inspect.signature(method).parameters)
    if len(found) != len(expected):
        raise TypeError(f"{cls.__name__}.{name} must take ({', '.join(expected)}), not ({', '.join(found)})")


def canonical(name: str, value: Any, annotation: Any) -> Any:
    """The one stored form of a field: int, float, read-only float64 array, or component."""
    if isinstance(value, Component):
        return value
    if isinstance(value, (bool, np.bool_, str, bytes)) or value is None:
        raise TypeError(f"{name} must be a number, an array of numbers or a component, got {value!r}")
    if isinstance(value, numbers.Integral) and annotation in (int, "int"):
        return int(value)
    if isinstance(value, numbers.Real):
        if np.isnan(float(value)):
            raise ValueError(f"{name} must be a number, got NaN")
        return float(value)
    try:
        array = np.array(value, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, an array of numbers or a component, got {value!r}") from None
    if np.isnan(array).any():
        raise ValueError(f"{name}[{int(np.isnan(array).argmax())}] must be a number, got NaN")
    array.setflags(write=False)
    return array


def require(name: str, value: PerFeature, low: float, high: float = np.inf, open_low: bool = False) -> None:
    """Raise ValueError unless every entry of `value` lies in [low, high] (or ]low, high])."""
    array = np.atleast_1d(np.asarray(value))
    wrong = ~((array > low if open_low else array >= low) & (array <= high))
    if wrong.any():
        place = f"{name}[{int(wrong.argmax())}]" if np.ndim(value) else name
        bound = f"{'greater than' if open_low else 'at least'} {low:g}"
        bound += f" and at most {high:g}" if np.isfinite(high) else ""
        raise ValueError(f"{place} must be {bound}, got {array.flat[wrong.argmax()]:g}")


def field_values(component: Component) -> tuple[Any, ...]:
    return tuple(getattr(component, f.name) for f in dataclasses.fields(component))  # type: ignore[arg-type]


def comparable(component: Component) -> tuple[Any, ...]:
    values = field_values(component)
    return tuple((v.shape, v.tobytes()) if isinstance(v, np.ndarray) else v for v in values)


# --- fingerprints: which code a component runs ------------------------------------------------


def own_methods(cls: type) -> list[tuple[str, types.FunctionType]]:
    methods = [(n, m) for n, m in vars(cls).items() if isinstance(m, types.FunctionType)]
    return sorted((n, m) for n, m in methods if not n.startswith("__"))


def methods_of(cls: type) -> dict[str, types.FunctionType]:
    """All methods of a component class, inherited ones included, without Component's own."""
    found: dict[str, types.FunctionType] = {}
    for klass in reversed(cls.__mro__):
        if klass not in (object, Component):
            found.update(own_methods(klass))
    return found


def fingerprint(cls: type) -> tuple[str, set[types.FunctionType]]:
    """A hash of the code the methods of `cls` reach, in whatever file, and the helpers reached."""
    digest, reached = hashlib.sha256(), set[types.FunctionType]()
    methods = methods_of(cls)
    for name in sorted(methods):
        digest.update(name.encode())
        for part in code_parts(methods[name], reached):
            digest.update(part)
    return digest.hexdigest()[:16], reached - set(methods.values())


def code_parts(function: types.FunctionType, reached: set[types.FunctionType]) -> Iterator[bytes]:
    """The bytecode, constants and defaults of `function` and of every helper it calls."""
    if function in reached:
        return
    reached.add(function)
    names = set[str]()
    yield from bytecode(function.__code__, names)
    yield repr(function.__defaults__).encode()
    scope = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
    for name in sorted(names & scope.keys()):
        yield from value_parts(name, scope[name], names, reached)


def value_parts(name: str, value: Any, names: set[str], reached: set[types.FunctionType]) -> Iterator[bytes]:
    value = getattr(value, "py_func", value)
    if isinstance(value, types.FunctionType):
        if value is not at:  # `at` is the one helper whose compiled form is not its source
            yield from code_parts(value, reached)
    elif isinstance(value, types.ModuleType):
        if value.__name__.partition(".")[0] not in ("math", "numpy", "builtins"):
            for attribute in sorted(names & vars(value).keys()):
                yield from value_parts(attribute, vars(value)[attribute], names, reached)
    elif isinstance(value, (bool, int, float, str, tuple)):
        yield f"{name}={value!r}".encode()
    elif isinstance(value, np.ndarray):
        yield name.encode() + value.tobytes()


def bytecode(code: types.CodeType, names: set[str]) -> Iterator[bytes]:
    names.update(code.co_names, code.co_freevars)
    yield code.co_code
    yield repr((code.co_names, code.co_varnames, code.co_freevars)).encode()
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from bytecode(constant, names)
        elif isinstance(constant, frozenset):  # iteration order differs between processes
            yield repr(sorted(map(repr, constant))).encode()
        else:
            yield repr(constant).encode()
