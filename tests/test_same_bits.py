"""Every preset on the benchmarks' streams: the same bits as when the digests were made.

`python tests/test_same_bits.py` makes `digests.json` anew, which only a change that means to change results may do.
Compiled sums are added in as many lanes as the processor has, so that bits are compared on the machine and with the
compiler they were made with; elsewhere all numbers must agree to 1e-9. All runs are made in the interpreter, and a few
compiled: all of them if FIOL_ALL_BITS is set, which takes minutes.
"""

import hashlib
import json
import os
from pathlib import Path

import llvmlite
import llvmlite.binding
import numba
import numpy as np
import pytest
from benchmarks.data import text_like

import fiol

DIGESTS = Path(__file__).parent / "digests.json"
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


#: Of streams, these are compiled in every run of the tests; of estimators, all are.
FEW = ("FIOL l1", "FIOL ridge, constant", "RDA net", "squared")
COMPILED = [
    name for name, (run, _, _) in RUNS.items() if os.environ.get("FIOL_ALL_BITS") or run is classes_of or name in FEW
]


def summary(name, **how):
    """The bits of a run, and numbers that stand for it."""
    run, what, options = RUNS[name]
    arrays = [np.ascontiguousarray(a, np.float64) for a in run(what, **options, **how)]
    bits = hashlib.sha256(b"|".join(a.tobytes() for a in arrays)).hexdigest()[:24]
    return {"bits": bits, "numbers": [float(f(a)) for a in arrays for f in (np.sum, np.linalg.norm, np.max)]}


def maker():
    """What last bits depend on."""
    return f"{llvmlite.binding.get_host_cpu_name()}, numba {numba.__version__}, llvmlite {llvmlite.__version__}"


def check(name, kind, found):
    kept = json.loads(DIGESTS.read_text())
    if kept["runs"][name].get("made by", kept["made by"]) == maker():  # some were made anew since, elsewhere
        assert found["bits"] == kept["runs"][name][kind]["bits"]
    np.testing.assert_allclose(found["numbers"], kept["runs"][name][kind]["numbers"], rtol=1e-9, atol=1e-12)


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
@pytest.mark.parametrize("name", COMPILED)
def test_same_bits_compiled(name):
    check(name, "compiled", summary(name))


@pytest.mark.parametrize("name", [name for name, (run, _, _) in RUNS.items() if run is not classes_of])
def test_same_bits_in_the_interpreter(name):
    check(name, "interpreted", summary(name, compiled=False))


def all_summaries():
    for name, (run, _, _) in RUNS.items():
        yield (
            name,
            {"compiled": summary(name)} | ({} if run is classes_of else {"interpreted": summary(name, compiled=False)}),
        )


if __name__ == "__main__":
    DIGESTS.write_text(json.dumps({"made by": maker(), "runs": dict(all_summaries())}, indent=1) + "\n")
