"""Find the best way to INT8 and to INT4 on each engine: ``python -m compress.quantize``."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from compress.export import ExportConfig, conclude, export_with_report
from compress.options import StepModule, main, option
from edgebert.files import write_json

if TYPE_CHECKING:
    from compress.artifacts.exporters import ExportPlan
    from compress.bundles.result import ExportResult

CANDIDATES_NAME = "quantize.json"


@dataclass(frozen=True, kw_only=True)
class QuantizeConfig(ExportConfig):
    """Try every way to INT8 and INT4 on each engine; write a bundle with the best that pass."""

    calibration: Literal["min-max", "percentile", "entropy"] | None = option(
        None,
        help="How static recipes that differ in it find what activations span (default: each is "
        "tried)",
    )

    def plan(self) -> ExportPlan:
        """Choose engines and recipes: all that an engine has, or those asked for."""
        from compress.artifacts.exporters import plan_export

        return plan_export(
            self.backend,
            self.recipe,
            exporter=self.exporter,
            every=True,
            calibration=self.calibration,
        )


def quantize(config: QuantizeConfig) -> ExportResult:
    """Write a model as a bundle whose INT8 and INT4 artifacts are the best of all recipes.

    Each recipe is made, held against its gate on dev, with the parts that hurt most left in FP32,
    of INT4 in INT8, where it must be, and timed beside the others. Of those of a precision that
    pass, the fastest on one text of 32 tokens is kept; of those within 5 % of it, the one nearest
    to FP32. What each came to stands in
    the result, in ``quantize.json`` and in the report.

    Raises:
        ModelError: The model can't be found, has no head, or its labels don't fit the data's.
        DataError: A data file can't be used.
        GateError: On no engine FP32 matches torch; nothing is written.
        BackendUnavailableError: An engine that was asked for is not installed.
        InputError: ``output_dir`` is not empty, or can't be written; or a recipe isn't known.
    """
    return export_with_report(config, write_more=_write_candidates)[0]


def _write_candidates(directory: Path, result: ExportResult) -> None:
    data = {"candidates": [asdict(one) for one in result.candidates]}
    write_json(directory / CANDIDATES_NAME, data)


def command(config: QuantizeConfig) -> int:
    """Run the step, and print what it came to."""
    from compress.reporting.candidates import format_candidates

    result, report = export_with_report(config, write_more=_write_candidates)
    print(format_candidates(result.candidates))
    return conclude(result, report)


sys.modules[__name__].__class__ = StepModule

if __name__ == "__main__":
    from compress.settings import list_teachers

    sys.exit(
        main(
            QuantizeConfig,
            command,
            prog="python -m compress.quantize",
            tables={"list-teachers": list_teachers},
        )
    )
