"""What holds on every method: batch-mates, short texts, threads, segment ids that aren't there."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from edgebert.errors import BundleError
from tests.tiny import VOCAB, write_tokenizer

WORDS = ["good", "bad", "film", "very", "dull"]
MIXED = [" ".join(WORDS[(i + n) % 5] for i in range(n % 23)) for n in range(50)]

# the method -> its task, and texts to a list of one result each, all numbers
METHODS = {
    "classify": (
        "text-classification",
        lambda rt, texts: [list(one.scores.values()) for one in rt.classify(texts)],
    ),
    "score": ("regression", lambda rt, texts: rt.score(texts).tolist()),
    "encode": ("feature-extraction", lambda rt, texts: list(rt.encode(texts))),
    "encode_iter": (
        "feature-extraction",
        lambda rt, texts: [row for rows in rt.encode_iter(texts, batch_size=7) for row in rows],
    ),
    "encode_tokens": (
        "feature-extraction",
        lambda rt, texts: [one.vectors.ravel() for one in rt.encode_tokens(texts)],
    ),
    "similarity": ("feature-extraction", lambda rt, texts: rt.similarity(texts, ["good"]).tolist()),
    "rank": (
        "feature-extraction",
        lambda rt, texts: [r.score for r in sorted(rt.rank("film", texts), key=lambda r: r.index)],
    ),
    "tag": (
        "token-classification",
        lambda rt, texts: [
            [one.score for one in tagging.entities] for tagging in rt.tag(texts, aggregation="none")
        ],
    ),
    "answer": (
        "question-answering",
        lambda rt, texts: [
            [one.score for one in answers]
            for answers in rt.answer([("film", f"plot {text}") for text in texts], top_k=3)
        ],
    ),
    "choose": (
        "multiple-choice",
        lambda rt, texts: [one.scores for one in rt.choose([(t, ["good", t]) for t in texts])],
    ),
    "fill_mask": (
        "fill-mask",
        lambda rt, texts: [
            [one.score for mask in masks for one in mask]
            for masks in rt.fill_mask([f"[MASK] {text}" for text in texts])
        ],
    ),
}


def opened(runtime_of, method, **changes):
    task, call = METHODS[method]
    runtime = runtime_of(task, **changes)
    return lambda texts: call(runtime, texts)


def without_types(directory):
    """Write a tokenizer whose second text has segment 0 too."""
    write_tokenizer(directory)
    path = directory / "tokenizer.json"
    settings = json.loads(path.read_text())
    for part in settings["post_processor"]["pair"]:
        next(iter(part.values()))["type_id"] = 0
    path.write_text(json.dumps(settings))


def same(found, expected):
    return len(found) == len(expected) and all(
        np.allclose(a, b, atol=1e-5) for a, b in zip(found, expected, strict=True)
    )


@pytest.mark.parametrize("method", METHODS)
def test_results_are_in_order_and_do_not_depend_on_batch_mates(runtime_of, method):
    call = opened(runtime_of, method)
    alone = [call([text])[0] for text in MIXED]
    for size in (2, 7, 50):
        together = [one for i in range(0, len(MIXED), size) for one in call(MIXED[i : i + size])]
        assert same(together, alone)


@pytest.mark.parametrize("method", METHODS)
def test_one_artifact_that_minds_its_mates_gives_each_text_the_same_result(runtime_of, method):
    call = opened(runtime_of, method, precisions=("int8",))
    alone = [call([text])[0] for text in MIXED[:20]]
    for found, expected in zip(call(MIXED[:20]), alone, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)  # a cosine's last bit may differ


@pytest.mark.parametrize("method", METHODS)
def test_very_short_texts_have_their_results_from_any_thread(runtime_of, method):
    call = opened(runtime_of, method)
    texts = ["a", ".", "3986", "good"]
    expected = call(texts)
    assert all(np.size(one) for one in expected)
    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(lambda _: same(call(texts), expected), range(200)))


@pytest.mark.parametrize("method", METHODS)
def test_a_model_with_segments_and_a_tokenizer_without_gets_zeros(runtime_of, method):
    """As an e5 model: the body of a BERT, the tokenizer of an XLM-RoBERTa."""
    call = opened(runtime_of, method, tokenizer=without_types)
    alone = [call([text])[0] for text in MIXED[:5]]
    assert same(call(MIXED[:5]), alone)


@pytest.mark.parametrize("method", METHODS)
def test_a_model_without_segments_is_fed_what_it_declares(runtime_of, method):
    assert len(opened(runtime_of, method, types=False)(["good", "film"])) == 2


def with_small_table(directory):
    """Say that the model has no row for the last token."""
    write_tokenizer(directory)
    (directory / "config.json").write_text(json.dumps({"vocab_size": len(VOCAB) - 1}))


@pytest.mark.parametrize("method", METHODS)
def test_a_token_that_the_model_has_no_row_for_is_named(runtime_of, method):
    call = opened(runtime_of, method, tokenizer=with_small_table)
    assert len(call(["good 8"])) == 1
    with pytest.raises(BundleError, match=rf"gives '9' the id {len(VOCAB) - 1}, but the model has"):
        call(["good 8", "good 9"])


def test_a_second_text_is_windowed_though_no_segment_tells_it_apart(runtime_of):
    """RoBERTa's segments are all 0."""
    runtime = runtime_of("question-answering", tokenizer=without_types, types=False)
    context = " ".join(["good", "bad", "film"] * 40)
    (answers,) = runtime.answer([("plot", context)], on_long="window")
    assert context[answers[0].start : answers[0].end] == answers[0].text
