"""What the teacher says of every row, computed once and read from disk in every epoch."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from compress.data.encoding import EncodedTexts, RowArray, collate
from compress.distillation.cache_layout import Layout, layout_of, named_tensors
from compress.models.capture import Features, Wanted, forward_features
from compress.training.interrupt import catch_interrupt
from compress.training.optimization import native_bf16
from compress.training.progress import Progress
from edgebert.errors import EdgeBertError, InputError, ModelError
from edgebert.files import whole_directory, write_json

logger = logging.getLogger(__name__)

Array: TypeAlias = npt.NDArray[Any]  # float16 or float32, as its layout says

NOTHING = Wanted(logits=False)

_META = "cache.json"
_CHUNK_ROWS = 1024  # a killed run computes at most so many rows again


class TeacherCache:
    """Teacher outputs by row, in plain files that are mapped into memory.

    What doesn't fit the limit is not cached at all: the teacher then runs in every step. That is
    decided by sizes alone, so a resumed run decides the same.

    Args:
        directory: Of this cache alone.
        key: Names the teacher's content, like a hash of its weights. Rows kept under another key
            are dropped.
        limit_bytes: Most that the files may take; 0 for no cache.
        bf16: Let the teacher compute in bfloat16 where its device does so natively, like the
            student beside it: three times as fast on a CPU with AVX-512 BF16.
        shared: Where whole caches move, a folder each, and are found by other runs; None for none.
    """

    def __init__(
        self,
        directory: Path,
        *,
        key: str,
        limit_bytes: int,
        bf16: bool = False,
        shared: Path | None = None,
    ) -> None:
        self._directory = directory
        self._shared = shared
        self._key = key
        self._limit_bytes = limit_bytes
        self._bf16 = bf16
        self._arrays: dict[str, Array] = {}
        self._by_token: set[str] = set()
        self.live = False

    def prepare(
        self,
        teacher: nn.Module,
        encoded: EncodedTexts,
        wanted: Wanted,
        *,
        pad_id: int,
        batch_size: int = 64,
        live: bool = False,
        label: str = "teacher outputs",
    ) -> None:
        """Compute what is missing; a killed run goes on after its last 1,024 rows.

        Args:
            teacher: Put into eval mode; runs on its own device.
            encoded: The rows, in the teacher's encoding.
            wanted: What to keep of each; with `NOTHING` nothing is computed. Outputs of tokens,
                logits of tags or answers among them, fit a student only if it has the same
                tokenizer.
            pad_id: The teacher's.
            batch_size: Rows a forward pass.
            live: Don't cache, for example because every step masks other tokens.
            label: What the progress bar says.

        Raises:
            EdgeBertError: The disk has no room for it.
            ModelError: The teacher gives NaN, infinity, or more than float16 holds.
            KeyboardInterrupt: After SIGINT, with the finished rows kept.
        """
        self._teacher, self._wanted = teacher.eval(), wanted
        if wanted == NOTHING:
            return
        self._offsets = np.concatenate([[0], np.cumsum(encoded.lengths)])
        probe = self._run(encoded, np.arange(1), pad_id)
        layouts = [layout_of(name, value) for name, value in named_tensors(probe).items()]
        self._num_heads = probe.num_heads
        size = sum(one.vector_bytes * self._vectors(one) for one in layouts)
        self._by_token = {one.name for one in layouts if one.tokens}
        self.live = live or size > self._limit_bytes
        if self.live:
            if not live:
                logger.info(
                    "%s: they would take %s of the %s allowed, so the teacher runs in every step",
                    *(label, _gb(size), _gb(self._limit_bytes)),
                )
            return
        key = self._full_key(encoded, layouts, batch_size)
        there = None if self._shared is None else self._shared / key
        if there is None or not there.is_dir():
            done = self._rows_done(key)
            self._require_room(size)
            with Progress(len(encoded), label=label, unit="rows", done=done) as progress:
                self._fill(encoded, layouts, key, done, progress, pad_id, batch_size)
            if there is not None and not there.is_dir():  # another run may have been faster
                with whole_directory(there) as whole:
                    for path in (self._directory / _META, *self._directory.glob("*.bin")):
                        shutil.move(path, whole)
        else:
            logger.info("%s: found in %s", label, there)
        self._directory = self._directory if there is None else there
        for one in layouts:
            path, shape = self._path(one.name), (self._vectors(one), one.width)
            self._arrays[one.name] = np.memmap(path, one.dtype, mode="r", shape=shape)

    def features(self, rows: RowArray, batch: Mapping[str, Tensor]) -> Features:
        """Give the teacher's outputs for some rows, padded with zeros like the batch.

        Args:
            rows: Their numbers, ``[B]``.
            batch: Their ``input_ids``, ``attention_mask`` and ``token_type_ids``, ``[B, S]``; what
                the teacher sees if it runs live.

        Returns:
            float32 tensors on the batch's device, without gradient.

        Raises:
            InputError: The batch's lengths are not those of the teacher's encoding.
        """
        if self._wanted == NOTHING:
            return Features()
        if self.live:
            return self._forward(batch)
        mask = batch["attention_mask"]
        features = Features(num_heads=self._num_heads)
        spans = [(int(self._offsets[row]), int(self._offsets[row + 1])) for row in rows]
        if self._by_token and mask.sum(dim=1).tolist() != [end - at for at, end in spans]:
            raise InputError(
                "Student and teacher cut the texts into other tokens; use a method of logits or "
                "pooled vectors alone, or a student with the teacher's tokenizer."
            )
        for name, array in self._arrays.items():
            kind, _, layer = name.partition(".")
            if name in self._by_token:
                flat = torch.from_numpy(np.concatenate([array[at:end] for at, end in spans]))
                values = torch.zeros(*mask.shape, flat.shape[1], device=mask.device)
                values[mask.bool()] = flat.to(mask.device, torch.float32)  # [B, S, width]
            else:
                values = torch.from_numpy(np.array(array[rows])).to(mask.device)  # [B, width]
            if layer:
                getattr(features, kind)[int(layer)] = values
            else:
                setattr(features, kind, values)
        return features

    def by_row(self, name: str) -> Tensor:
        """Give the logits or pooled vectors of all rows, float32 ``[rows, width]``.

        Raises:
            InputError: They aren't kept, or there is one for each token.
        """
        if name not in self._arrays or name in self._by_token:
            raise InputError(f"There are no {name} by row; prepare a cache of {name} alone.")
        return torch.from_numpy(np.array(self._arrays[name]))

    def _fill(
        self,
        encoded: EncodedTexts,
        layouts: list[Layout],
        key: str,
        done: int,
        progress: Progress,
        pad_id: int,
        batch_size: int,
    ) -> None:
        lengths = encoded.lengths
        with catch_interrupt() as interrupt:
            for start in range(done, len(encoded), _CHUNK_ROWS):
                chunk = np.arange(start, min(start + _CHUNK_ROWS, len(encoded)))
                by_length = chunk[np.argsort(lengths[chunk], kind="stable")]
                buffers = {one.name: self._buffer(one, chunk) for one in layouts}
                for at in range(0, chunk.size, batch_size):
                    rows = by_length[at : at + batch_size]
                    outputs = named_tensors(self._run(encoded, rows, pad_id))
                    for one in layouts:
                        self._put(buffers[one.name], one, rows, start, outputs[one.name])
                for one in layouts:
                    self._write(one, start, buffers[one.name])
                write_json(self._directory / _META, {"key": key, "rows_done": int(chunk[-1]) + 1})
                progress.update(int(chunk[-1]) + 1)
                interrupt.stop(f"row {int(chunk[-1]) + 1} of the teacher outputs")

    def _run(self, encoded: EncodedTexts, rows: RowArray, pad_id: int) -> Features:
        device = next(self._teacher.parameters()).device
        return self._forward(collate(encoded, rows, pad_id=pad_id, device=device))

    def _forward(self, batch: Mapping[str, Tensor]) -> Features:
        device = batch["input_ids"].device
        enabled = self._bf16 and native_bf16(device)
        with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=enabled):
            return forward_features(self._teacher, batch, self._wanted)

    def _vectors(self, layout: Layout) -> int:
        return int(self._offsets[-1]) if layout.tokens else self._offsets.size - 1

    def _buffer(self, layout: Layout, chunk: RowArray) -> Array:
        first, last = int(chunk[0]), int(chunk[-1]) + 1
        count = self._offsets[last] - self._offsets[first] if layout.tokens else last - first
        return np.empty((int(count), layout.width), layout.dtype)

    def _put(
        self, buffer: Array, layout: Layout, rows: RowArray, first: int, values: Tensor
    ) -> None:
        found = values.float().cpu().numpy()  # [B, width] or [B, S, width]
        if not layout.tokens:
            buffer[rows - first] = found
        else:
            base = self._offsets[first]
            for row, vectors in zip(rows, found, strict=True):
                at, end = self._offsets[row] - base, self._offsets[row + 1] - base
                buffer[at:end] = vectors[: end - at]

    def _write(self, layout: Layout, first: int, buffer: Array) -> None:
        if not np.isfinite(buffer).all():
            raise ModelError(
                f"The teacher gives NaN, infinity or too large numbers in {layout.name}, in one of "
                f"the {_CHUNK_ROWS} rows from {first} on; use a sound checkpoint, or no cache."
            )
        at = self._offsets[first] if layout.tokens else first
        path = self._path(layout.name)
        with path.open("r+b" if path.exists() else "wb") as stream:
            stream.seek(int(at) * layout.vector_bytes)
            stream.write(buffer.data)  # not through a map: a full disk is an error, not a crash
            stream.flush()
            os.fsync(stream.fileno())

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}.bin"

    def _full_key(self, encoded: EncodedTexts, layouts: list[Layout], batch_size: int) -> str:
        facts = {
            "key": self._key,
            "encoded": encoded.sha256,
            "wanted": dataclasses.asdict(self._wanted),
            "layouts": [dataclasses.asdict(one) for one in layouts],
            "batch_size": batch_size,
            "bf16": self._bf16,
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "device": next(self._teacher.parameters()).device.type,
        }
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def _rows_done(self, key: str) -> int:
        """Read how many rows are kept; make an empty directory where the key is another."""
        try:
            kept = json.loads((self._directory / _META).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            kept = {}
        if kept.get("key") == key:
            return int(kept["rows_done"])
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory.mkdir(parents=True)
        return 0

    def _require_room(self, size: int) -> None:
        there = sum(path.stat().st_size for path in self._directory.iterdir())
        free = shutil.disk_usage(self._directory).free
        if size - there > free:
            raise EdgeBertError(
                f"The teacher's outputs take {_gb(size)} in {self._directory}, which has "
                f"{_gb(free)} free; make room there."
            )


def _gb(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
