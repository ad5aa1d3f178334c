"""Suggestions for error messages: the component that a text or a number in its place may stand for."""

from __future__ import annotations

import dataclasses
from numbers import Real
from typing import Any

from fiol.components.aliases import ALIASES
from fiol.components.component import Component
from fiol.components.joint_losses import JointLoss
from fiol.components.losses import Loss
from fiol.components.regularizers import Regularizer
from fiol.components.step_sizes import StepSize

#: Components of which a number is the only parameter.
OF_A_NUMBER: dict[type, tuple[str, ...]] = {StepSize: ("Constant",), Regularizer: ("L1", "Ridge")}


def meant(value: Any, family: type[Component]) -> str:
    """Return the component that a value may stand for, for the end of an error message; '' if there is none.

    >>> meant("logistic", Loss), meant("l1", Regularizer), meant(0.1, StepSize), meant([], StepSize)
    (': did you mean fiol.Logistic()?', ': did you mean fiol.L1(...)?', ': did you mean fiol.Constant(0.1)?', '')
    >>> meant("mse", Loss), meant("huber:2", Loss), meant("lasso", Regularizer)
    (': did you mean fiol.Squared()?', ': did you mean fiol.Huber()?', ': did you mean fiol.L1(...)?')
    """
    found: list[str] = []
    if isinstance(value, str):
        known = [*members(Loss), *members(JointLoss)] if family is Loss else members(family)
        name = spelled(value.partition(":")[0])
        found = [written(kind) for kind in known if name in map(spelled, (kind.__name__, *called(kind)))]
    elif isinstance(value, Real) and not isinstance(value, bool):
        found = [f"fiol.{name}({value!r})" for name in OF_A_NUMBER.get(family, ())]
    elif isinstance(value, (Loss, JointLoss)) and family.__name__ == "Update":
        found = [f"fiol.Stacked({value!r})", f"fiol.FIOL({value!r})"]
    return f": did you mean {' or '.join(found)}?" if found else ""


def members(family: Any) -> list[type]:
    """Return the classes of a family that this package has."""
    own = [kind for kind in family.__subclasses__() if kind.__module__.startswith("fiol.")]
    return [*own, *(kind for parent in own for kind in members(parent))]


def spelled(name: str) -> str:
    """Return a name in lower case, without separators.

    >>> spelled("Squared_Hinge")
    'squaredhinge'
    """
    return "".join(filter(str.isalnum, name)).lower()


def called(kind: type) -> tuple[str, ...]:
    """Return the names that other libraries have for a component."""
    name = getattr(kind, "alias", "") or kind.__name__.lower()
    return name, *ALIASES.get(name, ())


def written(kind: type) -> str:
    """Return the expression that makes an instance."""
    needed = any(field.default is dataclasses.MISSING for field in dataclasses.fields(kind))
    return f"fiol.{kind.__name__}({'...' if needed else ''})"
