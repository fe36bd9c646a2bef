"""A step's settings are one dataclass: its flags, its ``run.json`` and its Python call.

A flag's name is the field's in kebab-case, its type the field's annotation, its help the field's.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from edgebert.errors import InputError
from edgebert.files import write_json
from edgebert.shell import EXIT_DONE, EXIT_USAGE, configure_logging, run_command

Config = TypeVar("Config")

RUN_NAME = "run.json"
# how a run is asked for, not what it computes: a run.json doesn't replay it
MANNERS = ("resume", "overwrite_output_dir")


def option(
    default: Any = dataclasses.MISSING,
    *,
    help: str,  # noqa: A002  the field's term in argparse
    aliases: Sequence[str] = (),
    positional: bool = False,
) -> Any:  # a dataclass field stands where a value of its annotation is declared
    """Declare a setting: a dataclass field with the help of its flag.

    Args:
        default: Of the field; without one the flag is required.
        help: One phrase; the default is added to it.
        aliases: More names of the flag, without dashes in front.
        positional: Whether the command line has the value alone, without a flag.
    """
    metadata = {"help": help, "aliases": tuple(aliases), "positional": positional}
    return dataclasses.field(default=default, metadata=metadata)


def flag(name: str) -> str:
    """Write a setting as its flag, like ``--max-length``."""
    return "--" + name.replace("_", "-")


def build_parser(
    config: type[Any], *, prog: str, tables: Mapping[str, Callable[[], str]] = MappingProxyType({})
) -> argparse.ArgumentParser:
    """Make the command line of a settings class, with ``--config run.json`` to replay one.

    Args:
        config: The settings class.
        prog: How the command is called.
        tables: Flags that print a text and stop, like ``--list-teachers``, by name.
    """
    summary = (config.__doc__ or "").strip().splitlines()[0]
    parser = argparse.ArgumentParser(prog=prog, description=summary, allow_abbrev=False)
    parser.add_argument("--config", type=Path, help="run.json to replay; flags win over it")
    for name, text in tables.items():
        parser.add_argument(f"--{name}", action=_Print, text=text, help="print it and stop")
    hints = typing.get_type_hints(config)
    for field in dataclasses.fields(config):
        aliases = field.metadata.get("aliases", ())
        if field.metadata.get("positional"):
            parser.add_argument(
                field.name, nargs="?", default=None, **_argument(hints[field.name], field)
            )
            continue
        parser.add_argument(
            *(flag(name) for name in (field.name, *aliases)),
            dest=field.name,
            default=argparse.SUPPRESS,
            **_argument(hints[field.name], field),
        )
    return parser


class _Print(argparse.Action):
    def __init__(self, *, text: Callable[[], str], **settings: Any) -> None:
        super().__init__(nargs=0, **{**settings, "default": argparse.SUPPRESS})
        self._text = text

    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        print(self._text())
        parser.exit()


def _argument(hint: Any, field: dataclasses.Field[Any]) -> dict[str, Any]:
    text = str(field.metadata.get("help", "")).replace("%", "%%")
    if field.default is not dataclasses.MISSING and field.default not in (None, (), False):
        text += f" (default: {str(field.default).replace('%', '%%')})"
    if _is_union(hint):  # Optional
        hint = next(kind for kind in typing.get_args(hint) if kind is not type(None))
    if hint is bool:  # --bf16 and --no-bf16, but --resume alone
        lone = field.default is False
        return {"action": "store_true" if lone else argparse.BooleanOptionalAction, "help": text}
    if typing.get_origin(hint) is Literal:
        return {"choices": typing.get_args(hint), "help": text}
    if typing.get_origin(hint) is tuple:  # repeatable
        return {"action": "append", "type": typing.get_args(hint)[0], "help": text}
    return {"type": hint, "help": text, "metavar": field.name.rsplit("_", 1)[-1].upper()}


def parse_config(config: type[Config], argv: Sequence[str], **parser_settings: Any) -> Config:
    """Build the settings from a command line; a wrong one ends the program with exit code 2.

    Args:
        config: The settings class.
        argv: The command line without the program.
        parser_settings: See `build_parser`.
    """
    parser = build_parser(config, **parser_settings)
    given = {k: v for k, v in vars(parser.parse_args(argv)).items() if v is not None}
    replay = given.pop("config", None)
    try:
        values = load_run(config, replay) if replay else {}
        values.update({k: tuple(v) if isinstance(v, list) else v for k, v in given.items()})
        if missing := missing_settings(config, values):
            parser.error(f"the following arguments are required: {', '.join(missing)}")
        return config(**values)
    except InputError as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        sys.exit(EXIT_USAGE)


def missing_settings(config: type[Any], values: Mapping[str, Any]) -> list[str]:
    """Name what is required and not among some values, as on the command line."""
    return [
        field.name if field.metadata.get("positional") else flag(field.name)
        for field in dataclasses.fields(config)
        if field.default is dataclasses.MISSING and field.name not in values
    ]


def config_to_dict(config: Any) -> dict[str, Any]:
    """Turn settings into what JSON can hold: paths as strings, tuples as lists."""
    return {k: _plain(v) for k, v in dataclasses.asdict(config).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    return [_plain(item) for item in value] if isinstance(value, (tuple, list)) else value


def command_line(config: Any, *, prog: str) -> str:
    """Write the command that makes a run again: its settings that aren't the defaults."""
    words = []
    for field in dataclasses.fields(config):
        value, name = getattr(config, field.name), flag(field.name)
        if value == field.default or field.name == "resume":
            continue
        if field.metadata.get("positional"):
            words.append(shlex.quote(str(value)))
            continue
        if isinstance(value, bool):
            words.append(name if value else f"--no-{name[2:]}")
        else:
            for item in value if isinstance(value, tuple) else (value,):
                words += [name, shlex.quote(str(item))]
    return " ".join([prog, *words])


def save_run(config: Any, directory: Path) -> None:
    """Write ``run.json``: the step's name and its settings, but not how this run was asked for."""
    settings = {k: v for k, v in config_to_dict(config).items() if k not in MANNERS}
    write_json(directory / RUN_NAME, {"step": type(config).__name__, **settings})


def check_values(config: Any) -> None:
    """Check every setting of a settings class against its annotation.

    Raises:
        InputError: A value is of another type, or not among those allowed.
    """
    hints = typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        value, hint = getattr(config, field.name), hints[field.name]
        kinds = typing.get_args(hint) if _is_union(hint) else (hint,)
        if not any(_fits(value, kind) for kind in kinds):
            allowed = " or ".join(_named(kind) for kind in kinds)
            raise InputError(f"{field.name} must be {allowed}, got {value!r}.")


def _fits(value: Any, kind: Any) -> bool:
    if typing.get_origin(kind) is Literal:
        return value in typing.get_args(kind)
    if typing.get_origin(kind) is tuple:
        return isinstance(value, tuple)
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def _named(kind: Any) -> str:
    if typing.get_origin(kind) is Literal:
        return "one of " + ", ".join(map(str, typing.get_args(kind)))
    return "None" if kind is type(None) else str(getattr(kind, "__name__", kind))


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def load_run(config: type[Any], path: Path) -> dict[str, Any]:
    """Read the settings of a ``run.json`` as keyword arguments of ``config``.

    Raises:
        InputError: It can't be read, is of another step, or has a setting that the step doesn't.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"--config {path} can't be read as JSON ({error}).") from error
    step = data.pop("step", config.__name__) if isinstance(data, dict) else None
    if step != config.__name__:
        raise InputError(f"--config {path} is of step {step!r}, not of {config.__name__!r}.")
    return revive_settings(config, data, source=f"--config {path}")


def revive_settings(config: type[Any], data: Mapping[str, Any], *, source: str) -> dict[str, Any]:
    """Turn settings from JSON or TOML into what a settings class takes: paths, tuples.

    Args:
        config: The settings class.
        data: By name.
        source: Where they come from, for the error.

    Raises:
        InputError: The class doesn't have one of them.
    """
    hints = typing.get_type_hints(config)
    names = {field.name for field in dataclasses.fields(config)}
    if unknown := set(data) - names:
        raise InputError(f"{source} has unknown settings {sorted(unknown)}.")
    return {name: _revive(hints[name], value) for name, value in data.items()}


def _revive(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    kinds = typing.get_args(hint) if _is_union(hint) else (hint,)
    if Path in kinds and isinstance(value, str):
        return Path(value)
    for kind in kinds:
        if typing.get_origin(kind) is tuple and isinstance(value, (list, str)):
            items = value if isinstance(value, list) else [value]  # once it took a single one
            return tuple(_revive(typing.get_args(kind)[0], item) for item in items)
    return value


def main(config: type[Config], step: Callable[[Config], int | None], **parser_settings: Any) -> int:
    """Run a step as a command: parse, log to stderr, turn errors into exit codes.

    Args:
        config: Its settings class.
        step: Takes the settings; what it returns is the exit code, None is 0.
        parser_settings: See `build_parser`.
    """
    configure_logging()
    settings = parse_config(config, sys.argv[1:], **parser_settings)
    return run_command(lambda: step(settings) or EXIT_DONE)


class StepModule(types.ModuleType):
    """A step's module that can be called like the function of its name.

    So ``compress.distill(config)`` works beside ``from compress.distill import distill``.
    """

    def __call__(self, *args: Any, **settings: Any) -> Any:  # the step's own signature
        """Run the step."""
        return getattr(self, self.__name__.rpartition(".")[2])(*args, **settings)
