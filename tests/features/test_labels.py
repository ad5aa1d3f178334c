"""Label codes match numpy's unique and a plain list of labels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fiol.features import labels as labels_module
from fiol.features.labels import Labels, plain_label, sorted_codes

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
def test_codes_are_positions_among_sorted_classes(kind, data, ahead, few):
    """For any known classes, any order of appearance and both search methods."""
    values, dtype = KINDS[kind]
    labels = np.array(data.draw(st.lists(values, min_size=1, max_size=30)), dtype)
    before = data.draw(st.none() | st.lists(values, min_size=1, max_size=5))
    known = None if before is None else np.unique(np.array(before, dtype))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(labels_module, "ROWS_FOR_CLASSES", ahead)
        patch.setattr(labels_module, "COMPARED_CLASSES", few)
        classes, numbers = sorted_codes(labels, known)
    assert classes.tolist() == sorted({*labels.tolist(), *([] if before is None else before)})
    assert classes[numbers].tolist() == labels.tolist()
    if known is not None and set(labels.tolist()) <= set(known.tolist()):
        assert classes is known


def test_labels_unequal_to_themselves_are_found_once():
    """NaT is unequal to itself, and is found once."""
    classes, _ = sorted_codes(np.array(["NaT", "2020-01-01"], "datetime64[D]"))
    assert len(classes) >= 2


WORDS = st.lists(st.sampled_from(["fig", "apple", "pear", 1, 2.5, False]), max_size=9)


@given(st.lists(WORDS, max_size=4), WORDS)
def test_codes_follow_the_order_of_appearance_and_can_be_taken_back(parts, refused):
    labels, plain = Labels(), []
    for part in parts:
        new = [label for label in dict.fromkeys(part) if label not in plain]
        assert labels.add(part) == new
        plain += new
    assert labels.classes == plain
    assert len(labels) == len(plain)
    assert labels.codes_of(plain[::-1]).tolist() == list(range(len(plain)))[::-1]
    mark = labels.mark()
    labels.add(refused)
    labels.arrange(labels.classes[::-1])
    labels.rewind(mark)
    assert labels.classes == plain
    closed = Labels(plain, closed=True)
    assert closed.add(plain) == []
    for stranger in set(refused) - set(plain):
        with pytest.raises(ValueError, match="is none of the classes"):
            closed.add([stranger])
        with pytest.raises(KeyError):
            closed.codes_of([stranger])
    assert closed.classes == plain


@pytest.mark.parametrize("missing", [None, float("nan"), np.nan, np.float32("nan")])
def test_missing_label_raises(missing):
    with pytest.raises(ValueError, match=r"^y is missing$"):
        plain_label(missing)
    assert plain_label(np.int64(3)) == 3
    assert type(plain_label(np.str_("a"))) is str
