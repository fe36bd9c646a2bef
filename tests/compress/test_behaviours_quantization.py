"""INT8: what it is made of is told, shared weights stay shared, and no setting slips unseen."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
import transformers

from compress.artifacts.calibration import calibration_batches
from compress.artifacts.exporters import EXPORTERS, get_exporter
from compress.data.task_data import make_split
from compress.models.task_head import TaskHead
from compress.scoring.probe import make_probe
from edgebert.text.tokenizer import Tokenizer
from edgebert.types import Batch
from runtimes import SessionOptions, load_backend
from tests.compress.exports import write_onnx
from tests.tiny import SPECIAL_IDS, bert_config, write_tokenizer

HEAD = TaskHead(task="text-classification", labels=tuple("abcdefgh"))
# How far INT8 was from FP32 when each recipe was last looked at; per tensor in the place of per
# channel doubles it, and 7 bits in the place of 8 do.
GOLDEN_DISTANCE = {
    ("onnx", "dynamic"): 0.25,
    ("onnx", "blockwise"): 0.33,
    ("onnx", "weights"): 0.14,
    ("openvino", "weights"): 0.15,
}


def batch_of(*lengths: int) -> Batch:
    draw = np.random.default_rng(sum(lengths))
    mask = (np.arange(max(lengths)) < np.array(lengths)[:, None]).astype(np.int64)
    ids = draw.integers(5, 80, mask.shape) * mask
    return Batch(ids, mask, np.zeros_like(ids), np.zeros(len(lengths), dtype=np.int64))


@pytest.fixture(scope="module")
def uneven() -> torch.nn.Module:
    """A classifier whose channels differ in size, as those of a trained model do."""
    torch.manual_seed(0)
    shape = {"hidden_size": 64, "intermediate_size": 128, "initializer_range": 0.1}
    config = bert_config(num_labels=8, **shape)
    model = transformers.BertForSequenceClassification(config).eval()
    for part in model.modules():
        if isinstance(part, torch.nn.Linear):
            same = torch.Generator().manual_seed(1)
            part.weight.data *= torch.exp(1.2 * torch.randn(len(part.weight), 1, generator=same))
    return model


def logits(backend: str, path: Path) -> np.ndarray:
    """Run texts of 4 to 15 tokens, each alone."""
    opened = load_backend(backend, path, SessionOptions(threads=1, max_length=16))
    found = [opened.run(batch_of(length))["logits"] for length in range(4, 16)]
    opened.close()
    return np.concatenate(found)


@pytest.mark.parametrize(
    ("backend", "recipe"),
    [pytest.param(*key, marks=getattr(pytest.mark, key[0])) for key in GOLDEN_DISTANCE],
)
def test_a_recipe_is_as_close_to_fp32_as_it_was(uneven, tmp_path, backend, recipe):
    if missing := EXPORTERS[backend].missing():
        pytest.skip(f"needs the package {missing!r}: pip install 'edgebert[compress]'")
    exporter = get_exporter(backend)
    source = tmp_path / exporter.fp32_path
    source.parent.mkdir()
    exporter.export_fp32(uneven, HEAD, source, max_length=16)
    target = source.with_name(Path(exporter.int8_path).name)
    exporter.quantize(source, target, recipe=recipe)
    expected = logits(backend, source)
    distance = np.linalg.norm(logits(backend, target) - expected) / np.linalg.norm(expected)
    assert 0 < distance < 1.3 * GOLDEN_DISTANCE[backend, recipe]


@pytest.mark.parametrize("backend", EXPORTERS)
def test_every_recipe_tells_the_types_of_weights_and_activations(backend):
    """The manifest has these words, so that an artifact's type can be told from its file's name."""
    if missing := EXPORTERS[backend].missing():
        pytest.skip(f"needs the package {missing!r}: pip install 'edgebert[compress]'")
    for name, recipe in get_exporter(backend).recipes.items():
        assert re.search(r"weights (\d bits of )?u?int[48] ", recipe.about), name
        assert re.search(r"activations (u?int8|in FP32|as the engine likes)", recipe.about), name


@pytest.mark.onnx
@pytest.mark.parametrize("recipe", ["dynamic", "blockwise", "weights"])
def test_layers_that_share_weights_are_stored_once_in_int8_too(tmp_path, recipe):
    config = transformers.AlbertConfig(
        vocab_size=500,
        embedding_size=32,
        hidden_size=64,
        num_hidden_layers=6,
        num_attention_heads=4,
        intermediate_size=256,
    )
    model = transformers.AlbertModel(config, add_pooling_layer=False)
    write_onnx(model, tmp_path / "m.onnx", "feature-extraction")
    get_exporter("onnx").quantize(tmp_path / "m.onnx", tmp_path / "q.onnx", recipe=recipe)
    full, int8 = (
        sum(len(tensor.raw_data) for tensor in onnx.load(tmp_path / name).graph.initializer)
        for name in ("m.onnx", "q.onnx")
    )
    assert int8 < 0.35 * full


@pytest.mark.onnx
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_the_engine_warns_of_nothing_in_our_files(uneven, tmp_path, capfd, precision):
    """Wrong shapes inside a graph show as warnings, and in numbers that are off."""
    ort = pytest.importorskip("onnxruntime")
    path = tmp_path / "m.onnx"
    exporter = get_exporter("onnx")
    exporter.export_fp32(uneven, HEAD, path, max_length=64)
    if precision == "int8":
        path = tmp_path / "q.onnx"
        exporter.quantize(tmp_path / "m.onnx", path, recipe="dynamic")
    capfd.readouterr()
    settings = ort.SessionOptions()
    settings.log_severity_level = 2  # warnings, which our own sessions leave out
    session = ort.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    for lengths in ((1,), (5, 40, 64), (3,) * 7):
        batch = batch_of(*lengths)
        names = [node.name for node in session.get_inputs()]
        session.run(None, {name: getattr(batch, name) for name in names})
    assert capfd.readouterr() == ("", "")


def test_calibration_gives_whole_numbers_and_no_padding_for_ragged_texts(tmp_path):
    write_tokenizer(tmp_path)
    tokenizer = Tokenizer(tmp_path, special_ids=SPECIAL_IDS)
    texts = ["good " * length for length in (3, 38, 126)]
    batches = calibration_batches(
        make_split("train", "here", texts, labels=list("abc")),
        lambda split: make_probe(split, HEAD, tokenizer, max_length=128),
    )
    assert [batch.input_ids.shape for batch in batches] == [(1, 5), (1, 40), (1, 128)]
    for batch in batches:
        assert batch.input_ids.dtype == batch.attention_mask.dtype == np.int64
        assert batch.attention_mask.all()
