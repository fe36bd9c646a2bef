"""What can't be pruned is refused, with what can."""

from __future__ import annotations

import pytest

import compress
from edgebert.errors import InputError, ModelError
from tests.compress.prune_models import prune_settings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {},
            "exactly one of --target-speedup, --sparsity, --target-size, --num-hidden-layers, "
            "--hidden-size; got none",
        ),
        ({"sparsity": 0.5, "num_hidden_layers": 1}, "got --sparsity and --num-hidden-layers"),
        ({"sparsity": 1.0}, "sparsity must be above 0 and below 1, got 1.0"),
        (
            {"target_size": "8MB", "units": "heads"},
            "--units heads says what --sparsity and --target-speedup cut",
        ),
        ({"target_speedup": 1.0}, "target_speedup must be above 1, got 1.0"),
        ({"hidden_size": 0}, "hidden_size must be 1 or more, got 0"),
        ({"sparsity": 0.5, "backend": "tpu"}, "Unknown backend 'tpu'"),
        ({"num_hidden_layers": 1, "importance": "movement"}, "give taylor or magnitude"),
        ({"target_size": "8MB", "unstructured": True}, "--unstructured needs --sparsity"),
        ({"sparsity": 0.5, "unstructured": True}, "magnitude or movement, got taylor"),
        (
            {"sparsity": 0.5, "unstructured": True, "importance": "magnitude", "rounds": 2},
            "--rounds has no say with --unstructured",
        ),
        (
            {
                "sparsity": 0.5,
                "unstructured": True,
                "importance": "magnitude",
                "backend": "onnx",
            },
            "timed on torch alone, got --backend onnx",
        ),
        (
            {
                "sparsity": 0.5,
                "unstructured": True,
                "importance": "movement",
                "num_train_epochs": 0,
            },
            "num_train_epochs must be 1 or more, got 0",
        ),
        ({"sparsity": 0.5, "rounds": 0}, "rounds must be 1 or more, got 0"),
        ({"sparsity": 0.5, "num_train_epochs": -1}, "num_train_epochs must be 0 or more"),
    ],
)
def test_settings_that_say_too_little_or_too_much_are_refused(lab, tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        prune_settings(lab, tmp_path / "out", **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        # 3 of 4 heads and 63 of 64 neurons of both layers, of 17,088 parameters
        ({"sparsity": 0.99}, "the most is 0.847"),
        ({"sparsity": 0.5, "units": "heads"}, "sparsity 0.5 is more than --units heads can give"),
        ({"num_hidden_layers": 2}, "must be below the model's 2"),
        ({"target_size": "1MB"}, "cuts nothing"),
        ({"target_size": "1kB"}, "is less than the"),
    ],
)
def test_what_cannot_be_cut_is_refused_and_nothing_is_left(lab, tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        compress.prune(prune_settings(lab, tmp_path / "out", **changes))
    assert not list(tmp_path.iterdir())


def test_a_model_without_a_head_is_refused(lab, tmp_path):
    with pytest.raises(ModelError, match="no head for text-classification; train one"):
        compress.prune(prune_settings(lab, tmp_path / "out", model=str(lab.encoder), sparsity=0.5))


def test_the_most_that_is_named_can_be_cut(lab, tmp_path):
    config = prune_settings(lab, tmp_path / "out", sparsity=0.847, num_train_epochs=0)
    result = compress.prune(config)
    assert (result.after.heads, result.after.neurons) == (2, 1)
