"""Regret: what a learner paid beyond the best fixed weights, how much exact steps saved, and what theory allows.

In round t the learner has weights w_t, sees a row, and pays F_t(w_t) = f_t(w_t) + r(w_t). Its regret after T rounds is

    R_T = sum of F_t(w_t) - min over w of the sum of F_t(w),

and delta_t = F_t(w_(t+1)) - F_t(w_t) - <F_t'(w_t), w_(t+1) - w_t> >= 0 is what a round gains by not linearizing (the
paper's one-step improvement). `Ledger` rides along with a learner and keeps the sums of these; `audit` finds the best
weights too, and sets the regret beside the bounds:

| bound on R_T | is | for |
|---|---|---|
| `lemma 1` | A + sum of eta_t G_t^2 / (2 c_t) - sum of delta_t | FIOL, any schedule |
| `theorem 1` | D^2 / eta_T + G^2 / (2c) sum of eta_t - sum of delta_t | FIOL, steps that never grow |
| `theorem 2` | sigma B_1 + G^2 (1 + log T) / (2 c sigma) - sum of delta_t | FIOL, `Inverse(sigma)`, ridge >= sigma |
| `proposition 1` | A + r(w_1) + sum of eta_t S_t / (2 (1 + gamma_t eta_t X_t)) | FIOL, Euclidean |
| `variation` | A + F_1(w_1) - F_T(w_(T+1)) + sum from t = 2 of f_t(w_t) - f_(t-1)(w_t) | FIOL, any schedule |
| `linearized` | A + r(w_1) + sum of eta_t S_t / 2 | FIOL and COMID, Euclidean |

Here B_t = B(w*, w_t), and D^2 is the largest of them; A is the sum of B_t (1/eta_t - 1/eta_(t-1)), for constant steps
B_1 / eta; G_t is the dual norm of F_t'(w_t), and G the largest; c the strong convexity of the geometry, gamma_t that
of the loss in the score; X_t = |x_t|^2 and S_t = |f_t'(w_t)|^2. All of these are measured. With the steps of the
paper's Theorem 1, `FixedHorizon` and `Anytime`, made from these D and G, `theorem 1` is at most the paper's
D G sqrt(2T/c) and 2 D G sqrt(T/c), less the improvement. `variation` is due to Campolongo and Orabona, "Temporal
variability in implicit online learning", 2020, who write the maximum over all w where their proof, and we, have w_t.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fiol.components.geometries import Euclidean, Geometry, SignedEntropy
from fiol.components.regularizers import Regularizer
from fiol.components.row import Floats
from fiol.components.step_sizes import Inverse, Schedule
from fiol.intake.chunk import Chunk
from fiol.intake.containers import to_chunk
from fiol.intake.intake import counted
from fiol.intake.targets import check_sample_weights, check_targets
from fiol.learner import Learner
from fiol.regret.accounting import COLUMNS, Accountant, make_accountant
from fiol.regret.comparator import Comparator, best_in_hindsight
from fiol.update.anchors import LastIterate
from fiol.update.loss_steps import ImplicitLoss, LinearizedLoss
from fiol.update.regularizer_steps import ImplicitRegularizer
from fiol.update.update import Update


class Records(NamedTuple):
    """What a ledger knows after `t` rounds, for every recorded t: sums over the rounds, or the largest of them."""

    t: Any  #: rounds
    loss: Floats  #: sum of f_t(w_t)
    penalty: Floats  #: sum of r(w_t)
    improvement: Floats  #: sum of delta_t
    nonzeros: Any  #: weights that are not 0 after the round
    gradient: Floats  #: G, the largest dual norm of f_t'(w_t) + r'(w_t)
    distance: Floats  #: D^2, the largest B(w*, w_t)
    variation: Floats  #: sum of abs(f_t(w_t) - f_(t-1)(w_t)): how much the loss changes from round to round
    comparator: Floats  #: sum of f_t(w*) + r(w*)

    @property
    def objective(self) -> Floats:
        """What the learner paid: the sum of f_t(w_t) + r(w_t)."""
        return self.loss + self.penalty

    @property
    def regret(self) -> Floats:
        """What it paid beyond the comparator. For w* the best weights for all T rounds this is R_T at the end."""
        return self.objective - self.comparator


class Ledger:
    """Rides along with a learner: whatever it learns from now on is accounted for.

    Parameters
    ----------
    learner : any `Learner`. It learns as before; `learner.ledger` is this ledger.
    comparator : the weights w* to compare with, as `best_in_hindsight` gives them or as an array; without one there
        is no regret, distance or bound.
    every : record the sums every so many rounds. They are exact however seldom they are recorded.

    A round costs time in the entries of its row for the last iterate in Euclidean geometry with l1, ridge or both; for
    everything else it costs time in all weights. Use it in a `with` statement, or `close()` it, to stop accounting.

    Examples
    --------
    >>> import numpy as np
    >>> from fiol import FIOL, L1, Constant, Learner, Squared
    >>> from fiol.regret.ledger import Ledger
    >>> learner = Learner(FIOL(Squared(), L1(0.1), Constant(0.5)), intercept=False)
    >>> with Ledger(learner, comparator=[0.9, 0.0], every=1) as ledger:
    ...     scores = learner.learn([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1.0, 0.0, 1.0])
    >>> ledger.records.t, ledger.records.nonzeros
    (array([1, 2, 3]), array([1, 1, 2]))
    >>> ledger.records.regret.round(4), ledger.records.improvement.round(4)
    (array([0.405 , 0.345 , 0.5562]), array([0.075 , 0.075 , 0.1441]))
    """

    def __init__(self, learner: Learner, comparator: Comparator | Any = None, every: int = 1000) -> None:
        if not isinstance(learner, Learner):
            raise TypeError(f"learner must be a fiol.Learner, got {learner!r}")
        if int(every) != every or every < 1:
            raise ValueError(f"every must be an integer of at least 1, got {every!r}")
        if learner._engine.accountant is not None:
            raise ValueError("this learner has a ledger already: close() it first")
        check_learner(learner, comparator)
        self.learner = learner
        self.geometry = learner._plan.problem.geometry
        self.regularizer = learner.update.geometry.enter_strengths(learner.update.regularizer)
        self.compared = comparator is not None
        self.best, self.bias_best = entered_comparator(learner, comparator)
        self.best_penalty = whole_value(self.regularizer, self.best)
        self.account = RunningAccount(learner.update, learner.rounds, int(every))
        parts = self.geometry, self.regularizer, self.best, self.bias_best, self.account
        self._engine = learner._engine
        self._engine.accountant = make_accountant(self._engine, *parts)
        learner.ledger = self

    @property
    def accountant(self) -> Accountant | None:
        """What measures the rounds, None once the ledger is closed."""
        return self._engine.accountant

    def close(self) -> None:
        """Stop accounting; what is recorded stays."""
        self._engine.accountant = self.learner.ledger = None

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def sums(self) -> Floats:
        """Every kept sum at every recorded round and at the last one; the columns are those of `SUMS`."""
        kept, last = self.account.kept, self.account.sums
        recorded = not last[0] or (len(kept) and kept[-1][0] == last[0])
        return np.array(kept if recorded else [*kept, last]).reshape(-1, len(SUMS))

    @property
    def records(self) -> Records:
        """The account at every recorded round, and after the last one."""
        s = named(self.sums)
        unknown = np.full(s["t"].shape, np.nan)
        comparator = s["comparator"] + s["t"] * self.best_penalty
        distance, comparator = (s["distance"], comparator) if self.compared else (unknown, unknown)
        t, nonzeros = s["t"].astype(np.int64), s["nonzeros"].astype(np.int64)
        sums = s["loss"], s["penalty"], s["improvement"]
        return Records(t, *sums, nonzeros, s["gradient"], distance, s["variation"], comparator)

    @property
    def bounds(self) -> dict[str, Floats]:
        """What theory allows the regret to be at every record: the bounds that apply, see the module."""
        return bounds(self.learner.update, self.sums, self.learner.intercept_fitted) if self.compared else {}


class Audit(NamedTuple):
    """The regret of an update on a stream after each of several numbers of rounds, beside its bounds."""

    t: Any  #: rounds
    regret: Floats  #: R_t, against the best weights for these t rounds
    bounds: dict[str, Floats]  #: what theory allows, see the module
    records: Records  #: the account of each run
    comparators: tuple[Comparator, ...]  #: the best weights, with what is known of their error

    @property
    def error(self) -> Floats:
        """How much larger the regret may be, because the best weights are known only so well."""
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
    """Measure the regret of an update on a stream, and set it beside the bounds.

    Parameters
    ----------
    update : the update, or a function that gives the one for a number of rounds (for steps that depend on it).
    X, y, sample_weight : the rows, as `Learner.learn` takes them.
    horizons : after how many rounds to measure: numbers of rounds, or how many of them, evenly spaced on a
        logarithmic scale. Each is a run of its own, against the weights that are best for so many rounds.
    intercept : whether the learner, and the best weights, have one.
    progress : called after every run with how many are done, and of how many.

    Examples
    --------
    >>> import numpy as np
    >>> from fiol import FIOL, Inverse, Ridge, Squared
    >>> from fiol.regret.ledger import audit
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 3)); y = X @ [1.0, 0.0, -1.0] + 0.1 * rng.normal(size=400)
    >>> found = audit(FIOL(Squared(), Ridge(0.1), Inverse(0.1)), X, y, horizons=[100, 400])
    >>> found.t, bool((found.regret <= found.bounds["theorem 2"]).all())
    (array([100, 400]), True)
    """
    counted(X)  # its errors say what rows are
    chunk = to_chunk(X)
    rows = chunk.rows
    features = X.shape[1] if hasattr(X, "shape") else int(chunk.indices.max(initial=-1)) + 1
    times = check_horizons(horizons, chunk.rows)
    weight = check_sample_weights(sample_weight, rows)
    found, best, kept = [], [], []
    for done, t in enumerate(times):
        current = update(int(t)) if callable(update) else update
        targets = check_targets(y, rows, current.loss)[:t]
        block, h = chunk.row_block(0, int(t)), weight[:t]
        parts: dict[str, Any] = {"sample_weight": h, "intercept": intercept, "geometry": current.geometry}
        best.append(best_in_hindsight(current.loss, current.regularizer, as_csr(block, features), targets, **parts))
        learner = Learner(current, n_features=features, intercept=intercept, compiled=compiled)
        with Ledger(learner, comparator=best[-1], every=max(int(t), 1)) as ledger:
            learner.learn(block, targets, h)
        found.append(ledger.bounds)
        kept.append(ledger.records)
        if progress is not None:
            progress(done + 1, len(times))
    records = Records(*(np.concatenate(column) for column in zip(*kept, strict=True)))
    shared = [name for name in found[0] if all(name in bounds for bounds in found)]
    values = np.array([comparator.value for comparator in best])
    together = {name: np.concatenate([bounds[name] for bounds in found]) for name in shared}
    return Audit(times, records.objective - values, together, records, tuple(best))


# --- sums over rounds -------------------------------------------------------------------------

#: What an account keeps: sums over rounds, or the largest so far.
SUMS = (
    "t",
    "loss",
    "penalty",
    "improvement",
    "nonzeros",
    "gradient",  # largest
    "distance",  # largest
    "variation",  # of absolute changes
    "comparator",
    "eta",  # of the last round
    "growing",  # 1 if a step was ever longer than the one before
    "convexity",  # least
    "etas",
    "anchor",  # of B(w*, w_t) (1/eta_t - 1/eta_(t-1))
    "squares",  # of eta_t G_t^2 / (2 c_t)
    "explicit",  # of eta_t S_t / 2
    "implicit",  # of eta_t S_t / (2 (1 + gamma_t eta_t X_t))
    "change",  # of f_t(w_t) - f_(t-1)(w_t)
    "first_distance",
    "first_penalty",
    "first_loss",
    "last",  # F_t(w_(t+1))
)


def named(sums: Floats) -> dict[str, Floats]:
    """The columns of an array of sums, by name."""
    return dict(zip(SUMS, sums.T, strict=True))


class RunningAccount:
    """Adds up what an accountant measured, and keeps the sums `every` so many rounds.

    `started` rounds had been made before it began.
    """

    def __init__(self, update: Update, started: int, every: int) -> None:
        self.eta, self.gamma = update.step_size.eta, update.loss.convexity
        self.started, self.every = started, every
        self.sums = np.zeros(len(SUMS))
        self.sums[SUMS.index("convexity")] = np.inf
        self.loss_after = 0.0  #: f_t(w_(t+1)) of the last round
        self.kept: list[Floats] = []

    def mark(self) -> Any:
        return self.sums, self.loss_after, len(self.kept)

    def rewind(self, mark: Any) -> None:
        self.sums, self.loss_after, kept = mark
        del self.kept[kept:]

    def add(self, rounds: Floats) -> None:
        if not len(rounds):
            return
        m, old, n = dict(zip(COLUMNS, rounds.T, strict=True)), named(self.sums), len(rounds)
        t = old["t"] + np.arange(1.0, n + 1)
        eta = np.array([self.eta(s) for s in self.started + t])
        first = m if not old["t"] else None
        before = np.concatenate([[old["eta"] if first is None else np.inf], eta[:-1]])
        change = m["loss"] - np.concatenate([[self.loss_after], m["loss_after"][:-1]])
        if first is not None:
            change[0] = 0.0
        slopes = m["slope"] ** 2 * m["square"]
        shrunk = 1.0 + self.gamma * m["weight"] * eta * m["square"]
        new = {
            "t": t,
            "loss": old["loss"] + np.cumsum(m["loss"]),
            "penalty": old["penalty"] + np.cumsum(m["penalty"]),
            "improvement": old["improvement"] + np.cumsum(m["improvement"]),
            "nonzeros": m["nonzeros"],
            "gradient": np.maximum(old["gradient"], np.maximum.accumulate(m["gradient"])),
            "distance": np.maximum(old["distance"], np.maximum.accumulate(m["distance"])),
            "variation": old["variation"] + np.cumsum(np.abs(change)),
            "comparator": old["comparator"] + np.cumsum(m["comparator_loss"]),
            "eta": eta,
            "growing": np.maximum(old["growing"], np.maximum.accumulate(1.0 * (eta > before))),
            "convexity": np.minimum(old["convexity"], np.minimum.accumulate(m["convexity"])),
            "etas": old["etas"] + np.cumsum(eta),
            "anchor": old["anchor"] + np.cumsum(m["distance"] * (1.0 / eta - 1.0 / before)),
            "squares": old["squares"] + np.cumsum(0.5 * eta * m["gradient"] ** 2 / m["convexity"]),
            "explicit": old["explicit"] + np.cumsum(0.5 * eta * slopes),
            "implicit": old["implicit"] + np.cumsum(0.5 * eta * slopes / shrunk),
            "change": old["change"] + np.cumsum(change),
            "first_distance": np.full(n, m["distance"][0] if first else old["first_distance"]),
            "first_penalty": np.full(n, m["penalty"][0] if first else old["first_penalty"]),
            "first_loss": np.full(n, m["loss"][0] if first else old["first_loss"]),
            "last": m["loss_after"] + m["penalty_after"],
        }
        sums = np.stack([new[name] for name in SUMS], axis=1)
        self.kept += list(sums[t % self.every == 0.0])
        self.sums, self.loss_after = sums[-1].copy(), m["loss_after"][-1]


def bounds(update: Update, sums: Floats, intercept: bool) -> dict[str, Floats]:
    """The bounds that hold for an update, from the sums of its account (see the module)."""
    s = named(sums)
    plain = isinstance(update.step_size, Schedule) and isinstance(update.anchor, LastIterate)
    if not plain or not isinstance(update.regularizer_step, ImplicitRegularizer):
        return {}
    euclidean, found = isinstance(update.geometry, Euclidean), {}
    linearized = s["anchor"] + s["first_penalty"] + s["explicit"]
    if isinstance(update.loss_step, ImplicitLoss):
        found["lemma 1"] = s["anchor"] + s["squares"] - s["improvement"]
        falling = np.where(s["growing"] > 0.0, np.nan, s["distance"] / s["eta"])
        found["theorem 1"] = falling + 0.5 * s["gradient"] ** 2 * s["etas"] / s["convexity"] - s["improvement"]
        if isinstance(update.step_size, Inverse) and euclidean and not intercept:
            sigma = update.step_size.sigma
            if least_ridge(update.regularizer) >= sigma:
                log = 0.5 * s["gradient"] ** 2 * (1.0 + np.log(s["t"])) / (s["convexity"] * sigma)
                found["theorem 2"] = sigma * s["first_distance"] + log - s["improvement"]
        if euclidean:
            found["proposition 1"] = s["anchor"] + s["first_penalty"] + s["implicit"]
        found["variation"] = s["anchor"] + s["first_loss"] + s["first_penalty"] - s["last"] + s["change"]
    if euclidean and isinstance(update.loss_step, (ImplicitLoss, LinearizedLoss)):
        found["linearized"] = linearized
    return found


def least_ridge(regularizer: Regularizer) -> float:
    """The strong convexity of a penalty."""
    parts = regularizer.strengths()
    return 0.0 if parts is None else float(np.min(parts[1]))


# --- arguments --------------------------------------------------------------------------------


def check_horizons(horizons: int | Sequence[int], rows: int) -> Any:
    """Numbers of rounds from 1 to `rows`, rising.

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


def check_learner(learner: Learner, comparator: Any) -> None:
    """Refuse learners whose weights cannot be compared."""
    if learner._plan.first_weight(1) != 0.0 and learner.width is None:
        name = type(learner.update.geometry).__name__
        raise TypeError(
            f"weights in {name} do not start at 0, so a ledger needs to know how many there are: n_features"
        )
    if comparator is not None and learner.max_features is not None:
        raise TypeError("max_features renumbers the features, so their weights cannot be compared: use bits")


def entered_comparator(learner: Learner, comparator: Any) -> tuple[Floats, float]:
    """The comparator's weights and intercept, as the working geometry has them."""
    if comparator is None:
        return np.zeros(0), 0.0
    w, intercept = weights_of(comparator)
    if learner.width is not None and w.shape[0] != learner.width:
        raise ValueError(f"comparator has {w.shape[0]} weights, but there are {learner.width} features")
    if intercept and not learner.intercept_fitted:
        raise ValueError("comparator has an intercept, but the learner has none")
    return enter_weights(learner.update.geometry, w), intercept


def weights_of(comparator: Any) -> tuple[Floats, float]:
    """Weights and intercept of a comparator, or of an array of weights."""
    if isinstance(comparator, Comparator):
        return comparator.w, comparator.intercept
    w = np.asarray(comparator)
    if w.ndim != 1 or w.dtype.kind not in "iuf" or not np.isfinite(w).all():
        raise ValueError(f"comparator must be a vector of finite weights, got {comparator!r}")
    return w.astype(np.float64), 0.0


def whole_value(regularizer: Regularizer, w: Floats) -> float:
    """r(w), infinite outside a box."""
    return float(sum(regularizer.value(v, i) for i, v in enumerate(w.tolist())))


def enter_weights(geometry: Geometry, w: Floats) -> Floats:
    """Weights of features as weights of the working geometry; those of either sign as the smallest pair.

    >>> enter_weights(SignedEntropy(), np.array([0.5, -2.0]))
    array([0.5, 0. , 0. , 2. ])
    """
    if isinstance(geometry, SignedEntropy):
        return np.stack([np.maximum(w, 0.0), np.maximum(-w, 0.0)], axis=1).ravel()
    geometry.check_weights(w)
    return geometry.enter(np.zeros_like(w), w)[1]


def as_csr(chunk: Chunk, features: int) -> Any:
    """A chunk as a scipy matrix."""
    from scipy.sparse import csr_matrix

    return csr_matrix((chunk.data, chunk.indices, chunk.indptr), shape=(chunk.rows, features))
