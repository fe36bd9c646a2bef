"""The fastest artifact for this bundle on this CPU: measured once, then remembered."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence

import edgebert
from edgebert.bundles.bundle import Bundle, name_of
from edgebert.bundles.installed import engine_versions
from edgebert.cache import read_record, write_record
from edgebert.cpu import cpu_features, cpu_name, memory_limit
from edgebert.engines.bench import batch_of_length, lengths_to_time
from edgebert.engines.engine import Engine
from edgebert.engines.measuring import Measured, OnFailure, measure
from edgebert.formats.manifest import Artifact
from runtimes import SessionOptions

_MEMORY_PER_BYTE = 3  # of the files; LiteRT takes most: it maps FP32 weights and packs them anew
_MEMORY_SHARE = 0.5


def affordable(candidates: Sequence[Artifact]) -> list[Artifact]:
    """Keep the artifacts that can be open together in half of this machine's memory.

    Args:
        candidates: The preferred first; those are kept, at least the first.
    """
    limit = memory_limit()
    if limit is None:
        return list(candidates)
    kept: list[Artifact] = []
    room = limit * _MEMORY_SHARE / _MEMORY_PER_BYTE
    for artifact in candidates:
        room -= artifact.size_bytes
        if room >= 0 or not kept:
            kept.append(artifact)
    return kept


class Selection:
    """What is known of the speed of some artifacts of a bundle on this machine.

    A record of it holds for these artifacts of this very manifest, this CPU with its features, this
    number of threads and these versions of the engines.
    """

    def __init__(
        self, bundle: Bundle, candidates: Sequence[Artifact], options: SessionOptions
    ) -> None:
        """Take the artifacts to choose from, the preferred first."""
        self._bundle = bundle
        self._by_path = {artifact.files[0].path: artifact for artifact in candidates}
        backends = {artifact.backend for artifact in candidates}
        identity = [bundle.manifest_sha256, *self._by_path, edgebert.__version__]
        identity += [cpu_name(), *cpu_features(), f"{options.threads} threads, {options.spin}"]
        identity += engine_versions(backends)
        self._key = hashlib.sha256(json.dumps(["selection", *identity]).encode()).hexdigest()

    def remembered(self) -> Measured | None:
        """Give what an earlier load has measured, or None."""
        record = read_record(self._key)
        try:
            latency_ms = {
                path: {int(length): float(value) for length, value in own.items()}
                for path, own in record["latency_ms"].items()
            }
        except (TypeError, ValueError, KeyError, AttributeError):  # none, or broken
            return None
        values = [value for own in latency_ms.values() for value in own.values()]
        measured = Measured(latency_ms)
        whole = set(latency_ms) == set(self._by_path) and measured.lengths
        if not whole or not all(math.isfinite(value) and value > 0 for value in values):
            return None
        return measured

    def measure(self, engines: Mapping[str, Engine], *, on_failure: OnFailure) -> Measured:
        """Time one text of 8, 32, 128 and 512 tokens on engines that passed their self-test.

        Args:
            engines: By path of the artifact, the preferred first.
            on_failure: See `edgebert.engines.measuring.measure`.
        """
        manifest = self._bundle.manifest
        return measure(
            {path: engine.run for path, engine in engines.items()},
            [batch_of_length(manifest, length) for length in lengths_to_time(manifest)],
            on_failure=on_failure,
        )

    def remember(self, measured: Measured) -> bool:
        """Keep what was measured if no artifact failed; say whether it was kept.

        Those that there was no time for are kept as such: each later load would be as slow again.
        """
        if set(measured.latency_ms) != set(self._by_path):
            return False
        return write_record(self._key, {"latency_ms": measured.latency_ms})

    def ranked(self, measured: Measured) -> list[Artifact]:
        """Give the artifacts, the fastest first."""
        return [self._by_path[path] for path in measured.latency_ms]

    def explain(self, measured: Measured, *, when: str) -> str:
        """Say in one sentence which artifact is the fastest, of how many and by how much."""
        best, *others = self.ranked(measured)
        lengths = ", ".join(map(str, measured.lengths))
        mean = measured.mean_ms(best.files[0].path)
        found = f"geometric mean of {lengths} tokens: {mean:.3g} ms"
        second = measured.mean_ms(others[0].files[0].path) if others else None
        if second is not None:
            found += f"; next {name_of(others[0])} {second:.3g} ms"
        if measured.reached <= len(others):
            found += f"; measured {measured.reached} of {1 + len(others)} in the time there is"
        return f"{name_of(best)}: fastest of {measured.reached} measured {when} ({found})"
