"""SIMD lanes: compiled, interpreted and scalar operations agree."""

import mpmath as mp
import numpy as np
import pytest

from fiol.compiler.compiled import jit
from fiol.components.simd import (
    anywhere,
    both_lanes,
    choose,
    decay,
    exponential,
    first_lanes,
    is_short,
    lane,
    lane_exponential,
    lanes,
    larger,
    like_lanes,
    load_lanes,
    rough_log2,
    second_of_both,
    smaller,
    square_root,
    store,
    total,
    totals,
    whole_power,
    with_first,
    with_lane,
)


@jit
def operate(zero, single, a, b, out):  # type: ignore[no-untyped-def]
    """Apply all operations in turn to lanes; `zeros` sets their number."""
    like, n = lanes(zero), len(zero)
    x, y = load_lanes(a, 0, like), load_lanes(b, 0, like)
    store(out, 0, x + y)
    store(out, n, x - 2.0)
    store(out, 2 * n, 3.0 * x)
    store(out, 3 * n, x / y)
    store(out, 4 * n, -x)
    store(out, 5 * n, abs(x))
    store(out, 6 * n, choose(x > y, x, y))
    store(out, 7 * n, choose((x < 0.5) & (y >= -0.5), 1.0, 2.0))
    store(out, 8 * n, choose((x <= y) | (y == 1.0), x, -1.0))
    store(out, 9 * n, 1.0 * (x != y) + 2.0 * (x > 0.0))
    store(out, 10 * n, larger(x, y))
    store(out, 11 * n, smaller(x, 0.25))
    store(out, 12 * n, square_root(abs(x)))
    store(out, 13 * n, with_lane(x, 1, lane(y, 2)))
    store(out, 14 * n, x * 0.0 + total(y))
    store(out, 15 * n, x * 0.0 + (1.0 if anywhere(x > 3.5) else 0.0))
    store(out, 16 * n, whole_power(x)[0])
    store(out, 17 * n, whole_power(x)[1])
    short = lanes(single)
    store(out, 18 * n, like_lanes(like_lanes(x / 3.0, short), x))
    store(out, 19 * n, x if is_short(x) else like_lanes(load_lanes(a, 0, short) * 3.0, x))


@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("seed", range(3))
def test_compiled_lanes_match_arrays(width, dtype, seed):
    rng = np.random.default_rng(seed)
    a, b = (rng.choice([-3.75, -1.0, 0.0, 0.25, 1.0, 2.25, 4.0], width).astype(dtype) for _ in range(2))
    b[b == 0.0] = 0.75
    found, expected = np.zeros(20 * width), np.zeros(20 * width)
    single = (np.float32(0.0),) * width
    operate((0.0,) * width, single, a, b, found)
    getattr(operate, "py_func", operate)((0.0,) * width, single, a, b, expected)
    assert (found == expected).all()


@jit
def rearrange(zero, few, a, b, out):  # type: ignore[no-untyped-def]
    """Lanes out of other lanes: as many numbers as there are zeros, and few of them."""
    like, some, n = lanes(zero), lanes(few), len(zero)
    x, y = load_lanes(a, 0, like), load_lanes(b, 0, like)
    store(out, 0, with_first(x, first_lanes(y, some)))
    store(out, n, with_first(x, y))
    store(out, 2 * n, both_lanes(x, first_lanes(y, some)))
    store(out, 4 * n, both_lanes(x, y))
    store(out, 6 * n, second_of_both(both_lanes(x, y), like))
    store(out, 7 * n, second_of_both(both_lanes(x, first_lanes(y, some)), some))
    store(out, 8 * n, totals(x, y, x + y, x * y))


@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize("number", [np.float64, np.float32])
def test_lanes_split_and_join_as_arrays_do(width, number):
    rng = np.random.default_rng(width)
    a, b = rng.normal(size=(2, width))
    found, expected = np.zeros(8 * width + 4), np.zeros(8 * width + 4)
    given = (0.0,) * width, (number(0.0),) * (width // 2), a, b
    rearrange(*given, found)
    getattr(rearrange, "py_func", rearrange)(*given, expected)
    assert (found == expected).all()
    few = b[: width // 2].astype(number)
    np.testing.assert_array_equal(found[:width], np.append(few, a[width // 2 :]))
    np.testing.assert_array_equal(found[2 * width : 4 * width], np.concatenate([a, few, few]))
    np.testing.assert_allclose(found[8 * width :], [a.sum(), b.sum(), a.sum() + b.sum(), a @ b], rtol=1e-13)


def test_lanes_of_width_one_match_scalars():
    for x in (-3.0, -0.0, 0.1, 2.5):
        for y in (-1.0, 0.0, 2.5):
            assert larger(x, y) == max(x, y) == larger(np.array([x]), y)[0]
            assert smaller(x, y) == min(x, y) == smaller(np.array([x]), y)[0]
            assert choose(x > y, x, y) == (x if x > y else y)


@jit
def exponentials(zero, x, out):  # type: ignore[no-untyped-def]
    """Exponentials and rough logarithms in lanes, then of numbers."""
    like, n = lanes(zero), x.shape[0]
    for k in range(0, n, len(zero)):
        store(out, k, exponential(load_lanes(x, k, like)))
        store(out, n + k, rough_log2(abs(load_lanes(x, k, like)) + 1e-300))
    for k in range(n):
        out[2 * n + k] = exponential(x[k])


def test_lane_exponential_is_exact_to_the_last_digit():
    rng = np.random.default_rng(0)
    x = np.append(rng.uniform(-700.0, 700.0, 1000), rng.uniform(-1.0, 1.0, 1000))
    found = np.zeros(3 * len(x))
    exponentials((0.0,) * 8, x, found)
    exact = np.array([float(mp.exp(mp.mpf(v))) for v in x])
    for values in (found[: len(x)], found[2 * len(x) :], lane_exponential(x)):
        assert (abs(values - exact) <= 4e-16 * exact).all()
    off = np.log2(abs(x) + 1e-300) - found[len(x) : 2 * len(x)]
    assert ((off > -1e-5) & (off < 0.0861)).all()
    assert (lane_exponential(np.array([-800.0, -1e300])) < 1e-303).all()


@jit
def decays(zero, pull, h, n, out):  # type: ignore[no-untyped-def]
    """What `decay` leaves, a number of rounds for as many numbers as there are lanes."""
    like = lanes(zero)
    for k in range(n.shape[0]):
        place = k * len(zero)
        store(out, place, decay(load_lanes(pull, place, like), load_lanes(h, place, like), n[k])[0])


def test_lane_decay_over_missed_rounds_is_exact():
    rng = np.random.default_rng(0)
    n = np.append(np.arange(1.0, 65.0), np.round(np.exp(rng.uniform(0.0, 25.0, 240))))
    pull, h = np.exp(rng.uniform(-30.0, 8.0, (2, len(n), 8)))
    pull[:, 0], h[:, 1] = 0.0, 1.0
    pull[:, 2], pull[:, 3] = h[:, 2], h[:, 3] / n  # just half in every round, and about a third in all
    found = np.zeros(pull.size)
    decays((0.0,) * 8, pull.ravel(), h.ravel(), n, found)
    slow = np.array([decay(a, b, c)[0] for a, b, c in zip(pull, h, n, strict=True)])
    triples = zip(pull.ravel(), h.ravel(), np.repeat(n, 8), strict=True)
    with mp.workdps(40):
        exact = [float((1 + mp.mpf(a) / mp.mpf(b)) ** -int(c)) for a, b, c in triples]
    for values in (found.reshape(-1, 8), slow):
        np.testing.assert_allclose(values, np.reshape(exact, (-1, 8)), rtol=2e-13, atol=1e-15)
        assert (values[:, 0] == 1.0).all()
        assert ((values >= 0.0) & (values <= 1.0)).all()
    alone = np.zeros((8, *pull.shape))  # what is in other lanes does not matter to the last bit
    for k in range(8):
        decays((0.0,) * 8, np.where(np.arange(8) == k, pull, 0.0).ravel(), h.ravel(), n, alone[k].reshape(-1))
        assert (alone[k, :, k] == found.reshape(-1, 8)[:, k]).all()
