"""`fiol.client`, `fiol send` and `fiol journal`."""

import asyncio
import contextlib
import io
import json
import socket
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from server.serving import SPECIFICATION, client_of, row
from tests.commands import CliRunner

from fiol.cli import main
from fiol.cli.send import text_rows_in
from fiol.client import AsyncClient, Client, ServerError, request_text
from fiol.server.access import Access
from fiol.server.journal import Journal
from fiol.server.journal_tools import replay_into
from fiol.server.labels import RefusedError
from fiol.server.specification import empty_model

ROWS = [row(k) for k in range(40)]


@contextlib.contextmanager
def client_for(server):
    """A `Client` of a test's server."""
    with Client(f"http://127.0.0.1:{server.port}") as client:
        yield client


def test_client_predicts_learns_and_manages_models(tmp_path):
    with client_of(tmp_path / "j") as server, client_for(server) as client:
        client.wait_until_ready()
        assert client.learn("m", [features for features, _ in ROWS], [label for _, label in ROWS])["rows"] == 40
        assert client.learn("m", ROWS[0][0], ROWS[0][1], weights=2.0)["outcomes"] == {"learned": 1}
        one = client.predict("m", ROWS[1][0], "a")
        assert {"score", "label", "probabilities", "round"} <= {*one}
        assert len(client.predict("m", [ROWS[1][0]] * 3)) == 3
        assert client.label("m", "a", "yes")["outcomes"] == {"learned": 1}
        client.add("s", SPECIFICATION, shadow_of="m")
        client.label("m", ["b", "c"], ["yes", "no"])
        assert [one["name"] for one in client.models()] == ["m", "s"]
        client.promote("m")
        position = client.take_snapshot("m")["position"]
        client.download("m", tmp_path / "m.fiol")
        client.upload("n", tmp_path / "m.fiol")
        client.roll_back("m", position)
        assert client.snapshots("m")[0]["position"] > position
        assert client.model("n")["round"] == client.model("m")["round"] == 0
        client.remove("n")
        assert client.status()["journal"]["position"] > 0
        with pytest.raises(ServerError, match="404: there is no model 'n'"):
            client.predict("n", {})
        with pytest.raises(ServerError) as caught:
            client.learn("m", [ROWS[0][0], {"size": "large"}], ["yes", "no"])
        assert (caught.value.status, caught.value.row, caught.value.column) == (422, 1, "size")


def test_request_without_answer_is_sent_again_and_counts_once(tmp_path, monkeypatch):
    with client_of(tmp_path) as server, client_for(server) as client:
        once, lost = Client._once, []

        def lose(self, method, path, content, headers):
            answer = once(self, method, path, content, headers)
            if len(lost) < 2:
                lost.append(answer)
                raise ConnectionResetError
            return answer

        monkeypatch.setattr(Client, "_once", lose)
        monkeypatch.setattr("time.sleep", lambda seconds: None)
        assert client.learn("m", ROWS[0][0], "yes")["outcomes"] == {"learned": 1}
        assert server.registry.models["m"].model.rounds == 1
        assert len(lost) == 2


def test_busy_server_is_asked_again_after_the_time_it_names(tmp_path, monkeypatch):
    with client_of(tmp_path) as server, client_for(server) as client:
        submit, pauses = server.registry.writer.submit, []

        def busy(command):
            if not pauses:
                raise RefusedError("busy", status=429, retry=7.0)
            return submit(command)

        monkeypatch.setattr(server.registry.writer, "submit", busy)
        monkeypatch.setattr("time.sleep", pauses.append)
        assert client.learn("m", ROWS[0][0], "yes")["rows"] == 1
        assert pauses[0] >= 7.0


def test_async_client(tmp_path):
    async def run(port):
        async with AsyncClient(f"http://127.0.0.1:{port}", connections=4) as client:
            answers = [client.learn("m", features, label) for features, label in ROWS[:8]]
            found = await asyncio.gather(*answers)
            return [one["rows"] for one in found], (await client.predict("m", ROWS[0][0]))["label"]

    with client_of(tmp_path) as server:
        counts, label = asyncio.run(run(server.port))
        assert counts == [1] * 8
        assert label in ("no", "yes")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.bool_(True), "true"),
        (np.int64(3), "3"),
        (np.float32(0.5), "0.5"),
        (np.float32("nan"), "null"),
        (float("nan"), "null"),
        (pd.NA, "null"),
        (pd.NaT, "null"),
        (np.datetime64("NaT"), "null"),
        (pd.Timestamp("2024-03-01 07:30"), '"2024-03-01T07:30:00"'),
        (np.datetime64("2024-03-01T07:30:00", "ns"), '"2024-03-01T07:30:00.000000000"'),
        ((1.5, float("nan"), np.int8(2)), "[1.5, null, 2]"),
    ],
)
def test_requests_have_values_of_numpy_and_pandas_as_plain_json(value, text):
    assert request_text({"rows": [{"x": value}]}) == f'{{"rows": [{{"x": {text}}}]}}'


@pytest.mark.parametrize("value", [b"x", 1j, np.arange(2), np.timedelta64(1, "D"), pd.Timedelta("1h"), {1}])
def test_requests_refuse_values_that_json_does_not_have(value):
    with pytest.raises(TypeError, match=r"a request holds .*: values are text, numbers, bools, dates"):
        request_text({"x": [value, float("nan")]})
    with pytest.raises(ValueError, match="a request holds -inf: numbers must be finite"):
        request_text({"x": [float("nan"), -float("inf")]})


def test_client_sends_rows_of_frames(tmp_path):
    frame = pd.DataFrame({"size": np.array([1.0, np.nan], np.float32), "color": ["red", None]})
    rows = [dict(zip(frame, row, strict=True)) for row in frame.itertuples(index=False, name=None)]
    with client_of(tmp_path / "j") as server, client_for(server) as client:
        assert client.learn("m", rows, np.array(["yes", "no"]), weights=np.ones(2, int))["outcomes"] == {"learned": 2}
        server.run_in_writer(server.registry.models["m"].refresh)  # both predictions are by the same copy
        plain = [{"size": 1.0, "color": "red"}, {"size": None, "color": None}]
        assert client.predict("m", rows) == client.predict("m", plain)


def test_client_needs_an_address():
    with pytest.raises(ValueError, match="got 'localhost'"):
        Client("localhost")


def send(server, *words, **options):
    """The result of `fiol send`."""
    return CliRunner().invoke(main, ["send", "--to", f"http://127.0.0.1:{server.port}", *map(str, words)], **options)


def test_send_streams_files_and_pipes(tmp_path):
    lines = [json.dumps({**features, "y": label, "n": k}) for k, (features, label) in enumerate(ROWS)]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    cells = [f"{features['size']},{features['color']},{label}" for features, label in ROWS]
    (tmp_path / "rows.csv").write_text("\n".join(["size,color,y", *cells]))
    with client_of(tmp_path / "j") as server:
        done = send(server, tmp_path / "rows.csv", "--target", "y", "--batch", "7")
        assert (done.exit_code, done.stderr) == (0, "40 rows sent to m\n")
        done = send(server, "-", "--target", "y", "--id", "n", input=lines[0])
        assert (done.exit_code, done.stderr) == (0, "1 row sent to m\n")
        done = send(server, "-", "--target", "y", "--id", "n", input="\n".join(lines))
        assert done.exit_code == 0, done.output
        done = send(server, tmp_path / "rows.jsonl", "--target", "y", "--id", "n")
        assert done.exit_code == 0
        assert server.registry.models["m"].model.rounds == 80  # ids count once
        done = send(server, tmp_path / "rows.csv", "--predict", "--target", "y")
        assert len(done.stdout.splitlines()) == 40
        assert json.loads(done.stdout.splitlines()[0])["label"] in ("no", "yes")
        assert send(server, tmp_path / "rows.csv").exit_code == 2
        done = send(server, tmp_path / "rows.csv", "--target", "size")
        assert done.exit_code == 1
        assert "neither 'no' nor 'yes'" in done.stderr


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ('{"size": 1, "y": "no"}\n[1]\n', (), "standard input:2: must be an object {...}, got [1]"),
        ('[{"size": 1, "y": "no"}]\n', (), 'standard input:1: must be an object {...}, got [{"size"'),
        ('{"size": 1, "y": "no"}\n\n{"size"\n', (), "standard input:3: is no JSON: Expecting ':' delimiter"),
        ('{"size": 1, "y": "no", "n": 1}\n{"size": 2, "y": "no"}\n', ("--id", "n"), "row 2 has no 'n': {\"size\": 2"),
        ('{"size": 1, "y": "no"}\n', ("--weight", "n"), "row 1 has no 'n'"),
        ('{"size": 1}\n', (), "row 1 has no 'y'"),
        ("\nsize,color,y\n1,red,no\n1,2,red,no\n", (), "standard input:4: has 4 fields, but there are 3 columns"),
        ("size,color,y\n1,red\n", (), "standard input:2: has 2 fields, but there are 3 columns"),
        ("size,y\n" + "1" * 200_000 + ",no\n", (), "standard input:2: field larger than field limit"),
    ],
)
def test_send_refuses_lines_that_are_no_rows_with_their_place(tmp_path, text, words, message):
    with client_of(tmp_path) as server:
        done = send(server, "-", "--target", "y", *words, input=text)
        assert done.exit_code == 1
        assert message in done.stderr
        assert server.registry.models["m"].model.rounds == 0


@pytest.mark.parametrize("text", ['{"size": 3, "y": "no"}\n', "size,y\n3,no\n"])
def test_send_reads_pipes_that_begin_with_a_byte_order_mark(tmp_path, text):
    with client_of(tmp_path) as server:
        done = send(server, "-", "--target", "y", input="\ufeff" + text)
        assert (done.exit_code, done.stderr) == (0, "1 row sent to m\n")
        (record,) = (one for one in server.registry.journal.records() if one.kind == "learn")
        assert float(json.loads(record.payload)["features"][0]["size"]) == 3.0


def test_send_names_columns_as_training_does(tmp_path):
    assert [*text_rows_in(io.StringIO(",a,a\n1,2,3\n"), "x")] == [{"Unnamed: 0": "1", "a": "2", "a.1": "3"}]


@pytest.mark.parametrize("delimiter", ",\t;|")
def test_send_finds_delimiters_as_training_does(delimiter):
    text = f'"a, b"{delimiter}c{delimiter}d\n1{delimiter}2{delimiter}3\n'
    assert [*text_rows_in(io.StringIO(text), "x")] == [{"a, b": "1", "c": "2", "d": "3"}]


def test_send_names_the_address_that_does_not_answer(monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
    done = CliRunner().invoke(main, ["send", "-", "--to", address], input="")
    assert (done.exit_code, done.stderr) == (1, f"Error: {address}: Connection refused\n")


def test_send_with_token(tmp_path):
    (tmp_path / "token").write_text("a" * 20)
    (tmp_path / "rows.jsonl").write_text(json.dumps({**ROWS[0][0], "y": "yes"}))
    with client_of(tmp_path / "j", Access((), ("a" * 20,))) as server:
        assert send(server, tmp_path / "rows.jsonl", "--target", "y").exit_code == 1
        words = tmp_path / "rows.jsonl", "--target", "y", "--token-file", tmp_path / "token"
        assert send(server, *words).exit_code == 0


def test_journal_is_listed_verified_exported_and_replayed(tmp_path):
    pandas = pytest.importorskip("pandas")
    folder = tmp_path / "j"
    with client_of(folder) as server, client_for(server) as client:
        client.learn("m", [features for features, _ in ROWS], [label for _, label in ROWS])
        client.predict("m", ROWS[1][0], "a")
        client.label("m", "a", "yes")

    def run(*words):
        return CliRunner().invoke(main, ["journal", *map(str, words)])

    listed = json.loads(run("list", folder, "--json").stdout)
    assert [(one["model"], one["learned"], one["predicted"]) for one in listed] == [("m", 41, 1)]
    assert "41" in run("list", folder).stdout
    assert "are whole" in run("verify", folder).stdout
    assert "41 rows" in run("export", folder, tmp_path / "m.parquet").stdout
    assert run("export", folder, tmp_path / "m.parquet").exit_code == 2
    frame = pandas.read_parquet(tmp_path / "m.parquet")
    assert frame["_label"].tolist() == [*(label for _, label in ROWS), "yes"]
    assert frame["size"].tolist()[:40] == [features["size"] for features, _ in ROWS]
    assert frame["_id"].tolist()[-1] == "a"
    (tmp_path / "other.json").write_text(json.dumps({**SPECIFICATION, "step_size": 0.3}))
    words = "replay", folder, tmp_path / "other.json", "--report", tmp_path / "r.html", "-o", tmp_path / "o.fiol"
    done = run(*words)
    assert done.exit_code == 0, done.output
    assert "rows" in done.stdout
    page = (tmp_path / "r.html").read_text()
    assert page.startswith("<!")
    assert "as served" in done.stdout
    assert "as served" in page
    assert run("replay", folder, tmp_path / "other.json", "--since", "2100-01-01").exit_code == 1
    snapshot = max((folder / "snapshots" / "m").iterdir())
    snapshot.write_bytes(snapshot.read_bytes()[:-5])
    found = run("verify", folder)
    assert found.exit_code == 1
    assert snapshot.name in found.stderr


def test_export_has_features_with_the_names_of_its_own_columns(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    with client_of(tmp_path / "j") as server, client_for(server) as client:
        client.add("n", {"loss": "squared_error"})
        client.learn("n", {"_id": 2.0, "size": 1.0}, 5.0, "a")
    done = CliRunner().invoke(main, ["journal", "export", str(tmp_path / "j"), str(tmp_path / "rows.parquet")])
    assert done.exit_code == 0
    (found,) = parquet.read_table(tmp_path / "rows.parquet").to_pylist()
    assert (found["_id"], found["feature _id"], found["size"]) == ("a", 2.0, 1.0)


def test_help_and_import_load_no_server():
    script = "import sys, fiol, fiol.client; from fiol.cli import main; main(['--help'], standalone_mode=False)"
    script += "\nprint(*[name for name in ('starlette', 'uvicorn', 'msgspec', 'numba') if name in sys.modules], 'end')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "end"


@pytest.mark.parametrize(
    ("specification", "labels"),
    [
        (SPECIFICATION, ["no", "yes"]),
        ({"loss": "squared_error", "columns": SPECIFICATION["columns"]}, [1.5, -2.0]),
        ({"loss": "softmax", "labels": ["a", "b", "c"], "columns": SPECIFICATION["columns"]}, ["a", "b", "c"]),
    ],
)
def test_replay_compares_with_the_scores_that_were_served(tmp_path, specification, labels):
    with client_of(tmp_path, models=()) as server, client_for(server) as client:
        server.request("PUT", "/models/m", {"specification": specification})
        of = {str(k): labels[k % len(labels)] for k in range(30)}
        client.learn("m", [ROWS[k][0] for k in range(10)], [labels[0]] * 10)
        served = [client.predict("m", ROWS[int(k)][0], k)["score"] for k in of]
        for k, label in of.items():
            client.label("m", k, label)
        loss, task = server.registry.models["m"].model.update.loss, server.registry.models["m"].task
    journal = Journal(tmp_path, read_only=True)
    replayed, refused = replay_into(journal, "m", empty_model({**specification, "penalty": "l2", "alpha": 0.01}))
    journal.close()
    assert (replayed.evaluation.rows, replayed.compared.rows, replayed.as_served.rows, refused) == (40, 30, 30, 0)
    found = {name: (mine, as_served) for name, mine, as_served in replayed.comparison()}
    assert found["rows"] == (30, 30)
    y = task.coded([*of.values()])[0]
    if loss.__class__.__name__ == "Softmax":
        p = np.exp(served) / np.exp(served).sum(axis=1, keepdims=True)
        expected = -np.log(p[np.arange(30), [labels.index(one) for one in of.values()]]).mean()
    elif labels == [1.5, -2.0]:
        expected = np.mean([loss.value(score, target) for score, target in zip(served, y, strict=True)])
        assert found["rmse"][1] == pytest.approx(np.sqrt(np.mean((np.array(served) - y) ** 2)))
    else:
        expected = np.mean(np.logaddexp(0.0, -y * np.array(served)))
        assert found["accuracy"][1] == np.mean((np.array(served) > 0.0) == (y > 0.0))
    assert found["loss"][1] == pytest.approx(expected)
    assert found["loss"][0] != found["loss"][1]


def test_replay_does_not_compare_different_losses(tmp_path):
    with client_of(tmp_path) as server, client_for(server) as client:
        client.predict("m", ROWS[1][0], "a")
        client.label("m", "a", "yes")
    journal = Journal(tmp_path, read_only=True)
    replayed, _ = replay_into(journal, "m", empty_model({**SPECIFICATION, "loss": "hinge"}))
    journal.close()
    names = [name for name, _, _ in replayed.comparison()]
    assert "accuracy" in names
    assert "loss" not in names
