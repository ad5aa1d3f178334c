"""`fiol serve` as a process: options, signals, TLS, kills."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from server.serving import PATHS, SPECIFICATION, row, rows
from tests.commands import CliRunner

from fiol.cli import main
from fiol.client import Client, ServerError
from fiol.server.run import bound_socket

ENVIRONMENT = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": PATHS}
TOKEN = "a-token-of-some-length"


@contextlib.contextmanager
def serving(folder, *words):
    """A server's process, and its address."""
    (folder / "m.json").write_text(json.dumps(SPECIFICATION))
    command = [sys.executable, "-m", "fiol", "serve", str(folder / "m.json"), "--journal", str(folder / "j")]
    process = subprocess.Popen(
        [*command, "--port", "0", *map(str, words)], stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    said = []
    try:
        for line in process.stderr:
            said.append(line)
            if "listening on" in line:
                break
        else:
            raise AssertionError("".join(said))
        process.said = said
        yield process, said[-1].split()[-1]
    finally:
        process.kill()
        process.communicate()


def test_server_prints_warnings_in_a_line_without_places_in_the_code(tmp_path):
    with serving(tmp_path) as (process, address), Client(address) as client:
        features, label = row(0)
        client.learn("m", {**features, "shade": "dark"}, label)
        process.send_signal(signal.SIGTERM)
        (warning,) = (line for line in process.communicate(timeout=30)[1].splitlines() if "shade" in line)
    assert warning.startswith("Warning: dicts have keys that are no columns of the model")


def test_server_stops_gracefully_and_continues(tmp_path):
    with serving(tmp_path) as (process, address), Client(address) as client:
        assert "m: added from" in "".join(process.said)
        answers = []
        threads = [
            threading.Thread(target=lambda k=k: answers.append(client.learn("m", row(k)[0], row(k)[1])))
            for k in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=30)[1]
        assert process.returncode == 0, rest
        assert "Traceback" not in rest
        assert len(answers) == 8
    with serving(tmp_path) as (process, address), Client(address) as client:
        assert "m: continues from the journal" in "".join(process.said)
        assert client.model("m")["round"] == 8
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        assert process.returncode == 0


def test_missing_model_file_makes_no_journal(tmp_path):
    words = [sys.executable, "-m", "fiol", "serve", "nothing.fiol", "--journal", str(tmp_path / "journal")]
    done = subprocess.run(words, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "nothing.fiol: No such file or directory" in done.stderr
    assert not (tmp_path / "journal").exists()


def test_kills_lose_nothing(tmp_path):
    script = Path(__file__).parents[1] / "campaigns" / "server_kills.py"
    words = [sys.executable, str(script), "--runs", "4", "--seed", "5"]
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = re.search(r"killed 4 times: (\d+) acknowledged rows, each learned from exactly once", done.stdout)
    assert found
    assert int(found[1]) > 0


def test_tls_and_tokens_of_files(tmp_path):
    if subprocess.run(["openssl", "version"], capture_output=True, check=False).returncode:
        pytest.skip("needs openssl")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    words = f"req -x509 -newkey rsa:2048 -nodes -keyout {key} -out {certificate} -days 2 -subj /CN=localhost"
    alternative = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(["openssl", *words.split(), *alternative], check=True, capture_output=True)
    (tmp_path / "tokens").write_text(f"{TOKEN}\n")
    options = "--certificate", certificate, "--certificate-key", key, "--write-token-file", tmp_path / "tokens"
    with serving(tmp_path, *options) as (process, address):
        assert address.startswith("https://")
        with Client(address, TOKEN, certificate=str(certificate)) as client:
            assert client.learn("m", [one["features"] for one in rows(0, 3)], ["yes"] * 3)["rows"] == 3
        with (
            Client(address, certificate=str(certificate), retries=0) as client,
            pytest.raises(ServerError, match="401"),
        ):
            client.models()
        with Client(address, TOKEN, retries=0) as client, pytest.raises(ssl.SSLError):
            client.models()
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=30)[1]
        assert TOKEN not in "".join([*process.said, rest])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--host", "0.0.0.0"], "can be reached by other machines: give a token"),
        (["--port", "99999"], "99999"),
        (["--horizon", "soon"], "'soon' is no duration"),
        (["--write-token-file", "short"], "a token has at least 16 characters"),
        (["missing.fiol"], "missing.fiol: No such file or directory"),
        (["bad name=m.json"], "the name of a model is letters"),
        (["m.json", "other/m.json"], "two models have the name 'm': give them names, as in live=m.fiol"),
        (["m.json", "--default-label", "[1]"], "the target '[1]' is neither 'no' nor 'yes'"),
        (["m.json", "--max-body", "-3"], "is no size"),
    ],
)
def test_wrong_options_are_errors_of_one_line(tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    Path("short").write_text("abc\n")
    Path("m.json").write_text(json.dumps(SPECIFICATION))
    done = CliRunner().invoke(main, ["serve", *words])
    assert done.exit_code in (1, 2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_small_answers_are_sent_at_once():
    async def option_of_a_connection():
        accepted = asyncio.get_running_loop().create_future()

        def accept(_, writer):
            accepted.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        bound = bound_socket("127.0.0.1", 0)
        async with await asyncio.start_server(accept, sock=bound):
            _, writer = await asyncio.open_connection(*bound.getsockname())
            found = await accepted
            writer.close()
            await writer.wait_closed()
            return found

    assert asyncio.run(option_of_a_connection()) != 0
