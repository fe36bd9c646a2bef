"""A student with exits, from its training to the engines that run it segment by segment."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import compress
import edgebert
from compress.models.exits import ExitModel, load_exits
from compress.report import load_report
from edgebert.engines.exits import entropies
from edgebert.errors import DamagedBundleError, InputError, SelfTestError
from edgebert.formats.manifest import Manifest
from tests.compress.exit_models import LAYERS, exit_settings, mixed_texts, write_teacher
from tests.compress.steps import run_step

ARTIFACTS = [
    pytest.param(
        (backend, precision), marks=getattr(pytest.mark, backend), id=f"{backend}-{precision}"
    )
    for backend in ("onnx", "openvino")
    for precision in ("fp32", "int8")
]
FP32 = ARTIFACTS[::2]
TEXTS = mixed_texts(32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("exits")
    write_teacher(folder)
    report = compress.distill(exit_settings(folder, recipe=("dynamic", "openvino=weights")))
    assert report.passed, [one.gate.reasons for one in (*report.refused, *report.exits)]
    return folder


@pytest.fixture(scope="module")
def bundle(folder) -> Path:
    return folder / "bundle"


@pytest.fixture(scope="module")
def some(bundle) -> float:
    """Half way between two entropies of the first exit, so that half of the texts leave there."""
    unsure = np.sort(entropies(np.log(torch_scores(bundle, 1)).astype(np.float32)))
    middle = len(unsure) // 2
    return float(unsure[middle - 1 : middle + 1].mean())


def opened(bundle: Path, artifact: tuple[str, str], **how) -> edgebert.Runtime:
    return edgebert.Runtime(bundle, *artifact, threads=1, self_test="off", **how)


def torch_scores(bundle: Path, depth: int) -> np.ndarray:
    """Probabilities of each text at a depth, by torch: float64 ``[n, labels]``."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(bundle).eval()
    labels = [model.config.id2label[i] for i in range(model.config.num_labels)]
    exits = load_exits(model, bundle, labels=labels)
    inputs = AutoTokenizer.from_pretrained(bundle)(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        logits = ExitModel(model, exits).eval()(**inputs)["logits"].double()
    own = logits[:, (depth - 1) * len(labels) : depth * len(labels)]
    return own.softmax(dim=1).numpy()


def scores_of(runtime: edgebert.Runtime, texts=TEXTS) -> np.ndarray:
    found = runtime.classify(texts)
    return np.array([[one.scores[label] for label in runtime.info.labels] for one in found])


@pytest.mark.parametrize("artifact", ARTIFACTS)
def test_a_batch_of_any_size_leaves_where_its_texts_do_alone(bundle, artifact, some):
    with opened(bundle, artifact, early_exit=some) as runtime:
        alone = [runtime.classify([text])[0] for text in TEXTS]
        for count in (1, 2, 7, 32):
            together = runtime.classify(TEXTS[:count])
            ways = [(one.label, one.exit_layer) for one in together]
            assert ways == [(one.label, one.exit_layer) for one in alone[:count]]
            difference = [
                abs(a.score - b.score) for a, b in zip(together, alone[:count], strict=True)
            ]
            assert max(difference) <= 1e-5
    assert len({one.exit_layer for one in alone}) > 1  # else nothing was shown


@pytest.mark.parametrize("artifact", FP32)
def test_at_a_threshold_of_0_the_results_are_those_of_the_whole_model(bundle, artifact):
    with opened(bundle, artifact) as whole, opened(bundle, artifact, early_exit=0.0) as segments:
        np.testing.assert_allclose(scores_of(segments), scores_of(whole), atol=1e-5)
        assert {one.exit_layer for one in segments.classify(TEXTS)} == {LAYERS}


@pytest.mark.parametrize("artifact", FP32)
def test_at_a_threshold_of_1_the_results_are_those_of_torch_at_the_first_exit(bundle, artifact):
    with opened(bundle, artifact, early_exit=1.0) as runtime:
        np.testing.assert_allclose(scores_of(runtime), torch_scores(bundle, 1), atol=1e-5)


@pytest.mark.parametrize("artifact", FP32)
@pytest.mark.parametrize("depth", [1, 2])
def test_the_first_layers_alone_give_what_torch_gives_at_that_exit(bundle, artifact, depth):
    with opened(bundle, artifact, num_hidden_layers=depth) as runtime:
        np.testing.assert_allclose(scores_of(runtime), torch_scores(bundle, depth), atol=1e-5)
        assert runtime.info.num_hidden_layers == depth


def test_all_layers_are_the_ordinary_model(bundle):
    with opened(bundle, ("onnx", "int8"), num_hidden_layers=LAYERS) as runtime:
        assert runtime.info.num_hidden_layers is None
        assert runtime.info.artifact == "onnx/model_quantized.onnx"
        assert runtime.classify(["good film"])[0].exit_layer is None


def test_early_exit_and_fewer_layers_go_together(bundle, some):
    with opened(bundle, ("onnx", "fp32"), early_exit=some, num_hidden_layers=2) as runtime:
        assert {one.exit_layer for one in runtime.classify(TEXTS)} == {1, 2}


def test_the_calibrated_threshold_is_the_bundle_s_and_info_says_so(bundle):
    exits = Manifest.load(bundle).early_exit
    with opened(bundle, ("onnx", "fp32"), early_exit=True) as runtime:
        assert runtime.info.exit_threshold == exits.artifacts[0].threshold > 0
        assert "onnx/fp32 in segments" in runtime.info.why
        assert runtime.info.size_bytes == exits.artifacts[0].size_bytes


def test_every_artifact_loses_no_more_than_the_budget_and_the_report_says_at_how_many_layers(
    bundle,
):
    report = load_report(bundle)
    assert len(report.exits) == len(ARTIFACTS)
    for one in report.exits:
        assert one.dev_score >= one.depths[-1].dev_score * (1 - one.budget)
        assert 1 <= one.dev_layers <= LAYERS
        assert [depth.layers for depth in one.depths] == [1, 2, 3]


def test_exits_learn_what_the_last_layer_says(bundle):
    phase = load_report(bundle).phases[-1]
    assert (phase.name, phase.metric) == ("exits", "mean_of_exits")
    for name in ("exit_1", "exit_2"):
        losses = phase.terms[name]
        assert np.mean(losses[-5:]) < np.mean(losses[:5]) / 2


def test_a_long_text_in_windows_names_the_last_exit_of_its_windows(bundle, some):
    long = " ".join(TEXTS)
    with opened(bundle, ("onnx", "fp32"), early_exit=some) as runtime:
        (found,) = runtime.classify([long], on_long="window")
        assert found.exit_layer in (1, 2, 3)
        assert runtime.classify([]) == []


def test_the_self_test_covers_every_exit(bundle, tmp_path):
    shutil.copytree(bundle, tmp_path / "bundle")
    manifest = Manifest.load(bundle)
    first = manifest.early_exit.artifacts[0]
    labels = len(manifest.labels)
    second_exit_off = tuple(
        (*row[:labels], row[labels] + 1.0, *row[labels + 1 :]) for row in first.golden
    )
    changed = replace(first, golden=second_exit_off)
    exits = replace(manifest.early_exit, artifacts=(changed,))
    replace(manifest, early_exit=exits).save(tmp_path / "bundle")
    how = {"backend": "onnx", "precision": "fp32", "threads": 1, "self_test": "always"}
    with pytest.raises(SelfTestError, match="golden text 0 is off by 1"):
        edgebert.Runtime(tmp_path / "bundle", early_exit=True, **how)
    edgebert.Runtime(tmp_path / "bundle", num_hidden_layers=1, **how).close()
    edgebert.Runtime(tmp_path / "bundle", **how).close()


def test_a_damaged_segment_is_refused_where_it_is_needed(bundle, tmp_path):
    shutil.copytree(bundle, tmp_path / "bundle")
    damaged = tmp_path / "bundle/onnx/exits/segment_2.onnx"
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(DamagedBundleError, match=r"segment_2\.onnx has sha256"):
        opened(tmp_path / "bundle", ("onnx", "fp32"), early_exit=True)
    opened(tmp_path / "bundle", ("onnx", "fp32"), num_hidden_layers=1).close()
    opened(tmp_path / "bundle", ("onnx", "fp32")).close()
    with opened(tmp_path / "bundle", ("auto", "fp32"), early_exit=True, fallback=True) as runtime:
        assert runtime.info.backend == "openvino"


def test_an_engine_without_segments_is_told_which_have_some(bundle, tmp_path):
    shutil.copytree(bundle, tmp_path / "bundle")
    manifest = Manifest.load(bundle)
    exits = replace(manifest.early_exit, artifacts=manifest.early_exit.artifacts[:1])
    replace(manifest, early_exit=exits).save(tmp_path / "bundle")
    message = r"no segments for openvino/auto.*it has: onnx/fp32"
    with pytest.raises(InputError, match=message):
        opened(tmp_path / "bundle", ("openvino", "auto"), early_exit=True)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"num_hidden_layers": 4}, "num_hidden_layers is 4; .* from 1 to 3"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0"),
        ({"early_exit": 1.5}, r"early_exit is 1\.5; .* to 1, where all leave"),
        ({"early_exit": float("nan")}, "early_exit is nan"),
        ({"early_exit": "yes"}, "early_exit is 'yes'"),
    ],
)
def test_a_value_that_can_not_be_meant_is_refused(bundle, how, message):
    with pytest.raises(InputError, match=message):
        opened(bundle, ("onnx", "fp32"), **how)


def test_slim_keeps_the_segments_of_one_artifact_and_verify_tests_them(bundle, tmp_path, capsys):
    from edgebert.cli import main

    assert main(["slim", str(bundle), str(tmp_path / "small"), "--backend", "onnx"]) == 0
    manifest = Manifest.load(tmp_path / "small")
    assert {one.backend for one in manifest.early_exit.artifacts} == {"onnx"}
    assert main(["verify", str(tmp_path / "small")]) == 0
    assert "onnx/exits/segment_1.onnx" in capsys.readouterr().out
    (tmp_path / "small/onnx/exits/segment_3.onnx").unlink()
    assert main(["verify", str(tmp_path / "small")]) == 1


def test_classify_on_the_command_line_tells_the_exit(bundle, capsys):
    import json

    from edgebert.cli import main

    flags = ["--backend", "onnx", "--precision", "fp32", "--json"]
    assert main(["classify", str(bundle), "good film", *flags, "--early-exit", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["exit_layer"] == 1
    assert main(["info", str(bundle)]) == 0
    shown = capsys.readouterr().out
    assert "layers: 3, budget: 0.005" in shown
    assert "fp32 in segments" in shown


def test_a_bundle_without_exits_says_how_to_make_one(lab, tmp_path):
    from tests.compress.steps import distill_settings, flags

    config = distill_settings(lab, tmp_path / "plain", max_steps=2)
    assert run_step("distill", *flags(config)) == 0
    for how in ({"early_exit": True}, {"num_hidden_layers": 1}):
        with pytest.raises(InputError, match=r"has no exits.*compress\.distill --early-exit"):
            edgebert.Runtime(tmp_path / "plain", threads=1, **how)
