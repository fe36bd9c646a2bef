"""Where an adapter's vectors come from: a bundle that is opened when the first text comes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from edgebert.bundles.bundle import Bundle
from edgebert.errors import InputError, PackageMissingError, TaskError
from edgebert.inputs import check_count
from edgebert.runtime import Runtime
from edgebert.tasks.names import fitting_methods
from edgebert.types import FloatArray


def missing(framework: str, package: str) -> PackageMissingError:
    """Say that a framework's package isn't installed."""
    return PackageMissingError(
        f"{framework} isn't installed. Install it with: pip install '{package}'"
    )


class Source:
    """Texts to vectors, float32, as `edgebert.Runtime.encode`. Safe from many threads.

    It may be pickled and copied: the other one opens the bundle anew.

    Attributes:
        dim: Of its vectors.
        config: What it takes to make it again, for JSON, with the bundle's hash as ``model``.
    """

    def __init__(
        self,
        bundle: str | Path | Runtime,
        *,
        backend: str = "auto",
        precision: str = "auto",
        truncate_dim: int | None = None,
        model: str | None = None,
    ) -> None:
        """Read what the bundle says of itself; its engine isn't loaded yet.

        Args:
            bundle: Directory, or a `Runtime`, which stays open.
            backend: See `Runtime`; as the following, of a directory only.
            precision: See `Runtime`. Where several machines fill one store, name both, for
                ``auto`` takes what is fastest on each.
            truncate_dim: See `Runtime.encode`.
            model: ``config["model"]`` of the bundle that it must be, if any.

        Raises:
            TaskError: The bundle isn't for ``feature-extraction``.
            InputError: An argument isn't allowed, or the bundle is another one.
            ManifestError: It's no bundle.
        """
        self._lock, self._runtime = Lock(), bundle if isinstance(bundle, Runtime) else None
        if isinstance(bundle, Runtime):
            if (backend, precision) != ("auto", "auto"):
                raise InputError("A Runtime has its backend and precision; give a path to choose.")
            found, backend, precision = bundle._bundle, bundle.info.backend, bundle.info.precision
        else:
            found = Bundle(bundle)
        manifest = found.manifest
        if "encode" not in fitting_methods(manifest):
            raise TaskError(
                f"{found.directory} is a {manifest.task} bundle, which gives no vectors; give one "
                "for feature-extraction."
            )
        if model is not None and model != found.manifest_sha256:
            raise InputError(
                f"{found.directory} isn't the bundle that these vectors were made with, and its "
                "vectors can't be compared with them. Put that one back, or embed anew."
            )
        size = manifest.vector_size
        if truncate_dim is not None:
            check_count("truncate_dim", truncate_dim, most=size)
        self.dim = size if truncate_dim is None else truncate_dim
        self.config: dict[str, Any] = {
            "bundle": str(found.directory),
            "backend": backend,
            "precision": precision,
            "truncate_dim": truncate_dim,
            "model": found.manifest_sha256,
        }

    def __reduce__(self) -> Any:
        return _again, (self.config,)

    def encode(self, texts: Sequence[str], role: str) -> FloatArray:
        """Give ``[n, dim]`` in the order of ``texts``; errors as `Runtime.encode`."""
        with self._lock:  # one thread opens it, the others wait
            if self._runtime is None:
                how = self.config
                self._runtime = Runtime(how["bundle"], how["backend"], how["precision"])
        return self._runtime.encode(texts, role=role, truncate_dim=self.config["truncate_dim"])

    def one(self, text: str, role: str) -> list[float]:
        """Give one text's vector as Python's numbers."""
        vector: list[float] = self.encode([text], role)[0].tolist()
        return vector

    def many(self, texts: Sequence[str], role: str) -> list[list[float]]:
        """Give the vectors of texts as Python's numbers."""
        vectors: list[list[float]] = self.encode(texts, role).tolist()
        return vectors


def _again(config: dict[str, Any]) -> Source:
    return Source(**config)
