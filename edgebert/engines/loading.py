"""Open a bundle: choose an artifact, check its files, test it on this machine, once."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import tokenizers

import edgebert
from edgebert.bundles.bundle import Bundle, name_of, why_not_here
from edgebert.cache import read_record, write_record
from edgebert.cpu import cpu_features, cpu_name
from edgebert.engines.engine import Engine
from edgebert.engines.exits import ExitEngine
from edgebert.engines.forking import NATIVE_WORK
from edgebert.engines.selftest import run_self_test
from edgebert.errors import BackendError, BundleError, InputError, SelfTestError
from edgebert.formats.exits import ExitArtifact
from edgebert.formats.manifest import Artifact
from edgebert.text.tokenizer import Tokenizer
from runtimes import SessionOptions

if TYPE_CHECKING:
    from edgebert.engines.selection import Selection

logger = logging.getLogger(__name__)

NOT_VERIFIED = "not verified: no golden outputs"


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
    """Open the artifact that was asked for: of several, the fastest, or the named engine's.

    Where the backend is ``auto`` and several artifacts can run here, all of them are opened, tested
    and timed at the first load; later loads take what was found. They compare the hashes of what
    they open, and of the others the sizes: to hash all of them would take longer than the rest.

    With ``fallback`` another artifact is taken, with a warning, when one can't be used.

    Raises:
        InputError, BackendUnavailableError: See `Bundle.candidates`.
        BundleError, BackendError: An artifact can't be used, and there is no fallback, or nothing
            is left; the first failure is the one that is raised.
    """
    loader = _Loader(bundle, options, self_test, fallback=fallback)
    try:
        candidates = bundle.candidates(backend, precision)
    except BackendError as error:
        loader.give_up(bundle.fitting(backend, precision), error)
        candidates = []
    if backend == "auto" and len(candidates) > 1:
        opened = loader.open_fastest(candidates)
    else:
        why = _why_preferred(bundle, candidates, backend, precision)
        opened = loader.open_first(candidates[:1], why)
    if opened is None:  # which is no end only with fallback
        opened = loader.open_first(bundle.fallbacks(backend, precision), "")
    if opened is None:
        raise loader.failures[0]
    logger.info("running %s: %s", bundle.directory, opened.why)
    return opened


def open_artifact(
    bundle: Bundle,
    artifact: Artifact,
    options: SessionOptions,
    self_test: str,
    *,
    why: str = "asked for",
    checked: bool = False,
) -> Opened:
    """Open one artifact whose files are right and that reproduces its golden outputs here.

    Args:
        bundle: Where it is.
        artifact: One of the manifest's.
        options: How the engine may use the machine.
        self_test: See `edgebert.Runtime`.
        why: What `Opened.why` says; without golden outputs, that nothing was verified, too.
        checked: Whether sizes and hashes of its files were compared before.

    Raises:
        DamagedBundleError: A file is missing or changed.
        SelfTestError: The golden outputs don't come out.
        BackendError: The engine is not installed, or failed.
    """
    if not checked:
        _check_files(bundle, artifact, self_test)
    tokenizer = Tokenizer(bundle.directory, special_ids=bundle.manifest.special_ids)
    engine = _engine(bundle, artifact, options)
    key = _digest("self-test", *_identity(bundle.manifest_sha256, artifact, engine.name))
    if not bundle.manifest.verified:
        return Opened(tokenizer=tokenizer, engine=engine, why=f"{why}; {NOT_VERIFIED}")
    if self_test == "always" or (self_test == "first-load" and read_record(key) is None):
        try:
            backend = engine.backend()
            with NATIVE_WORK:
                worst = run_self_test(backend, tokenizer, bundle.manifest, artifact)
        except InputError as error:  # of vectors that are all zeros
            engine.close()
            raise SelfTestError(f"{name_of(artifact)} gives unusable outputs: {error}") from error
        except BaseException:
            engine.close()
            raise
        logger.info("%s passed its self-test, off by %.2g at most", name_of(artifact), worst)
        write_record(key, {"artifact": artifact.files[0].path, "max_abs": worst})
    return Opened(tokenizer=tokenizer, engine=engine, why=why)


def _engine(bundle: Bundle, artifact: Artifact, options: SessionOptions) -> Engine:
    if isinstance(artifact, ExitArtifact):
        return ExitEngine(bundle.directory, artifact, options, manifest=bundle.manifest)
    return Engine(bundle.directory, artifact, options, manifest=bundle.manifest)


def _check_files(bundle: Bundle, artifact: Artifact, self_test: str) -> None:
    """Compare sizes and hashes, unless the files passed in this very state: size, time, inode.

    That is a second of every start for a large bundle. ``self_test="always"`` compares always.
    """
    stamps = bundle.stamps(artifact)
    folder = str(bundle.directory.resolve())
    # the manifest says which hashes are right, too
    place = _digest("files", folder, artifact.files[0].path, bundle.manifest_sha256)
    if self_test != "first-load" or stamps is None or read_record(place) != stamps:
        bundle.check_files(artifact)
        write_record(place, stamps)


class _Loader:
    """Opens artifacts until one is right; without fallback the first failure is the end."""

    def __init__(
        self, bundle: Bundle, options: SessionOptions, self_test: str, *, fallback: bool
    ) -> None:
        self._bundle = bundle
        self._options = options
        self._self_test = self_test
        self._fallback = fallback
        self._given_up: list[Artifact] = []
        self.failures: list[BundleError | BackendError] = []

    def give_up(self, artifacts: Sequence[Artifact], error: BundleError | BackendError) -> None:
        """Note that artifacts can't be used; without fallback, raise."""
        if not self._fallback:
            raise error
        self._given_up += artifacts
        self.failures.append(error)
        names = ", ".join(map(name_of, artifacts))
        logger.warning("%s can't be used, going on with another artifact: %s", names, error)

    def open_first(self, artifacts: Sequence[Artifact], why: str) -> Opened | None:
        """Open the first that can be used, of those that weren't tried before."""
        for artifact in artifacts:
            opened = self._open(artifact, why)
            if opened is not None:
                return opened
            why = ""  # it is about the first
        return None

    def open_fastest(self, candidates: list[Artifact]) -> Opened | None:
        """Open the artifact that was measured to be the fastest, after measuring if need be."""
        from edgebert.engines.selection import (  # of no use for a named backend
            Selection,
            affordable,
        )

        self._check(candidates, self._bundle.check_sizes)
        candidates = affordable(candidates)
        if len(candidates) == 1:
            why = f"{name_of(candidates[0])}: preferred, as there's no memory to measure others"
            return self.open_first(candidates, why)
        selection = Selection(self._bundle, candidates, self._options)
        known = selection.remembered()
        if known is not None:
            why = selection.explain(known, when="at an earlier load")
            return self.open_first(selection.ranked(known), why)
        self._check(candidates, partial(_check_files, self._bundle, self_test=self._self_test))
        every: list[Opened] = []
        kept = None
        try:
            for artifact in candidates:
                why = f"{name_of(artifact)}: the only one that can be used"
                opened = self._open(artifact, why, checked=True)
                every += [opened] if opened else []
            kept = self._fastest(selection, every) if len(every) > 1 else next(iter(every), None)
        finally:
            for opened in every:
                if kept is None or opened.engine is not kept.engine:
                    opened.engine.close()
        return kept

    def _fastest(self, selection: Selection, every: list[Opened]) -> Opened | None:
        by_path = {opened.engine.artifact.files[0].path: opened for opened in every}
        measured = selection.measure(
            {path: opened.engine for path, opened in by_path.items()},
            on_failure=lambda path, error: self.give_up([by_path[path].engine.artifact], error),
        )
        if not measured.latency_ms:
            return None
        when = "now" if selection.remember(measured) else "now, as the result can't be kept"
        why = self._explained(selection.explain(measured, when=when))
        return replace(by_path[measured.fastest], why=why)

    def _check(self, artifacts: Sequence[Artifact], check: Callable[[Artifact], None]) -> None:
        """Check the files of several artifacts, before an engine is started for any."""
        for artifact in artifacts:
            if artifact not in self._given_up:
                try:
                    check(artifact)
                except BundleError as error:
                    self.give_up([artifact], error)

    def _open(self, artifact: Artifact, why: str, *, checked: bool = False) -> Opened | None:
        if artifact in self._given_up:
            return None
        why = self._explained(why or name_of(artifact))
        how = (self._options, self._self_test)
        try:
            return open_artifact(self._bundle, artifact, *how, why=why, checked=checked)
        except (BundleError, BackendError) as error:
            self.give_up([artifact], error)
        return None

    def _explained(self, why: str) -> str:
        if not self._given_up:
            return why
        names = ", ".join(map(name_of, self._given_up))
        return f"{why}; fallback, as {names} can't be used ({self.failures[0]})"


def _why_preferred(bundle: Bundle, candidates: list[Artifact], backend: str, precision: str) -> str:
    """Say why the first of the candidates is taken without a measurement."""
    if not candidates:
        return ""
    asked = "/".join(value for value in (backend, precision) if value != "auto")
    if len(bundle.manifest.artifacts) == 1:
        reason = "the only artifact"
    elif len(candidates) == 1:
        others = [item for item in bundle.fitting(backend, precision) if item != candidates[0]]
        ungated = "it passed no gate; name it to run it"  # of a foreign directory
        left = "; ".join(
            f"{name_of(item)} is left out: {why_not_here(item) or ungated}" for item in others
        )
        reason = f"asked for {asked}" if asked else "the only artifact that can run here"
        reason += f" ({left})" if left else ""
    else:
        over = ", ".join(map(name_of, candidates[1:]))
        reason = f"asked for {asked}; preferred over {over}, not measured as the backend is named"
    return f"{name_of(candidates[0])}: {reason}"


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
