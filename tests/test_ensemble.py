"""Ensembles in a learner: members as if alone, one linear model, and the guarantees of learners."""

import json
import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from tests.interpreted import interpret_all

import fiol
from fiol import (
    FIOL,
    L1,
    AdaGrad,
    Constant,
    Curvature,
    Ensemble,
    Learner,
    Logistic,
    NewtonStack,
    ScaleFree,
    Softmax,
    Squared,
    Stacked,
)
from fiol.compiler.compiled import interpreted
from fiol.engine.ensemble.newton_stack import stack_rows
from fiol.engine.ensemble.stack_state import combined_weights, new_stack_state
from fiol.exports.json_model import model_from_json
from fiol.integrations.classifier import FIOLClassifier

STEPS = [ScaleFree(Curvature()), ScaleFree(AdaGrad(30.0)), ScaleFree(AdaGrad(1.0)), ScaleFree(Constant(10.0))]


def ensemble(loss=None, penalty=None):
    return Ensemble([FIOL(loss or Logistic(), penalty or fiol.Unregularized(), step) for step in STEPS])


def stream(n=60, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * rng.integers(0, 2, (n, d)) * np.logspace(-2, 2, d)
    y = np.sign(X @ rng.normal(size=d) + 0.3 * rng.normal(size=n))
    return X, np.where(y == 0.0, 1.0, y)


def new(update=None, **options):
    return Learner(update or ensemble(), compiled=False, **options)


def state_of(model):
    """Return all arrays of a model as bytes, without memory reserved for new features."""
    n = model.n_features
    return {name: (a[:n] if "state." in name else a).tobytes() for name, a in model.core.arrays().items()}


# --- what it computes -------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [Logistic(), Squared(), fiol.Hinge(), fiol.Quantile(0.3), fiol.Poisson()], ids=repr)
def test_ensemble_scores_match_stacked_members_alone(loss):
    X, y = stream()
    y = np.abs(y + X[:, 0]) if isinstance(loss, fiol.Poisson) else y
    weight = np.random.default_rng(1).choice([1.0, 0.5, 2.0], len(y))
    alone = [new(member) for member in ensemble(loss).members]
    together = new(ensemble(loss))
    for learner in (*alone, together):
        learner.engine.settle_origin()  # of targets, at 0
    Z = np.column_stack([learner.learn(X, y, weight) for learner in alone])
    scores, expected = together.learn(X, y, weight), np.empty(len(y))
    state = new_stack_state(NewtonStack(), len(alone))
    interpreted(stack_rows)(NewtonStack(), loss, Z, y, weight, state, expected)
    assert (scores == expected).all()
    v = combined_weights(state)
    assert (together.mixing == v).all()
    w = sum(part * learner.weights for part, learner in zip(v, alone, strict=True))
    np.testing.assert_allclose(together.weights, w, rtol=1e-12, atol=1e-15 * abs(w).max())
    b = sum(part * learner.intercept for part, learner in zip(v, alone, strict=True))
    assert together.intercept == pytest.approx(b, rel=1e-12)
    for member, learner, z in zip(together.members, alone, Z.T, strict=True):
        values = [loss.value(score, target) for score, target in zip(z, y, strict=True)]
        assert member.loss == pytest.approx(np.average(values, weights=weight))
        assert member.update == learner.update


def test_ensemble_predicts_with_one_linear_model():
    X, y = stream()
    model = new()
    model.learn(X, y)
    far = np.random.default_rng(2).normal(size=(50, X.shape[1])) * 1e4  # beyond all values learned from
    np.testing.assert_allclose(model.scores(far), far @ model.weights + model.intercept, rtol=1e-12)
    doubled = np.vstack([far, 2.0 * far])
    plain = Learner(model.update, intercept=False, compiled=False)
    plain.learn(X, y)
    scores = plain.scores(doubled)
    assert (2.0 * scores[:50] == scores[50:]).all()
    one = new(n_features=X.shape[1])
    one.learn(X, y)
    for i, w in enumerate(one.weights):
        assert one.scores(np.eye(X.shape[1])[i : i + 1])[0] == w + one.intercept


def test_ensemble_of_one_starts_as_its_member():
    X, y = stream()
    alone, together = new(FIOL(Logistic())), new(Ensemble([FIOL(Logistic())]))
    np.testing.assert_allclose(alone.learn(X[:1], y[:1]), together.learn(X[:1], y[:1]))
    assert np.abs(together.weights).sum() > 0.0


def test_worse_members_lose_their_weight():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(3000, 5))
    y = np.where(rng.random(3000) < 1 / (1 + np.exp(-X @ [2.0, -1.0, 0.5, 0.0, 0.0])), 1.0, -1.0)
    steps = [Constant(1e-4), ScaleFree(AdaGrad(1.0)), Constant(1e3), Constant(2e-4), Constant(2e3)]  # lanes as usual
    model = Learner(Ensemble([FIOL(Logistic(), step_size=step) for step in steps]))
    model.learn(X, y)
    members = model.members
    best = min(member.loss for member in members)
    assert min(members[2].loss, members[4].loss) > 1.5 * best
    assert model.progressive_loss < best * 1.01


# --- one model, however it is fed -------------------------------------------------------------


@settings(max_examples=4, deadline=None)
@given(st.lists(st.integers(0, 30), max_size=3), st.sampled_from([Logistic(), Squared()]))
def test_ensemble_has_the_same_bits_for_any_chunking_and_container(cuts, loss):
    X, y = stream(30)
    whole, parts, sparse_rows = new(ensemble(loss)), new(ensemble(loss)), new(ensemble(loss))
    scores = whole.learn(X, y)
    sparse_rows.learn(sparse.csr_matrix(X), y)
    found = [parts.learn(X[a:b], y[a:b]) for a, b in pairwise([0, *sorted(cuts), 30]) if a < b]
    assert (np.concatenate(found) == scores).all()
    assert state_of(whole) == state_of(parts) == state_of(sparse_rows)


def test_ensemble_single_and_named_rows_match_chunks():
    X, y = stream(40)
    rows = [{f"f{i}": float(v) for i, v in enumerate(row) if v} for row in X]
    together, single = new(), new()
    scores = together.learn(rows, y)
    assert [single.learn_named(row, target) for row, target in zip(rows, y, strict=True)] == list(scores)
    assert state_of(together) == state_of(single)
    assert single.score_named(rows[0]) == together.scores(rows[:1])[0]
    hashed = new(bits=10)
    assert np.isfinite(hashed.learn(rows, y)).all()
    numbered = new(n_features=X.shape[1])
    for row, target in zip(X, y, strict=True):
        numbered.learn_one(np.flatnonzero(row), row[np.flatnonzero(row)], target)
    assert numbered.rounds == 40


@pytest.mark.parametrize("options", [{}, {"dtype": "float32"}, {"bits": 8}, {"intercept": False}], ids=repr)
@pytest.mark.parametrize("loss", [Logistic(), Softmax()], ids=repr)
def test_saved_copied_and_pickled_ensembles_keep_their_bits(loss, options, tmp_path):
    X, y = stream()
    y = np.where(X[:, 1] > 0, 3, y).astype(int).tolist() if isinstance(loss, Softmax) else y
    model = new(ensemble(loss, L1(1e-3)) if isinstance(loss, Logistic) else ensemble(loss), **options)
    model.learn(X[:35], y[:35])
    model.save(tmp_path / "model.fiol")
    others = [fiol.load(tmp_path / "model.fiol", compiled=False), model.copy(), pickle.loads(pickle.dumps(model))]
    scores = model.learn(X[35:], y[35:])
    for other in others:
        assert other.update == model.update
        assert (other.learn(X[35:], y[35:]) == scores).all()
        assert state_of(other) == state_of(model)
        assert (other.predict(X) == model.predict(X)).all()


def test_compiled_ensemble_matches_interpreter():
    X, y = stream()
    fast, slow = Learner(ensemble(), n_features=X.shape[1]), new(n_features=X.shape[1])
    np.testing.assert_allclose(fast.learn(X, y), slow.learn(X, y), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(fast.weights, slow.weights, rtol=1e-7, atol=1e-10)
    assert (fast.scores(X) == Learner.merge([fast]).scores(X)).all()


def test_ensemble_snapshot_does_not_change():
    X, y = stream()
    model = new()
    model.learn(X[:25], y[:25])
    before = model.snapshot()
    scores = before.scores(X)
    model.learn(X[25:], y[25:])
    assert (before.scores(X) == scores).all()
    assert (model.scores(X) != scores).any()


# --- many classes, bounded memory, merges -----------------------------------------------------


def test_ensemble_accepts_classes_that_appear_later():
    X, y = stream()
    labels = ["apple" if t < 0 else "pear" if k < 30 else "fig" for k, t in enumerate(y)]
    model = new(ensemble(Softmax()))
    model.learn(X, labels)
    assert model.classes == ["pear", "apple", "fig"] or model.classes == ["apple", "pear", "fig"]
    assert model.weights.shape == (3, X.shape[1])
    assert np.allclose(model.predict(X).sum(axis=1), 1.0)


def test_bounded_ensemble_drops_zero_weight_features():
    rows = [{f"w{k}": 1.0, "all": 1.0} for k in range(200)]
    y = [1.0 if k % 3 else -1.0 for k in range(200)]
    model = new(ensemble(penalty=L1(0.3)), max_features=40)
    model.learn(rows, y)
    assert model.n_features <= 40
    assert model.rounds == 200


def test_ensemble_merge_is_associative_and_unites_names():
    X, y = stream(90)
    rows = [{f"f{i}": float(v) for i, v in enumerate(row) if v} for row in X]
    parts = [new() for _ in range(3)]
    for k, part in enumerate(parts):
        part.learn(rows[30 * k : 30 * k + 20 + 5 * k], y[30 * k : 30 * k + 20 + 5 * k])
    flat = Learner.merge(parts)
    nested = Learner.merge([Learner.merge(parts[:2]), parts[2]])
    assert flat.rows == nested.rows == 75
    np.testing.assert_allclose(flat.weights, nested.weights, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(flat.mixing, nested.mixing, rtol=1e-9)
    flat.learn(rows[:5], y[:5])  # and goes on


def test_penalized_ensemble_has_exact_zeros():
    X, y = stream()
    model = new(ensemble(penalty=L1(10.0)))
    model.learn(X, y)
    assert model.n_nonzero < X.shape[1]


# --- what goes wrong --------------------------------------------------------------------------


def test_rejected_rows_leave_the_ensemble_unchanged():
    X, y = stream()
    model = new()
    model.learn(X[:25], y[:25])
    before, broken = state_of(model), X[25:].copy()
    broken[3, 2] = np.nan
    with pytest.raises(ValueError, match=r"X\[3, 2\] must be finite, got nan"):
        model.learn(broken, y[25:])
    assert state_of(model) == before


def test_only_the_overflowed_member_is_removed():
    X, y = stream(300)
    diverging = fiol.SGD(Squared(), step_size=Constant(1e6))
    good = [FIOL(Squared(), step_size=step) for step in STEPS[:3]]
    model = new(Ensemble([*good, diverging]))
    with pytest.warns(RuntimeWarning, match="member 3 overflows and is left out"):
        scores = model.learn(X, y)
    assert np.isfinite(scores).all()
    assert np.isfinite(model.weights).all()
    assert model.mixing[3] == 0.0
    assert [member.overflowed for member in model.members] == [False, False, False, True]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Ensemble([]), ValueError, "Ensemble.members must not be empty"),
        (lambda: Ensemble([Logistic()]), TypeError, r"Ensemble.members\[0\] must be a fiol.Update, got Logistic"),
        (lambda: Ensemble(FIOL(Logistic())), TypeError, "Ensemble.members must be a list of components"),
        (lambda: Ensemble([FIOL(Logistic()), 3]), TypeError, r"Ensemble.members\[1\] must be a component, got 3"),
        (
            lambda: Ensemble([FIOL(Logistic()), FIOL(Squared())]),
            ValueError,
            r"members\[1\] has Squared\(\) for its loss",
        ),
        (lambda: Ensemble([FIOL(Logistic(), geometry=fiol.SignedEntropy())]), TypeError, "SignedEntropy"),
        (lambda: Learner(ensemble(), average=True), TypeError, "keeps no averages"),
        (lambda: Learner(ensemble(fiol.Hinge())).uncertainty([[1.0]]), TypeError, "uncertainty needs"),
    ],
)
def test_invalid_ensembles_raise(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_ensemble_round_trips_through_json():
    from fiol.persistence import component_json

    update = ensemble(penalty=L1([0.1, 0.2]))
    assert component_json.from_json(component_json.to_json(update)) == update
    broken = component_json.to_json(update)
    broken["fields"]["members"][2]["fields"]["step_size"] = 3.0
    with pytest.raises(ValueError, match=r"component.members\[2\]"):
        component_json.from_json(broken)


@pytest.mark.parametrize(
    ("loss", "dtype"), [(Logistic(), "float64"), (Squared(), "float32")], ids=["logistic", "squared"]
)
def test_ensemble_single_events_have_the_bits_of_chunks(loss, dtype):
    """Scores, weights and state are equal for single rows, dicts, arrays and chunks of any size."""
    rng = np.random.default_rng(4)
    rows = [{f"f{(7 * i + j) % 40}": float(x) for j, x in enumerate(rng.normal(size=12))} for i in range(120)]
    rows[60]["f3"] = 1e60  # which single events leave to chunks
    y = [float(s) for s in rng.choice([-1.0, 1.0], len(rows))]
    if dtype == "float32":
        rows[60]["f3"] = 1e3
    events, chunks = (Learner(Stacked(loss), dtype=dtype) for _ in range(2))
    one_by_one = [events.learn_named(row, target) for row, target in zip(rows, y, strict=True)]
    in_chunks = np.concatenate([chunks.learn(rows[i : i + 7], y[i : i + 7]) for i in range(0, len(rows), 7)])
    assert events.engine.fast_path.learn is not None
    assert np.array_equal(one_by_one, in_chunks)
    known = events.core.arrays(), chunks.core.arrays()
    features = events.n_features
    assert all(np.array_equal(a[:features], known[1][name][:features]) for name, a in known[0].items())
    expected = chunks.scores(rows)
    assert np.array_equal([events.score_named(row) for row in rows], expected)
    assert events.engine.fast_path.score is not None
    assert np.array_equal([events.predict_named(row) for row in rows], chunks.predict(rows))
    numbered = Learner(Stacked(loss), dtype=dtype, n_features=features)
    vocabulary = {name: i for i, name in enumerate(events.names)}
    for row, target in zip(rows, y, strict=True):
        pairs = sorted((vocabulary[name], x) for name, x in row.items())
        indices, values = np.array([i for i, _ in pairs], np.int32), np.array([x for _, x in pairs])
        numbered.learn_one(indices, values, target)
    assert np.array_equal(numbered.weights, events.weights)
    assert numbered.score_one(indices, values) == expected[-1]


def test_progressive_loss_of_a_single_update_is_refused():
    with pytest.raises(TypeError, match="only an ensemble stores its progressive loss"):
        _ = fiol.Learner(fiol.FIOL(fiol.Squared()), compiled=False).progressive_loss


def test_json_of_a_compiled_ensemble_is_read_without_the_compiler():
    """Compiled code and the interpreter may differ in the last digits of combined weights."""
    X = np.random.default_rng(0).standard_normal((300, 5))
    model = FIOLClassifier(max_iter=2, tol=None, random_state=0).fit(X, X[:, 0] > 0)
    loaded = model_from_json(json.loads(model.to_json()), compiled=False)
    np.testing.assert_allclose(loaded.decision_function(X), model.decision_function(X), rtol=1e-9)


@pytest.mark.parametrize(
    "box", [fiol.Box(fiol.Unregularized(), -0.5, 0.5), fiol.non_negative(fiol.Unregularized())], ids=["box", "positive"]
)
def test_default_model_keeps_weights_within_bounds(box, monkeypatch):
    interpret_all(monkeypatch)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    X[:, 1] += X[:, 0]
    y = np.sign(X @ [1.0, -2.0, 0.5])
    learner = fiol.Learner(regularizer=box)
    learner.learn(X, y)
    lo, hi = box.bounds()
    assert lo <= learner.weights.min() <= learner.weights.max() <= hi
    weights = FIOLClassifier(penalty=box, random_state=0).fit(X, y).coef_
    assert lo <= weights.min() <= weights.max() <= hi
    with pytest.raises(TypeError, match="does not keep the bounds of Box: use a single learner"):
        Stacked(Logistic(), box)
