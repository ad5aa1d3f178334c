"""fiol: online learning with linear models by exact steps.

Every round solves  argmin_w  loss(<x, w>; y) + regularizer(w) + B(w, w_hat) / eta  exactly, linearizing
neither loss nor regularizer (Song, Liu, Liu, Jiang, Zhang, "Fully Implicit Online Learning").

>>> import fiol
>>> fiol.solve_step([1.0, 2.0], 3.0, [0.0, 0.0], loss=fiol.Squared(), regularizer=fiol.L1(0.5), eta=10.0).w
array([0.        , 1.34146341])
"""

import sysconfig as _sysconfig
import typing as _typing

if _sysconfig.get_config_var("Py_GIL_DISABLED"):
    raise ImportError(
        "fiol does not run on a free-threaded build of Python: threads share its models with the help of the "
        "interpreter's lock. Use a build with that lock, such as python3.13 instead of python3.13t"
    )

if _typing.TYPE_CHECKING:
    from fiol.exports.json_model import load_json
    from fiol.integrations.classifier import FIOLClassifier
    from fiol.integrations.passive_aggressive import PassiveAggressiveClassifier, PassiveAggressiveRegressor
    from fiol.integrations.regressor import FIOLRegressor
    from fiol.public import *  # noqa: F403
    from fiol.workflow.api import read, train
    from fiol.workflow.model import TrainedModel

__version__ = "0.2.0"


def __getattr__(name: str) -> object:
    """Load a public name, or a module of the package, when it is first used: `fiol --version` needs none of them."""
    from importlib import import_module
    from importlib.util import find_spec

    if name in __all__:
        found: object = import_module("fiol.public").get(name)
    elif name.startswith("_") or find_spec(f"fiol.{name}") is None:
        raise AttributeError(f"module 'fiol' has no attribute {name!r}")
    else:
        found = import_module(f"fiol.{name}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "COMID",
    "FIOL",
    "IOL",
    "ISGD",
    "L1",
    "PA",
    "PA1",
    "PA2",
    "RDA",
    "SGD",
    "Absolute",
    "AdaGrad",
    "Adaptive",
    "AllIterates",
    "Anchor",
    "Anytime",
    "Bayes",
    "BestMember",
    "Binary",
    "Bisection",
    "Box",
    "Chunk",
    "ClosedForm",
    "Coin",
    "CoinBetting",
    "Column",
    "Constant",
    "CrammerSinger",
    "Curvature",
    "DiagonalMetric",
    "ElasticNet",
    "Ensemble",
    "Entropy",
    "EpsilonInsensitive",
    "Euclidean",
    "Exponential",
    "FIOLClassifier",
    "FIOLRegressor",
    "FTRLProximal",
    "FixedHorizon",
    "Geometry",
    "Hinge",
    "Huber",
    "IgnoredRegularizer",
    "ImplicitCoin",
    "ImplicitFTRL",
    "ImplicitLoss",
    "ImplicitRegularizer",
    "ImportanceAware",
    "Inverse",
    "JointLoss",
    "LastIterate",
    "Learner",
    "LinearizedLoss",
    "LinearizedRegularizer",
    "Logistic",
    "Loss",
    "LossStep",
    "Mahalanobis",
    "MedianOfMedians",
    "NamedRows",
    "Newton",
    "NewtonStack",
    "Normalized",
    "OneVsRest",
    "Origin",
    "Partition",
    "PassiveAggressiveClassifier",
    "PassiveAggressiveRegressor",
    "Poisson",
    "Polynomial",
    "Quantile",
    "RandomPivot",
    "Regularizer",
    "RegularizerOnce",
    "Ridge",
    "ScaleFree",
    "Schedule",
    "Separable",
    "SignedEntropy",
    "Simplex",
    "Softmax",
    "Solver",
    "Sorting",
    "Squared",
    "SquaredEpsilonInsensitive",
    "SquaredHinge",
    "Stack",
    "Stacked",
    "Step",
    "StepSize",
    "TableBasis",
    "TableEncoding",
    "TrainedModel",
    "Truncated",
    "Unregularized",
    "Update",
    "checks",
    "load",
    "load_json",
    "non_negative",
    "read",
    "solve_step",
    "to_chunk",
    "train",
    "tuned",
]
