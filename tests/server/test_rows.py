"""Rows to predict for and to learn from."""

import socket

import pytest
from server.serving import client_of, learn, predict, row, rows

from fiol.server.run import bound_socket


def test_prediction_has_score_label_probabilities_and_round(tmp_path):
    with client_of(tmp_path) as client:
        assert learn(client, {"rows": rows(0, 40)}).json() == {
            "model": "m",
            "position": 2,
            "rows": 40,
            "outcomes": {"learned": 40},
        }
        client.registry.models["m"].refresh()
        found = predict(client, {"features": row(1)[0]}).json()
        one = found["predictions"][0]
        assert found["round"] == 40
        assert found["labels"] == ["no", "yes"]
        assert one["label"] == ("yes" if one["score"] > 0 else "no")
        assert abs(sum(one["probabilities"]) - 1.0) < 1e-12
        many = predict(client, {"rows": [{"features": row(1)[0]}, {"features": row(2)[0]}]}).json()
        assert many["predictions"][0] == one


def test_bad_row_is_named_and_nothing_of_its_request_is_learned(tmp_path):
    with client_of(tmp_path) as client:
        bad = [*rows(0, 3), {"features": {"size": "large"}, "label": "no"}, *rows(3, 5)]
        answer = learn(client, {"rows": bad})
        assert answer.status == 422
        assert answer.json()["error"] == {
            "reason": "'size' must be a number, got 'large'",
            "row": 3,
            "column": "size",
        }
        answer = learn(client, {"rows": [*rows(0, 2), {"features": row(0)[0], "label": "maybe"}]})
        assert (answer.status, answer.json()["error"]["row"]) == (422, 2)
        assert client.registry.models["m"].model.rounds == 0
        assert learn(client, {"rows": rows(0, 3)}).json()["position"] == 2


def test_body_without_features_is_refused_with_what_was_expected(tmp_path):
    with client_of(tmp_path) as client:
        for body in ({}, {"size": 1.0}, {"rows": [{"size": 1.0}]}):
            answer = predict(client, body)
            assert answer.status == 422
            assert 'expected {"features": {...}}' in answer.json()["error"]["reason"], body
        reason = learn(client, {"size": 1.0, "label": "no"}).json()["error"]["reason"]
        assert reason.endswith('unknown field `size`; expected {"features": {...}}, and "label" to learn')


def test_third_label_is_refused_with_the_labels_of_the_model(tmp_path):
    with client_of(tmp_path) as client:
        reason = learn(client, {"features": row(0)[0], "label": "maybe"}).json()["error"]["reason"]
        assert "'maybe' is neither 'no' nor 'yes', the two labels of the model" in reason


def test_port_in_use_is_named_with_a_way_out():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"^port {port} of 127.0.0.1 is in use: .*--port 0$"):
            bound_socket("127.0.0.1", port)
