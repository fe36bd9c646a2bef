"""LayerNorms of a fresh student, fitted to what its teacher's hidden states are on a few texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from compress.blocks import LAYOUTS, model_type, paired_blocks
from compress.capture import MODEL_INPUTS, model_inputs

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def can_fit(model: nn.Module) -> bool:
    """Whether a model's norms can be fitted; not ALBERT's, which serve all its layers at once."""
    return model_type(model) in LAYOUTS and model_type(model) != "albert"


@torch.no_grad()
def fit_layer_norms(
    student: PreTrainedModel,
    teacher: PreTrainedModel,
    layer_map: tuple[int, ...],
    *,
    basis: Tensor | None,
    batches: Sequence[Mapping[str, Tensor]],
) -> None:
    """Fit each LayerNorm's scale and bias to the projected output of the teacher's.

    Least squares, axis by axis, from the bottom up within one run of the student: each fit sees
    what the fitted ones below it give. On 256 texts of SST-2 this brings the last hidden states of
    a MiniLM from a cosine of 0.07 with the teacher's to 0.54 at width 312 and all 6 layers, and
    from 0.58 to 0.71 with layers 2, 4 and 6 copied as they are; before any training.

    Args:
        student: Copied or projected; put into eval mode.
        teacher: In eval mode; `can_fit` of it holds.
        layer_map: 1-based teacher layer of each student layer.
        basis: ``P``; None where the widths agree.
        batches: Texts.
    """
    pairs: list[Any] = [
        tuple(m.base_model.get_submodule("embeddings.LayerNorm") for m in (student, teacher))
    ]
    for block, origin in paired_blocks(student, teacher, layer_map):
        pairs.append((block.attention_norm, origin.attention_norm))
        pairs.append((block.output_norm, origin.output_norm))
    if pairs[0][0].weight.shape == pairs[0][1].weight.shape:
        del pairs[0]  # the embedding output is the teacher's own
    if basis is None:
        basis = torch.eye(pairs[-1][0].weight.numel(), dtype=torch.float64)
    targets = _outputs([origin for _, origin in pairs], teacher, batches)
    whole = _merge(batches, student.device)
    mask = whole["attention_mask"].bool()
    handles = [
        own.register_forward_hook(_fit_hook(target @ basis, mask))
        for (own, _), target in zip(pairs, targets, strict=True)
    ]
    student.train(False)
    try:
        student.base_model(**model_inputs(student.base_model, whole))
    finally:
        for handle in handles:
            handle.remove()


def _fit_hook(wanted: Tensor, mask: Tensor) -> Callable[[Any, tuple[Any, ...], Tensor], Tensor]:
    """Make a hook that fits a LayerNorm to what is wanted of the real tokens ``[tokens, H]``."""

    def hook(norm: Any, args: tuple[Any, ...], _output: Tensor) -> Tensor:
        shape = norm.normalized_shape
        units = F.layer_norm(args[0], shape, eps=norm.eps)[mask].double().cpu()  # [tokens, H]
        centred = units - units.mean(dim=0)
        slope = (centred * wanted).mean(dim=0) / centred.square().mean(dim=0).clamp(min=1e-12)
        norm.weight.copy_(slope)
        norm.bias.copy_(wanted.mean(dim=0) - slope * units.mean(dim=0))
        return F.layer_norm(args[0], shape, norm.weight, norm.bias, norm.eps)

    return hook


def _outputs(
    modules: Sequence[nn.Module], model: PreTrainedModel, batches: Sequence[Mapping[str, Tensor]]
) -> list[Tensor]:
    """Run an encoder over batches; give each module's output of real tokens ``[tokens, H]``."""
    kept: list[list[Tensor]] = [[] for _ in modules]

    def hook_of(parts: list[Tensor]) -> Any:
        return lambda _module, _args, output: parts.append(output.double().cpu())

    handles = [
        module.register_forward_hook(hook_of(parts))
        for module, parts in zip(modules, kept, strict=True)
    ]
    try:
        for batch in batches:
            model.base_model(**model_inputs(model.base_model, _merge([batch], model.device)))
    finally:
        for handle in handles:
            handle.remove()
    masks = [batch["attention_mask"].bool().cpu() for batch in batches]
    return [torch.cat([p[m] for p, m in zip(parts, masks, strict=True)]) for parts in kept]


def _merge(batches: Sequence[Mapping[str, Tensor]], device: torch.device) -> dict[str, Tensor]:
    """Join batches into one as long as the longest; what is added is masked."""
    length = max(batch["input_ids"].shape[1] for batch in batches)
    names = [name for name in MODEL_INPUTS if name in batches[0]]
    return {
        name: torch.cat([F.pad(b[name], (0, length - b[name].shape[1])) for b in batches]).to(
            device
        )
        for name in names
    }
