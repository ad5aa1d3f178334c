"""The web application: routes, and what they do."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib import resources
from typing import Any

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from fiol.server.access import COOKIE, Access, Role, session_cookie
from fiol.server.bodies import JSON, NDJSON, content_kind, decoded, read_body, rows_to_learn, rows_to_predict
from fiol.server.figures import Figures
from fiol.server.history import SAMPLE_SECONDS
from fiol.server.labels import RefusedError
from fiol.server.messages import (
    AddModel,
    ErrorAnswer,
    ErrorPlace,
    PredictAnswer,
    PredictRecord,
    PromoteRequest,
    Ready,
    RollBackRequest,
    SessionRequest,
    decode,
    decode_label_rules,
    decoder_of,
    encode,
)
from fiol.server.model_page import model_page
from fiol.server.openapi import openapi
from fiol.server.prometheus import prometheus_text
from fiol.server.registry import Registry
from fiol.server.status import StatusPage
from fiol.server.writer import ControlCommand, LearnCommand, PredictCommand

#: Rows and bytes above which predictions are made in a thread, so that other requests do not wait.
THREAD_ROWS, THREAD_BYTES = 200, 2**16
#: Seconds between two events of a stream.
EVENT_SECONDS = 1.0
#: Files of the dashboard.
STATIC: Any = resources.files("fiol.server") / "static"
#: Headers of every answer.
HEADERS = {
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    ),
}

decode_add = decoder_of(AddModel)
decode_rollback, decode_promote = decoder_of(RollBackRequest), decoder_of(PromoteRequest)
decode_session = decoder_of(SessionRequest)


def decode_given_rules(body: bytes) -> dict[str, Any]:
    """Return the rules for labels that a request has, by name."""
    rules = decode_label_rules(body)
    return {name: getattr(rules, name) for name in decode(body)}


Handler = Callable[["Server", Request], Awaitable[Response]]


@dataclasses.dataclass
class Limits:
    """Largest requests."""

    body: int = 16 * 2**20  #: bytes of rows
    rows: int = 10_000  #: of one request
    upload: int = 2**30  #: bytes of a model file


class Server:
    """What handlers of requests share."""

    def __init__(self, registry: Registry, access: Access | None = None, limits: Limits | None = None) -> None:
        self.registry, self.access, self.limits = registry, access or Access(), limits or Limits()
        self.writer, self.figures = registry.writer, Figures()
        self.status = StatusPage(registry, self.figures)
        #: Whether the server is about to stop; replaced by who runs it.
        self.is_closing: Callable[[], bool] = lambda: False

    async def control(self, run: Callable[[], Any]) -> Any:
        """Run a change of models in the writer's thread."""
        return await self.writer.submit(ControlCommand("", run=run))


def make_app(server: Server) -> Starlette:
    """Return the application; the writer runs from its startup to its shutdown."""

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        server.writer.start()
        sampling = asyncio.create_task(sample_figures(server))
        try:
            yield
        finally:
            sampling.cancel()
            await run_in_threadpool(server.writer.stop)

    routes = [
        Route(path, endpoint(server, path, handler, needs), methods=[method]) for path, method, handler, needs in ROUTES
    ]
    routes.append(Mount("/static", PageFiles(directory=os.fspath(STATIC))))  # type: ignore[arg-type]
    return Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: http_error})  # type: ignore[dict-item]


async def sample_figures(server: Server) -> None:
    """Sample the figures that the dashboard draws, once a second."""
    while True:
        try:
            if server.status.compare_due:
                await run_in_threadpool(server.status.compare_weights)
            server.status.sample()
        except Exception as error:  # figures are missing, the server goes on
            server.figures.error(f"{type(error).__name__}: {error}", "figures", 500)
        await asyncio.sleep(SAMPLE_SECONDS)


class PageFiles(StaticFiles):
    """Files of the dashboard; browsers ask whether they have changed."""

    def file_response(self, *args: Any, **options: Any) -> Response:
        """Return a file with the headers of every answer."""
        response = super().file_response(*args, **options)
        response.headers.update({**HEADERS, "cache-control": "no-cache"})
        return response


def endpoint(
    server: Server, path: str, handler: Handler, needs: Role | None
) -> Callable[[Request], Awaitable[Response]]:
    """Return a handler with access control, figures and errors as JSON."""

    async def handle(request: Request) -> Response:
        started = time.perf_counter()
        try:
            if needs is not None:
                client = request.client.host if request.client else ""
                server.access.check(dict(request.scope["headers"]), client, needs)
            response = await handler(server, request)
        except RefusedError as error:
            response = refusal(error)
            if error.status >= 500:
                server.figures.error(error.reason, path, error.status)
            else:
                server.figures.refuse(path, error.status, error.column)
        except ClientDisconnect:
            response = Response(status_code=400)
        except Exception as error:  # a defect of the server: the client learns nothing about its inside
            server.figures.error(f"{type(error).__name__}: {error}", path, 500)
            server.registry.say(f"{path}: {type(error).__name__}: {error}")
            response = refusal(RefusedError("the server failed", status=500))
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        server.figures.add(path, response.status_code, time.perf_counter() - started)
        return response

    return handle


def json_response(content: Any, status: int = 200) -> Response:
    """Return a JSON response of a struct, or of bytes that are JSON already."""
    return Response(content if isinstance(content, bytes) else encode(content), status, media_type=JSON)


def refusal(error: RefusedError) -> Response:
    """Return the answer to a request that is refused."""
    response = json_response(ErrorAnswer(ErrorPlace(error.reason, error.row, error.column)), error.status)
    if error.retry:
        response.headers["retry-after"] = str(max(1, round(error.retry)))
    if error.status == 401:
        response.headers["www-authenticate"] = "Bearer"
    return response


async def http_error(_: Request, error: HTTPException) -> Response:
    """Return errors of routing as JSON."""
    response = refusal(RefusedError(str(error.detail), status=error.status_code))
    response.headers.update({**HEADERS, **(error.headers or {})})
    return response


# --- rows -------------------------------------------------------------------------------------


async def predict(server: Server, request: Request) -> Response:
    """Predict for rows; those with an id wait for their label."""
    name, kind = request.path_params["name"], content_kind(request)
    served = server.registry.get(name)
    body = await read_body(request, server.limits.body)
    rows, doubts = rows_to_predict(body, kind, request.query_params, server.limits.rows)
    key, digest = idempotency(request, body)
    features, reader = [row.features for row in rows], served.reader
    if len(rows) > THREAD_ROWS or len(body) > THREAD_BYTES:
        found = await run_in_threadpool(reader.predict, features, doubts)
    else:
        found = reader.predict(features, doubts)
    answer = PredictAnswer(name, reader.rounds, found, reader.labels)
    ids = [row for row in range(len(rows)) if rows[row].id is not None]
    if not ids:
        return rows_response(encode(answer), kind)
    server.access.check_role(dict(request.scope["headers"]), "write")  # the journal grows
    for row in ids:
        found[row].id = rows[row].id
    record = PredictRecord(
        [rows[row].id for row in ids],  # type: ignore[misc]
        [features[row] for row in ids],
        [found[row].score for row in ids],
        reader.rounds,
    )
    command = PredictCommand(name, len(ids), key, digest, record=record, predictions=answer)
    return rows_response(await server.writer.submit(command), kind)


def rows_response(answer: bytes, kind: str) -> Response:
    """Return predictions in the form of the request: an object, or one line per row."""
    if kind != NDJSON:
        return json_response(answer)
    found = decode(answer)
    shared = {name: found[name] for name in ("model", "round")}
    lines = [encode({**prediction, **shared}) for prediction in found["predictions"]]
    return Response(b"\n".join([*lines, b""]), media_type=NDJSON)


async def learn(server: Server, request: Request) -> Response:
    """Learn from rows; answered when they are durable and learned from."""
    name, kind = request.path_params["name"], content_kind(request)
    served = server.registry.get(name)
    body = await read_body(request, server.limits.body)
    reading = served.model.reading
    rows = rows_to_learn(
        body, kind, request.query_params, server.limits.rows, None if reading is None else reading.target
    )
    key, digest = idempotency(request, body)
    return json_response(await server.writer.submit(LearnCommand(name, len(rows), key, digest, learn=rows)))


def idempotency(request: Request, body: bytes) -> tuple[str | None, bytes]:
    """Return the idempotency key of a request, and a digest of the request."""
    key = request.headers.get("idempotency-key")
    if key is None:
        return None, b""
    if not 0 < len(key) <= 200:
        raise RefusedError("an idempotency key has 1 to 200 characters")
    about = f"{request.url.path}?{request.url.query}".encode()
    return key, hashlib.blake2b(body, digest_size=16, key=hashlib.blake2b(about, digest_size=32).digest()).digest()


# --- models -----------------------------------------------------------------------------------


async def list_models(server: Server, _: Request) -> Response:
    """List the models."""
    models = [
        {"name": one.name, "shadow_of": one.shadow_of, "rounds": one.reader.rounds, "labels": one.reader.labels}
        for one in list(server.registry.models.values())
    ]
    return json_response({"models": models})


async def show_model(server: Server, request: Request) -> Response:
    """Describe a model: recipe, columns, weights and importances by name."""
    served = server.registry.get(request.path_params["name"])
    most = request.query_params.get("most", "50")
    if not most.isdecimal() or len(most) > 7:
        raise RefusedError(f"most is a whole number, got {most!r}")
    return json_response(await run_in_threadpool(model_page, served, int(most)))


async def add_model(server: Server, request: Request) -> Response:
    """Add a model: empty, by a specification, or as a copy of another."""
    name = request.path_params["name"]
    given = await json_body(server, request, decode_add)
    model = await run_in_threadpool(server.registry.prepare, name, given)
    await server.control(lambda: server.registry.add_request(name, given, model))
    return json_response({"name": name}, 201)


async def remove_model(server: Server, request: Request) -> Response:
    """Remove a model with its shadows and snapshots."""
    name = request.path_params["name"]
    await server.control(lambda: server.registry.remove(name))
    return json_response({"removed": name})


async def set_rules(server: Server, request: Request) -> Response:
    """Change the rules for labels."""
    name = request.path_params["name"]
    given = await json_body(server, request, decode_given_rules)
    return json_response(await server.control(lambda: server.registry.change_rules(name, given)))


async def download(server: Server, request: Request) -> Response:
    """Return the model file of this moment."""
    served = server.registry.get(request.path_params["name"])
    copy = await server.control(served.file_copy)
    folder = tempfile.mkdtemp(prefix="fiol-download-")
    path = os.path.join(folder, f"{served.name}.fiol")
    try:
        await run_in_threadpool(copy.save, path)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return FileResponse(path, filename=f"{served.name}.fiol", background=BackgroundTask(shutil.rmtree, folder, True))


async def upload(server: Server, request: Request) -> Response:
    """Continue a model with that of a file, or add it."""
    name, size = request.path_params["name"], 0
    with tempfile.TemporaryDirectory(prefix="fiol-upload-") as folder:
        path = os.path.join(folder, "upload.fiol")
        with open(path, "wb") as file:
            async for part in request.stream():
                size += len(part)
                if size > server.limits.upload:
                    raise RefusedError(f"the file is larger than {server.limits.upload} bytes", status=413)
                file.write(part)
        model = await run_in_threadpool(server.registry.prepare_upload, name, path)
    await server.control(lambda: server.registry.upload(name, model))
    return json_response({"name": name}, 201)


async def list_snapshots(server: Server, request: Request) -> Response:
    """List the snapshots of a model, the newest first."""
    name = server.registry.get(request.path_params["name"]).name
    return json_response({"snapshots": server.registry.snapshots.list(name)})


async def take_snapshot(server: Server, request: Request) -> Response:
    """Save a model now."""
    name = request.path_params["name"]
    return json_response(await server.control(lambda: server.registry.take_snapshot(name)), 201)


async def roll_back(server: Server, request: Request) -> Response:
    """Continue a model from one of its snapshots."""
    name = request.path_params["name"]
    given = await json_body(server, request, decode_rollback)
    model, file = await run_in_threadpool(server.registry.prepare_rollback, name, given.position)
    await server.control(lambda: server.registry.roll_back(name, model, file))
    return json_response({"name": name, "position": given.position})


async def promote(server: Server, request: Request) -> Response:
    """Let a live model continue as its shadow."""
    name = request.path_params["name"]
    given = await json_body(server, request, decode_promote)
    shadow = await server.control(lambda: server.registry.promote(name, given.shadow))
    return json_response({"name": name, "promoted": shadow})


async def json_body(server: Server, request: Request, decode_with: Any) -> Any:
    """Return the message in a JSON body."""
    if content_kind(request) != JSON:
        raise RefusedError(f"the content type must be {JSON}", status=415)
    return decoded(decode_with, await read_body(request, server.limits.body))


# --- the server -------------------------------------------------------------------------------


async def healthz(server: Server, _: Request) -> Response:
    """Answer while the process works."""
    alive = server.writer.is_alive()
    return json_response({"status": "ok" if alive else "the writer has stopped"}, 200 if alive else 503)


async def readyz(server: Server, _: Request) -> Response:
    """Answer 200 while rows are written and learned from."""
    failed = server.writer.failed
    ready = server.writer.is_alive() and not server.writer.stopping and failed is None
    return json_response(
        Ready("ready" if ready else failed or "stopping", [*server.registry.models]), 200 if ready else 503
    )


async def metrics(server: Server, _: Request) -> Response:
    """Return figures in Prometheus' text format."""
    return Response(prometheus_text(server.status.status()), media_type="text/plain; version=0.0.4; charset=utf-8")


async def describe(_: Server, __: Request) -> Response:
    """Return the OpenAPI description."""
    return json_response(openapi())


async def status(server: Server, request: Request) -> Response:
    """Return everything that the dashboard shows, with the details of one model."""
    return json_response(server.status.json(request.query_params.get("model")))


async def events(server: Server, request: Request) -> Response:
    """Send the figures of the last minutes, and then the status every second, for the browser's EventSource."""
    shown = request.query_params.get("model")

    async def stream() -> AsyncIterator[bytes]:
        yield b"retry: 2000\n\n"
        yield b"event: history\ndata: " + server.status.history_json(shown) + b"\n\n"
        while not server.is_closing():
            yield b"event: status\ndata: " + server.status.json(shown) + b"\n\n"
            for _ in range(10):
                if server.is_closing():
                    return
                await asyncio.sleep(EVENT_SECONDS / 10)

    return StreamingResponse(stream(), media_type="text/event-stream")


async def open_session(server: Server, request: Request) -> Response:
    """Set the cookie of the dashboard, which may read, from a token."""
    given = await json_body(server, request, decode_session)
    token = given.token.encode()
    headers = {**dict(request.scope["headers"]), b"authorization": b"Bearer " + token}
    server.access.check(headers, request.client.host if request.client else "", "read")
    response = json_response({"role": server.access.role_of(token) or "write"})
    secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, session_cookie(token), httponly=True, samesite="strict", secure=secure, path="/")
    return response


async def page(_: Server, __: Request) -> Response:
    """Return the dashboard."""
    return Response(STATIC.joinpath("index.html").read_bytes(), media_type="text/html")


#: Path, method, handler, and the role that it needs; the busiest first, since paths are tried in this order.
ROUTES: list[tuple[str, str, Handler, Role | None]] = [
    ("/models/{name}/predict", "POST", predict, "read"),
    ("/models/{name}/learn", "POST", learn, "write"),
    ("/", "GET", page, None),
    ("/healthz", "GET", healthz, None),
    ("/readyz", "GET", readyz, None),
    ("/openapi.json", "GET", describe, None),
    ("/session", "POST", open_session, None),
    ("/metrics", "GET", metrics, "read"),
    ("/status", "GET", status, "read"),
    ("/events", "GET", events, "read"),
    ("/models", "GET", list_models, "read"),
    ("/models/{name}", "GET", show_model, "read"),
    ("/models/{name}", "PUT", add_model, "write"),
    ("/models/{name}", "DELETE", remove_model, "write"),
    ("/models/{name}/rules", "PUT", set_rules, "write"),
    ("/models/{name}/file", "GET", download, "read"),
    ("/models/{name}/file", "PUT", upload, "write"),
    ("/models/{name}/snapshots", "GET", list_snapshots, "read"),
    ("/models/{name}/snapshots", "POST", take_snapshot, "write"),
    ("/models/{name}/rollback", "POST", roll_back, "write"),
    ("/models/{name}/promote", "POST", promote, "write"),
]
