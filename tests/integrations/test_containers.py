"""Registered and rejected containers, in all integrations."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from tests.interpreted import interpret

import fiol
from fiol.features import frames
from fiol.integrations.passive_aggressive import PassiveAggressiveRegressor


class Columns:
    """A container that fiol refuses until it is registered."""

    def __init__(self, **columns):
        self.columns = columns


class Bare(Columns):
    """A registered container whose conversion returns no frame."""


class Numbers:
    def __init__(self, *numbers):
        self.numbers = numbers


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(frames, "CONVERSIONS", dict(frames.CONVERSIONS))
    frames.register(Columns, lambda table: pd.DataFrame(table.columns))
    frames.register(Bare, lambda table: [list(row) for row in zip(*table.columns.values(), strict=True)])
    frames.register(Numbers, lambda series: np.array(series.numbers))
    yield
    frames.conversion_of.cache_clear()


def test_registered_container_is_accepted_by_all_integrations(registered, monkeypatch):
    interpret(monkeypatch)
    X, y = Columns(a=[1.0, 0.0, 2.0], b=[0.0, 3.0, 1.0]), Numbers(1, -1, 1)
    frame, plain = pd.DataFrame(X.columns), np.array(y.numbers)
    for estimator in (fiol.FIOLRegressor(), fiol.FIOLClassifier(), PassiveAggressiveRegressor()):
        ours, theirs = (clone(estimator).set_params(random_state=0).fit(*data) for data in ((X, y), (frame, plain)))
        assert ours.feature_names_in_.tolist() == ["a", "b"]
        assert ours.predict(X).tolist() == theirs.predict(frame).tolist()
        assert ours.partial_fit(X, y).coef_.tolist() == theirs.partial_fit(frame, plain).coef_.tolist()
    learner = fiol.Learner(fiol.FIOL(fiol.Squared()))
    learner.learn(X, y)
    assert learner.names == ["a", "b"]


def test_registered_conversion_must_return_a_frame_where_needed(registered):
    model = pytest.importorskip("fiol.river").FIOLRegressor()
    model.learn_many(Columns(a=[1.0], b=[2.0]), [1.0])
    for call in (lambda: model.learn_many(Bare(a=[1.0]), [1.0]), lambda: model.predict_many(Bare(a=[1.0]))):
        with pytest.raises(TypeError, match=r"Bare is registered: its conversion must give a frame here, got list$"):
            call()


@pytest.mark.parametrize(("container", "convert"), [(17, list), (Columns, 3), (None, list)])
def test_register_container_checks_its_arguments(container, convert):
    with pytest.raises(TypeError, match=r"^(container must be a class|convert must be a function)"):
        frames.register(container, convert)


def test_lazy_frame_error_suggests_collect():
    lazy = pl.LazyFrame({"a": [1.0]})
    with pytest.raises(TypeError, match=r"got LazyFrame: collect\(\) it first$"):
        fiol.Learner(fiol.FIOL(fiol.Squared())).learn(lazy, [1.0])
    with pytest.raises(TypeError, match=r"got LazyFrame: collect\(\) it first$"):
        pytest.importorskip("fiol.river").FIOLRegressor().learn_many(lazy, [1.0])


def test_a_learner_of_arrays_refuses_dicts():
    learner = fiol.Learner(fiol.FIOL(fiol.Squared()))
    learner.learn([[1.0]], [1.0])
    with pytest.raises(TypeError, match=r"^this learner has numbered features: pass arrays"):
        learner.learn([{"a": 1.0}], [1.0])
