"""One-vs-rest models match learners that knew all classes from the start."""

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fiol
from fiol import Learner, OneVsRest
from fiol.models import one_vs_rest_core


@given(
    labels=st.lists(st.sampled_from(["fig", "apple", "pear", "kiwi"]), min_size=1, max_size=12), cut=st.integers(0, 12)
)
def test_classes_that_appear_match_classes_known_from_the_start(labels, cut):
    """For any order of appearance and any chunking."""
    update = fiol.FIOL(fiol.Hinge(), step_size=fiol.Constant(0.5))
    new = functools.partial(fiol.Learner, update, compiled=False)
    x, order = np.array([[1.0]]), sorted(set(labels))
    one, many, closed = (OneVsRest(update, classes=given, compiled=False) for given in (None, None, order))
    for label in labels:
        one.add_classes([label])
        one.core.arrange(sorted(one.core.labels.codes))
        for rest in (one, closed):
            for learner, target in rest.core.targets_of(label):
                learner.learn(x, [target])
    for part in (labels[:cut], labels[cut:]):
        many.add_classes(part)
        for learner, targets in many.core.targets_of_rows(
            np.array([many.core.labels.codes[label] for label in part], np.int64)
        ):
            learner.learn(np.ones((len(part), 1)), targets)
    assert list(one.core.labels.codes) == list(one.learners) == order
    assert many.classes == list(dict.fromkeys(labels))
    assert closed.core.standby is None
    assert set(closed.learners) == set(order[1:] if len(order) == 2 else order)
    for label in closed.learners:
        alone = new()
        alone.learn(np.ones((len(labels), 1)), [1.0 if each == label else -1.0 for each in labels])
        for rest in (one, many, closed):
            assert rest.learners[label].weights.tolist() == alone.weights.tolist()
            assert rest.learners[label].intercept == alone.intercept


def test_learn_chunks_matches_learn():
    """Bitwise, for classes that first appear in any chunk."""
    X, labels = np.random.default_rng(0).standard_normal((9, 2)), list("aababccab")
    whole, model = (OneVsRest(fiol.FIOL(fiol.Logistic()), compiled=False) for _ in range(2))
    expected = whole.learn(X, labels)
    found = model.learn_chunks((X[k : k + 4], labels[k : k + 4]) for k in range(0, 9, 4))
    assert found.tobytes() == expected.tobytes()
    assert model.classes == ["a", "b", "c"]
    assert model.weights.tobytes() == whole.weights.tobytes()
    for x in X:
        assert model.score_one([0, 1], x).tobytes() == model.scores(x[None]).tobytes()
    with pytest.raises(ValueError, match="must be finite") as caught:
        model.learn_chunks([(X, labels), (X * np.nan, labels)])
    assert caught.value.rows_learned == 9
    assert model.rounds == 18


@pytest.mark.parametrize(("options", "made"), [({"classes": [False, True]}, 1), ({}, 1), ({"bits": 4}, 2)])
def test_new_one_vs_rest_makes_no_learner_that_it_does_not_use(monkeypatch, options, made):
    """With `bits`, the learners of classes have numbered features in place of hashed ones."""
    found = []

    def new(*args, **named):
        found.append(Learner(*args, **named))
        return found[-1]

    monkeypatch.setattr(one_vs_rest_core, "Learner", new)
    OneVsRest(fiol.Stacked(fiol.Logistic()), **options)
    assert len(found) == made
