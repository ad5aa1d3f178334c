"""River's models, the part that classifier and regressor share: parameters, rows, files.

No mathematics of its own: parameters become a preset (`fiol.integrations.parameters`), dicts become rows
(`fiol.features`), and `fiol.Learner` does the rest. Needs River, the extra `fiol[river]`.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar, Union

import numpy as np

try:
    from river import base
except ImportError as error:
    raise ImportError("fiol.river needs River: pip install fiol[river]") from error

from fiol.algorithms.ensemble import Ensemble
from fiol.algorithms.update import Update
from fiol.components.geometries import Geometry
from fiol.components.joint_losses import JointLoss
from fiol.components.losses import Loss
from fiol.components.regularizers import Regularizer
from fiol.components.row import Floats
from fiol.components.solvers import Solver
from fiol.components.step_sizes import StepSize
from fiol.features.chunk import Chunk
from fiol.features.feature_space import FeatureSpace
from fiol.features.frames import Frame, as_frame, converted, eager
from fiol.features.labels import AnyLabels
from fiol.features.lock import Lock
from fiol.features.numbered_rows import one_row
from fiol.integrations.parameters import (
    AUTOMATIC,
    GEOMETRIES,
    SOLVERS,
    STEP_SIZES,
    UPDATE_DOCS,
    UPDATE_PARAMETERS,
    UpdateParameters,
    make_update,
)
from fiol.learner import Learner
from fiol.learner.arguments import check_flag, with_features
from fiol.learner.importances import importances
from fiol.models.one_vs_rest import OneVsRest
from fiol.names import ALGORITHMS, PENALTIES, canonical_name, component_named, is_component_name, is_penalty_name

#: Names that a parameter may have, and the component that it may be instead.
NAMED: dict[str, tuple[tuple[str, ...], type]] = {
    "step_size": ((*AUTOMATIC, *STEP_SIZES), StepSize),
    "geometry": (tuple(GEOMETRIES), Geometry),
    "solver": (tuple(SOLVERS), Solver),
}
#: Parameters that are True or False.
YES_OR_NO = ("average", "positive", "fit_intercept")
#: Names in messages about a step size that is a number, and the parameter to name instead.
STEP_SIZE_NAMES = {"Constant.size": "step_size", "aggressiveness": "step_size"}
#: Names in messages about one row and about many, and the arguments to name instead.
ONE_ROW_NAMES = {"sample_weight[0]": "w", "sample_weight": "w", "y[0]": "y"}
MANY_ROWS_NAMES = {"sample_weight": "w"}
#: A model of one score, of a score per class, or of a learner per class.
InnerModel = Union[Learner, OneVsRest]


#: The end of the parameters in docstrings of both models, and what holds for both.
RIVER_DOCS = """
    bits : fold all features into 2**bits by hashing. By default every feature has a weight of its own.

    Notes
    -----
    Values are numbers; text is part of the name: {"color": "red"} is {"color=red": 1}. `learn_many` gives the same
    bits as `learn_one` for the same rows one by one. Features need no scaling, and no parameter has to be tuned.
"""


@dataclass(eq=False, repr=False)
class LinearModel(UpdateParameters, base.Estimator):  # type: ignore[misc]
    """The parts that both models share: parameters to an update, dicts and frames to rows."""

    _losses: ClassVar[Mapping[str, Loss | JointLoss]]
    #: Classes of a loss that is given as a component.
    _loss_kinds: ClassVar[tuple[type, ...]] = (Loss,)

    bits: int | None = field(default=None, kw_only=True)

    _parameter_docs: ClassVar[str] = UPDATE_DOCS + RIVER_DOCS.lstrip("\n")

    def __post_init__(self) -> None:
        self._space = FeatureSpace(bits=self.bits, any_names=True)
        self._y_name: Any = None
        self._lock = Lock()
        self._update = self._make_update()
        self._space.counts_unseen = self._new_learner().core.counts_unseen

    # --- parameters -------------------------------------------------------------------------------

    def _make_update(self) -> Update | Ensemble:
        """Return the update that the parameters describe; an error has the wrong parameter and its choices."""
        if not (isinstance(self.loss, str) and is_component_name(self.loss, self._losses)):
            check_choice("loss", self.loss, tuple(self._losses), self._loss_kinds)
        check_choice("algorithm", self.algorithm, tuple(ALGORITHMS), ())
        if not (self.penalty is None or is_penalty_name(self.penalty)):
            check_choice("penalty", self.penalty, ("none", *PENALTIES), (Regularizer,))
        for name, (known, kind) in NAMED.items():
            value, number = getattr(self, name), name == "step_size"
            if value is not None or number:
                check_choice(name, value, known, (kind,), number)
        for name in YES_OR_NO:
            check_flag(name, getattr(self, name))
        check_in_range("alpha", self.alpha, 0.0, np.inf)
        if self.l1_ratio is not None:
            check_in_range("l1_ratio", self.l1_ratio, 0.0, 1.0)
        with renamed_in_errors({} if isinstance(self.step_size, StepSize) else STEP_SIZE_NAMES):
            loss = component_named(self.loss, dict(self._losses))
            return with_features(make_update(loss, **self.update_parameters(), alone=self.average), self.features)  # type: ignore[no-any-return]

    def _new_learner(self) -> Learner:
        """Return a learner of numbered features before its first round: the feature space numbers them."""
        return Learner(self._update, **self._options())

    def _options(self) -> dict[str, Any]:
        """Return the options of every kind of model."""
        return {"n_features": self._space.width, "intercept": self.fit_intercept, "average": self.average}

    @property
    def _mutable_attributes(self) -> set[str]:
        return {"loss", *UPDATE_PARAMETERS}

    def mutate(self, new_attrs: dict[str, Any]) -> None:
        """Change parameters of the update, in the middle of a stream.

        The weights stay; statistics of step sizes start anew. Nothing changes if there is an error.
        """
        with self._lock:
            self._mutate(new_attrs)

    def _mutate(self, new_attrs: dict[str, Any]) -> None:
        before = self.__dict__.copy()
        try:
            super().mutate(new_attrs)
            update = self._make_update()
            if update != self._update:
                self._update = update
                counts_unseen = self._new_learner().core.counts_unseen
                self._continue()
                self._space.counts_unseen = counts_unseen
        except BaseException:
            self.__dict__.update(before)
            raise

    @property
    def _raw_memory_usage(self) -> int:
        """Return the bytes of the stored model: River would count the compiled code that all models share."""
        return len(pickle.dumps(self))

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:  # names and weights of one moment
            return copy.deepcopy({name: value for name, value in self.__dict__.items() if name != "_lock"})

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = Lock()

    @property
    def rounds(self) -> int:
        """Return the number of events learned from."""
        raise NotImplementedError

    def _continue(self) -> None:
        """Replace the model by one with the current update."""
        raise NotImplementedError

    # --- rows -------------------------------------------------------------------------------------

    def _round(self, model: Any, x: Any, y: Any, w: Any) -> Any:
        """Make one round, or raise and make none; return the model, which may be a new one."""
        if model.core.fast_learn_dict(x, y, w, self._space) is not None:
            return model
        with renamed_in_errors(ONE_ROW_NAMES), self._space.transaction(learner=self):
            return self._learn_chunk(model, one_row(*self._space.encode_row(x)), AnyLabels([y]), [w])

    def _rounds(self, model: Any, frame: Frame, y: Any, w: Any) -> Any:
        """Learn from every row of a frame, one round each, and return the model, which may be a new one."""
        names = {"sample_weight[0]": "w"} if is_number(w) else MANY_ROWS_NAMES
        with self._lock, renamed_in_errors(names), self._space.transaction(learner=self):
            chunk = self._space.encode_rows(frame)
            return self._learn_chunk(model, chunk, y, np.full(chunk.rows, w) if is_number(w) else w)

    def _learn_chunk(self, model: Any, chunk: Chunk, y: Any, w: Any) -> Any:
        """Make a round per encoded row; return the model."""
        model.core.space.outer = self._space
        model.learn_chunk(chunk, y, w)
        return model

    def _scores_one(self, model: InnerModel, x: Any) -> Floats:
        """Return the score, or the scores, of one row, as an array of one row."""
        with self._lock:
            model.core.space.outer = self._space
            if isinstance(model, OneVsRest):
                return model.core.scores_of_dict(x, self._space)[None]
            return model.core.score_canonical(one_row(*self._space.read_row(x)))

    def _fast_score(self, learner: Learner, x: Any, predict: bool) -> float | None:
        """Return the score or prediction of one row by a learner of one score; None if it needs `_scores_one`."""
        core, space = learner.core, self._space
        z = core.engine.fast_path.score_dict(space.encoder.find, x, predict)  # type: ignore[union-attr]
        return core.fast_score_dict(x, space, predict=predict) if z is None else z

    def _scores_many(self, model: InnerModel, frame: Frame) -> Floats:
        """Return the scores of the rows of a frame."""
        with self._lock:
            model.core.space.outer = self._space
            return model.core.score_canonical(self._space.read(frame))

    def importances(self, most: int | None = None, by: str = "feature") -> dict[Any, float]:
        """Return how much every feature, or every key of dicts (by="column"), matters: see `Learner.importances`.

        >>> from fiol.river import FIOLRegressor
        >>> model = FIOLRegressor()
        >>> for k in range(30):
        ...     model.learn_one({"grams": 1000.0 * (k % 7), "city": ("Rome", "Oslo")[k % 2]}, float(k % 7 + k % 2))
        >>> list(model.importances(1)), list(model.importances(by="column"))
        (['grams'], ['grams', 'city'])
        """
        with self._lock:
            model = self._inner_model()
            if model is None:
                return {}
            core = model.core.copy()
            core.space.outer = self._space
            return importances(core, model.meta, most, None, by)

    def _inner_model(self) -> InnerModel | None:
        """Return the model of numbered features; None before the first round."""
        raise NotImplementedError

    def _named_weights(self, model: InnerModel, w: Floats) -> dict[Any, float]:
        """Return weights that are not 0 by the names of their features, or by their numbers if these are hashes."""
        found = np.flatnonzero(w)
        model.core.space.outer = self._space
        names = model.core.feature_names()
        return {int(i) if names is None else names[i]: float(w[i]) for i in found}


def framed(X: Any) -> Frame:
    """Return X as a frame; TypeError if it is none."""
    frame = as_frame(X)
    if frame is None:
        known = converted(X)
        if known is not X:
            name, got = type(X).__name__, type(known).__name__
            raise TypeError(f"X: {name} is registered: its conversion must give a frame here, got {got}")
        raise TypeError(f"X must be a pandas or polars frame or an Arrow table, got {type(X).__name__}{eager(X)}")
    return frame


def is_number(value: Any) -> bool:
    """Return whether a value is a number, and not True or False."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_choice(name: str, value: Any, known: tuple[str, ...], kinds: tuple[type, ...], number: bool = False) -> None:
    """Raise ValueError unless a parameter is a known name, a component of the right kind or, if allowed, a number."""
    if (isinstance(value, str) and canonical_name(value, known)) or isinstance(value, kinds):
        return
    if number and is_number(value):
        return
    other = (", a number" if number else "") + ("".join(f", or a fiol.{kind.__name__}" for kind in kinds[:1]))
    raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}{other}; got {value!r}")


def check_in_range(name: str, value: Any, low: float, high: float) -> None:
    """Raise ValueError unless a parameter is a number in a range."""
    if not (is_number(value) and low <= value <= high):
        wanted = f"at least {low:g}" if high == np.inf else f"from {low:g} to {high:g}"
        raise ValueError(f"{name} must be a number {wanted}, got {value!r}")


@contextmanager
def renamed_in_errors(names: Mapping[str, str]) -> Iterator[None]:
    """Replace a name at the beginning of an error message by the name that the caller used.

    >>> with renamed_in_errors({"sample_weight[0]": "w"}):
    ...     raise ValueError("sample_weight[0] is missing")
    Traceback (most recent call last):
    ValueError: w is missing
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        text = str(error)
        name = next((name for name in names if text.startswith(name)), None)
        if name is not None:
            error.args = (names[name] + text[len(name) :],)
        raise
