"""``edgebert tag`` and ``edgebert answer``."""

import json

import pytest

from tests.edgebert.token_bundles import write_answerer, write_tagger

pytestmark = pytest.mark.onnx


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tagger")
    write_tagger(folder)
    return folder


@pytest.fixture(scope="module")
def answerer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("answerer")
    write_answerer(folder, starts={"film": 4.0, "plot": 1.0}, ends={"film": 4.0, "plot": 1.0})
    return folder


def test_tag_prints_a_line_for_each_entity(tagger, edgebert):
    code, out, _ = edgebert("tag", tagger, "the", "a hello  world, film")
    assert code == 0
    rows = [line.split("\t") for line in out.splitlines()]
    assert [(row[0], row[1], *row[3:]) for row in rows] == [
        ("2", "PER", "2", "14", "hello world"),
        ("2", "LOC", "16", "20", "film"),
    ]


def test_tag_prints_json_for_each_text(tagger, edgebert, stdin):
    stdin(b"film\nthe\n")
    _, out, _ = edgebert("tag", tagger, "--json")
    first, second = map(json.loads, out.splitlines())
    assert (first["entities"][0]["label"], first["entities"][0]["end"]) == ("LOC", 4)
    assert second == {"text": "the", "entities": [], "dropped_tokens": 0}


def test_tag_takes_an_aggregation_and_a_policy(tagger, edgebert):
    text = "the " * 30 + "film"
    options = ("--aggregation", "none", "--on-long", "truncate", "--max-length", "4", "--json")
    _, out, _ = edgebert("tag", tagger, text, *options)
    result = json.loads(out)
    assert [one["label"] for one in result["entities"]] == ["O", "O"]
    assert result["dropped_tokens"] == 29


def test_answer_takes_a_question_and_a_context(answerer, edgebert):
    code, out, _ = edgebert(
        "answer", answerer, "--question", "good?", "--context", "a plot, a film", "--top-k", "2"
    )
    assert code == 0
    rows = [line.split("\t") for line in out.splitlines()]
    assert [(row[0], *row[2:]) for row in rows] == [
        ("1", "10", "14", "film"),
        ("1", "2", "6", "plot"),
    ]


def test_answer_reads_json_lines(answerer, edgebert, stdin, tmp_path):
    lines = '{"question": "a", "context": "the film", "id": 7}\n\n{"question":"b","context":"plot"}'
    stdin(lines.encode())
    _, from_stdin, _ = edgebert("answer", answerer, "--json")
    path = tmp_path / "questions.jsonl"
    path.write_text(lines)
    _, from_file, _ = edgebert("answer", answerer, "--json", "--input", path)
    assert from_stdin == from_file
    first, second = map(json.loads, from_file.splitlines())
    assert (first["question"], first["answers"][0]["text"]) == ("a", "film")
    assert (second["question"], second["answers"][0]["start"]) == ("b", 0)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("film", "stdin:2 is no JSON"),
        ('{"question": "a"}', "stdin:2 needs the texts 'question' and 'context'"),
        ('["a", "b"]', "stdin:2 needs"),
    ],
)
def test_answer_names_a_line_that_it_can_t_read(answerer, edgebert, stdin, line, message):
    stdin(f'{{"question": "a", "context": "film"}}\n{line}\n'.encode())
    code, _, error = edgebert("answer", answerer, "--json")
    assert code == 1
    assert message in error


@pytest.mark.parametrize(
    "arguments", [("--question", "a"), ("--question", "a", "--context", "b", "--input", "c")]
)
def test_answer_refuses_half_a_question_and_two_sources(answerer, edgebert, arguments):
    with pytest.raises(SystemExit) as end:
        edgebert("answer", answerer, *arguments)
    assert end.value.code == 2
