"""A process that writes batch after batch until it is killed: ``python -m … URI``."""

from __future__ import annotations

import itertools
import sys

from edgebert.features.stores import open_store
from tests.features.store_data import batch, identity_of

if __name__ == "__main__":
    with open_store(sys.argv[1]) as opened:
        opened.bind(identity_of())
        for number in itertools.count():
            opened.write(*batch(number))
            print(number, flush=True)
