"""Several intakes become one that knows the features and classes of all: by name, or by number where they have none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fiol.components.component import Component, per_feature_sizes
from fiol.features.coding import Coding
from fiol.features.hashing import Hashing
from fiol.features.intake import Intake
from fiol.features.labels import Labels
from fiol.features.vocabulary import Vocabulary


class Places(NamedTuple):
    """The numbers that the features and classes of one intake have in another."""

    features: Any  #: features[i] is the new number of feature i
    scores: Any = None  #: scores[k] is the new code of class k; None if there are no classes


def united(intakes: Sequence[Intake], called: Sequence[str]) -> tuple[Intake, list[Places]]:
    """A new intake with the features and classes of all, in their order, and the `Places` of each intake in it.

    All have the same options. ValueError if they do not go together, by what they are `called`.

    >>> a, b = Intake(), Intake()
    >>> rows = a.take_in([{"age": 30.0, "size": 3.0}]), b.take_in([{"color": "red", "age": 31.0}])
    >>> both, places = united([a, b], ["a", "b"])
    >>> both.names, [p.features.tolist() for p in places]
    (['age', 'size', 'color=red'], [[0, 1], [2, 0]])
    """
    first = intakes[0]
    width = first.width if first.bits is None else None
    new = Intake(width, first.bits, first.max_features, first.counts_unseen, first.any_names)
    new.coding = united_coding(intakes, called)
    features = unite_features(new, intakes, called)
    scores = unite_labels(new, intakes, called)
    return new, [Places(*pair) for pair in zip(features, scores, strict=True)]


def unite_features(new: Intake, intakes: Sequence[Intake], called: Sequence[str]) -> list[Any]:
    """Let `new` have the features of all; for each intake, the new numbers of its features."""
    named = [k for k, intake in enumerate(intakes) if isinstance(intake.encoder, Vocabulary)]
    if named:
        for intake, name in zip(intakes, called, strict=True):
            if names_of(intake, new.coding is not None) is None:
                raise ValueError(
                    f"{name} has numbered features, {called[named[0]]} named ones: bits=... lets them share"
                )
        lists = [names_of(intake, new.coding is not None) or [] for intake in intakes]
        names, places = united_names(lists)
        new.encoder, new.features = Vocabulary(names), len(names)
        return places
    new.features = max(intake.features for intake in intakes)
    new.dense_columns = common_width(intakes, called)
    if not isinstance(new.encoder, Hashing):
        return unite_columns(new, intakes, called)
    new.encoder = intakes[0].encoder
    for intake, name in zip(intakes, called, strict=True):
        if intake.encoder != new.encoder:
            raise ValueError(f"{name} hashes names by {intake.encoder!r}, {called[0]} by {new.encoder!r}")
    return [np.arange(new.features)] * len(intakes)


def common_width(intakes: Sequence[Intake], called: Sequence[str]) -> int | None:
    """Return the number of columns of the arrays that intakes have learned from, None if there were no arrays.

    Raises ValueError if two intakes have learned from arrays of different widths.
    """
    known = [(intake.dense_columns, name) for intake, name in zip(intakes, called, strict=True) if intake.dense_columns]
    for width, name in known[1:]:
        if width != known[0][0]:
            raise ValueError(
                f"{name} has learned from arrays of {width} columns, {known[0][1]} from arrays of {known[0][0]}: "
                "learners can be merged if their arrays have the same columns"
            )
    return known[0][0] if known else None


def check_descends(intake: Intake, base: Intake, name: str) -> None:
    """Raise ValueError if a learner called `name` with this intake cannot have gone on from a copy of the base.

    Features and classes are only added, so those of the base come first. With `max_features` features are dropped as
    well, and the check leaves features out.
    """
    what = "it did not go on from a copy of base, or features were dropped since: prune after merging"
    if base.labels is not None and intake.labels is not None:
        lacks = [label for label in base.labels.classes if label not in intake.labels.classes]
        if lacks:
            raise ValueError(f"{name} lacks the class {lacks[0]!r} of base: it did not go on from a copy of base")
    if base.max_features is not None:
        return
    known, own = names_of(base, coded=True) or [], names_of(intake, coded=True)
    wrong = next((i for i, feature in enumerate(known) if own is None or own[i : i + 1] != [feature]), None)
    if wrong is not None:
        raise ValueError(f"{name} lacks the feature {known[wrong]!r} of base at place {wrong}: {what}")
    if base.features > intake.features:
        raise ValueError(f"{name} has {intake.features} features, base has {base.features}: {what}")


def names_of(intake: Intake, coded: bool) -> list[str | int] | None:
    """The names of features, those of columns where others have a coding; None if features are numbers."""
    if isinstance(intake.encoder, Vocabulary):
        return intake.encoder.names
    if intake.columns is not None and coded:
        return list(intake.columns)
    return None if intake.features else []


def united_coding(intakes: Sequence[Intake], called: Sequence[str]) -> Coding | None:
    """The coding that all have who have one; ValueError if two differ."""
    known = [(intake.coding, name) for intake, name in zip(intakes, called, strict=True) if intake.coding is not None]
    whole = [pair for pair in known if pair[0].complete] or known
    for coding, name in whole[1:]:
        if set(coding.columns) != set(whole[0][0].columns) or coding.pairs != whole[0][0].pairs:
            raise ValueError(
                f"{name} makes other features of its columns than {whole[0][1]}: {difference(coding, whole[0][0])}"
            )
    return whole[0][0] if whole else None


def difference(a: Coding, b: Coding) -> str:
    """The first column in which two codings differ, as both have it."""
    pairs = ((x, next((y for y in b.columns if y.name == x.name), None)) for x in (*a.columns, *b.columns))
    one = next((x for x, y in pairs if x != y), None)
    return f"{a.pairs} and {b.pairs}" if one is None else one.describe()


def unite_columns(new: Intake, intakes: Sequence[Intake], called: Sequence[str]) -> list[Any]:
    """Let `new` have the columns of those that have any, which must be the same in whatever order."""
    places = [np.arange(intake.features) for intake in intakes]
    known = [k for k, intake in enumerate(intakes) if intake.columns is not None]
    if not known:
        return places
    columns, found = united_names([intakes[k].columns or () for k in known])
    for k, place in zip(known, found, strict=True):
        if len(place) < len(columns):
            lacks = next(name for name in columns if name not in (intakes[k].columns or ()))
            raise ValueError(
                f"{called[k]} has no column {lacks!r}, which another has: frames must have the same columns"
            )
        places[k] = place
    for intake, name in zip(intakes, called, strict=True):
        if intake.features > len(columns):
            raise ValueError(f"{name} has {intake.features} features, {called[known[0]]} has {len(columns)} columns")
    new.columns = tuple(columns)
    return places


def unite_labels(new: Intake, intakes: Sequence[Intake], called: Sequence[str]) -> list[Any]:
    """Let `new` have the classes of all; for each intake, the new codes of its classes."""
    found = [intake.labels for intake in intakes]
    if all(labels is None for labels in found):
        return [None] * len(intakes)
    lists = [[] if labels is None else labels.classes for labels in found]
    classes, places = united_names(lists)
    closed = any(labels is not None and labels.closed for labels in found)
    for own, name in zip(lists, called, strict=True):
        if closed and len(own) < len(classes):
            raise ValueError(f"{name} has the classes {own}, of {classes}, and there will be no others")
    new.labels = Labels(classes, closed)
    return places


def united_names(lists: Sequence[Iterable[Any]]) -> tuple[list[Any], list[Any]]:
    """All names, each once, in the order in which they come; and for each list, the places of its names among them.

    >>> united_names([["b", "a"], ["c", "a"]])
    (['b', 'a', 'c'], [array([0, 1]), array([2, 1])])
    """
    numbers: dict[Any, int] = {}
    places = [np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64) for names in lists]
    return list(numbers), places


def check_places(update: Component, places: list[Places], called: list[str]) -> None:
    """Refuse to move a feature to another number where the recipe knows features by their numbers."""
    sizes = per_feature_sizes(update)
    for place, name in zip(places, called, strict=True):
        if sizes and (place.features != np.arange(len(place.features))).any():
            raise ValueError(
                f"{name} has its features in another order than {called[0]}, but {sizes[0][0]} has one number for each"
            )
