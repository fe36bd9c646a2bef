"""The table fits a terminal, and any terminal's characters."""

from __future__ import annotations

from dataclasses import replace

from compress.reporting.table import format_table
from tests.compress.sample_report import fp32_row, refused_row, sample_report, teacher


def test_the_table_is_ascii_even_when_a_name_is_not():
    assert format_table(replace(sample_report(), title="模型")).isascii()


def test_no_line_of_the_table_is_longer_than_100_characters():
    table = format_table(sample_report(refused=(refused_row(),)))
    assert max(map(len, table.splitlines())) <= 100


def test_the_table_has_a_line_for_the_teacher_and_for_each_artifact():
    lines = format_table(sample_report(refused=(refused_row(),))).splitlines()
    starts = ("teacher fp32 ", "onnx fp32 ", "onnx int8 ", "openvino int8 ")
    assert [line.startswith(start) for line, start in zip(lines[5:9], starts, strict=True)] == [
        True
    ] * 4


def test_a_line_shows_size_score_retention_and_speedup():
    line = next(x for x in format_table(sample_report()).splitlines() if x.startswith("onnx int8"))
    # 0.9634 / 0.9703 = 99.3 %, 12.94 ms / 1.87 ms = 6.9
    assert line.split() == [
        *("onnx", "int8", "17.5", "MB", "0.9634", "0.955-0.971", "99.3", "%"),
        *("1.87", "7.30", "304", "6.9x", "passed"),
    ]


def test_a_refusal_stands_below_with_its_reason():
    table = format_table(sample_report(refused=(refused_row(),)))
    assert "REFUSED" in table
    assert "refused openvino int8: accuracy on dev fell by 3.6 %" in table


def test_what_was_not_measured_is_a_dash():
    bare = replace(teacher(), score=None, interval=None, latency_ms={}, texts_per_s=None)
    report = replace(sample_report(rows=(fp32_row(),)), teacher=bare)
    line = next(x for x in format_table(report).splitlines() if x.startswith("teacher"))
    assert line.split() == ["teacher", "fp32", "90.9", "MB", *"-------"]
