"""What matters in a model that is pruned, measured on rows of train."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from compress.models.capture import Wanted, forward_features
from compress.models.layer_map import layer_map
from compress.pruning.elements import (
    Elements,
    magnitude_elements,
    movement_elements,
    movement_importance,
    taylor_elements,
)
from compress.pruning.importance import (
    Importance,
    magnitude_importance,
    needed_layers,
    taylor_importance,
)
from compress.training.finetune import true_term
from compress.training.phase import Phase
from compress.training.progress import Progress
from compress.training.target_terms import logits_of
from edgebert.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from compress.data.load import TaskData
    from compress.models.task_head import TaskHead
    from compress.pruning.config import PruneConfig
    from compress.training.teacher_step import ReadyTeacher

Batch = Mapping[str, Tensor]


class ImportanceMeter:
    """Measures on some batches of train rows, the same each time."""

    def __init__(self, config: PruneConfig, teacher: ReadyTeacher, data: TaskData) -> None:
        """Bind the data.

        Raises:
            InputError: The importance needs to know what is true, and nothing says it.
        """
        self._config, self._teacher, self._data = config, teacher, data
        train = teacher.encoded.train
        if needs_truth(config) and train.targets is None and train.masking is None:
            raise InputError(
                f"--importance {config.importance} measures a loss on what is true, and the train "
                "rows have no labels or scores; give --label-column, or --importance magnitude."
            )

    def units(self, model: PreTrainedModel, head: TaskHead) -> Importance:
        """Say how much each head and each neuron matters."""
        if self._config.importance == "magnitude":
            return magnitude_importance(model)
        if self._config.importance == "movement":
            return movement_importance(model, self._movement(model, head))
        batches = self._watched(self._batches())
        return taylor_importance(model, batches, self._loss(model, head))

    def elements(self, model: PreTrainedModel, head: TaskHead) -> tuple[Elements, Importance]:
        """Say how much each weight matters, and each head and each neuron."""
        if self._config.importance == "magnitude":
            return magnitude_elements(model), magnitude_importance(model)
        if self._config.importance == "movement":
            elements = self._movement(model, head)
            return elements, movement_importance(model, elements)
        batches = self._watched(self._batches())
        elements = taylor_elements(model, batches, self._loss(model, head))
        return elements, self.units(model, head)

    def layers(self, model: PreTrainedModel, head: TaskHead, *, count: int) -> list[int]:
        """Choose the layers that stay, from 0, rising."""
        if self._config.importance == "magnitude":
            spaced = layer_map("alternate", count, int(model.config.num_hidden_layers))
            return [layer - 1 for layer in spaced]
        return needed_layers(
            model, self._batches(), lambda batch: _output(model, head, batch), count=count
        )

    def _movement(self, model: PreTrainedModel, head: TaskHead) -> Elements:
        config = self._config
        moving = copy.deepcopy(model)
        return movement_elements(
            moving,
            self._watched(self._batches()),
            self._loss(moving, head),
            learning_rate=config.learning_rate,
            max_grad_norm=config.max_grad_norm,
        )

    def _loss(self, model: PreTrainedModel, head: TaskHead) -> Callable[[Batch], Tensor]:
        encoded = self._teacher.encoded
        encoded = dataclasses.replace(encoded, dev=dataclasses.replace(encoded.dev, head=head))
        term = true_term(encoded, self._config, self._data)
        phase = Phase(name="importance", terms={"true": term})

        def loss(batch: Batch) -> Tensor:
            features = forward_features(model, batch, phase.student_wanted)
            return phase.losses(features, features, batch)["true"]

        return loss

    def _batches(self) -> list[dict[str, Tensor]]:
        """Give some batches of train rows, the same in every round."""
        train, config = self._teacher.encoded.train, self._config
        order = train.batches(batch_size=config.per_device_train_batch_size, seed=config.seed)
        torch.manual_seed(config.seed)  # of what fill-mask hides
        device = self._teacher.model.device
        rows = order.epoch(0)[: config.importance_batches]
        return [train.batch(items, device=device) for items in rows]

    def _watched(self, batches: Sequence[Batch]) -> Iterator[Batch]:
        """Show how many batches are measured."""
        with Progress(len(batches), label="importance", unit="batches") as progress:
            for done, batch in enumerate(batches, start=1):
                yield batch
                progress.update(done)


def needs_truth(config: PruneConfig) -> bool:
    """Whether an importance is a loss on what is true of train rows."""
    if config.num_hidden_layers is not None or config.unstructured:
        return False
    return config.importance != "magnitude"


def _output(model: PreTrainedModel, head: TaskHead, batch: Batch) -> Tensor:
    """Run a model: vectors of an embedder, logits of the real tokens, or of each row."""
    wanted = Wanted(logits=not head.pooling, pooled=head.pooling)
    features = forward_features(model, batch, wanted)
    if features.pooled is not None:
        return features.pooled
    logits = logits_of(features)
    return logits[batch["attention_mask"].bool()] if logits.dim() == 3 else logits
