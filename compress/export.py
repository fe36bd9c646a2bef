"""Turn a model as it is into a verified bundle: ``python -m compress.export``."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from compress.options import StepModule, command_line, config_to_dict, main, option, save_run
from compress.settings import DataConfig, Pooling, check_backends, require_at_least
from edgebert.errors import InputError, ModelError
from edgebert.files import check_writable
from edgebert.formats.manifest import MANIFEST_NAME, Manifest
from edgebert.shell import EXIT_DONE, EXIT_GATE

if TYPE_CHECKING:
    from collections.abc import Callable

    from compress.artifacts.exporters import ExportPlan
    from compress.bundles.result import ExportResult
    from compress.data.task_data import TaskData
    from compress.models.loading import LoadedModel
    from compress.models.sentence_layout import SentenceLayout
    from compress.models.task_head import TaskHead
    from compress.report import Report

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ExportConfig(DataConfig):
    """Turn a model as it is into a bundle that is verified on its engine."""

    model: str = option(help="Alias (--list-teachers), checkpoint, bundle or hub id")
    output_dir: Path = option(help="Where the bundle goes; a directory")
    overwrite_output_dir: bool = option(False, help="Replace what stands there")
    max_length: int = option(512, help="Longest input in tokens, cut to what the model can take")
    pooling: Pooling | None = option(
        None, help="feature-extraction: how vectors are made (default: as modules.json says)"
    )
    pooling_layers: int | None = option(
        None, help="feature-extraction: average so many of the last layers (default: its own, or 1)"
    )
    normalize: bool | None = option(
        None, help="feature-extraction: vectors of unit length (default: as modules.json says)"
    )
    teacher_labels: str | None = option(
        None, help="Names of the logits in order, comma-separated, where the model has none"
    )
    backend: tuple[str, ...] = option(
        (), help="Engine to export for, repeatable (default: every one installed)"
    )
    recipe: tuple[str, ...] = option(
        (), help="Way to INT8 or INT4: NAME or BACKEND=NAME, repeatable (default: the engine's own)"
    )
    exporter: Literal["edgebert", "optimum"] = option(
        "edgebert", help="optimum: another way to ONNX, for architectures that ours doesn't know"
    )
    threads: int | None = option(None, help="CPU threads (default: affinity and cgroup quota)")
    seed: int = option(42, help="Of the dev cut")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_backends(self.backend)
        vectors = (self.pooling, self.pooling_layers, self.normalize)
        if self.task != "feature-extraction" and vectors != (None, None, None):
            raise InputError(
                "--pooling, --pooling-layers and --normalize are for feature-extraction, not for "
                f"{self.task}."
            )
        for name in ("threads", "pooling_layers"):
            if getattr(self, name) is not None:
                require_at_least(name, getattr(self, name), 1)

    @property
    def step(self) -> str:
        """Name of the step that these are settings of."""
        return type(self).__name__.removesuffix("Config").lower()

    def plan(self) -> ExportPlan:
        """Choose engines and recipes; see `compress.artifacts.exporters.plan_export`."""
        from compress.artifacts.exporters import plan_export

        return plan_export(self.backend, self.recipe, exporter=self.exporter)


def export(config: ExportConfig) -> ExportResult:
    """Write a model as a bundle, with the gates, the report and the model card.

    With no data given, the embedded texts stand in; a classifier of other labels is then held
    against its own FP32 predictions.

    Raises:
        ModelError: The model can't be found, has no head, or its labels don't fit the data's.
        DataError: A data file can't be used.
        GateError: On no engine FP32 matches torch; nothing is written.
        BackendUnavailableError: An engine that was asked for is not installed.
        InputError: ``output_dir`` is not empty, or can't be written; or a recipe isn't known.
    """
    return export_with_report(config)[0]


def export_with_report(
    config: ExportConfig, *, write_more: Callable[[Path, ExportResult], None] = lambda *_: None
) -> tuple[ExportResult, Report]:
    """Do as `export` does, and give the report that was written too.

    Args:
        config: Settings, of this step or of one that exports in another manner.
        write_more: Adds files to the unfinished bundle.
    """
    from compress.device import set_threads

    set_threads(config.threads)
    from compress.bundles.exits import with_saved_exits
    from compress.bundles.export import export_bundle
    from compress.bundles.first_teacher import first_teacher
    from compress.bundles.inputs import load_inputs
    from compress.bundles.lineage import earlier_steps, lineage_entry, model_place
    from compress.bundles.reports import model_report, write_papers
    from compress.models.teachers import resolve_teacher

    plan = config.plan()
    check_output(config.output_dir, overwrite=config.overwrite_output_dir)
    other = config.exporter == "optimum"
    found = resolve_teacher(config.model, no_fallback=True, any_family=other)
    layout = _layout(config, found.path)
    earlier = _manifest(found.path)
    max_length = _max_length(config, layout, found.path, earlier)
    data, loaded = load_inputs(config, found.path)
    settings, place = config_to_dict(config), model_place(found.path)
    entry = lineage_entry(config.step, settings, data, model=found.used, baseline=place)
    head = with_saved_exits(_head(config, layout, loaded, data, earlier), loaded, found.path)
    steps = earlier_steps(found.path)
    stride = earlier.stride if earlier and config.doc_stride is None else config.doc_stride
    first, note = first_teacher(
        steps, data, head, given=found.path, max_length=max_length, stride=stride
    )
    reports: list[Report] = []

    def write(directory: Path, result: ExportResult) -> None:
        reports.append(
            model_report(
                result,
                title=config.output_dir.name,
                found=found,
                model=loaded.model,
                head=head,
                data=data,
                command=command_line(config, prog=f"python -m compress.{config.step}"),
                first=first,
                note=note,
            )
        )
        write_papers(directory, reports[0], result)
        write_more(directory, result)
        save_run(config, directory)

    result = export_bundle(
        loaded.model,
        loaded.tokenizer_dir,
        output_dir=config.output_dir,
        head=head,
        data=data,
        max_length=max_length,
        stride=stride,
        prompts=layout.prompts if layout else {},
        lineage=[*steps, entry],
        teacher_model=first.model if first else None,
        plan=plan,
        write_report=write,
    )
    return result, reports[0]


def check_output(output_dir: Path, *, overwrite: bool) -> None:
    """Make sure, before any work, that a bundle may be written.

    Raises:
        InputError: Something stands there, or it can't be written.
    """
    check_writable(output_dir)
    if output_dir.is_dir() and any(output_dir.iterdir()) and not overwrite:
        raise InputError(
            f"{output_dir} is not empty; give another --output-dir, or replace it with "
            "--overwrite-output-dir."
        )


def _layout(config: ExportConfig, path: Path) -> SentenceLayout | None:
    """Say how an embedder's vectors are made: as its checkpoint says, or as the settings do."""
    from dataclasses import replace

    from compress.models.sentence_layout import SentenceLayout, read_layout

    if config.task != "feature-extraction":
        return None
    layout = read_layout(path, config.pooling)
    if layout is None and config.pooling is None:
        raise ModelError(
            f"{path} doesn't say how its vectors are made (no modules.json). Give --pooling mean, "
            "cls or max, and --normalize or --no-normalize."
        )
    if layout is None:
        layout = SentenceLayout(pooling=config.pooling or "mean", normalize=False)
    if config.pooling_layers is not None:
        layout = replace(layout, pooling_layers=config.pooling_layers)
    return layout if config.normalize is None else replace(layout, normalize=config.normalize)


def _head(
    config: ExportConfig,
    layout: SentenceLayout | None,
    loaded: LoadedModel,
    data: TaskData,
    earlier: Manifest | None,
) -> TaskHead:
    from compress.models.task_head import TaskHead

    if layout is not None:
        return TaskHead(
            task=config.task,
            pooling=layout.pooling,
            pooling_layers=layout.pooling_layers,
            normalize=layout.normalize,
            dense=layout.dense,
        )
    threshold = earlier.no_answer_threshold if earlier else None
    longest = earlier.max_answer_length if earlier else TaskHead.max_answer_length
    return TaskHead(
        task=config.task,
        labels=loaded.labels,
        problem_type=_problem_type(config, loaded),
        no_answer=config.task == "question-answering" and (data.no_answer or threshold is not None),
        no_answer_threshold=threshold,
        max_answer_length=config.max_answer_length or longest,
    )


def _manifest(path: Path) -> Manifest | None:
    """Read what a bundle says of itself; None for a checkpoint."""
    return Manifest.load(path) if (path / MANIFEST_NAME).is_file() else None


def _max_length(
    config: ExportConfig, layout: SentenceLayout | None, path: Path, earlier: Manifest | None
) -> int:
    from compress.models.files import max_positions, read_config

    limits = [config.max_length]
    if layout is not None and layout.max_length is not None:
        limits.append(int(layout.max_length))
    if (positions := max_positions(read_config(path))) is not None:
        limits.append(positions)
    if earlier is not None:
        limits.append(earlier.max_length)
    if min(limits) < config.max_length:
        logger.info("max_length is %d: the model takes no more.", min(limits))
    return min(limits)


def _problem_type(config: ExportConfig, loaded: LoadedModel) -> str | None:
    if config.task != "text-classification":
        return None
    return loaded.model.config.problem_type or config.problem_type


def command(config: ExportConfig) -> int:
    """Run the step, and print what it came to."""
    return conclude(*export_with_report(config))


def conclude(result: ExportResult, report: Report) -> int:
    """Print a report, log what was refused, and give the exit code."""
    from compress.artifacts.sensitivity import verdict
    from compress.reporting.table import format_table

    print(format_table(report))
    for row in result.refused:
        logger.error("%s/%s %s", row.backend, row.precision, verdict(row.gate))
    return EXIT_DONE if report.passed else EXIT_GATE


sys.modules[__name__].__class__ = StepModule

if __name__ == "__main__":
    from compress.settings import list_teachers

    sys.exit(
        main(
            ExportConfig,
            command,
            prog="python -m compress.export",
            tables={"list-teachers": list_teachers},
        )
    )
