"""How fast a pruned model is, on an engine, and how much must go for a speed that is asked for."""

from __future__ import annotations

import copy
import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from compress.artifacts.exporters import EXPORTERS, get_exporter, plan_export
from compress.artifacts.make import open_engine
from compress.artifacts.quietest import quietest_latency
from compress.artifacts.timing import QUIET_SHARE
from compress.models.graph_module import GraphModule
from compress.models.heads import pruned_heads
from compress.pruning.plan import Plan, most_sparsity, plan_sparsity
from compress.pruning.result import Speed
from compress.pruning.units import choose_heads, cut_heads, cut_neurons, shape_of
from compress.training.progress import Progress
from edgebert.errors import InputError
from edgebert.types import Batch, FloatArray, IntArray
from runtimes import BACKENDS
from runtimes.base import Backend

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from compress.models.task_head import TaskHead
    from compress.pruning.config import Units

logger = logging.getLogger(__name__)

TOKENS = 32
REPEATS = 60  # of each model; the ratio of two medians is then within 2 % on a quiet machine
TRIES = 6  # shapes that a search times beside the two ends
MARGIN = 1.02  # more than what is asked: heads are spread over layers otherwise than in the search
ENOUGH = 1.03  # a shape that is so near above the goal ends the search


class TorchEngine:
    """Runs a model in torch, in FP32, without its pruned heads, as an engine would."""

    def __init__(self, model: PreTrainedModel, head: TaskHead) -> None:
        self._module = GraphModule(model, head)
        self.engine = f"torch {torch.__version__}"
        self.inputs, self.outputs = self._module.input_names, self._module.output_names

    def run(self, batch: Batch) -> dict[str, FloatArray]:
        """See `runtimes.base.Backend.run`."""
        inputs = [torch.from_numpy(getattr(batch, name)) for name in self.inputs]
        with torch.inference_mode():
            found = self._module(*inputs)
        return {name: one.numpy() for name, one in zip(self.outputs, found, strict=True)}

    def close(self) -> None:
        """Nothing is held open."""


@dataclass(frozen=True, kw_only=True)
class SpeedMeter:
    """Times models by turns with the one that they were made of.

    Attributes:
        engine: A backend's name, or ``torch``.
        threads: Of the engine.
        tokens: Real token ids, int64 ``[n]``.
        max_length: Of the task; a text is no longer.
        folder: Where artifacts stand while they are timed.
    """

    engine: str
    threads: int
    tokens: IntArray
    max_length: int
    folder: Path

    @contextmanager
    def beside(
        self, model: PreTrainedModel, head: TaskHead
    ) -> Iterator[Callable[[PreTrainedModel, TaskHead], Speed]]:
        """Open a model; give what times another one by turns with it."""
        try:
            with closing(self._open(model, head, "given")) as given:

                def timed(other: PreTrainedModel, its_head: TaskHead) -> Speed:
                    with closing(self._open(other, its_head, "pruned")) as pruned:
                        return self._compare(given, pruned)

                yield timed
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _open(self, model: PreTrainedModel, head: TaskHead, name: str) -> Backend:
        if self.engine == "torch":
            opened: Backend = TorchEngine(model, head)
            return opened
        exporter = get_exporter(self.engine)
        path = self.folder / name / Path(exporter.fp32_path).name
        shutil.rmtree(path.parent, ignore_errors=True)
        path.parent.mkdir(parents=True)
        exporter.export_fp32(model, head, path, max_length=self.max_length)
        return open_engine(exporter, path, self.threads)

    def _compare(self, given: Backend, pruned: Backend) -> Speed:
        times, share = quietest_latency(
            {"given": given, "pruned": pruned},
            tokens=self.tokens,
            max_length=self.max_length,
            threads=self.threads,
            repeats=REPEATS,
        )
        return Speed(
            engine=self.engine,
            threads=self.threads,
            tokens=min(TOKENS, self.max_length),
            before_ms=times["given"],
            after_ms=times["pruned"],
            core_share=share,
            quiet=share >= QUIET_SHARE,
        )


def choose_engine(backend: str) -> str:
    """Name the engine to time on: what is asked for, or the first installed one, or torch.

    Raises:
        BackendUnavailableError: What is asked for is not installed.
    """
    if backend == "torch":
        return backend
    if backend != "auto":
        plan_export([backend])
        return backend
    for name, spec in EXPORTERS.items():
        if BACKENDS[name].installed() and spec.missing() is None:
            return name
    logger.warning("No engine is installed, so latency is measured on torch.")
    return "torch"


def plan_speedup(
    model: PreTrainedModel, head: TaskHead, *, wanted: float, units: Units, meter: SpeedMeter
) -> Plan:
    """Look for the least that must go for a speed, by timing models that were really cut.

    Which heads and neurons go has no say in the latency, so random ones go while shapes are tried.

    Args:
        model: Of a family of `compress.pruning.units.PRUNABLE`; left as it is.
        head: Of its task.
        wanted: How many times as fast; above 1.
        units: What may go.
        meter: Times it.

    Raises:
        InputError: Not even a model of one head and one neuron in each layer is so fast.
    """
    shape, found = shape_of(model), {0.0: 1.0}
    most = most_sparsity(shape, units)
    with (
        meter.beside(model, head) as timed,
        Progress(TRIES + 1, label="search", unit="shapes") as progress,
    ):

        def measure(sparsity: float) -> float:
            plan = plan_sparsity(shape, sparsity, units)
            speed = timed(_cut_at_random(model, plan), head)
            found[sparsity] = speed.ratio
            if not speed.quiet:
                logger.warning("%s The search may cut too much or too little.", speed.busy)
            logger.info(
                "sparsity %.3f: %.2f times as fast on %s", sparsity, speed.ratio, meter.engine
            )
            progress.update(len(found) - 1)
            return speed.ratio

        sparsity = find_sparsity(measure, wanted=wanted * MARGIN, most=most)
    if sparsity is None:
        raise _unreachable(wanted, found[most], units, meter.engine)
    return plan_sparsity(shape, sparsity, units)


def _unreachable(wanted: float, best: float, units: Units, engine: str) -> InputError:
    least = {"heads": "one head", "neurons": "one neuron"}.get(units, "one head and one neuron")
    return InputError(
        f"target_speedup {wanted:g} can't be reached: with {least} in each layer the model is "
        f"{best:.2f} times as fast on {engine}. Ask for less, cut whole layers with "
        "--num-hidden-layers or the width with --hidden-size, or distill into a smaller student."
    )


def find_sparsity(
    measure: Callable[[float], float], *, wanted: float, most: float, tries: int = TRIES
) -> float | None:
    """Find about the least sparsity that gives a speed.

    The time left falls almost in a line with the sparsity, so each guess is where the line between
    the two nearest measurements meets the goal.

    Args:
        measure: Gives how many times as fast a sparsity makes the model.
        wanted: Such a ratio, above 1.
        most: The most sparsity that can be cut.
        tries: Measurements beside that of ``most``.

    Returns:
        A sparsity that was measured to be fast enough; None where ``most`` isn't.
    """
    goal = 1 / wanted  # of the time
    low, low_time = 0.0, 1.0
    high, high_time = most, 1 / measure(most)
    if high_time > goal:
        return None
    for _ in range(tries):
        if high_time * ENOUGH >= goal:
            break
        part = (low_time - goal) / max(low_time - high_time, 1e-9)
        guess = low + (high - low) * min(max(part, 0.1), 0.9)
        time = 1 / measure(guess)
        if time <= goal:
            high, high_time = guess, time
        else:
            low, low_time = guess, time
    return high


def _cut_at_random(model: PreTrainedModel, plan: Plan) -> PreTrainedModel:
    """Give a copy without as many heads and neurons as planned."""
    cut, shape = copy.deepcopy(model), shape_of(model)
    dice = torch.Generator().manual_seed(0)
    count = int(model.config.num_attention_heads)
    heads = torch.rand(shape.layers, count, generator=dice)
    cut_heads(cut, choose_heads(heads, pruned_heads(cut), plan.heads))
    neurons = torch.rand(shape.layers, shape.neurons, generator=dice)
    cut_neurons(cut, neurons, shape.neurons - plan.neurons)
    return cut
