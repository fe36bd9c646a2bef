import logging
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice

import numpy as np
import pytest

from edgebert import Runtime
from edgebert.errors import BackendError, BackendRunError, InputError, TaskError
from edgebert.types import Batch
from tests.edgebert.bundles import LABELS, hidden_by_hand, logits_by_hand, write_bundle
from tests.tiny import VOCAB

WORDS = {word: i for i, word in enumerate(VOCAB)}
CLS, SEP = WORDS["[CLS]"], WORDS["[SEP]"]
MIXED = [
    " ".join(["good", "bad", "film", "very", "dull"][i % 5] for i in range(n % 23))
    for n in range(60)
]


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def test_a_vector_is_the_normalized_mean_of_the_hidden_states(embedder):
    ids = [CLS, WORDS["good"], WORDS["film"], SEP]
    expected = unit(hidden_by_hand(ids).mean(axis=0))
    np.testing.assert_allclose(embedder.encode(["good film"])[0], expected, atol=1e-5)


def test_a_class_is_the_softmax_of_the_logits(classifier):
    logits = logits_by_hand([CLS, WORDS["good"], SEP])
    expected = np.exp(logits) / np.exp(logits).sum()
    result = classifier.classify(["good"])[0]
    assert [result.scores[name] for name in LABELS] == pytest.approx(expected, abs=1e-5)
    assert result.label == LABELS[int(expected.argmax())]


def test_a_pair_is_told_apart_by_token_type_ids(pairs_dir):
    ids = [CLS, WORDS["good"], SEP, WORDS["bad"], SEP]
    logits = logits_by_hand(ids, [0, 0, 0, 1, 1])
    expected = np.exp(logits) / np.exp(logits).sum()
    with Runtime(pairs_dir) as runtime:
        result = runtime.classify([("good", "bad")])[0]
    assert [result.scores[name] for name in LABELS] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("batch_size", [None, 1, 2, 7, 32])
def test_vectors_come_back_in_the_order_of_the_texts(embedder, batch_size):
    alone = np.stack([embedder.encode([text])[0] for text in MIXED])
    together = embedder.encode(MIXED, batch_size=batch_size)
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_classes_do_not_depend_on_batch_mates(classifier):
    alone = [classifier.classify([text])[0] for text in MIXED]
    together = classifier.classify(MIXED)
    for a, b in zip(alone, together, strict=True):
        assert a.scores == pytest.approx(b.scores, abs=1e-5)


def test_an_artifact_that_minds_its_mates_never_gets_any(embedder_dir):
    with Runtime(embedder_dir, precision="int8") as runtime:
        raw = [runtime.run(runtime.tokenize(texts)) for texts in (["good"], ["good", "dull"])]
        alone, beside = (outputs["last_hidden_state"][0] for outputs in raw)
        assert not np.allclose(alone, beside)
        alone = np.stack([runtime.encode([text])[0] for text in MIXED])
        np.testing.assert_array_equal(runtime.encode(MIXED), alone)


def test_no_texts_give_an_empty_result_of_the_right_shape(embedder, classifier):
    assert classifier.classify([]) == []
    assert embedder.encode_tokens([]) == []
    assert embedder.rank("good", []) == []
    assert embedder.similarity([], ["a", "b"]).shape == (0, 2)
    forms = [embedder.encode([], dtype=kind) for kind in ("float32", "float16", "int8", "binary")]
    assert [(form.shape, form.dtype.name) for form in forms] == [
        ((0, 8), "float32"),
        ((0, 8), "float16"),
        ((0, 8), "int8"),
        ((0, 1), "uint8"),
    ]


def test_an_empty_text_is_the_special_tokens_alone(embedder):
    expected = unit(hidden_by_hand([CLS, SEP]).mean(axis=0))
    np.testing.assert_allclose(embedder.encode([""])[0], expected, atol=1e-5)


@pytest.mark.parametrize("method", ["encode", "encode_iter", "encode_tokens", "tokenize"])
def test_every_embedding_method_refuses_what_is_no_list_of_texts(embedder, method):
    with pytest.raises(InputError, match="wrap it in a list"):
        getattr(embedder, method)("good")
    with pytest.raises(InputError, match=r"texts\[1\] is None"):
        list(getattr(embedder, method)(["good", None]))


def test_classify_refuses_what_is_no_list_of_texts(classifier):
    with pytest.raises(InputError, match="wrap it in a list"):
        classifier.classify("good")
    with pytest.raises(InputError, match=r"texts\[0\] is of type int"):
        classifier.classify([3])


def test_pairs_and_single_texts_are_not_taken_for_each_other(classifier, pairs_dir):
    with pytest.raises(InputError, match="trained on one text"):
        classifier.classify([("good", "bad")])
    with Runtime(pairs_dir) as runtime, pytest.raises(InputError, match="trained on pairs"):
        runtime.classify(["good"])
    with pytest.raises(InputError, match=r"texts\[1\] is of type str, but others are pairs"):
        classifier.classify([("good", "bad"), "good"])


def test_a_cut_text_says_how_many_tokens_were_dropped_and_is_logged_once(classifier, caplog):
    long = " ".join(["good"] * 50)
    with caplog.at_level(logging.WARNING):
        results = classifier.classify([long, "bad"])
        classifier.classify([long])
    assert [result.dropped_tokens for result in results] == [20, 0]
    assert len([r for r in caplog.records if "were cut" in r.message]) == 1


@pytest.mark.parametrize("method", ["encode", "encode_tokens", "classify"])
def test_one_length_policy_on_every_method(embedder, classifier, method):
    runtime = classifier if method == "classify" else embedder
    with pytest.raises(InputError, match="more than 32 tokens"):
        getattr(runtime, method)([" ".join(["good"] * 1000)], on_long="error")
    with pytest.raises(InputError, match="allowed: 'error', 'truncate', 'window'"):
        getattr(runtime, method)(["good"], on_long="drop")


def test_max_length_is_obeyed_and_told(embedder_dir):
    (embedder_dir / "config.json").write_text('{"max_position_embeddings": 64}')
    with Runtime(embedder_dir, precision="fp32", max_length=64) as runtime:
        assert runtime.info.max_length == 64
        text = " ".join(["good"] * 61 + ["bad"])
        assert runtime.tokenize([text]).input_ids[0, -2] == WORDS["bad"]


def test_max_length_beyond_the_positions_is_refused(embedder_dir):
    (embedder_dir / "config.json").write_text(
        '{"model_type": "roberta", "pad_token_id": 1, "max_position_embeddings": 66}'
    )
    with pytest.raises(InputError, match="from 1 to 64"):
        Runtime(embedder_dir, max_length=65)


def test_roles_put_their_prompt_before_the_text(embedder):
    np.testing.assert_array_equal(
        embedder.encode(["film"], role="query"), embedder.encode(["good film"])
    )
    with pytest.raises(InputError, match="role is 'passage'"):
        embedder.encode(["film"], role="passage")


def test_rank_gives_the_nearest_document_first(embedder):
    ranked = embedder.rank("film", ["dull plot", "film", "bad"], top_k=2)
    scores = (
        embedder.encode(["dull plot", "film", "bad"], role="document")
        @ embedder.encode(["film"], role="query")[0]
    )
    assert [one.index for one in ranked] == np.argsort(-scores)[:2].tolist()
    assert ranked[0].score == pytest.approx(scores.max(), abs=1e-6)


def test_similarity_takes_texts_or_vectors(embedder):
    vectors = embedder.encode(["good", "bad"])
    np.testing.assert_allclose(
        embedder.similarity(["good", "bad"], vectors), vectors @ vectors.T, atol=1e-6
    )


def test_token_vectors_are_the_hidden_states_without_special_tokens(embedder):
    text = "good film"
    (alone, _) = embedder.encode_tokens([text, "a b c d e"])
    expected = hidden_by_hand([CLS, WORDS["good"], WORDS["film"], SEP])[1:3]
    np.testing.assert_allclose(alone.vectors, expected, atol=1e-5)
    assert [text[start:end] for start, end in alone.offsets] == ["good", "film"]


def test_token_offsets_leave_the_prompt_out(embedder):
    (tokens,) = embedder.encode_tokens(["film"], role="query")
    assert tokens.offsets == [(0, 4)]
    assert tokens.vectors.shape == (1, 8)


def test_a_stream_comes_in_order_and_is_not_read_ahead(embedder):
    taken = []

    def endless():
        for number in count():
            taken.append(number)
            yield MIXED[number % len(MIXED)]

    blocks = list(islice(embedder.encode_iter(endless(), batch_size=7), 3))
    np.testing.assert_allclose(np.concatenate(blocks), embedder.encode(MIXED[:21]), atol=1e-5)
    assert len(taken) == 21


def test_a_stream_names_a_wrong_text_by_its_place_in_the_stream(embedder):
    with pytest.raises(InputError, match=r"texts\[5\] is None"):
        list(embedder.encode_iter(["a"] * 5 + [None], batch_size=2))


def test_a_stream_names_a_text_too_long_by_its_place_in_the_stream(embedder):
    with pytest.raises(InputError, match=r"\(texts\[4\]: "):
        list(embedder.encode_iter(["a"] * 4 + ["a " * 900], batch_size=3, on_long="error"))


def test_a_stream_refuses_a_wrong_argument_before_the_first_text(embedder):
    with pytest.raises(InputError, match="dtype is 'int4'"):
        embedder.encode_iter([], dtype="int4")


def test_a_method_of_another_task_names_those_that_fit(embedder, classifier):
    with pytest.raises(TaskError, match=r"encode\(\) doesn't fit a text-classification .*classify"):
        classifier.encode(["good"])
    for method in ("score", "tag", "answer", "fill_mask", "choose", "classify"):
        with pytest.raises(TaskError, match=r"use encode\(\), .*rank\(\), tokenize\(\) or run"):
            getattr(embedder, method)(["good"])


def test_sixteen_threads_on_one_runtime_get_their_own_results(embedder):
    expected = embedder.encode(MIXED)

    def check(number):
        row = number % len(MIXED)
        found = embedder.encode([MIXED[row], MIXED[-row]])
        return np.allclose(found, expected[[row, -row]], atol=1e-5)

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(check, range(16 * 20)))


def test_a_graph_without_token_type_ids_is_fed_what_it_declares(tmp_path):
    write_bundle(tmp_path / "b", task="feature-extraction", types=False)
    with Runtime(tmp_path / "b") as runtime:
        assert runtime.encode(["good"]).shape == (1, 8)


def test_run_refuses_left_padding(embedder):
    batch = embedder.tokenize(["good", "good bad film"])
    mask = batch.attention_mask[:, ::-1].copy()
    with pytest.raises(InputError, match="pad on the right"):
        embedder.run(Batch(batch.input_ids, mask, batch.token_type_ids, batch.dropped_tokens))


def test_infinity_is_an_error_and_never_a_result(tmp_path):
    write_bundle(tmp_path / "sick", task="feature-extraction", sick="fun")
    with Runtime(tmp_path / "sick") as runtime:
        assert np.isfinite(runtime.encode(["good"])).all()
        with pytest.raises(BackendRunError, match=r"NaN or infinity .* rows \[1\]"):
            runtime.encode(["fun film plot", "good"])


def test_ids_beyond_the_vocabulary_are_an_error_of_the_engine(embedder):
    ids = np.array([[CLS, 10_000, SEP]])
    batch = Batch(ids, np.ones_like(ids), np.zeros_like(ids), np.zeros(1, dtype=np.int64))
    with pytest.raises(BackendRunError, match=r"onnxruntime .* failed on"):
        embedder.run(batch)


def test_a_closed_runtime_says_so(embedder):
    embedder.close()
    with pytest.raises(BackendError, match="closed"):
        embedder.encode(["good"])


def test_warmup_runs_at_any_length(embedder_dir):
    with Runtime(embedder_dir, max_length=5) as runtime:
        runtime.warmup()
