"""What a loss sees of a model: logits, hidden states, and queries, keys and values by hooks.

Attention scores are products of the captured queries and keys, so the model keeps its fast fused
attention: no eager attention, no ``output_attentions``.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from compress.settings import Pooling as Pooling
from edgebert.errors import InputError, ModelError

MODEL_INPUTS = ("input_ids", "attention_mask", "token_type_ids")

# Names of the three projections within a self-attention module.
PROJECTIONS = (
    ("query", "key", "value"),  # BERT, RoBERTa, ELECTRA, ALBERT, MobileBERT
    ("q_lin", "k_lin", "v_lin"),  # DistilBERT
    ("query_proj", "key_proj", "value_proj"),  # DeBERTa-v2
)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What to take from a forward pass. Equal values are equal keys.

    Attributes:
        hidden_states: 0 for the embedding output, then 1-based layers.
        relations: 1-based layers whose queries, keys and values to take.
        logits: Whether the head runs at all; without it only the encoder does.
        pooled: How to pool hidden states into one vector a text; None for no vector.
        pooling_layers: How many of the last layers are averaged before they are pooled.
    """

    hidden_states: tuple[int, ...] = ()
    relations: tuple[int, ...] = ()
    logits: bool = True
    pooled: Pooling | None = None
    pooling_layers: int = 1

    @property
    def tokens(self) -> bool:
        """Whether anything of each token is wanted beside the logits."""
        return bool(self.hidden_states or self.relations)


@dataclass
class Features:
    """What was wanted of one batch, padded like the batch.

    Attributes:
        logits: ``[B, C]``; ``[B, S, C]`` for tags and masks; ``[B, S, 2]`` for start and end of an
            answer; ``[B, 1]`` for a score, and for a choice, each a row of its own. None when not
            wanted or without a head.
        hidden: ``[B, S, H]`` by layer, 0 the embedding output.
        query: ``[B, S, A * d]`` by 1-based layer.
        key: As ``query``.
        value: As ``query``.
        num_heads: ``A``; 0 when no relations were wanted.
        pooled: ``[B, H]``; None when not wanted.
    """

    logits: Tensor | None = None
    hidden: dict[int, Tensor] = field(default_factory=dict)
    query: dict[int, Tensor] = field(default_factory=dict)
    key: dict[int, Tensor] = field(default_factory=dict)
    value: dict[int, Tensor] = field(default_factory=dict)
    num_heads: int = 0
    pooled: Tensor | None = None


def forward_features(model: nn.Module, batch: Mapping[str, Tensor], wanted: Wanted) -> Features:
    """Run a transformers encoder on a batch and keep what is wanted.

    Gradients, dropout and autocast are the caller's matter: nothing is switched here.

    Args:
        model: With or without a head.
        batch: ``input_ids``, ``attention_mask``, ``token_type_ids``, int64 ``[B, S]``; a model is
            given those it takes, other entries are left alone.
        wanted: Layers that the model has.

    Raises:
        InputError: A wanted layer doesn't exist.
        ModelError: Logits are wanted of a model without a head, or relations of an encoder whose
            attention isn't known.
    """
    require_layers(model, wanted)
    runs: Any = model if wanted.logits else getattr(model, "base_model", model)
    need_hidden = bool(wanted.hidden_states) or wanted.pooled is not None
    inputs = model_inputs(runs, batch)
    if _takes_choices(runs):  # each row a choice of its own: one choice a question
        inputs = {name: values[:, None] for name, values in inputs.items()}
    with captured_projections(model, wanted.relations) as layers:
        output = runs(**inputs, output_hidden_states=need_hidden, return_dict=True)
    logits = _logits(output) if wanted.logits else None
    if wanted.logits and logits is None:
        raise ModelError(
            f"{type(model).__name__} has no head, so it gives no logits; use a model with a head "
            "for the task, or a method without soft targets."
        )
    features = Features(logits=logits)
    if need_hidden:  # of a model without layers the library lists none
        states = output.hidden_states or (output.last_hidden_state,)
        features.hidden = {i: states[i] for i in wanted.hidden_states}
    if wanted.pooled is not None:
        hidden = states[-1]
        if wanted.pooling_layers > 1:
            hidden = torch.stack(states[-wanted.pooling_layers :]).mean(dim=0)
        features.pooled = pool(hidden, batch["attention_mask"], wanted.pooled)
    if wanted.relations:
        features.num_heads = int(_config(model).num_attention_heads)
        _take_relations(features, layers, wanted.relations)
    return features


def _takes_choices(model: nn.Module) -> bool:
    return type(model).__name__.endswith("ForMultipleChoice")


def _logits(output: Any) -> Tensor | None:
    start: Tensor | None = getattr(output, "start_logits", None)
    if start is not None:
        return torch.stack([start, output.end_logits], dim=-1)
    logits: Tensor | None = getattr(output, "logits", None)
    return logits


def model_inputs(model: nn.Module, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Choose the entries of a batch that a model takes.

    ``token_type_ids`` go only to a model with more than one token type: RoBERTa names the argument
    but has a single row in its table.
    """
    taken = inspect.signature(model.forward).parameters
    names = [name for name in MODEL_INPUTS if name in taken and name in batch]
    if int(getattr(_config(model), "type_vocab_size", 0) or 0) < 2:
        names = [name for name in names if name != "token_type_ids"]
    return {name: batch[name] for name in names}


def require_layers(model: nn.Module, wanted: Wanted) -> None:
    """Raise an `InputError` when a wanted layer is not one of the model's."""
    count = int(_config(model).num_hidden_layers)  # 0 of a static student
    bad = [i for i in wanted.hidden_states if not 0 <= i <= count]
    bad += [i for i in wanted.relations if not 1 <= i <= count]
    bad += [wanted.pooling_layers] if not 1 <= wanted.pooling_layers <= max(1, count) else []
    if bad:
        raise InputError(
            f"{type(model).__name__} has layers 1 to {count} (0 is the embedding output), "
            f"not {sorted(set(bad))}."
        )


def _config(model: nn.Module) -> Any:  # transformers' configurations have no common typed fields
    return model.config


def pool(hidden: Tensor, attention_mask: Tensor, how: Pooling) -> Tensor:
    """Turn token vectors ``[B, S, H]`` into one vector a text ``[B, H]``; padding never counts.

    Raises:
        InputError: No pooling has that name.
    """
    if how == "cls":
        return hidden[:, 0]
    if how == "mean":
        vectors = hidden.float()
        # a float before it has three dimensions: OpenVINO 2026.4 on ARM cuts what it multiplies
        # by whole numbers of that shape to whole numbers, without a word
        real = attention_mask.to(vectors.dtype)[:, :, None]  # [B, S, 1]
        return (vectors * real).sum(dim=1) / real.sum(dim=1)
    if how == "max":
        real = attention_mask[:, :, None]
        return hidden.masked_fill(real == 0, torch.finfo(hidden.dtype).min).amax(dim=1)
    raise InputError(f"Unknown pooling {how!r}; use mean, cls or max.")


def attention_modules(model: nn.Module) -> list[tuple[nn.Module, tuple[str, str, str]]]:
    """Find the self-attention modules in their order, each with the names of its projections.

    A module that is shared by several layers (ALBERT) is there once.

    Raises:
        ModelError: None is found.
    """
    found = []
    for module in model.modules():
        children = dict(module.named_children())
        for names in PROJECTIONS:
            if all(isinstance(children.get(name), nn.Linear) for name in names):
                found.append((module, names))
    if not found:
        raise ModelError(
            f"The attention of {type(model).__name__} isn't known. Use a BERT, RoBERTa, ELECTRA, "
            "ALBERT, DistilBERT, DeBERTa-v2 or MobileBERT, or the method 'logits'."
        )
    return found


@contextmanager
def captured_projections(
    model: nn.Module, layers: tuple[int, ...]
) -> Iterator[list[dict[str, Tensor]]]:
    """Collect ``query``, ``key`` and ``value`` of each layer that runs within the context.

    One entry per run of an attention module, in running order: so a shared module counts once for
    each layer. Only the first output of a projection counts within a layer, as DeBERTa sends its
    relative positions through the same one. Without ``layers`` nothing is hooked.
    """
    runs: list[dict[str, Tensor]] = []
    handles = []

    def start_layer(_module: nn.Module, _args: Any) -> None:
        runs.append({})

    def keep(kind: str) -> Any:
        def hook(_module: nn.Module, _args: Any, output: Tensor) -> None:
            if len(runs) in layers:
                runs[-1].setdefault(kind, output)

        return hook

    try:
        for module, names in attention_modules(model) if layers else ():
            handles.append(module.register_forward_pre_hook(start_layer))
            for kind, name in zip(("query", "key", "value"), names, strict=True):
                projection: nn.Module = getattr(module, name)
                handles.append(projection.register_forward_hook(keep(kind)))
        yield runs
    finally:
        for handle in handles:
            handle.remove()


def _take_relations(
    features: Features, runs: list[dict[str, Tensor]], layers: tuple[int, ...]
) -> None:
    for layer in layers:
        features.query[layer] = runs[layer - 1]["query"]
        features.key[layer] = runs[layer - 1]["key"]
        features.value[layer] = runs[layer - 1]["value"]
