"""What the files beside a foreign model say: lengths, special tokens, pooling and prompts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import edgebert
from edgebert.bundles.bundle import Bundle
from edgebert.errors import DamagedBundleError, ManifestError, TaskError
from tests.edgebert.bundles import HIDDEN, hidden_by_hand, write_graph
from tests.edgebert.foreign import IDS, MODULES, write_config, write_foreign, write_modules
from tests.tiny import write_tokenizer

pytestmark = pytest.mark.onnx


def rename_output(path: Path, old: str, new: str) -> None:
    model = onnx.load(str(path))
    for value in model.graph.output:
        value.name = new if value.name == old else value.name
    for node in model.graph.node:
        node.output[:] = [new if name == old else name for name in node.output]
        node.input[:] = [new if name == old else name for name in node.input]
    onnx.save(model, str(path))


def test_the_longest_input_is_the_least_of_all_limits(tmp_path):
    write_foreign(tmp_path, output="logits", max_position_embeddings=512)
    write_tokenizer(tmp_path, max_length=100)
    assert Bundle(tmp_path).manifest.max_length == 100
    write_config(tmp_path, architectures=["BertModel"], max_position_embeddings=64, id2label={})
    write_graph(tmp_path / "model.onnx", output="last_hidden_state")
    assert Bundle(tmp_path).manifest.max_length == 64
    write_modules(tmp_path, *MODULES, pooling_mode="mean")
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 16}')
    assert Bundle(tmp_path).manifest.max_length == 16


def test_no_limit_at_all_is_an_error_that_says_where_to_write_one(tmp_path):
    write_foreign(tmp_path, output="logits", max_position_embeddings=None)
    (tmp_path / "tokenizer_config.json").write_text(
        '{"pad_token": "[PAD]", "model_max_length": 1000000000000000019884624838656}'
    )
    with pytest.raises(DamagedBundleError, match=r"tokenizer_config\.json as \"model_max_length\""):
        Bundle(tmp_path)


def test_special_tokens_are_read_from_the_tokenizers_files(tmp_path):
    write_foreign(tmp_path, output="words")
    assert Bundle(tmp_path).manifest.special_ids == {
        **{"pad_token_id": 0, "unk_token_id": 1, "cls_token_id": 2, "sep_token_id": 3},
        "mask_token_id": 4,
    }


def test_a_padding_token_of_the_configuration_will_do(tmp_path):
    write_foreign(tmp_path, output="logits", pad_token_id=0)
    (tmp_path / "tokenizer_config.json").write_text("{}")
    assert Bundle(tmp_path).manifest.special_ids == {"pad_token_id": 0}


def test_no_padding_token_is_an_error(tmp_path):
    write_foreign(tmp_path, output="logits")
    (tmp_path / "tokenizer_config.json").write_text("{}")
    with pytest.raises(DamagedBundleError, match="names no padding token"):
        Bundle(tmp_path)


def test_a_tokenizer_without_its_fast_form_is_an_error(tmp_path):
    write_foreign(tmp_path, output="logits")
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(DamagedBundleError, match="save_pretrained"):
        Bundle(tmp_path)


def test_pooling_is_never_guessed(tmp_path):
    runtime = edgebert.Runtime(write_foreign(tmp_path, output="last_hidden_state"))
    with pytest.raises(TaskError, match=r"modules\.json.*--pooling"):
        runtime.encode(["good film"])
    (found,) = runtime.encode_tokens(["good film"])
    np.testing.assert_allclose(found.vectors, hidden_by_hand(IDS)[1:3], atol=1e-5)


@pytest.mark.parametrize(
    "pooling",
    [{"pooling_mode": "mean"}, {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}],
)
def test_pooling_is_what_sentence_transformers_files_say(tmp_path, pooling):
    write_foreign(tmp_path, output="last_hidden_state")
    write_modules(tmp_path, *MODULES, **pooling)
    vector = hidden_by_hand(IDS).mean(axis=0)
    found = edgebert.Runtime(tmp_path).encode(["good film"])[0]
    np.testing.assert_allclose(found, vector / np.linalg.norm(vector), atol=1e-5)


def test_prompts_are_read(tmp_path):
    write_foreign(tmp_path, output="last_hidden_state")
    write_modules(tmp_path, *MODULES, pooling_mode="cls")
    settings = {"prompts": {"query": "query: ", "document": ""}}
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(settings))
    assert Bundle(tmp_path).manifest.prompts == {"query": "query: "}


def test_a_dense_module_that_is_not_in_the_graph_is_refused(tmp_path):
    write_foreign(tmp_path, output="last_hidden_state")
    write_modules(tmp_path, "Transformer", "Pooling", "Dense", pooling_mode="mean")
    with pytest.raises(ManifestError, match="Transformer, Pooling, Dense"):
        Bundle(tmp_path)


def test_a_pooling_folder_outside_is_refused(tmp_path):
    write_foreign(tmp_path, output="last_hidden_state")
    modules = [{"type": "x.Transformer", "path": ""}, {"type": "x.Pooling", "path": "../1_Pooling"}]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(DamagedBundleError, match="leaves it"):
        Bundle(tmp_path)


def test_the_graphs_own_vectors_are_taken_under_sentence_transformers_names(tmp_path):
    write_foreign(tmp_path, output="sentence_embedding")
    rename_output(tmp_path / "model.onnx", "last_hidden_state", "token_embeddings")
    runtime = edgebert.Runtime(tmp_path)
    vector = runtime.run(runtime.tokenize(["good film"]))["sentence_embedding"][0]
    np.testing.assert_allclose(runtime.encode(["good film"])[0], vector, atol=1e-6)
    assert runtime.encode_tokens(["good film"])[0].vectors.shape == (2, HIDDEN)
