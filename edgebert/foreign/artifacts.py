"""Model files in a directory that isn't ours, found by the names that their makers give them."""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from edgebert.errors import DamagedBundleError
from edgebert.foreign.graph_ports import GraphPorts, Shape
from edgebert.foreign.onnx_ports import read_onnx_ports
from edgebert.foreign.openvino_ports import read_openvino_ports
from edgebert.formats.manifest import Artifact, FileRecord
from edgebert.formats.onnx_files import external_files
from runtimes.names import known_name

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Format:
    """One engine's files.

    Attributes:
        backend: Whose they are.
        min_engine: As an artifact's; any version may do.
        folders: Where others put them, the preferred first.
        patterns: What others call them, the preferred first.
        read: Reads what a file declares.
        beside: Names the files beside a file that belong to it.
    """

    backend: str
    min_engine: str
    folders: tuple[str, ...]
    patterns: tuple[str, ...]
    read: Callable[[Path], GraphPorts]
    beside: Callable[[Path], Iterable[str]]


def _weights_of(path: Path) -> list[str]:
    return [path.with_suffix(".bin").name]


_FORMATS = (
    _Format(
        backend="onnx",
        min_engine="onnxruntime 0",
        folders=("", "onnx/"),
        patterns=("model.onnx", "model_quantized.onnx", "model_int8.onnx", "model_uint8.onnx",
                  "model_qint8*.onnx", "model_quint8*.onnx", "model_optimized.onnx",
                  "model_O[123].onnx"),
        read=read_onnx_ports,
        beside=external_files,
    ),
    _Format(
        backend="openvino",
        min_engine="openvino 0",
        folders=("", "openvino/"),
        patterns=("openvino_model.xml", "openvino_model_int8.xml", "openvino_model_*.xml"),
        read=read_openvino_ports,
        beside=_weights_of,
    ),
)  # fmt: skip
_OTHER_MACHINES = {"arm64": ("aarch64", "arm64"), "avx": ("x86_64", "amd64")}  # in a file's name
_TOLERANCE = 1e-4  # nothing is compared with it


@dataclass(frozen=True)
class Found:
    """A model file.

    Attributes:
        backend: Whose format it has.
        min_engine: As an artifact's.
        precision: ``fp32`` or ``int8``, by its weights.
        paths: All its files, the main one first, relative to the directory.
        outputs: Shapes by name, under the names that a bundle's graph has.
    """

    backend: str
    min_engine: str
    precision: str
    paths: tuple[str, ...]
    outputs: dict[str, Shape]

    @property
    def path(self) -> str:
        """The main file's."""
        return self.paths[0]

    def width(self, output: str) -> int | None:
        """Give the last size of an output, or None where the file doesn't say."""
        shape = self.outputs.get(output)
        return shape[-1] if shape else None

    def artifact(self, directory: Path) -> Artifact:
        """Hash the files and describe them; nothing was gated, so no CPU is named."""
        return Artifact(
            backend=self.backend,
            precision=self.precision,
            files=tuple(FileRecord.of(directory, path) for path in self.paths),
            recipe={"exporter": "not edgebert"},
            gated_on="",
            min_engine=self.min_engine,
            batch_invariant=self.precision == "fp32",
            golden=(),
            tolerance=_TOLERANCE,
        )


def find_artifacts(directory: Path) -> list[Found]:
    """List the model files of a directory, at most one of each engine and precision.

    FP32 comes first. What holds weights of other kinds than FP32, FP16 and INT8 is left out.

    Raises:
        DamagedBundleError: A file is not of the format that its name says.
    """
    found: dict[tuple[str, str], Found] = {}
    for kind in _FORMATS:
        for path in _candidates(directory, kind):
            one = _read(directory, path, kind)
            if one is not None:
                first = found.setdefault((one.backend, one.precision), one)
                if first is not one:
                    logger.debug("%s is left out, as there is %s", path, first.path)
    return sorted(found.values(), key=lambda one: one.precision != "fp32")


def _candidates(directory: Path, kind: _Format) -> Iterator[str]:
    seen = set()
    for folder in kind.folders:
        for pattern in kind.patterns:
            for file in sorted((directory / folder).glob(pattern)):
                path = f"{folder}{file.name}"
                if file.is_file() and path not in seen and _for_this_machine(file.name):
                    seen.add(path)
                    yield path


def _for_this_machine(name: str) -> bool:
    machine = platform.machine().lower()
    return all(machine in own for part, own in _OTHER_MACHINES.items() if part in name)


def _read(directory: Path, path: str, kind: _Format) -> Found | None:
    folder = path[: path.rfind("/") + 1]
    try:
        ports = kind.read(directory / path)
        beside = sorted(kind.beside(directory / path))
    except (OSError, ValueError) as error:
        raise DamagedBundleError(f"{directory / path} can't be read: {error}.") from error
    for name in beside:
        if not (directory / folder / name).is_file():
            raise DamagedBundleError(f"{directory / path} needs {name!r:.300}, which isn't there.")
    if "i4" in ports.weight_types:
        logger.warning("%s is left out: it has weights of 4 bits", directory / path)
        return None
    return Found(
        backend=kind.backend,
        min_engine=kind.min_engine,
        precision="int8" if "i8" in ports.weight_types else "fp32",
        paths=(path, *(f"{folder}{name}" for name in beside)),
        outputs={known_name(name): shape for name, shape in ports.outputs.items()},
    )
