"""What is ONNX Runtime's own; the contract of all engines is beside it."""

import pytest

from runtimes import SessionOptions
from tests.edgebert.bundles import write_graph

pytestmark = pytest.mark.onnx


def test_it_runs_on_the_cpu_whatever_else_the_engine_offers(tmp_path):
    """Other providers split a BERT where they take it at all: CoreML has no table so large."""
    onnx = pytest.importorskip("runtimes.onnx")
    if len(onnx.ort.get_available_providers()) == 1:
        pytest.skip("this build of ONNX Runtime offers the CPU alone")
    write_graph(tmp_path / "model.onnx", output="logits")
    backend = onnx.OnnxBackend(tmp_path / "model.onnx", SessionOptions(threads=1))
    assert backend._session.get_providers() == ["CPUExecutionProvider"]
