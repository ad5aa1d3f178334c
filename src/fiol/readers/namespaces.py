"""Namespaces of Vowpal Wabbit's text: names of features in them, the choice of namespaces, and n-grams of features."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fiol.features.feature_columns import FeatureColumn, interleave
from fiol.features.named_rows import NamedRows

#: The letter of the namespace without a name.
NO_LETTER = " "
#: How many features in a row, of namespaces that begin with a letter or of all.
GRAMS = re.compile(r"(.?)([1-9])")


def full_name(namespace: str, feature: str) -> str:
    """Return the name of a feature in a namespace, of which `split_name` makes the two again.

    Where a caret in the namespace, or in a feature without one, would be ambiguous, the name is as in a line of text.

    >>> full_name("p", "the"), full_name("", "the"), full_name("", "p^the"), full_name("p^q", "the")
    ('p^the', 'the', '| p^the', '|p^q the')
    """
    name = f"{namespace}^{feature}" if namespace else feature
    return name if split_name(name) == (namespace, feature) else f"|{namespace} {feature}"


def split_name(name: str) -> tuple[str, str]:
    """Return the namespace and the feature of a name; the namespace is empty if there is none.

    >>> split_name("city^Paris"), split_name("age"), split_name("^x"), split_name("|p^q the")
    (('city', 'Paris'), ('', 'age'), ('', '^x'), ('p^q', 'the'))
    """
    if name.startswith("|") and " " in name:
        namespace, _, feature = name[1:].partition(" ")
        return namespace, feature
    namespace, _, feature = name.partition("^")
    return (namespace, feature) if namespace and feature else ("", name)


class NamespaceChoice(NamedTuple):
    """What `ignore`, `keep` and `ngrams` say of namespaces, by their first letters."""

    ignored: str
    kept: str | None  #: None for all
    grams: Mapping[str, int]  #: how many features in a row, by letter; "" for all others

    @classmethod
    def of(cls, ignore: Any, keep: Any, ngrams: Any) -> NamespaceChoice | None:
        """From options, which may be None; None if they say nothing. ValueError if they make no sense.

        >>> NamespaceChoice.of("a", None, "t3,2")
        NamespaceChoice(ignored='a', kept=None, grams={'t': 3, '': 2})
        >>> NamespaceChoice.of(None, None, "t")
        Traceback (most recent call last):
        ValueError: ngrams must be a number such as 2, or one after a letter such as t3, got 't'
        """
        grams = {}
        for part in [] if ngrams is None else str(ngrams).split(","):
            found = GRAMS.fullmatch(part)
            if found is None:
                raise ValueError(f"ngrams must be a number such as 2, or one after a letter such as t3, got {part!r}")
            grams[found[1]] = int(found[2])
        choice = cls("" if ignore is None else str(ignore), None if keep is None else str(keep), grams)
        return None if choice == ("", None, {}) else choice

    def has(self, namespace: str) -> bool:
        """Return whether the features of a namespace count."""
        letter = namespace[:1] or NO_LETTER
        return letter not in self.ignored and (self.kept is None or letter in self.kept)

    def applied(self, rows: NamedRows, groups: list[str]) -> tuple[NamedRows, list[str]]:
        """Return rows without features that do not count, with sequences of features; and the group of each.

        >>> from fiol import Chunk
        >>> entries = np.array([0, 1, 2, 3], np.int32), np.array([1.0, 5.0, 1.0, 1.0])
        >>> rows = NamedRows(Chunk(np.array([0, 4]), *entries), ["t^new", "a^x", "t^york", "t^city"])
        >>> NamespaceChoice("a", None, {"": 2}).applied(rows, ["t", "a", "t", "t"])[0].names
        ['t^new', 't^york', 't^city', 't^new york', 't^york city']
        """
        chunk, names = rows
        row = np.repeat(np.arange(chunk.rows), np.diff(chunk.indptr))
        letters = np.array([group[:1] or NO_LETTER for group in groups] or [""])
        counts = np.array([self.has(group) for group in groups] or [False], bool)[chunk.indices]
        own = FeatureColumn(
            row[counts], chunk.indices[counts].astype(np.int64), chunk.data[counts], list(names), groups
        )
        columns = [own]
        for letter in dict.fromkeys(letters.tolist()):
            some = np.flatnonzero(letters[own.codes] == letter)
            for size in range(2, self.grams.get(letter, self.grams.get("", 1)) + 1):
                columns.append(in_a_row(own, some, size))
        return interleave(columns, chunk.rows)


def in_a_row(own: FeatureColumn, some: Any, size: int) -> FeatureColumn:
    """Return a feature for every n entries of a row that follow one another among some."""
    starts = np.arange(max(len(some) - size + 1, 0))
    starts = starts[own.rows[some[starts]] == own.rows[some[starts + size - 1]]]
    codes = np.column_stack([own.codes[some[starts + k]] for k in range(size)])
    known, which = np.unique(codes, axis=0, return_inverse=True)
    names = list[str]()
    for several in known.tolist():
        groups = [own.groups[code] for code in several]
        names.append(full_name(groups[0], " ".join(split_name(own.names[code])[1] for code in several)))
    of_first = [own.groups[several[0]] for several in known.tolist()]
    return FeatureColumn(own.rows[some[starts]], which.reshape(-1), np.ones(len(starts)), names, of_first)
