"""From a full-size teacher to a verified student bundle. The only package that imports torch.

Each step is a command (``python -m compress.distill``), a module, and a function of a settings
class: ``compress.distill(compress.DistillConfig(teacher="base"))``. They are loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_STEPS = (
    "train",
    "distill",
    "export",
    "evaluate",
    "report",
    "trim",
    "prune",
    "share",
    "quantize",
    "pipeline",
    "search",
)
_CONFIGS = {
    "TrainConfig": "compress.train",
    "DistillConfig": "compress.distillation.config",
    "ExportConfig": "compress.export",
    "EvaluateConfig": "compress.evaluate",
    "ReportConfig": "compress.report",
    "TrimConfig": "compress.trim",
    "QuantizeConfig": "compress.quantize",
    "PruneConfig": "compress.pruning.config",
    "ShareConfig": "compress.sharing.config",
    "PipelineConfig": "compress.pipeline",
    "SearchConfig": "compress.searching.config",
}

__all__ = [
    "DistillConfig",
    "EvaluateConfig",
    "ExportConfig",
    "PipelineConfig",
    "PruneConfig",
    "QuantizeConfig",
    "ReportConfig",
    "SearchConfig",
    "ShareConfig",
    "TrainConfig",
    "TrimConfig",
]


def __getattr__(name: str) -> Any:  # the type of a module attribute can't be known here
    if name in _STEPS:
        return import_module(f"compress.{name}")
    if name in _CONFIGS:
        return getattr(import_module(_CONFIGS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
