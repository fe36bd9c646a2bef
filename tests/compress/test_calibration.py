"""INT8 learns how large activations get on train, so that dev's gate sees it on other texts."""

from __future__ import annotations

import numpy as np
import pytest

from compress.artifacts.calibration import CALIBRATION_TEXTS, calibration_batches, single_texts
from compress.bundles import export as export_bundle
from compress.data.task_data import make_split
from compress.export import ExportConfig, export
from compress.models.task_head import TaskHead
from compress.scoring.probe import make_probe
from edgebert.text.tokenizer import Tokenizer
from edgebert.types import Batch
from tests.compress.task_files import write_rows
from tests.compress.test_evaluate_tasks import LENGTH, write_model
from tests.tiny import SPECIAL_IDS, write_tokenizer

LONG = "the film is very good . " * 20


@pytest.fixture
def tokenizer(tmp_path):
    write_tokenizer(tmp_path)
    return Tokenizer(tmp_path, special_ids=SPECIAL_IDS)


def test_padding_is_left_out():
    mask = np.array([[1, 1, 1, 0], [1, 1, 1, 1]])
    batch = Batch(7 * mask, mask, np.zeros_like(mask), np.zeros(2, dtype=np.int64))
    found = list(single_texts([batch]))
    assert [one.input_ids.tolist() for one in found] == [[[7, 7, 7]], [[7, 7, 7, 7]]]
    assert all(one.attention_mask.all() for one in found)


def test_texts_of_all_of_train_are_taken_one_a_batch(tokenizer):
    texts = ["good", *["film"] * (3 * CALIBRATION_TEXTS), "fun"]
    head = TaskHead(task="feature-extraction", pooling="mean")
    batches = calibration_batches(
        make_split("train", "here", texts),
        lambda split: make_probe(split, head, tokenizer, max_length=LENGTH),
    )
    assert len(batches) == CALIBRATION_TEXTS
    assert {len(batch.input_ids) for batch in batches} == {1}
    first, last = (
        tokenizer.encode([text], max_length=None)[0].input_ids for text in ("good", "fun")
    )
    assert batches[0].input_ids.tolist() == [first.tolist()]
    assert batches[-1].input_ids.tolist() == [last.tolist()]


def test_windows_of_long_texts_are_no_more_than_asked_for(tokenizer):
    rows = [LONG] * CALIBRATION_TEXTS
    split = make_split(
        "train", "here", ["good"] * len(rows), text_pairs=rows, labels=[()] * len(rows)
    )
    head = TaskHead(task="question-answering", no_answer=True)
    batches = calibration_batches(
        split, lambda one: make_probe(one, head, tokenizer, max_length=LENGTH)
    )
    assert len(batches) == CALIBRATION_TEXTS


@pytest.mark.onnx
def test_an_export_calibrates_on_train_and_gates_on_dev(tmp_path, monkeypatch):
    seen = []
    make_int8 = export_bundle.make_int8

    def spy(*arguments, calibration, **settings):
        seen.extend(batch.input_ids.tolist() for batch in calibration)
        return make_int8(*arguments, calibration=calibration, **settings)

    monkeypatch.setattr(export_bundle, "make_int8", spy)
    train = write_rows(
        tmp_path / "train.jsonl", *[{"text": "good film", "score": i} for i in range(4)]
    )
    dev = write_rows(tmp_path / "dev.jsonl", *[{"text": "bad plot", "score": i} for i in range(4)])
    model = write_model(tmp_path / "model", "regression")
    config = ExportConfig(
        model=str(model),
        task="regression",
        train_file=train,
        dev_file=dev,
        output_dir=tmp_path / "bundle",
        max_length=LENGTH,
        backend=("onnx",),
        threads=1,
    )
    export(config)
    ids = Tokenizer(model, special_ids=SPECIAL_IDS).encode(["good film"], max_length=None)[0]
    assert seen == [[ids.input_ids.tolist()]] * 4
