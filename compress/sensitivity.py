"""An INT8 file that passes its gate: the parts that hurt most stay in FP32.

Parts are measured, not guessed: each is quantized alone, and the output's error says how much it
hurts. They stay in FP32 one after another, worst first, until the gate passes.
"""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from compress.quantize_onnx import (
    DEFAULT_RECIPE,
    Converted,
    convert_onnx,
    prepare,
    quantize_onnx,
    weight_nodes,
)
from compress.report_records import GateRecord
from edgebert.errors import GateError

logger = logging.getLogger(__name__)

# Parts of a layer, by the names that the families give their modules; the first that fits counts.
_PARTS = (
    ("attention", r"attention|bottleneck"),
    ("ffn-up", r"intermediate|lin1|/ffn/(?:MatMul|Gemm)"),
    ("ffn-down", r"output|lin2"),
)


@dataclass(frozen=True)
class Int8Outcome:
    """An INT8 file, or why there is none.

    Attributes:
        gate: The last word of the gate; ``kept_fp32`` names the parts left in FP32.
        converted: What the recipe converted; None when no file was made.
        error_by_part: Output error of each part when it alone is INT8; empty when not needed.
    """

    gate: GateRecord
    converted: Converted | None
    error_by_part: dict[str, float]


def weight_parts(source: Path) -> dict[str, tuple[str, ...]]:
    """Group the nodes that have a weight: a layer's attention, FFN-up, FFN-down; embeddings; head.

    Nodes that share a weight stay together, under the name of the first: one of them in FP32 would
    store the weight twice.

    Args:
        source: FP32 file.
    """
    parts: dict[str, list[str]] = defaultdict(list)
    part_of_weight: dict[str, str] = {}
    for name, node in weight_nodes(prepare(source)).items():
        weight = node.input[1 if node.op_type == "MatMul" else 0]
        part = part_of_weight.setdefault(weight, part_name(name))
        parts[part].append(name)
    return {part: tuple(names) for part, names in parts.items()}


def part_name(node: str) -> str:
    """Name the part that a node belongs to, by its path, like ``layer.3/ffn-down``."""
    layer = re.search(r"/(?:layers?|albert_layer_groups)[._](\d+)(?:/|$)", node)
    if layer is None:
        return "embeddings" if "embedding" in node else "head"
    inner = node[layer.end(1) :]
    for part, pattern in _PARTS:
        if re.search(pattern, inner):
            return f"layer.{layer.group(1)}/{part}"
    return f"layer.{layer.group(1)}/other"


def rank_parts(
    source: Path,
    scratch: Path,
    *,
    measure: Callable[[Path], float],
    recipe: str = DEFAULT_RECIPE,
) -> dict[str, float]:
    """Measure the output's error with one part in INT8 at a time, worst part first.

    Args:
        source: FP32 file.
        scratch: Where trial files may be written; it is removed again.
        measure: Gives the error of a file's output; higher is worse.
        recipe: Of the quantization.
    """
    parts = weight_parts(source)
    every = {name for names in parts.values() for name in names}
    errors = {}
    try:
        for part, names in parts.items():
            convert_onnx(source, scratch, recipe=recipe, exclude=every - set(names))
            errors[part] = measure(scratch)
            logger.info("int8 of %s alone: output error %.3g", part, errors[part])
    finally:
        scratch.unlink(missing_ok=True)
    return dict(sorted(errors.items(), key=lambda entry: -entry[1]))


def quantize_until_passed(
    source: Path,
    target: Path,
    *,
    gate: Callable[[Path], GateRecord],
    measure: Callable[[Path], float],
    recipe: str = DEFAULT_RECIPE,
) -> Int8Outcome:
    """Write an INT8 file that passes its gate, or none.

    Args:
        source: FP32 file.
        target: INT8 file; absent afterwards when refused.
        gate: Judges a file.
        measure: Gives the error of a file's output, for the order of the parts.
        recipe: Of the quantization.
    """
    try:
        converted = quantize_onnx(source, target, recipe=recipe)
    except GateError as error:
        return Int8Outcome(GateRecord(passed=False, limits={}, reasons=(str(error),)), None, {})
    record = gate(target)
    if record.passed:
        return Int8Outcome(record, converted, {})
    logger.warning("int8 refused: %s Looking for the parts at fault.", " ".join(record.reasons))
    scratch = target.with_name(f"{target.stem}.trial.onnx")
    errors = rank_parts(source, scratch, measure=measure, recipe=recipe)
    parts = weight_parts(source)
    kept: tuple[str, ...] = ()
    for part in list(errors)[:-1]:
        kept = (*kept, part)
        exclude = [name for one in kept for name in parts[one]]
        try:
            converted = quantize_onnx(source, target, recipe=recipe, exclude=exclude)
        except GateError as error:
            record = replace(record, reasons=(*record.reasons, str(error)))
            break
        record = replace(gate(target), kept_fp32=kept)
        logger.info("int8 with %s in FP32: %s", ", ".join(kept), verdict(record))
        if record.passed:
            return Int8Outcome(record, converted, errors)
    target.unlink(missing_ok=True)
    return Int8Outcome(record, None, errors)


def verdict(record: GateRecord) -> str:
    """Say in one line what a gate decided."""
    return "passed" if record.passed else "refused: " + " ".join(record.reasons)
