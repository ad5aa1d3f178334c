"""Figures that the dashboard draws: samples, windows, changes of weights, and who may see them."""

import http.client
import json
import math

import numpy as np
import pytest
from tests.server.serving import SPECIFICATION, client_of, learn, predict, row, rows

from fiol.server.access import COOKIE, Access
from fiol.server.messages import LabelRules
from fiol.server.model_metrics import ProgressiveMetrics
from fiol.server.specification import empty_model
from fiol.server.weight_changes import WeightChanges

READ, WRITE = "a token that may read".replace(" ", "-"), "a token that may write".replace(" ", "-")


def events_of(client, path, count):
    """The first events of a stream as pairs of name and JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=20)
    connection.request("GET", path)
    answer, found = connection.getresponse(), []
    while len(found) < count:
        line = answer.readline().decode().rstrip("\n")
        if line.startswith("event: "):
            found.append((line.removeprefix("event: "), json.loads(answer.readline().decode().removeprefix("data: "))))
    connection.close()
    return found


def test_stream_begins_with_the_history_and_continues_with_samples(tmp_path):
    with client_of(tmp_path) as client:
        learn(client, {"rows": rows(0, 5)})
        (first, history), (second, status), (third, later) = events_of(client, "/events?model=m", 3)
    assert (first, second, third) == ("history", "status", "status")
    assert {len(column) for column in history["server"].values()} == {len(history["server"]["time"])}
    assert set(status["sample"]["server"]) == set(history["server"])
    assert set(status["sample"]["model"]) == set(history["model"])
    assert later["time"] > status["time"]


def test_history_counts_requests_and_flows_between_samples(tmp_path):
    with client_of(tmp_path) as client:
        page = client.server.status
        page.history.counters.clear()
        page.sample()
        for k in range(20):
            predict(client, {"features": row(k)[0], "id": f"{k}"})
        learn(client, {"rows": [{"id": f"{k}", "label": "no"} for k in range(8)]})
        learn(client, {"rows": "wrong"})
        page.sample()
        server, model = page.history.last("m")["server"], page.history.last("m")["model"]
        page.history.counters.clear()
        page.sample()
        after = page.history.last("m")["server"]
    assert server["requests"] == pytest.approx(22 * server["errors"], rel=1e-4)
    assert model["predicted"] == pytest.approx(2.5 * model["labeled"], rel=1e-4)
    assert 0.0 < server["commit_p50"] <= server["commit_p99"]
    assert 0.0 < server["predict_p50"] <= server["predict_p99"]
    assert server["pending"] == 12
    assert (after["requests"], after["commit_p50"], after["predict_p50"]) == (0.0, None, None)


def test_status_has_the_details_of_the_shown_model_and_its_shadows_alone(tmp_path):
    with client_of(tmp_path, models=("m", "other")) as client:
        client.request("PUT", "/models/copy", {"copy_of": "m", "shadow_of": "m"})
        learn(client, {"rows": rows(0, 120)})
        client.run_in_writer(lambda: [one.publish() for one in client.registry.models.values()])
        status = client.get("/status?model=m").json()
        first = client.get("/status?model=unknown").json()
    windows = {one["name"]: one["metrics"].get("windows") for one in status["models"]}
    assert status["shown"] == first["shown"] == "m"
    assert windows["other"] is None
    assert windows["m"]["rows"] == windows["copy"]["rows"] == [100]
    assert len(windows["m"]["members"]) == len(status["models"][0]["metrics"]["members"])


def test_window_columns_are_the_means_of_their_rows(tmp_path):
    with client_of(tmp_path) as client:
        scores = [predict(client, {"features": row(k)[0], "id": f"{k}"}).json()["predictions"][0] for k in range(200)]
        labels = [row(k)[1] for k in range(200)]
        learn(client, {"rows": [{"id": f"{k}", "label": label} for k, label in enumerate(labels)]})
        client.run_in_writer(client.registry.models["m"].publish)
        windows = client.get("/status").json()["models"][0]["metrics"]["windows"]
    shares = np.array([one["probabilities"][1] for one in scores]).reshape(2, 100)
    positive = np.array([label == "yes" for label in labels]).reshape(2, 100)
    np.testing.assert_allclose(windows["prediction"], shares.mean(1), rtol=1e-5)
    np.testing.assert_allclose(windows["label"], positive.mean(1), rtol=1e-5)
    losses = -np.log(np.where(positive, shares, 1.0 - shares))
    np.testing.assert_allclose(windows["loss"], losses.mean(1), rtol=1e-5)
    p = positive.mean(1)
    np.testing.assert_allclose(windows["constant_loss"], -p * np.log(p) - (1 - p) * np.log(1 - p), rtol=1e-5)


def test_loss_of_a_shadow_is_by_its_own_scores_and_not_by_those_served(tmp_path):
    other = {**SPECIFICATION, "algorithm": "SGD", "step_size": 30.0}
    with client_of(tmp_path) as client:
        client.request("PUT", "/models/s", {"specification": other, "shadow_of": "m"})
        for k in range(60):
            predict(client, {"features": row(k)[0], "id": f"{k}"})
        learn(client, {"rows": [{"id": f"{k}", "label": row(k)[1]} for k in range(60)]})
        live, shadow = (client.registry.models[name].metrics for name in "ms")
        found = client.run_in_writer(lambda: (live.loss / live.mass, shadow.loss / shadow.mass))
    alone = empty_model(other)
    signs = np.array([1.0 if row(k)[1] == "yes" else -1.0 for k in range(60)])
    scores = alone.learn([row(k)[0] for k in range(60)], [row(k)[1] for k in range(60)])
    assert found[0] == pytest.approx(math.log(2.0))  # all predictions were made before the first label
    assert found[1] == pytest.approx(np.logaddexp(0.0, -signs * scores).mean(), rel=1e-9)
    assert abs(found[0] - found[1]) > 1e-3


def test_delays_are_those_of_labels_and_not_of_expired_predictions():
    metrics = ProgressiveMetrics()
    metrics.note_labels({"learned": 3}, [1.0, None, 3.0])
    metrics.note_labels({"expired": 2}, [1000.0, 1000.0])
    assert metrics.labels == {"learned": 3, "labeled": 2, "expired": 2}
    assert list(metrics.delays) == [1.0, 3.0]


def test_default_label_of_expired_predictions_is_no_delay(tmp_path):
    with client_of(tmp_path, rules=LabelRules(horizon=0.001, default="no")) as client:
        predict(client, {"features": row(0)[0], "id": "a"})
        client.registry.journal.clock.start += 1.0
        client.run_in_writer(lambda: client.registry.writer._expire())
        metrics = client.registry.models["m"].metrics
        assert metrics.labels["expired"] == 1
        assert "labeled" not in metrics.labels
        assert not metrics.delays


class Weights:
    """A snapshot of weights by name."""

    def __init__(self, names, weights):
        self.names, self.weights = names, np.array(weights)


def test_weight_changes_are_those_since_the_oldest_weights():
    changes = WeightChanges()
    changes.compare(Weights(["a", "b"], [1.0, 2.0]))
    assert changes.moved == []
    changes.compare(Weights(["a", "b", "c"], [0.0, 2.5, -3.0]))
    assert [(one["name"], one["change"]) for one in changes.moved] == [("c", -3.0), ("a", -1.0), ("b", 0.5)]
    assert changes.nonzeros == 2


def test_weight_changes_start_again_with_another_model():
    changes = WeightChanges()
    changes.compare(Weights(["a", "b"], [1.0, 2.0]))
    changes.compare(Weights(["b", "a"], [1.0, 2.0]))
    assert changes.moved == []
    changes.compare(Weights(["b"], [5.0]))
    assert changes.moved == []


def test_cookie_of_the_dashboard_reads_and_never_writes(tmp_path):
    access = Access(read_tokens=(READ,), write_tokens=(WRITE,))
    with client_of(tmp_path, access) as client:
        assert client.get("/status").status == 401
        assert client.post("/session", {"token": "wrong"}).status == 401
        for token in (READ, WRITE):
            answer = client.post("/session", {"token": token})
            cookie = answer.headers["set-cookie"]
            assert token not in cookie
            assert "HttpOnly" in cookie
            assert "SameSite=strict" in cookie
            sent = {"cookie": cookie.partition(";")[0]}
            assert client.get("/status", headers=sent).status == 200
            assert client.post("/models/m/snapshots", headers=sent).status == 403
        assert client.get("/status", headers={"cookie": f"{COOKIE}={WRITE}"}).status == 401
        assert client.post("/models/m/snapshots", headers={"authorization": f"Bearer {WRITE}"}).status == 201


def test_page_and_its_files_have_a_strict_policy(tmp_path):
    with client_of(tmp_path) as client:
        answers = [client.get(path) for path in ("/", "/static/main.js", "/static/dashboard.css")]
        outside = client.get("/static/../app.py")
    for answer in answers:
        assert answer.status == 200
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert b"<script>" not in answers[0].body
    assert b" style=" not in answers[0].body
    assert outside.status == 404
