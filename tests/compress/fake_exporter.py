"""An exporter whose artifacts are lists of names, for tests of what is done with artifacts."""

from __future__ import annotations

import json
from pathlib import Path

from compress.quantizer import Converted, Exported, Int8Recipe

WEIGHTS = {
    "embeddings": ("words",),
    "layer.0/attention": ("q0", "k0"),
    "layer.0/ffn-down": ("d0",),
    "layer.1/attention": ("q1", "k1"),
    "layer.1/ffn-down": ("d1",),
}
NAMES = tuple(name for names in WEIGHTS.values() for name in names)
FP32_BYTES = 1000


class FakeExporter:
    """Keeps the names that are INT8 in a ``.net`` file, beside a ``.bin`` that has the bytes.

    Attributes:
        missed: Names that its recipe leaves in FP32 and doesn't say so.
        int8_bytes: Size of the ``.bin`` of an INT8 artifact.
        calls: What was excluded, one entry a conversion.
    """

    backend = "onnx"
    fp32_path = "onnx/fp32.net"
    int8_path = "onnx/int8.net"

    def __init__(self, *, missed=(), int8_bytes=300):
        self.recipes = {"first": Int8Recipe("one way", False, "fake 1")}
        self.missed, self.int8_bytes = missed, int8_bytes
        self.calls: list[set[str]] = []

    def files(self, path):
        return (path, path.replace(".net", ".bin"))

    def export_fp32(self, _model, _head, target, *, max_length):  # noqa: ARG002
        self._write(target, [], FP32_BYTES)
        return Exported({"exporter": "fake"}, "fake 1")

    def parts(self, _source):
        return dict(WEIGHTS)

    def quantize(self, source, target, *, recipe, exclude=(), calibration=()):  # noqa: ARG002
        self.calls.append(set(exclude))
        names = tuple(name for name in NAMES if name not in {*exclude, *self.missed})
        self._write(target, names, self.int8_bytes)
        return Converted(len(names), len(NAMES), 0, 0, names, tuple(self.missed), self.int8_bytes)

    @staticmethod
    def _write(target: Path, names, size):
        target.write_text(json.dumps(list(names)))
        target.with_suffix(".bin").write_bytes(b"x" * size)


def int8_names(path: Path) -> set[str]:
    """Read which weights of an artifact are INT8."""
    return set(json.loads(path.read_text()))


def int8_parts(path: Path) -> list[str]:
    """Read which parts of an artifact are INT8 in whole."""
    found = int8_names(path)
    return [part for part, names in WEIGHTS.items() if found.issuperset(names)]
