"""Compiling before requests wait for it."""

import os
import subprocess
import sys
import threading

import pytest
from campaigns.server_kills import assert_same
from server.serving import PATHS, SPECIFICATION, TestClient, client_of, learn, predict, row, rows

from fiol.server import registry as registry_module
from fiol.server.served_model import ServedModel
from fiol.server.specification import empty_model
from fiol.server.warmup import sample_row, warm_up_served

COLUMNS = {
    "size": "number",
    "text": "numeric_text",
    "color": "category",
    "review": "words",
    "marks": "tags",
    "day": {"kind": "date", "format": "%m/%d/%Y", "parts": ["days", "month"]},
    "at": {"kind": "date", "parts": ["days", "hour"]},
    "clock": "time",
    "number": "id",
}


@pytest.mark.parametrize(
    "specification",
    [
        SPECIFICATION,
        {"loss": "squared_error", "columns": COLUMNS, "pairs": [["size", "color"]]},
        {"loss": "softmax", "labels": ["a", "b", "c"]},
        {"loss": "softmax", "labels": []},
        {"loss": "log_loss", "labels": [0, 1], "bits": 8},
    ],
)
def test_warm_up_learns_rows_of_the_models_own_columns_and_changes_nothing(specification, monkeypatch):
    model, before, learned = empty_model(specification), empty_model(specification), []
    true_learn = ServedModel.learn

    def noted(self, encoded, record, position):
        learned.append(len(record.labels))
        return true_learn(self, encoded, record, position)

    monkeypatch.setattr(ServedModel, "learn", noted)
    assert warm_up_served(model) is None
    assert learned == [1, 2, 40, 1, 2, 40]
    assert_same(model, before)


def test_sample_row_has_a_value_for_every_column_that_makes_features():
    model = empty_model({"loss": "squared_error", "columns": COLUMNS})
    found = sample_row(model, 0)
    assert [*found] == [name for name in COLUMNS if name != "number"]
    assert None not in found.values()
    assert (found["day"], found["at"], found["clock"]) == ("03/04/2024", "2024-03-04T13:45:00", "13:45")


@pytest.fixture
def held_warm_up(monkeypatch):
    """Events of a warm-up that has started, and that may go on; and the names of its threads."""
    started, go_on, threads = threading.Event(), threading.Event(), []

    def held(model):
        threads.append(threading.current_thread().name)
        started.set()
        assert go_on.wait(20)
        return warm_up_served(model)

    monkeypatch.setattr(registry_module, "warm_up_served", held)
    yield started, go_on, threads
    go_on.set()


@pytest.mark.parametrize("change", ["add", "upload", "roll back"])
def test_models_are_warmed_up_before_they_are_switched_in_while_others_learn(tmp_path, held_warm_up, change):
    started, go_on, threads = held_warm_up
    with client_of(tmp_path) as client:
        other = TestClient(client.port, client.registry, client.server)
        learn(client, {"rows": rows(0, 3)})
        file = client.get("/models/m/file").body
        position = client.post("/models/m/snapshots").json()["position"]
        learn(client, {"rows": rows(3, 6)})
        requests = {
            "add": lambda: other.request("PUT", "/models/n", {"specification": SPECIFICATION}),
            "upload": lambda: other.request("PUT", "/models/m/file", body=file),
            "roll back": lambda: other.post("/models/m/rollback", {"position": position}),
        }
        answers = []
        changing = threading.Thread(target=lambda: answers.append(requests[change]()))
        changing.start()
        assert started.wait(20)
        assert learn(client, {"rows": rows(6, 10)}).status == 200  # the writer does not wait
        assert client.registry.models["m"].model.rounds == 10
        assert [*client.registry.models] == ["m"]
        go_on.set()
        changing.join(20)
        other.connection.close()
        assert answers[0].status in (200, 201), answers
        assert client.registry.models["n" if change == "add" else "m"].model.rounds == (0 if change == "add" else 3)
        assert threads
        assert client.registry.writer.name not in threads


def test_snapshot_that_was_removed_during_the_warm_up_is_not_rolled_back_to(tmp_path, held_warm_up):
    _, go_on, _ = held_warm_up
    go_on.set()
    with client_of(tmp_path) as client:
        learn(client, {"rows": rows(0, 3)})
        position = client.post("/models/m/snapshots").json()["position"]
        model, file = client.registry.prepare_rollback("m", position)
        (tmp_path / "snapshots" / "m" / file).unlink()
        with pytest.raises(ValueError, match="any more"):
            client.registry.roll_back("m", model, file)
        assert predict(client, {"features": row(1)[0]}).status == 200


COMPILED = """
import sys
from fiol.compiler.cache import Kernel
from server.serving import client_of, learn, predict, row, rows
from fiol.server.messages import LabelRules
from fiol.server.registry import Registry
from fiol.server.specification import empty_model
from server import serving

compiled = []
compile = Kernel.compile
def noted(self, sig):  # called for every new signature, which may be in the cache of the other tests
    if tuple(sig) not in self.overloads:
        compiled.append(str(self))
    return compile(self, sig)

specification = {name: value for name, value in serving.SPECIFICATION.items() if name != "algorithm"}
registry = Registry(sys.argv[1])
registry.add("m", empty_model(specification), LabelRules())
registry.warm_up_all()
registry.close()
Kernel.compile = noted
with client_of(sys.argv[1]) as client:
    assert predict(client, {"features": row(0)[0]}).status == 200
    assert learn(client, rows(0, 1)[0]).status == 200
    body = {"rows": [{"features": row(k)[0], "id": str(k)} for k in range(9)]}
    assert predict(client, body).status == 200
    assert learn(client, {"rows": [{"id": str(k), "label": row(k)[1]} for k in range(9)]}).status == 200
    assert learn(client, {"rows": rows(0, 100)}).status == 200
    assert predict(client, {"rows": [{"features": row(k)[0]} for k in range(50)]}).status == 200
    assert client.post("/models/m/snapshots").status == 201
print(compiled)
"""


def test_requests_after_the_warm_up_compile_nothing(tmp_path):
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "0", "PYTHONPATH": PATHS}
    words = [sys.executable, "-c", COMPILED, str(tmp_path / "journal")]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
