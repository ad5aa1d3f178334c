"""Numbers of any size give exact results or an error. The campaign `campaigns.extremes` has more cases."""

from __future__ import annotations

import warnings
from decimal import Decimal, localcontext

import numpy as np
import pytest
from campaigns import extremes
from oracles import optimality

import fiol
from fiol import L1, ElasticNet, Ridge, solve_step
from fiol.compiler import compiled

SOLVERS = [fiol.Newton(), fiol.Bisection(), fiol.Sorting(), fiol.Partition(), fiol.Partition(fiol.MedianOfMedians())]


# --- long and short steps -----------------------------------------------------------------------


def lasso(eta):
    """The second weight of argmin (w1 + 2 w2 - 3)^2 / 2 + (|w1| + |w2|) / 2 + |w|^2 / (2 eta), for eta >= 2."""
    return 5.5 / (4.0 + 1.0 / eta)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
@pytest.mark.parametrize("eta", [10.0, 1e6, 1e9, 1e12, 1e13, 1e15, 1e16, 1e17, 1e30, 1e100, 1e200])
def test_long_steps_are_exact(eta, solver):
    step = solve_step(
        [1, 2], 3, [0, 0], loss=fiol.Squared(), regularizer=L1(0.5), eta=eta, solver=solver, compiled=False
    )
    np.testing.assert_allclose(step.w, [0.0, lasso(eta)], rtol=1e-11)
    assert abs(step.beta - (3.0 - step.z)) <= 1e-11


@pytest.mark.parametrize("eta", [1e-12, 1e-6])
def test_short_steps_are_exact(eta):
    step = solve_step(
        [1, 2], 5, [1, 1], loss=fiol.Absolute(), regularizer=L1(0.5), eta=eta, geometry=fiol.Entropy(), compiled=False
    )
    np.testing.assert_allclose(step.w - 1.0, np.expm1(eta * (np.array([1.0, 2.0]) - 0.5)), rtol=1e-3, atol=1e-16)


@pytest.mark.parametrize("eta", [1e12, 1e17])
def test_learner_with_long_steps_is_exact(eta):
    """Two rounds: the second starts from the weights of the first, under the same penalty."""
    learner = fiol.Learner(
        fiol.FIOL(fiol.Squared(), L1(0.5), fiol.Constant(eta)), n_features=2, intercept=False, compiled=False
    )
    learner.learn([[1.0, 2.0]], [3.0])
    np.testing.assert_allclose(learner.weights, [0.0, 1.375], rtol=1e-11)
    learner.learn([[1.0, 2.0]], [5.0])
    np.testing.assert_allclose(learner.weights, [0.0, 2.375], rtol=1e-11)


def test_compiled_long_steps_are_exact():
    """Compiled sums may be reordered: nothing of that may take away what was gained."""
    for eta in (1e12, 1e15, 1e17):
        step = solve_step([1, 2], 3, [0, 0], loss=fiol.Squared(), regularizer=L1(0.5), eta=eta)
        np.testing.assert_allclose(step.w, [0.0, lasso(eta)], rtol=1e-11)


def test_own_penalty_raises_where_precision_is_lost():
    class Lasso(fiol.Regularizer):
        def value(self, w, i):
            return 0.5 * abs(w)

        def prox(self, u, step, i):
            return u - min(max(u, -0.5 * step), 0.5 * step)

    def step(eta):
        return solve_step([1, 2], 3, [0, 0], loss=fiol.Squared(), regularizer=Lasso(), eta=eta, compiled=False)

    np.testing.assert_allclose(step(1e4).w, [0.0, lasso(1e4)], rtol=1e-10)
    with pytest.raises(OverflowError, match=r"^the step needs more digits than double precision has: eta = 1e\+17 is "):
        step(1e17)


@pytest.mark.parametrize("eta", [np.inf, np.nan, 0.0, -1.0])
def test_non_positive_or_non_finite_eta_raises(eta):
    with pytest.raises(ValueError, match=r"^eta must be (finite|positive), got "):
        solve_step([1.0], 1.0, [0.0], loss=fiol.Squared(), eta=eta)


def test_product_overflow_raises():
    with pytest.raises(OverflowError, match=r"^the step leaves the range of double precision: eta \* sample"):
        solve_step([1e100], 1.0, [0.0], loss=fiol.Squared(), regularizer=L1(0.5), eta=1e150, compiled=False)


@pytest.mark.parametrize("anchor", [fiol.Origin(), fiol.AllIterates()], ids=repr)
def test_dual_averaging_raises_for_steps_beyond_precision(anchor):
    def update(eta, regularizer):
        return fiol.FIOL(fiol.Squared(), regularizer, fiol.Constant(eta)).replace(anchor=anchor)

    with pytest.raises(ValueError, match=r"keeps sums, whose digits do not suffice for a step size of 1e\+12"):
        fiol.Learner(update(1e12, L1(0.5)), compiled=False)
    fiol.Learner(update(1e12, Ridge(0.5)), compiled=False)
    fiol.Learner(update(1e3, L1(0.5)), compiled=False)


@pytest.mark.parametrize("update", [fiol.PA(fiol.Squared()), fiol.FIOL(fiol.Squared(), L1(0.1), fiol.Constant(1e100))])
def test_rows_too_long_for_passive_aggressive_raise(update):
    """Passive-aggressive steps are as long as can be: a square that overflows with them would not move a weight."""
    learner = fiol.Learner(update, intercept=False, compiled=False)
    learner.learn_one([0], [1e90], 1e90)
    np.testing.assert_allclose(learner.weights, [1.0], rtol=1e-12)
    for learn in (
        lambda: learner.learn([[1.0, 1e100]], [1.0], [1e30]),
        lambda: learner.learn_one(np.array([1], np.int32), np.array([1e100]), 1.0, 1e30),
    ):
        with pytest.raises(OverflowError, match=r"^X\[0, 1\] is 1e\+100, whose square times a step of 1e\+100 "):
            learn()
    assert (learner.rounds, learner.n_features) == (1, 1)


# --- the campaign, in short ---------------------------------------------------------------------


def kinds(cases):
    """Return the kinds of outcomes of the cases; raise on the first wrong case."""
    outcomes = [(case, extremes.judge(case)) for case in cases]
    wrong = [(case, outcome.why) for case, outcome in outcomes if outcome.kind == "wrong"]
    assert not wrong, wrong[0]
    return {outcome.kind for _, outcome in outcomes}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", [1, 2])
def test_random_extreme_numbers_are_exact_or_rejected(seed):

    outcomes = [(n, outcome) for n, _, outcome in extremes.campaign(300, seed)]
    wrong = [(n, outcome.why) for n, outcome in outcomes if outcome.kind == "wrong"]
    assert not wrong, wrong[:3]
    assert sum(outcome.kind == "refused" for _, outcome in outcomes) <= 3


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_campaign_detects_wrong_weights():
    """Weights that are off by a millionth are reported, except where a step barely determines them."""
    found = looked = 0
    for n in range(150):
        case = extremes.draw(3, n)
        if not isinstance(case, extremes.Case) or isinstance(case.geometry, (fiol.Mahalanobis, fiol.Simplex)):
            continue
        try:
            w = case.solve().w
        except OverflowError:
            continue
        used = (np.ravel(case.x) != 0.0) & (w if w.ndim == 1 else w[0] * w[1]).astype(bool)
        if used.any() and case.weight > 0.0 and not isinstance(case.regularizer, fiol.Box):
            looked += 1
            found += bool(optimality.objection(case, w * (1.0 + 1e-6)))
    assert looked > 30
    assert found > 0.9 * looked


def test_underflowing_scores_are_zero():
    """A product of 5e-393 is one, and 0 is the kink: beta may be anything there, and the weight may stay."""
    case = extremes.Case(
        np.array([2.4e-70]), 0.0, np.array([2e-323]), fiol.Quantile(0.3), L1(0.0), fiol.Euclidean(), 58.0, 1.0
    )
    assert kinds([case]) == {"exact"}
    assert optimality.objection(case, np.array([1.0]))


def test_campaign_command_prints_its_findings(tmp_path, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert extremes.main(["--cases", "20", "--seed", "5", "--json", str(tmp_path / "found.json")]) == 0
    assert "20 cases of seed 5" in capsys.readouterr().out
    assert '"wrong": []' in (tmp_path / "found.json").read_text()


# --- the search for the last digits of a long step ----------------------------------------------


PULLS = [(loss, weight) for loss in (fiol.Absolute(), fiol.Squared()) for weight in (1.0, 1e-9)]
ANY_PATH = [None, fiol.Bisection()]


@pytest.mark.parametrize("eta", [1e12, 1e20, 1e30, 1e49, 1e80])
@pytest.mark.parametrize("penalty", [L1(0.5), L1([0.5, 0.7]), Ridge(0.5)], ids=repr)
def test_long_steps_in_entropy_geometry_are_exact(eta, penalty):
    """A double next to beta makes them 0 or more than a double: it takes turns to come near, and none is the last."""
    assert kinds(
        extremes.Case(np.array([x, x]), y, np.array([1.0, 2.0]), loss, penalty, fiol.Entropy(), eta, weight, solver)
        for x in (1.0, 5e17)
        for y in (3.0, 1e20, 1e84)
        for loss, weight in PULLS
        for solver in ANY_PATH
    ) == {"exact"}


@pytest.mark.parametrize("eta", [1e12, 1e30, 1e49, 1e80])
@pytest.mark.parametrize("strengths", [[0.5, 0.2], [0.2, 0.5]], ids=repr)
def test_long_steps_on_the_simplex_are_exact(eta, strengths):
    assert kinds(
        extremes.Case(
            x * np.array([1.0, 3.0]), y, np.array([0.4, 0.6]), loss, L1(strengths), fiol.Simplex(), eta, weight
        )
        for x, y in ((1.0, 1.0), (1.0, 2.5), (5e17, 1e18))
        for loss, weight in PULLS
    ) == {"exact"}


@pytest.mark.parametrize("eta", [1e12, 1e20, 1e30, 1e80])
@pytest.mark.parametrize("lo", [0.0, -1.0])
def test_long_steps_at_bounds_are_exact(eta, lo):
    """A double next to beta takes a weight from one bound to the other."""
    assert kinds(
        extremes.Case(
            np.array([x, -x / 3]),
            1.0,
            np.array([0.0, 1e-7]),
            loss,
            fiol.Box(L1(1e12), lo, 1e-6),
            fiol.Euclidean(),
            eta,
            1.0,
            s,
        )
        for x in (1.0, 5e17)
        for loss in (fiol.Hinge(), fiol.SquaredHinge())
        for s in (*SOLVERS[:4], fiol.Bisection())
    ) == {"exact"}


def test_penalty_that_cancels_digits_still_meets_the_kink():
    """No long step, but a score that would miss the kink by two units of the eleventh digit."""
    case = extremes.Case(
        np.array([-1.1026018960569867e08]),
        -1.0,
        np.zeros(1),
        fiol.Hinge(),
        L1(0.01),
        fiol.DiagonalMetric(np.array([1e2])),
        5.275554818955304,
        1e-9,
    )
    for h in (0.5, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0):
        assert kinds([case._replace(geometry=fiol.DiagonalMetric(np.array([h])))]) == {"exact"}


@pytest.mark.parametrize("weight", [1.0, 2.5, 1e8])
def test_bounds_limit_scores_where_the_loss_overflows(weight):
    """exp(1e79) is no double, nor its product with a sample weight: weights are at their bounds all the same."""
    geometry = fiol.DiagonalMetric(np.array([0.04, 125.0, 440.0, 6e4]))
    update = fiol.FIOL(fiol.Exponential(), fiol.Box(L1(1.5e8), 0.2, 5e3), fiol.Constant(25.0), geometry)
    rows = np.array([[1e-4, 5e-92, -1e80, -1e-76]] * 3)
    assert kinds([extremes.Stream(update, rows, [1.0] * 3, [weight] * 3, False)]) == {"exact"}


@pytest.mark.parametrize("inner", [fiol.Constant(1e12), fiol.AdaGrad(1e12, kappa=0.0)], ids=repr)
@pytest.mark.parametrize("loss", [fiol.Absolute(), fiol.Poisson()], ids=repr)
def test_steps_in_loss_units_stay_finite(inner, loss):
    """eta times the targets' unit, divided by the square of the features', is beyond the largest double."""
    y = 1e-99 if isinstance(loss, fiol.Poisson) else 1e99
    rows, targets, weights = (
        np.array([[1e-99, 3e-99], [1e-99, -1e-99], [2e-99, 1e-98]]),
        [y, y / 2, y],
        [1.0, 1e-12, 1e12],
    )
    assert kinds(
        extremes.Stream(fiol.FIOL(loss, penalty, fiol.ScaleFree(inner), geometry), rows, targets, weights, intercept)
        for penalty in (fiol.Unregularized(), L1(1e12), ElasticNet(1e-3, 1e12))
        for geometry in (fiol.Euclidean(), fiol.DiagonalMetric(np.array([1e-6, 1e6])), fiol.Entropy())
        for intercept in (False, True)
    ) == {"exact"}


@pytest.mark.parametrize(
    ("x", "y", "loss", "regularizer", "eta", "weight"),
    [
        (1e90, 1e-92, fiol.Quantile(0.3), L1(7e6), 4.8e45, 1.0),  # what is left of beta is below the least double
        (1e85, -3.2e-93, fiol.Huber(1.5), fiol.Unregularized(), 1e60, 1e-9),  # beta itself is
    ],
)
def test_steps_without_precision_raise(x, y, loss, regularizer, eta, weight):
    with pytest.raises(OverflowError, match=r"^the step needs more digits than double precision has: eta = "):
        solve_step([x], y, [0.0], loss=loss, regularizer=regularizer, eta=eta, sample_weight=weight, compiled=False)


#: Exponentials that overflow, or are 0 on the other side; scores that miss a kink; weights at bounds; pulls beta x
#: beyond double precision, or beta itself, also where steps are 0; weights next to 1 with a ridge of 1e-15.
ONCE_WRONG = [(12, k) for k in (787, 91607, 125347, 135267, 241547, 314547, 364527, 465587, 511927)]
ONCE_WRONG += [(13, 584647), (71, 396307), (71, 510147), (172, 142667)]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_regressions_found_by_the_campaign():
    assert kinds(extremes.draw(seed, number) for seed, number in ONCE_WRONG) == {"exact"}


# --- losses -------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", extremes.LOSSES, ids=repr)
def test_duals_are_exact_for_any_slope(loss):
    """A little below beta the gap is not above 0, a little above it not below, in decimals."""
    draw = extremes.Numbers(repr(loss))
    for _ in range(150):
        y, wide = draw.target(loss), draw.rng.choice(((-3, 3), (-100, 100)))
        q, p = draw.signed(*wide), draw.rng.choice((0.0, draw.size(-6, 6), draw.size(-290, 290)))
        beta = loss.dual(q, p, y)
        with localcontext(optimality.EXACT):
            exact, start, slope = Decimal(beta), Decimal(q), Decimal(p)
            room, miss = Decimal("1e-11") * abs(exact) + Decimal("1e-300"), Decimal("1e-15") * abs(start)
            low, high = exact - room, exact + room
            left, _ = optimality.derivatives(loss, start - miss + slope * low, Decimal(y))
            _, right = optimality.derivatives(loss, start + miss + slope * high, Decimal(y))
            assert low + left <= 0 <= high + right, (q, p, y, beta)


@pytest.mark.parametrize("p", [1e4, 1e8, 1e16, 1e100, 1e250])
def test_softmax_root_on_steep_lines(p):
    """With two classes and equal scores, softmax is logistic loss at twice the slope."""
    beta = np.empty(2)
    for scale in (1.0, 1.0 + 1e-9):  # either side of where another formula takes over
        fiol.Softmax().duals(np.zeros(2), p * scale, 1, beta)
        expected = fiol.Logistic().dual(0.0, 2.0 * p * scale, 1.0)
        np.testing.assert_allclose(beta, [-expected, expected], rtol=1e-12)


@pytest.mark.parametrize("p", [9999.0, 10001.0, 1e16, 1e250])
def test_crammer_singer_root_on_steep_lines(p):
    """Scores 3, 1, 0 against the right class 2: the leads 4 and 2 come down to 2, which class 2 goes up."""
    beta = np.empty(3)
    fiol.CrammerSinger().duals(np.array([3.0, 1.0, 0.0]), p, 2, beta)
    np.testing.assert_allclose(beta * p, [-2.0, 0.0, 2.0], rtol=1e-12, atol=1e-11)


# --- float32 ------------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 3))
Y = X @ [1.0, 2.0, 3.0]


def single(update=None, **options):
    return fiol.Learner(update or fiol.FIOL(fiol.Squared()), dtype="float32", compiled=False, **options)


@pytest.mark.parametrize(
    ("x", "y", "weight", "what"),
    [
        (1.0, 1e39, 1.0, r"^state\.w\[\d\] leaves the range of float32 in these rows: "),
        (1.0, 1.0, 1e30, r"^state\.square\[0\] leaves the range of float32 in these rows: "),
        (
            1e40,
            1.0,
            1.0,
            r"^X\[0, 0\] must be 0 or between 1e-30 and 1e\+30 in size, got .*range of float32; use dtype",
        ),
        (
            1e-40,
            1.0,
            1.0,
            r"^X\[0, 0\] must be 0 or between 1e-30 and 1e\+30 in size, got .*range of float32; use dtype",
        ),
    ],
)
def test_float32_learner_raises_on_overflow(x, y, weight, what):
    learner, twin = single(), single()
    for other in (learner, twin):
        other.learn(X, Y)
    with pytest.raises(OverflowError, match=what):
        learner.learn(x * X, y * Y, np.full(len(Y), weight))
    learner.learn(X, Y)
    twin.learn(X, Y)
    assert learner.rounds == twin.rounds
    np.testing.assert_array_equal(learner.weights, twin.weights)


def test_float32_overflow_restores_all_arrays_of_a_compiled_learner(monkeypatch):
    monkeypatch.setattr(compiled, "bind", lambda kernel, *_: compiled.interpreted(kernel))
    learner = fiol.Learner(fiol.FIOL(fiol.Squared()), dtype="float32")
    learner.learn(X, Y)
    before = {name: array.tobytes() for name, array in learner.core.arrays().items()}
    with np.errstate(all="ignore"), pytest.raises(OverflowError, match=r"leaves the range of float32"):
        learner.learn(X, 1e39 * Y)
    assert {name: array.tobytes() for name, array in learner.core.arrays().items()} == before


def test_float32_raises_for_a_target_that_overflows_the_intercept():
    learner = single()
    with pytest.raises(OverflowError, match=r"^intercept\.w\[0\] leaves the range of float32"):
        learner.learn(np.zeros((1, 1)), [1e60])
    assert learner.rounds == 0


def test_float32_single_rows_raise_on_overflow():
    learner = single(fiol.FIOL(fiol.Squared(), step_size=fiol.Constant(1e100)), intercept=False)
    with pytest.raises(OverflowError, match=r"^state\.w\[0\] leaves the range of float32"):
        learner.learn_one(np.array([0], np.int32), np.array([1e-20]), 1e30)
    assert learner.rounds == 0


def test_float32_learns_large_values_in_range():
    """Large values go to the fallback and are learned from like any others."""
    learner, wide = single(), fiol.Learner(fiol.FIOL(fiol.Squared()), compiled=False)
    np.testing.assert_allclose(learner.learn(1e14 * X, Y), wide.learn(1e14 * X, Y), rtol=1e-4, atol=1e-4)


def test_float32_initial_weights_out_of_range_raise():
    with pytest.raises(OverflowError, match=r"^weights or intercept leave the range of float32: use dtype"):
        single(n_features=2).start_from([1e39, 0.0])


@pytest.mark.parametrize("regularizer", [Ridge(1e3), ElasticNet(1e-3, 1e3)], ids=repr)
def test_common_scale_of_float32_weights_does_not_overflow(regularizer):
    """Weights are stored divided by a factor that falls by 1000 per round."""
    update = fiol.FIOL(fiol.Squared(), regularizer, fiol.Constant(1.0))
    learner, wide = single(update), fiol.Learner(update, compiled=False)
    np.testing.assert_allclose(learner.learn(X, Y), wide.learn(X, Y), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(learner.weights, wide.weights, rtol=1e-4, atol=1e-9)


def test_float32_overflow_warning_names_float32():
    learner = single(n_features=3)
    with pytest.warns(RuntimeWarning, match=r'left the range of float32: use dtype="float64"'):
        learner.core.warn("the score", np.inf, stacklevel=1)


# --- merging, and sizes of indices --------------------------------------------------------------


@pytest.mark.parametrize("weights", [["a", "b"], [10**400, 1], (w for w in (1, 2)), [None, 1], 3, [np.inf, 1], [-1, 2]])
def test_merge_with_invalid_weights_raises(weights):
    learners = [fiol.Learner(fiol.FIOL(fiol.Squared()), n_features=1, compiled=False) for _ in range(2)]
    with pytest.raises(ValueError, match=r"^weights must be one number of at least 0 per learner, got "):
        fiol.Learner.merge(learners, weights=weights)


@pytest.mark.parametrize("weights", [[1e308, 1e308], [5e-324, 5e-324], [3, 3]])
def test_merge_accepts_weights_of_any_size(weights):
    learners = [fiol.Learner(fiol.FIOL(fiol.Squared()), n_features=1, compiled=False) for _ in range(2)]
    for learner, y in zip(learners, (1.0, 2.0), strict=True):
        learner.learn([[1.0]], [y])
    expected = 0.5 * (learners[0].weights + learners[1].weights)
    np.testing.assert_allclose(fiol.Learner.merge(learners, weights=weights).weights, expected)


@pytest.mark.parametrize("index", [2**31 - 1, 2**31, 2**32, 2**63, 2**64, 10**30])
def test_feature_indices_beyond_the_limit_raise(index):
    learner = fiol.Learner(fiol.FIOL(fiol.Squared()), compiled=False)
    with pytest.raises(ValueError, match=r"index overflow, the largest is 2147483646|must be from 0 to 2147483646"):
        learner.learn_one([index], [1.0], 1.0)
    assert learner.n_features == 0


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int64", "uint64", ">i4", ">i8"])
def test_feature_indices_of_any_integer_type(dtype):
    learner = fiol.Learner(fiol.FIOL(fiol.Squared()), compiled=False)
    learner.learn_one(np.array([1, 2]).astype(dtype), [1.0, 2.0], 1.0)
    assert learner.n_features == 3
    np.testing.assert_array_equal(np.flatnonzero(learner.weights), [1, 2])
