"""Several feature spaces as one: names, columns, numbers and classes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fiol.features.feature_space import FeatureSpace
from fiol.features.labels import Labels
from fiol.features.vocabulary_merge import join_names, merge_feature_spaces

WORDS = st.lists(
    st.one_of(st.text(max_size=2), st.integers(0, 3)), max_size=6, unique_by=lambda name: (type(name), name)
)


def named(words):
    space = FeatureSpace()
    if words:
        space.encode_rows([{word: 1.0} for word in words])
    return space


@given(st.lists(WORDS, min_size=1, max_size=4))
def test_merged_vocabulary_keeps_the_meaning_of_names(lists):
    new, places = merge_feature_spaces([named(words) for words in lists], [f"part {k}" for k in range(len(lists))])
    everything = [word for words in lists for word in words]
    everything_once = list(dict.fromkeys(everything))
    assert (new.names or []) == everything_once
    assert new.features == len(everything_once)
    for words, place in zip(lists, places, strict=True):
        assert [everything_once[i] for i in place.features] == words
        values = [k + 1.0 for k in range(len(words))]
        found = new.read_row(dict(zip(words, values, strict=True)))
        assert dict(zip(*found, strict=True)) == dict(zip(place.features, values, strict=True))


def test_merged_feature_space_is_independent():
    a, b = named(["x"]), named(["y"])
    new, _ = merge_feature_spaces([a, b], ["a", "b"])
    with new.transaction():
        new.encode_rows([{"z": 1.0}])
    assert (new.names, a.names, b.names) == (["x", "y", "z"], ["x"], ["y"])


def test_merge_keeps_options():
    for options in ({"n_features": 5}, {"bits": 3}, {"max_features": 4}, {"any_names": True}, {"counts_unseen": True}):
        new, places = merge_feature_spaces([FeatureSpace(**options)] * 2, ["a", "b"])
        fresh = FeatureSpace(**options)
        for name in ("bits", "max_features", "counts_unseen", "any_names", "width", "features", "columns"):
            assert getattr(new, name) == getattr(fresh, name)
        assert type(new.encoder) is type(fresh.encoder)
        assert all(place.features.tolist() == list(range(fresh.features)) for place in places)


def test_merge_of_numbered_features():
    a, b = FeatureSpace(), FeatureSpace()
    a.encode_rows(np.ones((1, 2)))
    b.encode_rows(np.ones((1, 4)))
    with pytest.raises(ValueError, match=r"^b has learned from arrays of 4 columns, a from arrays of 2"):
        merge_feature_spaces([a, b], ["a", "b"])
    new, places = merge_feature_spaces([b, FeatureSpace()], ["b", "c"])
    assert (new.features, new.names) == (4, None)
    assert [place.features.tolist() for place in places] == [[0, 1, 2, 3], []]
    with pytest.raises(ValueError, match=r"^b has numbered features, c named ones"):
        merge_feature_spaces([FeatureSpace(), b, named("x")], ["a", "b", "c"])


def classes(labels, closed=False):
    space = FeatureSpace()
    space.labels = Labels(labels, closed)
    return space


def test_merge_of_classes_by_label():
    new, places = merge_feature_spaces([classes("pq"), classes("rq"), FeatureSpace()], ["a", "b", "c"])
    assert (new.labels.classes, new.labels.closed) == (["p", "q", "r"], False)
    assert [place.scores.tolist() for place in places] == [[0, 1], [2, 1], []]
    new, places = merge_feature_spaces([classes([0, 1], True), classes([1, 0], True)], ["a", "b"])
    assert (new.labels.classes, new.labels.closed, places[1].scores.tolist()) == ([0, 1], True, [1, 0])
    with pytest.raises(ValueError, match=r"^a has the classes \['p'\], of \['p', 'q'\] in all, which are closed$"):
        merge_feature_spaces([classes("p", True), classes("pq", True)], ["a", "b"])
    assert merge_feature_spaces([FeatureSpace()], ["a"])[1][0].scores is None


def test_merge_of_empty_vocabularies():
    assert join_names([[], []])[0] == []
