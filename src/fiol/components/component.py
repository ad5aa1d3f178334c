"""`Component`, a frozen value whose methods are plain Python on scalars, and helpers for one score or many.

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


def value_at(values: PerFeature, i: int) -> float:
    """Return the number for entry `i`: `values` itself if it is one number, else its i-th entry.

    >>> value_at(0.5, 3), value_at(np.array([1.0, 2.0]), 1)
    (0.5, 2.0)
    """
    return float(values[i]) if isinstance(values, np.ndarray) else values


def common_factor(values: PerFeature) -> float:
    """Return the factor that all entries of `values` share: the number itself, or 1 for an array.

    value_at(values, k) = common_factor(values) * own_factor(values, k), so a sum over k can be multiplied
    by the common factor once, after the loop.
    """
    return 1.0 if isinstance(values, np.ndarray) else values


def own_factor(values: PerFeature, k: int) -> float:
    """Return the factor of entry `k` alone: 1 if `values` is one number, else its k-th entry."""
    return float(values[k]) if isinstance(values, np.ndarray) else 1.0


# One score per row or one per class: the state's weights are w[feature] or w[feature, score], and the score of a row
# is a number or an array. Loops over scores read `while k < count_scores(w): ...; k = next_score(w, k)`. With one score
# the compiler then sees no loop and keeps the order of the sums around it; `range(1)` would remain a loop until after
# those sums are vectorized.


def count_scores(w: Any) -> int:
    """Return the number of scores per row for these weights (or scores of rows): 1 for a vector.

    >>> count_scores(np.zeros(5)), count_scores(np.zeros((5, 3)))
    (1, 3)
    """
    return 1 if w.ndim == 1 else w.shape[1]


def next_score(w: Any, k: int) -> int:
    """Return k + 1; the compiled form returns the constant 1 for a vector."""
    return k + 1


def get_weight(w: Any, i: Any, k: int) -> float:
    """Return the weight of feature `i` for score `k`: w[i] of a vector, w[i, k] of a matrix."""
    return w[i] if w.ndim == 1 else w[i, k]  # type: ignore[no-any-return]


def set_weight(w: Any, i: Any, k: int, value: float) -> None:
    """Store `value` as the weight of feature `i` for score `k`, see `get_weight`."""
    if w.ndim == 1:
        w[i] = value
    else:
        w[i, k] = value


def weights_of_score(w: Any, k: int) -> Any:
    """Return the weights of all features for score `k`: the vector itself, or column k of a matrix."""
    return w if w.ndim == 1 else w[:, k]


def add_to_score(z: Any, k: int, value: float) -> Any:
    """Return z with `value` added to score `k`: a new number, or the same array, changed in place."""
    if not isinstance(z, np.ndarray):
        return z + value
    z[k] += value
    return z


def zero_score(z: Any) -> Any:
    """Return a score of 0: the number 0, or the array z filled with zeros."""
    if not isinstance(z, np.ndarray):
        return 0.0
    for k in range(z.shape[0]):
        z[k] = 0.0
    return z


def score_before_row(intercept: Any) -> Any:
    """Return the score to which the terms of a row are added: 0, or the array of intercepts itself.

    One intercept is added last (`score_after_row`); many intercepts are in the array from the start.
    """
    return intercept if isinstance(intercept, np.ndarray) else 0.0


def score_after_row(z: Any, intercept: Any) -> Any:
    """Return the score of a row with its intercept, given the sum z of its terms, see `score_before_row`."""
    return z if isinstance(z, np.ndarray) else z + intercept


class InPlace(NamedTuple):
    """The weights of a row inside the state: w[feature, score] instead of [position in the row, score]."""

    w: Any


def choose_row_storage(lazy_update: Any, w: Any, buffer: Any) -> Any:
    """Return where the weights of a row are updated: inside the state (`InPlace`), or in a buffer of their own.

    Weights of many scores are updated in place if the state stores the weights themselves.
    """
    return InPlace(w) if w.ndim == 2 and lazy_update.in_place else buffer


def get_row_weight(weights: Any, i: Any, j: int, k: int) -> float:
    """Return the weight for score `k` of feature `i`, which is at position `j` of the row."""
    return get_weight(weights.w, i, k) if isinstance(weights, InPlace) else get_weight(weights, j, k)


def set_row_weight(weights: Any, i: Any, j: int, k: int, value: float) -> None:
    """Store `value` as the weight for score `k` of feature `i`, which is at position `j` of the row."""
    if isinstance(weights, InPlace):
        set_weight(weights.w, i, k, value)
    else:
        set_weight(weights, j, k, value)


def get_center(center: Any, new: Any, i: Any, j: int, k: int) -> float:
    """Return the center of a weight's path, see `get_row_weight`.

    Centers in place are read through `new`, the same array: a loop that reads and writes one array vectorizes.
    """
    return get_row_weight(new if isinstance(center, InPlace) else center, i, j, k)


def get_first_weights(weights: Any) -> Any:
    """Return the weight of a row's first feature, which must be feature 0: a number, or an array of many scores."""
    return weights.w[0] if isinstance(weights, InPlace) else weights[0]


def set_score(scores: Any, r: Any, z: Any) -> None:
    """Store z as the score of row `r`. An array of many scores was summed up in its place already."""
    if scores.ndim == 1:
        scores[r] = z


def borrowed(values: Any) -> Any:
    """Return the same array, tuple of arrays or component without ownership: loops count no references to its arrays.

    The caller must keep the arrays alive. Counting took most of the time of a short row.
    """
    return values


def flatten(values: Any) -> Any:
    """Return a C-contiguous array as a vector that shares its memory and does not own it.

    The caller must keep the array alive. (numba's `reshape` is a function call, a tenth of the time of a row.)
    """
    return values.reshape(-1)


def flatten_rows(values: Any) -> Any:
    """Return an array of three axes as a matrix that shares its memory, the last two axes as one; see `flatten`."""
    rows, *others = values.shape
    return values.reshape(rows, others[0] * others[1])


#: The helpers whose compiled forms depend on the types of their arguments; `fiol.compiler.compiled` has these forms.
BY_KIND: tuple[Any, ...] = (
    value_at,
    common_factor,
    own_factor,
    count_scores,
    next_score,
    get_weight,
    set_weight,
    weights_of_score,
    add_to_score,
    zero_score,
    score_before_row,
    score_after_row,
    choose_row_storage,
    get_row_weight,
    set_row_weight,
    get_center,
    get_first_weights,
    set_score,
    borrowed,
    flatten,
    flatten_rows,
)


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

    #: The methods of a family with their parameters, which the methods of a subclass must have.
    protocol: ClassVar[dict[str, tuple[str, ...]]] = {}
    #: The methods of `protocol` that every member of the family must define.
    required: ClassVar[tuple[str, ...]] = ()
    #: The name of a class of this package in model files, by default that of the class; a renamed class keeps the old.
    registered: ClassVar[str]
    #: The values of fields in model files from before the class had them, where these are not the defaults.
    of_older_files: ClassVar[dict[str, Any]] = {}
    #: The names of fields by those that they have in older model files.
    renamed_fields: ClassVar[dict[str, str]] = {}
    #: Whether an array in a field has an entry per feature.
    of_features: ClassVar[bool] = True

    if TYPE_CHECKING:

        @property
        def _leaves(self) -> tuple[Any, ...]:
            """The numbers and arrays of this component and of those inside it, by fields: what compiled code reads.

            Known from the start: an interrupt while compiled code takes the component would crash the process.
            """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in cls.protocol.keys() & vars(cls).keys():
            check_signature(cls, name, vars(cls)[name])
        dataclasses.dataclass(frozen=True, eq=False)(cls)

    def __post_init__(self) -> None:
        leaves, values = list[Any](), self.__dict__
        for name, kind in field_kinds(type(self)):  # type: ignore[arg-type]
            values[name] = value = stored_form(f"{type(self).__name__}.{name}", getattr(self, name), kind)
            leaves += value._leaves if isinstance(value, Component) else (value,)
        self.validate()
        values["_leaves"] = tuple(leaves)

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

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    def has(self, verb: str) -> bool:
        """Return whether this component defines the method `verb`.

        >>> import fiol
        >>> fiol.Logistic().has("hess"), fiol.Hinge().has("hess")
        (True, False)
        """
        return callable(getattr(self, verb, None))

    def missing(self) -> str:
        """Return the first method of `required` that this component lacks, or ''."""
        return next((verb for verb in self.required if not self.has(verb)), "")

    def replace(self: Self, **changes: Any) -> Self:
        """Return a copy with some fields changed.

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
    """Raise TypeError unless `method` is a method with as many arguments as in the protocol of the family."""
    expected = ("self", *cls.protocol[name])  # type: ignore[attr-defined]
    if not isinstance(method, types.FunctionType):
        raise TypeError(f"{cls.__name__}.{name} must be a method ({', '.join(expected)}), not {method!r}")
    found = tuple(map(str, inspect.signature(method).parameters.values()))
    if len(found) != len(expected):
        raise TypeError(f"{cls.__name__}.{name} must take ({', '.join(expected)}), not ({', '.join(found)})")


def stored_form(name: str, value: Any, annotation: Any) -> Any:
    """Return the stored form of a field: int, float, read-only float64 array, or component."""
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
    """Return one or more components as a tuple; TypeError if `values` are anything else."""
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


#: The expected value of a field by its annotation, in words for error messages.
EXPECTED = {"int": "an integer of 64 bits", "float": "a number", "PerFeature": "a number or an array of numbers"}


def place(wrong: Any) -> str:
    """Return the index of the first true entry of `wrong`, such as '[1, 2]'."""
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
def field_kinds(kind: Any) -> tuple[tuple[str, Any], ...]:
    """Return the names and annotations of the fields, in their order."""
    return tuple((field.name, field.type) for field in dataclasses.fields(kind))


@functools.cache
def field_names(kind: Any) -> tuple[str, ...]:
    """Return the names of the fields, in their order."""
    return tuple(field.name for field in dataclasses.fields(kind))


def field_values(component: Component) -> tuple[Any, ...]:
    """Return the values of the fields, in their order."""
    return tuple([getattr(component, name) for name in field_names(type(component))])  # type: ignore[arg-type]


def comparable(component: Component) -> tuple[Any, ...]:
    """Return the fields as values that compare and hash, arrays included."""
    values = field_values(component)
    return tuple((v.shape, v.tobytes()) if isinstance(v, np.ndarray) else v for v in values)


def per_feature_sizes(component: Component) -> list[tuple[str, tuple[int, ...]]]:
    """Return name and shape of every array in a component and in the components inside it."""
    found = []
    for name, value in zip(field_names(type(component)), field_values(component), strict=True):  # type: ignore[arg-type]
        if isinstance(value, (Component, tuple)):
            for part in (value,) if isinstance(value, Component) else value:
                found += per_feature_sizes(part)
        elif isinstance(value, np.ndarray) and component.of_features:
            found.append((f"{type(component).__name__}.{name}", value.shape))
    return found
