"""Every task from an encoder without a head: trained, distilled, and run from its bundle."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import compress
import edgebert
from compress.models.loading import load_teacher
from compress.models.sentence_layout import SentenceLayout, write_layout
from compress.report import load_report
from edgebert.errors import InputError, ModelError
from tests.compress.steps import distill_settings, train_settings
from tests.compress.tiny_tasks import write_task
from tests.tiny import write_encoder

# The metric of each task that picks the weights, and what a trained tiny model reaches.
METRICS = {
    "regression": ("spearman", 0.8),
    "token-classification": ("entity_f1", 0.9),
    "question-answering": ("f1", 0.9),
    "multiple-choice": ("accuracy", 0.9),
    "fill-mask": ("accuracy", 0.1),
    "feature-extraction": ("spearman", 0.5),
}
LABELLED = [task for task in METRICS if task not in ("fill-mask", "feature-extraction")]

pytestmark = pytest.mark.onnx


@dataclass(frozen=True)
class Trained:
    """A trained teacher: its data, its directory, and what ``train`` returned."""

    data: Path
    teacher: Path
    metrics: dict


@pytest.fixture(scope="module")
def trained(lab, tmp_path_factory):
    """Train a teacher of each task once, when a test asks for it."""
    made = {}

    def of(task):
        if task not in made:
            folder = tmp_path_factory.mktemp(task)
            data = write_task(folder, task)
            model = lab.embedder if task == "feature-extraction" else lab.encoder
            config = train_settings(
                model=str(model),
                task=task,
                train_file=data,
                dev_file=data,
                test_file=data,
                output_dir=folder / "teacher",
                per_device_train_batch_size=8,
                num_train_epochs=16,
            )
            made[task] = Trained(data, folder / "teacher", compress.train(config))
        return made[task]

    return of


def settings(lab, done, folder, task, **changes):
    own = {
        "teacher": str(done.teacher),
        "task": task,
        "train_file": done.data,
        "dev_file": done.data,
        "per_device_train_batch_size": 8,
        "num_train_epochs": 16,
        "backend": ("onnx",),
    }
    return distill_settings(lab, folder / "student", **{**own, **changes})


@pytest.mark.parametrize("task", METRICS)
def test_a_model_is_trained_and_metrics_json_has_the_tasks_own(trained, task):
    done, (metric, least) = trained(task), METRICS[task]
    written = json.loads((done.teacher / "metrics.json").read_text())
    assert written == done.metrics
    assert written["dev"][metric] >= least
    assert written["test"][metric] >= least
    assert load_teacher(done.teacher, task=task).has_head


@pytest.fixture(scope="module")
def distilled(lab, trained, tmp_path_factory):
    """Distill a student of each task once, when a test asks for it."""
    made = {}

    def of(task):
        if task not in made:
            folder = tmp_path_factory.mktemp(f"student-{task}")
            compress.distill(settings(lab, trained(task), folder, task))
            made[task] = folder / "student"
        return made[task]

    return of


@pytest.mark.parametrize("task", LABELLED)
def test_a_student_learns_the_task_from_its_teacher_and_ships(distilled, task):
    report, (metric, least) = load_report(distilled(task)), METRICS[task]
    assert report.metric == metric
    assert report.student.method == "logits"
    assert set(report.phases[-1].terms) == {"soft"}
    assert {row.precision: row.score >= least - 0.2 for row in report.rows}["fp32"]


def test_a_scorer_runs_from_its_bundle(distilled):
    with edgebert.Runtime(distilled("regression"), precision="fp32", threads=1) as runtime:
        high, low = runtime.score(["the plot good", "the plot dull"])
    assert high > low + 0.3


def test_a_tagger_runs_from_its_bundle(distilled):
    with edgebert.Runtime(
        distilled("token-classification"), precision="fp32", threads=1
    ) as runtime:
        (found,) = runtime.tag(["not very hello world fun"])
    assert [(one.label, one.text) for one in found.entities] == [("GREETING", "hello world")]


def test_an_answerer_runs_from_its_bundle(distilled):
    with edgebert.Runtime(distilled("question-answering"), precision="fp32", threads=1) as runtime:
        ((best, *_),) = runtime.answer([("hello ?", "very very dull the film")])
    assert best.text == "dull"


def test_a_chooser_runs_from_its_bundle(distilled):
    with edgebert.Runtime(distilled("multiple-choice"), precision="fp32", threads=1) as runtime:
        (found,) = runtime.choose([("the plot", ["dull film", "the plot", "fun film"])])
    assert found.text == "fun film"


@pytest.mark.slow  # twelve runs; the terms themselves are tested in test_methods.py
@pytest.mark.parametrize("task", LABELLED)
@pytest.mark.parametrize("method", ["tinybert", "distilbert", "minilm"])
def test_every_method_serves_every_labelled_task(lab, trained, tmp_path, task, method):
    config = settings(lab, trained(task), tmp_path, task, method=method, max_steps=2)
    report = compress.distill(config)
    assert report.student.method == method
    assert "soft" in report.phases[-1].terms


@pytest.mark.parametrize("task", LABELLED)
def test_true_labels_join_and_a_teacher_in_every_step_teaches_as_its_cache(
    lab, trained, tmp_path, task
):
    found = []
    for name, size in (("cached", 1.0), ("live", 0.0)):
        (tmp_path / name).mkdir()
        config = settings(
            lab,
            trained(task),
            tmp_path / name,
            task,
            cache_size_gb=size,
            hard_weight=0.5,
            max_steps=3,
        )
        found.append(compress.distill(config).phases[-1].terms)
    cached, live = found
    assert set(cached) >= {"soft", "hard"}
    for term in cached:
        np.testing.assert_allclose(cached[term], live[term], rtol=1e-3)


@pytest.mark.parametrize("task", LABELLED)
def test_a_narrower_student_keeps_the_teachers_head_projected(lab, trained, tmp_path, task):
    config = settings(lab, trained(task), tmp_path, task, student="L=1,H=16,A=4,I=32", max_steps=2)
    assert compress.distill(config).student.init == "projected"


def test_a_masked_language_model_with_a_trained_head_can_teach(lab, trained, tmp_path):
    config = settings(lab, trained("fill-mask"), tmp_path, "fill-mask", max_steps=3)
    assert set(compress.distill(config).phases[-1].terms) >= {"soft", "hidden_token"}
    with edgebert.Runtime(tmp_path / "student", precision="fp32", threads=1) as runtime:
        (((filling, *_),),) = runtime.fill_mask(["the [MASK] film"], top_k=1)
    assert 0 < filling.score <= 1


def test_a_headless_masked_language_model_is_refused_as_a_teacher(lab, trained, tmp_path):
    done = trained("fill-mask")
    config = settings(lab, done, tmp_path, "fill-mask", teacher=str(lab.encoder))
    with pytest.raises(ModelError, match=r"compress\.train --task fill-mask"):
        compress.distill(config)


def test_an_embedder_is_trained_on_scored_pairs_alone(lab, tmp_path):
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"text": "good"}\n{"text": "bad film"}\n' * 20)
    config = train_settings(
        model=str(lab.embedder),
        task="feature-extraction",
        train_file=texts,
        dev_file=texts,
        output_dir=tmp_path / "t",
    )
    with pytest.raises(InputError, match="pairs of texts with a score"):
        compress.train(config)


@pytest.fixture(scope="module")
def dense_embedder(tmp_path_factory):
    from tests.compress.test_dense import dense_of

    folder = tmp_path_factory.mktemp("dense") / "embedder"
    write_encoder(folder, initializer_range=0.2)
    layout = SentenceLayout(
        pooling="mean", normalize=True, dense=dense_of(32, 12), pooling_layers=2
    )
    write_layout(folder, layout, hidden_size=32, num_hidden_layers=2)
    return folder


@pytest.mark.parametrize("student", ["L=1,H=32,A=4,I=64", "L=1,H=16,A=4,I=32"])
def test_a_student_of_an_embedder_with_a_dense_module_has_one_of_its_own(
    lab, trained, dense_embedder, tmp_path, student
):
    done = trained("feature-extraction")
    config = settings(
        lab, done, tmp_path, "feature-extraction", teacher=str(dense_embedder), student=student
    )
    report = compress.distill(config)
    assert set(report.phases[-1].terms) >= {"pooled", "similarity"}
    with edgebert.Runtime(tmp_path / "student", precision="fp32", threads=1) as runtime:
        vectors = runtime.encode(["very fun", "hello"])
    assert vectors.shape == (2, 12)


def test_the_dense_module_is_trained_with_its_embedder(trained, dense_embedder, tmp_path):
    from compress.models.sentence_layout import read_layout

    data = trained("feature-extraction").data
    config = train_settings(
        model=str(dense_embedder),
        task="feature-extraction",
        train_file=data,
        dev_file=data,
        output_dir=tmp_path / "t",
        num_train_epochs=1,
    )
    compress.train(config)
    before, after = read_layout(dense_embedder), read_layout(tmp_path / "t")
    assert after.pooling_layers == 2
    assert not after.dense[0].linear.weight.equal(before.dense[0].linear.weight)


def test_more_layers_to_average_than_there_are_is_refused(lab, trained, tmp_path):
    done = trained("feature-extraction")
    config = settings(
        lab,
        done,
        tmp_path,
        "feature-extraction",
        teacher=str(lab.embedder),
        method="embedding",
        pooling_layers=9,
    )
    with pytest.raises(InputError, match="layers 1 to 2"):
        compress.distill(config)


def test_class_weights_of_a_task_without_classes_are_refused(lab, trained, tmp_path):
    done = trained("regression")
    config = settings(
        lab, done, tmp_path, "regression", class_weights=("balanced",), hard_weight=0.5
    )
    with pytest.raises(InputError, match="regression has none"):
        compress.distill(config)


def test_a_stride_that_leaves_no_room_is_refused(tmp_path):
    with pytest.raises(InputError, match="doc_stride must be from 0 to below max_length 16"):
        train_settings(
            model="minilm", task="question-answering", doc_stride=16, output_dir=tmp_path / "t"
        )
