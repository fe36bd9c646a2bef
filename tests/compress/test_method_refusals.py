"""What a method refuses: settings, and students that can't be compared with their teacher."""

from __future__ import annotations

import pytest

from edgebert.errors import InputError
from tests.compress.phases import PAIRS, phases_of


@pytest.mark.parametrize(
    ("method", "task", "changes", "named"),
    [
        ("nokd", "text-classification", {}, "Known methods: logits"),
        ("embedding", "text-classification", {}, "use logits or tinybert"),
        ("logits", "text-classification", {"hard_weight": 2.0}, "hard_weight must be from 0 to 1"),
        ("logits", "text-classification", {"temperature": 0.0}, "temperature must be above 0"),
        (
            "logits",
            "text-classification",
            {"hidden_weight": -1.0},
            "hidden_weight must be 0 or more",
        ),
        ("logits", "text-classification", {"class_weights": (1.0,)}, "1 weights for 2 classes"),
        ("minilm", "text-classification", {"num_relation_heads": 5}, "1, 2, 4, 8, 16, 32"),
        ("minilm", "text-classification", {"teacher_layer": 3}, "teacher_layer must be 1 to 2"),
        (
            "embedding",
            "feature-extraction",
            {"pooled_weight": 0.0, "similarity_weight": 0.0, "hidden_weight": 0.0},
            "All weights of phase 'embedding' are 0",
        ),
    ],
)
def test_setting_that_can_not_be_meant_is_refused(method, task, changes, named):
    with pytest.raises(InputError, match=named):
        phases_of(method, task, **changes)


def test_sixteen_head_teacher_with_twelve_head_student_names_minilm():
    with pytest.raises(InputError, match=r"student has 12 and the teacher 16.*minilm.*A=16"):
        phases_of(
            "tinybert",
            "text-classification",
            student={"hidden_size": 48, "num_attention_heads": 12},
            teacher={"hidden_size": 48, "num_attention_heads": 16},
        )


@pytest.mark.parametrize(("method", "task"), PAIRS)
def test_other_vocabulary_is_refused_by_every_method_that_compares_tokens(method, task):
    with pytest.raises(InputError, match="vocabulary of 50 tokens"):
        phases_of(method, task, student={"vocab_size": 50})


def test_other_vocabulary_is_fine_where_whole_texts_are_compared():
    phases_of("logits", "text-classification", student={"vocab_size": 50}, hidden_weight=0.0)
    phases_of("embedding", "feature-extraction", student={"vocab_size": 50}, hidden_weight=0.0)


def test_other_number_of_classes_is_refused():
    with pytest.raises(InputError, match="student has 2 classes, the teacher 3"):
        phases_of("logits", "text-classification", teacher={"num_labels": 3})
