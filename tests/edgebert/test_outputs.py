"""What a graph must give for its task, and the golden outputs of all seven."""

from dataclasses import replace

import numpy as np
import pytest

from edgebert.engines.engine import Engine
from edgebert.engines.selftest import golden_outputs
from edgebert.errors import BackendRunError, BundleError, InputError
from edgebert.formats.manifest import Manifest
from edgebert.runtime import Runtime
from edgebert.text.tokenizer import Tokenizer
from runtimes import SessionOptions, load_backend
from tests.edgebert.bundles import (
    DENSE,
    SCORE,
    SPAN,
    TABLE,
    TAGS,
    TEXTS,
    WEIGHT,
    hidden_by_hand,
    logits_by_hand,
    write_bundle,
    write_graph,
)
from tests.tiny import SPECIAL_IDS


def unit(vector):
    return vector / np.linalg.norm(vector)


# the task -> its golden output of one encoding, flat
BY_HAND = {
    "text-classification": lambda one: logits_by_hand(*one, weight=WEIGHT),
    "regression": lambda one: logits_by_hand(*one, weight=SCORE),
    "multiple-choice": lambda one: logits_by_hand(*one, weight=SCORE),
    "token-classification": lambda one: (hidden_by_hand(*one) @ TAGS).reshape(-1),
    # all starts, then all ends
    "question-answering": lambda one: (hidden_by_hand(*one) @ SPAN).T.reshape(-1),
    "fill-mask": lambda one: (hidden_by_hand(*one) @ TABLE.T).max(axis=1),
    "feature-extraction": lambda one: unit(hidden_by_hand(*one).mean(axis=0)),
}


@pytest.mark.parametrize("task", BY_HAND)
def test_golden_outputs_of_every_task_are_flat_and_those_of_a_hand_calculation(tmp_path, task):
    write_bundle(tmp_path, task=task)
    manifest = Manifest.load(tmp_path)
    tokenizer = Tokenizer(tmp_path, special_ids=SPECIAL_IDS)
    backend = load_backend("onnx", tmp_path / "onnx/model.onnx", SessionOptions(threads=1))
    found = golden_outputs(backend, tokenizer, manifest)
    encodings = tokenizer.encode(TEXTS, manifest.golden.text_pairs, max_length=32)
    assert len(found) == len(TEXTS)
    for row, one in zip(found, encodings, strict=True):
        assert row.ndim == 1
        np.testing.assert_allclose(
            row, BY_HAND[task]((one.input_ids, one.token_type_ids)), atol=1e-5
        )


@pytest.mark.parametrize("task", BY_HAND)
def test_a_bundle_of_every_task_passes_its_self_test(tmp_path, task):
    write_bundle(tmp_path / "b", task=task)
    with Runtime(tmp_path / "b", self_test="always", threads=1) as runtime:
        assert runtime.info.task == task


@pytest.mark.parametrize("task", BY_HAND)
def test_a_graph_without_the_outputs_of_the_task_is_refused(tmp_path, task):
    manifest = write_bundle(tmp_path, task=task)
    wrong = "logits" if task == "feature-extraction" else "last_hidden_state"
    write_graph(tmp_path / "onnx/model.onnx", output=wrong)
    with pytest.raises(BundleError, match=f"outputs \\['{wrong}'\\]; {task} needs"):
        Engine(tmp_path, manifest.artifacts[0], SessionOptions(threads=1), manifest=manifest)


def test_a_text_has_the_graphs_own_vector_where_it_gives_one(runtime_of):
    runtime = runtime_of("feature-extraction", output="sentence_embedding", embedding_size=6)
    (one,) = runtime._tokenizer.encode(["good film"], max_length=None)
    expected = unit(logits_by_hand(one.input_ids, weight=DENSE))
    np.testing.assert_allclose(runtime.encode(["good film"])[0], expected, atol=1e-5)
    assert runtime.encode([]).shape == (0, 6)
    assert runtime.encode(["a"], dtype="binary").shape == (1, 1)
    assert runtime.encode(["a"], truncate_dim=4).shape == (1, 4)
    with pytest.raises(InputError, match="these vectors have 6 dimensions"):
        runtime.encode(["a"], truncate_dim=7)


def test_token_vectors_are_hidden_states_and_not_pooled_ones(runtime_of):
    runtime = runtime_of("feature-extraction", output="sentence_embedding", embedding_size=6)
    (tokens,) = runtime.encode_tokens(["good film"])
    (one,) = runtime._tokenizer.encode(["good film"], max_length=None)
    np.testing.assert_allclose(tokens.vectors, hidden_by_hand(one.input_ids)[1:-1], atol=1e-5)


@pytest.mark.parametrize("field", [{"embedding_size": 6}, {"pooling_layers": 4}])
def test_a_graph_that_lost_what_comes_after_the_hidden_state_is_refused(tmp_path, field):
    manifest = replace(write_bundle(tmp_path, task="feature-extraction"), **field)
    with pytest.raises(BundleError, match=r"needs .*\['last_hidden_state', 'sentence_embedding'\]"):
        Engine(tmp_path, manifest.artifacts[0], SessionOptions(threads=1), manifest=manifest)


def test_a_graph_with_another_number_of_labels_is_refused(runtime_of):
    runtime = runtime_of("regression", output="logits")
    with pytest.raises(BundleError, match=r"logits of shape \[1, 3\]; .* needs \[1, 1\]"):
        runtime.score(["good"])


def test_a_graph_that_gives_no_value_a_token_is_refused(runtime_of):
    runtime = runtime_of("fill-mask", output="logits")
    with pytest.raises(BundleError, match=r"of shape \[1, 3\] for a batch of \[1, 3\] tokens"):
        runtime.fill_mask(["[MASK]"])


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ([{"good": 0.5}], "list"),
        (np.array([["good"]], dtype=object), "object"),
        (np.array(["good"]), "<U4"),
        (np.float32(1.0), "float32"),
        (np.array(1.0), "float64 of shape \\[\\]"),
    ],
)
def test_an_output_that_is_no_array_of_numbers_is_refused_by_name(
    runtime_of, monkeypatch, given, shown
):
    runtime = runtime_of("regression")
    monkeypatch.setattr(runtime._engine._backend, "run", lambda _: {"logits": given})
    with pytest.raises(BackendRunError, match=f"gave 'logits' as {shown}.*must be float32"):
        runtime.score(["good"])


@pytest.mark.parametrize("kind", [np.int64, np.float16, np.float64])
def test_numbers_of_another_kind_are_float32_for_the_caller(runtime_of, monkeypatch, kind):
    runtime = runtime_of("regression")
    logits = np.array([[3]], dtype=kind)
    monkeypatch.setattr(runtime._engine._backend, "run", lambda _: {"logits": logits})
    found = runtime.run(runtime.tokenize(["good"]))["logits"]
    assert (found.dtype, found.tolist()) == (np.float32, [[3.0]])


def test_a_number_beyond_float32_is_refused_as_infinite(runtime_of, monkeypatch):
    runtime = runtime_of("regression")
    monkeypatch.setattr(runtime._engine._backend, "run", lambda _: {"logits": np.array([[1e300]])})
    with pytest.raises(BackendRunError, match="NaN or infinity in 'logits' for rows \\[0\\]"):
        runtime.score(["good"])
