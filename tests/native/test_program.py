"""The C program against `Runtime`, here and on emulated 64-bit ARM."""

from __future__ import annotations

import numpy as np
import pytest

from edgebert.runtime import Runtime
from tests.edgebert.bundles import change_manifest, write_bundle, write_graph
from tests.shipped import shipped_classifier, shipped_embedder

TEXTS = [
    "good film",
    "a",
    "",
    "Na\u00efve cafe\u0301, 漢字 \U0001f44d\U0001f3fd!",
    "hello world " * 20,
]
slow, arm_only = pytest.mark.slow, pytest.mark.arm
EITHER = [pytest.param("native", marks=slow), pytest.param("arm", marks=arm_only)]


def vectors(program, bundle, *settings):
    lines = program.lines(bundle, *settings, texts=TEXTS)
    return np.array([line["vector"] for line in lines]), [line["dropped_tokens"] for line in lines]


@slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"pooling": "cls"},
        {"pooling": "max", "normalize": False},
        {"output": "sentence_embedding", "embedding_size": 6},
        {"types": False},
        {"max_length": 8},
    ],
    ids=str,
)
def test_vectors_are_those_of_python(native, tmp_path, changes):
    write_bundle(tmp_path, task="feature-extraction", **changes)
    found, dropped = vectors(native, tmp_path)
    with Runtime(tmp_path, threads=1) as runtime:
        np.testing.assert_allclose(found, runtime.encode(TEXTS), atol=1e-6)
        assert dropped == runtime.tokenize(TEXTS).dropped_tokens.tolist()


@slow
@pytest.mark.parametrize("problem", ["single_label_classification", "multi_label_classification"])
def test_labels_and_scores_are_those_of_python(native, tmp_path, problem):
    write_bundle(tmp_path, task="text-classification", problem_type=problem)
    lines = native.lines(tmp_path, texts=TEXTS)
    with Runtime(tmp_path, threads=1) as runtime:
        for line, expected in zip(lines, runtime.classify(TEXTS), strict=True):
            assert line["label"] == expected.label
            assert line["score"] == pytest.approx(expected.score, abs=1e-6)


@slow
def test_scores_of_pairs_are_those_of_python(native, tmp_path):
    write_bundle(tmp_path, task="regression", pairs=True, max_length=16)
    pairs = [(text, text[::-1]) for text in TEXTS]
    lines = native.lines(tmp_path, texts=["\t".join(pair) for pair in pairs])
    with Runtime(tmp_path, threads=1) as runtime:
        expected = runtime.score(pairs)
    np.testing.assert_allclose([line["score"][0] for line in lines], expected, atol=1e-6)


@pytest.mark.parametrize("machine", EITHER)
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_bert_gives_the_vectors_of_python(request, machine, precision):
    """INT8 is compared by cosine: x86 and ARM may round apart."""
    program, bundle = request.getfixturevalue(machine), shipped_embedder()
    found, _ = vectors(program, bundle, precision)
    with Runtime(bundle, "onnx", precision, threads=1) as runtime:
        expected = runtime.encode(TEXTS)
    assert (found * expected).sum(axis=1).min() > 0.99
    if precision == "fp32":
        np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("machine", EITHER)
def test_a_classifier_gives_the_labels_of_python(request, machine):
    program, bundle = request.getfixturevalue(machine), shipped_classifier()
    lines = program.lines(bundle, texts=TEXTS)
    with Runtime(bundle, "onnx", "fp32", threads=1) as runtime:
        expected = runtime.classify(TEXTS)
    assert [line["label"] for line in lines] == [one.label for one in expected]
    scores = [line["score"] for line in lines]
    np.testing.assert_allclose(scores, [one.score for one in expected], atol=1e-5)


@arm_only
def test_on_arm_the_ids_are_the_same(arm, native, tmp_path):
    write_bundle(tmp_path, task="feature-extraction")
    assert arm.lines(tmp_path, "ids", texts=TEXTS) == native.lines(tmp_path, "ids", texts=TEXTS)


def other_ids(manifest):
    manifest["golden"]["input_ids"][1][1] += 1


def one_id_more(manifest):
    manifest["golden"]["input_ids"][2].append(3)


def other_outputs(manifest):
    manifest["artifacts"][0]["golden"][1][0] += 2 * manifest["artifacts"][0]["tolerance"]


def one_output_more(manifest):
    manifest["artifacts"][0]["golden"][1].append(0.0)


def no_golden(manifest):
    manifest["golden"]["texts"] = []


def newer(manifest):
    manifest["format_version"] = 4


def outside(manifest):
    manifest["artifacts"][0]["files"][0]["path"] = "../model.onnx"


def other_task(manifest):
    manifest["task"] = "question-answering"


@pytest.mark.parametrize("machine", EITHER)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (other_ids, "golden text 1 other ids"),
        (one_id_more, "golden text 2 other ids"),
        (other_outputs, "golden text 1 is off by"),
        (one_output_more, "golden text 1 gives 8 numbers, the bundle has 9"),
        (no_golden, "no golden texts, so it can't be tested"),
        (newer, "has format 4; this program knows up to 3"),
        (outside, "no fp32 artifact for onnx"),
        (other_task, "The task is question-answering"),
    ],
)
def test_what_fails_the_self_test_answers_nothing(request, tmp_path, machine, change, message):
    write_bundle(tmp_path, task="feature-extraction")
    change_manifest(tmp_path, change)
    done = request.getfixturevalue(machine).run(tmp_path, given=b"good film\n")
    assert done.returncode == 1
    assert message in done.stderr.decode()
    assert done.stdout == b""


@slow
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "is no JSON"),
        (b'{"task": ', "is no JSON"),
        (b"[" * 100_000, "is no JSON"),
        (b'{"a": "\\ud800"}', "a wrong escape"),
        (b"{} {}", "something behind its end"),
        (b"{}", "is no manifest of a bundle"),
    ],
)
def test_a_damaged_manifest_is_one_clear_error(native, tmp_path, text, message):
    write_bundle(tmp_path, task="feature-extraction")
    (tmp_path / "edgebert.json").write_bytes(text)
    done = native.run(tmp_path)
    assert done.returncode == 1
    assert message in done.stderr.decode()


@slow
def test_a_damaged_model_is_one_clear_error(native, tmp_path):
    write_bundle(tmp_path, task="feature-extraction")
    (tmp_path / "onnx" / "model.onnx").write_bytes(b"no model")
    done = native.run(tmp_path)
    assert done.returncode == 1
    assert "ONNX Runtime failed on" in done.stderr.decode()


@slow
def test_outputs_that_are_no_numbers_fail_the_self_test(native, tmp_path):
    """Not a number is above no tolerance, so a comparison alone would let it pass."""
    write_bundle(tmp_path, task="text-classification")
    write_graph(tmp_path / "onnx" / "model.onnx", output="logits", sick="good")
    done = native.run(tmp_path, given=b"good film\n")
    assert done.returncode == 1
    assert b"golden text 0 is off by" in done.stderr
    assert done.stdout == b""


@slow
def test_wrong_usage_is_exit_code_2(native):
    done = native.run()
    assert done.returncode == 2
    assert done.stderr.startswith(b"usage: ")
