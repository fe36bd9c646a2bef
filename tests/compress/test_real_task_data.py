"""The public data sets in the form in which people meet them, where they are."""

from __future__ import annotations

import pytest

from compress.data.load import load_split
from compress.settings import DataConfig


def read(task, path, *, name="dev", **settings):
    config = DataConfig(task=task, train_file=path, **settings)
    return load_split(config, path, task=task, name=name)


@pytest.mark.parametrize(
    ("file", "rows"),
    [
        ("wnut17/train", 3394),
        ("wnut17/dev", 1009),
        ("wnut17/test", 1287),
        ("wikiann-en/dev", 10_000),
        ("wikiann-en/test", 10_000),
    ],
)
def test_every_sentence_of_a_conll_file_is_there_with_its_words_in_place(shared, file, rows):
    path = shared / "data" / f"{file}.conll"
    split = read("token-classification", path)
    assert len(split) == rows
    words, tags = [], []
    for text, spans, labels in zip(split.texts, split.word_spans, split.labels, strict=True):
        words += [text[start:end] for start, end in spans]
        tags += labels
    lines = [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n")]
    full = [cells for cells in lines if cells[0].strip(" \ufeff")]
    assert words == [cells[0].removeprefix("en:") for cells in full]
    assert tags == [cells[1] for cells in full]


@pytest.mark.parametrize(
    ("file", "questions", "nowhere", "moved"),
    [
        ("xquad/xquad.en", 1190, 0, 0),
        ("xquad/xquad.zh", 1190, 0, 0),
        ("cmrc2018/trial", 1002, 0, 5),
        ("cmrc2018/dev", 3219, 193, 7),
    ],
)
def test_every_answer_is_at_its_place_in_its_context(
    shared, caplog, file, questions, nowhere, moved
):
    split = read("question-answering", shared / "data" / f"{file}.json")
    assert len(split) == len(set(split.ids)) == questions
    found = 0
    for context, answers in zip(split.text_pairs, split.labels, strict=True):
        assert any(start >= 0 for _, start in answers)
        for text, start in answers:
            found += start < 0
            assert start < 0 or context[start : start + len(text)] == text
    assert found == nowhere
    assert (f"{moved} answers stood elsewhere" in caplog.text) == (moved > 0)


@pytest.mark.parametrize(("file", "rows"), [("train", 5749), ("dev", 1500), ("test", 1379)])
def test_every_pair_of_stsb_has_a_score(shared, file, rows):
    split = read(
        "regression",
        shared / "data" / "stsb" / f"sts-{file}.tsv",
        text_column="5",
        text_pair_column="6",
        label_column="4",
    )
    assert len(split) == rows
    assert min(split.labels) >= 0.0
    assert max(split.labels) <= 5.0
