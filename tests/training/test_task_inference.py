"""Task inference: the loss for a target, and targets converted for the loss."""

import numpy as np
import pyarrow as pa
import pytest

import fiol
from fiol.training.task_inference import UnclearTargetError, infer_task

SMALL = np.arange(1.0, 7.0)


@pytest.mark.parametrize(
    ("targets", "loss", "labels", "words"),
    [
        ([0, 1, 1], fiol.Logistic, [0, 1], "1 is positive"),
        (np.array([1.0, -1.0]), fiol.Logistic, [-1, 1], "1 is positive"),
        ([True, True], fiol.Logistic, [False, True], "true is positive"),
        (["yes", "no", None], fiol.Logistic, ["no", "yes"], "yes is positive"),
        (pa.array(["spam", "ham"]), fiol.Logistic, ["ham", "spam"], "spam is positive"),
        ([1.5, 2.5] * 5, fiol.Logistic, [1.5, 2.5], "two values"),
        ([1.5, 2.5], fiol.Squared, None, "from 1.5 to 2.5"),
        (["a", "b", "c"], fiol.Softmax, None, "3 different strings"),
        (np.repeat(SMALL, 5), fiol.Softmax, None, "6 different whole numbers"),
        (SMALL, fiol.Squared, None, "from 1 to 6"),  # too few of each
        (-np.repeat(SMALL, 5), fiol.Squared, None, "squared"),  # unusual numbers of classes
        (np.repeat(SMALL, 5) + 0.5, fiol.Squared, None, "squared"),
        (np.arange(200.0).repeat(9), fiol.Squared, None, "squared"),
    ],
)
def test_loss_is_inferred_from_the_target(targets, loss, labels, words):
    task = infer_task(targets)
    assert type(task.loss) is loss
    assert task.labels == labels
    assert words in task.why


@pytest.mark.parametrize(
    ("targets", "reason"),
    [
        ([], "no row has a target"),
        ([None, float("nan")], "no row has a target"),
        ([1, 1, 1], "is 1 in all of the first 3 rows"),
        (["a", 1.5], "strings, such as 'a', and numbers, such as 1.5"),
        ([str(k) for k in range(1001)], "1,001 different strings"),
        (
            [str(k) for k in range(51)],
            "51 different strings in the first 51 rows, such as '0': too many for classes; name",
        ),
    ],
)
def test_ambiguous_targets_raise(targets, reason):
    with pytest.raises(UnclearTargetError, match=reason):
        infer_task(targets)


def test_named_loss_overrides_inference():
    assert infer_task([3, 1, 3], fiol.Hinge()).labels == [1, 3]
    assert infer_task([1.0, 1.0], fiol.Hinge()).labels == [0, 1]  # what the other is, is known of 0, 1, -1 and bools
    assert infer_task([-1.0], fiol.Hinge()).labels == [-1, 1]
    assert infer_task([True], fiol.Hinge()).labels == [False, True]
    assert infer_task([1, 0], fiol.Squared()).labels is None
    assert infer_task([1, 0], fiol.Softmax()).kind == "classes"
    for targets in ([1, 2, 3], [7]):
        with pytest.raises(UnclearTargetError, match="two classes"):
            infer_task(targets, fiol.Logistic())


def test_targets_are_converted_for_the_loss():
    signs, there = infer_task([2.0, 5.0]).coded(np.array([5.0, np.nan, 2.0]))
    assert signs[there].tolist() == [1.0, -1.0]
    assert there.tolist() == [True, False, True]
    with pytest.raises(UnclearTargetError, match="3 is neither 2 nor 5"):
        infer_task([2, 5]).coded(np.array([2.0, 3.0]))
    with pytest.raises(UnclearTargetError, match="'maybe' is neither 'no' nor 'yes'"):
        infer_task(["no", "yes"]).coded(["yes", None, "maybe"])
    with pytest.raises(UnclearTargetError, match="is neither"):
        infer_task(["no", "yes"]).coded([1.0])
    fruit = infer_task(["fig", "pear", "kiwi"])
    labels, there = fruit.coded(["pear", None])
    assert labels[there].tolist() == ["pear"]
    assert labels.tolist() == ["pear", "pear"]  # any class will do
    digits, there = infer_task(SMALL.repeat(5)).coded(SMALL)
    assert digits.dtype == np.int64
    with pytest.raises(UnclearTargetError, match=r"whole numbers or strings, got 1\.5"):
        infer_task(SMALL.repeat(5)).coded(np.array([1.5]))
    numbers, there = infer_task([0.5, 1.5]).coded([None, 2, 3.5])
    assert numbers[there].tolist() == [2.0, 3.5]
    with pytest.raises(UnclearTargetError, match="must be a number for squared_error, got 'many'"):
        infer_task([0.5, 1.5]).coded([1.0, "many"])
