"""``python -m compress.search``: find the student that makes the most of a budget."""

from __future__ import annotations

import json
import logging
import sys
from typing import TYPE_CHECKING

from compress.options import StepModule, main
from compress.searching.config import SearchConfig as SearchConfig
from edgebert.shell import EXIT_DONE, EXIT_GATE

if TYPE_CHECKING:
    from compress.data.task_data import TaskData
    from compress.searching.records import SearchResult

logger = logging.getLogger(__name__)

KEPT = ("teacher", "augmented", "vocabularies", "trials", "journal.log")


def search(config: SearchConfig, *, data: TaskData | None = None) -> SearchResult:
    """Find the student that makes the most of a budget, and write it as a verified bundle.

    Of score, size and latency two are limited and the third is made the best it can be. Shapes that
    can't fit are dropped by counting and by timing them with random weights on the real engine; the
    others are taught for a short while, the worse ones stopped on the way; the best are taught to
    the end, exported with their gates and measured by turns. Test is read for the chosen one alone.

    The work is kept in ``OUTPUT.work``, so that an interrupted or killed search goes on with
    ``resume=True``: what is lost is what it did in the trial that it was at. ``trials/NUMBER``
    there has the settings of each training, as ``compress.distill --config`` takes them.
    ``output_dir`` becomes a bundle with ``search.json`` and ``search.html``: the finalists, their
    front, and all that was tried.

    Args:
        config: The settings.
        data: Texts and labels of one's own instead of files.

    Raises:
        GateError: No student meets the budget; nothing but the journal is left.
        ModelError: The teacher can't be found or used.
        InputError: A vocabulary or a shape can't be had of it.
        DataError: The data can't be used.
        BackendUnavailableError: The engine is not installed.
        ResumeError: What is to be gone on with was begun with other settings.
    """
    from compress.device import resolve_device, set_threads

    set_threads(config.threads)
    from compress.artifacts.exporters import plan_export
    from compress.models.pretrained import task_config
    from compress.models.teachers import resolve_teacher
    from compress.searching.records import RESULT_NAME, load_result
    from compress.searching.run import run_search
    from compress.searching.shapes import make_space
    from compress.work import open_work

    plan_export((config.engine,), config.recipe)
    device = resolve_device(config.device)
    found = resolve_teacher(config.teacher, no_fallback=config.no_fallback)
    make_space(config, task_config(found.path, config.task), (1,))  # refuses shapes, before work
    with open_work(config, keep=KEPT) as work:
        if work is None:
            text = (config.output_dir / RESULT_NAME).read_text(encoding="utf-8")
            return load_result(json.loads(text))
        return run_search(config, found, work, device, data)


def command(config: SearchConfig) -> int:
    """Run the step, and print what it came to."""
    from compress.searching.table import format_result

    result = search(config)
    print(format_result(result))
    chosen = result.chosen
    logger.info(
        "The bundle in %s; edgebert slim %s OUT --backend %s --precision %s keeps the chosen "
        "artifact alone.",
        *(config.output_dir, config.output_dir, result.backend, chosen.precision),
    )
    return EXIT_GATE if result.refused else EXIT_DONE


sys.modules[__name__].__class__ = StepModule

if __name__ == "__main__":
    from compress.settings import list_teachers

    sys.exit(
        main(
            SearchConfig,
            command,
            prog="python -m compress.search",
            tables={"list-teachers": list_teachers},
        )
    )
