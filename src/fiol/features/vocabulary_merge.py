"""Merge feature spaces: one with the features and classes of all, matched by name, or by number without names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fiol.components.component import Component, per_feature_sizes
from fiol.features.feature_space import FeatureSpace
from fiol.features.hashing import Hashing
from fiol.features.labels import Labels
from fiol.features.table_encoding import TableEncoding
from fiol.features.vocabulary import Vocabulary


class Places(NamedTuple):
    """The numbers that the features and classes of one feature space have in another."""

    features: Any  #: new number of each feature
    scores: Any = None  #: new code of each class; None without classes


def merge_feature_spaces(spaces: Sequence[FeatureSpace], owners: Sequence[str]) -> tuple[FeatureSpace, list[Places]]:
    """Return a feature space with the features and classes of all, in their order, and the `Places` of each.

    All have the same options. Raise ValueError, with the names in `owners`, if spaces are incompatible.

    >>> a, b = FeatureSpace(), FeatureSpace()
    >>> rows = a.encode_rows([{"age": 30.0, "size": 3.0}]), b.encode_rows([{"color": "red", "age": 31.0}])
    >>> both, places = merge_feature_spaces([a, b], ["a", "b"])
    >>> both.names, [p.features.tolist() for p in places]
    (['age', 'size', 'color=red'], [[0, 1], [2, 0]])
    """
    first = spaces[0]
    width = first.width if first.bits is None else None
    new = FeatureSpace(width, first.bits, first.max_features, first.counts_unseen, first.any_names)
    new.table_encoding = merge_encodings(spaces, owners)
    features = merge_features(new, spaces, owners)
    scores = merge_labels(new, spaces, owners)
    return new, [Places(*pair) for pair in zip(features, scores, strict=True)]


def merge_features(new: FeatureSpace, spaces: Sequence[FeatureSpace], owners: Sequence[str]) -> list[Any]:
    """Add the features of all spaces to `new`; return for each space the new numbers of its features."""
    named = [k for k, space in enumerate(spaces) if isinstance(space.encoder, Vocabulary)]
    if named:
        for space, name in zip(spaces, owners, strict=True):
            if names_of(space, new.table_encoding is not None) is None:
                raise ValueError(
                    f"{name} has numbered features, {owners[named[0]]} named ones: bits=... lets them share"
                )
        lists = [names_of(space, new.table_encoding is not None) or [] for space in spaces]
        names, places = join_names(lists)
        new.encoder, new.features = Vocabulary(names), len(names)
        return places
    new.features = max(space.features for space in spaces)
    new.dense_columns = common_width(spaces, owners)
    if not isinstance(new.encoder, Hashing):
        return merge_columns(new, spaces, owners)
    new.encoder = spaces[0].encoder
    for space, name in zip(spaces, owners, strict=True):
        if space.encoder != new.encoder:
            raise ValueError(f"{name} hashes names by {space.encoder!r}, {owners[0]} by {new.encoder!r}")
    return [np.arange(new.features)] * len(spaces)


def common_width(spaces: Sequence[FeatureSpace], owners: Sequence[str]) -> int | None:
    """Return the number of columns of the arrays that feature spaces have learned from, None if there were no arrays.

    Raises ValueError if two spaces have learned from arrays of different widths.
    """
    known = [(space.dense_columns, name) for space, name in zip(spaces, owners, strict=True) if space.dense_columns]
    for width, name in known[1:]:
        if width != known[0][0]:
            raise ValueError(
                f"{name} has learned from arrays of {width} columns, {known[0][1]} from arrays of {known[0][0]}: "
                "learners can be merged if their arrays have the same columns"
            )
    return known[0][0] if known else None


def check_descends(space: FeatureSpace, base: FeatureSpace, name: str) -> None:
    """Raise ValueError if a learner with this feature space cannot be a continued copy of the base.

    Features and classes are only added, so those of the base come first. With `max_features` features are also dropped,
    and only classes are checked.
    """
    what = "it did not go on from a copy of base, or features were dropped since: prune after merging"
    if base.labels is not None and space.labels is not None:
        lacks = [label for label in base.labels.classes if label not in space.labels.classes]
        if lacks:
            raise ValueError(f"{name} lacks the class {lacks[0]!r} of base: it did not go on from a copy of base")
    if base.max_features is not None:
        return
    known, own = names_of(base, coded=True) or [], names_of(space, coded=True)
    wrong = next((i for i, feature in enumerate(known) if own is None or own[i : i + 1] != [feature]), None)
    if wrong is not None:
        raise ValueError(f"{name} lacks the feature {known[wrong]!r} of base at place {wrong}: {what}")
    if base.features > space.features:
        raise ValueError(f"{name} has {space.features} features, base has {base.features}: {what}")


def names_of(space: FeatureSpace, coded: bool) -> list[str | int] | None:
    """Return the names of features, those of columns if `coded`; None if features are numbers."""
    if isinstance(space.encoder, Vocabulary):
        return space.encoder.names
    if space.columns is not None and coded:
        return list(space.columns)
    return None if space.features else []


def merge_encodings(spaces: Sequence[FeatureSpace], owners: Sequence[str]) -> TableEncoding | None:
    """Return the common table encoding of all spaces that have one; raise ValueError if two differ."""
    known = [
        (space.table_encoding, name)
        for space, name in zip(spaces, owners, strict=True)
        if space.table_encoding is not None
    ]
    whole = [pair for pair in known if pair[0].complete] or known
    for encoding, name in whole[1:]:
        if set(encoding.columns) != set(whole[0][0].columns) or encoding.pairs != whole[0][0].pairs:
            raise ValueError(
                f"{name} makes other features of its columns than {whole[0][1]}: {difference(encoding, whole[0][0])}"
            )
    return whole[0][0] if whole else None


def difference(a: TableEncoding, b: TableEncoding) -> str:
    """Return the first column in which two table encodings differ, in words."""
    pairs = ((x, next((y for y in b.columns if y.name == x.name), None)) for x in (*a.columns, *b.columns))
    one = next((x for x, y in pairs if x != y), None)
    return f"{a.pairs} and {b.pairs}" if one is None else one.describe()


def merge_columns(new: FeatureSpace, spaces: Sequence[FeatureSpace], owners: Sequence[str]) -> list[Any]:
    """Give `new` the columns of all spaces that have columns, which must be the same in any order."""
    places = [np.arange(space.features) for space in spaces]
    known = [k for k, space in enumerate(spaces) if space.columns is not None]
    if not known:
        return places
    columns, found = join_names([spaces[k].columns or () for k in known])
    for k, place in zip(known, found, strict=True):
        if len(place) < len(columns):
            lacks = next(name for name in columns if name not in (spaces[k].columns or ()))
            raise ValueError(
                f"{owners[k]} has no column {lacks!r}, which another has: frames must have the same columns"
            )
        places[k] = place
    for space, name in zip(spaces, owners, strict=True):
        if space.features > len(columns):
            raise ValueError(f"{name} has {space.features} features, {owners[known[0]]} has {len(columns)} columns")
    new.columns = tuple(columns)
    return places


def merge_labels(new: FeatureSpace, spaces: Sequence[FeatureSpace], owners: Sequence[str]) -> list[Any]:
    """Add the classes of all spaces to `new`; return for each space the new codes of its classes."""
    found = [space.labels for space in spaces]
    if all(labels is None for labels in found):
        return [None] * len(spaces)
    lists = [[] if labels is None else labels.classes for labels in found]
    classes, places = join_names(lists)
    closed = any(labels is not None and labels.closed for labels in found)
    for own, name in zip(lists, owners, strict=True):
        if closed and len(own) < len(classes):
            raise ValueError(f"{name} has the classes {own}, of {classes} in all, which are closed")
    new.labels = Labels(classes, closed)
    return places


def join_names(lists: Sequence[Iterable[Any]]) -> tuple[list[Any], list[Any]]:
    """Return all names, each once, in order of appearance; and for each list, the positions of its names.

    >>> join_names([["b", "a"], ["c", "a"]])
    (['b', 'a', 'c'], [array([0, 1]), array([2, 1])])
    """
    numbers: dict[Any, int] = {}
    places = [np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64) for names in lists]
    return list(numbers), places


def check_places(update: Component, places: list[Places], owners: list[str]) -> None:
    """Raise ValueError if a feature gets another number, and a component has one number per feature."""
    sizes = per_feature_sizes(update)
    for place, name in zip(places, owners, strict=True):
        if sizes and (place.features != np.arange(len(place.features))).any():
            raise ValueError(
                f"{name} has its features in another order than {owners[0]}, but {sizes[0][0]} has one number for each"
            )
