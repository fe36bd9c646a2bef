"""Several teachers for tests: one with tokens of its own, and what they say together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from compress.data.load import load_data
from compress.data.task_data import TaskData
from compress.distillation.ensemble import Ensemble, ask_teachers
from compress.distillation.members import resolve_members
from compress.models.teachers import resolve_teacher
from compress.training.teacher_step import ready_teacher
from tests.compress.conftest import Lab
from tests.compress.steps import distill_settings
from tests.tiny import LETTERS, SPECIALS, WORDS, bert_config, write_tokenizer


def write_other_tokens(directory: Path) -> None:
    """Write an encoder whose vocabulary has the words of the data in other places, no ``##``."""
    from transformers import BertModel

    torch.manual_seed(0)
    vocab = [*SPECIALS, *reversed(WORDS), *"0123456789", *LETTERS]
    write_tokenizer(directory, vocab=vocab)
    config = bert_config(vocab_size=len(vocab), initializer_range=0.2)
    BertModel(config).save_pretrained(directory)


def asked(lab: Lab, tmp_path: Path, *extra: Path, **changes: Any) -> tuple[Ensemble, TaskData]:
    """Ask a lab's teacher and more for their answers to the train texts."""
    config = distill_settings(lab, tmp_path / "b", extra_teacher=tuple(map(str, extra)), **changes)
    data = load_data(config, task=config.task, seed=config.seed)
    found = resolve_teacher(config.teacher)
    device = torch.device("cpu")
    first = ready_teacher(
        found.path,
        data,
        config,
        work=tmp_path / "w",
        device=device,
        learning_rate=1e-3,
        num_train_epochs=1,
    )
    members = [found, *resolve_members(config, found)]
    return ask_teachers(first, members, data, config, work=tmp_path / "w", device=device), data
