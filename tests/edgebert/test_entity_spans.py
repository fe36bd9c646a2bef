"""Tags to entities, by hand and against a slow reading of the same rules."""

from __future__ import annotations

import numpy as np
import pytest

from edgebert.tasks.tagging import entity_spans, read_tag


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("", []),
        ("O O", []),
        ("B-PER I-PER O B-LOC", [("PER", 0, 1), ("LOC", 3, 3)]),
        ("I-PER I-PER O", [("PER", 0, 1)]),  # I at the start
        ("O I-PER", [("PER", 1, 1)]),
        ("B-PER I-LOC I-LOC", [("PER", 0, 0), ("LOC", 1, 2)]),  # I of another type
        ("B-PER B-PER", [("PER", 0, 0), ("PER", 1, 1)]),
        ("I-PER B-PER I-PER", [("PER", 0, 0), ("PER", 1, 2)]),
        ("B-PER O I-PER", [("PER", 0, 0), ("PER", 2, 2)]),  # O between
        ("B-PER I-PER E-PER S-LOC", [("PER", 0, 2), ("LOC", 3, 3)]),
        ("S-PER S-PER", [("PER", 0, 0), ("PER", 1, 1)]),
        ("S-PER I-PER", [("PER", 0, 0), ("PER", 1, 1)]),
        ("S-PER E-PER", [("PER", 0, 0), ("PER", 1, 1)]),
        ("B-PER E-PER I-PER E-PER", [("PER", 0, 1), ("PER", 2, 3)]),  # I behind E
        ("E-PER E-PER", [("PER", 0, 0), ("PER", 1, 1)]),
        ("O E-PER", [("PER", 1, 1)]),
        ("B-PER E-LOC", [("PER", 0, 0), ("LOC", 1, 1)]),
        ("B-PER I-PER S-PER", [("PER", 0, 1), ("PER", 2, 2)]),
        ("B-PER I-PER L-PER U-PER U-PER", [("PER", 0, 2), ("PER", 3, 3), ("PER", 4, 4)]),
        ("B-PER M-PER E-PER", [("PER", 0, 2)]),
        ("PER PER O ORG LOC", [("PER", 0, 1), ("ORG", 3, 3), ("LOC", 4, 4)]),
        ("B-creative-work I-creative-work", [("creative-work", 0, 1)]),
        ("B I O B", [("_", 0, 1), ("_", 3, 3)]),
    ],
)
def test_entities_are_read_as_seqeval_does_by_default(tags, expected):
    assert entity_spans(tags.split()) == expected


@pytest.mark.parametrize("tag", ["ORG", "BRAND", "LOC", "Misc", "I_x", "X-PER"])
def test_a_name_without_a_prefix_is_a_type_of_its_own(tag):
    assert read_tag(tag) == ("I", tag)


def _by_borders(tags):
    """Ask of each gap between two tags whether it ends and whether it begins an entity."""
    padded = ["O", *tags, "O"]
    spans, first = [], 0
    for gap in range(1, len(padded)):
        (left, *left_type), (right, *right_type) = padded[gap - 1], padded[gap]
        other = left_type != right_type
        ends = left in "ES" or (left in "BI" and right in "BSO") or (left != "O" and other)
        begins = right in "BS" or (right in "EI" and left in "ESO") or (right != "O" and other)
        if ends:
            spans.append(("".join(left_type)[1:], first, gap - 2))
        if begins:
            first = gap - 1
    return spans


def test_random_tags_agree_with_a_reading_border_by_border():
    random = np.random.default_rng(0)
    tags = ["O", *(f"{letter}-{kind}" for letter in "BIES" for kind in ("X", "Y"))]
    for _ in range(3000):
        sequence = [tags[i] for i in random.integers(len(tags), size=random.integers(1, 9))]
        assert entity_spans(sequence) == _by_borders(sequence)
