"""Microseconds per row of a `Learner`: beside an explicit step, scikit-learn and River, and as rows and models grow.

    python -m benchmarks.stream [--data DIR] [--json FILE] [--rounds N] [--cpu] [--quick]

Four questions. What does one pass over rows in memory cost, for the public data sets in DIR and for made-up text? Does
a row cost more in a wider model? How does its cost grow with its non-zeros? What does one event at a time cost, as
arrays and as a dict? All contestants of a setting run in turns on the same rows.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import data
from benchmarks.data import Rows
from benchmarks.report import (
    FIT_FROM,
    Contestant,
    Target,
    decades,
    exponent,
    fit_ranges,
    header,
    progress,
    table,
    take_turns,
    verdicts,
)
from fiol import FIOL, L1, SGD, Constant, Learner, Logistic, Ridge
from fiol.regret import Ledger

LAM, ETA = 1e-5, 0.5
EXPLICIT, LASSO, RIDGE, DEFAULT = "explicit SGD", "FIOL L1", "FIOL ridge", "FIOL default"
UPDATES = {
    EXPLICIT: SGD(Logistic(), step_size=Constant(ETA)),
    LASSO: FIOL(Logistic(), L1(LAM), Constant(ETA)),
    RIDGE: FIOL(Logistic(), Ridge(LAM), Constant(ETA)),
    DEFAULT: FIOL(Logistic(), L1(LAM)),
}
#: The same with an account of every round (`fiol.regret.Ledger`).
ACCOUNTED = {name: f"{name}, accounted" for name in (LASSO, RIDGE, DEFAULT)}
SKLEARN_L1, SKLEARN_L2 = "scikit-learn l1", "scikit-learn l2"
READS = "bare reads"
RIVER, RIVER_SCORED = "River", "River, scored"
#: What they are called where they are imported, and where they are installed from.
PEERS = {"sklearn": "scikit-learn", "river": "river"}


class Plan(NamedTuple):
    """How much to run."""

    most: int  #: rows taken of a data set
    synthetic: tuple[int, int]  #: rows and features of the made-up one
    widths: tuple[int, ...]  #: features of the models that grow
    few: int  #: features they ever see, so few that caches and TLB hold what is kept of them
    many: int  #: features that do not fit the cache
    sizes: tuple[int, ...]  #: non-zeros of the rows that grow
    d: int  #: and their features
    volume: int  #: non-zeros in a run, for as many rows as that makes
    events: int
    rounds: dict[str, int]  #: turns of every contestant, by section
    judged: bool = True  #: whether the sizes are large enough to say something


SECTIONS = ("pass", "width", "pages", "nnz", "event")
FULL = Plan(
    most=10**9,
    synthetic=(200_000, 47_000),
    widths=tuple(10**k for k in range(4, 9)),
    few=500,
    many=4000,
    sizes=decades(1, 4),
    d=100_000,
    volume=1_000_000,
    events=2000,
    rounds={"pass": 9, "width": 15, "pages": 9, "nnz": 5, "event": 9},
)
QUICK = Plan(30, (30, 200), (100, 1000), 10, 20, (5, 10), 100, 100, 10, dict.fromkeys(SECTIONS, 1), False)


class Result(NamedTuple):
    """What one setting gave: microseconds per row of every contestant, and what else was seen."""

    section: str
    name: str
    d: int
    nnz: float
    rows: int
    us: dict[str, float]
    seen: dict[str, dict[str, float]]


def result(section: str, rows: Rows, runs: dict[str, Contestant], seen: dict[str, Any]) -> Result:
    us = {name: 1e6 * run.seconds / rows.size for name, run in runs.items()}
    return Result(section, rows.name, rows.d, rows.nnz, rows.size, us, seen)


@cache
def peer(module: str) -> bool:
    """Return whether a library to compare with is installed."""
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True


def make_learner(name: str, **options: Any) -> Learner:
    return Learner(UPDATES[name], **options)


# --- one pass ---------------------------------------------------------------------------------


def pass_contestants(rows: Rows) -> dict[str, Contestant]:
    """Fresh models, which see every row once; all return themselves."""
    X, y = rows.matrix(), rows.y

    def fiol(name: str, accounted: bool = False) -> Callable[[], Callable[[], Any]]:
        def prepare() -> Callable[[], Any]:
            learner = make_learner(name, n_features=rows.d, intercept=False)
            if accounted:  # a comparator pays the same penalty in every round: one in raw units
                update: Any = learner.update
                if hasattr(update.step_size, "raw_penalty"):
                    learner = learner.with_update(update.replace(step_size=update.step_size.replace(raw_penalty=1)))
                Ledger(learner, comparator=np.zeros(rows.d))
            return lambda: (learner.learn(X, y), learner)[1]

        return prepare

    def sklearn(penalty: str, call: str) -> Callable[[], Callable[[], Any]]:
        def prepare() -> Callable[[], Any]:
            model = importlib.import_module("sklearn.linear_model").SGDClassifier(
                loss="log_loss",
                penalty=penalty,
                alpha=LAM,
                learning_rate="constant",
                eta0=ETA,
                max_iter=1,
                tol=None,
                shuffle=False,
                fit_intercept=False,
            )
            return (lambda: model.fit(X, y)) if call == "fit" else lambda: model.partial_fit(X, y, classes=[-1, 1])

        return prepare

    runs = {name: Contestant(fiol(name)) for name in UPDATES}
    runs |= {ACCOUNTED[name]: Contestant(fiol(name, accounted=True)) for name in ACCOUNTED}
    if peer("sklearn"):
        for name, penalty in ((SKLEARN_L1, "l1"), (SKLEARN_L2, "l2")):
            for call in ("fit", "partial_fit"):
                runs[f"{name}, {call}"] = Contestant(sklearn(penalty, call))
    return runs


def measure_pass(rows: Rows, rounds: int) -> Result:
    """One pass over a data set; what is seen is how well the weights it ends with fit, and how many are not 0."""
    runs = pass_contestants(rows)
    loss, nonzero = dict[str, float](), dict[str, float]()
    for name, run in runs.items():
        model = run.once()  # compiles, too
        w = model.weights if isinstance(model, Learner) else model.coef_[0]
        loss[name] = float(np.logaddexp(0.0, -rows.y * rows.scores(w)).mean())
        nonzero[name] = float(np.count_nonzero(w))
    take_turns(runs.values(), rounds)
    return with_faster(result("pass", rows, runs, {"log loss": loss, "non-zero weights": nonzero}))


def with_faster(found: Result) -> Result:
    """Return the result with the faster of a peer's two methods under the peer's own name."""
    tables = [found.us, *found.seen.values()]
    for name in (SKLEARN_L1, SKLEARN_L2):
        ways = [way for way in found.us if way.startswith(f"{name}, ")]
        if ways:
            best = min(ways, key=found.us.__getitem__)
            tables = [t | {name: t[best]} for t in tables]
    return found._replace(us=tables[0], seen=dict(zip(found.seen, tables[1:], strict=True)))


# --- rows and models that grow ----------------------------------------------------------------


def even_rows(nnz: int, rows: int, features: int, seed: int = 1) -> Rows:
    """Return rows with one feature from each of `nnz` equal ranges, of norm about 1, with random labels.

    No feature is likelier than another to be in the cache, and no step ever becomes easy.
    """
    rng = np.random.default_rng(seed)
    room = features // nnz
    indices = (np.arange(nnz) * room + rng.integers(0, room, (rows, nnz))).astype(np.int32).ravel()
    values = rng.standard_normal(rows * nnz) / np.sqrt(nnz)
    return Rows("", features, nnz * np.arange(rows + 1), indices, values, rng.choice([-1.0, 1.0], rows))


def spread(rows: Rows, d: int, seed: int = 1) -> Rows:
    """Return the same rows with their features spread over d.

    Each lies in a cache line of its own in every width, at random, so that no two widths differ by who shares what.
    """
    room = d // rows.d
    place = room * np.arange(rows.d) + np.random.default_rng(seed).integers(0, max(room - 7, 1), rows.d)
    return rows._replace(d=d, indices=place[rows.indices].astype(np.int32))


def going_on(name: str, rows: Rows) -> tuple[Learner, Contestant]:
    """Return a learner that learns the same rows in every turn, so that all its memory has been touched before."""
    learner, X = make_learner(name, n_features=rows.d, intercept=False), rows.matrix()
    return learner, Contestant(lambda: lambda: learner.learn(X, rows.y))


def bare_reads(rows: Rows) -> Contestant:
    """Read the entries of the rows from one array of the model's width, without arithmetic."""
    w, blocks = np.zeros(rows.d), np.array_split(rows.indices, len(rows.indices) // 2**15 + 1)
    w[rows.indices] = 1.0  # memory that was never written to is all one page

    def loop() -> None:
        for block in blocks:
            w.take(block)

    return Contestant(lambda: loop)


def measure_widths(section: str, touched: int, widths: list[int], plan: Plan) -> list[Result]:
    """The same rows in wider and wider models, which all take turns; AssertionError unless all give the same scores."""
    nnz = min(50, touched)
    narrow = even_rows(nnz, max(plan.volume // nnz, 4), touched)
    for name in (LASSO, DEFAULT):
        going_on(name, narrow)[1].once()  # compiles
    found, everything, scores = [], list[Contestant](), dict[str, Any]()
    for d in (d for d in widths if d >= 8 * touched):
        rows = spread(narrow, d)._replace(name=f"{d:,} features")
        runs, first, size = dict[str, Contestant](), dict[str, float](), dict[str, float]()
        for name in (LASSO, DEFAULT):
            learner, run = going_on(name, rows)
            z = run.once()
            assert np.array_equal(z, scores.setdefault(name, z)), f"{name} gives other scores for {d} features"
            runs[name], first[name], size[name] = run, 1e6 * run.seconds / rows.size, float(learner.nbytes)
            run.seconds = np.inf
        runs[READS] = bare_reads(rows)
        found.append((rows, runs, {"first pass": first, "bytes": size}))
        everything += runs.values()
    take_turns(everything, plan.rounds[section])
    return [result(section, *parts) for parts in found]


#: Bytes per feature of the contestants of `measure_widths`, together.
WIDE = 16 + 32 + 8


def affordable(widths: tuple[int, ...], memory: float) -> list[int]:
    """Return the widths that fit together in half of the memory."""
    return [d for k, d in enumerate(widths) if WIDE * sum(widths[: k + 1]) <= memory / 2]


def free_memory() -> float:
    """Bytes that may be had; infinite if the system does not say."""
    info = Path("/proc/meminfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable")), np.inf)


def measure_size(nnz: int, plan: Plan) -> Result:
    rows = even_rows(nnz, min(max(plan.volume // nnz, 4), 20_000), plan.d)._replace(name=f"{nnz:,} non-zeros")
    runs = {name: going_on(name, rows)[1] for name in (EXPLICIT, LASSO, RIDGE, DEFAULT)}
    for run in runs.values():
        run.once()
    take_turns(runs.values(), plan.rounds["nnz"])
    return result("nnz", rows, runs, {})


# --- one event at a time ----------------------------------------------------------------------


def event_rows(plan: Plan, nnz: int, alike: bool = False) -> Rows:
    """Events of exactly `nnz` features of 10,000, some far likelier than others; or always the same ones."""
    rng = np.random.default_rng(1)
    chance = np.arange(1, 10_001) ** (-2.0 / 3.0)  # the density of u^3
    drawn = [rng.choice(10_000, nnz, replace=False, p=chance / chance.sum()) for _ in range(plan.events)]
    drawn = plan.events * drawn[:1] if alike else drawn
    indices = np.concatenate(drawn).astype(np.int32)
    labels = rng.choice([-1.0, 1.0], plan.events)
    return Rows("", 10_000, nnz * np.arange(plan.events + 1), indices, 1.0 - rng.random(len(indices)), labels)


def as_dicts(rows: Rows) -> list[dict[str, float]]:
    """Return one dict per row, features in the order in which they were drawn."""
    names = [f"feature {i}" for i in range(rows.d)]
    keys, values = [names[i] for i in rows.indices], rows.data.tolist()
    return [dict(zip(keys[a:b], values[a:b], strict=True)) for a, b in zip(rows.indptr, rows.indptr[1:], strict=False)]


def as_arrays(rows: Rows) -> list[tuple[Any, Any]]:
    """Rising indices and values of every row."""
    pairs = []
    for a, b in zip(rows.indptr, rows.indptr[1:], strict=False):
        order = a + np.argsort(rows.indices[a:b])
        pairs.append((rows.indices[order], rows.data[order]))
    return pairs


Loop = Callable[[], None]


def by_array(learner: Learner, rows: Rows) -> Loop:
    events, learn_one = (
        [(i, x, y) for (i, x), y in zip(as_arrays(rows), rows.y.tolist(), strict=True)],
        learner.learn_one,
    )

    def loop() -> None:
        for indices, values, y in events:
            learn_one(indices, values, y)

    return loop


def by_matrix(learner: Learner, rows: Rows) -> Loop:
    single = [rows.take(np.array([r])) for r in range(rows.size)]
    events, learn = [(one.matrix(), one.y) for one in single], learner.learn

    def loop() -> None:
        for X, y in events:
            learn(X, y)

    return loop


def by_name(learner: Learner, rows: Rows) -> Loop:
    events, learn_named = list(zip(as_dicts(rows), rows.y.tolist(), strict=True)), learner.learn_named

    def loop() -> None:
        for x, y in events:
            learn_named(x, y)

    return loop


def by_river(rows: Rows, scored: bool) -> Loop:
    optim = importlib.import_module("river.optim")
    model = importlib.import_module("river.linear_model").LogisticRegression(optim.SGD(ETA))
    events, learn_one, predict = (
        list(zip(as_dicts(rows), (rows.y > 0.0).tolist(), strict=True)),
        model.learn_one,
        model.predict_proba_one,
    )

    def loop() -> None:
        for x, y in events:
            learn_one(x, y)

    def scoring() -> None:
        for x, y in events:
            predict(x)
            learn_one(x, y)

    return scoring if scored else loop


def measure_events(name: str, nnz: int, plan: Plan) -> Result:
    """Models that have seen all events before, so that no name is new."""
    rows = event_rows(plan, nnz, alike=name == ALIKE)._replace(name=name)
    make = {"learn_one": by_array, "learn": by_matrix}.get(name, by_name)
    options = {} if make is by_name else {"n_features": rows.d}
    loops = {u: make(make_learner(u, **options), rows) for u in (EXPLICIT, LASSO, DEFAULT)}
    if make is by_name and peer("river"):
        loops |= {RIVER: by_river(rows, False), RIVER_SCORED: by_river(rows, True)}
    runs = {key: Contestant(lambda loop=loop: loop) for key, loop in loops.items()}  # type: ignore[misc]
    for run in runs.values():
        run.once()
        run.seconds = np.inf
    take_turns(runs.values(), plan.rounds["event"])
    return result("event", rows, runs, {})


#: Events that are all described by the same features, as those of sensors and tables are.
ALIKE = "learn_named, same names"
EVENTS = (("learn_one", 20), ("learn", 20), ("learn_named", 20), ("learn_named", 150), (ALIKE, 20), (ALIKE, 150))


# --- everything -------------------------------------------------------------------------------


def data_sets(plan: Plan, folder: Path | None) -> Iterator[Rows]:
    if folder is not None:
        for rows in data.load(folder):
            yield rows.take(np.linspace(0, rows.size - 1, plan.most).astype(int)) if rows.size > plan.most else rows
    yield data.text_like(*plan.synthetic)


def measure_all(plan: Plan, folder: Path | None) -> list[Result]:
    results = []
    for rows in data_sets(plan, folder):
        progress(f"one pass: {rows.name}")
        results.append(measure_pass(rows, plan.rounds["pass"]))
    progress("models that grow")
    for section, touched in (("width", plan.few), ("pages", plan.many)):
        results += measure_widths(section, touched, affordable(plan.widths, free_memory()), plan)
    for nnz in plan.sizes:
        progress(f"rows that grow: {nnz:,} non-zeros")
        results.append(measure_size(nnz, plan))
    for name, nnz in EVENTS:
        progress(f"one event at a time: {name}, {nnz} features")
        results.append(measure_events(name, nnz, plan))
    progress("")
    return results


# --- what the numbers say ---------------------------------------------------------------------


def section_of(results: list[Result], section: str) -> list[Result]:
    return [r for r in results if r.section == section]


def fits_of(results: list[Result], name: str) -> list[float]:
    """Return the exponents of a contestant's time, one for each range of sizes."""
    sizes = [r.nnz for r in results]
    return [exponent(sizes, [r.us[name] for r in results], first) for first in fit_ranges(sizes)]


def ratios(results: list[Result], a: str, b: str) -> dict[str, float]:
    """Return the time of b divided by that of a, by setting, where both ran."""
    return {r.name: r.us[a] / r.us[b] for r in results if a in r.us and b in r.us}


def at_most(claim: str, found: dict[str, float], bound: float) -> list[Target]:
    """Return the target that no ratio is above the bound, if there are any."""
    if not found:
        return []
    worst = max(found, key=found.__getitem__)
    return [Target(claim, f"{found[worst]:.2f} x ({worst})", found[worst] <= bound)]


def at_least(claim: str, found: dict[str, float], bound: float) -> list[Target]:
    """Return the target that no ratio is below the bound, if there are any."""
    if not found:
        return []
    worst = min(found, key=found.__getitem__)
    return [Target(claim, f"{found[worst]:.2f} x ({worst})", found[worst] >= bound)]


def targets(results: list[Result]) -> list[Target]:
    """Return the targets, each at its worst setting."""
    passes, widths, _, sizes, events = (section_of(results, s) for s in SECTIONS)
    extra = ratios(passes, LASSO, EXPLICIT)
    aim = sum(ratio <= 1.5 for ratio in extra.values())
    found = at_most(f"{LASSO} at most 2.0 x {EXPLICIT} (at most 1.5 x on {aim} of {len(extra)} sets)", extra, 2.0)
    long = [r for r in passes if r.nnz > 50]
    found += at_least(f"{LASSO} faster than {SKLEARN_L1}", ratios(passes, SKLEARN_L1, LASSO), 1.0)
    found += at_least(
        f"{LASSO} at least 1.3 x as fast as {SKLEARN_L1} from 50 non-zeros on", ratios(long, SKLEARN_L1, LASSO), 1.3
    )
    found += at_most(f"{RIDGE} at most 1.5 x {SKLEARN_L2}", ratios(passes, RIDGE, SKLEARN_L2), 1.5)
    for name in (LASSO, DEFAULT):
        growth = {r.name: r.us[name] / widths[0].us[name] for r in widths}
        span = f"{widths[0].d:,} to {widths[-1].d:,} features" if widths else ""
        found += at_most(f"{name}: no width over 1.3 x the first, {span}", growth, 1.3)
    for name in (LASSO, DEFAULT):
        fits = fits_of(sizes, name)
        measured = f"nnz^{fits[0]:.3f}" + "".join(f" (nnz^{b:.3f} from {FIT_FROM[1]:,})" for b in fits[1:])
        span = f"{sizes[0].nnz:g} to {sizes[-1].nnz:,g} non-zeros"
        found.append(Target(f"{name} grows slower than nnz^1.1, {span}", measured, max(fits) < 1.1))
    for r in events:
        slower = max((LASSO, DEFAULT), key=r.us.__getitem__)
        if r.name == "learn_one":
            claim = f"learn_one at most 5 us, {r.nnz:g} features"
            found.append(Target(claim, f"{r.us[slower]:.2f} us ({slower})", r.us[slower] <= 5.0))
        if RIVER in r.us:
            bound = 3.0 if r.nnz > 50 else 1.0
            claim = f"{r.name} at least {bound:.1f} x as fast as {RIVER}, {r.nnz:g} features"
            found += at_least(claim, {slower: r.us[RIVER] / r.us[slower]}, bound)
    return found


def report(results: list[Result], plan: Plan, load: list[float]) -> str:
    passes, widths, pages, sizes, events = (section_of(results, s) for s in SECTIONS)
    absent = [f"{PEERS[module]} is not installed: left out." for module in PEERS if not peer(module)]
    parts = [
        f"Logistic loss, double precision, one thread, the best of several turns.\n"
        f"{EXPLICIT}: no penalty; {LASSO}, {RIDGE}: strength {LAM:g}; all with constant steps {ETA:g}.\n"
        f"{DEFAULT}: l1 {LAM:g}, tuning-free steps. No intercept, except one event at a time.\n"
        f"{clock_name()}. Load of the machine at the start: {', '.join(f'{x:.1f}' for x in load) or 'not known'}.",
        *absent,
        *report_passes(passes),
        *report_widths(widths, plan, plan.few, "few enough for caches and TLB"),
        *report_widths(pages, plan, plan.many, "too many for them; not judged"),
        "In every width the rows touch as many cache lines, but on more pages: what the width still costs are misses\n"
        f"of the TLB. {READS}: the same entries of a single array by numpy.take, where nothing else can grow.\n"
        "A first pass touches memory that the system has yet to hand out, zeroed, in pages of 4 KB or, where numpy\n"
        "asks for them, 2 MB.",
        *report_sizes(sizes, plan),
        *report_events(events),
        "Targets, each at its worst setting",
        verdicts(targets(results), plan.judged),
    ]
    return "\n\n".join(parts)


def clock_name() -> str:
    return "Time of this process only" if Contestant.clock is time.process_time else "Time of day"


def report_passes(results: list[Result]) -> Iterator[str]:
    peers = [name for name in (SKLEARN_L1, SKLEARN_L2) if name in results[0].us]
    shown, sparse = [*UPDATES, *peers], [LASSO, DEFAULT, *peers[:1]]
    pairs = [(name, EXPLICIT) for name in (LASSO, RIDGE, DEFAULT)]
    note = "One pass over CSR in memory with a fresh model, checks of the rows included: microseconds per row"
    if peers:
        pairs += [(SKLEARN_L1, LASSO), (RIDGE, SKLEARN_L2)]
        fit = sum(r.us[f"{name}, fit"] < r.us[f"{name}, partial_fit"] for r in results for name in peers)
        note += f"\nscikit-learn: partial_fit or fit, whichever is faster (fit {fit} times of {2 * len(results)})"
    yield note
    head = ["", "rows", "features", "non-zeros", *shown]
    sizes = ([r.name, f"{r.rows:,}", f"{r.d:,}", f"{r.nnz:.1f}"] for r in results)
    yield table(head, [[*s, *(f"{r.us[n]:.3f}" for n in shown)] for s, r in zip(sizes, results, strict=True)])
    yield "Ratios of these times"
    head = ["", *(f"{a} / {b}" for a, b in pairs)]
    yield table(head, [[r.name, *(f"{r.us[a] / r.us[b]:.2f}" for a, b in pairs)] for r in results])
    yield "With an account of every round (fiol.regret.Ledger): microseconds per row, and times those without it"
    body = [
        [
            r.name,
            *(f"{r.us[b]:.3f}" for b in ACCOUNTED.values()),
            *(f"{r.us[b] / r.us[a]:.2f}" for a, b in ACCOUNTED.items()),
        ]
        for r in results
    ]
    yield table(["", *ACCOUNTED, *(f"{name}, times" for name in ACCOUNTED)], body)
    yield "Where that pass ends: the mean loss of the last weights on the same rows"
    yield table(["", *shown], [[r.name, *(f"{r.seen['log loss'][n]:.3f}" for n in shown)] for r in results])
    yield "and how many of them are not 0"
    body = [[r.name, *(f"{r.seen['non-zero weights'][n]:,.0f}" for n in sparse)] for r in results]
    yield table(["", *sparse], body)


def report_widths(results: list[Result], plan: Plan, touched: int, remark: str) -> Iterator[str]:
    if not results:
        return
    left = [f"{d:,}" for d in plan.widths if d > results[-1].d]
    yield (
        f"The same rows with {results[0].nnz:g} of {touched:,} features ({remark}),\n"
        "spread over wider and wider models: microseconds per row"
        + (f"; no memory here for {', '.join(left)}" if left else "")
    )
    names = (LASSO, DEFAULT)
    head = ["features", *names, READS, *(f"{n}, first pass" for n in names), *(f"{n}, MB" for n in names)]
    body = [
        [
            f"{r.d:,}",
            *(f"{r.us[n]:.3f}" for n in (*names, READS)),
            *(f"{r.seen['first pass'][n]:.3f}" for n in names),
            *(f"{r.seen['bytes'][n] / 1e6:,.1f}" for n in names),
        ]
        for r in results
    ]
    yield table(head, body)


def report_sizes(results: list[Result], plan: Plan) -> Iterator[str]:
    yield f"Rows that grow, in d = {plan.d:,}: microseconds per row"
    names = list(results[0].us)
    body = [[f"{r.nnz:,g}", *(f"{r.us[n]:.3g}" for n in names)] for r in results]
    for k, first in enumerate(fit_ranges(r.nnz for r in results)):
        fits = (f"{fits_of(results, n)[k]:.3f}" for n in names)
        body.append([f"exponent from {first:,}" if first else "exponent, all sizes", *fits])
    yield table(["non-zeros", *names], body)


def report_events(results: list[Result]) -> Iterator[str]:
    names = list(dict.fromkeys(n for r in results for n in r.us))
    note = "One event at a time, with an intercept, all names known: microseconds per event"
    if RIVER in names:
        note += (
            f"\n{RIVER}: LogisticRegression(SGD({ETA:g})).learn_one, which returns no score as ours do; "
            f"{RIVER_SCORED}: after predict_proba_one"
        )
    yield note
    body = [[r.name, f"{r.nnz:g}", *(f"{r.us[n]:.2f}" if n in r.us else "" for n in names)] for r in results]
    yield table(["call", "features", *names], body)


def document(results: list[Result], plan: Plan, load: list[float], arguments: list[str] | None) -> dict[str, Any]:
    """Return all numbers, and what is needed to read them later."""
    sizes = section_of(results, "nnz")
    return {
        **header("benchmarks.stream", arguments, not plan.judged, [PEERS[m] for m in PEERS if peer(m)]),
        "clock": clock_name(),
        "load": load,
        "unit": "microseconds per row",
        "rounds": plan.rounds,
        "results": [r._asdict() for r in results],
        "exponents_from": FIT_FROM,
        "exponents": {name: fits_of(sizes, name) for name in sizes[0].us},
        "targets": [t._asdict() for t in targets(results)],
    }


# --- command line -----------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stream", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, metavar="DIR", help="a folder with data sets (see benchmarks/data.py)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers, versions and the command")
    parser.add_argument("--rounds", type=int, metavar="N", help="turns of every contestant in every section")
    parser.add_argument("--cpu", action="store_true", help="count the time of this process only: for busy machines")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that everything runs, measures nothing")
    options = parser.parse_args(arguments)
    if options.data is not None and not options.data.is_dir():
        parser.error(f"--data: {options.data} is no folder")
    plan = QUICK if options.quick else FULL
    if options.rounds is not None:
        if options.rounds < 1:
            parser.error("--rounds must be at least 1")
        plan = plan._replace(rounds=dict.fromkeys(SECTIONS, options.rounds))
    if options.cpu:
        Contestant.clock = staticmethod(time.process_time)
    load = list(os.getloadavg()) if hasattr(os, "getloadavg") else []
    results = measure_all(plan, options.data)
    print(report(results, plan, load))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(document(results, plan, load, arguments), indent=1) + "\n")


if __name__ == "__main__":
    main()
