"""Curves of dates and times that close: the day of the year, and the time of day."""

import numpy as np
import pandas as pd
import pytest
from tests.interpreted import interpret
from tests.oracles.table_basis import node_values
from tests.test_levels import as_dicts

import fiol
from fiol.features.column_kinds import DAILY, YEARLY
from fiol.learner.effects import effects_of


@pytest.fixture(autouse=True)
def in_the_interpreter(monkeypatch):
    interpret(monkeypatch)


def moments(n=500, step="31h17min"):
    """Return a frame of dates with minutes, some of them missing, and targets that follow the year and the day."""
    draw = np.random.default_rng(0)
    when = pd.Series(pd.date_range("1998-03-01", periods=n, freq=step))
    days = (when - pd.Timestamp("2000-01-01")) / pd.Timedelta("1D")
    y = np.cos(2.0 * np.pi * days / 365.2425) * (1.0 + np.sin(2.0 * np.pi * days)) + 0.1 * draw.normal(size=n)
    frame = pd.DataFrame({"when": when, "a": draw.integers(0, 2, n).astype(float)})
    frame.loc[draw.random(n) < 0.05, "when"] = pd.NaT
    return frame, y.to_numpy()


def learned(frame, y, **options):
    learner = fiol.Learner(loss=fiol.Squared(), features=fiol.TableBasis(**options))
    learner.learn(frame, y)
    return learner


def closing_hats(days, cycle):
    """Return the hats of a period by linear interpolation around the circle."""
    knots = np.arange(cycle.knots) * cycle.days / cycle.knots
    return np.column_stack([np.interp(days, knots, unit, period=cycle.days) for unit in np.eye(cycle.knots)])


def test_closing_curves_are_linear_interpolation_around_the_circle():
    frame, y = moments()
    learner = learned(frame, y, max_pairs=0)
    rows = learner.core.read_rows(frame)
    (_, found) = learner.core.levels.expanded(rows)
    made = np.zeros((len(y), learner.n_features))
    made[np.repeat(np.arange(len(y)), np.diff(found.indptr)), found.indices] = found.data
    there = frame["when"].notna().to_numpy()
    days = ((frame["when"] - pd.Timestamp("2000-01-01")) / pd.Timedelta("1D")).to_numpy()[there]
    assert (np.diff(found.indices)[np.diff(np.repeat(np.arange(len(y)), np.diff(found.indptr))) == 0] > 0).all()
    for cycle in (YEARLY, DAILY):
        own = [i for i, name in enumerate(learner.names) if name.startswith(f"when.{cycle.name}~")]
        assert len(own) == cycle.knots
        assert np.abs(made[there][:, own] - closing_hats(days, cycle)).max() < 1e-9
        assert not made[~there][:, own].any()


def test_nodes_of_closing_curves_are_tents_around_the_circle():
    frame, y = moments()
    learner = learned(frame, y)
    rows = learner.core.read_rows(frame)
    found, basis = learner.core.levels.expanded(rows)[2], learner.core.levels.basis
    (day,) = np.flatnonzero(basis.period == DAILY.days).tolist()
    other = int(np.flatnonzero(basis.member == learner.names.index("a"))[0])
    pairs = list(zip(basis.left.tolist(), basis.right.tolist(), strict=True))
    place = pairs.index((day, other))
    first = int(basis.known[0]) + basis.hats + int(basis.node_counts[:place].sum())
    days = ((frame["when"] - pd.Timestamp("2000-01-01")) / pd.Timedelta("1D")).to_numpy()
    assert (np.diff(found.indices)[np.diff(np.repeat(np.arange(len(y)), np.diff(found.indptr))) == 0] > 0).all()
    for r in range(0, len(y), 3):
        entries = slice(found.indptr[r], found.indptr[r + 1])
        nodes = dict(zip((found.indices[entries] - first).tolist(), found.data[entries].tolist(), strict=True))
        nodes = {k: v for k, v in nodes.items() if 0 <= k < basis.node_counts[place]}
        z = float(frame["a"][r])
        if np.isnan(days[r]):
            assert nodes == {DAILY.knots * 3 + int(z): 1.0}
            continue
        x, expected = days[r] % 1.0 * DAILY.knots, {}
        for a in (int(x), int(x) + 1):
            value = node_values(x, z, a, z)
            if value > 1e-9:
                expected[a % DAILY.knots * 3 + int(z)] = value
        assert nodes == pytest.approx(expected, abs=1e-8)


def test_scores_are_continuous_over_midnight_and_the_new_year():
    frame, y = moments()
    learner = learned(frame, y)
    effects = {effect.name: effect for effect in effects_of(learner.core).columns}
    for name, end in (("when.yearday", 365.2425), ("when.time", 24.0)):
        assert effects[name].points[[0, -1]].tolist() == pytest.approx([0.0, end])
        assert (effects[name].values[:, 0] == effects[name].values[:, -1]).all()
        assert np.ptp(effects[name].values) > 0.3


def test_times_of_day_take_the_place_of_hours_in_pairs():
    frame, y = moments()
    paired = {part for name in learned(frame, y).names if " & " in name for part in name.split(" & ")}
    for start in ("when.time~", "when.month=", "when.weekday="):
        assert any(name.startswith(start) for name in paired)
    assert not any(name.startswith(("when.yearday~", "when.hour=")) for name in paired)


def test_whole_hours_have_categories_and_whole_days_a_curve_of_the_year():
    frame, y = moments(step="7h")
    names = learned(frame, y).names
    assert not any(name.startswith("when.time~") for name in names)
    assert any(name.startswith("when.hour=") and " & " in name for name in names)
    assert any(name.startswith("when.yearday~") for name in names)


def test_times_of_day_close():
    draw = np.random.default_rng(1)
    minutes = draw.integers(0, 1440, 600)
    frame = pd.DataFrame({"at": [f"{m // 60:02d}:{m % 60:02d}" for m in minutes], "a": draw.integers(0, 2, 600)})
    y = np.cos(2.0 * np.pi * minutes / 1440.0) * (1.0 + frame["a"].to_numpy())
    learner = learned(frame, y)
    assert learner.table_encoding.columns[0].kind == "time"
    assert [name for name in learner.names if name.startswith("at~") and "&" not in name] == [
        f"at~{k}" for k in range(24)
    ]
    assert np.mean((learner.scores(frame) - y)[300:] ** 2) < 0.05 * np.var(y)


@pytest.mark.parametrize("rows", [1, 37, 1000])
def test_closing_curves_have_the_same_bits_in_any_chunks_and_as_dicts(rows):
    frame, y = moments()
    whole = learned(frame, y)
    parts = fiol.Learner(loss=fiol.Squared(), features="auto", table_encoding=whole.table_encoding)
    dicts = as_dicts(frame)
    for start in range(0, len(y), rows):
        some = slice(start, start + rows)
        parts.learn(dicts[some] if rows == 37 else frame[some], y[some])
    assert parts.names == whole.names
    assert np.array_equal(parts.weights, whole.weights)


def test_merged_models_keep_closing_curves():
    frame, y = moments()
    base = learned(frame[:250], y[:250])
    one, two = base.copy(), base.copy()
    one.learn(frame[250:380], y[250:380])
    two.learn(frame[380:], y[380:])
    merged = fiol.Learner.merge([one, two])
    assert {name for name in one.names if ".time~" in name or ".yearday~" in name} <= set(merged.names)
    assert np.isfinite(merged.scores(frame)).all()
    assert np.mean((merged.scores(frame) - y) ** 2) < 1.1 * np.mean((base.scores(frame) - y) ** 2)
