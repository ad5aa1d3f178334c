"""Latency and throughput of `fiol serve` on loopback, beside River and Vowpal Wabbit behind the thinnest loop.

    python -m benchmarks.serving [--seconds S] [--connections N] [--json FILE] [--quick] [--memory REQUESTS]

Every server has a process of its own. One client process sends requests of one row and of 100 rows: at full load, as
fast as answers come, and at half of that rate by a fixed schedule, where latency counts from the scheduled moment.
Settings take turns among servers. `fiol serve` has a dashboard open, and makes every row durable before it answers;
the others keep nothing, have no ids and no checks. Beside wall time there is the processor time of the server per
request. `--memory` sends that many requests to `fiol serve`, and prints its resident memory on the way.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

#: Columns of numbers and of categories.
NUMBERS, CATEGORIES, LEVELS = 12, 8, 50
FIOL, RIVER, VOWPAL = "fiol serve", "River", "Vowpal Wabbit"
SPECIFICATION: dict[str, Any] = {
    "loss": "log_loss",
    "labels": [0, 1],
    "columns": {
        **{f"n{k}": "number" for k in range(NUMBERS)},
        **{f"c{k}": "category" for k in range(CATEGORIES)},
    },
}
#: Requests that are prepared; they are sent in turn.
PREPARED = 64


class Setting(NamedTuple):
    """What is sent: to predict or to learn, and rows of a request."""

    kind: str
    rows: int


class Measured(NamedTuple):
    """Latencies in seconds, requests a second, and processor seconds of the server per request."""

    latencies: Any
    rate: float
    processor: float

    def line(self, rows: int) -> list[str]:
        """Return cells of the table."""
        p50, p99, p999 = np.quantile(self.latencies, (0.5, 0.99, 0.999)) * 1e3
        return [
            f"{self.rate:,.0f}",
            f"{self.rate * rows:,.0f}",
            f"{p50:.2f}",
            f"{p99:.2f}",
            f"{p999:.2f}",
            f"{self.processor * 1e6:,.0f}",
        ]


def made_up_rows(seed: int, rows: int) -> list[tuple[dict[str, Any], int]]:
    """Return features and labels."""
    draw = np.random.default_rng(seed)
    numbers, levels = draw.normal(size=(rows, NUMBERS)), draw.integers(0, LEVELS, size=(rows, CATEGORIES))
    labels = (numbers[:, 0] - numbers[:, 1] + 0.1 * levels[:, 0] - 2.5 + draw.logistic(size=rows)) > 0.0
    return [
        (
            {**{f"n{k}": round(x, 4) for k, x in enumerate(row)}, **{f"c{k}": f"v{v}" for k, v in enumerate(level)}},
            int(label),
        )
        for row, level, label in zip(numbers.tolist(), levels.tolist(), labels.tolist(), strict=True)
    ]


def requests(setting: Setting, seed: int = 1) -> list[bytes]:
    """Return requests as bytes."""
    found = []
    for k in range(PREPARED):
        rows = made_up_rows(seed * 10_000 + k, setting.rows)
        if setting.kind == "predict":
            body: Any = {"rows": [{"features": features} for features, _ in rows]}
        else:
            body = {"rows": [{"features": features, "label": label} for features, label in rows]}
        text = json.dumps(body).encode()
        head = f"POST /models/m/{setting.kind} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        found.append(f"{head}Content-Length: {len(text)}\r\n\r\n".encode() + text)
    return found


# --- the client -------------------------------------------------------------------------------


class Connection(asyncio.Protocol):
    """One connection with one request at a time."""

    def __init__(self, answered: Callable[[Connection, float, int], None]) -> None:
        self.answered, self.received, self.started = answered, b"", 0.0

    def connection_made(self, transport: Any) -> None:
        """Keep the transport."""
        self.transport = transport

    def send(self, request: bytes, started: float) -> None:
        """Send a request, whose latency counts from `started`."""
        self.started, self.received = started, b""
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Detect the end of the answer."""
        self.received += data
        end = self.received.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self.received[:end].lower()
        at = head.find(b"content-length:")
        length = int(head[at + 15 :].split(b"\r", 1)[0])
        if len(self.received) >= end + 4 + length:
            self.answered(self, time.perf_counter() - self.started, int(head[9:12]))


async def load(
    port: int, prepared: list[bytes], seconds: float, connections: int, rate: float | None, most: int | None = None
) -> tuple[list[float], float]:
    """Send requests for some seconds; return latencies and the seconds it took. Raise for an answer that is not 200."""
    latencies, loop, sent, bad = list[float](), asyncio.get_running_loop(), 0, list[int]()
    idle, done = list[Connection](), asyncio.Event()
    begin = time.perf_counter()
    end, busy = begin + seconds, 0

    def may_send() -> bool:
        return time.perf_counter() < end and (most is None or sent < most)

    def start(connection: Connection, when: float) -> None:
        nonlocal sent, busy
        connection.send(prepared[sent % len(prepared)], when)
        sent += 1
        busy += 1

    def answered(connection: Connection, latency: float, status: int) -> None:
        nonlocal busy
        latencies.append(latency)
        busy -= 1
        if status != 200:
            bad.append(status)
        if rate is None and may_send() and not bad:
            start(connection, time.perf_counter())
        else:
            idle.append(connection)
            if rate is None and not busy:
                done.set()

    protocols = [
        (await loop.create_connection(lambda: Connection(answered), "127.0.0.1", port))[1] for _ in range(connections)
    ]
    if rate is None:
        for protocol in protocols:
            start(protocol, time.perf_counter())
        await done.wait()
    else:
        idle.extend(protocols)
        due = begin
        while due < end and not bad:
            now = time.perf_counter()
            if now < due:
                await asyncio.sleep(due - now)
            while not idle:
                await asyncio.sleep(0)
            start(idle.pop(), due)
            due += 1.0 / rate
        while busy:
            await asyncio.sleep(0.001)
    took = time.perf_counter() - begin
    for protocol in protocols:
        protocol.transport.close()
    if bad:
        raise RuntimeError(f"the server answered {bad[0]}")
    return latencies, took


# --- servers ----------------------------------------------------------------------------------


@contextmanager
def running(name: str, dashboard: bool = True) -> Iterator[tuple[int, int]]:
    """Run a server; yields its port and process id."""
    folder = tempfile.mkdtemp(prefix="fiol-serving-")
    if name == FIOL:
        path = os.path.join(folder, "m.json")
        with open(path, "w") as file:
            json.dump(SPECIFICATION, file)
        words = ["-m", "fiol", "serve", path, "--journal", os.path.join(folder, "journal"), "--port", "0"]
        words += ["--max-queue", "100000"]
    else:
        words = ["-m", "benchmarks.serving", "--peer", name]
    process = subprocess.Popen([sys.executable, *words], stderr=subprocess.PIPE, text=True)
    watching = None
    try:
        assert process.stderr is not None
        line = ""
        while "listening on" not in line:
            line = process.stderr.readline()
            if not line:
                raise RuntimeError(f"{name} did not start")
        port = int(line.strip().rpartition(":")[2])
        if name == FIOL and dashboard:
            watching = subprocess.Popen(
                ["curl", "-sN", f"http://localhost:{port}/events"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        yield port, process.pid
    finally:
        if watching is not None:
            watching.terminate()
            watching.wait()
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


class ThinServer(asyncio.Protocol):
    """The thinnest server: reads requests, calls a function with rows, writes its answers as JSON."""

    def __init__(self, answer: Callable[[str, Any], Any]) -> None:
        self.answer, self.received = answer, b""

    def connection_made(self, transport: Any) -> None:
        """Keep the transport."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer a request that is complete."""
        import msgspec

        self.received += data
        end = self.received.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self.received[:end]
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r", 1)[0])
        if len(self.received) < end + 4 + length:
            return
        kind = head.split(b" ", 2)[1].rpartition(b"/")[2].decode()
        found = self.answer(kind, msgspec.json.decode(self.received[end + 4 : end + 4 + length])["rows"])
        body = msgspec.json.encode({"predictions": found})
        self.received = b""
        self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


def river_answers() -> Callable[[str, Any], Any]:
    """Return a function that predicts with River's logistic regression, or teaches it."""
    from river import compose, linear_model, preprocessing

    numbers = compose.SelectType(float) | preprocessing.StandardScaler()
    model: Any = (
        numbers + (compose.SelectType(str) | preprocessing.OneHotEncoder())
    ) | linear_model.LogisticRegression()

    def answer(kind: str, rows: Any) -> Any:
        if kind == "predict":
            return [model.predict_proba_one(row["features"]).get(True, 0.5) for row in rows]
        for row in rows:
            model.learn_one(row["features"], bool(row["label"]))
        return []

    return answer


def vowpal_answers() -> Callable[[str, Any], Any]:
    """Return a function that predicts with Vowpal Wabbit's logistic regression, or teaches it."""
    from vowpalwabbit import pyvw  # type: ignore[import-untyped]

    vw = pyvw.Workspace("--quiet --loss_function logistic --link logistic -b 18")

    def line(features: Any, label: Any = None) -> str:
        cells = (f"{k}={v}" if isinstance(v, str) else f"{k}:{v}" for k, v in features.items())
        return f"{'' if label is None else 2 * label - 1} | {' '.join(cells)}"

    def answer(kind: str, rows: Any) -> Any:
        if kind == "predict":
            return [vw.predict(line(row["features"])) for row in rows]
        for row in rows:
            vw.learn(line(row["features"], row["label"]))
        return []

    return answer


async def serve_peer(name: str) -> None:
    """Serve a peer until it is stopped."""
    answer = {RIVER: river_answers, VOWPAL: vowpal_answers}[name]()
    server = await asyncio.get_running_loop().create_server(lambda: ThinServer(answer), "127.0.0.1", 0)
    print(f"listening on http://127.0.0.1:{server.sockets[0].getsockname()[1]}", file=sys.stderr, flush=True)
    await server.serve_forever()


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process."""
    with open(f"/proc/{pid}/stat") as file:
        parts = file.read().rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# --- the run ----------------------------------------------------------------------------------


def measure(
    port: int, pid: int, prepared: list[bytes], seconds: float, connections: int, rate: float | None
) -> Measured:
    """Measure one setting."""
    before = processor_seconds(pid)
    latencies, took = asyncio.run(load(port, prepared, seconds, connections, rate))
    return Measured(np.array(latencies), len(latencies) / took, (processor_seconds(pid) - before) / len(latencies))


def compare(seconds: float, connections: int, names: list[str], settings: list[Setting]) -> dict[str, Any]:
    """Run all settings with all servers in turns, print a table, and return the numbers."""
    found: dict[str, Any] = {}
    taught = requests(Setting("learn", 100), seed=2)
    columns = ("requests/s", "rows/s", "p50 ms", "p99 ms", "p99.9 ms", "cpu us")
    print(f"{'':40}" + "".join(f"{column:>12}" for column in columns))
    for setting in settings:
        prepared = requests(setting)
        full: dict[str, Measured] = {}
        for share in ("full", "half"):
            for name in names:
                with running(name) as (port, pid):
                    asyncio.run(load(port, taught, 5.0, 4, None, PREPARED))
                    time.sleep(0.5)  # predictions of `fiol serve` lag by a bounded time
                    asyncio.run(load(port, prepared, min(1.0, seconds), connections, None))
                    rate = None if share == "full" else 0.5 * full[name].rate
                    one = measure(port, pid, prepared, seconds, connections, rate)
                if share == "full":
                    full[name] = one
                title = f"{setting.kind} {setting.rows}, {share} load, {name}"
                print(f"{title:40}" + "".join(f"{cell:>12}" for cell in one.line(setting.rows)), flush=True)
                found[title] = [*np.quantile(one.latencies, (0.5, 0.99, 0.999)).tolist(), one.rate, one.processor]
    return found


def watch_memory(total: int, connections: int) -> None:
    """Send requests, nine of ten to predict, and print resident memory ten times."""
    predict, learn = requests(Setting("predict", 1)), requests(Setting("learn", 10))
    mixed = [learn[k % PREPARED] if k % 10 == 0 else predict[k % PREPARED] for k in range(10 * PREPARED)]
    with running(FIOL) as (port, pid):
        for k in range(11):
            print(f"{k * total // 10:>12,} requests {resident_bytes(pid) / 2**20:9.1f} MiB", flush=True)
            if k < 10:
                asyncio.run(load(port, mixed, 3600.0, connections, None, total // 10))


def main(words: list[str] | None = None) -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--quick", action="store_true", help="a fraction of a second each, without peers")
    parser.add_argument("--memory", type=int, metavar="REQUESTS")
    parser.add_argument("--only", choices=["predict1", "predict100", "learn1", "learn100"])
    parser.add_argument("--server", choices=[FIOL, RIVER, VOWPAL])
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    if given.peer:
        asyncio.run(serve_peer(given.peer))
        return
    if given.memory:
        watch_memory(given.memory, given.connections)
        return
    names = [FIOL] if given.quick else [FIOL, RIVER, VOWPAL]
    settings = [Setting(kind, rows) for kind in ("predict", "learn") for rows in (1, 100)]
    settings = [one for one in settings if given.only in (None, f"{one.kind}{one.rows}")]
    names = [name for name in names if given.server in (None, name)]
    found = compare(0.2 if given.quick else given.seconds, given.connections, names, settings)
    if given.json:
        with open(given.json, "w") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
