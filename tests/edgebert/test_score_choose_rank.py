"""`Runtime.score`, `choose`, and pair models that rank."""

import numpy as np
import pytest

from edgebert.errors import InputError, TaskError
from tests.edgebert.bundles import LABELS, SCORE, logits_by_hand
from tests.tiny import VOCAB

CLS, SEP = VOCAB.index("[CLS]"), VOCAB.index("[SEP]")
TEXTS = [
    " ".join(["good", "bad", "film", "very", "dull"][i % 5] for i in range(n % 13))
    for n in range(40)
]


def score_by_hand(first, second=None):
    ids, types = [CLS, *(VOCAB.index(w) for w in first.split()), SEP], []
    types = [0] * len(ids)
    if second is not None:
        tail = [*(VOCAB.index(w) for w in second.split()), SEP]
        ids, types = ids + tail, types + [1] * len(tail)
    return float(logits_by_hand(ids, types, SCORE)[0])


def test_a_score_is_the_models_one_number(runtime_of):
    found = runtime_of("regression").score(["good film", ""])
    assert found.dtype == np.float32
    assert found.tolist() == pytest.approx(
        [score_by_hand("good film"), score_by_hand("")], abs=1e-5
    )


def test_a_pair_has_one_score(runtime_of):
    (found,) = runtime_of("regression", pairs=True).score([("good film", "dull plot")])
    assert found == pytest.approx(score_by_hand("good film", "dull plot"), abs=1e-5)


def test_scores_do_not_depend_on_batch_mates(runtime_of):
    runtime = runtime_of("regression")
    alone = [float(runtime.score([text])[0]) for text in TEXTS]
    assert runtime.score(TEXTS).tolist() == pytest.approx(alone, abs=1e-5)


def test_no_texts_have_no_scores(runtime_of):
    runtime = runtime_of("regression", pairs=True)
    assert runtime.score([]).shape == (0,)
    assert runtime.similarity([], ["a"]).shape == (0, 1)
    assert runtime.similarity(["a"], []).shape == (1, 0)
    assert runtime.rank("a", []) == []
    assert runtime_of("multiple-choice").choose([]) == []


def test_the_best_choice_has_the_most_of_a_softmax_over_its_question(runtime_of):
    runtime = runtime_of("multiple-choice")
    choices = ["good", "very dull", "", "film"]
    (found,) = runtime.choose([("the plot", choices)])
    logits = np.array([score_by_hand("the plot", choice) for choice in choices])
    expected = np.exp(logits) / np.exp(logits).sum()
    assert found.scores == pytest.approx(expected, abs=1e-5)
    assert (found.index, found.text) == (int(expected.argmax()), choices[expected.argmax()])
    assert found.score == pytest.approx(expected.max(), abs=1e-5)
    assert found.dropped_tokens == (0, 0, 0, 0)


def test_questions_may_have_any_number_of_choices(runtime_of):
    runtime = runtime_of("multiple-choice")
    questions = [("the plot", TEXTS[:n]) for n in (1, 2, 5, 17)]
    together = runtime.choose(questions)
    assert [len(one.scores) for one in together] == [1, 2, 5, 17]
    assert together[0].scores == (1.0,)
    for question, result in zip(questions, together, strict=True):
        (alone,) = runtime.choose([question])
        assert result.scores == pytest.approx(alone.scores, abs=1e-5)
        assert sum(result.scores) == pytest.approx(1.0, abs=1e-5)


def test_a_cut_choice_says_how_many_tokens_it_lost(runtime_of):
    runtime = runtime_of("multiple-choice", max_length=8)
    (found,) = runtime.choose([("a b", ["c", "c d e f g h"])])
    assert found.dropped_tokens == (0, 3)


@pytest.mark.parametrize(
    ("questions", "message"),
    [
        ("good", "prompt_choices_pairs is one string"),
        ([("a", ["b"]), "cd"], r"prompt_choices_pairs\[1\] is of type str"),
        ([("a", [])], r"prompt_choices_pairs\[0\] has no choice"),
        ([("a", "bc")], r"prompt_choices_pairs\[0\]\[1\] is one string"),
        ([("a", ["b", None])], r"prompt_choices_pairs\[0\]\[1\]\[1\] is None"),
        ([(None, ["b"])], r"prompt_choices_pairs\[0\]\[0\] is None"),
        ([("a", ["b"], ["c"])], r"prompt_choices_pairs\[0\] is of type tuple"),
    ],
)
def test_what_is_no_question_is_refused_with_its_index(runtime_of, questions, message):
    with pytest.raises(InputError, match=message):
        runtime_of("multiple-choice").choose(questions)


def test_a_pair_model_scores_each_pair_of_texts(runtime_of):
    runtime = runtime_of("regression", pairs=True)
    a, b = ["good film", "bad"], ["dull plot", "the film", "very"]
    expected = [[score_by_hand(one, other) for other in b] for one in a]
    np.testing.assert_allclose(runtime.similarity(a, b), expected, atol=1e-5)


def test_a_pair_model_ranks_by_its_own_score(runtime_of):
    runtime = runtime_of("regression", pairs=True)
    documents = ["dull plot", "film", "very bad"]
    scores = [score_by_hand("good film", one) for one in documents]
    ranked = runtime.rank("good film", documents, top_k=2)
    assert [one.index for one in ranked] == np.argsort([-s for s in scores])[:2].tolist()
    assert ranked[0].score == pytest.approx(max(scores), abs=1e-5)
    assert ranked[0].text == documents[ranked[0].index]


def test_a_pair_model_has_no_vectors_to_compare(runtime_of):
    runtime = runtime_of("regression", pairs=True)
    with pytest.raises(InputError, match="b holds vectors"):
        runtime.similarity(["a"], np.ones((1, 8), dtype=np.float32))


def test_only_a_model_of_pairs_ranks(runtime_of):
    runtime = runtime_of("regression")
    with pytest.raises(TaskError, match=r"use score\(\), tokenize\(\) or run\(\)"):
        runtime.rank("a", ["b"])
    with pytest.raises(TaskError, match=r"similarity\(\) doesn't fit a regression bundle"):
        runtime.similarity(["a"], ["b"])
    pairs = runtime_of("regression", pairs=True)
    with pytest.raises(TaskError, match=r"use score\(\), similarity\(\), rank\(\), tokenize"):
        pairs.classify([("a", "b")])


@pytest.mark.parametrize("method", ["score", "classify"])
def test_pairs_and_single_texts_are_not_taken_for_each_other(runtime_of, method):
    task = {"score": "regression", "classify": "text-classification"}[method]
    with pytest.raises(InputError, match="trained on one text"):
        getattr(runtime_of(task), method)([("good", "bad")])
    with pytest.raises(InputError, match="trained on pairs"):
        getattr(runtime_of(task, pairs=True), method)(["good"])


def test_a_multi_label_model_gives_each_label_a_probability_of_its_own(runtime_of):
    runtime = runtime_of("text-classification", problem_type="multi_label_classification")
    logits = logits_by_hand([CLS, VOCAB.index("good"), SEP])
    expected = 1 / (1 + np.exp(-logits))
    (found,) = runtime.classify(["good"])
    assert [found.scores[name] for name in LABELS] == pytest.approx(expected, abs=1e-5)
    assert set(found.labels) == {n for n, p in zip(LABELS, expected, strict=True) if p >= 0.5}
