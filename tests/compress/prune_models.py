"""Random models of each family that heads and neurons can be cut out of, and settings for steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

import compress
from tests.compress.steps import QUICK, Lab

FAMILIES = ("Bert", "Roberta", "Electra", "DistilBert")
HIDDEN, HEADS, NEURONS = 32, 4, 48
SIZE = HIDDEN // HEADS


def build(family: str, head: str = "ForSequenceClassification", **changes: Any) -> Any:
    """Make a model of two layers, in eval mode."""
    torch.manual_seed(0)
    neurons = "hidden_dim" if family == "DistilBert" else "intermediate_size"
    settings = {
        "vocab_size": 60,
        "hidden_size": HIDDEN,
        "num_hidden_layers": 2,
        "num_attention_heads": HEADS,
        "max_position_embeddings": 64,
        "initializer_range": 0.3,
        neurons: NEURONS,
    }
    if family == "DistilBert":
        settings = {**settings, "dim": HIDDEN, "n_layers": 2, "n_heads": HEADS}
    config = getattr(transformers, f"{family}Config")(**{**settings, **changes})
    model = getattr(transformers, family + head)(config).eval()
    with torch.no_grad():  # biases are made 0, and a cut must mind them
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def linears(model: Any, layer: int) -> dict[str, Any]:
    """Name the matrices of a layer by hand."""
    if model.config.model_type == "distilbert":
        one = model.base_model.transformer.layer[layer]
        names = {"value": one.attention.v_lin, "out": one.attention.out_lin}
        return {**names, "up": one.ffn.lin1, "down": one.ffn.lin2, "query": one.attention.q_lin}
    one = model.base_model.encoder.layer[layer]
    names = {"value": one.attention.self.value, "out": one.attention.output.dense}
    names["query"] = one.attention.self.query
    return {**names, "up": one.intermediate.dense, "down": one.output.dense}


def batch() -> dict[str, torch.Tensor]:
    """Make two texts, one of them padded."""
    mask = (torch.arange(12) < torch.tensor([[12], [7]])).long()
    return {"input_ids": torch.arange(5, 29).reshape(2, 12), "attention_mask": mask}


def mask_inputs(linear: Any, places: list[int]) -> None:
    """Let a matrix read 0 at some places from now on."""

    def hook(_module: Any, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
        masked = args[0].clone()
        masked[..., places] = 0
        return (masked,)

    linear.register_forward_pre_hook(hook)


def places_of(heads: list[int], size: int = SIZE) -> list[int]:
    """List the places of heads in the width of all."""
    return [head * size + at for head in heads for at in range(size)]


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model(**batch()).logits
    return found


def prune_settings(lab: Lab, output_dir: Path, **changes: Any) -> compress.PruneConfig:
    """Settings that prune the tiny teacher of the lab."""
    own = {
        "model": str(lab.teacher),
        "train_file": lab.train,
        "dev_file": lab.train,
        "output_dir": output_dir,
        "backend": "torch",  # an export would take a second
    }
    return compress.PruneConfig(**{**QUICK, **own, **changes})
