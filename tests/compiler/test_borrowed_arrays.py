"""Entries and views of borrowed arrays, ranges and powers in kernels against the interpreter."""

import sys

import numba
import numpy as np
import pytest

from fiol.compiler.compiled import inlined, interpreted, jit
from fiol.components.component import borrowed

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")


@inlined
def between(values, first, last):
    return values[first:last]


@jit
def slices(values, first, last):
    values = borrowed(values)
    some = between(values, first, last)
    return some.shape[0], some.sum(), values[first:].shape[0], values[:last].shape[0]


@pytest.mark.parametrize("first", [-9, -5, -2, 0, 1, 4, 5, 8])
@pytest.mark.parametrize("last", [-9, -5, -2, 0, 1, 4, 5, 8])
def test_slices_end_where_those_of_numpy_do(first, last):
    values = np.arange(1.0, 6.0)
    assert slices(values, first, last) == interpreted(slices)(values, first, last)


@inlined
def entries(block, i, k):
    return block[i, k], block[i][k], block[np.uint64(abs(i)), k], block[i, 1:][0], block[1:, k][0], block[:, k].sum()


@jit
def of_block(block, i, k):
    block = borrowed(block)
    block[i, k] += 1
    block[0, -1] = 7
    return entries(block, i, k)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("layout", ["C", "A"])
def test_entries_and_views_of_blocks(kind, layout):
    """Written and read, counted from both ends, of blocks that lie in a larger one, too."""
    for i in (-2, 0, 1):
        for k in (-1, 0, 2):
            both = [np.arange(24).reshape(4, 6).astype(kind) for _ in range(2)]
            ours, plain = both if layout == "C" else [block[1:, ::2] for block in both]
            assert of_block(ours, i, k) == interpreted(of_block)(plain, i, k)
            np.testing.assert_array_equal(*both)


@jit
def every_second(values):
    return borrowed(values)[::2].sum() + borrowed(values)[::-1][0]


def test_slices_with_steps_are_those_of_numpy():
    assert every_second(np.arange(1.0, 6.0)) == 9.0 + 5.0


@inlined
def numbers_of(start, stop):
    found = 0
    for k in range(start, stop):
        found = 10 * found + k
    for k in range(stop):
        found = 10 * found + k
    for k in range(stop, start, -2):
        found = 10 * found + k
    return found


@jit
def counted(start, stop):
    return numbers_of(start, stop)


@pytest.mark.parametrize("ends", [(0, 3), (1, 4), (3, 1), (2, 2), (-2, 1), (0, -1)])
def test_ranges_have_the_numbers_that_they_have(ends):
    assert counted(*ends) == interpreted(counted)(*ends)


@inlined
def foremost(a, b, c):
    return min(a, b), max(a, b), min(a, b, c), max(c, b, a), max(a, 1), min(b, 2)


@jit
def ordered(a, b, c):
    return foremost(a, b, c)


@pytest.mark.parametrize(
    "values", [(1.0, 2.0, 3.0), (2.0, -1.0, 0.0), (np.nan, 1.0, 2.0), (1.0, np.nan, 0.0), (3, 1, 2)]
)
def test_the_smallest_and_the_largest_are_those_of_python(values):
    """With NaN it matters which comes first."""
    np.testing.assert_array_equal(ordered(*values), interpreted(ordered)(*values))


@inlined
def powers(x, n):
    return x**1, x**2, x**3, x**7, x**n, x**-2


@jit
def raised(x, n):
    return powers(x, n)


def test_whole_powers_are_products():
    np.testing.assert_allclose(raised(1.7, 5), interpreted(raised)(1.7, 5), rtol=1e-15)
    assert raised(3.0, 4) == interpreted(raised)(3.0, 4)


@jit
def passed_on(values, again):
    other = values
    if not again:
        other = values[1:]
    return other


def test_references_of_arguments_are_left_as_they_were():
    """Numba adds a reference per argument during a call; here the caller holds the only one."""
    values = np.arange(3.0)
    before = sys.getrefcount(values)
    for again in (True, False):
        for _ in range(5):
            found = passed_on(values, again)
            assert found.shape == (3 if again else 2,)
        del found
    assert sys.getrefcount(values) == before
