"""Servers in a thread of this process, and a client for them."""

import concurrent.futures
import contextlib
import http.client
import json
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn

import fiol
from fiol.server.access import Access
from fiol.server.app import Server, make_app
from fiol.server.messages import LabelRules
from fiol.server.registry import Registry
from fiol.server.specification import empty_model
from fiol.server.writer import ControlCommand, WriterOptions

#: PYTHONPATH of processes: these tests, and the library that they test, wherever it is.
PATHS = os.pathsep.join(map(str, (Path(__file__).parents[1], Path(fiol.__file__).parents[1])))
#: Seconds for which connections without requests are used again.
KEPT_ALIVE = 2.0
#: Two classes, by a number and a category.
SPECIFICATION = {
    "loss": "log_loss",
    "labels": ["no", "yes"],
    "columns": {"size": "number", "color": "category"},
    "algorithm": "fiol",
}


def row(k):
    """A row, and its label."""
    features = {"size": float(k % 7) - 3.0, "color": ("red", "green", "blue")[k % 3]}
    return features, "yes" if features["size"] + (k % 3) > 0.5 else "no"


def rows(start, stop):
    """Rows as the body of a request to learn from."""
    return [{"features": features, "label": label} for features, label in map(row, range(start, stop))]


def open_registry(folder, models=("m",), rules=None, said=None, **options):
    """The registry of a folder, with models that are added if the journal has none of the name."""
    said = [] if said is None else said
    registry = Registry(str(folder), WriterOptions(**options), say=said.append)
    for name in models:
        if name not in registry.models:
            registry.add(name, empty_model(SPECIFICATION), rules or LabelRules())
    return registry


class Answer(NamedTuple):
    """The answer to a request."""

    status: int
    headers: dict
    body: bytes

    def json(self) -> Any:
        """The JSON in the body."""
        return json.loads(self.body)


class TestClient:
    """Requests to a server on a port of this machine."""

    __test__ = False

    def __init__(self, port, registry, server):
        self.port, self.registry, self.server = port, registry, server
        self.used = 0.0
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)

    def request(self, method, path, json_body=None, body=None, headers=()):
        """The answer to a request with any body."""
        headers = {**dict(headers)}
        if json_body is not None:
            body = json.dumps(json_body)
            headers = {"content-type": "application/json", **headers}
        if time.monotonic() - self.used > KEPT_ALIVE:
            self.connection.close()  # the server may have closed it
        self.connection.request(method, path, body, headers)
        answer = self.connection.getresponse()
        self.used = time.monotonic()
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())

    def run_in_writer(self, run):
        """The result of a function that runs in the writer's thread, which alone may use the journal; or its error."""
        done = concurrent.futures.Future()

        def noted():
            try:
                done.set_result(run())
            except Exception as error:
                done.set_exception(error)

        writer = self.registry.writer
        with writer.changed:
            writer.waiting.append(ControlCommand("", run=noted))
            writer.waiting_rows += 1
            writer.changed.notify()
        return done.result(20)

    def get(self, path, **options):
        """The answer to GET."""
        return self.request("GET", path, **options)

    def post(self, path, json_body=None, **options):
        """The answer to POST, of an empty JSON object by default."""
        return self.request("POST", path, json_body, **options)


@contextlib.contextmanager
def client_of(folder, access=None, limits=None, port=0, **options):
    """A client of a server on a folder; the server is stopped in the end, and its models are saved."""
    registry = open_registry(folder, **options)
    server = Server(registry, access or Access(), limits)
    config = uvicorn.Config(make_app(server), log_level="error", access_log=False, timeout_graceful_shutdown=2)
    runner = uvicorn.Server(config)
    server.is_closing = lambda: runner.should_exit
    with socket.create_server(("127.0.0.1", port)) as bound:
        thread = threading.Thread(target=runner.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        client = TestClient(bound.getsockname()[1], registry, server)
        try:
            yield client
        finally:
            client.connection.close()
            runner.should_exit = True
            thread.join(20)


def learn(client, body, key=None, name="m"):
    """The answer to a request to learn."""
    headers = {} if key is None else {"idempotency-key": key}
    return client.post(f"/models/{name}/learn", body, headers=headers)


def predict(client, body, name="m", **more):
    """The answer to a request to predict."""
    return client.post(f"/models/{name}/predict", body, **more)
