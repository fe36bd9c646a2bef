"""Which engines are installed, in which version, and what they are too old for.

No engine is imported. A version is read from the name of the folder that pip leaves beside the
package: `importlib.metadata` alone costs 25 ms of a cold start, a tenth of it.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

from edgebert.formats.manifest import Artifact
from runtimes import BACKENDS, installed_engine


def installed_version(backend: str) -> tuple[str, str | None] | None:
    """Give package and version of the engine that ``backend`` runs on here.

    Returns:
        The package as pip names it (``ai-edge-litert``), and its version, None where the package
        carries no metadata, as in an app frozen into one file; or None without an engine.
    """
    package = installed_engine(backend) if BACKENDS[backend].installed() else None
    return None if package is None else (package, _version(package.replace("-", "_")))


def engine_versions(backends: set[str]) -> list[str]:
    """Name the installed engines of some backends, as ``onnxruntime 1.32.0``, sorted."""
    found = [installed_version(backend) for backend in backends if backend in BACKENDS]
    return sorted(f"{package} {version or '?'}" for package, version in filter(None, found))


def why_unsuited(artifact: Artifact) -> str | None:
    """Say why the installed engine can't run an artifact, or None when it can.

    An engine of another name suits when the backend prefers it to the one that the artifact names:
    it is that one's successor, as ``ai-edge-litert`` is of ``tflite-runtime``. A version that is
    not known suits: opening the file will tell.

    Args:
        artifact: Of a backend that is known and installed.
    """
    found = installed_version(artifact.backend)
    if found is None:
        return f"no engine of {artifact.backend!r} is installed"
    package, version = found
    needed, _, oldest = artifact.min_engine.partition(" ")
    known = [module.replace("_", "-") for module in BACKENDS[artifact.backend].requires]
    if needed not in known or known.index(needed) < known.index(package):
        return f"it needs {artifact.min_engine}, installed is {package} {version or ''}".rstrip()
    if needed == package and version is not None and _numbers(version) < _numbers(oldest):
        return f"it needs {artifact.min_engine} or newer, installed is {package} {version}"
    return None


def _version(module: str) -> str | None:
    """Read the version from the name of the folder with a package's metadata, beside it."""
    found = find_spec(module)
    places = found.submodule_search_locations if found else None
    for parent in (Path(place).parent for place in places or ()):
        # the package may come from another distribution, as from onnxruntime-gpu
        for folder in sorted(parent.glob(f"{module}*-*.dist-info")):
            name, _, version = folder.name.removesuffix(".dist-info").partition("-")
            if name == module or _brings(folder / "RECORD", module):
                return version
    return None


def _brings(record: Path, module: str) -> bool:
    try:
        lines = record.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    return any(line.startswith(f"{module}/__init__.py,") for line in lines)


def _numbers(version: str) -> tuple[int, ...]:
    """Give the leading numbers of a version: ``2024.4.0-dev1`` is (2024, 4), like ``2024.4``."""
    leading = re.match(r"\d+(\.\d+)*", version)
    numbers = list(map(int, leading[0].split("."))) if leading else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
