"""`Runtime.tag` on a model that can be read off: names are found where they are, in any window."""

from __future__ import annotations

import math

import pytest

from edgebert.errors import BundleError, InputError, TaskError
from edgebert.runtime import Runtime
from tests.edgebert.token_bundles import write_tagger

pytestmark = pytest.mark.onnx


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tagger")
    write_tagger(directory)
    return directory


@pytest.fixture
def tagger(folder):
    with Runtime(folder, threads=1) as runtime:
        yield runtime


@pytest.fixture
def narrow(folder):
    with Runtime(folder, threads=1, max_length=12) as runtime:
        yield runtime


def found(tagging):
    return [(one.label, one.text, one.start) for one in tagging.entities]


def test_entities_are_slices_of_the_text(tagger):
    text = "the  Hello World , very FILM!"
    entities = tagger.tag([text])[0].entities
    assert [(one.label, one.text) for one in entities] == [("PER", "Hello World"), ("LOC", "FILM")]
    assert all(text[one.start : one.end] == one.text for one in entities)


def test_a_score_is_the_mean_of_its_words_probabilities(tagger):
    entity = tagger.tag(["hello world"])[0].entities[0]
    hello = world = math.exp(8) / (math.exp(8) + math.exp(4) + 3)
    assert entity.score == pytest.approx((hello + world) / 2)


def test_aggregation_none_gives_every_token_with_its_tag(tagger):
    entities = tagger.tag(["a hello!"], aggregation="none")[0].entities
    assert [(one.label, one.text) for one in entities] == [
        ("O", "a"),
        ("B-PER", "hello"),
        ("I-PER", "!"),
    ]


@pytest.mark.parametrize("aggregation", ["word", "first", "average", "max"])
def test_words_given_apart_are_tagged_as_the_text_that_they_make(tagger, aggregation):
    words = ["the", "hello", "world", "the", "film"]
    apart, joined = tagger.tag([words, " ".join(words)], aggregation=aggregation)
    assert apart == joined
    assert found(apart) == [("PER", "hello world", 4), ("LOC", "film", 20)]


def test_a_word_of_the_caller_s_is_one_whatever_is_in_it(tagger):
    tagging = tagger.tag([["hello-the.", "world"]])[0]
    assert found(tagging) == [("PER", "hello-the.", 0)]


def test_a_word_that_the_tokenizer_drops_is_outside(tagger):
    assert found(tagger.tag([["film", "", "\x00", "film"]])[0]) == [
        ("LOC", "film", 0),
        ("LOC", "film", 8),
    ]


@pytest.mark.parametrize("before", range(25))
def test_an_entity_is_found_once_and_whole_wherever_windows_end(narrow, before):
    text = "the " * before + "hello world" + " the" * 12
    tagging = narrow.tag([text])[0]
    assert found(tagging) == [("PER", "hello world", 4 * before)]
    assert tagging.dropped_tokens == 0


def test_a_name_behind_many_sentences_is_found(tagger):
    text = "the plot is dull. " * 300 + "meeting with hello world tomorrow."
    tagging = tagger.tag([text])[0]
    assert found(tagging) == [("PER", "hello world", text.index("hello"))]


def test_windows_of_one_text_don_t_touch_another(narrow):
    texts = ["film", "the " * 30 + "hello world", "", "hello world"]
    taggings = narrow.tag(texts)
    assert [found(one) for one in taggings] == [
        [("LOC", "film", 0)],
        [("PER", "hello world", 120)],
        [],
        [("PER", "hello world", 0)],
    ]


def test_what_was_cut_off_is_told(narrow):
    tagging = narrow.tag(["the " * 30 + "hello world"], on_long="truncate")[0]
    assert tagging.entities == []
    assert tagging.dropped_tokens == 34 - 12


def test_a_word_that_truncation_cuts_is_reported_whole(narrow):
    tagging = narrow.tag(["the " * 9 + "hellohello"], on_long="truncate")[0]
    assert [one.text for one in tagging.entities] == ["hellohello"]
    assert tagging.dropped_tokens == 5  # ##h ##e ##l ##l ##o


def test_a_long_text_is_an_error_when_asked_for(narrow):
    with pytest.raises(InputError, match=r"texts\[1\]"):
        narrow.tag(["the", "the " * 30], on_long="error")


def test_no_texts_give_no_results(tagger):
    assert tagger.tag([]) == []


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("hello", "wrap it"),
        ([None], r"texts\[0\]"),
        (["a", ["b", 3]], r"texts\[1\]\[1\]"),
        (["a", b"b"], r"texts\[1\]"),
        ([["a", "\ud800"]], r"texts\[0\]\[1\]"),
    ],
)
def test_other_inputs_are_refused_by_place(tagger, texts, message):
    with pytest.raises(InputError, match=message):
        tagger.tag(texts)


def test_another_aggregation_is_refused_before_anything_runs(tagger):
    with pytest.raises(InputError, match="'simple'; allowed: 'none', 'first'"):
        tagger.tag([], aggregation="simple")


def test_a_model_with_other_labels_than_the_bundle_is_refused(tmp_path):
    write_tagger(tmp_path, model_tags=4)
    with Runtime(tmp_path, threads=1) as runtime, pytest.raises(BundleError, match="5 labels"):
        runtime.tag(["hello"])


def test_another_task_names_its_own_methods(classifier, tagger):
    with pytest.raises(TaskError, match=r"classify\(\)"):
        classifier.tag(["hello"])
    with pytest.raises(TaskError, match=r"use tag\(\)"):
        tagger.classify(["hello"])
