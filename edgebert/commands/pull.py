"""``edgebert pull``: a bundle from the model hub, the only command that goes to a network."""

from __future__ import annotations

import argparse
import json
import logging
import shutil
from pathlib import Path

from edgebert.bundles.bundle import Bundle
from edgebert.bundles.hub import CLIENTS_FOLDER, Repository
from edgebert.commands.arguments import add_json
from edgebert.commands.slim import keep, needed_files
from edgebert.commands.table import megabytes
from edgebert.errors import InputError
from edgebert.files import whole_directory
from edgebert.formats.manifest import MANIFEST_NAME, PRECISIONS, Manifest
from edgebert.formats.strict_json import MAX_BYTES

logger = logging.getLogger(__name__)

PAPERS = ("README.md", "LICENSE", "report.json", "report.html", "run.json")
_MAX_PAPER_BYTES = 16 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("repository", metavar="HUB_ID", help="Repository, as OWNER/NAME")
    parser.add_argument("output", type=Path, metavar="OUT", help="Directory that is made")
    parser.add_argument("--revision", help="Branch, tag or commit (default: the newest of main)")
    parser.add_argument("--backend", help="Take this engine's artifacts (default: all)")
    parser.add_argument("--precision", choices=PRECISIONS, help="Take this one (default: all)")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Download, and print where to and how large."""
    manifest = pull(
        args.repository,
        args.output,
        revision=args.revision,
        backend=args.backend,
        precision=args.precision,
    )
    size_bytes = sum(file.stat().st_size for file in args.output.rglob("*") if file.is_file())
    if args.json:
        facts = {
            "output": str(args.output),
            "size_bytes": size_bytes,
            "artifacts": [artifact.files[0].path for artifact in manifest.artifacts],
        }
        print(json.dumps(facts, ensure_ascii=False, indent=2))
    else:
        print(f"{args.output}: {megabytes(size_bytes)}")
    return 0


def pull(
    repo_id: str,
    output: Path,
    *,
    revision: str | None = None,
    backend: str | None = None,
    precision: str | None = None,
) -> Manifest:
    """Download a bundle; every file is checked against its hash before ``output`` is there.

    Only files that the manifest lists are taken, and the papers of a whole bundle (the model card,
    the report), which no hash covers. ``HF_ENDPOINT``, ``HF_TOKEN`` and the hub client's other
    variables hold.

    Args:
        repo_id: Repository on the hub, as ``owner/name``.
        output: Directory to make; it may not exist yet.
        revision: A branch, tag or commit; None for the newest commit of the main branch.
        backend: Whose artifacts to take; None takes those of every engine.
        precision: Which of them to take; None takes all.

    Returns:
        The manifest of what was taken.

    Raises:
        InputError: ``output`` exists, the repository or revision doesn't, or no artifact is left.
        BundleError: The repository holds no bundle, or one that isn't whole.
        EdgeBertError: The hub can't be reached, or its client is not installed.
    """
    if output.exists():
        raise InputError(f"{output} exists; give the path of a directory that doesn't.")
    hub = Repository(repo_id, revision)
    with whole_directory(output) as building:
        hub.fetch([MANIFEST_NAME], building, most=MAX_BYTES)
        whole = Manifest.load(building)
        part = backend is not None or precision is not None
        manifest = keep(whole, repo_id, backend=backend, precision=precision) if part else whole
        files = {file.path: file.size_bytes for file in needed_files(manifest)}
        hub.check_sizes(files)
        hub.fetch(sorted(files), building)
        if not part:
            papers = [name for name in PAPERS if name in hub.sizes and name not in files]
            hub.fetch(papers, building, most=_MAX_PAPER_BYTES)
        shutil.rmtree(building / CLIENTS_FOLDER, ignore_errors=True)
        bundle = Bundle(building)
        for artifact in manifest.every_artifact:
            bundle.check_files(artifact)
        if part:
            manifest.save(building)
    logger.info("%s: %s at commit %s", output, repo_id, hub.commit)
    return manifest
