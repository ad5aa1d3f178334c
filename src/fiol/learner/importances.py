"""How much every feature, and every column, matters: weight times standard deviation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fiol.components.row import Floats
from fiol.features.column_kinds import COLUMN_KINDS
from fiol.features.column_names import column_and_value, column_of_feature
from fiol.features.column_roles import IS_CATEGORY, role_of
from fiol.features.feature_moments import FeatureMoments
from fiol.features.feature_space import FeatureSpace
from fiol.learner.effects import effects_of
from fiol.learner.model_core import ModelCore
from fiol.summary import by_importance

#: If indicators of which a row has at most one are in this share of rows, every row has one, but for rounding.
NEARLY_ALL_ROWS = 0.98


def importances(core: ModelCore, meta: Mapping[str, Any], most: int | None, X: Any, by: str) -> dict[Any, float]:
    """Return the importance of features or columns, the largest first: see `Model.importances`."""
    if by not in ("feature", "column"):
        raise ValueError(f'by must be "feature" or "column", got {by!r}')
    weights, space = core.weights(), core.space
    if not weights.size:
        return {}
    if X is None:
        means, squares = estimated_moments(core, meta)
    else:
        means, squares = core.moments(X)
    if by == "feature":
        weights, means, squares = around_means(core, weights, means, squares)
        size = weights if weights.ndim == 1 else np.sqrt(np.mean(weights * weights, axis=0))
        return by_importance(core.feature_names(), size * np.sqrt(np.maximum(squares - means * means, 0.0)), most)
    layout, own, all_squares = columns_of_features(space), core.own_numbers(), squares
    weights, means, squares = np.atleast_2d(weights)[:, own], means[own], squares[own]
    if core.feature_count == space.features:
        return by_importance(layout.columns, column_deviations(layout, weights, means, squares), most)
    found = effects_of(core, None if X is None else all_squares)
    basis = core.levels.basis  # type: ignore[union-attr]
    assert basis is not None
    apart = basis.slots_of(space.roles) < 0  # words, products and columns that were constant at first
    sizes = dict(zip(layout.columns, column_deviations(layout, weights * apart, means, squares), strict=True))
    sizes |= {one.name: one.size for one in found.columns} | {one.name: one.size for one in found.pairs}
    return by_importance(list(sizes), np.array(list(sizes.values())), most)


def around_means(core: ModelCore, weights: Floats, means: Floats, squares: Floats) -> tuple[Floats, Floats, Floats]:
    """Return weights and moments where a missing value of a centered feature is its mean, not 0."""
    feature, missing, mean = core.missing_of_centered()
    weights, means, squares, there = weights.copy(), means.copy(), squares.copy(), 1.0 - means[missing]
    weights[..., missing] -= mean * weights[..., feature]
    squares[feature] += mean * mean * there - 2.0 * mean * means[feature]
    means[feature] -= mean * there
    return weights, means, squares


class ColumnLayout(NamedTuple):
    """Which features belong to which column."""

    columns: list[Any]  #: names, or numbers without names
    groups: Any  #: of each feature: a row has at most one feature of a group
    column: Any  #: of each group
    indicators: Any  #: whether the values of a feature are 0 and 1


def columns_of_features(space: FeatureSpace) -> ColumnLayout:
    """Return the layout of a feature space; without a table encoding, columns are the keys of dicts, or numbers.

    Raises ValueError if features of a table are hashed.
    """
    names, encoding, n = (space if space.outer is None else space.outer).names, space.table_encoding, space.features
    if encoding is None:
        return columns_of_dicts(n, names)
    if names is None:
        raise ValueError('features are hashed, so that their columns are not known: use by="feature"')
    kinds = {column.name: column.kind for column in encoding.columns}
    columns, groups, column = dict[str, int](), dict[str, int](), list[int]()
    numbers, indicators = np.empty(n, np.int64), np.zeros(n, bool)
    for k, name in enumerate(map(str, names)):
        owner = column_of_feature(name, kinds, encoding.pairs)
        source, value = column_and_value(name, kinds)
        indicators[k] = source == owner and value != ""
        alone = source != owner or COLUMN_KINDS[kinds[owner]].has_several
        part = name.partition("=")[0] if indicators[k] and name.startswith(f"{owner}.") else owner
        group = f"feature {name}" if alone else f"column {part}"
        if group not in groups:
            column.append(columns.setdefault(owner, len(columns)))
        numbers[k] = groups.setdefault(group, len(groups))
    return ColumnLayout(list(columns), numbers, np.array(column, np.int64), indicators)


def columns_of_dicts(features: int, names: Sequence[Any] | None) -> ColumnLayout:
    """Return the layout of features without a table encoding: those of text values, `key=text`, share a column.

    >>> layout = columns_of_dicts(3, ["city=Rome", "age", "city=Oslo"])
    >>> layout.columns, layout.column[layout.groups].tolist(), layout.indicators.tolist()
    (['city', 'age'], [0, 1, 0], [True, False, True])
    """
    if names is None:
        return ColumnLayout(list(range(features)), np.arange(features), np.arange(features), np.zeros(features, bool))
    roles = [role_of(name, {}) for name in names]
    known: dict[Any, int] = {}
    keys = [column if role == IS_CATEGORY else name for (role, column), name in zip(roles, names, strict=True)]
    groups = np.array([known.setdefault(key, len(known)) for key in keys], np.int64)
    return ColumnLayout(list(known), groups, np.arange(len(known)), np.array([r == IS_CATEGORY for r, _ in roles]))


def column_deviations(layout: ColumnLayout, weights: Floats, means: Floats, squares: Floats) -> Floats:
    """Return the standard deviation of what every column adds to scores, the root mean square over classes.

    Of a group of features of which a row has at most one, the variance is

        sum of w_i^2 E x_i^2 - (sum of w_i E x_i)^2

    and groups count as uncorrelated.
    """
    count = len(layout.column)
    share = np.bincount(layout.groups, np.where(layout.indicators, means, 0.0), count)
    plain = np.bincount(layout.groups, ~layout.indicators, count) == 0
    share = np.where(plain & (share > NEARLY_ALL_ROWS), share, 1.0)[layout.groups]
    variance = np.zeros(count)
    for w in weights:
        second = np.bincount(layout.groups, w * w * squares / share, count)
        variance += np.maximum(second - np.bincount(layout.groups, w * means / share, count) ** 2, 0.0)
    return np.sqrt(np.bincount(layout.column, variance / len(weights), len(layout.columns)))


def estimated_moments(core: ModelCore, meta: Mapping[str, Any]) -> tuple[Floats, Floats]:
    """Return mean and mean square of every feature in the rows learned from, as far as they are known.

    Those in `meta` are exact. Others follow from root mean squares: the mean of values 0 and 1 is their mean square; a
    mean that is not known counts as 0.
    """
    space, own, means = core.space, core.own_numbers(), core.centered_means()
    squares, sizes = core.root_mean_squares() ** 2 + means**2, core.scales()
    hashed = space.names is None and space.table_encoding is not None
    indicators = np.zeros(len(own), bool) if hashed else columns_of_features(space).indicators & (sizes[own] == 1.0)
    indicators &= means[own] == 0.0
    means[own[indicators]] = squares[own[indicators]]
    feature, missing, mean = core.missing_of_centered()
    squares[feature] -= mean * mean * means[missing]
    means[feature] -= mean * means[missing]
    if "moments" in meta:
        moments = FeatureMoments.from_json(meta["moments"])
        places = numbers_of_features(space, moments.names)
        known = (places >= 0) & (places < len(own))
        mean, deviation = (values[known] for values in moments.means_and_deviations())
        where = own[places[known]]
        means[where], squares[where] = mean, mean * mean + deviation * deviation
    return means, squares


def numbers_of_features(space: FeatureSpace, names: list[Any]) -> Any:
    """Return the numbers of features by name, or of columns; numbers are themselves, unknown ones are -1."""
    if space.encoder is not None:
        return np.asarray(space.encoder.numbers_of_names(list(map(str, names)), False, -1), np.int64)
    known = {name: k for k, name in enumerate(space.columns or ())}
    return np.array([name if isinstance(name, int) else known.get(name, -1) for name in names], np.int64)
