"""``python -m edgebert`` is the ``edgebert`` command."""

import sys

from edgebert.cli import main

if __name__ == "__main__":
    sys.exit(main())
