"""Gated ensembles match a loop over rows and separate learners, and keep the guarantees of learners."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from partly_seen import learner_alone
from scipy import sparse

import fiol
from fiol import (
    FIOL,
    L1,
    AdaGrad,
    Constant,
    Curvature,
    ElasticNet,
    Ensemble,
    FTRLProximal,
    ImplicitFTRL,
    Learner,
    Logistic,
    NewtonStack,
    Ridge,
    ScaleFree,
    Softmax,
    Squared,
)
from fiol.compiler.compiled import interpreted
from fiol.engine.ensemble import lane_group
from fiol.engine.ensemble.joint_newton_stack import joint_stack_rows
from fiol.engine.ensemble.newton_stack import stack_rows
from fiol.engine.ensemble.stack_state import combined_weights, new_stack_state

STEPS = [ScaleFree(Curvature()), ScaleFree(AdaGrad(30.0)), ScaleFree(AdaGrad(1.0)), ScaleFree(Constant(10.0))]
LASSO = L1(0.05)


def gated(loss=None, penalty=LASSO, rest=None):
    """Four members behind a gate with that penalty."""
    loss = loss or Logistic()
    members = [FIOL(loss, rest or fiol.Unregularized(), step) for step in STEPS]
    leader = FTRLProximal if isinstance(loss, Softmax) else ImplicitFTRL
    return Ensemble(members, gate=leader(loss, penalty, ScaleFree(AdaGrad(3.0))))


def stream(n=60, d=8, seed=0):
    """Rows of which a feature in two matters; most gates are open for some features, some of the time."""
    rng = np.random.default_rng(seed)
    X = rng.choice([0.0, 0.0, 1.0, -1.0, 0.5], (n, d))
    y = np.sign(X[:, ::2].sum(axis=1) + 0.5 * rng.normal(size=n))
    return X, np.where(y == 0.0, 1.0, y)


def new(update=None, **options):
    return Learner(update or gated(), compiled=False, **options)


def state_of(model):
    """Return all arrays of a model as bytes, without memory reserved for new features."""
    n = model.n_features
    return {name: (a[:n] if "state." in name else a).tobytes() for name, a in model.core.arrays().items()}


def has_weight(learner):
    """Which features have one, for any class."""
    w = np.atleast_2d(learner.weights)
    return (w != 0.0).any(axis=0)


# --- what it computes -------------------------------------------------------------------------


def by_loops(update, X, y, weight, classes=None):
    """Row by row: the gate, what it lets pass, every member alone, then the stack. Scores, weights, intercept."""
    d, options = X.shape[1], {"n_features": X.shape[1], "compiled": False, "classes": classes}
    gate, *members = (learner_alone(one, **options) for one in (update.gate, *update.members))
    scores = []
    for x, target, w in zip(X, y, weight, strict=True):
        seen = np.where(has_weight(gate), x, 0.0)
        row = [member.learn([seen], [target], [w])[0] for member in members]
        scores.append([*row, gate.learn([x], [target], [w])[0]])
    Z, stack = np.array(scores), NewtonStack()
    state, out = new_stack_state(stack, len(members) + 1), np.zeros(Z[..., 0].shape[:1] + Z.shape[2:])
    if classes is None:
        interpreted(stack_rows)(stack, update.loss, Z, np.asarray(y), weight, state, out)
    else:
        codes = np.array([classes.index(label) for label in y])
        Z = np.ascontiguousarray(np.moveaxis(Z, 1, 2))
        interpreted(joint_stack_rows)(stack, update.loss, Z, codes, weight, state, out)
    v, everyone = combined_weights(state), [*members, gate]
    w = sum(part * learner.weights for part, learner in zip(v, everyone, strict=True))
    b = sum(part * learner.intercept for part, learner in zip(v, everyone, strict=True))
    return out, np.where(has_weight(gate), w, 0.0), b, everyone, d


@pytest.mark.parametrize(
    ("update", "several"),
    [
        (gated(), False),
        (gated(Squared(), L1(0.02)), False),
        (gated(fiol.Hinge(), ElasticNet(0.05, 0.1), Ridge(0.1)), False),
        (gated(penalty=L1([0.0, 0.0, 0.1, 0.1, 0.1, 0.1, 9.0, 9.0])), False),
        (gated(Softmax(), L1(0.03)), True),
        (Ensemble([FIOL(Logistic())], gate=FIOL(Logistic(), L1(0.3), Constant(0.5))), False),  # any lazy gate
    ],
    ids=["logistic", "squared", "elastic net", "per feature", "softmax", "last iterate"],
)
def test_gated_ensemble_matches_a_loop_over_rows(update, several):
    X, y = stream()
    weight = np.random.default_rng(1).choice([1.0, 0.5, 2.0], len(y))
    if several:
        y = [("a", "b", "c")[int(k)] for k in (y > 0) + (X[:, 0] > 0)]
    classes = ["a", "b", "c"] if several else None
    expected, w, b, alone, d = by_loops(update, X, y, weight, classes)
    model = new(update, n_features=d, classes=classes)
    model.engine.settle_origin()  # of targets, at 0
    scores = model.learn(X, y, weight)
    assert (scores == expected).all()
    np.testing.assert_allclose(model.weights, w, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(model.intercept, b, rtol=1e-12)
    assert ((model.weights == 0.0) == (w == 0.0)).all()
    open_now = has_weight(alone[-1])
    assert 0 < open_now.sum() < d  # the gate does something
    assert model.n_nonzero == open_now.sum()
    counts = [int((has_weight(learner) & open_now).sum()) for learner in alone]
    assert [member.nonzero for member in model.members] == counts
    assert model.members[-1].update == update.gate
    np.testing.assert_allclose(model.scores(X), X @ model.weights.T + model.intercept, rtol=1e-9, atol=1e-12)


def test_gated_score_does_not_depend_on_the_rows_target():
    X, y = stream()
    X = np.sign(X)  # no value is larger than those before it
    model = new(n_features=X.shape[1])
    model.learn(X[:20], y[:20])
    for k in range(20, 60):
        other, before = model.copy(), model.scores(X[k : k + 1])
        score = model.learn(X[k : k + 1], y[k : k + 1])
        assert score == other.learn(X[k : k + 1], -y[k : k + 1])
        assert score == pytest.approx(before[0], rel=1e-9, abs=1e-12)


def test_gate_drops_and_readmits_features():
    rows = [[1.0]] * 3 + [[0.0]] * 40 + [[1.0]] * 40
    y = [1.0] * 3 + [1.0, -1.0] * 20 + [1.0] * 40
    model, there = new(gated(penalty=L1(0.1)), n_features=1, intercept=False), []
    for row, target in zip(rows, y, strict=True):
        model.learn([row], [target])
        there.append(model.n_nonzero)
    assert there[2] == 1  # open,
    assert there[42] == 0  # closed though the feature was in no row: the penalty counts in every round,
    assert there[-1] == 1  # and open again
    assert new(gated(penalty=L1(100.0))).learn(*stream()).any()  # nothing ever passes: intercepts are left


def test_gate_is_invariant_to_feature_units():
    X, y = stream()
    units = 2.0 ** np.array([0, 10, -10, 3, -3, 20, -20, 1])
    model, other = new(n_features=8), new(n_features=8)
    assert (model.learn(X, y) == other.learn(X * units, y)).all()
    assert (model.weights == other.weights * units).all()
    assert 0 < model.n_nonzero < 8


def test_gated_stack_is_sparse_and_no_worse_than_its_gate():
    x, y = stream(400, 30)
    learner = new(fiol.Stacked(Logistic(), L1(0.02)))
    learner.learn(x, y)
    *members, gate = learner.members
    assert learner.n_nonzero == gate.nonzero < 25
    assert {member.update.regularizer for member in members} == {fiol.Unregularized()}
    assert learner.progressive_loss < gate.loss
    assert fiol.Stacked(Logistic(), Ridge(0.1)).gate is None
    assert fiol.Stacked(Logistic(), ElasticNet(0.1, 0.2)).members[0].regularizer == Ridge(0.2)


# --- one model, however it is fed -------------------------------------------------------------


@settings(max_examples=4, deadline=None)
@given(st.lists(st.integers(0, 30), max_size=3))
def test_gated_ensemble_has_the_same_bits_for_any_chunking_and_container(cuts):
    X, y = stream(30)
    whole, parts, sparse_rows = new(), new(), new()
    scores = whole.learn(X, y)
    sparse_rows.learn(sparse.csr_matrix(X), y)
    found = [parts.learn(X[a:b], y[a:b]) for a, b in pairwise([0, *sorted(cuts), 30]) if a < b]
    assert (np.concatenate(found) == scores).all()
    assert state_of(whole) == state_of(parts) == state_of(sparse_rows)
    order = np.arange(30)[::-1].copy()
    shuffled, plain = new(), new()
    chunk = fiol.to_chunk(X)
    assert (shuffled.learn_chunk(chunk, y, order=order)[order] == plain.learn(X[order], y[order])).all()


def test_gated_single_named_and_hashed_rows_match_chunks():
    X, y = stream(40)
    rows = [{f"f{i}": float(v) for i, v in enumerate(row) if v} for row in X]
    together, single, numbered, hashed = new(), new(), new(n_features=X.shape[1]), new(bits=12)
    scores = together.learn(rows, y)
    assert [single.learn_named(row, target) for row, target in zip(rows, y, strict=True)] == list(scores)
    assert state_of(together) == state_of(single)
    np.testing.assert_allclose(hashed.learn(rows, y), scores, rtol=1e-9, atol=1e-12)  # names add up in another order
    np.testing.assert_allclose(numbered.learn(X, y), scores, rtol=1e-9, atol=1e-12)
    assert hashed.n_nonzero == together.n_nonzero == numbered.n_nonzero
    assert single.score_named(rows[0]) == together.scores(rows[:1])[0]


@pytest.mark.parametrize("options", [{}, {"dtype": "float32", "intercept": False}], ids=repr)
@pytest.mark.parametrize("loss", [Logistic(), Softmax()], ids=repr)
def test_saved_copied_and_pickled_gated_ensembles_keep_their_bits(loss, options, tmp_path):
    X, y = stream()
    y = np.where(X[:, 1] > 0, 3, y).astype(int).tolist() if isinstance(loss, Softmax) else y
    model = new(gated(loss), **options)
    model.learn(X[:35], y[:35])
    model.save(tmp_path / "model.fiol")
    others = [fiol.load(tmp_path / "model.fiol", compiled=False), model.copy(), pickle.loads(pickle.dumps(model))]
    before, then = model.snapshot(), model.scores(X)
    scores = model.learn(X[35:], y[35:])
    for other in others:
        assert other.update == model.update
        assert (other.learn(X[35:], y[35:]) == scores).all()
        assert state_of(other) == state_of(model)
        assert (other.weights == model.weights).all()
    assert (before.scores(X) == then).all()


def test_compiled_gate_matches_interpreter():
    X, y = stream()
    fast, slow = Learner(gated(), n_features=X.shape[1]), new(n_features=X.shape[1])
    assert fast.engine.group is not None  # members are lanes, the gate is none
    np.testing.assert_allclose(fast.learn(X, y), slow.learn(X, y), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(fast.weights, slow.weights, rtol=1e-7, atol=1e-10)
    assert [m.nonzero for m in fast.members] == [m.nonzero for m in slow.members]


def test_gated_lanes_have_the_same_bits_in_one_loop_and_in_two(monkeypatch):
    monkeypatch.setattr(lane_group, "INTERPRETED", True)
    X, y = stream()
    one, two = (new(fiol.Stacked(Logistic(), ElasticNet(0.02, 0.01)), n_features=X.shape[1]) for _ in range(2))
    assert one.engine.lanes_behind_gate
    scores = np.append(one.learn(X[:25], y[:25]), one.learn(X[25:], y[25:]))  # rows that pass have room already
    monkeypatch.setattr(type(two.engine), "lanes_behind_gate", False)
    assert (two.learn(X, y) == scores).all()
    assert state_of(one) == state_of(two)


# --- bounded memory, merges, what goes wrong --------------------------------------------------


def test_prune_drops_gated_features():
    rng = np.random.default_rng(0)
    rows = [{f"w{k}": 1.0, "sign": float(s)} for k, s in enumerate(rng.choice([-1.0, 1.0], 200))]
    y = [row["sign"] for row in rows]
    model, bounded = new(gated(penalty=L1(0.02))), new(gated(penalty=L1(0.02)), max_features=40)
    model.learn(rows, y)
    scores, held = model.scores(rows), model.n_nonzero
    assert model.prune() == 201 - held
    assert (model.scores(rows) == scores).all()
    assert model.n_features == model.n_nonzero == held
    model.learn(rows[:5], y[:5])
    bounded.learn(rows, y)
    assert bounded.n_features <= 40
    assert bounded.rounds == 200
    assert dict(zip(bounded.names, bounded.weights, strict=True))["sign"] > 1.0


def test_gated_ensembles_are_merged():
    X, y = stream(90)
    rows = [{f"f{i}": float(v) for i, v in enumerate(row) if v} for row in X]
    parts = [new() for _ in range(3)]
    for k, part in enumerate(parts):
        part.learn(rows[30 * k : 30 * k + 20 + 5 * k], y[30 * k : 30 * k + 20 + 5 * k])
    flat = Learner.merge(parts)
    nested = Learner.merge([Learner.merge(parts[:2]), parts[2]])
    np.testing.assert_allclose(flat.weights, nested.weights, rtol=1e-9, atol=1e-12)
    assert (flat.weights == 0.0).any()
    np.testing.assert_allclose(flat.mixing, nested.mixing, rtol=1e-9)
    flat.learn(rows[:5], y[:5])  # and goes on


def test_overflowed_gate_passes_all_features():
    X, y = stream(300)
    gate = FTRLProximal(Squared(), L1(0.01), Constant(1e6))
    model = new(Ensemble([FIOL(Squared(), step_size=step) for step in STEPS[:2]], gate=gate))
    with pytest.warns(RuntimeWarning, match="member 2 overflows and is left out"):
        scores = model.learn(X, y)
    assert np.isfinite(scores).all()
    assert np.isfinite(model.weights).all()
    assert model.n_nonzero == X.shape[1]
    assert [member.overflowed for member in model.members] == [False, False, True]


def test_rejected_rows_leave_the_gate_unchanged():
    X, y = stream()
    model = new()
    model.learn(X[:25], y[:25])
    before, broken = state_of(model), X[25:].copy()
    broken[3, 2] = np.nan
    with pytest.raises(ValueError, match=r"X\[3, 2\] must be finite, got nan"):
        model.learn(broken, y[25:])
    assert state_of(model) == before


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Ensemble([FIOL(Logistic())], gate=FIOL(Logistic())), TypeError, "gate leaves no weight at exactly 0"),
        (lambda: Ensemble([FIOL(Logistic())], gate=fiol.SGD(Logistic(), LASSO)), TypeError, "leaves no weight"),
        (lambda: Ensemble([FIOL(Logistic())], gate=FIOL(Squared(), LASSO)), ValueError, r"gate has Squared\(\)"),
        (lambda: Ensemble([FIOL(Logistic())], gate=LASSO), TypeError, r"Ensemble.gate must be a fiol.Update, got L1"),
        (lambda: Learner(gated(), n_features=2).start_from([1.0, 2.0]), TypeError, "before its first round"),
    ],
)
def test_invalid_gates_raise(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_gate_round_trips_through_json_and_old_files_have_none():
    from fiol.persistence import component_json

    update = gated()
    stored = component_json.to_json(update)
    assert component_json.from_json(stored) == update
    del stored["fields"]["gate"]
    assert component_json.from_json(stored) == update.replace(gate=None)
