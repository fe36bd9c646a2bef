"""The parts of an encoder's layers under one set of names, whatever the family calls them."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from compress.models.architecture import SHARED_BERT
from edgebert.errors import ModelError


@dataclass(frozen=True)
class Block:
    """One post-norm transformer layer.

    Attributes:
        query: ``Linear(H, A * d)``.
        key: As ``query``.
        value: As ``query``.
        attention_output: ``Linear(A * d, H)``.
        attention_norm: After the first residual sum.
        up: ``Linear(H, intermediate)``.
        down: ``Linear(intermediate, H)``.
        output_norm: After the second residual sum.
    """

    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    attention_output: nn.Linear
    attention_norm: nn.LayerNorm
    up: nn.Linear
    down: nn.Linear
    output_norm: nn.LayerNorm

    @property
    def linears(self) -> tuple[nn.Linear, ...]:
        """All matrices of the block."""
        return (self.query, self.key, self.value, self.attention_output, self.up, self.down)


_BERT = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "attention.output.LayerNorm",
    "intermediate.dense",
    "output.dense",
    "output.LayerNorm",
)
_DISTILBERT = (
    "attention.q_lin",
    "attention.k_lin",
    "attention.v_lin",
    "attention.out_lin",
    "sa_layer_norm",
    "ffn.lin1",
    "ffn.lin2",
    "output_layer_norm",
)
_ALBERT = (
    "attention.query",
    "attention.key",
    "attention.value",
    "attention.dense",
    "attention.LayerNorm",
    "ffn",
    "ffn_output",
    "full_layer_layer_norm",
)
LAYOUTS = {
    "bert": _BERT,
    "roberta": _BERT,
    "xlm-roberta": _BERT,
    "camembert": _BERT,
    "electra": _BERT,
    "distilbert": _DISTILBERT,
    "albert": _ALBERT,
    SHARED_BERT: _BERT,
}
SHARING = ("albert", SHARED_BERT)  # families whose layers share weights


def model_type(model: nn.Module) -> str:
    """Name the family of a transformers model, like ``bert``."""
    return str(getattr(model.config, "model_type", type(model).__name__))


def encoder_blocks(model: nn.Module) -> list[Block]:
    """List the layers of an encoder in their order; ALBERT's shared layers are there once.

    Parts that layers of a `compress.models.shared_bert` share are there in each of them.

    Raises:
        ModelError: The family isn't one of `LAYOUTS`.
    """
    family = model_type(model)
    if family not in LAYOUTS:
        raise ModelError(
            f"The layers of the family {family!r} can't be taken apart; "
            f"known families: {', '.join(LAYOUTS)}."
        )
    layout = LAYOUTS[family]
    blocks = []
    for module in model.modules():
        parts = [_get(module, path) for path in layout]
        if all(isinstance(part, (nn.Linear, nn.LayerNorm)) for part in parts):
            blocks.append(Block(*parts))  # type: ignore[arg-type]  # checked the line above
    return blocks


def paired_blocks(
    student: nn.Module, teacher: nn.Module, layer_map: tuple[int, ...]
) -> list[tuple[Block, Block]]:
    """Pair each student layer with its teacher layer; shared layers (ALBERT) pair as they are."""
    ours, theirs = encoder_blocks(student), encoder_blocks(teacher)
    if model_type(teacher) == "albert":
        return list(zip(ours, theirs, strict=True))
    return [(block, theirs[layer - 1]) for block, layer in zip(ours, layer_map, strict=True)]


def _get(module: nn.Module, path: str) -> nn.Module | None:
    for name in path.split("."):
        child = dict(module.named_children()).get(name)
        if child is None:
            return None
        module = child
    return module


def important_neurons(up: Tensor, down: Tensor, count: int) -> Tensor:
    """Choose the hidden neurons between two matrices that carry most, in their order.

    Args:
        up: ``[intermediate, H]``.
        down: ``[out, intermediate]``.
        count: How many at most.

    Returns:
        int64 ``[min(count, intermediate)]``, rising.
    """
    chosen: Tensor = neuron_weights(up, down).topk(min(count, len(up))).indices.sort().values
    return chosen


def neuron_weights(up: Tensor, down: Tensor) -> Tensor:
    """Say how much each neuron carries: the norm of what it reads times that of what it writes.

    Args:
        up: ``[intermediate, H]``.
        down: ``[out, intermediate]``.

    Returns:
        ``[intermediate]``.
    """
    product: Tensor = up.norm(dim=1) * down.norm(dim=0)
    return product


def keep_outputs(linear: nn.Linear, kept: Tensor) -> None:
    """Take all but some outputs from a linear layer, in place.

    Args:
        linear: With a bias.
        kept: int64, in their new order.
    """
    linear.weight = nn.Parameter(linear.weight.detach()[kept])
    linear.bias = nn.Parameter(linear.bias.detach()[kept])
    linear.out_features = len(kept)


def keep_inputs(linear: nn.Linear, kept: Tensor) -> None:
    """Take all but some inputs from a linear layer, in place; see `keep_outputs`."""
    linear.weight = nn.Parameter(linear.weight.detach()[:, kept].contiguous())
    linear.in_features = len(kept)
