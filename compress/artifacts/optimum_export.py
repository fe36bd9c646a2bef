"""ONNX by optimum's exporter, for architectures that ours doesn't know, under the same gates."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import onnx
from onnx import ModelProto
from torch import nn

from compress.artifacts.onnx_graph import (
    MIN_ENGINE,
    OPSET,
    check_growth,
    fold_identities,
    share_initializers,
)
from compress.artifacts.quantize_onnx import OnnxExporter
from compress.artifacts.quantizer import Exported
from compress.models.graph_module import GraphModule
from compress.models.hub import one_line
from compress.models.task_head import HIDDEN, SENTENCE, TaskHead
from edgebert.errors import ModelError

_TASKS = {"regression": "text-classification"}  # by names of optimum where they aren't ours
_OUTPUTS = {"token_embeddings": HIDDEN}  # likewise, of a sentence-transformers model


class OptimumExporter(OnnxExporter):
    """Makes ``onnx/model.onnx`` by optimum; INT8 is made of it as of ours."""

    def export_fp32(
        self,
        model: nn.Module,
        head: TaskHead,
        target: Path,
        *,
        max_length: int,  # noqa: ARG002  any length fits the file
    ) -> Exported:
        """See `Exporter.export_fp32`; the vectors of an embedder are pooled outside of the graph.

        Raises:
            ModelError: Optimum can't export the model, or its graph isn't one that we can run.
        """
        from importlib.metadata import version

        _check_head(head)
        module = GraphModule(model, head)
        graph = _export(module)
        rename_outputs(graph, _OUTPUTS)
        _check_names(graph, module)
        fold_identities(graph)
        share_initializers(graph)
        target.write_bytes(graph.SerializeToString())
        check_growth(graph, target, parameter_bytes=4 * sum(p.numel() for p in module.parameters()))
        return Exported(
            {"exporter": f"optimum-onnx {version('optimum-onnx')}", "opset": OPSET}, MIN_ENGINE
        )


def _check_head(head: TaskHead) -> None:
    """Refuse what optimum's graphs don't hold: it exports the library's models as they are."""
    if head.dense is not None or head.pooling_layers > 1:
        raise ModelError(
            "The graph of --exporter optimum ends at the last hidden state, but this embedder has "
            "more behind it; use --exporter edgebert."
        )


def _export(module: GraphModule) -> ModelProto:
    from optimum.exporters.onnx import onnx_export_from_model  # type: ignore[import-not-found]

    plain: Any = module.model
    task = module.head.task
    with tempfile.TemporaryDirectory(prefix="edgebert-optimum-") as folder:
        try:
            onnx_export_from_model(
                plain,
                output=Path(folder),
                task=_TASKS.get(task, task),
                opset=OPSET,
                do_validation=False,  # our gate does more
                device="cpu",
            )
            return onnx.load(Path(folder) / "model.onnx")
        except Exception as error:  # the exporter's errors have no parent of their own
            raise ModelError(
                f"optimum can't export {type(plain).__name__}: {one_line(error)}"
            ) from error


def rename_outputs(model: ModelProto, names: dict[str, str]) -> None:
    """Give outputs other names, wherever the graph has them."""
    for node in model.graph.node:
        for values in (node.input, node.output):
            for index, name in enumerate(values):
                values[index] = names.get(name, name)
    for value in model.graph.output:
        value.name = names.get(value.name, value.name)


def _check_names(model: ModelProto, module: GraphModule) -> None:
    inputs, outputs = (
        {value.name for value in values} for values in (model.graph.input, model.graph.output)
    )
    wanted = set(module.output_names) - {SENTENCE}  # which is pooled outside
    if not inputs <= set(module.input_names) or not wanted <= outputs:
        raise ModelError(
            f"optimum's graph has inputs {sorted(inputs)} and outputs {sorted(outputs)}; a bundle "
            f"needs inputs out of {sorted(module.input_names)} and the outputs {sorted(wanted)}."
        )
