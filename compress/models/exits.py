"""Exits: a head after each layer of a classifier but the last, so that a text may leave early.

Each is of the shape of the model's own head and starts as a copy of it (Xin et al., 2020), but
reads the mean of a text's tokens. They are kept beside the checkpoint, which stays what
transformers opens.
"""

from __future__ import annotations

import copy
import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from compress.models.blocks import SHARING, model_type
from compress.models.capture import Wanted, forward_features, pool
from edgebert.errors import ModelError

logger = logging.getLogger(__name__)

EXITS_NAME = "exits.safetensors"
DEFAULT_BUDGET = 0.005
_NOTES = "exits"

# Where each family keeps its layers, each applied to hidden states and a mask.
_LAYERS = {
    "bert": "encoder.layer",
    "roberta": "encoder.layer",
    "xlm-roberta": "encoder.layer",
    "camembert": "encoder.layer",
    "electra": "encoder.layer",
    "distilbert": "transformer.layer",
}


def encoder_layers(model: Any) -> nn.ModuleList:
    """Give the list of a model's layers.

    Args:
        model: A transformers model.

    Raises:
        ModelError: Its family's layers can't be run one by one, or share weights, which each of
            the segments that run one by one would hold again.
    """
    family = model_type(model)
    if family not in _LAYERS:
        raise ModelError(
            f"The layers of the family {family!r} {_why_not(family)}, so it has neither exits "
            f"nor layers to drop; families that can: {', '.join(_LAYERS)}."
        )
    layers: nn.ModuleList = model.base_model.get_submodule(_LAYERS[family])
    return layers


def _why_not(family: str) -> str:
    shares = "share weights, which a file for each layer would hold again"
    return shares if family in SHARING else "can't be run one by one"


def keep_first_layer(base: Any) -> None:
    """Take all layers but the first, and the pooler, off an encoder, in place."""
    parent, _, name = _LAYERS[model_type(base)].rpartition(".")
    layers: Any = base.get_submodule(_LAYERS[model_type(base)])
    setattr(base.get_submodule(parent), name, nn.ModuleList([layers[0]]))
    if getattr(base, "pooler", None) is not None:
        base.pooler = None


class ExitHead(nn.Module):
    """From hidden states ``[B, S, H]`` to logits ``[B, C]``, as a model's own head does it.

    An exit gives the head the mean of a text's tokens where the model's own reads the first token,
    which has seen little of the text before the last layers: on SST-2 the exits of layers 1 to 3 of
    6 scored 0.835, 0.847 and 0.861 on dev, and with the first token 0.545, as chance does.
    """

    def __init__(self, model: Any) -> None:
        """Copy a classifier's head.

        Args:
            model: A transformers ``…ForSequenceClassification``.
        """
        super().__init__()
        pooler = getattr(model.base_model, "pooler", None)
        self.pooler = copy.deepcopy(pooler)
        self.pre_classifier = copy.deepcopy(getattr(model, "pre_classifier", None))
        self.classifier = copy.deepcopy(model.classifier)

    def forward(self, hidden: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Give the logits of hidden states.

        Args:
            hidden: ``[B, S, H]``.
            attention_mask: ``[B, S]``; None for the model's own way, the first token.
        """
        if attention_mask is not None:
            hidden = pool(hidden, attention_mask, "mean")[:, None]  # [B, 1, H]
        if self.pooler is not None:
            hidden = self.pooler(hidden)
        elif self.pre_classifier is not None:
            hidden = torch.relu(self.pre_classifier(hidden[:, 0]))
        logits: Tensor = self.classifier(hidden)
        return logits


class ExitHeads(nn.ModuleList):
    """The heads after layers 1, 2, … of a classifier, the last layer left out.

    Attributes:
        budget: Part of the metric that leaving early may cost.
    """

    def __init__(self, model: Any, *, budget: float = DEFAULT_BUDGET) -> None:
        """Copy a classifier's head for each layer but the last.

        Raises:
            ModelError: Its family isn't known, or it has no two layers.
        """
        layers = len(encoder_layers(model))
        if layers < 2:
            raise ModelError("A model of one layer has no place for an exit; give it two or more.")
        super().__init__(ExitHead(model) for _ in range(layers - 1))
        self.budget = budget


class ExitModel(nn.Module):
    """A classifier with its exits: ``logits`` of all of them, the last layer's own at the end.

    Attributes:
        config: The classifier's.
    """

    def __init__(self, model: nn.Module, exits: ExitHeads) -> None:
        """Put the two together; neither is copied."""
        super().__init__()
        self.classifier, self.exits, self.config = model, exits, model.config

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Give ``logits``, ``[B, layers * C]``."""
        batch = {"input_ids": input_ids, "attention_mask": attention_mask}
        if token_type_ids is not None:
            batch["token_type_ids"] = token_type_ids
        *hidden, final = hidden_and_logits(self.classifier, batch)
        own = [exit_(h, attention_mask) for exit_, h in zip(self.exits, hidden, strict=True)]
        return {"logits": torch.cat([*own, final], dim=1)}


def hidden_and_logits(model: nn.Module, batch: Mapping[str, Tensor]) -> list[Tensor]:
    """Run a classifier: the hidden states ``[B, S, H]`` that its exits read, then its logits."""
    earlier = tuple(range(1, len(encoder_layers(model))))
    features = forward_features(model, batch, Wanted(hidden_states=earlier))
    logits: Any = features.logits  # a classifier has some
    return [*(features.hidden[layer] for layer in earlier), logits]


def save_exits(exits: ExitHeads, directory: Path, *, labels: Sequence[str]) -> None:
    """Write ``exits.safetensors`` beside a checkpoint.

    Args:
        exits: The heads.
        directory: Of the checkpoint.
        labels: In the order of their logits.
    """
    tensors = {name: value.detach().cpu().contiguous() for name, value in exits.named_parameters()}
    notes = json.dumps({"budget": exits.budget, "labels": list(labels)})
    # one note: several are written in an order that changes from run to run
    save_file(tensors, directory / EXITS_NAME, metadata={_NOTES: notes})
    (directory / EXITS_NAME).chmod((directory / "config.json").stat().st_mode)


def load_exits(model: nn.Module, directory: Path, *, labels: Sequence[str]) -> ExitHeads | None:
    """Read a checkpoint's exits; None where it has none.

    Args:
        model: The checkpoint's classifier.
        directory: Of the checkpoint.
        labels: In the order of the model's logits, which becomes that of the exits.

    Raises:
        ModelError: The file is damaged, of another model, or of other labels.
    """
    path = directory / EXITS_NAME
    if not path.is_file():
        return None
    exits = ExitHeads(model)
    try:
        with safe_open(path, "pt") as file:
            notes = json.loads((file.metadata() or {})[_NOTES])
        exits.budget = float(notes["budget"])
        order = [notes["labels"].index(label) for label in labels]
        exits.load_state_dict(load_file(path))
    except (OSError, RuntimeError, SafetensorError, LookupError, ValueError, TypeError) as error:
        raise ModelError(
            f"{path} doesn't hold the exits of the model beside it, for the labels "
            f"{', '.join(labels)} ({' '.join(str(error).split())}). Remove it to go on without "
            "exits, or distill the student again."
        ) from error
    for head in exits:
        _reorder(head, order)
    return exits.eval()


def copy_exits(source: Path, directory: Path) -> None:
    """Take a checkpoint's exits along, where its layers stay as they are."""
    if (source / EXITS_NAME).is_file():
        shutil.copyfile(source / EXITS_NAME, directory / EXITS_NAME)


def warn_of_exits(source: Path) -> None:
    """Say that a checkpoint's exits are left behind, where its layers become others."""
    if (source / EXITS_NAME).is_file():
        logger.warning(
            "%s has exits, which read layers that are changed here: the result has none. Give it "
            "some with `python -m compress.distill --student RESULT --early-exit`.",
            source,
        )


def _reorder(head: nn.Module, order: Sequence[int]) -> None:
    """Put the logits of a head into another order, in its last layer."""
    *_, last = (part for part in head.modules() if isinstance(part, nn.Linear))
    with torch.no_grad():
        last.weight.copy_(last.weight[list(order)].clone())
        last.bias.copy_(last.bias[list(order)].clone())
