"""The OpenAPI description of the server, made from the structs of its messages."""

from __future__ import annotations

from typing import Any

import msgspec

from fiol.server.bodies import ARROW, JSON, NDJSON
from fiol.server.figures import REFUSALS
from fiol.server.messages import (
    NAME_PATTERN,
    AddModel,
    ErrorAnswer,
    LabelRules,
    LearnAnswer,
    LearnRequest,
    LearnRow,
    PredictAnswer,
    PredictRequest,
    PredictRow,
    PromoteRequest,
    Ready,
    RollBackRequest,
    SessionRequest,
    SnapshotInfo,
)

MESSAGES = (
    AddModel,
    ErrorAnswer,
    LabelRules,
    LearnAnswer,
    LearnRequest,
    LearnRow,
    PredictAnswer,
    PredictRequest,
    PredictRow,
    PromoteRequest,
    Ready,
    RollBackRequest,
    SessionRequest,
    SnapshotInfo,
)
REFERENCE = "#/components/schemas/{name}"
ANY = {"type": "object"}
KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
    "description": "The same key with the same request gives the same answer, and nothing is learned twice.",
}


def openapi() -> dict[str, Any]:
    """Return the description as plain JSON values."""
    from fiol import __version__

    _, components = msgspec.json.schema_components(MESSAGES, ref_template=REFERENCE)
    return {
        "openapi": "3.1.0",
        "info": {"title": "fiol serve", "version": __version__, "description": "Models that learn while they serve."},
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}, {}],
        "paths": paths(),
    }


def paths() -> dict[str, Any]:
    """Return all paths."""
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "pattern": NAME_PATTERN}}
    most = {"name": "most", "in": "query", "schema": {"type": "integer", "minimum": 0, "maximum": 1000}}
    doubts = {"name": "uncertainty", "in": "query", "schema": {"type": "boolean"}}
    columns = [{"name": column, "in": "query", "schema": {"type": "string"}} for column in ("id", "weight", "label")]
    predict = operation("Predict for rows", PredictAnswer, rows_of(PredictRequest, PredictRow))
    learn = operation("Learn from rows", LearnAnswer, rows_of(LearnRequest, LearnRow))
    return {
        "/healthz": {"get": operation("Whether the process works")},
        "/readyz": {"get": operation("Whether rows are written and learned from", Ready)},
        "/openapi.json": {"get": operation("This description")},
        "/session": {"post": operation("Set the dashboard's cookie", body=SessionRequest)},
        "/status": {"get": operation("Everything that the dashboard shows")},
        "/metrics": {"get": operation("Figures for Prometheus", kind="text/plain")},
        "/models": {"get": operation("The models")},
        "/models/{name}": {
            "parameters": [name],
            "get": {**operation("Recipe, weights and importances"), "parameters": [most]},
            "put": operation("Add a model", body=AddModel, status=201),
            "delete": operation("Remove a model"),
        },
        "/models/{name}/rules": {
            "parameters": [name],
            "put": operation("Change the rules for labels", LabelRules, LabelRules),
        },
        "/models/{name}/predict": {"parameters": [name], "post": {**predict, "parameters": [KEY, doubts]}},
        "/models/{name}/learn": {"parameters": [name], "post": {**learn, "parameters": [KEY, *columns]}},
        "/models/{name}/file": {
            "parameters": [name],
            "get": operation("Download the model", kind="application/octet-stream"),
            "put": operation("Continue with the model of a file", body=b"", status=201),
        },
        "/models/{name}/snapshots": {
            "parameters": [name],
            "get": operation("The snapshots"),
            "post": operation("Take a snapshot", SnapshotInfo, status=201),
        },
        "/models/{name}/rollback": {
            "parameters": [name],
            "post": operation("Continue from a snapshot", body=RollBackRequest),
        },
        "/models/{name}/promote": {"parameters": [name], "post": operation("Promote a shadow", body=PromoteRequest)},
    }


def operation(
    summary: str, answer: Any = None, body: Any = None, status: int = 200, kind: str = JSON
) -> dict[str, Any]:
    """Return one operation: what it takes, what it answers, and how it refuses."""
    schema = ANY if answer is None else schema_of(answer)
    found: dict[str, Any] = {
        "summary": summary,
        "responses": {
            str(status): {"description": "done", "content": {kind: {"schema": schema if kind == JSON else {}}}},
            **{
                str(code): {"description": text, "content": {JSON: {"schema": schema_of(ErrorAnswer)}}}
                for code, text in REFUSALS.items()
            },
        },
    }
    if body is not None:
        if isinstance(body, bytes):
            body = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
        elif not isinstance(body, dict):
            body = {JSON: {"schema": schema_of(body)}}
        found["requestBody"] = {"required": True, "content": body}
    return found


def rows_of(request: Any, row: Any) -> dict[str, Any]:
    """Return the content of rows: JSON, NDJSON, Arrow."""
    return {
        JSON: {"schema": schema_of(request)},
        NDJSON: {"schema": {"type": "string"}},
        ARROW: {"schema": {"type": "string", "format": "binary"}},
    }


def schema_of(message: Any) -> dict[str, str]:
    """Return the reference of a message."""
    return {"$ref": REFERENCE.format(name=message.__name__)}
