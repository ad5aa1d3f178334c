"""Components round-trip through JSON, and errors name the JSON path."""

import copy
import dataclasses
import importlib
import json
import pkgutil
import subprocess
import sys
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fiol
from fiol import L1, AdaGrad, Box, Huber, Logistic, Loss, MedianOfMedians, Newton, Partition, Regularizer
from fiol.components.component import Component, PerFeature
from fiol.components.subproblem import Problem
from fiol.persistence import component_json
from fiol.persistence.component_json import find_class, from_json, stored_name, to_json


class Shifted(Loss):
    """A user's own: a component, an integer, numbers and arrays of any shape."""

    loss: Loss
    rounds: int = 3
    shift: float = 0.0
    table: PerFeature = 0.0

    def value(self, z, y):
        return self.loss.value(z + self.shift, y)

    def grad(self, z, y):
        return self.loss.grad(z + self.shift, y)


class Optional(Component):
    """A component whose part may be left out."""

    part: Loss | None = None

    def __post_init__(self):
        if self.part is not None:
            super().__post_init__()


class Outer:
    class Inner(Loss):
        scale: float = 1.0


# --- what is written is read ------------------------------------------------------------------

positive = st.floats(0.0, exclude_min=True, allow_infinity=False)
strength = st.floats(0.0, allow_infinity=False)
strengths = st.one_of(strength, hnp.arrays(np.float64, st.integers(0, 4), elements=strength))
anything = st.floats(allow_nan=False)
tables = hnp.arrays(np.float64, hnp.array_shapes(min_dims=1, max_dims=3, min_side=0), elements=anything)
bounds = st.tuples(anything, anything).map(sorted).filter(lambda b: b[0] < inf and b[1] > -inf)
matrices = st.integers(0, 99).map(lambda seed: np.random.default_rng(seed).standard_normal((3, 3)))
whole = st.integers(-(2**63) + 1024, 2**63 - 1024)  # `Component` asks a float whether an integer fits


def members(family):
    return st.deferred(lambda: st.one_of([how for cls, how in BUILDS.items() if issubclass(cls, family)]))


#: How to draw each class; whatever is not here has no fields.
BUILDS = {
    fiol.Quantile: st.builds(fiol.Quantile, st.floats(0.0, 1.0, exclude_min=True, exclude_max=True)),
    fiol.EpsilonInsensitive: st.builds(fiol.EpsilonInsensitive, strength),
    fiol.SquaredEpsilonInsensitive: st.builds(fiol.SquaredEpsilonInsensitive, strength),
    Huber: st.builds(Huber, positive),
    L1: st.builds(L1, strengths),
    fiol.Ridge: st.builds(fiol.Ridge, strengths),
    fiol.ElasticNet: st.builds(fiol.ElasticNet, strengths, strengths),
    Box: st.builds(lambda regularizer, b: Box(regularizer, *b), members(Regularizer), bounds),
    fiol.DiagonalMetric: st.builds(fiol.DiagonalMetric, st.lists(st.floats(1e-300, 1e300), min_size=1)),
    fiol.Mahalanobis: matrices.map(lambda a: fiol.Mahalanobis(a @ a.T + np.eye(3))),
    fiol.RandomPivot: st.builds(fiol.RandomPivot, whole),
    Newton: st.builds(Newton, st.integers(1, 2**62)),
    fiol.Bisection: st.builds(fiol.Bisection, st.floats(0.0, 1.0)),
    Partition: st.builds(Partition, members(fiol.components.solvers.Pivot)),
    Outer.Inner: st.builds(Outer.Inner, anything),
    Shifted: st.builds(Shifted, members(Loss), whole, anything, st.one_of(anything, tables)),
    Optional: st.builds(Optional, st.one_of(st.none(), members(Loss))),
}
EXPORTED = [getattr(fiol, name) for name in fiol.__all__ if isinstance(getattr(fiol, name), type)]
FAMILIES = (Loss, Regularizer, fiol.Geometry, fiol.Separable, fiol.Solver)
for cls in EXPORTED:
    if issubclass(cls, (*FAMILIES, fiol.components.solvers.Pivot)) and cls not in FAMILIES:
        BUILDS.setdefault(cls, st.builds(cls))


def through_text(component):
    text = json.dumps(to_json(component), allow_nan=False)
    return from_json(json.loads(text))


def assert_same(one, other):
    """Equal, and also in the sign of zeros and the types of numbers, which equality ignores."""
    assert one == other
    assert json.dumps(to_json(one)) == json.dumps(to_json(other))
    assert repr(one) == repr(other)


@pytest.mark.parametrize("cls", BUILDS, ids=lambda cls: cls.__name__)
@given(st.data())
def test_component_round_trips_through_json(cls, data):
    component = data.draw(BUILDS[cls])
    assert type(component) is cls
    assert_same(through_text(component), component)


@given(members(Loss), members(Regularizer), members(fiol.Geometry), members(fiol.Solver))
def test_problem_round_trips_through_json(loss, regularizer, geometry, solver):
    problem = Problem(loss, regularizer, geometry, solver)
    assert_same(through_text(problem), problem)


def test_extreme_integers_round_trip():
    for seed in (2**63 - 513, -(2**63) + 513, 2**53 + 1):
        assert through_text(fiol.RandomPivot(seed)).seed == seed


@pytest.mark.parametrize(
    ("component", "value"),
    [
        (Logistic(), {"component": "Logistic", "fields": {}}),
        (Newton(7), {"component": "Newton", "fields": {"passes": 7}}),
        (
            Partition(MedianOfMedians()),
            {
                "component": "Partition",
                "fields": {"pivot": {"component": "MedianOfMedians", "fields": {}}},
            },
        ),
        (Outer.Inner(-0.0), {"component": f"{__name__}.Outer.Inner", "fields": {"scale": -0.0}}),
        (Optional(), {"component": f"{__name__}.Optional", "fields": {"part": None}}),
        (
            Box(L1([1.0, 2.0])),
            {
                "component": "Box",
                "fields": {
                    "regularizer": {
                        "component": "L1",
                        "fields": {"lam": {"array": "AAAAAAAA8D8AAAAAAAAAQA==", "shape": [2]}},
                    },
                    "lo": "-inf",
                    "hi": "inf",
                },
            },
        ),
    ],
    ids=repr,
)
def test_component_json_format(component, value):
    assert repr(to_json(component)) == repr(value)
    assert_same(from_json(value), component)


def test_floats_written_as_integers_are_read():
    """Some writers of JSON print 2.0 as 2."""
    assert_same(from_json({"component": "Huber", "fields": {"delta": 2}}), Huber(2.0))


def test_loaded_arrays_are_as_constructed():
    lam = through_text(L1([1.0, 2.0])).lam
    assert lam.dtype == np.float64
    assert not lam.flags.writeable


# --- classes ----------------------------------------------------------------------------------


def define(parent, factor, module="notebook"):
    source = f"class Mine({parent}):\n    factor: float = {factor}\n"
    scope = {**vars(fiol), "__name__": module}
    exec(source, scope)
    return scope["Mine"]


def test_newest_definition_of_a_class_is_used():
    for factor in (1.0, 2.0, 3.0):
        cls = define("Loss", factor)
        assert type(through_text(cls())) is cls


@pytest.mark.parametrize(
    "parents", [("Regularizer", "L1"), ("L1", "Regularizer"), ("Regularizer", "Loss"), ("Loss", "Solver")], ids=repr
)
def test_newest_definition_is_used_for_any_base_class(parents, monkeypatch):
    module = type(sys)("cells")
    monkeypatch.setitem(sys.modules, "cells", module)
    for parent in parents:
        module.Mine = define(parent.replace("L1", "Unregularized"), 1.0, "cells")
        assert type(through_text(module.Mine())) is module.Mine


def test_class_lookup_is_cached(monkeypatch):
    assert find_class("Huber") is fiol.Huber
    with monkeypatch.context() as patch:
        patch.setattr(component_json, "subclasses", lambda _: pytest.fail("looked for again"))
        assert find_class("Huber") is fiol.Huber
    module = type(sys)("moments")
    monkeypatch.setitem(sys.modules, "moments", module)
    first = module.Mine = define("Loss", 1.0, "moments")
    assert find_class("moments.Mine") is first
    module.Mine = None  # and so may be another one now
    second = define("Loss", 2.0, "moments")
    assert find_class("moments.Mine") is second
    module.Mine = first  # which is newer than all that have no name
    assert find_class("moments.Mine") is first
    first.__qualname__ = "Other"
    assert find_class("moments.Mine") is second


def test_local_classes_are_found():
    class Local(Loss):
        scale: float = 1.0

    assert_same(through_text(Local(2.0)), Local(2.0))


@pytest.mark.parametrize(
    "name",
    [
        "os.system",
        "builtins.eval",
        "this.That",
        "fiol.components.losses.Nope",
        "fiol.components.losses.Huber",
        "fiol.Huber",
        "Nope",
        "huber",
        "",
        ".",
    ],
)
def test_unknown_classes_are_named_and_not_imported(name):
    with pytest.raises(ValueError, match=r"^component names .* before loading$") as caught:
        from_json({"component": name, "fields": {}})
    assert f"define or import {name} before loading" in str(caught.value)
    assert "this" not in sys.modules


@pytest.mark.parametrize(
    "name", ["Component", "fiol.components.component.Component", "builtins.object", f"{__name__}.Outer"]
)
def test_classes_other_than_components_are_unknown(name):
    with pytest.raises(ValueError, match="no component known here"):
        from_json({"component": name, "fields": {}})


def component_classes():
    """Every component class that a module of the package defines, and the module."""
    for found in pkgutil.walk_packages(fiol.__path__, "fiol."):
        if not found.name.endswith("__main__") and ".spark" not in found.name:
            module = importlib.import_module(found.name)
            for value in vars(module).values():
                if isinstance(value, type) and issubclass(value, Component) and value.__module__ == module.__name__:
                    yield value


def test_component_class_names_are_unique():
    names = {}
    for cls in component_classes():
        assert names.setdefault(stored_name(cls), cls) is cls
        assert "." not in stored_name(cls)
        if cls is not Component:
            assert find_class(stored_name(cls)) is cls
    assert len(names) > 60
    assert names["L1"] is L1
    assert names["Update"] is fiol.Update


def built_in(source, module="fiol.components.imagined"):
    """A class as if a module of the package defined it."""
    scope = {**vars(fiol), "__name__": module}
    exec(source, scope)
    return list(scope.values())[-1]


def test_moved_and_renamed_classes_load():
    old = built_in("class Soft(Loss):\n    scale: float = 1.0")
    value = to_json(old(3.0))
    assert value == {"component": "Soft", "fields": {"scale": 3.0}}
    moved = built_in("class Soft(Regularizer):\n    scale: float = 1.0", "fiol.elsewhere.deep")
    assert to_json(moved(3.0)) == value
    old.registered = "Another"  # it is gone
    assert_same(from_json(value), moved(3.0))
    moved.registered = "Yet another"
    renamed = built_in("class Softer(Loss):\n    registered = 'Soft'\n    scale: float = 1.0", "fiol.elsewhere")
    assert to_json(renamed(3.0)) == value
    assert_same(from_json(value), renamed(3.0))
    with pytest.raises(ValueError, match=r"^component names Softer, which is no component known here"):
        from_json({"component": "Softer", "fields": {}})


def test_registered_name_is_not_inherited():
    parent = built_in("class Newer(Loss):\n    registered = 'Older'\n    scale: float = 1.0")
    scope = {"Newer": parent, "__name__": "fiol.components.imagined"}
    exec("class Newest(Newer):\n    pass", scope)
    assert to_json(parent())["component"] == "Older"
    assert to_json(scope["Newest"]())["component"] == "Newest"


def test_own_class_with_a_built_in_name_is_kept_apart():
    scope = {"L1": L1, "Loss": Loss, "__name__": "mine"}
    exec("class L1(L1):\n    registered = 'L1'\nclass Huber(Loss):\n    delta: float = 2.0", scope)
    for own, ours in ((scope["L1"](1.0), L1(1.0)), (scope["Huber"](), Huber())):
        name = type(ours).__name__
        assert to_json(own)["component"] == f"mine.{name}"
        assert to_json(ours)["component"] == name
        assert type(through_text(own)) is type(own)
        assert type(through_text(ours)) is type(ours)


def test_package_name_prefix_is_not_enough():
    assert to_json(define("Loss", 1.0, "fiolet")())["component"] == "fiolet.Mine"
    assert to_json(define("Loss", 1.0, "fiol")())["component"] == "fiol.Mine"


# --- files of other versions ----------------------------------------------------------------


@pytest.mark.parametrize("cls", [fiol.Update, Box, Newton, Huber, AdaGrad, fiol.FixedHorizon, Shifted], ids=repr)
def test_missing_field_takes_its_default(cls):
    fields = dataclasses.fields(cls)
    parts = {"AnyLoss": Logistic(), "Loss": Logistic(), "Regularizer": L1(0.5), "int": 7, "float": 0.125}
    needed = {f.name: parts[getattr(f.type, "__name__", f.type)] for f in fields if f.default is dataclasses.MISSING}
    whole, checked = to_json(cls(**needed)), 0
    for field in fields:
        less = changed(whole, ("fields", field.name), "!")
        if field.name in needed:
            with pytest.raises(ValueError, match=rf"^component\.{field.name} is missing$"):
                from_json(less)
        else:
            checked += 1
            assert_same(from_json(less), cls(**needed))
    assert checked
    assert_same(from_json({**whole, "fields": {name: whole["fields"][name] for name in needed}}), cls(**needed))


def test_default_replaces_only_the_missing_field():
    value = to_json(Box(L1(0.5), -1.0, 2.0))
    assert_same(from_json(changed(value, ("fields", "lo"), "!")), Box(L1(0.5), hi=2.0))


def test_reading_component_json_executes_nothing():
    """By the interpreter's own account."""
    script = """
import sys, fiol
from fiol.persistence.component_json import from_json, to_json
good = to_json(fiol.Box(fiol.L1([1.0, 2.0])))
from_json(good)
seen = []
sys.addaudithook(lambda event, _: seen.append(event))
from_json(good)
for name in ("os.system", "this.s", "antigravity.geohash", "pickle.loads", "__import__('this')", "builtins.eval"):
    good["fields"]["regularizer"]["component"] = name
    try:
        from_json(good)
    except ValueError:
        continue
    raise SystemExit(name)
forbidden = {"import", "exec", "compile", "open", "os.system", "subprocess.Popen", "pickle.find_class"}
sys.exit(str(sorted(forbidden.intersection(seen))) if forbidden.intersection(seen) else 0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# --- what is refused --------------------------------------------------------------------------

LASSO = {"component": "L1", "fields": {"lam": 0.5}}
BOX = {"component": "Box", "fields": {"regularizer": LASSO, "lo": 0.0, "hi": 1.0}}
NESTED = {"component": "Box", "fields": {"regularizer": BOX, "lo": 0.0, "hi": 1.0}}
HUBER = {"component": "Huber", "fields": {"delta": 1.0}}


def changed(stored, path, value):
    """The JSON with something else at the path; '!' for a name takes the entry away."""
    stored = copy.deepcopy(stored)
    here = stored
    *way, last = path
    for name in way:
        here = here[name]
    if value == "!":
        del here[last]
    else:
        here[last] = value
    return stored


LAM = ("fields", "regularizer", "fields", "lam")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (LAM, -1.0, r"component\.regularizer\.lam must be at least 0 and finite, got -1"),
        (LAM, "inf", r"component\.regularizer\.lam must be at least 0 and finite, got inf"),
        (LAM, float("nan"), r"component\.regularizer\.lam must be a number, got NaN"),
        (LAM, "1.0", r"component\.regularizer\.lam must be a number, an array, a component or null, got '1\.0'"),
        (LAM, "nan", r"component\.regularizer\.lam must be a number, .* got 'nan'"),
        (LAM, [1.0], r"component\.regularizer\.lam must be a number, .* got \[1\.0\]"),
        (LAM, True, r"component\.regularizer\.lam must be a number, .* got True"),
        (LAM, None, r"component\.regularizer\.lam must be a number or an array of numbers, got None"),
        (LAM, 10**400, r"component\.regularizer: int too large to convert to float"),
        (LAM, LASSO, r"component\.regularizer\.lam must be a number or an array of numbers, got L1\(lam=0\.5\)"),
        (LAM, {}, r'component\.regularizer\.lam must be \{"component": \.\.\., "fields": \.\.\.\}, got \{\}'),
        (LAM, {"array": "", "shape": [0], "x": 1}, r'component\.regularizer\.lam must be \{"array": .*'),
        (LAM, {"array": ""}, r'component\.regularizer\.lam must be \{"array": .*'),
        (LAM, {"array": "AAAAAAAA8L8=", "shape": [1]}, r"component\.regularizer\.lam\[0\] must be at least 0 .*"),
        (LAM, {"array": "AAAAAAAA8D8=", "shape": [2]}, r"component\.regularizer\.lam must have 8 bytes per entry, .*"),
        (LAM, {"array": "AAAA", "shape": []}, r"component\.regularizer\.lam must have 8 bytes per entry, .*"),
        (LAM, {"array": "AAAA!", "shape": [1]}, r"component\.regularizer\.lam must be an array in base64: .*"),
        (LAM, {"array": "é", "shape": [1]}, r"component\.regularizer\.lam must be an array in base64: .*"),
        (LAM, {"array": [1.0], "shape": [1]}, r"component\.regularizer\.lam must be an array in base64: .*"),
        (LAM, {"array": "", "shape": [-1, 0]}, r"component\.regularizer\.lam must have a shape of whole numbers.*"),
        (LAM, {"array": "", "shape": [False]}, r"component\.regularizer\.lam must have a shape of whole numbers.*"),
        (LAM, {"array": "", "shape": 0}, r"component\.regularizer\.lam must have a shape of whole numbers.*"),
        (LAM, {"array": "", "shape": [0, 10**30]}, r"component\.regularizer\.lam cannot have the shape .*"),
        (LAM, {"array": "", "shape": [0] * 99}, r"component\.regularizer\.lam cannot have the shape .*"),
        (LAM, "!", r"component\.regularizer\.lam is missing"),
        ((*LAM[:-1], "mu"), 1.0, r"component\.regularizer\.mu is unknown: L1 has lam"),
        (LAM[:2], HUBER, r"component\.regularizer must be a Regularizer, got Huber\(delta=1\.0\)"),
        (LAM[:2], 1.0, r"component\.regularizer must be a Regularizer, got 1\.0"),
        ((*LAM[:2], "component"), "!", r'component\.regularizer must be \{"component": .*'),
        ((*LAM[:2], "component"), 7, r"component\.regularizer must name its class, got 7"),
        ((*LAM[:2], "component"), "a.B", r"component\.regularizer names a\.B, .* import a\.B before loading"),
        ((*LAM[:2], "fields"), [], r"component\.regularizer must have fields by name, got \[\]"),
        ((*LAM[:2], "other"), [], r'component\.regularizer must be \{"component": .*'),
        (("fields", "lo"), 2.0, r"component: Box needs lo <= hi .*"),
        (("fields", "lo"), {"array": "", "shape": [0]}, r"component\.lo must be a number, got array.*"),
        (("fields", "low"), 2.0, r"component\.low is unknown: Box has regularizer, lo, hi"),
    ],
    ids=repr,
)
def test_errors_name_the_json_path(path, value, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        from_json(changed(BOX, path, value))
    with pytest.raises(ValueError, match=f"^{message}$".replace("^component", r"^component\.regularizer")):
        from_json(changed(NESTED, ("fields", "regularizer", *path), value))


@pytest.mark.parametrize("value", [None, 1.0, "Huber", [], {}, [LASSO], b"", {1: 2}], ids=repr)
def test_values_that_are_no_component_are_refused(value):
    with pytest.raises(ValueError, match=r'^component must be \{"component": \.\.\., "fields": \.\.\.\}, got '):
        from_json(value)


def test_failing_constructor_raises_a_file_error():
    class Fragile(Loss):
        loss: Loss

        def validate(self):
            self.loss.value(0.0, 1.0)

    stored = to_json(Fragile(Huber()))
    with pytest.raises(ValueError, match=r"^component: 'float' object has no attribute 'value'$"):
        from_json(changed(stored, ("fields", "loss"), 1.0))


def test_deep_nesting_is_rejected():
    stored = LASSO
    for _ in range(100_000):
        stored = {
            "component": "Box",
            "fields": {"regularizer": stored, "lo": 0.0, "hi": 1.0},
        }
    with pytest.raises(ValueError, match=r"^component is nested too deeply$"):
        from_json(stored)
    while stored is not LASSO:  # taken apart from outside: some interpreters cannot free it at once
        stored = stored["fields"].pop("regularizer")


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.just("inf")),
    lambda inner: st.one_of(
        st.lists(inner),
        st.dictionaries(st.text(), inner),
        st.fixed_dictionaries({"array": inner, "shape": inner}),
        st.fixed_dictionaries({"component": st.just("L1"), "fields": st.fixed_dictionaries({"lam": inner})}),
        st.fixed_dictionaries({"component": inner, "fields": inner}),
    ),
)


@given(json_values)
def test_random_json_is_read_or_rejected(value):
    try:
        component = from_json(value)
    except ValueError:
        return
    assert_same(through_text(component), component)


@pytest.mark.parametrize("value", [None, 1.0, L1, "L1", [L1(1.0)]], ids=repr)
def test_only_components_can_be_written(value):
    with pytest.raises(TypeError, match=r"^only a component can be stored as JSON, got "):
        to_json(value)


@pytest.mark.parametrize("value", ["text", True, float("nan"), [1.0], np.arange(2), 1j], ids=repr)
def test_only_fields_of_components_are_written(value):
    class Loose(Component):
        part: float

        def __post_init__(self):
            """Let everything pass."""

    with pytest.raises(TypeError, match=r"^Loose\.part must be a number, .*, got "):
        to_json(Loose(value))
