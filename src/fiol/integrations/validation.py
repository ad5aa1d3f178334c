"""Validation for scikit-learn's estimators: parameters, rows and labels, and rollback if a check fails."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import validation
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets

from fiol.features.frames import converted
from fiol.features.transaction import Transaction, rows_learned, say_learned
from fiol.names import PENALTIES, is_component_name, is_penalty_name

#: Rows that need no conversion.
CSR_TYPES = tuple(getattr(sparse, name) for name in ("csr_matrix", "csr_array") if hasattr(sparse, name))
LARGEST_SEED = np.iinfo(np.int32).max
#: Valid values of `fit_intercept` and `PassParameters`.
OF_PASSES: dict[str, list[Any]] = {
    "fit_intercept": ["boolean"],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "tol": [Interval(Real, 0, None, closed="left"), None],
    "early_stopping": ["boolean"],
    "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
    "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
    "shuffle": ["boolean"],
    "random_state": ["random_state"],
    "warm_start": ["boolean"],
    "verbose": ["verbose"],
}


@dataclass(eq=False, repr=False, kw_only=True)
class PassParameters:
    """Parameters that estimators for scikit-learn share: passes over the rows, and when they stop."""

    max_iter: int = 1000
    tol: float | None = 1e-3
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 5
    shuffle: bool = True
    random_state: Any = None
    warm_start: bool = False
    verbose: int = 0


#: Valid values of n_jobs.
THREADS: list[Any] = [Interval(Integral, None, -1, closed="right"), Interval(Integral, 1, None, closed="left"), None]


class PenaltyOptions(StrOptions):  # type: ignore[misc]
    """Names of penalties, their aliases, and "none"; an error lists the names alone."""

    def __init__(self) -> None:
        super().__init__({"none", *PENALTIES})

    def is_satisfied_by(self, value: Any) -> bool:
        """Return whether a value names a penalty."""
        return is_penalty_name(value)


class NameOptions(StrOptions):  # type: ignore[misc]
    """Names of components and their aliases (`fiol.names`); an error lists the names alone."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        super().__init__(set(known))
        self.known = known

    def is_satisfied_by(self, value: Any) -> bool:
        """Return whether a value is a name or an alias."""
        return isinstance(value, str) and is_component_name(value, self.known)


def validate_data(estimator: Any, X: Any, y: Any = "no_validation", **options: Any) -> Any:
    """Return X and y after scikit-learn's checks, which store the features; registered containers are converted."""
    X = converted(X)
    if not (isinstance(y, str) and y == "no_validation"):
        y = plain_targets(y)
    if hasattr(estimator, "_validate_data"):  # scikit-learn < 1.6
        return estimator._validate_data(X, y, **options)
    return validation.validate_data(estimator, X, y, **options)


def plain_targets(y: Any) -> Any:
    """Return targets for scikit-learn's checks, which would make floats of nullable integers and bools of pandas.

    >>> import pandas as pd
    >>> plain_targets(pd.Series([2**53 + 1, 2**53], dtype="Int64")).tolist()
    [9007199254740993, 9007199254740992]
    """
    y = converted(y)
    dtype = getattr(y, "dtype", None)
    plain = getattr(dtype, "numpy_dtype", None)
    if plain is None or plain.kind not in "iub" or y.isna().any():
        return y
    return y.to_numpy(plain)


@contextmanager
def unless_refused(estimator: Any) -> Iterator[None]:
    """Restore the attributes of an estimator if an error follows: scikit-learn's checks write some at once.

    New classes of its model are removed too.
    """
    before = estimator.__dict__.copy()
    model: Any = getattr(estimator, "_model", None)
    mark = None if model is None else model.core.mark()
    try:
        yield
    except BaseException as error:
        if not rows_learned(error):
            estimator.__dict__.clear()
            estimator.__dict__.update(before)
            if mark is not None:
                model.core.rewind(mark)
        raise


def all_or_nothing(fit: Any) -> Any:
    """Wrap `fit` or `partial_fit` so that an error or an interrupt leaves the estimator as it was.

    A warning that is raised as an error comes after all was learned.
    """

    @functools.wraps(fit)
    def wrapped(self: Any, *arguments: Any, **options: Any) -> Any:
        before = {name: value.copy() if type(value) is list else value for name, value in self.__dict__.items()}
        goes_on = self.warm_start or fit.__name__ == "partial_fit"
        model = getattr(self, "_model", None)
        own = () if model is None else (model.core.space,)  # one model of several has the features of all
        cores = [learner.core for learner in getattr(self, "learners_", getattr(self, "_learners", ()))]
        undo = Transaction(*((*cores, *own) if goes_on else ()))
        try:
            return fit(self, *arguments, **options)
        except Warning:
            raise
        except BaseException as error:
            undo.rewind()
            self.__dict__.clear()
            self.__dict__.update(before)
            if rows_learned(error):
                say_learned(error, 0)
            raise

    return wrapped


def one_array(y: Any, rows: int) -> Any:
    """Return y if it is an array with one entry per row, as after scikit-learn's checks; ValueError otherwise."""
    if type(y) is not np.ndarray or y.shape != (rows,):
        raise ValueError(f"y must be an array with one entry for each of {rows} rows")
    return y


def is_event(X: Any, y: Any, sample_weight: Any) -> bool:
    """Return whether rows are one CSR row with one target and at most one sample weight, which need no array checks."""
    return (
        type(X) in CSR_TYPES
        and X.shape[0] == len(y) == 1
        and np.ndim(y[0]) == 0
        and (
            sample_weight is None or (isinstance(sample_weight, (list, np.ndarray)) and np.shape(sample_weight) == (1,))
        )
    )


def is_all_zero(sample_weight: Any) -> bool:
    """Return whether sample weights are an array or a list of zeros, which scikit-learn refuses.

    >>> is_all_zero([0.0]), is_all_zero(np.zeros(2)), is_all_zero([0.0, 1.0]), is_all_zero([]), is_all_zero([None])
    (True, True, False, False, False)
    """
    found = np.asarray(sample_weight)
    return found.ndim == 1 and found.dtype.kind in "biuf" and found.size > 0 and not found.any()


def check_labels(classes: Any) -> None:
    """Raise scikit-learn's ValueError unless classes are text or whole numbers."""
    if classes.dtype.kind not in "biuU":
        check_classification_targets(np.repeat(classes, 2))  # once each, it would take many for numbers


def without_numpy(value: Any) -> Any:
    """Return a value without numpy's type, for messages."""
    return value.item() if isinstance(value, np.generic) else value


def class_weights(class_weight: dict[Any, Any], classes: list[Any], closed: bool) -> list[float]:
    """Return the weight of every class, 1 by default.

    As in scikit-learn, a key that is no class is an error where another class has no weight: it may be misspelt.

    >>> class_weights({"pear": 2.0}, ["apple", "pear"], closed=True)
    [1.0, 2.0]
    """
    for label, weight in class_weight.items():
        if not (isinstance(weight, Real) and 0.0 <= float(weight) < np.inf):
            where = f"class_weight[{without_numpy(label)!r}]"
            raise ValueError(f"{where} must be a finite number of at least 0, got {without_numpy(weight)!r}")
    strange = [without_numpy(label) for label in class_weight if label not in classes]
    if closed and strange and len(class_weight) - len(strange) < len(classes):
        raise ValueError(f"class_weight has keys that are no classes: {strange}; the classes are {classes}")
    return [class_weight.get(label, 1.0) for label in classes]
