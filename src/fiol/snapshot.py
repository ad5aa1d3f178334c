"""A snapshot: what a model had learned at one moment, for reading alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from fiol.components.row import Floats
from fiol.intake.chunk import Chunk
from fiol.intake.turns import Free

#: From so many entries per byte of a model on, reading takes far longer than copying it.
ENTRIES_PER_BYTE = 2


def scores_in_turn(model: Any, X: Any) -> Floats:
    """The scores of rows by a model as it is when its turn comes; by a copy if others would have to wait for long."""
    with model._turns:
        chunk = model._intake.read(X)
        if chunk.data.shape[0] <= ENTRIES_PER_BYTE * model.nbytes or isinstance(model._turns, Free):
            return model.score_canonical(chunk)  # type: ignore[no-any-return]
        model = model.copy()
    return model.score_canonical(chunk)  # type: ignore[no-any-return]


class Snapshot:
    """Scores and weights of a `Learner` or `OneVsRest` as they were when its `snapshot()` was called.

    A snapshot shares nothing with its model that could change, and nothing about it changes: any number of threads may
    use it at once, without waiting for one another or for the model. All its methods give what those of the same name
    gave at that moment. To save a snapshot, use `copy()` of the model instead.
    """

    __slots__ = ("_model",)
    _model: Any

    def __init__(self, model: Any) -> None:
        model._turns = Free()
        object.__setattr__(self, "_model", model)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError("a snapshot does not change")

    def __reduce__(self) -> tuple[Any, ...]:
        return Snapshot, (self._model,)

    def __repr__(self) -> str:
        return f"<Snapshot of {self._model!r}>"

    def scores(self, X: Any) -> Floats:
        """The score of every row, or the scores by class."""
        return self._model.scores(X)  # type: ignore[no-any-return]

    def score_chunk(self, chunk: Chunk) -> Floats:
        """`scores` for a canonical chunk of numbered features."""
        return self._model.score_chunk(chunk)  # type: ignore[no-any-return]

    def score_named(self, features: Mapping[Any, Any]) -> Any:
        """The score of a dict of features, or its scores by class."""
        return self._model.score_named(features)

    def predict(self, X: Any) -> Any:
        """The prediction for every row."""
        return self._model.predict(X)

    def predict_named(self, features: Mapping[Any, Any]) -> Any:
        """The prediction for a dict of features."""
        return self._model.predict_named(features)

    def probabilities(self, X: Any) -> Floats:
        """The probability of every class for every row, of a `OneVsRest`; TypeError if the loss has none."""
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
        """The classes there were; None for a loss of one score."""
        return self._model.classes  # type: ignore[no-any-return]

    @property
    def n_features(self) -> int:
        """Features there were."""
        return self._model.n_features  # type: ignore[no-any-return]

    @property
    def rounds(self) -> int:
        """Rounds made by then."""
        return self._model.rounds  # type: ignore[no-any-return]

    @property
    def rows(self) -> int:
        """Rows learned from by then, those of all merged models together."""
        return self._model.rows  # type: ignore[no-any-return]
