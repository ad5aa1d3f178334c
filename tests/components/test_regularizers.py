"""Regularizers: the public checks, and the replay of missed rounds."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interpreted import check_uncompiled
from material import magnitudes, name, regularizers, signed
from oracles.precise import clip, penalty

import fiol
from fiol.checks import CheckError, check_regularizer
from fiol.compiler.compiled import interpreted, jit

REGULARIZERS = [
    fiol.Unregularized(),
    fiol.L1(0.2),
    fiol.L1(0.0),
    fiol.L1([0.1, 0.2, 0.3, 0.0]),
    fiol.Ridge(0.5),
    fiol.Ridge([0.5, 0.0, 1.0, 2.0]),
    fiol.ElasticNet(0.1, 0.5),
    fiol.ElasticNet([0.1, 0.0, 1.0, 2.0], 0.5),
    fiol.non_negative(fiol.L1(0.2)),
    fiol.Box(fiol.ElasticNet(0.1, 0.2), -1.0, 2.0),
    fiol.Box(fiol.Unregularized(), 0.5, 3.0),
    fiol.Box(fiol.Ridge(1.0), -3.0, -1.0),
    fiol.Box(fiol.L1(0.3), -0.5, 0.0),
]


@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=name)
def test_regularizer_passes_public_checks(regularizer, monkeypatch):
    if regularizer != fiol.L1(0.2):
        check_uncompiled(monkeypatch)
    check_regularizer(regularizer)


@jit
def answers(r, u, step, i):
    m, b = r.piece(u, step, i)
    kink = r.kink(0, step, i) if r.kinks() > 0 else 0.0
    return r.value(u, i), r.prox(u, step, i), m, b, kink, r.slope(u, 1.0, i), r.clip(u)


@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=name)
def test_regularizer_methods_compile(regularizer):
    for u in (-3.0, -0.4, 0.0, 0.2, 2.5):
        for step in (0.1, 1.0, 30.0):
            expected = interpreted(answers)(regularizer, u, step, 1)
            assert answers(regularizer, u, step, 1) == pytest.approx(expected, rel=1e-13, abs=1e-300)


@settings(max_examples=75)
@given(regularizers(1), signed(-3, 3), magnitudes(-4, 3), st.integers(0, 60))
def test_catch_up_replays_missed_rounds(regularizer, w, step, n):
    """n rounds at once against n proxes in 50 digits."""
    p = penalty(regularizer, 1)
    exact, tau, shrink = mp.mpf(w), mp.mpf(step) * p.l1[0], 1 + mp.mpf(step) * p.l2[0]
    for _ in range(n):
        exact = clip((exact - clip(exact, -tau, tau)) / shrink, p.lo, p.hi)
    # A weight that has nearly reached 0 is the difference of numbers as large as it was.
    room = 1e-13 * abs(w) if p.l1[0] else 1e-300
    assert abs(regularizer.catch_up(w, step, n, 0) - exact) <= 1e-12 * abs(exact) + room


def test_catch_up_over_a_billion_rounds():
    assert fiol.L1(1e-9).catch_up(1.5, 1.0, 10**9, 0) == pytest.approx(0.5)
    assert fiol.Ridge(1e-9).catch_up(1.0, 1.0, 10**9, 0) == pytest.approx(np.exp(-1.0))
    both = fiol.ElasticNet(1e-9, 1e-9).catch_up(4.0, 1.0, 10**9, 0)  # (4 + 1) / e - 1
    assert both == pytest.approx(5 * np.exp(-1.0) - 1)


def test_checks_catch_wrong_proxes_pieces_kinks_and_replays():
    class Soft(fiol.Regularizer):
        """L1 with one method wrong."""

        wrong: int = 0

        def value(self, w, i):
            return 0.5 * abs(w)

        def piece(self, u, step, i):
            t = (0.4 if self.wrong == 1 else 0.5) * step
            return (1.0, -t) if u > t else (1.0, t) if u < -t else (0.0, 0.0)

        def kinks(self):
            return 2

        def kink(self, j, step, i):
            return (2 * j - 1) * (0.3 if self.wrong == 2 else 0.5) * step

        def slope(self, w, side, i):
            s = np.sign(w) if w else side
            return (0.6 if self.wrong == 3 else 0.5) * float(s)

        def catch_up(self, w, step, n, i):
            t = 0.5 * step * (n + (self.wrong == 4))
            return max(w - t, 0.0) if w > 0 else min(w + t, 0.0)

    check_regularizer(Soft())
    for wrong, method in enumerate(["prox", "kink", "slope", "catch_up"], 1):
        with pytest.raises(CheckError, match=method):
            check_regularizer(Soft(wrong))


def test_regularizer_properties():
    inside = fiol.Box(fiol.Box(fiol.ElasticNet([0.0, 0.1], 0.2), -1.0, 0.5), -0.3, 2.0)
    assert inside.bounds() == (-0.3, 0.5)
    assert inside.omega() == fiol.Box(fiol.Box(fiol.Unregularized(), -1.0, 0.5), -0.3, 2.0)
    assert inside.omega().prox(9.0, 1.0, 0) == 0.5
    assert (inside.has_l1(), inside.has_ridge(), inside.ridge_is_common(), inside.is_bounded()) == (True,) * 4
    none = fiol.L1([0.0, 0.0])
    assert (none.has_l1(), none.has_ridge(), none.ridge_is_common(), none.is_bounded()) == (False, False, True, False)
    assert not fiol.Ridge([0.1, 0.1]).ridge_is_common()
    unknown = fiol.Regularizer()
    assert (unknown.has_l1(), unknown.has_ridge(), unknown.ridge_is_common()) == (True, True, False)
    assert unknown.omega() == fiol.Unregularized()


@pytest.mark.parametrize(("lo", "hi"), [(np.inf, np.inf), (-np.inf, -np.inf), (1.0, 0.0)])
def test_empty_box_raises(lo, hi):
    with pytest.raises(ValueError, match="Box needs lo <= hi with a number between them"):
        fiol.Box(fiol.L1(0.1), lo, hi)
