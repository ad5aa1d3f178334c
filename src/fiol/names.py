"""Names of losses, penalties and algorithms, and the aliases that other libraries use for them.

The command, estimators, River, Spark and `Learner` resolve names here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from fiol import presets
from fiol.algorithms.update import Update
from fiol.components import joint_losses, losses
from fiol.components.aliases import ALIASES
from fiol.components.component import Component
from fiol.components.joint_losses import AnyLoss, JointLoss
from fiol.components.losses import Loss
from fiol.components.regularizers import L1, ElasticNet, Regularizer, Ridge, Unregularized


def by_name(module: ModuleType) -> dict[str, Any]:
    """Return the components of a module that have an alias, with default parameters.

    >>> from fiol.components import geometries
    >>> by_name(geometries)["simplex"]
    Simplex()
    """
    kinds = [kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, Component)]
    return {kind.alias: kind() for kind in kinds if vars(kind).get("alias")}  # type: ignore[attr-defined]


#: Presets by name.
ALGORITHMS: dict[str, Callable[..., Update]] = {
    name: getattr(presets, name)
    for name in (
        *("FIOL", "SGD", "PA", "PA1", "PA2", "IOL", "COMID", "RDA", "ISGD", "FTRLProximal", "ImplicitFTRL"),
        *("Coin", "ImplicitCoin"),
    )
}
#: Losses for numbers.
REGRESSION: dict[str, Loss] = {name: loss for name, loss in by_name(losses).items() if loss.accepts(0.5)}
#: Losses for two classes, those with probabilities first; most of those for numbers take -1 and +1 as well.
CLASSIFICATION: dict[str, Loss] = dict(
    sorted(
        ((name, loss) for name, loss in by_name(losses).items() if loss.accepts(-1.0)),
        key=lambda pair: (pair[0] in REGRESSION, pair[1].link != "logit"),
    )
)
#: Losses for several classes at once.
JOINT: dict[str, JointLoss] = by_name(joint_losses)
#: All losses.
LOSSES: dict[str, AnyLoss] = {**CLASSIFICATION, **REGRESSION, **JOINT}
PENALTIES = ("l1", "l2", "elasticnet")
#: Strength of a penalty and share of l1 in an elastic net, where none is given.
DEFAULT_ALPHA, DEFAULT_L1_RATIO = 1e-4, 0.15

_CANONICAL = {alias: name for name, aliases in ALIASES.items() for alias in aliases}


def canonical_name(text: str, known: Mapping[str, Any] | tuple[str, ...]) -> str | None:
    """Return the name in `known` that a text or alias stands for; None if there is none.

    >>> canonical_name("Logistic", LOSSES), canonical_name("sgd", ALGORITHMS), canonical_name("adam", ALGORITHMS)
    ('log_loss', 'SGD', None)
    """
    if text in known:
        return text
    plain = text.lower().replace("-", "_")
    plain = _CANONICAL.get(plain, plain)
    return next((name for name in known if name in (plain, text) or name.lower() == plain), None)


def component_named(given: Any, known: Mapping[str, Any], what: str = "component") -> Any:
    """Return the component that a parameter names or is; a number after a colon is its first parameter.

    Raises
    ------
    ValueError : there is no such name, or no such parameter.

    >>> component_named("quantile:0.9", REGRESSION)
    Quantile(tau=0.9)
    >>> component_named("logarithmic", LOSSES, "loss")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: there is no loss 'logarithmic': choose from log_loss, ...
    """
    if not isinstance(given, str):
        return given
    text, colon, parameter = given.partition(":")
    name = canonical_name(text, known)
    if name is None:
        raise ValueError(f"there is no {what} {given!r}: choose from {', '.join(known)}")
    found = known[name]
    if not colon:
        return found
    fields = dataclasses.fields(found)
    try:
        return dataclasses.replace(found, **{fields[0].name: float(parameter)})
    except (IndexError, TypeError, ValueError) as error:
        why = f"it has no parameter {parameter!r}" if not fields else " ".join(str(error).split())
        raise ValueError(f"{what} {given!r}: {why}") from None


def is_component_name(given: str, known: Mapping[str, Any]) -> bool:
    """Return whether `component_named` finds a component of this name."""
    try:
        component_named(given, known)
    except ValueError:
        return False
    return True


def loss_named(given: Any) -> AnyLoss:
    """Return the loss that a parameter names or is.

    >>> loss_named("logistic"), loss_named("huber:2")
    (Logistic(), Huber(delta=2.0))
    """
    return component_named(given, LOSSES, "loss")  # type: ignore[no-any-return]


def algorithm_named(given: str) -> str:
    """Return the name of the preset that a text stands for; ValueError if there is none.

    >>> algorithm_named("ftrl")
    'FTRLProximal'
    """
    found = canonical_name(given, ALGORITHMS)
    if found is None:
        raise ValueError(f"there is no algorithm {given!r}: choose from {', '.join(ALGORITHMS)}")
    return found


def penalty_named(given: Any, alpha: float = DEFAULT_ALPHA, l1_ratio: float | None = DEFAULT_L1_RATIO) -> Regularizer:
    """Return alpha (l1_ratio abs(w) + (1 - l1_ratio) w^2 / 2), or the part of it that a penalty names.

    A number after a colon is `alpha`. None and "none" are no penalty; a `Regularizer` is returned as it is.

    >>> penalty_named("l1", 0.1), penalty_named("ridge:0.2"), penalty_named("elasticnet", 0.1, 0.5)
    (L1(lam=0.1), Ridge(lam=0.2), ElasticNet(lam1=0.05, lam2=0.05))
    """
    if isinstance(given, Regularizer):
        return given
    text, colon, strength = ("none" if given is None else given).partition(":")
    name = canonical_name(text, ("none", *PENALTIES))
    if name is None:
        raise ValueError(f"there is no penalty {given!r}: choose from none, {', '.join(PENALTIES)}")
    share = {"l1": 1.0, "l2": 0.0, "elasticnet": l1_ratio, "none": 0.0}[name]
    if share is None:
        raise ValueError("l1_ratio must be set when penalty is 'elasticnet': from 0 to 1, got None")
    if colon and name == "none":
        raise ValueError(f"penalty {given!r}: none has no strength")
    if colon:
        try:
            alpha = float(strength)
        except ValueError:
            raise ValueError(f"penalty {given!r}: the strength after the colon must be a number") from None
    alpha = 0.0 if name == "none" else alpha
    return elastic(alpha * share, alpha * (1.0 - share))


def is_penalty_name(given: Any) -> bool:
    """Return whether a text names a penalty: a name or an alias, perhaps with a strength; "none" is one.

    >>> is_penalty_name("lasso"), is_penalty_name("l1:0.5"), is_penalty_name("none"), is_penalty_name("l1:x")
    (True, True, True, False)
    """
    try:
        return isinstance(given, str) and bool(penalty_named(given))
    except ValueError:
        return False


def elastic(lam1: float, lam2: float) -> Regularizer:
    """Return the simplest penalty with these strengths.

    >>> elastic(0.0, 0.0), elastic(0.1, 0.0), elastic(0.0, 0.2), elastic(0.1, 0.2)
    (Unregularized(), L1(lam=0.1), Ridge(lam=0.2), ElasticNet(lam1=0.1, lam2=0.2))
    """
    if lam1 and lam2:
        return ElasticNet(lam1, lam2)
    return L1(lam1) if lam1 else Ridge(lam2) if lam2 else Unregularized()
