"""Algorithms that learn from prebuilt chunks, with the same kernels, rows and clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fiol.algorithms.plan import make_plan
from fiol.algorithms.update import Update
from fiol.components.component import Component
from fiol.components.row import Floats
from fiol.components.step_sizes import Polynomial
from fiol.engine.update_engine import UpdateEngine
from fiol.experiments.parallel import Task
from fiol.features.containers import to_chunk


class Algorithm(NamedTuple):
    """A preset with its loss and penalty; its steps are eta t^-power.

    Constant steps are those with power 0, so that one compiled loop serves constant and decaying steps.

    >>> from functools import partial
    >>> from fiol import FIOL, L1, Squared
    >>> Algorithm("FIOL", partial(FIOL, Squared(), L1(0.1))).update(0.5).step_size
    Polynomial(size=0.5, power=0.0)
    """

    name: str
    preset: Callable[..., Update]
    power: float | None = 0.0  #: None for the preset's own steps
    average: bool = False  #: whether to evaluate the average of all iterates

    def update(self, eta: float) -> Update:
        """Return the update with steps eta t^-power."""
        return self.preset() if self.power is None else self.preset(step_size=Polynomial(eta, self.power))

    def etas(self, etas: Sequence[float]) -> list[float]:
        """Return these step sizes, or NaN if the preset has its own steps."""
        return list(etas) if self.power is not None else [float("nan")]

    def engine(self, eta: float, d: int, compiled: bool = True) -> UpdateEngine:
        """Return an engine of d weights before its first round, without an intercept."""
        plan = make_plan(self.update(eta), self.average)
        return UpdateEngine(plan, d, plan.first_entry(d), False, self.average, float, compiled)

    def weights(self, engine: UpdateEngine, d: int) -> Floats:
        """Return the weights to evaluate, averaged if `average`."""
        return engine.weights(d, self.average)


def compilations(algorithms: Sequence[Algorithm]) -> list[Task]:
    """Return tasks that compile the code of all algorithms to disk, each kind of code once."""
    kinds = {kind(make_plan(a.update(1.0), a.average)): a for a in reversed(algorithms)}
    return [partial(compile_algorithm, algorithm) for algorithm in reversed(kinds.values())]


def compile_algorithm(algorithm: Algorithm) -> Iterator[str]:
    """Compile an algorithm: learn from one row and read the weights; yield its name."""
    engine = algorithm.engine(1.0, 1)
    engine.learn(to_chunk([[1.0]]), np.ones(1), np.ones(1))
    algorithm.weights(engine, 1)
    yield algorithm.name


def kind(value: Any) -> Any:
    """Return the types of a component and its fields, which decide about compiled code, without their values.

    >>> from fiol import L1, Ridge
    >>> kind(L1(0.1)) == kind(L1(0.2)), kind(L1(0.1)) == kind(Ridge(0.1))
    (True, False)
    """
    if isinstance(value, Component):
        return (type(value), *(kind(field) for field in vars(value).values()))
    return type(value)
