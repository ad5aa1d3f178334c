"""Row buffers: neither zero padding nor stale values change a result."""

import numpy as np
import pytest
from scipy import sparse

import fiol
from fiol.algorithms.layout import ROW_BLOCK, AsGiven, InBlocks
from fiol.algorithms.plan import make_plan

FREE = fiol.ScaleFree()
UPDATES = {
    "default": fiol.FIOL(fiol.Logistic()),
    "l1": fiol.FIOL(fiol.Logistic(), fiol.L1(0.01), fiol.Constant(0.5)),
    "l1, scale-free": fiol.FIOL(fiol.Logistic(), fiol.L1(0.01), FREE),
    "net, scale-free": fiol.FIOL(fiol.Squared(), fiol.ElasticNet(0.01, 0.1)),
    "box": fiol.FIOL(fiol.Logistic(), fiol.Box(fiol.L1(0.01), 0.25, 1.0), fiol.AdaGrad()),
    "strides": fiol.FIOL(fiol.Absolute(), fiol.L1(0.01)),
    "curvature": fiol.FIOL(fiol.Logistic(), fiol.Ridge(0.1), fiol.ScaleFree(fiol.Curvature(noise=0.1))),
    "normalized": fiol.FIOL(fiol.Hinge(), fiol.Unregularized(), fiol.ScaleFree(fiol.Normalized())),
    "coin": fiol.Coin(fiol.Logistic()),
    "linearized": fiol.SGD(fiol.Logistic(), fiol.ElasticNet(0.01, 0.1), FREE),
    "dual averaging": fiol.RDA(fiol.Logistic(), fiol.L1(0.01), FREE),
    "all iterates": fiol.ImplicitFTRL(fiol.Logistic(), fiol.L1(0.01), FREE),
    "all iterates, eta falls": fiol.ImplicitFTRL(fiol.Logistic(), fiol.L1(0.01), fiol.Polynomial(0.5)),
    "all iterates, pushed": fiol.Update(
        fiol.Logistic(), fiol.L1(0.01), FREE, fiol.ImplicitLoss(), fiol.LinearizedRegularizer(), fiol.AllIterates()
    ),
    **{
        type(solver).__name__: fiol.FIOL(fiol.Logistic(), fiol.L1(0.01), FREE, solver=solver)
        for solver in (fiol.Sorting(), fiol.Partition(), fiol.Bisection())
    },
}


def rows(loss, n=60, d=21, seed=3):
    """Rows of none to all features, values of all sizes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < rng.random((n, 1))) * 10.0 ** rng.integers(-2, 3, d)
    X[0], X[1] = 0.0, 1.0
    y = X @ rng.standard_normal(d) + rng.standard_normal(n)
    return sparse.csr_matrix(X), np.sign(y) if isinstance(loss, fiol.Binary) else y


def learned(update, change=lambda engine: None, compiled=False):
    X, y = rows(update.loss)
    learner = fiol.Learner(update, n_features=X.shape[1], compiled=compiled)
    scores = []
    for r in range(X.shape[0]):
        change(learner.engine)
        scores.append(learner.learn(X[r : r + 1], y[r : r + 1])[0])
    return np.array(scores), learner.weights, np.array(learner.intercept)


def poison(engine):
    """Leave no number in the buffers, but for the zeros that stay there."""
    alike = np.array(engine.buffers[8])
    engine.buffers[...] = np.nan
    engine.buffers[8] = alike
    assert not alike.any()


@pytest.mark.parametrize("name", UPDATES)
def test_stale_row_buffers_change_no_bit(name):
    assert make_plan(UPDATES[name]).layout == InBlocks()
    for a, b in zip(learned(UPDATES[name]), learned(UPDATES[name], poison), strict=True):
        np.testing.assert_array_equal(a, b)


def test_stale_row_buffers_change_no_bit_of_compiled_rounds():
    update = UPDATES["l1, scale-free"]  # which other tests compile as well
    for a, b in zip(learned(update, compiled=True), learned(update, poison, True), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", UPDATES)
def test_zero_padding_of_rows_changes_nothing(name):
    def as_given(engine):
        engine.plan = engine.plan.replace(layout=AsGiven())

    for a, b in zip(learned(UPDATES[name]), learned(UPDATES[name], as_given), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_rows_are_padded_to_whole_blocks():
    learner = fiol.Learner(UPDATES["l1"], n_features=40, compiled=False)
    lengths = []
    values = InBlocks.values

    class Seen(InBlocks):
        def values(self, x, buffers):
            found = values(self, x, buffers)
            assert list(found[: len(x)]) == list(x)
            assert not found[len(x) :].any()
            lengths.append((len(x), len(found)))
            return found

    learner.engine.plan = learner.engine.plan.replace(layout=Seen())
    learner.learn(sparse.csr_matrix(np.tril(np.ones((40, 40)))), np.ones(40))
    assert lengths == [(n, -(-n // ROW_BLOCK) * ROW_BLOCK) for n in range(1, 41)]


def test_per_feature_strengths_and_metrics_are_gathered_for_the_row():
    per_feature = fiol.FIOL(fiol.Logistic(), fiol.L1([0.1, 0.2]))
    metric = fiol.FIOL(fiol.Logistic(), fiol.L1(0.1), geometry=fiol.DiagonalMetric([1.0, 2.0]))
    entropic = fiol.FIOL(fiol.Logistic(), fiol.L1(0.1), fiol.Constant(0.1), fiol.Entropy())
    for update in (per_feature, metric, entropic, fiol.FIOL(fiol.Softmax())):
        assert make_plan(update).layout == AsGiven()
