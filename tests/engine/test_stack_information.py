"""The information of Newton stacks: its inverse for any prior, and the curvature that a row of classes adds."""

import numpy as np
import pytest

import fiol
from fiol.compiler.compiled import interpreted
from fiol.components.combiners import NewtonStack
from fiol.engine.ensemble import joint_newton_stack
from fiol.engine.ensemble.newton_stack import stack_rows
from fiol.engine.ensemble.stack_state import new_stack_state


@pytest.mark.parametrize("prior", [0.1, 7.0])
def test_kept_inverse_is_that_of_the_information_for_any_prior(prior):
    """Information of less than 1 has no pivot that is raised: after every row P is what numpy finds for A."""
    rng = np.random.default_rng(0)
    stack = NewtonStack(prior=prior, forgets=[0.0, 0.05])
    state, scores = new_stack_state(stack, 3), np.zeros(1)
    for _ in range(12):
        Z, y = 0.1 * rng.normal(size=(1, 3)), rng.choice([-1.0, 1.0], 1)
        interpreted(stack_rows)(stack, fiol.Logistic(), Z, y, np.ones(1), state, scores)
        np.testing.assert_allclose(state.P, np.linalg.inv(state.A), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_row_of_classes_adds_the_covariance_of_its_scores(offset):
    """By numpy; what all classes share has no part in it, down to the last digits of the scores."""
    rng = np.random.default_rng(1)
    shares, y, weight = rng.dirichlet(np.ones(5)), 2, 0.7
    Z = np.round(rng.normal(size=(5, 3)), 3) + offset
    H, mean = np.full((3, 3), 0.25), np.full(3, np.nan)
    interpreted(joint_newton_stack.add_curvature)(Z, np.eye(5)[y] - shares, y, weight, mean, H)
    expected = 0.25 + weight * np.cov(Z.T - offset, aweights=shares, ddof=0)
    np.testing.assert_allclose(H, expected, rtol=1e-12 if offset == 0.0 else 1e-6)
