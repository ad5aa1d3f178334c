"""Every preset on the benchmarks' streams: stored numbers, and the same bits in chunks and from files.

`python tests/test_stored_numbers.py` makes `stored_numbers.json` anew, which only a change that means to change results
may do. Numbers agree to 1e-9, those of float32 to 1e-5: sums are added in as many lanes as the processor has. All
runs are made in the interpreter, and a few are compiled: all of them if FIOL_ALL_COMPILED is set, which takes minutes.
"""

import json
import os
from pathlib import Path

import numba
import numpy as np
import pytest
from benchmarks.data import text_like
from tests.interpreted import interpret

import fiol

STORED = Path(__file__).parent / "stored_numbers.json"
#: The number of entries of every array that are stored, evenly spaced.
ENTRIES = 10
TEXT = text_like(300, 400, draws=20)
SCALES = np.logspace(-2, 2, 12)
DENSE = np.random.default_rng(5).standard_normal((200, 12)) * SCALES
MEAN = (DENSE / SCALES)[:, :4].sum(axis=1) + 0.3 * np.random.default_rng(6).standard_normal(200)
WEIGHT = np.random.default_rng(7).choice([0.0, 0.5, 1.0, 3.0], 200)

LOGISTIC, L1, RIDGE, NET = fiol.Logistic(), fiol.L1(1e-3), fiol.Ridge(1e-3), fiol.ElasticNet(1e-3, 1e-3)
CONSTANT, ROOT, ADAGRAD = fiol.Constant(0.5), fiol.Polynomial(0.5), fiol.AdaGrad()
BINARY = {
    "SGD l1": fiol.SGD(LOGISTIC, L1),
    "SGD ridge": fiol.SGD(LOGISTIC, RIDGE, CONSTANT),
    "PA": fiol.PA(),
    "PA1": fiol.PA1(0.1),
    "PA2": fiol.PA2(0.1),
    "IOL": fiol.IOL(LOGISTIC),
    "IOL entropy": fiol.IOL(LOGISTIC, ROOT, fiol.SignedEntropy()),
    "COMID l1": fiol.COMID(LOGISTIC, L1),
    "COMID net": fiol.COMID(LOGISTIC, NET, ADAGRAD),
    "RDA l1": fiol.RDA(LOGISTIC, L1),
    "RDA net": fiol.RDA(LOGISTIC, NET, ADAGRAD),
    "ISGD ridge": fiol.ISGD(LOGISTIC, RIDGE),
    "FIOL": fiol.FIOL(LOGISTIC),
    "FIOL l1": fiol.FIOL(LOGISTIC, L1),
    "FIOL l1, constant": fiol.FIOL(LOGISTIC, L1, CONSTANT),
    "FIOL ridge": fiol.FIOL(LOGISTIC, RIDGE),
    "FIOL ridge, constant": fiol.FIOL(LOGISTIC, RIDGE, CONSTANT),
    "FIOL net, decaying": fiol.FIOL(LOGISTIC, NET, ROOT),
    "FIOL box": fiol.FIOL(fiol.SquaredHinge(), fiol.non_negative(L1), ADAGRAD),
    "FIOL, scale-free constant": fiol.FIOL(LOGISTIC, NET, fiol.ScaleFree(CONSTANT)),
    "FTRLProximal": fiol.FTRLProximal(LOGISTIC, L1),
    "FTRLProximal once": fiol.FTRLProximal(LOGISTIC, NET, once=True),
    "ImplicitFTRL": fiol.ImplicitFTRL(LOGISTIC, L1),
    "ImplicitFTRL, scale-free": fiol.ImplicitFTRL(LOGISTIC, L1, fiol.ScaleFree(ADAGRAD)),
    "importance-aware": fiol.Update(LOGISTIC, L1, CONSTANT, fiol.ImportanceAware()),
    "truncated": fiol.Update(fiol.Hinge(), RIDGE, ROOT, fiol.Truncated()),
}
NUMBERS = {
    "squared": fiol.FIOL(fiol.Squared()),
    "squared l1": fiol.FIOL(fiol.Squared(), L1),
    "huber": fiol.FIOL(fiol.Huber(), RIDGE),
    "absolute": fiol.FIOL(fiol.Absolute(), L1, CONSTANT),
    "quantile": fiol.ImplicitFTRL(fiol.Quantile(0.9), NET),
    "Mahalanobis": fiol.FIOL(fiol.Squared(), RIDGE, ROOT, fiol.Mahalanobis(np.diag(1.0 + SCALES))),
}
AVERAGED = ("FIOL l1", "FIOL ridge, constant", "SGD ridge", "COMID l1")
CLASSES = {
    "softmax": {},
    "crammer_singer": {},
    "softmax l2": {"penalty": "l2"},
    "hinge": {},
    "log_loss": {"penalty": "l1"},
}


def stream_of(update, **options):
    learner = fiol.Learner(update, **options)
    return learner.learn(TEXT.matrix(), TEXT.y), learner.weights, np.array(learner.intercept)


def weighted(update, **options):
    learner = fiol.Learner(update, **options)
    return learner.learn(DENSE, MEAN, WEIGHT), learner.weights, np.array(learner.intercept)


def classes_of(name, **options):
    options = {"step_size": "single", **options}
    model = fiol.FIOLClassifier(name.split()[0], max_iter=2, tol=None, random_state=3, **options)
    model.fit(DENSE, np.digitize(MEAN, [-1.0, 1.0]))
    return model.decision_function(DENSE), model.coef_, model.intercept_


RUNS = {
    **{name: (stream_of, update, {}) for name, update in BINARY.items()},
    **{f"{name}, averaged": (stream_of, BINARY[name], {"average": True}) for name in AVERAGED},
    **{f"{name}, float32": (stream_of, BINARY[name], {"dtype": "float32"}) for name in ("FIOL l1", "FTRLProximal")},
    **{f"{name}, no intercept": (stream_of, BINARY[name], {"intercept": False}) for name in ("FIOL", "RDA l1")},
    **{name: (weighted, update, {}) for name, update in NUMBERS.items()},
    **{f"classes by {name}": (classes_of, name, options) for name, options in CLASSES.items()},
}


#: These are compiled in every run of the tests.
FEW = ("FIOL l1", "FIOL ridge, constant", "RDA net", "squared", "classes by log_loss")
COMPILED = [name for name in RUNS if os.environ.get("FIOL_ALL_COMPILED") or name in FEW]
STREAMS = [name for name, (run, _, _) in RUNS.items() if run is not classes_of]


def arrays_of(name, **how):
    """Scores, weights and intercepts of a run."""
    run, what, options = RUNS[name]
    return [np.asarray(a, np.float64).ravel() for a in run(what, **options, **how)]


def numbers_of(array):
    """The norm, numbers that depend on every entry and its place, some entries, and how many entries are exactly 0."""
    place = np.arange(len(array))
    sums = [np.linalg.norm(array), array.sum(), array @ np.cos(place), array @ np.sin(0.7 * place * place)]
    some = array[np.linspace(0, len(array) - 1, min(ENTRIES, len(array))).astype(int)]
    return [*map(float, sums), *map(float, some)], int(np.count_nonzero(array == 0.0))


def check(name, arrays):
    stored = json.loads(STORED.read_text())[name]
    near = 1e-5 if "float32" in name else 1e-9
    assert len(stored) == len(arrays)
    for array, (numbers, zeros) in zip(arrays, stored, strict=True):
        found, none = numbers_of(array)
        np.testing.assert_allclose(found, numbers, rtol=near, atol=near * numbers[0] / max(len(array), 1) ** 0.5)
        assert none == zeros


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
@pytest.mark.parametrize("name", COMPILED)
def test_compiled_presets_match_stored_numbers(name):
    check(name, arrays_of(name))


@pytest.mark.parametrize("name", RUNS)
def test_interpreted_presets_match_stored_numbers(name, monkeypatch):
    interpret(monkeypatch)
    check(name, arrays_of(name))


@pytest.mark.parametrize("name", STREAMS)
def test_chunks_copies_and_files_change_no_bit_of_presets(name, tmp_path):
    run, update, options = RUNS[name]
    rows = (TEXT.matrix()[:60], TEXT.y[:60]) if run is stream_of else (DENSE[:60], MEAN[:60], WEIGHT[:60])
    whole, parts = (fiol.Learner(update, compiled=False, **options) for _ in range(2))
    scores, found = whole.learn(*rows), []
    for start, stop in ((0, 1), (1, 25), (25, 60)):
        found.append(parts.learn(*(part[start:stop] for part in rows)))
        parts = parts.copy()
        if stop == 25:
            parts.save(tmp_path / "model.fiol")
            parts = fiol.load(tmp_path / "model.fiol", compiled=False)
    assert np.concatenate(found).tobytes() == scores.tobytes()
    assert parts.weights.tobytes() == whole.weights.tobytes()
    assert np.asarray(parts.intercept).tobytes() == np.asarray(whole.intercept).tobytes()


def all_numbers():
    """Of streams the numbers of the interpreter, of estimators those of compiled code."""
    return {
        name: [numbers_of(a) for a in arrays_of(name, **({} if run is classes_of else {"compiled": False}))]
        for name, (run, _, _) in RUNS.items()
    }


if __name__ == "__main__":
    lines = [f" {json.dumps(name)}: {json.dumps(numbers)}" for name, numbers in all_numbers().items()]
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
