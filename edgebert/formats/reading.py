"""Read ``edgebert.json``, of this format or an older one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgebert.errors import ManifestError
from edgebert.formats import records
from edgebert.formats.exits import EarlyExit, ExitArtifact
from edgebert.formats.manifest import (
    FORMAT_VERSION,
    MANIFEST_NAME,
    MAX_ID,
    TOKENIZER_NAME,
    Artifact,
    FileRecord,
    Golden,
    Manifest,
)
from edgebert.formats.records import in_span
from edgebert.formats.strict_json import read_json


def read_manifest(bundle: Path) -> Manifest:
    """Read and check a bundle's manifest; see `Manifest.load`."""
    source = bundle / MANIFEST_NAME
    try:
        data, _ = read_json(source)
    except FileNotFoundError as error:
        raise ManifestError(f"{bundle} is not a bundle: {_what_lacks(bundle)}") from error
    except (ValueError, OSError) as error:
        raise ManifestError(f"{source} can't be read as JSON ({error}).") from error
    if not isinstance(data, dict):
        raise ManifestError(f"{source} holds no JSON object.")
    version = data.get("format_version")
    if type(version) is not int or version < 1:
        raise ManifestError(f"{source} has format_version {version!r:.80}, not a number from 1.")
    if version > FORMAT_VERSION:
        raise ManifestError(
            f"{source} has format_version {version}; this edgebert reads up to "
            f"{FORMAT_VERSION}. Install a newer one: pip install -U edgebert"
        )
    try:
        # What older versions lack has a default that means what they meant.
        manifest = _build_manifest({**data, "format_version": FORMAT_VERSION})
        _check_golden(manifest)
        if all(file.path != TOKENIZER_NAME for file in manifest.files):
            raise ManifestError(f"files doesn't list {TOKENIZER_NAME}, which every artifact needs.")
    except ManifestError as error:
        raise ManifestError(f"{source}: {error}") from error
    return manifest


def _what_lacks(bundle: Path) -> str:
    if not bundle.exists():
        return "there is no such directory. Give the path of one."
    if not bundle.is_dir():
        return "it is a file. Give the path of its directory."
    return (
        f"it has no {MANIFEST_NAME}. Make one with "
        f"`python -m compress.export --model {bundle} --output-dir OUT`."
    )


def _build_manifest(data: dict[str, Any]) -> Manifest:
    values = dict(records.known(Manifest, data))
    missing = {"files", "artifacts", "golden"} - set(values)
    if missing:
        raise ManifestError(f"Manifest lacks {sorted(missing)}.")
    values["files"] = _files("files", values["files"])
    values["artifacts"] = tuple(
        _build_artifact(name, item) for name, item in records.rows("artifacts", values["artifacts"])
    )
    values["golden"] = _build_golden(values["golden"])
    values["labels"] = records.texts("labels", values.get("labels", []))
    values["lineage"] = records.objects("lineage", values.get("lineage", []))
    if values.get("int8_scale") is not None:
        values["int8_scale"] = records.numbers("int8_scale", values["int8_scale"])
    if values.get("early_exit") is not None:
        values["early_exit"] = _build_early_exit(values["early_exit"])
    return records.checked(Manifest, values)


def _build_artifact(name: str, data: Any) -> Artifact:
    return records.checked(Artifact, _artifact_values(Artifact, name, data))


def _artifact_values(kind: type[Artifact], name: str, data: Any) -> dict[str, Any]:
    values = dict(records.known(kind, data))
    values["files"] = _files(f"{name}.files", values.get("files"))
    values["golden"] = tuple(
        records.numbers(*row) for row in records.rows(f"{name}.golden", values.get("golden"))
    )
    return values


def _build_early_exit(data: Any) -> EarlyExit:
    values = dict(records.known(EarlyExit, data))
    artifacts = []
    for name, item in records.rows("early_exit.artifacts", values.get("artifacts")):
        own = _artifact_values(ExitArtifact, name, item)
        own["segments"] = records.texts(f"{name}.segments", own.get("segments"))
        artifacts.append(records.checked(ExitArtifact, own))
    values["artifacts"] = tuple(artifacts)
    return records.checked(EarlyExit, values)


def _build_golden(data: Any) -> Golden:
    values = dict(records.known(Golden, data))
    values["texts"] = records.texts("golden.texts", values.get("texts"))
    if values.get("text_pairs") is not None:
        values["text_pairs"] = records.texts("golden.text_pairs", values["text_pairs"])
    values["input_ids"] = tuple(
        records.integers(*row) for row in records.rows("golden.input_ids", values.get("input_ids"))
    )
    return records.checked(Golden, values)


def _files(name: str, data: Any) -> tuple[FileRecord, ...]:
    return tuple(records.build(FileRecord, item) for _, item in records.rows(name, data))


def _check_golden(manifest: Manifest) -> None:
    """Make sure that there are as many texts, pairs, rows of ids and rows of outputs."""
    golden = manifest.golden
    counts = {"golden.input_ids": len(golden.input_ids)}
    if golden.text_pairs is not None:
        counts["golden.text_pairs"] = len(golden.text_pairs)
    counts |= {
        f"golden of {item.files[0].path}": len(item.golden) for item in manifest.every_artifact
    }
    for name, count in counts.items():
        if count != len(golden.texts):
            raise ManifestError(f"{name} has {count} rows for {len(golden.texts)} texts.")
    for i, ids in enumerate(golden.input_ids):
        in_span(f"length of golden.input_ids[{i}]", len(ids), 1, manifest.max_length)
        in_span(f"golden.input_ids[{i}]", min(ids), 0, MAX_ID)
        in_span(f"golden.input_ids[{i}]", max(ids), 0, MAX_ID)
