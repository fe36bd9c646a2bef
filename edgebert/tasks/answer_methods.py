"""`Runtime`'s method for ``question-answering``: questions with contexts in, answers out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from edgebert.errors import InputError
from edgebert.inputs import check_count, split_pairs
from edgebert.tasks.answers import AnswerWindow, best_answers
from edgebert.tasks.core import RuntimeCore
from edgebert.text.windows import TokenOutputs
from edgebert.types import Answer

_PAIRS = "question_context_pairs"
_OUTPUTS = ("start_logits", "end_logits")


class AnswerMethods(RuntimeCore):
    """Answers to questions; `edgebert.Runtime` has them."""

    def answer(
        self,
        question_context_pairs: Iterable[tuple[str, str]],
        *,
        top_k: int = 1,
        on_long: str | None = None,
    ) -> list[list[Answer]]:
        """Find the answer to each question in its context.

        A long context is run in windows, each with the whole question; the best places of all
        windows are compared. A model that was trained on questions without an answer says
        ``Answer(text="", start=0, end=0)`` where the score of none is above that of the best place
        by more than the bundle's ``no_answer_threshold``; see `best_answers`.

        Args:
            question_context_pairs: Tuples of a question and the text that may hold its answer.
            top_k: How many answers to give at most; no two of them overlap.
            on_long: See the class. ``truncate`` cuts the longer of question and context.

        Returns:
            For each pair, in order, 1 to ``top_k`` answers, the best first.

        Raises:
            TaskError: The bundle is not for ``question-answering``.
            InputError: A pair or an argument is not allowed, a context is empty, or a question
                leaves no room for its context; the pair's index is named.
        """
        self._require("answer")
        check_count("top_k", top_k)
        questions, contexts = split_pairs(
            question_context_pairs, name=_PAIRS, of="tuples (question, context)"
        )
        if not questions:
            return []
        if contexts is None:
            raise InputError(f"{_PAIRS}[0] is one text; give tuples (question, context).")
        _check_contexts(contexts)
        names = [f"{_PAIRS}[{i}]" for i in range(len(questions))]
        windowed = self._windowed(questions, contexts, on_long, side=1, names=names)
        for i, text in enumerate(windowed.texts):
            if not (text.text_ids == 1).any():
                raise InputError(
                    f"{_PAIRS}[{i}][1], the context, has no token that the model knows of; give a "
                    "text that may hold the answer."
                )
        outputs = self._token_outputs(windowed, _OUTPUTS)
        pairs = zip(outputs, contexts, strict=True)
        return [self._best(one, context, top_k=top_k) for one, context in pairs]

    def _best(self, outputs: TokenOutputs, context: str, *, top_k: int) -> list[Answer]:
        answers = best_answers(
            answer_windows(outputs),
            context,
            max_answer_length=self._manifest.max_answer_length,
            top_k=top_k,
            no_answer_threshold=self._manifest.no_answer_threshold,
        )
        dropped = outputs.text.dropped_tokens
        return [replace(answer, dropped_tokens=dropped) for answer in answers]


def answer_windows(outputs: TokenOutputs) -> list[AnswerWindow]:
    """Give a pair's windows as `edgebert.tasks.answers` reads them."""
    return [
        AnswerWindow(
            start_logits=values["start_logits"],
            end_logits=values["end_logits"],
            offsets=window.encoding.offsets,
            is_context=window.encoding.text_ids == 1,
        )
        for window, values in zip(outputs.windows, outputs.values, strict=True)
    ]


def _check_contexts(contexts: list[str]) -> None:
    for i, context in enumerate(contexts):
        if not context.strip():
            raise InputError(
                f"{_PAIRS}[{i}][1], the context, is empty; give a text that may hold the answer."
            )
