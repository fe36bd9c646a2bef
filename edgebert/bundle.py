"""A bundle's directory: which artifact to run, and whether its files are what they should be."""

from __future__ import annotations

import json
from pathlib import Path

from edgebert.errors import BackendError, BackendUnavailableError, DamagedBundleError, InputError
from edgebert.files import sha256_file
from edgebert.inputs import check_choice
from edgebert.manifest import PRECISIONS, Artifact, FileRecord, Manifest
from edgebert.positions import max_positions
from runtimes import BACKENDS, available_backends

# A preference, not a measurement: int8 is smaller, and faster on most CPUs but not on all.
_PRECISION_ORDER = ("int8", "fp32")


class Bundle:
    """A directory with an ``edgebert.json``.

    Attributes:
        directory: Where it is.
        manifest: What it says of itself, checked.
    """

    def __init__(self, directory: str | Path) -> None:
        """Read the manifest; nothing else is opened.

        Raises:
            ManifestError: See `Manifest.load`.
        """
        self.directory = Path(directory)
        self.manifest = Manifest.load(self.directory)

    def choose(self, backend: str = "auto", precision: str = "auto") -> tuple[Artifact, str]:
        """Pick the artifact to run.

        Args:
            backend: Name of an engine, or ``auto`` for any that is installed.
            precision: ``fp32``, ``int8``, or ``auto``: ``int8`` where the bundle has it (it passed
                its gate, or it would not be there). That is a preference: `edgebert bench` tells
                which is faster on this machine.

        Returns:
            The artifact, and one sentence on why it was taken.

        Raises:
            InputError: The bundle has no such artifact; those that it has are named.
            BackendUnavailableError: The engine is not installed.
            BackendError: This edgebert knows none of the bundle's engines.
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
        best = self._runnable(fitting)[0]
        asked = [value for value in (backend, precision) if value != "auto"]
        others = [name_of(item) for item in self.manifest.artifacts if item is not best]
        if len(fitting) == 1:
            reason = f"asked for {'/'.join(asked)}" if asked and others else "the only artifact"
        elif best.precision == "int8":
            reason = "passed its gate, and int8 is preferred; measure with `edgebert bench`"
        else:
            reason = "the preferred one of those whose engine is installed"
        over = f" (over {', '.join(others)})" if others and not asked else ""
        return best, f"{name_of(best)}: {reason}{over}"

    def alternatives(self, tried: Artifact) -> list[Artifact]:
        """List the other artifacts that can run here, the preferred first."""
        others = [item for item in self.manifest.artifacts if item is not tried]
        installed = available_backends()
        return sorted((item for item in others if item.backend in installed), key=_preference)

    def check_files(self, artifact: Artifact) -> None:
        """Check size and hash of the artifact's files and of those that all artifacts need.

        Raises:
            DamagedBundleError: A file is missing, is a link that leaves the bundle, or has another
                size or hash than the manifest says.
        """
        for record in self._records(artifact):
            self._check_file(record)

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
        path = self.directory / "config.json"
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return self.manifest.max_length
        except (OSError, ValueError) as error:
            raise DamagedBundleError(f"{path} can't be read as JSON ({error}).") from error
        limit = max_positions(config) if isinstance(config, dict) else None
        return max(limit or 0, self.manifest.max_length)

    def _runnable(self, fitting: list[Artifact]) -> list[Artifact]:
        installed = available_backends()
        runnable = [item for item in fitting if item.backend in installed]
        if runnable:
            return sorted(runnable, key=_preference)
        known = [item.backend for item in fitting if item.backend in BACKENDS]
        if not known:
            raise BackendError(
                f"{self.directory} needs the backend {fitting[0].backend!r}, which this edgebert "
                "doesn't know. Install a newer one: pip install -U edgebert"
            )
        spec = BACKENDS[known[0]]
        raise BackendUnavailableError(known[0], extra=spec.extra, missing=spec.requires[0])

    def _records(self, artifact: Artifact) -> tuple[FileRecord, ...]:
        return (*self.manifest.files, *artifact.files)

    def _check_file(self, record: FileRecord) -> None:
        path = self.directory / record.path
        if not path.is_file():
            raise DamagedBundleError(
                f"Bundle damaged: {path} is missing; get the bundle again from where it came."
            )
        if not path.resolve().is_relative_to(self.directory.resolve()):
            raise DamagedBundleError(
                f"{path} is a link to {path.resolve()}, outside of the bundle; copy the file "
                "itself into the bundle."
            )
        found_bytes = path.stat().st_size
        if found_bytes != record.size_bytes:
            raise DamagedBundleError(
                f"Bundle damaged: {path} has {found_bytes} bytes, expected {record.size_bytes}; "
                "get the bundle again from where it came."
            )
        found = sha256_file(path)
        if found != record.sha256:
            raise DamagedBundleError(
                f"Bundle damaged: {path} has sha256 {found}, expected {record.sha256}; "
                "get the bundle again from where it came."
            )


def name_of(artifact: Artifact) -> str:
    """Name an artifact as ``onnx/int8``."""
    return f"{artifact.backend}/{artifact.precision}"


def _preference(artifact: Artifact) -> tuple[int, int]:
    return _PRECISION_ORDER.index(artifact.precision), list(BACKENDS).index(artifact.backend)
