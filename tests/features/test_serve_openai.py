"""`edgebert serve` and OpenAI's own client."""

from __future__ import annotations

import asyncio

import numpy as np
import openai
import pytest

from edgebert.runtime import Runtime
from tests.edgebert.bundles import write_bundle
from tests.features.served import running

TEXTS = ["good film", "a", "the plot is very dull!"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve") / "embedder"
    write_bundle(folder, task="feature-extraction", prompts={"query": "good "})
    return folder


@pytest.fixture(scope="module")
def served(folder):
    with running(folder, api_keys=("first", "secret")) as served:
        yield served


@pytest.fixture(scope="module")
def expected(folder):
    with Runtime(folder, "onnx", "fp32", threads=1, self_test="off") as runtime:
        yield runtime.encode(TEXTS)


def settings(served, key="secret"):
    return {"base_url": f"http://127.0.0.1:{served.port}/v1", "api_key": key, "max_retries": 0}


@pytest.fixture
def client(served):
    with openai.OpenAI(**settings(served)) as client:
        yield client


@pytest.mark.parametrize(
    "form", [{}, {"encoding_format": "float"}]
)  # by default it asks for base64
def test_the_client_gets_the_vectors(client, expected, form):
    found = client.embeddings.create(model="embedder", input=TEXTS, **form)
    np.testing.assert_allclose([one.embedding for one in found.data], expected, rtol=0, atol=1e-6)
    assert found.usage.prompt_tokens == 4 + 3 + 9  # "is" is two tokens here
    assert found.usage.dropped_tokens == 0  # a field of ours, which the client keeps


def test_the_client_hands_over_fields_of_ours(client):
    found = client.embeddings.create(
        model="embedder", input="film", dimensions=2, user="u", extra_body={"role": "query"}
    )
    assert found.usage.prompt_tokens == 4  # [CLS] good film [SEP]
    assert len(found.data[0].embedding) == 2


def test_the_asynchronous_client_gets_the_vectors(served, expected):
    async def ask():
        async with openai.AsyncOpenAI(**settings(served)) as client:
            calls = [client.embeddings.create(model="embedder", input=text) for text in TEXTS]
            return await asyncio.gather(*calls)

    found = [reply.data[0].embedding for reply in asyncio.run(ask())]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_the_client_lists_the_model(client):
    assert [model.id for model in client.models.list()] == ["embedder"]
    assert client.models.retrieve("embedder").owned_by == "edgebert"


def test_the_client_raises_the_errors_it_knows(client, served):
    with pytest.raises(openai.NotFoundError, match="'ada' doesn't exist here") as missing:
        client.embeddings.create(model="ada", input="film")
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError, match="dimensions is 9") as wrong:
        client.embeddings.create(model="embedder", input="film", dimensions=9)
    assert wrong.value.param == "dimensions"
    with (
        openai.OpenAI(**settings(served, "guess")) as stranger,
        pytest.raises(openai.AuthenticationError),
    ):
        stranger.models.list()
