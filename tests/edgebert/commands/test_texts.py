"""Where the texts of a command come from."""

import json

import pytest

from edgebert.commands.results import each_result
from edgebert.runtime import Runtime


def test_stdin_gives_one_result_a_line_also_for_an_empty_one(classifier_dir, edgebert, stdin):
    stdin(b"\xef\xbb\xbfgood\r\n\n\xe5\xa5\xbd\x0bfilm\n")  # BOM, CRLF, a vertical tab
    _, out, _ = edgebert("classify", classifier_dir, "--json")
    assert [json.loads(line)["text"] for line in out.splitlines()] == ["good", "", "好\x0bfilm"]


def test_files_are_read_in_the_order_given(classifier_dir, edgebert, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"film {name}\nplot {name}")
    _, out, _ = edgebert(
        "classify", classifier_dir, "--input", tmp_path / "b", "--input", tmp_path / "a"
    )
    texts = [line.split("\t")[2] for line in out.splitlines()]
    assert texts == ["film b", "plot b", "film a", "plot a"]


def test_a_line_that_is_not_utf8_is_named(classifier_dir, edgebert, tmp_path):
    (tmp_path / "latin").write_bytes(b"good\ncaf\xe9\n")
    code, out, err = edgebert("classify", classifier_dir, "--input", tmp_path / "latin")
    assert (code, out) == (1, "")
    assert f"{tmp_path / 'latin'}:2 is not UTF-8" in err


def test_a_missing_input_file_ends_with_1_and_its_name(classifier_dir, edgebert, tmp_path):
    code, _, err = edgebert("classify", classifier_dir, "--input", tmp_path / "gone")
    assert code == 1
    assert str(tmp_path / "gone") in err


def test_pairs_are_split_at_the_tab(pairs_dir, edgebert):
    with Runtime(pairs_dir) as runtime:
        expected = runtime.classify([("good film", "bad")])[0]
    _, out, _ = edgebert("classify", pairs_dir, "--pairs", "good film\tbad", "--json")
    row = json.loads(out)
    assert (row["text"], row["text_pair"]) == ("good film", "bad")
    assert row["score"] == pytest.approx(expected.score)


def test_a_pair_without_a_tab_is_named(pairs_dir, edgebert, stdin):
    stdin(b"good\tbad\nalone\n")
    code, _, err = edgebert("classify", pairs_dir, "--pairs")
    assert code == 1
    assert "stdin:2 has 0 TABs" in err


def test_a_text_too_long_is_counted_over_all_chunks(classifier_dir, edgebert, stdin, monkeypatch):
    monkeypatch.setitem(each_result.__kwdefaults__, "size", 2)
    stdin(b"a\nb\nc\n" + b"film " * 99 + b"\n")
    code, out, err = edgebert("classify", classifier_dir, "--on-long", "error")
    assert code == 1
    assert len(out.splitlines()) == 2
    assert "chunk that begins at text 2" in err
