"""Which models of a directory without an ``edgebert.json`` are run, and which are refused."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest

import edgebert
from edgebert.bundles.bundle import Bundle
from edgebert.errors import DamagedBundleError
from tests.edgebert.foreign import write_foreign

pytestmark = pytest.mark.onnx


def test_a_file_that_is_no_model_is_refused(tmp_path):
    write_foreign(tmp_path, output="logits")
    (tmp_path / "model.onnx").write_bytes(b"<html>not found</html>")
    with pytest.raises(DamagedBundleError, match=r"model\.onnx can't be read"):
        Bundle(tmp_path)


def test_a_change_after_opening_is_found(tmp_path):
    bundle = Bundle(write_foreign(tmp_path, output="logits"))
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(DamagedBundleError, match=r"tokenizer\.json has 2 bytes"):
        bundle.check_files(bundle.manifest.artifacts[0])


@pytest.mark.skipif(os.name == "nt", reason="links need a right there")
def test_a_link_out_of_the_directory_is_refused(tmp_path):
    write_foreign(tmp_path / "there", output="logits")
    (tmp_path / "there" / "model.onnx").rename(tmp_path / "model.onnx")
    (tmp_path / "there" / "model.onnx").symlink_to(tmp_path / "model.onnx")
    with pytest.raises(DamagedBundleError, match="outside of the bundle"):
        edgebert.Runtime(tmp_path / "there")


@pytest.mark.parametrize("path", ["onnx/model.onnx", "model_optimized.onnx"])
def test_a_model_is_found_where_others_put_it(tmp_path, path):
    runtime = edgebert.Runtime(write_foreign(tmp_path, output="logits", path=path))
    assert runtime.info.artifact == path


def int8_beside(tmp_path: Path, name: str = "model_quantized.onnx") -> Path:
    """Add a model with a matrix of int8."""
    write_foreign(tmp_path, output="logits")
    model = onnx.load(str(tmp_path / "model.onnx"))
    weight = np.ones((2, 2), dtype=np.int8)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "unused"))
    onnx.save(model, str(tmp_path / name))
    return tmp_path


def test_int8_is_told_by_the_weights_and_may_mind_its_mates(tmp_path):
    manifest = Bundle(int8_beside(tmp_path)).manifest
    assert [(a.precision, a.batch_invariant) for a in manifest.artifacts] == [
        *(("fp32", True), ("int8", False))
    ]


def test_int8_that_passed_no_gate_runs_only_when_it_is_named(tmp_path):
    int8_beside(tmp_path)
    assert edgebert.Runtime(tmp_path).info.precision == "fp32"
    assert edgebert.Runtime(tmp_path, precision="int8").info.precision == "int8"


def test_int8_that_passed_no_gate_is_no_fallback(tmp_path):
    int8_beside(tmp_path)
    bundle = Bundle(tmp_path)
    assert [one.precision for one in bundle.fallbacks("auto", "auto")] == ["fp32"]
    assert [one.precision for one in bundle.fallbacks("auto", "int8")] == ["int8", "fp32"]


def test_int8_alone_is_run(tmp_path):
    int8_beside(tmp_path)
    (tmp_path / "model.onnx").unlink()
    assert edgebert.Runtime(tmp_path).info.precision == "int8"


def test_a_model_for_another_machine_is_left_out(tmp_path, monkeypatch):
    int8_beside(tmp_path, "model_qint8_arm64.onnx")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert len(Bundle(tmp_path).manifest.artifacts) == 1
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert len(Bundle(tmp_path).manifest.artifacts) == 2


def test_weights_in_a_file_of_their_own_belong_to_the_model(tmp_path):
    write_foreign(tmp_path, output="logits")
    model = onnx.load(str(tmp_path / "model.onnx"))
    onnx.save(
        *(model, str(tmp_path / "model.onnx")),
        save_as_external_data=True,
        location="model.onnx_data",
        size_threshold=64,
    )
    (artifact,) = Bundle(tmp_path).manifest.artifacts
    assert [file.path for file in artifact.files] == ["model.onnx", "model.onnx_data"]
    assert len(edgebert.Runtime(tmp_path).classify(["good"])) == 1


def test_missing_weights_are_named(tmp_path):
    write_foreign(tmp_path, output="logits")
    model = onnx.load(str(tmp_path / "model.onnx"))
    onnx.save(
        *(model, str(tmp_path / "model.onnx")),
        save_as_external_data=True,
        location="model.onnx_data",
        size_threshold=64,
    )
    (tmp_path / "model.onnx_data").unlink()
    with pytest.raises(DamagedBundleError, match=r"needs 'model\.onnx_data'"):
        Bundle(tmp_path)
