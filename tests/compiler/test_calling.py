"""Parts that are called with values as they are, and those that are not."""

import numba
import numpy as np
import pytest

from fiol.compiler import calling, linking
from fiol.compiler.compiled import inlined, jit

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")


@inlined
def shares(values, whole=2.0, names=("a", "b")):
    return values[0] / whole, (values[1], whole > 1.0), len(names)


@jit
def shared(values):
    return shares(values), shares(values, 0.5)


@inlined
def perhaps(x):
    if x > 0.0:
        return x
    return None


@jit
def sign_of(x):
    found = perhaps(x)
    return -1.0 if found is None else found


@inlined
def twice_if_even(n):
    if n % 2:
        raise ValueError("odd")
    return 2 * n


@inlined
def quiet(n):
    found = 0
    for k in range(n):
        found += k
    return found


@inlined
def above(n):
    return quiet(n) + twice_if_even(n)


@jit
def whole(n):
    return above(n)


def test_arguments_have_defaults_and_results_are_structs():
    values = np.array([3.0, 4.0])
    assert shared(values) == ((1.5, (4.0, True), 2), (6.0, (4.0, False), 2))


def test_a_part_may_return_nothing():
    assert (sign_of(2.0), sign_of(-2.0)) == (2.0, -1.0)


def test_only_what_may_fail_is_called_numbas_way(monkeypatch):
    """The one that raises, and whoever calls it; the text of the error comes through."""
    found, failed = [], []
    monkeypatch.setattr(
        linking, "call_of", lambda told, *rest: found.append(told.qualname) or calling.call_of(told, *rest)
    )
    original = linking.MayFail.__init__
    monkeypatch.setattr(linking.MayFail, "__init__", lambda self: failed.append(1) or original(self))
    assert whole(4) == 14
    assert found == ["quiet"]
    assert len(failed) == 2
    with pytest.raises(ValueError, match="odd"):
        whole(3)
