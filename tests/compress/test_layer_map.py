"""Layer maps, against the papers' own and by hand."""

from __future__ import annotations

import pytest

from compress.models.layer_map import layer_map
from edgebert.errors import InputError


@pytest.mark.parametrize(
    ("strategy", "student", "teacher", "expected"),
    [
        ("uniform", 4, 12, (3, 6, 9, 12)),  # TinyBERT's g(m) = 3m
        ("uniform", 3, 6, (2, 4, 6)),
        ("uniform", 4, 6, (1, 3, 4, 6)),  # 1.5, 3, 4.5, 6 rounded down
        ("last", 2, 6, (5, 6)),
        ("first", 2, 6, (1, 2)),
        ("1,3,5", 3, 6, (1, 3, 5)),
    ],
)
def test_strategy_names_the_teacher_layer_of_each_student_layer(
    strategy, student, teacher, expected
):
    assert layer_map(strategy, student, teacher) == expected


@pytest.mark.parametrize(
    ("strategy", "named"),
    [
        ("middle", "Unknown layer map 'middle'"),
        ("1,2", "names 2 layers for a student of 3"),
        ("1,2,7", r"\[7\], which don't exist"),
        ("0,1,2", r"\[0\], which don't exist"),
        ("3,2,1", "doesn't rise"),
    ],
)
def test_bad_map_is_refused_with_what_is_allowed(strategy, named):
    with pytest.raises(InputError, match=named) as caught:
        layer_map(strategy, 3, 6)
    assert "1 to 6" in str(caught.value)


def test_student_deeper_than_its_teacher_is_refused():
    with pytest.raises(InputError, match="8 layers can't imitate a teacher of 6"):
        layer_map("uniform", 8, 6)


def test_alternate_begins_with_the_first_layer():
    assert layer_map("alternate", 3, 6) == (1, 3, 5)
    assert layer_map("alternate", 6, 12) == (1, 3, 5, 7, 9, 11)
