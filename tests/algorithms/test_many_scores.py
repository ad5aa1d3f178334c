"""Updates of many scores match a loop over all weights, for every preset."""

import numpy as np
import pytest
from oracles.outliers import learned
from scipy.special import softmax

import fiol
from fiol.algorithms.lazy_updates import Eager
from fiol.algorithms.plan import make_plan
from fiol.engine.parallel.merge import merge_engines
from fiol.engine.update_engine import UpdateEngine
from fiol.features.containers import to_chunk

D, CLASSES, ROWS = 5, 3, 40


def stream(seed=0):
    rng = np.random.default_rng(seed)
    X, w = rng.standard_normal((ROWS, D)), rng.standard_normal((D, CLASSES))
    X[rng.random(X.shape) < 0.5] = 0.0
    return X, (X @ w).argmax(axis=1), rng.choice([0.5, 1.0, 3.0], ROWS)


def slope(loss, z, y):
    """The gradient of a joint loss."""
    if loss == fiol.Softmax():
        return softmax(z) - np.eye(len(z))[y]
    best = int(np.argmax(z + (np.arange(len(z)) != y)))
    return np.eye(len(z))[best] - np.eye(len(z))[y]


def explicit(loss, z, y):
    """Minus the gradient; where several classes are as high but for rounding, they share."""
    if loss == fiol.Softmax():
        return -slope(loss, z, y)
    high = z + (np.arange(len(z)) != y)
    tied = high > high.max() - 1e-9
    return np.zeros(len(z)) if tied[y] else np.eye(len(z))[y] - tied / tied.sum()


def root(loss, q, p, y):
    """The beta with beta = -phi'(q + p beta): by a fixed point that is damped enough, or by a projection."""
    if p == 0.0:
        return -slope(loss, q, y)
    if loss == fiol.Softmax():
        beta = np.zeros(len(q))
        for _ in range(20000):
            beta, old = beta + (-slope(loss, q + p * beta, y) - beta) / (1.0 + 0.5 * p), beta
            if np.abs(beta - old).max() < 1e-16:
                break
        return beta
    target = np.eye(len(q))[y] + (q + (np.arange(len(q)) != y)) / p  # project on the simplex, by sorting
    u = np.sort(target)[::-1]
    level = (np.cumsum(u) - 1.0) / np.arange(1, len(u) + 1)
    return np.eye(len(q))[y] - np.maximum(target - level[np.flatnonzero(u > level)[-1]], 0.0)


def prox(u, step, l1, l2):
    """argmin_w l1 |w| + l2 w^2 / 2 + (w - u)^2 / (2 step), for rows of features."""
    tau = (step * l1)[:, None]
    return np.sign(u) * np.maximum(np.abs(u) - tau, 0.0) / (1.0 + step * l2)[:, None]


def play(update, X, y, weight):
    """Scores before every round, weights and intercepts after the last, and their averages: nothing is lazy here."""
    loss, size = update.loss, update.step_size
    lam = update.regularizer.strengths()
    lam1, lam2 = (np.append(np.broadcast_to(part, D), 0.0) for part in lam)  # the intercept is one more feature
    ignored = isinstance(update.regularizer_step, fiol.IgnoredRegularizer)
    pushed = isinstance(update.regularizer_step, fiol.LinearizedRegularizer)
    once = isinstance(update.regularizer_step, fiol.RegularizerOnce)
    last = isinstance(update.anchor, fiol.LastIterate)
    proximal = isinstance(update.anchor, fiol.AllIterates)
    free = isinstance(size, fiol.ScaleFree)
    inner = size.step_size if free else size
    sums, squares, lengths, peaks = np.zeros((D + 1, CLASSES)), *np.zeros((2, D + 1)), np.append(np.zeros(D), 1.0)
    scores, total = [], np.zeros((D + 1, CLASSES))

    def metric():
        unit = peaks**2 if free else np.ones(D + 1)
        known = np.where(unit > 0.0, unit, 1.0)
        h = inner.kappa + np.sqrt(squares / known) if isinstance(inner, fiol.AdaGrad) else np.ones(D + 1)
        h = lengths if isinstance(inner, fiol.Normalized) else h
        return unit * h

    def steps(t):
        h = metric()
        return np.where(h > 0.0, inner.eta(t) / np.where(h > 0.0, h, 1.0), 0.0)

    def strengths():
        return (lam1 * peaks, lam2 * peaks**2) if free else (lam1, lam2)

    def weights(t):
        l1, l2 = strengths()
        if last:
            return sums
        count = min(t, 1) if once else t
        step = steps(max(t, 1))
        used = 0.0 if ignored or pushed else count
        return prox(step[:, None] * sums, step, used * l1, used * l2)

    for t, (row, target, c) in enumerate(zip(X, y, weight, strict=True), 1):
        x = learned(np.append(row, 1.0), peaks) if free else np.append(row, 1.0)
        if free and last:
            grown = (np.abs(x) > peaks) & (peaks > 0.0)
            sums[grown] *= (peaks[grown] / np.abs(x[grown]))[:, None]
        W, before, (l1, l2) = weights(t - 1), metric(), strengths()
        z = x @ W
        scores.append(z)
        if free:
            peaks = np.maximum(peaks, np.abs(x))
        steep = c * np.linalg.norm(slope(loss, z, target))
        if free:
            steep *= np.sqrt(np.sum((x[x != 0.0] / peaks[x != 0.0]) ** 2)) / 8.0
        if isinstance(inner, fiol.AdaGrad):
            squares = squares + (steep * x) ** 2
        lengths = np.where(x != 0.0, np.sum((x / np.where(x != 0.0, peaks if free else 1.0, 1.0)) ** 2), lengths)
        step = steps(t)
        if last:
            center, count = W.copy(), 1.0
        else:
            if proximal:
                sums = sums + ((metric() - before) / inner.eta(t))[:, None] * W
            center, count = step[:, None] * sums, 1.0 if once else float(t)
        if last:
            l1, l2 = strengths()
        push = -(l1[:, None] * np.sign(W) + l2[:, None] * W) if pushed else np.zeros_like(W)
        if last:
            center = center + step[:, None] * push
        else:
            sums = sums + push
            center = step[:, None] * sums
        l1, l2 = strengths()
        a1, a2 = (np.zeros(D + 1), np.zeros(D + 1)) if ignored or pushed else (count * l1, count * l2)
        if isinstance(update.loss_step, fiol.ImplicitLoss):
            m = 1.0 / (1.0 + step * a2)
            beta = c * root(loss, x @ (m[:, None] * center), c * np.sum(m * step * x * x), target)
        else:
            beta = c * explicit(loss, z, target)
        sums = prox(center + np.outer(step * x, beta), step, a1, a2) if last else sums + np.outer(x, beta)
        total += weights(t)
    W = weights(len(X))
    return np.array(scores), W, total / len(X)


ROOT, STEADY, ADAGRAD, FREE = fiol.Polynomial(0.5), fiol.Constant(0.5), fiol.AdaGrad(), fiol.ScaleFree(fiol.AdaGrad())
SHORT = fiol.Normalized()
L1, RIDGE, NET = fiol.L1(0.02), fiol.Ridge(0.05), fiol.ElasticNet(0.02, 0.05)


def updates(loss):
    yield from (fiol.FIOL(loss, step_size=s) for s in (ROOT, ADAGRAD, FREE))
    yield from (fiol.FIOL(loss, RIDGE, s) for s in (ROOT, STEADY, ADAGRAD, SHORT, FREE, fiol.ScaleFree(STEADY)))
    yield fiol.FIOL(loss, fiol.Ridge(np.linspace(0.0, 0.2, D)), ADAGRAD)
    yield from (fiol.IOL(loss, s) for s in (FREE, fiol.ScaleFree(SHORT)))
    yield from (fiol.SGD(loss, p, s) for p, s in ((L1, ROOT), (RIDGE, STEADY), (NET, ADAGRAD)))
    yield from (fiol.ISGD(loss, p, s) for p, s in ((L1, ROOT), (RIDGE, STEADY), (NET, FREE)))
    yield from (fiol.COMID(loss, p, s) for p in (L1, RIDGE, NET) for s in (ROOT, STEADY, ADAGRAD, FREE))
    yield from (fiol.RDA(loss, p, s) for p in (L1, RIDGE, NET) for s in (ROOT, ADAGRAD))
    yield from (fiol.FTRLProximal(loss, p, once=once) for p, once in ((L1, False), (NET, False), (NET, True)))
    yield from (fiol.ImplicitFTRL(loss, RIDGE, s, once=once) for s, once in ((ADAGRAD, False), (FREE, True)))
    yield fiol.Update(loss, RIDGE, ROOT, fiol.ImplicitLoss(), fiol.ImplicitRegularizer(), fiol.Origin())


ALL = [*updates(fiol.Softmax()), *updates(fiol.CrammerSinger())]


def engine_of(update, average=False, dtype=np.float64, compiled=False, lazy_update=None, features=D, scores=CLASSES):
    plan = make_plan(update, average)
    plan = plan if lazy_update is None else plan.replace(lazy_update=lazy_update)
    return UpdateEngine(plan, features, plan.first_entry(features), True, average, dtype, compiled, scores)


def read(engine, averaged=False):
    return np.vstack([engine.weights(D, averaged), engine.intercept_weight(averaged)])


@pytest.mark.parametrize("update", ALL, ids=repr)
def test_presets_with_many_scores_match_eager_loop(update):
    X, y, weight = (part[:25] for part in stream())
    scores, W, mean = play(update, X, y, weight)
    for average in (False, True):
        engine = engine_of(update, average)
        found = engine.learn(to_chunk(X), y, weight)
        np.testing.assert_allclose(found, scores, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(read(engine), W, rtol=1e-7, atol=1e-9)
        expected = mean if average else W
        np.testing.assert_allclose(read(engine, average), expected, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(engine.scores(to_chunk(X)), X @ expected[:-1] + expected[-1], atol=1e-7)
        if np.any(update.regularizer.strengths()[0]) and isinstance(
            update.regularizer_step, fiol.ImplicitRegularizer | fiol.RegularizerOnce
        ):
            np.testing.assert_array_equal(read(engine) == 0.0, W == 0.0)


@pytest.mark.parametrize("update", ALL[: len(ALL) // 2], ids=repr)
def test_lazy_many_scores_match_eager_loop_across_growth_copies_and_settling(update):
    X, y, weight = stream(1)
    X[:10, 3:] = 0.0
    fixed = isinstance(update.regularizer.strengths()[1], np.ndarray)
    eager, lazy = engine_of(update, True, lazy_update=Eager()), engine_of(update, True, features=D if fixed else 3)
    for start in range(0, ROWS, 10):
        rows = slice(start, start + 10)
        a, b = (engine.learn(to_chunk(X[rows]), y[rows], weight[rows]) for engine in (eager, lazy))
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-11)
        lazy = lazy.copy()
        lazy.settle()
        for averaged in (False, True):
            np.testing.assert_allclose(read(lazy, averaged), read(eager, averaged), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("update", [fiol.FIOL(fiol.Softmax(), RIDGE), fiol.COMID(fiol.CrammerSinger(), L1, ADAGRAD)])
def test_float32_scores_are_near_float64(update):
    X, y, weight = stream()
    double, single = (engine_of(update, dtype=dtype) for dtype in (np.float64, np.float32))
    np.testing.assert_allclose(
        single.learn(to_chunk(X), y, weight), double.learn(to_chunk(X), y, weight), rtol=1e-3, atol=1e-4
    )
    assert single.state.w.dtype == single.state.statistics.dtype == np.float32


@pytest.mark.parametrize("update", [fiol.FIOL(fiol.Softmax(), RIDGE), fiol.FTRLProximal(fiol.CrammerSinger(), NET)])
def test_compiled_many_scores_match_interpreter(update):
    X, y, weight = stream()
    ours, plain = (engine_of(update, compiled=compiled) for compiled in (True, False))
    a, b = (engine.learn(to_chunk(X), y, weight) for engine in (ours, plain))
    np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(read(ours), read(plain), rtol=1e-10, atol=1e-12)


def test_engine_arrays_select_and_averages():
    X, y, weight = stream()
    a, b = (engine_of(fiol.FIOL(fiol.Softmax(), RIDGE)) for _ in range(2))
    a.learn(to_chunk(X[:20]), y[:20], weight[:20])
    b.learn(to_chunk(X[20:]), y[20:], weight[20:])
    c = engine_of(fiol.FIOL(fiol.Softmax(), RIDGE))
    c.restore(a.arrays())
    assert np.array_equal(read(c), read(a))
    with pytest.raises(ValueError, match=r"array 'state\.w' is missing or does not fit"):
        engine_of(fiol.FIOL(fiol.Softmax(), RIDGE), scores=2).restore(a.arrays())
    c = merge_engines([engine.placed(np.arange(D), D) for engine in (a, b)], np.array([0.25, 0.75]))
    np.testing.assert_allclose(read(c), 0.25 * read(a) + 0.75 * read(b), rtol=1e-12, atol=1e-14)
    kept = read(a)
    a.select(np.array([3, 1]))
    np.testing.assert_array_equal(a.weights(2, False), kept[[3, 1]])


@pytest.mark.parametrize("update", [fiol.FIOL(fiol.Softmax(), RIDGE, ROOT), fiol.RDA(fiol.CrammerSinger(), L1)])
def test_added_scores_start_at_the_initial_state(update):
    X, y, weight = stream()
    engine = engine_of(update, average=True, scores=2)
    engine.learn(to_chunk(X[y < 2]), y[y < 2], weight[y < 2])
    before, mean = read(engine), read(engine, True)
    engine.add_scores([2, 0], 3)
    for averaged, old in ((False, before), (True, mean)):
        np.testing.assert_allclose(read(engine, averaged)[:, [2, 0]], old, rtol=1e-12, atol=1e-15)
        np.testing.assert_array_equal(read(engine, averaged)[:, 1], 0.0)
    assert np.isfinite(engine.learn(to_chunk(X), y, weight)).all()


def test_unsupported_many_score_updates_raise():
    joint = fiol.Softmax()
    for update, message in (
        (fiol.FIOL(joint, L1), r"Softmax goes with Ridge\(lam\) .* not L1\(lam=0\.02\).*: use LinearizedLoss\(\)"),
        (fiol.FIOL(joint, fiol.non_negative(RIDGE)), r"goes with Ridge\(lam\) .* not Box"),
        (fiol.IOL(joint, ROOT, fiol.Entropy()), r"goes with Euclidean\(\) or DiagonalMetric\(\), not Entropy"),
        (fiol.COMID(joint, NET, ROOT, fiol.SignedEntropy()), r"goes with Euclidean\(\) or DiagonalMetric\(\)"),
        (fiol.FIOL(joint, solver=fiol.Newton()), r"Softmax has a solver of its own: leave out Newton"),
        (fiol.Update(joint, loss_step=fiol.Truncated()), r"Truncated needs `lower`; Softmax has none"),
        (fiol.Update(joint, loss_step=fiol.ImportanceAware()), r"ImportanceAware needs `flow`; Softmax has none"),
    ):
        with pytest.raises(TypeError, match=message):
            make_plan(update)
