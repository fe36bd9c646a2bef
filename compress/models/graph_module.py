"""A model as an engine will run it: flat inputs, named outputs, the head of its task included."""

from __future__ import annotations

import copy
import inspect
from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from compress.models.capture import MODEL_INPUTS, model_inputs, pool
from compress.models.heads import drop_pruned_heads
from compress.models.task_head import HIDDEN, TaskHead
from edgebert.formats.positions import max_positions

MASKED = -1e4  # of an additive mask: far below any score, and within float16
_PROBE_LENGTH = 160  # more than the window of the families whose attention is local
_PROBE_DIFFERENCE = 1e-3  # of the hidden states, whose size is about 1


class ExportModule(nn.Module, ABC):
    """What is exported: takes tensors by position and returns a tuple of tensors.

    Attributes:
        config: Of the transformers model.
        input_names: Of the tensors that it takes.
        output_names: Of those that it returns.
    """

    config: Any
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]

    @abstractmethod
    def examples(self) -> tuple[Tensor, ...]:
        """Make inputs to trace it with; any axis of theirs that is 2 or 8 may have other sizes."""

    @abstractmethod
    def has_token_axis(self, output: str) -> bool:
        """Whether an output is ``[batch, seq, …]`` and not ``[batch, …]``."""


class GraphModule(ExportModule):
    """Takes the inputs by position and returns a tuple of tensors, as exporters want it.

    Attributes:
        input_names: Those of ``input_ids``, ``attention_mask``, ``token_type_ids`` that the model
            takes, int64 ``[batch, seq]`` (int32 does as well).
        output_names: ``head.outputs``.
        additive_mask: Whether the encoder is given a ready mask.
    """

    def __init__(self, model: nn.Module, head: TaskHead, *, additive_mask: bool = False) -> None:
        """Copy a model, in FP32, in eval mode, with eager attention, without its pruned heads.

        Args:
            model: A `transformers` model with the head of its task; it is left as it was.
            head: Of the task.
            additive_mask: Give the encoder a ready mask ``[batch, 1, seq, seq]`` of 0 and -1e4, for
                engines that lack the operators of the library's own. An encoder that means
                something else by such a mask (a local attention, a mask of 0 and 1) isn't given it.
        """
        super().__init__()
        plain: Any = copy.deepcopy(model).to(device="cpu", dtype=torch.float32)
        if hasattr(plain, "set_attn_implementation"):  # every transformers model
            plain.set_attn_implementation("eager")
        _drop_losses(plain)
        drop_pruned_heads(plain)
        self.model, self.config = plain, plain.config
        self.head = head
        self.dense = None if head.dense is None else copy.deepcopy(head.dense).float().cpu()
        example = dict.fromkeys(MODEL_INPUTS, torch.ones(2, 8, dtype=torch.long))
        self.input_names = tuple(model_inputs(model, example))
        self.output_names = head.outputs
        self.eval()  # the wrapper too: an exporter restores the mode of what it was given
        self.additive_mask = additive_mask and _give_ready_mask(plain)

    def examples(self) -> tuple[Tensor, ...]:
        """See `ExportModule.examples`."""
        return tuple(torch.ones(2, 8, dtype=torch.long) for _ in self.input_names)

    def has_token_axis(self, output: str) -> bool:
        """See `ExportModule.has_token_axis`."""
        return self.head.has_token_axis(output)

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Run the model on inputs in the order of `input_names`."""
        inputs = dict(zip(self.input_names, tensors, strict=True))
        mask = inputs["attention_mask"]
        if self.head.task == "multiple-choice" and mask.dim() == 2:
            # each choice is a row: one choice a question
            inputs = {name: values[:, None] for name, values in inputs.items()}
        found = task_outputs(self.model, inputs, self.head, mask=mask, dense=self.dense)
        return tuple(found[name] for name in self.output_names)


def _drop_losses(model: nn.Module) -> None:
    """Take the losses off a model, which no graph has.

    Tracing reads every attribute, and transformers warns where the loss of an encoder is read, as
    it has none.
    """
    part: Any
    for part in model.modules():
        if hasattr(type(part), "loss_function"):  # every transformers model
            part.loss_function = None


def _give_ready_mask(model: nn.Module) -> bool:
    """Give a model's encoder additive masks from now on, if its results stay the same."""
    encoder: Any = getattr(model, "base_model", model)
    length = min(_PROBE_LENGTH, max_positions(encoder.config.to_dict()) or _PROBE_LENGTH)
    ids = torch.arange(2 * length).reshape(2, length) % encoder.config.vocab_size
    mask = (torch.arange(length) < torch.tensor([[length], [length * 2 // 3]])).long()
    with torch.no_grad():
        before = encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        handle = encoder.register_forward_pre_hook(_ready_mask, with_kwargs=True)
        try:
            after = encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        except (ValueError, RuntimeError, IndexError):  # what the families say of four axes
            after = torch.full_like(before, torch.inf)
    same = bool(((after - before).abs() * mask[:, :, None]).max() < _PROBE_DIFFERENCE)
    if not same:
        handle.remove()
    return same


def _ready_mask(
    encoder: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Put an additive mask in the place of an encoder's mask of 0 and 1, ``[batch, seq]``."""
    given = inspect.signature(encoder.forward).bind(*arguments, **named)
    mask = given.arguments["attention_mask"]
    batch, length = mask.shape
    blocked = ((1.0 - mask.float()) * MASKED)[:, None, None, :]
    given.arguments["attention_mask"] = blocked.expand(batch, 1, length, length)
    return given.args, given.kwargs


def task_outputs(
    model: nn.Module,
    inputs: dict[str, Tensor],
    head: TaskHead,
    *,
    mask: Tensor | None = None,
    dense: nn.Module | None = None,
) -> dict[str, Tensor]:
    """Run a torch model and name its outputs as an exported graph does.

    Args:
        model: A `transformers` model.
        inputs: What it takes, by name.
        head: Of the task.
        mask: 1 for a real token, ``[batch, seq]``; default ``inputs["attention_mask"]``.
        dense: In the place of ``head.dense``.

    Returns:
        Of ``feature-extraction`` ``sentence_embedding`` ``[batch, dim]``, not normalized, and
        ``last_hidden_state`` ``[batch, seq, hidden]``; of ``question-answering`` ``start_logits``
        and ``end_logits`` ``[batch, seq]``; of the others ``logits``: ``[batch, labels]``,
        ``[batch, seq, labels]`` for tags and masks, ``[batch, 1]`` for a score or a choice.
    """
    if head.task != "feature-extraction":
        output = model(**inputs)
        return {name: output[name] for name in head.outputs}
    real = inputs["attention_mask"] if mask is None else mask
    dense = head.dense if dense is None else dense
    output = model(**inputs, output_hidden_states=head.pooling_layers > 1)
    hidden = output.last_hidden_state
    averaged = hidden
    if head.pooling_layers > 1:
        averaged = torch.stack(output.hidden_states[-head.pooling_layers :]).mean(dim=0)
    vectors = pool(averaged, real, head.pooling or "mean")
    return {
        "sentence_embedding": vectors if dense is None else dense(vectors),
        HIDDEN: hidden,
    }
