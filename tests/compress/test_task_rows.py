"""Rows of each task and the targets that belong to them, by hand."""

from __future__ import annotations

import pytest
import torch

from compress.data.load import make_split
from compress.models.task_head import TaskHead
from compress.scoring.targets import make_targets
from compress.scoring.task_rows import make_rows
from edgebert.errors import DataError
from edgebert.text.tokenizer import Tokenizer
from tests.tiny import SPECIAL_IDS, VOCAB, write_tokenizer


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder)
    return Tokenizer(folder, special_ids=SPECIAL_IDS)


def tokens(rows, row):
    return [VOCAB[i] for i in rows.encoded.input_ids[row]]


def test_a_class_is_its_place_in_the_labels_of_the_head(tokenizer):
    split = make_split("train", "here", ["good", "bad"], labels=["yes", "no"])
    head = TaskHead(task="text-classification", labels=("no", "yes"))
    rows = make_rows(split, head, tokenizer, max_length=8)
    assert rows.windows is None
    assert make_targets(rows, split, head).batch([1, 0], 3).tolist() == [0, 1]


def test_several_labels_become_zeros_and_ones(tokenizer):
    split = make_split("train", "here", ["a", "b"], labels=[("x", "z"), ()])
    head = TaskHead(
        task="text-classification",
        labels=("x", "y", "z"),
        problem_type="multi_label_classification",
    )
    rows = make_rows(split, head, tokenizer, max_length=8)
    batch = make_targets(rows, split, head).batch([0, 1], 3)
    assert batch.tolist() == [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    assert batch.dtype == torch.float32


def test_scores_stay_numbers(tokenizer):
    split = make_split("train", "here", ["a", "b"], text_pairs=["c", "d"], labels=[2.5, 0.0])
    head = TaskHead(task="regression")
    rows = make_rows(split, head, tokenizer, max_length=8)
    assert tokens(rows, 0) == ["[CLS]", "a", "[SEP]", "c", "[SEP]"]
    assert make_targets(rows, split, head).batch([0, 1], 5).tolist() == [2.5, 0.0]


def test_pairs_of_an_embedder_are_two_rows_each(tokenizer):
    split = make_split("dev", "here", ["a", "b"], text_pairs=["c", "d"], labels=[2.5, 0.0])
    rows = make_rows(split, TaskHead(task="feature-extraction"), tokenizer, max_length=8)
    assert [tokens(rows, row)[1] for row in range(4)] == ["a", "c", "b", "d"]
    assert rows.owners.tolist() == [0, 0, 1, 1]


def test_each_choice_is_a_row_beside_its_prompt(tokenizer):
    split = make_split(
        "train", "here", ["good", "bad"], labels=[1, 0], choices=[("a", "b", "c"), ("d", "e")]
    )
    head = TaskHead(task="multiple-choice")
    rows = make_rows(split, head, tokenizer, max_length=8)
    assert rows.owners.tolist() == [0, 0, 0, 1, 1]
    assert tokens(rows, 4) == ["[CLS]", "bad", "[SEP]", "e", "[SEP]"]
    assert rows.rows_of([1, 0]).tolist() == [3, 4, 0, 1, 2]
    targets = make_targets(rows, split, head)
    assert targets.batch(rows.rows_of([1, 0]), 5).tolist() == [0, 1]


def test_only_the_first_token_of_a_word_has_a_tag(tokenizer):
    text = "film abc good"  # abc is a ##b ##c
    split = make_split(
        "train",
        "here",
        [text],
        labels=[("O", "B-X", "I-X")],
        word_spans=[[(0, 4), (5, 8), (9, 13)]],
    )
    head = TaskHead(task="token-classification", labels=("B-X", "I-X", "O"))
    rows = make_rows(split, head, tokenizer, max_length=16)
    assert tokens(rows, 0) == ["[CLS]", "film", "a", "##b", "##c", "good", "[SEP]"]
    batch = make_targets(rows, split, head).batch([0], 8)
    assert batch.tolist() == [[-100, 2, 0, -100, -100, 1, -100, -100]]


def test_an_unknown_tag_is_named(tokenizer):
    split = make_split("dev", "here", ["film"], labels=[("B-Y",)], word_spans=[[(0, 4)]])
    head = TaskHead(task="token-classification", labels=("B-X", "O"))
    rows = make_rows(split, head, tokenizer, max_length=16)
    with pytest.raises(DataError, match="B-Y"):
        make_targets(rows, split, head)


def test_an_answer_is_its_first_and_last_token_in_the_context(tokenizer):
    context = "the good film"
    split = make_split(
        "train",
        "here",
        ["good film", "film"],  # the question's own words are no answer
        text_pairs=[context, context],
        labels=[(("good film", 4),), ()],
    )
    head = TaskHead(task="question-answering")
    rows = make_rows(split, head, tokenizer, max_length=16)
    assert tokens(rows, 0)[3:] == ["[SEP]", "the", "good", "film", "[SEP]"]
    assert make_targets(rows, split, head).batch([0, 1], 9).tolist() == [[5, 6], [0, 0]]


def test_every_word_of_a_long_text_is_the_first_token_of_its_tag_in_some_window(tokenizer):
    words = ["film", "abc", "good"] * 7
    text = " ".join(words)
    spans, at = [], 0
    for word in words:
        spans.append((at, at + len(word)))
        at += len(word) + 1
    labels = [tuple(f"B-{i}" for i in range(21))]
    split = make_split("train", "here", [text], labels=labels, word_spans=[spans])
    head = TaskHead(task="token-classification", labels=labels[0])
    rows = make_rows(split, head, tokenizer, max_length=9, stride=2)
    assert max(rows.encoded.lengths) == 9
    targets = make_targets(rows, split, head)
    found = targets.batch(range(len(rows)), 9)
    assert set(found.flatten().tolist()) == {-100, *range(21)}
    for row, tags in enumerate(found.tolist()):
        for token, tag in zip(tokens(rows, row), tags, strict=False):
            assert token == (words[tag][: len(token)] if tag >= 0 else token)
            assert tag == -100 or not token.startswith("##")


def test_an_answer_counts_in_the_windows_that_hold_all_of_it(tokenizer):
    context = "the film . " * 6 + "very good plot"
    split = make_split(
        "train", "here", ["not"], text_pairs=[context], labels=[(("good plot", 71),)]
    )
    assert context[71:] == "good plot"
    head = TaskHead(task="question-answering")
    rows = make_rows(split, head, tokenizer, max_length=10, stride=3)
    targets = make_targets(rows, split, head).batch(range(len(rows)), 10).tolist()
    for row, (first, last) in enumerate(targets):
        held = tokens(rows, row)[first : last + 1]
        assert held == (["good", "plot"] if "plot" in tokens(rows, row) else ["[CLS]"])
    assert sum(first > 0 for first, _ in targets) == 1
    assert len(rows) > 3


def test_a_question_whose_answer_no_window_holds_teaches_nothing(tokenizer, caplog):
    long = "very good plot not fun but dull"  # 7 tokens; a window has room for 6 of a context
    contexts = ["the film . " * 3 + long, "the good film", "the film . " * 3 + long]
    labels = [((long, 33),), (("good", 4),), ()]
    split = make_split("train", "here", ["not"] * 3, text_pairs=contexts, labels=labels)
    head = TaskHead(task="question-answering")
    rows = make_rows(split, head, tokenizer, max_length=10, stride=3)
    targets = make_targets(rows, split, head)
    found = [targets.batch(rows.rows_of([example]), 10).tolist() for example in range(3)]
    assert len(found[0]) > 2
    assert found[0] == [[-100, -100]] * len(found[0])
    assert found[1] == [[4, 4]]
    assert found[2] == [[0, 0]] * len(found[2])  # it has no answer, which is to be learned
    assert "here: 1 of 2 answers are whole in no window of 10 tokens" in caplog.text


def test_answers_that_windows_hold_warn_of_nothing(tokenizer, caplog):
    split = make_split(
        "train", "here", ["not"], text_pairs=["the good film"], labels=[(("good", 4),)]
    )
    head = TaskHead(task="question-answering")
    make_targets(make_rows(split, head, tokenizer, max_length=10), split, head)
    assert not caplog.records
