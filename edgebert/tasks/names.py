"""Which method fits which task."""

from __future__ import annotations

from typing import NoReturn

from edgebert.errors import TaskError
from edgebert.formats.manifest import Manifest

METHODS: dict[str, tuple[str, ...]] = {
    "text-classification": ("classify",),
    "regression": ("score",),
    "token-classification": ("tag",),
    "question-answering": ("answer",),
    "multiple-choice": ("choose",),
    "fill-mask": ("fill_mask",),
    "feature-extraction": ("encode", "encode_iter", "encode_tokens", "similarity", "rank"),
}
OF_PAIRS = {"regression": ("similarity", "rank")}  # of a model that was trained on pairs of texts
ANY_TASK = ("tokenize", "run")


def fitting_methods(manifest: Manifest) -> tuple[str, ...]:
    """Name the methods of a bundle's task."""
    maybe_pairs = manifest.pairs is not False
    return METHODS[manifest.task] + (OF_PAIRS.get(manifest.task, ()) if maybe_pairs else ())


class TaskMethods:
    """Refuses the methods of other tasks."""

    _manifest: Manifest

    def _require(self, method: str) -> None:
        if method not in fitting_methods(self._manifest):
            self._refuse(method)

    def _refuse(self, method: str) -> NoReturn:
        fitting = [f"{name}()" for name in (*fitting_methods(self._manifest), *ANY_TASK)]
        raise TaskError(
            f"{method}() doesn't fit a {self._manifest.task} bundle; "
            f"use {', '.join(fitting[:-1])} or {fitting[-1]}."
        )
