"""The copies of train rows with other words, in a file that a reader can look at."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from compress.data.augment import exchange, exchangeable_words, pick, plan_copies
from compress.data.task_data import Split, make_split
from compress.training.interrupt import catch_interrupt
from compress.training.progress import Progress
from edgebert.errors import DataError
from edgebert.files import write_json

if TYPE_CHECKING:
    from compress.distillation.config import DistillConfig
    from compress.distillation.word_candidates import WordCandidates
    from edgebert.text.tokenizer import Tokenizer

ROWS_NAME = "rows.jsonl"
_META = "rows.json"
_CHUNK_ROWS = 64  # a killed run makes the copies of at most so many rows again


class RowCopies:
    """Makes the copies of some rows at a time, as lines of JSON.

    Args:
        train: The rows.
        tokenizer: Of what proposes words.
        candidates: Proposes words.
        config: How many copies, how much of them is exchanged, the seed.
    """

    def __init__(
        self,
        train: Split,
        tokenizer: Tokenizer,
        candidates: WordCandidates,
        config: DistillConfig,
    ) -> None:
        self._train, self._tokenizer, self._candidates = train, tokenizer, candidates
        self._config = config

    def __len__(self) -> int:
        return len(self._train)

    def lines(self, start: int, stop: int) -> str:
        """Give the copies of rows ``start`` to before ``stop``, a line each."""
        train, config = self._train, self._config
        pairs = None if train.text_pairs is None else train.text_pairs[start:stop]
        encodings = self._tokenizer.encode(
            train.texts[start:stop], pairs, max_length=config.max_length
        )
        rows = [_texts_of(train, row) for row in range(start, stop)]
        words = [exchangeable_words(*one) for one in zip(rows, encodings, strict=True)]
        plans = [
            plan_copies(
                len(its),
                copies=config.augment,
                probability=config.augment_probability,
                seed=config.seed,
                row=row,
            )
            for row, its in enumerate(words, start=start)
        ]
        wanted = [
            (at, word)
            for at, plan in enumerate(plans)
            for word in sorted({word for copy in plan for word in copy})
        ]
        proposed = self._candidates.propose(
            [(encodings[at], words[at][word].tokens) for at, word in wanted]
        )
        found = dict(zip(wanted, proposed, strict=True))
        text = ""
        for at, (texts, its, plan) in enumerate(zip(rows, words, plans, strict=True)):
            copies = [
                exchange(texts, its, {w: pick(found[at, w], where) for w, where in copy.items()})
                for copy in plan
            ]
            different = [copy for copy in dict.fromkeys(copies) if copy != texts]
            text += "".join(_line(start + at, texts, copy) for copy in different)
        return text


def _texts_of(train: Split, row: int) -> tuple[str, ...]:
    texts = (train.texts[row],)
    return texts if train.text_pairs is None else (*texts, train.text_pairs[row])


def _line(row: int, texts: tuple[str, ...], copy: tuple[str, ...]) -> str:
    """Write a copy with what it was made of, in the columns of a file for ``--train-file``."""
    named = dict(zip(("text", "text_pair"), copy, strict=False))
    named |= dict(zip(("original", "original_pair"), texts, strict=False))
    return json.dumps({"row": row, **named}, ensure_ascii=False) + "\n"


def write_copies(directory: Path, copies: RowCopies, *, key: str) -> None:
    """Make what is missing of ``rows.jsonl``; a killed run goes on after its last 64 rows.

    Args:
        directory: Of this file alone.
        copies: What makes them.
        key: Names all that they follow from. What is there under another key is removed.

    Raises:
        KeyboardInterrupt: After SIGINT, with the finished rows kept.
    """
    path = directory / ROWS_NAME
    done, size = _kept(directory, key)
    with (
        catch_interrupt() as interrupt,
        Progress(len(copies), label="augment", unit="rows", done=done) as progress,
        path.open("r+b" if path.exists() else "wb") as stream,
    ):
        stream.truncate(size)
        stream.seek(size)
        for start in range(done, len(copies), _CHUNK_ROWS):
            done = min(start + _CHUNK_ROWS, len(copies))
            stream.write(copies.lines(start, done).encode())
            stream.flush()
            os.fsync(stream.fileno())
            state = {"key": key, "rows_done": done, "size_bytes": stream.tell()}
            write_json(directory / _META, state)
            progress.update(done)
            interrupt.stop(f"row {done} of the augmented texts")


def _kept(directory: Path, key: str) -> tuple[int, int]:
    """Read how many rows are done and their bytes; empty the directory if the key is another."""
    try:
        kept = json.loads((directory / _META).read_text(encoding="utf-8"))
        there = (directory / ROWS_NAME).stat().st_size
    except (OSError, ValueError):
        kept, there = {}, 0
    if kept.get("key") == key and there >= kept["size_bytes"]:
        return int(kept["rows_done"]), int(kept["size_bytes"])
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return 0, 0


def read_copies(directory: Path, *, source: str) -> Split:
    """Read ``rows.jsonl`` as a split without labels.

    Args:
        directory: Where it is.
        source: What a report says of it.

    Raises:
        DataError: There is no copy.
    """
    with (directory / ROWS_NAME).open(encoding="utf-8") as stream:
        rows = [json.loads(line) for line in stream]
    if not rows:
        raise DataError(
            "--augment found no word that it could exchange in any train row: a word needs a "
            "letter, and tokens of its own within --max-length."
        )
    pairs = [row["text_pair"] for row in rows] if "text_pair" in rows[0] else None
    return make_split("augmented", source, [row["text"] for row in rows], text_pairs=pairs)
