"""How a checkpoint tells sentence-transformers what its vectors are."""

from __future__ import annotations

import json

import pytest

from compress.models.sentence_layout import SentenceLayout, read_layout, write_layout
from edgebert.errors import ModelError


@pytest.mark.parametrize("layout", [
    SentenceLayout(pooling="cls", normalize=False, max_length=64),
    SentenceLayout(pooling="mean", normalize=True, max_length=9, prompts={"query": "ask: "}),
])  # fmt: skip
def test_a_layout_that_was_written_is_read_again(tmp_path, layout):
    write_layout(tmp_path, layout, hidden_size=8)
    assert read_layout(tmp_path) == layout


def test_a_dense_layer_after_the_pooling_is_refused(tmp_path):
    layout = SentenceLayout(pooling="mean", normalize=False)
    write_layout(tmp_path, layout, hidden_size=8)
    modules = json.loads((tmp_path / "modules.json").read_text())
    modules.append(
        {"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.Dense"}
    )
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ModelError, match="Dense"):
        read_layout(tmp_path)


def test_a_checkpoint_without_modules_json_says_nothing(tmp_path):
    assert read_layout(tmp_path) is None


def test_the_newer_form_of_the_pooling_is_read_too(tmp_path):
    write_layout(tmp_path, SentenceLayout(pooling="mean", normalize=True), hidden_size=8)
    settings = {"embedding_dimension": 8, "pooling_mode": "cls", "include_prompt": True}
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(settings))
    layout = read_layout(tmp_path)
    assert layout is not None
    assert layout.pooling == "cls"


def test_a_pooling_of_two_kinds_is_refused(tmp_path):
    write_layout(tmp_path, SentenceLayout(pooling="mean", normalize=True), hidden_size=8)
    settings = {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(settings))
    with pytest.raises(ModelError, match="--pooling"):
        read_layout(tmp_path)
    layout = read_layout(tmp_path, "cls")  # as the message says
    assert layout is not None
    assert layout.pooling == "cls"
