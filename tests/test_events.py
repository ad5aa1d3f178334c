"""Single events: the fast path matches the fallback bitwise, for any row."""

import gc
import sys
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import config

import fiol
from fiol import FIOL, Hinge, Learner, OneVsRest, Squared
from fiol.compiler import addresses
from fiol.engine.single_row.fast_path import NO_FAST_PATH
from fiol.river import FIOLClassifier, FIOLRegressor


class Text(str):
    """A name that is a str, but not exactly."""


class Rude(str):
    """A name that does not want to be compared."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other):
        raise RuntimeError("no")


class Number(float):
    """A value that is a float, but not exactly."""


NAMES = st.one_of(
    st.sampled_from(["a", "b", "c", "d=x", "é", "a" * 40, 0, 1, 7, -3, 2**70]),
    st.sampled_from([Text("a"), np.str_("b"), np.int64(1), True, 1.5, None, ("a", 1)]),
)
VALUES = st.one_of(
    st.floats(-1e3, 1e3),
    st.sampled_from([0.0, -0.0, 1e-200, 1e200, 1e100, 1e-100, float("nan"), float("inf"), 10**400, 2**62, 2**64, -5]),
    st.sampled_from([True, False, np.float64(2.5), np.float32(0.5), np.int64(3), Number(1.25), "x", None, [1.0], b"1"]),
)
ROWS = st.lists(st.tuples(st.dictionaries(NAMES, VALUES, max_size=6), st.sampled_from([dict, OrderedDict])), max_size=5)


def outcome(call, *arguments):
    """Return the result of a call, or the error it raises."""
    try:
        return call(*arguments)
    except Exception as error:
        return type(error), str(error)


def careful(learner):
    """Return the learner with every event sent to the fallback."""
    learner.engine.__class__ = type(
        "Careful", (type(learner.engine),), {"prepare_fast_path": lambda *_, **__: NO_FAST_PATH}
    )
    return learner


def state(learner):
    return (
        learner.names,
        learner.n_features,
        learner.rounds,
        {name: a.tobytes() for name, a in learner.core.arrays().items()},
    )


@pytest.mark.parametrize("options", [{}, {"bits": 3}, {"max_features": 100}], ids=str)
@given(rows=ROWS, seed=st.integers(0, 3))
def test_fast_path_events_match_fallback(options, rows, seed):
    rng = np.random.default_rng(seed)
    fast, slow = Learner(FIOL(Squared()), **options), careful(Learner(FIOL(Squared()), **options))
    for row, kind in [({"a": 1.0, "b": 2.0}, dict), *rows, *rows]:
        x, y = kind(row), float(rng.normal())
        for call in ("score_named", "predict_named"):
            assert repr(outcome(getattr(fast, call), x)) == repr(outcome(getattr(slow, call), x))
        weight = 1.0 if rng.random() < 0.8 else 0.5
        assert repr(outcome(fast.learn_named, x, y, weight)) == repr(outcome(slow.learn_named, x, y, weight))
        assert fast.names == slow.names
        assert fast.n_features == slow.n_features
        assert fast.weights.tobytes() == slow.weights.tobytes()
    assert fast.rounds == slow.rounds


@given(rows=st.lists(st.dictionaries(NAMES, VALUES, max_size=5), max_size=4))
def test_river_events_match_learner(rows):
    model, learner = FIOLRegressor(), careful(Learner(loss=Squared()))
    for x in rows:
        if all(type(name) in (str, int) for name in x):
            assert repr(outcome(model.predict_one, x)) == repr(outcome(learner.predict_named, x))
            found = outcome(model.learn_one, x, 1.0)
            expected = outcome(learner.learn_named, x, 1.0)
            assert isinstance(found, tuple) == isinstance(expected, tuple)
            assert model._space.features == learner.n_features == model.learner.n_features
            assert list(model._space.names) == (learner.names or [])


@pytest.mark.parametrize("y", [float("nan"), 1e300, 10**400, "1", None, True])
@pytest.mark.parametrize("x", [{"a": 1.0, "new": 2.0}, {"a": 1.0}])
def test_rejected_target_adds_no_name(x, y):
    learner = Learner(FIOL(Squared()))
    for _ in range(3):
        learner.learn_named({"a": 1.0, "b": 2.0}, 1.0)
    before, expected = state(learner), outcome(careful(learner.copy()).learn_named, x, y)
    assert repr(outcome(learner.learn_named, x, y)) == repr(expected)
    if isinstance(expected, tuple):
        assert state(learner) == before


def test_names_whose_comparison_raises():
    learner = Learner(FIOL(Squared()))
    learner.learn_named({Rude("a"): 1.0, "b": 2.0}, 1.0)
    assert [type(name) for name in learner.names] == [str, str]
    for _ in range(3):
        learner.learn_named({"a": 1.0, "b": 2.0}, 1.0)
    assert learner.names == ["a", "b"]


def test_events_keep_reference_counts():
    learner = Learner(FIOL(Squared()))
    x = {f"name {k}": 1.5 + k for k in range(20)}
    learner.learn_named(x, 1.0)
    y, weight = 0.5, 1.25
    learner.learn_named(x, y, weight), learner.score_named(x), learner.predict_named(x)
    things = [
        *x,
        *x.values(),
        x,
        y,
        weight,
        learner.core.space.encoder.known,
        learner.core.space.encoder.names,
    ]
    before = list(map(sys.getrefcount, things))
    for _ in range(100):
        learner.learn_named(x, y, weight), learner.score_named(x), learner.predict_named(x)
        learner.score_named({"name 1": 1.0, "unknown": 2.0}), outcome(learner.score_named, {"name 1": "a"})
    gc.collect()
    after = list(map(sys.getrefcount, things))
    assert all(abs(a - b) <= 20 for a, b in zip(after, before, strict=True))


def test_fast_path_functions_are_dropped_when_arrays_are_replaced():
    learner = Learner(FIOL(Squared()))
    for k in range(40):
        learner.learn_named({f"name {k}": 1.0, "all": 2.0}, 1.0)
    x = {"name 3": 1.0, "all": 1.0}
    twin = learner.copy()
    assert twin.score_named(x) == learner.score_named(x) == learner.scores([x])[0]
    for change in (lambda: learner.settle(), lambda: learner.learn([x], [5.0]), lambda: learner.prune()):
        change()
        assert learner.score_named(x) == learner.scores([x])[0]
    twin.learn_named(x, 3.0)
    assert learner.score_named(x) == learner.scores([x])[0] != twin.score_named(x)


def test_events_of_index_and_value_arrays():
    learner, twin = Learner(FIOL(Squared())), Learner(FIOL(Squared()))
    rng = np.random.default_rng(0)
    for _ in range(50):
        indices = rng.choice(40, rng.integers(0, 12), replace=False).astype(np.int32)
        values, y = rng.normal(size=len(indices)), float(rng.normal())
        if rng.random() < 0.5:
            indices.sort()
        assert learner.score_one(indices, values) == twin.score_one(indices.tolist(), values.tolist())
        assert learner.learn_one(indices, values, y) == twin.learn_one(indices.tolist(), values.tolist(), y)
        assert learner.n_features == twin.n_features
    assert learner.weights.tobytes() == twin.weights.tobytes()
    assert repr(outcome(learner.learn_named, {"a": 1.0}, 1.0)) == repr(outcome(twin.learn_named, {"a": 1.0}, 1.0))
    assert (learner.n_features, learner.names) == (twin.n_features, twin.names)
    with pytest.raises(ValueError, match="at least 0"):
        learner.learn_one(np.array([-1], np.int32), np.array([1.0]), 1.0)
    assert learner.rounds == 50


@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="the interpreter has no fast path")
def test_integer_targets_and_weights_go_through_the_fast_path(monkeypatch):
    learner, chunked = (Learner(FIOL(Squared())) for _ in range(2))
    for _ in range(40):  # until the learner has its functions
        assert learner.learn_named({"a": 1.0, "b": 2.0}, 1.5) == chunked.learn([{"a": 1.0, "b": 2.0}], [1.5])[0]
    monkeypatch.setattr(learner.core, "learn_dict", None)
    for y, weight in ((-1, 2), (np.int64(3), 1.0), (np.float64(0.5), np.int64(2))):
        assert learner.learn_named({"a": 1.0}, y, weight) == chunked.learn([{"a": 1.0}], [y], [weight])[0]
    assert state(learner) == state(chunked)


def test_events_of_a_two_label_classifier():
    model, labels = FIOLClassifier(), [True, False, 1, 0, np.bool_(True)]
    for k in range(30):
        model.learn_one({"a": 1.0 * k, f"name {k}": 1.0}, labels[k % 5])
    assert model.rounds == 30
    x = {"a": 2.0, "name 3": 1.0, "never": 1.0}
    p = model.predict_proba_one(x)
    assert list(p) == [False, True]
    assert model.predict_one(x) is (p[True] > 0.5)
    assert p[True] == model.model.core.probabilities(model.model.core.score_canonical(model._space.read([x])))[0, 1]


def test_interpreter_has_no_fast_path():
    learner = Learner(FIOL(Squared()), compiled=False)
    learner.learn_named({"a": 1.0}, 1.0)
    learner.learn_named({"a": 1.0}, 1.0)
    assert learner.engine.fast_path is NO_FAST_PATH


CALLS = ("learn", "predict")
#: Models, and the targets of their events.
MODELS = {
    "river-regressor": (lambda: FIOLRegressor(), [0.5, -1.0, 2.0]),
    "river-two-labels": (lambda: FIOLClassifier(), [True, False, True]),
    "river-three-labels": (lambda: FIOLClassifier("hinge", step_size="single"), ["a", "b", "c"]),
    "one-vs-rest": (lambda: OneVsRest(FIOL(Hinge())), ["a", "b", "c"]),
}


@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")
@pytest.mark.parametrize("value", ["red", np.float32(0.5)], ids=["text", "float32"])
@pytest.mark.parametrize("kind", MODELS)
def test_fast_path_functions_are_not_rebuilt_per_event(kind, value, monkeypatch):
    make, targets = MODELS[kind]
    model, built = make(), []
    learn, predict = (getattr(model, f"{call}_{'named' if kind == 'one-vs-rest' else 'one'}") for call in CALLS)

    def count(*arguments, make=addresses.StoredValues):
        built.append(arguments)
        return make(*arguments)

    monkeypatch.setattr(addresses, "StoredValues", count)

    def run(number):
        for k in range(number):
            x = {"a": 0.5 * k, "b": 1.0, **({"color": value} if k % 2 else {})}
            learn(x, targets[k % 3])
            predict(x)

    run(60)  # until the model has its functions
    assert built
    built.clear()
    run(50)
    assert built == []


@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="the interpreter has no fast path")
@pytest.mark.parametrize("options", [{}, {"bits": 2}], ids=["named", "hashed"])
def test_known_text_goes_through_the_fast_path(options, monkeypatch):
    """Also where a name and a text are one feature, or features share a hash: values add up in the order of the row."""
    x = {"a": 0.1, "color": "red", 7: "odd", "b": 0.7, "color=red": 0.2, "c": 1e-3, "d": 3.3}
    learner, chunked = (Learner(FIOL(Squared()), **options) for _ in range(2))
    for _ in range(40):
        expected = chunked.learn([x], [1.0])[0]
        assert learner.learn_named(x, 1.0) == expected
    row = {name: value for name, value in x.items() if name != 7} | {"size": "L"}
    for one in (learner, chunked):
        one.learn([row], [1.0])
    learner.learn_named(row, 0.5)
    chunked.learn([row], [0.5])
    learner.score_named(row)
    for name in ("learn_dict", "score_dict"):
        monkeypatch.setattr(learner.core, name, None)
    assert learner.learn_named(row, 2.0) == chunked.learn([row], [2.0])[0]
    assert learner.score_named(row) == chunked.scores([row])[0]
    assert state(learner) == state(chunked)


def test_text_values_match_numeric_categories():
    model, twin = FIOLRegressor(), FIOLRegressor()
    rng = np.random.default_rng(0)
    for k in range(120):
        color = f"color {rng.integers(k + 1)}"
        x = {"a": float(rng.normal()), "color": color, 7: "x", f"name {k}": 1.0}
        y = {"a": x["a"], f"color={color}": 1.0, "7=x": 1.0, f"name {k}": 1.0}
        assert model.predict_one(x) == twin.predict_one(y)
        target = float(rng.normal())
        model.learn_one(x, target), twin.learn_one(y, target)
    assert list(model._space.names) == list(twin._space.names)
    assert model.weights == twin.weights
    model.learn_one({"a": "b", "a=b": 2.0}, 1.0), twin.learn_one({"a=b": 3.0}, 1.0)  # one name: values add up
    assert model.weights == twin.weights


def rows_of(count, columns=12):
    """Rows of named numbers far from 0, which become centered, and targets far from 0."""
    draw = np.random.default_rng(3)
    table, y = 50.0 + draw.normal(size=(count, columns)), 1e3 + draw.normal(size=count)
    return [{f"column {k}": float(x) for k, x in enumerate(row)} for row in table], y.tolist()


@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="the interpreter has no fast path")
@pytest.mark.parametrize("predicting", [False, True], ids=["learning", "predicting"])
@pytest.mark.parametrize(("loss", "chunks"), [("logistic", 0), ("squared", 1)])
def test_first_events_of_a_model_are_no_chunks(loss, chunks, predicting, monkeypatch):
    """Not the first one, and not those after which something is decided: only a first target becomes the origin."""
    rows, y = rows_of(30)
    y = y if loss == "squared" else [1.0 if target > 1e3 else -1.0 for target in y]
    model, chunked, learned = Learner(loss=loss), Learner(loss=loss), []
    learn = type(model.engine).learn

    def counted(engine, *arguments):
        learned.append(engine)
        return learn(engine, *arguments)

    monkeypatch.setattr(type(model.engine), "learn", counted)
    scores = []
    for x, target in zip(rows, y, strict=True):
        if predicting:
            model.predict_named(x)
        scores.append(model.learn_named(x, target))
    monkeypatch.undo()
    assert len(learned) == chunks
    assert scores == [float(chunked.learn([x], [target])[0]) for x, target in zip(rows, y, strict=True)]
    assert state(model) == state(chunked)
    assert len(model.engine.centering.features) == 12


def interrupted_at(step, call, visited=None):
    """Make a call that is interrupted at this line of the package, from 0; return whether it has that many lines.

    The lines go into the list `visited`, if there is one.
    """
    left, folder, before = [step], str(Path(fiol.__file__).parent), sys.gettrace()

    def trace(frame, event, _):
        name = frame.f_code.co_filename
        if not name.startswith(folder) or "compiler" in name:
            return None
        if event == "line":
            if visited is not None:
                visited.append((name, frame.f_lineno))
            left[0] -= 1
            if left[0] < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="the interpreter has no fast path")
@pytest.mark.parametrize("one_by_one", [True, False], ids=["events", "chunks"])
@pytest.mark.parametrize("last", [4, 16])
def test_event_interrupted_at_any_line_makes_its_decision_or_no_round(last, one_by_one):
    """At the first visit of every line."""
    draw = np.random.default_rng(0)
    rows = [{"a": 1000.0 + draw.normal(), "b": draw.normal()} for _ in range(20)][:last]
    y = (50.0 + draw.normal(size=last)).tolist()
    before = Learner(loss="squared")
    before.learn(rows[:-1], y[:-1])

    def learn(model):
        return (model.learn_named if one_by_one else model.learn)(*event)

    event = (rows[-1], y[-1]) if one_by_one else (rows[-1:], y[-1:])
    learn(before.copy())  # a first call loads and prepares more than later ones
    expected, visited, rounds = before.copy(), [], set()
    assert not interrupted_at(10**9, lambda: learn(expected), visited)
    steps, expected = {line: k for k, line in reversed([*enumerate(visited)])}, state(expected)
    for step in steps.values():
        model = before.copy()
        assert interrupted_at(step, lambda: learn(model))  # noqa: B023
        rounds.add(model.rounds)
        if model.rounds < last:
            model.learn_named(rows[-1], y[-1])
        assert state(model) == expected, step
    assert len(steps) > 50
    assert rounds == {last - 1, last}


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_zeros_of_an_event_do_not_count_among_its_entries(loss):
    """Columns in random order are centered if they are most entries of a row."""
    draw = np.random.default_rng(0)
    X, y = np.zeros((20, 9)), draw.choice([-1.0, 1.0], 20)
    X[:, :3] = draw.normal(1.0, 0.3, (20, 3))
    model, chunked = Learner(loss=loss), Learner(loss=loss)
    for x, target in zip(X, y, strict=True):
        model.learn_one(np.arange(9, dtype=np.int32), x, target)
    chunked.learn(X, y)
    assert model.engine.centering.features.tolist() == [0, 1, 2]
    assert model.weights.tolist() == chunked.weights.tolist()
    assert model.intercept == chunked.intercept
