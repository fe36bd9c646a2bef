"""What a test asks a process of its own: ``python -m tests.engines.worker NAME BUNDLE BACKEND …``.

Each prints one JSON value. A process of its own, because memory and idle threads are counted for a
whole process, and an audit hook stays until its end.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

SAMPLES = 16  # of the resident memory
THREADS = 2
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def opened(bundle: str, backend: str, precision: str) -> Any:
    """Open an artifact by name."""
    import edgebert

    return edgebert.Runtime(bundle, backend, precision, threads=THREADS)


def random_texts(count: int, *, longest: int) -> Iterator[list[str]]:
    """Give texts of 0 to ``longest`` words, 1 to 64 at a time, ``count`` in all."""
    from tests.tiny import LETTERS, WORDS

    rng = np.random.default_rng(0)
    words = np.array(WORDS + LETTERS)
    while count > 0:
        size = min(count, int(rng.integers(1, 65)))
        yield [" ".join(rng.choice(words, rng.integers(0, longest + 1))) for _ in range(size)]
        count -= size


def resident_mb() -> float:
    """Read how much memory this process has in RAM."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def texts(bundle: str, backend: str, precision: str, count: str) -> list[float]:
    """Encode texts of random length; give the resident MB at even steps."""
    runtime = opened(bundle, backend, precision)
    done, samples = 0, []
    for chunk in random_texts(int(count), longest=runtime.info.max_length):
        runtime.encode(chunk)
        done += len(chunk)
        if done * SAMPLES >= int(count) * (len(samples) + 1):
            samples.append(resident_mb())
    return samples


def new_threads(bundle: str, backend: str, precision: str, count: str) -> list[float]:
    """Encode in a new thread each time; give the resident MB at even steps."""
    runtime = opened(bundle, backend, precision)
    samples = []
    for step in range(SAMPLES):
        for i in range(int(count) // SAMPLES):
            text = "good film " * ((step + i) % 7)
            thread = threading.Thread(target=runtime.encode, args=([text, text + "a"],))
            thread.start()
            thread.join()
        samples.append(resident_mb())
    return samples


def idle(bundle: str, backend: str, precision: str, seconds: str) -> dict[str, float]:
    """Give the CPU seconds of calls 6 times a second, and those between the calls alone."""
    runtime = opened(bundle, backend, precision)
    chunk = ["the good film " * 8, "fun"]
    runtime.encode(chunk)
    start, between = time.monotonic(), 0.0
    while time.monotonic() - start < float(seconds):
        runtime.encode(chunk)
        before = time.process_time()
        time.sleep(1 / 6)
        between += time.process_time() - before
    return {"idle_share": between / (time.monotonic() - start)}


def quiet(bundle: str, backend: str, precision: str) -> dict[str, list[str]]:
    """Give the sockets that were opened, and the files that Python opened for writing."""
    seen: dict[str, list[str]] = {"sockets": [], "written": []}

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event.startswith("socket."):
            seen["sockets"].append(event)
        elif event == "open" and int(arguments[2] or 0) & WRITING:
            seen["written"].append(str(arguments[0]))

    sys.addaudithook(hook)
    with opened(bundle, backend, precision) as runtime:
        runtime.encode(["good", "very dull film"])
        links = [entry for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
        kinds = [str(entry.readlink()) for entry in links]
    seen["sockets"] += [kind for kind in kinds if kind.startswith("socket:")]
    return seen


def fork(bundle: str, backend: str, precision: str) -> list[int]:
    """Fork while threads of the parent are at work; give the children's exit codes."""
    runtime = opened(bundle, backend, precision)
    chunk = ["good", "the film " * 9, "a dull plot"]
    expected = runtime.encode(chunk).tolist()
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            runtime.encode(chunk)

    busy = [threading.Thread(target=work) for _ in range(2)]
    for thread in busy:
        thread.start()
    codes = []
    for uses_it in (True, False, True):
        child = os.fork()
        if not child:
            wrong = uses_it and runtime.encode(chunk).tolist() != expected
            sys.exit(3 if wrong else 0)  # with all that an interpreter does at its end
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    stop.set()
    for thread in busy:
        thread.join()
    if runtime.encode(chunk).tolist() != expected:
        codes.append(4)
    return codes


def spawn(bundle: str, backend: str, precision: str) -> list[bool]:
    """Encode in two spawned processes; say of each whether it gave what the parent gives."""
    chunk = ["good", "the film " * 9, "a dull plot"]
    runtime = opened(bundle, backend, precision)
    expected = runtime.encode(chunk).tolist()
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        found = pool.starmap(vectors, [(bundle, backend, precision, chunk)] * 2)
    return [one == expected for one in found]


def vectors(bundle: str, backend: str, precision: str, chunk: list[str]) -> Any:
    """Encode in this process."""
    with opened(bundle, backend, precision) as runtime:
        return runtime.encode(chunk).tolist()


TASKS = {task.__name__: task for task in (texts, new_threads, idle, quiet, fork, spawn)}

if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    print(json.dumps(TASKS[name](*arguments)))
