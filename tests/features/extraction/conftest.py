"""A tiny embedder, and extraction into a store in memory or into SQLite."""

from __future__ import annotations

import pytest

import edgebert.features.extraction as extraction
from edgebert.features.journal import Journal
from edgebert.features.stores import open_store
from edgebert.features.stores.sqlite import SqliteStore
from edgebert.runtime import Runtime
from tests.edgebert.bundles import write_bundle
from tests.features.extraction.memory_store import MemoryStore

PROMPTS = {"query": "good ", "document": "the "}


@pytest.fixture(scope="session")
def embedder_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("embedder")
    write_bundle(
        folder,
        task="feature-extraction",
        prompts=PROMPTS,
        int8_scale=tuple([0.01] * 8),
        max_length=16,
    )
    return folder


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEBERT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def embedder(embedder_dir):
    with Runtime(embedder_dir, threads=1) as runtime:
        yield runtime


@pytest.fixture
def memory(tmp_path, monkeypatch):
    """Let ``memory:…`` be a store; give the URI of an empty one."""
    monkeypatch.setattr(MemoryStore, "places", {})
    monkeypatch.setattr(MemoryStore, "calls", [])
    monkeypatch.setattr(MemoryStore, "fail", staticmethod(lambda name, number: None))  # noqa: ARG005

    def opened(uri, *, read_only=False):
        if uri.startswith("memory:"):
            return MemoryStore.open(uri.partition(":")[2])
        return open_store(uri, read_only=read_only)

    monkeypatch.setattr(extraction, "open_store", opened)
    for kind, name in ((Journal, "put"), (SqliteStore, "write"), (SqliteStore, "delete")):
        monkeypatch.setattr(kind, name, _in_steps(getattr(kind, name), name))
    return f"memory:{tmp_path / 'memory'}"


def _in_steps(method, name):
    def call(self, *arguments):
        MemoryStore.step(name)
        method(self, *arguments)
        MemoryStore.step(f"{name} done")

    return call


@pytest.fixture(params=["memory", "sqlite"])
def uri(request, memory, tmp_path):
    """Give the URI of an empty store: without transactions, and with them."""
    return memory if request.param == "memory" else f"sqlite:{tmp_path / 'store.db'}"


@pytest.fixture
def opened(memory):  # noqa: ARG001
    """Open a store by its URI, also one in memory."""
    return lambda uri: extraction.open_store(uri)


@pytest.fixture
def small_blocks(monkeypatch):
    """Cut the rows into blocks of 4, and let a failing store be tried at once."""
    monkeypatch.setattr("edgebert.features.pipeline.BLOCK_ROWS", 4)
    monkeypatch.setattr("edgebert.features.pipeline.RETRY_SECONDS", (0.0, 0.0))
