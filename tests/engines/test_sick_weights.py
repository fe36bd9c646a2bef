"""A weight that turned infinite in an artifact's file: an error, on every engine, and no number."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file

import edgebert
from edgebert.errors import BackendRunError
from edgebert.formats.manifest import FileRecord, Manifest
from tests.tiny import VOCAB

WORDS = "embeddings.word_embeddings.weight"


@pytest.fixture(params=[np.inf, np.nan])
def sick_bundle(bundle_of, engine, tmp_path, request):
    """Give a bundle in which one word's vector is sick in the FP32 artifact, and nothing else."""
    bundle = shutil.copytree(bundle_of("feature-extraction"), tmp_path / "sick")
    vector = load_file(bundle / "model.safetensors")[WORDS][VOCAB.index("dull")]
    manifest = Manifest.load(bundle)
    artifacts = []
    for artifact in manifest.artifacts:
        if (artifact.backend, artifact.precision) == (engine, "fp32"):
            hurt = [
                replace_bytes(bundle / one.path, vector, request.param) for one in artifact.files
            ]
            assert sum(hurt) == 1
            files = tuple(FileRecord.of(bundle, one.path) for one in artifact.files)
            artifact = replace(artifact, files=files)
        artifacts.append(artifact)
    replace(manifest, artifacts=tuple(artifacts)).save(bundle)
    return bundle


def replace_bytes(path, vector, value):
    """Put ``value`` in the place of a vector's first number; say how often the vector was there."""
    content = path.read_bytes()
    whole = vector.astype("<f4").tobytes()
    path.write_bytes(content.replace(whole, np.float32(value).tobytes() + whole[4:]))
    return content.count(whole)


def test_an_output_that_is_no_number_raises_and_names_its_row(sick_bundle, engine):
    with edgebert.Runtime(sick_bundle, engine, "fp32", self_test="off") as runtime:
        assert np.isfinite(runtime.encode(["good film", "fun"])).all()
        with pytest.raises(
            BackendRunError, match=r"NaN or infinity .*rows \[0\].*batch of \[1, 4\]"
        ):
            runtime.encode(["dull film"])
