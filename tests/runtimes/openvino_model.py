"""The contract's model as OpenVINO's files."""

from __future__ import annotations

from pathlib import Path

from runtimes.openvino import MAX_LENGTH_KEY, ov
from tests.edgebert.bundles import write_graph

LIMIT = 50  # tokens


def write_openvino_model(folder: Path) -> Path:
    """Write the model of `tests.edgebert.bundles`, which says that it takes `LIMIT` tokens.

    Returns:
        The ``.xml``; the ``.bin`` and the ``.onnx`` it was made of lie beside it.
    """
    write_graph(folder / "m.onnx", output="last_hidden_state")
    model = ov.convert_model(str(folder / "m.onnx"))
    model.set_rt_info(str(LIMIT), MAX_LENGTH_KEY)
    ov.save_model(model, str(folder / "m.xml"), compress_to_fp16=False)
    return folder / "m.xml"
