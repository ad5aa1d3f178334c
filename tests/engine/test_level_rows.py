"""Rows of levels that subtract the same means: centered once for all, with the bits of rows centered at each level."""

import itertools

import numpy as np
import pandas as pd
import pytest
from tests.interpreted import interpret
from tests.test_interrupts import known, short_pieces, without_compiler

import fiol
from fiol.engine import level_rows
from fiol.engine.engine import Engine

__all__ = ["short_pieces"]
ROWS = 60
LATER = {"choice_rows": 15, "refine_rows": 45}
BASIS = fiol.TableBasis(rows=20, **LATER)


def table():
    """Return a frame with columns far from 0, two of them with missing values, and a category that comes late."""
    draw = np.random.default_rng(3)
    a, b, c = draw.normal([100.0, 0.0, 5.0], size=(ROWS, 3)).T
    frame = pd.DataFrame({"a": a, "b": b, "c": c, "kind": np.where(np.arange(ROWS) < 40, "first", "late")})
    frame.loc[2::7, "c"] = frame.loc[40::5, "a"] = np.nan
    return frame, a + b * c


def interrupt_at(monkeypatch, number, late):
    """Let the call of this number of a kernel that learns be interrupted, before or after it."""
    call, count = Engine.call, itertools.count()

    def interrupted(self, kernel, *arguments):
        if kernel.__name__ != "learn_stacked_rows" or next(count) != number:
            return call(self, kernel, *arguments)
        if late:
            call(self, kernel, *arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(Engine, "call", interrupted)


def new(**options):
    return fiol.Learner(loss=fiol.Squared(), features=BASIS, **options)


@pytest.fixture(autouse=True)
def in_the_interpreter(monkeypatch):
    interpret(monkeypatch)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_levels_with_common_means_have_the_bits_of_levels_centered_apart(monkeypatch, dtype):
    X, y = table()
    model, apart = new(dtype=dtype), new(dtype=dtype)
    scores = model.learn(X, y)
    assert all(len(level.centering.features) == 2 for level in model.core.levels.levels)
    monkeypatch.setattr(level_rows, "have_same_means", lambda levels: False)
    assert apart.learn(X, y).tobytes() == scores.tobytes()
    assert known(apart) == known(model)


def test_rows_of_all_levels_are_centered_once(monkeypatch):
    X, y = table()
    model, centered = new(), []
    model.learn(X[:30], y[:30])
    call = Engine.call
    monkeypatch.setattr(
        Engine, "call", lambda self, kernel, *a: centered.append(kernel.__name__) or call(self, kernel, *a)
    )
    model.learn(X[30:32], y[30:32])
    assert centered.count("center_rows") == 1


def test_knots_found_before_centered_features_are_centered_at_each_level():
    X, y = table()
    whole = fiol.Learner(loss=fiol.Squared(), features=fiol.TableBasis(rows=5, **LATER))
    whole.learn(X, y)
    parts = fiol.Learner(loss=fiol.Squared(), features=fiol.TableBasis(rows=5, **LATER))
    for r in range(ROWS):
        parts.learn(X[r : r + 1], y[r : r + 1])
    assert known(parts) == known(whole)


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_interrupted_levels_keep_the_means_of_the_reported_rows(late, monkeypatch, short_pieces):
    without_compiler(monkeypatch)
    X, y = table()
    whole = new()
    whole.learn(X, y)
    for number in (0, 5, 12):
        model = new()
        model.learn(X[:50], y[:50])
        with monkeypatch.context() as patch:
            interrupt_at(patch, number, late)
            with pytest.raises(KeyboardInterrupt) as caught:
                model.learn(X[50:], y[50:])
        done = 50 + getattr(caught.value, "rows_learned", 0)
        if done < ROWS:
            model.learn(X[done:], y[done:])
        for level, its in zip(model.core.levels.levels, whole.core.levels.levels, strict=True):
            found = level.arrays()
            assert all(found[name].tobytes() == array.tobytes() for name, array in its.arrays().items())
