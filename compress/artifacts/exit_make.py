"""Segments of a model with exits as they are made: exported, quantized as the whole model was."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from torch import nn

from compress.artifacts.exit_graphs import EXPORT, segment_modules
from compress.artifacts.exporters import get_exporter
from compress.artifacts.make import OpenArtifact, open_engine
from compress.artifacts.quantizer import Exporter
from compress.artifacts.sensitivity import Quantization
from compress.models.exits import ExitHeads
from compress.models.task_head import HIDDEN, TaskHead
from edgebert.engines.exits import ExitChain, with_hidden
from edgebert.types import Batch
from runtimes.base import Backend

logger = logging.getLogger(__name__)

FOLDER = "exits"


@dataclass(frozen=True, eq=False)
class OpenSegments:
    """Segments of one engine and precision, open.

    Attributes:
        files: All files, relative to the bundle.
        segments: The main one of each segment.
        chain: All of them behind each other; closing it closes them.
    """

    files: tuple[str, ...]
    segments: tuple[str, ...]
    chain: ExitChain


def segment_paths(exporter: Exporter, precision: str, layers: int) -> tuple[str, ...]:
    """Name the main files: ``onnx/exits/segment_1.onnx``, …, ``segment_1_quantized.onnx``, …"""
    whole = PurePosixPath(exporter.fp32_path)
    tail = ""
    if precision == "int8":
        tail = PurePosixPath(exporter.int8_path).stem.removeprefix(whole.stem)
    folder = whole.parent / FOLDER
    return tuple(
        str(folder / f"segment_{number}{tail}{whole.suffix}") for number in range(1, layers + 1)
    )


def make_fp32_segments(
    bundle: Path,
    backend: str,
    model: nn.Module,
    head: TaskHead,
    exits: ExitHeads,
    *,
    max_length: int,
    threads: int,
) -> OpenSegments:
    """Export a model layer by layer, and open what was written.

    Args:
        bundle: Directory of the bundle.
        backend: A key of `compress.artifacts.exit_graphs.EXPORT`.
        model: The torch reference.
        head: What its outputs mean.
        exits: Its heads after earlier layers.
        max_length: Longest input in tokens.
        threads: Of the engine.

    Raises:
        ModelError, GateError: See `compress.artifacts.quantizer.Exporter.export_fp32`.
        BackendError: The engine can't open it.
    """
    exporter, modules = get_exporter(backend), segment_modules(model, head, exits)
    paths = segment_paths(exporter, "fp32", len(modules))
    (bundle / paths[0]).parent.mkdir(exist_ok=True)
    with _removed_on_failure(bundle, exporter, paths):
        for module, path in zip(modules, paths, strict=True):
            EXPORT[backend](module, bundle / path, max_length=max_length)
        return _opened(bundle, exporter, paths, threads)


def make_int8_segments(
    bundle: Path,
    whole: OpenArtifact,
    fp32: OpenSegments,
    *,
    calibration: Sequence[Batch],
    threads: int,
) -> OpenSegments:
    """Quantize segments by the recipe of the whole model, the same parts kept in FP32.

    Args:
        bundle: Directory of the bundle, with the FP32 segments.
        whole: The INT8 artifact of the whole model.
        fp32: The FP32 segments; they compute the hidden states that later ones calibrate on.
        calibration: Texts for recipes that look at activations.
        threads: Of the engine.

    Raises:
        GateError: A segment can't be quantized whole.
        BackendError: The engine can't open it.
    """
    exporter = get_exporter(whole.artifact.backend)
    paths = segment_paths(exporter, "int8", len(fp32.segments))
    kept = whole.artifact.recipe.get("kept_fp32", ())
    batches = list(calibration)
    with _removed_on_failure(bundle, exporter, paths):
        for number, (source, path) in enumerate(zip(fp32.segments, paths, strict=True)):
            recipe = str(whole.artifact.recipe["quantization"])
            quantization = Quantization(exporter, bundle / source, recipe, batches)
            parts = exporter.parts(bundle / source)
            exclude = [name for part in kept for name in _names(parts, part)]
            quantization.convert_all(bundle / path, exclude=exclude)
            if number < len(paths) - 1:
                segment = fp32.chain.segments[number]
                batches = [with_hidden(one, segment.run(one)[HIDDEN]) for one in batches]
        return _opened(bundle, exporter, paths, threads)


def _names(parts: dict[str, tuple[str, ...]], part: str) -> tuple[str, ...]:
    """Find the nodes of a part, or of like parts of all layers, as ``ffn-down``."""
    return tuple(
        name
        for found, names in parts.items()
        if part in (found, found.rpartition("/")[2])
        for name in names
    )


@contextmanager
def _removed_on_failure(bundle: Path, exporter: Exporter, paths: Sequence[str]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        for path in paths:
            for name in exporter.files(path):
                (bundle / name).unlink(missing_ok=True)
        raise


def remove_segments(bundle: Path, made: OpenSegments) -> None:
    """Close segments and take their files away again; an empty folder, too."""
    made.chain.close()
    for name in made.files:
        (bundle / name).unlink()
    folder = (bundle / made.files[0]).parent
    if not any(folder.iterdir()):
        shutil.rmtree(folder)


def _opened(bundle: Path, exporter: Exporter, paths: tuple[str, ...], threads: int) -> OpenSegments:
    backends: list[Backend] = []
    with ExitStack() as stack:
        for path in paths:
            backends.append(open_engine(exporter, bundle / path, threads))
            stack.callback(backends[-1].close)
        stack.pop_all()  # all are open, and stay so
    files = tuple(name for path in paths for name in exporter.files(path))
    return OpenSegments(files, paths, ExitChain(backends))
