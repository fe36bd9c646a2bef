"""What a shape would weigh, by counting: no weight is made for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from compress.models.architecture import Architecture, student_config
from compress.models.student import same_parts
from compress.searching.shapes import Shape
from compress.sharing.albert import Plan, to_albert
from edgebert.formats.positions import max_positions

# Bytes of the graph beside the weights: of the whole and of each layer, as measured on BERTs of 1
# to 4 layers, 64 to 384 wide. A TFLite file has a graph for each length.
_GRAPH = {
    ("onnx", "fp32"): (25_000, 2_000),
    ("onnx", "int8"): (30_000, 40_000),
    ("openvino", "fp32"): (60_000, 4_000),
    ("openvino", "int8"): (60_000, 53_000),
    ("tflite", "fp32"): (8_000, 4_300),
    ("tflite", "int8"): (8_000, 6_000),
}
# Scale and zero point of a row of a TFLite table, and of a column of a matrix; a layer has about 3
# such columns for each 4 numbers in vectors.
_SCALE_BYTES, _SCALES_BY_VECTOR = 12, 0.75
_FOUR_BITS = 0.55  # bytes of a weight in blocks, a scale each; embedding tables stay INT8


@dataclass(frozen=True)
class Weights:
    """Numbers of parameters: those that INT8 makes smaller, and biases and norms.

    Attributes:
        matrices: In tensors of two dimensions, embedding tables among them.
        vectors: In tensors of one.
    """

    matrices: int
    vectors: int

    def __add__(self, other: Weights) -> Weights:
        return Weights(self.matrices + other.matrices, self.vectors + other.vectors)

    def __sub__(self, other: Weights) -> Weights:
        return Weights(self.matrices - other.matrices, self.vectors - other.vectors)

    def __mul__(self, times: int) -> Weights:
        return Weights(self.matrices * times, self.vectors * times)

    @classmethod
    def of(cls, model: torch.nn.Module) -> Weights:
        """Count those of a model."""
        sizes = [(one.dim() > 1, one.numel()) for one in model.parameters()]
        return cls(sum(n for m, n in sizes if m), sum(n for m, n in sizes if not m))


class Estimator:
    """Counts the weights of shapes that a teacher's students can have.

    Args:
        teacher: With its head, a `transformers` model; only its class and configuration matter.
    """

    def __init__(self, teacher: Any) -> None:
        self._teacher = teacher
        self._plain: dict[Architecture, tuple[Weights, ...]] = {}

    def untrained(self, shape: Shape, *, device: str = "cpu") -> Any:
        """Make the model of a shape with random weights, in eval mode.

        Args:
            shape: Of the student.
            device: ``meta`` for one that has no weights but only their sizes.
        """
        architecture = shape.architecture
        config = student_config(architecture, self._teacher.config)
        config.vocab_size = shape.vocab_size
        with torch.random.fork_rng(devices=[]), torch.device(device):
            model = same_parts(self._teacher, config)
        model.train(False)
        if not architecture.shares:
            return model
        plan = Plan(
            groups=architecture.num_hidden_groups or architecture.num_hidden_layers,
            embedding_size=architecture.embedding_size or architecture.hidden_size,
        )
        return to_albert(model, plan)

    def weights(self, shape: Shape) -> Weights:
        """Count the parameters of a shape."""
        one = shape.architecture
        first, layer, row = self._parts(one)
        rows = shape.vocab_size - int(self._teacher.config.vocab_size)
        if not one.shares:
            return first + layer * (one.num_hidden_layers - 1) + row * rows
        groups = one.num_hidden_groups or one.num_hidden_layers
        return first + layer * (groups - 1) + row * rows + self._narrowed(shape)

    def size_bytes(
        self, shape: Shape, backend: str, precision: str, *, lengths: Sequence[int]
    ) -> int:
        """Estimate the bytes of an artifact.

        Args:
            shape: Of the student.
            backend: ``onnx``, …
            precision: ``fp32``, ``int8`` or ``int4``.
            lengths: Of inputs in tokens that a TFLite file has a graph for, the longest last.
        """
        kind = "fp32" if precision == "fp32" else "int8"
        weights, (fixed, each) = self.weights(shape), _GRAPH[backend, kind]
        graph = fixed + each * shape.architecture.num_hidden_layers
        matrices = weights.matrices
        if backend == "tflite":  # its lengths are fixed, so positions beyond them are left out
            graph *= len(lengths)
            if kind == "int8":
                scales = shape.vocab_size + int(_SCALES_BY_VECTOR * weights.vectors)
                graph += _SCALE_BYTES * scales
            positions = max_positions(self._teacher.config.to_dict()) or lengths[-1]
            one = shape.architecture
            matrices -= (positions - lengths[-1]) * (one.embedding_size or one.hidden_size)
        size = (4 if kind == "fp32" else 1) * matrices + 4 * weights.vectors + graph
        if precision == "int4":
            one = shape.architecture
            tables = shape.vocab_size * (one.embedding_size or one.hidden_size)
            size -= int((1 - _FOUR_BITS) * (matrices - tables))
        return size

    def _parts(self, architecture: Architecture) -> tuple[Weights, ...]:
        """Count a model of one layer, a further layer, and a further token."""
        plain = Architecture(
            1,
            architecture.hidden_size,
            architecture.num_attention_heads,
            architecture.intermediate_size,
        )
        if plain not in self._plain:
            size = self._teacher.config.vocab_size
            two = dataclasses.replace(plain, num_hidden_layers=2)
            counted = [
                Weights.of(self.untrained(Shape(*given), device="meta"))
                for given in ((plain, size), (two, size), (plain, size + 1))
            ]
            self._plain[plain] = (counted[0], counted[1] - counted[0], counted[2] - counted[0])
        return self._plain[plain]

    def _narrowed(self, shape: Shape) -> Weights:
        """Count what an ALBERT has more or less than a BERT: other tables, a matrix behind them."""
        one, config = shape.architecture, self._teacher.config
        wide, narrow = one.hidden_size, one.embedding_size or one.hidden_size
        kept = max_positions(config.to_dict()) or config.max_position_embeddings
        rows = shape.vocab_size + config.type_vocab_size
        before = (rows + config.max_position_embeddings) * wide
        after = (rows + kept) * narrow + wide * narrow  # the last is the matrix behind the tables
        return Weights(after - before, 2 * (narrow - wide) + wide)
