"""ONNX: from a torch model to an FP32 file, and from that to an INT8 or INT4 one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import onnx
from onnx import ModelProto, NodeProto, TensorProto
from torch import nn

from compress.artifacts.blockwise import blockwise
from compress.artifacts.calibration import Remembered
from compress.artifacts.four_bits import FourBits
from compress.artifacts.histogram import Histogram
from compress.artifacts.observe import Observed, observe
from compress.artifacts.onnx_four_bits import four_bit_nodes, round_onnx, write_four_bits
from compress.artifacts.onnx_graph import MIN_ENGINE, OPSET, export_onnx
from compress.artifacts.onnx_tables import quantize_tables
from compress.artifacts.onnx_weights import int8_nodes, prepare, uses_of_weights, weight_nodes
from compress.artifacts.quantizer import (
    Converted,
    Exported,
    Int8Recipe,
    check_exclude,
    check_texts,
    count_four_bits,
    get_recipe,
    group_parts,
)
from compress.artifacts.static_onnx import Ranges, write_static
from compress.models.graph_module import GraphModule
from compress.models.task_head import TaskHead
from edgebert.types import Batch

Convert = Callable[..., None]


@dataclass(frozen=True)
class OnnxRecipe(Int8Recipe):
    """One way to make an INT8 file.

    Attributes:
        convert: Takes the prepared graph (see `prepare`), the target, the nodes left in FP32, and
            what calibration found where there is one.
    """

    convert: Convert


def _dynamic(
    model: ModelProto, target: Path, exclude: Collection[str], *, reduce_range: bool = False
) -> None:
    from onnxruntime.quantization import (  # type: ignore[import-untyped]
        QuantType,
        quantize_dynamic,
    )

    quantize_tables(model, exclude)
    # Where no VNNI is, the engine makes signed weights unsigned, and fails on shared ones.
    shared = max(uses_of_weights(model).values(), default=0) > 1
    quantize_dynamic(
        model,
        target,
        op_types_to_quantize=["MatMul"],
        per_channel=True,  # per tensor lost 4 % of cosine on MiniLM, per channel 0.7 %
        weight_type=QuantType.QUInt8 if shared else QuantType.QInt8,
        reduce_range=reduce_range,
        nodes_to_exclude=sorted(exclude),
        extra_options={"DefaultTensorType": TensorProto.FLOAT},
    )


_SEVEN_BITS = "7 bits of int8 per channel, so that no processor without VNNI saturates"


def _static(
    name: str, ranges: Ranges, *, weights: str = "int8 per channel", steps: int = 127
) -> OnnxRecipe:
    return OnnxRecipe(
        convert=partial(write_static, ranges=ranges, weight_steps=steps),
        about=f"weights {weights}, activations uint8 per tensor, smoothed, calibrated by {name}",
        batch_invariant=True,  # scales are constants
        min_engine=MIN_ENGINE,
        calibration=name,
    )


RECIPES: dict[str, OnnxRecipe] = {
    "dynamic": OnnxRecipe(
        convert=_dynamic,
        about="dynamic, weights int8 per channel, activations uint8 per tensor",
        batch_invariant=False,  # one activation scale a tensor: a long text changes its mates'
        min_engine=MIN_ENGINE,
    ),
    "dynamic-7bit": OnnxRecipe(
        convert=partial(_dynamic, reduce_range=True),
        about=f"dynamic, weights {_SEVEN_BITS}, activations uint8 per tensor",
        batch_invariant=False,
        min_engine=MIN_ENGINE,
    ),
    "static": _static("min-max", Histogram.min_max),
    "static-7bit": _static("min-max", Histogram.min_max, weights=_SEVEN_BITS, steps=64),
    "static-percentile": _static("percentile", Histogram.percentile),
    "static-entropy": _static("entropy", Histogram.entropy),
    "blockwise": OnnxRecipe(
        convert=blockwise,
        about="weights int8 in blocks of 64, activations int8 per row and block",
        batch_invariant=True,
        min_engine="onnxruntime 1.22",
    ),
    "weights": OnnxRecipe(
        convert=partial(blockwise, activations=False),
        about="weights int8 in blocks of 64, activations in FP32",
        batch_invariant=True,
        min_engine="onnxruntime 1.22",
    ),
    "weights-int4": OnnxRecipe(
        convert=write_four_bits,
        about="weights int4 in blocks of 32, rounded by GPTQ, activations int8 per row and block, "
        "tables int8",
        batch_invariant=True,
        min_engine="onnxruntime 1.22",
        calibration="moments",
        precision="int4",
    ),
    # MiniLM, 100 texts: 13.0 MB at a mean cosine of 0.9906, for 18.3 MB at 0.9915.
    "tables-int4": OnnxRecipe(
        convert=partial(write_four_bits, table=True),
        about="weights int4 in blocks of 32, rounded by GPTQ, and the table of words too, "
        "activations int8 per row and block, other tables int8",
        batch_invariant=True,
        min_engine="onnxruntime 1.22",
        calibration="moments",
        precision="int4",
    ),
}


class OnnxExporter:
    """Makes ``onnx/model*.onnx``; see `compress.artifacts.quantizer.Exporter`."""

    backend = "onnx"
    fp32_path = "onnx/model.onnx"
    int8_path = "onnx/model_quantized.onnx"
    int4_path = "onnx/model_q4.onnx"  # as transformers.js calls it
    recipes: Mapping[str, Int8Recipe] = RECIPES

    def __init__(self) -> None:
        """Start without a calibration; recipes of one model share it, and so do its trials."""
        self._observed: Remembered[Observed] = Remembered()
        self._rounded: Remembered[dict[str, FourBits]] = Remembered()

    def files(self, path: str) -> tuple[str, ...]:
        """See `Exporter.files`: one file holds all."""
        return (path,)

    def export_fp32(
        self,
        model: nn.Module,
        head: TaskHead,
        target: Path,
        *,
        max_length: int,  # noqa: ARG002  any length fits the file
    ) -> Exported:
        """See `Exporter.export_fp32`."""
        export_onnx(GraphModule(model, head), target)
        recipe = {"exporter": "torch.onnx legacy, eager attention", "opset": OPSET}
        return Exported(recipe, MIN_ENGINE)

    def parts(self, source: Path) -> dict[str, tuple[str, ...]]:
        """See `Exporter.parts`."""
        nodes = weight_nodes(prepare(source))
        return group_parts(
            (name, name, node.input[1 if node.op_type == "MatMul" else 0])
            for name, node in nodes.items()
        )

    def quantize(
        self,
        source: Path,
        target: Path,
        *,
        recipe: str,
        exclude: Collection[str] = (),
        calibration: Sequence[Batch] = (),
    ) -> Converted:
        """See `Exporter.quantize`.

        Raises:
            InputError: No such recipe, no calibration where it needs one, or ``exclude`` names a
                node that has no weight.
        """
        chosen = get_recipe(RECIPES, recipe)
        check_texts(chosen, recipe, calibration)
        model = prepare(source)
        nodes = weight_nodes(model)
        check_exclude(exclude, nodes)
        found = self._found(chosen, source, model, calibration)
        chosen.convert(model, target, exclude, *found)
        return _count(nodes, onnx.load(target), exclude, target.stat().st_size, chosen.precision)

    def _found(
        self, chosen: OnnxRecipe, source: Path, model: ModelProto, texts: Sequence[Batch]
    ) -> list[Observed | dict[str, FourBits]]:
        """Calibrate a prepared graph as a recipe asks; the same one on the same texts once."""
        if not chosen.calibration:
            return []
        if chosen.precision == "int4":
            return [self._rounded.of(source, texts, lambda: round_onnx(model, texts))]
        products = [node for node in weight_nodes(model).values() if node.op_type == "MatMul"]
        return [self._observed.of(source, texts, lambda: observe(model, products, texts))]


def _count(
    nodes: Mapping[str, NodeProto],
    made: ModelProto,
    exclude: Collection[str],
    size_bytes: int,
    precision: str,
) -> Converted:
    done = int8_nodes(made)
    if precision == "int4":
        kinds, four = {name: node.op_type for name, node in nodes.items()}, four_bit_nodes(made)
        return count_four_bits(kinds, four, done - four, exclude, size_bytes=size_bytes)
    names = tuple(name for name in nodes if name in done)
    return Converted(
        matmuls=sum(nodes[name].op_type == "MatMul" for name in names),
        matmuls_total=sum(node.op_type == "MatMul" for node in nodes.values()),
        gathers=sum(nodes[name].op_type == "Gather" for name in names),
        gathers_total=sum(node.op_type == "Gather" for node in nodes.values()),
        names=names,
        missed=tuple(sorted(nodes.keys() - done - set(exclude))),
        size_bytes=size_bytes,
    )
