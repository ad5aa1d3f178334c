"""The training loop: rows learned and held out, metrics, checkpoints and resuming."""

import contextlib
import json
import os
import signal

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from tests.interpreted import interpret
from tests.material import LOSSES, name

import fiol
from fiol import Chunk, NamedRows, to_chunk
from fiol.learner.model_core import ModelCore
from fiol.readers.batch import Batch, Place
from fiol.training import run
from fiol.training.checkpoint_schema import check_checkpoint
from fiol.training.metrics import Line, TargetTable
from fiol.training.rows import TargetRows, rows_together
from fiol.training.run import Regime, Training
from fiol.training.shuffling import held_out_rows, shuffled
from fiol.training.signals import Signals, Stopped
from fiol.training.task_inference import Task, UnclearTargetError, infer_task


@pytest.fixture(autouse=True)
def small_table_in_the_interpreter(monkeypatch):
    interpret(monkeypatch)
    monkeypatch.setattr(run, "ROWS_PER_SCORING", 16)
    monkeypatch.setattr(run, "FIRST_LINE", 10)
    monkeypatch.setattr(run, "WORK_AT_ONCE", 40)


def make_rows(n, seed=1):
    """Dense rows, of which some entries are 0, and labels 0 and 1."""
    draw = np.random.default_rng(seed)
    X = draw.normal(size=(n, 4)) * (draw.random((n, 4)) < 0.7)
    return X, (X @ [1.0, -2.0, 0.5, 0.0] + draw.normal(size=n) > 0.0).astype(float)


def named(X):
    """TargetRows with names instead of numbers, as a reader gives them: numbered as they first appear."""
    chunk, numbers = to_chunk(X), {}
    indices = [numbers.setdefault(int(i), len(numbers)) for i in chunk.indices]
    return NamedRows(Chunk(chunk.indptr, np.array(indices, np.int32), chunk.data), [f"x{i}" for i in numbers])


def reader(X, y, size=23, weights=None, names=False):
    """Return a reader of these rows, in chunks of this many."""

    def batches():
        for start in range(0, len(X), size):
            some = slice(start, start + size)
            rows = named(X[some]) if names else to_chunk(X[some])
            w = None if weights is None else weights[some]
            yield Batch(rows, y[some], w, None, Place("made up", start + 1), len(y[some]), 10 * (start + len(y[some])))

    return batches


def new(loss=None, **options):
    return fiol.Learner(fiol.FIOL(fiol.Logistic() if loss is None else loss, fiol.L1(0.001)), **options)


def lines_of(training):
    return [event for event in training.events() if isinstance(event, Line)]


def contents(learner):
    """Return all arrays of a model and its record of the run."""
    arrays = {key: value.tobytes() for key, value in learner.core.arrays().items()}
    return arrays, learner.names, json.dumps(learner.meta)


def test_one_pass_gives_the_model_and_progress_table():
    X, y = make_rows(100)
    weights = np.random.default_rng(2).random(100)
    training = Training(new(), infer_task(y), reader(X, y, weights=weights))
    lines = lines_of(training)
    assert [line.rows for line in lines] == [10, 20, 40, 80, 100]
    slow, signs = new(), 2.0 * y - 1.0
    losses = []
    for k in range(100):
        z = slow.learn(X[k : k + 1], signs[k : k + 1], weights[k : k + 1])[0]
        losses.append(np.log1p(np.exp(-signs[k] * z)))
        for line in lines:
            if line.rows == k + 1:
                before = max([0, *(other.rows for other in lines if other.rows < line.rows)])
                share = np.average(y[: k + 1], weights=weights[: k + 1])
                assert line.loss == pytest.approx(np.average(losses, weights=weights[: k + 1]))
                assert line.since == pytest.approx(np.average(losses[before:], weights=weights[before : k + 1]))
                assert line.constant == pytest.approx(-share * np.log(share) - (1 - share) * np.log(1 - share))
                assert line.nonzeros == slow.n_nonzero
                assert line.features == slow.n_features
    assert training.learner.weights.tobytes() == slow.weights.tobytes()
    assert training.rows == 100
    assert training.read == 1000


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_best_constant_prediction(loss):
    draw = np.random.default_rng(8)
    y = (
        np.where(draw.random(60) < 0.3, 1.0, -1.0)
        if loss.accepts(-1.0) and not loss.accepts(0.5)
        else draw.poisson(4, 60)
    )
    weights, table = draw.random(60), TargetTable()
    for some in np.split(np.arange(60), [1, 20]):
        table.add(np.array(y[some], float), weights[some])

    def mean(z):
        return np.average([loss.value(z, t) for t in y], weights=weights)

    found = minimize_scalar(mean, bounds=(-20.0, 20.0), method="bounded", options={"xatol": 1e-9}).fun
    assert table.least_loss(loss) == pytest.approx(found, rel=1e-6)
    assert table.least_loss(loss) <= found + 1e-12


@pytest.mark.parametrize("loss", LOSSES[:-1], ids=name)
@pytest.mark.parametrize("target", [1.0, -1.0])
def test_best_constant_of_equal_targets_has_no_loss(loss, target):
    table = TargetTable()
    table.add(np.full(3, target), np.ones(3))
    assert str(table.least_loss(loss)) == "0.0"


def test_best_constant_of_one_class_has_no_loss():
    table = TargetTable()
    table.add(np.zeros(3), np.ones(3))
    assert str(table.least_loss(fiol.Softmax())) == "0.0"


def test_best_constant_of_many_targets():
    y = np.random.default_rng(9).normal(size=20000)
    table = TargetTable()
    for some in np.split(y, 7 * [0] + [5000, 12000]):
        table.add(some, np.ones(len(some)))
    assert len(table.values) <= 1024
    assert table.least_loss(fiol.Squared()) == pytest.approx(0.5 * y.var(), rel=1e-3)
    assert table.least_loss(fiol.Absolute()) == pytest.approx(np.abs(y - np.median(y)).mean(), rel=1e-3)


def test_best_constant_of_classes():
    X, _ = make_rows(60)
    labels = np.array(["fig", "kiwi", "pear"], object)[np.digitize(X[:, 1], [-0.3, 0.3])]
    task = infer_task(labels)
    training = Training(fiol.Learner(fiol.FIOL(fiol.Softmax())), task, reader(X, labels))
    last = lines_of(training)[-1]
    share = np.unique(labels.astype(str), return_counts=True)[1] / 60
    assert last.constant == pytest.approx(-(share * np.log(share)).sum())
    assert sorted(training.learner.classes) == ["fig", "kiwi", "pear"]
    assert last.loss < last.constant


def test_shuffle_buffer_is_seeded_and_keeps_all_rows():
    X, _ = make_rows(200)
    numbers = np.arange(200.0)

    def order(size, seed, cut):
        blocks = (TargetRows(batch.X, batch.y, np.ones(batch.rows)) for batch in reader(X, numbers, cut, names=True)())
        return np.concatenate([rows.y for rows in shuffled(blocks, size, *seed)])

    found = order(20, (1, 1), 23)
    assert sorted(found) == numbers.tolist()
    assert order(20, (1, 1), 7).tolist() == found.tolist()
    assert order(20, (1, 2), 23).tolist() != found.tolist()
    assert order(20, (2, 1), 23).tolist() != found.tolist()
    travelled = np.abs(found - numbers)
    assert 10 < np.median(travelled) < 40
    assert sorted(order(150, (1, 1), 23)) == numbers.tolist()  # never full


def test_named_rows_in_any_order():
    X, y = make_rows(30)
    rows = TargetRows(named(X), y, np.ones(30))
    order = np.random.default_rng(1).permutation(30)
    both = rows_together([rows.taken(order[:12]), rows.taken(order[12:])])
    dicts = [{f"x{j}": v for j, v in enumerate(X[k]) if v} for k in order]
    signs = 2.0 * y[order] - 1.0
    one, other = new(), new()
    one.learn(both.X, signs)
    other.learn(dicts, signs)
    assert one.names == other.names
    assert one.weights.tobytes() == other.weights.tobytes()


def test_hold_out_follows_splitmix64():
    """By its definition, in whole numbers: a run that goes on with another version leaves out the same rows."""
    gamma, mask = 0x9E3779B97F4A7C15, 2**64 - 1
    for seed in (0, 1, 2**40):
        expected = []
        for row in range(1000, 1200):
            z = ((row + seed * 0xD1342543DE82EF95) * gamma + gamma) & mask
            z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
            expected.append(((z ^ (z >> 31)) >> 11) / 2**53 < 0.25)
        assert held_out_rows(1000, 1200, 0.25, seed).tolist() == expected


def test_held_out_rows_are_never_learned_and_scored_after_fixed_numbers_of_rows(monkeypatch):
    monkeypatch.setattr(run, "ROWS_PER_SCORING", 32)
    X, y = make_rows(300)
    regime = Regime(holdout=0.25, seed=5)
    training = Training(new(), infer_task(y), reader(X, y), regime)
    lines = lines_of(training)
    last = lines[-1]
    for size in (1, 64, 300):  # however rows arrive
        assert lines_of(Training(new(), infer_task(y), reader(X, y, size), regime)) == lines
    held = held_out_rows(0, 300, 0.25, 5)
    assert 50 < held.sum() < 100
    alone, losses = new(), []
    for start in range(0, 300, 32):  # rows are scored after the others are learned from
        some = np.arange(start, min(start + 32, 300))
        out, others = some[held[some]], some[~held[some]]
        alone.learn(X[others], 2.0 * y[others] - 1.0)
        if len(out):
            losses += np.log1p(np.exp(-(2 * y[out] - 1) * alone.scores(X[out]))).tolist()
    assert training.learner.weights.tobytes() == alone.weights.tobytes()
    assert last.held_out == pytest.approx(np.mean(losses))
    assert last.rows == 300 - held.sum()


def test_early_stopping_restores_the_best_pass():
    draw = np.random.default_rng(3)
    X, y = draw.normal(size=(60, 30)), np.where(draw.random(60) < 0.5, 0.0, 1.0)  # nothing to be learned
    regime = Regime(passes=20, holdout=0.3, patience=2, shuffle=5)
    training = Training(fiol.Learner(fiol.FIOL(fiol.Logistic())), infer_task(y), reader(X, y), regime)
    ends = [line.held_out for line in lines_of(training) if line.rows == (~held_out_rows(0, 60, 0.3, 1)).sum()]
    best = int(np.argmin(ends)) + 1
    assert len(ends) == best + 2 < 20
    assert (training.best_pass, training.best_loss) == (best, min(ends))
    short = Training(
        fiol.Learner(fiol.FIOL(fiol.Logistic())),
        infer_task(y),
        reader(X, y),
        Regime(passes=best, holdout=0.3, shuffle=5),
    )
    lines_of(short)
    assert training.learner.weights.tobytes() == short.learner.weights.tobytes()


def test_later_passes_freeze_the_stack(monkeypatch):
    monkeypatch.setattr(run, "MIN_STACK_ROWS", 50)
    X, y = make_rows(60)
    training = Training(fiol.Learner(), infer_task(y), reader(X, y), Regime(passes=2))
    lines_of(training)
    by_hand = fiol.Learner()
    by_hand.learn(X, 2.0 * y - 1.0)
    with by_hand.engine.freeze_stack():
        by_hand.learn(X, 2.0 * y - 1.0)
    assert training.learner.weights.tobytes() == by_hand.weights.tobytes()
    assert training.history[-2].loss != training.history[-1].loss


@pytest.mark.parametrize(
    "regime",
    [
        Regime(),
        Regime(passes=2, shuffle=15, seed=4),
        Regime(passes=4, shuffle=10, holdout=0.3, patience=1),
        Regime(passes=2, shuffle=15, seed=4, holdout=0.2),
    ],
    ids=str,
)
@pytest.mark.parametrize("names", [False, True])
def test_run_stopped_anywhere_resumes_to_the_same_bits(tmp_path, regime, names):
    X, y = make_rows(60)
    task, path = infer_task(y), tmp_path / "model.fiol"
    whole = Training(new(), task, reader(X, y, names=names), regime)
    events = list(whole.events())
    whole.checkpoint()
    for stop in range(1, len(events) + 1, 3):
        broken = Training(new(), task, reader(X, y, names=names), regime, save=lambda learner: learner.save(path))
        for _, _ in zip(range(stop), broken.events(), strict=False):
            pass
        broken.checkpoint()
        learner = fiol.Learner.load(path, compiled=False)
        again = Training(learner, task, reader(X, y, names=names))
        again.go_on_from(learner.meta["training"], learner.meta["history"], broken.best)
        rest = list(again.events())
        again.checkpoint()
        assert contents(again.learner) == contents(whole.learner)
        assert len(rest) <= len(events) - stop + 1


def test_run_of_an_old_version_with_jobs_resumes():
    X, y = make_rows(60)
    task, whole = infer_task(y), Training(new(), infer_task(y), reader(X, y), Regime(passes=2))
    list(whole.events())
    broken = Training(new(), task, reader(X, y), Regime(passes=2))
    for _, _ in zip(range(3), broken.events(), strict=False):
        pass
    broken.note()
    meta = json.loads(json.dumps(broken.learner.meta))
    state = meta["training"]
    state["regime"]["jobs"] = 1
    check_checkpoint(meta)
    again = Training(broken.learner, task, reader(X, y))
    again.go_on_from(state, meta["history"])
    list(again.events())
    assert again.regime == Regime(passes=2)
    assert again.learner.weights.tobytes() == whole.learner.weights.tobytes()
    state["regime"]["jobs"] = 0
    with pytest.raises(ValueError, match="its training is not as fiol train writes it: regime = "):
        check_checkpoint({"training": state})


@pytest.mark.parametrize(
    "change", [{"name": {"id": 1}}, {"kind": "color"}, {"kind": None}, {"examples": [1]}, {"missing": "few"}], ids=str
)
def test_forged_column_summaries_are_refused(change):
    summary = {"name": "id", "kind": "words:2", "examples": ["a"], "missing": 0.0, "features": None}
    check_checkpoint({"training": {"columns": [summary]}})
    with pytest.raises(ValueError, match="its training is not as fiol train writes it: columns = "):
        check_checkpoint({"training": {"columns": [summary | change]}})


def test_checkpoints_by_rows_and_seconds(tmp_path):
    X, y = make_rows(100)
    saved = []
    training = Training(
        new(), infer_task(y), reader(X, y), save=lambda learner: saved.append(learner.rounds), every_rows=30
    )
    list(training.events())
    assert len(saved) == 3
    assert all(late - early >= 30 for early, late in zip([0, *saved], saved, strict=False))
    often = Training(new(), infer_task(y), reader(X, y), save=lambda learner: saved.append(0), every_seconds=0.0)
    list(often.events())
    assert len(saved) > 10


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
def test_signal_waits_for_the_end_of_the_piece(monkeypatch):
    X, y = make_rows(90)
    task, learn = infer_task(y), ModelCore.learn

    def interrupted(self, *rows):
        if self.rounds > 30:
            os.kill(os.getpid(), signal.SIGTERM)
        return learn(self, *rows)

    monkeypatch.setattr(ModelCore, "learn", interrupted)
    before = signal.getsignal(signal.SIGTERM)
    with Signals() as signals:
        training = Training(new(), task, reader(X, y), defer_signals=signals.deferred)
        with pytest.raises(Stopped) as stopped:
            list(training.events())
        assert stopped.value.number == signal.SIGTERM
        assert training.rows == training.learner.rounds == training.metrics.rows > 30
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
def test_swallowed_signal_is_not_lost():
    X, y = make_rows(90)
    with Signals() as signals:
        training = Training(new(), infer_task(y), reader(X, y), defer_signals=signals.deferred)
        events = training.events()
        next(events)
        with contextlib.suppress(Stopped):  # as callbacks do
            os.kill(os.getpid(), signal.SIGINT)
        rows = training.rows
        with pytest.raises(Stopped):
            list(events)
        assert training.rows == rows
        signals.acknowledge()
        training.checkpoint()


def test_missing_and_wrong_targets():
    X, y = make_rows(60)
    gaps = np.where(np.arange(60) % 7 == 3, np.nan, y)
    with pytest.raises(UnclearTargetError, match=r"row 4 of the [0-9]+ rows from made up:1 on has no target"):
        list(Training(new(), infer_task(y), reader(X, gaps)).events())
    training = Training(new(), infer_task(y), reader(X, gaps), skip_missing=True)
    list(training.events())
    there = ~np.isnan(gaps)
    assert training.missing == 60 - there.sum()
    alone = new()
    alone.learn(X[there], 2.0 * y[there] - 1.0)
    assert training.learner.weights.tobytes() == alone.weights.tobytes()
    with pytest.raises(
        UnclearTargetError,
        match=r"row [0-9]+ of the [0-9]+ rows from made up:[0-9]+ on: the target 7 is neither 0 nor 1",
    ):
        list(Training(new(), infer_task(y), reader(X, np.where(np.arange(60) == 30, 7.0, y))).events())


def test_changed_data_is_detected_on_resume():
    X, y = make_rows(60)
    training = Training(new(), infer_task(y), reader(X, y))
    list(training.events())
    state = {**training.state(), "finished": False}
    shorter = Training(training.learner, infer_task(y), reader(X[:50], y[:50]))
    shorter.go_on_from(state, [])
    with pytest.raises(ValueError, match="have 50 rows to learn from, but 60 were"):
        list(shorter.events())
    with pytest.raises(ValueError, match="no rows"):
        list(Training(new(), infer_task(y), reader(X[:0], y[:0])).events())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"passes": 0}, "passes must be a whole number, at least 1, got 0"),
        ({"shuffle": -1}, "shuffle"),
        ({"holdout": 1.0}, "holdout"),
        ({"holdout": float("nan")}, "holdout"),
        ({"patience": 1}, "patience needs held-out rows"),
        ({"patience": 0, "holdout": 0.1}, "patience"),
    ],
)
def test_invalid_regimes_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        Regime(**options)


def test_task_describes_its_prediction():
    assert [Task(*args, "").kind for args in ((fiol.Logistic(), [0, 1]), (fiol.Softmax(), None))] == [
        "two classes",
        "classes",
    ]
