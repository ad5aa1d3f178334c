"""Typed messages of the server: requests, answers and the records of the journal, as msgspec structs."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from fiol.training.task_inference import Label

#: The name of a model: it is part of paths and of names of files.
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
Name = Annotated[str, Meta(pattern=NAME_PATTERN, max_length=64)]
#: What a client calls a row, so that its label can come later.
RowId = Annotated[str, Meta(min_length=1, max_length=200)]
Weight = Annotated[float, Meta(ge=0.0, le=1e100)]
Features = dict[str, Any]

is_name = re.compile(NAME_PATTERN).fullmatch


class PredictRow(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One row to predict for; with an id the features and the prediction are kept for the label to come."""

    features: Features
    id: RowId | None = None


class PredictRequest(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One row, `features` and `id`, or many as `rows`."""

    features: Features | None = None
    id: RowId | None = None
    rows: list[PredictRow] | None = None
    uncertainty: bool = False  #: also return the standard deviation of scores


class LearnRow(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One row to learn from: features and label, or the id of a prediction and its label."""

    label: Label
    features: Features | None = None
    id: RowId | None = None
    weight: Weight = 1.0


class LearnRequest(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One row, or many as `rows`."""

    label: Label | None = None
    features: Features | None = None
    id: RowId | None = None
    weight: Weight = 1.0
    rows: list[LearnRow] | None = None


class RowPrediction(Struct, omit_defaults=True):
    """The prediction for one row."""

    score: float | list[float] | None  #: None if it is not finite
    label: Label | None = None  #: the predicted label, or the predicted number
    probabilities: list[float] | None = None  #: in the order of `labels`
    uncertainty: float | None = None
    id: str | None = None


class PredictAnswer(Struct, omit_defaults=True):
    """Predictions, and the round of the model that made them."""

    model: str
    round: int
    predictions: list[RowPrediction]
    labels: list[Label] | None = None
    position: int | None = None  #: of the journal's record of predictions with ids


Outcome = Literal["learned", "held", "duplicate", "conflict", "late", "dropped"]


class LearnAnswer(Struct, omit_defaults=True):
    """What became of the rows of a request, which are durable."""

    model: str
    position: int  #: of the journal's last record of this request
    rows: int
    outcomes: dict[str, int]  #: number of rows by outcome
    rows_outcomes: list[Outcome] | None = None  #: of every row, if rows have ids


class ErrorPlace(Struct, omit_defaults=True):
    """The reason for a refusal, and the row and column it is about."""

    reason: str
    row: int | None = None
    column: str | None = None


class ErrorAnswer(Struct):
    """A refused request: nothing of it was learned."""

    error: ErrorPlace


class LabelRules(Struct, forbid_unknown_fields=True):
    """What happens to labels that come early, late, twice or never."""

    #: A label before its prediction: held until the prediction comes, dropped, or the request is refused.
    early: Literal["hold", "drop", "refuse"] = "hold"
    #: A label after its prediction has expired: dropped, learned anyway, or the request is refused.
    late: Literal["drop", "learn", "refuse"] = "drop"
    #: A second label that is not the first one: the first one stays, both are learned, or the request is refused.
    conflict: Literal["keep", "learn", "refuse"] = "keep"
    #: Seconds after which a prediction without a label expires.
    horizon: Annotated[float, Meta(gt=0.0)] = 7 * 86400.0
    #: The label that an expired prediction is learned with; None drops it.
    default: Label | None = None


class AddModel(Struct, forbid_unknown_fields=True):
    """A model to add: empty, by a specification of its training, or a copy of another one."""

    specification: dict[str, Any] | None = None
    copy_of: Name | None = None
    shadow_of: Name | None = None
    rules: LabelRules = msgspec.field(default_factory=LabelRules)


class RollBackRequest(Struct, forbid_unknown_fields=True):
    """The position of the snapshot to continue from."""

    position: Annotated[int, Meta(ge=0, le=2**62)]


class PromoteRequest(Struct, forbid_unknown_fields=True):
    """The shadow to promote; it need not be named if there is one."""

    shadow: Name | None = None


class SessionRequest(Struct, forbid_unknown_fields=True):
    """The token that the dashboard keeps in a cookie."""

    token: Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^[!-~]+$")]


class Ready(Struct):
    """Whether the server answers requests."""

    status: str
    models: list[str]


class SnapshotInfo(Struct):
    """A model file with the journal's position of its last record."""

    position: int
    rounds: int
    time: float
    bytes: int
    file: str


# --- records of the journal -------------------------------------------------------------------


class LearnRecord(Struct, omit_defaults=True):
    """Rows to learn from, with all decisions made: features are those that were predicted with."""

    features: list[Features]
    labels: list[Label]
    weights: list[float] | None = None
    ids: list[str | None] | None = None
    served: list[Any] | None = None  #: scores as served, None for rows without a prediction
    delays: list[float | None] | None = None  #: seconds from prediction to label
    expired: bool = False  #: these are predictions without a label, learned with the default label


class PredictRecord(Struct, omit_defaults=True):
    """Predictions that wait for their labels."""

    ids: list[str]
    features: list[Features]
    scores: list[Any]
    round: int


class ReplaceRecord(Struct, omit_defaults=True):
    """From here on the model is that of the snapshot at this position."""

    reason: Literal["add", "upload", "rollback", "promote"]
    source: str = ""


class RemoveRecord(Struct):
    """The model was removed."""


#: Encoder of everything that the server sends and stores; nan and infinities become null.
encode = msgspec.json.Encoder().encode
decode = msgspec.json.decode


def decoder_of(kind: Any) -> Any:
    """Return a function from JSON bytes to a struct; it raises `msgspec.ValidationError` or `DecodeError`."""
    return msgspec.json.Decoder(kind).decode


decode_label_rules = decoder_of(LabelRules)
