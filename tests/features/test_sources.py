"""Rows of every kind of source: their keys, their texts, and what is wrong with the bad ones."""

import datetime
import gzip
import io
import json
import math
import os
import sys
from pathlib import Path

import pytest

from edgebert.errors import DataError, InputError
from edgebert.features import text_files
from edgebert.features.rows import Columns
from edgebert.features.sources import Source


def read(inputs, kind=None, **columns):
    return list(Source(inputs, Columns(**columns), kind=kind))


def shown(rows):
    return [(row.key, row.text, row.fault) for row in rows]


def test_a_line_of_a_text_file_is_a_row_known_by_file_and_number(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_bytes("\ufeffgood\r\na \u2028 film\n\nlast".encode())
    assert shown(read(path)) == [
        ("notes.txt:1", "good", None),
        ("notes.txt:2", "a \u2028 film", None),
        ("notes.txt:3", "", "the text is empty"),
        ("notes.txt:4", "last", None),
    ]


def test_a_line_that_is_not_utf8_is_a_bad_row_and_its_neighbours_are_not(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_bytes(b"good\nb\xffad\nfilm\n")
    rows = read(path)
    assert [row.fault for row in rows] == [None, "the text is not UTF-8 at character 1", None]
    assert rows[1].key == "notes.txt:2"


def test_a_line_without_end_is_a_bad_row_that_is_not_kept_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "MAX_BYTES", 10)
    path = tmp_path / "notes.txt"
    path.write_bytes(b"good\n" + b"x" * 35 + b"\nfilm\n")
    rows = read(path)
    assert [row.text for row in rows] == ["good", "", "film"]
    assert "bytes" in rows[1].fault


def test_a_csv_record_may_have_line_ends_and_is_known_by_its_id_column(tmp_path):
    path = tmp_path / "notes.csv"
    path.write_text('id,text,year\n7,"a\nb",1999\n8,c,2000\n')
    rows = read(path, id="id", metadata=("year",))
    assert shown(rows) == [("7", "a\nb", None), ("8", "c", None)]
    assert [(row.place, row.metadata) for row in rows] == [
        ("notes.csv:2", {"year": "1999"}),
        ("notes.csv:4", {"year": "2000"}),
    ]


def test_line_ends_within_a_csv_cell_stay_as_they_are(tmp_path):
    path = tmp_path / "notes.csv"
    path.write_bytes(b'id,text\r\n7,"a\r\nb\nc"\r\n8,d')
    assert shown(read(path, id="id")) == [("7", "a\r\nb\nc", None), ("8", "d", None)]


@pytest.mark.parametrize(
    ("name", "header", "row"),
    [("a.csv", "id,text", "7,b"), ("a.jsonl", "", '{"id":"7","text":"b"}')],
)
def test_a_line_without_anything_is_told_to_be_empty(tmp_path, name, header, row):
    path = tmp_path / name
    path.write_text("\n".join([*([header] if header else []), "", row]) + "\n")
    assert [one.fault for one in read(path, id="id")] == ["the line is empty", None]


def test_an_id_that_not_every_store_can_index_is_a_bad_row():
    rows = read([("é" * 1250, "good"), ("é" * 1250 + "a", "bad")])
    assert [row.fault for row in rows] == [None, "the id has 2501 bytes, more than 2500"]


def test_a_csv_row_of_too_many_cells_is_bad(tmp_path):
    path = tmp_path / "notes.csv"
    path.write_text("id,text\n7,a,b\n8,c\n")
    assert shown(read(path, id="id")) == [
        (None, "", "the row has 3 columns, not 2"),
        ("8", "c", None),
    ]


def test_an_open_quote_stops_the_run(tmp_path):
    path = tmp_path / "notes.csv"
    path.write_text('text\na\n"b\nc\n')
    with pytest.raises(DataError, match=r"notes\.csv:3 is not CSV"):
        read(path)


def test_quotes_of_a_tsv_are_plain_characters(tmp_path):
    path = tmp_path / "notes.tsv"
    path.write_text('sentence\tn\n"a\t1\n')
    assert shown(read(path)) == [("notes.tsv:2", '"a', None)]


def test_numbers_are_columns_of_a_table_without_header(tmp_path):
    path = tmp_path / "notes.tsv"
    path.write_text("7\tgood\n8\tbad\n")
    assert shown(read(path, id="0", text="1")) == [("7", "good", None), ("8", "bad", None)]


def test_every_kind_of_bad_jsonl_row_is_told(tmp_path):
    path = tmp_path / "notes.jsonl"
    lines = ['{"id": 1, "text": "a"}', "{", "[1]", '{"id": 2}', '{"id": 3, "text": 5}']
    lines += ['{"text": "b"}', '{"id": 4, "text": "\\ud800"}', '{"id": true, "text": "c"}']
    path.write_text("\n".join(lines))
    rows = read(path, id="id")
    assert [row.key for row in rows] == ["1", None, None, "2", "3", None, "4", None]
    faults = ["not JSON", "a list, not an object", "text is missing", "type int", "id in column"]
    faults += ["not UTF-8", "type bool"]
    assert rows[0].fault is None
    for row, fault in zip(rows[1:], faults, strict=True):
        assert fault in row.fault


def test_metadata_is_scalars_and_dates_alone():
    day = datetime.date(2026, 11, 30)
    good = {"text": "a", "day": day, "n": math.nan, "x": 1.5, "ok": True}
    rows = read([good, {"text": "b", "day": [1]}], metadata=("day", "n", "x", "ok"))
    assert rows[0].metadata == {"day": "2026-11-30", "n": None, "x": 1.5, "ok": True}
    assert "'day' is of type list" in rows[1].fault


def test_parquet_gives_the_wanted_columns_and_names_its_row(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet

    broken = pa.Array.from_buffers(
        pa.string(),
        2,
        [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"a\xff")],
    )
    path = tmp_path / "notes.parquet"
    pa.parquet.write_table(pa.table({"text": broken, "id": [5, 6], "n": [1, None]}), path)
    rows = read(path, id="id", metadata=("n",))
    assert shown(rows) == [("5", "a", None), ("6", "", "the text is not UTF-8 at character 0")]
    assert [row.place for row in rows] == ["notes.parquet:1", "notes.parquet:2"]
    assert rows[0].metadata == {"n": 1}


def test_a_file_of_a_folder_is_a_row_known_by_its_path(tmp_path):
    folder = tmp_path / "docs"
    (folder / "b").mkdir(parents=True)
    (folder / "b" / "2.txt").write_text("two\nlines")
    (folder / "a.md").write_text("one")
    (folder / "c").write_bytes(b"\xff")
    assert shown(read(folder)) == [
        ("docs/a.md", "one", None),
        ("docs/c", "", "the text is not UTF-8 at character 0"),
        ("docs/b/2.txt", "two\nlines", None),
    ]


def test_files_are_read_one_after_the_other_and_gzip_is_unpacked(tmp_path):
    (tmp_path / "a.txt").write_text("one\n")
    with gzip.open(tmp_path / "b.jsonl.gz", "wt") as stream:
        stream.write(json.dumps({"text": "two"}) + "\n")
    source = Source([tmp_path / "a.txt", tmp_path / "b.jsonl.gz"], Columns())
    assert shown(source) == [("a.txt:1", "one", None), ("b.jsonl.gz:1", "two", None)]
    assert source.fraction() == 1.0


def test_a_cut_gzip_file_stops_the_run(tmp_path):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"one\ntwo\n" * 1000)[:-20])
    with pytest.raises(DataError, match="damaged or not gzip"):
        read(path)


def test_stdin_is_lines_of_text_or_what_is_said(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"text": "a"}\n')))
    assert shown(read("-", kind="jsonl")) == [("stdin:1", "a", None)]


def test_python_gives_texts_tuples_and_mappings():
    items = iter(["a", ("k", "b"), (3, "c"), None, ("", "d"), 5, b"e"])
    rows = read(items)
    assert shown(rows)[:3] == [("rows:1", "a", None), ("k", "b", None), ("3", "c", None)]
    assert [row.key for row in rows[3:]] == ["rows:4", None, "rows:6", "rows:7"]
    assert all(row.fault for row in rows[3:])
    assert shown(read([{"id": "x", "sentence": "y"}], id="id")) == [("x", "y", None)]


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"id": "key"}, "no column 'key'"),
        ({"text": "body"}, "no column 'body'"),
        ({}, "more than one column"),
    ],
)
def test_a_table_without_the_column_asked_for_is_refused(columns, why, tmp_path):
    path = tmp_path / "notes.csv"
    path.write_text("text,sentence\na,b\n")
    with pytest.raises(DataError, match=why):
        read(path, **columns)


@pytest.mark.parametrize("inputs", [{"a": 1}, b"abc", {"a", "b"}, 5, None])
def test_what_has_no_order_of_texts_is_refused(inputs):
    with pytest.raises(InputError):
        Source(inputs, Columns())


def test_a_missing_file_and_an_unknown_ending_are_refused_before_any_row(tmp_path):
    (tmp_path / "a.docx").touch()
    for path, why in ((Path("nowhere.txt"), "does not exist"), (tmp_path / "a.docx", "ending")):
        with pytest.raises(DataError, match=why):
            Source(path, Columns())


def test_a_name_of_a_file_that_is_not_utf8_makes_a_key_that_is(tmp_path):
    (tmp_path / "in").mkdir()
    try:
        (tmp_path / "in" / os.fsdecode(b"\xff.txt")).write_text("good")
    except OSError:
        pytest.skip("this system has no such names")
    [row] = read(tmp_path / "in")
    assert (row.key, row.text) == ("in/\\xff.txt", "good")
    [row] = read(tmp_path / "in" / os.fsdecode(b"\xff.txt"))
    assert (row.key, row.text) == ("\\xff.txt:1", "good")


def test_a_link_to_a_folder_is_told_and_not_followed(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.txt").write_text("good")
    (tmp_path / "in/loop").symlink_to(tmp_path / "in", target_is_directory=True)
    assert shown(read(tmp_path / "in")) == [
        ("in/a.txt", "good", None),
        ("in/loop", "", "it is a link to a folder, which isn't followed"),
    ]


def test_a_folder_that_cannot_be_read_stops_the_run(tmp_path, monkeypatch):
    (tmp_path / "in/closed").mkdir(parents=True)
    listed = os.scandir

    def scandir(path):
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(DataError, match=r"closed can't be read \(Permission denied\)"):
        read(tmp_path / "in")


def test_two_columns_of_texts_stop_the_run(tmp_path):
    path = tmp_path / "notes.csv"
    path.write_text("text,text\na,b\n")
    with pytest.raises(DataError, match="has 2 columns named 'text'"):
        read(path)


def test_two_columns_of_texts_stop_the_run_in_parquet_too(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet

    path = tmp_path / "notes.parquet"
    cells = [pa.array(["a"]), pa.array(["b"])]
    pa.parquet.write_table(pa.Table.from_arrays(cells, names=["text", "text"]), path)
    with pytest.raises(DataError, match="has 2 columns named 'text'"):
        read(path)


@pytest.mark.parametrize("columns", [{"text": "nope"}, {"id": "nope"}])
def test_a_column_that_no_line_of_jsonl_has_stops_the_run(tmp_path, columns):
    path = tmp_path / "notes.jsonl"
    path.write_text('{"id": 1, "text": "a"}\n')
    with pytest.raises(DataError, match="has no column 'nope'; its columns are 'id', 'text'"):
        read(path, **columns)


def test_metadata_that_no_line_of_jsonl_has_are_told(tmp_path, caplog):
    path = tmp_path / "notes.jsonl"
    path.write_text('{"text": "a", "year": 1}\n{"text": "b"}\n')
    assert len(read(path, metadata=("year", "nope"))) == 2
    assert caplog.messages == ["no line of notes.jsonl has the column 'nope'"]
