"""An exporter whose artifacts are lists of names, for tests of what is done with artifacts."""

from __future__ import annotations

import json
from pathlib import Path

from compress.artifacts.quantizer import Converted, Exported, Int8Recipe
from edgebert.errors import ModelError

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

    backend = "onnx"  # whose table of backends has it
    fp32_path = "onnx/fp32.net"
    int8_path = "onnx/int8.net"
    int4_path = "onnx/int4.net"

    def __init__(self, *, missed=(), int8_bytes=300, recipes=("first",), precision="int8"):
        self.recipes = {
            name: Int8Recipe(f"the {name}", False, "fake 1", precision=precision)
            for name in recipes
        }
        self.missed, self.int8_bytes = missed, int8_bytes
        self.calls: list[set[str]] = []

    def files(self, path):
        return (path, path.replace(".net", ".bin"))

    def export_fp32(self, _model, _head, target, *, max_length):  # noqa: ARG002
        self._write(target, "", [], FP32_BYTES)
        return Exported({"exporter": "fake"}, "fake 1")

    def parts(self, _source):
        return dict(WEIGHTS)

    def quantize(self, source, target, *, recipe, exclude=(), calibration=()):  # noqa: ARG002
        self.calls.append(set(exclude))
        names = tuple(name for name in NAMES if name not in {*exclude, *self.missed})
        self._write(target, recipe, names, self.int8_bytes)
        return Converted(len(names), len(NAMES), 0, 0, names, tuple(self.missed), self.int8_bytes)

    @staticmethod
    def _write(target: Path, recipe, names, size):
        target.write_text(json.dumps({"recipe": recipe, "names": list(names)}))
        target.with_suffix(".bin").write_bytes(b"x" * size)


def int8_names(path: Path) -> set[str]:
    """Read which weights of an artifact are INT8."""
    return set(json.loads(path.read_text())["names"])


def recipe_of(path: Path) -> str:
    """Read by which recipe an artifact was made; "" for FP32."""
    return json.loads(path.read_text())["recipe"]


def int8_parts(path: Path) -> list[str]:
    """Read which parts of an artifact are INT8 in whole."""
    found = int8_names(path)
    return [part for part, names in WEIGHTS.items() if found.issuperset(names)]


class Unable(FakeExporter):
    """Can hold no model."""

    backend = "openvino"
    fp32_path = "openvino/fp32.net"
    int8_path = "openvino/int8.net"

    def export_fp32(self, _model, _head, target, *, max_length):  # noqa: ARG002
        target.write_text("half a model")
        raise ModelError("An operator isn't known.")
