"""Checks of the arguments of a learner."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Any

import numpy as np

from fiol.algorithms.ensemble import Ensemble
from fiol.algorithms.plan import Plan, make_plan
from fiol.algorithms.update import Update
from fiol.components.component import per_feature_sizes
from fiol.components.joint_losses import JointLoss
from fiol.components.losses import Logistic
from fiol.components.regularizers import Unregularized
from fiol.components.subproblem import expect
from fiol.components.table_basis import TableBasis
from fiol.features.chunk import MOST_FEATURES
from fiol.features.hashing import Hashing, integer
from fiol.features.labels import Labels, check_classes
from fiol.features.table_encoding import TableEncoding
from fiol.names import loss_named, penalty_named
from fiol.option_names import option_text
from fiol.presets import FIOL, Stacked


def check_flag(name: str, value: Any) -> None:
    """Raise ValueError unless an option is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {value!r}")


def check_size(name: str, value: Any) -> int:
    """Return a count that is at least 1 and at most the largest number of features."""
    size = integer(name, value)
    if not 1 <= size <= MOST_FEATURES:
        raise ValueError(f"{name} must be from 1 to {MOST_FEATURES}, got {size}")
    return size


def check_dtype(dtype: Any) -> Any:
    """Return the numpy dtype of an option that must be float64 or float32."""
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = None
    if found is None or found not in (np.dtype(np.float64), np.dtype(np.float32)):  # numpy finds None equal to float64
        raise ValueError(f'dtype must be "float64" or "float32", got {dtype!r}')
    return found


#: What the features of a model are made of: columns as they are, curves of columns, surfaces of pairs of columns.
FEATURES: dict[str, TableBasis | None] = {
    "linear": None,
    "additive": TableBasis(max_pairs=0),
    "pairwise": TableBasis(),
    "auto": TableBasis(),
}


def basis_named(features: Any) -> TableBasis | None:
    """Return the basis that the option `features` stands for; None for "linear"."""
    if not isinstance(features, str):
        expect("features", features, TableBasis)
        return features  # type: ignore[no-any-return]
    if features not in FEATURES:
        raise ValueError(f"features must be one of {', '.join(FEATURES)}, got {features!r}")
    return FEATURES[features]


def with_features(update: Any, features: Any) -> Any:
    """Return the update with curves and pairs as features, if they are asked for; None leaves it as it is."""
    basis = None if features is None else basis_named(features)
    if basis is None:
        return update
    if not isinstance(update, Ensemble):
        expect("update", update, Update)
        asked = option_text("features", features)
        raise TypeError(f"{asked} needs an ensemble, such as the default, got {update.brief()}")
    return replace(update, basis=basis)


def chosen_update(update: Any, loss: Any, regularizer: Any) -> Any:
    """Return the update that is given, or `Stacked` with this loss and penalty; with bounds of weights a `FIOL`.

    >>> from fiol import FIOL, Box, Ridge, Squared
    >>> chosen_update(None, Squared(), None).brief()
    'Ensemble of 7 with Squared()'
    >>> chosen_update(None, Squared(), Box(Ridge(0.0), 0.0, 1.0)).regularizer
    Box(regularizer=Ridge(lam=0.0), lo=0.0, hi=1.0)
    >>> chosen_update("logistic", None, "l1:0.01").brief()
    'Ensemble of 7 with Logistic() behind a gate with L1(lam=0.01)'
    >>> chosen_update(FIOL(Squared()), Squared(), None)
    Traceback (most recent call last):
    TypeError: give an update, which has a loss and a regularizer, or loss= and regularizer= without an update
    """
    if isinstance(update, str):
        update, loss = None, update
    loss = loss_named(loss) if isinstance(loss, str) else loss
    regularizer = penalty_named(regularizer) if isinstance(regularizer, str) else regularizer
    if update is None:
        loss = Logistic() if loss is None else loss
        regularizer = Unregularized() if regularizer is None else regularizer
        return (FIOL if regularizer.is_bounded() else Stacked)(loss, regularizer)
    if loss is not None or regularizer is not None:
        raise TypeError(
            "give an update, which has a loss and a regularizer, or loss= and regularizer= without an update"
        )
    return update


def labels_for(update: Update | Ensemble, classes: Any) -> Labels | None:
    """Return the classes of a learner whose loss has a score for each, and None for a loss with one score."""
    if isinstance(update.loss, JointLoss):
        return given_labels(classes)
    if classes is not None:
        name = type(update.loss).__name__
        raise TypeError(f"{name} has one score, not one per class: use a joint loss, such as Softmax(), or OneVsRest")
    return None


def given_labels(classes: Any) -> Labels:
    """Return labels that are closed if the classes are given, and open otherwise."""
    return Labels(() if classes is None else check_classes(classes), closed=classes is not None)


def table_encoding_given(table_encoding: Any, width: int | None, bits: int | None) -> TableEncoding | None:
    """Return the column encoding that the user gives, if any; TypeError if the number of features is fixed."""
    if table_encoding is None:
        return None
    if width is not None and bits is None:
        raise TypeError("a table encoding makes as many features as there are names: leave out n_features")
    return TableEncoding.from_spec(table_encoding)


def plans_of(update: Update | Ensemble, averaging: bool) -> list[Plan]:
    """Return the plan of an update, or the plans of the members of an ensemble."""
    if not isinstance(update, Ensemble):
        return [make_plan(update, averaging)]
    if averaging:
        raise TypeError("an ensemble keeps no averages: its stack takes the place of them")
    return [make_plan(member) for member in update.updates]


def fixed_features(
    update: Update | Ensemble, plans: list[Plan], n_features: Any, bits: Any, max_features: Any
) -> int | None:
    """Return the number of features if it is fixed, and None if it grows with the rows."""
    given = [name for name, value in (("n_features", n_features), ("bits", bits)) if value is not None]
    if max_features is not None:
        check_size("max_features", max_features)
        given.append("max_features")
    if len(given) > 1:
        raise TypeError(f"{' and '.join(given)} exclude each other")
    if n_features is not None:
        check_size("n_features", n_features)
        n_features = operator.index(n_features)
    if bits is not None:
        n_features = Hashing(bits).size
    sizes = per_feature_sizes(update)
    if sizes and max_features is not None:
        raise TypeError(f"{sizes[0][0]} has one number per feature, so max_features cannot renumber them")
    if n_features is None and sizes:
        n_features = sizes[0][1][0]
    for name, shape in sizes:
        if shape[0] != n_features:
            raise ValueError(f"{name} is for {shape[0]} features, but there are {n_features}")
    everywhere = any(plan.lazy_update.everywhere and plan.first_weight(1) != 0.0 for plan in plans)
    if n_features is None and (update.geometry.reparametrization().whole_rows or everywhere):
        raise TypeError(f"{type(update.geometry).__name__} needs to know how many features there are: give n_features")
    return n_features


def check_levels(bits: Any, max_features: Any) -> None:
    """Raise TypeError if features of a model with curves and pairs have no names, or are dropped."""
    for name, value in (("bits", bits), ("max_features", max_features)):
        if value is not None:
            linear = option_text("features", "linear")
            raise TypeError(
                f"{option_text(name)} excludes curves and pairs, which need the columns of features: use {linear}"
            )
