"""A fresh student, fitted layer by layer to its teacher's hidden states on a few texts.

Closed-form least squares in one run of the student, from the bottom up: each fit sees what the
fitted parts below it give. No step of gradient descent is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from compress.models.blocks import LAYOUTS, SHARING, model_type, paired_blocks
from compress.models.capture import MODEL_INPUTS, model_inputs

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# Of 0.01, 0.1 and 1 the best on texts held out: 448 texts of SST-2, MiniLM's layers 2, 4 and 6.
RIDGE = 0.1  # times the mean of the inputs' squares
LEAST_SCALE = 0.3  # times the median: a norm's near-zero scale would ask for huge sums


def can_fit(model: nn.Module) -> bool:
    """Whether a model's norms can be fitted; not shared ones, which serve many layers at once."""
    return model_type(model) in LAYOUTS and model_type(model) not in SHARING


@torch.no_grad()
def fit_student(
    student: PreTrainedModel,
    teacher: PreTrainedModel,
    layer_map: tuple[int, ...],
    *,
    basis: Tensor | None,
    batches: Sequence[Mapping[str, Tensor]],
    outputs: bool,
) -> None:
    """Fit each LayerNorm, and each matrix before one, to the projected teacher's, in place.

    A norm's scales and biases are fitted axis by axis, a matrix by ridge regression. A student of
    all the teacher's layers and neurons is left as it is.

    Args:
        student: Copied or projected; put into eval mode.
        teacher: In eval mode; `can_fit` of it holds.
        layer_map: 1-based teacher layer of each student layer.
        basis: ``P``; None where the widths agree.
        batches: Texts.
        outputs: Fit the attention output and the feed-forward output too, not norms alone.
    """
    embeddings: list[Any] = [
        m.base_model.get_submodule("embeddings.LayerNorm") for m in (student, teacher)
    ]
    parts: list[tuple[nn.Linear | None, nn.LayerNorm, nn.LayerNorm]] = []
    if embeddings[0].weight.shape != embeddings[1].weight.shape:  # else they are the teacher's own
        parts.append((None, embeddings[0], embeddings[1]))
    for own, origin in paired_blocks(student, teacher, layer_map):
        parts.append((own.attention_output, own.attention_norm, origin.attention_norm))
        parts.append((own.down, own.output_norm, origin.output_norm))
    if basis is None:
        basis = torch.eye(parts[-1][1].weight.numel(), dtype=torch.float64)
    targets = _outputs([origin for *_, origin in parts], teacher, batches)
    whole = _merge(batches, student.device)
    mask = whole["attention_mask"].bool()
    student.train(False)
    handles = []
    for (linear, norm, _), target in zip(parts, targets, strict=True):
        fit = _Fit(linear if outputs else None, target @ basis, mask)
        handles += fit.attach(norm)
    try:
        student.base_model(**model_inputs(student.base_model, whole))
    finally:
        for handle in handles:
            handle.remove()


class _Fit:
    """Fits one LayerNorm, and the matrix that writes into its sum, while the student runs.

    Args:
        linear: That matrix, to be fitted too; or None.
        wanted: What the norm should give for the real tokens, float64 ``[tokens, H]``.
        mask: The real tokens, bool ``[B, S]``.
    """

    def __init__(self, linear: nn.Linear | None, wanted: Tensor, mask: Tensor) -> None:
        self._linear = linear
        self._wanted = wanted
        self._mask = mask
        self._inputs = torch.empty(0)

    def attach(self, norm: nn.Module) -> list[Any]:
        """Hook both; gives the handles to remove."""
        handles: list[Any] = [norm.register_forward_hook(self._fit)]
        if self._linear is not None:
            handles.append(self._linear.register_forward_pre_hook(self._keep_inputs))
        return handles

    def _keep_inputs(self, _linear: nn.Module, args: tuple[Any, ...]) -> None:
        self._inputs = args[0]

    def _fit(self, norm: Any, args: tuple[Any, ...], _output: Tensor) -> Tensor:
        sums: Tensor = args[0]  # [B, S, H]
        self._fit_norm(norm, sums)
        if self._linear is not None:
            residual = sums - self._linear(self._inputs)
            self._fit_linear(self._linear, self._real(sums), norm)
            sums = residual + self._linear(self._inputs)
            self._fit_norm(norm, sums)
        return F.layer_norm(sums, norm.normalized_shape, norm.weight, norm.bias, norm.eps)

    def _real(self, states: Tensor) -> Tensor:
        return states[self._mask].double().cpu()

    def _fit_norm(self, norm: Any, sums: Tensor) -> None:
        units = self._real(F.layer_norm(sums, norm.normalized_shape, eps=norm.eps))
        centred = units - units.mean(dim=0)
        slope = (centred * self._wanted).mean(dim=0) / centred.square().mean(dim=0).clamp(1e-12)
        norm.weight.copy_(slope)
        norm.bias.copy_(self._wanted.mean(dim=0) - slope * units.mean(dim=0))

    def _fit_linear(self, linear: nn.Linear, sums: Tensor, norm: Any) -> None:
        """Solve for the change of the matrix that moves the sums to what the norm should see.

        A norm forgets each token's mean and scale, so the sums keep their own.
        """
        scales = norm.weight.double().cpu()
        least = LEAST_SCALE * scales.abs().median()
        scales = torch.where(scales < 0, -1.0, 1.0) * scales.abs().clamp(min=float(least))
        units = (self._wanted - norm.bias.double().cpu()) / scales  # [tokens, H]
        spread = sums.std(dim=1, unbiased=False, keepdim=True)
        change = units * spread + sums.mean(dim=1, keepdim=True) - sums
        inputs = F.pad(self._real(self._inputs), (0, 1), value=1.0)  # the last column is the bias
        square = inputs.T @ inputs
        square.diagonal().add_(RIDGE * square.diagonal().mean())
        step = torch.linalg.solve(square, inputs.T @ change)  # [in + 1, H]
        linear.weight.add_(step[:-1].T.to(linear.weight))
        linear.bias.add_(step[-1].to(linear.bias))


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
