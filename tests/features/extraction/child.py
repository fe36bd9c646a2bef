"""A process that extracts, slowly, in small blocks: ``python -m … BUNDLE INPUT URI``.

It prints a line when a block is stored, so that whoever kills it knows where it is.
"""

from __future__ import annotations

import argparse
import sys
import time

from edgebert.commands import extract
from edgebert.features import pipeline
from edgebert.features.journal import Journal
from edgebert.features.model import Model
from edgebert.shell import configure_logging, run_command

BLOCK_ROWS = 16


def main() -> int:

    parser = argparse.ArgumentParser()
    extract.add_arguments(parser)
    args = parser.parse_args(sys.argv[1:])
    configure_logging()
    pipeline.BLOCK_ROWS = BLOCK_ROWS
    embed, write = Model.embed, Journal.write

    def slow(self, prepared):
        time.sleep(0.01)
        return embed(self, prepared)

    def told(self, *parts):
        write(self, *parts)
        print("stored", file=sys.__stdout__, flush=True)  # sys.stdout is the command's

    Model.embed, Journal.write = slow, told  # type: ignore[method-assign]
    return run_command(lambda: extract.run(args))


if __name__ == "__main__":
    sys.exit(main())
