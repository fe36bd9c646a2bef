"""`edgebert serve`: what is refused, with which status, in OpenAI's shape."""

from __future__ import annotations

import http.client
import json

import pytest

from tests.edgebert.bundles import write_bundle
from tests.features.served import WAIT_SECONDS, held_engine, running, wait_until

JSON = {"Content-Type": "application/json"}
PATH = "/v1/embeddings"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve") / "embedder"
    write_bundle(folder, task="feature-extraction", sick="fun")
    return folder


@pytest.fixture(scope="module")
def served(folder):
    with running(folder, max_body_bytes=2000, max_inputs=5) as served:
        yield served


@pytest.mark.parametrize(
    ("fields", "param", "said"),
    [
        ({}, "input", "is missing"),
        ({"input": None}, "input", "not null"),
        ({"input": 3}, "input", "not a number"),
        ({"input": {"text": "a"}}, "input", "not an object"),
        ({"input": []}, "input", "empty list"),
        ({"input": ["a"] * 6}, "input", "has 6 items; this server takes 5"),
        ({"input": ["a", None]}, "input", "input[1] is None"),
        ({"input": ["a", 3]}, "input", "input[1] is of type int"),
        ({"input": [101, 102]}, "input", "token ids"),
        ({"input": [[101, 102], [103]]}, "input", "token ids"),
        ({"input": "a", "encoding_format": "hex"}, "encoding_format", "'float', 'base64'"),
        ({"input": "a", "dimensions": 0}, "dimensions", "from 1 to 8"),
        ({"input": "a", "dimensions": 9}, "dimensions", "from 1 to 8"),
        ({"input": "a", "dimensions": True}, "dimensions", "from 1 to 8"),
        ({"input": "a", "dimensions": 2.0}, "dimensions", "from 1 to 8"),
        ({"input": "a", "role": "user"}, "role", "'query', 'document'"),
        ({"input": "a", "role": "query", "input_type": "document"}, "input_type", "one of them"),
        ({"input": "a", "on_long": "cut"}, "on_long", "'truncate'"),
        ({"input": "a", "truncate": True}, "truncate", "no field"),
        ({"input": "a", "model": 3}, "model", "must be the string 'embedder'"),
    ],
)
def test_a_wrong_field_is_400_and_named(served, fields, param, said):
    reply = served.post(**fields)
    assert reply.status == 400
    assert said in reply.error["message"]
    assert reply.error["param"] == param
    assert reply.error["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b'"a"', b"[1]", b"\xff{}", b'{"model": NaN}', b'{"a": 1, "a": 2}', b"[" * 1500],
)
def test_what_is_no_json_object_is_400(served, body):
    reply = served.ask("POST", PATH, body, JSON)
    assert reply.status == 400
    assert reply.error["message"]


def test_half_a_surrogate_pair_is_400(served):
    body = b'{"model": "embedder", "input": "\\ud800"}'
    assert served.ask("POST", PATH, body, JSON).status == 400


def test_another_model_is_404(served):
    reply = served.ask("POST", PATH, {"model": "ada", "input": "a"})
    assert (reply.status, reply.error["code"]) == (404, "model_not_found")


@pytest.mark.parametrize("path", ["/", "/v1/chat/completions", "/v1", "/docs"])
def test_an_unknown_path_is_404_and_says_where_to_ask(served, path):
    reply = served.ask("POST", path, {"model": "embedder", "input": "a"})
    assert reply.status == 404
    assert "POST to /v1/embeddings" in reply.error["message"]


def test_another_method_is_405_and_says_which(served):
    reply = served.ask("GET", PATH)
    assert (reply.status, reply.headers["allow"]) == (405, "POST")
    assert reply.error["message"]
    assert served.ask("DELETE", "/health").status == 405


@pytest.mark.parametrize(
    "headers",
    [{}, {"Content-Type": "text/plain"}, {**JSON, "Content-Encoding": "gzip"}],
)
def test_another_type_or_coding_is_415(served, headers):
    assert served.ask("POST", PATH, b"{}", headers).status == 415


def test_a_type_may_name_its_charset(served):
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    body = json.dumps({"model": "embedder", "input": "a"}).encode()
    assert served.ask("POST", PATH, body, headers).status == 200


def test_a_body_too_large_is_413(served):
    assert served.ask("POST", PATH, b" " * 2001, JSON).status == 413
    fits = json.dumps({"model": "embedder", "input": "a"}).encode().ljust(2000)
    assert served.ask("POST", PATH, fits, JSON).status == 200


def test_a_chunked_body_too_large_is_413(served):
    chunks = iter([b" " * 500] * 50)
    reply = served.ask("POST", PATH, chunks, {**JSON, "Transfer-Encoding": "chunked"})
    assert (reply.status, reply.error["code"]) == (413, "body_too_large")


@pytest.mark.parametrize(
    "given", [None, "Bearer wrong", "Bearer ", "Basic secret", "secret", "Bearer s\u00e9cret"]
)
def test_without_a_right_key_all_of_v1_is_401(folder, given):
    headers = {} if given is None else {"Authorization": given}
    with running(folder, api_keys=("other", "secret")) as served:
        for method, path in (("POST", PATH), ("GET", "/v1/models"), ("GET", "/v1/nothing")):
            reply = served.ask(method, path, headers=headers)
            assert (reply.status, reply.error["code"]) == (401, "invalid_api_key")
            assert reply.headers["www-authenticate"] == "Bearer"
        assert served.ask("GET", "/health").status == 200


@pytest.mark.parametrize("host", ["x/y?", "x?", "x#", "["])
def test_no_host_that_a_client_makes_up_opens_v1(folder, host):
    with running(folder, api_keys=("secret",)) as served:
        reply = served.ask("GET", "/v1/models", headers={"Host": host})
        assert reply.status == 401


def test_each_key_opens(folder):
    with running(folder, api_keys=("other", "secret")) as served:
        for key in ("other", "secret"):
            headers = {"Authorization": f"Bearer {key}"}
            assert served.ask("GET", "/v1/models", headers=headers).status == 200


def test_a_failure_of_the_engine_is_500_and_names_no_file(served, folder, caplog):
    reply = served.post(input=["good", "fun"])
    assert (reply.status, reply.error["type"]) == (500, "server_error")
    assert str(folder.parent) not in reply.body.decode()
    assert "model.onnx" not in reply.body.decode()
    assert reply.headers["x-request-id"] in reply.error["message"]
    [told] = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
    assert reply.headers["x-request-id"] in told
    assert "NaN or infinity" in told
    assert served.post(input="good").status == 200


def divide(*_args, **_options):
    return 1 / 0


def test_a_mistake_of_ours_is_500_in_the_same_shape(folder, monkeypatch):
    with running(folder) as served:
        monkeypatch.setattr(served.runtime, "encode", divide)
        reply = served.post(input="good")
    assert (reply.status, reply.error["code"]) == (500, "internal_error")
    assert "division" not in reply.error["message"]


def send(served, text):
    """Send a request and don't wait for its answer."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=WAIT_SECONDS)
    body = json.dumps({"model": "embedder", "input": text})
    connection.request("POST", PATH, body, JSON)
    return connection


def test_a_full_queue_is_429_and_says_when_to_come_again(folder):
    with running(folder, max_queue=2) as served:
        with held_engine(served.runtime):
            waiting = [send(served, "a"), send(served, "b")]
            wait_until(lambda: served.service.in_flight == 2)
            reply = served.post(input="c")
            assert (reply.status, reply.error["code"]) == (429, "queue_full")
            assert int(reply.headers["retry-after"]) >= 1
            assert served.ask("GET", "/health").status == 200
        assert [one.getresponse().status for one in waiting] == [200, 200]
        assert served.post(input="c").status == 200
        for one in waiting:
            one.close()


def test_a_request_whose_time_is_over_is_504(folder):
    with running(folder, timeout_ms=200) as served:
        with held_engine(served.runtime) as seen:
            wait = send(served, "good")
            wait_until(lambda: len(seen) == 1)
            reply = served.post(input="bad film")
            assert (reply.status, reply.error["code"]) == (504, "timeout")
            assert wait.getresponse().status == 504
            wait.close()
        wait_until(lambda: served.post(input="film").status == 200)
        assert [batch.input_ids.shape for batch in seen] == [(1, 3)]  # never that of 4 tokens


def test_a_body_that_does_not_come_is_408(folder):
    with running(folder, timeout_ms=200) as served:
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=WAIT_SECONDS)
        connection.putrequest("POST", PATH)
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", "100")
        connection.endheaders(b"{")
        assert connection.getresponse().status == 408
        connection.close()


def test_what_a_client_left_is_not_run(folder):
    with running(folder) as served:
        with held_engine(served.runtime) as seen:
            first = send(served, "good")
            wait_until(lambda: len(seen) == 1)
            left = send(served, "bad bad bad bad bad")
            wait_until(lambda: served.service.in_flight == 2)
            left.close()
            wait_until(lambda: served.service.in_flight == 1)
        assert first.getresponse().status == 200
        assert served.post(input="film").status == 200
        first.close()
        assert [batch.input_ids.shape for batch in seen] == [(1, 3)]
        text = served.ask("GET", "/metrics").body.decode()
    assert 'edgebert_requests_total{path="/v1/embeddings",status="499"} 1' in text
