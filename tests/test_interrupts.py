"""Signals during a call: the model has learned exactly the rows that the exception reports."""

import itertools
import pickle
import random

import numpy as np
import pytest
from campaigns import interrupts
from numba import config

import fiol
from fiol import FIOL, L1, Constant, Learner, Logistic, OneVsRest, Softmax
from fiol.compiler import compiled
from fiol.engine import interrupts as pacing
from fiol.engine.engine import Engine
from fiol.engine.single_row.fast_path import NO_FAST_PATH
from fiol.learner.core import LearnerCore
from fiol.regret import Ledger

LASSO = FIOL(Logistic(), L1(0.02))
ROWS = 20
draw = np.random.default_rng(5)
MATRIX = draw.normal(size=(ROWS, 6)) * draw.integers(0, 2, (ROWS, 6))
NAMED = [{f"f{i}": float(v) for i, v in enumerate(row) if v} | {f"own {k}": 1.0} for k, row in enumerate(MATRIX)]
SIGNS = np.where(draw.random(ROWS) < 0.5, -1.0, 1.0)
FRUIT = [("pear", "apple", "fig", "kiwi")[4 * k // ROWS] for k in range(ROWS)]


def accounted(update=None):
    learner = Learner(update or FIOL(Logistic(), L1(0.02), Constant(0.1)))
    Ledger(learner, every=3)
    return learner


#: A model, its rows, and their targets.
CASES = {
    "numbered": (lambda: Learner(LASSO), MATRIX, SIGNS),
    "named": (lambda: Learner(LASSO), NAMED, SIGNS),
    "joint": (lambda: Learner(FIOL(Softmax())), NAMED, FRUIT),
    "one-vs-rest": (lambda: OneVsRest(LASSO), NAMED, FRUIT),
    "ensemble": (lambda: Learner(fiol.Ensemble([FIOL(Logistic(), step_size=Constant(0.1))], gate=LASSO)), NAMED, SIGNS),
    "bounded": (lambda: Learner(LASSO, max_features=ROWS + 5), NAMED, SIGNS),
    "accounted": (accounted, MATRIX, SIGNS),
    "accounted, every weight": (lambda: accounted(fiol.RDA(Logistic(), L1(0.02))), MATRIX, SIGNS),
}


def known(model):
    """Return all arrays of a model as bytes, without memory reserved for new features."""
    if isinstance(model, OneVsRest):
        return model.classes, model.names, model.n_features, [known(learner)[-1] for learner in model.core.all_learners]
    kept = {}
    for name, a in model.core.arrays().items():
        a = a[: model.n_features] if "state." in name else a
        # Unless a feature was ever seen, its record is that of one without a place.
        seen = a.any(axis=tuple(range(1, a.ndim)))
        kept[name] = a[: 1 + max(np.flatnonzero(seen), default=-1)].tobytes()
    return model.classes, model.names, model.n_features, kept


def assert_same_account(model, other):
    """The ledgers, if there are any, of models that learned from the same rows."""
    if isinstance(model, Learner) and model.ledger is not None:
        for ours, others in zip(model.ledger.records, other.ledger.records, strict=True):
            np.testing.assert_allclose(ours, others, rtol=1e-12)


def interrupt_at(monkeypatch, number, late):
    """Let the call of a kernel that learns be interrupted: the one of this number, before or after it."""
    call, count = Engine.call, itertools.count()

    def interrupted(self, kernel, *arguments):
        learns = kernel.__name__ in ("learn_rows", "stack_rows", "measure_rows")
        if not learns or next(count) != number:
            return call(self, kernel, *arguments)
        if late:
            call(self, kernel, *arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(Engine, "call", interrupted)


def without_compiler(monkeypatch):
    """Let engines that think their kernels are compiled, and so not interrupted inside, have the same ones as they are.

    Interrupts come between kernels here.
    """
    monkeypatch.setattr(compiled, "bind", lambda kernel, *_: compiled.interpreted(kernel))


@pytest.fixture
def short_pieces(monkeypatch):
    """Pieces of a few rows, however fast they are."""
    monkeypatch.setattr(pacing, "FIRST", 24)
    monkeypatch.setattr(pacing, "FASTER", 1.0)


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("case", CASES)
def test_interrupted_learn_keeps_the_reported_rows(case, late, monkeypatch, short_pieces):
    without_compiler(monkeypatch)
    new, X, y = CASES[case]
    whole = new()
    whole.learn(X, y)
    learned = set()
    for number in (*range(12), *range(12, 60, 5)):  # every kind of call is among the first ones
        model = new()
        with monkeypatch.context() as patch:
            interrupt_at(patch, number, late)
            try:
                model.learn(X, y)
                break  # fewer calls than that
            except KeyboardInterrupt as error:
                n, notes = getattr(error, "rows_learned", 0), getattr(error, "__notes__", ())
        assert not n or not notes or notes[-1] == f"the first {n} rows have been learned from"
        learned.add(n)
        other = new()
        if n:
            other.learn(X[:n], y[:n])
        assert model.rounds == other.rounds == n
        if y is not FRUIT:
            assert known(model)[-1] == known(other)[-1]
        assert_same_account(model, other)
        if n and X is NAMED:  # those of later rows are known already, with weights of 0
            count = other.n_features
            assert model.names[:count] == other.names
            assert not model.weights[..., count:].any()
            w = model.weights[..., :count]  # of classes to come, too: one against the rest, or that of the next row
            assert ((w if other.classes is None else w[: len(other.classes)]) == other.weights).all()
        model.learn(X[n:], y[n:])
        assert known(model) == known(whole)
        assert_same_account(model, whole)
    assert case == "bounded" or len(learned) > 3, learned


def look_twice(monkeypatch):
    """Send every event to the fallback: rounds of the fast path cannot be interrupted."""
    monkeypatch.setattr(Engine, "prepare_fast_path", lambda self, learning: NO_FAST_PATH)


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("kind", [Learner, OneVsRest])
def test_interrupted_event_keeps_names_and_weights_consistent(kind, late, monkeypatch):
    """Of names that are new: either both names and weights are as before, or both are not."""
    look_twice(monkeypatch)
    without_compiler(monkeypatch)
    target = (lambda k: FRUIT[k]) if kind is OneVsRest else (lambda k: SIGNS[k])
    model, other = kind(LASSO), kind(LASSO)
    for k, row in enumerate(NAMED):
        with monkeypatch.context() as patch:
            interrupt_at(patch, 0, late)
            with pytest.raises(KeyboardInterrupt) as caught:
                model.learn_named(row, target(k))
        assert getattr(caught.value, "rows_learned", 0) == int(late)
        if not late:
            assert model.rounds == k
            assert model.n_features == other.n_features
            model.learn_named(row, target(k))
        other.learn_named(row, target(k))
    assert pickle.dumps(model) == pickle.dumps(other)


@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")
def test_interrupt_between_class_learners_completes_the_round(monkeypatch):
    """All classes complete a round that is interrupted between two of them."""
    rows = [{"a": 1.0 + k, "b": 2.0 - k} for k in range(4)]
    update = LASSO.replace(
        step_size=LASSO.step_size.replace(centered=0)
    )  # first rows that may be centered take another way
    for after in range(5):
        model, other = OneVsRest(update), OneVsRest(update)
        for one in (model, other):
            one.learn(rows, FRUIT[:: ROWS // 4])
            one.learn_named(rows[0], "fig")
        real, count = LearnerCore.fast_learn_numbered, itertools.count()

        def interrupted(self, *arguments, count=count, after=after, real=real, **options):
            z = real(self, *arguments, **options)
            if next(count) == after:
                raise KeyboardInterrupt
            return z

        with monkeypatch.context() as patch:
            patch.setattr(LearnerCore, "fast_learn_numbered", interrupted)
            with pytest.raises(KeyboardInterrupt):
                model.learn_named(rows[1], "pear")
        other.learn_named(rows[1], "pear")
        assert {learner.rounds for learner in model.core.all_learners} == {6}
        assert pickle.dumps(model) == pickle.dumps(other)


def test_interrupted_generator_and_chunks_report_rows_learned(monkeypatch, short_pieces):
    monkeypatch.setattr("fiol.features.blocks.BLOCK", 16)
    without_compiler(monkeypatch)
    for learn in (
        lambda model: model.learn(iter(NAMED), SIGNS),
        lambda model: model.learn_chunks((NAMED[k : k + 16], SIGNS[k : k + 16]) for k in range(0, ROWS, 16)),
    ):
        model, other = Learner(LASSO), Learner(LASSO)
        with monkeypatch.context() as patch:
            interrupt_at(patch, 4, late=True)
            with pytest.raises(KeyboardInterrupt) as caught:
                learn(model)
        n = caught.value.rows_learned
        assert 16 < n < 32
        assert model.rounds == n
        model.learn(NAMED[n:], SIGNS[n:])
        other.learn(NAMED, SIGNS)
        assert known(model) == known(other)


def test_interrupted_prune_changes_nothing(monkeypatch):
    model = Learner(LASSO, compiled=False)
    model.learn(NAMED, SIGNS)
    model.learn([{"zero": 1e-50}], [1.0])
    before = pickle.dumps(model)

    def interrupted(self, kept):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fiol.features.feature_space.FeatureSpace, "keep", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.prune()
    assert pickle.dumps(model) == before
    assert model.prune() > 0


def test_pieces_cover_all_rows_and_follow_the_clock(monkeypatch):
    """With rows of very different length, and a clock that stands still or runs."""
    lengths = np.array([0, 3, 200_000, 1, 0, 70_000, *[10] * 30_000])
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    chunk = fiol.Chunk(indptr, np.zeros(indptr[-1], np.int32), np.ones(indptr[-1]))
    for step, order in itertools.product((1e-6, 1.0), (np.empty(0, np.int64), np.arange(len(lengths))[::-1])):
        now = itertools.count()
        monkeypatch.setattr(pacing.time, "perf_counter", lambda now=now, step=step: next(now) * step)
        pieces = list(pacing.paced(chunk, order))
        assert [start for start, _ in pieces] == [0, *(stop for _, stop in pieces[:-1])]
        assert pieces[-1][1] == len(lengths)
        assert all(start < stop for start, stop in pieces)
        sizes = [stop - start for start, stop in pieces]
        assert (max(sizes) > 10_000) == (step == 1e-6)


@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="in the interpreter a million rows take minutes")
@pytest.mark.parametrize(("case", "rows"), [("learn", 200_000), ("one-vs-rest", 50_000)])
def test_real_signals_stop_a_call(case, rows):
    _, found, _ = interrupts.campaign(case, 3, rows, random.Random(3))
    assert len(found) == 3
    assert max(found) < interrupts.LONGEST_WAIT  # how soon is a matter of the machine: see the campaign
