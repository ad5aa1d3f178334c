"""Models of several classes, joint and one-vs-rest, keep the guarantees of learners."""

import copy
import dataclasses
import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import fiol
from fiol import OneVsRest
from fiol.features.labels import AnyLabels
from fiol.persistence import model_file
from fiol.persistence.model_file import ModelFileError
from fiol.regret import Ledger

UPDATES = {
    "softmax": fiol.FIOL(fiol.Softmax()),
    "softmax, ridge": fiol.FIOL(fiol.Softmax(), fiol.Ridge(0.1), fiol.Polynomial()),
    "crammer-singer": fiol.FIOL(fiol.CrammerSinger(), step_size=fiol.Constant(0.5)),
    "SGD, l1": fiol.SGD(fiol.Softmax(), fiol.L1(0.01)),
    "COMID, net": fiol.COMID(fiol.CrammerSinger(), fiol.ElasticNet(0.01, 0.01), fiol.AdaGrad()),
    "RDA, l1": fiol.RDA(fiol.Softmax(), fiol.L1(0.01)),
    "FTRL-proximal": fiol.FTRLProximal(fiol.Softmax(), fiol.L1(0.01)),
    "implicit FTRL": fiol.ImplicitFTRL(fiol.Softmax(), fiol.Ridge(0.01)),
    "rest, logistic": fiol.FIOL(fiol.Logistic(), fiol.L1(0.01)),
    "rest, hinge": fiol.FIOL(fiol.Hinge(), fiol.Ridge(0.1), fiol.Constant(0.5)),
    "rest, FTRL": fiol.FTRLProximal(fiol.Logistic(), fiol.L1(0.01)),
}
FEW = ("softmax", "crammer-singer", "rest, logistic")
NAMES = ["day", "hour", "site", "size"]
FRUIT = ["pear", "apple", "fig", "kiwi"]


def new(name, **options):
    kind = OneVsRest if name.startswith("rest") else fiol.Learner
    return kind(UPDATES[name], compiled=False, **options)


def rows(n=24, seed=0):
    """Return rows whose features and classes appear one at a time."""
    draw = np.random.default_rng(seed)
    X = draw.normal(size=(n, 4)).round(2) * (draw.random((n, 4)) < 0.7)
    late = np.arange(n)[:, None] // 5 < np.arange(4)
    X[late] = 0.0
    X[[0, 5, 10, 15][: -(-n // 5)], range(min(4, -(-n // 5)))] = 1.5
    y = [FRUIT[min(k // 6, draw.integers(4))] for k in range(n)]
    return X, y, draw.choice([0.5, 1.0, 2.0], n)


def state(model):
    """Return the learned state of a model as lists."""
    parts = model.weights, model.intercept, np.array(model.classes, object), np.array(model.rounds)
    return [np.asarray(part).tolist() for part in parts] + [model.n_features]


def stored(model, path):
    model.save(path)
    return fiol.load(path, compiled=False)


# --- the same bits ----------------------------------------------------------------------------


OPTIONS = {"plain": {}, "averages": {"average": True}, "no intercept": {"intercept": False}}
CASES = [(name, options) for name in UPDATES for options in OPTIONS.values()]


@pytest.mark.parametrize(("name", "options"), [*CASES, *((name, {"dtype": "float32"}) for name in FEW)], ids=str)
def test_class_models_have_the_same_bits_for_any_chunking_copy_and_file(name, options, tmp_path):
    X, y, weight = rows()
    whole = new(name, **options)
    expected = whole.learn(X, y, weight)
    assert expected.shape == (24, 4)
    assert whole.classes == list(dict.fromkeys(y))
    parts, found = new(name, **options), np.zeros(expected.shape)
    holders = itertools.cycle([lambda rows: rows.tolist(), np.asarray, sparse.csc_matrix, sparse.csr_matrix])
    keepers = itertools.cycle(
        [lambda m: pickle.loads(pickle.dumps(m)), lambda m: m.copy(), lambda m: stored(m, tmp_path / "model")]
    )
    for start, stop in itertools.pairwise([0, 1, 2, 7, 7, 13, 20, 24]):
        part = slice(start, stop)
        scores = parts.learn(next(holders)(X[part]), np.array(y[part], object), weight[part])
        found[part, : scores.shape[1]] = scores
        parts = next(keepers)(parts)
    assert np.array_equal(found, expected)
    assert state(parts) == state(whole)
    assert np.array_equal(parts.scores(X), whole.scores(X))
    assert np.array_equal(parts.predict(X), whole.predict(X))


@pytest.mark.parametrize("name", FEW)
@given(cuts=st.lists(st.integers(0, 24), max_size=6), seed=st.integers(0, 5))
@settings(max_examples=15)
def test_class_models_are_invariant_to_random_chunking(name, cuts, seed):
    X, y, weight = rows(seed=seed)
    whole, parts = new(name), new(name)
    expected, found = whole.learn(X, y, weight), []
    for start, stop in itertools.pairwise([0, *sorted(cuts), 24]):
        found.append(parts.learn(X[start:stop], y[start:stop], weight[start:stop]))
    for some, start in zip(found, [0, *sorted(cuts)], strict=True):
        wide = np.zeros((len(some), 4))
        wide[:, : some.shape[1]] = some
        assert np.array_equal(wide, expected[start : start + len(some)])
    assert state(parts) == state(whole)


@pytest.mark.parametrize("name", UPDATES)
def test_class_models_learn_single_rows_and_dicts(name):
    """Features and classes are numbered as they appear, so that names are in the order of columns."""
    X, y, weight = rows()
    whole, one, named, many = (new(name) for _ in range(4))
    expected = whole.learn(X, y, weight)
    dicts = [{NAMES[i]: x for i, x in enumerate(row) if x} for row in X.tolist()]
    for k, (row, label) in enumerate(zip(X, y, strict=True)):
        seen = np.flatnonzero(row).astype(np.int32)
        for z in (one.learn_one(seen, row[seen], label, weight[k]), named.learn_named(dicts[k], label, weight[k])):
            assert np.array_equal(z, expected[k, : len(z)])
            assert not expected[k, len(z) :].any()
    scores = many.learn((row for row in dicts), y, weight)
    assert np.array_equal(scores, expected)
    assert named.names == many.names == NAMES
    for other in (one, named, many):
        assert state(other) == state(whole)
    assert np.array_equal(named.score_named(dicts[3]), whole.scores(X[3:4])[0])
    assert np.array_equal(named.scores(iter(dicts)), whole.scores(X))


@pytest.mark.parametrize("name", FEW)
def test_hashed_features_match_their_numbers(name, tmp_path):
    X, y, weight = rows()
    hashed, wide = new(name, bits=5), new(name, n_features=32)
    scores = wide.learn(np.hstack([X, np.zeros((24, 28))]), y, weight)
    assert np.array_equal(hashed.learn(np.hstack([np.zeros((24, 32)), X]), y, weight), scores)
    assert state(hashed) == state(wide)
    words = new(name, bits=5)
    for row, label in zip(X.tolist(), y, strict=True):
        words.learn_named(dict(zip(NAMES, row, strict=True)), label)
        words = stored(words, tmp_path / "model")
    again = new(name, bits=5)
    again.learn([dict(zip(NAMES, row, strict=True)) for row in X.tolist()], y)
    assert state(again) == state(words)


@pytest.mark.parametrize("name", FEW)
def test_learning_by_order_matches_reordered_rows(name):
    X, y, weight = rows()
    order = [7, 3, 23, 3, 12]
    some, all_of_them = new(name), new(name)
    chunk = fiol.to_chunk(X)
    scores = some.learn_chunk(chunk, y, weight, order=order)
    expected = all_of_them.learn_chunk(chunk.take(order), [y[k] for k in order], weight[order])
    assert state(some)[:4] == state(all_of_them)[:4]
    assert np.array_equal(scores[[7, 23, 3, 12]], expected[[0, 2, 3, 4]])
    assert not np.delete(scores, order, axis=0).any()
    again = some.learn_chunk(chunk, y, weight, order=order)  # no class is new
    assert np.array_equal(
        again[order[2:]], all_of_them.learn_chunk(chunk.take(order), [y[k] for k in order], weight[order])[2:]
    )


# --- classes that appear ----------------------------------------------------------------------


@pytest.mark.parametrize("loss", [fiol.Softmax(), fiol.CrammerSinger()], ids=repr)
def test_new_class_starts_at_zero(loss):
    """Against a loop over classes there are, by the optimality of the whole matrix."""
    X, y, weight = rows()
    learner = fiol.Learner(fiol.FIOL(loss, step_size=fiol.Constant(0.5)), compiled=False)
    scores = learner.learn(X, y, weight)
    known, W, b = [], np.zeros((0, 4)), np.zeros(0)
    for x, label, c, z in zip(X, y, weight, scores, strict=True):
        if label not in known:
            known, W, b = [*known, label], np.vstack([W, np.zeros(4)]), np.append(b, 0.0)
        q, beta = W @ x + b, np.empty(len(known))
        np.testing.assert_allclose(z[: len(known)], q, rtol=1e-9, atol=1e-12)
        assert not z[len(known) :].any()
        loss.duals(q, c * 0.5 * (x @ x + 1.0), known.index(label), beta)
        W, b = W + 0.5 * c * np.outer(beta, x), b + 0.5 * c * beta
    assert learner.classes == known
    np.testing.assert_allclose(learner.weights, W, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(learner.intercept, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in UPDATES if name.startswith("rest")])
@pytest.mark.parametrize("closed", [False, True])
def test_late_class_matches_a_learner_trained_from_the_start(name, closed):
    X, y, weight = rows()
    model = new(name, classes=FRUIT if closed else None)
    for start in range(0, 24, 5):
        model.learn(X[start : start + 5], y[start : start + 5], weight[start : start + 5])
    for k, label in enumerate(model.classes):
        alone = fiol.Learner(UPDATES[name], n_features=4, compiled=False)
        alone.learn(X, [1.0 if each == label else -1.0 for each in y], weight)
        assert np.array_equal(model.weights[k], alone.weights)
        assert model.intercept[k] == alone.intercept
        assert np.array_equal(model.scores(X)[:, k], alone.scores(X))
    assert model.rounds == model.rows == 24


def test_two_fixed_classes_use_one_learner():
    X, y, weight = rows()
    y = [label == "pear" for label in y]
    model, alone = new("rest, logistic", classes=[False, True]), fiol.Learner(UPDATES["rest, logistic"], compiled=False)
    z = alone.learn(X, [1.0 if label else -1.0 for label in y], weight)
    assert np.array_equal(model.learn(X, np.array(y), weight), np.column_stack([-z, z]))
    assert list(model.learners) == [True]
    assert np.array_equal(model.weights, [-alone.weights, alone.weights])
    assert np.array_equal(model.intercept, [-alone.intercept, alone.intercept])
    p = alone.predict(X)
    assert np.array_equal(model.probabilities(X), np.column_stack([1.0 - p, p]))
    assert np.array_equal(model.predict(X), p > 0.5)
    z = alone.score_one([0], [1.0])
    assert np.array_equal(model.learn_one([0], [1.0], True), [-z, z])


def test_one_vs_rest_probabilities_sum_to_one():
    X, y, _ = rows()
    model = new("rest, logistic")
    model.learn(X, y)
    p = 1.0 / (1.0 + np.exp(-model.scores(X)))
    np.testing.assert_allclose(model.probabilities(X), p / p.sum(axis=1, keepdims=True), rtol=1e-12)
    assert model.predict(X).tolist() == [model.classes[k] for k in model.scores(X).argmax(axis=1)]
    with pytest.raises(TypeError, match="Hinge has no probabilities"):
        new("rest, hinge").probabilities(X)


def test_predictions_from_class_scores():
    X, y, _ = rows()
    for name in ("softmax", "crammer-singer"):
        model = new(name)
        model.learn(X, y)
        scores = model.scores(X)
        np.testing.assert_allclose(scores, X @ model.weights.T + model.intercept, rtol=1e-9, atol=1e-12)
        if name == "softmax":
            p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
            np.testing.assert_allclose(model.predict(X), p, rtol=1e-12)
        else:
            assert model.predict(X).tolist() == [model.classes[k] for k in scores.argmax(axis=1)]


@pytest.mark.parametrize("name", FEW)
def test_class_models_before_the_first_row(name, tmp_path):
    model = stored(new(name).copy(), tmp_path / "model")
    assert model.classes == []
    assert model.scores([[1.0, 2.0]]).shape == (1, 0)
    assert model.learn([], []).shape == (0, 0)
    assert model.weights.shape == (0, 0)
    assert model.intercept.shape == (0,)
    if name != "softmax":
        with pytest.raises(ValueError, match="no classes yet"):
            model.predict([[1.0]])
    else:
        assert model.predict([[1.0]]).shape == (1, 0)


# --- nothing or all ---------------------------------------------------------------------------

WRONG = [
    ([[1.0] * 4, [np.nan] * 4], ["new", "pear"], None, r"X\[1, 0\] must be finite"),
    ([[1.0] * 4], ["new", "pear"], None, r"y must have one entry per row: 1, got 2"),
    ([[1.0] * 4] * 2, ["new", None], None, r"y\[1\] is missing"),
    ([[1.0] * 4] * 2, ["new", float("nan")], None, r"y\[1\] is missing"),
    ([[1.0] * 4] * 2, ["new", ["pear"]], None, r"y\[1\] must be a label"),
    ([[1.0] * 4] * 2, np.array([["new"], ["pear"]]), None, r"y must be one-dimensional"),
    ([[1.0] * 4] * 2, "xy", None, r"y must be one label per row"),
    ([[1.0] * 4] * 2, ["new", "pear"], [1.0, -1.0], r"sample_weight\[1\] must be at least 0"),
    ([{"day": 1.0}], ["new"], None, r"numbered features"),
]


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize(("X", "y", "weight", "reason"), WRONG)
def test_rejected_call_adds_no_class_and_no_feature(name, X, y, weight, reason):
    model = new(name)
    model.learn(*rows())
    before = pickle.dumps(model)
    with pytest.raises((TypeError, ValueError), match=reason):
        model.learn(X, y, weight)
    assert pickle.dumps(model) == before
    if len(y) == 1:
        with pytest.raises((TypeError, ValueError), match=reason):
            model.learn_named(X[0], y[0])
        assert pickle.dumps(model) == before


class UntilRound(fiol.Schedule):
    """Steps of a user's that raise in the sixth round."""

    def eta(self, t):
        if t >= 6.0:
            raise OSError("no more steps")
        return 0.1


@pytest.mark.parametrize(
    ("loss", "ledger"),
    [(fiol.Squared(), False), (fiol.Squared(), True), (fiol.Softmax(), False), (fiol.Logistic(), False)],
)
def test_component_error_mid_chunk_leaves_the_model_unchanged(loss, ledger):
    kind = OneVsRest if isinstance(loss, fiol.Logistic) else fiol.Learner
    model = kind(fiol.FIOL(loss, fiol.Ridge(0.01), UntilRound()), compiled=False)
    X, y, weight = rows()
    y = np.arange(24.0) if isinstance(loss, fiol.Squared) else y
    model.learn(X[:3], y[:3], weight[:3])
    books = [Ledger(model, every=1)] if ledger else []
    before, sums = pickle.dumps(model), [book.records for book in books]
    for learn in (lambda: model.learn(X[3:], y[3:], weight[3:]), lambda: one_by_one(model, X[3:], y[3:], before)):
        with pytest.raises(OSError, match="no more steps"):
            learn()
        assert pickle.dumps(model) == before
    for book, found in zip(books, sums, strict=True):
        np.testing.assert_equal(book.records, found)


def one_by_one(model, X, y, before):
    """Rows one by one up to the error, before which a model is the one after the last row."""
    other = pickle.loads(before)
    for row, target in zip(X, y, strict=True):
        known = pickle.dumps(other)
        try:
            other.learn_one(np.arange(4, dtype=np.int32), row + 0.5, target)
        except OSError:
            assert pickle.dumps(other) == known
            raise


@pytest.mark.parametrize("name", FEW)
def test_invalid_class_labels_raise(name):
    model = new(name, classes=FRUIT)
    for y in (["pear", "plum"], np.array(["pear", "plum"])):
        with pytest.raises(
            ValueError, match=r"y\[1\]: 'plum' is none of the classes \['pear', 'apple', 'fig', 'kiwi'\]"
        ):
            model.learn([[1.0], [1.0]], y)
    assert model.rounds == model.n_features == 0
    for wrong, error in (([], ValueError), (["a", "a"], ValueError), ("ab", TypeError)):
        with pytest.raises(error, match="classes must"):
            new(name, classes=wrong)


def test_interrupt_between_classes_keeps_earlier_rows(monkeypatch):
    X, y, _ = rows()
    model, other = new("softmax"), new("softmax")
    model.learn(X[:4], y[:4])
    grow = fiol.engine.update_engine.UpdateEngine.add_scores
    calls = []

    def interrupted(self, places, scores):
        calls.append(scores)
        if scores == 3:
            raise KeyboardInterrupt
        grow(self, places, scores)

    monkeypatch.setattr(fiol.engine.update_engine.UpdateEngine, "add_scores", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        model.learn(X, y)
    assert calls == [2, 3]
    monkeypatch.undo()
    n = caught.value.rows_learned
    assert n == [len(set(y[: k + 1])) for k in range(len(y))].index(3)
    other.learn(X[:4], y[:4])
    other.learn(X[:n], y[:n])
    assert pickle.dumps(model) == pickle.dumps(other)


# --- files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("labels", [["1", 2, "true", True], [0, 1, -5, 10**30], [False, "False", "", "ü"]], ids=repr)
def test_labels_keep_their_types(name, labels, tmp_path):
    X, y, _ = rows()
    model = new(name)
    model.learn(X, [labels[FRUIT.index(label)] for label in y])
    model.meta["unit"] = "kg"
    loaded = stored(model, tmp_path / "model")
    assert [(type(label), label) for label in loaded.classes] == [(type(label), label) for label in model.classes]
    assert loaded.meta == {"unit": "kg"}
    assert type(loaded) is type(model)
    assert state(loaded) == state(model)
    for each in (loaded, model):
        each.learn(X[:3], labels[:3])
    assert state(loaded) == state(model)


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("label", [0.5, ("a", 1), b"a"])
def test_save_rejects_unsupported_labels(name, label, tmp_path):
    model = new(name)
    model.learn([[1.0], [2.0]], AnyLabels(["a", label]))  # as doors with other conventions do
    assert copy.deepcopy(model).classes == model.copy().classes == ["a", label]
    with pytest.raises(TypeError, match="labels in a file must be str, int or bool, got"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("label", [0.5, 1.0, ("a", 1), b"a"])
def test_learn_rejects_unsupported_labels(name, label):
    model = new(name)
    with pytest.raises(TypeError, match=r"^y\[1\] must be a label: str, int or bool, got "):
        model.learn([[1.0], [2.0]], ["a", label])
    with pytest.raises(TypeError, match=r"^y\[0\] must be a label: str, int or bool, got "):
        model.learn_one([0], [1.0], label)
    with pytest.raises(TypeError, match=r"^classes\[1\] must be a label: str, int or bool, got "):
        new(name, classes=["a", label])
    assert (model.rounds, model.classes) == (0, [])


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize(("first", "then"), [([True, 1], None), ([0, 1], [True]), ([False, "a"], np.array([0]))])
def test_true_and_1_cannot_be_labels_of_one_model(name, first, then):
    """They are equal keys, so one would replace the other."""
    model = new(name)
    if then is not None:
        model.learn([[1.0], [2.0]], first)
    y = first if then is None else then
    with pytest.raises(TypeError, match=r"^y\[\d\]: \w+ equals the label \w+"):
        model.learn([[1.0]] * len(y), y)
    assert model.classes == ([] if then is None else first)


CHANGES = [
    (lambda header: header.pop("labels"), "labels"),
    (lambda header: header["labels"].pop("closed"), "its labels are given as"),
    (lambda header: header["labels"]["classes"].append("plum"), "does not fit the update|is missing"),
    (lambda header: header["labels"]["classes"].pop(), "does not fit the update|more learners"),
    (lambda header: header["labels"].update(classes=["a", "a", "b", "c"]), "not all different"),
    (lambda header: header["labels"].update(classes=[0.5, "a", "b", "c"]), "not str, int or bool"),
]


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize(("change", "reason"), CHANGES)
def test_altered_class_model_file_is_rejected(name, change, reason, tmp_path):
    model, path = new(name), tmp_path / "model"
    model.learn(*rows())
    model.save(path)
    header, arrays = model_file.read(path)
    change(header["model"])
    model_file.write(path, header, arrays)
    with pytest.raises(ModelFileError, match=reason):
        fiol.load(path, compiled=False)


def test_load_checks_the_kind_by_name(tmp_path):
    for name, other in (("softmax", OneVsRest), ("rest, logistic", fiol.Learner)):
        new(name).save(tmp_path / "model")
        with pytest.raises(ModelFileError, match="it holds"):
            other.load(tmp_path / "model")


def test_one_vs_rest_file_stores_only_seen_features(tmp_path):
    model = new("rest, logistic", bits=20)
    model.learn_named({"size": 1.0}, "pear")
    model.save(tmp_path / "model")
    assert (tmp_path / "model").stat().st_size < 20_000


# --- the rest of a learner --------------------------------------------------------------------


def test_bounded_class_model_matches_unbounded_one():
    """With l1 and steps that forget, a feature whose weights are all 0 may go."""
    update = fiol.COMID(fiol.Softmax(), fiol.L1(0.3), fiol.Constant(0.5))
    draw = np.random.default_rng(0)
    words = [{f"word {draw.integers(40)}": 1.0, "size": 1.0} for _ in range(60)]
    y = [FRUIT[min(k // 10, int(draw.integers(4)))] for k in range(60)]
    free = fiol.Learner(update, compiled=False)
    expected = free.learn(words, y)
    for cuts in ([0, 60], [0, 7, 8, 30, 60]):
        held, found = fiol.Learner(update, max_features=8, compiled=False), np.zeros(expected.shape)
        for start, stop in itertools.pairwise(cuts):
            scores = held.learn(words[start:stop], y[start:stop])
            found[start:stop, : scores.shape[1]] = scores
        assert held.n_features <= 8 < free.n_features
        assert np.array_equal(found, expected)
        assert held.n_nonzero == free.n_nonzero > 0
    before = pickle.dumps(held)
    crowd = {f"new {k}": 1.0 for k in range(9)}
    with pytest.raises(ValueError, match="brings more features than max_features"):
        held.learn([words[0], crowd], ["new class", "pear"])
    assert pickle.dumps(held) == before


def test_prune_keeps_features_with_a_weight_in_any_class():
    learner = fiol.Learner(fiol.COMID(fiol.Softmax(), fiol.L1(0.2), fiol.Constant(0.5)), compiled=False)
    learner.learn([{"a": 3.0}, {"b": 0.1}, {"a": 3.0, "c": 0.1}], ["x", "y", "z"])
    scores = learner.scores([{"a": 1.0}])
    assert 0 < learner.n_nonzero < 3
    assert learner.prune() == 3 - learner.n_nonzero
    assert np.array_equal(learner.scores([{"a": 1.0}]), scores)
    assert learner.weights.shape == (3, learner.n_features)


def test_class_models_start_from_given_weights():
    learner = fiol.Learner(fiol.FIOL(fiol.Softmax()), classes=FRUIT[:3], compiled=False)
    w = np.arange(6.0).reshape(3, 2)
    learner.start_from(w, [1.0, 2.0, 3.0])
    assert np.array_equal(learner.weights, w)
    assert np.array_equal(learner.scores([[1.0, 10.0]]), [[11.0, 34.0, 57.0]])
    with pytest.raises(ValueError, match=r"for each of 3 classes and 3 features, got shape \(2, 3\)"):
        learner.start_from(w.T)
    other = learner.with_update(fiol.SGD(fiol.Softmax(), step_size=fiol.Constant(0.1)))
    assert other.classes == learner.classes


def test_unsuitable_losses_of_class_models_raise():
    with pytest.raises(TypeError, match="Softmax has a score per class already: use Learner"):
        OneVsRest(fiol.FIOL(fiol.Softmax()))
    with pytest.raises(TypeError, match=r"Poisson does not take -1 and \+1"):
        OneVsRest(fiol.FIOL(fiol.Poisson()))
    with pytest.raises(TypeError, match="Logistic has one score"):
        fiol.Learner(fiol.FIOL(fiol.Logistic())).add_classes(["a"])
    with pytest.raises(TypeError, match=r"a ledger adds up the losses of one score, Softmax\(\) has one per class"):
        Ledger(new("softmax"))


@pytest.mark.parametrize("classes", [["a\0", "a", "b"], [3, 5, 2**63 + 1], [-1, 0, 2**63]], ids=str)
def test_predicted_labels_are_those_that_were_learned(classes):
    model = OneVsRest(fiol.FIOL(fiol.Hinge()), classes=classes, n_features=3, compiled=False)
    model.learn(np.eye(3), classes)
    assert model.predict(np.eye(3)).tolist() == classes
    assert [type(label) for label in model.predict(np.eye(3)).tolist()] == [type(label) for label in classes]


@pytest.mark.parametrize("loss", [fiol.Squared(), fiol.Logistic()], ids=str)
@pytest.mark.parametrize("rows", [5, 10, 60])
def test_opened_pair_gives_the_first_class_the_opposite_of_the_second(loss, rows):
    draw = np.random.default_rng(1)
    X = draw.normal(size=(200, 4))
    labels = np.where(X[:, 0] * X[:, 1] + 0.3 * X[:, 2] > -0.3, "b", "a")
    curves = fiol.TableBasis(rows=30, knots=4, max_pairs=2, choice_rows=60)
    for update in (fiol.Stacked(loss), dataclasses.replace(fiol.Stacked(loss), basis=curves)):
        pair, mirrored = (OneVsRest(update, classes=classes, compiled=False) for classes in (["a", "b"], ["b", "a"]))
        for model in (pair, mirrored):
            model.learn(X[:rows], labels[:rows])
        opened = pair.opened()
        assert np.array_equal(opened.scores(X)[:, 0], -opened.scores(X)[:, 1])
        if loss == fiol.Logistic():
            first, other = opened.learners["a"], mirrored.learners["a"]
            targets = np.where(labels == "a", 1.0, -1.0)[rows:]
            assert np.array_equal(first.learn(X[rows:], targets), other.learn(X[rows:], targets))
