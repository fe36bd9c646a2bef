"""The exported file: a signature a length, each weight once, right outputs, nothing left behind."""

from __future__ import annotations

import numpy as np
import pytest
import torch

pytest.importorskip("litert_torch")
pytest.importorskip("ai_edge_litert")
pytestmark = pytest.mark.tflite

from compress.artifacts import tflite_graph  # noqa: E402
from compress.artifacts.tflite_graph import export_tflite, lengths_for  # noqa: E402
from compress.artifacts.tflite_model import operator_names, read_tflite, weight_uses  # noqa: E402
from edgebert.errors import GateError, InputError, ModelError  # noqa: E402
from tests.compress.tflite_files import batch_of, by_engine, by_torch  # noqa: E402


@pytest.fixture
def lab(tflite_lab):
    return tflite_lab


@pytest.mark.parametrize("lengths", [(1,), (8,), (3, 9, 16)])
def test_the_file_gives_torchs_logits(lab, lengths):
    batch = batch_of(*lengths)
    found, expected = by_engine(lab.path, batch), by_torch(lab.module, batch)
    np.testing.assert_allclose(found["logits"], expected["logits"], atol=1e-5)


def test_signatures_name_their_length_inputs_and_outputs(lab):
    found = {
        one.signatureKey.decode(): (
            {entry.name.decode() for entry in one.inputs},
            [entry.name.decode() for entry in one.outputs],
        )
        for one in read_tflite(lab.path).signatureDefs
    }
    expected = ({"input_ids", "attention_mask", "token_type_ids"}, ["logits"])
    assert found == {"s8": expected, "s16": expected}


def test_two_signatures_store_each_weight_once(lab):
    parameter_bytes = 4 * sum(parameter.numel() for parameter in lab.module.parameters())
    weights = sum(len(one.data) for one in read_tflite(lab.path).buffers if one.data is not None)
    assert weights < parameter_bytes


def test_no_operator_is_foreign(lab):
    assert "CUSTOM" not in operator_names(read_tflite(lab.path))


def test_weights_stand_at_multiples_of_16_bytes(lab):
    from ai_edge_litert.schema_py_generated import Model

    content = np.frombuffer(lab.path.read_bytes(), dtype=np.uint8)
    model = Model.GetRootAs(content.data)
    start = content.ctypes.data
    places = [
        model.Buffers(number).DataAsNumpy().ctypes.data - start
        for number in range(model.BuffersLength())
        if model.Buffers(number).DataLength()
    ]
    assert len(places) > 40
    assert not any(place % 16 for place in places)


def test_what_has_a_weight_has_the_name_of_its_module(lab):
    names = {use.name for use in weight_uses(read_tflite(lab.path))}
    assert "/model/bert/embeddings/word_embeddings/Gather" in names
    assert "/model/bert/encoder/layer.1/attention/self/query/MatMul" in names
    assert "/model/classifier/MatMul" in names
    assert not [name for name in names if "constant" in name]


def test_the_recipe_tells_the_lengths_and_the_oldest_engine(lab):
    assert lab.exported.recipe["lengths"] == [8, 16]
    assert lab.exported.min_engine == "tflite-runtime 2.14"


def test_the_process_is_left_as_it_was(lab):
    assert lab.after == lab.before


@pytest.mark.parametrize(
    ("limit", "lengths"),
    [
        (512, (8, 16, 32, 64, 128, 256, 512)),
        (128, (8, 16, 32, 64, 128)),
        (100, (8, 16, 32, 64, 100)),
    ],
)
def test_the_last_length_is_the_models_limit(limit, lengths):
    assert lengths_for(limit) == lengths


def test_a_limit_below_the_smallest_bucket_is_the_only_length():
    assert lengths_for(5) == (5,)
    with pytest.raises(InputError, match="max_length is 0"):
        lengths_for(0)


class Thrown(torch.nn.Module):
    """A model that can't be traced."""

    input_names = ("input_ids",)
    output_names = ("logits",)

    def forward(self, _):
        raise RuntimeError("no such shape")


def test_a_model_that_cannot_be_converted_is_named_as_such(tmp_path):
    with pytest.raises(ModelError, match=r"can't convert the model: .*no such shape"):
        export_tflite(Thrown(), tmp_path / "m.tflite", lengths=(8,))
    assert not (tmp_path / "m.tflite").exists()


def test_a_file_larger_than_its_parameters_is_refused(lab, tmp_path, monkeypatch):
    monkeypatch.setattr(tflite_graph, "_convert", lambda *_: lab.path.read_bytes())
    monkeypatch.setattr(tflite_graph, "_SIGNATURE_BYTES", 0)
    half = torch.nn.Linear(100, 100)
    with pytest.raises(GateError, match="copied shared weights"):
        export_tflite(half, tmp_path / "m.tflite", lengths=(8,))
    assert not (tmp_path / "m.tflite").exists()


def test_an_operator_that_engines_lack_is_refused(lab, tmp_path, monkeypatch):
    def with_foreign(content):
        model = parse(content)
        model.operatorCodes[0].customCode = b"FlexErf"
        return model

    parse = tflite_graph.parse_tflite
    monkeypatch.setattr(tflite_graph, "parse_tflite", with_foreign)
    monkeypatch.setattr(tflite_graph, "_convert", lambda *_: lab.path.read_bytes())
    with pytest.raises(ModelError, match="FlexErf"):
        export_tflite(lab.module, tmp_path / "m.tflite", lengths=(8,))
