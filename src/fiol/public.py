"""All public names of the package, which `fiol` loads from here when they are used."""

from importlib import import_module
from typing import Any

from fiol import checks
from fiol.algorithms.anchors import AllIterates, Anchor, LastIterate, Origin
from fiol.algorithms.ensemble import Ensemble
from fiol.algorithms.grid import tuned
from fiol.algorithms.loss_steps import ImplicitLoss, ImportanceAware, LinearizedLoss, LossStep, Truncated
from fiol.algorithms.regularizer_steps import (
    IgnoredRegularizer,
    ImplicitRegularizer,
    LinearizedRegularizer,
    RegularizerOnce,
)
from fiol.algorithms.update import Update
from fiol.components.combiners import Bayes, BestMember, NewtonStack, Stack
from fiol.components.geometries import (
    DiagonalMetric,
    Entropy,
    Euclidean,
    Geometry,
    Mahalanobis,
    Separable,
    SignedEntropy,
    Simplex,
)
from fiol.components.joint_losses import CrammerSinger, JointLoss, Softmax
from fiol.components.losses import (
    Absolute,
    Binary,
    EpsilonInsensitive,
    Exponential,
    Hinge,
    Huber,
    Logistic,
    Loss,
    Poisson,
    Quantile,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)
from fiol.components.regularizers import L1, Box, ElasticNet, Regularizer, Ridge, Unregularized, non_negative
from fiol.components.solvers import (
    Bisection,
    ClosedForm,
    MedianOfMedians,
    Newton,
    Partition,
    RandomPivot,
    Solver,
    Sorting,
)
from fiol.components.step_sizes import (
    AdaGrad,
    Adaptive,
    Anytime,
    CoinBetting,
    Constant,
    Curvature,
    FixedHorizon,
    Inverse,
    Normalized,
    Polynomial,
    ScaleFree,
    Schedule,
    StepSize,
)
from fiol.components.table_basis import TableBasis
from fiol.features.chunk import Chunk
from fiol.features.containers import to_chunk
from fiol.features.named_rows import NamedRows
from fiol.features.table_encoding import Column, TableEncoding
from fiol.learner import Learner
from fiol.models.one_vs_rest import OneVsRest
from fiol.persistence.model import TRAINED_BUILDERS, load, register_kind
from fiol.presets import (
    COMID,
    FIOL,
    IOL,
    ISGD,
    PA,
    PA1,
    PA2,
    RDA,
    SGD,
    Coin,
    FTRLProximal,
    ImplicitCoin,
    ImplicitFTRL,
    Stacked,
)
from fiol.step import Step, solve_step

#: Names that need scikit-learn, or that few need, and are loaded when they are used.
_OPTIONAL = {
    "FIOLClassifier": "integrations.classifier",
    "FIOLRegressor": "integrations.regressor",
    "PassiveAggressiveClassifier": "integrations.passive_aggressive",
    "PassiveAggressiveRegressor": "integrations.passive_aggressive",
    "load_json": "exports.json_model",
    "TrainedModel": "workflow.model",
    "TrainedOneVsRest": "workflow.model",
    "read": "workflow.api",
    "train": "workflow.api",
}
#: The classes of models in files, by kind.
_IN_FILES = {
    "classifier": "FIOLClassifier",
    "regressor": "FIOLRegressor",
    "passive-aggressive-classifier": "PassiveAggressiveClassifier",
    "passive-aggressive-regressor": "PassiveAggressiveRegressor",
}
#: The classes of models in files that say how data are read.
_TRAINED = {"learner": "TrainedModel", "one-vs-rest": "TrainedOneVsRest"}


def get(name: str) -> Any:
    """Return a public name of the package; AttributeError if there is none."""
    if name in _OPTIONAL:
        return getattr(import_module(f"fiol.{_OPTIONAL[name]}"), name)
    return globals()[name]


for _kind, _class in _TRAINED.items():
    TRAINED_BUILDERS[_kind] = lambda *parts, name=_class: get(name).from_parts(*parts)
for _kind, _class in _IN_FILES.items():
    register_kind(_kind, lambda *parts, name=_class: get(name).from_parts(*parts))

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
    "Truncated",
    "Unregularized",
    "Update",
    "checks",
    "load",
    "non_negative",
    "solve_step",
    "to_chunk",
    "tuned",
]
