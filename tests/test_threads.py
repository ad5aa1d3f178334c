"""Threads that share models: locks, snapshots, serializable calls, and reads without side effects."""

import copy
import os
import pickle
import random
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import pytest
from campaigns.threads import KINDS, SCENARIOS, Calls, Noted, campaign, moments, run_process
from interpreted import interpret, interpret_ensembles
from numba import config
from scipy import sparse

import fiol
from fiol import FIOL, L1, Learner, Logistic, OneVsRest, Softmax, river
from fiol.engine.update_engine import UpdateEngine
from fiol.learner import model_core

LASSO = FIOL(Logistic(), L1(0.02))
X = [{"a": 1.0, "b": 2.0}, {"b": -1.0}, {"a": 0.5, "c": 3.0}]
Y = [1.0, -1.0, 1.0]


def in_another_thread(work, timeout=20.0):
    """Return `work()` of another thread; None if that takes too long."""
    found = []
    thread = threading.Thread(target=lambda: found.append(work()), daemon=True)
    thread.start()
    thread.join(timeout)
    return found[0] if found else None


@pytest.mark.parametrize("kind", ["named", "one-vs-rest"])
def test_calls_of_eight_threads_are_serializable(kind):
    made, switches = campaign(kind, 320, threads=8, seed=1)
    assert made == 320
    assert switches > 25


@pytest.mark.parametrize("kind", ["averaged", "numbered", "hashed", "bounded", "joint"])
def test_calls_of_eight_threads_are_serializable_in_the_interpreter(kind):
    made, switches = campaign(kind, 80, threads=8, seed=2, compiled=False)
    assert made == 80
    assert switches > 5


def test_lock_free_event_reads_are_consistent():
    read, changed = moments("named", 120, readers=3, seed=1)
    assert read > 1000
    assert changed > 0


def test_event_read_waits_for_a_running_call():
    learner = Learner(LASSO)
    learner.learn(X, Y)
    score, began = learner.score_named(X[0]), threading.Event()

    def read():
        began.set()
        return learner.score_named(X[0])

    with learner.core.lock:
        found = []
        thread = threading.Thread(target=lambda: found.append(read()))
        thread.start()
        began.wait(20.0)
        thread.join(0.2)
        assert found == []
        assert learner.score_named(X[0]) == score  # whose turn it is may read
    thread.join(20.0)
    assert found == [score]


class Unlocked:
    """A lock that does not lock."""

    def __enter__(self):
        return None

    def __exit__(self, *error):
        return None

    acquire = release = __enter__


def test_broken_lock_is_detected(monkeypatch):
    monkeypatch.setattr("campaigns.threads.Lock", Unlocked)
    with pytest.raises((AssertionError, IndexError, ValueError, KeyError, RuntimeWarning)):  # noqa: PT012
        for seed in range(30):
            campaign("named", 400, threads=8, seed=seed, compiled=False)


RIVERS = {
    "regressor": lambda: river.FIOLRegressor(),
    "two labels": lambda: river.FIOLClassifier(),
    "open labels": lambda: river.FIOLClassifier("hinge"),
    "joint": lambda: river.FIOLClassifier("softmax"),
}


def river_call(model, number, writing):
    """The answer of a River model to call `number`: a row or a frame, learned from or not."""
    rng = random.Random(number)
    X = [{f"f{rng.randrange(30)}": rng.gauss(0, 1) for _ in range(3)} for _ in range(3)]
    if isinstance(model, river.FIOLRegressor):
        y = [rng.gauss(0, 1) for _ in X]
    else:
        labels = [False, True] if model.loss == "log_loss" else [False, True, "pear", 3][: 2 + number % 3]
        y = [rng.choice(labels) for _ in X]
    if not writing:
        return rng.choice(
            [
                lambda: model.predict_one(X[0]),
                lambda: model.predict_many(pd.DataFrame(X).fillna(0.0)).tolist(),
                lambda: pickle.dumps(model),
                lambda: model.weights,
                lambda: model.intercept,
            ]
        )()
    return (
        model.learn_many(pd.DataFrame(X).fillna(0.0), pd.Series(y)) if number % 4 == 0 else model.learn_one(X[0], y[0])
    )


@pytest.mark.parametrize("kind", RIVERS)
def test_calls_of_river_models_are_serializable(kind, monkeypatch):
    interpret(monkeypatch)
    model, noted, answers, barrier = RIVERS[kind](), Noted(), {}, threading.Barrier(8)
    river_call(model, 1, writing=True)  # before any class there is no turn to take
    model._lock = noted

    def run(thread):
        barrier.wait()
        for number in range(100 * thread, 100 * thread + 12):
            noted.local.call = number
            answers[number] = river_call(model, number, writing=number % 3 > 0)
            time.sleep(0)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        workers = [threading.Thread(target=run, args=(thread,)) for thread in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(before)
    other = RIVERS[kind]()
    river_call(other, 1, writing=True)
    last = {number: place for place, number in enumerate(noted.turns)}
    assert len(answers) == len(last) == 8 * 12
    for number in sorted(last, key=last.get):
        assert river_call(other, number, writing=number % 3 > 0) == answers[number], number
    noted.local.call = None
    assert pickle.dumps(model) == pickle.dumps(other)


@pytest.mark.parametrize("name", SCENARIOS)
def test_threads_of_single_events_answer_as_one_thread_in_some_order(name):
    assert run_process(name, seed=2, threads=6, cache=str(config.CACHE_DIR)) is None


# --- processes --------------------------------------------------------------------------------

#: A script that forks twice while another thread compiles, and lets both children use models.
FORK_WHILE_COMPILING = """
import os, threading, time, traceback, warnings

warnings.simplefilter("ignore", DeprecationWarning)
from fiol import FIOL, Constant, Learner, Logistic, Squared

used = Learner(FIOL(Squared(), step_size=Constant(0.1)))
used.learn_named({"a": 1.0}, 1.0)
busy = Learner(FIOL(Logistic(), step_size=Constant(0.1)))
thread = threading.Thread(target=lambda: busy.learn_named({"a": 1.0}, 1.0))
thread.start()
children = []
for delay in (0.0, 0.7):
    time.sleep(delay)
    children.append(os.fork())
    if children[-1]:
        continue
    try:
        used.learn_named({"a": 1.0, "b": 2.0}, 1.0)
        Learner(FIOL(Logistic(), step_size=Constant(0.1))).learn_named({"a": 1.0}, 1.0)
        try:
            busy.learn_named({"a": 1.0}, 1.0)
        except RuntimeError as error:
            assert "forked while another thread" in str(error), error
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)
thread.join()
print(*[os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children], busy.rounds)
"""


@pytest.mark.skipif(not hasattr(os, "fork") or bool(config.DISABLE_JIT), reason="no fork, or nothing is compiled")
def test_fork_while_another_thread_compiles(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", FORK_WHILE_COMPILING]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300.0, check=False)
    assert done.stdout.split() == ["0", "0", "1"], done.stderr


def test_free_threaded_python_is_refused_at_import():
    script = (
        "import sysconfig; real = sysconfig.get_config_var; "
        "sysconfig.get_config_var = lambda name: 1 if name == 'Py_GIL_DISABLED' else real(name); import fiol"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60.0, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ImportError: fiol does not run on a free-threaded build of Python")


# --- reading writes nothing -------------------------------------------------------------------


def everything(value, seen=None):
    """Return the whole state of a model by value, capacities and caches included."""
    seen = {} if seen is None else seen
    if id(value) in seen or type(value).__module__.startswith("fiol.components"):
        return None
    seen[id(value)] = value
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype, value.tobytes()
    if isinstance(value, dict):
        return {
            key: everything(child, seen) for key, child in value.items() if key not in ("bound", "_lock", "buffers")
        }
    if isinstance(value, (list, tuple)):
        return [everything(child, seen) for child in value]
    if type(value).__module__.startswith("fiol.") and hasattr(value, "__dict__"):
        return {**everything(vars(value), seen), "names": list(value) if isinstance(value, dict) else None}
    return repr(value)


@pytest.mark.parametrize("kind", KINDS)
def test_reading_changes_no_state(kind, tmp_path):
    work = Calls(kind, compiled=False)
    model, rng = work.new(), random.Random(3)
    for _ in range(4):
        model.learn(*work.rows(rng, 5))
    X, _ = work.rows(rng, 5)
    if work.named and kind != "hashed":  # a hash is remembered: the same in every thread
        X.append({"never seen": 1.0, "a": "text"})
    elif not work.named:
        X = sparse.csr_matrix([[*row, *[1.0] * 20] for row in X])  # features beyond those seen
    model.scores(X)
    before = everything(model)
    said = model.scores(X)
    for read in (
        lambda: model.predict(X),
        lambda: [model.score_named(row) for row in X] if work.named else model.score_one([70], [1.0]),
        lambda: model.weights,
        lambda: model.intercept,
        lambda: (model.names, model.classes, model.rounds, model.rows, model.nbytes, repr(model)),
        lambda: model.save(tmp_path / "model"),
        lambda: pickle.dumps(model),
        lambda: (model.copy(), copy.deepcopy(model), model.snapshot()),
        lambda: type(model).merge([model, work.partner]),
        lambda: model.with_update(model.update),
    ):
        read()
        assert everything(model) == before
    assert model.scores(X).tobytes() == said.tobytes()


@pytest.mark.parametrize("kind", RIVERS)
def test_reading_river_models_changes_no_state(kind, monkeypatch):
    interpret(monkeypatch)
    interpret_ensembles(monkeypatch)  # parts note their compiled types when first asked, which is no reading
    model, rng = RIVERS[kind](), random.Random(3)
    for number in range(20):
        river_call(model, number, writing=True)
    strange = [{"never seen": 1.0, "f1": "text"}, {"f2": 1e30, "f3": True}, {}]
    before, said = everything(model), [model.predict_one(x) for x in strange]
    for read in (
        lambda: kind in ("two labels", "joint") and [model.predict_proba_one(x) for x in strange],
        lambda: model.predict_many(pd.DataFrame({"f1": [1.0], "new": [2.0]})),
        lambda: (model.weights, model.intercept, repr(model), str(model)),
        lambda: (pickle.dumps(model), copy.deepcopy(model), model.clone()),
        lambda: [river_call(model, rng.randrange(1000), writing=False) for _ in range(20)],
    ):
        read()
        assert everything(model) == before
    assert [model.predict_one(x) for x in strange] == said


def test_weights_of_declared_columns_without_rows():
    """For a learner extended by columns that no row has had."""
    learner = Learner(LASSO, compiled=False)
    learner.learn([[1.0, 0.0]], [1.0])
    learner.core.extend(9)
    capacity = learner.nbytes
    assert learner.weights.shape == (9,)
    assert not learner.weights[2:].any()
    assert learner.nbytes == capacity


# --- snapshots --------------------------------------------------------------------------------


def models():
    return {
        "one score": Learner(LASSO, compiled=False),
        "joint": Learner(FIOL(Softmax()), compiled=False),
        "one-vs-rest": OneVsRest(LASSO, compiled=False),
    }


@pytest.mark.parametrize("kind", models())
def test_snapshot_keeps_the_model_of_its_moment(kind):
    model = models()[kind]
    y = Y if kind == "one score" else ["pear", "apple", "pear"]
    model.learn(X, y)
    said = model.scores(X), model.predict(X), model.weights, model.intercept
    then = model.snapshot()
    names, classes = model.names, model.classes
    model.learn([{"a": 5.0, "new": 1.0}], y[:1])
    model.learn([{"a": 5.0}], [-1.0 if kind == "one score" else "fig"])
    for one in (then, pickle.loads(pickle.dumps(then)), copy.deepcopy(then)):
        found = one.scores(X), one.predict(X), one.weights, one.intercept
        assert all(np.array_equal(a, b) for a, b in zip(found, said, strict=True))
        assert (one.names, one.classes, one.rounds, one.rows, one.n_features) == (names, classes, 3, 3, 3)
        assert np.array_equal(one.score_named(X[0]), said[0][0])
        assert np.array_equal(one.predict_named(X[0]), said[1][0])
        assert repr(one).startswith("<Snapshot of <")
    if kind == "one-vs-rest":
        np.testing.assert_allclose(then.probabilities(X).sum(axis=1), 1.0)
    elif kind == "one score":
        with pytest.raises(TypeError, match="use predict"):
            then.probabilities(X)
    then.weights[...] = 7.0
    assert np.array_equal(then.weights, said[2])
    with pytest.raises(AttributeError, match="does not change"):
        then.rounds = 5
    assert not hasattr(then, "learn")


def test_snapshot_predicts_without_the_lock():
    learner = Learner(LASSO, compiled=False)
    learner.learn(X, Y)
    then = learner.snapshot()
    with learner.core.lock:
        assert in_another_thread(lambda: then.predict(X)) is not None
        waiting = threading.Thread(target=lambda: learner.predict(X))
        waiting.start()
        waiting.join(0.1)
        assert waiting.is_alive()
        assert learner.rounds == in_another_thread(lambda: learner.rounds) == 3
    waiting.join()


def test_long_predictions_do_not_block_other_threads(monkeypatch):
    monkeypatch.setattr(model_core, "ENTRIES_PER_BYTE", 0)
    scores, free = UpdateEngine.scores, []
    for model, y in ((Learner(LASSO, compiled=False), Y), (OneVsRest(LASSO, compiled=False), ["a", "b", "c"])):
        model.learn(X, y)
        expected = model.snapshot().scores(X)

        def turn(model=model):
            return model.core.lock.acquire(blocking=False) and (model.core.lock.release() or True)

        def watched(self, *arguments, turn=turn):
            free.append(in_another_thread(turn))
            return scores(self, *arguments)

        monkeypatch.setattr(UpdateEngine, "scores", watched)
        assert model.scores(X).tobytes() == expected.tobytes()
        monkeypatch.setattr(UpdateEngine, "scores", scores)
    assert free
    assert all(free)


# --- locks stay where they are ----------------------------------------------------------------


@pytest.mark.parametrize("kind", models())
def test_copy_has_its_own_lock(kind, tmp_path):
    model = models()[kind]
    model.learn(X, Y if kind == "one score" else ["pear", "apple", "pear"])
    with model.core.lock:
        model.save(tmp_path / "model")
        others = [model.copy(), copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
        others += [
            fiol.load(tmp_path / "model", compiled=False),
            type(model).merge([model]),
            model.with_update(model.update),
        ]
        for other in others:
            assert other.core.lock is not model.core.lock
            assert in_another_thread(lambda other=other: other.predict(X)) is not None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fork_during_a_call_marks_the_model_as_unusable():
    """A child can use idle models, and gets an error for a model that another thread was using."""
    learner, idle = Learner(LASSO, compiled=False), Learner(LASSO, compiled=False)
    learner.learn(X, Y)
    then, held, done = learner.snapshot(), threading.Event(), threading.Event()

    def hold():
        with learner.core.lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    pid = os.fork()
    if pid == 0:  # whatever is raised, this process ends here
        try:
            idle.learn(X, Y)
            then.predict(X)
            for use in (lambda: learner.learn(X, Y), lambda: learner.weights, lambda: learner.learn_named(X[0], 1.0)):
                with pytest.raises(RuntimeError, match="forked while another thread"):
                    use()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    done.set()
    thread.join()
    assert learner.learn(X, Y).shape == (3,)


@pytest.mark.parametrize("kind", [fiol.OneVsRest, fiol.Learner])
def test_labels_match_the_classes_at_scoring_time(kind):
    loss = fiol.Hinge() if kind is fiol.OneVsRest else fiol.CrammerSinger()
    model = kind(fiol.FIOL(loss), compiled=False)
    labels = model.core.predictions
    none = model.scores([[1.0]])
    model.learn([[1.0], [-1.0]], ["a", "b"])
    scores, before = model.scores([[1.0]]), model.predict([[1.0]])
    model.learn([[0.5]], ["a much longer name"])  # as another thread may, between scores and labels
    assert labels(scores).dtype == before.dtype
    assert labels(scores).tolist() == before.tolist()
    with pytest.raises(ValueError, match="there are no classes yet"):
        labels(none)
