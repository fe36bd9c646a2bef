"""What a server counts, as text that Prometheus reads (exposition format 0.0.4)."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from edgebert.types import Batch

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Counter:
    """A number that only rises, for each set of labels."""

    def __init__(self, name: str, about: str, labels: tuple[str, ...] = ()) -> None:
        self._name, self._about, self._labels = name, about, labels
        self._values: dict[tuple[str, ...], int] = {} if labels else {(): 0}
        self._lock = threading.Lock()

    def add(self, amount: int, *labels: str) -> None:
        """Count ``amount`` more, with a value for each label's name."""
        with self._lock:
            self._values[labels] = self._values.get(labels, 0) + amount

    def lines(self) -> Iterator[str]:
        """Give its lines."""
        with self._lock:
            values = sorted(self._values.items())
        yield from _head(self._name, self._about, "counter")
        for labels, value in values:
            yield f"{self._name}{_labels(self._labels, labels)} {value}"


class Histogram:
    """How many values were at or below each bound, for each set of labels."""

    def __init__(
        self, name: str, about: str, bounds: Sequence[float], labels: tuple[str, ...] = ()
    ) -> None:
        self._name, self._about, self._labels = name, about, labels
        self._bounds = tuple(bounds)
        self._counts: dict[tuple[str, ...], list[int]] = {}
        self._sums: dict[tuple[str, ...], float] = {}
        self._lock = threading.Lock()

    def observe(self, value: float, *labels: str) -> None:
        """Count a value."""
        with self._lock:
            counts = self._counts.setdefault(labels, [0] * (len(self._bounds) + 1))
            counts[bisect_left(self._bounds, value)] += 1
            self._sums[labels] = self._sums.get(labels, 0.0) + value

    def lines(self) -> Iterator[str]:
        """Give its lines."""
        with self._lock:
            found = sorted((labels, list(counts)) for labels, counts in self._counts.items())
            sums = dict(self._sums)
        yield from _head(self._name, self._about, "histogram")
        for labels, counts in found:
            names, total = (*self._labels, "le"), 0
            for bound, count in zip((*map(str, self._bounds), "+Inf"), counts, strict=True):
                total += count
                yield f"{self._name}_bucket{_labels(names, (*labels, bound))} {total}"
            shown = _labels(self._labels, labels)
            yield f"{self._name}_sum{shown} {sums[labels]!r}"
            yield f"{self._name}_count{shown} {total}"


class Metrics:
    """Everything that is counted since the start, from any thread."""

    def __init__(self) -> None:
        self.requests = Counter(
            "edgebert_requests_total", "Requests by path and status.", ("path", "status")
        )
        self.seconds = Histogram(
            "edgebert_request_seconds", "Time of a request by path.", _SECONDS, ("path",)
        )
        self.texts = Counter("edgebert_texts_total", "Texts that were answered.")
        self.tokens = Counter("edgebert_tokens_total", "Tokens that the model read.")
        self.dropped = Counter("edgebert_dropped_tokens_total", "Tokens cut off long texts.")
        self.batch_rows = Histogram("edgebert_batch_rows", "Rows of an engine call.", _ROWS)

    def saw_batch(self, batch: Batch) -> None:
        """Count a batch that was run."""
        self.batch_rows.observe(len(batch.input_ids))

    def text(self, *, in_flight: int) -> str:
        """Give all of it, with the requests that are under way or wait."""
        lines = [
            *_head("edgebert_queue_requests", "Requests under way or waiting.", "gauge"),
            f"edgebert_queue_requests {in_flight}",
        ]
        for one in (
            *(self.requests, self.seconds, self.texts, self.tokens, self.dropped),
            self.batch_rows,
        ):
            lines += one.lines()
        return "\n".join(lines) + "\n"


def _head(name: str, about: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"


def _labels(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    """Give ``{name="value",…}``; the values are paths of ours, statuses and bounds."""
    shown = ",".join(f'{name}="{value}"' for name, value in zip(names, values, strict=True))
    return f"{{{shown}}}" if shown else ""
