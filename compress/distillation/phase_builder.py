"""Which terms compare one student with one teacher, and whether they can be compared at all."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from compress.distillation.method_settings import TOKEN_SOFT_WEIGHT, MethodSettings
from compress.models.capture import attention_modules
from compress.models.task_head import PER_TOKEN
from compress.settings import Task
from compress.training.phase import Phase
from compress.training.target_terms import hard_term, soft_term
from compress.training.terms import (
    VectorHeads,
    attention_term,
    hidden_term,
    last_hidden_term,
    pooled_term,
    relation_term,
    similarity_term,
)
from edgebert.errors import InputError

UNTRAINED = "losses only: no term of this phase trains the output that the task's score reads"


class PhaseBuilder:
    """One student and one teacher, and the terms that compare them."""

    def __init__(
        self,
        student: nn.Module,
        teacher: nn.Module,
        layer_map: tuple[int, ...],
        settings: MethodSettings,
        task: Task,
        basis: Tensor | None,
        dense: tuple[nn.Module, nn.Module] | None = None,
    ) -> None:
        """Bind the two.

        Args:
            student: A transformers model.
            teacher: A transformers model.
            layer_map: 1-based teacher layer of each student layer.
            settings: Weights, temperature, heads.
            task: Of both.
            basis: ``[H_teacher, H_student]`` of a projected student.
            dense: The student's and the teacher's module after the pooling, where there is one.
        """
        self.student, self.teacher, self.dense = student, teacher, dense
        self.settings, self.task, self.basis = settings, task, basis
        self.ours, self.theirs = _config_of(student), _config_of(teacher)
        if len(layer_map) != self.ours.num_hidden_layers:
            raise InputError(
                f"The layer map {layer_map} needs one teacher layer for each of the student's "
                f"{self.ours.num_hidden_layers} layers."
            )
        self.pairs = tuple(enumerate(layer_map, start=1))

    def build(self, method: str) -> list[Phase]:
        """Give the phases of a method."""
        if method == "tinybert":
            return [self.intermediate(), self.last_phase()]
        if method == "minilm":
            return [self.relations(), self.last_phase()]
        return [self.last_phase(hidden="cosine" if method == "distilbert" else "mse")]

    def intermediate(self) -> Phase:
        """TinyBERT's first phase: embedding output, hidden states, attention scores."""
        self.require_same_vocabulary()
        settings = self.settings
        phase = Phase(name="intermediate", terms={}, reports_score=False, note=UNTRAINED)
        if settings.embedding_weight:
            projection = self.projection(phase, "embedding")
            weight = settings.embedding_weight
            phase.terms["embedding"] = hidden_term(((0, 0),), projection, weight=weight)
        if settings.hidden_weight:
            projection = self.projection(phase, "hidden")
            phase.terms["hidden"] = hidden_term(
                self.pairs, projection, weight=settings.hidden_weight
            )
        if settings.attention_weight:
            self.require_same_heads()
            phase.terms["attention"] = attention_term(self.pairs, weight=settings.attention_weight)
        return phase

    def relations(self) -> Phase:
        """MiniLMv2: the relations of the student's last layer and one of the teacher's."""
        self.require_same_vocabulary()
        layer = self.settings.teacher_layer or self.theirs.num_hidden_layers
        if layer > self.theirs.num_hidden_layers:
            raise InputError(
                f"teacher_layer must be 1 to {self.theirs.num_hidden_layers}, got {layer}."
            )
        heads = self.relation_heads()
        layers = (int(self.ours.num_hidden_layers), int(layer))
        terms = {
            f"{kind}_relation": relation_term(kind, layers, heads=heads)
            for kind in ("query", "key", "value")
        }
        return Phase(name="relations", terms=terms, reports_score=False, note=UNTRAINED)

    def last_phase(self, *, hidden: Literal["none", "mse", "cosine"] = "none") -> Phase:
        """Train the output that the task reads, with a hidden-state term of one kind beside it."""
        name = "embedding" if self.task == "feature-extraction" else "prediction"
        phase = Phase(name=name, terms={})
        if self.task == "feature-extraction":
            self.add_pooled(phase)
        elif self.task == "fill-mask":
            self.add_token_targets(phase)
        else:
            self.add_targets(phase)
        weight = self.settings.hidden_weight
        if hidden == "none" or not weight:
            return phase
        self.require_same_vocabulary()
        projection = self.projection(phase, "hidden")
        if hidden == "mse":
            phase.terms["hidden"] = hidden_term(self.pairs, projection, weight=weight)
        else:
            last = int(self.ours.num_hidden_layers), int(self.theirs.num_hidden_layers)
            phase.terms["cosine"] = last_hidden_term(last, projection, weight=weight)
        return phase

    def add_targets(self, phase: Phase) -> None:
        """Soft and hard targets of the task's labels."""
        settings, classes = self.settings, int(self.ours.num_labels)
        if classes != self.theirs.num_labels:
            raise InputError(
                f"The student has {classes} classes, the teacher {self.theirs.num_labels}; train "
                "the teacher on this data first."
            )
        if settings.class_weights is not None and len(settings.class_weights) != classes:
            raise InputError(
                f"class_weights has {len(settings.class_weights)} weights for {classes} classes."
            )
        if self.task in PER_TOKEN:
            self.require_same_vocabulary()
        many = settings.problem_type == "multi_label_classification"
        if settings.hard_weight < 1:
            phase.terms["soft"] = soft_term(
                self.task,
                settings.temperature,
                weight=1 - settings.hard_weight,
                multi_label=many and self.task == "text-classification",
            )
        if settings.hard_weight:
            phase.terms["hard"] = hard_term(
                self.task, settings.class_weights, weight=settings.hard_weight
            )

    def add_token_targets(self, phase: Phase) -> None:
        """Soft targets of every token, and the true tokens where they were hidden."""
        self.require_same_vocabulary()
        settings = self.settings
        if settings.hard_weight < 1:
            weight = TOKEN_SOFT_WEIGHT * (1 - settings.hard_weight)
            phase.terms["soft"] = soft_term(self.task, settings.temperature, weight=weight)
        if settings.hidden_token_weight:
            weight = settings.hidden_token_weight
            phase.terms["hidden_token"] = hard_term(self.task, None, weight=weight)

    def add_pooled(self, phase: Phase) -> None:
        """Directions of pooled vectors, and the cosines among them."""
        settings = self.settings
        layers, count = settings.pooling_layers, int(self.ours.num_hidden_layers)
        heads = VectorHeads(
            pooling=settings.pooling,
            student_pooling=None if count else "mean",  # a static student's, whatever the teacher's
            student_layers=min(layers, max(1, count)),
            teacher_layers=layers,
        )
        if self.dense is not None:
            heads = replace(heads, student_dense=self.dense[0], teacher_dense=self.dense[1])
        if settings.pooled_weight:
            # behind a Dense module both have one width
            same = self.dense is not None
            projection = nn.Identity() if same else self.projection(phase, "pooled")
            phase.terms["pooled"] = pooled_term(heads, projection, weight=settings.pooled_weight)
        if settings.similarity_weight:
            phase.terms["similarity"] = similarity_term(heads, weight=settings.similarity_weight)

    def projection(self, phase: Phase, name: str) -> nn.Module:
        """Make the map from the student's width to the teacher's, trained where they differ."""
        width, target = int(self.ours.hidden_size), int(self.theirs.hidden_size)
        if width == target:
            return nn.Identity()
        parameter = next(self.student.parameters())
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # every run of a method starts from the same projection
            linear = nn.Linear(width, target)
            start = torch.empty(target, width)
            start = nn.init.orthogonal_(start) if self.basis is None else self.basis
            linear.weight.copy_(start)
            linear.bias.zero_()
        phase.projections[name] = linear.to(parameter.device)
        return linear

    def relation_heads(self) -> int:
        """Check the number of relation heads, or choose one."""
        widths = [_attention_width(model) for model in (self.student, self.teacher)]
        common = math.gcd(*widths)
        fitting = [n for n in range(1, common + 1) if common % n == 0]
        heads = self.settings.num_relation_heads
        if heads is None:
            return max(n for n in fitting if n <= int(self.theirs.num_attention_heads))
        if heads not in fitting:
            raise InputError(
                f"num_relation_heads {heads} must divide both the student's width {widths[0]} and "
                f"the teacher's {widths[1]}; use one of {', '.join(map(str, fitting))}."
            )
        return heads

    def require_same_heads(self) -> None:
        """Attention scores are compared head by head."""
        ours, theirs = int(self.ours.num_attention_heads), int(self.theirs.num_attention_heads)
        if ours != theirs:
            raise InputError(
                f"The attention loss compares head with head, but the student has {ours} and the "
                f"teacher {theirs}. Use the method minilm, which takes any two, or a student with "
                f"A={theirs}."
            )

    def require_same_vocabulary(self) -> None:
        """Whatever is compared token by token needs the same tokens."""
        ours, theirs = int(self.ours.vocab_size), int(self.theirs.vocab_size)
        if ours != theirs:
            raise InputError(
                f"The student has a vocabulary of {ours} tokens, the teacher of {theirs}, so their "
                "tokens can't be compared. Give both one tokenizer, or use the method logits or "
                "embedding with hidden_weight 0."
            )


def _config_of(model: nn.Module) -> Any:  # transformers' configurations share no typed fields
    return model.config


def _attention_width(model: nn.Module) -> int:
    module, names = attention_modules(model)[0]
    projection = module.get_submodule(names[0])
    return int(getattr(projection, "out_features"))  # noqa: B009  typed as any module
