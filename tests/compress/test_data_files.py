"""Reading data files: every form, every kind of bad row."""

from __future__ import annotations

import gzip
import json

import pytest

from compress.data.files import read_table
from edgebert.errors import DataError


def write(path, text):
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def test_quotes_in_tsv_are_plain_characters(tmp_path):
    path = write(tmp_path / "a.tsv", 'sentence\tlabel\n"half a quote\tx\nsay "hi"\ty\n')
    assert read_table(path).columns["sentence"] == ['"half a quote', 'say "hi"']


def test_csv_fields_may_hold_commas_quotes_and_line_ends(tmp_path):
    path = write(tmp_path / "a.csv", 'text,label\n"a, ""b""\nc",x\nd,y\n')
    table = read_table(path)
    assert table.columns["text"] == ['a, "b"\nc', "d"]
    assert table.lines == [2, 4]


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz"])
def test_byte_order_mark_and_crlf_are_no_part_of_the_cells(tmp_path, name):
    path = write(tmp_path / name, b"\xef\xbb\xbftext\tlabel\r\none\tx\r\n\r\n")
    assert read_table(path).columns == {"text": ["one"], "label": ["x"]}


def test_only_a_line_feed_ends_a_line(tmp_path):
    path = write(tmp_path / "a.tsv", "text\tlabel\none\u2028two\x0bthree\x85four\tx\n")
    assert read_table(path).columns["text"] == ["one\u2028two\x0bthree\x85four"]


def test_jsonl_rows_may_have_their_keys_in_any_order(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"text": "a", "label": 1}\n{"label": 0, "text": "b"}\n')
    assert read_table(path).columns == {"text": ["a", "b"], "label": [1, 0]}


def test_parquet_gives_its_own_types(tmp_path):
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table({"text": ["a", "b"], "label": [["x"], []]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    assert read_table(tmp_path / "a.parquet").columns["label"] == [["x"], []]


def test_plain_text_is_one_text_a_line(tmp_path):
    table = read_table(write(tmp_path / "a.txt", "one, two\tthree\nfour\n"), wanted=["5"])
    assert table.columns == {"text": ["one, two\tthree", "four"]}
    assert table.plain


def test_numbers_mean_that_there_is_no_header(tmp_path):
    path = write(tmp_path / "a.tsv", "x\tgood film\ny\tbad film\n")
    assert read_table(path, wanted=["1", "0"]).columns["1"] == ["good film", "bad film"]


def test_a_number_that_is_a_name_of_the_header_is_that_name(tmp_path):
    path = write(tmp_path / "a.tsv", "0\t1\ngood film\tx\n")
    assert read_table(path, wanted=["0"]).columns["0"] == ["good film"]


def test_without_header_more_columns_than_wanted_are_ignored(tmp_path):
    path = write(tmp_path / "a.tsv", "a\tb\nc\td\te\n")
    assert read_table(path, wanted=["0", "1"]).columns == {"0": ["a", "c"], "1": ["b", "d"]}


def test_numbers_on_a_file_with_header_are_refused(tmp_path):
    path = write(tmp_path / "a.tsv", "sentence\tlabel\na\tx\n")
    with pytest.raises(DataError, match=r"looks like a header.*by name: sentence, label"):
        read_table(path, wanted=["0", "1"])


def bad_rows(table):
    with pytest.raises(DataError) as caught:
        table.bad.raise_if_any()
    return str(caught.value)


def test_a_wrong_column_count_names_file_line_and_both_counts(tmp_path):
    path = write(tmp_path / "a.tsv", "text\tlabel\na\tx\nb\nc\td\te\n")
    message = bad_rows(read_table(path))
    assert f"{path}:3: 1 columns, expected 2 (text, label)" in message
    assert f"{path}:4: 3 columns" in message
    assert "2 bad lines" in message


def test_an_empty_line_in_the_middle_is_a_bad_row(tmp_path):
    table = read_table(write(tmp_path / "a.jsonl", '{"text": "a"}\n\n{"text": "b"}\n\n\n'))
    assert "a.jsonl:2: empty line" in bad_rows(table)
    assert table.columns["text"] == ["a", "b"]


def test_ten_bad_rows_are_named_and_all_are_counted(tmp_path):
    table = read_table(write(tmp_path / "a.tsv", "text\tlabel\na\tx\n" + "b\n" * 25))
    message = bad_rows(table)
    assert "25 bad lines" in message
    assert "and 15 more" in message
    assert message.count("expected 2") == 10


@pytest.mark.parametrize("ending", [".tsv", ".csv", ".jsonl"])
def test_bytes_that_are_not_utf8_are_named_by_line(tmp_path, ending):
    rows = {".jsonl": [b'{"text": "a"}', b'{"text": "\xe9"}']}.get(
        ending, [b"text", b"one", b"caf\xe9"]
    )
    path = write(tmp_path / f"a{ending}", b"\n".join(rows))
    assert f"{path}:{len(rows)}: not UTF-8 (byte 0xe9" in bad_rows(read_table(path))


def test_a_json_line_that_is_no_object_is_a_bad_row(tmp_path):
    table = read_table(write(tmp_path / "a.jsonl", '{"text": "a"}\n["b"]\n{"text": \n'))
    message = bad_rows(table)
    assert "a.jsonl:2: holds a list" in message
    assert "a.jsonl:3: not JSON" in message


@pytest.mark.parametrize("shape", ["{}", '{{"data": {}}}'])
def test_a_json_file_is_a_list_of_objects(tmp_path, shape):
    rows = '[{"text": "a", "label": 1}, {"text": "b"}]'
    table = read_table(write(tmp_path / "a.json", shape.format(rows)))
    assert table.columns == {"text": ["a", "b"], "label": [1, None]}
    assert table.bad.unit == "row"


def test_an_item_of_a_json_file_that_is_no_object_is_a_bad_row(tmp_path):
    table = read_table(write(tmp_path / "a.json", '[{"text": "a"}, "b"]'))
    assert "a.json:2: holds a str, not an object" in bad_rows(table)


def test_a_quote_left_open_in_csv_is_named_by_its_line(tmp_path):
    table = read_table(write(tmp_path / "a.csv", 'text,label\na,x\n"b,y\nc,z\n'))
    assert "a.csv:3: not CSV" in bad_rows(table)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.tsv", b"", "has no rows"),
        ("a.tsv", b"text\tlabel\n", "has no rows"),
        ("a.tsv", "text\tlabel\na\tb\n".encode("utf-16"), "UTF-16"),
        ("a.tsv", b"text\ttext\na\tb\n", "2 columns named 'text'"),
        ("a.xml", b"<a>", r"unknown kind '\.xml'; allowed: \.tsv, \.csv"),
        ("a.json", b"{}", "neither a list of objects"),
        ("a.json", b"[1", "not JSON"),
        ("a", b"x", "unknown kind 'without ending'"),
        ("a.parquet", b"PAR1 nothing", "damaged or not Parquet"),
    ],
)
def test_a_file_that_is_no_table_is_refused_by_name(tmp_path, name, data, message):
    with pytest.raises(DataError, match=message) as caught:
        read_table(write(tmp_path / name, data))
    assert name in str(caught.value)


def test_a_gz_file_cut_short_is_named(tmp_path):
    data = gzip.compress(json.dumps(list(range(5000))).encode())
    (tmp_path / "a.tsv.gz").write_bytes(data[: len(data) // 2])
    with pytest.raises(DataError, match=r"a\.tsv\.gz is damaged or not gzip"):
        read_table(tmp_path / "a.tsv.gz")


def test_a_missing_file_and_a_directory_are_told_apart(tmp_path):
    (tmp_path / "d.tsv").mkdir()
    with pytest.raises(DataError, match="does not exist"):
        read_table(tmp_path / "a.tsv")
    with pytest.raises(DataError, match="is a directory"):
        read_table(tmp_path / "d.tsv")
