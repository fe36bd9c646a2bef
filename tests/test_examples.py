"""The examples for Spark and Daft: each gives the texts of a small file the vectors of `encode`."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from edgebert.runtime import Runtime
from tests.compat.conftest import needs
from tests.edgebert.bundles import write_bundle

EXAMPLES = Path(__file__).parents[1] / "examples"
TEXTS = ["good film", "very bad plot", "not fun", "hello world", "dull"]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("embedder")
    write_bundle(folder, task="feature-extraction", prompts={"document": "the "}, max_length=16)
    return folder


@pytest.fixture
def expected(bundle):
    with Runtime(bundle, threads=1) as runtime:
        return runtime.encode(TEXTS, role="document")


def run_example(name, bundle, tmp_path):
    source, target = tmp_path / "in.parquet", tmp_path / "out"
    pq.write_table(pa.table({"id": list("abcde"), "text": TEXTS}), source)
    command = [sys.executable, EXAMPLES / name, bundle, source, target]
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found = pq.read_table(target).to_pydict()
    by_id = dict(zip(found["id"], found["vector"], strict=True))
    assert list(found["id"]) == list(by_id)
    return np.array([by_id[name] for name in "abcde"], dtype=np.float32)


def test_the_function_for_spark_gives_each_row_its_vector(bundle, expected):
    """Spark itself calls it so, with Arrow's batches."""
    spec = spec_from_file_location("spark_features", EXAMPLES / "spark_features.py")
    example = module_from_spec(spec)
    spec.loader.exec_module(example)
    batches = pa.table({"id": list("abcde"), "text": TEXTS}).to_batches(max_chunksize=2)
    found = pa.Table.from_batches(example.embed(iter(batches), str(bundle)))
    assert found.column("id").to_pylist() == list("abcde")
    assert found.schema.field("vector").type == pa.list_(pa.float32())
    np.testing.assert_allclose(np.array(found.column("vector").to_pylist()), expected, atol=1e-6)


@pytest.mark.compat
def test_spark_runs_its_example(bundle, expected, tmp_path):
    needs("pyspark")
    np.testing.assert_allclose(
        run_example("spark_features.py", bundle, tmp_path), expected, atol=1e-6
    )


@pytest.mark.compat
def test_daft_runs_its_example(bundle, expected, tmp_path):
    needs("daft")
    np.testing.assert_allclose(
        run_example("daft_features.py", bundle, tmp_path), expected, atol=1e-6
    )
