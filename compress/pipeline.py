"""``python -m compress.pipeline recipe.toml``: a chain of steps, with one journal."""

from __future__ import annotations

import dataclasses
import glob
import json
import logging
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomllib

from compress.export import check_output
from compress.options import (
    MANNERS,
    StepModule,
    check_values,
    config_to_dict,
    main,
    missing_settings,
    option,
    revive_settings,
)
from edgebert.errors import InputError, ResumeError
from edgebert.files import write_json
from edgebert.shell import EXIT_DONE

logger = logging.getLogger(__name__)

JOURNAL_NAME = "pipeline.json"
# Of those that write a directory; evaluate and report only read one.
STEPS = ("train", "distill", "prune", "share", "trim", "quantize", "export")
_INPUTS = ("model", "teacher")  # a step's own word for the directory that it reads


@dataclass(frozen=True, kw_only=True)
class PipelineConfig:
    """Run a chain of steps, each on the directory that the one before it wrote."""

    recipe: Path = option(help="The chain, as TOML", positional=True)
    output_dir: Path = option(Path("pipeline"), help="Where each step gets a directory of its own")
    overwrite_output_dir: bool = option(False, help="Replace what stands there")
    resume: bool = option(False, help="Go on with an interrupted chain of the same recipe")

    def __post_init__(self) -> None:
        check_values(self)


@dataclass(frozen=True, kw_only=True)
class Link:
    """One step of a chain.

    Attributes:
        name: Of its directory: its place and the step, or the name that the recipe gives it.
        step: Like ``prune``.
        config: The settings.
    """

    name: str
    step: str
    config: Any  # of the step's own class


@dataclass(frozen=True, kw_only=True)
class Done:
    """A finished step, as the journal has it.

    Attributes:
        name: See `Link`.
        step: Like ``prune``.
        settings: As in its ``run.json``.
        exit_code: 0, or 3 where a gate kept an artifact out.
        seconds: That it took, since it went on if it was interrupted.
        weights_bytes: Of its checkpoint.
    """

    name: str
    step: str
    settings: dict[str, Any]
    exit_code: int
    seconds: float
    weights_bytes: int


def pipeline(config: PipelineConfig) -> tuple[Done, ...]:
    """Run the steps of a recipe in their order.

    A recipe is TOML: ``[defaults]`` with settings for every step that has them, and a ``[[steps]]``
    for each, with ``step = "prune"`` and that step's own settings, in the words of its flags
    (``num_train_epochs = 2``). A step reads what the one before it wrote, unless it has a ``model``
    or ``teacher`` of its own; ``"@NAME"`` as a value is the directory of the step that has
    ``name = "NAME"``. Paths are seen from where the command runs. All settings are checked before
    anything runs. ``output_dir`` gets a directory a step, and the journal.

    Returns:
        What each step came to.

    Raises:
        InputError: The recipe can't be read, names an unknown step or setting, or ``output_dir`` is
            not empty.
        ResumeError: The journal is of another recipe.
        EdgeBertError: A step failed; see the steps. What was done before stays.
    """
    links = read_recipe(config.recipe, config.output_dir)
    done = _begin(config, links)
    for number, link in enumerate(links, start=1):
        if number <= len(done):
            logger.info("step %d of %d, %s: done before", number, len(links), link.name)
            continue
        logger.info("step %d of %d, %s", number, len(links), link.name)
        done.append(_run(link))
        _save(config.output_dir, done)
    return tuple(done)


def read_recipe(path: Path, output_dir: Path) -> tuple[Link, ...]:
    """Read a recipe, and check every setting in it.

    Raises:
        InputError: See `pipeline`.
    """
    try:
        recipe = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"The recipe {path} can't be read as TOML ({error}).") from error
    defaults, steps = recipe.pop("defaults", {}), recipe.pop("steps", [])
    if recipe or not isinstance(defaults, dict) or not _are_tables(steps):
        raise InputError(
            f"The recipe {path} must hold a table [defaults], which may be absent, and one "
            f"[[steps]] or more{f', not {sorted(recipe)}' if recipe else ''}."
        )
    used: set[str] = set()
    links: list[Link] = []
    for number, table in enumerate(steps, start=1):
        link = _link(number, dict(table), defaults, links, output_dir, used)
        if link.name in [one.name for one in links]:
            raise InputError(f"Two steps of the recipe have the name {link.name!r}; change one.")
        links.append(link)
    if unknown := sorted(set(defaults) - used):
        raise InputError(f"No step of the recipe has the settings {unknown} of [defaults].")
    return tuple(links)


def _are_tables(steps: Any) -> bool:
    return isinstance(steps, list) and bool(steps) and all(isinstance(one, dict) for one in steps)


def _link(
    number: int,
    table: dict[str, Any],
    defaults: dict[str, Any],
    before: list[Link],
    output_dir: Path,
    used: set[str],
) -> Link:
    """Make a step of its table; adds to ``used`` which of the defaults it has."""
    import compress

    step = table.pop("step", None)
    if step not in STEPS:
        raise InputError(f"Step {number} of the recipe is {step!r}; use one of {', '.join(STEPS)}.")
    name = table.pop("name", f"{number:02}-{step}")
    if not isinstance(name, str) or Path(name).name != name or name.startswith((".", "@")):
        raise InputError(f"Step {number} has the name {name!r}; it must do as a directory's name.")
    kind = getattr(compress, f"{step.title()}Config")
    known = {field.name for field in dataclasses.fields(kind)}
    if own := sorted({"output_dir", *MANNERS} & set(table)):
        raise InputError(f"Step {number}, {step}, has {own}, which the pipeline itself gives.")
    values = {key: value for key, value in defaults.items() if key in known}
    used.update(values)
    values = {key: _resolve(value, before) for key, value in {**values, **table}.items()}
    if before:
        reads = next(word for word in _INPUTS if word in known)
        values.setdefault(reads, str(before[-1].config.output_dir))
    values["output_dir"] = str(output_dir / name)
    place = f"Step {number} of the recipe, {name},"
    if missing := missing_settings(kind, values):
        raise InputError(f"{place} lacks {', '.join(missing)}.")
    try:
        config = kind(**revive_settings(kind, values, source=place))
    except InputError as error:
        raise InputError(str(error) if place in str(error) else f"{place} {error}") from error
    return Link(name=name, step=step, config=config)


def _resolve(value: Any, before: list[Link]) -> Any:
    """Put the directory of an earlier step in place of ``@NAME``."""
    if isinstance(value, list):
        return [_resolve(item, before) for item in value]
    if not isinstance(value, str) or not value.startswith("@"):
        return value
    for link in before:
        if link.name == value[1:]:
            return str(link.config.output_dir)
    names = ", ".join(link.name for link in before) or "none"
    raise InputError(f"{value!r} names no earlier step of the recipe; there are: {names}.")


def _begin(config: PipelineConfig, links: tuple[Link, ...]) -> list[Done]:
    """Read the journal of a chain that goes on, or clear the place for a new one."""
    path = config.output_dir / JOURNAL_NAME
    if config.resume and path.is_file():
        done = [Done(**one) for one in json.loads(path.read_text(encoding="utf-8"))["steps"]]
        for one, link in zip(done, links, strict=False):
            if (one.name, one.step, one.settings) != (link.name, link.step, _settings(link)):
                raise ResumeError(
                    f"{config.output_dir / one.name} was made by a step with other settings than "
                    f"{link.name} of {config.recipe} has. Give the recipe of then, another "
                    "--output-dir, or start over with --overwrite-output-dir."
                )
        if len(done) > len(links):
            raise ResumeError(
                f"{path} has {len(done)} finished steps, and {config.recipe} {len(links)}."
            )
        return done
    if config.resume:
        logger.info("Nothing to resume in %s: starting from the beginning.", config.output_dir)
    check_output(config.output_dir, overwrite=config.overwrite_output_dir)
    _require_outside(config.output_dir, links)
    shutil.rmtree(config.output_dir, ignore_errors=True)
    config.output_dir.mkdir(parents=True)
    _save(config.output_dir, [])
    return []


def _require_outside(output_dir: Path, links: tuple[Link, ...]) -> None:
    """Refuse an input that lies where this run works: starting would delete it."""
    made = {str(link.config.output_dir) for link in links}
    for link in links:
        for name, value in _settings(link).items():
            for given in value if isinstance(value, list) else [value]:
                if not isinstance(given, str) or given in made or not Path(given).exists():
                    continue
                if Path(given).absolute().is_relative_to(output_dir.absolute()):
                    raise InputError(
                        f"{name} {given} of {link.name} lies in {output_dir}, which this run would "
                        "clear; move it elsewhere or give another --output-dir."
                    )


def _run(link: Link) -> Done:
    from importlib import import_module

    # What stands there is a step's that ended before the journal said so: it is whole, and a step
    # that can be resumed knows it; another is done again.
    manner = "resume" if hasattr(link.config, "resume") else "overwrite_output_dir"
    begun = any(link.config.output_dir.parent.glob(f"{glob.escape(link.name)}*"))
    start = time.monotonic()
    code = import_module(f"compress.{link.step}").command(
        dataclasses.replace(link.config, **{manner: begun})
    )
    directory: Path = link.config.output_dir
    return Done(
        name=link.name,
        step=link.step,
        settings=_settings(link),
        exit_code=code or EXIT_DONE,
        seconds=round(time.monotonic() - start, 1),
        weights_bytes=sum(file.stat().st_size for file in directory.glob("model*.safetensors")),
    )


def _settings(link: Link) -> dict[str, Any]:
    return {k: v for k, v in config_to_dict(link.config).items() if k not in MANNERS}


def _save(output_dir: Path, done: list[Done]) -> None:
    write_json(output_dir / JOURNAL_NAME, {"steps": [dataclasses.asdict(one) for one in done]})


def format_chain(done: tuple[Done, ...]) -> str:
    """Write what each step came to as a table for a terminal, in plain ASCII."""
    from compress.reporting import format as show
    from compress.reporting.table import aligned

    rows = [["step", "FP32 weights", "seconds"]]
    rows += [[one.name, show.megabytes(one.weights_bytes), f"{one.seconds:.0f}"] for one in done]
    return "\n".join(aligned([[*row, ""] for row in rows]))


def command(config: PipelineConfig) -> int:
    """Run the chain, and print what each step came to."""
    done = pipeline(config)
    print(format_chain(done))
    return max(one.exit_code for one in done)


sys.modules[__name__].__class__ = StepModule

if __name__ == "__main__":
    sys.exit(main(PipelineConfig, command, prog="python -m compress.pipeline"))
