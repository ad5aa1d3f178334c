"""Wrong tokens, foreign pages, bad bodies, slow and half-closed clients: no error of the server, no leak."""

import gzip
import json
import random
import socket
import threading
import time

import pytest
from server.serving import SPECIFICATION, client_of, learn, predict, row, rows

from fiol.server.access import Access
from fiol.server.app import ROUTES, Limits
from fiol.server.openapi import openapi

pytestmark = pytest.mark.filterwarnings("ignore:dicts have keys that are no columns")

READ, WRITE = "r" * 20, "w" * 20
JSON = {"content-type": "application/json"}


@pytest.fixture
def guarded(tmp_path):
    """A server with tokens."""
    with client_of(tmp_path, Access((READ,), (WRITE,))) as client:
        yield client


def with_token(token):
    """Headers with a bearer token."""
    return {"authorization": f"Bearer {token}", **JSON}


@pytest.mark.parametrize(("path", "method", "needs"), [(path, method, needs) for path, method, _, needs in ROUTES])
def test_every_route_needs_its_role(guarded, path, method, needs):
    path = path.replace("{name}", "m")
    statuses = {
        who: guarded.request(method, path, body=b"{}", headers=headers).status
        for who, headers in (
            ("nobody", JSON),
            ("wrong", with_token("x" * 20)),
            ("basic", {"authorization": f"Basic {WRITE}", **JSON}),
            ("cookie", {"cookie": "fiol_token=nothing", **JSON}),
        )
    }
    assert {*statuses.values()} == {401} if needs is not None else 401 not in {*statuses.values()} - {422}
    if needs == "write":
        assert guarded.request(method, path, body=b"{}", headers=with_token(READ)).status == 403


def test_reading_token_predicts_but_writes_nothing(guarded):
    assert predict(guarded, {"features": row(1)[0]}, headers=with_token(READ)).status == 200
    assert predict(guarded, {"features": row(1)[0], "id": "a"}, headers=with_token(READ)).status == 403
    assert predict(guarded, {"features": row(1)[0], "id": "a"}, headers=with_token(WRITE)).status == 200


def test_session_sets_a_cookie_that_scripts_cannot_read(guarded):
    assert guarded.post("/session", {"token": "wrong" * 5}).status == 401
    answer = guarded.post("/session", {"token": READ})
    cookie = answer.headers["set-cookie"]
    assert answer.json() == {"role": "read"}
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert guarded.get("/status", headers={"cookie": cookie.partition(";")[0]}).status == 200


def test_pages_of_other_sites_and_names_are_refused(tmp_path):
    with client_of(tmp_path, Access(hosts=("localhost", "127.0.0.1"))) as client:
        assert client.get("/status").status == 200
        assert client.get("/status", headers={"origin": "http://evil.example"}).status == 403
        assert client.get("/status", headers={"origin": f"http://127.0.0.1:{client.port}"}).status == 200
        assert client.get("/status", headers={"origin": "http://127.0.0.1:1"}).status == 403  # of another server here
        for origin, host, status in (
            ("https://localhost", "localhost:443", 200),  # a proxy that adds the usual port
            ("http://localhost", "localhost:80", 200),
            ("http://localhost", "localhost:443", 403),
            ("null", "localhost", 403),
        ):
            assert client.get("/status", headers={"origin": origin, "host": host}).status == status
        assert client.get("/status", headers={"host": "evil.example"}).status == 421
        answer = client.request("POST", "/models/m/learn", body=b"{}", headers={"content-type": "text/plain"})
        assert answer.status == 415  # what a form of another site could send


def test_rate_is_limited_by_client(tmp_path):
    with client_of(tmp_path, Access(rate=2.0)) as client:
        answers = [client.get("/status") for _ in range(6)]
        assert [answer.status for answer in answers[:4]] == [200] * 4
        assert answers[-1].status == 429
        assert int(answers[-1].headers["retry-after"]) >= 1


def test_rate_of_wrong_tokens_is_limited(tmp_path):
    with client_of(tmp_path, Access((READ,), (WRITE,), rate=2.0)) as client:
        answers = [client.get("/status", headers=with_token("x" * 20)) for _ in range(6)]
        assert [answer.status for answer in answers[:4]] == [401] * 4
        assert answers[-1].status == 429


def test_limits_on_body_and_rows(tmp_path):
    with client_of(tmp_path, limits=Limits(body=2000, rows=5, upload=100)) as client:
        assert learn(client, {"rows": rows(0, 6)}).status == 413
        assert client.request("POST", "/models/m/learn", body=b" " * 3000, headers=JSON).status == 413
        chunked = (b" " * 500 for _ in range(20))  # no content-length
        assert client.request("POST", "/models/m/learn", body=chunked, headers=JSON).status == 413
        client.connection.close()
        assert client.request("PUT", "/models/n/file", body=b" " * 200).status == 413
        client.connection.close()
        bomb = gzip.compress(b"0" * 1_000_000)[:1900]
        headers = {**JSON, "content-encoding": "gzip"}
        assert client.request("POST", "/models/m/learn", body=bomb, headers=headers).status == 415
        assert client.registry.models["m"].model.rounds == 0


def test_arrow_rows_and_compressed_arrow(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    ipc = pytest.importorskip("pyarrow.ipc")
    columns = {
        "size": [1.0, -2.0, None],
        "color": ["red", "blue", "red"],
        "y": ["yes", "no", "yes"],
        "k": ["a", "b", "c"],
    }
    kind = {"content-type": "application/vnd.apache.arrow.stream"}

    def stream(table, **options):
        sink = arrow.BufferOutputStream()
        with ipc.new_stream(sink, table.schema, options=ipc.IpcWriteOptions(**options)) as writer:
            writer.write_table(table)
        return sink.getvalue().to_pybytes()

    def post(path, body):
        return client.request("POST", path, body=body, headers=kind)

    with client_of(tmp_path) as client:
        table = arrow.table(columns)
        answer = post("/models/m/learn?label=y&id=k", stream(table))
        assert answer.json()["outcomes"] == {"learned": 3}, answer
        assert post("/models/m/learn?label=y&id=k", stream(table)).json()["outcomes"] == {"duplicate": 3}
        assert len(post("/models/m/predict?id=k", stream(table.drop_columns(["y"]))).json()["error"]) > 0
        found = post("/models/m/predict", stream(table.drop_columns(["y", "k"]))).json()
        assert len(found["predictions"]) == 3
        assert post("/models/m/learn?label=nothing", stream(table)).status == 422
        assert post("/models/m/learn", stream(table)).status == 422
        infinite = {"size": [1.0, float("-inf")], "y": ["yes", "no"], "k": [1.0, float("nan")]}
        found = post("/models/m/learn?label=y", stream(arrow.table(infinite))).json()["error"]
        assert found == {"reason": "'size' must be finite, got -inf", "row": 1, "column": "size"}
        del infinite["size"]
        found = post("/models/m/learn?label=y&id=k", stream(arrow.table(infinite))).json()["error"]
        assert found == {"reason": "ids are strings or whole numbers, got 1.0", "row": 0}
        for compression in ("lz4", "zstd"):
            bomb = stream(arrow.table({"size": [0.0] * 100_000, "y": ["no"] * 100_000}), compression=compression)
            assert post("/models/m/learn?label=y", bomb).status == 415
        assert post("/models/m/learn?label=y", stream(table)[:-50]).status in (200, 422)
        assert post("/models/m/learn?label=y", b"ARROW1 nonsense").status == 422
        assert post("/models/m/learn?label=y", b"").status == 422


def test_lines_of_json(tmp_path):
    kind = {"content-type": "application/x-ndjson"}
    with client_of(tmp_path) as client:
        lines = "\n".join(json.dumps(one) for one in rows(0, 5)).encode()
        answer = client.request("POST", "/models/m/learn", body=lines, headers=kind)
        assert answer.json()["outcomes"] == {"learned": 5}
        lines = "\n".join(json.dumps({"features": row(k)[0], "id": str(k)}) for k in range(3)).encode()
        answer = client.request("POST", "/models/m/predict", body=lines, headers=kind)
        found = [json.loads(line) for line in answer.body.splitlines()]
        assert [one["id"] for one in found] == ["0", "1", "2"]
        assert {one["round"] for one in found} <= {0, 5}
        for end in (b"{", b'{"label": 3, "features": {}}'):  # empty lines are no rows
            body = b'{"label": "no", "features": {}}\n\n' + end
            bad = client.request("POST", "/models/m/learn", body=body, headers=kind)
            assert (bad.status, bad.json()["error"]["row"]) == (422, 1), end
        bad = client.request("POST", "/models/m/learn", body=b'{"label": "no", "features": {}}\n{', headers=kind)
        assert (bad.status, bad.json()["error"]["row"]) == (422, 1)
        assert client.registry.models["m"].model.rounds == 5


@pytest.mark.parametrize("more", [{"id": "a"}, {"features": {}}, {"label": "no"}, {"weight": 5.0}])
def test_what_is_said_of_one_row_beside_rows_is_refused(tmp_path, more):
    with client_of(tmp_path) as client:
        for ask, some in ((learn, rows(0, 1)), (predict, [{"features": row(0)[0]}])):
            answer = ask(client, {"rows": some, **more})
            assert answer.status == 422, answer
        assert client.registry.models["m"].model.rounds == 0


def test_rows_of_many_bytes_are_predicted_beside_other_requests(tmp_path, monkeypatch):
    with client_of(tmp_path) as client:
        threads, found = [], client.registry.models["m"].reader.predict
        monkeypatch.setattr(
            type(client.registry.models["m"].reader),
            "predict",
            lambda _, *given: threads.append(threading.current_thread().name) or found(*given),
        )
        for text in ("red", "red" * 50_000):
            assert predict(client, {"features": {"color": text}}).status == 200
        assert threads[0] != threads[1]


#: Bodies that are wrong, or nearly right.
BODIES = [
    b"",
    b"null",
    b"[]",
    b"{",
    b'{"rows": []}',
    b'{"rows": [null]}',
    b'{"rows": {}}',
    b'{"features": []}',
    b'{"features": {"size": []}, "label": "no"}',
    b'{"features": {"size": {}}, "label": "no"}',
    b'{"features": {"size": [[1]], "color": {"a": {"b": 1}}}, "label": "no"}',
    b'{"features": {"size": 1e999}, "label": "no"}',
    b'{"features": {"size": 1e308}, "label": "no", "weight": 1e90}',
    b'{"features": {"size": 123456789012345678901234567890}, "label": "no"}',
    b'{"features": {"color": "\\u0000"}, "label": "no"}',
    b'{"features": {"color": "\\ud800"}, "label": "no"}',
    b'{"features": {}, "label": []}',
    b'{"features": {}, "label": null}',
    b'{"features": {}, "label": "no", "weight": -1}',
    b'{"features": {}, "label": "no", "weight": "much"}',
    b'{"features": {}, "label": "no", "id": ""}',
    b'{"features": {}, "label": "no", "more": 1}',
    b'{"id": "\\u0000", "label": "no"}',
    b"\xff\xfe{}",
    b"[" * 100_000,
    b'{"features": ' + b'{"a":' * 2000 + b"1" + b"}" * 2001,
    b'{"features": {"size": true, "color": false}, "label": true}',
]


def test_bad_bodies_are_answered_and_the_model_stays_finite(tmp_path):
    with client_of(tmp_path) as client:
        learn(client, {"rows": rows(0, 10)})
        for path in ("predict", "learn", "rollback", "promote"):
            for body in BODIES:
                answer = client.request("POST", f"/models/m/{path}", body=body, headers=JSON)
                assert answer.status in (200, 404, 409, 422), (path, body[:60], answer)
                assert answer.status == 200 or answer.json()["error"]["reason"], body[:60]
        for body in BODIES:
            assert client.request("PUT", "/models/x", body=body, headers=JSON).status in (413, 422), body[:60]
            assert client.request("PUT", "/models/m/rules", body=body, headers=JSON).status in (200, 422), body[:60]
        assert learn(client, {"rows": rows(0, 10)}).status == 200
        score = predict(client, {"features": row(1)[0]}).json()["predictions"][0]["score"]
        assert score is not None
        assert [one for one in client.server.figures.errors if one["status"] >= 500] == []


def test_mutated_requests_never_fail_the_server(tmp_path):
    draw, good = random.Random(3), json.dumps({"rows": rows(0, 3)}).encode()
    with client_of(tmp_path) as client:
        for _ in range(150):
            body = bytearray(good)
            for _ in range(draw.randrange(1, 5)):
                body[draw.randrange(len(body))] = draw.choice(b'{}[]",:0e-x\x00\xff')
            path = draw.choice(["predict", "learn"])
            answer = client.request("POST", f"/models/m/{path}", body=bytes(body), headers=JSON)
            assert answer.status in (200, 422), (bytes(body), answer)
        assert learn(client, {"rows": rows(0, 3)}).status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static//etc/passwd",
        "/models/..%2f..%2fetc",
        "/models/m%00",
        "/models/m%0a",
        "/models/m/snapshots/../../x",
        "/models/" + "m" * 5000,
        "//",
    ],
)
def test_path_tricks_find_nothing(tmp_path, path):
    with client_of(tmp_path) as client:
        answer = client.get(path)
        assert answer.status in (400, 404, 405), answer
        assert b"root:" not in answer.body
        assert b"Starlette" not in answer.body


def test_slow_half_closed_and_idle_clients_do_not_disturb_others(tmp_path):
    with client_of(tmp_path) as client:
        address = "127.0.0.1", client.port
        idle = [socket.create_connection(address) for _ in range(200)]
        slow = socket.create_connection(address)
        slow.sendall(b"POST /models/m/learn HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        slow.sendall(b"Content-Length: 1000\r\n\r\n{")
        half = socket.create_connection(address)
        half.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        half.shutdown(socket.SHUT_WR)
        gone = socket.create_connection(address)
        body = json.dumps({"rows": rows(0, 5)}).encode()
        head = b"POST /models/m/learn HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        gone.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        gone.close()  # without waiting for the answer
        broken = socket.create_connection(address)
        broken.sendall(b"\x16\x03\x01nonsense\r\n\r\n")
        half.settimeout(5)
        half.recv(1000)
        assert learn(client, {"rows": rows(5, 10)}).status == 200
        assert predict(client, {"features": row(0)[0]}).status == 200
        for one in (*idle, slow, half, broken):
            one.close()
        started = time.monotonic()
        while client.registry.models["m"].model.rounds not in (5, 10):
            assert time.monotonic() - started < 10
        assert client.get("/healthz").status == 200


def test_body_that_is_not_complete_at_the_end_is_refused_without_a_traceback(tmp_path, capfd):
    with client_of(tmp_path) as client:
        slow = socket.create_connection(("127.0.0.1", client.port))
        head = b"POST /models/m/learn HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        slow.sendall(head + b"content-length: 100\r\n\r\n{")
        assert client.get("/healthz").status == 200  # the request before has begun
    with slow:
        answer = b"".join(iter(lambda: slow.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"the body was not complete when the server stopped" in answer
    assert "Traceback" not in capfd.readouterr().err


def test_full_queue_is_answered_with_429(tmp_path):
    with client_of(tmp_path, queue_rows=10) as client:
        writer = client.registry.writer
        with writer.changed:
            writer.waiting_rows += 10
            writer.waiting.append(None)
            writer.changed.notify = lambda: None
            refused = []

            async def submit():
                from fiol.server.labels import RefusedError
                from fiol.server.writer import LearnCommand

                try:
                    writer.submit(LearnCommand("m", 1))
                except RefusedError as error:
                    refused.append((error.status, error.retry))

            import asyncio

            asyncio.run(submit())
            writer.waiting.pop()
            writer.waiting_rows -= 10
            del writer.changed.notify
        assert refused == [(429, 1.0)]
        assert learn(client, {"rows": rows(0, 30)}).status == 200  # one request that is larger than the queue


def test_secrets_and_rows_are_not_in_logs(tmp_path, capfd):
    said = []
    with client_of(tmp_path, Access((READ,), (WRITE,)), said=said) as client:
        learn(client, {"rows": rows(0, 3)})
        client.post("/models/m/learn", {"rows": rows(0, 3)}, headers=with_token(WRITE))
        client.post("/models/m/learn", {"features": {"size": "secret-value"}, "label": "no"}, headers=with_token(WRITE))
        client.post("/session", {"token": WRITE})
        client.get(f"/status?token={WRITE}")
        errors = json.dumps(client.server.figures.status())
    out, err = capfd.readouterr()
    for text in (out, err, " ".join(said)):
        assert WRITE not in text
        assert "secret-value" not in text
    assert WRITE not in errors  # readers of the dashboard see reasons


def test_openapi_describes_every_route():
    described = {
        (path, method.upper()) for path, item in openapi()["paths"].items() for method in item if method != "parameters"
    }
    routes = {(path, method) for path, method, _, _ in ROUTES}
    assert described == routes - {("/", "GET"), ("/events", "GET")}


def test_schemathesis_finds_no_error_of_the_server(tmp_path):
    schemathesis = pytest.importorskip("schemathesis")
    import requests
    from hypothesis import HealthCheck, Phase, given, settings
    from schemathesis.specs.openapi.checks import positive_data_acceptance  # a schema cannot say all

    with client_of(tmp_path) as client:
        learn(client, {"rows": rows(0, 5)})
        schema = schemathesis.openapi.from_dict(openapi())
        for found in schema.get_all_operations():
            operation = found.ok()

            @given(case=operation.as_strategy())
            @settings(
                max_examples=8,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                phases=[Phase.generate],
                database=None,
                derandomize=True,
            )
            def check(case):
                with requests.Session() as session:
                    answer = case.call(base_url=f"http://127.0.0.1:{client.port}", session=session)
                assert answer.status_code < 500, (case.as_curl_command(), answer.text)
                case.validate_response(answer, excluded_checks=[positive_data_acceptance])

            check()
        if "m" not in client.registry.models:  # a request may have removed it
            client.request("PUT", "/models/m", {"specification": SPECIFICATION})
        assert learn(client, {"rows": rows(0, 5)}).status == 200
