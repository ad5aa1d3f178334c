"""Components are values with a fingerprint of their code, and users' own components work like built-in ones."""

import copy
import dataclasses
import pickle
import sys
from fractions import Fraction
from math import asinh, atan, inf, log1p, nan, sinh, sqrt
from types import ModuleType

import numba
import numpy as np
import pytest

import fiol
from fiol import L1, Box, ElasticNet, Huber, Loss, Newton, Quantile, Regularizer, Ridge, Separable, Solver, Squared
from fiol.compiler.fingerprint import fingerprint
from fiol.components.component import Component
from fiol.components.regularizers import Unregularized

VALUES = [
    Squared(),
    Huber(2),
    L1(0.1),
    L1([0.1, 0.2]),
    ElasticNet(0.1, [0.2, 0.3]),
    Box(L1([0.1, 0.2]), 0, 1),
    fiol.non_negative(Ridge(1)),
    fiol.DiagonalMetric([1.0, 2.0]),
    fiol.Mahalanobis([[2.0, 1.0], [1.0, 2.0]]),
    fiol.Entropy(),
    Newton(7),
    fiol.Partition(fiol.RandomPivot(3)),
]


# --- values -----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_component_copies_are_equal(value):
    printed = eval(repr(value), {**vars(fiol), "array": np.array, "inf": inf})
    for other in (printed, pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value), value.replace()):
        assert other is not value
        assert other == value
        assert hash(other) == hash(value)
        assert repr(other) == repr(value)
    assert [other == value for other in VALUES].count(True) == 1
    assert value != 0.1
    assert len({*VALUES, *copy.deepcopy(VALUES)}) == len(VALUES)


@pytest.mark.parametrize("value", [Squared(), Box(ElasticNet(0.1, 0.2), lo=-1.0)])
def test_component_restored_from_its_state_has_the_numbers_that_compiled_code_reads(value):
    """As skops before 0.12 restores objects."""
    other = type(value).__new__(type(value))
    other.__setstate__(value.__getstate__())
    assert other == value
    assert other._leaves == value._leaves


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (L1(0.1), L1(0.2)),
        (L1(0.1), Ridge(0.1)),
        (L1(0.1), L1([0.1])),
        (L1([0.1, 0.2]), L1([0.2, 0.1])),
        (L1([0.1, 0.2]), L1([[0.1], [0.2]])),
        (Box(L1(0.1)), Box(L1(0.2))),
    ],
    ids=repr,
)
def test_components_with_other_values_differ(one, other):
    assert one != other
    assert {one: 1, other: 2} == {copy.deepcopy(one): 1, copy.deepcopy(other): 2}


def test_component_fields_cannot_be_set():
    lasso = L1([0.1, 0.2])
    with pytest.raises(dataclasses.FrozenInstanceError):
        lasso.lam = 0.2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del lasso.lam
    with pytest.raises(dataclasses.FrozenInstanceError):
        lasso.other = 0.2
    with pytest.raises(ValueError, match="read-only"):
        lasso.lam[0] = 0.3


def test_component_arrays_are_copied():
    lam = np.array([0.1, 0.2])
    lasso = L1(lam)
    lam[0] = 5.0
    np.testing.assert_array_equal(lasso.lam, [0.1, 0.2])
    assert lam.flags.writeable
    assert L1(lasso.lam).lam is not lasso.lam


@pytest.mark.parametrize(
    "lam", [1, 1.0, np.int8(1), np.float32(1), np.array(1), Fraction(1)], ids=lambda lam: type(lam).__name__
)
def test_component_numbers_are_stored_as_float(lam):
    assert type(L1(lam).lam) is float
    assert L1(lam) == L1(1.0)


@pytest.mark.parametrize("lam", [[1, 2], (1, 2), np.array([1, 2], np.int8), np.float32([9, 1, 9, 2])[1::2]], ids=repr)
def test_arrays_are_stored_as_contiguous_doubles(lam):
    stored = L1(lam).lam
    assert type(stored) is np.ndarray
    assert stored.dtype == np.float64
    assert stored.flags.c_contiguous
    assert L1(lam) == L1([1.0, 2.0])


@pytest.mark.parametrize("passes", [7, 7.0, np.uint8(7), np.float64(7)], ids=repr)
def test_integer_fields_are_stored_as_int(passes):
    assert type(Newton(passes).passes) is int
    assert Newton(passes) == Newton(7)


NUMBERS = r"L1\.lam must be a number or an array of numbers, got "


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: L1(nan), ValueError, r"^L1\.lam must be a number, got NaN$"),
        (lambda: L1([0.1, nan]), ValueError, r"^L1\.lam\[1\] must be a number, got NaN$"),
        (lambda: fiol.Mahalanobis([[1, 0], [nan, 1]]), ValueError, r"^Mahalanobis\.matrix\[1, 0\] must be a number"),
        (lambda: L1(-0.5), ValueError, r"^L1\.lam must be at least 0 and finite, got -0\.5$"),
        (lambda: L1(inf), ValueError, r"^L1\.lam must be at least 0 and finite, got inf$"),
        (lambda: L1([0.1, -0.5]), ValueError, r"^L1\.lam\[1\] must be at least 0 and finite, got -0\.5$"),
        (lambda: Quantile(1.5), ValueError, r"^Quantile\.tau must be at least 0 and at most 1, got 1\.5$"),
        (lambda: Huber(0), ValueError, r"^Huber\.delta must be greater than 0, got 0$"),
        (lambda: L1("0.1"), TypeError, NUMBERS + "'0.1'"),
        (lambda: L1(None), TypeError, NUMBERS + "None"),
        (lambda: L1(True), TypeError, NUMBERS + "True"),
        (lambda: L1(np.bool_(True)), TypeError, NUMBERS),
        (lambda: L1(1j), TypeError, NUMBERS + "1j"),
        (lambda: L1([1j]), TypeError, NUMBERS),
        (lambda: L1(["0.1"]), TypeError, NUMBERS),
        (lambda: L1([True, False]), TypeError, NUMBERS),
        (lambda: L1([None]), TypeError, NUMBERS),
        (lambda: L1([[0.1], [0.2, 0.3]]), TypeError, NUMBERS),
        (lambda: L1({0.1}), TypeError, NUMBERS),
        (lambda: L1(L1(0.1)), TypeError, NUMBERS + r"L1\(lam=0\.1\)"),
        (lambda: L1(L1), TypeError, r"^L1\.lam must be an instance, not the class: write L1\(\.\.\.\)$"),
        (lambda: Huber([1.0, 2.0]), TypeError, r"^Huber\.delta must be a number, got \[1\.0, 2\.0\]$"),
        (lambda: Newton(1.5), TypeError, r"^Newton\.passes must be an integer of 64 bits, got 1\.5$"),
        (lambda: Newton(2**70), TypeError, r"^Newton\.passes must be an integer of 64 bits, got "),
        (lambda: Newton([1, 2]), TypeError, r"^Newton\.passes must be an integer of 64 bits, got \[1, 2\]$"),
        (lambda: Box(0.1), TypeError, r"^Box\.regularizer must be a Regularizer, got 0\.1$"),
        (lambda: Box(L1), TypeError, r"^Box\.regularizer must be an instance, not the class: write L1\(\.\.\.\)$"),
        (lambda: Box(L1(0.1), 2, 1), ValueError, r"^Box needs lo <= hi .* got lo=2, hi=1$"),
        (lambda: L1(0.1).replace(lam=-1), ValueError, r"^L1\.lam must be at least 0"),
        (lambda: L1(0.1).replace(gamma=1), TypeError, "gamma"),
        (lambda: L1(), TypeError, "'lam'"),
    ],
)
def test_wrong_component_fields_are_named(build, error, message):
    with pytest.raises(error, match=message):
        build()


# --- methods ----------------------------------------------------------------------------------


def test_method_with_wrong_signature_raises_and_names_its_class():
    with pytest.raises(TypeError, match=r"^Wrong\.grad must take \(self, z, y\), not \(self, z\)$"):

        class Wrong(Loss):
            def grad(self, z):
                return z

    with pytest.raises(TypeError, match=r"^Wrong\.prox must take \(self, u, step, i\), not \(self, \*args\)$"):

        class Wrong(Regularizer):
            def prox(self, *args):
                return 0.0

    with pytest.raises(TypeError, match=r"^Wrong\.grad must be a method \(self, z, y\), not <staticmethod"):

        class Wrong(Loss):
            @staticmethod
            def grad(z, y):
                return z - y


def test_methods_may_name_their_arguments_freely():
    class Free(Loss):
        def value(this, score, target):  # noqa: N805
            return 0.5 * (score - target) ** 2

        def grad(this, score, target):  # noqa: N805
            return score - target

    assert_solves_like(Squared(), loss=Free())


def only(family, *names):
    """An instance of a class with just these methods."""
    arguments = {name: ", ".join(("self", *family.protocol[name])) for name in names}
    scope = {"__name__": __name__}
    exec("\n".join(f"def {name}({arguments[name]}): return 1" for name in names) or "pass", scope)
    return type("Mine", (family,), {name: scope[name] for name in names})()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"loss": only(Loss, "value")}, r"^Mine has no `grad`: define grad\(self, z, y\)$"),
        ({"loss": only(Loss, "grad")}, r"^Mine has no `value`: define value\(self, z, y\)$"),
        ({"regularizer": only(Regularizer, "prox")}, r"^Mine has no `value`: define value\(self, w, i\)$"),
        ({"regularizer": only(Regularizer, "value")}, r"^Mine has no `prox`: define prox\(self, u, step, i\)$"),
        ({"geometry": only(Separable, "mirror")}, r"^Mine has no `inverse`: define inverse\(self, theta, i\)$"),
        ({"solver": only(Solver)}, r"^Mine has no `solve`: define solve\(self, problem, row, out\)$"),
        (
            {"regularizer": only(Regularizer, "value", "prox"), "solver": Newton()},
            r"^Newton needs `piece`; Mine has none: use Bisection\(\)$",
        ),
        (
            {"regularizer": only(Regularizer, "value", "piece"), "solver": fiol.Sorting()},
            r"^Sorting needs `kinks`; Mine has none: use Bisection\(\)$",
        ),
        (
            {"regularizer": only(Regularizer, "value", "piece", "kinks"), "solver": fiol.Partition()},
            r"^Partition needs `kink`; Mine has none: use Bisection\(\)$",
        ),
        (
            {"regularizer": only(Regularizer, "value", "prox"), "geometry": fiol.Entropy()},
            r"^Entropy needs `l1`; Mine has none: use Euclidean\(\) or DiagonalMetric\(\)$",
        ),
    ],
)
def test_missing_methods_are_named_before_compiling(parts, message, monkeypatch):
    def compile_nothing(*args):
        pytest.fail("reached the compiler")

    monkeypatch.setattr("fiol.engine.round.exact_step.step_row", compile_nothing)
    monkeypatch.setattr("fiol.engine.round.exact_step.absent_weights", compile_nothing)
    with pytest.raises(TypeError, match=message):
        fiol.solve_step([1.0, 2.0], 1.0, [0.5, 0.5], **{"loss": Squared(), **parts})
    if "regularizer" in parts and not parts["regularizer"].has("prox"):
        with pytest.raises(TypeError, match=message):
            Box(parts["regularizer"])


def test_methods_of_one_name_take_different_numbers_of_arguments():
    class Mine(Regularizer):
        def value(self, w, i):
            return 0.0

        def shrink(self, u):  # Elastic.shrink takes two
            return 0.5 * u

        def prox(self, u, step, i):
            return self.shrink(u)

    solve_both(regularizer=L1(0.1))
    solve_both(regularizer=Mine())
    solve_both(regularizer=L1(0.2))


def test_class_may_be_redefined_with_other_arguments():
    """In a notebook a helper method gains an argument between two runs of a cell."""

    def define(own):
        scope = {"Loss": fiol.Loss, "__name__": "notebook"}
        exec(f"class Mine(Loss):\n def value(self, z, y): return (z - y) ** 2\n{own}", scope)
        return scope["Mine"]()

    first = define(" def twice(self, e): return 2.0 * e\n def grad(self, z, y): return self.twice(z - y)\n")
    again = define(" def twice(self, z, y): return 2.0 * (z - y)\n def grad(self, z, y): return self.twice(z, y)\n")
    for loss in (first, again):
        steps = [fiol.solve_step([1.0], 3.0, [0.0], loss=loss, compiled=c) for c in (True, False)]
        assert steps[0].w == pytest.approx(steps[1].w)
        assert steps[0].w[0] == pytest.approx(2.0)


# --- fingerprints -----------------------------------------------------------------------------

OWN = """
from math import sin as bend
import numpy as np
from fiol import Loss

RATE = 2.0
TABLE = np.array([1.0, 2.0])
PAIR = (1, (2, 3))

def outer(e): return inner(e)

def inner(e, power=2): return e ** power

def make(closed):
    class Mine(Loss):
        scale: float = 1.0
        offset = 3
        def value(self, z, y): return self.scale * outer(z - y) + self.offset
        def grad(self, z, y): return RATE * bend(z - y) + TABLE[0] + PAIR[0] + closed
    return Mine

Mine = make(7.0)
"""


def print_of(source):
    scope = {"__name__": "elsewhere"}
    exec(source, scope)
    return fingerprint(scope["Mine"])[0]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("from math", "# a comment, and lines that move\n\n\nfrom math"),
        ("RATE = 2.0", "RATE = 2.0; scale = offset = 99; UNUSED = 1"),  # names of attributes, not of globals
        ("scale: float = 1.0", "scale: float = 5.0"),  # a value, not code
        ("return inner(e)", "return (inner(e))"),
    ],
)
def test_equal_code_has_equal_fingerprints(old, new):
    assert print_of(OWN.replace(old, new, 1)) == print_of(OWN)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("RATE * bend", "RATE + bend"),
        ("self.scale * outer", "self.scale + outer"),
        ("return inner(e)", "return inner(2 * e)"),
        ("e ** power", "e * power"),
        ("power=2", "power=3"),
        ("RATE = 2.0", "RATE = 3.0"),
        ("RATE = 2.0", "RATE = 2"),
        ("RATE = 2.0", "RATE = np.float32(2.0)"),
        ("[1.0, 2.0]", "[1.0, 3.0]"),
        ("np.array([1.0, 2.0])", "np.array([[1.0], [2.0]])"),
        ("(2, 3)", "(2, 4)"),
        ("offset = 3", "offset = 4"),
        ("make(7.0)", "make(8.0)"),
        ("import sin as", "import cos as"),
        ("def grad", "def hess(self, z, y): return 1.0\n        def grad"),
    ],
)
def test_edits_change_the_fingerprint(old, new):
    assert old in OWN
    assert print_of(OWN.replace(old, new, 1)) != print_of(OWN)


def test_fingerprint_covers_helpers_in_other_modules(monkeypatch):
    def build(number):
        """`package.helpers.push(z)`, where `helpers` imports `package` in turn."""
        package, helpers = ModuleType("package"), ModuleType("package.helpers")
        monkeypatch.setitem(sys.modules, "package", package)
        package.helpers = helpers
        exec(f"import package\ndef push(e): return package.RATE * e\npackage.RATE = {number}", vars(helpers))
        source = """
            import package
            from fiol import Loss
            class Mine(Loss):
                def value(self, z, y): return 0.0
                def grad(self, z, y): return package.helpers.push(z - y)
        """
        return print_of(source.replace("\n            ", "\n"))

    assert build(1.0) == build(1.0) != build(2.0)


def test_inherited_methods_are_part_of_the_fingerprint():
    def build(number):
        class Base(Loss):
            def value(self, z, y):
                return number * abs(z - y)

        class Mine(Base):
            def grad(self, z, y):
                return 1.0

        return fingerprint(Mine)[0]

    assert build(1.0) == build(1.0) != build(2.0)


def test_built_in_components_have_distinct_fingerprints():
    classes = [getattr(fiol, name) for name in fiol.__all__ if isinstance(getattr(fiol, name), type)]
    classes.remove(fiol.Schedule)  # which is StepSize by the name of what it does
    classes.remove(fiol.Stack)  # to which BestMember adds no method
    prints = [fingerprint(cls)[0] for cls in classes if issubclass(cls, Component)]
    assert len(prints) > 30
    assert len(set(prints)) == len(prints)


# --- components of users ----------------------------------------------------------------------

X = np.array([1.0, -2.0, 0.5, 0.0, 3.0, -0.25])
W = np.array([0.3, -0.2, 0.0, 1.0, 0.1, -2.0])


def solve_both(x=X, w=W, y=1.0, eta=0.5, ways=(True, False), **parts):
    """The step, which must not depend on whether it was compiled, nor on how the row is stored."""
    parts = {"loss": Squared(), **parts}
    steps = [
        fiol.solve_step(row, y, w, eta=eta, compiled=compiled, **parts)
        for compiled in ways
        for row in (x, (np.flatnonzero(x), x[x != 0.0]))
    ]
    for step in steps:
        np.testing.assert_allclose(step.w, steps[0].w, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose([step.beta, step.z], [steps[0].beta, steps[0].z], rtol=1e-12)
        assert step.residual <= 1e-12
    return steps[0]


def assert_solves_like(built_in, ways=(True, False), **parts):
    """The user's component, under the name of its family, against a built-in one."""
    ((family, _),) = [(name, part) for name, part in parts.items() if name != "solver"]
    for y, eta in ((1.0, 0.5), (-1.0, 10.0), (-1.0, 1e-3)):
        mine = solve_both(y=y, eta=eta, ways=ways, **parts)
        theirs = solve_both(y=y, eta=eta, ways=[False], **{family: built_in})
        np.testing.assert_allclose(mine.w, theirs.w, rtol=1e-9, atol=1e-12)


class Pinball(Loss):
    tau: float = 0.5

    def value(self, z, y):
        return max(self.tau * (y - z), (self.tau - 1.0) * (y - z))

    def grad(self, z, y):
        return (1.0 - self.tau) if z > y else -self.tau


class Parabola(Loss):
    def value(self, z, y):
        return 0.5 * (z - y) ** 2

    def grad(self, z, y):
        return z - y

    def hess(self, z, y):
        return 1.0


class Twice(Loss):
    loss: Loss

    def value(self, z, y):
        return 2.0 * self.loss.value(z, y)

    def grad(self, z, y):
        return 2.0 * self.loss.grad(z, y)


class Lasso(Regularizer):
    """Written with branches, and with integers where numbers are whole."""

    lam: float

    def value(self, w, i):
        return self.lam * abs(w)

    def prox(self, u, step, i):
        if u > step * self.lam:
            return u - step * self.lam
        if u < -step * self.lam:
            return u + step * self.lam
        return 0


class LassoByPieces(Regularizer):
    lam: float

    def value(self, w, i):
        return self.lam * abs(w)

    def piece(self, u, step, i):
        if abs(u) <= step * self.lam:
            return 0, 0
        return (1, -step * self.lam) if u > 0 else (1, step * self.lam)


class LassoWithKinks(LassoByPieces):
    def kinks(self):
        return 2

    def kink(self, j, step, i):
        return -step * self.lam if j == 0 else step * self.lam


class Hypentropy(Separable):
    """The example of `Separable`."""

    beta: float = 1.0

    def mirror(self, w, i):
        return asinh(w / self.beta)

    def inverse(self, theta, i):
        return self.beta * sinh(theta)

    def inverse_hess(self, w, i):
        return sqrt(w * w + self.beta * self.beta)

    def divergence(self, u, w, i):
        bent = u * (asinh(u / self.beta) - asinh(w / self.beta))
        return bent - self.inverse_hess(u, i) + self.inverse_hess(w, i)


def test_own_loss_with_value_and_gradient():
    assert_solves_like(Quantile(0.3), loss=Pinball(0.3))


def test_own_loss_with_second_derivative():
    assert not hasattr(Pinball, "hess")
    assert Parabola.dual is Loss.newton_dual
    assert_solves_like(Squared(), loss=Parabola())


def test_own_loss_wrapping_a_loss():
    twice, weighted = solve_both(loss=Twice(Huber(0.5))), fiol.solve_step(X, 1.0, W, loss=Huber(0.5), eta=1.0)
    np.testing.assert_allclose(twice.w, weighted.w, rtol=1e-12)  # half the loss is twice the step


@pytest.mark.parametrize(
    ("family", "solver"),
    [
        (Lasso, None),
        (LassoByPieces, None),
        (LassoByPieces, fiol.Bisection()),
        (LassoWithKinks, fiol.Sorting()),
        (LassoWithKinks, fiol.Partition()),
        (LassoWithKinks, fiol.Partition(fiol.MedianOfMedians())),
    ],
)
def test_own_regularizer_by_prox_pieces_or_kinks(family, solver):
    compiled = [True] * (solver is None or solver == fiol.Sorting())  # a solver asks for no more of ours
    assert_solves_like(L1(0.1), regularizer=family(0.1), solver=solver, ways=[*compiled, False])
    ways = [*compiled, False] if family is LassoWithKinks else [False]  # which has all that a box can ask for
    assert_solves_like(Box(L1(0.1), -0.5, 0.25), regularizer=Box(family(0.1), -0.5, 0.25), ways=ways)


@pytest.mark.parametrize("solver", [None, fiol.Bisection()], ids=repr)
def test_own_separable_geometry(solver):
    geometry, lam, eta = Hypentropy(0.5), 0.05, 0.5
    for regularizer in (Unregularized(), L1(lam), ElasticNet(lam, 0.2), Box(L1(lam), -0.25, 0.5)):
        # The plain step is compiled by `check_geometry`, too, and the penalties are not the geometry's.
        compiled = isinstance(regularizer, Unregularized if solver is None else Box)
        ways = [True, False] if compiled else [False]
        step = solve_both(geometry=geometry, regularizer=regularizer, solver=solver, eta=eta, ways=ways)
        for i, (x, w, new) in enumerate(zip(X, W, step.w, strict=True)):
            force = step.beta * x - (geometry.mirror(new, i) - geometry.mirror(w, i)) / eta
            sides = [regularizer.slope(new, side, i) for side in (-1, 1)]  # of the penalty at the new weight
            low = -inf if new == regularizer.clip(-inf) else sides[0]
            high = inf if new == regularizer.clip(inf) else sides[1]
            assert low - 1e-12 <= force <= high + 1e-12


def test_component_class_in_a_closure():
    def build(factor):
        def helper(e):
            return factor * e

        class Local(Loss):
            power = 2

            def value(self, z, y):
                return 0.5 * factor * (z - y) ** self.power

            def grad(self, z, y):
                return helper(z - y)

        return Local()

    for factor in (1.0, 3.0):
        mine = solve_both(loss=build(factor))
        theirs = fiol.solve_step(X, 1.0, W, loss=Squared(), eta=0.5, sample_weight=factor)
        np.testing.assert_allclose(mine.w, theirs.w, rtol=1e-12)


def test_component_helpers_of_any_kind():
    @numba.njit
    def compiled(e):
        return 2.0 * e

    def with_defaults(e, scale=1.0, power=2):
        return scale * e**power

    class Mine(Loss):
        def value(self, z, y):
            return 3.0 * (z - y) ** 2

        def own(self, e, scale=0.5):
            return scale * e

        def grad(self, z, y):
            half = lambda e: 0.5 * e  # noqa: E731
            return compiled(z - y) + with_defaults(z - y, power=1, scale=3.0) + self.own(z - y) + half(z - y)

    theirs = fiol.solve_step(X, 1.0, W, loss=Squared(), eta=0.5, sample_weight=6.0)
    np.testing.assert_allclose(solve_both(loss=Mine()).w, theirs.w, rtol=1e-12)


def test_field_may_share_the_name_of_another_classs_method():
    class Named(Loss):
        weight: float = 2.0  # Geometry.weight
        step: float = 3.0  # Problem.step

        def value(self, z, y):
            return 0.5 * self.weight * self.step * (z - y) ** 2

        def grad(self, z, y):
            return self.weight * self.step * (z - y)

    theirs = fiol.solve_step(X, 1.0, W, loss=Squared(), eta=0.5, sample_weight=6.0)
    np.testing.assert_allclose(solve_both(loss=Named()).w, theirs.w, rtol=1e-12)


def test_redefined_loss_is_used():
    """In a notebook a cell that defines a loss is run again."""

    def define(source):
        scope = {"__name__": "notebook", "Loss": Loss, "atan": atan, "log1p": log1p}
        exec(source, scope)
        return scope["Mine"]()

    source = """
class Mine(Loss):
    def value(self, z, y): return (z - y) * atan(z - y) - 0.5 * log1p((z - y) ** 2)
    def grad(self, z, y): return RATE * atan(z - y)
RATE = 1.0
"""
    for rate in (1.0, 4.0):
        step = solve_both(loss=define(source.replace("1.0", str(rate))))
        np.testing.assert_allclose(step.beta, -rate * atan(step.z - 1.0), rtol=1e-9)
