"""The one training loop of all steps: they differ in the loss terms they name."""

from __future__ import annotations

import dataclasses
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from compress.data.encoding import RowArray
from compress.training.batches import LengthBatches
from compress.training.checkpoint import Checkpoints, TrainingState, copy_weights, set_weights
from compress.training.interrupt import catch_interrupt
from compress.training.loop_settings import LoopSettings as LoopSettings
from compress.training.optimization import (
    build_optimizer,
    clip_gradients,
    native_bf16,
    plain_attention,
    seed_step,
)
from compress.training.progress import Progress
from edgebert.errors import EdgeBertError, InputError

logger = logging.getLogger(__name__)

Step = Callable[[RowArray], Mapping[str, Tensor]]
Evaluate = Callable[[], Mapping[str, float]]

_GPU_CHECK_STEPS = 50  # reading a loss makes the GPU wait, so there it is done this rarely


@dataclass(frozen=True)
class LoopResult:
    """What a loop did.

    Attributes:
        history: One entry a step: ``step``, ``lr``, ``grad_norm``, ``loss`` and its terms.
        evals: One entry a measurement: ``step`` and the metrics.
        best_step: Whose weights the modules have now; None without ``evaluate``.
        best_metric: Its metric.
        steps: Optimizer steps done, fewer than planned after early stopping.
        seconds: Spent, over all runs of a resumed one.
    """

    history: list[dict[str, float]]
    evals: list[dict[str, float]]
    best_step: int | None
    best_metric: float | None
    steps: int
    seconds: float


def train_loop(
    *,
    modules: nn.ModuleDict,
    step: Step,
    batches: LengthBatches,
    settings: LoopSettings,
    checkpoint_dir: Path,
    evaluate: Evaluate | None = None,
    progress_label: str = "train",
    resume: bool = False,
    fingerprint: Mapping[str, Any] | None = None,
    on_entry: Callable[[Mapping[str, float]], None] | None = None,
) -> LoopResult:
    """Train modules until the steps are done or dev has stopped getting better.

    Killed at any moment and resumed, it ends in the same weights bit for bit: the order of the rows
    and the random numbers of a step follow from the seed and its number alone. Global generators
    of torch, numpy and Python are seeded anew in every step.

    Args:
        modules: What is trained and saved; afterwards it has the best weights (without
            ``evaluate`` the last) and is in eval mode.
        step: Gives the named, weighted loss terms of some rows, each a mean over the rows; the
            loss is their sum. Runs under bf16 autocast where that is on.
        batches: Which rows are together.
        settings: How to train.
        checkpoint_dir: Of this loop alone.
        evaluate: Gives metrics on dev, with ``settings.metric_name`` among them; called in eval
            mode without gradient, in fp32.
        progress_label: What the progress bar says.
        resume: Go on from what is in ``checkpoint_dir``; else it is removed.
        fingerprint: What the result depends on beside the settings, in JSON's terms: hashes of
            the data, the method. Resuming with another is refused.
        on_entry: Called with each new entry of the history and of the measurements.

    Raises:
        EdgeBertError: A loss is not a number, or a checkpoint can't be written.
        InputError: ``evaluate`` doesn't give ``settings.metric_name``.
        ResumeError: The checkpoint is of other settings, data, threads or torch version.
        KeyboardInterrupt: After SIGINT, with a checkpoint saved.
    """
    if evaluate is not None and settings.metric_name is None:
        raise InputError("metric_name is None; name the metric of evaluate that picks the weights.")
    device = next(modules.parameters()).device
    facts = _facts(settings, batches, device) | dict(fingerprint or {})
    checkpoints = Checkpoints(checkpoint_dir, fingerprint=facts)
    if not resume:
        checkpoints.clear()
    elif (done := checkpoints.load_done(modules)) is not None:
        logger.info("%s: was done after step %d", progress_label, done.step)
        modules.eval()
        return _result(done)
    loop = _Loop(modules, step, batches, settings, checkpoints, evaluate, progress_label)
    if on_entry is not None:
        loop.on_entry = on_entry
    if resume:
        loop.load()
    loop.run()
    loop.finish()
    return _result(loop.state)


class _Loop:
    """A running loop: the arguments of `train_loop`, the optimizer and the state."""

    def __init__(
        self,
        modules: nn.ModuleDict,
        step: Step,
        batches: LengthBatches,
        settings: LoopSettings,
        checkpoints: Checkpoints,
        evaluate: Evaluate | None,
        label: str,
    ) -> None:
        self.modules, self.step, self.batches, self.settings = modules, step, batches, settings
        self.checkpoints, self.evaluate, self.label = checkpoints, evaluate, label
        self.device = next(modules.parameters()).device
        self.per_epoch = -(-len(batches) // settings.gradient_accumulation_steps)
        self.total = settings.max_steps or self.per_epoch * settings.num_train_epochs
        self.optimizer = build_optimizer(modules, weight_decay=settings.weight_decay)
        self.parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        self.bf16 = settings.bf16 and native_bf16(self.device)
        self.state = TrainingState()
        self.on_entry: Callable[[Mapping[str, float]], None] = lambda entry: None  # noqa: ARG005
        self.best: dict[str, Tensor] | None = None
        self.pending: list[tuple[list[str], Tensor]] = []  # losses not read from the device yet

    def load(self) -> None:
        """Go to the newest checkpoint, if there is one."""
        found = self.checkpoints.load(self.modules, self.optimizer)
        if found is not None:
            self.state, self.best = found
            logger.info("%s: going on after step %d", self.label, self.state.step)

    def run(self) -> None:
        """Do the steps that are left."""
        state, before, began = self.state, self.state.seconds, time.monotonic()
        groups = self._groups()
        self.modules.train()
        with (
            catch_interrupt() as interrupt,
            plain_attention(self.modules, enabled=self.bf16 and self.device.type == "cpu"),
            Progress(self.total, label=self.label, done=state.step) as progress,
        ):
            while state.step < self.total and not self._stopped():
                self._update(next(groups))
                state.step += 1
                if self.device.type == "cpu" or state.step % _GPU_CHECK_STEPS == 0:
                    self._settle()
                if self._measures_now():
                    progress.clear()
                    self._measure()
                state.seconds = before + time.monotonic() - began
                if interrupt.requested or state.step % self.settings.save_steps == 0:
                    self._settle()
                    self.checkpoints.save(self.modules, self.optimizer, state, self.best)
                interrupt.stop(f"step {state.step} of {self.label}")
                progress.update(state.step, self._note)
        self._settle()

    def finish(self) -> None:
        """Put the best weights in place and write them as final."""
        if self.best is not None:
            set_weights(self.modules, self.best)
        self.modules.eval()
        self.checkpoints.finish(self.modules, self.state)

    def _groups(self) -> Iterator[list[RowArray]]:
        """Give the batches of each step from the state's on; the last of an epoch may be fewer."""
        size = self.settings.gradient_accumulation_steps
        epoch, at = divmod(self.state.step, self.per_epoch)
        while True:
            order = self.batches.epoch(epoch)
            yield from (order[i * size : (i + 1) * size] for i in range(at, self.per_epoch))
            epoch, at = epoch + 1, 0

    def _update(self, group: list[RowArray]) -> None:
        seed_step(self.settings.seed, self.state.step)
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = self.settings.rate(self.state.step, self.total)
        rows_in_all = sum(rows.size for rows in group)
        sums: dict[str, Tensor] = {}
        for rows in group:
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
                terms = self.step(rows)
            share = rows.size / rows_in_all  # makes the ragged last batch of an epoch exact
            weighted = {name: term.float() * share for name, term in terms.items()}
            torch.stack(list(weighted.values())).sum().backward()  # type: ignore[no-untyped-call]
            for name, term in weighted.items():
                sums[name] = sums[name] + term.detach() if name in sums else term.detach()
        norm = clip_gradients(self.parameters, self.settings.max_grad_norm)
        self.pending.append((["grad_norm", *sums], torch.stack([norm, *sums.values()])))
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def _settle(self) -> None:
        """Move pending losses into the history, and stop if one is not a number."""
        history = self.state.history
        for names, values in self.pending:
            step, numbers = len(history) + 1, dict(zip(names, values.tolist(), strict=True))
            bad = [name for name, number in numbers.items() if not math.isfinite(number)]
            if bad:
                raise EdgeBertError(
                    f"{bad[-1]} is {numbers[bad[-1]]} at step {step} of {self.label}; "
                    "lower --learning-rate, or try --no-bf16."
                )
            rate = self.settings.rate(step - 1, self.total)
            loss = math.fsum(number for name, number in numbers.items() if name != "grad_norm")
            history.append({"step": step, "lr": rate, "loss": loss, **numbers})
            self.on_entry(history[-1])
        self.pending.clear()

    def _measures_now(self) -> bool:
        every = self.settings.eval_steps or self.per_epoch
        step = self.state.step
        return self.evaluate is not None and (step % every == 0 or step == self.total)

    def _measure(self) -> None:
        if self.evaluate is None:
            return
        self._settle()
        state = self.state
        self.modules.eval()
        with torch.no_grad():
            metrics = dict(self.evaluate())
        self.modules.train()
        value = _selected(metrics, self.settings.metric_name, state.step)
        state.evals.append({"step": state.step, **metrics})
        self.on_entry(state.evals[-1])
        shown = ", ".join(f"{name} {number:.4f}" for name, number in metrics.items())
        logger.info("%s: step %d of %d: %s", self.label, state.step, self.total, shown)
        sign = 1 if self.settings.greater_is_better else -1
        if state.best_metric is None or sign * value > sign * state.best_metric:
            state.best_step, state.best_metric = state.step, value
            self.best = copy_weights(self.modules)

    def _stopped(self) -> bool:
        patience, best = self.settings.early_stopping_patience, self.state.best_step
        if patience is None or best is None:
            return False
        worse = sum(1 for entry in self.state.evals if entry["step"] > best)
        return worse >= patience

    def _note(self) -> str:
        self._settle()
        return f"loss {self.state.history[-1]['loss']:.4f}"


def _selected(metrics: Mapping[str, float], name: str | None, step: int) -> float:
    value = metrics.get(name or "")
    if value is None:
        raise InputError(f"No metric {name!r} on dev; there are: {', '.join(metrics)}.")
    if not math.isfinite(value):
        raise EdgeBertError(f"{name} on dev is {value} at step {step}; lower --learning-rate.")
    return value


def _facts(settings: LoopSettings, batches: LengthBatches, device: torch.device) -> dict[str, Any]:
    """Name all that decides the weights, bit for bit."""
    chosen = dataclasses.asdict(settings)
    del chosen["save_steps"]  # may change from run to run
    machine = {"torch": torch.__version__, "device": device.type}
    if device.type == "cpu":
        machine["threads"] = str(torch.get_num_threads())
        machine["attention"] = "plain" if settings.bf16 and native_bf16(device) else "fused"
    return {**chosen, **{f"batches.{k}": v for k, v in batches.fingerprint().items()}, **machine}


def _result(state: TrainingState) -> LoopResult:
    return LoopResult(
        history=state.history,
        evals=state.evals,
        best_step=state.best_step,
        best_metric=state.best_metric,
        steps=state.step,
        seconds=state.seconds,
    )
