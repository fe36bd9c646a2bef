"""Turn what the ``tokenizers`` library raises into an error of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgebert.errors import DamagedBundleError, EdgeBertError

_NOT_OF_THE_LIBRARY = (EdgeBertError, KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError)


@contextmanager
def blamed_on(path: Path) -> Iterator[None]:
    """Blame the file of a tokenizer for what its library can't do with it.

    A file can be read and still fail at the first text: an unknown token that is not in the
    vocabulary, a template with a name that it doesn't explain. Where the library's Rust code has
    not foreseen it, that is a panic, and no ``Exception``.

    Raises:
        DamagedBundleError: In place of what the library raised.
    """
    try:
        yield
    except _NOT_OF_THE_LIBRARY:
        raise
    except BaseException as error:  # a panic has no type that could be imported
        what = " ".join(str(error).split()) or type(error).__name__
        raise DamagedBundleError(f"{path} is damaged ({what:.300}); make it again.") from error
