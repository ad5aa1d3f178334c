"""Clients of `fiol serve`, without other libraries: `Client`, and `AsyncClient` for asyncio.

>>> from fiol.client import Client
>>> client = Client("http://127.0.0.1:8080")  # nothing is sent yet
>>> client.address
'http://127.0.0.1:8080'
"""

from __future__ import annotations

import asyncio
import datetime
import functools
import http.client
import json
import math
import os
import random
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

FeatureRow = Mapping[str, Any]
#: Statuses after which the same request is sent again.
TRY_AGAIN = (429, 502, 503, 504, 507)
#: The longest pause between two attempts, in seconds.
LONGEST_PAUSE = 30.0


def request_text(body: Any) -> str:
    """Return a request as JSON: numbers of numpy as plain ones, dates in ISO form, missing ones as null.

    >>> import datetime, numpy as np
    >>> request_text({"size": np.float32(0.5), "day": datetime.date(2024, 3, 1), "rest": [float("nan"), True]})
    '{"size": 0.5, "day": "2024-03-01", "rest": [null, true]}'
    >>> request_text({"rows": [{"features": {"size": 1j}}]})
    Traceback (most recent call last):
    TypeError: a request holds 1j: values are text, numbers, bools, dates, None, lists and dicts
    """
    try:
        return json.dumps(body, allow_nan=False, default=plain_value)
    except ValueError:  # NaN, or an infinite number
        return json.dumps(without_nan(body), allow_nan=False)


def plain_value(value: Any) -> Any:
    """Return a scalar of numpy as a plain one, a date as ISO text, and NaT and NA as None; TypeError for others."""
    if type(value).__name__ in ("NaTType", "NAType"):
        return None
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    kind = getattr(getattr(value, "dtype", None), "kind", "") if getattr(value, "shape", None) == () else ""
    if kind == "M":
        return None if str(value) == "NaT" else str(value)
    if kind in ("b", "i", "u", "f"):
        return value.item()
    raise TypeError(f"a request holds {value!r}: values are text, numbers, bools, dates, None, lists and dicts")


def without_nan(value: Any) -> Any:
    """Return a value with None for NaN; ValueError for an infinite number."""
    if isinstance(value, Mapping):
        return {key: without_nan(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_nan(inner) for inner in value]
    plain = value if isinstance(value, (str, int, float, type(None))) else plain_value(value)
    if isinstance(plain, float) and not math.isfinite(plain):
        if plain == plain:  # noqa: PLR0124
            raise ValueError(f"a request holds {plain}: numbers must be finite")
        return None
    return plain


class ServerError(Exception):
    """An answer that is an error: its status, the reason, and the row and column it is about."""

    def __init__(self, status: int, reason: str, row: int | None = None, column: str | None = None) -> None:
        place = "" if row is None else f"row {row}: "
        super().__init__(f"{status}: {place}{reason}")
        self.status, self.reason, self.row, self.column = status, reason, row, column


class Client:
    """Calls a server; threads may share it.

    Requests that change something have an idempotency key, and are sent again after lost connections and while the
    server is busy: they count once.

    Parameters
    ----------
    address : such as "http://127.0.0.1:8080".
    token : a bearer token, if the server needs one.
    timeout : seconds to wait for an answer.
    retries : attempts after the first one.
    certificate : a file with certificates to trust, for https.
    """

    def __init__(
        self,
        address: str,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        retries: int = 8,
        certificate: str | None = None,
    ) -> None:
        self.address, self.timeout, self.retries = address.rstrip("/"), timeout, retries
        parts = urlsplit(self.address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the address of a server is like http://127.0.0.1:8080, got {address!r}")
        self._host, self._port, self._base = parts.hostname, parts.port, parts.path
        self._tls = ssl.create_default_context(cafile=certificate) if parts.scheme == "https" else None
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._local, self._opened = threading.local(), set[http.client.HTTPConnection]()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections of all threads."""
        while self._opened:
            self._opened.pop().close()

    def __repr__(self) -> str:
        return f"<Client of {self.address}>"

    # --- rows ---------------------------------------------------------------------------------

    def predict(
        self,
        model: str,
        rows: FeatureRow | Sequence[FeatureRow],
        ids: str | Sequence[str] | None = None,
        uncertainty: bool = False,
    ) -> Any:
        """Return the prediction for a row, or a list of them for rows.

        A prediction is a dict with `score`, `label` and `probabilities`, and the `round` of the model. With ids the
        server keeps features and predictions for the labels to come.
        """
        one = isinstance(rows, Mapping)
        some: Sequence[Any] = [rows] if one else rows  # type: ignore[assignment]
        names: Sequence[Any] = [None] * len(some) if ids is None else [ids] if isinstance(ids, str) else ids
        check_lengths(some, ids=names)
        body = {
            "rows": [with_fields({"features": row}, id=name) for row, name in zip(some, names, strict=True)],
            "uncertainty": uncertainty,
        }
        answer = self._post(f"{path_of_model(model)}/predict", body, ids is not None)
        found = [{**prediction, "round": answer["round"]} for prediction in answer["predictions"]]
        return found[0] if one else found

    def learn(
        self,
        model: str,
        rows: FeatureRow | Sequence[FeatureRow],
        labels: Any,
        ids: str | Sequence[str] | None = None,
        weights: Any = None,
    ) -> dict[str, Any]:
        """Learn from a row and its label, or from rows and their labels; return position and outcomes.

        When it returns, the rows are durable.
        """
        one = isinstance(rows, Mapping)
        some: Sequence[Any] = [rows] if one else rows  # type: ignore[assignment]
        targets = [labels] if one else labels
        names: Sequence[Any] = [None] * len(some) if ids is None else [ids] if isinstance(ids, str) else ids
        given = [None] * len(some) if weights is None else [weights] if one else weights
        check_lengths(some, labels=targets, ids=names, weights=given)
        body = [
            with_fields({"features": row, "label": label}, id=name, weight=weight)
            for row, label, name, weight in zip(some, targets, names, given, strict=True)
        ]
        return self._post(f"{path_of_model(model)}/learn", {"rows": body}, True)  # type: ignore[no-any-return]

    def label(self, model: str, ids: str | Sequence[str], labels: Any) -> dict[str, Any]:
        """Learn the label of a prediction, or the labels of several, by id."""
        if not isinstance(ids, str):
            check_lengths(ids, labels=labels)
        pairs = [(ids, labels)] if isinstance(ids, str) else zip(ids, labels, strict=True)
        body = {"rows": [{"id": name, "label": label} for name, label in pairs]}
        return self._post(f"{path_of_model(model)}/learn", body, True)  # type: ignore[no-any-return]

    # --- models -------------------------------------------------------------------------------

    def models(self) -> list[dict[str, Any]]:
        """Return name, rounds and labels of all models."""
        return self._json("GET", "/models")["models"]  # type: ignore[no-any-return]

    def model(self, name: str, most: int = 50) -> dict[str, Any]:
        """Return recipe, weights and importances of a model."""
        return self._json("GET", f"{path_of_model(name)}?{urlencode({'most': most})}")  # type: ignore[no-any-return]

    def add(
        self,
        name: str,
        specification: Mapping[str, Any] | None = None,
        *,
        copy_of: str | None = None,
        shadow_of: str | None = None,
        rules: Mapping[str, Any] | None = None,
    ) -> None:
        """Add an empty model by its specification, or a copy of another; a shadow learns beside its live model."""
        body = with_fields({}, specification=specification, copy_of=copy_of, shadow_of=shadow_of, rules=rules)
        self._json("PUT", path_of_model(name), body)

    def remove(self, name: str) -> None:
        """Remove a model with its shadows and snapshots."""
        self._json("DELETE", path_of_model(name))

    def download(self, name: str, path: str | os.PathLike[str]) -> None:
        """Write the model file of this moment."""
        content = self._request("GET", f"{path_of_model(name)}/file", None, {})
        with open(path, "wb") as file:
            file.write(content)

    def upload(self, name: str, path: str | os.PathLike[str]) -> None:
        """Continue a model with that of a file, or add it."""
        with open(path, "rb") as file:
            self._request("PUT", f"{path_of_model(name)}/file", file.read(), {})

    def snapshots(self, name: str) -> list[dict[str, Any]]:
        """Return the snapshots of a model, the newest first."""
        return self._json("GET", f"{path_of_model(name)}/snapshots")["snapshots"]  # type: ignore[no-any-return]

    def take_snapshot(self, name: str) -> dict[str, Any]:
        """Save a model now."""
        return self._json("POST", f"{path_of_model(name)}/snapshots", {})  # type: ignore[no-any-return]

    def roll_back(self, name: str, position: int) -> None:
        """Continue a model from its snapshot at a position."""
        self._json("POST", f"{path_of_model(name)}/rollback", {"position": position})

    def promote(self, name: str, shadow: str | None = None) -> None:
        """Let a live model continue as its shadow."""
        self._json("POST", f"{path_of_model(name)}/promote", with_fields({}, shadow=shadow))

    def status(self) -> dict[str, Any]:
        """Return everything that the dashboard shows."""
        return self._json("GET", "/status")  # type: ignore[no-any-return]

    def wait_until_ready(self, seconds: float = 30.0) -> None:
        """Return when the server answers; raise the last error if it does not in time."""
        end = time.monotonic() + seconds
        while True:
            try:
                self._once("GET", "/readyz", None, {})
                return
            except (OSError, http.client.HTTPException, ServerError):
                self._close()
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    # --- requests -----------------------------------------------------------------------------

    def _post(self, path: str, body: Any, with_key: bool) -> Any:
        headers = {"Idempotency-Key": uuid.uuid4().hex} if with_key else {}
        return self._json("POST", path, body, headers)

    def _json(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        content = None if body is None else request_text(body).encode()
        kind = {} if body is None else {"Content-Type": "application/json"}
        return json.loads(self._request(method, path, content, {**kind, **(headers or {})}))

    def _request(self, method: str, path: str, content: bytes | None, headers: Mapping[str, str]) -> bytes:
        """Return the body of the answer; send again what may be sent again."""
        again = method in ("GET", "PUT") or "Idempotency-Key" in headers or path.endswith("/predict")
        for attempt in range(self.retries + 1):
            try:
                return self._once(method, path, content, headers)
            except ServerError as error:
                if error.status not in TRY_AGAIN or attempt == self.retries or not again:
                    raise
                pause = getattr(error, "retry", 0.0)
            except (OSError, http.client.HTTPException):
                self._close()
                if attempt == self.retries or not again:
                    raise
                pause = 0.0
            time.sleep(min(LONGEST_PAUSE, max(pause, 0.1 * 2**attempt * (0.5 + random.random()))))
        raise AssertionError  # every path returns or raises

    def _once(self, method: str, path: str, content: bytes | None, headers: Mapping[str, str]) -> bytes:
        connection = self._connection()
        connection.request(method, self._base + path, content, {**self._headers, **headers})
        answer = connection.getresponse()
        body = answer.read()
        if answer.status < 400:
            return body
        try:
            about = json.loads(body)["error"]
        except (ValueError, KeyError, TypeError):
            about = {"reason": answer.reason}
        error = ServerError(answer.status, about["reason"], about.get("row"), about.get("column"))
        retry = answer.getheader("retry-after", "0")
        error.retry = float(retry) if retry.isdigit() else 0.0  # type: ignore[attr-defined]
        raise error

    def _connection(self) -> http.client.HTTPConnection:
        found = getattr(self._local, "connection", None)
        if found is None or found not in self._opened:
            if self._tls is None:
                found = http.client.HTTPConnection(self._host, self._port, timeout=self.timeout)
            else:
                found = http.client.HTTPSConnection(self._host, self._port, timeout=self.timeout, context=self._tls)
            self._local.connection = found
            self._opened.add(found)
        return found  # type: ignore[no-any-return]

    def _close(self) -> None:
        """Close the connection of this thread; the next request opens another."""
        found = getattr(self._local, "connection", None)
        if found is not None:
            found.close()
            self._opened.discard(found)


def path_of_model(model: str) -> str:
    """Return the path of a model.

    >>> path_of_model("a model/../x")
    '/models/a%20model%2F..%2Fx'
    """
    return f"/models/{quote(model, safe='')}"


def check_lengths(rows: Sequence[Any], **given: Sequence[Any]) -> None:
    """Raise ValueError unless there is one of everything for every row.

    >>> check_lengths([{"a": 1}], labels=["no", "yes"])
    Traceback (most recent call last):
    ValueError: 1 row but 2 labels
    """
    for name, values in given.items():
        if len(values) != len(rows):
            rows_text = f"{len(rows):,} row{'s' * (len(rows) != 1)}"
            raise ValueError(f"{rows_text} but {len(values):,} {name if len(values) != 1 else name[:-1]}")


def with_fields(given: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a dict with those of more fields that are not None.

    >>> with_fields({"a": 1}, b=None, c=2)
    {'a': 1, 'c': 2}
    """
    return {**given, **{name: value for name, value in more.items() if value is not None}}


def in_thread(method: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return a coroutine function that runs a method of `Client` in a thread."""

    @functools.wraps(method)
    async def call(self: AsyncClient, *args: Any, **options: Any) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, functools.partial(method, self._client, *args, **options))

    return call


class AsyncClient:
    """`Client` for asyncio: the same methods, as coroutines.

    Parameters
    ----------
    address, token, options : see `Client`.
    connections : requests at once.

    >>> import asyncio
    >>> async def main():
    ...     async with AsyncClient("http://127.0.0.1:8080") as client:
    ...         return client.connections
    >>> asyncio.run(main())
    16
    """

    def __init__(self, address: str, token: str | None = None, *, connections: int = 16, **options: Any) -> None:
        self._client, self.connections = Client(address, token, **options), connections
        self._threads = ThreadPoolExecutor(connections, thread_name_prefix="fiol-client")

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the threads of this client, and close their connections."""
        self._threads.shutdown()
        self._client.close()

    predict = in_thread(Client.predict)
    learn = in_thread(Client.learn)
    label = in_thread(Client.label)
    models = in_thread(Client.models)
    model = in_thread(Client.model)
    add = in_thread(Client.add)
    remove = in_thread(Client.remove)
    download = in_thread(Client.download)
    upload = in_thread(Client.upload)
    snapshots = in_thread(Client.snapshots)
    take_snapshot = in_thread(Client.take_snapshot)
    roll_back = in_thread(Client.roll_back)
    promote = in_thread(Client.promote)
    status = in_thread(Client.status)
    wait_until_ready = in_thread(Client.wait_until_ready)
