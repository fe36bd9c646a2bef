"""INT4 for LiteRT: matrices of 4 bits, whose engine multiplies them by INT8 activations.

The quantizer gives the file its form, and `compress.artifacts.four_bits` the numbers: those that
are nearest, as the quantizer has them, cost MiniLM three times as much of its cosine.
"""

from __future__ import annotations

import copy
import io
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import redirect_stderr
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from compress.artifacts.calibration import linked, single_texts
from compress.artifacts.four_bits import BLOCK_SIZE, FourBits, Linked, round_weights
from compress.artifacts.tflite_model import (
    WeightUse,
    add_buffer,
    parse_tflite,
    read_tflite,
    values_of,
    weight_uses,
    write_tflite,
)
from edgebert.errors import GateError
from edgebert.types import Batch, FloatArray


def products(model: Any, *, graph: int | None = None) -> list[WeightUse]:
    """Find the products by a matrix, of one signature or of all."""
    return [
        use for use in weight_uses(model) if use.kind == "MatMul" and graph in (None, use.graph)
    ]


def can_be_cut(use: WeightUse) -> bool:
    """Tell whether a matrix can be cut into blocks; if not, it has 8 bits."""
    return bool(use.weight.shape[1] % BLOCK_SIZE == 0)


def round_tflite(source: Path, texts: Sequence[Batch]) -> dict[str, FourBits]:
    """Round the matrices of an FP32 file to 4 bits, by the name of their node.

    Raises:
        GateError: No matrix can be cut into blocks of 32, and the engine knows no others.
    """
    model = read_tflite(source)
    # the longest signature, which holds every text
    last = max(range(len(model.subgraphs)), key=lambda number: _length(model, number))
    uses = [use for use in products(model, graph=last) if can_be_cut(use)]
    if not uses:
        raise GateError(
            f"LiteRT runs INT4 in blocks of {BLOCK_SIZE}, and no matrix has an inner size that is "
            "a multiple of that."
        )
    by_buffer: dict[str, list[WeightUse]] = {}
    for use in uses:
        by_buffer.setdefault(str(use.buffer), []).append(use)
    pairs = [(str(use.operator.inputs[0]), str(use.buffer)) for use in uses]
    groups = [
        Linked(
            tuple(sorted(inputs)),
            {name: values_of(model, by_buffer[name][0].weight) for name in sorted(weights)},
        )
        for inputs, weights in linked(pairs)
    ]
    found = round_weights(groups, lambda names: _look(model, last, names, texts), positive=True)
    return {use.name: found[name] for name, same in by_buffer.items() for use in same}


def _length(model: Any, graph: int) -> int:
    inner = model.subgraphs[graph]
    return int(inner.tensors[inner.inputs[0]].shape[1])


def _look(
    model: Any, graph: int, names: Sequence[str], texts: Sequence[Batch]
) -> Iterator[tuple[str, FloatArray]]:
    """Run one signature on texts and give some of its inner values, of real tokens alone."""
    from ai_edge_litert.interpreter import Interpreter  # type: ignore[import-untyped]
    from ai_edge_litert.schema_py_generated import (  # type: ignore[import-untyped]
        SignatureDefT,
        TensorMapT,
    )

    watched = copy.deepcopy(model)
    inner = watched.subgraphs[graph]
    tensors = [int(name) for name in names]
    old = next(one for one in watched.signatureDefs if one.subgraphIndex == graph)
    outputs = [TensorMapT(name=f"w{place}", tensorIndex=place) for place in tensors]
    inner.outputs = tensors
    watched.signatureDefs = [
        SignatureDefT(inputs=old.inputs, outputs=outputs, signatureKey="watch", subgraphIndex=graph)
    ]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "watched.tflite"
        write_tflite(watched, path)
        # by its bytes: a mapped file can't be removed everywhere
        runner = Interpreter(model_content=path.read_bytes()).get_signature_runner("watch")
        shapes = {one: details["shape"] for one, details in runner.get_input_details().items()}
        whole = _length(model, graph)
        for text in single_texts(texts):
            length = text.input_ids.shape[1]
            fed = {one: np.zeros(shape, dtype=np.int32) for one, shape in shapes.items()}
            for one, values in fed.items():
                values[0, :length] = getattr(text, one)[0]
            for one, values in runner(**fed).items():
                rows = values.reshape(-1, values.shape[-1])
                # what comes behind the pooling has a row a text
                yield one[1:], rows[:length] if len(rows) == whole else rows


def quantize_four_bits(
    source: Path, exclude: Collection[str], rounded: Mapping[str, FourBits]
) -> Any:
    """Give a file's products weights of 4 bits, its tables and what is left out weights of 8.

    Args:
        source: The FP32 file.
        exclude: Names of nodes whose products have 8 bits.
        rounded: Weights by the name of their node.
    """
    model = _formed(source, exclude)
    scales: dict[int, int] = {}  # buffers of scales by those of weights: signatures share both
    for use in products(model):
        if use.bits != 4:
            continue
        bits = rounded[use.name]
        if use.buffer not in scales:
            packed = bits.packed(signed=True).reshape(-1)
            model.buffers[use.buffer].data = packed
            scales[use.buffer] = add_buffer(model, bits.scales)
        tensor = model.subgraphs[use.graph].tensors[use.weight.quantization.details.scales]
        tensor.buffer = scales[use.buffer]
    return model


def _formed(source: Path, exclude: Collection[str]) -> Any:
    """Let the quantizer make the file's form, with the numbers that are nearest."""
    from ai_edge_quantizer import qtyping, quantizer, recipe_manager  # type: ignore[import-untyped]

    recipe, name = recipe_manager.RecipeManager(), qtyping.TFLOperationName
    recipe.add_dynamic_config(regex=".*", operation_name=name.ALL_SUPPORTED, num_bits=8)
    recipe.add_dynamic_config(
        regex=".*",
        operation_name=name.FULLY_CONNECTED,
        num_bits=4,
        granularity=qtyping.QuantGranularity.BLOCKWISE_32,
    )
    for node in sorted(exclude):
        recipe.add_dynamic_config(
            regex=f"^{re.escape(node)}:", operation_name=name.FULLY_CONNECTED, num_bits=8
        )
    with redirect_stderr(io.StringIO()):  # one of its progress bars has no switch
        found = quantizer.Quantizer(str(source), recipe.get_quantization_recipe()).quantize(
            enable_progress_bar=False, enable_progress_report=False
        )
    return parse_tflite(bytes(found.quantized_model))
