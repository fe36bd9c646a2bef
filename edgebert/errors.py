"""Every error that edgebert raises on purpose.

::

    EdgeBertError                  one root: an app can catch all of ours
    ├── InputError                 (ValueError) an argument or a text that we can't mean
    │   └── DataError              a row or a file of the caller's data
    ├── BundleError                a bundle that can't be used
    │   ├── ManifestError          edgebert.json is not what the format says
    │   ├── DamagedBundleError     a file is missing, cut or changed
    │   └── SelfTestError          the golden outputs are not reproduced on this machine
    ├── TaskError                  a method that doesn't fit the bundle's task
    ├── BackendError
    │   ├── BackendUnavailableError  (ImportError) the engine is not installed
    │   └── BackendRunError          (RuntimeError) the engine failed, or gave NaN or infinity
    ├── ModelError                 a checkpoint that can't be used: not found, no head, wrong labels
    ├── ResumeError                a run that can't be resumed with these settings
    └── GateError                  an artifact was refused by its gate
"""

from __future__ import annotations


class EdgeBertError(Exception):
    """The root of all errors of ours. Its message is one line and names the remedy.

    Attributes:
        exit_code: What a command that ends with this error gives to the shell.
    """

    exit_code = 1


class InputError(EdgeBertError, ValueError):
    """An argument, a setting or a text has a value that is not allowed."""


class DataError(InputError):
    """A file or a row of the caller's data can't be used; the message names file and line."""


class BundleError(EdgeBertError):
    """A bundle can't be used."""


class ManifestError(BundleError):
    """``edgebert.json`` is missing, unreadable, or not what the format says."""


class DamagedBundleError(BundleError):
    """A file of the bundle is missing, cut short or changed."""


class SelfTestError(BundleError):
    """An artifact doesn't reproduce its golden outputs on this machine."""


class TaskError(EdgeBertError):
    """A method was called that doesn't fit the bundle's task."""


class BackendError(EdgeBertError):
    """Something is wrong with an engine."""


class BackendUnavailableError(BackendError, ImportError):
    """The engine behind a backend is not installed."""

    def __init__(self, backend: str, *, extra: str, missing: str) -> None:
        super().__init__(
            f"Backend {backend!r} needs the package {missing!r}, which is not installed. "
            f"Install it with: pip install 'edgebert[{extra}]'"
        )
        self.backend = backend
        self.extra = extra


class BackendRunError(BackendError, RuntimeError):
    """The engine failed on a model or a batch, or its output holds NaN or infinity."""


class ModelError(EdgeBertError):
    """A teacher or checkpoint can't be found, or can't serve the task."""


class ResumeError(EdgeBertError):
    """An unfinished run can't be resumed with the settings or the data given."""


class GateError(EdgeBertError):
    """A gate refused an artifact; the message has its numbers and its limits."""

    exit_code = 3


class StoreError(EdgeBertError):
    """A vector store failed at something that may succeed when it's done again."""


class PackageMissingError(EdgeBertError, ImportError):
    """A package that an extra brings isn't installed; the message has the line that installs it."""
