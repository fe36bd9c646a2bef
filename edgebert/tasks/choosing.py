"""`Runtime`'s method for ``multiple-choice``: a prompt and choices in, the best choice out."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, pairwise
from typing import Any

from edgebert.inputs import split_choices
from edgebert.tasks.core import RuntimeCore
from edgebert.tasks.heads import softmax
from edgebert.types import Choice


class ChoosingMethods(RuntimeCore):
    """Which of several texts fits a prompt; `edgebert.Runtime` has it."""

    def choose(
        self, prompt_choices_pairs: Iterable[Any], *, on_long: str | None = None
    ) -> list[Choice]:
        """Give each prompt its best choice.

        Args:
            prompt_choices_pairs: Tuples ``(prompt, [choice, …])`` with one choice or more; their
                number may differ from prompt to prompt.
            on_long: See the class. The windows of a prompt with a choice, of which the longer one
                is cut, give the mean of their logits, each weighted by the tokens that are its own.

        Returns:
            One a prompt, in order. Scores of a prompt's choices add up to 1.

        Raises:
            TaskError: The bundle is not for ``multiple-choice``.
            InputError: A text or an argument is not allowed; its indexes are named.
        """
        self._require("choose")
        questions = split_choices(prompt_choices_pairs)
        rows = [(prompt, choice) for prompt, choices in questions for choice in choices]
        names = [
            f"prompt_choices_pairs[{i}] with choice {k}"
            for i, (_, choices) in enumerate(questions)
            for k in range(len(choices))
        ]
        windowed = self._windowed(*_columns(rows), on_long, names=names)
        logits = self._text_logits(windowed, width=1)[:, 0]
        dropped = windowed.dropped_tokens
        results = []
        borders = accumulate((len(choices) for _, choices in questions), initial=0)
        for (_, choices), (first, end) in zip(questions, pairwise(borders), strict=True):
            scores = softmax(logits[first:end])
            best = int(scores.argmax())
            results.append(
                Choice(
                    index=best,
                    text=choices[best],
                    score=float(scores[best]),
                    scores=tuple(map(float, scores)),
                    dropped_tokens=tuple(map(int, dropped[first:end])),
                )
            )
        return results


def _columns(rows: list[tuple[str, str]]) -> tuple[list[str], list[str]]:
    return [first for first, _ in rows], [second for _, second in rows]
