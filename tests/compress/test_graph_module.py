"""A model as engines are given it: the ready mask where it means the same, and only there."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers

from compress.models.graph_module import GraphModule
from compress.models.task_head import TaskHead

SMALL = {
    "vocab_size": 500,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": 200,
    "initializer_range": 0.2,
}
TASKS = {
    "feature-extraction": "Model",
    "text-classification": "ForSequenceClassification",
    "token-classification": "ForTokenClassification",
    "question-answering": "ForQuestionAnswering",
    "multiple-choice": "ForMultipleChoice",
    "fill-mask": "ForMaskedLM",
}


def build(family: str, task: str, **changes: Any) -> tuple[Any, TaskHead]:
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**{**SMALL, **changes})
    model = getattr(transformers, family + TASKS[task])(config).eval()
    return model, TaskHead(task=task, pooling="mean" if task == "feature-extraction" else None)


def outputs(module: GraphModule) -> list[torch.Tensor]:
    mask = (torch.arange(20) < torch.tensor([[20], [7]])).long()
    ids = torch.arange(5, 45).reshape(2, 20) * mask
    given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": torch.zeros_like(ids)}
    with torch.no_grad():
        found = module(*(given[name] for name in module.input_names))
    return [
        one[mask.bool()] if module.head.has_token_axis(name) else one
        for name, one in zip(module.output_names, found, strict=True)
    ]


@pytest.mark.parametrize("task", TASKS)
def test_a_ready_mask_changes_no_output(task):
    model, head = build("Bert", task)
    ready = GraphModule(model, head, additive_mask=True)
    assert ready.additive_mask
    for found, expected in zip(outputs(ready), outputs(GraphModule(model, head)), strict=True):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_the_encoder_sees_four_axes():
    model, head = build("Bert", "text-classification")
    ready = GraphModule(model, head, additive_mask=True)
    seen = []
    layer = ready.model.bert.encoder.layer[0]
    layer.register_forward_pre_hook(lambda _, given: seen.extend(x.shape for x in given[1:2]))
    outputs(ready)
    assert seen == [(2, 1, 20, 20)]


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        # attention within a window, which a ready mask would replace
        ("ModernBert", {"pad_token_id": 0, "cls_token_id": 1, "sep_token_id": 2}),
        # a mask of 0 and 1 whatever its axes
        ("DebertaV2", {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}),
    ],
)
def test_an_encoder_that_means_something_else_by_a_ready_mask_is_not_given_it(family, changes):
    if family == "ModernBert":
        changes = {**changes, "bos_token_id": 1, "eos_token_id": 2}
    model, head = build(family, "text-classification", **changes)
    ready = GraphModule(model, head, additive_mask=True)
    assert not ready.additive_mask
    torch.testing.assert_close(outputs(ready), outputs(GraphModule(model, head)))


def test_the_model_itself_gets_no_hook():
    model, head = build("Bert", "text-classification")
    GraphModule(model, head, additive_mask=True)
    assert not model.bert._forward_pre_hooks
