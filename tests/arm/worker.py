"""Run on each machine: asks every method of bundles, on one engine, and writes what it said.

    worker.py OUT BACKEND LOG BUNDLE…

OUT gets ``{precision: {"log": bytes of qemu's LOG before it, "tasks": {task: outcome}}}``; see
`ask_all` for an outcome. Nothing but numpy, tokenizers and the engine is installed there.
"""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path
from typing import Any

from edgebert.errors import EdgeBertError
from edgebert.runtime import Runtime
from tests.engines.methods import METHODS, ask

TEXTS = ("good film", "a b c the plot is not very fun !", "hello world , the film is bad")


def ask_all(bundle: Path, backend: str, precision: str) -> dict[str, Any]:
    """Open an artifact, with its self-test, and ask all methods of its task.

    Returns:
        ``{"engine", "cpu", method: {"numbers": [[…], …], "says": […]}}``, or ``{"error", "kind"}``.
    """
    try:
        with Runtime(bundle, backend, precision, threads=1, self_test="always") as runtime:
            found: dict[str, Any] = {"engine": runtime.info.engine, "machine": platform.machine()}
            for name, method in METHODS.items():
                if method.task == runtime.info.task:
                    results = ask(runtime, name, TEXTS)
                    found[name] = {
                        "numbers": [[float(x) for x in method.numbers(one)] for one in results],
                        "says": [repr(method.says(one)) for one in results],
                    }
            return found
    except EdgeBertError as error:
        return {"error": str(error), "kind": type(error).__name__}


def main(out: str, backend: str, log: str, *bundles: str) -> None:
    said: dict[str, Any] = {}
    for precision in ("fp32", "int8"):
        size = Path(log).stat().st_size if Path(log).is_file() else 0
        tasks = {Path(one).name: ask_all(Path(one), backend, precision) for one in bundles}
        said[precision] = {"log": size, "tasks": tasks}
    Path(out).write_text(json.dumps(said), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
