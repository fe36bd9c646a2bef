"""TFLite: from a torch model to an FP32 file, and from that to an INT8 or INT4 one."""

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

from compress.artifacts.calibration import Remembered
from compress.artifacts.four_bits import FourBits
from compress.artifacts.quantizer import (
    Converted,
    Exported,
    Int8Recipe,
    check_exclude,
    check_texts,
    count_four_bits,
    get_recipe,
    group_parts,
    quantizer_failed,
)
from compress.artifacts.tflite_four_bits import can_be_cut, quantize_four_bits, round_tflite
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
from edgebert.types import Batch

# The oldest that files of ours are run on, and the one for systems that LiteRT has left.
LITERT, OLD = "ai-edge-litert 2.1", "tflite-runtime 2.14"

# Takes an FP32 file, the nodes left out, and of INT4 the weights; gives the model's object.
Convert = Callable[..., Any]


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


# There is no static recipe: calibrated on texts without padding, 16 for each length, MiniLM's mean
# cosine on 60 texts was 0.957 with all matrix products in INT8 and 0.783 with all operators, in
# files of 25 and 60 MB; "dynamic" has 0.998 in 23.
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
    "weights-int4": TfliteRecipe(
        convert=quantize_four_bits,
        about="weights int4 in blocks of 32, rounded by GPTQ, activations int8 per token, tables "
        "int8 per row",
        batch_invariant=True,
        min_engine=LITERT,
        calibration="moments",
        precision="int4",
    ),
}


class TfliteExporter:
    """Makes ``tflite/model*.tflite``; see `compress.artifacts.quantizer.Exporter`."""

    backend = "tflite"
    fp32_path = "tflite/model.tflite"
    int8_path = "tflite/model_int8.tflite"
    int4_path = "tflite/model_int4.tflite"
    recipes: Mapping[str, Int8Recipe] = RECIPES

    def __init__(self, *, buckets: Sequence[int] = BUCKETS) -> None:
        """Choose the lengths that get a signature of their own, below the model's limit."""
        self._buckets = tuple(buckets)
        self._rounded: Remembered[dict[str, FourBits]] = Remembered()

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
        calibration: Sequence[Batch] = (),
    ) -> Converted:
        """See `Exporter.quantize`.

        Raises:
            InputError: No such recipe, no calibration where it needs one, or ``exclude`` names a
                node that has no weight.
            GateError: The quantizer failed.
        """
        chosen = get_recipe(RECIPES, recipe)
        check_texts(chosen, recipe, calibration)
        uses = list(weight_uses(read_tflite(source)))
        before = _nodes(uses)
        check_exclude(exclude, before)
        shared = {before[name].buffer for name in exclude}
        if chosen.precision == "int4":  # a table that is a matrix, too, has 8 bits
            tables = [use for use in before.values() if use.kind == "Gather" or not can_be_cut(use)]
            shared |= {use.buffer for use in tables}
        left = {name for name, use in before.items() if use.buffer in shared}
        try:
            with quiet_converter():
                model = chosen.convert(source, left, *self._found(chosen, source, calibration))
        except Exception as error:  # the quantizer's errors have no parent of their own
            raise quantizer_failed(chosen, recipe, error) from error
        write_tflite(model, target)
        whole, size_bytes = Counter(use.name for use in uses), target.stat().st_size
        made = list(weight_uses(model))
        lost = {  # in any signature
            bits: whole - Counter(use.name for use in made if use.bits == bits) for bits in (4, 8)
        }
        if chosen.precision == "int4":
            kinds = {name: use.kind for name, use in before.items()}
            four, eight = (before.keys() - lost[bits].keys() for bits in (4, 8))
            return count_four_bits(kinds, four, eight, left, size_bytes=size_bytes)
        return _count(before, lost[8], left, size_bytes)

    def _found(
        self, chosen: TfliteRecipe, source: Path, texts: Sequence[Batch]
    ) -> list[dict[str, FourBits]]:
        """Give what a recipe takes of the calibration."""
        if chosen.precision != "int4":
            return []
        return [self._rounded.of(source, texts, lambda: round_tflite(source, texts))]


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
