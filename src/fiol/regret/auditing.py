"""Measure the regret of an update on a stream, and compare it with its bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fiol.algorithms.update import Update
from fiol.components.row import Floats
from fiol.features.chunk import Chunk
from fiol.features.containers import to_chunk
from fiol.features.feature_space import counted
from fiol.features.targets import check_sample_weights, check_targets
from fiol.learner import Learner
from fiol.regret.comparator import Comparator, best_in_hindsight
from fiol.regret.ledger import Ledger
from fiol.regret.records import Records


class Audit(NamedTuple):
    """The regret of an update on a stream after several numbers of rounds, with its bounds."""

    t: Any  #: rounds
    regret: Floats  #: R_t, against the best weights for these t rounds
    bounds: dict[str, Floats]  #: upper bounds, see `fiol.regret.bounds`
    records: Records  #: the last record of the ledger of each run
    comparators: tuple[Comparator, ...]  #: the best weights, with bounds on their error

    @property
    def error(self) -> Floats:
        """The largest error of the regret, since the best weights are known to limited precision."""
        return np.array([comparator.error for comparator in self.comparators])


def audit(
    update: Update | Callable[[int], Update],
    X: Any,
    y: Any,
    *,
    horizons: int | Sequence[int] = 1,
    sample_weight: Any = None,
    intercept: bool = False,
    compiled: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Audit:
    """Measure the regret of an update on a stream, and compute its bounds.

    Parameters
    ----------
    update : the update, or a function of the number of rounds that returns one.
    X, y, sample_weight : the rows, as `Learner.learn` takes them.
    horizons : numbers of rounds after which to measure, or how many of them, evenly spaced on a logarithmic scale.
        Each is a run of its own, against the best weights for these rounds.
    intercept : whether the learner and the best weights have an intercept.
    progress : called after every run with the number of finished runs and of all runs.

    Examples
    --------
    >>> import numpy as np
    >>> from fiol import FIOL, Inverse, Ridge, Squared
    >>> from fiol.regret import audit
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 3)); y = X @ [1.0, 0.0, -1.0] + 0.1 * rng.normal(size=400)
    >>> found = audit(FIOL(Squared(), Ridge(0.1), Inverse(0.1)), X, y, horizons=[100, 400])
    >>> found.t, bool((found.regret <= found.bounds["theorem 2"]).all())
    (array([100, 400]), True)
    """
    counted(X)  # raises for containers that are no rows
    chunk = to_chunk(X)
    rows = chunk.rows
    features = X.shape[1] if hasattr(X, "shape") else int(chunk.indices.max(initial=-1)) + 1
    times = check_horizons(horizons, chunk.rows)
    weight = check_sample_weights(sample_weight, rows)
    found, best, kept = [], [], []
    for done, t in enumerate(times):
        current = update(int(t)) if callable(update) else update
        targets = check_targets(y, rows, current.loss)[:t]
        block, weights = chunk.row_block(0, int(t)), weight[:t]
        parts: dict[str, Any] = {"sample_weight": weights, "intercept": intercept, "geometry": current.geometry}
        best.append(best_in_hindsight(current.loss, current.regularizer, as_csr(block, features), targets, **parts))
        learner = Learner(current, n_features=features, intercept=intercept, compiled=compiled)
        with Ledger(learner, comparator=best[-1], every=max(int(t), 1)) as ledger:
            learner.learn(block, targets, weights)
        found.append(ledger.bounds)
        kept.append(ledger.records)
        if progress is not None:
            progress(done + 1, len(times))
    records = Records(*(np.concatenate(column) for column in zip(*kept, strict=True)))
    shared = [name for name in found[0] if all(name in bounds for bounds in found)]
    values = np.array([comparator.value for comparator in best])
    together = {name: np.concatenate([bounds[name] for bounds in found]) for name in shared}
    return Audit(times, records.objective - values, together, records, tuple(best))


def check_horizons(horizons: int | Sequence[int], rows: int) -> Any:
    """Return numbers of rounds from 1 to `rows`, ascending.

    >>> check_horizons(4, 1000)
    array([   8,   40,  200, 1000])
    """
    if rows < 1:
        raise ValueError("an audit needs at least one row")
    if isinstance(horizons, int):
        if horizons < 1:
            raise ValueError(f"horizons must be at least 1, got {horizons}")
        spaced = rows * np.geomspace(5.0 ** (1 - horizons), 1.0, horizons) if horizons > 1 else np.array([rows])
        return np.unique(np.maximum(np.round(spaced), 1).astype(np.int64))
    times = np.unique(np.asarray(horizons, np.int64))
    if not len(times) or times[0] < 1 or times[-1] > rows:
        raise ValueError(f"horizons must be from 1 to the {rows} rows there are, got {list(horizons)}")
    return times


def as_csr(chunk: Chunk, features: int) -> Any:
    """Return a chunk as a scipy matrix."""
    from scipy.sparse import csr_matrix

    return csr_matrix((chunk.data, chunk.indices, chunk.indptr), shape=(chunk.rows, features))
