"""Rows to predict for and to learn from."""

from server.serving import client_of, learn, predict, row, rows


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
