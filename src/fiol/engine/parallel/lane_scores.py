"""The scores that members in lanes give rows, one pass for all of them."""

from __future__ import annotations

import numpy as np

from fiol.compiler.compiled import jit
from fiol.components.component import borrowed
from fiol.components.simd import lanes, load_lanes, store


@jit
def score_lanes(zero, chunk, records, intercept, has_intercept, scores):
    """Write the scores of all rows: [row, lane], as one axis; features without a place have no weights."""
    (indptr, indices, data), records, intercept = borrowed(chunk), borrowed(records), borrowed(intercept)
    scores, like, width, room = borrowed(scores), lanes(zero), np.uint64(len(zero)), np.uint64(2 * len(zero))
    for r in range(indptr.shape[0] - 1):
        z = load_lanes(intercept, 0, like) * has_intercept
        for j in range(indptr[r], indptr[r + 1]):
            i = np.uint64(np.uint32(indices[j])) * room
            if i < records.shape[0]:
                z = z + load_lanes(records, i, like) * data[j]
        store(scores, np.uint64(r) * width, z)
