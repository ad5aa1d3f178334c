"""Labels that come later, early, late, twice or never."""

from collections import Counter

import pytest
from server.serving import client_of, learn, open_registry, predict, row

from fiol.server.journal import Journal
from fiol.server.messages import LabelRules, decode
from fiol.server.specification import empty_model


def outcome(client, name, label, **more):
    """Return the outcome of a label."""
    answer = learn(client, {"id": name, "label": label, **more})
    return answer.json()["rows_outcomes"][0] if answer.status == 200 else answer.status


def records(client, kind="learn"):
    """The records of the journal, decoded."""
    journal = Journal(client.registry.journal.folder, read_only=True)
    found = [decode(record.payload) for record in journal.records() if record.kind == kind]
    journal.close()
    return found


def test_label_meets_the_features_and_the_prediction_as_served(tmp_path):
    with client_of(tmp_path) as client:
        served = predict(client, {"features": row(1)[0], "id": "a"}).json()["predictions"][0]
        learn(client, {"rows": [{"features": row(k)[0], "label": row(k)[1]} for k in range(20)]})
        assert outcome(client, "a", "yes") == "learned"
        last = records(client)[-1]
        assert last["features"] == [row(1)[0]]
        assert last["served"] == [served["score"]]
        assert last["labels"] == ["yes"]
        assert 0.0 <= last["delays"][0] < 60.0


def test_second_label_is_a_duplicate_or_a_conflict(tmp_path):
    with client_of(tmp_path) as client:
        predict(client, {"features": row(1)[0], "id": "a"})
        assert [outcome(client, "a", label) for label in ("yes", "yes", "no")] == ["learned", "duplicate", "conflict"]
        assert len(records(client)) == 1


@pytest.mark.parametrize(
    ("rule", "found", "learned"), [("keep", "conflict", 1), ("learn", "learned", 2), ("refuse", 409, 1)]
)
def test_rule_for_labels_that_contradict(tmp_path, rule, found, learned):
    with client_of(tmp_path, rules=LabelRules(conflict=rule)) as client:
        predict(client, {"features": row(1)[0], "id": "a"})
        assert [outcome(client, "a", label) for label in ("yes", "no")] == ["learned", found]
        assert [record["features"] for record in records(client)] == [[row(1)[0]]] * learned


@pytest.mark.parametrize(
    ("rule", "found", "learned"), [("hold", "held", 1), ("drop", "dropped", 0), ("refuse", 409, 0)]
)
def test_rule_for_labels_before_their_prediction(tmp_path, rule, found, learned):
    with client_of(tmp_path, rules=LabelRules(early=rule)) as client:
        assert outcome(client, "a", "yes") == found
        answer = predict(client, {"features": row(1)[0], "id": "a"})
        assert answer.status == 200
        assert [record["features"] for record in records(client)] == [[row(1)[0]]] * learned


def test_rows_with_features_and_id_are_learned_once(tmp_path):
    with client_of(tmp_path) as client:
        assert outcome(client, "a", "yes", features=row(1)[0]) == "learned"
        assert outcome(client, "a", "yes", features=row(1)[0]) == "duplicate"


def test_id_is_predicted_once(tmp_path):
    with client_of(tmp_path) as client:
        assert predict(client, {"features": row(1)[0], "id": "a"}).status == 200
        answer = predict(client, {"rows": [{"features": row(2)[0], "id": "b"}, {"features": row(2)[0], "id": "a"}]})
        assert (answer.status, answer.json()["error"]["row"]) == (409, 1)
        assert outcome(client, "b", "yes") == "held"  # nothing of the refused request is there


@pytest.mark.parametrize(
    ("rules", "late", "labels"),
    [
        (LabelRules(horizon=10.0), "late", []),
        (LabelRules(horizon=10.0, default="no"), "late", [["no"]]),
        (LabelRules(horizon=10.0, late="learn"), "learned", [["yes"]]),
        (LabelRules(horizon=10.0, late="learn", default="no"), "late", [["no"]]),
        (LabelRules(horizon=10.0, late="refuse"), 409, []),
    ],
)
def test_prediction_without_label_expires(tmp_path, rules, late, labels):
    registry = open_registry(tmp_path, rules=rules)
    registry.journal.close()
    with client_of(tmp_path) as client:
        predict(client, {"features": row(1)[0], "id": "a"})
        client.run_in_writer(lambda: advance(client, 11.0))
        assert outcome(client, "a", "yes") == late
        assert [record["labels"] for record in records(client)] == labels
        assert client.registry.writer.join_labels.pending == 0
        client.run_in_writer(lambda: advance(client, 11.0))  # ids are forgotten
        assert outcome(client, "a", "yes") == "held"


@pytest.mark.parametrize("rule", ["keep", "learn", "refuse"])
def test_whole_number_and_decimal_are_the_same_label(tmp_path, rule):
    with client_of(tmp_path) as client:
        body = {"specification": {"loss": "log_loss", "labels": [0, 1]}, "rules": {"conflict": rule}}
        assert client.request("PUT", "/models/n", body).status == 201
        predict(client, {"features": {"a": 1.0}, "id": "x"}, "n")
        found = [learn(client, {"id": "x", "label": label}, name="n") for label in (1, 1.0, 1)]
        assert [one.json()["rows_outcomes"] for one in found] == [["learned"], ["duplicate"], ["duplicate"]]


def test_predictions_that_expire_at_once_do_not_wait_for_the_next_second(tmp_path, monkeypatch):
    monkeypatch.setattr("fiol.server.labels.EXPIRED_AT_ONCE", 2)
    open_registry(tmp_path, rules=LabelRules(horizon=10.0)).journal.close()
    with client_of(tmp_path) as client:
        writer, ids = client.registry.writer, "abcde"
        predict(client, {"rows": [{"features": row(1)[0], "id": name} for name in ids]})

        def later():
            client.registry.journal.clock.start += 11.0
            writer.next_tick = 0.0
            for _ in range(3):  # without waiting
                writer._keep_up()
            return writer.join_labels.pending

        assert client.run_in_writer(later) == 0
        client.run_in_writer(later)
        assert client.registry.journal.connection.execute("SELECT count(*) FROM ids").fetchone() == (0,)


def test_expiry_reads_only_ids_that_are_due(tmp_path):
    registry = open_registry(tmp_path, models=("m", "n"))
    connection, now = registry.journal.connection, registry.journal.clock.now()
    registry.journal.begin()
    for name, state in (("m", "labeled"), ("n", "pending")):
        values = ((name, str(k), state, now + k) for k in range(5000))
        connection.executemany("INSERT INTO ids VALUES (?, ?, ?, ?, NULL, NULL, NULL)", values)
    registry.journal.commit()
    steps = Counter()

    def expire(horizon):
        connection.set_progress_handler(lambda: steps.update([horizon]), 100)
        return registry.writer.join_labels.expire("m", LabelRules(horizon=horizon), now + 20_000.0)[1:]

    assert expire(20_000.0 - 1.0) == (0, False)  # one is due
    assert expire(9000.0) == (0, True)
    assert steps[20_000.0 - 1.0] < 10 < steps[9000.0]
    registry.journal.close()


def advance(client, seconds):
    """Let time pass, and the writer do what is due."""
    client.registry.journal.clock.start += seconds
    client.registry.writer._expire()


def test_too_many_pending_predictions_are_refused(tmp_path):
    with client_of(tmp_path, most_pending=2) as client:
        body = {"rows": [{"features": row(k)[0], "id": str(k)} for k in range(3)]}
        answer = predict(client, body)
        assert answer.status == 429
        assert int(answer.headers["retry-after"]) > 0
        assert client.registry.writer.join_labels.pending == 0
        assert predict(client, {"rows": body["rows"][:2]}).status == 200
        assert outcome(client, "1", "yes") == "learned"
        assert predict(client, {"rows": body["rows"][2:]}).status == 200


def test_idempotency_key_gives_the_same_answer_and_learns_once(tmp_path):
    body = {"rows": [{"features": row(k)[0], "label": row(k)[1]} for k in range(3)]}
    with client_of(tmp_path) as client:
        first = learn(client, body, key="k")
        assert learn(client, body, key="k").body == first.body
        assert learn(client, {"rows": body["rows"][:2]}, key="k").status == 422
        once = predict(client, {"features": row(1)[0], "id": "a"}, headers={"idempotency-key": "p"})
        learn(client, body)
        again = predict(client, {"features": row(1)[0], "id": "a"}, headers={"idempotency-key": "p"})
        assert again.body == once.body
        assert client.registry.models["m"].model.rounds == 6
    with client_of(tmp_path) as client:  # also after a restart
        assert learn(client, body, key="k").body == first.body
        assert client.registry.models["m"].model.rounds == 6


def test_repeated_request_has_its_answer_though_the_model_takes_other_rows_now(tmp_path):
    with client_of(tmp_path) as client:
        body = {"features": {"size": 1.0, "color": "red"}, "label": "yes"}
        first = learn(client, body, key="k")
        columns = {"size": "number", "color": "number"}
        other = {"loss": "log_loss", "labels": ["no", "yes"], "columns": columns, "algorithm": "fiol"}
        empty_model(other).save(tmp_path / "other.fiol")
        content = (tmp_path / "other.fiol").read_bytes()
        assert client.request("PUT", "/models/m/file", body=content).status == 201
        assert learn(client, body).status == 422
        assert learn(client, body, key="another").status == 422
        again = learn(client, body, key="k")
        assert (again.status, again.body) == (200, first.body)
        assert client.registry.models["m"].model.rounds == 0


def test_pending_predictions_and_early_labels_are_counted_by_model(tmp_path):
    def counted(client):
        client.server.status.made.clear()
        status = client.get("/status").json()
        lines = client.get("/metrics").body.decode().splitlines()
        for one in status["models"]:
            assert f'fiol_model_pending{{model="{one["name"]}"}} {float(one["pending"])}' in lines
        assert status["journal"]["pending"] == sum(one["pending"] for one in status["models"])
        return {one["name"]: (one["pending"], one["early"]) for one in status["models"]}

    with client_of(tmp_path, models=("m", "n")) as client:
        for k in range(5):
            predict(client, {"features": row(k)[0], "id": str(k)}, name="mmmnn"[k])
        learn(client, {"id": "early", "label": "no"}, name="n")
        assert counted(client) == {"m": (3, 0), "n": (2, 1)}
        again = {"rows": [{"features": row(9)[0], "id": "9"}, {"features": row(3)[0], "id": "3"}]}
        assert predict(client, again, name="n").status == 409  # its first row does not wait either
        assert counted(client) == {"m": (3, 0), "n": (2, 1)}
        assert outcome(client, "1", "yes") == "learned"
        predict(client, {"features": row(8)[0], "id": "early"}, name="n")
        assert counted(client) == {"m": (2, 0), "n": (2, 0)}
        counts = client.registry.writer.join_labels.counts()
        client.run_in_writer(client.registry.writer.join_labels.recount)
        assert {**client.registry.writer.join_labels.pending_of} == {**counts[0]}
        client.request("DELETE", "/models/m")
        assert counted(client) == {"n": (2, 0)}
    with client_of(tmp_path, models=()) as client:
        assert counted(client) == {"n": (2, 0)}
        client.run_in_writer(lambda: advance(client, 8 * 86400.0))
        assert counted(client) == {"n": (0, 0)}
