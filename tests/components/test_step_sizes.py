"""Users' own step sizes work, are checked, saved and merged."""

import pickle
from math import sqrt
from typing import ClassVar

import numpy as np
import pytest
from oracles.outliers import learned
from scipy import sparse

import fiol
from fiol.algorithms.anchors import outgrown
from fiol.algorithms.state import make_row_buffers
from fiol.compiler.compiled import interpreted
from fiol.components.step_sizes import Observation, merge_shards, shrink_for
from fiol.engine.round import rounds

split_buffers = interpreted(rounds.split_buffers)


class Warm(fiol.StepSize):
    """A schedule with nothing but `eta`."""

    size: float = 0.5

    def eta(self, t):
        return self.size * min(t / 10.0, 1.0)


class Fixed(fiol.Schedule):
    def eta(self, t):
        return 0.25


class Halved(fiol.Adaptive):
    """No statistics at all."""

    constant: ClassVar[bool] = True

    def eta(self, t):
        return 0.5

    def h(self, s, unit):
        return 2.0


class Rms(fiol.Adaptive):
    """One: a mean of squared gradients that forgets."""

    rho: float = 0.75
    constant: ClassVar[bool] = True
    keeps: ClassVar[tuple[str, ...]] = ("mean",)

    def eta(self, t):
        return 0.3

    def h(self, s, unit):
        return 0.1 + sqrt(s[0] / unit)

    def observe(self, s, seen):
        s[0] = self.rho * s[0] + (1.0 - self.rho) * (seen.square * (seen.x * seen.x))


class Largest(fiol.Adaptive):
    """Two: the largest squared gradient, and how often the feature was seen; eta falls."""

    keeps = ("largest", "seen")

    def eta(self, t):
        return 1.0 / sqrt(t)

    def h(self, s, unit):
        return 0.2 + sqrt(s[0] / unit) * sqrt(s[1])

    def observe(self, s, seen):
        s[0] = max(s[0], seen.square * (seen.x * seen.x))
        s[1] += 1.0


OWN = (Warm(), Fixed(), Halved(), Rms(), Largest())
ALL = (*OWN, *map(fiol.ScaleFree, OWN))
BUILT_IN = (
    fiol.Constant(0.5),
    fiol.FixedHorizon(1.0, 2.0, 100.0),
    fiol.Anytime(1.0, 2.0),
    fiol.Inverse(0.1),
    fiol.Polynomial(0.5),
    fiol.AdaGrad(),
    fiol.Normalized(),
    fiol.Curvature(),
    fiol.ScaleFree(),
    fiol.ScaleFree(fiol.Normalized()),
    fiol.ScaleFree(fiol.Curvature()),
    fiol.ScaleFree(fiol.Curvature(noise=0.1)),
    fiol.CoinBetting(),
    fiol.ScaleFree(fiol.CoinBetting()),
    fiol.ScaleFree(fiol.Polynomial()),
)


def data(rows=40, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, d)) * 10.0 ** np.arange(-1, d - 1)
    X[rng.random(X.shape) < 0.5] = 0.0
    return X, rng.standard_normal(rows), rng.choice([0.5, 1.0, 2.0], rows)


def play(step_size, X, y, weight, lam):
    """Implicit rounds of squared loss with a ridge, by a loop over all features in every round."""
    d = X.shape[1]
    free = isinstance(step_size, fiol.ScaleFree)
    rule = step_size.step_size if free else step_size
    w, b, scores, errors = np.zeros(d), 0.0, [], 0.0
    records, peaks = np.zeros((d + 1, len(rule.keeps))), np.append(np.zeros(d), 1.0)
    for t, (row, target, c) in enumerate(zip(X, y, weight, strict=True), 1):
        x = np.append(row, 1.0)
        if free:  # a value larger than any before shrinks its weight first
            x = learned(x, peaks)
            row = x[:d]
            grown = (np.abs(x) > peaks) & (peaks > 0.0)
            w[grown[:d]] *= peaks[grown] / np.abs(x[grown])
            peaks = np.maximum(peaks, np.abs(x))
        scores.append(row @ w + b)
        square = (scores[-1] - target) ** 2
        if free:  # in units of the loss, times the length of the row
            errors += square
            square *= np.sum(x[x != 0.0] ** 2 / peaks[x != 0.0] ** 2) / fiol.Squared().square_slope_unit(errors, t)
        step = np.zeros(d + 1)
        for i in range(d + 1):
            if x[i] != 0.0 and hasattr(rule, "observe"):
                rule.observe(records[i], Observation(x[i], square * c * c))
            unit = peaks[i] ** 2 if free else 1.0
            h = unit * rule.h(records[i], unit) if unit > 0.0 else 0.0
            step[i] = rule.eta(t) / h if h > 0.0 else 0.0
        own = peaks[:d] ** 2 if free else 1.0  # the penalty sees weights in units of their features
        m = np.append(1.0 / (1.0 + lam * own * step[:d]), 1.0)
        v = np.append(w, b)
        p, q = np.sum(m * step * x * x), np.sum(m * v * x)
        beta = c * (target - q) / (1.0 + c * p)
        v = m * (v + step * beta * x)
        w, b = v[:d].copy(), v[d]
    return np.array(scores), w, b


@pytest.mark.parametrize("lam", [0.0, 0.3])
@pytest.mark.parametrize("step_size", ALL, ids=repr)
def test_own_step_sizes_match_eager_loop(step_size, lam):
    X, y, weight = data()
    learner = fiol.Learner(fiol.FIOL(fiol.Squared(), fiol.Ridge(lam), step_size), n_features=4, compiled=False)
    found = learner.learn(X, y, weight)
    scores, w, b = play(step_size, X, y, weight, lam)
    np.testing.assert_allclose(found, scores, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(learner.weights, w, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(learner.intercept, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "update",
    [
        fiol.FIOL(fiol.Squared(), fiol.L1(0.1), Warm()),
        fiol.RDA(fiol.Squared(), step_size=fiol.ScaleFree(Largest())),
    ],
    ids=["alone", "inside another"],
)
def test_own_step_sizes_compile(update):
    X, y, weight = data()
    ours, plain = (fiol.Learner(update, n_features=4, compiled=c) for c in (True, False))
    np.testing.assert_allclose(ours.learn(X, y, weight), plain.learn(X, y, weight), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "step_size", [Halved(), Rms(), fiol.ScaleFree(Largest()), fiol.ScaleFree(fiol.Normalized())], ids=repr
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_statistics_are_saved_copied_and_grow(tmp_path, step_size, dtype):
    X, y, weight = data()
    update = fiol.FIOL(fiol.Squared(), fiol.L1(0.01), step_size)
    whole = fiol.Learner(update, compiled=False, dtype=dtype, n_features=4)
    parts = fiol.Learner(update, compiled=False, dtype=dtype)
    X[:5, 2:] = 0.0
    whole.learn(X[:5], y[:5], weight[:5])
    parts.learn(sparse.csr_matrix(X[:5, :2]), y[:5], weight[:5])  # only two features yet
    for k in range(5, 40, 7):
        rows = slice(k, k + 7)
        whole.learn(X[rows], y[rows], weight[rows])
        parts.learn(X[rows], y[rows], weight[rows])
        parts.save(tmp_path / "model")
        parts = pickle.loads(pickle.dumps(fiol.Learner.load(tmp_path / "model", compiled=False)))
        parts = parts.copy()
    assert np.array_equal(whole.weights, parts.weights)
    own = {name.removeprefix("state."): a for name, a in parts.engine.arrays().items() if name.startswith("state.")}
    assert list(own) == ["w", "mark", *step_size.statistics(), "total"]
    for k, name in enumerate(step_size.statistics()):
        assert np.array_equal(own[name], parts.engine.state.statistics[:, k])
        assert own[name][:4].all()
        assert own[name].dtype == dtype


def test_merge_takes_means_of_statistics():
    X, y, _ = data()
    update = fiol.FIOL(fiol.Squared(), step_size=fiol.ScaleFree(Largest()))
    a, b = (fiol.Learner(update, n_features=4, compiled=False) for _ in range(2))
    a.learn(X[:20], y[:20])
    b.learn(X[20:], y[20:])
    records = [learner.engine.state.statistics for learner in (a, b)]
    merged = fiol.Learner.merge([a, b]).engine.state.statistics
    np.testing.assert_allclose(merged[:, :2], (records[0] + records[1])[:, :2] / 2)
    np.testing.assert_array_equal(merged[:, 2], np.maximum(*records)[:, 2])


@pytest.mark.parametrize("step_size", BUILT_IN + ALL[:5], ids=repr)
def test_valid_step_sizes_pass_checks(step_size, monkeypatch):
    monkeypatch.setattr("fiol.checks.stream", lambda step_size, compiled, members=1: np.zeros(1))  # compiled elsewhere
    fiol.checks.check_step_size(step_size)


def test_invalid_step_sizes_fail_checks(monkeypatch):
    class Ends(fiol.StepSize):
        def eta(self, t):
            return max(0.0, 1.0 - t / 1000.0)

    class Liar(Warm):
        constant = True

    class Explodes(Rms):
        def observe(self, s, seen):
            s[0] = (s[0] + 1.0) ** 20

    class Negative(Halved):
        def h(self, s, unit):
            return -1.0

    class InMetres(Rms):
        def h(self, s, unit):
            return 0.1 + sqrt(s[0])  # forgets the unit

    for wrong, message in (
        (Ends(), r"eta: eta\(1000\) is 0"),
        (Liar(), r"constant: eta\(2\) is"),
        (Explodes(), "observe: .* the record becomes"),
        (Negative(), "h: .* it is -1"),
        (InMetres(), r"h: is .* for values times 2\^-8"),
    ):
        with pytest.raises(fiol.checks.CheckError, match=message):
            fiol.checks.check_step_size(wrong)
    monkeypatch.setattr("fiol.checks.stream", lambda step_size, compiled: np.full(1, float(compiled)))
    with pytest.raises(fiol.checks.CheckError, match="compiled"):
        fiol.checks.check_step_size(Warm())


def test_invalid_step_size_definitions_raise():
    with pytest.raises(TypeError, match=r"Metric has `h`, which is for .*: derive it from fiol\.Adaptive"):

        class Metric(fiol.StepSize):
            def eta(self, t):
                return 1.0

            def h(self, s, unit):
                return 2.0

    with pytest.raises(TypeError, match="Wide has `keeps`"):

        class Wide(fiol.Schedule):
            keeps = ("square",)

    with pytest.raises(TypeError, match=r"Old.h must take \(self, s, unit\)"):

        class Old(fiol.Adaptive):
            def h(self, square):
                return 1.0

    for names, message in (
        (("w",), "cannot have a statistic 'w': that name is taken"),
        (("a", "a"), "cannot have a statistic 'a'"),
        ("mean", "must name its statistics by a tuple of words, got 'mean'"),
        (("two words",), "must name its statistics by a tuple of words"),
    ):
        with pytest.raises(TypeError, match=message):
            type("Named", (fiol.Adaptive,), {"keeps": names})

    class Peaked(Rms):
        keeps = ("peak",)

    with pytest.raises(TypeError, match="cannot have a statistic 'peak'"):
        fiol.ScaleFree(Peaked())
    with pytest.raises(TypeError, match=r"step_size must be a fiol\.StepSize"):
        fiol.Update(fiol.Squared(), step_size=0.5)
    with pytest.raises(TypeError, match="Nothing has no `eta`"):
        fiol.Update(fiol.Squared(), step_size=type("Nothing", (fiol.StepSize,), {})())


class Mean(fiol.Adaptive):
    """Steps of a user's by one statistic."""

    keeps = ("mean",)

    def eta(self, t):
        return 0.1

    def h(self, s, unit):
        return 1.0

    def observe(self, s, seen):
        s[0] = seen.square


class Still(Mean):
    def h(self, s, unit):
        return 0.0


class Returned(Mean):
    def observe(self, s, seen):
        return s[0] + seen.square


class Roots(Mean):
    def h(self, s, unit):
        return sqrt(s[0] - 1e300)


def test_methods_that_no_step_size_has_fail_checks(monkeypatch):
    class Declared(Warm):
        def is_constant(self):
            return True

    class Helped(Rms):
        def h(self, s, unit):
            return max(self.root(value / unit) for value in s[:1])

        def root(self, square):
            return 0.1 + sqrt(square)

        def _twice(self):
            return 2.0

    class Watching(Helped):
        def watches_pulls(self):
            return True

    monkeypatch.setattr("fiol.checks.stream", lambda step_size, compiled, members=1: np.zeros(1))
    fiol.checks.check_step_size(Helped())
    for wrong, name in ((Declared(), "is_constant"), (Watching(), "watches_pulls")):
        for step_size in (wrong, fiol.ScaleFree(wrong)) if wrong.per_feature else (wrong,):
            message = rf"\.{name}: StepSize has no such method.*: it has eta, .*; name a method of your own _{name}$"
            with pytest.raises(fiol.checks.CheckError, match=message):
                fiol.checks.check_step_size(step_size)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (Still(), r"^Still\(\)\.h: for x = 1, square = 1 it is 0"),
        (Returned(), r"^Returned\(\)\.observe: writes nothing into the record"),
        (fiol.ScaleFree(Returned()), r"observe: writes nothing into the record"),
        (Roots(), r"^Roots\(\)\.h: at s=array\(\[0\.\]\), unit=1\.0 it raises ValueError: "),
    ],
)
def test_rules_without_finite_steps_fail_checks(wrong, message, monkeypatch):
    monkeypatch.setattr("fiol.checks.stream", lambda step_size, compiled, members=1: np.zeros(1))
    with pytest.raises(fiol.checks.CheckError, match=message):
        fiol.checks.check_step_size(wrong)


class Beyond(Mean):
    def observe(self, s, seen):
        s[1] = seen.square


class BeyondToo(Mean):
    def h(self, s, unit):
        return 1.0 + s[2]


@pytest.mark.parametrize("wrap", [lambda rule: rule, fiol.ScaleFree])
@pytest.mark.parametrize(
    ("wrong", "where"), [(Beyond(), r"Beyond\.observe uses s\[1\]"), (BeyondToo(), r"\.h uses s\[2\]")]
)
def test_rule_that_writes_outside_its_record_raises_before_compiling(wrap, wrong, where):
    """Compiled code would read and write memory that is not its own, or the peak of `ScaleFree`."""
    with pytest.raises(TypeError, match=where + ", but keeps names 1 statistic$"):
        fiol.Learner(fiol.FIOL(fiol.Squared(), step_size=wrap(wrong)))
    fiol.Learner(fiol.FIOL(fiol.Squared(), step_size=wrap(Roots())))  # what else goes wrong is for its rounds to say


def test_scale_free_metric_matches_scaled_values():
    rules = fiol.AdaGrad(kappa=0.3), fiol.Normalized(), fiol.Curvature(prior=2.0), fiol.CoinBetting(), Rms()
    for rule in rules:
        for unit in (1e-70, 0.3, 1.0, 7.0, 1e70):
            s = np.array([3.0, 2.0, 1.0])[: rule.width()] * unit * unit
            found = fiol.ScaleFree(rule).h(np.append(s, unit), 1.0)
            assert found == pytest.approx(unit * unit * rule.h(s, unit * unit), rel=1e-14)


def test_scale_free_uses_the_metric_of_a_subclass():
    class Twice(fiol.AdaGrad):
        def h(self, s, unit):
            return 2.0 * fiol.AdaGrad.h(self, s, unit)

    s = np.array([9.0, 4.0])
    assert fiol.ScaleFree(Twice()).h(s, 1.0) == 2.0 * fiol.ScaleFree(fiol.AdaGrad()).h(s, 1.0)


class Lengths(fiol.Adaptive):
    """Uses the length of rows, and does not declare it."""

    keeps = ("length",)

    def eta(self, t):
        return 0.1

    def h(self, s, unit):
        return 1.0 + s[0]

    def observe(self, s, seen):
        s[0] = seen.length


class Pulls(Lengths):
    uses_length = True

    def observe_step(self, s, outcome):
        s[0] += outcome.pull


class Curvatures(Lengths):
    uses_length = True

    def observe_step(self, s, outcome):
        s[0] += outcome.curvature


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        (Lengths(), "observe uses length.*uses_length"),
        (Pulls(), "observe_step uses pull.*uses_pulls"),
        (Curvatures(), "observe_step uses curvature.*rule_of_curvatures"),
    ],
)
def test_undeclared_round_facts_raise(wrong, where):
    with pytest.raises(TypeError, match=where):
        fiol.Learner(fiol.FIOL(fiol.Squared(), step_size=fiol.ScaleFree(wrong)))


def test_rows_with_new_largest_values_are_detected():
    rule, rng = fiol.ScaleFree(), np.random.default_rng(0)
    for _ in range(200):
        x, peaks = rng.choice([0.0, -3.0, 1.0, 2.0], 3), rng.choice([0.0, 1.0, 2.0, 3.0], 3)
        buffers = make_row_buffers(3, 2)
        buffers[9:, :3] = np.ones(3), peaks
        buffers = split_buffers(buffers)
        shrinks = [shrink_for(rule, x[k], buffers.statistics[:, k]) != 1.0 for k in range(3)]
        assert outgrown(rule, x, buffers) == any(shrinks)
        assert not outgrown(fiol.AdaGrad(), x, buffers)


@pytest.mark.parametrize(
    ("loss", "inner"),
    [(fiol.Absolute(), fiol.Constant(0.5)), (fiol.Poisson(), fiol.Curvature()), (fiol.Absolute(), Rms())],
    ids=repr,
)
def test_compiled_steps_with_a_unit_match_interpreter(loss, inner):
    """A learner alone whose loss has a unit of steps: `ScaleFreeSteps`. The unit meets loss and inner rule apart."""
    rng = np.random.default_rng(0)
    X = sparse.random(60, 5, 0.6, "csr", random_state=1)
    y = X @ rng.normal(size=5) * 100.0 + rng.normal(size=60)
    update = fiol.FIOL(loss, fiol.Ridge(1e-3), fiol.ScaleFree(inner))
    scores = [fiol.Learner(update, compiled=compiled).learn(X, abs(y)) for compiled in (False, True)]
    np.testing.assert_allclose(scores[1], scores[0], rtol=1e-9, atol=1e-9)


def test_merge_keeps_first_weight_of_new_feature():
    """The first value of a feature shrinks no weight, in rounds and merges; entropic weights begin above 0."""
    base, seen = np.zeros((1, 2)), np.array([[1.0, 2.0]])
    w, moved = np.array([0.5]), np.array([0.7])
    merged = merge_shards(fiol.ScaleFree(fiol.AdaGrad()), base, [seen, seen], w, [moved, moved], [np.ones(1)] * 2)
    assert merged.w == w
    np.testing.assert_allclose(merged.change, 2 * 0.2 / np.sqrt(2.0))
