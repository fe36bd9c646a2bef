"""``edgebert verify``: hashes and self-test of every artifact of a bundle."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from functools import partial

from edgebert.bundles.bundle import Bundle, why_not_here
from edgebert.commands.arguments import add_bundle, add_threads
from edgebert.commands.table import format_table
from edgebert.cpu import default_threads
from edgebert.engines.loading import NOT_VERIFIED, open_artifact
from edgebert.errors import EdgeBertError
from edgebert.formats.manifest import Artifact
from edgebert.shell import EXIT_DONE, EXIT_ERROR
from runtimes import SessionOptions

PASSED, FAILED, NOT_RUN = "passed", "failed", "not run"


@dataclass(frozen=True)
class Verdict:
    """What was found out about one artifact.

    Attributes:
        backend: Of the artifact.
        precision: Of the artifact.
        path: Its first file, relative to the bundle.
        files: Whether sizes and hashes are the manifest's: ``passed`` or ``failed``.
        self_test: Whether the golden outputs came out: ``passed``, ``failed`` or ``not run``.
        detail: The error's message; empty when all is well.
    """

    backend: str
    precision: str
    path: str
    files: str
    self_test: str
    detail: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_bundle(parser)
    add_threads(parser)


def run(args: argparse.Namespace) -> int:
    """Verify every artifact; 1 when one fails, or when none could be run on this machine."""
    bundle = Bundle(args.bundle)
    options = SessionOptions(threads=args.threads or default_threads())
    verdicts = [verify(bundle, artifact, options) for artifact in bundle.manifest.every_artifact]
    failed = any(FAILED in (verdict.files, verdict.self_test) for verdict in verdicts)
    good = not failed and any(verdict.self_test == PASSED for verdict in verdicts)
    if args.json:
        report = {"passed": good, "artifacts": [asdict(verdict) for verdict in verdicts]}
        print(json.dumps(report, ensure_ascii=False, indent=2))
    else:
        header = ("backend", "precision", "files", "self-test", "path")
        print(
            format_table(
                header, [(v.backend, v.precision, v.files, v.self_test, v.path) for v in verdicts]
            )
        )
        for verdict in verdicts:
            if verdict.detail:
                print(f"{verdict.path}: {verdict.detail}")
    return EXIT_DONE if good else EXIT_ERROR


def verify(bundle: Bundle, artifact: Artifact, options: SessionOptions) -> Verdict:
    """Check an artifact's files, then open it on its engine and reproduce its golden outputs."""
    verdict = partial(Verdict, artifact.backend, artifact.precision, artifact.files[0].path)
    try:
        bundle.check_files(artifact)
    except EdgeBertError as error:
        return verdict(FAILED, NOT_RUN, str(error))
    reason = why_not_here(artifact)
    if reason is not None:
        return verdict(PASSED, NOT_RUN, f"It can't run here: {reason}.")
    try:
        opened = open_artifact(bundle, artifact, options, "always")
        opened.engine.close()
    except EdgeBertError as error:
        return verdict(PASSED, FAILED, str(error))
    if not bundle.manifest.verified:
        return verdict(PASSED, NOT_RUN, f"It runs, but was {NOT_VERIFIED}.")
    return verdict(PASSED, PASSED)
