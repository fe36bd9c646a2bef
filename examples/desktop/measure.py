"""Measure the frozen program: its size, the time to the first result, and the most memory.

python measure.py OUT/notes FOLDER QUERY        Linux; "cold" is the first start after the freeze
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def size_of(folder: Path) -> int:
    """Add up the bytes of all files below; links aren't followed."""
    return sum(one.lstat().st_size for one in folder.rglob("*") if not one.is_dir())


def start(program: Path, folder: Path, store: Path, query: str) -> tuple[float, float]:
    """Run it until the query is answered; give the seconds and the most memory in MB."""
    environment = {"HOME": str(store.parent), "QT_QPA_PLATFORM": "offscreen", "PATH": "/nowhere"}
    command = [program, folder, "--store", store, "--query", query]
    begin = time.perf_counter()
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            list(map(str, command)), stdout=output, stderr=errors, env=environment
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        errors.seek(0)
        if status or not output.tell():
            raise SystemExit(f"{program} failed ({status}): {errors.read().decode()[-2000:]}")
    return seconds, usage.ru_maxrss / 1024


def main() -> None:
    """Print one line a start."""
    program, folder, query = Path(sys.argv[1]).resolve(), Path(sys.argv[2]), sys.argv[3]
    print(f"size: {size_of(program) / 1e6:.0f} MB")
    with tempfile.TemporaryDirectory() as scratch:
        store = Path(scratch) / "vectors.db"
        for kind in ("first start, notes embedded", "second start", "third start"):
            seconds, memory_mb = start(program / "notes", folder, store, query)
            print(f"{kind}: {seconds:.2f} s to the result, {memory_mb:.0f} MB at most")


if __name__ == "__main__":
    main()
