"""Classes by number: against numpy's own unique, and learners that were told everything from the start."""

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fiol
from fiol.intake import labels as coding
from fiol.intake.labels import sorted_codes
from fiol.models.one_vs_rest import OneVsRest

KINDS = {
    "int": (st.integers(-3, 20), np.int64),
    "byte": (st.integers(0, 255), np.uint8),
    "float": (st.integers(-9, 9).map(float), np.float64),
    "bool": (st.booleans(), bool),
    "word": (st.text("ab", max_size=3), np.str_),
    "object": (st.text("ab", max_size=3), object),
}


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), ahead=st.integers(1, 20), few=st.integers(0, 8))
def test_numbers_are_places_among_the_sorted_classes(kind, data, ahead, few):
    """Whatever is known before, wherever in the rows a class appears first, and however the places are found."""
    values, dtype = KINDS[kind]
    labels = np.array(data.draw(st.lists(values, min_size=1, max_size=30)), dtype)
    before = data.draw(st.none() | st.lists(values, min_size=1, max_size=5))
    known = None if before is None else np.unique(np.array(before, dtype))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coding, "AHEAD", ahead)
        patch.setattr(coding, "FEW", few)
        classes, numbers = sorted_codes(labels, known)
    assert classes.tolist() == sorted({*labels.tolist(), *([] if before is None else before)})
    assert classes[numbers].tolist() == labels.tolist()
    if known is not None and set(labels.tolist()) <= set(known.tolist()):
        assert classes is known


def test_labels_that_equal_nothing_end():
    """Not a time is not itself, and is found once for all that."""
    classes, _ = sorted_codes(np.array(["NaT", "2020-01-01"], "datetime64[D]"))
    assert len(classes) >= 2


@given(
    labels=st.lists(st.sampled_from(["fig", "apple", "pear", "kiwi"]), min_size=1, max_size=12), cut=st.integers(0, 12)
)
def test_classes_that_appear_are_those_known_from_the_start(labels, cut):
    """In whatever order they appear and are numbered, and however rounds come in."""
    new = functools.partial(fiol.Learner, fiol.FIOL(fiol.Hinge(), step_size=fiol.Constant(0.5)), compiled=False)
    x, order = np.array([[1.0]]), sorted(set(labels))
    one, many, closed = OneVsRest(new), OneVsRest(new), OneVsRest(new, order, closed=True)
    for label in labels:
        one.meet([label])
        one.arrange(sorted(one.numbers))
        for rest in (one, closed):
            for learner, target in rest.told(label):
                learner.learn(x, [target])
    for part in (labels[:cut], labels[cut:]):
        many.meet(part)
        for learner, targets in many.told_all(np.array([many.numbers[label] for label in part])):
            learner.learn(np.ones((len(part), 1)), targets)
    assert list(one.numbers) == list(one.learners) == order
    assert many.classes == list(dict.fromkeys(labels))
    assert closed.standby is None
    assert set(closed.learners) == set(order[1:] if len(order) == 2 else order)
    for label in closed.learners:
        alone = new()
        alone.learn(np.ones((len(labels), 1)), [1.0 if each == label else -1.0 for each in labels])
        for rest in (one, many, closed):
            assert rest.learners[label].weights.tolist() == alone.weights.tolist()
            assert rest.learners[label].intercept == alone.intercept
