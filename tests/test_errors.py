"""Wrong arguments of `solve_step`: which error, naming what and where; inputs stay as they were."""

import pickle
from math import inf, nan

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import fiol
from fiol import (
    L1,
    Absolute,
    Bisection,
    Box,
    ClosedForm,
    DiagonalMetric,
    ElasticNet,
    Entropy,
    Euclidean,
    Exponential,
    Hinge,
    Logistic,
    Mahalanobis,
    Newton,
    Partition,
    Poisson,
    Quantile,
    Regularizer,
    Ridge,
    SignedEntropy,
    Simplex,
    Sorting,
    Squared,
    SquaredHinge,
)


class OnlyProx(Regularizer):
    def value(self, w, i):
        return abs(w)

    def prox(self, u, step, i):
        return 0.5 * u


def numbers(*values):
    return np.array(values, dtype=float)


def sparse(indices, values=(1.0, 2.0)):
    return np.array(indices), np.array(values)


GOOD = {"x": numbers(1.0, -2.0, 0.5), "y": 1.0, "w": numbers(0.1, 0.2, 0.7), "loss": Squared(), "eta": 0.5}
IDENTITY = Mahalanobis(np.eye(3))

WRONG_NUMBERS = [
    ({"x": numbers(1.0, nan, inf)}, ValueError, r"^x\[1\] must be finite, got nan$"),
    ({"x": numbers(1.0, 2.0, -inf)}, ValueError, r"^x\[2\] must be finite, got -inf$"),
    ({"x": sparse([0, 2], [1.0, nan])}, ValueError, r"^x values\[1\] must be finite, got nan$"),
    ({"w": numbers(0.1, 0.2, nan)}, ValueError, r"^w\[2\] must be finite, got nan$"),
    ({"w": numbers(inf, 0.2, nan)}, ValueError, r"^w\[0\] must be finite, got inf$"),
    ({"w": numbers(1, 2, 3, 4, inf, 6).reshape(2, 3), "geometry": SignedEntropy()}, ValueError, r"^w\[1, 1\] must be"),
    ({"y": nan}, ValueError, r"^y must be finite, got nan$"),
    ({"y": -inf}, ValueError, r"^y must be finite, got -inf$"),
    ({"y": 10**400}, ValueError, r"^y must be finite, got inf$"),
    ({"eta": 0}, ValueError, r"^eta must be positive, got 0$"),
    ({"eta": -0.5}, ValueError, r"^eta must be positive, got -0\.5$"),
    ({"eta": nan}, ValueError, r"^eta must be finite, got nan$"),
    ({"eta": inf}, ValueError, r"^eta must be finite, got inf$"),
    ({"sample_weight": -0.5}, ValueError, r"^sample_weight must be at least 0, got -0\.5$"),
    ({"sample_weight": nan}, ValueError, r"^sample_weight must be finite, got nan$"),
    ({"sample_weight": inf}, ValueError, r"^sample_weight must be finite, got inf$"),
]

WRONG_LABELS = [
    *(
        ({"loss": loss, "y": y}, ValueError, rf"^y must be -1 or \+1 for {type(loss).__name__}, got {y:g}$")
        for loss in (Hinge(), SquaredHinge(), Logistic(), Exponential())
        for y in (0, 0.5, 2)
    ),
    ({"loss": Poisson(), "y": -1}, ValueError, r"^y must be a finite number of at least 0 for Poisson, got -1$"),
]

WRONG_TYPES = [
    ({"x": None}, TypeError, r"^x must be an array of numbers, got NoneType$"),
    ({"w": None}, TypeError, r"^w must be an array of numbers, got NoneType$"),
    ({"x": "text"}, TypeError, r"^x must be an array of numbers, got str$"),
    ({"x": [1.0, "b", 2.0]}, TypeError, r"^x must be an array of numbers, got list$"),
    ({"x": ["1", "2", "3"]}, TypeError, r"^x must be an array of numbers, got list$"),
    ({"x": np.array([1j, 2, 3])}, TypeError, r"^x must be an array of numbers, got ndarray"),
    ({"w": [[0.1], [0.2, 0.7]]}, TypeError, r"^w must be an array of numbers, got list$"),
    ({"y": "text"}, TypeError, r"^y must be a number, got 'text'$"),
    ({"y": "1"}, TypeError, r"^y must be a number, got '1'$"),
    ({"y": None}, TypeError, r"^y must be a number, got None$"),
    ({"y": numbers(1.0)}, TypeError, r"^y must be a number, got array\(\[1\.\]\)$"),
    ({"eta": "fast"}, TypeError, r"^eta must be a number, got 'fast'$"),
    ({"eta": numbers(1.0, 2.0)}, TypeError, r"^eta must be a number, got array"),
    ({"eta": 1j}, TypeError, r"^eta must be a number, got 1j$"),
    ({"sample_weight": None}, TypeError, r"^sample_weight must be a number, got None$"),
]

WRONG_SHAPES = [
    (
        {"x": numbers(1.0, 2.0)},
        ValueError,
        r"^x must have as many features as w .* shape \(3,\), got \(2,\)$",
    ),
    ({"x": numbers(1.0, 2.0, 3.0)[None]}, ValueError, r"^x must have .* shape \(3,\), got \(1, 3\)$"),
    ({"x": 1.0}, ValueError, r"^x must have .* shape \(3,\), got \(\)$"),
    ({"w": numbers(0.1, 0.2, 0.7)[None]}, ValueError, r"^w must be one-dimensional, got shape \(1, 3\)$"),
    ({"w": 0.1}, ValueError, r"^w must be one-dimensional, got shape \(\)$"),
    ({"geometry": SignedEntropy()}, ValueError, r"^w must have shape \(2, d\) for SignedEntropy, got \(3,\)"),
    ({"regularizer": L1([0.1, 0.2])}, ValueError, r"^L1\.lam has shape \(2,\), but there are 3 features$"),
    ({"regularizer": L1([[0.1, 0.2, 0.3]])}, ValueError, r"^L1\.lam has shape \(1, 3\), but there are 3 features$"),
    ({"regularizer": ElasticNet(0.1, [0.2])}, ValueError, r"^ElasticNet\.lam2 has shape \(1,\), but there are 3"),
    ({"regularizer": Box(Ridge([0.1]), 0.0)}, ValueError, r"^Ridge\.lam has shape \(1,\), but there are 3 features$"),
    ({"geometry": DiagonalMetric([1.0, 2.0])}, ValueError, r"^DiagonalMetric\.h has shape \(2,\), but there are 3"),
    ({"geometry": Mahalanobis(np.eye(2))}, ValueError, r"^Mahalanobis\.matrix has shape \(2, 2\), but there are 3"),
]

WRONG_ROWS = [
    ({"x": sparse([2, 0])}, ValueError, r"^x indices must increase, got 0 after 2 at position 1 \(unsorted\)$"),
    ({"x": sparse([1, 1])}, ValueError, r"^x indices must increase, got 1 after 1 at position 1 \(duplicate\)$"),
    ({"x": sparse(np.uint8([2, 1]))}, ValueError, r"^x indices must increase, got 1 after 2 at position 1"),
    ({"x": sparse([-1, 0])}, ValueError, r"^x indices must be from 0 to 2, got -1 at position 0$"),
    ({"x": sparse([0, 3])}, ValueError, r"^x indices must be from 0 to 2, got 3 at position 1$"),
    ({"x": sparse([0, 2**32 + 1])}, ValueError, r"^x indices must be from 0 to 2, got 4294967297 at position 1$"),
    ({"x": sparse([0.0, 1.0])}, TypeError, r"^x indices must be one-dimensional integers, got float64"),
    ({"x": sparse([True, False])}, TypeError, r"^x indices must be one-dimensional integers, got bool"),
    ({"x": sparse([[0, 1]], [[1.0, 2.0]])}, ValueError, r"^x must have .* shape \(3,\), got \(2, 1, 2\)$"),
    ({"x": sparse([0, 1], [1.0])}, ValueError, r"^x indices and values must have the same length, got 2 and 1$"),
    ({"x": sparse([0, 1], ["a", "b"])}, TypeError, r"^x values must be an array of numbers"),
    ({"x": csr_matrix([[1.0, 2.0, 0.0]] * 2)}, ValueError, r"^a sparse x must be one row of 3 .* shape \(2, 3\)$"),
    ({"x": csr_matrix([[1.0, 2.0]])}, ValueError, r"^a sparse x must be one row of 3 features, got shape \(1, 2\)$"),
    ({"x": csr_matrix([[1.0, nan, 0.0]])}, ValueError, r"^x values\[1\] must be finite, got nan$"),
    ({"x": csr_matrix(([1.0, 2.0], [2, 0], [0, 2]), (1, 3))}, ValueError, r"^x indices must increase, got 0 after 2"),
]

WRONG_PARTS = [
    ({"loss": Squared}, TypeError, r"^loss must be an instance, not the class: write Squared\(\.\.\.\)$"),
    ({"regularizer": L1}, TypeError, r"^regularizer must be an instance, not the class: write L1\(\.\.\.\)$"),
    ({"geometry": Euclidean}, TypeError, r"^geometry must be an instance, not the class: write Euclidean\(\.\.\.\)$"),
    ({"solver": Newton}, TypeError, r"^solver must be an instance, not the class: write Newton\(\.\.\.\)$"),
    ({"loss": L1(0.1)}, TypeError, r"^loss must be a fiol\.Loss, got L1\(lam=0\.1\)$"),
    ({"loss": "squared"}, TypeError, r"^loss must be a fiol\.Loss, got 'squared': did you mean fiol\.Squared\(\)\?$"),
    (
        {"regularizer": 0.1},
        TypeError,
        r"^regularizer must be .*, got 0\.1: did you mean fiol\.L1\(0\.1\) or fiol\.Ridge",
    ),
    ({"geometry": Squared()}, TypeError, r"^geometry must be a fiol\.Geometry, got Squared\(\)$"),
    ({"solver": "newton"}, TypeError, r"^solver must be .*, got 'newton': did you mean fiol\.Newton\(\)\?$"),
]

WRONG_COMBINATIONS = [
    ({"solver": Sorting(), "geometry": Entropy()}, TypeError, r"^Sorting needs .*; Entropy bends it: use Newton\(\)$"),
    ({"solver": Partition(), "geometry": Simplex()}, TypeError, r"^Partition needs .*; Simplex bends it: use Newton"),
    ({"solver": ClosedForm(), "geometry": Entropy()}, TypeError, r"^ClosedForm needs .*; Entropy bends it: use Newton"),
    ({"solver": ClosedForm(), "regularizer": L1(0.1)}, TypeError, r"^ClosedForm needs .*; L1 makes 2 .*: use Newton"),
    ({"solver": Newton(), "regularizer": OnlyProx()}, TypeError, r"^Newton needs `piece`; OnlyProx .*: use Bisection"),
    ({"solver": Sorting(), "regularizer": OnlyProx()}, TypeError, r"^Sorting needs `kinks`; OnlyProx .*: use Bisect"),
    ({"geometry": Simplex(), "regularizer": Ridge(0.1)}, TypeError, r"^Simplex goes with .*, not Ridge\(lam=0\.1\)"),
    (
        {"geometry": IDENTITY, "regularizer": L1(0.1)},
        TypeError,
        r"^Mahalanobis couples .*, not L1\(lam=0\.1\): use D",
    ),
    ({"geometry": IDENTITY, "regularizer": Ridge([1, 2, 3])}, TypeError, r"^Mahalanobis couples .*, not Ridge"),
    (
        {"geometry": Entropy(), "regularizer": Box(L1(0.1), -1, 0)},
        TypeError,
        r"^Entropy keeps weights positive .* none",
    ),
    ({"geometry": Entropy(), "regularizer": OnlyProx()}, TypeError, r"^Entropy needs `l1`; OnlyProx has none"),
    ({"geometry": Entropy(), "w": numbers(0.1, -0.2, 1)}, ValueError, r"^Entropy keeps .* got w\[1\] = -0\.2$"),
    ({"geometry": Simplex(), "w": numbers(1.1, 0, -0.1)}, ValueError, r"^Simplex needs .* got w\[2\] = -0\.1$"),
    ({"geometry": Simplex(), "w": numbers(0.1, 0.2, 0.3)}, ValueError, r"^Simplex needs .* sum to 1, got 0\.6$"),
    (
        {"geometry": SignedEntropy(), "w": numbers(1, 1, 1, 1, -1, 1).reshape(2, 3)},
        ValueError,
        r"^SignedEntropy keeps weights at 0 or above, got w\[1, 1\] = -1$",
    ),
]

TABLE = [
    *WRONG_NUMBERS,
    *WRONG_LABELS,
    *WRONG_TYPES,
    *WRONG_SHAPES,
    *WRONG_ROWS,
    *WRONG_PARTS,
    *WRONG_COMBINATIONS,
]


def name_of(case):
    return "+".join(case) or "nothing" if isinstance(case, dict) else str(case) if isinstance(case, bool) else ""


@pytest.mark.parametrize(("changes", "error", "message"), TABLE, ids=name_of)
def test_solve_step_names_wrong_arguments(changes, error, message, monkeypatch):
    monkeypatch.setattr("fiol.step.kernels", lambda compiled: pytest.fail("reached the kernels"))
    arguments = {**GOOD, **changes}
    before = pickle.dumps(arguments)
    with pytest.raises(error, match=message):
        fiol.solve_step(**arguments)
    assert pickle.dumps(arguments) == before


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Mahalanobis([[1.0, 2.0, 3.0]]), r"^Mahalanobis\.matrix must be square, got shape \(1, 3\)$"),
        (lambda: Mahalanobis(2.0), r"^Mahalanobis\.matrix must be square, got shape \(\)$"),
        (lambda: Mahalanobis([[1.0, 0.5], [0.4, 1.0]]), r"^Mahalanobis\.matrix must be symmetric"),
        (lambda: Mahalanobis([[1.0, 2.0], [2.0, 1.0]]), r"^Mahalanobis\.matrix must be positive definite, .* is -1$"),
        (lambda: Mahalanobis([[1.0, inf], [inf, 1.0]]), r"^Mahalanobis\.matrix must be finite"),
        (lambda: DiagonalMetric([1.0, 0.0]), r"^DiagonalMetric\.h\[1\] must be greater than 0 and finite, got 0$"),
        (lambda: L1(-1), r"^L1\.lam must be at least 0 and finite, got -1$"),
        (lambda: Ridge([0.1, 0.2, -0.3]), r"^Ridge\.lam\[2\] must be at least 0 and finite, got -0\.3$"),
        (lambda: ElasticNet(0.1, -0.2), r"^ElasticNet\.lam2 must be at least 0 and finite, got -0\.2$"),
        (lambda: Bisection(-1e-3), r"^Bisection\.tol must be at least 0 and at most 1, got -0\.001$"),
        (lambda: Newton(0), r"^Newton\.passes must be at least 1"),
    ],
)
def test_invalid_components_raise_when_constructed(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def both(cases):
    """Run each case in the interpreter, and compiled if a plain step has that code: other kernels take seconds."""
    plain = [(case, True) for case in cases if not case.keys() & {"loss", "regularizer", "geometry", "solver"}]
    return pytest.mark.parametrize(("changes", "compiled"), [*((case, False) for case in cases), *plain], ids=name_of)


@both(
    [
        {"eta": 1e6, "x": numbers(1.0, 1e200, 0.0)},
        {"eta": 1e6, "x": sparse([0, 2], [1.0, -1e200])},
        {"eta": 1e6, "x": numbers(1.0, 1e200, 0.0), "regularizer": L1(0.1)},
        {"eta": 1e6, "x": numbers(1.0, 1e200, 0.0), "loss": Logistic()},
        {"eta": 1e300, "x": numbers(1e10, 1.0, 1.0), "loss": Absolute()},
        {"x": numbers(1e308, 1e308, 0.0), "w": numbers(1.0, 1.0, 0.0)},
    ]
)
def test_solve_step_overflow_raises(changes, compiled):
    arguments = {**GOOD, **changes}
    before = pickle.dumps(arguments)
    with pytest.raises(OverflowError, match=r"range of double precision.*x\[\d\].*scale the features"):
        fiol.solve_step(**arguments, compiled=compiled)
    assert pickle.dumps(arguments) == before


@both(
    [
        {},
        {"x": sparse([0, 2])},
        {"x": sparse([], [])},
        {"x": numbers(0.0, 0.0, 0.0)},
        {"x": (1.0, 2.0, 3.0)},
        {"x": csr_matrix([[1.0, 0.0, 2.0]])},
        {"regularizer": L1([0.1, 0.2, 0.3]), "loss": Quantile(0.9)},
        {"x": sparse([0, 2]), "regularizer": Box(ElasticNet([0.1, 0.2, 0.3], 0.1), 0.0, 0.5)},
        {"geometry": DiagonalMetric([1.0, 2.0, 3.0])},
        {"geometry": IDENTITY},
        {"geometry": Entropy(), "x": sparse([0, 2])},
        {"geometry": Simplex(), "x": sparse([0, 2])},
        {"geometry": SignedEntropy(), "w": numbers(1, 2, 3, 4, 5, 6).reshape(2, 3)},
        {"solver": Partition(), "regularizer": L1(0.1)},
    ]
)
def test_solve_step_leaves_its_arguments_unchanged(changes, compiled):
    arguments = {**GOOD, **changes}
    before = pickle.dumps(arguments)
    step = fiol.solve_step(**arguments, compiled=compiled)
    assert not np.shares_memory(step.w, arguments["w"])
    step.w[...] = -99.0
    assert pickle.dumps(arguments) == before
