"""How a loop trains, apart from what it trains."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from compress.settings import Scheduler, TrainingConfig
from compress.training.optimization import learning_rate


@dataclass(frozen=True, kw_only=True)
class LoopSettings:
    """How a loop trains; the fields of `compress.settings.TrainingConfig` with the same names.

    Attributes:
        metric_name: The key of what ``evaluate`` gives that picks the best weights.
        greater_is_better: Its direction.
    """

    learning_rate: float = 1e-4
    num_train_epochs: int = 2
    max_steps: int | None = None
    warmup_ratio: float = 0.06
    lr_scheduler_type: Scheduler = "linear"
    weight_decay: float = 0.01
    max_grad_norm: float = 1.0
    gradient_accumulation_steps: int = 1
    eval_steps: int | None = None
    save_steps: int = 500
    early_stopping_patience: int | None = None
    seed: int = 42
    bf16: bool = True
    metric_name: str | None = None
    greater_is_better: bool = True

    @classmethod
    def from_config(
        cls, config: TrainingConfig, *, metric_name: str | None, greater_is_better: bool = True
    ) -> LoopSettings:
        """Take a step's settings; change single ones with `dataclasses.replace`."""
        names = [field.name for field in dataclasses.fields(cls) if hasattr(config, field.name)]
        shared = {name: getattr(config, name) for name in names}
        return cls(**shared, metric_name=metric_name, greater_is_better=greater_is_better)

    def rate(self, step: int, total: int) -> float:
        """Give the learning rate of a step, counted from 0, of so many."""
        return learning_rate(
            step,
            total,
            peak=self.learning_rate,
            warmup_ratio=self.warmup_ratio,
            scheduler=self.lr_scheduler_type,
        )
