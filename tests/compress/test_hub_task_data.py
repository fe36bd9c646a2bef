"""Data sets of the hub with tags, answers, choices and scores, by the names of their columns."""

from __future__ import annotations

import pytest

from compress.data import hub_dataset
from compress.data.load import load_data
from compress.settings import DataConfig
from edgebert.errors import DataError


@pytest.fixture
def load(monkeypatch):
    """Stand in for the hub: the given rows are train and validation."""
    datasets = pytest.importorskip("datasets")

    def of(task, rows, **kinds):
        features = datasets.Features({name: make(datasets) for name, make in kinds.items()})
        part = datasets.Dataset.from_list(rows, features=features)
        loaded = datasets.DatasetDict({"train": part, "validation": part})
        monkeypatch.setattr(datasets, "load_dataset", lambda _path, _config: loaded)
        monkeypatch.setattr(hub_dataset.hub, "fetch", lambda *_args, **_options: None)
        return load_data(DataConfig(task=task, dataset="owner/name"), task=task, seed=0).dev

    return of


def text(datasets):
    return datasets.Value("string")


def texts(datasets):
    return datasets.Sequence(datasets.Value("string"))


def test_numbered_tags_get_their_names(load):
    split = load(
        "token-classification",
        [{"tokens": ["Ann", "is"], "ner_tags": [1, 0]}],
        tokens=texts,
        ner_tags=lambda d: d.Sequence(d.ClassLabel(names=["O", "B-PER"])),
    )
    assert split.labels == [("B-PER", "O")]


def test_numbers_without_names_are_refused(load):
    with pytest.raises(DataError, match=r"owner/name train:1: the tag is 1; its name is needed"):
        load(
            "token-classification",
            [{"tokens": ["Ann", "is"], "ner_tags": [1, 0]}],
            tokens=texts,
            ner_tags=lambda d: d.Sequence(d.Value("int64")),
        )


def test_answers_are_read_as_squad_on_the_hub_has_them(load):
    row = {"id": "q1", "question": "Who?", "context": "Ann.", "title": "t"}
    split = load(
        "question-answering",
        [
            {**row, "answers": {"text": ["Ann"], "answer_start": [0]}},
            {**row, "id": "q2", "answers": {"text": [], "answer_start": []}},
        ],
        id=text,
        question=text,
        context=text,
        title=text,
        answers=lambda d: d.Sequence({"text": d.Value("string"), "answer_start": d.Value("int32")}),
    )
    assert split.labels == [(("Ann", 0),), ()]
    assert split.ids == ["q1", "q2"]


def test_choices_are_read_from_lists_and_from_columns(load):
    split = load(
        "multiple-choice",
        [{"question": "How?", "choices": ["good", "bad"], "label": 1}],
        question=text,
        choices=texts,
        label=lambda d: d.Value("int64"),
    )
    assert (split.choices, split.labels) == ([("good", "bad")], [1])
    split = load(
        "multiple-choice",
        [{"sentence": "How?", "ending0": "good", "ending1": "bad", "label": 0}],
        sentence=text,
        ending0=text,
        ending1=text,
        label=lambda d: d.ClassLabel(names=["0", "1"]),
    )
    assert (split.choices, split.labels) == ([("good", "bad")], [0])


def test_scores_of_pairs_are_numbers(load):
    split = load(
        "regression",
        [{"sentence1": "a", "sentence2": "b", "label": 2.5}],
        sentence1=text,
        sentence2=text,
        label=lambda d: d.Value("float32"),
    )
    assert (split.texts, split.text_pairs, split.labels) == (["a"], ["b"], [2.5])
