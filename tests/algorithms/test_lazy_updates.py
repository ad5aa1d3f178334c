"""Lazy updates match a loop over all features in every round."""

from __future__ import annotations

import itertools
import re
from math import inf

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from material import magnitudes, regularizers, signed
from streams import Draws, Stream, raw_beside_bounds, switched

import fiol
from fiol.algorithms import lazy_updates as module
from fiol.algorithms.lazy_updates import LAZY_UPDATES, Eager, LazyUpdate, UpdateProperties
from fiol.algorithms.plan import choose_lazy_update, make_plan, properties_of
from fiol.components.scalars import power_sums
from fiol.components.subproblem import make_problem
from fiol.engine.update_engine import UpdateEngine
from fiol.features.chunk import Chunk
from fiol.features.containers import to_chunk

seeds = st.integers(0, 2**32)


def sparse_stream(draws, loss, n=40, d=6, present=0.25):
    rng = draws.rng
    x = rng.standard_normal((n, d)) * (rng.random((n, d)) < present)
    y = rng.standard_normal(n)
    y = np.sign(y) if isinstance(loss, fiol.Binary) else y
    return Stream(x, y, rng.choice([1.0, 0.0, 10.0], n))


def assert_lazy_is_eager(draws, update, stream, average=False, tol=1e-12):
    """The plan of an update gives what `Eager` gives; returns its lazy update."""
    plan = make_plan(update, average)
    assert_same_as_eager(draws, plan, update.geometry, stream, average, tol)
    return plan.lazy_update


def assert_same_as_eager(draws, plan, geometry, stream, average, tol):
    """Scores, weights, averages and zeros, at random pauses; a third engine settles there, which must not matter.

    Weights are compared in parts of the largest there has been: shrinking cancels, and so do scores.
    """
    d = stream.x.shape[1]
    to = geometry.reparametrization()
    size, largest = to.weights_per_feature * d, 0.0
    plans = plan.replace(lazy_update=Eager()), plan, plan
    eager, lazy, settled = (
        UpdateEngine(p, size, p.first_entry(size), True, average, np.float64, compiled=False) for p in plans
    )
    cuts = np.unique([0, len(stream.y), *draws.rng.integers(0, len(stream.y), 3)])
    for rows in map(slice, cuts[:-1], cuts[1:]):
        chunk = Chunk(*to.transform_rows(tuple(to_chunk(stream.x[rows])), d))
        expected = None
        for engine in (eager, lazy, settled):
            scores = engine.learn(chunk, stream.y[rows], stream.weight[rows])
            weights = [engine.weights(size, averaged) for averaged in (False, average)]
            found = scores, *weights, *(engine.intercept_weight(averaged) for averaged in (False, average))
            if expected is None:
                expected = found
                largest = max(largest, *(np.abs(part).max(initial=0.0) for part in found))
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=tol, atol=tol * largest)
            if plan.regularizer.has("l1") and any(plan.regularizer.l1(i) > 0.0 for i in range(d)):
                np.testing.assert_array_equal(weights[0] == 0.0, expected[1] == 0.0)
        settled.settle()


# --- every lazy update ---------------------------------------------------------------------


def boxed(draws, penalty):
    return draws.pick(
        penalty, penalty, fiol.non_negative(penalty), fiol.Box(penalty, -0.3, 0.2), fiol.Box(penalty, 0.1, 0.7)
    )


def moving(draws):
    size = draws.size()
    return draws.pick(fiol.Inverse(size), fiol.Polynomial(size, 0.5), fiol.Anytime(size, draws.size()))


def steady(draws):
    size = draws.size()
    return draws.pick(fiol.Constant(size), fiol.FixedHorizon(size, 1.0, 10.0))


def adaptive(draws, schedule, betting=True):
    size = draws.size()
    adagrad, curvature = (
        fiol.AdaGrad(size, draws.pick(0.0, 1.0)),
        fiol.Curvature(size, draws.size(), draws.pick(0.0, 0.1)),
    )
    own = draws.pick(adagrad, curvature, fiol.Normalized(size), *[fiol.CoinBetting(size)] * betting)
    return draws.pick(own, fiol.ScaleFree(own), fiol.ScaleFree(schedule))


def metric(draws):
    return draws.pick(fiol.Euclidean(), fiol.DiagonalMetric(draws.size(6)))


def nothing_deferred(draws, loss):
    step = draws.pick(moving(draws), steady(draws), adaptive(draws, moving(draws)))
    if draws.pick(False, True):
        return fiol.IOL(loss, step, metric(draws)), False
    if draws.pick(False, True):
        return fiol.RDA(loss, boxed(draws, draws.penalty(6, boxed=False)), step, metric(draws)), False
    return fiol.ImplicitFTRL(
        loss, draws.penalty(6), adaptive(draws, steady(draws), betting=False), once=draws.pick(False, True)
    ), False


def deferred_average(draws, loss):
    step = draws.pick(moving(draws), steady(draws), adaptive(draws, moving(draws)))
    return fiol.IOL(loss, step, draws.pick(fiol.Entropy(), metric(draws))), True


def cumulative_l1(draws, loss):
    step = draws.pick(moving(draws), steady(draws), adaptive(draws, moving(draws)))
    geometry = draws.pick(fiol.Entropy(), fiol.SignedEntropy(), metric(draws))
    penalty = fiol.L1(draws.pick(draws.size(), draws.size(6)))
    entropic = isinstance(geometry, fiol.Entropy)
    return fiol.FIOL(loss, penalty if entropic else boxed(draws, penalty), step, geometry), False


def scaled_weights(draws, loss):
    penalty = fiol.ElasticNet(draws.pick(draws.size(), draws.size(6)), draws.size())
    return fiol.FIOL(loss, boxed(draws, penalty), draws.pick(moving, steady)(draws)), False


def scaled_ridge(draws, loss):
    penalty, step = fiol.Ridge(draws.size()), draws.pick(moving, steady)(draws)
    return draws.pick(fiol.FIOL(loss, boxed(draws, penalty), step), fiol.ISGD(loss, penalty, step)), False


def averaged_scaled_ridge(draws, loss):
    penalty, step = fiol.Ridge(draws.size()), moving(draws)
    return draws.pick(fiol.FIOL, fiol.ISGD)(loss, penalty, step), True


def catch_up_replay(draws, loss):
    average, own = draws.pick(False, True), draws.size(6)
    penalty = draws.pick(fiol.Ridge(own), fiol.ElasticNet(own, own), fiol.ElasticNet(draws.size(), own))
    if average:
        penalty = draws.pick(penalty, fiol.L1(own), fiol.Ridge(draws.size()), fiol.ElasticNet(own, draws.size()))
    step = draws.pick(steady(draws), adaptive(draws, steady(draws)))
    return fiol.FIOL(loss, boxed(draws, penalty), step, metric(draws)), average


WAYS = {
    "NothingDeferred": nothing_deferred,
    "DeferredAverage": deferred_average,
    "CumulativeL1": cumulative_l1,
    "ScaledWeights": scaled_weights,
    "ScaledRidge": scaled_ridge,
    "AveragedScaledRidge": averaged_scaled_ridge,
    "CatchUpReplay": catch_up_replay,
}


@pytest.mark.parametrize("way", WAYS)
def test_lazy_updates_match_eager_loop(way):
    @settings(max_examples=30)
    @given(seeds)
    def run(seed):
        draws = Draws(seed)
        loss = draws.pick(fiol.Squared(), fiol.Logistic(), fiol.Huber(0.5))  # no jumps: there rounding would decide
        update, average = WAYS[way](draws, loss)
        update = update.replace(step_size=raw_beside_bounds(update.step_size, update.regularizer))
        lazy_update = assert_lazy_is_eager(draws, update, sparse_stream(draws, loss), average)
        assert type(lazy_update).__name__ == way

    run()


@settings(max_examples=50)
@given(seeds)
def test_lazy_updates_of_random_switches_match_eager_loop(seed):
    """All switches, penalties, steps and geometries at random."""
    draws = Draws(seed)
    kind = draws.pick("Euclidean", "DiagonalMetric", "Mahalanobis", "Entropy", "SignedEntropy")
    update, (_, _, average), _ = switched(draws, kind, "implicit")
    loss, own = fiol.Logistic(), update.geometry
    d = next((len(v) for c in (update.regularizer, own, inner(update.regularizer)) for v in arrays(c)), 4)
    assert_lazy_is_eager(draws, update.replace(loss=loss), sparse_stream(draws, loss, n=12, d=d), average, tol=1e-11)


def inner(regularizer):
    return getattr(regularizer, "regularizer", regularizer)


def arrays(component):
    return [v for v in vars(component).values() if isinstance(v, np.ndarray)]


def strength(update, *names):
    """The l1 or the ridge strength; 0 if the penalty is ignored."""
    ignored = isinstance(update.regularizer_step, fiol.IgnoredRegularizer)
    return 0.0 if ignored else next((v for n, v in vars(inner(update.regularizer)).items() if n in names), 0.0)


def documented_as_lazy(update, average):
    """The table of `fiol.algorithms.lazy_updates`, row by row."""
    kind = type(inner(update.regularizer))
    lam1, lam2 = (
        strength(update, name, "lam" * (kind is own)) for name, own in (("lam1", fiol.L1), ("lam2", fiol.Ridge))
    )
    l1, ridge = np.any(lam1), np.any(lam2)
    base = getattr(update.step_size, "step_size", update.step_size)
    steady = isinstance(base, (fiol.Constant, fiol.FixedHorizon, fiol.AdaGrad, fiol.Curvature, fiol.Normalized))
    linearized = isinstance(update.regularizer_step, fiol.LinearizedRegularizer) and (l1 or ridge)
    if not isinstance(update.anchor, fiol.LastIterate):
        return not average and not linearized and (steady or type(update.anchor) is fiol.Origin)
    box, one_step = (
        isinstance(update.regularizer, fiol.Box),
        not isinstance(update.step_size, fiol.Adaptive),
    )
    common = isinstance(update.geometry, fiol.Euclidean) and one_step and isinstance(lam2, float)
    only_ridge = ridge and not l1 and common
    if linearized:
        return only_ridge and not box
    replayed = steady and isinstance(update.geometry, (fiol.Euclidean, fiol.DiagonalMetric))
    if average:
        return not (l1 or ridge) or replayed or (only_ridge and not box)
    return not ridge or common or replayed


@settings(max_examples=50)
@given(seeds)
def test_eager_update_is_used_only_where_documented(seed):
    draws = Draws(seed)
    update, (_, _, average), _ = switched(draws, draws.pick("Euclidean", "DiagonalMetric", "Entropy", "SignedEntropy"))
    lazy_update = make_plan(update, average).lazy_update
    assert isinstance(lazy_update, Eager) != documented_as_lazy(update, average), (update, average, lazy_update)


# --- factors that vanish ----------------------------------------------------------------------

FACTORS = {
    "1e-3 a round": (fiol.FIOL, fiol.Ridge(1.0), fiol.Constant(999.0)),
    "1e-30 a round": (fiol.FIOL, fiol.Ridge(1e30), fiol.Constant(1.0)),
    "1e-200 a round": (fiol.FIOL, fiol.Ridge(1e100), fiol.Constant(1e100)),
    "1e-3 a round and l1": (fiol.FIOL, fiol.ElasticNet(1e-3, 1.0), fiol.Constant(999.0)),
    "1e-130 a round and l1": (fiol.FIOL, fiol.ElasticNet(1e-3, 1e130), fiol.Constant(1.0)),
    "0 in the first round": (fiol.SGD, fiol.Ridge(0.1), fiol.Inverse(0.1)),
    "0 in every round": (fiol.ISGD, fiol.Ridge(0.1), fiol.Constant(10.0)),
    "0 in round 7": (fiol.ISGD, fiol.Ridge(0.5), fiol.Inverse(1.0 / 14.0)),
    "-0.5 a round": (fiol.ISGD, fiol.Ridge(0.1), fiol.Constant(15.0)),
    "-1 a round": (fiol.ISGD, fiol.Ridge(0.1), fiol.Constant(20.0)),
    "-1.2 a round": (fiol.ISGD, fiol.Ridge(0.1), fiol.Constant(22.0)),
    "1e-5 in every round": (fiol.ISGD, fiol.Ridge(0.1), fiol.Constant(10.0 * (1.0 - 1e-5))),
    "1e-13 in every round": (fiol.ISGD, fiol.Ridge(0.1), fiol.Constant(10.0 * (1.0 - 1e-13))),
}


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("factor", FACTORS)
def test_common_scale_is_renormalized_before_underflow(factor, average):
    """The common factor of all weights vanishes, at once or by and by. Small weights are compared in their own size."""
    preset, penalty, step = FACTORS[factor]
    draws, loss = Draws(1), fiol.Squared()
    update = preset(loss, penalty, step)
    stream = sparse_stream(draws, loss, n=200, present=0.1)
    stream = stream._replace(x=0.1 * stream.x)
    lazy_update = assert_lazy_is_eager(draws, update, stream, average)
    assert average or type(lazy_update).__name__.startswith(("ScaledWeights", "ScaledRidge"))
    size, plan, largest = stream.x.shape[1], make_plan(update, average), 0.0
    engines = [
        UpdateEngine(p, size, 0.0, False, average, np.float64, False) for p in (plan, plan.replace(lazy_update=Eager()))
    ]
    for k in range(len(stream.y)):
        row = slice(k, k + 1)
        for engine in engines:
            engine.learn(to_chunk(stream.x[row]), stream.y[row], stream.weight[row])
        lazy, eager = (engine.weights(size, False) for engine in engines)
        largest = max(largest, np.abs(eager).max())
        cancels = 1e-15 * largest if preset is not fiol.FIOL else 0.0  # w - eta lam w, with eta lam near 1
        np.testing.assert_allclose(lazy, eager, rtol=1e-11, atol=cancels + 1e-300)


# --- many rounds at once ----------------------------------------------------------------------


def replay(regularizer, w, step, n, i):
    """The weights of n rounds in 50 digits."""
    with mp.workdps(50):
        lam1, lam2, (lo, hi) = regularizer.l1(i), regularizer.l2(i), (regularizer.clip(-inf), regularizer.clip(inf))
        w, weights = mp.mpf(w), []
        for _ in range(n):
            soft = max(abs(w) - mp.mpf(step) * lam1, 0) * mp.sign(w)
            w = min(max(soft / (1 + mp.mpf(step) * lam2), lo), hi)
            weights.append(w)
        return weights


@settings(max_examples=50)
@given(regularizers(2), st.one_of(st.just(0.0), signed(-3, 3)), magnitudes(-18, 12), st.integers(0, 40))
def test_catch_up_and_its_sum_match_a_loop_over_rounds(regularizer, w, step, n):
    for i in range(2):
        weights = replay(regularizer, w, step, n, i)
        last, total = float(weights[-1]) if n else w, float(mp.fsum(weights))
        size = max([abs(w), *(abs(float(v)) for v in weights)])  # what is subtracted from
        assert regularizer.catch_up(w, step, n, i) == pytest.approx(last, rel=1e-12, abs=1e-14 * size)
        found = regularizer.catch_up_sum(w, step, n, i)
        assert found == pytest.approx(total, rel=1e-12, abs=1e-13 * float(mp.fsum(map(abs, weights))) + 1e-14 * size)


@settings(max_examples=50)
@given(st.one_of(st.integers(1, 60), magnitudes(0, 12).map(int)), st.one_of(magnitudes(-8, 2), magnitudes(-280, 280)))
def test_power_sums_are_exact(n, total):
    assert power_sums(0.0, n) == (n, n * (n + 1) / 2)
    rate = total / n
    with mp.workdps(700):
        r = mp.mpf(rate)
        kept = (1 - (1 + r) ** -n) / r if rate else mp.mpf(n)
        lost = (n - kept) / r if rate else mp.mpf(n) * (n + 1) / 2
        found = power_sums(rate, float(n))
        assert found == pytest.approx((float(kept), float(lost)), rel=1e-13, abs=0.0)


# --- features that appear later ---------------------------------------------------------------


@settings(max_examples=40)
@given(seeds)
def test_growing_learner_matches_one_that_knew_all_features(seed):
    """Also for features that the growing learner has not seen."""
    draws = Draws(seed)
    update, (stream, _, average), _ = switched(draws, draws.pick("Euclidean", "Entropy", "SignedEntropy"), "implicit")
    d, options = stream.x.shape[1], {"intercept": False, "average": average, "compiled": False}
    known = fiol.Learner(update, n_features=d, **options)
    plan = make_plan(update, average)
    if plan.lazy_update.everywhere and plan.first_weight(1) != 0.0 and not arrays(inner(update.regularizer)):
        with pytest.raises(TypeError, match="needs to know how many features"):
            fiol.Learner(update, **options)
        return
    grown = fiol.Learner(update, **options)
    with np.errstate(all="ignore"):
        for x, y, weight in zip(*stream, strict=True):
            index = np.flatnonzero(x)
            pair = [learner.learn_one(index, x[index], y, weight) for learner in (grown, known)]
            assert pair[0] == pair[1]
    each = [[learner.score_one([i], [1.0]) for i in range(d)] for learner in (grown, known)]
    assert each[0] == each[1]
    np.testing.assert_array_equal(grown.weights, known.weights[: grown.n_features])


# --- who is chosen ----------------------------------------------------------------------------

D = 6
#: Odd numbers: sums of round ones meet 0 up to rounding, where being lazy and being eager may differ.
OWN = np.array([0.0, 0.02, 0.1, 0.05, 0.3, 0.01])


class Unknown(fiol.Regularizer):
    """A penalty that does not declare its parts."""

    lam: float = 0.0531

    def value(self, w, i):
        return self.lam * abs(w)

    def prox(self, u, step, i):
        return u - min(max(u, -self.lam * step), self.lam * step)

    def slope(self, w, side, i):
        return self.lam * (np.sign(w) if w != 0.0 else side)


SOME_PENALTIES = {
    "none": fiol.Unregularized(),
    "l1 of strength 0": fiol.L1(0.0),
    "l1": fiol.L1(0.0531),
    "l1 per feature": fiol.L1(OWN),
    "ridge": fiol.Ridge(0.0531),
    "ridge per feature": fiol.Ridge(OWN),
    "elastic net": fiol.ElasticNet(0.0531, 0.1),
    "elastic net, l1 per feature": fiol.ElasticNet(OWN, 0.1),
    "elastic net, ridge per feature": fiol.ElasticNet(0.0531, OWN),
    "unknown": Unknown(),
}
BOXES = {
    "": lambda r: r,
    "in a box": lambda r: fiol.Box(r, -0.317, 0.223),
    "away from 0": lambda r: fiol.Box(r, 0.1131, 0.7),
}
SOME_STEP_SIZES = {
    "constant": fiol.Constant(0.4871),
    "moving": fiol.Polynomial(0.4871),
    "adaptive, constant": fiol.AdaGrad(0.4871, 1.0),
    "adaptive, moving": fiol.ScaleFree(fiol.Polynomial(0.4871)),
}
SOME_GEOMETRIES = {
    "Euclidean": fiol.Euclidean(),
    "metric": fiol.DiagonalMetric(OWN + 0.5),
    "full metric": fiol.Mahalanobis(np.diag(OWN + 0.5) + 0.1),
    "entropy": fiol.Entropy(),
    "signed entropy": fiol.SignedEntropy(),
    "simplex": fiol.Simplex(),
}
ANCHORS = fiol.LastIterate(), fiol.Origin(), fiol.AllIterates()
REGULARIZER_STEPS = (
    fiol.ImplicitRegularizer(),
    fiol.LinearizedRegularizer(),
    fiol.IgnoredRegularizer(),
    fiol.RegularizerOnce(),
)


def cascade(update, geometry, averaging):
    """Return the cheapest lazy update by a table of cases that lists every class."""
    penalty, step_size, push = update.regularizer, update.step_size, update.regularizer_step.pushes
    box = isinstance(penalty, fiol.Box)
    if isinstance(update.regularizer_step, fiol.IgnoredRegularizer):
        penalty = penalty.replace(regularizer=fiol.Unregularized()) if box else fiol.Unregularized()
    parts = penalty.strengths()
    l1, l2 = (True, True) if parts is None else (bool(np.any(parts[0])), bool(np.any(parts[1])))
    if isinstance(update.geometry, (fiol.Mahalanobis, fiol.Simplex)):
        return "DeferredAverage" if averaging else "NothingDeferred"
    if not isinstance(update.anchor, fiol.LastIterate):
        moving = isinstance(update.anchor, fiol.AllIterates) and not step_size.properties().constant
        return "Eager" if averaging or moving or (push and (l1 or l2)) else "NothingDeferred"
    common = isinstance(geometry, fiol.Euclidean) and isinstance(step_size, fiol.Schedule)
    common = common and parts is not None and isinstance(parts[1], float)
    replayed = geometry.quadratic and step_size.properties().constant and penalty.has("catch_up")
    if push and (l1 or l2):
        if common and not l1 and not box:
            return "AveragedScaledRidge" if averaging else "ScaledRidge"
        return "Eager"
    if not l1 and not l2:
        return "DeferredAverage" if averaging else "NothingDeferred"
    if averaging:
        if replayed:
            return "CatchUpReplay"
        return "AveragedScaledRidge" if common and not l1 and not box else "Eager"
    if not l2:
        return "CumulativeL1"
    if common:
        return "ScaledWeights" if l1 else "ScaledRidge"
    return "CatchUpReplay" if replayed else "Eager"


def combinations():
    """Every update that parts which fit make, with averages and without, and what follows from it.

    (words, update, averaged, plan, properties, geometry)
    """
    sizes = SOME_PENALTIES, BOXES, SOME_STEP_SIZES, SOME_GEOMETRIES
    for (penalty, box, step, geometry), anchor, how, averaged in itertools.product(
        itertools.product(*sizes), ANCHORS, REGULARIZER_STEPS, (False, True)
    ):
        regularizer = BOXES[box](SOME_PENALTIES[penalty])
        update = fiol.Update(
            fiol.Squared(),
            regularizer,
            SOME_STEP_SIZES[step],
            regularizer_step=how,
            anchor=anchor,
            geometry=SOME_GEOMETRIES[geometry],
        )
        try:
            plan = make_plan(update, averaged)
        except TypeError:  # a regularizer this geometry cannot take, or switches that do not fit
            continue
        words = f"{penalty} {box}, {step}, {geometry}, {anchor}, {how}, {'averaged' if averaged else ''}"
        yield words, update, averaged, plan, *properties(update, averaged)


def properties(update, averaged):
    problem = make_problem(update.loss, fiol.Unregularized(), update.geometry)
    return properties_of(update, problem.geometry, averaged), problem.geometry


@pytest.fixture(scope="module")
def every():
    return list(combinations())


def test_cheapest_lazy_update_matches_table_of_cases(every):
    """All combinations of penalties, boxes, step sizes, geometries, anchors, regularizer steps and averages."""
    chosen = {}
    for words, update, averaged, plan, found, geometry in every:
        way = type(choose_lazy_update(found)).__name__
        assert way == cascade(update, geometry, averaged), words
        assert type(plan.lazy_update).__name__ == way
        chosen.setdefault(way, []).append(words)
    assert chosen.keys() == {type(way).__name__ for way in LAZY_UPDATES}, "one is never chosen"
    assert len(every) > 2000


def test_lazy_updates_that_claim_exactness_match_eager_loop(every):
    """Not only the cheapest: every one that claims to be exact, on a stream for each different set of properties."""
    seen, runs = set(), {}
    for words, update, averaged, plan, found, geometry in every:
        exact = [way for way in LAZY_UPDATES if way.exact_for(found)]
        key = found, type(geometry)
        if key in seen or len(exact) < 2 or isinstance(geometry, fiol.Simplex):  # a simplex has no eager loop
            continue
        seen.add(key)
        stream = sparse_stream(Draws(len(seen)), update.loss, n=10, d=D)
        for way in exact[:-1]:  # the last is `Eager` itself
            try:
                assert_same_as_eager(Draws(1), plan.replace(lazy_update=way), update.geometry, stream, averaged, 1e-11)
            except AssertionError as error:
                raise AssertionError(f"{way} is not exact for {words}") from error
            runs[type(way).__name__] = runs.get(type(way).__name__, 0) + 1
    assert runs.keys() == {type(way).__name__ for way in LAZY_UPDATES[:-1]}
    assert len(seen) > 100, words


def test_false_claim_of_exactness_is_detected():
    """The test above fails for an l1 penalty without replay."""
    update = fiol.FIOL(fiol.Squared(), fiol.L1(0.0531), fiol.Constant(0.4871))
    plan = make_plan(update).replace(lazy_update=module.NothingDeferred())
    with pytest.raises(AssertionError):
        assert_same_as_eager(
            Draws(1), plan, update.geometry, sparse_stream(Draws(1), fiol.Squared(), d=D), False, 1e-11
        )


def test_every_set_of_properties_has_an_exact_lazy_update():
    for flags in itertools.product((False, True), repeat=len(UpdateProperties._fields)):
        found = UpdateProperties(*flags)
        if not (found.mixes_features and found.keeps_all_rounds):  # such updates are refused
            assert choose_lazy_update(found).exact_for(found), found


def test_base_class_is_exact_for_nothing():
    assert not LazyUpdate().exact_for(UpdateProperties(*[False] * len(UpdateProperties._fields)))


def test_table_of_module_names_every_lazy_update():
    table = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", module.__doc__, re.M)
    named = [name for cell in table for name in re.findall(r"\w+", cell)]
    assert sorted(named) == sorted(type(way).__name__ for way in LAZY_UPDATES)
    costs = [next(way.cost for way in LAZY_UPDATES if type(way).__name__ == name) for name in named]
    assert costs == sorted(costs), "the table goes from cheap to dear"


def test_settle_covers_features_that_are_not_seen_yet():
    """Where a weight starts above 0, it shrinks before its feature is ever seen."""
    update = fiol.FIOL(fiol.Squared(), fiol.L1(0.2), fiol.Constant(0.3), fiol.Entropy())
    learner = fiol.Learner(update, compiled=False)
    learner.learn([{"a": 1.0, "b": -0.5}, {"a": 0.3, "b": 0.2}, {"a": 1.5}], [1.0, 2.0, 0.5])
    settled = learner.copy()
    settled.settle()
    for model in (learner, settled):
        model.learn([{"a": 0.5, "new": 2.0, "newer": 1.0}], [1.0])
    np.testing.assert_allclose(settled.weights, learner.weights, rtol=1e-12)
    assert (learner.weights > 0.0).all()
