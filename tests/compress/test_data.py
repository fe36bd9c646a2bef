"""Loading the data of a run: columns, labels, cuts, and the real files where they are."""

from __future__ import annotations

import json
import logging
from collections import Counter

import numpy as np
import pytest

from compress.data.load import label_order, load_data, make_split
from compress.data.splits import class_keys, stratified_rows
from compress.settings import DataConfig
from edgebert.errors import DataError


def write(path, *lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def load(task="text-classification", *, seed=1, **settings):
    return load_data(DataConfig(task=task, **settings), task=task, seed=seed)


@pytest.fixture
def train(tmp_path):
    rows = [f"text {i}\t{'ab'[i % 2]}" for i in range(40)]
    return write(tmp_path / "train.tsv", "sentence\tlabel", *rows)


@pytest.mark.parametrize("header", ["label\tsentence", "label\ttext", "label\ttext_a"])
def test_usual_columns_are_found_by_name_in_each_file(tmp_path, train, header):
    dev = write(tmp_path / "dev.tsv", "id\t" + header, "7\ta\thello")
    data = load(train_file=train, dev_file=dev)
    assert data.dev.texts == ["hello"]
    assert data.dev.labels == ["a"]


def test_pairs_are_found_by_their_usual_names(tmp_path):
    path = write(
        tmp_path / "a.tsv",
        "sentence1\tsentence2\tlabel",
        *(f"a{i}\tb{i}\t{i % 2}" for i in range(20)),
    )
    data = load(train_file=path)
    assert data.train.text_pairs is not None
    assert data.train.text_pairs[0] == data.train.texts[0].replace("a", "b")


def test_two_columns_that_could_be_the_text_are_refused(tmp_path):
    path = write(tmp_path / "a.tsv", "sentence\ttext\tlabel", "a\tb\tx", "a\tb\ty")
    with pytest.raises(DataError, match=r"'sentence', 'text'.*--text-column"):
        load(train_file=path)


def test_a_missing_column_names_those_that_are_there(tmp_path):
    path = write(tmp_path / "a.tsv", "review\tlabel", "a\tx", "b\ty")
    with pytest.raises(DataError, match=r"no column 'sentence' or 'text'.*'review', 'label'"):
        load(train_file=path)
    with pytest.raises(DataError, match=r"no column 'stars'.*--label-column NAME"):
        load(train_file=path, text_column="review", label_column="stars")


def test_a_number_beyond_the_columns_is_a_bad_row(tmp_path):
    path = write(tmp_path / "a.tsv", "one\tx", "two\ty")
    with pytest.raises(DataError, match=r"a\.tsv:1: 2 columns, expected 6 or more"):
        load(train_file=path, text_column="0", label_column="5")


def test_names_and_numbers_can_not_be_mixed(tmp_path):
    path = write(tmp_path / "a.tsv", "one\tx", "two\ty")
    with pytest.raises(DataError, match=r"without a header.*'label'.*--label-column as a number"):
        load(train_file=path, text_column="0")


def test_empty_texts_and_labels_are_named_by_file_and_line(tmp_path):
    path = write(tmp_path / "a.tsv", "text\tlabel", "a\tx", " \ty", "b\t", "c\ty")
    with pytest.raises(DataError) as caught:
        load(train_file=path)
    assert f"{path}:3: empty text" in str(caught.value)
    assert f"{path}:4: empty label" in str(caught.value)


def test_a_text_that_is_no_string_or_no_unicode_is_a_bad_row(tmp_path):
    rows = ['{"text": 3, "label": "a"}', '{"text": "\\ud800", "label": "b"}', '{"label": "b"}']
    path = write(tmp_path / "a.jsonl", *rows)
    with pytest.raises(DataError) as caught:
        load(train_file=path)
    assert "a.jsonl:1: column 'text' holds a int" in str(caught.value)
    assert "a.jsonl:2: column 'text' holds a lone surrogate" in str(caught.value)
    assert "a.jsonl:3: empty text" in str(caught.value)


def test_a_label_unseen_in_train_is_named_by_file_and_line(tmp_path, train):
    dev = write(tmp_path / "dev.tsv", "sentence\tlabel", "one\ta", "two\tc")
    with pytest.raises(DataError, match=r"dev\.tsv:3: label 'c' is not in the train data"):
        load(train_file=train, dev_file=dev)


def test_one_class_alone_is_refused(tmp_path):
    path = write(tmp_path / "a.tsv", "text\tlabel", "one\tx", "two\tx")
    with pytest.raises(DataError, match=r"1 distinct labels \(x\); a classifier needs 2"):
        load(train_file=path)


def test_dev_without_labels_is_refused_and_test_without_labels_is_not(tmp_path, train, caplog):
    bare = write(tmp_path / "bare.tsv", "sentence", "one")
    with pytest.raises(DataError, match=r"bare\.tsv has no column 'label'"):
        load(train_file=train, dev_file=bare)
    data = load(train_file=train, test_file=bare)
    assert data.test is not None
    assert data.test.labels is None
    assert "no test score" in caplog.text


def test_integer_labels_are_in_the_order_of_numbers():
    assert label_order({"10", "9", "-1"}) == ("-1", "9", "10")
    assert label_order({"10", "9", "x"}) == ("10", "9", "x")


def test_json_numbers_and_text_files_give_the_same_label_names(tmp_path):
    rows = [json.dumps({"text": f"t{i}", "label": (0, 1.0)[i % 2]}) for i in range(20)]
    assert load(train_file=write(tmp_path / "a.jsonl", *rows)).labels == ("0", "1")


def test_multi_label_cells_are_split_at_the_bar_and_may_be_empty(tmp_path):
    lines = ["text\tlabel", "a\tx|y", "b\tx", "c\t", "d\ty"]
    tsv = write(tmp_path / "a.tsv", *lines)
    multi = "multi_label_classification"
    data = load(train_file=tsv, dev_file=tsv, problem_type=multi)
    assert data.train.labels == [("x", "y"), ("x",), (), ("y",)]
    assert data.labels == ("x", "y")
    rows = [json.dumps({"text": t, "label": names}) for t, names in (("a", ["x", "y"]), ("b", []))]
    data = load(train_file=tsv, dev_file=write(tmp_path / "a.jsonl", *rows), problem_type=multi)
    assert data.dev.labels == [("x", "y"), ()]


def test_the_dev_cut_keeps_shares_and_loses_no_row(train, caplog):
    caplog.set_level(logging.INFO)
    data = load(train_file=train)
    assert Counter(data.dev.labels) == {"a": 2, "b": 2}
    assert sorted(data.train.texts + data.dev.texts) == sorted(f"text {i}" for i in range(40))
    assert "4 of 40 train rows become dev" in caplog.text


def test_the_dev_cut_depends_on_the_seed_alone(train):
    first, again, other = (
        load(train_file=train),
        load(train_file=train),
        load(train_file=train, seed=2),
    )
    assert first.dev.sha256 == again.dev.sha256
    assert first.dev.sha256 != other.dev.sha256


def test_a_class_of_one_row_stays_in_train(tmp_path):
    rows = [f"t{i}\ta" for i in range(30)] + ["rare\tb"]
    data = load(train_file=write(tmp_path / "a.tsv", "text\tlabel", *rows))
    assert "rare" in data.train.texts


def test_too_few_rows_for_a_dev_cut_are_refused(tmp_path):
    path = write(tmp_path / "a.tsv", "text\tlabel", "one\tx", "two\ty")
    with pytest.raises(DataError, match=r"too few rows \(2\).*--dev-file"):
        load(train_file=path)


def test_max_train_samples_takes_that_many_with_every_class(train, caplog):
    data = load(train_file=train, max_train_samples=6)
    assert Counter(data.train.labels) == {"a": 3, "b": 3}
    assert len(data.dev) == 4
    assert "Using 6 of the 36 train rows" in caplog.text


def test_stratified_rows_follow_the_shares():
    classes = ["a"] * 80 + ["b"] * 15 + ["c"] * 5
    rows = stratified_rows(classes, 20, seed=0)
    assert Counter(classes[row] for row in rows) == {"a": 16, "b": 3, "c": 1}
    assert len(np.unique(rows)) == 20


def test_a_row_of_several_labels_counts_for_its_rarest():
    assert class_keys([("a", "b"), ("a",), (), ("a",)], 4) == ["b", "a", None, "a"]


def test_extraction_trains_on_both_texts_of_a_pair_and_scores_dev(tmp_path):
    path = write(tmp_path / "a.tsv", "x\t4.5\tone\ttwo", "x\t0\tthree\tfour")
    settings = {"text_column": "2", "text_pair_column": "3", "label_column": "1"}
    data = load("feature-extraction", train_file=path, dev_file=path, **settings)
    assert data.train.texts == ["one", "two", "three", "four"]
    assert data.train.labels is None
    assert data.dev.text_pairs == ["two", "four"]
    assert data.dev.labels == [4.5, 0.0]
    assert data.labels == ()


def test_plain_text_trains_while_a_file_without_header_scores(tmp_path):
    corpus = write(tmp_path / "corpus.txt", "one", "two")
    dev = write(tmp_path / "dev.tsv", "4.5\ta\tb")
    settings = {"text_column": "1", "text_pair_column": "2", "label_column": "0"}
    data = load("feature-extraction", train_file=corpus, dev_file=dev, **settings)
    assert data.train.texts == ["one", "two"]
    assert data.dev.labels == [4.5]


def test_plain_text_has_no_labels_to_classify(tmp_path):
    with pytest.raises(DataError, match="plain text without labels"):
        load(train_file=write(tmp_path / "corpus.txt", "one", "two"))


@pytest.mark.parametrize("score", ["", "high", "nan"])
def test_a_score_that_is_no_number_is_a_bad_row(tmp_path, score):
    dev = write(tmp_path / "dev.tsv", "sentence1\tsentence2\tlabel", f"a\tb\t{score}")
    with pytest.raises(DataError, match=r"dev\.tsv:2: the score is .*, not a number"):
        load("feature-extraction", train_file=dev, dev_file=dev)


def test_a_score_column_asked_for_must_be_there(tmp_path):
    path = write(tmp_path / "a.tsv", "sentence1\tsentence2\tlabel", "a\tb\t1")
    with pytest.raises(DataError, match="no column 'scoer'"):
        load("feature-extraction", train_file=path, dev_file=path, label_column="scoer")


def test_pairs_in_train_and_single_texts_in_dev_are_refused(tmp_path, train):
    pairs = write(tmp_path / "dev.tsv", "sentence1\tsentence2\tlabel", "x\ty\ta")
    with pytest.raises(DataError, match="has pairs of texts, the other single ones"):
        load(train_file=train, dev_file=pairs)


def test_fill_mask_takes_texts_alone_and_cuts_five_percent(tmp_path):
    path = write(tmp_path / "a.tsv", "text\tlabel", *(f"t{i}\tx" for i in range(40)))
    data = load("fill-mask", train_file=path)
    assert (len(data.train), len(data.dev)) == (38, 2)
    assert data.train.labels is None


def test_the_hash_tells_the_order_and_the_labels():
    same = make_split("train", "a", ["x", "y"], labels=["0", "1"]).sha256
    assert make_split("dev", "b", ["x", "y"], labels=["0", "1"]).sha256 == same
    assert make_split("train", "a", ["y", "x"], labels=["0", "1"]).sha256 != same
    assert make_split("train", "a", ["x", "y"], labels=["1", "0"]).sha256 != same
    assert make_split("train", "a", ["x", "y"]).sha256 != same


def folder_of(shared, name):
    folder = shared / "data" / name
    if not folder.is_dir():
        pytest.skip(f"needs the data set {folder}, which is absent")
    return folder


def test_sst2_has_its_rows(shared):
    sst2 = folder_of(shared, "sst2")
    data = load(
        train_file=sst2 / "train.tsv", dev_file=sst2 / "dev.tsv", test_file=sst2 / "test.tsv"
    )
    assert data.test is not None
    assert (len(data.train), len(data.dev), len(data.test)) == (60_614, 6_735, 872)
    assert data.labels == ("0", "1")
    assert data.test.texts[0].strip() == "it 's a charming and often affecting journey ."


def test_stsb_is_read_without_header_by_numbers(shared):
    stsb = folder_of(shared, "stsb")
    data = load(
        "feature-extraction",
        train_file=stsb / "sts-train.tsv",
        dev_file=stsb / "sts-dev.tsv",
        test_file=stsb / "sts-test.tsv",
        text_column="5",
        text_pair_column="6",
        label_column="4",
    )
    assert data.test is not None
    assert (len(data.train), len(data.dev), len(data.test)) == (2 * 5_749, 1_500, 1_379)
    assert data.dev.labels is not None
    assert data.dev.labels[:2] == [5.0, 4.75]
    assert data.dev.texts[0] == "A man with a hard hat is dancing."


def test_chnsenticorp_has_other_columns_in_each_file(shared):
    folder = folder_of(shared, "chnsenticorp")
    data = load(
        train_file=folder / "train.tsv",
        dev_file=folder / "dev.tsv",
        test_file=folder / "test.tsv",
    )
    assert data.test is not None
    assert (len(data.train), len(data.dev), len(data.test)) == (9_600, 1_200, 1_200)
    assert data.test.labels is None
    assert data.train.texts[0].startswith("选择珠江花园的原因就是方便")
