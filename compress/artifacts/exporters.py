"""Which engines a model is exported for, and by which recipes: one table, lazily imported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from compress.settings import check_backends
from edgebert.errors import BackendUnavailableError, InputError
from runtimes import BACKENDS

if TYPE_CHECKING:
    from compress.artifacts.quantizer import Exporter


@dataclass(frozen=True)
class ExporterSpec:
    """Where an exporter is, and what it needs beside its engine.

    Attributes:
        target: ``module:class``.
        requires: Packages, all of them.
        default_recipes: Ways to INT8 that are tried unless others are asked for. INT4 is made when
            it is asked for.
    """

    target: str
    requires: tuple[str, ...]
    default_recipes: tuple[str, ...]

    def missing(self) -> str | None:
        """Name the first package of `requires` that isn't there, without importing it."""
        return next((package for package in self.requires if find_spec(package) is None), None)


EXPORTERS: dict[str, ExporterSpec] = {
    "onnx": ExporterSpec(
        "compress.artifacts.quantize_onnx:OnnxExporter",
        requires=("onnx",),
        default_recipes=("dynamic",),
    ),
    "openvino": ExporterSpec(
        "compress.artifacts.quantize_openvino:OpenVinoExporter",
        requires=("nncf",),
        default_recipes=("static", "weights"),
    ),
    "tflite": ExporterSpec(
        "compress.artifacts.quantize_tflite:TfliteExporter",
        requires=("litert_torch", "ai_edge_quantizer"),
        default_recipes=("dynamic",),
    ),
}
"""By backend, in the order of `runtimes.BACKENDS`."""

OPTIMUM = ExporterSpec(
    "compress.artifacts.optimum_export:OptimumExporter",
    requires=("optimum",),
    default_recipes=("dynamic",),
)
"""Another exporter for ``onnx``, by ``--exporter optimum``."""


CALIBRATIONS = frozenset({"min-max", "percentile", "entropy"})
"""How recipes learn what activations span, of which ``--calibration`` takes one."""


@dataclass(frozen=True)
class ExportPlan:
    """What is made of a model.

    Attributes:
        recipes: By backend, the ways to INT8 and to INT4 that are tried.
        missing: By backend, why nothing can be made for it here.
        exporter: ``edgebert`` or ``optimum``.
    """

    recipes: dict[str, tuple[str, ...]]
    missing: dict[str, str] = field(default_factory=dict)
    exporter: str = "edgebert"


def get_exporter(backend: str, *, exporter: str = "edgebert") -> Exporter:
    """Make the exporter of a backend.

    Args:
        backend: Its name.
        exporter: ``edgebert``, or for ``onnx`` ``optimum``.

    Raises:
        InputError: No backend has that name.
    """
    if backend not in EXPORTERS:
        raise InputError(f"Unknown backend {backend!r}. Known backends: {', '.join(EXPORTERS)}.")
    spec = OPTIMUM if exporter == "optimum" else EXPORTERS[backend]
    module, _, attribute = spec.target.partition(":")
    made: Exporter = getattr(import_module(module), attribute)()
    return made


def plan_export(
    backends: Sequence[str] = (),
    recipes: Sequence[str] = (),
    *,
    exporter: str = "edgebert",
    every: bool = False,
    calibration: str | None = None,
) -> ExportPlan:
    """Choose engines and recipes.

    Args:
        backends: Names; none for every one whose engine and converter are installed.
        recipes: ``NAME`` for every backend that has such a recipe, or ``BACKEND=NAME``. A backend
            that none of them is for takes its default recipes.
        exporter: ``optimum`` makes ONNX files alone.
        every: Give a backend that none of ``recipes`` is for all that it has.
        calibration: Of recipes that look at activations take those of this one alone, where a
            backend has such.

    Raises:
        InputError: A name is not known, ``calibration`` leaves a backend no recipe, or optimum is
            asked for and can't serve.
        BackendUnavailableError: A backend that was asked for is not installed, or none is.
    """
    check_backends(tuple(backends))
    if exporter == "optimum":
        backends = _only_onnx(backends)
    wanted = dict.fromkeys(backends or BACKENDS)
    missing = {name: package for name in wanted if (package := _missing(name)) is not None}
    ready = [name for name in wanted if name not in missing]
    if missing and (backends or not ready):
        name, package = next(iter(missing.items()))
        raise BackendUnavailableError(name, extra="compress", missing=package)
    reasons = {
        name: f"needs the package {package!r}, which is not installed: "
        "pip install 'edgebert[compress]'"
        for name, package in missing.items()
    }
    chosen = _chosen_recipes(recipes, ready, every=every)
    if calibration is not None:
        chosen = {name: _calibrated(name, chosen[name], calibration) for name in ready}
    return ExportPlan(chosen, reasons, exporter)


def _calibrated(backend: str, recipes: tuple[str, ...], calibration: str) -> tuple[str, ...]:
    ways = {name: recipe.calibration for name, recipe in get_exporter(backend).recipes.items()}
    if calibration not in ways.values():
        return recipes
    left = tuple(name for name in recipes if ways[name] not in CALIBRATIONS - {calibration})
    if not left:
        raise InputError(
            f"--calibration {calibration} leaves {backend} none of the recipes "
            f"{', '.join(recipes)}; leave out one of the two."
        )
    return left


def _only_onnx(backends: Sequence[str]) -> tuple[str]:
    others = sorted(set(backends) - {"onnx"})
    if others:
        raise InputError(
            f"--exporter optimum makes ONNX files alone; leave out --backend {others[0]}."
        )
    if OPTIMUM.missing() is not None:
        raise InputError(
            "--exporter optimum needs the package 'optimum-onnx', which is not installed. Install "
            "it in an environment of its own: pip install -c constraints-optimum.txt "
            "'edgebert[optimum]'"
        )
    return ("onnx",)


def _missing(backend: str) -> str | None:
    spec = BACKENDS[backend]
    return EXPORTERS[backend].missing() if spec.installed() else spec.requires[0]


def _chosen_recipes(
    asked: Sequence[str], backends: list[str], *, every: bool
) -> dict[str, tuple[str, ...]]:
    known = {name: tuple(get_exporter(name).recipes) for name in backends}
    chosen: dict[str, dict[str, None]] = {name: {} for name in backends}
    for item in asked:
        backend, equals, recipe = item.rpartition("=")
        candidates = [backend] if equals else backends
        takers = [name for name in candidates if recipe in known.get(name, ())]
        if not takers:
            shown = "; ".join(f"{name}: {', '.join(names)}" for name, names in known.items())
            raise InputError(
                f"Unknown recipe {item!r}; give NAME or BACKEND=NAME. Known recipes: {shown}."
            )
        for name in takers:
            chosen[name].setdefault(recipe)
    rest = known if every else {name: EXPORTERS[name].default_recipes for name in backends}
    return {name: tuple(chosen[name]) or rest[name] for name in backends}
