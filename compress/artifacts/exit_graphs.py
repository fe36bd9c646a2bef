"""A classifier cut behind each of its layers: one graph a layer, with that layer's exit."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from compress.models.exits import ExitHead, ExitHeads, encoder_layers, keep_first_layer
from compress.models.graph_module import MASKED, ExportModule, GraphModule
from compress.models.task_head import HIDDEN, TaskHead
from edgebert.engines.exits import HIDDEN_STATES, LOGITS


class SegmentModule(ExportModule):
    """One layer with its exit; the first one with the embeddings in front of it.

    Gives ``logits`` ``[batch, labels]`` and, but for the last layer, ``last_hidden_state``
    ``[batch, seq, hidden]``, which is the ``hidden_states`` of the next.
    """

    def __init__(self, whole: GraphModule, exits: ExitHeads, number: int) -> None:
        """Cut a segment out of a model.

        Args:
            whole: The model as it is exported; left as it was.
            exits: Of all layers but the last.
            number: Of the layer, from 0.
        """
        super().__init__()
        self.config = whole.config
        layers = encoder_layers(whole.model)
        self.last = number == len(layers) - 1
        if number:
            # under the names that layers have in the whole model, by which their parts are known
            self.layer = nn.ModuleDict({str(number): copy.deepcopy(layers[number])})
        else:
            base = copy.deepcopy(whole.model.base_model)
            keep_first_layer(base)
            self.base = base
        self.number = str(number)
        self.exit = copy.deepcopy(ExitHead(whole.model) if self.last else exits[number])
        self.input_names = (HIDDEN_STATES, "attention_mask") if number else whole.input_names
        self.output_names = (LOGITS,) if self.last else (HIDDEN, LOGITS)
        self.eval()

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Run the segment on inputs in the order of `input_names`."""
        inputs = dict(zip(self.input_names, tensors, strict=True))
        if HIDDEN_STATES in inputs:
            mask = (1.0 - inputs["attention_mask"].float()) * MASKED  # [batch, seq]
            hidden = self.layer[self.number](inputs[HIDDEN_STATES], mask[:, None, None, :])
        else:
            hidden = self.base(**inputs).last_hidden_state
        if self.last:
            return (self.exit(hidden),)
        return hidden, self.exit(hidden, inputs["attention_mask"])

    def examples(self) -> tuple[Tensor, ...]:
        """See `ExportModule.examples`."""
        tokens = torch.ones(2, 8, dtype=torch.long)
        if HIDDEN_STATES not in self.input_names:
            return tuple(tokens.clone() for _ in self.input_names)
        return torch.zeros(2, 8, self.config.hidden_size), tokens

    def has_token_axis(self, output: str) -> bool:
        """See `ExportModule.has_token_axis`."""
        return output == HIDDEN


def segment_modules(model: nn.Module, head: TaskHead, exits: ExitHeads) -> list[SegmentModule]:
    """Cut a model into one segment a layer; it is left as it was."""
    whole = GraphModule(model, head)
    count = len(encoder_layers(model))
    return [SegmentModule(whole, exits, number) for number in range(count)]


def _to_onnx(module: SegmentModule, target: Path, *, max_length: int) -> None:  # noqa: ARG001
    from compress.artifacts.onnx_graph import export_onnx

    export_onnx(module, target)


def _to_openvino(module: SegmentModule, target: Path, *, max_length: int) -> None:
    from compress.artifacts.openvino_graph import export_openvino

    export_openvino(module, target, max_length=max_length)


EXPORT: dict[str, Callable[..., None]] = {"onnx": _to_onnx, "openvino": _to_openvino}
"""By backend; the others can't drop rows between segments: their shapes are fixed."""
