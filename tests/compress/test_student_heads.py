"""The head of every task in a student that is narrower than its teacher."""

from __future__ import annotations

import pytest
import torch

from compress.models.pretrained import MODEL_CLASSES, auto_class
from tests.compress.test_capture import CONFIGS
from tests.compress.test_student import build

torch.set_num_threads(1)


@pytest.mark.parametrize("family", ["bert", "roberta", "electra", "albert", "distilbert"])
@pytest.mark.parametrize("task", [task for task in MODEL_CLASSES if task != "feature-extraction"])
def test_every_parameter_of_a_projected_student_comes_from_the_teacher(family, task):
    torch.manual_seed(0)
    teacher = auto_class(task).from_config(CONFIGS[family]()).eval()
    ids = torch.randint(5, 50, (4, 8))
    small = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    for calibration in ((), [small]):
        first, second = (
            build(teacher, "L=2,H=16,A=4,I=24", seed=seed, calibration=calibration).model
            for seed in (0, 1)
        )
        for (name, a), b in zip(first.named_parameters(), second.parameters(), strict=True):
            assert torch.equal(a, b), name
