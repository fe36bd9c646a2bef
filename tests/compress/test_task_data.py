"""Reading words with tags, choices and scores, from files made by hand."""

from __future__ import annotations

import pytest

from compress.data.load import load_data
from compress.settings import DataConfig
from edgebert.errors import DataError, InputError
from tests.compress.task_files import load, read, write, write_rows

TAGGED = ("film\tO", "New\tB-LOC", "York\tI-LOC", "", "Ann\tB-PER", "is\tO", "fun\tO")


def words_of(split):
    return [
        [text[start:end] for start, end in spans]
        for text, spans in zip(split.texts, split.word_spans, strict=True)
    ]


# --- words and tags


@pytest.mark.parametrize("ending", ["conll", "txt", "tsv"])
def test_sentences_of_a_conll_file_are_words_joined_by_a_space(tmp_path, ending):
    split = read("token-classification", write(tmp_path / f"a.{ending}", *TAGGED))
    assert split.texts == ["film New York", "Ann is fun"]
    assert words_of(split) == [["film", "New", "York"], ["Ann", "is", "fun"]]
    assert split.labels == [("O", "B-LOC", "I-LOC"), ("B-PER", "O", "O")]


def test_columns_may_be_separated_by_spaces_and_the_last_is_the_tag(tmp_path):
    lines = ("-DOCSTART- -X- -X- O", "", "EU NNP B-NP B-ORG", "rejects VBZ B-VP O", "")
    split = read("token-classification", write(tmp_path / "a.txt", *lines))
    assert split.texts == ["EU rejects"]
    assert split.labels == [("B-ORG", "O")]


def test_lines_of_white_space_and_a_late_byte_order_mark_separate_sentences(tmp_path):
    path = write(tmp_path / "a.conll", "a\tO", " \t", "b\tB-X", "\t", "", "c\tO", "\ufeff")
    assert read("token-classification", path).texts == ["a", "b", "c"]


def test_the_language_in_front_of_every_word_is_taken_off(tmp_path):
    path = write(tmp_path / "a.conll", "en:Paris\tB-LOC", "en::\tO", "", "en:is\tO")
    assert read("token-classification", path).texts == ["Paris :", "is"]


def test_a_language_in_front_of_some_words_is_a_part_of_them(tmp_path):
    path = write(tmp_path / "a.conll", "en:Paris\tB-LOC", "is\tO")
    assert read("token-classification", path).texts == ["en:Paris is"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("a\tO", "lonely", "b\tB-X"), r"a\.conll:2: one column \('lonely'\)"),
        (("a\tO", "b\t", "c\tB-X"), r"a\.conll:2: the tag is ''"),
        (("a\tO", "", "b\tB-X", "c\tX"), r"a\.conll:4: the tag 'X' is unlike the others"),
        (("a\t3", "b\t0"), r"a\.conll:1: the tag is '3'; its name is needed.*a\.conll:2"),
        (("a\tO", "\tB-X"), r"a\.conll:2: empty text in word 2"),
    ],
)
def test_a_bad_line_of_a_conll_file_is_named(tmp_path, lines, message):
    with pytest.raises(DataError, match=message):
        read("token-classification", write(tmp_path / "a.conll", *lines))


def test_a_tag_that_train_lacks_is_named_by_its_line(tmp_path):
    train = write(tmp_path / "a.conll", *TAGGED)
    dev = write(tmp_path / "b.conll", "Ann\tB-PER", "", "is\tO", "New\tB-ORG")
    with pytest.raises(DataError, match=r"b\.conll:4: the tag 'B-ORG' is not in the train data"):
        load("token-classification", train, dev_file=dev)


def test_tags_are_labels_in_the_order_of_their_names(tmp_path):
    path = write(tmp_path / "a.conll", *TAGGED)
    data = load("token-classification", path, dev_file=path)
    assert data.labels == ("B-LOC", "B-PER", "I-LOC", "O")
    assert data.problem_type is None


def test_plain_names_are_tags_too(tmp_path):
    path = write(tmp_path / "a.conll", "Ann\tNOUN", "is\tVERB")
    assert read("token-classification", path).labels == [("NOUN", "VERB")]


@pytest.mark.parametrize("names", [("tokens", "tags"), ("words", "ner_tags")])
def test_lists_of_words_and_tags_come_from_jsonl(tmp_path, names):
    rows = (
        {names[0]: ["New", "York"], names[1]: ["B-LOC", "I-LOC"]},
        {names[0]: ["a"], names[1]: ["O"]},
    )
    split = read("token-classification", write_rows(tmp_path / "a.jsonl", *rows))
    assert split.texts == ["New York", "a"]
    assert split.labels == [("B-LOC", "I-LOC"), ("O",)]


def test_lists_of_words_and_tags_come_from_parquet(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [{"tokens": ["New", "York"], "tags": ["B-LOC", "I-LOC"]}]
    table = pytest.importorskip("pyarrow").Table.from_pylist(rows)
    parquet.write_table(table, tmp_path / "a.parquet")
    assert words_of(read("token-classification", tmp_path / "a.parquet")) == [["New", "York"]]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"tokens": ["a", "b"], "tags": ["O"]}, "2 words but 1 tags"),
        ({"tokens": "a b", "tags": ["O", "O"]}, "a str, not a list of words"),
        ({"tokens": [], "tags": []}, "holds no words"),
        ({"tokens": ["a", ""], "tags": ["O", "O"]}, "empty text in word 2"),
        ({"tokens": ["a"], "tags": "O"}, "the tags are a str, not a list"),
        ({"tokens": ["a"], "tags": [3]}, "the tag is 3; its name is needed"),
    ],
)
def test_a_bad_row_of_words_is_named(tmp_path, row, message):
    good = {"tokens": ["c"], "tags": ["B-X"]}
    with pytest.raises(DataError, match=rf"a\.jsonl:2: .*{message}"):
        read("token-classification", write_rows(tmp_path / "a.jsonl", good, row))


def test_words_are_not_read_for_another_task(tmp_path):
    with pytest.raises(DataError, match="--task token-classification"):
        load("text-classification", write(tmp_path / "a.conll", *TAGGED))


# --- choices


def test_choices_come_as_lists_or_numbered_columns(tmp_path):
    lists = {"prompt": "How?", "choices": ["good", "bad", "dull"], "label": 2}
    split = read("multiple-choice", write_rows(tmp_path / "a.jsonl", lists))
    assert (split.texts, split.choices, split.labels) == (["How?"], [("good", "bad", "dull")], [2])
    path = write(
        tmp_path / "b.tsv",
        "sentence\tending0\tending1\tending2\tlabel",
        "a\tb\tc\td\t1",
        "e\tf\tg\t\t0",
    )
    split = read("multiple-choice", path)
    assert split.choices == [("b", "c", "d"), ("f", "g")]
    assert split.labels == [1, 0]


@pytest.mark.parametrize(("label", "place"), [("bad", 1), (1, 1), ("1", 1), (1.0, 1)])
def test_the_right_choice_is_a_number_or_its_text(tmp_path, label, place):
    row = {"question": "How?", "choices": ["good", "bad"], "label": label}
    assert read("multiple-choice", write_rows(tmp_path / "a.jsonl", row)).labels == [place]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label": 2}, "the label is 2, not a number from 0 to 1"),
        ({"label": "fun"}, "the label is 'fun'"),
        ({"label": None}, "the label is None"),
        ({"choices": ["1", "0"], "label": "1"}, r"'1' could be any of the choices \[0, 1\]"),
        ({"choices": ["good"], "label": 0}, "1 choices; two or more"),
        ({"choices": ["good", " "], "label": 0}, "empty text in choice 1"),
        ({"choices": "good", "label": 0}, "the choices are a str"),
        ({"prompt": ""}, "empty text in column 'prompt'"),
    ],
)
def test_a_bad_row_of_choices_is_named(tmp_path, changes, message):
    row = {"prompt": "How?", "choices": ["good", "bad"], "label": 0}
    with pytest.raises(DataError, match=rf"a\.jsonl:2: .*{message}"):
        read("multiple-choice", write_rows(tmp_path / "a.jsonl", row, {**row, **changes}))


def test_a_file_without_choices_says_what_to_give(tmp_path):
    path = write(tmp_path / "a.tsv", "prompt\tlabel", "a\t0")
    with pytest.raises(DataError, match=r"choice0, choice1.*--text-pair-column"):
        read("multiple-choice", path)


# --- scores


def test_pairs_with_scores_come_from_numbered_columns(tmp_path):
    path = write(tmp_path / "a.tsv", "g\t2.5\tone\ttwo", 'g\t0\t"a\tb')
    split = read("regression", path, text_column="2", text_pair_column="3", label_column="1")
    assert split.labels == [2.5, 0.0]
    assert split.texts == ["one", '"a']
    assert split.text_pairs == ["two", "b"]


def test_single_texts_can_have_scores(tmp_path):
    rows = [f"text {i}\t{i / 2}" for i in range(20)]
    data = load("regression", write(tmp_path / "a.tsv", "text\tscore", *rows))
    assert len(data.dev) == 2
    assert data.labels == ()
    assert isinstance(data.train.labels[0], float)


def test_a_score_that_is_no_number_is_named(tmp_path):
    path = write(tmp_path / "a.tsv", "text\tlabel", "a\t1", "b\tgood")
    with pytest.raises(DataError, match=r"a\.tsv:3: the score is 'good'"):
        load("regression", path)


@pytest.mark.parametrize(
    "task", ["regression", "token-classification", "question-answering", "multiple-choice"]
)
def test_the_embedded_data_has_classes_alone(task):
    with pytest.raises(DataError, match=f"nothing to train {task} on; give --train-file"):
        load_data(DataConfig(task=task), task=task, seed=0)


def test_a_test_file_may_lack_labels_and_dev_may_not(tmp_path, caplog):
    train = write_rows(
        tmp_path / "a.jsonl", {"tokens": ["a"], "tags": ["B-X"]}, {"tokens": ["b"], "tags": ["O"]}
    )
    bare = write_rows(tmp_path / "b.jsonl", {"tokens": ["c"]})
    data = load("token-classification", train, dev_file=train, test_file=bare)
    assert data.test.labels is None
    assert "no labels" in caplog.text
    with pytest.raises(DataError, match="no column 'tags' or 'ner_tags'"):
        load("token-classification", train, dev_file=bare)


def test_words_choices_and_ids_go_with_the_rows_of_a_dev_cut(tmp_path):
    rows = [{"prompt": f"p{i}", "choices": [f"a{i}", f"b{i}"], "label": i % 2} for i in range(20)]
    data = load("multiple-choice", write_rows(tmp_path / "a.jsonl", *rows))
    for split in (data.train, data.dev):
        for prompt, choices, label in zip(split.texts, split.choices, split.labels, strict=True):
            assert choices == (f"a{prompt[1:]}", f"b{prompt[1:]}")
            assert label == int(prompt[1:]) % 2


def test_regression_as_a_problem_type_is_refused_with_the_task_to_give():
    with pytest.raises(InputError, match="--task regression"):
        DataConfig(problem_type="regression")
