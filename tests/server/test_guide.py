"""Requests of the guide on serving, as they are printed there, to a server with the model of `fiol demo`."""

import json
import re
from pathlib import Path

import pytest
from server.serving import client_of
from tests.commands import CliRunner

import fiol
from fiol.cli import main
from fiol.server.messages import LabelRules

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "serving.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def client(tmp_path):
    """A client of a server with the model `tickets`."""
    done = CliRunner().invoke(main, ["demo", str(tmp_path), "--rows", "250"])
    assert done.exit_code == 0, done.output
    model = fiol.train(str(tmp_path / "tickets.csv"), target="escalated", features="linear")
    with client_of(tmp_path / "journal", models=()) as client:
        client.run_in_writer(lambda: client.registry.add("tickets", model, LabelRules()))
        yield client


def rounds(client, name):
    """Return how many rows a model has learned from; `GET /models/NAME` describes a copy that may be older."""
    return client.registry.models[name].model.rounds


def send(client, start):
    """Return the answers to the requests by curl in the block that begins with this text; all are answered."""
    (block,) = (one for one in blocks("bash") if one.startswith(start))
    form = r"curl -s (?:-X (\w+) )?localhost:8080(\S+) -H 'content-type: application/json' \\\n +-d '(.*?)'"
    found = []
    for method, path, body in re.findall(form, block, re.DOTALL):
        answer = client.request(method or "POST", path, json.loads(body))
        assert answer.status in (200, 201), answer.body
        found.append(answer.json())
    assert len(found) == block.count("curl")
    return found


def test_requests_by_curl_are_answered(client):
    before = rounds(client, "tickets")
    predicted, _, _ = send(client, "curl -s localhost:8080/models/tickets/predict")
    (prediction,) = predicted["predictions"]
    assert prediction["label"] in predicted["labels"] == ["no", "yes"]
    assert sum(prediction["probabilities"]) == pytest.approx(1.0)
    assert rounds(client, "tickets") == before + 3


def test_shadow_by_curl_replaces_its_live_model(client):
    assert [*client.registry.models] == ["tickets"]
    send(client, "curl -s -X PUT")
    assert [*client.registry.models] == ["tickets", "candidate"]
    send(client, "curl -s -X POST")
    assert [*client.registry.models] == ["tickets"]
    assert rounds(client, "tickets") == 0


def test_python_client_of_the_guide_predicts_and_learns(client):
    (block,) = blocks("python")
    block = block.replace("127.0.0.1:8080", f"127.0.0.1:{client.port}").replace(
        "client.predict", "found = client.predict"
    )
    before = rounds(client, "tickets")
    names = {}
    exec(block, names)
    assert {"score", "label", "probabilities", "round"} <= names["found"].keys()
    assert rounds(client, "tickets") == before + 2


def test_specification_of_the_guide_makes_a_model_and_its_shadow(client):
    (block,) = blocks("json")
    answer = client.request("PUT", "/models/live", {"specification": json.loads(block)})
    assert answer.status == 201, answer.body
    (shadow,) = re.findall(r'`(\{"copy_of".*?\})`', GUIDE)
    answer = client.request("PUT", "/models/words", json.loads(shadow.replace("tickets", "live")))
    assert answer.status == 201, answer.body
    row = {"features": {"product": "billing", "plan": "team", "message": "urgent refund"}, "label": "yes"}
    assert client.post("/models/live/learn", {"rows": [row]}).status == 200
    assert rounds(client, "words") == 1
    assert client.post("/models/live/promote", {}).status == 200
