"""Each framework gets the vectors of `Runtime.encode` through its own classes."""

from __future__ import annotations

import asyncio
import pickle
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from edgebert.errors import EdgeBertError, InputError, TaskError
from edgebert.runtime import Runtime
from tests.edgebert.bundles import write_bundle

pytestmark = pytest.mark.stores

TEXTS = ["good cat", "the dog sat", "", "good good dog", "cat"]
PROMPTS = {"query": "good ", "document": "the "}


def langchain(bundle, **settings):
    from edgebert.adapters.langchain import EdgeBertEmbeddings

    made = EdgeBertEmbeddings(bundle, **settings)
    return made.embed_documents, made.embed_query


def llamaindex(bundle, **settings):
    from edgebert.adapters.llamaindex import EdgeBertEmbedding

    made = EdgeBertEmbedding(bundle, **settings)
    return made.get_text_embedding_batch, made.get_query_embedding


def chroma(bundle, **settings):
    from edgebert.adapters.chroma import EdgeBertEmbeddingFunction

    made = EdgeBertEmbeddingFunction(bundle, **settings)
    return made, lambda text: made.embed_query([text])[0]


def lancedb(bundle, **settings):
    from edgebert.adapters.lancedb import EdgeBertFunction

    made = EdgeBertFunction.create(bundle=bundle, **settings)
    query = made.compute_query_embeddings_with_retry
    return made.compute_source_embeddings_with_retry, lambda text: query(text)[0]


ADAPTERS = [langchain, llamaindex, chroma, lancedb]


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEBERT_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundles")
    write_bundle(folder / "embedder", task="feature-extraction", prompts=PROMPTS)
    write_bundle(folder / "classifier", task="text-classification")
    return folder


@pytest.fixture
def bundle(made, tmp_path):
    return str(shutil.copytree(made / "embedder", tmp_path / "embedder"))


@pytest.fixture
def expected(bundle):
    with Runtime(bundle, threads=1) as runtime:
        return runtime.encode(TEXTS, role="document"), runtime.encode(["cat"], role="query")[0]


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_vectors_are_those_of_encode_in_order_by_role(adapter, bundle, expected):
    documents, query = adapter(bundle)
    np.testing.assert_array_equal(np.asarray(documents(TEXTS), np.float32), expected[0])
    np.testing.assert_array_equal(np.asarray(query("cat"), np.float32), expected[1])
    assert not np.array_equal(expected[0][-1], expected[1])  # the prompts differ


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_a_runtime_may_be_given_and_stays_open(adapter, bundle, expected):
    with Runtime(bundle, threads=1) as runtime:
        documents, _ = adapter(runtime)
        np.testing.assert_array_equal(np.asarray(documents(TEXTS), np.float32), expected[0])
        del documents
        runtime.encode(["cat"])
        with pytest.raises(InputError, match="path"):
            adapter(runtime, backend="onnx")


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_vectors_may_be_cut(adapter, bundle):
    with Runtime(bundle, threads=1) as runtime:
        cut = runtime.encode(TEXTS, role="document", truncate_dim=3)
    documents, query = adapter(bundle, truncate_dim=3)
    np.testing.assert_array_equal(np.asarray(documents(TEXTS), np.float32), cut)
    assert len(query("cat")) == 3
    with pytest.raises(InputError, match="truncate_dim"):
        adapter(bundle, truncate_dim=1000)


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_no_texts_have_no_vectors(adapter, bundle):
    assert list(adapter(bundle)[0]([])) == []


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_a_bundle_of_another_task_is_refused_before_it_is_used(adapter, made):
    with pytest.raises(TaskError, match="feature-extraction"):
        adapter(str(made / "classifier"))
    with (
        Runtime(made / "classifier", threads=1) as runtime,
        pytest.raises(TaskError, match="feature-extraction"),
    ):
        adapter(runtime)


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_what_is_no_text_is_refused(adapter, bundle):
    with pytest.raises(EdgeBertError, match=r"texts\[1\]"):
        adapter(bundle)[0](["cat", None])


@pytest.mark.parametrize(
    ("module", "package", "line"),
    [
        ("langchain", "langchain_core", "langchain-core"),
        ("llamaindex", "llama_index", "llama-index-core"),
        ("chroma", "chromadb", "edgebert[chroma]"),
        ("lancedb", "lancedb", "edgebert[lancedb]"),
    ],
)
def test_a_missing_package_is_named_with_the_line_that_installs_it(module, package, line):
    code = (
        "import sys\n"
        "import edgebert.adapters\n"
        f"assert {package!r} not in sys.modules\n"
        f"sys.modules[{package!r}] = None\n"
        "from edgebert.errors import PackageMissingError\n"
        "try:\n"
        f"    import edgebert.adapters.{module}\n"
        "except PackageMissingError as error:\n"
        f"    assert 'pip install' in str(error) and {line!r} in str(error)\n"
        "else:\n"
        "    raise SystemExit('it was imported')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("framework", ["langchain", "llamaindex"])
def test_the_async_methods_leave_the_loop_to_others(framework, bundle, expected, monkeypatch):
    if framework == "langchain":
        from edgebert.adapters.langchain import EdgeBertEmbeddings

        adapter = EdgeBertEmbeddings(bundle)
        calls = [adapter.aembed_documents, adapter.aembed_query]
    else:
        from edgebert.adapters.llamaindex import EdgeBertEmbedding

        adapter = EdgeBertEmbedding(bundle)
        calls = [adapter.aget_text_embedding_batch, adapter.aget_query_embedding]
    released = threading.Event()
    encode = Runtime.encode

    def waits(self, *args, **named):
        assert released.wait(30)
        return encode(self, *args, **named)

    monkeypatch.setattr(Runtime, "encode", waits)

    async def run():
        waiting = asyncio.gather(calls[0](TEXTS), calls[1]("cat"))
        await asyncio.sleep(0.01)  # comes back although both calls wait
        released.set()
        return await waiting

    documents, query = asyncio.run(run())
    np.testing.assert_array_equal(np.asarray(documents, np.float32), expected[0])
    np.testing.assert_array_equal(np.asarray(query, np.float32), expected[1])


def test_langchain_s_own_store_finds_by_it(bundle):
    from langchain_core.vectorstores import InMemoryVectorStore

    from edgebert.adapters.langchain import EdgeBertEmbeddings

    store = InMemoryVectorStore.from_texts(["good dog", "cat"], EdgeBertEmbeddings(bundle))
    assert store.similarity_search("good dog", k=2)[0].page_content == "good dog"


def test_llamaindex_writes_it_down_and_makes_it_again(bundle):
    from edgebert.adapters.llamaindex import EdgeBertEmbedding

    adapter = EdgeBertEmbedding(bundle, truncate_dim=4)
    written = adapter.to_dict()
    assert written["class_name"] == "EdgeBertEmbedding"
    again = [EdgeBertEmbedding.from_dict(written), pickle.loads(pickle.dumps(adapter))]
    for other in again:
        assert other.get_text_embedding_batch(TEXTS) == adapter.get_text_embedding_batch(TEXTS)
    with pytest.raises(ValueError, match="presicion"):
        EdgeBertEmbedding(bundle, presicion="int8")


def test_chroma_makes_it_again_with_the_collection(bundle, tmp_path):
    import chromadb
    from chromadb.config import Settings

    from edgebert.adapters.chroma import EdgeBertEmbeddingFunction

    function = EdgeBertEmbeddingFunction(bundle)
    config = function.get_config()
    assert EdgeBertEmbeddingFunction.build_from_config(config).get_config() == config
    with chromadb.PersistentClient(str(tmp_path / "c"), Settings(anonymized_telemetry=False)) as c:
        made = c.create_collection("notes", embedding_function=function)
        made.add(ids=["1", "2"], documents=["good dog", "cat"])
    with chromadb.PersistentClient(str(tmp_path / "c"), Settings(anonymized_telemetry=False)) as c:
        found = c.get_collection("notes")
        assert found.configuration["hnsw"]["space"] == "cosine"
        vectors = found.get(ids=["2"], include=["embeddings"])["embeddings"]
        with Runtime(bundle, threads=1) as runtime:
            expected = runtime.encode(["cat"], role="document")
        np.testing.assert_allclose(vectors, expected, atol=1e-6)  # Chroma normalizes once more
        assert found.query(query_texts=["good dog"], n_results=1)["documents"] == [["good dog"]]
    with pytest.raises(InputError, match="model"):
        function.validate_config_update(config, {**config, "model": "another"})


def test_lancedb_makes_it_again_with_the_table(bundle, tmp_path):
    import lancedb
    from lancedb.embeddings import get_registry
    from lancedb.pydantic import LanceModel, Vector

    from edgebert.adapters.lancedb import EdgeBertFunction

    function = get_registry().get("edgebert").create(bundle=bundle)
    assert isinstance(function, EdgeBertFunction)

    class Note(LanceModel):
        text: str = function.SourceField()
        vector: Vector(function.ndims()) = function.VectorField()

    table = lancedb.connect(tmp_path / "l").create_table("notes", schema=Note)
    table.add([{"text": "good dog"}, {"text": "cat"}])
    table = lancedb.connect(tmp_path / "l").open_table("notes")
    rows = {row["text"]: row["vector"] for row in table.to_arrow().to_pylist()}
    with Runtime(bundle, threads=1) as runtime:
        expected = runtime.encode(["good dog", "cat"], role="document")
    np.testing.assert_array_equal(np.asarray([rows["good dog"], rows["cat"]], "f4"), expected)
    assert table.search("good dog").limit(1).to_list()[0]["text"] == "good dog"


@pytest.mark.parametrize("framework", ["chroma", "lancedb", "llamaindex"])
def test_a_bundle_that_was_exchanged_meanwhile_is_refused(framework, bundle):
    adapter = {"chroma": chroma, "lancedb": lancedb, "llamaindex": llamaindex}[framework]
    if framework == "chroma":
        config = adapter(bundle)[0].get_config()
    elif framework == "lancedb":
        config = adapter(bundle)[0].__self__.safe_model_dump()
    else:
        written = adapter(bundle)[0].__self__.to_dict()
        config = {key: written[key] for key in ("bundle", "model")}
    shutil.rmtree(bundle)
    write_bundle(Path(bundle), task="feature-extraction", prompts={})
    with pytest.raises(InputError, match="isn't the bundle"):
        adapter(**config)
