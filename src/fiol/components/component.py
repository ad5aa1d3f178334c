"""What a component is: a frozen value whose methods are plain Python on scalars.

Losses, regularizers, geometries and solvers are components. A component prints, compares,
hashes, pickles and copies by its fields, and nothing in it refers to a compiler;
`fiol.compiler.compiled` turns it into a compiled value the first time a kernel sees one.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import numbers
import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar, Union

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


def common(values: PerFeature) -> float:
    """The factor shared by all of `values`: the number itself, or 1 for an array.

    With `own` it splits a product so that a common factor can be taken out of a sum:
    at(values, k) = common(values) * own(values, k).
    """
    return 1.0 if isinstance(values, np.ndarray) else values


def own(values: PerFeature, k: int) -> float:
    """The factor of entry `k` alone: 1 for a number, or the k-th entry of an array."""
    return float(values[k]) if isinstance(values, np.ndarray) else 1.0


# One score or many: a state's weights are w[feature] or w[feature, score], and a score is a number or an array of them.
# Loops over scores are `while k < scores_of(w): ...; k = next_score(w, k)`. With one score the compiler then sees no
# loop at all, and leaves the sums around it in their order; `range(1)` it keeps until those are vectorised.


def scores_of(w: Any) -> int:
    """How many scores rows have whose weights, or scores, are these: 1 for a vector.

    >>> scores_of(np.zeros(5)), scores_of(np.zeros((5, 3)))
    (1, 3)
    """
    return 1 if w.ndim == 1 else w.shape[1]


def next_score(w: Any, k: int) -> int:
    """k + 1, which the compiler knows to be 1 for a vector."""
    return k + 1


def entry(w: Any, i: Any, k: int) -> float:
    """w[i] of a vector, w[i, k] of a matrix."""
    return w[i] if w.ndim == 1 else w[i, k]  # type: ignore[no-any-return]


def put(w: Any, i: Any, k: int, value: float) -> None:
    """Write `value` where `entry` finds it."""
    if w.ndim == 1:
        w[i] = value
    else:
        w[i, k] = value


def column(w: Any, k: int) -> Any:
    """The weights of score k: all of a vector, a column of a matrix."""
    return w if w.ndim == 1 else w[:, k]


def plus(z: Any, k: int, value: float) -> Any:
    """z with `value` added to score k: another number, or the same array changed in place."""
    if not isinstance(z, np.ndarray):
        return z + value
    z[k] += value
    return z


def begun(z: Any) -> Any:
    """A score before anything is added up."""
    if not isinstance(z, np.ndarray):
        return 0.0
    for k in range(z.shape[0]):
        z[k] = 0.0
    return z


def again(z: Any) -> Any:
    """A score before its row is added up. With many scores, the intercepts come first; a single one comes last."""
    return z if isinstance(z, np.ndarray) else 0.0


def ended(z: Any, shift: Any) -> Any:
    """A score whose row has been added up, the intercept included."""
    return z if isinstance(z, np.ndarray) else z + shift


class InPlace(NamedTuple):
    """The weights of a row where they are kept: w[feature, score] instead of [place in the row, score]."""

    w: Any


def working_place(laziness: Any, w: Any, space: Any) -> Any:
    """Where a row's weights are worked on: those of many scores in place, if they are kept as they are."""
    return InPlace(w) if w.ndim == 2 and laziness.as_they_are else space


def row_entry(weights: Any, i: Any, j: int, k: int) -> float:
    """Of a row's weights, the one for score k of feature i, the j-th of the row."""
    return entry(weights.w, i, k) if isinstance(weights, InPlace) else entry(weights, j, k)


def put_row_entry(weights: Any, i: Any, j: int, k: int, value: float) -> None:
    """Write `value` where `row_entry` finds it."""
    if isinstance(weights, InPlace):
        put(weights.w, i, k, value)
    else:
        put(weights, j, k, value)


def center_entry(center: Any, new: Any, i: Any, j: int, k: int) -> float:
    """`row_entry` of centers. Those in place are read as what they become: loops over one array vectorise."""
    return row_entry(new if isinstance(center, InPlace) else center, i, j, k)


def first_weights(weights: Any) -> Any:
    """The weights of a row's first feature, if that is feature 0: a number, or an array of many scores."""
    return weights.w[0] if isinstance(weights, InPlace) else weights[0]


def put_score(scores: Any, r: Any, z: Any) -> None:
    """Write the score of row r; many scores were added up where they belong."""
    if scores.ndim == 1:
        scores[r] = z


def borrowed(values: Any) -> Any:
    """The same array, or tuple of arrays, or component, without a share in the ownership of arrays: loops then count no
    references to them.

    The caller must keep the arrays alive. Counting took most of the time of a short row.
    """
    return values


def flat(values: Any) -> Any:
    """The numbers of an array whose rows follow each other in memory, as one axis: the same memory, and no call.

    The caller must keep the array alive. (numba's `reshape` calls a function of its own, which took a tenth of a row.)
    """
    return values.reshape(-1)


def flat_rows(values: Any) -> Any:
    """An array of three axes, `flat` but for its first."""
    rows, *others = values.shape
    return values.reshape(rows, others[0] * others[1])


#: The helpers that see whether they got a number or an array: their compiled forms are not their sources.
BY_KIND: tuple[Any, ...] = (at, common, own, scores_of, next_score, entry, put, column, plus, begun, again, ended)
BY_KIND += (working_place, row_entry, put_row_entry, center_entry, first_weights, put_score, borrowed, flat)
BY_KIND += (flat_rows,)


@dataclass_transform(frozen_default=True, eq_default=False)
class Component:
    """A frozen dataclass with scalar methods; subclassing is all it takes.

    Every field is a number, an array of numbers (one per feature) or another component, and is
    annotated `int`, `float`, `PerFeature` (a number or an array) or with the component's family.
    Numbers are stored as float unless annotated `int`; arrays as read-only float64 copies. A field annotated
    `tuple[...]` holds one or more components; a component with such a field is for recipes, not for kernels.

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
    #: The name of a class of this package in model files, by default that of the class; a renamed class keeps the old.
    registered: ClassVar[str]
    #: The values of fields in model files from before the class had them, where these are not the defaults.
    of_older_files: ClassVar[dict[str, Any]] = {}
    #: Whether an array in a field has an entry per feature.
    of_features: ClassVar[bool] = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in cls.protocol.keys() & vars(cls).keys():
            check_signature(cls, name, vars(cls)[name])
        dataclasses.dataclass(frozen=True, eq=False)(cls)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = stored_form(f"{type(self).__name__}.{field.name}", getattr(self, field.name), field.type)
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

    def __getstate__(self) -> dict[str, Any]:
        # skops before 0.12 looks at this and not at __reduce__.
        return dict(zip(field_names(type(self)), field_values(self), strict=True))  # type: ignore[arg-type]

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


def check_signature(cls: type, name: str, method: Any) -> None:
    """Raise TypeError unless `method` is one and takes as many arguments as the family's protocol says."""
    expected = ("self", *cls.protocol[name])  # type: ignore[attr-defined]
    if not isinstance(method, types.FunctionType):
        raise TypeError(f"{cls.__name__}.{name} must be a method ({', '.join(expected)}), not {method!r}")
    found = tuple(map(str, inspect.signature(method).parameters.values()))
    if len(found) != len(expected):
        raise TypeError(f"{cls.__name__}.{name} must take ({', '.join(expected)}), not ({', '.join(found)})")


def stored_form(name: str, value: Any, annotation: Any) -> Any:
    """The one stored form of a field: int, float, read-only float64 array, or component."""
    kind = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    if kind.startswith("tuple["):
        return components_of(name, value)
    if (isinstance(value, Component) and kind not in EXPECTED) or (value is None and "None" in str(annotation)):
        return value
    if isinstance(value, type) and issubclass(value, Component):
        raise TypeError(f"{name} must be an instance, not the class: write {value.__name__}(...)")
    expected = EXPECTED.get(kind, "a number, an array of numbers or a component")
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        number = float(value)
        if np.isnan(number):
            raise ValueError(f"{name} must be a number, got NaN")
        if kind == "int" and not (number.is_integer() and abs(number) < 2**63):
            raise TypeError(f"{name} must be {expected}, got {value!r}")
        return int(value) if kind == "int" else number  # type: ignore[call-overload]
    try:
        array = np.array(value, order="C")
    except ValueError:  # a nested list with rows of different lengths
        array = np.array(None)
    if array.dtype.kind not in "iuf" or kind in ("int", "float"):
        raise TypeError(f"{name} must be {expected}, got {value!r}")
    array = array.astype(np.float64, copy=False)
    if np.isnan(array).any():
        raise ValueError(f"{name}{place(np.isnan(array))} must be a number, got NaN")
    array.setflags(write=False)
    return array


def components_of(name: str, values: Any) -> tuple[Component, ...]:
    """One or more components, as a tuple; TypeError if that is not what `values` are."""
    if isinstance(values, Component) or not isinstance(values, Iterable) or isinstance(values, (str, bytes)):
        raise TypeError(f"{name} must be a list of components, got {values!r}")
    found = tuple(values)
    for k, value in enumerate(found):
        if isinstance(value, type) and issubclass(value, Component):
            raise TypeError(f"{name}[{k}] must be an instance, not the class: write {value.__name__}(...)")
        if not isinstance(value, Component):
            raise TypeError(f"{name}[{k}] must be a component, got {value!r}")
    if not found:
        raise ValueError(f"{name} must not be empty")
    return found


#: What the annotation of a field asks for, in words for error messages.
EXPECTED = {"int": "an integer of 64 bits", "float": "a number", "PerFeature": "a number or an array of numbers"}


def place(wrong: Any) -> str:
    """The index of the first entry of `wrong` that is true, as one writes it behind a name."""
    if not np.ndim(wrong):
        return ""
    return f"[{', '.join(map(str, np.unravel_index(int(np.argmax(wrong)), np.shape(wrong))))}]"


def require(name: str, value: PerFeature, low: float, high: float = np.inf, open_low: bool = False) -> None:
    """Raise ValueError unless every entry of `value` lies in [low, high] (or ]low, high])."""
    array = np.asarray(value)
    wrong = ~((array > low if open_low else array >= low) & (array <= high))
    if wrong.any():
        bound = f"{'greater than' if open_low else 'at least'} {low:g}"
        if high < np.inf:
            bound += f" and at most {high:g}" if high < np.finfo(float).max else " and finite"
        raise ValueError(f"{name}{place(wrong)} must be {bound}, got {array[wrong].flat[0]:g}")


@functools.cache
def field_names(kind: Any) -> tuple[str, ...]:
    """The names of the fields, in their order."""
    return tuple(field.name for field in dataclasses.fields(kind))


def field_values(component: Component) -> tuple[Any, ...]:
    """The values of the fields, in their order."""
    return tuple([getattr(component, name) for name in field_names(type(component))])  # type: ignore[arg-type]


def comparable(component: Component) -> tuple[Any, ...]:
    """The fields as values that compare and hash, arrays included."""
    values = field_values(component)
    return tuple((v.shape, v.tobytes()) if isinstance(v, np.ndarray) else v for v in values)


def per_feature_sizes(component: Component) -> list[tuple[str, tuple[int, ...]]]:
    """Every array in a component, or in a component inside it: its name and its shape."""
    found = []
    for name, value in zip(field_names(type(component)), field_values(component), strict=True):  # type: ignore[arg-type]
        if isinstance(value, (Component, tuple)):
            for part in (value,) if isinstance(value, Component) else value:
                found += per_feature_sizes(part)
        elif isinstance(value, np.ndarray) and component.of_features:
            found.append((f"{type(component).__name__}.{name}", value.shape))
    return found
