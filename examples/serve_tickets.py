"""A server that learns from tickets whose outcome comes later: the demo of `fiol serve`.

python examples/serve_tickets.py FOLDER [--seconds N] starts `fiol serve` with the model and the later tickets of
`make demo` in FOLDER. Every ticket is predicted with an id; its label comes seconds later, some never. Open the printed
address in a browser. It runs until Ctrl-C, or for the given number of seconds.
"""

from __future__ import annotations

import argparse
import csv
import heapq
import itertools
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fiol.client import Client

#: Tickets a second, rows of a request, mean delay of a label in seconds, and the share of tickets without a label.
RATE, BATCH, DELAY, NEVER = 100.0, 10, 3.0, 0.05


def tickets(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the tickets of a file again and again, with their labels."""
    with open(path, newline="") as file:
        rows = [{name: value or None for name, value in row.items()} for row in csv.DictReader(file)]
    for row in itertools.cycle(rows):
        yield {name: value for name, value in row.items() if name != "escalated"}, str(row["escalated"])


def start_server(folder: Path) -> tuple[subprocess.Popen[str], str]:
    """Start a server on a free port; return its process and address."""
    shutil.rmtree(folder / "journal", ignore_errors=True)
    words = [sys.executable, "-m", "fiol", "serve", str(folder / "tickets.fiol"), "--journal", str(folder / "journal")]
    server = subprocess.Popen([*words, "--port", "0", "--horizon", "30s"], stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    for line in server.stderr:
        print(line, end="", flush=True)
        if "listening on" in line:
            return server, line.split()[-1]
    raise SystemExit("the server did not start")


def stream(client: Client, rows: Iterator[tuple[dict[str, Any], str]], seconds: float) -> tuple[int, int]:
    """Predict tickets, and send labels when they are due; return how many of each."""
    draw, due = random.Random(1), list[tuple[float, str, str]]()
    predicted = labeled = 0
    start = time.monotonic()
    while time.monotonic() < start + seconds:
        batch = list(itertools.islice(rows, BATCH))
        names = [f"ticket-{predicted + k}" for k in range(BATCH)]
        client.predict("tickets", [features for features, _ in batch], names)
        predicted += BATCH
        now = time.monotonic()
        for name, (_, label) in zip(names, batch, strict=True):
            if draw.random() >= NEVER:
                heapq.heappush(due, (now + draw.expovariate(1.0 / DELAY), name, label))
        ready = []
        while due and due[0][0] <= now:
            ready.append(heapq.heappop(due)[1:])
        if ready:
            client.label("tickets", [name for name, _ in ready], [label for _, label in ready])
            labeled += len(ready)
        time.sleep(max(0.0, start + predicted / RATE - time.monotonic()))
    return predicted, labeled


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description="A server that learns from tickets whose outcome comes later.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="until Ctrl-C by default")
    given = parser.parse_args()
    server, address = start_server(given.folder)
    try:
        with Client(address) as client:
            client.wait_until_ready()
            print(f"The dashboard is at {address}", flush=True)
            try:
                predicted, labeled = stream(client, tickets(given.folder / "later.csv"), given.seconds)
                loss = client.status()["models"][0]["metrics"]["recent"]["loss"]
                recent = "none yet" if loss is None else f"{loss:.4f}"
                print(f"{predicted:,} tickets predicted, {labeled:,} labels learned; recent loss: {recent}")
            except KeyboardInterrupt:
                print()
    finally:
        server.terminate()
        server.wait(30)


if __name__ == "__main__":
    main()
