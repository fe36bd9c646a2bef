"""Reading questions with contexts and answers, from files made by hand."""

from __future__ import annotations

import json
import logging

import pytest

from compress.data.splits import grouped_rows
from edgebert.errors import DataError
from tests.compress.task_files import load, read, write_rows


def squad(path, *paragraphs):
    """Write paragraphs of (context, questions), each a question with its answers."""
    number = iter(range(100))
    data = [
        {
            "title": "t",
            "paragraphs": [
                {
                    "context": context,
                    "qas": [
                        {"id": f"q{next(number)}", "question": question, **rest}
                        for question, rest in questions
                    ],
                }
            ],
        }
        for context, questions in paragraphs
    ]
    path.write_text(json.dumps({"version": "1", "data": data}), encoding="utf-8")
    return path


def answers(*found):
    return {"answers": [{"text": text, "answer_start": start} for text, start in found]}


def test_squad_gives_questions_contexts_and_answers(tmp_path):
    path = squad(
        tmp_path / "a.json",
        (
            "Ann is fun.",
            [("Who?", answers(("Ann", 0))), ("How?", answers(("fun", 7), ("fun.", 7)))],
        ),
        ("Bob.", [("Who?", answers(("Bob", 0)))]),
    )
    split = read("question-answering", path)
    assert split.texts == ["Who?", "How?", "Who?"]
    assert split.text_pairs == ["Ann is fun.", "Ann is fun.", "Bob."]
    assert split.labels == [(("Ann", 0),), (("fun", 7), ("fun.", 7)), (("Bob", 0),)]
    assert split.ids == ["q0", "q1", "q2"]


def test_an_impossible_question_has_no_answer(tmp_path):
    plausible = {"is_impossible": True, "answers": [], "plausible_answers": [{"text": "Ann"}]}
    possible = {"is_impossible": False, **answers(("Ann", 0))}
    path = squad(tmp_path / "a.json", ("Ann.", [("Who?", possible), ("Where?", plausible)]))
    assert read("question-answering", path).labels == [(("Ann", 0),), ()]
    assert load("question-answering", path, dev_file=path).no_answer


@pytest.mark.parametrize(
    "cell",
    [
        {"text": ["fun"], "answer_start": [7]},
        {"text": "fun", "answer_start": 7},
        [{"text": "fun", "answer_start": 7}],
    ],
)
def test_answers_come_in_every_usual_form_from_jsonl(tmp_path, cell):
    row = {"question": "How?", "context": "Ann is fun.", "answers": cell}
    split = read("question-answering", write_rows(tmp_path / "a.jsonl", row))
    assert split.labels == [(("fun", 7),)]


@pytest.mark.parametrize("cell", [{"text": [], "answer_start": []}, [], None])
def test_no_answers_in_jsonl_say_that_there_is_none(tmp_path, cell):
    rows = [{"question": "Who?", "context": "Ann.", "answers": cell}]
    assert read("question-answering", write_rows(tmp_path / "a.jsonl", *rows)).labels == [()]


def test_an_answer_elsewhere_is_moved_if_it_is_there_once_and_counted(tmp_path, caplog):
    path = squad(tmp_path / "a.json", ("Ann is fun.", [("How?", answers(("fun", 6)))]))
    with caplog.at_level(logging.WARNING):
        assert read("question-answering", path).labels == [(("fun", 7),)]
    assert "1 answers stood elsewhere" in caplog.text
    assert "q0" in caplog.text


@pytest.mark.parametrize(("found", "count"), [(("fun", 0), 2), (("dull", 0), 0), (("fun", -1), 2)])
def test_an_answer_whose_place_is_unknown_is_named_by_its_id(tmp_path, found, count):
    path = squad(tmp_path / "a.json", ("More fun is fun.", [("How?", answers(found))]))
    with pytest.raises(DataError, match=rf"a\.json:1: q0: the answer .*there {count} times"):
        read("question-answering", path)


def test_an_answer_said_to_be_nowhere_counts_in_scores_alone(tmp_path, caplog):
    nowhere = answers(("in short: fun", -1), ("fun", 7))
    path = squad(
        tmp_path / "a.json",
        ("Ann is fun.", [("How?", nowhere)]),
        ("Bob.", [("How?", answers(("bad", -1)))]),
    )
    split = read("question-answering", path)
    assert split.labels[0] == (("in short: fun", -1), ("fun", 7))
    assert "2 answers are nowhere" in caplog.text
    train = load("question-answering", path, dev_file=path).train
    assert train.texts == ["How?"]
    assert "1 of 2 questions are not trained on" in caplog.text


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("fun", "no object with 'text'"),
        ({"text": ["fun"], "answer_start": []}, "not as many starts"),
        ({"text": "", "answer_start": 0}, "without answer, give none"),
        ({"text": "fun", "answer_start": "7"}, "start is '7'"),
    ],
)
def test_answers_of_another_form_are_bad_rows(tmp_path, cell, message):
    row = {"id": "x1", "question": "How?", "context": "Ann is fun.", "answers": cell}
    with pytest.raises(DataError, match=rf"a\.jsonl:1: x1: .*{message}"):
        read("question-answering", write_rows(tmp_path / "a.jsonl", row))


def test_an_empty_question_stays_and_is_counted(tmp_path, caplog):
    path = squad(tmp_path / "a.json", ("Ann.", [("", answers(("Ann", 0)))]))
    assert read("question-answering", path).texts == [""]
    assert "1 of 1 questions are empty" in caplog.text


def test_an_empty_context_is_a_bad_row(tmp_path):
    path = squad(tmp_path / "a.json", (" ", [("Who?", answers())]))
    with pytest.raises(DataError, match=r"a\.json:1: empty text in column 'context'"):
        read("question-answering", path)


def test_an_article_of_another_form_is_refused(tmp_path):
    (tmp_path / "a.json").write_text('{"data": [{"paragraphs": [{"context": "a"}]}]}')
    with pytest.raises(DataError, match=r"not as SQuAD's .*'qas'"):
        read("question-answering", tmp_path / "a.json")


def test_no_context_is_in_both_train_and_dev(tmp_path):
    paragraphs = [
        (f"Ann is {i}.", [(f"Who {k}?", answers(("Ann", 0))) for k in range(4)]) for i in range(10)
    ]
    data = load("question-answering", squad(tmp_path / "a.json", *paragraphs))
    assert len(data.dev) == 4
    assert len(data.train) == 36
    assert not set(data.dev.text_pairs) & set(data.train.text_pairs)


def test_groups_stay_whole_and_one_is_left():
    assert grouped_rows(["a", "a", "b"], 3, seed=0).tolist() in ([0, 1], [2])
    assert grouped_rows(["a", "a"], 1, seed=0).tolist() == []
