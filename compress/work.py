"""Where an unfinished run lives: ``OUTPUT.work`` beside ``OUTPUT``, until the result is whole."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from compress.options import MANNERS, RUN_NAME, config_to_dict, save_run
from edgebert.errors import InputError, ModelError, ResumeError
from edgebert.files import check_writable, recover_directory

logger = logging.getLogger(__name__)

# what a run reads
_INPUTS = (
    "teacher",
    "extra_teacher",
    "augment_model",
    "model",
    "student",
    "train_file",
    "dev_file",
    "test_file",
)
# what may differ between the parts of one run
_FREE = (*MANNERS, "output_dir", "cache_dir", "save_steps", "report_to", "time_limit", "num_trials")


@contextmanager
def open_work(config: Any, *, keep: Collection[str] = ()) -> Iterator[Path | None]:
    """Prepare the work directory of a step, before anything costly, and remove it at the end.

    What can be resumed stays: after an interrupt, a crash, a full disk. After an error of the
    settings, the data or the model, which the same run would meet again, nothing does; nor does a
    directory with nothing in it that is worth going on from.

    Args:
        config: Settings with ``output_dir``, ``overwrite_output_dir`` and ``resume``.
        keep: Names of what a finished run leaves there, if it made it.

    Yields:
        The work directory, empty or with what an interrupted run left; None when ``resume`` was
        asked for and the finished result of the same settings already stands in ``output_dir``.

    Raises:
        InputError: Something stands in the way and neither flag says what to do with it.
        ResumeError: What stands there was made with other settings.
    """
    work = _prepare(config)
    if work is None:
        yield None
        return
    resumed = config.resume and _holds_progress(work)
    try:
        yield work
    except (InputError, ModelError):
        if not resumed:  # a file that has moved must not cost a resumed run its checkpoints
            _close(work, keep=keep)
        raise
    except BaseException as error:
        if not _holds_progress(work):
            _close(work, keep=keep)
        elif isinstance(error, KeyboardInterrupt) and not str(error):
            raise KeyboardInterrupt("interrupted; go on with --resume") from error
        raise
    _close(work, keep=keep)


def _close(work: Path, *, keep: Collection[str]) -> None:
    """Remove all but ``keep``; ``run.json`` first, so that half of it is no unfinished run."""
    (work / RUN_NAME).unlink(missing_ok=True)
    for path in work.iterdir():
        if path.name not in keep:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    kept = sorted(work.iterdir())
    for path in kept:
        logger.info("%s is kept.", path)
    if not kept:
        work.rmdir()


def _holds_progress(work: Path) -> bool:
    return any(path.is_dir() and path.name != "tokenizer" for path in work.iterdir())


def _prepare(config: Any) -> Path | None:
    output: Path = config.output_dir
    work = output.with_name(output.name + ".work")
    check_writable(output)
    recover_directory(output)
    _require_outside(config, work)
    unfinished = (work / RUN_NAME).is_file()
    if config.resume and unfinished:
        _check_same(config, work)
        return work
    if config.resume and (output / RUN_NAME).is_file():
        _check_same(config, output)
        logger.info("%s is already finished.", output)
        return None
    if not config.overwrite_output_dir:
        _require_free(output, work if unfinished else None)
    if config.resume:
        logger.info("Nothing to resume in %s: starting from the beginning.", work)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    save_run(config, work)
    return work


def _require_outside(config: Any, work: Path) -> None:
    """Refuse an input that lies where this run works: starting would delete it."""
    for name in _INPUTS:
        value = getattr(config, name, None)
        for given in value if isinstance(value, tuple) else (value,):
            if given is not None and Path(given).absolute().is_relative_to(work.absolute()):
                raise InputError(
                    f"{name} {given} lies in {work}, which this run would clear; move it elsewhere "
                    "or give another --output-dir."
                )


def _require_free(output: Path, unfinished: Path | None) -> None:
    if output.is_dir() and any(output.iterdir()):
        raise InputError(
            f"{output} is not empty; give another --output-dir, or replace it with "
            "--overwrite-output-dir."
        )
    if unfinished is not None:
        raise InputError(
            f"{unfinished} holds an unfinished run; go on with --resume, or start over with "
            "--overwrite-output-dir."
        )


def _check_same(config: Any, directory: Path) -> None:
    stored = json.loads((directory / RUN_NAME).read_text(encoding="utf-8"))
    given = {"step": type(config).__name__, **config_to_dict(config)}
    different = [
        f"{name} was {stored.get(name)!r} and is {given.get(name)!r}"
        for name in sorted(set(stored) | set(given))
        if name not in _FREE and stored.get(name) != given.get(name)
    ]
    if different:
        raise ResumeError(
            f"{directory} was made with other settings: {'; '.join(different)}. Resume with the "
            "same settings, or start over with --overwrite-output-dir."
        )
