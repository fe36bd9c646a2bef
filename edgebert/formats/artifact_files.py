"""Which files an engine reads of an artifact: all of them must be among those that are hashed."""

from __future__ import annotations

import posixpath
from pathlib import Path

from edgebert.errors import DamagedBundleError, ManifestError
from edgebert.formats.manifest import Artifact
from edgebert.formats.onnx_files import external_files

_SUFFIX = {"onnx": ".onnx", "openvino": ".xml", "tflite": ".tflite"}  # an engine goes by it, too


def check_names(artifact: Artifact) -> None:
    """Make sure that what is opened is of the backend's kind, and that its companions are listed.

    Raises:
        ManifestError: It isn't, or one is missing in the list.
    """
    suffix = _SUFFIX.get(artifact.backend)
    if suffix is None:  # a backend that this edgebert doesn't know can't open it either
        return
    for first in artifact.main_files:
        if not first.endswith(suffix):
            raise ManifestError(
                f"The first file of {artifact.backend}/{artifact.precision} is {first!r}; "
                f"it must end with {suffix}."
            )
        weights = first.removesuffix(suffix) + ".bin"  # the engine looks for it under this name
        if artifact.backend == "openvino" and weights not in _paths(artifact):
            raise ManifestError(
                f"{first} is listed without {weights}, which the engine reads, too."
            )


def check_contents(artifact: Artifact, directory: Path) -> None:
    """Make sure that an ONNX model reads no file but those that are listed for it.

    Args:
        artifact: Its files have the right hashes.
        directory: The bundle.

    Raises:
        DamagedBundleError: It names another one, or can't be read as far as that takes.
    """
    if artifact.backend == "onnx":
        for first in artifact.main_files:
            _check_external(first, _paths(artifact), directory)


def _check_external(first: str, listed: set[str], directory: Path) -> None:
    try:
        named = external_files(directory / first)
    except (ValueError, OSError) as error:
        raise DamagedBundleError(
            f"{directory / first} is no ONNX model that can be trusted: {error}."
        ) from error
    for name in sorted(named):
        if not name or posixpath.join(posixpath.dirname(first), name) not in listed:
            raise DamagedBundleError(
                f"{directory / first} asks for the file {name!r:.300}, which the manifest doesn't "
                "list for it. Take the bundle from elsewhere, or export it again."
            )


def _paths(artifact: Artifact) -> set[str]:
    return {file.path for file in artifact.files}
