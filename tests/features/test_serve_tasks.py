"""`edgebert serve`: what each task answers is what the Runtime's method does."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from edgebert.runtime import Runtime
from tests.edgebert.bundles import write_bundle
from tests.features.served import running
from tests.tiny import WORDS

TEXTS = ["good film", "a", "the plot is very dull!"]
PAIRS = [["good film", "bad plot"], ["a", "b c"]]


@pytest.fixture
def both(tmp_path):
    """Make a bundle of a task; serve it, and open it beside."""

    def make(task, **changes):
        folder = tmp_path / task
        write_bundle(folder, task=task, **changes)
        return running(folder), Runtime(folder, "onnx", "fp32", threads=1, self_test="off")

    return make


def without(item, *more):
    return {name: item[name] for name in item if name not in ("object", "index", *more)}


def label_of(one):
    return {
        "label": one.label,
        "score": pytest.approx(one.score, abs=1e-6),
        "labels": list(one.labels),
        "scores": pytest.approx(one.scores, abs=1e-6),
        "dropped_tokens": one.dropped_tokens,
    }


def test_a_classifier_gives_labels(both):
    serving, alone = both("text-classification")
    with serving as served, alone:
        reply = served.ask("POST", "/v1/classify", {"model": "text-classification", "input": TEXTS})
        assert [without(item) for item in reply.json["data"]] == [
            label_of(one) for one in alone.classify(TEXTS)
        ]


def test_top_k_keeps_the_best_scores(both):
    serving, alone = both("text-classification")
    with serving as served, alone:
        item = served.post(input="good film", top_k=1).json["data"][0]
        assert list(item["scores"]) == [alone.classify(["good film"])[0].label]


def test_a_multi_label_classifier_gives_every_label_that_fits(both):
    serving, alone = both("text-classification", problem_type="multi_label_classification")
    with serving as served, alone:
        found = served.post(input=WORDS).json["data"]
        expected = [list(one.labels) for one in alone.classify(WORDS)]
        assert [item["labels"] for item in found] == expected
        assert {len(labels) for labels in expected} != {1}


def test_a_classifier_of_pairs_takes_lists_of_two(both):
    serving, alone = both("text-classification", pairs=True)
    with serving as served, alone:
        found = served.post(input=PAIRS).json["data"]
        expected = alone.classify([tuple(pair) for pair in PAIRS])
        assert [without(item) for item in found] == [label_of(one) for one in expected]
        assert served.post(input=TEXTS).status == 400
        assert served.post(input=[["a"]]).status == 400


def test_a_regression_bundle_gives_numbers(both):
    serving, alone = both("regression")
    with serving as served, alone:
        found = served.post(input=TEXTS).json["data"]
        expected = pytest.approx(alone.score(TEXTS).tolist(), abs=1e-6)
        assert [item["score"] for item in found] == expected
        assert found[0]["object"] == "score"


def test_a_tagger_gives_entities(both):
    serving, alone = both("token-classification")
    with serving as served, alone:
        found = served.ask("POST", "/v1/tag", {"model": "token-classification", "input": TEXTS})
        expected = [[asdict(entity) for entity in one.entities] for one in alone.tag(TEXTS)]
        got = [item["entities"] for item in found.json["data"]]
        assert any(expected)
        assert [[without(e, "score") for e in one] for one in got] == [
            [without(e, "score") for e in one] for one in expected
        ]


def test_an_answerer_gives_places_in_the_context(both):
    serving, alone = both("question-answering")
    with serving as served, alone:
        found = served.ask(
            "POST",
            "/v1/answer",
            {"model": "question-answering", "input": [["good", "the film is fun"]], "top_k": 2},
        )
        expected = alone.answer([("good", "the film is fun")], top_k=2)[0]
        got = found.json["data"][0]["answers"]
        assert [one["text"] for one in got] == [one.text for one in expected]
        assert [one["start"] for one in got] == [one.start for one in expected]


def test_the_path_of_another_task_names_the_right_one(both):
    serving, _ = both("regression")
    with serving as served:
        reply = served.ask("POST", "/v1/embeddings", {"model": "regression", "input": "a"})
    assert reply.status == 404
    assert "POST to /v1/classify" in reply.error["message"]
