"""Wall seconds of a run's steps, added up over all its resumed parts."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgebert.files import write_json


class Stopwatch:
    """Times the steps of a run and keeps them in ``seconds.json`` of its work directory."""

    def __init__(self, work: Path) -> None:
        self._file = work / "seconds.json"
        self.seconds: dict[str, float] = {}
        if self._file.is_file():
            self.seconds = json.loads(self._file.read_text(encoding="utf-8"))

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time a block; an interrupted one counts too, a killed one doesn't."""
        start = time.monotonic()
        try:
            yield
        finally:
            spent = time.monotonic() - start
            self.seconds[name] = round(self.seconds.get(name, 0.0) + spent, 2)
            write_json(self._file, self.seconds)
