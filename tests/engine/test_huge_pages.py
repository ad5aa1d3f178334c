"""Huge pages for records that are used all over, and small ones for the others."""

import mmap

import numpy as np
import pytest

from fiol.algorithms import state


@pytest.fixture
def asked(monkeypatch):
    """Return the arguments of `madvise` so far."""
    found = []

    class Memory(mmap.mmap):
        def madvise(self, option):
            found.append(option)

    monkeypatch.setattr(state.mmap, "mmap", Memory)
    return found


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="needs huge pages")
def test_huge_pages_are_asked_for_where_features_are_all_over_large_records(asked):
    features, size = 2**20, 64
    records, small = (state.aligned(count * size // 8, np.float64) for count in (features, 2**10))
    everywhere = np.arange(0, features, 64, dtype=np.int32)
    state.use_huge_pages(records, everywhere[::4], size)  # too few
    state.use_huge_pages(records, np.repeat(everywhere[:9], 2**10), size)  # all on a few pages
    state.use_huge_pages(small, np.arange(2**10, dtype=np.int32), size)
    assert asked == []
    state.use_huge_pages(records, everywhere, size)
    assert asked == [mmap.MADV_HUGEPAGE]
