"""Training state on disk: what a killed run needs to end in the very same weights.

A checkpoint is a directory that appears by one rename under a name that was not there, so at every
moment the newest one is whole. Tensors are safetensors, the rest JSON; there are no pickles::

    last-0001500/   weights, optimizer moments, step, history
    best-0001200/   the weights of the best measurement so far, nothing else
    done/           the final weights and the history; replaces the others at the end

Random numbers need no state: the loop draws them anew in every step from the seed and its number.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from edgebert.errors import EdgeBertError, ResumeError
from edgebert.files import sync_directory, whole_directory

logger = logging.getLogger(__name__)

_WEIGHTS, _OPTIMIZER, _STATE = "weights.safetensors", "optimizer.safetensors", "state.json"
_START_OVER = "Leave --resume out to start over."


@dataclass
class TrainingState:
    """How far a loop is. The position in the data follows from ``step``.

    Attributes:
        step: Optimizer steps done.
        history: One entry a step: ``step``, ``lr``, ``grad_norm``, ``loss`` and its terms.
        evals: One entry a measurement: ``step`` and the metrics.
        best_step: Of the best measurement; None before the first.
        best_metric: Its metric.
        seconds: Spent so far, over all runs.
    """

    step: int = 0
    history: list[dict[str, float]] = field(default_factory=list)
    evals: list[dict[str, float]] = field(default_factory=list)
    best_step: int | None = None
    best_metric: float | None = None
    seconds: float = 0.0


def weights_of(module: nn.Module) -> dict[str, Tensor]:
    """Give parameters and persistent buffers by name, a tied one under its first name only."""
    found: dict[int, str] = {}
    for name, value in module.state_dict(keep_vars=True).items():
        found.setdefault(id(value), name)
    names = set(found.values())
    return {name: value for name, value in module.state_dict().items() if name in names}


def copy_weights(module: nn.Module) -> dict[str, Tensor]:
    """Copy what `weights_of` gives into CPU memory."""
    return {name: value.detach().cpu().clone() for name, value in weights_of(module).items()}


def set_weights(module: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Write weights into a module in place.

    Raises:
        ResumeError: Names or shapes are not the module's.
    """
    own = weights_of(module)
    wrong = sorted(set(own) ^ set(weights))
    wrong += [name for name in own if name in weights and own[name].shape != weights[name].shape]
    if wrong:
        raise ResumeError(
            f"The saved weights don't fit the model: {', '.join(wrong[:3])} "
            f"({len(wrong)} in all) differ. {_START_OVER}"
        )
    with torch.no_grad():
        for name, value in weights.items():
            own[name].copy_(value)


def weights_sha256(module: nn.Module) -> str:
    """Hash all weights, names included: equal if and only if they agree bit for bit."""
    digest = hashlib.sha256()
    for name, value in sorted(weights_of(module).items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        data = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(data.numpy().data)
    return digest.hexdigest()


class Checkpoints:
    """The checkpoints of one loop.

    Args:
        directory: They are in here; made when needed.
        fingerprint: What the result depends on, as JSON holds it; compared before resuming.
    """

    def __init__(self, directory: Path, *, fingerprint: Mapping[str, Any]) -> None:
        self._directory = directory
        self._fingerprint = json.loads(json.dumps(fingerprint))

    def clear(self) -> None:
        """Remove all checkpoints."""
        self._remove_all_but(set())

    def save(
        self,
        modules: nn.Module,
        optimizer: torch.optim.Optimizer,
        state: TrainingState,
        best: Mapping[str, Tensor] | None,
    ) -> None:
        """Write the state after a step; then remove what it supersedes.

        Args:
            modules: What is trained.
            optimizer: Over the parameters of ``modules``.
            state: How far the loop is.
            best: The weights of ``state.best_step``, if there was a measurement.

        Raises:
            EdgeBertError: The disk is full or fails; what was saved before is still there.
        """
        keep = {f"last-{state.step:07d}"}
        if best is not None:
            keep.add(f"best-{state.best_step:07d}")
            target = self._directory / f"best-{state.best_step:07d}"
            if not target.exists():
                with whole_directory(target) as building:
                    _write_tensors(building / _WEIGHTS, best)
        with whole_directory(self._directory / f"last-{state.step:07d}") as building:
            _write_tensors(building / _WEIGHTS, weights_of(modules))
            _write_tensors(building / _OPTIMIZER, _moments(modules, optimizer))
            self._write_state(building, state)
        self._remove_all_but(keep)

    def load(
        self, modules: nn.Module, optimizer: torch.optim.Optimizer
    ) -> tuple[TrainingState, dict[str, Tensor] | None] | None:
        """Restore the newest checkpoint into ``modules`` and ``optimizer``.

        Returns:
            The state and the best weights so far; None where there is no checkpoint.

        Raises:
            ResumeError: It was made with other settings or another model, or is damaged.
        """
        newest = max(self._directory.glob("last-*"), default=None)
        if newest is None:
            return None
        state = self._read_state(newest)
        set_weights(modules, _read_tensors(newest / _WEIGHTS))
        _set_moments(modules, optimizer, _read_tensors(newest / _OPTIMIZER))
        best = None
        if state.best_step is not None:
            best = _read_tensors(self._directory / f"best-{state.best_step:07d}" / _WEIGHTS)
        return state, best

    def finish(self, modules: nn.Module, state: TrainingState) -> None:
        """Write the final weights as ``done/`` and remove all else."""
        with whole_directory(self._directory / "done") as building:
            _write_tensors(building / _WEIGHTS, weights_of(modules))
            self._write_state(building, state)
        self._remove_all_but({"done"})

    def load_done(self, modules: nn.Module) -> TrainingState | None:
        """Restore the final weights, if the loop had come to its end.

        Raises:
            ResumeError: As `load` does.
        """
        done = self._directory / "done"
        if not done.exists():
            return None
        state = self._read_state(done)
        set_weights(modules, _read_tensors(done / _WEIGHTS))
        self._remove_all_but({"done"})
        return state

    def _write_state(self, directory: Path, state: TrainingState) -> None:
        data = {"fingerprint": self._fingerprint, "state": vars(state)}
        (directory / _STATE).write_text(json.dumps(data), encoding="utf-8")

    def _read_state(self, directory: Path) -> TrainingState:
        try:
            data = json.loads((directory / _STATE).read_text(encoding="utf-8"))
            saved, state = data["fingerprint"], TrainingState(**data["state"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ResumeError(f"{directory} is damaged ({error}). {_START_OVER}") from error
        check_fingerprint(self._fingerprint, saved, where=directory)
        return state

    def _remove_all_but(self, keep: set[str]) -> None:
        if not self._directory.exists():
            return
        for path in self._directory.iterdir():
            name = path.name.lstrip(".")  # a leading dot: what a killed run was writing
            if name.startswith(("last-", "best-", "done")) and path.name not in keep:
                shutil.rmtree(path, ignore_errors=True)
        sync_directory(self._directory)


def check_fingerprint(now: Mapping[str, Any], saved: Mapping[str, Any], *, where: Path) -> None:
    """Compare what a result depends on with what it depended on.

    Raises:
        ResumeError: It names each value that differs, before and now.
    """
    changed = [
        f"{name} was {saved.get(name)!r} and is {now.get(name)!r}"
        for name in sorted(set(now) | set(saved))
        if now.get(name) != saved.get(name)
    ]
    if changed:
        raise ResumeError(
            f"Can't resume from {where}: {'; '.join(changed)}. "
            f"Give the values of before, or leave --resume out to start over."
        )


def _moments(modules: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    return {
        f"{kind}.{name}": value
        for name, parameter in modules.named_parameters()
        for kind, value in optimizer.state.get(parameter, {}).items()
    }


def _set_moments(
    modules: nn.Module, optimizer: torch.optim.Optimizer, moments: Mapping[str, Tensor]
) -> None:
    parameters = dict(modules.named_parameters())
    for key, value in moments.items():
        kind, _, name = key.partition(".")
        parameter = parameters[name]
        optimizer.state[parameter][kind] = value.to(parameter.device)


def _write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    try:
        save_file(
            {name: value.detach().cpu().contiguous() for name, value in tensors.items()}, path
        )
    except SafetensorError as error:  # the library wraps the system's error
        raise EdgeBertError(
            f"Can't write the checkpoint {path.parent} ({error}); make room there and --resume."
        ) from error


def _read_tensors(path: Path) -> dict[str, Tensor]:
    try:  # the copies are aligned like memory of torch's own, whatever their place in the file
        return {name: value.clone() for name, value in load_file(path).items()}
    except (OSError, SafetensorError) as error:
        raise ResumeError(f"{path} is missing or damaged ({error}). {_START_OVER}") from error
