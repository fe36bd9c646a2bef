"""What an artifact is made of: nothing that the oldest engine it names doesn't know."""

import onnx
import pytest

from edgebert.formats.manifest import Manifest
from tests.engines.bundles import missing

# of the engine, of the IR and of the opset: it was released with ONNX 1.14
OLDEST, IR_VERSION, OPSET = "onnxruntime 1.15", 9, 19


@pytest.mark.onnx
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_an_onnx_artifact_is_of_a_format_that_its_oldest_engine_reads(bundle_of, precision):
    if missing("onnx") is not None:
        pytest.skip("needs the package 'onnx': pip install 'edgebert[compress]'")
    folder = bundle_of("feature-extraction")
    (artifact,) = (
        one
        for one in Manifest.load(folder).artifacts
        if (one.backend, one.precision) == ("onnx", precision)
    )
    model = onnx.load(folder / artifact.files[0].path)
    opsets = {one.domain: one.version for one in model.opset_import}
    assert artifact.min_engine == OLDEST
    assert model.ir_version <= IR_VERSION
    assert opsets.pop("") <= OPSET
    assert not opsets
