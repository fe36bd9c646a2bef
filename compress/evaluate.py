"""``python -m compress.evaluate``: score a checkpoint in torch, or a bundle on its engines."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from compress.options import StepModule, main, option
from compress.settings import DataConfig
from edgebert.errors import InputError, ModelError
from edgebert.files import write_json
from edgebert.manifest import MANIFEST_NAME

if TYPE_CHECKING:
    from compress.data import Split
    from compress.probe import Probe

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig(DataConfig):
    """Score a checkpoint in torch FP32, or every artifact of a bundle on its engine."""

    needs_train: ClassVar[bool] = False

    model: str = option(help="Bundle, checkpoint directory, alias or hub id")
    teacher_labels: str | None = option(
        None, help="Names of the logits in order, comma-separated, where the model has none"
    )
    output_file: Path | None = option(None, help="Also write the result there, as JSON")
    threads: int | None = option(None, help="CPU threads (default: affinity and cgroup quota)")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.test_file is None and self.dev_file is None and self.dataset is None:
            raise InputError("Give --test-file or --dev-file, or a --dataset with one of them.")


def evaluate(config: EvaluateConfig) -> dict[str, dict[str, Any]]:
    """Score a model on ``test_file``, else on ``dev_file``.

    Args:
        config: The settings. A bundle brings its own task, labels and pooling.

    Returns:
        By what ran (``onnx/int8``, …, or ``torch/fp32``): metric, score, 95 % interval, recall and
        precision by class, rows.

    Raises:
        ModelError: The model can't be found or has no head for the task.
        DataError: The file can't be used, or has labels that the model hasn't.
    """
    from compress.device import set_threads
    from compress.teachers import resolve_teacher

    set_threads(config.threads)
    directory = Path(config.model)
    if (directory / MANIFEST_NAME).is_file():
        found = _evaluate_bundle(directory, config)
    else:
        path = resolve_teacher(config.model, no_fallback=True).path
        found = {"torch/fp32": _evaluate_checkpoint(path, config)}
    if config.output_file is not None:
        write_json(config.output_file, found)
    return found


def _evaluate_bundle(directory: Path, config: EvaluateConfig) -> dict[str, dict[str, Any]]:
    from compress.probe import TaskHead, engine_rows, make_probe
    from edgebert.bundle import Bundle
    from edgebert.cpu import default_threads
    from edgebert.tokenizer import Tokenizer
    from runtimes import SessionOptions, load_backend

    bundle = Bundle(directory)
    manifest = bundle.manifest
    head = TaskHead(
        task=manifest.task,
        labels=manifest.labels,
        problem_type=manifest.problem_type,
        pooling=manifest.pooling,  # type: ignore[arg-type]  # checked by the manifest
        normalize=manifest.normalize,
    )
    probe = make_probe(
        _split(config, manifest.task, manifest.labels),
        head,
        Tokenizer(directory, special_ids=manifest.special_ids),
        max_length=manifest.max_length,
        mask_id=manifest.special_ids.get("mask_token_id"),
    )
    options = SessionOptions(threads=config.threads or default_threads())
    found = {}
    for artifact in manifest.artifacts:
        bundle.check_files(artifact)
        backend = load_backend(artifact.backend, directory / artifact.files[0].path, options)
        rows = engine_rows(backend, probe, batch_invariant=artifact.batch_invariant)
        backend.close()
        found[f"{artifact.backend}/{artifact.precision}"] = _scored(probe, rows.values)
    return found


def _evaluate_checkpoint(path: Path, config: EvaluateConfig) -> dict[str, Any]:
    from compress.loading import load_teacher, load_tokenizer, special_token_ids
    from compress.probe import TaskHead, make_probe, torch_rows
    from compress.sentence_layout import read_layout

    names = tuple(config.teacher_labels.split(",")) if config.teacher_labels else ()
    loaded = load_teacher(
        path, task=config.task, problem_type=config.problem_type, teacher_labels=names
    )
    if not loaded.has_head:
        raise ModelError(f"{path} has no head for {config.task}; train one with compress.train.")
    layout = read_layout(path) if config.task == "feature-extraction" else None
    if config.task == "feature-extraction" and layout is None:
        raise ModelError(f"{path} doesn't say how its vectors are pooled (no modules.json).")
    head = TaskHead(
        task=config.task,
        labels=loaded.labels,
        problem_type=config.problem_type if config.task == "text-classification" else None,
        pooling=layout.pooling if layout else None,
        normalize=layout.normalize if layout else False,
    )
    probe = make_probe(
        _split(config, config.task, loaded.labels),
        head,
        load_tokenizer(path, config.max_length),
        max_length=config.max_length,
        mask_id=special_token_ids(loaded.tokenizer_dir, path).get("mask_token_id"),
    )
    return _scored(probe, torch_rows(loaded.model, probe).values)


def _split(config: EvaluateConfig, task: str, labels: tuple[str, ...]) -> Split:
    from compress.data import load_data, load_split

    if config.dataset is not None:
        data = load_data(config, task=task, seed=0)
        return data.test if data.test is not None and data.test.labels is not None else data.dev
    if config.test_file is not None:
        return load_split(config, config.test_file, task=task, labels=labels)
    if config.dev_file is not None:
        return load_split(config, config.dev_file, task=task, labels=labels, name="dev")
    raise InputError("Give --test-file or --dev-file.")


def _scored(probe: Probe, values: Any) -> dict[str, Any]:
    from dataclasses import asdict

    from compress.scores import score_rows

    if probe.head.task == "feature-extraction" and probe.split.labels is None:
        raise InputError(
            f"{probe.split.source} has no scored pairs, so vectors can't be scored; give "
            "--text-column, --text-pair-column and --label-column."
        )
    return {"rows": len(probe.split), "split": probe.split.name} | asdict(
        score_rows(probe, values, values)
    )


def _step(config: EvaluateConfig) -> None:
    print(json.dumps(evaluate(config), indent=2))


sys.modules[__name__].__class__ = StepModule

if __name__ == "__main__":
    sys.exit(main(EvaluateConfig, _step, prog="python -m compress.evaluate"))
