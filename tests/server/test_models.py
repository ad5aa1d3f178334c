"""Models that are added, replaced, promoted, rolled back and removed while the server runs."""

import json
import time

import msgspec
import numpy as np
import pandas as pd
import pytest
from campaigns.server_kills import assert_same
from server.serving import SPECIFICATION, client_of, learn, open_registry, predict, row, rows

import fiol
from fiol.server.labels import RefusedError
from fiol.server.messages import LabelRules, decode, encode
from fiol.server.served_model import ServedModel
from fiol.server.specification import empty_model
from fiol.workflow.model import as_trained


def reopened(folder):
    """The models of a folder after a restart."""
    registry = open_registry(folder, models=())
    registry.journal.close()
    return registry.models


def test_roll_back_continues_from_a_snapshot_also_after_a_restart(tmp_path):
    with client_of(tmp_path) as client:
        learn(client, {"rows": rows(0, 10)})
        snapshot = client.post("/models/m/snapshots").json()
        learn(client, {"rows": rows(10, 30)})
        listed = client.get("/models/m/snapshots").json()["snapshots"]
        assert [one["position"] for one in listed] == [snapshot["position"], 1]
        assert client.post("/models/m/rollback", {"position": 77}).status == 404
        assert client.post("/models/m/rollback", {"position": snapshot["position"]}).status == 200
        assert client.get("/models/m").json()["round"] == 10
        learn(client, {"rows": rows(30, 33)})
        before = client.registry.models["m"].model.copy()
        positions = [one["position"] for one in client.get("/models/m/snapshots").json()["snapshots"]]
        assert snapshot["position"] + 1 in positions  # what was rolled back can be returned to
    assert before.rounds == 13
    assert_same(reopened(tmp_path)["m"].model, before)


def test_roll_back_is_replayed_after_a_crash(tmp_path):
    with client_of(tmp_path) as client:
        learn(client, {"rows": rows(0, 10)})
        position = client.post("/models/m/snapshots").json()["position"]
        learn(client, {"rows": rows(10, 30)})
        client.post("/models/m/rollback", {"position": position})
        learn(client, {"rows": rows(30, 33)})
        before = client.registry.models["m"].model.copy()
        client.registry.writer.snapshots.save = lambda name, model: None
    newest = max((tmp_path / "snapshots" / "m").iterdir())
    models = reopened(tmp_path)
    assert_same(models["m"].model, before)
    newest.write_bytes(b"")  # the snapshot of the roll-back itself
    said = []
    registry = open_registry(tmp_path, models=(), said=said)
    assert "which was rolled back to, is used" in said[-1]
    assert_same(registry.models["m"].model, before)
    registry.journal.close()


def test_shadow_learns_beside_the_live_model_and_is_promoted(tmp_path):
    with client_of(tmp_path) as client:
        specification = {**SPECIFICATION, "step_size": 0.5}
        answer = client.request("PUT", "/models/s", {"specification": specification, "shadow_of": "m"})
        assert answer.status == 201
        assert learn(client, {"rows": rows(0, 20)}).status == 200
        assert learn(client, {"rows": rows(0, 20)}, name="s").status == 409
        served = client.registry.models
        assert (served["m"].model.rounds, served["s"].model.rounds) == (20, 20)
        assert served["s"].metrics.rows == 20
        shadow = served["s"].model.copy()
        assert client.post("/models/m/promote", {}).json() == {"name": "m", "promoted": "s"}
        assert [*served] == ["m"]
        assert_same(served["m"].model, shadow)
        learn(client, {"rows": rows(20, 25)})
        before = served["m"].model.copy()
    assert_same(reopened(tmp_path)["m"].model, before)


def test_shadow_that_refuses_a_row_does_not_disturb_the_live_model(tmp_path):
    with client_of(tmp_path) as client:
        other = {**SPECIFICATION, "columns": {"size": "number", "color": "number"}}
        client.request("PUT", "/models/s", {"specification": other, "shadow_of": "m"})
        assert learn(client, {"rows": rows(0, 5)}).status == 200
        assert client.registry.models["m"].model.rounds == 5
        assert client.registry.models["s"].model.rounds == 0
        assert client.registry.models["s"].errors == 1


def test_models_are_added_and_removed_live(tmp_path):
    with client_of(tmp_path) as client:
        assert client.request("PUT", "/models/m", {"copy_of": "m"}).status == 409
        assert client.request("PUT", "/models/n", {"specification": {"loss": "squared_error"}}).status == 201
        assert learn(client, {"features": {"a": 2.0, "b": "x"}, "label": 3.5}, name="n").status == 200
        assert [one["name"] for one in client.get("/models").json()["models"]] == ["m", "n"]
        assert client.request("DELETE", "/models/n").status == 200
        assert predict(client, {"features": {}}, name="n").status == 404
        assert client.request("PUT", "/models/n", {"copy_of": "m"}).status == 201
        assert client.request("PUT", "/models/..%2fn", {"copy_of": "m"}).status in (404, 422)
    assert reopened(tmp_path)["n"].model.rounds == 0


@pytest.mark.parametrize(
    ("specification", "message"),
    [
        ({}, "a specification names the loss"),
        ({"loss": "log_loss"}, "the two labels of log_loss"),
        ({"loss": "log_loss", "labels": [0, 1], "passes": 2}, "no option 'passes'"),
        ({"loss": "log_loss", "labels": [0, 1], "class_weight": "balanced"}, "no option 'class_weight'"),
        ({"loss": "squared_error", "target": "y"}, "no option 'target'"),
        ({"loss": "squared_error", "labels": [0, 1]}, "predicts numbers"),
        ({"loss": "log_loss", "labels": [0, 1], "colour": 1}, "colour"),
        ({"loss": "nothing"}, "nothing"),
        ({"loss": "squared_error", "columns": {"a": "number of"}}, "number of"),
    ],
)
def test_wrong_specification_is_refused_with_the_reason(tmp_path, specification, message):
    with client_of(tmp_path) as client:
        answer = client.request("PUT", "/models/n", {"specification": specification})
        assert answer.status == 422, answer
        assert message in answer.json()["error"]["reason"]
        assert [*client.registry.models] == ["m"]


@pytest.mark.parametrize("labels", [5, "ab", {"a": 1}])
def test_classes_of_a_specification_are_a_list(labels):
    with pytest.raises(ValueError, match="labels are a list of the classes of softmax, got "):
        empty_model({"loss": "softmax", "labels": labels})


def test_file_is_downloaded_and_uploaded(tmp_path):
    with client_of(tmp_path / "journal") as client:
        learn(client, {"rows": rows(0, 10)})
        answer = client.get("/models/m/file")
        file = tmp_path / "m.fiol"
        file.write_bytes(answer.body)
        assert_same(fiol.load(file), client.registry.models["m"].model)
        learn(client, {"rows": rows(10, 20)})
        assert client.request("PUT", "/models/m/file", body=answer.body).status == 201
        assert client.registry.models["m"].model.rounds == 10
        assert client.request("PUT", "/models/n/file", body=answer.body).status == 201
        assert client.registry.models["n"].model.rounds == 10
        refused = client.request("PUT", "/models/m/file", body=b"no model")
        assert refused.status == 422
        assert str(tmp_path) not in refused.body.decode()
        assert client.registry.models["m"].model.rounds == 10


def test_uploaded_model_must_predict_the_same_labels(tmp_path):
    registry = open_registry(tmp_path / "journal")
    other = empty_model({**SPECIFICATION, "labels": ["cold", "warm"]})
    other.save(tmp_path / "other.fiol")
    with pytest.raises(RefusedError, match="they must be the same"):
        registry.upload("m", registry.prepare_upload("m", str(tmp_path / "other.fiol")))
    registry.journal.close()


def test_model_page_has_weights_and_recipe(tmp_path):
    with client_of(tmp_path) as client:
        learn(client, {"rows": rows(0, 30)})
        client.run_in_writer(client.registry.models["m"].refresh)
        page = client.get("/models/m?most=3").json()
        assert (page["round"], page["columns"], len(page["weights"])) == (30, ["size", "color"], 3)
        assert page["recipe"]["component"] == "Update"
        assert page["importances"]
        assert client.get("/models/m?most=x").status == 422
        assert client.get("/models/m?most=%C2%B2").status == 422  # a digit to Python, but no number


def test_classes_and_numbers_are_served(tmp_path):
    with client_of(tmp_path) as client:
        joint = {"loss": "softmax", "labels": ["a", "b", "c"], "columns": {"x": "number"}, "algorithm": "fiol"}
        client.request("PUT", "/models/joint", {"specification": joint})
        body = {"rows": [{"features": {"x": float(k)}, "label": "abc"[k % 3]} for k in range(9)]}
        assert learn(client, body, name="joint").status == 200
        client.run_in_writer(client.registry.models["joint"].refresh)
        found = predict(client, {"features": {"x": 1.0}, "id": "p"}, name="joint").json()
        assert found["labels"] == ["a", "b", "c"]
        assert len(found["predictions"][0]["score"]) == len(found["predictions"][0]["probabilities"]) == 3
        assert learn(client, {"id": "p", "label": "c"}, name="joint").json()["outcomes"] == {"learned": 1}
        assert learn(client, {"features": {"x": 1.0}, "label": 2.5}, name="joint").status == 422
        assert client.registry.models["joint"].metrics.rows == 10
        number = {"loss": "squared_error", "algorithm": "fiol"}
        client.request("PUT", "/models/number", {"specification": number})
        learn(client, {"rows": [{"features": {"x": 1.0}, "label": 4.0}] * 30}, name="number")
        client.run_in_writer(client.registry.models["number"].refresh)
        one = predict(client, {"features": {"x": 1.0}}, name="number").json()["predictions"][0]
        assert one["label"] == pytest.approx(one["score"])
        assert abs(one["label"] - 4.0) < 1.0


def test_predictions_lag_by_a_bounded_time(tmp_path):
    with client_of(tmp_path) as client:
        learn(client, {"rows": rows(0, 5)})
        learn(client, {"rows": rows(5, 10)})
        served, started = client.registry.models["m"], time.monotonic()
        while predict(client, {"features": row(0)[0]}).json()["round"] < 10:
            assert time.monotonic() - started < 20.0
        assert served.reader.rounds == served.model.rounds == 10


def test_compaction_keeps_what_snapshots_need(tmp_path):
    with client_of(tmp_path) as client:
        for start in range(0, 80, 10):
            learn(client, {"rows": rows(start, start + 10)})
            client.post("/models/m/snapshots")
        client.registry.writer.options.keep_bytes = 1.0
        client.run_in_writer(client.registry.writer._compact)
        left = [record.position for record in client.registry.journal.records()]
        oldest = client.get("/models/m/snapshots").json()["snapshots"][-1]["position"]
        assert left == list(range(oldest + 1, 10))
        assert client.registry.journal.connection.execute("PRAGMA freelist_count").fetchone() == (0,)
        before = client.registry.models["m"].model.copy()
        for file in sorted((tmp_path / "snapshots" / "m").iterdir())[1:]:
            file.write_bytes(b"damaged")
        kill = client.registry.writer.snapshots
        kill.save = lambda name, model: None
    assert_same(reopened(tmp_path)["m"].model, before)


def test_compaction_of_many_records_does_not_wait_for_the_next_second(tmp_path, monkeypatch):
    for module in ("journal", "writer"):
        monkeypatch.setattr(f"fiol.server.{module}.COMPACTED_AT_ONCE", 2)
    with client_of(tmp_path, snapshot_seconds=1e9) as client:
        for start in range(0, 120, 10):
            learn(client, {"rows": rows(start, start + 10)})
            client.post("/models/m/snapshots")
        writer = client.registry.writer

        def later():
            writer.options.keep_age, writer.next_tick = 1e-9, 0.0
            for _ in range(5):  # without waiting
                writer._keep_up()
            return client.registry.journal.first

        assert client.run_in_writer(later) == client.registry.snapshots.oldest("m")


def test_compaction_reads_only_records_that_it_may_remove(tmp_path):
    registry = open_registry(tmp_path)
    connection, now, steps = registry.journal.connection, registry.journal.clock.now(), []
    values = ((position, now) for position in range(2, 20_000))
    registry.journal.begin()
    connection.executemany("INSERT INTO journal VALUES (?, ?, 'm', 'learn', 0, x'', 0, NULL)", values)
    registry.journal.commit()
    registry.snapshots.oldest = lambda name: 20_000
    connection.set_progress_handler(lambda: steps.append(1), 100)
    registry.writer._compact()
    assert len(steps) < 150
    registry.journal.close()


def test_rules_that_are_not_given_stay_as_they_are(tmp_path):
    (tmp_path / "m.json").write_text(json.dumps(SPECIFICATION))
    registry = open_registry(tmp_path / "j", models=())
    assert registry.add_file("m", str(tmp_path / "m.json"), {"early": "drop"}).startswith("added from")
    registry.set_rules("m", msgspec.structs.replace(registry.models["m"].rules, default="no"))
    registry.close()
    registry = open_registry(tmp_path / "j", models=())
    assert registry.add_file("m", "anything", {"late": "refuse"}) == "continues from the journal"
    assert registry.models["m"].rules == LabelRules(early="drop", late="refuse", default="no")
    registry.close()


def test_rules_that_a_request_does_not_have_stay_as_they_are(tmp_path):
    with client_of(tmp_path) as client:
        assert client.request("PUT", "/models/m/rules", {"horizon": 60.0, "default": "no"}).status == 200
        answer = client.request("PUT", "/models/m/rules", {"late": "learn"})
        assert answer.json() == {**decode(encode(LabelRules())), "late": "learn", "horizon": 60.0, "default": "no"}
        assert client.request("PUT", "/models/m/rules", {"default": None}).json()["default"] is None
    registry = open_registry(tmp_path)
    assert registry.models["m"].rules == LabelRules(late="learn", horizon=60.0)
    registry.journal.close()


def test_name_that_ends_a_line_is_refused(tmp_path):
    with client_of(tmp_path) as client:
        assert client.request("PUT", "/models/x%0a", {"copy_of": "m"}).status == 422


def test_default_label_that_the_model_does_not_have_is_refused(tmp_path):
    with client_of(tmp_path) as client:
        answer = client.request("PUT", "/models/m/rules", {"default": "maybe"})
        assert answer.status == 422
        assert "the default label of 'm': the target 'maybe' is neither" in answer.json()["error"]["reason"]
        assert client.registry.models["m"].rules == LabelRules()
        added = client.request("PUT", "/models/n", {"specification": SPECIFICATION, "rules": {"default": 3}})
        assert (added.status, [*client.registry.models]) == (422, ["m"])
        assert client.request("PUT", "/models/m/rules", {"default": "no"}).status == 200


def test_start_with_another_file_than_the_journal_began_with_is_reported(tmp_path):
    file, other = tmp_path / "m.json", tmp_path / "other.json"
    file.write_text(json.dumps(SPECIFICATION))
    other.write_text(json.dumps({**SPECIFICATION, "penalty": "l1", "alpha": 0.1}))
    registry = open_registry(tmp_path / "j", models=())
    registry.add_file("m", str(file))
    registry.close()
    registry = open_registry(tmp_path / "j", models=())
    assert registry.add_file("m", str(file)) == "continues from the journal"
    assert f"{other} is not the file that it began with" in registry.add_file("m", str(other))
    registry.close()


def test_shadow_does_not_learn_what_the_live_model_refuses(tmp_path, monkeypatch):
    def fail_on_seven(self, encoded, record, position):
        if len(encoded.y) == 7 and self.shadow_of is None:
            raise IndexError("a defect of the library")
        return true_learn(self, encoded, record, position)

    true_learn = ServedModel.learn
    with client_of(tmp_path) as client:
        client.request("PUT", "/models/s", {"copy_of": "m", "shadow_of": "m"})
        learn(client, {"rows": rows(0, 10)})
        with monkeypatch.context() as patch:
            patch.setattr(ServedModel, "learn", fail_on_seven)
            assert learn(client, {"rows": rows(10, 17)}).status == 422
        learn(client, {"rows": rows(20, 25)})
        shadow = client.registry.models["s"].model.copy()
        assert shadow.rounds == 15
        client.registry.writer.snapshots.save = lambda name, model: None
    assert_same(reopened(tmp_path)["s"].model, shadow)


def test_model_of_one_learner_per_class_has_metrics(tmp_path):
    model = as_trained(fiol.OneVsRest(fiol.FIOL(fiol.Hinge()), classes=["a", "b", "c"]))
    with client_of(tmp_path, models=()) as client:
        client.run_in_writer(lambda: client.registry.add("m", model, LabelRules()))
        assert learn(client, {"features": {"size": 4.0}, "label": "b"}).status == 200
        assert learn(client, {"features": {"size": 4.0}, "label": "b"}).status == 200
        served = client.registry.models["m"]
        assert served.metrics_error is None
        status = client.run_in_writer(lambda: served.metrics.status(served.model))
    assert (status["rows"], status["loss"], status["constant_loss"]) == (2, 0.5, None)


def test_model_whose_first_rows_decide_about_columns_is_refused(tmp_path):
    registry = open_registry(tmp_path, models=())
    model = as_trained(fiol.Learner(table_encoding={"color": "category"}))
    with pytest.raises(RefusedError, match="the first rows would decide about columns"):
        registry.add("m", model, LabelRules())
    registry.close()
    assert reopened(tmp_path) == {}


def test_dates_and_times_of_a_specification_make_features():
    model = empty_model({"loss": "squared_error", "columns": {"day": "date", "at": "time"}})
    model.learn([{"day": "2024-03-04T13:45", "at": "09:30"}], [1.0])
    assert {*model.core.space.names} == {"day", "day.month=3", "day.weekday=Mon", "day.hour=13", "at", "at.hour=9"}


@pytest.mark.parametrize("X", [np.eye(3), pd.DataFrame(np.eye(3), columns=["a", "b", "c"])], ids=["array", "frame"])
@pytest.mark.parametrize("kind", ["PassiveAggressiveClassifier", "FIOLClassifier"])
def test_model_of_columns_by_position_is_refused(tmp_path, kind, X):
    getattr(fiol, kind)(max_iter=1).fit(X, [0, 1, 1]).save(tmp_path / "e.fiol")
    registry = open_registry(tmp_path / "journal", models=())
    with pytest.raises(RefusedError, match="the model for 'e' learned from columns by position, but values in"):
        registry.add_file("e", str(tmp_path / "e.fiol"))
    registry.close()
    assert reopened(tmp_path / "journal") == {}


def test_estimator_with_a_table_encoding_learns_and_continues_after_a_restart(tmp_path):
    X = pd.DataFrame({"size": [1.0, 2.0, 3.0], "color": ["red", "red", "blue"]})
    fiol.FIOLClassifier(max_iter=1).fit(X, ["no", "yes", "yes"]).save(tmp_path / "e.fiol")
    with client_of(tmp_path / "journal", models=()) as client:
        client.run_in_writer(lambda: client.registry.add_file("e", str(tmp_path / "e.fiol")))
        assert learn(client, {"features": {"size": 4.0, "color": "blue"}, "label": "yes"}, name="e").status == 200
        before = client.registry.models["e"].model.copy()
    assert before.rounds == 4
    assert_same(reopened(tmp_path / "journal")["e"].model, before)
