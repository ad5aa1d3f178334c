"""A server is killed at random moments under load, again and again: every acknowledged row counts exactly once.

    python tests/campaigns/server_kills.py [--runs N] [--seed N]

Clients send rows with idempotency keys, one or many at a time, and predictions with ids whose labels come later. The
server is killed by SIGKILL at a random moment: while it writes, learns, answers, saves a snapshot or starts. It starts
again with the same journal, and requests that were not answered are sent again with the same key. After each life:
every acknowledged row is in the journal exactly once, all others at most once, every acknowledged prediction is known,
and the model is bit for bit that of a learner that was fed the journal.
"""

import argparse
import contextlib
import http.client
import json
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import Counter

import numpy as np
import uvicorn

from fiol.server import writer
from fiol.server.access import Access
from fiol.server.app import Server, make_app
from fiol.server.journal import Journal
from fiol.server.messages import LabelRules, decode
from fiol.server.registry import Registry
from fiol.server.served_model import ServedModel
from fiol.server.specification import empty_model
from fiol.server.writer import WriterOptions

#: The column `row` identifies rows; it is no feature.
SPECIFICATION = {
    "loss": "log_loss",
    "labels": ["no", "yes"],
    "columns": {"size": "number", "color": "category", "row": "skip"},
}
#: Lives of a server with one journal.
LIVES = 10
#: Clients at once, and the longest life after the first answer, in seconds.
CLIENTS, LONGEST = 3, 0.6


def open_registry(folder):
    """The registry of a folder, with a model and its shadow; snapshots are frequent, so that kills hit them."""
    registry = Registry(folder, WriterOptions(snapshot_seconds=0.05), keep=3, say=lambda text: None)
    if "m" not in registry.models:
        registry.add("m", empty_model(SPECIFICATION), LabelRules())
    if "shadow" not in registry.models:
        registry.add("shadow", empty_model(SPECIFICATION), LabelRules(), shadow_of="m")
    return registry


def serve(folder, bound, ready):
    """The child: serve until it is killed."""
    registry = open_registry(folder)
    writer.DUTY_SECONDS = 0.05
    server = Server(registry, Access())
    os.write(ready, b"!")
    uvicorn.Server(uvicorn.Config(make_app(server), log_level="critical", access_log=False)).run(sockets=[bound])
    os._exit(0)


class Ledger:
    """What clients have sent, and what was acknowledged."""

    def __init__(self, seed):
        self.random, self.lock = random.Random(seed), threading.Lock()
        self.next_row, self.next_key = 0, 0
        self.acknowledged, self.sent = set(), set()
        self.predicted, self.unlabeled = set(), []
        self.unanswered = []

    def request(self):
        """A new request: path, body, key, and what is acknowledged with its answer."""
        with self.lock:
            self.next_key += 1
            kind = self.random.random()
            if kind < 0.25 and self.unlabeled:
                row = self.unlabeled.pop(self.random.randrange(len(self.unlabeled)))
                self.sent.add(row)
                return "learn", {"id": str(row), "label": self.label(row)}, f"k{self.next_key}", [row]
            count = 1 if kind < 0.7 else self.random.randrange(2, 20)
            numbers = range(self.next_row, self.next_row + count)
            self.next_row += count
            if kind < 0.45:
                rows = [{"features": self.features(row), "id": str(row)} for row in numbers]
                return "predict", {"rows": rows}, f"k{self.next_key}", list(numbers)
            self.sent.update(numbers)
            rows = [{"features": self.features(row), "label": self.label(row)} for row in numbers]
            return "learn", {"rows": rows}, f"k{self.next_key}", list(numbers)

    def features(self, row):
        """The features of a row."""
        return {"size": (row * 37 % 101) / 10.0 - 5.0, "color": f"c{row % 50}", "row": row}

    def label(self, row):
        """The label of a row."""
        return "yes" if (row * 37 % 101) > 50 else "no"

    def answered(self, kind, numbers):
        """Note that a request was acknowledged."""
        with self.lock:
            if kind == "learn":
                self.acknowledged.update(numbers)
            else:
                self.predicted.update(numbers)
                self.unlabeled += numbers


def send(port, ledger, first, stop):
    """One client: send until the server dies."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    while not stop.is_set():
        request = None
        with ledger.lock:
            if ledger.unanswered:
                request = ledger.unanswered.pop()
        kind, body, key, numbers = request = request or ledger.request()
        try:
            connection.request(
                "POST",
                f"/models/m/{kind}",
                json.dumps(body),
                {"content-type": "application/json", "idempotency-key": key},
            )
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException):
            with ledger.lock:
                ledger.unanswered.append(request)
            break
        assert answer.status == 200, (answer.status, text, request)
        ledger.answered(kind, numbers)
        first.set()
    connection.close()


def one_life(folder, ledger):
    """Start a server, send requests, kill it at a random moment."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            with contextlib.suppress(BaseException):
                os.close(reading)
                serve(folder, bound, writing)
            os._exit(1)
        os.close(writing)
        port = bound.getsockname()[1]
    try:
        if ledger.random.random() < 0.1:  # while it starts
            time.sleep(ledger.random.random() * 0.1)
            return
        assert os.read(reading, 1) == b"!", "the server did not start"
        first, stop = threading.Event(), threading.Event()
        clients = [threading.Thread(target=send, args=(port, ledger, first, stop)) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        first.wait(20)
        time.sleep(ledger.random.random() * LONGEST)
        os.kill(child, signal.SIGKILL)
        for client in clients:
            client.join(30)
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def check(folder, ledger):
    """Compare the journal with the ledger, and the models after a restart with learners fed the journal."""
    registry = open_registry(folder)
    try:
        journal = Journal(folder, read_only=True)
        assert list(journal.damaged()) == []
        expected = {name: ServedModel(name, empty_model(SPECIFICATION), LabelRules()) for name in ("m", "shadow")}
        starts = {name: first_record(journal, name) for name in expected}
        learned, predicted = Counter(), set()
        for record in journal.records():
            if record.kind == "predict":
                predicted.update(map(int, decode(record.payload)["ids"]))
            if record.kind != "learn":
                continue
            assert record.refused is None
            found = decode(record.payload)
            learned.update(features["row"] for features in found["features"])
            for name, served in expected.items():
                if record.position > starts[name]:
                    rows = served.encode(found["features"], found["labels"], found.get("weights"))
                    served.model.core.learn(rows.X, rows.y, rows.weights)
        journal.close()
        assert all(learned[row] == 1 for row in ledger.acknowledged), "an acknowledged row is lost, or there twice"
        assert {*learned} <= ledger.sent
        assert max(learned.values(), default=1) == 1
        assert ledger.predicted <= predicted
        for name, served in expected.items():
            assert_same(registry.models[name].model, served.model)
        return sum(learned.values())
    finally:
        registry.journal.close()


def first_record(journal, name):
    """The position where a model was added."""
    return next(record.position for record in journal.records(model=name) if record.kind == "replace")


def assert_same(one, other):
    """Models have the same rounds, features and bits."""
    assert one.rounds == other.rounds
    assert one.core.space.header() == other.core.space.header()
    mine, others = one.core.arrays(), other.core.arrays()
    assert {*mine} == {*others}
    for name, array in mine.items():
        n = min(len(array), len(others[name]))  # memory grows ahead of features, with zeros
        assert np.asarray(array)[:n].tobytes() == np.asarray(others[name])[:n].tobytes(), name


def campaign(runs, seed, report=lambda text: None):
    """Kill servers `runs` times; return the number of rows that were acknowledged."""
    total, folder, ledger = 0, None, None
    try:
        for run in range(runs):
            if run % LIVES == 0:
                if folder is not None:
                    shutil.rmtree(folder)
                folder, ledger = tempfile.mkdtemp(prefix="fiol-kills-"), Ledger(seed * 1000 + run)
            before = len(ledger.acknowledged)
            one_life(folder, ledger)
            rows = check(folder, ledger)
            total += len(ledger.acknowledged) - before
            report(f"{run + 1}: {rows} rows in the journal, {len(ledger.acknowledged)} acknowledged")
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
    return total


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    done = campaign(given.runs, given.seed, print)
    print(f"killed {given.runs} times: {done} acknowledged rows, each learned from exactly once")
    sys.exit(0)
