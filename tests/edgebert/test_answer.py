"""`Runtime.answer` on a model that can be read off: all windows count, and contexts alone."""

from __future__ import annotations

import pytest

from edgebert.errors import InputError, TaskError
from edgebert.runtime import Runtime
from tests.edgebert.token_bundles import write_answerer

pytestmark = pytest.mark.onnx

STARTS, ENDS = {"hello": 6.0, "film": 2.0}, {"world": 6.0, "film": 2.0, "hello": 1.0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    directory = tmp_path_factory.mktemp("answerer")
    write_answerer(directory, starts=STARTS, ends=ENDS)
    return directory


@pytest.fixture
def answerer(folder):
    with Runtime(folder, threads=1) as runtime:
        yield runtime


@pytest.fixture
def narrow(folder):
    with Runtime(folder, threads=1, max_length=14) as runtime:
        yield runtime


@pytest.fixture
def doubter(tmp_path):
    write_answerer(tmp_path, starts=STARTS, ends=ENDS, none=8.0, no_answer_threshold=0.0)
    with Runtime(tmp_path, threads=1, max_length=14) as runtime:
        yield runtime


def test_the_answer_is_a_slice_of_the_context(answerer):
    context = "the plot:  Hello,  World !"
    best = answerer.answer([("not very fun?", context)])[0][0]
    assert best.text == context[best.start : best.end] == "Hello,  World"


def test_the_question_is_no_place_for_an_answer(answerer):
    context = "the film is dull"
    for best in answerer.answer([("hello world", context)], top_k=3)[0]:
        assert best.text
        assert best.text in context


@pytest.mark.parametrize("before", range(26))
def test_the_answer_is_found_wherever_windows_end(narrow, before):
    context = "the " * before + "hello world" + " the" * 13
    best = narrow.answer([("fun plot?", context)])[0][0]
    assert (best.text, best.start, best.end) == ("hello world", 4 * before, 4 * before + 11)
    assert best.dropped_tokens == 0


def test_answers_of_all_windows_are_ranked_together(narrow):
    context = "film " + "the " * 20 + "hello world"
    found = narrow.answer([("fun?", context)], top_k=2)[0]
    assert [one.text for one in found] == ["hello world", "film"]
    assert found[0].score > found[1].score


def test_an_answer_is_no_longer_than_the_bundle_says(tmp_path):
    write_answerer(tmp_path, starts=STARTS, ends=ENDS, max_answer_length=3)
    with Runtime(tmp_path, threads=1) as runtime:
        best = runtime.answer([("fun?", "hello the plot is world")])[0][0]
        assert len(best.text.split()) <= 3


def test_there_is_no_answer_where_the_model_says_so_in_every_window(doubter):
    none, some = doubter.answer([("fun?", "the " * 30), ("fun?", "the " * 30 + "hello world")])
    assert [(one.text, one.start, one.end) for one in none] == [("", 0, 0)]
    assert none[0].no_answer_score > 0.99
    assert some[0].text == "hello world"
    assert some[0].no_answer_score < 0.02


def test_a_cut_context_says_how_much_was_cut(narrow):
    found = narrow.answer([("fun?", "film " + "the " * 30)], on_long="truncate")[0]
    assert found[0].dropped_tokens == 36 - 14
    assert found[0].text == "film"


def test_a_long_context_is_an_error_when_asked_for(narrow):
    with pytest.raises(InputError, match=r"question_context_pairs\[1\]"):
        narrow.answer([("a", "film"), ("a", "the " * 30)], on_long="error")


@pytest.mark.parametrize("context", ["", " \n\t"])
def test_an_empty_context_is_refused_by_place(answerer, context):
    with pytest.raises(InputError, match=r"question_context_pairs\[1\]\[1\].*is empty"):
        answerer.answer([("fun?", "the film"), ("fun?", context)])


def test_a_context_that_the_tokenizer_drops_is_refused_by_place(answerer):
    with pytest.raises(InputError, match=r"question_context_pairs\[0\]\[1\].*no token"):
        answerer.answer([("fun?", "\x00\x01")])


def test_a_question_that_leaves_no_room_is_refused_by_place(narrow):
    with pytest.raises(InputError, match=r"question_context_pairs\[1\]"):
        narrow.answer([("fun?", "the " * 30), ("very " * 20, "the " * 30)])


@pytest.mark.parametrize("pair", [("fun?",), ("fun?", 5), "fun?"])
def test_what_is_no_pair_is_refused_by_place(answerer, pair):
    with pytest.raises(InputError, match=r"^question_context_pairs\[1\]"):
        answerer.answer([("fun?", "the film"), pair])


def test_texts_without_contexts_are_refused_by_place(answerer):
    with pytest.raises(InputError, match=r"^question_context_pairs\[0\] is one text"):
        answerer.answer(["fun?"])


def test_an_empty_question_is_answered(answerer):
    assert answerer.answer([("", "the film")])[0][0].text == "film"


def test_no_pairs_give_no_results(answerer):
    assert answerer.answer([]) == []


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["question"], "tuples"),
        ("question", r"give a list of tuples \(question, context\)"),
        ([("a", "b"), ("a",)], r"question_context_pairs\[1\]"),
        ([("a", None)], r"question_context_pairs\[0\]\[1\]"),
    ],
)
def test_other_inputs_are_refused(answerer, pairs, message):
    with pytest.raises(InputError, match=message):
        answerer.answer(pairs)


def test_top_k_is_checked(answerer):
    with pytest.raises(InputError, match="top_k is 0"):
        answerer.answer([], top_k=0)


def test_another_task_names_its_own_methods(classifier, answerer):
    with pytest.raises(TaskError, match=r"classify\(\)"):
        classifier.answer([("a", "b")])
    with pytest.raises(TaskError, match=r"use answer\(\)"):
        answerer.tag(["hello"])
