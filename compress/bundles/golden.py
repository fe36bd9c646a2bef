"""Golden inputs and outputs: what a bundle's tokenizer and each artifact must give again."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from compress.data.task_data import Split
from compress.models.task_head import TaskHead
from edgebert.formats.manifest import Artifact, Golden
from edgebert.text.tokenizer import Tokenizer
from edgebert.types import FloatArray

logger = logging.getLogger(__name__)

A = TypeVar("A", bound=Artifact)

GOLDEN_TEXTS = 16
GOLDEN_TEXTS_WIDE = 6  # where an output is many numbers: a vector, or labels of each token
# Accents that compose, quotes, scripts without spaces, right-to-left, an emoji of several code
# points, a private-use character and a zero-width one: where tokenizers were seen to differ.
ODD_TEXT = "Na\u00efve cafe\u0301 \u201cquoted\u201d \u2014 \u6f22\u5b57 \u0639\u0631\u0628\u064a \U0001f469\u200d\U0001f52c \uf059 \u200bend"  # noqa: E501  one text


def golden_of(
    split: Split, tokenizer: Tokenizer, head: TaskHead, *, pairs: bool, max_length: int
) -> Golden:
    """Choose golden inputs: from the shortest text to the longest, and an odd one.

    Args:
        split: Dev.
        tokenizer: The bundle's.
        head: Of the task.
        pairs: Whether the bundle takes pairs: texts, a question with its context, or a prompt with
            one of its choices.
        max_length: Longest input in tokens.
    """
    seconds = _seconds(split) if pairs else None
    lengths = [len(text) for text in split.texts]
    if seconds is not None:
        lengths = [a + len(b) for a, b in zip(lengths, seconds, strict=True)]
    wide = head.per_token or head.task == "feature-extraction"
    count = GOLDEN_TEXTS_WIDE if wide else GOLDEN_TEXTS
    by_length = np.argsort(lengths, kind="stable")
    places = np.linspace(0, len(by_length) - 1, min(count - 1, len(by_length)))
    rows = by_length[np.unique(places.astype(np.int64))].tolist()
    texts = (*(split.texts[row] for row in rows), ODD_TEXT)
    text_pairs = None if seconds is None else (*(seconds[row] for row in rows), ODD_TEXT)
    encodings = tokenizer.encode(
        texts, text_pairs, max_length=max_length, masks=head.task == "fill-mask"
    )
    ids = tuple(tuple(map(int, encoding.input_ids)) for encoding in encodings)
    return Golden(texts=texts, text_pairs=text_pairs, input_ids=ids)


def _seconds(split: Split) -> list[str] | None:
    """Give the second text of each row: of several choices the first, the second, … by turns."""
    if split.choices is None:
        return split.text_pairs
    return [choices[row % len(choices)] for row, choices in enumerate(split.choices)]


def check_other_tokenizer(directory: Path, golden: Golden, *, max_length: int) -> None:
    """Warn when ``AutoTokenizer`` gives other ids than ours for a golden text."""
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(directory, local_files_only=True)
    texts = [list(golden.texts)] + ([list(golden.text_pairs)] if golden.text_pairs else [])
    found = theirs(*texts, truncation=True, max_length=max_length)["input_ids"]
    for text, ids, expected in zip(golden.texts, found, golden.input_ids, strict=True):
        if tuple(ids) != expected:
            logger.warning(
                "AutoTokenizer reads %.60r as other tokens than tokenizer.json does; vectors and "
                "labels of transformers and of edgebert will differ on such texts.",
                text,
            )
            return


def with_golden(artifact: A, outputs: Sequence[FloatArray], *, slack: float) -> A:
    """Put the golden outputs into an artifact, and the tolerance of its self-test.

    Args:
        artifact: Without golden outputs.
        outputs: Of this artifact, one a golden text.
        slack: What another CPU may differ by; at least a thousandth of the largest output is
            allowed (two FP32 engines on MiniLM differed by 5e-6).
    """
    largest = max(float(np.abs(row).max(initial=0.0)) for row in outputs)
    rounded = tuple(tuple(float(f"{value:.5g}") for value in row) for row in outputs)
    return replace(artifact, golden=rounded, tolerance=max(slack, 1e-3 * largest, 1e-6))


def int8_slack(int8: Sequence[FloatArray], fp32: Sequence[FloatArray]) -> float:
    """Tell how much INT8 outputs may differ between CPUs.

    Two CPUs that round alike differ by less than INT8 differs from FP32, as they share its error;
    one that saturates, as those without VNNI may, by several times as much. The limit is twice.
    """
    gaps = [float(np.abs(a - b).max(initial=0.0)) for a, b in zip(int8, fp32, strict=True)]
    return 2 * max(gaps)
