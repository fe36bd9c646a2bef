"""A search's result: on the terminal, as a page, and read back."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from compress.searching.budget import Budget, Cost
from compress.searching.picture import draw
from compress.searching.records import Finalist, SearchResult, Tried, load_result
from compress.searching.table import format_result


def finalist(number: int, precision: str, kept: float, size_mb: float, latency_ms: float):
    return Finalist(
        name=f"{number} {precision}",
        kept=kept,
        cost=Cost(size_bytes=int(size_mb * 1e6), latency_ms=latency_ms),
        number=number,
        student=f"L={number},H=64",
        vocab_size=4000,
        precision=precision,
        recipe="dynamic" if precision == "int8" else "",
        score=0.9 * kept,
        path="onnx/model.onnx",
    )


def tried(number: int, outcome: str, reason: str = "", *, kept: float | None = None) -> Tried:
    cost = None if kept is None else Cost(size_bytes=10**6 * number, latency_ms=number / 2)
    return Tried(
        number=number,
        student=f"L={number},H=64",
        vocab_size=4000,
        outcome=outcome,
        reason=reason,
        kept=kept,
        precision=None if cost is None else "int8",
        cost=cost,
    )


@pytest.fixture
def result() -> SearchResult:
    finalists = (
        finalist(3, "fp32", 0.99, 12, 3.0),
        finalist(3, "int8", 0.98, 3, 1.0),
        finalist(4, "int8", 0.97, 4, 1.5),
    )
    return SearchResult(
        goal="score",
        budget=Budget(max_size_bytes=8_000_000, max_latency_ms=2.0),
        backend="onnx",
        threads=2,
        metric="accuracy",
        teacher_score=0.9,
        chosen=finalists[1],
        finalists=finalists,
        tried=(
            tried(3, "trained", kept=0.95),
            tried(4, "trained", kept=0.93),
            tried(5, "stopped", "worse than half"),
            tried(6, "dropped", "by estimate, 9.0 MB is more than 8.0 MB"),
            tried(7, "dropped", "by estimate, 10.0 MB is more than 8.0 MB"),
        ),
        shapes=240,
        short_steps=100,
        seconds=3600.0,
        notes=("time ended the search <early>",),
        test_score=0.88,
    )


def test_what_is_written_is_read_back(result):
    assert load_result(json.loads(json.dumps(result.to_json()))) == result
    assert result.to_json()["front"] == ["3 fp32", "3 int8"]


def test_the_table_names_the_chosen_one_the_front_and_what_is_over_the_budget(result):
    text = format_result(result)
    lines = {" ".join(line.split()[:2]): line for line in text.splitlines() if line}
    assert lines["3 int8"].endswith("CHOSEN, front")
    assert lines["3 fp32"].endswith(
        "front, 12.0 MB is more than 8.0 MB, 3.00 ms is more than 2.00 ms"
    )
    assert lines["4 int8"].rstrip().endswith("97.0 %")
    assert "The best score within 8.0 MB and within 2.00 ms" in text
    assert text.isascii()


def test_the_table_says_what_was_tried_and_why_it_was_not_taken(result):
    text = format_result(result)
    assert "240 shapes: 2 had a short training of 100 steps, 1 were stopped, 2 dropped" in text
    assert "dropped 2: too large by estimate" in text
    assert "accuracy on test, read once: 0.8800 (int8)" in text
    assert "note: time ended the search <early>" in text


class Shapes(HTMLParser):
    def __init__(self):
        super().__init__()
        self.circles: list[dict[str, str]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag == "circle":
            self.circles.append(dict(attrs))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def shapes_of(page: str) -> list[dict[str, str]]:
    parser = Shapes()
    parser.feed(page)
    assert parser.open == []
    return parser.circles


def test_each_plot_has_a_dot_for_each_student_that_was_taught_and_each_artifact(result):
    circles = shapes_of(draw(result, title="found"))
    kinds = [circle["class"] for circle in circles]
    assert kinds == 2 * ["short", "short", "fp32", "int8 chosen", "int8"]


def test_what_is_better_stands_higher_and_what_takes_more_further_right(result):
    circles = shapes_of(draw(result, title="found"))[2:5]  # 99 % at 12 MB, 98 % at 3, 97 % at 4
    heights = [float(circle["cy"]) for circle in circles]
    places = [float(circle["cx"]) for circle in circles]
    assert heights[0] < heights[1] < heights[2]  # an SVG counts from the top
    assert places[1] < places[2] < places[0]


def test_the_page_needs_nothing_else_and_nothing_can_be_injected(result):
    page = draw(result, title="<b>found</b>")
    assert not re.search(r"https?://|<script|@import|url\(", page)
    assert "<b>found</b>" not in page
    assert "&lt;early&gt;" in page
