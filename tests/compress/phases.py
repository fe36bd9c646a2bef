"""A tiny student and teacher of each task, and the phases of a method between them."""

from __future__ import annotations

import torch
from transformers import (
    BertForMaskedLM,
    BertForMultipleChoice,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
)

from compress.distillation.methods import METHODS, MethodSettings, build_phases
from tests.tiny import bert_config

CLASSES = {
    "text-classification": BertForSequenceClassification,
    "regression": BertForSequenceClassification,
    "token-classification": BertForTokenClassification,
    "question-answering": BertForQuestionAnswering,
    "multiple-choice": BertForMultipleChoice,
    "feature-extraction": BertModel,
    "fill-mask": BertForMaskedLM,
}
PAIRS = [(method, task) for method, tasks in METHODS.items() for task in tasks]


def models(task, *, student=None, teacher=None):
    """A student of 1 layer and a teacher of 2, without dropout: equal calls, equal numbers."""
    torch.manual_seed(0)
    settings = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    if task == "regression":
        settings["num_labels"] = 1
    made = [
        CLASSES[task](bert_config(**settings, **changes))
        for changes in ({"num_hidden_layers": 1, **(student or {})}, teacher or {})
    ]
    return {"student": made[0], "teacher": made[1].eval()}


def phases_of(method, task, *, student=None, teacher=None, **settings):
    pair = models(task, student=student, teacher=teacher)
    config = MethodSettings(**settings)
    return pair, build_phases(method, **pair, layer_map=(2,), config=config, task=task)
