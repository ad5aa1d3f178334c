"""Figures for Prometheus and Grafana, and progressive metrics beside an independent computation."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from server.serving import SPECIFICATION, client_of, learn, open_registry, predict, row, rows

from fiol.server.messages import LearnRecord
from fiol.server.model_metrics import FIRST_SERVED_WINDOW, MOST_SERVED_WINDOWS, ProgressiveMetrics
from fiol.server.served_model import as_served
from fiol.server.specification import empty_model

ROOT = Path(__file__).parents[2]


def log_loss(score, label):
    """The logistic loss, by its definition."""
    return math.log1p(math.exp(-score if label == "yes" else score))


def test_progressive_loss_is_that_of_predictions_before_learning(tmp_path):
    registry = open_registry(tmp_path)
    served, reference = registry.models["m"], empty_model(SPECIFICATION)
    losses = []
    for k in range(250):
        features, label = row(k)
        losses.append(log_loss(float(reference.score_named(features)), label))
        reference.learn_named(features, label)
    for start in range(0, 250, 50):
        labels = [row(k)[1] for k in range(start, start + 50)]
        encoded = served.encode([row(k)[0] for k in range(start, start + 50)], labels)
        served.learn(encoded, LearnRecord([], []), start)
    found = served.metrics.status(served.model)
    registry.journal.close()
    assert found["loss"] == pytest.approx(np.mean(losses))
    assert found["windows"]["rows"] == [100, 100]
    means = [np.mean(losses[:100]), np.mean(losses[100:200])]
    assert found["windows"]["loss"] == pytest.approx(means, rel=1e-3)
    share = np.mean([row(k)[1] == "yes" for k in range(250)])
    assert found["label"] == pytest.approx(share)
    entropy = -share * math.log(share) - (1 - share) * math.log(1 - share)
    assert found["constant_loss"] == pytest.approx(entropy)
    weight = sum(one["weight"] for one in found["calibration"])
    happened = sum(one["weight"] * one["happened"] for one in found["calibration"])
    assert (weight, happened / weight) == (250, pytest.approx(share))


def test_loss_of_a_labeled_prediction_is_that_of_the_score_as_served(tmp_path):
    with client_of(tmp_path) as client:
        score = predict(client, {"features": row(1)[0], "id": "a"}).json()["predictions"][0]["score"]
        learn(client, {"rows": rows(0, 60)})
        before = client.run_in_writer(lambda: client.registry.models["m"].metrics.loss)
        learn(client, {"id": "a", "label": "yes"})
        after = client.run_in_writer(lambda: client.registry.models["m"].metrics.loss)
        assert after - before == pytest.approx(log_loss(score, "yes"))


def test_windows_are_merged_and_keep_their_sums():
    metrics = ProgressiveMetrics()
    model = empty_model(SPECIFICATION)
    n = FIRST_SERVED_WINDOW * (MOST_SERVED_WINDOWS + 10)
    y = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    metrics.add(model, np.zeros(n), y, np.ones(n), 0, n)
    found = metrics.status(model)
    assert metrics.width == 2 * FIRST_SERVED_WINDOW
    assert len(found["windows"]["rows"]) <= MOST_SERVED_WINDOWS
    assert sum(found["windows"]["rows"]) + metrics.open["rows"] == n
    assert found["loss"] == pytest.approx(math.log(2.0))
    assert found["windows"]["loss"] == pytest.approx([math.log(2.0)] * len(found["windows"]["loss"]), rel=1e-3)
    again = ProgressiveMetrics(json.loads(json.dumps(metrics.to_json())))
    assert again.status(model) == {**found, "drift": again.status(model)["drift"]}


def test_members_are_beside_the_loss_of_an_ensemble(tmp_path):
    with client_of(tmp_path) as client:
        ensemble = {name: value for name, value in SPECIFICATION.items() if name != "algorithm"}
        client.request("PUT", "/models/e", {"specification": ensemble})
        learn(client, {"rows": rows(0, 100)}, name="e")
        served = client.registry.models["e"]
        client.run_in_writer(served.publish)
        assert len(served.status["members"]) == 7
        first = [losses[0] for losses in served.status["windows"]["members"]]
        assert first == pytest.approx([member.loss for member in served.model.members], rel=1e-3)


def test_drift_is_marked_where_river_is_installed():
    pytest.importorskip("river")
    from fiol.server.model_metrics import DriftMarks

    marks, draw = DriftMarks(), np.random.default_rng(1)
    for k in range(400):
        marks.add(float(draw.normal(0.3 if k < 200 else 1.5, 0.05)), 25 * (k + 1), 25)
    assert marks.marks
    assert 25 * 200 <= marks.marks[0]["rows"] < 25 * 260


def metrics_of(text):
    """The names of figures in Prometheus' text, and lines that are none."""
    line = re.compile(r'^([a-z_0-9]+)(\{([a-z_]+="([^"\\]|\\.)*",?)*\})? (-?[0-9.e+-]+|nan|inf)$')
    found = [(one, line.match(one)) for one in text.splitlines() if not one.startswith("#")]
    return {match[1] for _, match in found if match}, [one for one, match in found if not match]


def test_prometheus_text_is_well_formed_and_grafana_uses_its_names(tmp_path):
    with client_of(tmp_path) as client:
        predict(client, {"features": row(1)[0], "id": "a"})
        learn(client, {"id": "a", "label": "yes"})
        learn(client, {"rows": rows(0, 120)})
        client.run_in_writer(client.registry.models["m"].publish)
        names, wrong = metrics_of(client.get("/metrics").body.decode())
    assert wrong == []
    assert {"fiol_requests_total", "fiol_model_loss", "fiol_model_labels_total", "fiol_journal_position"} <= names
    used = {*re.findall(r"fiol_[a-z_0-9]+", (ROOT / "docs" / "guides" / "grafana.json").read_text())}
    declared = {*re.findall(r'"(fiol_[a-z_]+)"', (ROOT / "src" / "fiol" / "server" / "prometheus.py").read_text())}
    journal = {f"fiol_journal_{name}" for name in ("commit_p50", "commit_p99", "queue_rows", "pending")}
    assert used <= declared | journal


def test_served_scores_of_other_classes_are_taken_where_the_model_has_them():
    scores = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert as_served(scores, [[7.0], [8.0, 9.0, 10.0], 0.5]).tolist() == [[7.0, 0.0], [8.0, 9.0], [5.0, 6.0]]
    assert as_served(np.array([1.0, 2.0]), [[7.0, 8.0], 0.5]).tolist() == [1.0, 0.5]
