"""Data of every task that a model of one layer can learn in a second, made by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from tests.tiny import WORDS

FILLERS = ("the film", "the plot", "very very", "not the film", "the plot 7")
GOOD, DULL = ("good", "fun"), ("bad", "dull")
ENDING = {"token-classification": "conll"}


def write_task(folder: Path, task: str) -> Path:
    """Write a file of some 40 to 60 rows; give its path."""
    path = folder / f"{task}.{ENDING.get(task, 'jsonl')}"
    if task == "token-classification":
        path.write_text("\n".join(_sentences()) + "\n", encoding="utf-8")
        return path
    rows = {
        "regression": _scores,
        "question-answering": _questions,
        "multiple-choice": _choices,
        "fill-mask": _texts,
        "feature-extraction": _pairs,
    }[task]()
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def _scores() -> Iterator[dict[str, Any]]:
    for filler, word in product((*FILLERS, *"12345"), (*GOOD, *DULL)):
        yield {"text": f"{filler} {word}", "score": float(word in GOOD)}


def _sentences() -> Iterator[str]:
    """A ``hello world`` is a greeting, wherever it stands."""
    for filler, word in product(FILLERS, WORDS[:8]):
        for one in (*filler.split(), word):
            yield f"{one}\tO"
        yield from ("hello\tB-GREETING", "world\tI-GREETING", f"{word}\tO", "")


def _questions() -> Iterator[dict[str, Any]]:
    """The answer is the word of praise or blame."""
    for filler, word in product((*FILLERS, "hello", "hello world"), (*GOOD, *DULL)):
        context = f"{filler} {word} the film"
        answers = {"text": [word], "answer_start": [context.rindex(word)]}
        yield {"question": "hello ?", "context": context, "answers": answers}


def _choices() -> Iterator[dict[str, Any]]:
    """The right one is the word of praise, of two or of three."""
    for number, (prompt, good, dull) in enumerate(product(FILLERS, GOOD, DULL)):
        choices = [f"{dull} film", "the plot"][: 1 + number % 2]
        place = number % (len(choices) + 1)
        choices.insert(place, f"{good} film")
        yield {"prompt": prompt, "choices": choices, "label": place}


def _texts() -> Iterator[dict[str, Any]]:
    for filler, word in product(FILLERS, (*GOOD, *DULL)):
        yield {"text": f"hello world {filler} {word} !"}


def _pairs() -> Iterator[dict[str, Any]]:
    """Alike where both praise or both blame."""
    for a, b, filler in product((*GOOD, *DULL), (*GOOD, *DULL), FILLERS[:3]):
        score = 5.0 if (a in GOOD) == (b in GOOD) else 0.0
        yield {"sentence1": f"{filler} {a}", "sentence2": b, "score": score}
