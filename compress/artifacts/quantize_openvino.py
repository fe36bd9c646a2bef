"""OpenVINO: from a torch model to an FP32 file, and from that to an INT8 or INT4 one."""

from __future__ import annotations

import io
import logging
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from compress.artifacts.calibration import Remembered, single_texts
from compress.artifacts.four_bits import FourBits
from compress.artifacts.openvino_four_bits import four_bit_products, put_four_bits, round_openvino
from compress.artifacts.openvino_graph import (
    MIN_ENGINE,
    WeightNode,
    attention_products,
    export_openvino,
    ir_files,
    read_ir,
    save_ir,
    weight_nodes,
)
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
from compress.models.graph_module import GraphModule
from compress.models.task_head import TaskHead
from edgebert.types import Batch, IntArray
from runtimes.signal_stack import kept_signal_stack

# Of a text's numbers, on each side. MiniLM's mean cosine on 100 texts is 0.991 with 1e-4, and 0.996
# where all count.
_OUTERMOST = 1e-5

# Takes the model, names of nodes left in FP32, and what it needs of calibration: items, or of INT4
# the weights; gives the quantized model.
Convert = Callable[[Any, list[str], Any], Any]


@dataclass(frozen=True)
class OpenVinoRecipe(Int8Recipe):
    """One way to make an INT8 file.

    Attributes:
        convert: Does it.
    """

    convert: Convert


def _static(
    model: Any, exclude: list[str], items: list[dict[str, IntArray]], *, percentile: bool = False
) -> Any:
    """Quantize all products but those of queries, keys and values.

    In 8 bits those are no faster, and further off: MiniLM's mean cosine on badly calibrated texts
    was 0.930 with them and 0.947 without. And an INT8 product of queries and keys beside a bfloat16
    one of values is what OpenVINO gets wrong at ``seq == head_dim`` (see `runtimes.openvino`):
    without it the file is right in programs that leave the engine at its defaults, too.
    """
    import nncf  # type: ignore[import-untyped]
    from nncf.quantization.advanced_parameters import (  # type: ignore[import-untyped]
        AdvancedQuantizationParameters,
        AdvancedSmoothQuantParameters,
        OverflowFix,
    )

    exclude = [*exclude, *attention_products(model)]
    return nncf.quantize(
        model,
        nncf.Dataset(items),
        subset_size=len(items),
        preset=nncf.QuantizationPreset.MIXED,
        model_type=nncf.ModelType.TRANSFORMER,  # without it MiniLM's cosine was 0.61
        ignored_scope=nncf.IgnoredScope(names=exclude),
        # The whole range, not the mean of the texts' ranges, and smoothing of 0.75, not 0.95: of
        # MiniLM's cosines on 300 texts the lowest rose from 0.981 to 0.992, the mean by 0.0006.
        advanced_parameters=AdvancedQuantizationParameters(
            activations_range_estimator_params=_ranges(percentile=percentile),
            smooth_quant_alphas=AdvancedSmoothQuantParameters(matmul=0.75),
            # Half the range for weights: in all of it, a processor without VNNI saturates, and a
            # random classifier was 0.63 off there (0.14 with half), in silence. With VNNI all of it
            # would bring MiniLM's mean cosine on 100 texts from 0.9964 to 0.9969: too little for a
            # file that isn't right everywhere.
            overflow_fix=OverflowFix.ENABLE,
        ),
    )


def _ranges(*, percentile: bool) -> Any:
    """Say what 8 bits span: all that was seen, or of each text all but its outermost numbers."""
    from nncf.quantization.range_estimator import (  # type: ignore[import-untyped]
        AggregatorType,
        RangeEstimatorParameters,
        RangeEstimatorParametersSet,
        StatisticsCollectorParameters,
        StatisticsType,
    )

    if not percentile:
        return RangeEstimatorParametersSet.MINMAX
    ends = [
        StatisticsCollectorParameters(
            statistics_type=StatisticsType.QUANTILE,
            aggregator_type=aggregator,
            quantile_outlier_prob=_OUTERMOST,
        )
        for aggregator in (AggregatorType.MIN, AggregatorType.MAX)
    ]
    return RangeEstimatorParameters(min=ends[0], max=ends[1])


def _weights(model: Any, exclude: list[str], items: list[dict[str, IntArray]]) -> Any:  # noqa: ARG001
    import nncf

    return nncf.compress_weights(
        model,
        mode=nncf.CompressWeightsMode.INT8_ASYM,
        ignored_scope=nncf.IgnoredScope(names=exclude),
    )


def _weights_int4(model: Any, exclude: list[str], rounded: Mapping[str, FourBits]) -> Any:
    products = four_bit_products(weight_nodes(model), exclude)
    model = _weights(model, list(products), [])  # what is left, tables among it, in 8 bits
    put_four_bits(model, products, rounded)
    return model


# All are batch-invariant because `runtimes.shapes` computes a row at a length of its own: in any
# shape, 1 to 3 texts in 100 were off by an INT8 step beside 31 others.
RECIPES: dict[str, OpenVinoRecipe] = {
    "static": OpenVinoRecipe(
        convert=_static,
        calibration="min-max",
        about="weights 7 bits of int8 per channel, activations uint8 per tensor, calibrated and "
        "smoothed",
        batch_invariant=True,  # scales are constants
        min_engine=MIN_ENGINE,
    ),
    "static-percentile": OpenVinoRecipe(
        convert=partial(_static, percentile=True),
        calibration="percentile",
        about="weights 7 bits of int8 per channel, activations uint8 per tensor, calibrated by "
        "percentile and smoothed",
        batch_invariant=True,
        min_engine=MIN_ENGINE,
    ),
    "weights": OpenVinoRecipe(
        convert=_weights,
        about="weights uint8 per channel with a zero point, activations as the engine likes",
        batch_invariant=True,  # where the engine quantizes activations, it does so per row
        min_engine=MIN_ENGINE,
    ),
    "weights-int4": OpenVinoRecipe(
        convert=_weights_int4,
        calibration="moments",
        precision="int4",
        about="weights int4 in blocks of 32, rounded by GPTQ, activations as the engine likes, "
        "tables uint8 per row",
        batch_invariant=True,
        min_engine=MIN_ENGINE,
    ),
}


class OpenVinoExporter:
    """Makes ``openvino/openvino_model*.xml`` and ``.bin``; see `Exporter`."""

    backend = "openvino"
    fp32_path = "openvino/openvino_model.xml"
    int8_path = "openvino/openvino_model_int8.xml"
    int4_path = "openvino/openvino_model_int4.xml"
    recipes: Mapping[str, Int8Recipe] = RECIPES

    def __init__(self) -> None:
        """Start without a calibration; trials of one model share it."""
        self._rounded: Remembered[dict[str, FourBits]] = Remembered()

    def files(self, path: str) -> tuple[str, ...]:
        """See `Exporter.files`."""
        return ir_files(path)

    def export_fp32(
        self, model: nn.Module, head: TaskHead, target: Path, *, max_length: int
    ) -> Exported:
        """See `Exporter.export_fp32`."""
        export_openvino(GraphModule(model, head), target, max_length=max_length)
        return Exported({"exporter": "openvino.convert_model, eager attention"}, MIN_ENGINE)

    def parts(self, source: Path) -> dict[str, tuple[str, ...]]:
        """See `Exporter.parts`."""
        nodes = weight_nodes(read_ir(source))
        return group_parts((name, _as_path(name), node.weight) for name, node in nodes.items())

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
        model = read_ir(source)
        nodes = weight_nodes(model)
        check_exclude(exclude, nodes)
        check_texts(chosen, recipe, calibration)
        try:
            with _quiet(), kept_signal_stack():  # the quantizer opens engines of its own
                found = self._found(chosen, source, model, calibration)
                quantized = chosen.convert(model, sorted(exclude), found)
        except Exception as error:  # the quantizer's errors have no parent of their own
            raise quantizer_failed(chosen, recipe, error) from error
        save_ir(quantized, target)
        size_bytes = sum(Path(file).stat().st_size for file in ir_files(str(target)))
        made = weight_nodes(quantized)
        if chosen.precision == "int4":
            kinds = {name: node.kind for name, node in nodes.items()}
            four, eight = ({n for n, node in made.items() if node.bits == bits} for bits in (4, 8))
            left = nodes.keys() - four_bit_products(nodes, exclude).keys()
            return count_four_bits(kinds, four, eight, left, size_bytes=size_bytes)
        return _count(nodes, made, exclude, size_bytes=size_bytes)

    def _found(
        self, chosen: OpenVinoRecipe, source: Path, model: Any, texts: Sequence[Batch]
    ) -> dict[str, FourBits] | list[dict[str, IntArray]]:
        """Prepare what a recipe takes of the calibration."""
        if chosen.precision == "int4":
            return self._rounded.of(source, texts, lambda: round_openvino(model, texts))
        inputs = [port.get_any_name() for port in model.inputs]
        return [{name: getattr(one, name) for name in inputs} for one in single_texts(texts)]


def _count(
    before: Mapping[str, WeightNode],
    after: Mapping[str, WeightNode],
    exclude: Collection[str],
    *,
    size_bytes: int,
) -> Converted:
    done = {name for name, node in after.items() if node.quantized}
    names = tuple(name for name in before if name in done)
    return Converted(
        matmuls=sum(before[name].kind == "MatMul" for name in names),
        matmuls_total=sum(node.kind == "MatMul" for node in before.values()),
        gathers=sum(before[name].kind == "Gather" for name in names),
        gathers_total=sum(node.kind == "Gather" for node in before.values()),
        names=names,
        missed=tuple(sorted(set(before) - done - set(exclude))),
        size_bytes=size_bytes,
    )


def _as_path(name: str) -> str:
    """Write a node's name as `part_name` reads it: ``/encoder/layer.0/output/dense/MatMul``."""
    module, _, rest = name.removeprefix("__module").partition("/")
    return re.sub(r"\.(?!\d)", "/", module) + "/" + rest.rpartition("/")[2]


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the quantizer's progress bars off stdout, its tables off the log, its warnings away."""
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        import nncf  # it makes its log at import, in a class of its own

        chatty = logging.getLogger(nncf.__name__)
        level = chatty.level
        chatty.setLevel(logging.ERROR)
        try:
            yield
        finally:
            chatty.setLevel(level)
