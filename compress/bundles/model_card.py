"""A bundle's model card: what it is, what it scores, how to run it."""

from __future__ import annotations

from pathlib import Path

from compress.bundles.result import ExportResult
from compress.report import Report
from compress.reporting.format import megabytes
from compress.reporting.records import ArtifactRow
from edgebert.formats.manifest import Manifest
from edgebert.text.tokenizer import Tokenizer

_HUB_TASKS = {"regression": "text-classification"}  # where the hub's name isn't ours
_CALLS = {
    "text-classification": "classify({texts})",
    "regression": "score({texts})",
    "token-classification": 'tag(["Some text."])',
    "question-answering": 'answer([("A question?", "A text that answers it.")])',
    "multiple-choice": 'choose([("A prompt", ["one choice", "another"])])',
    "fill-mask": 'fill_mask(["Some {mask} text."])',
    "feature-extraction": 'encode(["Some text."])',
}


def model_card(report: Report, result: ExportResult, directory: Path) -> str:
    """Write a bundle's model card.

    Args:
        report: Its numbers.
        result: Of the export.
        directory: The bundle as it stands.
    """
    manifest = result.manifest
    backends = list(dict.fromkeys(row.backend for row in report.rows))
    library = "sentence-transformers" if manifest.pooling else "transformers"
    others = f" (or {', '.join(backends[1:])})" if len(backends) > 1 else ""
    lines = [
        "---",
        f"library_name: {library}",
        f"pipeline_tag: {_HUB_TASKS.get(report.task, report.task)}",
        f"tags: [edgebert, {', '.join(backends)}]",
        f"base_model: {report.teacher.used}",
        "---",
        "",
        f"# {report.title}",
        "",
        f"{report.student.name}, {report.student.params / 1e6:.1f} M parameters, from "
        f"{report.teacher.used}; {report.task}, up to {manifest.max_length} tokens.",
        "",
        f"| artifact | size | {report.metric} ({report.split}) | kept | speed-up |",
        "|---|---|---|---|---|",
        *(_row(report, row) for row in report.rows),
        "",
        f"Measured on {report.machine['cpu']}, {report.machine['threads']} threads. "
        "`report.html` has the whole of it.",
        "",
        "```python",
        f"import edgebert  # pip install 'edgebert[{backends[0]}]'{others}",
        "",
        f"with edgebert.Runtime({report.title!r}) as runtime:",
        f"    print(runtime.{example_call(manifest, directory)})",
        "```",
        "",
    ]
    lines += _exits(report)
    if manifest.labels:
        lines += [f"Labels: {', '.join(manifest.labels)}.", ""]
    lines += [f"Left out: {_name(row)}. {' '.join(row.gate.reasons)}\n" for row in report.refused]
    return "\n".join([*lines, *(f"Note: {note}." for note in report.notes)]).rstrip() + "\n"


def _exits(report: Report) -> list[str]:
    """Say how texts leave early, and what that comes to."""
    found = [
        f"{one.name}: {one.layers:.2f} of {len(one.depths)} layers on average, "
        f"{report.metric} {one.score:.4f}"
        for one in report.exits
        if one.layers is not None and one.score is not None
    ]
    if not found:
        return []
    how = f"`edgebert.Runtime({report.title!r}, early_exit=True)` lets sure texts leave early"
    return [f"{how} ({report.split}): {'; '.join(found)}.", ""]


def example_call(manifest: Manifest, directory: Path) -> str:
    """Write the call that a bundle's task is for, with texts of the form that it takes."""
    texts = '[("Some text.", "Another one.")]' if manifest.pairs else '["Some text."]'
    mask = ""
    if manifest.task == "fill-mask":
        mask = Tokenizer(directory, special_ids=manifest.special_ids).mask_token
    return _CALLS[manifest.task].format(texts=texts, mask=mask)


def _row(report: Report, row: ArtifactRow) -> str:
    kept, speedup = report.retention(row), report.speedup(row)
    cells = [
        f"`{row.path}`",
        megabytes(row.size_bytes),
        "-" if row.score is None else f"{row.score:.4f}",
        "-" if kept is None else f"{kept:.1%}",
        "-" if speedup is None else f"{speedup:.1f}x",
    ]
    return f"| {' | '.join(cells)} |"


def _name(row: ArtifactRow) -> str:
    return f"{row.backend} {row.precision}"
