"""``edgebert export-app``: the files and sample code that an app without Python needs."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from edgebert.apps.folder import TARGETS, choose_artifact, write_app
from edgebert.apps.mediapipe import check_mediapipe, write_mediapipe
from edgebert.bundles.bundle import Bundle, name_of
from edgebert.commands.arguments import add_bundle
from edgebert.commands.slim import slim
from edgebert.commands.table import megabytes
from edgebert.errors import InputError
from edgebert.files import whole_directory
from edgebert.formats.manifest import PRECISIONS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_bundle(parser)
    parser.add_argument("output", type=Path, metavar="OUT", help="Directory that is made")
    parser.add_argument(
        "--for", dest="target", choices=tuple(TARGETS), required=True, help="What the app runs on"
    )
    parser.add_argument("--backend", default="auto", help="Engine in the app (default: the usual)")
    parser.add_argument(
        "--precision",
        choices=("auto", *PRECISIONS),
        default="auto",
        help="Of the weights (default: int8 where there is one)",
    )
    parser.add_argument(
        "--mediapipe",
        action="store_true",
        help="Android: also write mediapipe.tflite, for MediaPipe's TextClassifier",
    )


def run(args: argparse.Namespace) -> int:
    """Write the folder, and print what is in it."""
    artifact = export_app(
        args.bundle,
        args.output,
        target=args.target,
        backend=args.backend,
        precision=args.precision,
        mediapipe=args.mediapipe,
    )
    files = {
        path.relative_to(args.output).as_posix(): path.stat().st_size
        for path in sorted(args.output.rglob("*"))
        if path.is_file()
    }
    if args.json:
        facts = {"output": str(args.output), "artifact": artifact, "files": files}
        print(json.dumps(facts, ensure_ascii=False, indent=2))
    else:
        print(f"{args.output}: {artifact}, {megabytes(sum(files.values()))}. Begin with README.md.")
    return 0


def export_app(
    source: Path,
    output: Path,
    *,
    target: str,
    backend: str = "auto",
    precision: str = "auto",
    mediapipe: bool = False,
) -> str:
    """Write an app's folder, whole or not at all.

    Args:
        source: Directory of the bundle.
        output: Directory to make; it may not exist yet.
        target: One of `edgebert.apps.folder.TARGETS`.
        backend: Engine in the app; ``auto`` is the target's usual one.
        precision: Of the weights; ``auto`` takes int8 where there is one.
        mediapipe: Whether to write ``mediapipe.tflite`` beside, see `edgebert.apps.mediapipe`.

    Returns:
        Name of the artifact in it, as ``tflite/int8``.

    Raises:
        InputError: ``output`` exists, or the sample code can't do the task, the tokenizer or the
            engine.
        BundleError, BackendError: The artifact fails its test, which is run before.
    """
    if output.exists():
        raise InputError(f"{output} exists; give the path of a directory that doesn't.")
    bundle = Bundle(source)
    artifact = choose_artifact(bundle, target, backend, precision)
    if mediapipe:
        check_mediapipe(bundle.manifest, artifact, source)
    with whole_directory(output) as building:
        write_app(bundle, artifact, target, building)
        if mediapipe:
            write_mediapipe(bundle.directory, artifact, bundle.manifest, building)
        if target == "c":
            kept = {"backend": artifact.backend, "precision": artifact.precision}
            slim(source, building / TARGETS[target].assets, **kept)
    return name_of(artifact)
