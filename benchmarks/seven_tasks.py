"""Seven tasks on three engines, FP32 and INT8: students of real data, held to one contract.

For each task a teacher is fine-tuned, a student distilled from it and shipped for every engine.
Then every artifact runs the whole test split: FP32 engines must agree within 1e-4, logit by logit,
and `edgebert.Runtime` must say the same on each; INT8 may cost 1 % of the metric. What stands in
build/benchmarks is not made again.

python benchmarks/seven_tasks.py [NAME …]
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from common import BUILD, RESULTS, once, report_of, save
from task_data import TaskFiles, all_tasks

import edgebert
from compress.data.load import Split
from compress.evaluate import EvaluateConfig, bundle_probe
from compress.scoring.probe import Probe, engine_rows
from edgebert.formats.manifest import Manifest
from edgebert.types import FloatArray
from runtimes import SessionOptions, load_backend

MAX_ABS, RELATIVE_LOSS = 1e-4, 0.01
# Minutes each on two cores: parts of the large sets, a few passes over the small ones.
SAMPLES = {"sentiment-en": "4000", "answers-zh": "400", "masks": "6000", "sentiment-zh": "2000"}
EPOCHS = {  # of the teacher, and of the student
    "sentiment-en": ("1", "2"),
    "similarity": ("3", "4"),
    "entities": ("4", "6"),
    "answers-en": ("4", "6"),
    "answers-zh": ("1", "2"),
    "choices": ("2", "4"),
    "masks": ("1", "2"),
    "vectors": ("0", "1"),
    "sentiment-zh": ("1", "2"),
}

# Few rows, long ones: small batches make enough steps of them.
BATCH = {"answers-zh": "8"}

# A few hundred questions, of which one is over 1 %: the recipes that are nearest to FP32.
NEAREST = ("--recipe", "onnx=weights", "--recipe", "openvino=weights")
SMALL = ("answers-en", "answers-zh", "choices")


def make(files: TaskFiles) -> dict[str, Any]:
    """Train a teacher, if the task needs one, and ship its student, unless they stand there."""
    bundle, teacher = BUILD / "seven" / files.name, BUILD / "seven" / f"{files.name}-teacher"
    first, then = EPOCHS[files.name]
    common = ["--task", files.task, *files.flags, "--max-length", str(files.length)]
    if files.name in SAMPLES:
        common += ["--max-train-samples", SAMPLES[files.name]]
    if files.name in BATCH:
        common += ["--per-device-train-batch-size", BATCH[files.name]]
    runs = []
    if first != "0":
        flags = ("--model", files.teacher, *_without_test(common), "--num-train-epochs", first)
        runs.append(once("train", teacher, *flags))
    source = str(teacher) if runs else files.teacher
    flags = ("--teacher", source, "--student", files.student, *common, "--num-train-epochs", then)
    recipes = NEAREST if files.name in SMALL else ()
    runs.append(once("distill", bundle, *flags, *recipes))
    return {
        "commands": [run["command"] for run in runs],
        "seconds": [run["seconds_total"] for run in runs],
    }


def _without_test(flags: list[str]) -> list[str]:
    place = flags.index("--test-file")
    return flags[:place] + flags[place + 2 :]


def hold(files: TaskFiles) -> dict[str, Any]:
    """Compare what every artifact gave on the whole test split."""
    bundle = BUILD / "seven" / files.name
    report, manifest = report_of(bundle), Manifest.load(bundle)
    test = files.flags[files.flags.index("--test-file") + 1]
    columns = [flag for flag in files.flags if "column" in flag or flag.isdigit()]
    scores = {f"{row['backend']}/{row['precision']}": row["score"] for row in report["rows"]}
    config = _config(Path(test), columns, model=bundle)
    probe = bundle_probe(bundle, manifest, config)
    full = [name for name in scores if name.endswith("fp32")]
    predicted, raw = {}, {}
    for name in full:
        backend, precision = name.split("/")
        with edgebert.Runtime(bundle, backend=backend, precision=precision) as runtime:
            predicted[name] = predictions(runtime, probe.split)
        raw[name] = _outputs(bundle, manifest, probe, backend)
    differences = {
        f"{a} and {b}": {
            "max_abs": float(np.abs(raw[a] - raw[b]).max()),
            # a score or a vector is no choice: there the difference alone tells
            "same_predictions": predicted[a] == predicted[b] if predicted[a] else None,
        }
        for a, b in combinations(full, 2)
    }
    first = scores[full[0]]
    losses = {
        name: (first - score) / first for name, score in scores.items() if name.endswith("int8")
    }
    return {
        "task": files.task,
        "metric": report["metric"],
        "rows": report["data"]["test"]["measured"],
        "teacher": report["teacher"]["score"],
        "scores": scores,
        "fp32": differences,
        "int8_relative_loss": losses,
        "refused": {
            f"{row['backend']}/{row['precision']}": row["gate"]["reasons"]
            for row in report["refused"]
        },
        "kept_fp32": {
            f"{row['backend']}/{row['precision']}": row["gate"]["kept_fp32"]
            for row in report["rows"]
            if row["gate"]["kept_fp32"]
        },
        "holds": all(
            one["max_abs"] <= MAX_ABS and one["same_predictions"] is not False
            for one in differences.values()
        )
        and all(loss <= RELATIVE_LOSS for loss in losses.values())
        and len(full) == 3
        and len(losses) == 3,
    }


def predictions(runtime: edgebert.Runtime, split: Split) -> list[Any]:
    """Give what a caller is told of every text; nothing for a score or a vector."""
    task = runtime.info.task
    inputs: list[Any] = split.texts
    if split.text_pairs is not None:
        inputs = list(zip(split.texts, split.text_pairs, strict=True))
    if task == "text-classification":
        return [one.label for one in runtime.classify(inputs)]
    if task == "token-classification":
        found = [one.entities for one in runtime.tag(inputs)]
        return [[(e.label, e.start, e.end) for e in entities] for entities in found]
    if task == "question-answering":
        answers = [one[0] for one in runtime.answer(inputs)]
        return [(answer.start, answer.end, answer.text) for answer in answers]
    if task == "multiple-choice":
        chosen = runtime.choose(list(zip(split.texts, split.choices or [], strict=True)))
        return [one.index for one in chosen]
    if task == "fill-mask":
        fillings = [one[0] for one in runtime.fill_mask(_masked(runtime, split.texts))]
        return [one[0].token_id for one in fillings]
    return []


def _masked(runtime: edgebert.Runtime, texts: list[str]) -> list[str]:
    """Hide the middle word of each text."""
    mask = runtime.mask_token
    hidden = []
    for text in texts:
        words = text.split()
        words[len(words) // 2] = mask
        hidden.append(" ".join(words))
    return hidden


def _outputs(bundle: Path, manifest: Manifest, probe: Probe, backend: str) -> FloatArray:
    """Give the logits or vectors of an FP32 artifact, as they come from the engine."""
    artifact = next(
        one for one in manifest.artifacts if (one.backend, one.precision) == (backend, "fp32")
    )
    with closing(
        load_backend(backend, bundle / artifact.files[0].path, SessionOptions())
    ) as engine:
        return engine_rows(engine, probe, batch_invariant=artifact.batch_invariant).values


def _config(path: Path, columns: list[str], *, model: Path) -> EvaluateConfig:
    given = dict(zip(columns[::2], columns[1::2], strict=True))
    return EvaluateConfig(
        model=str(model),
        test_file=path,
        text_column=given.get("--text-column"),
        text_pair_column=given.get("--text-pair-column"),
        label_column=given.get("--label-column"),
    )


def _kept() -> dict[str, Any]:
    """Read what earlier runs found, and others that run beside this one."""
    path = RESULTS / "seven_tasks.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found


def main(names: list[str]) -> None:
    """Make and hold the tasks named, or all, and write what was found after each."""
    (BUILD / "seven").mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {}
    for files in all_tasks():
        if not names or files.name in names:
            found = make(files) | hold(files)
            results = _kept() | {files.name: found}
            save("seven_tasks", results)
    failed = [name for name, one in results.items() if not one["holds"]]
    print(f"{len(results) - len(failed)} of {len(results)} hold; not: {failed}", file=sys.stderr)
    sys.exit(1 if failed else 0)


main(sys.argv[1:])
