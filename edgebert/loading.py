"""Open a bundle: choose an artifact, check its files, test it on this machine, once."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass

import numpy as np
import tokenizers

import edgebert
from edgebert.bundle import Bundle, name_of
from edgebert.cache import read_record, write_record
from edgebert.cpu import cpu_features, cpu_name
from edgebert.engine import Engine
from edgebert.errors import BackendError, BundleError
from edgebert.files import sha256_file
from edgebert.manifest import MANIFEST_NAME, Artifact
from edgebert.selftest import run_self_test
from edgebert.tokenizer import Tokenizer
from runtimes import SessionOptions

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Opened:
    """What is needed to run.

    Attributes:
        tokenizer: The bundle's.
        engine: The artifact, on its engine.
        why: One sentence on how the artifact was chosen.
    """

    tokenizer: Tokenizer
    engine: Engine
    why: str


def open_bundle(
    bundle: Bundle,
    *,
    backend: str,
    precision: str,
    options: SessionOptions,
    self_test: str,
    fallback: bool,
) -> Opened:
    """Open the chosen artifact; with ``fallback`` another one, when the chosen one can't be used.

    Raises:
        InputError, BackendUnavailableError: See `Bundle.choose`.
        BundleError, BackendError: The artifact can't be used, and there is no fallback; the first
            failure is the one that is raised.
    """
    artifact, why = bundle.choose(backend, precision)
    try:
        opened = _open(bundle, artifact, why, options, self_test)
    except (BundleError, BackendError) as error:
        if not fallback:
            raise
        opened = _open_other(bundle, artifact, error, options, self_test)
    logger.info("running %s: %s", bundle.directory, opened.why)
    return opened


def _open_other(
    bundle: Bundle,
    failed: Artifact,
    first: BundleError | BackendError,
    options: SessionOptions,
    self_test: str,
) -> Opened:
    for other in bundle.alternatives(failed):
        why = f"{name_of(other)}: fallback, as {name_of(failed)} can't be used ({first})"
        try:
            opened = _open(bundle, other, why, options, self_test)
        except (BundleError, BackendError) as error:
            logger.warning("%s can't be used either: %s", name_of(other), error)
            continue
        logger.warning("%s", why)
        return opened
    raise first


def _open(
    bundle: Bundle, artifact: Artifact, why: str, options: SessionOptions, self_test: str
) -> Opened:
    manifest = bundle.manifest
    # Files that passed in this very state (size, time, inode) aren't hashed again: a second of
    # every start for a large bundle. `edgebert verify` and self_test="always" hash always.
    stamps = bundle.stamps(artifact)
    written = sha256_file(bundle.directory / MANIFEST_NAME)  # it says which hashes are right, too
    place = _digest("files", str(bundle.directory.resolve()), artifact.files[0].path, written)
    unchanged = self_test == "first-load" and stamps is not None and read_record(place) == stamps
    if not unchanged:
        bundle.check_files(artifact)
        write_record(place, stamps)
    tokenizer = Tokenizer(bundle.directory, special_ids=manifest.special_ids)
    engine = Engine(bundle.directory, artifact, options, manifest=manifest)
    key = _digest("self-test", *_identity(written, artifact, engine.name))
    if self_test == "always" or (self_test == "first-load" and read_record(key) is None):
        try:
            worst = run_self_test(engine.backend(), tokenizer, manifest, artifact)
        except (BundleError, BackendError):
            engine.close()
            raise
        logger.info("%s passed its self-test, off by %.2g at most", name_of(artifact), worst)
        write_record(key, {"artifact": artifact.files[0].path, "max_abs": worst})
    return Opened(tokenizer=tokenizer, engine=engine, why=why)


def _identity(manifest_sha256: str, artifact: Artifact, engine: str) -> list[str]:
    """Name all that the self-test's outcome depends on.

    The manifest holds the files' hashes, the golden inputs and outputs, the tolerance, and how a
    text is encoded and pooled.
    """
    versions = [edgebert.__version__, engine, tokenizers.__version__, np.__version__]
    files = [file.path for file in artifact.files]
    return [manifest_sha256, *files, *versions, cpu_name(), *cpu_features()]


def _digest(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode("utf-8")).hexdigest()
