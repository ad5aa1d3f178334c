"""Presets: the algorithms of the paper's Table 1 and later ones by name, each an `Update`; `Stacked`, an `Ensemble`.

| preset | loss | regularizer | anchor |
|---|---|---|---|
| `SGD` | linearized | linearized | last iterate, Euclidean |
| `PA`, `PA1`, `PA2` | implicit | none | last iterate, Euclidean |
| `IOL` | implicit | none | last iterate |
| `COMID` | linearized | implicit | last iterate |
| `RDA` | linearized | implicit, every round | origin |
| `Coin` | linearized | implicit, every round | origin, steps by `CoinBetting` |
| `ImplicitCoin` | implicit | implicit, every round | origin, steps by `CoinBetting` |
| `ISGD` | implicit | linearized | last iterate, Euclidean |
| `FIOL` | implicit | implicit | last iterate |
| `FTRLProximal` | linearized | implicit, every round or once | all past iterates |
| `ImplicitFTRL` | implicit | implicit, every round or once | all past iterates |

`Stacked` combines seven `FIOL` with steps from very short to very long into one linear model.
"""

from __future__ import annotations

from fiol.algorithms.anchors import AllIterates, LastIterate, Origin
from fiol.algorithms.ensemble import Ensemble
from fiol.algorithms.loss_steps import ImplicitLoss, LinearizedLoss
from fiol.algorithms.regularizer_steps import (
    IgnoredRegularizer,
    ImplicitRegularizer,
    LinearizedRegularizer,
    RegularizerOnce,
)
from fiol.algorithms.update import TUNING_FREE, Update
from fiol.components.component import require
from fiol.components.geometries import Euclidean, Geometry
from fiol.components.joint_losses import AnyLoss, JointLoss
from fiol.components.losses import Hinge, SquaredHinge
from fiol.components.regularizers import Regularizer, Unregularized, without_l1
from fiol.components.solvers import Solver
from fiol.components.step_sizes import (
    AdaGrad,
    CoinBetting,
    Constant,
    Curvature,
    Normalized,
    Polynomial,
    ScaleFree,
    StepSize,
)
from fiol.components.table_basis import TableBasis

UNREGULARIZED, EUCLIDEAN = Unregularized(), Euclidean()
DECAYING, ADAPTIVE, BETTING = Polynomial(0.5), AdaGrad(), ScaleFree(CoinBetting())


def SGD(loss: AnyLoss, regularizer: Regularizer = UNREGULARIZED, step_size: StepSize = DECAYING) -> Update:
    """Stochastic (sub)gradient descent: w - eta (f' + r').

    >>> from fiol import Logistic
    >>> SGD(Logistic()).loss_step
    LinearizedLoss()
    """
    return Update(loss, regularizer, step_size, LinearizedLoss(), LinearizedRegularizer(), LastIterate())


def PA(loss: AnyLoss = Hinge()) -> Update:  # noqa: B008
    """Passive-aggressive: the nearest weights without loss on the row (Crammer et al. 2006), an infinite step.

    >>> PA().step_size
    Constant(size=1e+100)
    """
    return Update(loss, UNREGULARIZED, Constant(1e100), ImplicitLoss(), IgnoredRegularizer(), LastIterate())


def PA1(aggressiveness: float = 1.0, loss: AnyLoss = Hinge()) -> Update:  # noqa: B008
    """PA-I: an implicit step on the hinge (or epsilon-insensitive) loss of size C, the aggressiveness.

    >>> PA1(0.1).step_size
    Constant(size=0.1)
    """
    require("aggressiveness", aggressiveness, 0.0, 1e100, open_low=True)
    return Update(loss, UNREGULARIZED, Constant(aggressiveness), ImplicitLoss(), IgnoredRegularizer(), LastIterate())


def PA2(aggressiveness: float = 1.0, loss: AnyLoss = SquaredHinge()) -> Update:  # noqa: B008
    """PA-II: an implicit step on the squared hinge (or squared epsilon-insensitive) loss of size 2 C.

    >>> PA2(0.1).step_size
    Constant(size=0.2)
    """
    require("aggressiveness", aggressiveness, 0.0, 1e99, open_low=True)
    return PA1(2.0 * aggressiveness, loss)


def IOL(
    loss: AnyLoss, step_size: StepSize = TUNING_FREE, geometry: Geometry = EUCLIDEAN, solver: Solver | None = None
) -> Update:
    """Implicit online learning: the loss exactly, no regularizer (Kulis and Bartlett 2010).

    >>> from fiol import Squared
    >>> IOL(Squared()).regularizer_step
    IgnoredRegularizer()
    """
    return Update(loss, UNREGULARIZED, step_size, ImplicitLoss(), IgnoredRegularizer(), LastIterate(), geometry, solver)


def COMID(
    loss: AnyLoss,
    regularizer: Regularizer = UNREGULARIZED,
    step_size: StepSize = DECAYING,
    geometry: Geometry = EUCLIDEAN,
) -> Update:
    """Composite mirror descent: a gradient step, then the prox of the regularizer (Duchi et al. 2010).

    >>> from fiol import L1, Squared
    >>> COMID(Squared(), L1(0.1)).regularizer_step
    ImplicitRegularizer()
    """
    return Update(loss, regularizer, step_size, LinearizedLoss(), ImplicitRegularizer(), LastIterate(), geometry)


def RDA(
    loss: AnyLoss,
    regularizer: Regularizer = UNREGULARIZED,
    step_size: StepSize = DECAYING,
    geometry: Geometry = EUCLIDEAN,
) -> Update:
    """Regularized dual averaging: all past gradients, the regularizer t times, near the origin (Xiao 2010).

    >>> from fiol import L1, Squared
    >>> RDA(Squared(), L1(0.1)).anchor
    Origin()
    """
    return Update(loss, regularizer, step_size, LinearizedLoss(), ImplicitRegularizer(), Origin(), geometry)


def Coin(loss: AnyLoss, regularizer: Regularizer = UNREGULARIZED, step_size: StepSize = BETTING) -> Update:
    """Coin betting: parameter-free dual averaging with steps from past gains (Orabona and Pal 2016).

    The derivatives of the loss must be bounded; for others, such as the squared loss, use `ImplicitCoin`.

    >>> from fiol import Logistic
    >>> Coin(Logistic()).step_size
    ScaleFree(step_size=CoinBetting(endowment=1.0), raw_penalty=0, centered=1)
    """
    return RDA(loss, regularizer, step_size)


def ImplicitCoin(
    loss: AnyLoss,
    regularizer: Regularizer = UNREGULARIZED,
    step_size: StepSize = BETTING,
    solver: Solver | None = None,
) -> Update:
    """Coin betting with the newest loss exactly instead of its gradient.

    >>> from fiol import Squared
    >>> ImplicitCoin(Squared()).loss_step, ImplicitCoin(Squared()).anchor
    (ImplicitLoss(), Origin())
    """
    switches = ImplicitLoss(), ImplicitRegularizer(), Origin()
    return Update(loss, regularizer, step_size, *switches, EUCLIDEAN, solver)


def ISGD(
    loss: AnyLoss,
    regularizer: Regularizer = UNREGULARIZED,
    step_size: StepSize = DECAYING,
    solver: Solver | None = None,
) -> Update:
    """Implicit SGD: the loss exactly, the regularizer linearized (Toulis et al. 2014).

    >>> from fiol import L1, Squared
    >>> ISGD(Squared(), L1(0.1)).regularizer_step
    LinearizedRegularizer()
    """
    switches = ImplicitLoss(), LinearizedRegularizer(), LastIterate()
    return Update(loss, regularizer, step_size, *switches, EUCLIDEAN, solver)


def FIOL(
    loss: AnyLoss,
    regularizer: Regularizer = UNREGULARIZED,
    step_size: StepSize = TUNING_FREE,
    geometry: Geometry = EUCLIDEAN,
    solver: Solver | None = None,
) -> Update:
    """Fully implicit online learning: loss and regularizer exactly (Song, Liu, Liu, Jiang, Zhang).

    >>> from fiol import L1, Logistic
    >>> FIOL(Logistic(), L1(1e-4)).loss_step, FIOL(Logistic(), L1(1e-4)).regularizer_step
    (ImplicitLoss(), ImplicitRegularizer())
    """
    switches = ImplicitLoss(), ImplicitRegularizer(), LastIterate()
    return Update(loss, regularizer, step_size, *switches, geometry, solver)


def FTRLProximal(
    loss: AnyLoss, regularizer: Regularizer = UNREGULARIZED, step_size: StepSize = ADAPTIVE, once: bool = False
) -> Update:
    """Follow the regularized leader, proximal: all past gradients, near all past weights.

    The regularizer counts once per round (McMahan 2011), or `once` in all (McMahan et al. 2013).

    >>> from fiol import L1, Logistic
    >>> FTRLProximal(Logistic(), L1(1e-4)).anchor
    AllIterates()
    """
    counted = RegularizerOnce() if once else ImplicitRegularizer()
    return Update(loss, regularizer, step_size, LinearizedLoss(), counted, AllIterates())


def ImplicitFTRL(
    loss: AnyLoss,
    regularizer: Regularizer = UNREGULARIZED,
    step_size: StepSize = ADAPTIVE,
    once: bool = False,
    solver: Solver | None = None,
) -> Update:
    """FTRL-Proximal with the newest loss exactly instead of its gradient (Chen and Orabona 2023).

    >>> from fiol import L1, Logistic
    >>> ImplicitFTRL(Logistic(), L1(1e-4)).loss_step
    ImplicitLoss()
    """
    counted = RegularizerOnce() if once else ImplicitRegularizer()
    return Update(loss, regularizer, step_size, ImplicitLoss(), counted, AllIterates(), EUCLIDEAN, solver)


#: The steps of the members of `Stacked`.
STACKED = (
    Curvature(),
    AdaGrad(1.0),
    AdaGrad(300.0),
    Constant(100.0),
    Normalized(0.03),
    Normalized(0.3),
    Normalized(3.0),
)
#: The steps of the gate of `Stacked`.
GATE = ScaleFree(AdaGrad(3.0))


def Stacked(loss: AnyLoss, regularizer: Regularizer = UNREGULARIZED, basis: TableBasis | None = None) -> Ensemble:
    """Seven `FIOL` with steps of four kinds, and the best linear combination of them; nothing to tune.

    | steps, all `ScaleFree` | best for |
    |---|---|
    | `Curvature()` | stationary streams: Newton steps that decrease |
    | `AdaGrad(1)`, `AdaGrad(300)` | sparse features; the long steps for few rows or many classes |
    | `Constant(100)` | following the last rows |
    | `Normalized(0.03)`, `(0.3)`, `(3)` | streams that change; the short steps average noise |

    These were chosen from 24 candidates, all of which run in SIMD lanes, by adding and exchanging those that lowered
    the loss of the stack most, over twelve data sets. Some are too long or too short on their own, but improve the
    combination. The list is the same for all losses.

    Every member has the ridge of a penalty. Its l1 part belongs to a gate (see `Ensemble`): one `ImplicitFTRL` (for
    joint losses, whose exact steps do not support l1, one `FTRLProximal`) selects the features, and the seven learn
    from these without the l1 part. The model is sparser and predicts better than seven members with the penalty each
    (`benchmarks.sparsity`), which are `Ensemble([FIOL(loss, L1(lam), size) for size in sizes])`.

    With a `basis` there are curves of columns and cells of pairs of columns: see `TableBasis`. A combination of weights
    within bounds may be outside of them, so a `Box` is refused: a single `FIOL` keeps its bounds.

    >>> from fiol import Learner, Logistic
    >>> learner = Learner(Stacked(Logistic()))
    >>> learner.learn([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1, -1, 1]).shape, len(learner.members)
    ((3,), 7)
    >>> from fiol import L1
    >>> Stacked(Logistic(), L1(1e-4)).gate.regularizer, Stacked(Logistic(), L1(1e-4)).members[0].regularizer
    (L1(lam=0.0001), Unregularized())
    """
    if regularizer.is_bounded():
        name = type(regularizer).__name__
        raise TypeError(f"Stacked combines weights and does not keep the bounds of {name}: use a single learner, FIOL")
    gate = None
    if regularizer.strengths() is not None and regularizer.has_l1():
        leader = FTRLProximal if isinstance(loss, JointLoss) else ImplicitFTRL  # no joint loss is exact under l1
        gate, regularizer = leader(loss, regularizer, GATE), without_l1(regularizer)
    members = [FIOL(loss, regularizer, ScaleFree(size)) for size in STACKED]
    return Ensemble(members, gate=gate, basis=basis)  # type: ignore[arg-type]
