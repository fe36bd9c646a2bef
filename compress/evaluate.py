"""``python -m compress.evaluate``: score a checkpoint in torch, or a bundle on its engines."""

from __future__ import annotations

import json
import logging
import sys
from contextlib import closing
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from compress.options import StepModule, flag, main, option
from compress.settings import DataConfig
from edgebert.errors import DataError, InputError, ModelError
from edgebert.files import write_json
from edgebert.formats.manifest import MANIFEST_NAME, Artifact, Manifest

if TYPE_CHECKING:
    from compress.data.load import Split
    from compress.scoring.probe import Probe, TaskHead
    from edgebert.bundles.bundle import Bundle

logger = logging.getLogger(__name__)

LABEL_COLUMNS = {"label", "labels", "score", "tags", "ner_tags", "answers", "answer"}


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
        for name in ("train_file", "max_train_samples"):
            if getattr(self, name) is not None:
                raise InputError(f"Nothing is trained here: leave out {flag(name)}.")


def evaluate(config: EvaluateConfig) -> dict[str, dict[str, Any]]:
    """Score a model on ``test_file``, else on ``dev_file``, else on these splits of ``dataset``.

    Args:
        config: The settings. A bundle brings its own task, labels and pooling.

    Returns:
        By what ran (``onnx/int8``, …, or ``torch/fp32``): metric, value, 95 % interval, recall and
        precision by class, rows measured, and ``metrics``, all that the task has.

    Raises:
        ModelError: The model can't be found or has no head for the task.
        DataError: The file can't be used, has labels that the model hasn't, or single texts where
            a bundle takes pairs; or a data set has no test or dev split of its own.
    """
    from compress.device import set_threads
    from compress.models.teachers import resolve_teacher

    set_threads(config.threads)
    directory = Path(config.model)
    if (directory / MANIFEST_NAME).is_file():
        found = _evaluate_bundle(directory, config)
    else:
        path = resolve_teacher(config.model, no_fallback=True, any_family=True).path
        found = {"torch/fp32": _evaluate_checkpoint(path, config)}
    if config.output_file is not None:
        write_json(config.output_file, found)
    return found


def _evaluate_bundle(directory: Path, config: EvaluateConfig) -> dict[str, dict[str, Any]]:
    from compress.scoring.probe import engine_rows
    from edgebert.bundles.bundle import Bundle
    from edgebert.cpu import default_threads
    from runtimes import SessionOptions, load_backend

    bundle = Bundle(directory)
    probe = bundle_probe(directory, bundle.manifest, config)
    options = SessionOptions(threads=config.threads or default_threads())
    found = {}
    for artifact in _runnable(bundle):
        bundle.check_files(artifact)
        path = directory / artifact.files[0].path
        with closing(load_backend(artifact.backend, path, options)) as backend:
            rows = engine_rows(backend, probe, batch_invariant=artifact.batch_invariant)
        found[f"{artifact.backend}/{artifact.precision}"] = _scored(probe, rows.values)
    return found


def bundle_probe(directory: Path, manifest: Manifest, config: EvaluateConfig) -> Probe:
    """Encode the split that a bundle is scored on, as the bundle does.

    Args:
        directory: The bundle.
        manifest: The bundle's.
        config: The settings.

    Raises:
        InputError: A setting is not what the bundle was exported with.
        DataError: The file can't be used; see `evaluate`.
    """
    from compress.scoring.probe import TaskHead, make_probe
    from edgebert.text.tokenizer import Tokenizer

    _refuse_other_settings(directory, manifest, config)
    head = TaskHead(
        task=manifest.task,
        labels=manifest.labels,
        problem_type=manifest.problem_type,
        pooling=manifest.pooling,  # type: ignore[arg-type]  # checked by the manifest
        pooling_layers=manifest.pooling_layers,
        normalize=manifest.normalize,
        no_answer=manifest.no_answer_threshold is not None,
        max_answer_length=manifest.max_answer_length,
    )
    split = _split(config, head)
    _require_inputs_of(directory, manifest, split)
    probe = make_probe(
        split,
        head,
        Tokenizer(directory, special_ids=manifest.special_ids),
        max_length=manifest.max_length,
        stride=manifest.stride,
        mask_id=manifest.special_ids.get("mask_token_id"),
    )
    return replace(probe, no_answer_threshold=manifest.no_answer_threshold)


def _runnable(bundle: Bundle) -> list[Artifact]:
    """Leave out the artifacts that can't run here, and say why."""
    from edgebert.bundles.bundle import name_of, why_not_here

    kept = []
    for artifact in bundle.manifest.artifacts:
        reason = why_not_here(artifact)
        if reason is None:
            kept.append(artifact)
        else:
            logger.warning("%s is not scored: %s.", name_of(artifact), reason)
    return kept or bundle.candidates()  # which raises what is to be done


def _evaluate_checkpoint(path: Path, config: EvaluateConfig) -> dict[str, Any]:
    from compress.models.loading import load_teacher, load_tokenizer, special_token_ids
    from compress.models.sentence_layout import read_layout
    from compress.scoring.probe import TaskHead, make_probe, torch_rows

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
        pooling_layers=layout.pooling_layers if layout else 1,
        normalize=layout.normalize if layout else False,
        dense=layout.dense if layout else None,
        max_answer_length=config.max_answer_length or TaskHead.max_answer_length,
    )
    split = _split(config, head)
    if config.task == "question-answering":
        head = replace(head, no_answer=() in (split.labels or []))
    probe = make_probe(
        split,
        head,
        load_tokenizer(path, config.max_length),
        max_length=config.max_length,
        stride=config.doc_stride,
        mask_id=special_token_ids(loaded.tokenizer_dir, path).get("mask_token_id"),
    )
    return _scored(probe, torch_rows(loaded.model, probe).values)


def _split(config: EvaluateConfig, head: TaskHead) -> Split:
    from compress.data.hub_dataset import read_hub_dataset
    from compress.data.load import load_split

    sources: dict[str, Any] = {"test": config.test_file, "dev": config.dev_file}
    if config.dataset is not None and config.test_file is None and config.dev_file is None:
        tables = read_hub_dataset(config.dataset)
        names = {config.label_column} if config.label_column else LABEL_COLUMNS
        for name, table in tables.items():
            scored = head.task == "fill-mask" or names & table.columns.keys()
            sources[name] = table if scored else None
    for name in ("test", "dev"):
        if sources.get(name) is not None:
            return load_split(
                config,
                sources[name],
                task=head.task,
                labels=head.labels,
                problem_type=head.problem_type,
                name=name,
            )
    raise DataError(
        f"Data set {config.dataset!r} has no labelled test or dev split, only train, which the "
        "model may have been trained on; give --test-file or --dev-file."
    )


def _refuse_other_settings(directory: Path, manifest: Manifest, config: EvaluateConfig) -> None:
    """Refuse what a bundle brings itself, where something else is asked for."""
    own = {
        "task": manifest.task,
        "problem_type": manifest.problem_type,
        "max_length": manifest.max_length,
        "doc_stride": manifest.stride,
        "max_answer_length": manifest.max_answer_length,
        "teacher_labels": ",".join(manifest.labels),
    }
    for field in fields(config):
        asked = getattr(config, field.name)
        if field.name in own and asked not in (field.default, own[field.name]):
            raise InputError(
                f"{directory} was exported with {field.name} {own[field.name]!r}, got {asked!r}. "
                f"Leave out {flag(field.name)}, or export the bundle again with it."
            )


def _require_inputs_of(directory: Path, manifest: Manifest, split: Split) -> None:
    pairs = split.text_pairs is not None
    if manifest.task not in ("text-classification", "regression"):
        return
    if manifest.pairs in (None, pairs):  # None: nobody knows
        return
    has, takes = ("pairs of texts", "single ones") if pairs else ("single texts", "pairs")
    raise DataError(
        f"{split.source} has {has}, but {directory} takes {takes}; say which columns with "
        "--text-column and --text-pair-column."
    )


def _scored(probe: Probe, values: Any) -> dict[str, Any]:
    from compress.scoring.metrics import METRICS
    from compress.scoring.predictions import calibrated
    from compress.scoring.scores import evaluate_rows, has_labels, score_rows

    if not has_labels(probe):
        raise InputError(
            f"{probe.split.source} has no scored pairs, so vectors can't be scored; give "
            "--text-column, --text-pair-column and --label-column."
        )
    if probe.head.no_answer and probe.no_answer_threshold is None:
        logger.warning(
            'The threshold on "no answer" is the best for %s itself, as a checkpoint has none: the '
            "score is an upper bound. A bundle has one that was chosen on its dev data.",
            probe.split.source,
        )
    probe = calibrated(probe, values)
    measured = evaluate_rows(probe, values)
    found = {"rows": measured["rows"], "split": probe.split.name}
    found |= asdict(score_rows(probe, values, values))
    return found | {"metrics": {name: measured[name] for name in METRICS if name in measured}}


def command(config: EvaluateConfig) -> None:
    print(json.dumps(evaluate(config), indent=2))


sys.modules[__name__].__class__ = StepModule

if __name__ == "__main__":
    sys.exit(main(EvaluateConfig, command, prog="python -m compress.evaluate"))
