"""Train a tiny model in processes that are killed at chosen points; print what comes out.

``python resume_worker.py DIRECTORY '{"NAME": ["step:7", …]}'`` starts, for each name, one process
for each point where it is to die, resuming what the one before left, then a last one that is let to
its end. Started by ``test_kill.py``; forking spares it the import of torch in every process.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch._dynamo  # the optimizer would import it in every process
from safetensors.torch import save_file
from torch import nn

import compress.distillation.teacher_cache
import compress.training.checkpoint
import edgebert.files
from compress.data.encoding import EncodedTexts, collate
from compress.distillation.teacher_cache import TeacherCache
from compress.models.capture import Wanted, forward_features
from compress.training.batches import LengthBatches
from compress.training.checkpoint import Checkpoints, weights_sha256
from compress.training.loop import LoopSettings, train_loop
from tests.tiny import VOCAB

ROWS, WIDTH = 46, 16


def kill_at_call(
    number: int, call: Callable[..., Any], *, after: bool = False, dying: Any = None
) -> Any:
    """Wrap a function so that the process dies before, after or in its so many-th call."""
    calls = 0

    def wrapped(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls != number:
            return call(*arguments, **named)
        if dying or after:
            (dying or call)(*arguments, **named)
        return os.kill(os.getpid(), signal.SIGKILL)

    return wrapped


def half_write(tensors: Any, path: Path) -> None:
    """Write half of a file, then die."""
    save_file(tensors, path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    os.kill(os.getpid(), signal.SIGKILL)


class Encoder(nn.Module):
    """Embeddings and one transformer layer with dropout, of the form that `capture` expects."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.config = type("Config", (), {"num_hidden_layers": 1, "num_attention_heads": 2})()
        self.table = nn.Embedding(len(VOCAB), WIDTH)
        self.layer = nn.TransformerEncoderLayer(WIDTH, 2, 32, dropout=0.2, batch_first=True)
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, input_ids: Any, attention_mask: Any, **_: Any) -> Any:
        first = self.table(input_ids)
        last = self.layer(first, src_key_padding_mask=attention_mask == 0)
        output = type("Output", (), {})()
        output.logits, output.hidden_states = self.head(last[:, 0]), (first, last)
        return output


def texts() -> EncodedTexts:
    random = np.random.default_rng(0)
    ids = [random.integers(5, len(VOCAB), random.integers(3, 12), np.int32) for _ in range(ROWS)]
    return EncodedTexts(ids, [np.zeros_like(row) for row in ids], sha256="texts")


def train(directory: Path, point: str | None) -> dict[str, Any]:
    """Fill the cache and run the loop, resuming what is there; die at ``point``."""
    compress.distillation.teacher_cache._CHUNK_ROWS = 10
    kind, _, number = (point or "none:0").partition(":")
    hook(kind, int(number))
    encoded, student, teacher = texts(), Encoder(1), Encoder(2)
    cache = TeacherCache(directory / "cache", key="teacher", limit_bytes=10**6)
    wanted = Wanted(hidden_states=(1,))
    cache.prepare(teacher, encoded, wanted, pad_id=0, batch_size=4)
    modules = nn.ModuleDict({"student": student, "projection": nn.Linear(WIDTH, WIDTH)})

    def step(rows: np.ndarray) -> dict[str, torch.Tensor]:
        batch = collate(encoded, rows, pad_id=0)
        own = forward_features(student, batch, wanted)
        target = cache.features(rows, batch)
        return {
            "logits": (own.logits - target.logits).pow(2).mean(),
            "hidden": (modules["projection"](own.hidden[1]) - target.hidden[1]).pow(2).mean(),
        }

    def evaluate() -> dict[str, float]:
        everything = np.arange(ROWS)
        return {"loss": float(sum(step(everything).values()))}

    result = train_loop(
        modules=modules,
        step=kill_at_call(int(number), step) if kind == "step" else step,
        batches=LengthBatches(encoded.lengths, batch_size=4, seed=5),
        settings=LoopSettings(
            num_train_epochs=4,
            gradient_accumulation_steps=2,
            save_steps=4,
            metric_name="loss",  # the worst weights are chosen: those of an early measurement
            greater_is_better=True,
            learning_rate=3e-3,
        ),
        checkpoint_dir=directory / "loop",
        evaluate=kill_at_call(int(number), evaluate) if kind == "evaluate" else evaluate,
        resume=True,
    )
    history = json.dumps([result.history, result.evals, result.best_step])
    return {
        "weights": weights_sha256(modules),
        "history": hashlib.sha256(history.encode()).hexdigest(),
        "cache": file_hashes(directory / "cache"),
        "best_step": result.best_step,
        "steps": result.steps,
        "left": sorted(path.name for path in (directory / "loop").iterdir()),
    }


def hook(kind: str, number: int) -> None:
    """Make the process die in the file operations of a checkpoint or of the cache."""
    if kind == "half":
        wrapped = kill_at_call(number, save_file, dying=half_write)
        compress.training.checkpoint.save_file = wrapped
    if kind in ("rename", "renamed"):
        wrapped = kill_at_call(number, edgebert.files._replace_directory, after=kind == "renamed")
        edgebert.files._replace_directory = wrapped
    if kind == "clean":
        Checkpoints._remove_all_but = kill_at_call(number, Checkpoints._remove_all_but)
    if kind in ("rows", "rowed"):
        wrapped = kill_at_call(number, TeacherCache._write, after=kind == "rowed")
        TeacherCache._write = wrapped


def file_hashes(directory: Path) -> dict[str, str]:
    paths = sorted(directory.glob("*.bin"))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def main(directory: Path, points: list[str]) -> dict[str, Any]:
    torch.set_num_threads(1)
    for point in points:
        child = os.fork()
        if child == 0:
            train(directory, point)
            os._exit(0)  # the point was not reached: said below
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
            raise SystemExit(f"{point} ended with status {status} instead of being killed")
    return train(directory, None)


if __name__ == "__main__":
    base, scenarios = Path(sys.argv[1]), json.loads(sys.argv[2])
    results = {}
    for name, points in scenarios.items():
        child_read, child_write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(child_read)
            with os.fdopen(child_write, "w") as stream:
                json.dump(main(base / name, points), stream)
            os._exit(0)
        os.close(child_write)
        with os.fdopen(child_read) as stream:
            text = stream.read()
        os.waitpid(pid, 0)
        results[name] = json.loads(text) if text else {"failed": points}
    print(json.dumps(results))
