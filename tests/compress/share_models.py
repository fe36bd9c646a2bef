"""Settings that share the weights of the tiny teachers, and outputs that can be compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

import compress
from tests.compress.prune_models import batch
from tests.compress.steps import QUICK, Lab


def share_settings(lab: Lab, output_dir: Path, **changes: Any) -> compress.ShareConfig:
    """Settings that share the tiny teacher of the lab."""
    own = {
        "model": str(lab.teacher),
        "train_file": lab.train,
        "dev_file": lab.train,
        "output_dir": output_dir,
    }
    return compress.ShareConfig(**{**QUICK, **own, **changes})


def outputs(model: Any) -> list[torch.Tensor]:
    """Run two texts, one of them padded; give each output, of real tokens alone."""
    inputs = batch()
    mask = inputs["attention_mask"].bool()
    if model.config.type_vocab_size > 1:
        inputs["token_type_ids"] = (torch.arange(12) > 5).long().expand(2, 12)
    if type(model).__name__.endswith("ForMultipleChoice"):
        inputs = {name: values[None] for name, values in inputs.items()}
    with torch.no_grad():
        found = model(**inputs).to_tuple()
    return [one[mask] if one.shape[:2] == mask.shape else one for one in found]
