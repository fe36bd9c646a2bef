"""Artifacts that can't run here: ``auto`` leaves them out, and says why."""

import pytest

from edgebert import Runtime
from edgebert.bundles.bundle import Bundle, why_not_here
from edgebert.errors import BackendError
from tests.edgebert.bundles import change_manifest

pytestmark = pytest.mark.onnx


def test_an_artifact_for_a_newer_engine_is_left_out_by_auto_and_refused_by_name(embedder_dir):
    def ask(data):
        data["artifacts"][1]["min_engine"] = "onnxruntime 99.1"

    change_manifest(embedder_dir, ask)
    with Runtime(embedder_dir) as runtime:
        assert runtime.info.precision == "fp32"
        assert "onnx/int8 is left out: it needs onnxruntime 99.1 or newer" in runtime.info.why
    with pytest.raises(BackendError, match=r"onnx/int8: it needs onnxruntime 99\.1 or newer, inst"):
        Runtime(embedder_dir, precision="int8")
    with Runtime(embedder_dir, precision="int8", fallback=True) as runtime:
        assert runtime.info.precision == "fp32"


def test_a_backend_of_a_newer_edgebert_is_no_candidate(embedder_dir):
    change_manifest(embedder_dir, lambda data: data["artifacts"][1].update(backend="marvel"))
    bundle = Bundle(embedder_dir)
    assert [item.backend for item in bundle.candidates()] == ["onnx"]
    assert "pip install -U edgebert" in why_not_here(bundle.manifest.artifacts[1])
