"""Penalties in feature units: scale-free steps treat columns in meters and in kilometers alike."""

import numpy as np
import pytest
from oracles import outliers, table1
from streams import Stream

import fiol
from fiol.algorithms.plan import make_plan
from fiol.persistence import component_json

L1, RIDGE, NET = fiol.L1(0.05), fiol.Ridge(0.1), fiol.ElasticNet(0.03, 0.1)
FREE, STEADY = fiol.ScaleFree(), fiol.ScaleFree(fiol.Constant(0.5))
MOVING = fiol.ScaleFree(fiol.Polynomial(0.5))
UPDATES = {
    "l1": (fiol.FIOL(fiol.Logistic(), L1), False),
    "l1 per feature, averaged": (fiol.FIOL(fiol.Squared(), fiol.L1([0.1, 0.02, 0.0, 0.05])), True),
    "ridge": (fiol.FIOL(fiol.Squared(), RIDGE, fiol.ScaleFree(fiol.Curvature())), False),
    "net, strides": (fiol.FIOL(fiol.Absolute(), NET), False),
    "net, constant": (fiol.FIOL(fiol.Hinge(), fiol.non_negative(NET), STEADY), True),
    "l1, eta falls": (fiol.FIOL(fiol.Squared(), L1, MOVING), False),
    "ridge, eta falls": (fiol.FIOL(fiol.Squared(), RIDGE, MOVING), False),
    "dual averaging": (fiol.RDA(fiol.Logistic(), NET, FREE), False),
    "all iterates": (fiol.ImplicitFTRL(fiol.Logistic(), L1, FREE), False),
    "all iterates, once": (fiol.FTRLProximal(fiol.Squared(), NET, FREE, once=True), False),
    "coin": (fiol.Coin(fiol.Squared(), L1), False),
    "linearized": (fiol.SGD(fiol.Squared(), NET, FREE), False),
    "linearized, in a box": (fiol.SGD(fiol.Squared(), fiol.Box(NET, 0.0, np.inf), STEADY), True),
    "metric": (fiol.FIOL(fiol.Logistic(), NET, FREE, fiol.DiagonalMetric([1.0, 2.0, 0.5, 3.0])), False),
    "truncated": (fiol.Update(fiol.Logistic(), L1, FREE, fiol.Truncated()), False),
    "sorting": (fiol.FIOL(fiol.Squared(), L1, FREE, solver=fiol.Sorting()), False),
    "softmax": (fiol.FIOL(fiol.Softmax(), RIDGE), False),
    "softmax, linearized": (fiol.COMID(fiol.Softmax(), NET, FREE), False),
    "softmax, sums": (fiol.RDA(fiol.Softmax(), NET, FREE), False),
    "softmax, pushed": (fiol.SGD(fiol.Softmax(), NET, FREE), False),
}
UNITS = 2.0 ** np.array([10, -7, 0, 3])


def rows(n=70, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4)) * (rng.random((n, 4)) < 0.5)
    return X, X @ [1.0, -1.0, 0.5, 0.0] + 0.3 + 0.1 * rng.standard_normal(n), rng.choice([0.5, 1.0, 2.0], n)


def targets(loss, y):
    if isinstance(loss, fiol.Softmax):
        return np.digitize(y, [-0.5, 1.0])
    return np.where(y > 0.0, 1.0, -1.0) if isinstance(loss, fiol.Binary) else y


def learned(update, X, y, weight, average=False, **options):
    many = {"classes": [0, 1, 2]} if isinstance(update.loss, fiol.Softmax) else {}
    learner = fiol.Learner(update, n_features=4, average=average, **{"compiled": False, **options}, **many)
    scores = learner.learn(X, targets(update.loss, y), weight)
    return scores, learner.weights, np.array(learner.intercept)


@pytest.mark.parametrize("name", UPDATES)
def test_penalized_learning_is_invariant_to_feature_units(name):
    """Not even to the last bit, in any precision; where penalties are raw they do."""
    (update, average), (X, y, weight) = UPDATES[name], rows()
    for dtype in ("float64", "float32"):
        expected = learned(update, X, y, weight, average, dtype=dtype)
        scores, w, intercept = learned(update, X * UNITS, y, weight, average, dtype=dtype)
        np.testing.assert_array_equal(scores, expected[0])
        np.testing.assert_array_equal(w * UNITS, expected[1])
        np.testing.assert_array_equal(intercept, expected[2])
    raw = update.replace(step_size=update.step_size.replace(raw_penalty=1))
    far = np.abs(learned(raw, X * UNITS, y, weight, average)[0] - learned(raw, X, y, weight, average)[0]).max()
    assert far > 1e-3


def test_compiled_penalized_learning_is_invariant_to_feature_units():
    X, y, weight = rows()
    update, _ = UPDATES["l1"]
    expected = learned(update, X, y, weight, compiled=True)
    found = learned(update, X * UNITS, y, weight, compiled=True)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1] * UNITS, expected[1])
    np.testing.assert_allclose(found[0], learned(update, X, y, weight)[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("penalty", [L1, RIDGE, NET, fiol.non_negative(NET)], ids=repr)
def test_penalty_strength_scales_with_largest_value_so_far(penalty):
    """Against a loop over all features in every round, in columns of any size, absent or not."""
    X, y, weight = rows()
    X *= [1.0, 1e3, 1e-4, 30.0]
    for step in (FREE, STEADY, MOVING, fiol.ScaleFree(raw_penalty=1)):
        parts = fiol.Squared(), table1.penalty_of(penalty), step
        played = table1.fully_implicit(Stream(X, y, weight), *parts, intercept=True)
        scores, w, _ = learned(fiol.FIOL(fiol.Squared(), penalty, step), X, y, weight)
        np.testing.assert_allclose(scores, played.scores, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(w, played.weights, rtol=1e-8, atol=1e-12)


def test_l1_keeps_an_informative_column_of_small_values():
    """A column of standard deviation 1e-6 that matters had weight 0 under l1."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 3)) * [1e-6, 1.0, 1.0]
    y = np.where(X @ [1e6, 0.5, 0.0] + 0.5 * rng.standard_normal(500) > 0.0, 1.0, -1.0)
    weights = {}
    for raw in (0, 1):
        learner = fiol.Learner(
            fiol.FIOL(fiol.Logistic(), fiol.L1(1e-3), fiol.ScaleFree(raw_penalty=raw)), compiled=False
        )
        learner.learn(X, y)
        weights[raw] = learner.weights
    assert weights[0][0] * 1e-6 > 1.0
    assert weights[1][0] == 0.0


def test_unseen_feature_is_not_penalized():
    X, y, weight = rows()
    learner = fiol.Learner(fiol.FIOL(fiol.Squared(), L1), n_features=5, compiled=False)
    learner.start_from([0.0, 0.0, 0.0, 0.0, 3.0])
    learner.learn(np.hstack([X, np.zeros((len(X), 1))]), y, weight)
    assert learner.weights[4] == 3.0


@pytest.mark.parametrize(
    ("update", "units"),
    [
        (fiol.FIOL(fiol.Squared(), L1), "FeatureUnits"),
        (fiol.FIOL(fiol.Softmax(), RIDGE), "JointUnits"),
        (fiol.SGD(fiol.Squared(), fiol.Box(L1, -1.0, 1.0), FREE), "PushedUnits"),
        (fiol.FIOL(fiol.Squared(), fiol.Box(fiol.Unregularized(), -1.0, 1.0)), "RawUnits"),
        (fiol.FIOL(fiol.Squared()), "RawUnits"),
        (fiol.FIOL(fiol.Squared(), L1, fiol.AdaGrad()), "RawUnits"),
        (fiol.FIOL(fiol.Squared(), L1, FREE, fiol.SignedEntropy()), "RawUnits"),
        (fiol.FIOL(fiol.Squared(), fiol.Box(L1, -1.0, 1.0), fiol.ScaleFree(raw_penalty=1)), "RawUnits"),
        (fiol.Update(fiol.Squared(), L1, FREE, regularizer_step=fiol.IgnoredRegularizer()), "RawUnits"),
    ],
    ids=str,
)
def test_plan_selects_penalty_units(update, units):
    assert type(make_plan(update).units).__name__ == units


def test_bounds_with_scale_free_penalty_raise():
    with pytest.raises(TypeError, match=r"bounds of Box are of raw weights.*raw_penalty=1"):
        fiol.Learner(fiol.FIOL(fiol.Squared(), fiol.Box(L1, -1.0, 1.0)))


def test_old_files_load_with_raw_penalties():
    said = component_json.to_json(fiol.ScaleFree(fiol.AdaGrad(0.3)))
    assert component_json.from_json(said) == fiol.ScaleFree(fiol.AdaGrad(0.3))
    del said["fields"]["raw_penalty"]
    assert component_json.from_json(said) == fiol.ScaleFree(fiol.AdaGrad(0.3), raw_penalty=1)


def test_ledger_measures_penalties_in_feature_units():
    from fiol.regret import Ledger

    X, y, weight = rows(n=30)
    X *= [1.0, 1e3, 1e-4, 30.0]
    learner = fiol.Learner(fiol.FIOL(fiol.Squared(), NET), n_features=4, compiled=False)
    expected, peaks = 0.0, np.zeros(4)
    with Ledger(learner, every=1) as ledger:
        for row, target, c in zip(X, y, weight, strict=True):
            seen = outliers.learned(row, peaks)
            grown = np.where(
                (np.abs(seen) > peaks) & (peaks > 0.0), peaks / np.where(seen == 0.0, 1.0, np.abs(seen)), 1.0
            )
            w, peaks = learner.weights * grown, np.maximum(peaks, np.abs(seen))
            learner.learn([row], [target], [c])
            expected += np.sum(0.03 * peaks * np.abs(w) + 0.05 * (peaks * w) ** 2)
    np.testing.assert_allclose(ledger.records.penalty[-1], expected, rtol=1e-9)
    with pytest.raises(TypeError, match="raw_penalty=1"):
        Ledger(learner, comparator=np.zeros(4))
