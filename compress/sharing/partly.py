"""A BERT's weights in one whose layers share their attention or their feed-forward part alone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import torch

from compress.models.architecture import PRUNED_HEADS
from compress.models.shared_bert import MODELS, MODULES, SharedBertConfig
from compress.sharing.albert import TOKENIZERS, Plan, Start
from edgebert.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@torch.no_grad()
def share_part(model: PreTrainedModel, plan: Plan, *, start: Start = "mean") -> PreTrainedModel:
    """Make a `compress.models.shared_bert` of a BERT's weights.

    Args:
        model: With its head; it is left as it was.
        plan: Of `compress.sharing.albert.make_plan`, with a part.
        start: What a group begins with: the mean of its layers' weights, or its first layer's.

    Returns:
        Its twin, in eval mode, float32, on its device.

    Raises:
        ModelError: It has a head that `compress.models.shared_bert` hasn't.
    """
    shared = _shared_like(model, plan)
    own = model.state_dict()
    for name, parameter in shared.named_parameters():  # a shared one by its first layer's name
        sources = [own[member].float() for member in _members(name, shared.config)]
        parameter.copy_(sources[0] if start == "first" else torch.stack(sources).mean(dim=0))
    return shared.to(model.device).eval()  # type: ignore[no-any-return]


def _shared_like(model: PreTrainedModel, plan: Plan) -> Any:
    """Make a model of the same class and sizes that shares, with random weights."""
    name = f"Shared{type(model).__name__}"
    maker: Any = MODELS.get(name)
    if maker is None:
        raise ModelError(
            f"A {type(model).__name__} can't share its {plan.share} alone; give a model with the "
            f"head of a task, or one without a head, or take --share all."
        )
    theirs = model.config.to_dict()
    left_out = {"model_type", "architectures", PRUNED_HEADS if plan.share == "attention" else ""}
    settings = {key: value for key, value in theirs.items() if key not in left_out}
    config = SharedBertConfig.from_dict(
        {**settings, "shared_part": plan.share, "num_hidden_groups": plan.groups}
    )
    config.tokenizer_class = theirs.get("tokenizer_class") or TOKENIZERS["bert"]
    pooler = {"add_pooling_layer": model.pooler is not None} if name == "SharedBertModel" else {}
    with torch.random.fork_rng(devices=[]):  # every weight is replaced
        return maker(config, **pooler)


def _members(name: str, config: SharedBertConfig) -> list[str]:
    """Name the weights of a BERT that one of a model that shares stands for."""
    found = re.fullmatch(r"(.*\blayer\.)(\d+)(\.(\w+)\..+)", name)
    if found is None or found[4] not in MODULES[config.shared_part]:
        return [name]
    first, size = int(found[2]), config.num_hidden_layers // config.num_hidden_groups
    return [f"{found[1]}{number}{found[3]}" for number in range(first, first + size)]
