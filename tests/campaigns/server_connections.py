"""Thousands of idle and slow connections to a server: requests of others are answered, and nothing leaks.

    python tests/campaigns/server_connections.py [--connections N] [--slow N] [--seconds S]

Idle connections send nothing, slow ones a byte of a request every now and then. Meanwhile a client learns and predicts.
Afterwards the server has as many open files as before, and still answers.
"""

import argparse
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from fiol.client import Client

SPECIFICATION = {"loss": "log_loss", "labels": ["no", "yes"], "columns": {"size": "number"}, "algorithm": "fiol"}


def open_files(pid):
    """The number of open files of a process."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def campaign(connections, slow, seconds, report=print):
    """Hold connections open while a client works; return the number of its requests and the longest of them."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    folder = tempfile.mkdtemp(prefix="fiol-connections-")
    path = os.path.join(folder, "m.json")
    with open(path, "w") as file:
        json.dump(SPECIFICATION, file)
    words = [sys.executable, "-m", "fiol", "serve", path, "--journal", os.path.join(folder, "j"), "--port", "0"]
    server, held = subprocess.Popen(words, stderr=subprocess.PIPE, text=True), []
    try:
        address = next(line for line in server.stderr if "listening on" in line).split()[-1]
        where = "127.0.0.1", int(address.rpartition(":")[2])
        with Client(address, timeout=60.0, retries=0) as client:
            client.learn("m", {"size": 1.0}, "yes")
            before = open_files(server.pid)
            for k in range(connections + slow):
                held.append(socket.create_connection(where, timeout=30))
                if k >= connections:
                    held[-1].sendall(
                        b"POST /models/m/learn HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{"
                    )
            report(f"{open_files(server.pid) - before} connections are open")
            requests, longest, end = 0, 0.0, time.monotonic() + seconds
            while time.monotonic() < end:
                started = time.monotonic()
                client.learn("m", {"size": float(requests % 7)}, "yes" if requests % 2 else "no")
                client.predict("m", {"size": 1.0})
                longest, requests = max(longest, time.monotonic() - started), requests + 2
                held[connections + requests % slow].sendall(b" ")
            for one in held:
                one.close()
            end = time.monotonic() + 30
            while open_files(server.pid) > before + 2 and time.monotonic() < end:
                time.sleep(0.1)
            assert open_files(server.pid) <= before + 2, (open_files(server.pid), before)
            assert client.model("m")["round"] >= requests // 2
        return requests, longest
    finally:
        for one in held:
            one.close()
        server.terminate()
        server.wait(30)
        shutil.rmtree(folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--slow", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    found, slowest = campaign(given.connections, given.slow, given.seconds)
    print(
        f"{found} requests beside {given.connections} idle and {given.slow} slow connections, at most {slowest:.3f} s"
    )
