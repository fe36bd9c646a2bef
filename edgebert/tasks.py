"""Which method fits which task."""

from __future__ import annotations

from typing import NoReturn

from edgebert.errors import TaskError
from edgebert.manifest import Manifest

METHODS: dict[str, tuple[str, ...]] = {
    "text-classification": ("classify",),
    "token-classification": ("tag",),
    "question-answering": ("answer",),
    "feature-extraction": ("encode", "encode_iter", "encode_tokens", "similarity", "rank"),
    "fill-mask": (),
}
ANY_TASK = ("tokenize", "run")


class TaskMethods:
    """Refuses the methods of other tasks; those of tasks that this version can't run are here."""

    _manifest: Manifest

    def score(self, pairs: object) -> NoReturn:  # noqa: ARG002
        """Raise `TaskError`: bundles with a regression head are not read by this version."""
        self._refuse("score")

    def fill_mask(self, texts: object, *, top_k: int = 5) -> NoReturn:  # noqa: ARG002
        """Raise `TaskError`: masked language models have no method yet; `run` gives logits."""
        self._refuse("fill_mask")

    def choose(self, prompt_choices_pairs: object) -> NoReturn:  # noqa: ARG002
        """Raise `TaskError`: multiple choice is not read by this version."""
        self._refuse("choose")

    def _require(self, method: str) -> None:
        if method not in METHODS[self._manifest.task]:
            self._refuse(method)

    def _refuse(self, method: str) -> NoReturn:
        fitting = [f"{name}()" for name in (*METHODS[self._manifest.task], *ANY_TASK)]
        raise TaskError(
            f"{method}() doesn't fit a {self._manifest.task} bundle; "
            f"use {', '.join(fitting[:-1])} or {fitting[-1]}."
        )
