"""TFLite: from a torch model to an FP32 file, and from that to an INT8 one."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from compress.artifacts.quantizer import (
    Converted,
    Exported,
    Int8Recipe,
    check_exclude,
    get_recipe,
    group_parts,
)
from compress.artifacts.tflite_graph import BUCKETS, export_tflite, lengths_for, quiet_converter
from compress.artifacts.tflite_model import (
    WeightUse,
    parse_tflite,
    read_tflite,
    weight_uses,
    write_tflite,
)
from compress.artifacts.tflite_rows import quantize_rows
from compress.models.graph_module import GraphModule
from compress.models.task_head import TaskHead
from edgebert.errors import GateError
from edgebert.types import Batch

# The oldest that files of ours are run on, and the one for systems that LiteRT has left.
LITERT, OLD = "ai-edge-litert 2.1", "tflite-runtime 2.14"

# Takes an FP32 file and the nodes left in FP32; gives the INT8 model's object.
Convert = Callable[[Path, Collection[str]], Any]


@dataclass(frozen=True)
class TfliteRecipe(Int8Recipe):
    """One way to make an INT8 file.

    Attributes:
        convert: Does it.
    """

    convert: Convert


def _dynamic(source: Path, exclude: Collection[str]) -> Any:
    from ai_edge_quantizer import quantizer, recipe_manager  # type: ignore[import-untyped]
    from ai_edge_quantizer.qtyping import TFLOperationName  # type: ignore[import-untyped]

    recipe = recipe_manager.RecipeManager()
    recipe.add_dynamic_config(regex=".*", operation_name=TFLOperationName.ALL_SUPPORTED, num_bits=8)
    for name in sorted(exclude):
        recipe.add_quantization_config(
            regex=f"^{re.escape(name)}:",
            operation_name=TFLOperationName.ALL_SUPPORTED,
            algorithm_key=quantizer.AlgorithmName.NO_QUANTIZE,
        )
    with redirect_stderr(io.StringIO()):  # one of its progress bars has no switch
        found = quantizer.Quantizer(str(source), recipe.get_quantization_recipe()).quantize(
            enable_progress_bar=False, enable_progress_report=False
        )
    return parse_tflite(bytes(found.quantized_model))


def _compatible(source: Path, exclude: Collection[str]) -> Any:
    model = read_tflite(source)
    quantize_rows(model, exclude=exclude)
    return model


RECIPES: dict[str, TfliteRecipe] = {
    "dynamic": TfliteRecipe(
        convert=_dynamic,
        about="dynamic, weights int8 per row, activations int8 per token",
        batch_invariant=True,  # a text runs alone
        min_engine=LITERT,
    ),
    "compatible": TfliteRecipe(
        convert=_compatible,
        about="dynamic, weights int8 per row by a factor of their own, activations int8 per token",
        batch_invariant=True,
        min_engine=OLD,
    ),
}


class TfliteExporter:
    """Makes ``tflite/model*.tflite``; see `compress.artifacts.quantizer.Exporter`."""

    backend = "tflite"
    fp32_path = "tflite/model.tflite"
    int8_path = "tflite/model_int8.tflite"
    recipes: Mapping[str, Int8Recipe] = RECIPES

    def __init__(self, *, buckets: Sequence[int] = BUCKETS) -> None:
        """Choose the lengths that get a signature of their own, below the model's limit."""
        self._buckets = tuple(buckets)

    def files(self, path: str) -> tuple[str, ...]:
        """See `Exporter.files`: one file holds all."""
        return (path,)

    def export_fp32(
        self, model: nn.Module, head: TaskHead, target: Path, *, max_length: int
    ) -> Exported:
        """See `Exporter.export_fp32`."""
        module = GraphModule(model, head, additive_mask=True)
        lengths = lengths_for(max_length, self._buckets)
        export_tflite(module, target, lengths=lengths)
        recipe = {
            "exporter": "litert-torch, eager attention",
            "lengths": list(lengths),
            "additive_mask": module.additive_mask,
        }
        return Exported(recipe, OLD if module.additive_mask else LITERT)

    def parts(self, source: Path) -> dict[str, tuple[str, ...]]:
        """See `Exporter.parts`."""
        nodes = _nodes(weight_uses(read_tflite(source)))
        return group_parts((name, name, use.buffer) for name, use in nodes.items())

    def quantize(
        self,
        source: Path,
        target: Path,
        *,
        recipe: str,
        exclude: Collection[str] = (),
        calibration: Sequence[Batch] = (),  # noqa: ARG002  both recipes look at weights alone
    ) -> Converted:
        """See `Exporter.quantize`.

        Raises:
            InputError: No such recipe, or ``exclude`` names a node that has no weight.
            GateError: The quantizer failed.
        """
        chosen = get_recipe(RECIPES, recipe)
        uses = list(weight_uses(read_tflite(source)))
        before = _nodes(uses)
        check_exclude(exclude, before)
        shared = {before[name].buffer for name in exclude}
        left = {name for name, use in before.items() if use.buffer in shared}
        try:
            with quiet_converter():
                model = chosen.convert(source, left)
        except Exception as error:  # the quantizer's errors have no parent of their own
            raise GateError(
                f"INT8 recipe {recipe!r} failed: {' '.join(str(error).split())[:300]} Try another "
                "recipe, or ship FP32 only."
            ) from error
        write_tflite(model, target)
        after = Counter(use.name for use in weight_uses(model) if use.int8)
        lost = Counter(use.name for use in uses) - after  # in any signature
        return _count(before, lost, left, target.stat().st_size)


def _nodes(uses: Iterable[WeightUse]) -> dict[str, WeightUse]:
    """Find the nodes with a weight by name: those of the first signature, which all have."""
    return {use.name: use for use in uses if use.graph == 0}


def _count(
    before: Mapping[str, WeightUse],
    lost: Collection[str],
    left: Collection[str],
    size_bytes: int,
) -> Converted:
    names = tuple(name for name in before if name not in lost)
    return Converted(
        matmuls=sum(before[name].kind == "MatMul" for name in names),
        matmuls_total=sum(use.kind == "MatMul" for use in before.values()),
        gathers=sum(before[name].kind == "Gather" for name in names),
        gathers_total=sum(use.kind == "Gather" for use in before.values()),
        names=names,
        missed=tuple(sorted(set(lost) - set(left))),
        size_bytes=size_bytes,
    )
