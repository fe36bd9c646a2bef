"""A search from its teacher to its bundle."""

from __future__ import annotations

import dataclasses
import logging
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from compress.bundles.shipping import ship
from compress.data.load import load_data
from compress.distillation.augmentation import augment
from compress.distillation.ensemble import note_of
from compress.models.teachers import ResolvedTeacher
from compress.options import save_run
from compress.report import Report, load_report
from compress.reporting import format as show
from compress.searching.artifacts import measure_finalists
from compress.searching.clock import Clock
from compress.searching.config import SearchConfig
from compress.searching.estimate import Estimator
from compress.searching.finals import Finals, shape_of
from compress.searching.grounds import Grounds
from compress.searching.journal import Journal
from compress.searching.meter import ShapeMeter
from compress.searching.picture import draw
from compress.searching.records import RESULT_NAME, Finalist, SearchResult
from compress.searching.shapes import make_space, require_shapes
from compress.searching.starts import good_starts, make_plan
from compress.searching.trials import ShortTrials
from compress.searching.vocabularies import Vocabularies, like_whole
from compress.stopwatch import Stopwatch
from compress.training.dev_score import DevScore
from compress.training.teacher_step import ReadyTeacher, ready_teacher
from edgebert.errors import GateError, InputError
from edgebert.files import whole_directory, write_json, write_text

if TYPE_CHECKING:
    from compress.data.task_data import TaskData

logger = logging.getLogger(__name__)

PICTURE_NAME = "search.html"
FINAL_PART = 0.9  # of the time limit is over when the last long training ends


def run_search(
    config: SearchConfig,
    found: ResolvedTeacher,
    work: Path,
    device: torch.device,
    data: TaskData | None,
) -> SearchResult:
    """Search, and write the bundle; see `compress.search.search`."""
    clock, watch = Clock(work / "clock.json", limit_s=60 * config.time_limit), Stopwatch(work)
    with watch.step("data"):
        data = data or load_data(config, task=config.task, seed=config.seed)
        if config.augment:
            data = augment(data, found, config, work=work, device=device)
    with watch.step("teacher"):
        whole = _teacher(config, found, data, work, device)
    clock.save()
    grounds = _grounds(config, whole, data, work, device)
    journal = Journal(work, seed=config.seed)
    with watch.step("shapes"):
        starts = good_starts(grounds, clock)
        journal.seed_with(starts)
        plan = make_plan(grounds, clock, starts, work / "plan.json")
    trials = ShortTrials(grounds, journal, clock, steps=plan.short_steps, part=plan.search_part)
    with watch.step("trials"):
        trials.run()
    finals = Finals(grounds, clock, short_steps=plan.short_steps, part=FINAL_PART)
    with watch.step("finals"):
        finals.run(journal.tried())
        finalists, notes = measure_finalists(grounds, finals.trained, clock)
    result = SearchResult(
        goal=grounds.budget.goal,
        budget=grounds.budget,
        backend=config.engine,
        threads=torch.get_num_threads(),
        metric=grounds.metric,
        teacher_score=grounds.teacher_score,
        chosen=_choose(grounds, journal, finalists),
        finalists=finalists,
        tried=tuple(journal.tried()),
        shapes=grounds.space.size,
        short_steps=plan.short_steps,
        seconds=round(clock.spent_s, 1),
        notes=(*trials.notes, *finals.notes, *notes),
    )
    return _write(grounds, result, finals, found, data, watch, clock)


def _teacher(
    config: SearchConfig, found: ResolvedTeacher, data: TaskData, work: Path, device: torch.device
) -> ReadyTeacher:
    names = tuple(config.teacher_labels.split(",")) if config.teacher_labels else ()
    return ready_teacher(
        found.path,
        data,
        config,
        work=work,
        device=device,
        learning_rate=config.teacher_learning_rate,
        num_train_epochs=config.teacher_num_train_epochs,
        teacher_labels=names,
    )


def _grounds(
    config: SearchConfig, whole: ReadyTeacher, data: TaskData, work: Path, device: torch.device
) -> Grounds:
    hidden = dataclasses.replace(data, test=None)
    vocabularies = Vocabularies(config, whole, hidden, work, device)
    estimator = Estimator(whole.model)
    score = DevScore(whole.encoded.dev, metric=config.metric_for_best_model, teacher=whole.model)
    theirs = whole.dev[score.metric]
    if theirs <= 0:
        raise InputError(
            f"The teacher's {score.metric} on dev is {theirs:.4f}, so no part of it can be kept; "
            "give another teacher, or --metric-for-best-model."
        )
    space = make_space(config, whole.model.config, vocabularies.sizes)
    require_shapes(space)
    return Grounds(
        config=config,
        budget=config.budget(),
        data=hidden,
        space=space,
        vocabularies=vocabularies,
        estimator=estimator,
        meter=ShapeMeter(estimator, whole, config, work),
        work=work,
        metric=score.metric,
        teacher_score=theirs,
    )


def _choose(grounds: Grounds, journal: Journal, finalists: tuple[Finalist, ...]) -> Finalist:
    """Choose the best that meets the budget.

    Raises:
        GateError: None does; the message has the nearest.
    """
    if (chosen := grounds.budget.best(finalists)) is not None:
        return chosen
    remedy = (
        f"Nothing but the journal in {grounds.work} was written. Widen the budget, or give more "
        "time: --time-limit with --resume goes on."
    )
    nearest = grounds.budget.nearest(finalists)
    if nearest is None:
        reasons = [
            one.reason for one in journal.tried() if one.outcome == "dropped" and one.student
        ]
        why = f"; the last one was dropped: {reasons[-1]}" if reasons else ""
        raise GateError(f"No shape fits the budget{why}. {remedy}")
    raise GateError(
        f"No student meets the budget. The nearest is trial {nearest.name}, {nearest.student} of "
        f"{nearest.vocab_size} tokens: {'; '.join(grounds.budget.misses(nearest))} "
        f"({show.percent(nearest.kept)} kept, {show.megabytes(nearest.cost.size_bytes)}, "
        f"{show.milliseconds(nearest.cost.latency_ms)}). {remedy}"
    )


def _write(
    grounds: Grounds,
    result: SearchResult,
    finals: Finals,
    found: ResolvedTeacher,
    data: TaskData,
    watch: Stopwatch,
    clock: Clock,
) -> SearchResult:
    """Ship the chosen student with its test score, and what the search saw beside it."""
    config = grounds.config
    folder = grounds.work / "chosen" / config.output_dir.name
    report = _ship(grounds, result, finals, found, data, watch, folder)
    row = next(one for one in report.rows if one.precision == result.chosen.precision)
    result = dataclasses.replace(
        result,
        test_score=row.score if report.split == "test" else None,
        refused=bool(report.refused),
        seconds=round(clock.spent_s, 1),
    )
    with whole_directory(config.output_dir) as building:
        shutil.copytree(folder, building, dirs_exist_ok=True)
        write_json(building / RESULT_NAME, result.to_json())
        write_text(building / PICTURE_NAME, draw(result, title=config.output_dir.name))
        save_run(config, building)
    logger.info("Wrote %s", config.output_dir)
    return result


def _ship(
    grounds: Grounds,
    result: SearchResult,
    finals: Finals,
    found: ResolvedTeacher,
    data: TaskData,
    watch: Stopwatch,
    folder: Path,
) -> Report:
    if (folder / "report.json").is_file():  # a run that was killed after it
        return load_report(folder)
    chosen, config = result.chosen, grounds.config
    tried, imitation, trained = finals.trained[chosen.number]
    recipe = (f"{config.engine}={chosen.recipe}",) if chosen.recipe else config.recipe
    settings = dataclasses.replace(trained, output_dir=folder, recipe=recipe)
    vocabularies = grounds.vocabularies
    directory = vocabularies.directory(tried.vocab_size)
    if directory != vocabularies.whole.directory:
        found = dataclasses.replace(found, path=directory)
    ensemble = vocabularies.ensemble(tried.vocab_size)
    notes = [] if ensemble is None else [note_of(ensemble.record)]
    notes.append(
        f"chosen by compress.search among {len(result.tried)} shapes, see {RESULT_NAME}: "
        f"{shape_of(grounds, tried)}, {chosen.precision}"
    )
    teacher = like_whole(vocabularies.ready(tried.vocab_size), vocabularies.whole)
    folder.parent.mkdir(exist_ok=True)
    return ship(found, teacher, imitation, data, settings, watch, ensemble=ensemble, notes=notes)
