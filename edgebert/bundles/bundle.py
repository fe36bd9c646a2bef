"""A bundle's directory: which artifact to run, and whether its files are what they should be."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

from edgebert.bundles.installed import why_unsuited
from edgebert.errors import (
    BackendError,
    BackendUnavailableError,
    DamagedBundleError,
    InputError,
    ManifestError,
)
from edgebert.files import sha256_file
from edgebert.formats.artifact_files import check_contents, check_names
from edgebert.formats.manifest import MANIFEST_NAME, PRECISIONS, Artifact, FileRecord, Manifest
from edgebert.formats.positions import max_positions
from edgebert.formats.strict_json import read_json
from edgebert.inputs import check_choice
from runtimes import BACKENDS, available_backends

logger = logging.getLogger(__name__)

_PRECISION_ORDER = ("int8", "int4", "fp32")


class Bundle:
    """A directory with an ``edgebert.json``, or one that another exporter wrote.

    Attributes:
        directory: Where it is.
        manifest: What it says of itself, checked; made on the fly where there's no file of it.
        manifest_sha256: Of the bytes of ``edgebert.json``, or of what was made.
        foreign: Whether there is none.
    """

    def __init__(self, directory: str | Path) -> None:
        """Read the manifest; nothing else is opened.

        Of a directory without one, its files are read and hashed, see `edgebert.foreign.manifest`.

        Raises:
            InputError: It is no path.
            ManifestError: See `Manifest.load`, or the files don't say what the model is for.
            DamagedBundleError: There is no manifest, and a file is damaged.
        """
        try:
            self.directory = Path(directory)
        except TypeError as error:
            kind = type(directory).__name__
            raise InputError(f"bundle is of type {kind}; give the path of a directory.") from error
        try:
            made = self._made_on_the_fly()
        except OSError as error:  # a name too long, a folder that may not be searched
            raise ManifestError(f"{directory!s:.300} can't be read ({error.strerror}).") from error
        self.foreign = made is not None
        self.manifest = made or Manifest.load(self.directory)
        self.manifest_sha256 = (
            hashlib.sha256(json.dumps(asdict(made)).encode("utf-8")).hexdigest()
            if made
            else sha256_file(self.directory / MANIFEST_NAME)
        )

    def candidates(self, backend: str = "auto", precision: str = "auto") -> list[Artifact]:
        """List the artifacts that were asked for and can run here, the preferred first.

        All of a bundle's artifacts passed their gate. That int8 comes before int4, and that before
        fp32, is a preference: it is faster on most CPUs but not on all. In a foreign directory
        nothing passed a gate: there int8 is a candidate only where it's asked for, or all that
        runs.

        Args:
            backend: Name of an engine, or ``auto`` for any that is installed.
            precision: ``fp32``, ``int8``, ``int4``, or ``auto``.

        Raises:
            InputError: The bundle has no such artifact; those that it has are named.
            BackendUnavailableError: The engine is not installed.
            BackendError: The engine is older than what the artifact needs, or this edgebert
                doesn't know it.
        """
        fitting = self.fitting(backend, precision)
        runnable = [item for item in fitting if why_not_here(item) is None]
        if runnable:
            return sorted(self._trusted(runnable, precision), key=_preference)
        uninstalled = [item.backend for item in fitting if item.backend in BACKENDS]
        if uninstalled and not set(uninstalled) & set(available_backends()):
            spec = BACKENDS[uninstalled[0]]
            raise BackendUnavailableError(
                uninstalled[0], extra=spec.extra, missing=spec.requires[0]
            )
        reasons = "; ".join(f"{name_of(item)}: {why_not_here(item)}" for item in fitting)
        raise BackendError(f"{self.directory} can't run here. {reasons}.")

    def fitting(self, backend: str = "auto", precision: str = "auto") -> list[Artifact]:
        """List the artifacts that were asked for, whether they can run here or not.

        Raises:
            InputError: There is none, or a name is not known.
        """
        check_choice("backend", backend, ("auto", *BACKENDS))
        check_choice("precision", precision, ("auto", *PRECISIONS))
        fitting = [
            item
            for item in self.manifest.artifacts
            if backend in ("auto", item.backend) and precision in ("auto", item.precision)
        ]
        if not fitting:
            raise InputError(
                f"{self.directory} has no artifact {backend}/{precision}; "
                f"it has: {', '.join(map(name_of, self.manifest.artifacts))}."
            )
        return fitting

    def fallbacks(self, backend: str, precision: str) -> list[Artifact]:
        """List all artifacts that can run here, those next to what was asked for first.

        There may be none. For int8 of a foreign directory see `candidates`.
        """
        here = [item for item in self.manifest.artifacts if why_not_here(item) is None]

        def distance(item: Artifact) -> tuple[int, ...]:
            others = (
                precision not in ("auto", item.precision),
                backend not in ("auto", item.backend),
            )
            return (*others, *_preference(item))

        return sorted(self._trusted(here, precision), key=distance)

    def check_files(self, artifact: Artifact) -> None:
        """Check the artifact's files and those that all artifacts need: size, hash, companions.

        Nothing is read before all sizes are right.

        Raises:
            DamagedBundleError: A file is missing, is a link that leaves the bundle, or has another
                size or hash than the manifest says; or an ONNX model asks for a file that isn't
                listed.
            ManifestError: A file that the engine reads isn't listed.
        """
        self.check_sizes(artifact)
        for record in self._records(artifact):
            self._check_hash(record)
        check_contents(artifact, self.directory)

    def check_sizes(self, artifact: Artifact) -> None:
        """Check that `check_files` would find every file, with its size; none is opened.

        Raises:
            DamagedBundleError, ManifestError: See `check_files`.
        """
        check_names(artifact)
        for record in self._records(artifact):
            self._check_place(record)

    def stamps(self, artifact: Artifact) -> list[list[str | int]] | None:
        """Say what any change would change: path, size, time and inode of each file, or None."""
        stamps: list[list[str | int]] = []
        for record in self._records(artifact):
            try:
                stat = (self.directory / record.path).stat()
            except OSError:
                return None
            if stat.st_size != record.size_bytes:
                return None
            stamps.append([record.path, stat.st_size, stat.st_mtime_ns, stat.st_ino])
        return stamps

    def position_limit(self) -> int:
        """Count the tokens that the position table has room for, from ``config.json``.

        Where the configuration doesn't say, it is the manifest's ``max_length``.
        """
        return max(max_positions(self._config) or 0, self.manifest.max_length)

    def vocab_size(self) -> int | None:
        """Count the rows of the token table, from ``config.json``; None where it doesn't say."""
        return self._rows("vocab_size")

    def type_vocab_size(self) -> int | None:
        """Count the rows of the table of segments, as `vocab_size` does."""
        return self._rows("type_vocab_size")

    def _rows(self, table: str) -> int | None:
        rows = self._config.get(table)
        return rows if type(rows) is int and rows > 0 else None

    @cached_property
    def _config(self) -> dict[str, Any]:
        path = self.directory / "config.json"
        try:
            config, _ = read_json(path)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise DamagedBundleError(f"{path} can't be read as JSON ({error}).") from error
        return config if isinstance(config, dict) else {}

    def _trusted(self, artifacts: list[Artifact], precision: str) -> list[Artifact]:
        """Leave out what passed no gate and wasn't asked for, where something else is left."""
        exact = [item for item in artifacts if item.precision == "fp32"]
        return exact if self.foreign and precision != "int8" and exact else artifacts

    def _made_on_the_fly(self) -> Manifest | None:
        if (self.directory / MANIFEST_NAME).exists():
            return None
        from edgebert.foreign.manifest import (
            foreign_manifest,  # of no use to a bundle, so not imported
        )

        made = foreign_manifest(self.directory)
        if made is not None:
            logger.warning(
                "%s has no %s: %s is what its other files say, and nothing in it was verified",
                *(self.directory, MANIFEST_NAME, made.task),
            )
        return made

    def _records(self, artifact: Artifact) -> tuple[FileRecord, ...]:
        return (*self.manifest.files, *artifact.files)

    def _check_place(self, record: FileRecord) -> None:
        path = self.directory / record.path
        if not path.exists():
            raise DamagedBundleError(
                f"Bundle damaged: {path} is missing; get the bundle again from where it came."
            )
        if not path.resolve().is_relative_to(self.directory.resolve()):
            raise DamagedBundleError(
                f"{path} is a link to {path.resolve()}, outside of the bundle; copy the file "
                "itself into the bundle."
            )
        if not path.is_file():
            raise DamagedBundleError(
                f"Bundle damaged: {path} is no regular file; get the bundle again from where it "
                "came."
            )
        found_bytes = path.stat().st_size
        if found_bytes != record.size_bytes:
            raise DamagedBundleError(
                f"Bundle damaged: {path} has {found_bytes} bytes, expected {record.size_bytes}; "
                "get the bundle again from where it came."
            )

    def _check_hash(self, record: FileRecord) -> None:
        path = self.directory / record.path
        found = sha256_file(path)
        if found != record.sha256:
            raise DamagedBundleError(
                f"Bundle damaged: {path} has sha256 {found}, expected {record.sha256}; "
                "get the bundle again from where it came."
            )


def name_of(artifact: Artifact) -> str:
    """Name an artifact as ``onnx/int8``."""
    return f"{artifact.backend}/{artifact.precision}"


def why_not_here(artifact: Artifact) -> str | None:
    """Say why an artifact is no candidate on this machine, or None when it is one."""
    if artifact.backend not in BACKENDS:
        return "this edgebert doesn't know its backend; pip install -U edgebert"
    spec = BACKENDS[artifact.backend]
    if not spec.installed():
        return f"its engine is not installed; pip install 'edgebert[{spec.extra}]'"
    unsuited = why_unsuited(artifact)
    return unsuited and f"{unsuited}; pip install -U 'edgebert[{spec.extra}]'"


def _preference(artifact: Artifact) -> tuple[int, int]:
    return _PRECISION_ORDER.index(artifact.precision), list(BACKENDS).index(artifact.backend)
