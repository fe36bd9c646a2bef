"""The parts of a model that have a row for each token, and the ids that its settings name."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def vocab_rows(model: PreTrainedModel) -> int:
    """Count the tokens that a model has a row for."""
    return model.get_input_embeddings().get_parameter("weight").shape[0]


def take_rows(model: PreTrainedModel, kept: Sequence[int]) -> None:
    """Leave the rows of some tokens in everything that has a row for each, ready to be saved.

    That is the embeddings, tied or not, and in a head over the vocabulary its matrix and its bias;
    in MobileBERT a second matrix, the tokens of which are columns. What they are is found by making
    the same model for one token more, without weights.

    Args:
        model: Changed in place.
        kept: Ids of the tokens, in the order of their new ids.
    """
    config = copy.deepcopy(model.config)
    config.vocab_size = vocab_rows(model) + 1
    with torch.device("meta"):
        wider = dict(type(model)(config).named_parameters(remove_duplicate=False))
    rows = torch.tensor(list(kept))
    for name, parameter in model.named_parameters():  # tied ones once
        sizes = zip(parameter.shape, wider[name].shape, strict=True)
        for axis in [axis for axis, (size, wide) in enumerate(sizes) if size != wide]:
            parameter.data = parameter.data.index_select(axis, rows)
    model.config.vocab_size = len(kept)


def named_ids(config: Any) -> dict[str, list[int]]:
    """Give the ids that a configuration names, as ``pad_token_id``, by name."""
    values = {n: v for n, v in config.to_dict().items() if n.endswith("_token_id")}
    listed = {n: v if isinstance(v, list) else [v] for n, v in values.items() if v is not None}
    return {n: [i for i in ids if isinstance(i, int)] for n, ids in listed.items()}


def rename_ids(config: Any, new_ids: Mapping[int, int]) -> None:
    """Give the tokens that a configuration names their new ids; None to those that are gone.

    Args:
        config: A model's, or of how it generates; changed in place.
        new_ids: By old id.
    """
    for name, old in named_ids(config).items():
        many = isinstance(getattr(config, name), list)
        found = [new_ids[i] for i in old if i in new_ids]
        setattr(config, name, found if many else next(iter(found), None))
