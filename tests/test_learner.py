"""The public learner: same bits for any input, growth, memory, merging, pruning, errors, files."""

import copy
import functools
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
from itertools import pairwise, product
from math import inf, nan
from typing import NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from material import LOSSES
from scipy import sparse

import fiol
from fiol import (
    COMID,
    FIOL,
    IOL,
    ISGD,
    L1,
    PA,
    PA1,
    PA2,
    RDA,
    SGD,
    Absolute,
    AdaGrad,
    AllIterates,
    Anytime,
    Box,
    Coin,
    Constant,
    DiagonalMetric,
    ElasticNet,
    Entropy,
    FTRLProximal,
    Hinge,
    Huber,
    ImplicitCoin,
    ImplicitFTRL,
    ImportanceAware,
    Inverse,
    Learner,
    Logistic,
    Mahalanobis,
    Poisson,
    Polynomial,
    Quantile,
    Ridge,
    ScaleFree,
    SignedEntropy,
    Simplex,
    Squared,
    SquaredHinge,
    Truncated,
    Unregularized,
    Update,
)
from fiol.features.chunk import Chunk
from fiol.persistence import model_file
from fiol.persistence.component_json import to_json
from fiol.persistence.model_file import ModelFileError

D, ROWS = 9, 24

PRESETS = [
    SGD(Logistic(), Ridge(0.01)),
    PA(),
    PA1(0.5),
    PA2(0.5),
    IOL(Squared()),
    COMID(Logistic(), L1(0.01)),
    RDA(Hinge(), L1(0.01)),
    ISGD(Squared(), Ridge(0.01), Constant(0.3)),
    FIOL(Logistic(), L1(0.01)),
    FTRLProximal(Logistic(), L1(0.05)),
    FTRLProximal(Logistic(), L1(0.05), once=True),
    ImplicitFTRL(Absolute(), ElasticNet(0.02, 0.02)),
    Coin(Logistic(), L1(0.01)),
    ImplicitCoin(Absolute(), ElasticNet(0.02, 0.02)),
]
OTHERS = [
    FIOL(Squared(), ElasticNet(0.01, 0.02), Polynomial()),
    FIOL(Hinge(), ElasticNet(0.01, 0.02), AdaGrad()),
    FIOL(Huber(1.0), Ridge(0.1), Inverse(0.1)),
    FIOL(Huber(1.0), Ridge(0.1), ScaleFree(Polynomial())),
    FIOL(Quantile(0.3), Box(L1(0.01), -0.5, 0.5), Anytime(1.0, 2.0)),
    FIOL(Poisson(), L1(0.01), Constant(0.1)),
    SGD(SquaredHinge(), L1(0.01), Constant(0.01)),
    Update(Squared(), L1(0.01), AdaGrad(), loss_step=ImportanceAware()),
    Update(Hinge(), Ridge(0.01), Constant(0.2), loss_step=Truncated()),
    Update(Squared(), L1(0.01), Polynomial(0.5), anchor=AllIterates()),
    FIOL(Squared(), L1(0.01), Constant(0.1), Entropy()),
    IOL(Squared(), Polynomial(0.1), Entropy()),
    FIOL(Squared(), L1(0.01), ScaleFree(AdaGrad(0.1)), SignedEntropy()),
    FIOL(Squared(), Unregularized(), Constant(0.1), Simplex()),
    FIOL(Squared(), L1(0.01), Constant(0.1), DiagonalMetric(np.linspace(0.5, 2.0, D))),
    FIOL(Squared(), L1(np.linspace(0.0, 0.1, D)), Constant(0.1)),
]
ALL = PRESETS + OTHERS
#: These are compiled for other tests as well.
COMPILED = [FIOL(Logistic(), L1(0.01)), FIOL(Logistic(), Ridge(0.01), Constant(0.5))]


def short(value):
    """How a test calls an update: by its parts that are not the default."""
    if not isinstance(value, Update):
        return repr(value) if isinstance(value, fiol.components.component.Component) else None
    usual = Update(value.loss)
    parts = [getattr(value, field) for field in Update.__dataclass_fields__]
    return "-".join(type(part).__name__ for part in parts if part is value.loss or part not in vars(usual).values())


def must_know_its_size(update, average):
    return isinstance(update.geometry, Simplex) or (
        average and isinstance(update.geometry, (Entropy, SignedEntropy)) and update.regularizer != Unregularized()
    )


def learner(update, compiled=False, **options):
    """A learner of that update, with the number of features if the update needs it."""
    if must_know_its_size(update, options.get("average")) and "bits" not in options:
        options.setdefault("n_features", D)
    return Learner(update, compiled=compiled, **options)


# --- data, and whether two things are the same ------------------------------------------------


class Data(NamedTuple):
    """Rows of few digits, whose features appear one at a time and differ widely in size."""

    X: sparse.csr_matrix
    y: np.ndarray
    weight: np.ndarray

    def part(self, start, stop):
        return self.X[start:stop], self.y[start:stop], self.weight[start:stop]

    @property
    def dense(self):
        return self.X.toarray()

    def row(self, r):
        one = self.X[r]
        return one.indices, one.data


@functools.cache
def data(loss, rows=ROWS, seed=0):
    draw = np.random.default_rng(seed)
    x = np.round(64 * draw.standard_normal((rows, D))) / 64 * 2.0 ** draw.integers(-4, 4, D)
    x[draw.random((rows, D)) < 0.4] = 0.0
    x[np.arange(D)[None, :] > np.arange(rows)[:, None] / 2] = 0.0
    x[1] = 0.0  # nothing but the intercept
    x[-1, -1] = 0.5
    score = x @ draw.standard_normal(D) / 4
    y = np.where(score + 0.3 * draw.standard_normal(rows) > 0, 1.0, -1.0)
    if isinstance(loss, Poisson):
        y = draw.poisson(2.0, rows).astype(float)
    elif not isinstance(loss, fiol.Binary):
        y = score + 0.1 * draw.standard_normal(rows)
    return Data(sparse.csr_matrix(x), y, draw.choice([0.0, 0.5, 1.0, 2.0], rows))


def bits(model):
    """Return the public state of a learner as bytes."""
    numbers = model.weights, model.last_weights, np.array([model.intercept, model.rounds, model.n_features])
    return [a.tobytes() for a in numbers], model.names


def whole(model):
    """All there is to a learner, bit by bit, without room for features to come."""
    return model.core.header(), {name: (a.dtype, a.tobytes()) for name, a in model.core.stored_arrays().items()}


def names_of(model):
    return model.columns, None if model.core.space.encoder is None else type(model.core.space.encoder)


@functools.cache
def expected(update, compiled, average=False):
    """Scores and outcome of learning everything in one go."""
    model, rows = learner(update, compiled, average=average), data(update.loss)
    return model.learn(*rows).tobytes(), bits(model)


# --- the same bits however the rows arrive ----------------------------------------------------

WAYS = {}


def way(function):
    WAYS[function.__name__] = function
    return function


def in_parts(model, rows, size=5):
    return np.concatenate([model.learn(*rows.part(k, k + size)) for k in range(0, len(rows.y), size)])


def with_duplicates(X):
    """Return an equal matrix with every second entry split into halves, explicit zeros, and unsorted indices."""
    X = X.tocoo()
    half = np.arange(X.nnz) % 2 == 0
    row, col = np.concatenate([X.row, X.row[half], [0]]), np.concatenate([X.col, X.col[half], [D - 1]])
    values = np.concatenate([np.where(half, X.data / 2, X.data), X.data[half] / 2, [0.0]])
    order = np.random.default_rng(1).permutation(len(row))
    return sparse.coo_matrix((values[order], (row[order], col[order])), X.shape)


@way
def row_by_row(model, rows):
    return in_parts(model, rows, 1)


@way
def five_at_a_time(model, rows):
    return in_parts(model, rows)


@way
def one_at_a_time(model, rows):
    return [model.learn_one(*rows.row(r), rows.y[r], rows.weight[r]) for r in range(ROWS)]


@way
def one_at_a_time_in_disorder(model, rows):
    scores = []
    for r in range(ROWS):
        indices, values = rows.row(r)
        indices, values = [*indices[::-1], 0, *indices[:1]], [*values[::-1], 0.0, *(values[:1] / 2)]
        if len(indices) > 1:
            values[-3] /= 2  # the first entry, which is there twice
        scores.append(model.learn_one(indices, values, rows.y[r], sample_weight=rows.weight[r]))
    return scores


@way
def csc(model, rows):
    return model.learn(rows.X.tocsc(), rows.y, rows.weight)


@way
def sparse_array_with_wide_indices(model, rows):
    X = sparse.csr_array(rows.X)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return model.learn(X, rows.y, rows.weight)


@way
def coo_with_duplicates(model, rows):
    return model.learn(with_duplicates(rows.X), rows.y, rows.weight)


@way
def csr_with_duplicates(model, rows):
    X = with_duplicates(rows.X)
    order = np.argsort(X.row, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(X.row, minlength=ROWS))])
    return model.learn(sparse.csr_matrix((X.data[order], X.col[order], indptr), X.shape), rows.y, rows.weight)


@way
def dense(model, rows):
    return model.learn(rows.dense, rows.y, rows.weight)


@way
def dense_by_columns(model, rows):
    return model.learn(np.asfortranarray(rows.dense), list(rows.y), pd.Series(rows.weight))


@way
def float32_data(model, rows):
    return model.learn(rows.dense.astype(np.float32), rows.y, rows.weight.astype(np.float32))


@way
def nested_lists(model, rows):
    return model.learn(rows.dense.tolist(), rows.y.tolist(), rows.weight.tolist())


@way
def chunk(model, rows):
    return model.learn(Chunk(rows.X.indptr, rows.X.indices, rows.X.data), rows.y, rows.weight)


@way
def pandas_by_position(model, rows):
    return model.learn(pd.DataFrame(rows.dense), rows.y, rows.weight)


@way
def read_in_between(model, rows):
    scores = []
    for k in range(0, ROWS, 5):
        model.predict(rows.X), model.score_one([D - 1], [1.0]), model.n_nonzero, repr(model), model.copy()
        if model.width is None:
            model.scores(np.ones((2, D + 5)))
        model.weights[:] = 99.0
        model.last_weights, model.intercept, model.nbytes
        scores.append(model.learn(*rows.part(k, k + 5)))
    return np.concatenate(scores)


@pytest.mark.parametrize("how", [*WAYS])
@pytest.mark.parametrize("update", ALL, ids=short)
def test_learner_has_the_same_bits_for_any_chunking_and_container(update, how):
    model, rows = learner(update), data(update.loss)
    scores = np.asarray(WAYS[how](model, rows))
    assert (scores.tobytes(), bits(model)) == expected(update, False)
    assert np.ptp(scores) > 0.0


@pytest.mark.parametrize("update", COMPILED, ids=short)
def test_compiled_learner_has_the_same_bits_for_any_chunking_and_container(update, tmp_path):
    rows = data(update.loss)
    for how, learn in WAYS.items():
        model = learner(update, True)
        scores = np.asarray(learn(model, rows))
        assert (how, scores.tobytes(), bits(model)) == (how, *expected(update, True))
    plain = np.frombuffer(expected(update, False)[0])
    np.testing.assert_allclose(scores, plain, rtol=1e-9, atol=1e-12)
    model = learner(update, True)
    first = model.learn(*rows.part(0, 7))
    model.save(tmp_path / "a")
    model = Learner.load(tmp_path / "a").copy()
    assert (np.concatenate([first, model.learn(*rows.part(7, ROWS))]).tobytes(), bits(model)) == expected(update, True)


@pytest.mark.parametrize("how", ["row_by_row", "one_at_a_time", "dense"])
@pytest.mark.parametrize("update", ALL, ids=short)
def test_averages_have_the_same_bits_for_any_chunking(update, how):
    model, rows = learner(update, average=True), data(update.loss)
    scores = np.asarray(WAYS[how](model, rows))
    assert (scores.tobytes(), bits(model)) == expected(update, False, True)


FRAMES = {
    "pandas": lambda x: pd.DataFrame(x),
    "polars": lambda x: pl.DataFrame(x),
    "arrow": lambda x: pa.table(x),
    "batch": lambda x: pa.RecordBatch.from_pydict(x),
    "sparse pandas": lambda x: pd.DataFrame({k: pd.arrays.SparseArray(v) for k, v in x.items()}),
}


@pytest.mark.parametrize("build", FRAMES.values(), ids=FRAMES.keys())
@pytest.mark.parametrize("update", [PRESETS[8], OTHERS[2]], ids=short)
def test_frames_match_matrices(update, build):
    rows, model, named = data(update.loss), learner(update), learner(update)
    columns = {f"c{i}": rows.dense[:, i] for i in range(D)}
    scores = [model.learn(rows.dense, rows.y), model.scores(rows.dense)]
    frame, turned = build(columns), build(dict(reversed(columns.items())))
    found = [named.learn(frame, rows.y), named.scores(turned)]
    assert np.array(found).tobytes() == np.array(scores).tobytes()
    assert named.names == list(columns)
    assert named.weights.tobytes() == model.weights.tobytes()
    assert named.learn(turned, rows.y).tobytes() == model.learn(rows.dense, rows.y).tobytes()


@pytest.mark.parametrize("update", ALL[:-3], ids=short)
def test_hashing_without_collisions_changes_nothing(update):
    model, rows = learner(update, bits=5), data(update.loss)
    scores, (plain, _) = expected(update, False)
    assert in_parts(model, rows).tobytes() == scores
    assert model.weights[:D].tobytes() == plain[0]
    assert model.intercept == np.frombuffer(plain[2])[0]


def test_hashing_of_names_is_the_same_for_any_container():
    update, rows = PRESETS[8], data(Logistic())
    hashed, plain, frames = learner(update, bits=14), learner(update), learner(update, bits=14)
    dicts = [{f"c{i}": x for i, x in enumerate(row)} for row in rows.dense]
    frame = pd.DataFrame(rows.dense, columns=[f"c{i}" for i in range(D)])
    scores = plain.learn(dicts, rows.y)
    np.testing.assert_allclose(hashed.learn(dicts, rows.y), scores, rtol=1e-12)
    frames.learn(frame[:9], rows.y[:9])
    frames.learn(frame[frame.columns[::-1]][9:], rows.y[9:])
    assert bits(frames) == bits(hashed)
    assert hashed.n_nonzero == plain.n_nonzero
    assert hashed.names is None


@pytest.mark.parametrize("update", ALL[:-3], ids=short)
def test_dicts_match_columns_up_to_summation_order(update):
    rows, model, named, one = data(update.loss), learner(update), learner(update), learner(update)
    dicts = [{f"c{i}": x for i, x in reversed([*enumerate(row)])} for row in rows.dense]
    scores = model.learn(*rows)
    found = named.learn(iter(dicts), rows.y, rows.weight)
    np.testing.assert_allclose(found, scores, rtol=1e-12, atol=1e-14)
    single = [one.learn_named(row, y, w) for row, y, w in zip(dicts, rows.y, rows.weight, strict=True)]
    assert (np.array(single).tobytes(), bits(one)) == (found.tobytes(), bits(named))
    weights = dict(zip(named.names, named.weights, strict=True))
    np.testing.assert_allclose([weights[f"c{i}"] for i in range(D)], model.weights, rtol=1e-12, atol=1e-14)


def test_rotated_geometry_has_the_same_bits_for_any_chunking():
    a = np.random.default_rng(2).standard_normal((D, D))
    update, rows = FIOL(Squared(), Ridge(0.1), Polynomial(0.1), Mahalanobis(a @ a.T + np.eye(D))), data(Squared())
    one, other = learner(update), learner(update)
    assert row_by_row(one, rows).tobytes() == other.learn(*rows).tobytes()
    assert bits(one) == bits(other)


@settings(max_examples=30)
@given(st.data())
def test_saving_and_copying_mid_stream_changes_no_bit(tmp_path_factory, draw):
    path = tmp_path_factory.getbasetemp() / "middle.fiol"
    update, average = draw.draw(st.sampled_from(ALL)), draw.draw(st.booleans())
    model, rows, scores = learner(update, average=average), data(update.loss), []
    start = 0
    while start < ROWS:
        for what in draw.draw(st.lists(st.sampled_from(["save", "copy", "pickle", "read"]), max_size=2)):
            if what == "save":
                model.save(path)
                model = Learner.load(path, compiled=False)
            elif what == "copy":
                model = model.copy()
            elif what == "pickle":
                model = pickle.loads(pickle.dumps(model))
            else:
                model.weights, model.predict(rows.X[:, : model.n_features])
        stop = start + draw.draw(st.integers(1, 8))
        scores.append(model.learn(*rows.part(start, stop)))
        start = stop
    assert (np.concatenate(scores).tobytes(), bits(model)) == expected(update, False, average)


@pytest.mark.parametrize("compiled", [True, False])
def test_learners_in_threads_do_not_interfere(compiled):
    update, rows = COMPILED[1], data(Hinge(), 200)
    one, models, scores = learner(update, compiled), [learner(update, compiled) for _ in range(3)], [None] * 3
    together = threading.Barrier(3)

    def work(k):
        together.wait()
        scores[k] = np.concatenate([models[k].learn(*rows.part(r, r + 3)) for r in range(0, 200, 3)])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    alone = one.learn(*rows)
    for thread in threads:
        thread.join()
    for model, found in zip(models, scores, strict=True):
        assert found.tobytes() == alone.tobytes()
        assert bits(model) == bits(one)


# --- growth -----------------------------------------------------------------------------------


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("update", ALL, ids=short)
def test_growing_learner_matches_preallocated_learner(update, average):
    scores, outcome = expected(update, False, average)
    model, rows = learner(update, average=average, n_features=D), data(update.loss)
    assert in_parts(model, rows, 7).tobytes() == scores
    assert bits(model) == outcome


@pytest.mark.parametrize("steps", [Constant(0.1), Polynomial(0.5)], ids=repr)
@pytest.mark.parametrize("average", [False, True])
def test_unseen_feature_weights_match_eager_loop(steps, average):
    model = learner(FIOL(Squared(), L1(0.3), steps, Entropy()), average=average)
    paths = []
    for t in range(1, 8):
        model.learn_one([0], [0.5], 1.0)
        paths.append(np.exp(-0.3 * sum(steps.eta(s) for s in range(1, t + 1))))
    unseen = model.score_one([D - 1], [1.0]) - model.intercept
    assert unseen == pytest.approx(np.mean(paths) if average else paths[-1])
    model.learn_one([3], [1e-100], 1.0)
    assert model.n_features == (D if average else 4)
    assert model.last_weights[1] == model.last_weights[2] == pytest.approx(paths[-1] * np.exp(-0.3 * steps.eta(8)))


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("geometry", [Entropy(), SignedEntropy(), fiol.Euclidean()], ids=short)
def test_scores_match_what_learn_returns(geometry, average):
    named, numbered = (learner(FIOL(Squared(), geometry=geometry), average=average) for _ in range(2))
    for k in range(1, 6):
        row, y = {f"c{k}": 2.0, "c0": 0.5}, float(k)
        before = named.score_named(row), numbered.score_one([k, 0], [2.0, 0.5])
        learned = named.learn_named(row, y), numbered.learn_one([k, 0], [2.0, 0.5], y)
        assert before[0] == pytest.approx(before[1], rel=1e-12)
        if not average:
            assert learned == pytest.approx(before, rel=1e-12)


def test_n_features_counts_columns_and_indices_alike():
    rows = [[1.0, 0.0, 0.0]]
    for X in (rows, np.array(rows), sparse.csr_matrix(rows), pd.DataFrame(rows)):
        model = learner(PRESETS[8])
        model.learn(X, [1])
        assert (model.n_features, model.weights.shape) == (3, (3,))
    for k in (4, 5, 8, 9, 17):  # room doubles: features do not
        model.learn_one(np.array([k], np.int32), np.array([1.0]), 1.0)
        assert (model.n_features, model.weights.shape) == (k + 1, (k + 1,))
    model.learn_one([], [], 1.0)
    assert (model.n_features, model.rounds) == (18, 7)


# --- scales -----------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [ScaleFree(AdaGrad()), ScaleFree(Constant(0.5)), ScaleFree(Polynomial())], ids=repr)
@pytest.mark.parametrize("preset", [FIOL, IOL, SGD, RDA, FTRLProximal], ids=lambda preset: preset.__name__)
def test_feature_scaling_by_powers_of_two_changes_no_bit(preset, steps):
    check_powers_of_two(preset(Logistic(), step_size=steps), False)


def test_feature_scaling_by_powers_of_two_changes_no_compiled_bit():
    check_powers_of_two(FIOL(Squared()), True)


def check_powers_of_two(update, compiled):
    rows = data(update.loss, 40)
    model = learner(update, compiled)
    scores = model.learn(*rows).tobytes()

    @settings(max_examples=8)
    @given(st.lists(st.integers(-150, 150), min_size=D, max_size=D))
    def check(powers):
        other, factor = learner(update, compiled), np.ldexp(1.0, powers)
        assert other.learn(rows.dense * factor, *rows[1:]).tobytes() == scores
        assert (other.weights * factor).tobytes() == model.weights.tobytes()
        assert other.scores(rows.dense * factor).tobytes() == model.scores(rows.X).tobytes()

    check()


# --- averages, precision, memory --------------------------------------------------------------


@pytest.mark.parametrize("update", ALL, ids=short)
def test_average_weights_cover_all_rounds(update):
    model, rows, seen, shifts = learner(update, average=True, n_features=D), data(update.loss), [], []
    for r in range(ROWS):
        model.learn(*rows.part(r, r + 1))
        seen.append(model.last_weights)
        shifts.append(model.engine.intercept_weight(False))
    np.testing.assert_allclose(model.weights, np.mean(seen, axis=0), rtol=1e-11, atol=1e-13)
    assert model.intercept == pytest.approx(np.mean(shifts), rel=1e-11, abs=1e-13)
    scores = rows.X @ model.weights + model.intercept
    np.testing.assert_allclose(model.scores(rows.X), scores, rtol=1e-11, atol=1e-12)
    assert not np.allclose(model.weights, model.last_weights)
    plain = learner(update, n_features=D)
    plain.learn(*rows)
    np.testing.assert_allclose(model.last_weights, plain.weights, rtol=1e-11, atol=1e-13)


def test_predictions_have_the_kind_of_the_target():
    for loss, score, says in [
        (Squared(), 0.3, 0.3),
        (Logistic(), 0.3, 1 / (1 + np.exp(-0.3))),
        (Hinge(), -0.3, -1.0),
        (Poisson(), 0.3, np.exp(0.3)),
    ]:
        model = learner(FIOL(loss), intercept=False, n_features=1)
        model.engine.state.w[0] = 1.0
        assert model.predict([[score]]) == pytest.approx([says])
        assert model.scores([[score]]) == [score]


@pytest.mark.parametrize("update", ALL, ids=short)
def test_float32_learner_is_close_to_float64(update):
    single, double = (learner(update, dtype=dtype, n_features=D) for dtype in ("float32", np.float64))
    rows = data(update.loss)
    np.testing.assert_allclose(single.learn(*rows), double.learn(*rows), rtol=1e-3, atol=1e-3)
    assert single.weights.dtype == np.float64
    assert single.nbytes < double.nbytes
    assert single.copy().engine.state.w.dtype == np.float32


ADAGRAD, SCHEDULE = AdaGrad(), Polynomial()
MEMORY = [  # update, average, bytes per feature in float64 and in float32
    (FIOL(Squared(), step_size=SCHEDULE), False, 8, 4),
    (FIOL(Squared(), Ridge(0.1), SCHEDULE), False, 8, 4),
    (FIOL(Squared(), L1(0.1), SCHEDULE), False, 16, 12),
    (FIOL(Squared(), ElasticNet(0.1, 0.1), SCHEDULE), False, 16, 12),
    (FIOL(Squared(), step_size=ADAGRAD), False, 16, 8),
    (FIOL(Squared(), L1(0.1), ADAGRAD), False, 24, 16),
    (FIOL(Squared(), step_size=ScaleFree(SCHEDULE)), False, 16, 8),
    (FIOL(Squared()), False, 24, 12),
    (FIOL(Squared(), L1(0.1)), False, 32, 20),
    (RDA(Squared(), L1(0.1)), False, 8, 4),
    (FTRLProximal(Squared(), L1(0.1)), False, 16, 8),
    (Coin(Squared(), L1(0.1)), False, 40, 20),
    (FIOL(Squared(), step_size=SCHEDULE), True, 24, 20),
    (FIOL(Squared(), Ridge(0.1), SCHEDULE), True, 24, 20),
    (FTRLProximal(Squared(), L1(0.1)), True, 24, 16),
    (FIOL(Squared(), step_size=SCHEDULE, geometry=SignedEntropy()), False, 16, 8),
]


@pytest.mark.parametrize(("update", "average", "double", "single"), MEMORY, ids=short)
def test_nbytes_matches_allocated_memory(update, average, double, single):
    for dtype, stated in (("float64", double), ("float32", single)):
        few, many = (Learner(update, n_features=n, average=average, dtype=dtype) for n in (100, 1100))
        assert (many.nbytes - few.nbytes) / 1000 == stated
        assert few.nbytes < 100 * stated + 128


# --- merging and copying ----------------------------------------------------------------------


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("update", ALL, ids=short)
def test_merge_of_equal_learners_is_equal(update, average):
    model, rows = learner(update, average=average), data(update.loss)
    model.learn(*rows)
    for parts in ([model], [model, model.copy()], [model] * 3):
        merged = Learner.merge(parts)
        assert (merged.rounds, merged.n_features, merged.names) == (ROWS, D, None)
        np.testing.assert_allclose(merged.weights, model.weights, rtol=1e-12, atol=1e-15)
        assert merged.intercept == pytest.approx(model.intercept, rel=1e-12)
        other = model.copy()
        np.testing.assert_allclose(merged.learn(*rows), other.learn(*rows), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(merged.weights, other.weights, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("update", [PRESETS[0], PRESETS[1], PRESETS[8], OTHERS[0], OTHERS[10], OTHERS[11]], ids=short)
def test_merge_takes_the_mean(update, average):
    rows, parts = data(update.loss), [learner(update, average=average) for _ in range(3)]
    cuts = [(0, 5), (5, 12), (12, ROWS)]
    for part, (start, stop) in zip(parts, cuts, strict=True):
        part.learn(rows.X[start:stop, : stop // 2], *rows.part(start, stop)[1:])  # of different sizes
    before = [whole(part) for part in parts]
    for weights in (None, [1, 1, 1], [0.5, 0.25, 0.25], [0, 1, 0]):
        share = np.array([5, 7, ROWS - 12]) / ROWS if weights is None else np.array(weights) / sum(weights)
        merged = Learner.merge(parts, weights)
        mean = share @ [read(part) for part in parts]
        np.testing.assert_allclose(read(merged), mean, rtol=1e-12, atol=1e-14)
        assert merged.rounds == round(share @ [5, 7, ROWS - 12])
        assert np.isfinite(merged.learn(*rows)).all()
    assert [whole(part) for part in parts] == before


def read(model):
    """The weights, those of features never seen included."""
    to = model.update.geometry.reparametrization()
    working = model.copy().engine.weights(to.weights_per_feature * D, model.averages)
    return np.append(to.restore_weights(working), model.intercept)


def test_merge_takes_the_largest_scale_and_the_mean_of_squares():
    a, b = (learner(FIOL(Squared()), n_features=2) for _ in range(2))
    a.learn([[8.0, 0.0]], [1.0])
    b.learn([[2.0, 0.5]], [1.0])
    square, peak = Learner.merge([a, b]).engine.state.statistics.T
    assert list(peak) == [8.0, 0.5]
    # Slopes count in their own unit, a half in a first round, times the length of the row with its intercept.
    np.testing.assert_allclose(square, np.array([(64.0 * 2 + 4.0 * 3) / 2, 0.25 * 3 / 2]) / 4)


def test_incompatible_learners_cannot_be_merged():
    update = PRESETS[8]
    a, b = learner(update), learner(update)
    a.learn([{"x": 1.0}], [1])
    b.learn([[1.0]], [1])
    with pytest.raises(ValueError, match=r"^learners\[1\] has numbered features, .* named ones: bits=\.\.\."):
        Learner.merge([a, b])
    for other in (learner(update.replace(loss=Hinge())), learner(update, intercept=False), learner(update, bits=3)):
        with pytest.raises(ValueError, match=r"^learners\[1\] has another update than learners\[0\]$"):
            Learner.merge([a, other])
    with pytest.raises(ValueError, match="at least one learner"):
        Learner.merge([])
    for weights in ([1.0], [1.0, -1.0], [1.0, nan], [[1.0, 1.0]]):
        with pytest.raises(ValueError, match=r"^weights must be one number of at least 0 per learner, got"):
            Learner.merge([a, a], weights)
    with pytest.raises(ValueError, match=r"^weights must not all be 0$"):
        Learner.merge([a, a], [0, 0])
    assert Learner.merge([learner(update), learner(update)]).rounds == 0


@pytest.mark.parametrize("options", [{}, {"bits": 4}, {"max_features": 20}, {"average": True, "dtype": "float32"}])
def test_copy_is_independent(options):
    rows, model = data(Logistic()), learner(PRESETS[8], **options)
    model.learn(*rows.part(0, 9))
    before, copy = whole(model), model.copy()
    assert whole(copy) == before
    assert (copy.compiled, copy.update is model.update) == (False, True)
    copy.learn(*rows.part(9, ROWS))
    assert whole(model) == before
    model.learn(*rows.part(9, ROWS))
    assert whole(model) == whole(copy)


def test_copies_own_their_names():
    model = learner(PRESETS[8])
    model.learn_named({"a": 1.0}, 1)
    copy = model.copy()
    copy.learn_named({"b": 1.0}, 1)
    assert (model.names, copy.names) == (["a"], ["a", "b"])


# --- bounded memory ---------------------------------------------------------------------------


def changing(rows, seed=0, lively=4):
    """Rows in which ever new features come and go."""
    draw = np.random.default_rng(seed)
    x = np.zeros((rows, rows // 4 + lively))
    for r in range(rows):
        x[r, r // 4 + draw.choice(lively, 2, replace=False)] = draw.choice([-1.0, 0.5, 2.0], 2)
    return x, draw.choice([-1.0, 1.0], rows)


def test_dropping_zero_weights_changes_nothing():
    update = FIOL(Logistic(), L1(0.2), Constant(0.3))
    x, y = changing(120)
    bounded, free = learner(update, max_features=12), learner(update)
    for r in range(0, 120, 7):
        scores = bounded.learn(x[r : r + 7], y[r : r + 7])
        assert bounded.n_features <= 12
        assert bounded.engine.state.w.shape[0] <= 24
        np.testing.assert_allclose(scores, free.learn(x[r : r + 7], y[r : r + 7]), rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(bounded.scores(x), free.scores(x), rtol=1e-12, atol=1e-15)
    assert free.n_features > 24
    held = dict(zip(bounded.names, bounded.weights, strict=True))
    np.testing.assert_allclose([held.get(i, 0.0) for i in range(x.shape[1])][: free.n_features], free.weights)


@pytest.mark.parametrize("update", ALL[:-3], ids=short)
def test_max_features_that_is_not_reached_changes_nothing(update):
    bounded, free, rows = learner(update, max_features=D), learner(update), data(update.loss)
    np.testing.assert_allclose(in_parts(bounded, rows), free.learn(*rows), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(bounded.scores(rows.X), free.scores(rows.X), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(bounded.weights, free.weights[bounded.names], rtol=1e-12, atol=1e-14)


CONTAINERS = {
    "dense": lambda x: x,
    "csr": sparse.csr_matrix,
    "dicts": lambda x: [{f"c{i}": v for i, v in enumerate(row) if v} for row in x],
    "shuffled dicts": lambda x: [dict(sorted(((i * 7) % 31, v) for i, v in enumerate(row) if v)) for row in x],
    "frame": lambda x: pd.DataFrame(x, columns=[f"c{i}" for i in range(x.shape[1])]),
}


@pytest.mark.parametrize("steps", [Constant(0.3), ScaleFree(), AdaGrad()], ids=short)
@pytest.mark.parametrize("build", CONTAINERS.values(), ids=CONTAINERS.keys())
def test_dropped_features_do_not_depend_on_chunking(build, steps):
    x, y = changing(100, 1)
    outcomes = set()
    for cuts in ([], range(1, 100), [3, 50, 51, 80]):
        model = learner(FIOL(Logistic(), L1(0.2), steps), max_features=9)
        edges = [0, *cuts, 100]
        scores = [model.learn(build(x[a:b]), y[a:b]) for a, b in pairwise(edges)]
        outcomes.add((np.concatenate(scores).tobytes(), str(bits(model)), str(model.names)))
    assert len(outcomes) == 1


def test_frame_columns_are_names_when_features_are_renumbered():
    model, frame = learner(PRESETS[8], max_features=3), pd.DataFrame({"b": [1.0, 0.0], "a": [2.0, 3.0]})
    model.learn(frame, [1, -1])
    assert model.names == ["a", "b"]
    assert model.scores(frame).tobytes() == model.scores(frame[["a", "b"]]).tobytes()
    np.testing.assert_array_equal(model.scores(frame), model.scores([{"a": 2.0, "b": 1.0}, {"a": 3.0}]))


@pytest.mark.parametrize("build", [CONTAINERS["dense"], CONTAINERS["dicts"]], ids=["dense", "dicts"])
def test_exceeding_max_features_raises_and_changes_nothing(build):
    model = learner(FIOL(Squared(), L1(1e-6)), max_features=4)
    model.learn(build(np.eye(6)[:3]), [1.0, 2.0, 3.0])
    before = whole(model)
    with pytest.raises(ValueError, match=r"^row 3 brings more features than max_features=4 .* strength of l1$"):
        model.learn(build(np.eye(6)[1:5]), np.ones(4))
    assert whole(model) == before
    with pytest.raises(ValueError, match=r"^row 0 brings more"):
        learner(FIOL(Squared()), max_features=2).learn(np.ones((1, 3)), [1.0])
    zeros = learner(FIOL(Squared(), L1(10.0)), max_features=4)
    zeros.learn(build(np.eye(6)[:4]), np.ones(4))
    before = whole(zeros)
    with pytest.raises(ValueError, match=r"^row 1 brings more"):  # also after something was dropped
        zeros.learn(build(np.vstack([np.eye(6)[5], np.ones(6)])), np.ones(2))
    assert whole(zeros) == before


def test_prune_drops_names_of_zero_weights():
    model = learner(FIOL(Squared(), L1(0.5), Constant(1.0)))
    model.learn([{"a": 1.0}, {"b": 0.1}, {"c": 5.0}], [9.0, 0.1, 9.0])
    free = model.copy()
    assert list(free.weights != 0.0) == [True, False, True]
    assert (model.prune(), model.prune(), model.names) == (1, 0, ["a", "c"])
    rows = [{"b": 2.0, "c": 1.0}, {"d": 1.0}, {"a": 1.0, "b": 1.0}]
    np.testing.assert_allclose(model.learn(rows, [3.0, 1.0, 2.0]), free.learn(rows, [3.0, 1.0, 2.0]), rtol=1e-13)
    assert model.names == ["a", "c", "b", "d"]
    with pytest.raises(TypeError, match=r"prune\(\) needs named features or max_features"):
        learner(PRESETS[8]).prune()


# --- one at a time, and by name ---------------------------------------------------------------


def test_single_row_of_any_container():
    update = PRESETS[8]
    forms = [
        (np.array([1, 4], np.int32), np.array([2.0, -1.0])),
        ([1, 4], [2, -1]),
        ((4, 1), (-1.0, 2.0)),
        (np.array([4, 1], np.int32), np.array([-1.0, 2.0])),
        ([4, 1, 1], [-1.0, 1.5, 0.5]),
        (np.array([0, 1, 4], np.int32), np.array([0.0, 2.0, -1.0])),
        (np.array([1, 4], np.uint8), np.array([2.0, -1.0], np.float32)),
        (np.array([1, 9, 4, 9], np.int32)[::2], np.array([2.0, -1.0])),
    ]
    first, outcomes = learner(update), set()
    first.learn_one([6], [1.0], 1)
    for indices, values in forms:
        model = first.copy()
        scores = [model.learn_one(indices, values, y) for y in (1, np.float64(-1.0), np.int8(1))]
        assert model.score_one(indices, values) == model.scores([[0, 2, 0, 0, -1]])[0]
        outcomes.add((tuple(scores), str(bits(model))))
    assert len(outcomes) == 1


def test_readonly_and_misaligned_rows():
    model, values = learner(COMPILED[1], compiled=True, n_features=5), np.array([2.0, -1.0])
    indices, raw = np.array([1, 4], np.int32), np.zeros(17, np.uint8)
    raw[1:] = values.view(np.uint8)
    reference = model.copy()
    frozen = values.copy()
    frozen.flags.writeable = False
    for odd in (values, frozen, raw[1:].view(np.float64)):
        assert model.learn_one(indices, odd, 1.0) == reference.learn_one([1, 4], [2.0, -1.0], 1.0)
    assert whole(model) == whole(reference)


def test_rows_without_entries():
    model = learner(PRESETS[4])
    scores = [model.learn_one([], [], 2.0) for _ in range(2)]
    named, other = learner(PRESETS[4]), learner(PRESETS[4])
    assert (
        [named.learn_named({}, 2.0) for _ in range(2)] == other.learn(np.zeros((2, 3)), [2.0, 2.0]).tolist() == scores
    )
    assert named.intercept == other.intercept == model.intercept > scores[1] > scores[0] == 0.0
    bare = learner(PRESETS[4], intercept=False)
    assert bare.learn(np.zeros((2, 3)), [2.0, 2.0]).tolist() == [0.0, 0.0]
    assert (bare.intercept, bare.rounds, bare.n_features) == (0.0, 2, 3)


@pytest.mark.parametrize(
    "X", [[], (), iter([]), np.zeros((0, D)), sparse.csr_matrix((0, D))], ids=lambda X: type(X).__name__
)
@pytest.mark.parametrize("options", [{}, {"bits": 4}, {"max_features": 3}, {"n_features": D}], ids=str)
def test_learning_no_rows_makes_no_round(X, options):
    model = learner(PRESETS[8], **options)
    assert model.learn(X, []).shape == model.scores(X).shape == (0,)
    assert model.rounds == 0


def test_named_learner_accepts_an_empty_list():
    model = learner(PRESETS[8])
    model.learn_named({"a": 1.0}, 1)
    assert model.learn([], []).shape == model.predict([]).shape == (0,)
    assert model.names == ["a"]


def test_scores_of_unseen_names():
    model = learner(IOL(Squared()))
    model.learn_named({"site": "news", 7: 1.0, "7": 2.0, "none": 0.0}, 1.0)
    assert model.names == ["site=news", 7, "7"]
    known = model.score_named({"site": "news"})
    assert known == pytest.approx(model.weights[0] + model.intercept)
    assert model.score_named({"site": "news", "new": 5.0, "site2": "x"}) == known
    assert model.score_named({}) == model.intercept
    assert model.predict(iter([{"unseen": 1.0}] * 2)).tolist() == [model.intercept] * 2
    assert model.n_features == 3


def test_scoring_does_not_fix_feature_names():
    model = learner(IOL(Squared()))
    assert model.score_named({"a": 1.0}) == 0.0
    assert model.scores(pd.DataFrame({"a": [1.0]})).tolist() == [0.0]
    model.learn([[1.0, 2.0]], [1.0])
    assert (model.n_features, model.names) == (2, None)


def test_learner_repr():
    model = learner(IOL(Squared()))
    model.learn([[1.0, 2.0]], [1.0])
    assert repr(model).startswith("<Learner of 2 features after 1 rounds of Update(loss=Squared()")


# --- errors -----------------------------------------------------------------------------------


def breaks_in_the_middle():
    yield {"a": 1.0, "new": 1.0}
    raise OSError("the file is gone")


GOOD = {
    "numbers": (lambda: learner(FIOL(Logistic(), L1(0.01))), data(Logistic()).dense),
    "names": (lambda: learner(FIOL(Logistic(), L1(0.01))), [{f"c{r % 5}": 1.0, "a": 2.0} for r in range(ROWS)]),
    "frame": (
        lambda: learner(FIOL(Logistic(), L1(0.01))),
        pd.DataFrame(data(Logistic()).dense, columns=[*"abcdefghi"]),
    ),
    "bounded": (lambda: learner(FIOL(Logistic(), L1(1e-4)), max_features=D), data(Logistic()).dense),
    "hashed": (lambda: learner(FIOL(Logistic(), L1(0.01)), bits=4), data(Logistic()).dense),
    "fixed": (lambda: learner(FIOL(Logistic(), L1(0.01)), n_features=D), data(Logistic()).dense),
}
ROW = np.eye(D)[:2]
TOO_FAR = sparse.csr_matrix(([1.0], [2**31 - 1], [0, 1]), (1, 2**31))


def sparse_row(index, value=1.0):
    return sparse.csr_matrix(([1.0, value], [0, index], [0, 1, 2]), (2, index + 1))


WRONG = [
    ("numbers", (np.array([[1, 2], [3, nan]]), [1, 1]), ValueError, r"^X\[1, 1\] must be finite, got nan$"),
    ("numbers", (np.array([[1, 2], [inf, 1]]), [1, 1]), ValueError, r"^X\[1, 0\] must be finite, got inf$"),
    ("numbers", (sparse_row(5, -inf), [1, 1]), ValueError, r"^X\[1, 5\] must be finite, got -inf$"),
    ("numbers", ([[1e101]], [1]), ValueError, r"^X\[0, 0\] must be 0 or between 1e-100 and 1e\+100 in size"),
    ("numbers", (ROW, [1, 0]), ValueError, r"^y\[1\] must be -1 or \+1 for Logistic, got 0: use 2\*y - 1$"),
    ("numbers", (ROW, [1, 3]), ValueError, r"^y\[1\] must be -1 or \+1 for Logistic, got 3$"),
    ("numbers", (ROW, [1, nan]), ValueError, r"^y\[1\] must be finite, got nan$"),
    ("numbers", (ROW, [True, False]), ValueError, r"^y must be -1 or \+1 for Logistic, got bool"),
    ("numbers", (ROW, ["a", "b"]), TypeError, r"^y holds str"),
    ("numbers", (ROW, [1]), ValueError, r"^y must have one entry per row: 2, got 1$"),
    ("numbers", (ROW, [[1], [1]]), ValueError, r"^y must be one-dimensional, got shape \(2, 1\)"),
    ("numbers", (ROW, 1.0), ValueError, r"^y must be one-dimensional"),
    ("numbers", (ROW, [1, 1], [1, -1]), ValueError, r"^sample_weight\[1\] must be at least 0 .*, got -1$"),
    ("numbers", (ROW, [1, 1], [nan, 1]), ValueError, r"^sample_weight\[0\] must be finite, got nan$"),
    ("numbers", (ROW, [1, 1], [1]), ValueError, r"^sample_weight must have one entry per row: 2, got 1$"),
    ("numbers", (TOO_FAR, [1]), ValueError, r"^X\[0, 2147483647\] is no entry: index overflow"),
    ("numbers", (ROW.astype(complex), [1, 1]), TypeError, "holds complex|must be .*numbers"),
    ("numbers", ([["a", "b"]], [1]), TypeError, r"^column 0 holds str"),
    (
        "numbers",
        ([[1.0], [1.0, 2.0]], [1, 1]),
        ValueError,
        r"rows of one length, got 1 columns in row 0 and 2 in row 1",
    ),
    ("numbers", (np.ones(3), [1]), ValueError, r"^X must be two-dimensional, got shape \(3,\): use X.reshape"),
    ("numbers", ([1.0, 2.0], [1]), ValueError, r"^X must be two-dimensional, got shape \(2,\): use X.reshape"),
    ("numbers", ("text", [1]), TypeError, r"^X must be a matrix, a frame or a list of dicts, got str$"),
    ("numbers", (None, [1]), TypeError, r"^X must be a matrix, a frame or a list of dicts, got NoneType$"),
    ("numbers", ({"a": 1.0}, [1]), TypeError, r"^X must be rows, not a single dict: use learn_named"),
    ("numbers", ([{"a": 1.0}], [1]), TypeError, r"^this learner has numbered features: pass arrays, or bits"),
    ("numbers", (pd.DataFrame({"a": [1.0]}), [1]), ValueError, r"^X has 1 columns, but there are 9 features$"),
    ("numbers", (Chunk(np.array([0, 2]), np.array([0]), np.array([1.0])), [1]), ValueError, r"^X.indptr must end"),
    (
        "numbers",
        (Chunk(np.array([0, 1]), np.array([-1]), np.array([1.0])), [1]),
        ValueError,
        r"^X\[0, -1\] is no entry",
    ),
    ("names", ([{"new": 1.0}, {"a": nan}], [1, 1]), ValueError, r"^X\[1, 'a'\] must be finite, got nan$"),
    ("names", ([{"new": 1.0}, {"a": None}], [1, 1]), ValueError, r"^X\[1, 'a'\] is missing$"),
    ("names", ([{"new": 1.0}, {"a": [1]}], [1, 1]), TypeError, r"^X\[1, 'a'\] must be a number or a str, got list$"),
    ("names", ([{"new": 1.0}, 5], [1, 1]), TypeError, r"^X\[1\] must be a dict, got int$"),
    ("names", ([{"new": 1.0}, {1.5: 1.0}], [1, 1]), TypeError, r"^X\[1\] has the key 1\.5: keys must be str or int$"),
    ("names", ([{"new": 1.0}], [0]), ValueError, r"^y\[0\] must be -1 or \+1 for Logistic"),
    ("names", ([{"new": 1.0}], [1, 1]), ValueError, r"^y must have one entry per row: 1, got 2$"),
    ("names", ([{"new": 1.0}], [1], [-1.0]), ValueError, r"^sample_weight\[0\] must be at least 0"),
    ("names", (breaks_in_the_middle, [1, 1]), OSError, r"^the file is gone$"),
    ("names", (ROW, [1, 1]), TypeError, r"^this learner has named features: pass dicts, or frames"),
    ("frame", (pd.DataFrame({"a": [1.0]}), [1]), ValueError, r"^columns must be those of the model: missing 'b'"),
    ("frame", (pd.DataFrame(ROW, columns=[*"abcdefghX"]), [1, 1]), ValueError, r"missing 'i'; unexpected 'X'$"),
    ("frame", (pd.DataFrame(ROW + inf, columns=[*"abcdefghi"]), [1, 1]), ValueError, r"^X\[0, 'a'\] must be finite"),
    ("frame", (ROW[:, :3], [1, 1]), ValueError, r"^X has 3 columns, but there are 9 features$"),
    ("frame", (sparse_row(D), [1, 1]), ValueError, r"^X\[1, 9\] is no entry: there are 9 features$"),
    ("bounded", (np.array([[1, nan]]), [1]), ValueError, r"^X\[0, 1\] must be finite, got nan$"),
    ("bounded", ([{"new": 1.0}, {"new": nan}], [1, 1]), ValueError, r"^X\[1, 'new'\] must be finite, got nan$"),
    ("bounded", (breaks_in_the_middle, [1, 1]), OSError, r"^the file is gone$"),
    ("bounded", (sparse.eye(30, format="csr"), np.ones(30)), ValueError, r"^row 9 brings more features than"),
    ("hashed", (np.array([[1, nan]]), [1]), ValueError, r"^X\[0, 1\] must be finite, got nan$"),
    ("hashed", ([{"new": nan}], [1]), ValueError, r"^X\[0, 'new'\] must be finite, got nan$"),
    ("hashed", (breaks_in_the_middle, [1, 1]), OSError, r"^the file is gone$"),
    ("fixed", (sparse_row(D), [1, 1]), ValueError, r"^X\[1, 9\] is no entry: there are 9 features$"),
    ("fixed", (np.ones((1, D + 1)), [1]), ValueError, r"^X has 10 columns, but there are 9 features$"),
    ("fixed", (np.ones((1, D - 1)), [1]), ValueError, r"^X has 8 columns, but there are 9 features$"),
    ("fixed", ([{"a": 1.0}], [1]), TypeError, r"^this learner has numbered features"),
]


KNOWN = (
    "this learner has",
    "there are 9 features",
    "those of the model",
    "missing 'i'",
)  # wrong because of what was learned


@pytest.mark.parametrize(("kind", "arguments", "error", "message"), WRONG)
def test_failed_learn_changes_nothing(kind, arguments, error, message):
    check_nothing_happens(kind, arguments, error, message, 15)


@pytest.mark.parametrize(
    ("kind", "arguments", "error", "message"),
    [case for case in WRONG if case[0] == "fixed" or not any(reason in case[3] for reason in KNOWN)],
)
def test_failed_first_learn_changes_nothing(kind, arguments, error, message):
    check_nothing_happens(kind, arguments, error, message, 0)


def check_nothing_happens(kind, arguments, error, message, start):
    build, rows = GOOD[kind]
    model, y = build(), data(Logistic()).y
    model.learn(rows[:start], y[:start])
    twin, before = model.copy(), (whole(model), names_of(model))
    arguments = [argument() if callable(argument) else argument for argument in arguments]
    with pytest.raises(error, match=message):
        model.learn(*arguments)
    assert (whole(model), names_of(model)) == before
    assert model.learn(rows[start:], y[start:]).tobytes() == twin.learn(rows[start:], y[start:]).tobytes()
    assert whole(model) == whole(twin)


INT, FLOAT = (lambda *values: np.array(values, np.int32)), (lambda *values: np.array(values, np.float64))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((INT(1), FLOAT(nan), 1.0), ValueError, r"^X\[0, 1\] must be finite, got nan$"),
        ((INT(1), FLOAT(1.0), 0.5), ValueError, r"^y\[0\] must be -1 or \+1"),
        ((INT(1), FLOAT(1.0), nan), ValueError, r"^y\[0\] must be finite"),
        ((INT(1), FLOAT(1.0), "1"), TypeError, r"^y holds str"),
        ((INT(1), FLOAT(1.0), None), ValueError, r"^y\[0\] is missing"),
        ((INT(1), FLOAT(1.0), True), ValueError, r"got bool"),
        ((INT(1), FLOAT(1.0), 1.0, -1.0), ValueError, r"^sample_weight\[0\] must be at least 0"),
        ((INT(1), FLOAT(1.0), 1.0, inf), ValueError, r"^sample_weight\[0\] must be finite"),
        ((INT(-1, 2), FLOAT(1.0, 1.0), 1.0), ValueError, r"^X\[0, -1\] is no entry: an index is at least 0$"),
        ((INT(1, D), FLOAT(1.0, 1.0), 1.0), ValueError, r"^X\[0, 9\] is no entry: there are 9 features$"),
        (([2**40], [1.0], 1.0), ValueError, r"^X\[0, 1099511627776\] is no entry: index overflow"),
        ((INT(1, 2), FLOAT(1.0), 1.0), ValueError, r"^indices and values must have one length, got shapes \(2,\)"),
        ((INT(1), 1.0, 1.0), ValueError, r"^indices and values must have one length"),
        (([0.0], [1.0], 1.0), TypeError, r"^X\.indices must be one-dimensional integers, got float64"),
        (([0], ["a"], 1.0), TypeError, r"^X must hold numbers"),
    ],
)
def test_single_invalid_row_makes_no_round(arguments, error, message):
    model = learner(FIOL(Logistic(), L1(0.01)), n_features=D)
    model.learn(*data(Logistic()))
    before = whole(model)
    with pytest.raises(error, match=message):
        model.learn_one(*arguments)
    assert whole(model) == before


class Quartic(fiol.Loss):
    def value(self, z, y):
        return (z - y) ** 4

    def grad(self, z, y):
        return 4.0 * (z - y) ** 3


def test_out_of_memory_makes_no_round(monkeypatch):
    def full(*arguments):
        raise MemoryError

    for rows in ([{"new": 1.0}], pd.DataFrame({"new": [1.0]})):
        model = learner(FIOL(Squared()))
        before = whole(model), names_of(model)
        with monkeypatch.context() as patch:
            patch.setattr("fiol.engine.update_engine.grown", full)
            with pytest.raises(MemoryError):
                model.learn(rows, [1.0])
        assert (whole(model), names_of(model)) == before


@pytest.mark.parametrize(
    "X", [np.eye(3), pd.DataFrame(np.eye(3), columns=["a", "b", "c"]), sparse.eye(3, format="csr")]
)
def test_error_of_more_features_than_strengths_names_the_penalty(X):
    learner = Learner(FIOL(Squared(), L1([0.1, 0.2])), compiled=False)
    expected = "there are 2 features, the length of L1.lam, which must have one number per feature"
    with pytest.raises(ValueError, match=expected):
        learner.learn(X, [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=expected):
        learner.learn_one([0, 2], [1.0, 1.0], 1.0)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"update": Logistic()},
            TypeError,
            r"^update must be a fiol\.Update, got Logistic\(\): did you mean fiol\.Stacked\(Logistic\(\)\) or fiol",
        ),
        ({"update": Update}, TypeError, r"^update must be an instance, not the class"),
        ({"update": FIOL}, TypeError, r"^update must be a fiol\.Update, got <function FIOL"),
        ({"n_features": 0}, ValueError, r"^n_features must be from 1 to 2147483647, got 0$"),
        ({"n_features": 2.5}, TypeError, r"^n_features must be an integer, got 2\.5$"),
        ({"max_features": -1}, ValueError, r"^max_features must be from 1 to 2147483647, got -1$"),
        ({"max_features": "many"}, TypeError, r"^max_features must be an integer, got 'many'$"),
        ({"bits": 0}, ValueError, r"^bits must be from 1 to 31, got 0$"),
        ({"bits": 32}, ValueError, r"^bits must be from 1 to 31, got 32$"),
        ({"bits": "18"}, TypeError, r"^bits must be an integer, got '18'$"),
        ({"bits": 3, "n_features": 8}, TypeError, r"^n_features and bits exclude each other$"),
        ({"bits": 3, "max_features": 8}, TypeError, r"^bits and max_features exclude each other$"),
        ({"dtype": "float16"}, ValueError, r'^dtype must be "float64" or "float32", got \'float16\'$'),
        ({"dtype": "single or so"}, ValueError, r'^dtype must be "float64" or "float32", got \'single or so\'$'),
        ({"update": FIOL(Squared(), L1([0.1, 0.2])), "n_features": 3}, ValueError, r"^L1\.lam is for 2 features, but"),
        ({"update": FIOL(Squared(), L1([0.1, 0.2])), "bits": 3}, ValueError, r"^L1\.lam is for 2 .* there are 8$"),
        ({"update": FIOL(Squared(), L1([0.1, 0.2])), "max_features": 3}, TypeError, r"^L1\.lam has one number per"),
        ({"update": IOL(Squared(), Constant(1.0), Simplex())}, TypeError, r"^Simplex needs .*: give n_features$"),
        ({"update": IOL(Squared(), geometry=Simplex()), "n_features": 2}, TypeError, r"^Simplex mixes the features"),
        (
            {"update": Update(Quartic(), loss_step=ImportanceAware())},
            TypeError,
            r"^ImportanceAware needs `flow`; Quartic",
        ),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)
def test_learner_names_wrong_options(options, error, message):
    options = {"update": FIOL(Squared()), **options}
    with pytest.raises(error, match=message):
        Learner(options.pop("update"), **options)


# --- divergence -------------------------------------------------------------------------------


def unscaled(loss, rows=60):
    draw = np.random.default_rng(5)
    x = draw.standard_normal((rows, 6)) * 10.0 ** np.array([-6, -3, 0, 0, 3, 6])
    score = x @ (draw.standard_normal(6) / 10.0 ** np.array([-6, -3, 0, 0, 3, 6]))
    y = np.where(score > 0, 1.0, -1.0) if isinstance(loss, fiol.Binary) else score
    return x, np.exp(np.clip(score, -3, 3)) if isinstance(loss, Poisson) else y


@pytest.mark.parametrize("regularizer", [Unregularized(), ElasticNet(1e-3, 1e-3)], ids=short)
@pytest.mark.parametrize("loss", LOSSES, ids=short)
def test_implicit_steps_of_any_size_stay_finite(loss, regularizer):
    x, y = unscaled(loss, rows=25)
    for size in 10.0 ** np.arange(-10, 11, 4):
        for steps in (Constant(size), Polynomial(size), AdaGrad(size), ScaleFree(AdaGrad(size))):
            model = learner(FIOL(loss, regularizer, steps))
            model.learn(x, y)  # a warning would be an error
            assert np.isfinite(model.weights).all()
            assert np.isfinite(model.predict(x)).all()


def test_explicit_steps_that_diverge_are_reported():
    x, y = unscaled(Squared())
    message = r"^the score of row \d+ is (-?inf|nan): this update diverges; use an implicit loss step$"
    with pytest.warns(RuntimeWarning, match=message) as caught:
        learner(SGD(Squared(), step_size=Constant(1.0))).learn(x, y)
    assert len(caught) == 1
    assert caught[0].filename in (__file__, fiol.learner.__file__)
    model = learner(SGD(Squared(), step_size=Constant(1.0)), n_features=6)
    one_by_one = (model.learn_one(np.arange(6, dtype=np.int32), *row) for row in zip(x, y, strict=True))
    with pytest.warns(RuntimeWarning, match=r"^the score is .*diverges"):
        list(one_by_one)
    assert model.rounds == 60


def test_divergence_is_detected_anywhere_in_a_chunk():
    model = learner(SGD(Squared(), step_size=Constant(1.0)), intercept=False)
    rows = np.vstack([[1e60, 0.0]] * 9 + [[0.0, 1.0]])
    with pytest.warns(RuntimeWarning, match="^the score of row 3 is"):
        assert np.isfinite(model.learn(rows, np.ones(10))[-1])


# --- files ------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.fiol"


KINDS = [{}, {"average": True}, {"dtype": "float32"}, {"intercept": False}, {"n_features": D}]


@pytest.mark.parametrize(
    ("update", "options"), [*product(ALL, KINDS), *product(ALL[:-3], [{"bits": 5}])], ids=lambda v: short(v) or str(v)
)
def test_saved_learner_loads_identically(update, options, path):
    model, rows = learner(update, **options), data(update.loss)
    model.learn(*rows.part(0, 15))
    model.save(path)
    loaded = Learner.load(path, compiled=False)
    assert whole(loaded) == whole(model)
    assert loaded.update == update
    assert loaded.core.options() == model.core.options()
    assert loaded.learn(*rows.part(15, ROWS)).tobytes() == model.learn(*rows.part(15, ROWS)).tobytes()
    assert whole(loaded) == whole(model)


@pytest.mark.parametrize("options", [{}, {"max_features": 8}, {"bits": 6}], ids=str)
def test_names_are_saved(options, path):
    model, rows = (
        learner(FIOL(Logistic(), L1(0.1)), **options),
        [{f"größe {r % 4}": 1.0, r % 3: 2.0} for r in range(12)],
    )
    model.learn(rows[:7], [1, -1, 1, 1, -1, 1, 1])
    model.save(path)
    loaded = Learner.load(path, compiled=False)
    assert loaded.names == model.names
    assert loaded.learn(rows, [1] * 12).tobytes() == model.learn(rows, [1] * 12).tobytes()
    assert whole(loaded) == whole(model)


def test_untrained_learner_can_be_saved(path):
    model = learner(PRESETS[8])
    model.save(path)
    loaded = Learner.load(path, compiled=False)
    assert whole(loaded) == whole(model)
    loaded.learn_named({"a": 1.0}, 1)


def alter(path, change):
    """Change the header of a file; kind and meta stand beside the keys of the learner's header."""
    outer, arrays = model_file.read(path)
    header = {**outer.pop("model"), **outer}
    change(header, arrays)
    outer = {key: header.pop(key) for key in ("kind", "meta") if key in header}
    model_file.write(path, {**outer, "model": header}, arrays)


def put(*keys, value):
    def change(header, arrays):
        for key in keys[:-1]:
            header = header[key]
        header[keys[-1]] = value

    return change


def drop(part, key):
    return lambda header, arrays: (header if part == "header" else arrays).pop(key)


def swap(key, array):
    def change(header, arrays):
        arrays[key] = array

    return change


ALTERED = [
    (put("kind", value="forest"), r"it holds 'forest', not a learner$"),
    (drop("header", "kind"), r"it holds None, not a learner$"),
    *((drop("header", key), rf"'{key}' is missing") for key in ("update", "options", "features", "columns", "names")),
    (put("update", "component", value="os.system"), r"os\.system before loading$"),
    (put("update", value=to_json(L1(0.1))), r"its update is a L1, not an Update$"),
    (
        put("update", "fields", "regularizer", "fields", "lam", value=-1),
        r"\.regularizer\.lam must be at least 0",
    ),
    (put("update", "fields", "loss", value=to_json(L1(0.1))), r"loss must be a fiol\.Loss"),
    (
        put("update", "fields", "step_size", value=to_json(AdaGrad())),
        r"array .* does not fit the update$",
    ),
    (
        put("update", "fields", "regularizer_step", value=to_json(fiol.RegularizerOnce())),
        r"goes with anch",
    ),
    (put("options", value=[]), r"must be a mapping|argument"),
    (put("options", "depth", value=3), r"unexpected keyword argument 'depth'"),
    (put("options", "n_features", value="nine"), r"n_features must be an integer"),
    (put("options", "average", value=True), r"array 'state\.(mark|total)' is missing or does not fit"),
    (put("options", "dtype", value="float32"), r"array 'state\.w' is missing or does not fit the update$"),
    (put("options", "intercept", value=False), r"array 'intercept\.w' is missing or does not fit"),
    (put("options", "max_features", value=20), r"names do not go with"),
    (put("options", "max_features", value=True), r"its max_features must be an integer or null, got True$"),
    (put("options", "max_features", value=20.0), r"its max_features must be an integer or null, got 20\.0$"),
    (put("options", "bits", value=True), r"its bits must be an integer or null, got True$"),
    (put("options", "n_features", value=9.0), r"its n_features must be an integer or null, got 9\.0$"),
    (put("options", "n_features", value=8), r"it has 9 features, but its options say 8$"),
    (put("options", "bits", value=3), r"it has 9 features, but its options say 8$"),
    (put("options", "intercept", value=1), r"its intercept must be true or false, got 1$"),
    (put("options", "average", value="yes"), r"its average must be true or false, got 'yes'$"),
    (put("options", "average", value=None), r"its average must be true or false, got None$"),
    (put("options", "dtype", value=None), r"its dtype must be a name, got None$"),
    (put("options", "dtype", value="float16"), r"dtype must be \"float64\" or \"float32\""),
    (put("options", "compiled", value=True), r"multiple values for keyword argument 'compiled'"),
    (put("features", value=True), r"its number of features is given as True$"),
    (put("meta", value=[]), r"its header or its meta is no object$"),
    (put("features", value=-1), r"its number of features is given as -1$"),
    (put("features", value="nine"), r"its number of features is given as 'nine'$"),
    (put("features", value=2**40), r"its number of features is given as 1099511627776$"),
    (put("columns", value=["a"]), r"its columns are not one name for each of 9 features$"),
    (put("columns", value=["a"] * D), r"its columns are not all different$"),
    (put("columns", value=[*range(D)]), r"its columns are not one name"),
    (put("names", value="abcdefghi"), r"its names are not one name"),
    (put("names", value=[[], *range(1, D)]), r"its names are not one name"),
    (put("names", value=[True, *range(2, D + 1)]), r"its names are not one name"),
    (drop("arrays", "state.w"), r"array 'state\.w' is missing"),
    (drop("arrays", "clock"), r"array 'clock' is missing"),
    (swap("clock", np.zeros(4)), r"array 'clock' is missing or does not fit"),
    (swap("clock", np.array([-1.0, 1, 1, 0, 0, 0])), r"its number of rounds is given as -1\.0$"),
    (swap("clock", np.array([nan, 1, 1, 0, 0, 0])), r"array 'clock' must be finite, got nan at \[0\]$"),
    (swap("uncounted", np.zeros(1)), r"array 'uncounted' is missing or does not fit"),
    (swap("uncounted", np.array([0.5, 0.0])), r"what its clock does not count is given as 0\.5 rows and 0\.0 rounds$"),
    (swap("uncounted", np.array([-1.0, 0.0])), r"what its clock does not count is given as -1\.0 rows"),
    (swap("uncounted", np.array([0.0, nan])), r"array 'uncounted' must be finite, got nan at \[1\]$"),
    (swap("state.w", np.zeros((3, 3))), r"array 'state\.w' is missing or does not fit"),
    (swap("state.w", np.zeros(D, np.float32)), r"array 'state\.w' is missing or does not fit"),
    (swap("state.mark", np.zeros(D - 1)), r"array 'state\.(w|mark)' is missing or does not fit"),
    (swap("intercept.w", np.zeros(2)), r"array 'intercept\.w' is missing or does not fit"),
    (swap("fresh.w", np.zeros(0)), r"array 'fresh\.w' is missing or does not fit"),
]


@pytest.mark.parametrize(("change", "reason"), ALTERED)
def test_altered_file_is_rejected_with_a_reason(change, reason, path):
    model = learner(FIOL(Logistic(), L1(0.01), Constant(0.1)))
    model.learn(*data(Logistic()))
    model.save(path)
    alter(path, lambda header, arrays: None)
    assert whole(Learner.load(path, compiled=False)) == whole(model)
    alter(path, change)
    with pytest.raises(ModelFileError, match=rf"^{path}: .*(?:{reason})"):
        Learner.load(path, compiled=False)


def test_unknown_header_keys_are_ignored_and_missing_ones_have_defaults(path):
    """Keys of newer versions are ignored; keys that older versions did not write have defaults."""
    model = learner(FIOL(Logistic(), L1(0.01)))
    model.learn(*data(Logistic()))
    model.save(path)
    alter(path, put("mood", value="good"))
    alter(path, swap("state.mood", np.zeros(3)))
    for option in ("max_features", "dtype"):
        alter(path, lambda header, _, option=option: header["options"].pop(option))
    alter(path, drop("header", "meta"))
    loaded = Learner.load(path, compiled=False)
    assert whole(loaded) == whole(model)
    assert loaded.meta == {}


def test_meta_is_saved_copied_and_pickled(path):
    model = learner(FIOL(Logistic()))
    assert model.meta == {}
    model.meta = {"target": "price", "columns": [{"größe": 1.5, "unit": None}], "seen": True}
    meta = copy.deepcopy(model.meta)
    model.save(path)
    others = [fiol.load(path, compiled=False), Learner.load(path), model.copy(), pickle.loads(pickle.dumps(model))]
    model.meta["columns"][0]["unit"] = "m"
    others.append(Learner.merge([others[0], learner(FIOL(Logistic()))]))
    for other in others:
        assert type(other) is Learner
        assert other.meta == meta
    others[0].meta["columns"].clear()
    assert others[-1].meta == meta
    assert learner(FIOL(Logistic())).meta == {}


@pytest.mark.parametrize("meta", [{"a": (1, 2)}, {1: 2}, [], None, {"a": {1: 2}}], ids=repr)
def test_meta_must_be_json(path, meta):
    model = learner(FIOL(Logistic()))
    model.meta = meta
    with pytest.raises(TypeError, match=r"^meta must be a dict of plain JSON values"):
        model.save(path)
    model.meta = {"a": nan}
    with pytest.raises(ValueError, match="not JSON compliant"):
        model.save(path)
    assert not path.exists()


def test_save_to_missing_folder_names_the_given_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ("none/model.fiol", tmp_path / "none" / "model.fiol"):
        with pytest.raises(FileNotFoundError) as caught:
            learner(FIOL(Logistic())).save(path)
        assert caught.value.filename == str(path)
        assert ".tmp" not in str(caught.value)


def test_load_of_other_files_raises(path):
    path.write_bytes(b"PK\x03\x04 surely a zip")
    with pytest.raises(ModelFileError, match=r"not a fiol model file$"):
        Learner.load(path)
    with pytest.raises(FileNotFoundError):
        Learner.load(path.with_name("nowhere"))


class Mine(fiol.Regularizer):
    """A user's own component: halves weights."""

    rate: float = 0.5

    def value(self, w, i):
        return self.rate * w * w

    def prox(self, u, step, i):
        return u / (1.0 + 2.0 * self.rate * step)


def test_own_components_load_if_defined(path):
    model, rows = learner(FIOL(Squared(), Mine(0.1))), data(Squared())
    model.learn(*rows)
    model.save(path)
    loaded = Learner.load(path, compiled=False)
    assert loaded.update.regularizer == Mine(0.1)
    assert loaded.learn(*rows).tobytes() == model.copy().learn(*rows).tobytes()
    gone = f"{Mine.__module__}.Gone"
    alter(path, put("update", "fields", "regularizer", "component", value=gone))
    with pytest.raises(ModelFileError, match=rf"names {gone}, .*: define or import {gone} before loading$"):
        Learner.load(path)


def test_component_without_json_can_be_copied():
    class Named(Mine):
        pass

    first = learner(FIOL(Squared(), Named(0.1)))

    class Named(Mine):  # as one does in a notebook
        def prox(self, u, step, i):
            return 0.0

    first.learn(*data(Squared()))
    assert type(first.copy().update.regularizer) is type(first.update.regularizer)


WRITER = """
    import sys
    import numpy as np
    from fiol import FIOL, L1, Learner, Logistic
    path, seed = sys.argv[1], int(sys.argv[2])
    model = Learner(FIOL(Logistic(), L1(0.01)), compiled=False)
    x, y = np.random.default_rng(seed).standard_normal((2000, 5)), np.tile([1.0, -1.0], 1000)
    for r in range(0, 2000, 2):
        model.learn(x[r : r + 2], y[r : r + 2])
        model.save(path)
        print("saved", flush=True)
"""


def test_killed_process_resumes_to_the_same_bits(path):
    command = [sys.executable, "-c", textwrap.dedent(WRITER), str(path), "7"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    for _ in range(25):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    x, y = np.random.default_rng(7).standard_normal((120, 5)), np.tile([1.0, -1.0], 60)
    resumed, straight = Learner.load(path, compiled=False), learner(FIOL(Logistic(), L1(0.01)))
    done = resumed.rounds
    assert 50 <= done < 120
    assert done % 2 == 0
    resumed.learn(x[done:], y[done:])
    straight.learn(x, y)
    assert bits(resumed) == bits(straight)
