"""Small bundles for the tests of the runtime, and a cache of each test's own."""

from __future__ import annotations

import shutil
from contextlib import ExitStack

import pytest

from edgebert.runtime import Runtime
from tests.edgebert.bundles import write_bundle


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("EDGEBERT_CACHE", str(folder))
    return folder


@pytest.fixture(scope="session")
def _made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundles")
    both = ("fp32", "int8")
    prompts = {"query": "good ", "document": "the "}
    scale = tuple([0.01] * 8)
    write_bundle(
        folder / "embedder",
        task="feature-extraction",
        precisions=both,
        prompts=prompts,
        int8_scale=scale,
    )
    write_bundle(folder / "classifier", task="text-classification", precisions=both)
    write_bundle(folder / "pairs", task="text-classification", pairs=True)
    return folder


@pytest.fixture
def embedder_dir(_made, tmp_path):
    return shutil.copytree(_made / "embedder", tmp_path / "embedder")


@pytest.fixture
def classifier_dir(_made, tmp_path):
    return shutil.copytree(_made / "classifier", tmp_path / "classifier")


@pytest.fixture
def pairs_dir(_made, tmp_path):
    return shutil.copytree(_made / "pairs", tmp_path / "pairs")


@pytest.fixture
def embedder(embedder_dir):
    with Runtime(embedder_dir, precision="fp32", threads=1) as runtime:
        yield runtime


@pytest.fixture
def classifier(classifier_dir):
    with Runtime(classifier_dir, precision="fp32", threads=1) as runtime:
        yield runtime


@pytest.fixture
def runtime_of(tmp_path):
    """Make a bundle of a task, with fields of the manifest, and open it."""
    with ExitStack() as stack:

        def make(task, **changes):
            folder = tmp_path / f"{task}-{len(list(tmp_path.iterdir()))}"
            write_bundle(folder, task=task, **changes)
            return stack.enter_context(Runtime(folder, threads=1))

        yield make
