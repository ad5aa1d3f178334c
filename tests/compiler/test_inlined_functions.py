"""Parts of kernels: what is left out of them, and what may not be."""

import ast
import inspect

import numba
import numpy as np
import pytest

import fiol
from fiol.compiler import linking
from fiol.compiler.compiled import inlined, inlined_strictly, jit
from fiol.components.step_sizes import rule

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")


@pytest.mark.skipif(not linking.switched_on(), reason="plain numba compiles all branches")
def test_branches_ruled_out_by_class_constants_are_not_compiled():
    """There is no function of this name: typing it would fail."""

    class Even(fiol.Loss):
        odd = False

        def is_odd(self):
            return False

        def value(self, z, y):
            return 0.0

        def grad(self, z, y):
            if self.odd or self.is_odd():
                return there_is_no_such_function(z)  # noqa: F821
            return z - y

    assert slope(Even(), 3.0, 1.0) == 2.0


@jit
def slope(loss, z, y):
    return loss.grad(z, y)


@inlined
def root_of(values, k):
    if values[0][k] < 0.0:
        raise ValueError("no root")
    return values[0][k] ** 0.5, values


@inlined
def sum_of_roots(values):
    total, k = 0.0, 0
    while k < values[0].shape[0]:
        root, values = root_of(values, k)
        total += root if values[1] else -root
        k += 1
    return total


@jit
def judged(values):
    return sum_of_roots(values)


@pytest.mark.parametrize("sign", [True, False])
def test_error_passes_through_all_inlined_functions(sign):
    """Arguments are structs here, of arrays and of what is one bit in a register; results, too."""
    good = np.array([4.0, 9.0])
    assert judged((good, sign)) == (5.0 if sign else -5.0)
    with pytest.raises(ValueError, match="no root"):
        judged((np.array([4.0, -1.0]), sign))
    assert judged((good, sign)) == (5.0 if sign else -5.0)


@inlined
def later(k, x):
    """Variables that are assigned once, within a loop, before it, and in one branch alone."""
    start, out = x + 1.0, 0.0
    for j in range(k):
        step = start * j
        if j % 2 == 0:
            half = step / 2.0
            out += half
        else:
            out -= step
        start = out + x
    return out, start


@jit
def both(k, x):
    return later(k, x)


def test_variables_in_registers_keep_their_values():
    for k in range(6):
        assert both(k, 1.5) == later.py_func(k, 1.5)


def attributes_of_losses(module):
    """The attributes of the variable `loss` that the functions of a module use."""
    nodes = ast.walk(ast.parse(inspect.getsource(module)))
    named = [node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)]
    return {node.attr for node in named if node.value.id == "loss"}


def test_formulas_use_what_losses_of_one_and_of_many_scores_have():
    # Without linking, numba compiles also the branches that constants of a class rule out.
    used = attributes_of_losses(rule)
    assert {"has_step_scale", "scale_statistic", "step_unit"} <= used
    for loss in (fiol.Loss, fiol.JointLoss):
        assert {name for name in used if not hasattr(loss, name)} == set()


@inlined
def doubled(x):
    return 2.0 * x


@inlined_strictly
def doubled_and_one(x):
    return doubled(x) + 1.0


def test_inlined_function_that_python_calls_runs_in_the_interpreter():
    """Compiled code has no entry for Python: a call of it is a segmentation fault."""
    assert (doubled(3.0), doubled_and_one(3.0)) == (6.0, 7.0)
    assert type(doubled(3)) is float
