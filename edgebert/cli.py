"""The ``edgebert`` command: finds the command's module and turns its end into an exit code."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module

from edgebert import __version__
from edgebert.commands import COMMANDS
from edgebert.errors import InputError
from edgebert.shell import configure_logging, run_command


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``edgebert COMMAND …``.

    Args:
        argv: The arguments after the program's name; None takes the process's own.

    Returns:
        The exit code: 0 done, 1 a known error, 3 a gate refused, 130 interrupted.

    Raises:
        SystemExit: With 2 after a wrong usage, with 0 after ``--help`` and ``--version``.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] not in COMMANDS:
        _build_parser().parse_args(arguments or ["--help"])
    return run_command(partial(_run, arguments))


def _run(arguments: list[str]) -> int:
    """Import the command's module, which takes a while and may be interrupted, and run it."""
    if sys.stdout is None:  # as after `>&-`
        raise InputError("stdout is closed, so there is no place for the result; redirect it.")
    command = import_module(f"edgebert.commands.{arguments[0].replace('-', '_')}")
    parser = argparse.ArgumentParser(
        prog=f"edgebert {arguments[0]}",
        description=COMMANDS[arguments[0]].capitalize() + ".",
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    # Intermixed: else `BUNDLE --json TEXT` would leave no place for TEXT.
    args = parser.parse_intermixed_args(arguments[1:])
    if check := getattr(args, "check_usage", None):
        check(args)
    configure_logging()
    _print_utf8()
    code: int = command.run(args)
    sys.stdout.flush()  # here, where a closed pipe is a known end
    return code


def _build_parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS)) + 2
    parser = argparse.ArgumentParser(
        prog="edgebert",
        description="Run compressed BERT students on any CPU, verified where they land.",
        epilog="commands:\n"
        + "\n".join(f"  {name:{width}}{summary}" for name, summary in COMMANDS.items())
        + "\n\n`edgebert COMMAND --help` tells the arguments of one.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"edgebert {__version__}")
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", help="see below")
    return parser


def _print_utf8() -> None:
    """Make stdout UTF-8 whatever the locale: a label or a text may be in any script."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
