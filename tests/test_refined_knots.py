"""Knots and grids that become finer after many rows: scores, bits for every kind of input, merges, losses, pictures."""

import numpy as np
import pandas as pd
import pytest
from tests.interpreted import interpret

import fiol
from fiol.features.basis_extension import SlotKnots, united_slot
from fiol.learner.effects import effects_of

#: Columns are looked at after 400, 600 and 900 rows.
ROWS, AT = 1500, 600


@pytest.fixture(autouse=True)
def in_the_interpreter(monkeypatch):
    interpret(monkeypatch)


def new(refine_rows=AT, loss=None, **options):
    basis = fiol.TableBasis(knots=8, grid=2, refine_rows=refine_rows, **options)
    return fiol.Learner(loss=fiol.Squared() if loss is None else loss, features=basis)


def wavy(n=ROWS, seed=0):
    """Return a frame with two columns of numbers, one with few values, a category, and targets with a fine surface."""
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": draw.random(n), "b": draw.random(n), "few": draw.integers(0, 4, n)})
    frame["city"] = draw.choice(list("ABC"), n)
    frame.loc[draw.random(n) < 0.05, "b"] = np.nan
    y = np.sin(9.0 * frame["a"]) * np.cos(9.0 * frame["b"].fillna(0.5)) + 0.1 * frame["few"]
    return frame, y.to_numpy() + 0.01 * draw.normal(size=n)


def basis_of(learner):
    return learner.core.levels.basis


def test_refined_knots_halve_every_interval_of_numbers_only():
    frame, y = wavy()
    learner = new()
    learner.learn(frame[:AT], y[:AT])
    before = basis_of(learner)
    learner.learn(frame[AT : AT + 1], y[AT : AT + 1])
    after = basis_of(learner)
    assert before.counts.tolist() == [9, 9, 4, 0]
    assert after.counts.tolist() == [17, 17, 4, 0]
    assert (after.points - before.points).tolist() == [2, 2, 0, 0]
    assert np.isin(before.knots, after.knots).all()
    assert after.refined.tolist() == [1]


def test_refined_knots_leave_curves_as_they_are():
    frame, y = wavy()
    learner = new(max_pairs=0)
    learner.learn(frame[:AT], y[:AT])
    before = learner.scores(frame)
    learner.core.levels.look_again()
    assert basis_of(learner).refined.tolist() == [1]
    assert np.abs(learner.scores(frame) - before).max() < 1e-9


def test_refined_knots_leave_surfaces_as_they_are_at_old_nodes():
    draw = np.random.default_rng(1)
    X = draw.random((ROWS, 2))
    learner = new()
    learner.learn(X[:AT], np.sin(5.0 * X[:AT, 0]) * X[:AT, 1])
    old = basis_of(learner)
    points = [knots[mask > 0] for knots, mask in zip(np.split(old.knots, 2), np.split(old.in_grid, 2), strict=True)]
    at_nodes = np.array(np.meshgrid(*points)).reshape(2, -1).T
    before = learner.scores(at_nodes)
    learner.core.levels.look_again()
    assert basis_of(learner).nodes > old.nodes
    assert np.abs(learner.scores(at_nodes) - before).max() < 1e-9


@pytest.mark.parametrize("loss", [fiol.Squared(), fiol.Logistic()])
def test_refined_model_has_the_same_bits_in_any_chunks_and_when_saved_in_between(tmp_path, loss):
    frame, y = wavy()
    if isinstance(loss, fiol.Logistic):
        y = np.where(y > 0.2, 1.0, -1.0)
    whole, parts, found = new(loss=loss), new(loss=loss), []
    scores = whole.learn(frame, y)
    for k, start in enumerate(range(0, ROWS, 37)):
        found.append(parts.learn(frame[start : start + 37], y[start : start + 37]))
        if k in (10, 18, 19):
            parts.save(tmp_path / "model.fiol")
            parts = fiol.Learner.load(tmp_path / "model.fiol")
    assert basis_of(whole).refined.tolist() == [1]
    assert np.array_equal(parts.weights, whole.weights)
    assert np.array_equal(np.concatenate(found), scores)


def test_refined_model_of_several_classes_has_the_same_bits_in_any_chunks():
    frame, y = wavy(160)
    y = np.digitize(y, [-0.3, 0.5])
    whole, parts = (new(refine_rows=100, rows=50, loss=fiol.Softmax()) for _ in range(2))
    whole.learn(frame, y)
    for start in range(0, 160, 35):
        parts.learn(frame[start : start + 35], y[start : start + 35])
    assert basis_of(whole).refined.tolist() == [1]
    assert np.array_equal(parts.weights, whole.weights)


def test_refined_model_has_the_same_bits_from_single_rows():
    frame, y = wavy(AT + 60)
    whole, single = new(), new()
    whole.learn(frame, y)
    single.learn(frame[: AT - 20], y[: AT - 20])
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    for row, target in zip(rows[AT - 20 :], y[AT - 20 :].tolist(), strict=True):
        single.learn_named(row, target)
    assert basis_of(single).refined.tolist() == [1]
    assert np.array_equal(single.weights, whole.weights)


def test_knots_are_refined_never_with_zero_rows_or_if_nodes_would_be_too_many():
    frame, y = wavy()
    never, full = new(refine_rows=0), new(max_nodes=150)
    for learner in (never, full):
        learner.learn(frame, y)
    assert basis_of(never).refined.tolist() == [0]
    assert basis_of(full).refined.tolist() == [1]  # it is not tried again
    assert basis_of(full).counts.tolist() == basis_of(never).counts.tolist()


def test_knots_are_not_refined_by_rows_that_are_learned_from_again():
    frame, y = wavy(300)
    learner = new(refine_rows=400)
    learner.learn(frame, y)
    with learner.core.engine.freeze_stack():
        learner.learn(frame, y)
    assert basis_of(learner).refined.tolist() == [0]
    learner.learn(*wavy(400))
    assert basis_of(learner).refined.tolist() == [1]


def test_refined_knots_leave_curves_under_a_ridge_as_they_are():
    frame, y = wavy()
    basis = fiol.TableBasis(knots=8, max_pairs=0, refine_rows=AT)
    learner = fiol.Learner(fiol.Stacked(fiol.Squared(), fiol.Ridge(1e-3), basis=basis))
    learner.learn(frame[:AT], y[:AT])
    before = learner.scores(frame)
    learner.core.levels.look_again()
    assert basis_of(learner).refined.tolist() == [1]
    assert np.abs(learner.scores(frame) - before).max() < 1e-9


def test_refined_surfaces_fit_many_rows_better():
    frame, y = wavy(6000)
    late = {rows: np.mean((new(rows).learn(frame, y) - y)[4000:] ** 2) for rows in (0, AT)}
    assert late[AT] < 0.7 * late[0]


def test_refined_and_unrefined_models_merge():
    frame, y = wavy()
    base = new()
    base.learn(frame[:500], y[:500])
    parts = [base.copy() for _ in range(2)]
    parts[0].learn(frame[500:590], y[500:590])
    parts[1].learn(frame[590:], y[590:])
    assert [basis_of(part).refined.tolist() for part in parts] == [[0], [1]]
    merged = fiol.Learner.merge(parts, weights=[0.0, 1.0])
    assert basis_of(merged).refined.tolist() == [1]
    assert np.allclose(merged.scores(frame), parts[1].scores(frame))


def test_shares_at_refined_knots_are_those_of_all_rows():
    draw = np.random.default_rng(2)
    X = draw.random((AT + 100, 2)) ** 2
    learner = new(max_pairs=0)
    learner.learn(X, np.sin(6.0 * X[:, 0]))
    for curve in effects_of(learner.core).columns:
        column = X[:, int(curve.name)]
        hats = np.array([np.interp(column, curve.points, one) for one in np.eye(len(curve.points))])
        masses = np.sum(hats**2, axis=1)
        assert np.abs(curve.shares - masses / masses.sum()).max() < 0.03
        assert len(masses) == 17


def test_older_options_never_refine():
    assert fiol.TableBasis.of_older_files == {"refine_rows": 0}


def test_united_knots_of_equal_models_are_theirs_however_many_there_are():
    knots = np.linspace(0.0, 1.0, 60)
    slot = SlotKnots(knots, np.ones(60, np.int32), False)
    united = united_slot(fiol.TableBasis(knots=4, grid=2), [slot, slot])
    assert united.knots.tolist() == knots.tolist()
    assert united.in_grid.tolist() == [1] * 60


@pytest.mark.parametrize("max_pairs", [0, 91])
def test_columns_that_are_all_constant_at_first_get_knots_later(max_pairs):
    X = np.ones((700, 2))
    X[350:] = np.random.default_rng(0).normal(size=(350, 2))
    learner = new(refine_rows=0, max_pairs=max_pairs)
    learner.learn(X, X[:, 0])
    assert basis_of(learner).counts.min() > 0


@pytest.mark.parametrize("max_pairs", [0, 91])
def test_merge_adds_the_knots_of_a_last_column_that_was_constant(max_pairs):
    X = np.random.default_rng(0).normal(size=(2000, 2))
    X[:600, 1] = 1.0
    y = X[:, 0] + X[:, 1] ** 2
    base = new(max_pairs=max_pairs)
    base.learn(X[:250], y[:250])
    constant, moved = base.copy(), base.copy()
    constant.learn(X[250:400], y[250:400])
    moved.learn(X[600:], y[600:])
    merged = fiol.Learner.merge([constant, moved], weights=[0.0, 1.0])
    assert np.allclose(merged.scores(X), moved.scores(X))
