"""The artifacts of a bundle open in optimum, unchanged and where they lie."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compat.cases import CASES, batch_of, inputs_of, real
from tests.compat.conftest import needs

EXACT = {"INFERENCE_PRECISION_HINT": "f32"}  # else its engine computes in bfloat16 on some CPUs
KINDS = {
    "text-classification": "SequenceClassification",
    "regression": "SequenceClassification",
    "token-classification": "TokenClassification",
    "question-answering": "QuestionAnswering",
    "multiple-choice": "MultipleChoice",
    "fill-mask": "MaskedLM",
    "feature-extraction": "FeatureExtraction",
}


def assert_same(model, task, expected) -> None:
    import torch

    batch = batch_of(task)
    choices = task == "multiple-choice"
    inputs = inputs_of(batch, choices=choices)
    found = model(**{name: torch.as_tensor(values) for name, values in inputs.items()})
    names = expected.keys() & set(found.keys())
    assert names
    for name in names:
        ours, theirs = (
            real(np.asarray(values), batch, choices=choices)
            for values in (expected[name], found[name])
        )
        np.testing.assert_allclose(theirs, ours, atol=1e-4)


@pytest.mark.parametrize("task", CASES)
def test_the_onnx_artifact_opens_in_optimum_onnxruntime(bundle, expected, task):
    needs("optimum.onnxruntime")
    import optimum.onnxruntime

    kind = getattr(optimum.onnxruntime, f"ORTModelFor{KINDS[task]}")
    assert_same(kind.from_pretrained(bundle), task, expected)


@pytest.mark.parametrize("task", [task for task in CASES if task != "multiple-choice"])
def test_the_openvino_artifact_opens_in_optimum_intel(bundle, expected, task):
    """It has no class for multiple-choice; the folder is named as it looks into no other."""
    needs("optimum.intel")
    import optimum.intel

    kind = getattr(optimum.intel, f"OVModelFor{KINDS[task]}")
    model = kind.from_pretrained(str(bundle), subfolder="openvino", ov_config=EXACT)
    assert_same(model, task, expected)
