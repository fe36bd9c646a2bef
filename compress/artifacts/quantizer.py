"""What an exporter and a quantizer of one engine look like from outside."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from torch import nn

from compress.models.task_head import TaskHead
from edgebert.errors import GateError, InputError
from edgebert.types import Batch
from runtimes import BACKENDS

R = TypeVar("R")

# Parts of a layer, by the names that the families give their modules; the first that fits counts.
_PARTS = (
    ("attention", r"attention|bottleneck"),
    ("ffn-up", r"intermediate|lin1|/ffn/(?:MatMul|Gemm)"),
    ("ffn-down", r"output|lin2"),
)


@dataclass(frozen=True)
class Exported:
    """An FP32 artifact as written.

    Attributes:
        recipe: For the manifest: exporter, settings.
        min_engine: Oldest engine that runs it, as ``openvino 2024.4``.
    """

    recipe: dict[str, Any]  # free-form, as the manifest's
    min_engine: str


@dataclass(frozen=True)
class Int8Recipe:
    """One way to make an INT8 artifact, or an INT4 one.

    Attributes:
        about: One phrase for the manifest.
        batch_invariant: Whether a text's result is the same beside any batch-mates.
        min_engine: Oldest engine that runs the file.
        calibration: What it learns of activations from real texts: what they span, by ``min-max``,
            ``percentile`` or ``entropy``; their ``moments``; "" for one that doesn't look at them.
        precision: Of the artifact that it makes, ``int8`` or ``int4``.
    """

    about: str
    batch_invariant: bool
    min_engine: str
    calibration: str = field(default="", kw_only=True)
    precision: str = field(default="int8", kw_only=True)


@dataclass(frozen=True)
class Converted:
    """What a recipe converted.

    Attributes:
        matmuls: Multiplications by a weight that are in the recipe's precision now.
        matmuls_total: All multiplications by a weight.
        gathers: Embedding look-ups that are INT8 now, or INT4.
        gathers_total: All embedding look-ups.
        names: The weights' nodes that were converted.
        missed: Those that should be and are not.
        size_bytes: Of all files.
    """

    matmuls: int
    matmuls_total: int
    gathers: int
    gathers_total: int
    names: tuple[str, ...]
    missed: tuple[str, ...]
    size_bytes: int

    def counts(self) -> dict[str, object]:
        """Give what a manifest says of it."""
        return {
            "matmuls": [self.matmuls, self.matmuls_total],
            "gathers": [self.gathers, self.gathers_total],
        }


class Exporter(Protocol):
    """How one engine's artifacts are made; `compress.artifacts.exporters` has one for each backend.

    Attributes:
        backend: Its name in ``runtimes.BACKENDS``.
        fp32_path: Main file of the FP32 artifact, relative to the bundle.
        int8_path: Main file of the INT8 artifact.
        int4_path: Main file of the INT4 artifact.
        recipes: Ways to INT8 and to INT4 by name; the first is tried first.
    """

    backend: str
    fp32_path: str
    int8_path: str
    int4_path: str
    recipes: Mapping[str, Int8Recipe]

    def files(self, path: str) -> tuple[str, ...]:
        """List all files of an artifact, the main one first: ``.xml`` and ``.bin``."""

    def export_fp32(
        self, model: nn.Module, head: TaskHead, target: Path, *, max_length: int
    ) -> Exported:
        """Write the FP32 artifact from a torch model; ``target``'s folder exists.

        Raises:
            ModelError: This engine can't hold the model.
            GateError: The file is larger than the parameters: a shared weight was copied.
        """

    def parts(self, source: Path) -> dict[str, tuple[str, ...]]:
        """Group the weights' nodes of an FP32 file by part, like ``layer.3/ffn-down``."""

    def quantize(
        self,
        source: Path,
        target: Path,
        *,
        recipe: str,
        exclude: Collection[str] = (),
        calibration: Sequence[Batch] = (),
    ) -> Converted:
        """Write the INT8 or INT4 form of an FP32 file, and count what was really converted.

        Args:
            source: Main file of the FP32 artifact.
            target: Main file of the artifact.
            recipe: A key of `recipes`.
            exclude: Names out of `parts` that stay in FP32; in INT8 where the others become INT4.
            calibration: Real texts of train, for recipes that look at activations.
        """


def path_of(exporter: Exporter, precision: str) -> str:
    """Give the main file of an exporter's artifact, relative to the bundle."""
    if precision == "int4":
        return exporter.int4_path
    return exporter.int8_path if precision == "int8" else exporter.fp32_path


def by_precision(exporter: Exporter, recipes: Iterable[str]) -> dict[str, list[str]]:
    """Sort recipes by what they make, INT8 first; a precision that none makes isn't there."""
    found: dict[str, list[str]] = {}
    for precision in ("int8", "int4"):
        if made := [one for one in recipes if exporter.recipes[one].precision == precision]:
            found[precision] = made
    return found


def count_four_bits(
    kinds: Mapping[str, str],
    four: Collection[str],
    eight: Collection[str],
    exclude: Collection[str],
    *,
    size_bytes: int,
) -> Converted:
    """Count what an INT4 recipe made: products of 4 bits, look-ups and what is left out of 8.

    Args:
        kinds: ``MatMul`` or ``Gather`` of each node with a weight in the FP32 file.
        four: Nodes whose weight has 4 bits now; a table may.
        eight: Those whose weight has 8.
        exclude: Nodes that were left out.
        size_bytes: Of all files.
    """
    gathers = {name for name, kind in kinds.items() if kind == "Gather"}
    names = [name for name in kinds if name in four or (name in gathers and name in eight)]
    kept = set(exclude) & set(eight)
    return Converted(
        matmuls=sum(name in four for name in kinds.keys() - gathers),
        matmuls_total=len(kinds) - len(gathers),
        gathers=len(gathers.intersection(names)),
        gathers_total=len(gathers),
        names=tuple(names),
        missed=tuple(sorted(set(kinds) - set(names) - kept)),
        size_bytes=size_bytes,
    )


def oldest_for_all(backend: str, *engines: str) -> str:
    """Give the oldest engine that meets several needs, as ``ai-edge-litert 2.1``.

    Args:
        backend: Of all of them. A package that it prefers is the successor of the others.
        engines: Oldest engine for each need.
    """
    packages = [module.replace("_", "-") for module in BACKENDS[backend].requires]

    def rank(engine: str) -> tuple[bool, int, list[int]]:
        package, _, version = engine.partition(" ")
        known = package in packages
        place = packages.index(package) if known else 0
        return known, -place, [int(number) for number in re.findall(r"\d+", version)]

    return max(engines, key=rank)


def get_recipe(recipes: Mapping[str, R], name: str) -> R:
    """Look a recipe up.

    Raises:
        InputError: No recipe has that name.
    """
    if name not in recipes:
        raise InputError(f"Unknown recipe {name!r}. Known recipes: {', '.join(recipes)}.")
    return recipes[name]


def check_texts(recipe: Int8Recipe, name: str, calibration: Sequence[Batch]) -> None:
    """Raise an `InputError` where a recipe learns from texts and gets none."""
    if recipe.calibration and not calibration:
        raise InputError(
            f"{recipe.precision.upper()} recipe {name!r} needs texts to calibrate on; got none."
        )


def quantizer_failed(recipe: Int8Recipe, name: str, error: Exception) -> GateError:
    """Make the refusal of a recipe whose quantizer failed."""
    return GateError(
        f"{recipe.precision.upper()} recipe {name!r} failed: {' '.join(str(error).split())[:300]} "
        "Try another --recipe, or ship FP32 only."
    )


def check_exclude(exclude: Collection[str], nodes: Collection[str]) -> None:
    """Raise an `InputError` where a node is to stay FP32 that isn't among those with a weight."""
    if unknown := set(exclude) - set(nodes):
        raise InputError(f"exclude names nodes without a weight: {sorted(unknown)}.")


def group_parts(nodes: Iterable[tuple[str, str, Hashable]]) -> dict[str, tuple[str, ...]]:
    """Group nodes by part; those that share a weight stay together, under the part of the first.

    One of them in FP32 would store the weight twice.

    Args:
        nodes: Of each its name, the name that `part_name` reads, and which weight it takes.
    """
    parts: dict[str, list[str]] = defaultdict(list)
    part_of_weight: dict[Hashable, str] = {}
    for name, path, weight in nodes:
        parts[part_of_weight.setdefault(weight, part_name(path))].append(name)
    return {part: tuple(names) for part, names in parts.items()}


def part_name(node: str) -> str:
    """Name the part that a node belongs to, by its path, like ``layer.3/ffn-down``."""
    layer = re.search(r"/(?:layers?|albert_layer_groups)[._](\d+)(?:/|$)", node)
    if layer is None:
        return "embeddings" if "embedding" in node else "head"
    inner = node[layer.end(1) :]
    for part, pattern in _PARTS:
        if re.search(pattern, inner):
            return f"layer.{layer.group(1)}/{part}"
    return f"layer.{layer.group(1)}/other"
