"""Of several ways to INT8 the fastest that passes is kept; what fails is told, whatever failed."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from compress.artifacts import make as artifacts
from compress.artifacts.make import make_int8
from compress.bundles.artifact_rows import candidate_rows, parity, refused_fp32, refused_int8
from compress.data.task_data import make_split
from compress.scoring.probe import TaskHead, make_probe
from edgebert.errors import BackendRunError, ModelError
from edgebert.text.tokenizer import Tokenizer
from tests.compress.fake_exporter import NAMES, WEIGHTS, FakeExporter, recipe_of
from tests.tiny import SPECIAL_IDS, VOCAB, write_tokenizer

HEAD = TaskHead(
    task="text-classification",
    labels=("bad", "good"),
    problem_type="single_label_classification",
)
GOOD = VOCAB.index("good")
TEXTS = ["good film", "bad film", "a good plot", "a bad plot"] * 5


class FakeBackend:
    """Tells good from bad by the words' ids, but for a recipe named in `lossy`.

    One in `slow` takes long; one in `rough` gives smaller numbers of the same order.
    """

    engine = "fake 1"
    inputs, outputs = ("input_ids", "attention_mask"), ("logits",)
    lossy: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    rough: tuple[str, ...] = ()

    def __init__(self, path):
        self.recipe = recipe_of(path)

    def run(self, batch):
        if self.recipe in self.broken:
            raise BackendRunError("The engine failed.")
        if self.recipe in self.slow:
            time.sleep(0.002)
        good = (batch.input_ids == GOOD).any(axis=1) & (self.recipe not in self.lossy)
        logits = np.stack([~good, good], axis=1).astype(np.float32)
        return {"logits": logits * 0.9 if self.recipe in self.rough else logits}

    def close(self):
        pass


@pytest.fixture
def backend(monkeypatch):
    class Backend(FakeBackend):
        pass

    monkeypatch.setattr(artifacts, "load_backend", lambda _, path, __: Backend(path))
    return Backend


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder)
    return Tokenizer(folder, special_ids=SPECIAL_IDS)


@pytest.fixture
def probe(tokenizer):
    labels = [text.split()[-2] for text in TEXTS]
    split = make_split("dev", "made up", TEXTS, labels=labels)
    return make_probe(split, HEAD, tokenizer, max_length=64)


def int8_of(folder: Path, probe, exporter, *, precision="int8"):
    (folder / "onnx").mkdir()
    exporter.export_fp32(None, None, folder / exporter.fp32_path, max_length=64)
    good = np.array(["good" in text for text in TEXTS])
    reference = np.stack([~good, good], axis=1).astype(np.float32)
    names = list(exporter.recipes)
    outcomes, made = make_int8(
        folder,
        exporter,
        probe,
        reference,
        calibration=[],
        recipes=names,
        threads=1,
        min_engine="fake 2",
        precision=precision,
    )
    left = sorted(path.name for path in (folder / "onnx").iterdir())
    return outcomes, made, left


FP32_FILES = ["fp32.bin", "fp32.net"]
BOTH = ["fp32.bin", "fp32.net", "int8.bin", "int8.net"]


@pytest.mark.parametrize("slow", ["first", "second"])
def test_of_two_recipes_that_pass_the_faster_is_kept(tmp_path, probe, backend, slow):
    backend.slow = (slow,)
    exporter = FakeExporter(recipes=("first", "second"))
    _, made, left = int8_of(tmp_path, probe, exporter)
    fast = {"first": "second", "second": "first"}[slow]
    assert recipe_of(tmp_path / exporter.int8_path) == fast
    assert made.artifact.recipe["quantization"] == fast
    assert list(made.artifact.recipe["chosen_by_ms"]) == [fast, slow]
    assert left == BOTH


@pytest.mark.parametrize(
    ("exact_ms", "kept"), [(1.0, "exact"), (1.04, "exact"), (1.07, "rough"), (0.5, "exact")]
)
def test_of_recipes_that_are_about_as_fast_the_one_nearest_to_fp32_is_kept(
    tmp_path, probe, monkeypatch, backend, exact_ms, kept
):
    backend.rough = ("rough",)
    times = {"rough": 1.0, "exact": exact_ms}
    monkeypatch.setattr(artifacts, "one_text_latency", lambda *_, **__: times)
    _, made, _ = int8_of(tmp_path, probe, FakeExporter(recipes=("rough", "exact")))
    assert made.artifact.recipe["quantization"] == kept
    assert made.artifact.recipe["chosen_by_ms"] == times


def test_a_recipe_that_loses_too_much_gives_way_to_a_slower_one(tmp_path, probe, backend):
    backend.lossy, backend.slow = ("first",), ("second",)
    exporter = FakeExporter(recipes=("first", "second"))
    outcomes, made, left = int8_of(tmp_path, probe, exporter)
    assert recipe_of(tmp_path / exporter.int8_path) == "second"
    assert "accuracy fell" in outcomes["first"].gate.reasons[0]
    assert "chosen_by_ms" not in made.artifact.recipe
    assert left == BOTH


@pytest.mark.usefixtures("backend")
def test_int4_has_a_file_and_a_name_of_its_own(tmp_path, probe):
    exporter = FakeExporter(precision="int4")
    outcomes, made, left = int8_of(tmp_path, probe, exporter, precision="int4")
    assert (made.name, made.artifact.precision) == ("onnx/int4", "int4")
    assert left == ["fp32.bin", "fp32.net", "int4.bin", "int4.net"]
    (row,) = candidate_rows(exporter, outcomes, made)
    assert (row.precision, row.chosen, row.dev_score) == ("int4", True, 1.0)


def test_int4_that_loses_too_much_is_refused_by_its_own_name(tmp_path, probe, backend):
    backend.lossy = ("first",)
    exporter = FakeExporter(precision="int4")
    outcomes, made, left = int8_of(tmp_path, probe, exporter, precision="int4")
    row = refused_int8(exporter, outcomes, precision="int4")
    assert (made, left) == (None, FP32_FILES)
    assert (row.precision, row.path) == ("int4", "onnx/int4.net")


def test_int8_needs_the_engine_that_its_fp32_parts_need(tmp_path, probe, backend):  # noqa: ARG001
    _, made, _ = int8_of(tmp_path, probe, FakeExporter())  # whose recipe needs fake 1
    assert made.artifact.min_engine == "fake 2"


def test_an_engine_that_fails_on_a_recipe_refuses_it_alone(tmp_path, probe, backend):
    backend.broken = ("first",)
    outcomes, made, _ = int8_of(tmp_path, probe, FakeExporter(recipes=("first", "second")))
    assert outcomes["first"].gate.reasons == ("The engine failed.",)
    assert made.artifact.recipe["quantization"] == "second"


def test_where_no_recipe_passes_nothing_is_left_and_each_ones_reasons_are_told(
    tmp_path, probe, backend
):
    backend.lossy, backend.broken = ("first",), ("second",)
    exporter = FakeExporter(recipes=("first", "second"))
    outcomes, made, left = int8_of(tmp_path, probe, exporter)
    assert made is None
    assert left == FP32_FILES
    reasons = refused_int8(exporter, outcomes).gate.reasons
    assert reasons[0].startswith("first: accuracy fell from 1.0000")
    assert reasons[-1] == "second: The engine failed."


def test_every_candidate_is_told_with_what_it_came_to(tmp_path, probe, backend):
    backend.lossy, backend.broken, backend.rough = ("lossy",), ("broken",), ("rough",)
    exporter = FakeExporter(recipes=("lossy", "broken", "rough", "good"))
    outcomes, made, _ = int8_of(tmp_path, probe, exporter)
    rows = {row.recipe: row for row in candidate_rows(exporter, outcomes, made)}
    assert [name for name, row in rows.items() if row.passed] == ["rough", "good"]
    assert [row.chosen for row in rows.values()].count(True) == 1
    assert rows["lossy"].dev_score == 0.5
    assert any("never predicted" in reason for reason in rows["lossy"].reasons)
    assert rows["broken"].dev_score is None
    # 0.1 off where FP32 has a 1, half of the numbers, whose variance is 1/4
    assert rows["rough"].error == pytest.approx(0.1**2 / 2 / 0.25, rel=1e-5)
    assert rows["good"].error == 0
    assert rows["good"].matmuls == (len(NAMES), len(NAMES))
    assert [row.latency_ms is None for row in rows.values()] == [True, True, False, False]


def test_a_candidate_that_gives_one_class_to_all_can_not_be_chosen_however_fast(
    tmp_path, probe, backend, monkeypatch
):
    backend.lossy = ("collapsed",)
    times = {"collapsed": 0.1, "good": 9.0}
    monkeypatch.setattr(
        artifacts, "one_text_latency", lambda found, **_: {name: times[name] for name in found}
    )
    _, made, _ = int8_of(tmp_path, probe, FakeExporter(recipes=("collapsed", "good")))
    assert made.artifact.recipe["quantization"] == "good"


@pytest.mark.parametrize(
    ("spoiled", "reason"), [({"missed": NAMES}, "converted 0 of"), ({"int8_bytes": 2000}, "2000")]
)
@pytest.mark.usefixtures("backend")
def test_a_candidate_that_converted_nothing_or_grew_can_not_be_chosen(
    tmp_path, probe, spoiled, reason
):
    exporter = FakeExporter(**spoiled)
    outcomes, made, left = int8_of(tmp_path, probe, exporter)
    (row,) = candidate_rows(exporter, outcomes, made)
    assert made is None
    assert (row.passed, row.chosen) == (False, False)
    assert reason in row.reasons[0]
    assert left == FP32_FILES


@pytest.mark.usefixtures("backend")
def test_the_artifact_lists_all_its_files_and_what_was_converted(tmp_path, probe):
    exporter = FakeExporter()
    _, made, _ = int8_of(tmp_path, probe, exporter)
    assert [file.path for file in made.artifact.files] == ["onnx/int8.net", "onnx/int8.bin"]
    count = sum(map(len, WEIGHTS.values()))
    assert made.artifact.recipe["matmuls"] == [count, count]
    assert made.backend.recipe == "first"


def test_an_engine_that_can_not_hold_a_model_is_told_with_the_reason():
    row = refused_fp32(FakeExporter(), ModelError("No operator for it."))
    assert (row.backend, row.precision, row.size_bytes) == ("onnx", "fp32", None)
    assert row.gate.reasons == ("No operator for it.", "So no INT8 was made either.")


def probe_for(task):
    return SimpleNamespace(head=TaskHead(task=task))


def test_the_parity_of_scores_is_that_of_their_column():
    reference = np.array([[1.0], [-2.0]], dtype=np.float32)  # a row of one has a cosine of 1 or -1
    found = parity(probe_for("regression"), -0.5 * reference, reference)
    assert found.max_abs == 3.0
    assert found.cosine_min == pytest.approx(-1.0)


def test_the_parity_of_wide_rows_is_that_of_the_worst_row():
    reference = np.array([[1, 0, 0], [0, 1, 0]], dtype=np.float32)
    values = np.array([[1, 0, 0], [0, 1, 1]], dtype=np.float32)
    found = parity(probe_for("feature-extraction"), values, reference)
    assert found.cosine_min == pytest.approx(0.7071, abs=1e-4)
