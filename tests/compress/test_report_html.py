"""The page is one whole file, escapes what it is given, and draws in proportion."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from compress.report import ClassRecord, Latency, Report, SplitRecord
from compress.reporting.html import fastest, render_html
from compress.reporting.plots import Mark, bars, squares, ticks_of
from tests.compress.sample_report import (
    fp32_row,
    int8_row,
    refused_row,
    sample_report,
    teacher,
)

VOID = {"meta"}


class Balance(HTMLParser):
    """Collects the tags that are open, and fails on one that is closed out of turn."""

    def __init__(self):
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):  # noqa: ARG002  the parser's signature
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def without_scores() -> Report:
    rows = (replace(fp32_row(), score=None, interval=None, per_class=()),)
    bare = replace(
        teacher(), score=None, interval=None, per_class=(), latency_ms={}, texts_per_s=None
    )
    return replace(sample_report(rows=rows), teacher=bare, phases=(), notes=(), lineage=())


def many_classes(report: Report, number: int) -> Report:
    records = tuple(
        ClassRecord(label=f"label-{i}.", recall=i / number, precision=0.5, support=3)
        for i in range(number)
    )
    return replace(report, rows=(replace(int8_row(), per_class=records),))


@pytest.mark.parametrize(
    "report",
    [
        sample_report(),
        sample_report(refused=(refused_row(),)),
        sample_report(rows=(), refused=(refused_row(),)),
        without_scores(),
        many_classes(sample_report(), 77),
    ],
)
def test_every_tag_is_closed_in_turn(report):
    balance = Balance()
    balance.feed(render_html(report))
    assert balance.open == []


def test_the_page_asks_for_no_other_file_and_runs_no_script():
    page = render_html(sample_report(refused=(refused_row(),)))
    assert re.search(r"<script|<link|<img|<iframe|@import|url\(|\bsrc=|\bhref=", page) is None


def test_names_from_the_data_are_escaped_everywhere():
    evil = "<img src=x onerror=alert(1)>\"'"
    record = ClassRecord(label=evil, recall=0.5, precision=0.5, support=1)
    report = replace(
        sample_report(rows=(replace(int8_row(), per_class=(record,), engine=evil),)),
        title=evil,
        notes=(evil,),
        command=evil,
        metric=evil,
        machine={evil: evil},
        lineage=({"step": evil},),
        seconds={evil: 1.0},
    )
    assert "<img" not in render_html(report)


def test_the_squares_areas_are_in_proportion_to_the_sizes():
    drawn = squares([Mark("Teacher", "teacher", 90.0, "90"), Mark("INT8", "int8", 22.5, "22.5")])
    outer, inner = map(float, re.findall(r' width="([\d.]+)"', drawn))
    assert (inner / outer) ** 2 == pytest.approx(22.5 / 90.0)


def test_the_bars_lengths_are_in_proportion_to_the_values():
    drawn = bars([Mark("a", "teacher", 8.0, "8"), Mark("b", "int8", 2.0, "2")])
    assert re.findall(r"width:([\d.]+)%", drawn) == ["100.00", "25.00"]


@pytest.mark.parametrize(
    ("low", "high", "wanted", "expected"),
    [
        (0.0, 3.0, 3, [0.0, 1.0, 2.0, 3.0]),
        (0.0, 0.9, 3, [0.0, 0.5]),
        (0.955, 0.982, 3, [0.96, 0.97, 0.98]),
        (-10.0, 10.0, 4, [-10.0, -5.0, 0.0, 5.0, 10.0]),
    ],
)
def test_ticks_are_round_numbers_within_the_ends(low, high, wanted, expected):
    assert ticks_of(low, high, wanted=wanted) == pytest.approx(expected)


def test_a_class_that_is_no_longer_predicted_is_marked():
    lost = tuple(
        replace(item, recall=0.0) if item.label == "grain" else item
        for item in int8_row().per_class
    )
    page = render_html(sample_report(rows=(replace(int8_row(), per_class=lost),)))
    assert page.count('class="class vanished"') == 1


def test_a_long_list_of_classes_shows_the_lowest_and_says_so():
    page = render_html(many_classes(sample_report(), 77))
    assert "The 24 lowest of 77 classes" in page
    assert "label-23." in page
    assert "label-24." not in page


def test_a_phase_without_scores_says_why_and_draws_losses_alone():
    report = sample_report()
    page = render_html(replace(report, phases=report.phases[:1]))
    assert "Losses only: the head isn&#x27;t trained yet." in page.replace("'", "&#x27;")
    assert "on dev over" not in page


def test_the_headline_is_of_the_fastest_artifact():
    slow = replace(int8_row(), latency_ms={"b1_s32": Latency(9.0, 9.0)})
    assert fastest(sample_report(rows=(slow, fp32_row()))) == fp32_row()


def test_a_bundle_without_artifacts_says_that_nothing_can_run():
    page = render_html(sample_report(rows=(), refused=(refused_row(),)))
    assert "No artifact passed its gate" in page


def test_the_smallest_cosine_is_not_rounded_up():
    page = render_html(sample_report(rows=(fp32_row(),)))  # its cosine_min is 0.9999998
    assert "cosine ≥ 0.9999" in page


def test_what_was_not_measured_of_a_refused_artifact_is_a_dash():
    bare = replace(refused_row(), size_bytes=None, parity=None, score=None)
    page = render_html(sample_report(rows=(), refused=(bare,)))
    assert '<td data-label="Size"><span>-</span></td>' in page
    assert '<td data-label="Difference"><span>-</span></td>' in page


def test_the_dev_curve_is_named_after_its_own_metric_or_the_reports_in_old_ones():
    report = sample_report()
    old = replace(report, phases=tuple(replace(phase, metric="") for phase in report.phases))
    other = replace(report.phases[1], metric="macro_f1")
    assert "Accuracy on dev" in render_html(old)
    assert "Macro F1 on dev" in render_html(replace(report, phases=(other,)))


def test_a_refusal_is_told_with_its_reason():
    page = render_html(sample_report(refused=(refused_row(),)))
    assert "Refused by its gate: OpenVINO INT8" in page
    assert refused_row().gate.reasons[0] in page


def test_a_split_that_was_measured_in_part_says_how_many_rows():
    part, whole = (SplitRecord(rows=1821, sha256="0" * 64, measured=n) for n in (500, 1821))
    assert "1,821 rows, 500 of them measured" in render_html(sample_report_of(part))
    assert "measured, " not in render_html(sample_report_of(whole))


def sample_report_of(test: SplitRecord) -> Report:
    return replace(sample_report(), data={"test": test})
