"""An attacker who also writes the hashes: what do the parsers of engines and tokenizers do?

Each mutated file is loaded in a child process with bounded memory, so that a crash or a hang is a
result like another. Run it for the table of ``SECURITY.md``::

    python -m tests.edgebert.hostile BUNDLE --mutations 1000
"""

from __future__ import annotations

import argparse
import json
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
HANG_SECONDS = 20.0
IMPORT_SECONDS = 120.0  # on a busy machine
MUCH_MEMORY_MB = 500  # more than before the load; these models have a megabyte
LIMIT_MB = 8192
MARK = "hostile: "


@dataclass
class Attacked:
    """What became of the mutations of one file.

    Attributes:
        backend: That loaded it.
        file: Path in the bundle.
        outcomes: How many ended how: ``opened``, an error's name, ``crash: SIGSEGV``, ``hang``.
        examples: A seed for each outcome.
        greedy: Seeds that took more than `MUCH_MEMORY_MB`.
        engine: Name and version.
    """

    backend: str
    file: str
    outcomes: Counter[str] = field(default_factory=Counter)
    examples: dict[str, int] = field(default_factory=dict)
    greedy: list[int] = field(default_factory=list)
    engine: str = ""

    def add(self, outcome: str, seed: int) -> None:
        """Count an outcome."""
        self.outcomes[outcome] += 1
        self.examples.setdefault(outcome, seed)


def attack(bundle: Path, backend: str, file: str, *, seeds: range) -> Attacked:
    """Load a bundle with one file mutated and all hashes right, once a seed."""
    found = Attacked(backend, file)
    seed = seeds.start
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(bundle, Path(folder) / "bundle")
        while seed < seeds.stop:
            shutil.copyfile(bundle / "edgebert.json", copy / "edgebert.json")
            shutil.copyfile(bundle / file, copy / file)
            seed = _run_child(copy, found, seed, seeds.stop)
    return found


def _run_child(copy: Path, found: Attacked, seed: int, stop: int) -> int:
    """Let a child go on from a seed until it ends; give the seed to go on from."""
    arguments = [str(copy), found.backend, found.file, str(seed), str(stop)]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.edgebert.hostile_child", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        text=True,
    ) as child:
        for said in _said_by(child):
            if said is None:
                found.add("hang", seed)
                return seed + 1
            found.engine = said.get("engine") or found.engine
            if "outcome" in said:
                found.add(said["outcome"], seed)
                found.greedy += [seed] if said["memory_mb"] > MUCH_MEMORY_MB else []
                seed += 1
    if seed < stop:
        found.add(f"crash: {_signal(child.returncode)}", seed)
        seed += 1
    return seed


def _said_by(child: subprocess.Popen[str]) -> Iterator[dict[str, Any] | None]:
    """Give what a child says of each mutation; None, at last, when it says nothing for long."""
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        for line in child.stdout or ():
            lines.put(line)
        lines.put(None)

    reader = threading.Thread(target=read)
    reader.start()
    wait = IMPORT_SECONDS
    line: str | None = ""
    try:
        while (line := lines.get(timeout=wait)) is not None:
            wait = HANG_SECONDS
            if line.startswith(MARK):  # engines write to stdout, too
                yield json.loads(line.removeprefix(MARK))
    except queue.Empty:
        child.kill()
        yield None
    finally:
        if line is not None:  # it hasn't ended by itself
            child.kill()
        reader.join()


def _signal(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit {code}"


def targets(bundle: Path) -> list[tuple[str, str]]:
    """List what can be attacked: each file of each artifact, and the tokenizer."""
    data: dict[str, Any] = json.loads((bundle / "edgebert.json").read_text(encoding="utf-8"))
    found = [(a["backend"], f["path"]) for a in data["artifacts"] for f in a["files"]]
    return [*found, (data["artifacts"][0]["backend"], "tokenizer.json")]


def main() -> None:
    """Print a table of what became of the mutations."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--mutations", type=int, default=1000)
    parser.add_argument("--only", default="", help="Part of a file's path")
    arguments = parser.parse_args()
    for backend, file in targets(arguments.bundle):
        if arguments.only not in file:
            continue
        found = attack(arguments.bundle, backend, file, seeds=range(arguments.mutations))
        shown = ", ".join(f"{name} {count}" for name, count in found.outcomes.most_common())
        print(f"{found.engine} | {file} | {shown} | greedy: {len(found.greedy)}", flush=True)
        print(f"    seeds: {found.examples} greedy {found.greedy[:5]}", flush=True)


if __name__ == "__main__":
    main()
