"""A bundle is a model directory that transformers opens, in every release we name."""

from __future__ import annotations

import numpy as np
import pytest

import edgebert
from tests.compat.cases import CASES, batch_of, inputs_of, real
from tests.compat.conftest import needs

needs("torch", "transformers")

AUTO = {
    "text-classification": "AutoModelForSequenceClassification",
    "regression": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification",
    "question-answering": "AutoModelForQuestionAnswering",
    "multiple-choice": "AutoModelForMultipleChoice",
    "fill-mask": "AutoModelForMaskedLM",
    "feature-extraction": "AutoModel",
}


@pytest.mark.parametrize("task", CASES)
def test_the_checkpoint_gives_what_the_bundle_gives(bundle, expected, task):
    import torch
    import transformers

    model, info = getattr(transformers, AUTO[task]).from_pretrained(
        bundle, output_loading_info=True
    )
    # An embedder needs no pooler, so its checkpoint has none, but AutoModel makes one.
    assert [key for key in info["missing_keys"] if not key.startswith("pooler.")] == []
    batch = batch_of(task)
    choices = task == "multiple-choice"
    inputs = inputs_of(batch, choices=choices)
    with torch.no_grad():
        found = model.eval()(**{name: torch.as_tensor(values) for name, values in inputs.items()})
    names = expected.keys() - {"sentence_embedding", "vectors"}
    assert names
    for name in names:
        ours, theirs = (
            real(values, batch, choices=choices)
            for values in (expected[name], getattr(found, name).numpy())
        )
        np.testing.assert_allclose(theirs, ours, atol=1e-4)


@pytest.mark.parametrize("task", CASES)
def test_the_tokenizer_gives_the_ids_that_edgebert_gives(made, task):
    import transformers

    bundle = made / task / "bundle"
    tokenizer = transformers.AutoTokenizer.from_pretrained(bundle)
    first, second = "Hello WORLD, the film?! 你好 🙂", "très good"
    with edgebert.Runtime(bundle, precision="fp32") as runtime:
        ours = runtime.tokenize([(first, second)], on_long="error")
    theirs = tokenizer(first, second, return_token_type_ids=True)
    assert theirs["input_ids"] == ours.input_ids[0].tolist()
    assert theirs["token_type_ids"] == ours.token_type_ids[0].tolist()
