"""`Snapshot`: a read-only scorer with the state of a model at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from fiol.components.row import Floats
from fiol.features.chunk import Chunk
from fiol.features.lock import NoLock


class Snapshot:
    """Scores and weights of a `Learner` or `OneVsRest` at the moment of its `snapshot()`.

    A snapshot never changes and shares nothing with its model that could: any number of threads may use it at once,
    without waiting for one another or for the model. Its methods return what those of the model returned at that
    moment. To save a snapshot, save a `copy()` of the model instead.
    """

    __slots__ = ("_model",)
    _model: Any

    def __init__(self, model: Any) -> None:
        model.core.lock = NoLock()  # nothing changes any more
        object.__setattr__(self, "_model", model)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError("a snapshot does not change")

    def __reduce__(self) -> tuple[Any, ...]:
        return Snapshot, (self._model,)

    def __repr__(self) -> str:
        return f"<Snapshot of {self._model!r}>"

    def scores(self, X: Any) -> Floats:
        """Return the score of every row, or the scores by class."""
        return self._model.scores(X)  # type: ignore[no-any-return]

    def score_chunk(self, chunk: Chunk) -> Floats:
        """Return the scores of a canonical chunk of numbered features."""
        return self._model.score_chunk(chunk)  # type: ignore[no-any-return]

    def score_named(self, features: Mapping[Any, Any]) -> Any:
        """Return the score of a dict of features, or its scores by class."""
        return self._model.score_named(features)

    def predict(self, X: Any) -> Any:
        """Return the prediction for every row."""
        return self._model.predict(X)

    def predict_named(self, features: Mapping[Any, Any]) -> Any:
        """Return the prediction for a dict of features."""
        return self._model.predict_named(features)

    def uncertainty(self, X: Any) -> Floats:
        """Return the standard deviation of the score of every row, of a `Learner`: see `Learner.uncertainty`."""
        return self._model.uncertainty(X)  # type: ignore[no-any-return]

    def probabilities(self, X: Any) -> Floats:
        """Return the probability of every class for every row, of a `OneVsRest`; TypeError if the loss has none."""
        if not hasattr(self._model, "probabilities"):
            raise TypeError("a Learner has its probabilities as predictions: use predict")
        return self._model.probabilities(X)  # type: ignore[no-any-return]

    @property
    def weights(self) -> Floats:
        """The weight of every feature, or of every class and feature; a copy."""
        return self._model.weights  # type: ignore[no-any-return]

    @property
    def intercept(self) -> Any:
        """The intercept, or that of every class."""
        return self._model.intercept

    @property
    def names(self) -> list[str | int] | None:
        """The names of the features; None if features are numbers."""
        return self._model.names  # type: ignore[no-any-return]

    @property
    def classes(self) -> list[Any] | None:
        """The labels of the classes; None for a loss with one score."""
        return self._model.classes  # type: ignore[no-any-return]

    @property
    def n_features(self) -> int:
        """The number of features."""
        return self._model.n_features  # type: ignore[no-any-return]

    @property
    def rounds(self) -> int:
        """Rounds made."""
        return self._model.rounds  # type: ignore[no-any-return]

    @property
    def rows(self) -> int:
        """Rows learned from, including those of all merged models."""
        return self._model.rows  # type: ignore[no-any-return]
