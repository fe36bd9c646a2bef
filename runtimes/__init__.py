"""Engines that run a bundle's artifacts: one table, nothing imported before it is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from edgebert.errors import BackendUnavailableError, InputError
from runtimes.base import Backend, SessionOptions

__all__ = [
    "BACKENDS",
    "Backend",
    "BackendSpec",
    "SessionOptions",
    "available_backends",
    "installed_engine",
    "load_backend",
]


@dataclass(frozen=True)
class BackendSpec:
    """Where a backend is, and what it needs.

    Attributes:
        target: ``module:class``.
        requires: Packages, any of which is enough.
        extra: The extra of ``edgebert`` that brings one.
    """

    target: str
    requires: tuple[str, ...]
    extra: str

    def installed(self) -> bool:
        """Tell whether a package of `requires` is there, without importing it."""
        return any(find_spec(package) is not None for package in self.requires)


BACKENDS: dict[str, BackendSpec] = {
    "onnx": BackendSpec("runtimes.onnx:OnnxBackend", requires=("onnxruntime",), extra="onnx"),
    "openvino": BackendSpec(
        "runtimes.openvino:OpenVinoBackend", requires=("openvino",), extra="openvino"
    ),
    "tflite": BackendSpec(
        "runtimes.tflite:TfliteBackend",
        requires=("ai_edge_litert", "tflite_runtime"),
        extra="tflite",
    ),
}
"""By name, the preferred first where two can run the same bundle."""


def available_backends() -> list[str]:
    """Name the backends whose engine is installed, without importing any."""
    return [name for name, spec in BACKENDS.items() if spec.installed()]


def installed_engine(name: str) -> str | None:
    """Name the package whose engine a backend would use, as ``ai-edge-litert``; None without one.

    A backend that can use two takes the first that is installed. Nothing is imported.

    Raises:
        InputError: No backend has that name.
    """
    return next((p.replace("_", "-") for p in _spec(name).requires if find_spec(p)), None)


def load_backend(name: str, artifact: Path, options: SessionOptions) -> Backend:
    """Open ``artifact`` on the named engine.

    Raises:
        InputError: No backend has that name.
        BackendUnavailableError: Its engine is not installed.
        BackendRunError: The engine can't open the file.
    """
    spec = _spec(name)
    if not spec.installed():
        raise BackendUnavailableError(name, extra=spec.extra, missing=spec.requires[0])
    module, _, attribute = spec.target.partition(":")
    backend: Backend = getattr(import_module(module), attribute)(artifact, options)
    return backend


def _spec(name: str) -> BackendSpec:
    if name not in BACKENDS:
        raise InputError(f"Unknown backend {name!r}. Known backends: {', '.join(BACKENDS)}.")
    return BACKENDS[name]
