"""`edgebert serve`: vectors over HTTP are those of `Runtime.encode`."""

from __future__ import annotations

import base64
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from edgebert.runtime import Runtime
from tests.edgebert.bundles import write_bundle
from tests.features.served import running
from tests.tiny import WORDS

PROMPTS = {"query": "good ", "document": "the "}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve") / "embedder"
    write_bundle(folder, task="feature-extraction", precisions=("fp32", "int8"), prompts=PROMPTS)
    return folder


@pytest.fixture(scope="module")
def served(folder):
    with running(folder) as served:
        yield served


@pytest.fixture(scope="module")
def alone(folder):
    with Runtime(folder, "onnx", "fp32", threads=1, self_test="off") as runtime:
        yield runtime


def vectors_of(reply):
    assert reply.status == 200, reply.body
    data = reply.json["data"]
    assert [item["index"] for item in data] == list(range(len(data)))
    return np.array([item["embedding"] for item in data], dtype=np.float32)


def test_vectors_come_in_the_order_of_the_texts(served, alone):
    texts = ["good film", "a", "hello world, the plot is very dull!", ""]
    np.testing.assert_allclose(
        vectors_of(served.post(input=texts)), alone.encode(texts), rtol=0, atol=1e-6
    )


def test_one_string_is_one_text(served, alone):
    np.testing.assert_array_equal(
        vectors_of(served.post(input="good film")), alone.encode(["good film"])
    )


@pytest.mark.parametrize("field", ["role", "input_type"])
@pytest.mark.parametrize("role", PROMPTS)
def test_a_role_puts_its_prompt_first(served, alone, field, role):
    found = vectors_of(served.post(input=["film"], **{field: role}))
    np.testing.assert_array_equal(found, alone.encode([PROMPTS[role] + "film"]))


def test_dimensions_are_the_leading_ones_at_unit_length(served, alone):
    found = vectors_of(served.post(input=["film", "plot"], dimensions=3))
    whole = alone.encode(["film", "plot"], normalize=False)[:, :3]
    expected = whole / np.linalg.norm(whole, axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_base64_is_the_float32_of_the_vector(served, alone):
    reply = served.post(input=["good film"], encoding_format="base64")
    packed = base64.b64decode(reply.json["data"][0]["embedding"])
    np.testing.assert_array_equal(np.frombuffer(packed, "<f4"), alone.encode(["good film"])[0])


def test_usage_counts_the_tokens_that_the_model_reads(served):
    usage = served.post(input=["good film", "bad"]).json["usage"]
    # [CLS] good film [SEP], [CLS] bad [SEP]
    assert usage == {"prompt_tokens": 7, "total_tokens": 7, "dropped_tokens": 0}


def test_tokens_that_were_cut_off_are_told_by_text_and_in_all(served):
    reply = served.post(input=["film " * 40, "bad"]).json  # max_length 32 has room for 30 of them
    assert [item["dropped_tokens"] for item in reply["data"]] == [10, 0]
    assert reply["usage"] == {"prompt_tokens": 35, "total_tokens": 35, "dropped_tokens": 10}


def test_a_long_text_in_windows_is_as_the_runtime_makes_it(served, alone):
    text = " ".join(WORDS * 5)
    reply = served.post(input=[text], on_long="window")
    np.testing.assert_allclose(
        vectors_of(reply), alone.encode([text], on_long="window"), rtol=0, atol=1e-6
    )
    assert reply.json["usage"]["dropped_tokens"] == 0


def test_a_long_text_is_refused_where_that_is_asked_for(served):
    reply = served.post(input=["film " * 40], on_long="error")
    assert reply.status == 400
    assert "42" in reply.error["message"]  # tokens


def test_the_server_has_a_policy_on_long_texts_where_a_request_has_none(folder):
    with running(folder, on_long="error") as served:
        assert served.post(input="film " * 40).status == 400
        assert served.post(input="film " * 40, on_long="truncate").status == 200


def distinct(client):
    """Texts of one client, of lengths of its own."""
    return [" ".join(WORDS[(client + k + i) % 11] for i in range(1 + client % 9)) for k in range(3)]


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_32_clients_at_once_get_each_their_own_vectors(folder, precision):
    with (
        Runtime(folder, "onnx", precision, threads=1, self_test="off") as alone,
        running(folder, precision=precision) as served,
        ThreadPoolExecutor(32) as pool,
    ):
        expected = [
            np.concatenate([alone.encode([text]) for text in distinct(i)]) for i in range(32)
        ]
        for _ in range(3):
            replies = list(pool.map(lambda i: served.post(input=distinct(i)), range(32)))
            for reply, vectors in zip(replies, expected, strict=True):
                if precision == "int8":  # minds its mates, so it's run alone and is the same bits
                    np.testing.assert_array_equal(vectors_of(reply), vectors)
                else:
                    np.testing.assert_allclose(vectors_of(reply), vectors, rtol=0, atol=1e-6)


def test_the_models_are_listed(served):
    listed = served.ask("GET", "/v1/models").json
    assert [model["id"] for model in listed["data"]] == ["embedder"]
    assert listed["data"][0]["dimensions"] == 8
    assert served.ask("GET", "/v1/models/embedder").json == listed["data"][0]
