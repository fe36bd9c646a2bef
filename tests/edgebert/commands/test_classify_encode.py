"""``edgebert classify`` and ``edgebert encode``."""

import json

import numpy as np
import pytest

from edgebert.runtime import Runtime


def test_classify_prints_label_score_and_text_in_order(classifier_dir, edgebert):
    texts = ["a dull plot", "good", "fun film"]
    with Runtime(classifier_dir) as runtime:
        expected = runtime.classify(texts)
    code, out, _ = edgebert("classify", classifier_dir, *texts)
    rows = [line.split("\t") for line in out.splitlines()]
    assert code == 0
    assert rows == [[r.label, f"{r.score:.4f}", t] for r, t in zip(expected, texts, strict=True)]


def test_encode_prints_float32_exactly(embedder_dir, edgebert):
    with Runtime(embedder_dir) as runtime:
        expected = runtime.encode(["good", "bad"])
    code, out, _ = edgebert("encode", embedder_dir, "good", "bad")
    rows = np.array([json.loads(line) for line in out.splitlines()], dtype=np.float32)
    assert code == 0
    np.testing.assert_array_equal(rows, expected)


def test_encode_json_keeps_the_text(embedder_dir, edgebert):
    _, out, _ = edgebert("encode", embedder_dir, 'a "film"', "--json", "--dtype", "int8")
    row = json.loads(out)
    assert row["text"] == 'a "film"'
    assert all(isinstance(value, int) for value in row["vector"])


def test_encode_writes_a_npy_file(embedder_dir, edgebert, stdin, tmp_path):
    stdin(b"good\nbad\nfilm\n")
    target = tmp_path / "v.npy"
    code, out, _ = edgebert(
        "encode", embedder_dir, "--output", target, "--dtype", "float16", "--truncate-dim", 4
    )
    vectors = np.load(target)
    assert (code, out) == (0, f"{target}\n")
    assert (vectors.shape, vectors.dtype) == ((3, 4), np.float16)


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_has_the_outputs_name_without_its_suffix_is_no_matter(
    embedder_dir, edgebert, tmp_path, kind
):
    beside = tmp_path / "v"
    beside.mkdir() if kind == "folder" else beside.touch()
    code, _, _ = edgebert("encode", embedder_dir, "good", "--output", tmp_path / "v.npy")
    assert code == 0
    assert np.load(tmp_path / "v.npy").shape == (1, 8)


def test_no_text_gives_a_npy_file_of_no_rows(embedder_dir, edgebert, stdin, tmp_path):
    stdin(b"")
    edgebert("encode", embedder_dir, "--output", tmp_path / "v.npy")
    assert np.load(tmp_path / "v.npy").shape == (0, 8)


@pytest.mark.parametrize("name", ["v.txt", "folder.npy"])
def test_an_output_that_cannot_be_a_npy_file_is_refused(embedder_dir, edgebert, tmp_path, name):
    (tmp_path / "folder.npy").mkdir()
    code, _, err = edgebert("encode", embedder_dir, "good", "--output", tmp_path / name)
    assert code == 1
    assert f"--output {tmp_path / name}" in err
