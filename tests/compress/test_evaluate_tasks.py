"""Checkpoints and bundles of every task are scored; what is scored is what the runtime gives."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
import transformers

import compress
import edgebert
from compress import EvaluateConfig
from compress.data.load import load_split
from compress.export import ExportConfig, export
from compress.scoring.answer_metrics import answer_scores
from compress.scoring.tag_metrics import evaluate_tags
from compress.settings import DataConfig
from edgebert.errors import BackendUnavailableError, DataError, InputError
from edgebert.formats.manifest import Manifest
from tests.compress.steps import run_step
from tests.compress.task_files import write_rows
from tests.compress.tiny_tasks import write_task
from tests.tiny import WORDS, bert_config, write_tokenizer

LENGTH = 16
HEADS = {
    "regression": ("SequenceClassification", ["score"], "spearman"),
    "token-classification": ("TokenClassification", ["B-GREETING", "I-GREETING", "O"], "entity_f1"),
    "question-answering": ("QuestionAnswering", ["a", "b"], "f1"),
    "multiple-choice": ("MultipleChoice", ["a", "b"], "accuracy"),
    "fill-mask": ("MaskedLM", ["a", "b"], "accuracy"),
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEBERT_CACHE", str(tmp_path / "cache"))


def write_model(folder, task):
    """Write a random model of a task with its tokenizer; give its directory."""
    kind, labels, _ = HEADS[task]
    torch.manual_seed(0)
    config = bert_config(
        initializer_range=0.5,
        id2label=dict(enumerate(labels)),
        label2id={label: i for i, label in enumerate(labels)},
    )
    write_tokenizer(folder)
    getattr(transformers, f"BertFor{kind}")(config).eval().save_pretrained(folder)
    return folder


def long_questions(folder):
    """Questions on contexts of several windows, one in four without an answer."""
    rows = []
    for number in range(40):
        context = f"the film is very {WORDS[number % 4]} . " * 5
        answers = {"text": ["film"], "answer_start": [4]} if number % 4 else None
        rows.append({"question": "hello", "context": context + f"{number}", "answers": answers})
    return write_rows(folder / "questions.jsonl", *rows)


def bundle_of(tmp_path, task, data):
    config = ExportConfig(
        model=str(write_model(tmp_path / "model", task)),
        task=task,
        train_file=data,
        dev_file=data,
        output_dir=tmp_path / "bundle",
        max_length=LENGTH,
        backend=("onnx",),
        threads=1,
    )
    export(config)
    return tmp_path / "bundle"


@pytest.fixture(scope="module")
def scored_bundle(tmp_path_factory):
    """Give a bundle of a regression, and its data."""
    folder = tmp_path_factory.mktemp("regression")
    data = write_task(folder, "regression")
    return bundle_of(folder, "regression", data), data


def scores_of(bundle, data):
    return compress.evaluate(EvaluateConfig(model=str(bundle), test_file=data, threads=1))


def split_of(task, data):
    return load_split(DataConfig(task=task, train_file=data), data, task=task)


@pytest.mark.parametrize("task", HEADS)
def test_a_checkpoint_is_scored_by_the_metric_of_its_task(tmp_path, task):
    model, data = write_model(tmp_path / "model", task), write_task(tmp_path, task)
    config = EvaluateConfig(
        model=str(model), task=task, test_file=data, max_length=LENGTH, threads=1
    )
    found = compress.evaluate(config)["torch/fp32"]
    assert found["metric"] == HEADS[task][2]
    assert found["value"] == found["metrics"][found["metric"]]
    low, high = found["interval"]
    assert low <= found["value"] <= high
    assert found["rows"] == len(split_of(task, data))


@pytest.mark.onnx
def test_the_answers_that_are_scored_are_those_of_the_runtime(tmp_path):
    data = long_questions(tmp_path)
    bundle = bundle_of(tmp_path, "question-answering", data)
    assert Manifest.load(bundle).no_answer_threshold is not None
    split = split_of("question-answering", data)
    with edgebert.Runtime(bundle, backend="onnx", precision="fp32", threads=1) as runtime:
        pairs = list(zip(split.texts, split.text_pairs, strict=True))
        answers = [best.text for best, *_ in runtime.answer(pairs)]
    truths = [[text for text, _ in one] for one in split.labels]
    exact, f1 = answer_scores(answers, truths)
    found = scores_of(bundle, data)["onnx/fp32"]
    assert found["metrics"] == {"f1": f1.mean(), "exact_match": exact.mean()}
    assert "" in answers


@pytest.mark.onnx
def test_the_tags_that_are_scored_are_those_of_the_runtime(tmp_path):
    rows = [
        {"tokens": [*(WORDS[i % 7 :] * (1 + i % 3)), "abc", f"{i}"], "tags": None}
        for i in range(20)
    ]
    for row in rows:
        row["tags"] = [f"{'BI'[i % 3 == 1]}-GREETING" for i in range(len(row["tokens"]))]
        row["tags"][-1] = "O"
    data = write_rows(tmp_path / "tags.jsonl", *rows)
    bundle = bundle_of(tmp_path, "token-classification", data)
    split = split_of("token-classification", data)
    with edgebert.Runtime(bundle, backend="onnx", precision="fp32", threads=1) as runtime:
        found = runtime.tag([row["tokens"] for row in rows], aggregation="first")
    tags = []
    for tagging, spans in zip(found, split.word_spans, strict=True):
        one = ["O"] * len(spans)
        for entity in tagging.entities:
            inside = [i for i, (a, b) in enumerate(spans) if entity.start <= a and b <= entity.end]
            for place in inside:
                one[place] = ("B-" if place == inside[0] else "I-") + entity.label
        tags.append(one)
    expected = evaluate_tags(tags, split.labels)
    scored = scores_of(bundle, data)["onnx/fp32"]
    assert scored["value"] == pytest.approx(expected["entity_f1"])
    assert 0 < scored["value"] < 1


@pytest.mark.onnx
def test_the_choices_that_are_scored_are_those_of_the_runtime(tmp_path):
    data = write_task(tmp_path, "multiple-choice")
    bundle = bundle_of(tmp_path, "multiple-choice", data)
    split = split_of("multiple-choice", data)
    with edgebert.Runtime(bundle, backend="onnx", precision="fp32", threads=1) as runtime:
        found = runtime.choose(list(zip(split.texts, split.choices, strict=True)))
    right = [one.index == label for one, label in zip(found, split.labels, strict=True)]
    assert scores_of(bundle, data)["onnx/fp32"]["value"] == sum(right) / len(right)


@pytest.mark.onnx
@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ({"task": "question-answering"}, "task 'regression', got 'question-answering'"),
        ({"max_length": LENGTH - 1}, "max_length 16, got 15"),
        ({"doc_stride": 3}, "doc_stride None, got 3"),
        ({"max_answer_length": 7}, "max_answer_length 30, got 7"),
        ({"teacher_labels": "a,b"}, "teacher_labels '', got 'a,b'"),
        ({"problem_type": "multi_label_classification"}, "problem_type None, got 'multi_label"),
    ],
)
def test_a_bundle_is_not_scored_by_other_settings_than_its_own(scored_bundle, setting, named):
    bundle, data = scored_bundle
    config = EvaluateConfig(model=str(bundle), test_file=data, threads=1)
    with pytest.raises(InputError, match=f"exported with {named}"):
        compress.evaluate(replace(config, **setting))


@pytest.mark.onnx
def test_a_bundle_is_scored_by_its_own_settings_where_they_are_given(scored_bundle):
    bundle, data = scored_bundle
    config = EvaluateConfig(model=str(bundle), test_file=data, threads=1)
    given = replace(config, task="regression", max_length=LENGTH)
    assert compress.evaluate(given) == compress.evaluate(config)


@pytest.mark.parametrize("name", ["train_file", "max_train_samples"])
def test_settings_of_a_training_are_refused(tmp_path, name):
    values = {"train_file": tmp_path / "a.tsv", "max_train_samples": 3}
    with pytest.raises(InputError, match=f"leave out --{name.replace('_', '-')}"):
        EvaluateConfig(model="m", test_file=tmp_path / "b.tsv", **{name: values[name]})


@pytest.mark.onnx
def test_artifacts_whose_engine_is_missing_are_left_out_and_told(tmp_path, caplog, monkeypatch):
    from runtimes import BACKENDS

    data = write_task(tmp_path, "regression")
    bundle = bundle_of(tmp_path, "regression", data)
    written = json.loads((bundle / "edgebert.json").read_text())
    other = next(name for name in BACKENDS if name != "onnx")
    moved = [{**one, "backend": other} for one in written["artifacts"][1:]]
    monkeypatch.setattr(type(BACKENDS[other]), "installed", lambda spec: spec.extra == "onnx")
    written["artifacts"][1:] = moved
    (bundle / "edgebert.json").write_text(json.dumps(written))
    assert list(scores_of(bundle, data)) == ["onnx/fp32"]
    assert f"{other}/int8 is not scored" in caplog.text
    written["artifacts"] = moved
    (bundle / "edgebert.json").write_text(json.dumps(written))
    with pytest.raises(BackendUnavailableError, match="pip install"):
        scores_of(bundle, data)


def test_a_tag_that_the_model_lacks_is_named_by_its_line(tmp_path):
    model = write_model(tmp_path / "model", "token-classification")
    data = write_rows(tmp_path / "a.jsonl", {"tokens": ["hello"], "tags": ["B-PER"]})
    config = EvaluateConfig(model=str(model), task="token-classification", test_file=data)
    with pytest.raises(DataError, match=r"a\.jsonl:1: the tag 'B-PER'"):
        compress.evaluate(config)


def test_the_command_scores_a_regression(tmp_path, capsys):
    model, data = write_model(tmp_path / "model", "regression"), write_task(tmp_path, "regression")
    words = ("--model", str(model), "--task", "regression", "--test-file", str(data))
    assert run_step("evaluate", *words, "--threads", "1") == 0
    found = json.loads(capsys.readouterr().out)["torch/fp32"]
    assert set(found["metrics"]) == {"spearman", "pearson"}
