"""Restarts, damage and full disks: nothing that was acknowledged is lost."""

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from campaigns.server_kills import assert_same
from server.serving import PATHS, SPECIFICATION, TestClient, client_of, learn, open_registry, predict, row, rows
from tests.commands import CliRunner

from fiol.cli import main
from fiol.learner.model_core import ModelCore
from fiol.server import journal as journal_module
from fiol.server.journal import Journal, JournalError
from fiol.server.messages import LabelRules, decode
from fiol.server.model_metrics import ProgressiveMetrics
from fiol.server.served_model import ServedModel
from fiol.server.specification import empty_model
from fiol.server.writer import Writer


def fed(folder, name="m"):
    """Return a model that learned the journal of a folder, record by record."""
    journal, model = Journal(folder, read_only=True), empty_model(SPECIFICATION)
    served = ServedModel(name, model, None)
    for record in journal.records(model=name):
        if record.kind == "learn" and record.refused is None:
            found = decode(record.payload)
            encoded = served.encode(found["features"], found["labels"], found.get("weights"))
            model.core.learn(encoded.X, encoded.y, encoded.weights)
    journal.close()
    return model


def kill(client):
    """Let the writer forget to save, as if the process was killed."""
    client.registry.writer.snapshots.save = lambda name, model: None


def test_restart_is_bit_for_bit_as_if_it_had_never_stopped(tmp_path):
    with client_of(tmp_path) as client:
        learn(client, {"rows": rows(0, 30)})
        client.post("/models/m/snapshots")
        predict(client, {"features": row(31)[0], "id": "a"})
        learn(client, {"rows": rows(30, 45)})
        kill(client)
        metrics = client.run_in_writer(lambda: client.registry.models["m"].metrics.to_json())
    registry = open_registry(tmp_path)
    assert registry.replayed == 15
    assert_same(registry.models["m"].model, fed(tmp_path))
    again = registry.models["m"].metrics.to_json()
    assert {**again, "windows": []} == {**metrics, "windows": []}
    registry.journal.close()
    with client_of(tmp_path) as client:
        assert learn(client, {"id": "a", "label": "no"}).json()["outcomes"] == {"learned": 1}
        learn(client, {"rows": rows(45, 50)})
        assert_same(client.registry.models["m"].model, fed(tmp_path))


def test_damaged_snapshot_is_reported_and_the_one_before_is_used(tmp_path):
    with client_of(tmp_path) as client:
        for start in (0, 10, 20):
            learn(client, {"rows": rows(start, start + 10)})
            client.post("/models/m/snapshots")
    files = sorted((tmp_path / "snapshots" / "m").iterdir())
    damaged = bytearray(files[-1].read_bytes())
    damaged[len(damaged) // 2] ^= 1
    files[-1].write_bytes(damaged)
    said = []
    registry = open_registry(tmp_path, said=said)
    assert any(files[-1].name in text and "the snapshot before it is used" in text for text in said)
    assert registry.replayed == 10
    assert_same(registry.models["m"].model, fed(tmp_path))
    registry.journal.close()


def test_model_without_whole_snapshot_is_an_error_that_names_the_folder(tmp_path):
    open_registry(tmp_path).journal.close()
    for file in (tmp_path / "snapshots" / "m").iterdir():
        file.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="there is no whole snapshot of the model"):
        open_registry(tmp_path)


def test_journal_without_the_records_of_a_snapshot_is_refused_and_the_snapshot_stays(tmp_path):
    with client_of(tmp_path) as client:
        for start in range(0, 70, 10):
            learn(client, {"rows": rows(start, start + 10)})
            client.post("/models/m/snapshots")
        before = client.registry.models["m"].model.copy()
    files = sorted((tmp_path / "snapshots" / "m").iterdir())
    (tmp_path / "journal.sqlite").rename(tmp_path / "moved")
    for _ in range(2):  # acknowledged nothing that the next start would not have
        with pytest.raises(JournalError, match=rf"ends at position 0, but .*{files[-1].name} has learned .* up to 8"):
            open_registry(tmp_path)
    assert sorted((tmp_path / "snapshots" / "m").iterdir()) == files
    (tmp_path / "moved").rename(tmp_path / "journal.sqlite")
    registry = open_registry(tmp_path)
    assert_same(registry.models["m"].model, before)
    registry.close()


def test_snapshot_from_before_the_first_record_is_refused(tmp_path):
    with client_of(tmp_path, keep_age=1e-9) as client:
        for start in range(0, 70, 10):
            learn(client, {"rows": rows(start, start + 10)})
            client.post("/models/m/snapshots")
            if start == 0:
                old = max((tmp_path / "snapshots" / "m").iterdir())
                content = old.read_bytes()
        client.run_in_writer(lambda: client.registry.writer._compact())
        assert client.registry.journal.first == 5
    for file in (tmp_path / "snapshots" / "m").iterdir():
        file.write_bytes(b"damaged")
    old.write_bytes(content)
    with pytest.raises(JournalError, match="begins at position 5, but the newest whole snapshot of a model is at 2"):
        open_registry(tmp_path)


def test_damaged_record_is_not_learned_from(tmp_path):
    with client_of(tmp_path) as client:
        learn(client, {"rows": rows(0, 3)})
        kill(client)
    connection = sqlite3.connect(tmp_path / "journal.sqlite")
    with connection:
        done = connection.execute(
            "UPDATE journal SET payload = CAST(replace(payload, '-3.0', '-9.0') AS BLOB) WHERE position = 2"
        )
        assert done.rowcount == 1
    connection.close()
    with pytest.raises(JournalError, match="record 2 has another checksum than when it was written: restore"):
        open_registry(tmp_path)


def test_unreadable_journal_is_an_error_of_one_line(tmp_path):
    registry = open_registry(tmp_path, models=())
    values = ((position, b"x" * 3000) for position in range(1, 50))
    registry.journal.begin()
    registry.journal.connection.executemany("INSERT INTO journal VALUES (?, 1, 'm', 'learn', 0, ?, 0, NULL)", values)
    registry.journal.commit()
    registry.close()
    content = bytearray((tmp_path / "journal.sqlite").read_bytes())
    content[20 * 4096 : 40 * 4096] = b"\xff" * (20 * 4096)
    (tmp_path / "journal.sqlite").write_bytes(content)
    journal = Journal(tmp_path, read_only=True)
    with pytest.raises(JournalError, match="malformed: restore the folder from a backup"):
        list(journal.read("SELECT * FROM journal"))
    assert "malformed" in [*journal.damaged()][-1]
    journal.close()
    done = CliRunner().invoke(main, ["journal", "verify", str(tmp_path)])
    assert done.exit_code == 1
    assert "malformed" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_start_on_a_full_disk_names_the_space_that_is_left(tmp_path, monkeypatch):
    open_registry(tmp_path).close()
    monkeypatch.setattr(
        journal_module, "connect", lambda *_: (_ for _ in ()).throw(sqlite3.OperationalError(FULL_DISK))
    )
    with pytest.raises(JournalError, match=rf"journal.sqlite: {FULL_DISK}: [\d,]+ bytes of the disk are free"):
        open_registry(tmp_path)


def test_snapshot_that_was_not_saved_is_taken_at_the_end(tmp_path, monkeypatch):
    said = []
    with client_of(tmp_path, said=said) as client:
        learn(client, {"rows": rows(0, 5)})
        writer = client.registry.writer
        save = writer.snapshots.save
        writer.snapshots.save = lambda name, model: (_ for _ in ()).throw(OSError("full"))
        client.run_in_writer(lambda: writer.start_snapshot(writer.models["m"]))
        writer.saver.submit(lambda: None).result()
        writer.snapshots.save = save
    assert said == ["the snapshot of m was not saved: full"]
    registry = open_registry(tmp_path)
    assert [one.position for one in registry.snapshots.list("m")] == [2, 1]
    registry.close()


def test_snapshot_that_is_removed_while_it_is_listed_is_left_out(tmp_path):
    registry = open_registry(tmp_path)
    (tmp_path / "snapshots" / "m" / "000000000009-3.fiol").symlink_to(tmp_path / "removed")  # listed, but not there
    assert [one.position for one in registry.snapshots.list("m")] == [1]
    registry.close()


def test_second_server_is_refused(tmp_path):
    registry = open_registry(tmp_path)
    with pytest.raises(JournalError, match=f"process {os.getpid()} serves with this journal already"):
        open_registry(tmp_path)
    registry.journal.close()
    open_registry(tmp_path).journal.close()


def test_torn_end_of_the_write_ahead_log_loses_nothing_acknowledged(tmp_path):
    with client_of(tmp_path) as client:
        learn(client, {"rows": rows(0, 20)})
        kill(client)
        wal = Path(client.registry.journal.path + "-wal")
        saved = {name: (tmp_path / name).read_bytes() for name in ("journal.sqlite", "journal.sqlite-wal")}
        assert saved[wal.name]
    torn = saved["journal.sqlite-wal"]
    saved["journal.sqlite-wal"] = torn + torn[32:2000]  # a frame of a transaction that did not get far
    for name, content in saved.items():
        (tmp_path / name).write_bytes(content)
    registry = open_registry(tmp_path)
    assert registry.models["m"].model.rounds == 20
    assert_same(registry.models["m"].model, fed(tmp_path))
    registry.journal.close()


def test_journal_of_other_versions(tmp_path, monkeypatch):
    with client_of(tmp_path) as client:
        learn(client, {"rows": rows(0, 5)})
    with monkeypatch.context() as patch:
        patch.setattr(journal_module, "VERSION", 2)
        patch.setattr(
            journal_module,
            "JOURNAL_CONVERSIONS",
            {1: ("ALTER TABLE journal ADD COLUMN origin TEXT NOT NULL DEFAULT ''",)},
        )
        with pytest.raises(JournalError, match="version 1: start fiol serve once"):
            Journal(tmp_path, read_only=True)
        journal = Journal(tmp_path)
        assert journal.connection.execute("SELECT count(origin) FROM journal").fetchone() == (2,)
        journal.close()
    with pytest.raises(JournalError, match="version 2 is newer than 1"):
        Journal(tmp_path)


def test_file_that_is_no_journal_is_refused(tmp_path):
    (tmp_path / "journal.sqlite").write_bytes(b"nothing of the kind" * 100)
    with pytest.raises(JournalError, match=r"journal\.sqlite: file is not a database"):
        Journal(tmp_path)
    (tmp_path / "journal.sqlite").unlink()
    with contextlib.closing(sqlite3.connect(tmp_path / "journal.sqlite")) as other:
        other.execute("CREATE TABLE t (x)")
    with pytest.raises(JournalError, match="this is no journal of fiol"):
        Journal(tmp_path)


def test_clock_that_jumps_changes_nothing(tmp_path, monkeypatch):
    with client_of(tmp_path) as client:
        learn(client, {"rows": rows(0, 2)})
        before = client.registry.journal.clock.now()
        monkeypatch.setattr(time, "time", lambda: 5.0)
        assert client.registry.journal.clock.now() >= before
        learn(client, {"rows": rows(2, 4)})
    registry = open_registry(tmp_path)  # the clock is still decades behind
    assert registry.journal.clock.now() >= before
    times = [record.time for record in registry.journal.records()]
    assert times == sorted(times)
    registry.journal.close()


#: What SQLite says where the disk is full.
FULL_DISK = "disk I/O error"
FULL = """
import resource, sys, time
from server.serving import client_of, learn, row, rows
with client_of(sys.argv[1]) as client:
    assert learn(client, {"rows": rows(0, 10)}).status == 200
    client.post("/models/m/snapshots")
    limit = client.registry.journal.size() + 40_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    statuses, k = [], 10
    while not statuses or statuses[-1] == 200:
        statuses.append(learn(client, {"rows": rows(k, k + 10)}).status)
        k += 10
    rounds = client.registry.models["m"].model.rounds
    assert statuses[-1] == 507, statuses
    assert rounds == 10 * len(statuses), (rounds, statuses)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
    assert learn(client, {"rows": rows(k, k + 10)}).status == 507
    assert client.get("/readyz").status == 503
    answer = client.post("/models/m/snapshots")
    assert (answer.status, sys.argv[1] in answer.body.decode()) == (507, False), answer
    assert client.request("PUT", "/models/n", {"copy_of": "m"}).status == 507
    assert client.post("/models/m/predict", {"features": row(1)[0]}).status == 200
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    deadline = time.monotonic() + 10.0
    while client.get("/readyz").status != 200:  # without a request
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert learn(client, {"rows": rows(k, k + 10)}).status == 200
    print(client.registry.models["m"].model.rounds)
"""


def test_full_disk_refuses_rows_and_keeps_all_acknowledged_ones(tmp_path):
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": PATHS}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # Python writes cut files into its cache if they may not be larger
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    registry = open_registry(tmp_path)
    assert registry.models["m"].model.rounds == int(done.stdout)
    assert_same(registry.models["m"].model, fed(tmp_path))
    registry.journal.close()


def test_unexpected_error_stops_the_server_and_the_journal_has_all(tmp_path, monkeypatch):
    with client_of(tmp_path) as client:
        learn(client, {"rows": rows(0, 10)})
        failed = []
        client.registry.writer.on_failure = lambda: failed.append(True)
        with monkeypatch.context() as patch:
            patch.setattr(Writer, "_apply", lambda *args: 1 / 0)
            assert learn(client, {"rows": rows(10, 20)}).status == 500
            client.registry.writer.join(20)
        assert failed == [True]
        assert learn(client, {"rows": rows(10, 20)}).status == 503
        assert client.get("/healthz").status == client.get("/readyz").status == 503
    registry = open_registry(tmp_path)
    assert registry.models["m"].model.rounds == 20  # durable, though it was not acknowledged
    assert_same(registry.models["m"].model, fed(tmp_path))
    registry.journal.close()


def test_row_that_the_model_fails_on_is_refused_and_never_replayed(tmp_path, monkeypatch):
    def fail_on_seven(self, X, y, sample_weight=None):
        if len(y) == 7:
            raise IndexError("a defect of the library")
        return true_learn(self, X, y, sample_weight)

    true_learn = ModelCore.learn
    with client_of(tmp_path) as client:
        learn(client, {"rows": rows(0, 10)})
        predict(client, {"rows": [{"features": row(k)[0], "id": str(k)} for k in range(7)]})
        with monkeypatch.context() as patch:
            patch.setattr(ModelCore, "learn", fail_on_seven)
            labels = {"rows": [{"id": str(k), "label": "yes"} for k in range(7)]}
            assert learn(client, labels).status == 422
            assert client.registry.writer.join_labels.pending == 7  # they wait for another label
            answer = learn(client, {"rows": rows(10, 17)}, key="k")
        assert (answer.status, answer.json()["error"]["reason"]) == (422, "a defect of the library")
        assert learn(client, {"rows": rows(10, 15)}).status == 200
        assert learn(client, {"id": "3", "label": "no"}).json()["outcomes"] == {"learned": 1}
        kill(client)
    registry = open_registry(tmp_path)
    refused = [record.position for record in registry.journal.records() if record.refused == "a defect of the library"]
    assert refused == [4, 5]
    assert registry.models["m"].model.rounds == 16
    assert_same(registry.models["m"].model, fed(tmp_path))
    registry.close()


def test_figures_that_fail_do_not_stop_the_server(tmp_path, monkeypatch):
    with client_of(tmp_path) as client:
        monkeypatch.setattr(ProgressiveMetrics, "add", lambda *args: 1 / 0)
        assert learn(client, {"rows": rows(0, 10)}).status == 200
        assert client.registry.models["m"].model.rounds == 10
        assert "division by zero" in client.get("/status").json()["models"][0]["metrics_error"]


@pytest.mark.parametrize("acts", ["stops", "learns", "takes a snapshot"])
def test_server_whose_folder_was_deleted_writes_nothing_into_another_journal(tmp_path, acts):
    folder = tmp_path / "journal"
    with client_of(folder) as old:
        learn(old, {"rows": rows(0, 10)})
        shutil.rmtree(folder)
        with client_of(folder) as new:
            learn(new, {"rows": rows(0, 3)})
            before = sorted(path.name for path in folder.rglob("*"))
            if acts == "learns":
                assert learn(old, {"rows": rows(10, 20)}).status in (500, 503)
            if acts == "takes a snapshot":
                assert old.post("/models/m/snapshots").status in (500, 503)
            old.registry.writer.stop()
            assert "was deleted, moved or replaced" in old.registry.writer.broken
            assert sorted(path.name for path in folder.rglob("*")) == before
            assert learn(new, {"rows": rows(3, 5)}).status == 200
    journal = Journal(folder)
    assert [*journal.damaged()] == []
    journal.close()
    registry = open_registry(folder)
    assert registry.models["m"].model.rounds == 5
    assert_same(registry.models["m"].model, fed(folder))
    registry.close()


def test_server_whose_folder_was_deleted_ends_and_does_not_make_it_again(tmp_path):
    folder = tmp_path / "journal"
    with client_of(folder) as client:
        learn(client, {"rows": rows(0, 10)})
        shutil.rmtree(folder)
        client.registry.writer.join(20)  # found out by the duties of every second
        assert "was deleted" in client.registry.writer.broken
        assert client.get("/healthz").status == 503
    assert not folder.exists()


def in_one_group(client, *bodies, key):
    """The answers to requests to learn that are processed together, all with the same idempotency key."""
    free, answers = threading.Event(), {}
    writer = client.registry.writer

    def send(number, body):
        other = TestClient(client.port, client.registry, client.server)
        answers[number] = learn(other, body, key=key)
        other.connection.close()

    holding = threading.Thread(target=client.run_in_writer, args=(lambda: free.wait(20),))
    holding.start()
    threads = []
    for number, body in enumerate(bodies):
        threads.append(threading.Thread(target=send, args=(number, body)))
        threads[-1].start()
        while len(writer.waiting) <= number:
            time.sleep(0.01)
    free.set()
    for thread in (holding, *threads):
        thread.join(20)
    return [answers[number] for number in range(len(bodies))]


def test_repeated_request_in_one_group_is_learned_once_or_refused_as_the_first(tmp_path, monkeypatch):
    def fail(self, X, y, sample_weight=None):
        raise IndexError("a defect of the library")

    with client_of(tmp_path) as client:
        body, other = {"rows": rows(0, 5)}, {"rows": rows(0, 4)}
        first, again, wrong = in_one_group(client, body, body, other, key="a")
        assert (first.status, again.body, wrong.status) == (200, first.body, 422)
        assert client.registry.models["m"].model.rounds == 5
        with monkeypatch.context() as patch:
            patch.setattr(ModelCore, "learn", fail)
            found = in_one_group(client, body, body, other, key="b")
        assert [answer.status for answer in found] == [422, 422, 422]
        assert "used for another request" in found[2].json()["error"]["reason"]
        assert learn(client, body, key="b").status == 200
        assert client.registry.models["m"].model.rounds == 10


def test_expired_rows_that_are_durable_but_not_learned_end_the_server(tmp_path, monkeypatch):
    rules = LabelRules(horizon=100.0, default="no")
    with client_of(tmp_path, rules=rules) as client:
        predict(client, {"features": row(1)[0], "id": "a"})
        with monkeypatch.context() as patch:
            patch.setattr(Writer, "_apply", raise_full)
            client.registry.journal.clock.start += 200.0
            client.registry.writer.join(20)
        assert "disk is full" in client.registry.writer.broken
    registry = open_registry(tmp_path)
    assert registry.models["m"].model.rounds == 1
    assert_same(registry.models["m"].model, fed(tmp_path))
    registry.close()


def raise_full(*args):
    """Fail as SQLite does."""
    raise sqlite3.OperationalError("disk is full")


def test_shadow_that_cannot_be_removed_is_promoted_nevertheless(tmp_path, monkeypatch):
    with client_of(tmp_path) as client:
        client.request("PUT", "/models/s", {"copy_of": "m", "shadow_of": "m"})
        learn(client, {"rows": rows(0, 5)})
        with monkeypatch.context() as patch:
            patch.setattr(type(client.registry), "remove", raise_full)
            assert client.post("/models/m/promote", {}).status == 200
        assert learn(client, {"rows": rows(5, 8)}).status == 200
        kill(client)
    registry = open_registry(tmp_path)
    assert {name: one.model.rounds for name, one in registry.models.items()} == {"m": 8, "s": 8}
    registry.close()


def test_snapshots_are_taken_after_the_clock_was_set_back(tmp_path, monkeypatch):
    with client_of(tmp_path, snapshot_seconds=0.1) as client:
        learn(client, {"rows": rows(0, 5)})
        taken = client.post("/models/m/snapshots").json()["position"]
        now = time.time
        monkeypatch.setattr(time, "time", lambda: now() - 86400.0)
        position = learn(client, {"rows": rows(5, 9)}).json()["position"]
        deadline = time.monotonic() + 20.0
        while (newest := client.get("/models/m/snapshots").json()["snapshots"][0]["position"]) == taken:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert newest == position
