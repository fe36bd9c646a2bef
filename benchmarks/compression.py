"""How far a student goes: three sizes on three data sets, three seeds, every engine.

A teacher is fine-tuned once a data set, its vocabulary cut to the train texts, and a student of
each size distilled from it with each seed. Flags were chosen on dev; test is read once, by the
report of each student. Ratios are to the teacher as it was before the cut: its bytes as FP32, its
score on the same rows, and one text of 32 tokens in torch FP32, timed by turns with the artifacts.
What stands in benchmarks/results/compression.json is not made again. --train-only leaves the
timing for later: students can then be made side by side, each on a core of its own.

python benchmarks/compression.py [--train-only] [DATA[/SIZE[/SEED]] …]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from common import BUILD, RESULTS, evaluate, latencies, once, report_of, save
from compression_recipes import DATA, SEEDS, DataSet, Size

from compress.models.pretrained import load_as_saved
from compress.models.teachers import resolve_teacher
from edgebert.cpu import machine

FOLDER = BUILD / "compression"


def student(data: DataSet, size: Size, seed: int) -> tuple[Path, dict[str, Any]]:
    """Distil a student; give its bundle, and how it was made."""
    bundle = FOLDER / f"{data.name}-{size.name}-{seed}"
    run = once(
        "distill",
        bundle,
        *("--teacher", str(_trimmed(data, size)), "--task", data.task, "--student", size.student),
        *(*data.files, *data.test, "--max-length", str(data.length), *size.flags),
        *("--seed", str(seed), "--cache-dir", str(FOLDER / "teacher-outputs")),
    )
    return bundle, {"commands": [run["command"]], "seconds": run["seconds_total"]}


def fine_tuned(data: DataSet) -> str:
    """Fine-tune the teacher, if the task wants it, and give its directory or alias."""
    if not data.teacher_flags:
        return data.teacher
    directory = FOLDER / f"{data.name}-teacher"
    once(
        "train",
        directory,
        *("--model", data.teacher, "--task", data.task, *data.files),
        *("--max-length", str(data.length), *data.teacher_flags),
    )
    return str(directory)


def _trimmed(data: DataSet, size: Size) -> Path:
    directory = FOLDER / f"{data.name}-{size.vocab_size or 'all'}"
    limit = ("--vocab-size", str(size.vocab_size)) if size.vocab_size else ()
    once("trim", directory, "--model", fine_tuned(data), *data.corpus, *limit)
    return directory


def held(data: DataSet, bundle: Path) -> dict[str, Any]:
    """Hold each artifact of a bundle against the teacher of its data set."""
    teacher = fine_tuned(data)
    report = report_of(bundle)
    measured = _teacher_scores(data, teacher)
    times = latencies(resolve_teacher(teacher, no_fallback=True).path, bundle)
    full = times["torch"]["b1_s32"]["p50"]
    rows = {}
    for row in report["rows"]:
        name = f"{row['backend']}/{row['precision']}"
        rows[name] = {
            "size_bytes": row["size_bytes"],
            "smaller": measured["size_bytes"] / row["size_bytes"],
            "ms": times[name]["b1_s32"]["p50"],
            "faster": full / times[name]["b1_s32"]["p50"],
            "score": row["score"],
            "interval": row["interval"],
            "kept": row["score"] / measured["test"],
            "dev": row["dev_score"],
            "kept_dev": row["dev_score"] / measured["dev"],
            "kept_fp32": row["gate"]["kept_fp32"],
        }
    return {
        "metric": report["metric"],
        "teacher": measured | {"ms": full},
        "student": report["student"]["params"],
        "rows": rows,
        "refused": [f"{row['backend']}/{row['precision']}" for row in report["refused"]],
        "machine": machine(),
        "versions": report["versions"],
    }


def _teacher_scores(data: DataSet, teacher: str) -> dict[str, Any]:
    """Score the teacher on dev and test in torch FP32, once."""
    path = FOLDER / f"{data.name}-scores.json"
    if not path.is_file():
        found = {
            split: evaluate(
                *("--model", teacher, "--task", data.task, "--max-length", str(data.length)),
                *(*data.columns, "--test-file", str(data.paths[split])),
            )["torch/fp32"]
            for split in ("dev", "test")
        }
        scores = {split: one["value"] for split, one in found.items()}
        path.write_text(json.dumps(scores | {"size_bytes": _size(teacher)}), encoding="utf-8")
    measured: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return measured


def _size(teacher: str) -> int:
    """Give four bytes for each parameter."""
    model = load_as_saved(resolve_teacher(teacher, no_fallback=True).path)
    return 4 * sum(one.numel() for one in model.parameters())


def _kept() -> dict[str, Any]:
    path = RESULTS / "compression.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found


def main(arguments: list[str]) -> None:
    """Make what is wanted and isn't there, and write what was found after each."""
    wanted = [one for one in arguments if one != "--train-only"]
    FOLDER.mkdir(parents=True, exist_ok=True)
    for data in DATA:
        for seed in SEEDS:
            for size in data.sizes:
                name = f"{data.name}/{size.name}/{seed}"
                asked = not wanted or any(f"{name}/".startswith(f"{one}/") for one in wanted)
                if asked and name not in _kept():
                    bundle, made = student(data, size, seed)
                    if "--train-only" not in arguments:
                        save("compression", _kept() | {name: made | held(data, bundle)})


if __name__ == "__main__":
    main(sys.argv[1:])
