"""What each step saves and costs on SST-2, alone and in a chain, on every engine.

Every row starts from the fine-tuned teacher of benchmarks/compression.py, goes through its steps
with all train rows, and is exported for every engine. Flags were chosen on dev; test is read once a
row. What stands in benchmarks/results/steps.json is not made again. --train-only leaves the timing
for later: rows can then be made side by side, each on a core of its own.

python benchmarks/steps.py [--train-only] [ROW …]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from common import RESULTS, once, save
from compression import FOLDER, fine_tuned, held
from compression_recipes import DATA

SST2 = DATA[0]
Step = tuple[str, ...]  # its name and its flags

_TRIM = ("trim", *SST2.corpus)
_SHORT = ("--num-train-epochs", "1")
_DISTILL = ("distill", "--student", "minilm-3l-384d", "--num-train-epochs", "2")
_NARROW = ("distill", "--student", "L=2,H=192,A=6,I=384", "--learning-rate", "5e-4")
_STATIC = ("distill", "--student", "static-256d", "--learning-rate", "1e-3")
_INT4 = ("--recipe", "weights-int4")

ROWS: dict[str, tuple[Step, ...]] = {
    "export": (("export",),),
    "export, INT4": (("export", *_INT4),),
    "trim": (_TRIM, ("export",)),
    "prune to twice the speed": (("prune", "--target-speedup", "2"), ("export",)),
    "prune heads": (("prune", "--units", "heads", "--sparsity", "0.2", *_SHORT), ("export",)),
    "prune neurons": (("prune", "--units", "neurons", "--sparsity", "0.4", *_SHORT), ("export",)),
    "prune layers": (("prune", "--num-hidden-layers", "4", *_SHORT), ("export",)),
    "prune width": (("prune", "--hidden-size", "256", *_SHORT), ("export",)),
    "zeros": (("prune", "--unstructured", "--sparsity", "0.6", *_SHORT), ("export",)),
    "share layers": (("share", "--num-hidden-groups", "2", *_SHORT), ("export",)),
    "factorize": (("share", "--embedding-size", "128", *_SHORT), ("export",)),
    "distill": (_DISTILL,),
    "distill, a second teacher": (("second",), (*_DISTILL, "--teacher-weights", "dev")),
    "distill a narrow one": ((*_NARROW, "--num-train-epochs", "2"),),
    "the same with augmentation": ((*_NARROW, "--num-train-epochs", "1", "--augment", "2"),),
    "distill a static one": ((*_STATIC, "--num-train-epochs", "4"),),
    "chain: trim, distill": (_TRIM, _DISTILL),
    "chain: and prune neurons": (
        _TRIM,
        _DISTILL,
        ("prune", "--units", "neurons", "--sparsity", "0.4", *_SHORT),
        ("export",),
    ),
    "chain: and aware of INT4": (
        _TRIM,
        _DISTILL,
        ("prune", "--units", "neurons", "--sparsity", "0.4", *_SHORT),
        ("distill", "--quantization-aware", "int4", *_SHORT, *_INT4),
    ),
}


def make(name: str) -> tuple[Path, list[dict[str, Any]]]:
    """Take a row's steps; give its bundle, and how each step was run."""
    model, runs, second = fine_tuned(SST2), [], ""
    rows = (*SST2.files, "--max-length", str(SST2.length))
    for number, (step, *flags) in enumerate(ROWS[name], start=1):
        directory = FOLDER / "steps" / _folder(ROWS[name][:number])
        if step == "second":  # the same fine-tuning from another seed
            second = str(directory)
            flags = ["--model", SST2.teacher, *SST2.teacher_flags, *rows, "--seed", "43"]
            step = "train"
        elif step == "distill":
            student = () if "--student" in flags else ("--student", model)
            teacher = fine_tuned(SST2) if student else model
            more = ("--extra-teacher", second) if second else ()
            flags = ["--teacher", teacher, *student, *more, *flags, *rows, *SST2.test]
        else:
            flags = ["--model", model, *flags]
            flags += [] if step == "trim" else rows
            flags += SST2.test if step == "export" else []
        runs.append(once(step, directory, *flags))
        model = model if second == str(directory) else str(directory)
    return Path(model), runs


def _folder(steps: tuple[Step, ...]) -> str:
    """Name a directory after the steps that lead to it, so that rows share their beginnings."""
    words = [word.strip("-") for step in steps for word in step if "/" not in word]
    return "_".join(words).replace(",", "-").replace("=", "")


def _kept() -> dict[str, Any]:
    path = RESULTS / "steps.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found


def main(arguments: list[str]) -> None:
    """Make what is wanted and isn't there, and write what was found after each."""
    wanted = [one for one in arguments if one != "--train-only"]
    if unknown := set(wanted) - set(ROWS):
        sys.exit(f"no row {', '.join(sorted(unknown))}; there are: {'; '.join(ROWS)}")
    (FOLDER / "steps").mkdir(parents=True, exist_ok=True)
    for name in wanted or ROWS:
        if name not in _kept():
            bundle, runs = make(name)
            if "--train-only" not in arguments:
                made = {
                    "commands": [run["command"] for run in runs],
                    "seconds": round(sum(run["seconds_total"] for run in runs)),
                }
                save("steps", _kept() | {name: made | held(SST2, bundle)})


if __name__ == "__main__":
    main(sys.argv[1:])
