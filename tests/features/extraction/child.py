"""A process that extracts, slowly, in small blocks: ``python -m … BUNDLE INPUT URI``.

It prints a line when a block is stored, so that whoever kills it knows where it is; and where
`PHASES` names a file, it adds a line there with each phase that begins.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from edgebert.commands import extract
from edgebert.features import pipeline
from edgebert.features.journal import Journal
from edgebert.features.model import Model
from edgebert.shell import configure_logging, run_command

BLOCK_ROWS = 16
PHASES = "EDGEBERT_TEST_PHASES"


def main() -> int:

    parser = argparse.ArgumentParser()
    extract.add_arguments(parser)
    args = parser.parse_args(sys.argv[1:])
    configure_logging()
    pipeline.BLOCK_ROWS = BLOCK_ROWS
    embed = Model.embed

    def slow(self, prepared):
        time.sleep(0.01)
        return embed(self, prepared)

    Model.embed = slow  # type: ignore[method-assign]
    for name in ("write", "remove"):
        told(name, "writing", "between writes")
    told("close", "closing", "closing")
    note("opening")
    code = run_command(lambda: extract.run(args))
    note("ended" if code == 0 else "failed")
    return code


def told(name, before, after):
    """Let a method of the journal tell that it begins, and that it's done."""
    method = getattr(Journal, name)

    def call(self, *parts):
        note(before)
        method(self, *parts)
        note(after)
        if name == "write":
            print("stored", file=sys.__stdout__, flush=True)  # sys.stdout is the command's

    setattr(Journal, name, call)


def note(phase):
    if path := os.environ.get(PHASES):
        with Path(path).open("a") as stream:
            stream.write(f"{phase}\n")


if __name__ == "__main__":
    sys.exit(main())
