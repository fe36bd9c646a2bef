"""What ``optimum-cli export`` writes of a local directory opens in edgebert and gives the same."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import edgebert
from tests.compat.cases import CASES, batch_of, real
from tests.compat.conftest import needs

FORMATS = {"onnx": "optimum.exporters.onnx", "openvino": "optimum.exporters.openvino"}
TASKS = {"regression": "text-classification"}  # by names of optimum where they aren't ours
METHODS = {
    "text-classification": "classify",
    "regression": "score",
    "token-classification": "tag",
    "question-answering": "answer",
    "multiple-choice": "choose",
    "fill-mask": "fill_mask",
}


@pytest.fixture(scope="session")
def exported(made, tmp_path_factory):
    """Give the directory that the command wrote for a task; it runs once for each."""
    done = {}

    def of(backend: str, task: str, *options: str):
        needs(FORMATS[backend])
        key = backend, task, options
        if key not in done:
            done[key] = tmp_path_factory.mktemp(backend)
            model = ["--model", str(made / task / "model"), "--task", TASKS.get(task, task)]
            if backend == "openvino" and task != "text-classification":  # once is enough
                options = (*options, "--disable-convert-tokenizer")
            run("export", backend, *model, *options, str(done[key]))
        return done[key]

    return of


def run(*arguments: str) -> None:
    """Run ``optimum-cli`` in this process: it takes seconds to start."""
    from optimum.commands.optimum_cli import main

    before, sys.argv = sys.argv, ["optimum-cli", *arguments]
    try:
        main()
    finally:
        sys.argv = before


@pytest.mark.parametrize("backend", FORMATS)
@pytest.mark.parametrize("task", CASES)
def test_an_export_opens_with_the_task_and_the_outputs_of_the_bundle(
    exported, expected, backend, task
):
    with edgebert.Runtime(exported(backend, task), backend=backend, threads=1) as runtime:
        assert runtime.info.task == task
        assert "not verified" in runtime.info.why
        found = runtime.run(batch_of(task))
    choices = task == "multiple-choice"
    names = found.keys() & expected.keys()
    assert names
    for name in names:
        theirs, ours = (
            real(values, batch_of(task), choices=choices)
            for values in (found[name], expected[name])
        )
        np.testing.assert_allclose(theirs, ours, atol=1e-4)


@pytest.mark.parametrize("backend", FORMATS)
@pytest.mark.parametrize("task", METHODS)
def test_an_export_answers_as_the_bundle_does(exported, made, backend, task):
    directory = exported(backend, task)
    settings = {"backend": backend, "precision": "fp32", "threads": 1}
    method = METHODS[task]
    with edgebert.Runtime(made / task / "bundle", **settings) as runtime:
        labels, ours = runtime.info.labels, getattr(runtime, method)(CASES[task])
    with edgebert.Runtime(directory, **settings) as runtime:
        assert runtime.info.labels == labels
        theirs = getattr(runtime, method)(CASES[task])
    assert rounded(theirs) == rounded(ours)


def rounded(results) -> str:
    """Write results with numbers of three digits."""
    import re

    return re.sub(r"\d+\.\d+(e-?\d+)?", lambda found: f"{float(found[0]):.3f}", repr(results))


@pytest.mark.parametrize("backend", FORMATS)
@pytest.mark.parametrize("task", ["feature-extraction"])
def test_an_embedder_exported_with_its_modules_gives_its_vectors(exported, expected, backend, task):
    needs("sentence_transformers")
    directory = exported(backend, task, "--library", "sentence_transformers")
    with edgebert.Runtime(directory, backend=backend, threads=1) as runtime:
        vectors = runtime.encode(CASES[task])
    ours = expected["vectors"]
    np.testing.assert_allclose(unit(vectors), ours, atol=1e-4)


def unit(vectors: np.ndarray) -> np.ndarray:
    """The model's checkpoint has no Normalize module, which its bundle was asked for."""
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_int8_of_optimums_quantizer_opens_and_is_taken_only_when_it_is_named(exported, tmp_path):
    import shutil

    directory = shutil.copytree(exported("onnx", "text-classification"), tmp_path / "export")
    run("onnxruntime", "quantize", "--avx2", "--onnx_model", str(directory), "-o", str(tmp_path))
    shutil.copy(tmp_path / "model_quantized.onnx", directory)
    with edgebert.Runtime(directory, threads=1) as runtime:
        assert runtime.info.precision == "fp32"
        exact = runtime.classify(["the good film"])[0]
    with edgebert.Runtime(directory, precision="int8", threads=1) as runtime:
        assert runtime.info.artifact == "model_quantized.onnx"
        found = runtime.classify(["the good film"])[0]
    assert found.label == exact.label
    assert found.score == pytest.approx(exact.score, abs=0.05)
