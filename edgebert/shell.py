"""What every command line of ours shares: exit codes, logging, one-line errors."""

from __future__ import annotations

import errno
import logging
import os
import sys
from collections.abc import Callable

from edgebert.errors import EdgeBertError

logger = logging.getLogger(__name__)

# What an install may lack on purpose: the extra `compress` brings it.
_TOOLCHAIN = {
    "torch",
    "transformers",
    "safetensors",
    "datasets",
    "onnx",
    "nncf",
    "optuna",
    "pyarrow",
}

EXIT_DONE, EXIT_ERROR, EXIT_USAGE, EXIT_GATE, EXIT_INTERRUPTED = 0, 1, 2, 3, 130


_NO_MEMORY = (
    "Not enough memory. Use smaller batches (--per-device-train-batch-size, with "
    "--gradient-accumulation-steps for the same step), a shorter --max-length, or a smaller model."
)


_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
_ROOM = ". Make room there and run it again, a training with --resume."


def configure_logging(*, level: int = logging.INFO) -> None:
    """Send our log to stderr; stdout belongs to the result."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    for name in ("edgebert", "runtimes", "compress", "__main__"):
        logging.getLogger(name).setLevel(level)


def run_command(action: Callable[[], int]) -> int:
    """Run a command's body and turn what it raises into an exit code and one line on stderr.

    Returns:
        What ``action`` returned; the error's own code for one of ours (1, or 3 for a gate); 1 for
        an error of the system (disk full, no permission), lack of memory or of a package of the
        toolchain; 130 after Ctrl+C.
    """
    try:
        return action()
    except EdgeBertError as error:
        _say(str(error))
        return error.exit_code
    except KeyboardInterrupt as interrupt:
        _say(str(interrupt) or "interrupted")
        return EXIT_INTERRUPTED
    except MemoryError:
        _say(_NO_MEMORY)
        return EXIT_ERROR
    except BrokenPipeError:  # the reader of our stdout has gone, as in `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_ERROR
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        _say(f"{error.strerror or error}{where}{_ROOM if error.errno in _FULL else ''}")
        return EXIT_ERROR
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in _TOOLCHAIN:  # a mistake of ours
            raise
        _say(
            f"This needs the package {error.name!r}, which is not installed. "
            "Install it with: pip install 'edgebert[compress]'"
        )
        return EXIT_ERROR
    except ImportError as error:
        if not _was_interrupted(error):
            raise
        _say("interrupted")
        return EXIT_INTERRUPTED
    except RuntimeError as error:
        if "memory" not in str(error):  # torch and the engines have no type for it
            raise
        _say(_NO_MEMORY)
        return EXIT_ERROR


def _was_interrupted(error: BaseException | None) -> bool:
    """Tell whether Ctrl+C is behind an error: an engine makes of it that it can't be imported."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _say(message: str) -> None:
    print("error: " + " ".join(message.split()), file=sys.stderr)
