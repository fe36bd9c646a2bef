"""``edgebert slim``: a copy of a bundle with the files that one device needs."""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import replace
from pathlib import Path

import edgebert
from edgebert.bundles.bundle import Bundle
from edgebert.commands.arguments import add_bundle
from edgebert.commands.table import megabytes
from edgebert.errors import InputError
from edgebert.files import whole_directory
from edgebert.formats.manifest import MANIFEST_NAME, PRECISIONS, Artifact, FileRecord, Manifest


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_bundle(parser)
    parser.add_argument("output", type=Path, metavar="OUT", help="Directory that is made")
    parser.add_argument("--backend", help="Keep this engine's artifacts (default: all)")
    parser.add_argument("--precision", choices=PRECISIONS, help="Keep this one (default: all)")


def run(args: argparse.Namespace) -> int:
    """Copy, and print where to and how large."""
    kept = slim(args.bundle, args.output, backend=args.backend, precision=args.precision)
    before, after = _size_bytes(args.bundle), _size_bytes(args.output)
    if args.json:
        facts = {
            "output": str(args.output),
            "size_bytes": after,
            "bundle_size_bytes": before,
            "artifacts": [artifact.files[0].path for artifact in kept.artifacts],
        }
        print(json.dumps(facts, ensure_ascii=False, indent=2))
    else:
        print(f"{args.output}: {megabytes(after)} of {megabytes(before)}")
    return 0


def slim(
    source: Path, output: Path, *, backend: str | None = None, precision: str | None = None
) -> Manifest:
    """Copy the artifacts asked for, and the files that each of them needs, into a new bundle.

    What only a toolchain or a reader needs stays behind: ``model.safetensors``, the report, the
    model card. Every file is checked against its hash before it is copied.

    Args:
        source: Directory of the bundle.
        output: Directory to make; it may not exist yet.
        backend: Whose artifacts to keep; None keeps those of every engine.
        precision: Which of them to keep; None keeps all.

    Returns:
        The new bundle's manifest.

    Raises:
        InputError: ``output`` exists, ``source`` has no manifest, or no artifact is left.
        DamagedBundleError: A file is missing or changed.
    """
    if output.exists():
        raise InputError(f"{output} exists; give the path of a directory that doesn't.")
    bundle = Bundle(source)
    if bundle.foreign:
        raise InputError(
            f"{source} is not a bundle: it has no {MANIFEST_NAME}. Make one with "
            f"`python -m compress.export --model {source} --output-dir OUT`."
        )
    slimmed = keep(bundle.manifest, source, backend=backend, precision=precision)
    for artifact in slimmed.every_artifact:
        bundle.check_files(artifact)
    with whole_directory(output) as building:
        for file in needed_files(slimmed):
            target = building / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / file.path, target)
        slimmed.save(building)
    return slimmed


def keep(
    manifest: Manifest, source: object, *, backend: str | None = None, precision: str | None = None
) -> Manifest:
    """Give a bundle's manifest with fewer artifacts, and a step in its lineage that says so.

    Args:
        manifest: Of the whole bundle.
        source: Where that is, for the error.
        backend: See `slim`.
        precision: See `slim`.

    Raises:
        InputError: No artifact is left.
    """
    kept = tuple(
        artifact
        for artifact in manifest.artifacts
        if backend in (None, artifact.backend) and precision in (None, artifact.precision)
    )
    if not kept:
        there = ", ".join(f"{a.backend}/{a.precision}" for a in manifest.artifacts)
        raise InputError(
            f"{source} has no artifact {backend or 'any'}/{precision or 'any'}; it has: {there}."
        )
    exits = manifest.early_exit
    if exits is not None:
        pairs = {(artifact.backend, artifact.precision) for artifact in kept}
        segments = tuple(a for a in exits.artifacts if (a.backend, a.precision) in pairs)
        exits = replace(exits, artifacts=segments) if segments else None
    lineage = (*manifest.lineage, _step(kept))
    return replace(manifest, artifacts=kept, early_exit=exits, lineage=lineage)


def needed_files(manifest: Manifest) -> set[FileRecord]:
    """List the files that a manifest names, each once."""
    return {*manifest.files, *(file for item in manifest.every_artifact for file in item.files)}


def _step(kept: tuple[Artifact, ...]) -> dict[str, object]:
    return {
        "step": "slim",
        "config": {"artifacts": [artifact.files[0].path for artifact in kept]},
        "versions": {"edgebert": edgebert.__version__},
    }


def _size_bytes(bundle: Path) -> int:
    return sum(file.stat().st_size for file in bundle.rglob("*") if file.is_file())
