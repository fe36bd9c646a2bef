"""Dense modules behind the pooling: read, written, and carried over to a student."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from compress.models.capture import Wanted, forward_features
from compress.models.dense import Dense, read_dense, student_dense, write_dense
from compress.models.sentence_layout import SentenceLayout, read_layout, write_layout
from edgebert.errors import ModelError
from tests.tiny import write_encoder

VECTORS = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))


def dense_of(*widths, activation="Tanh", bias=True):
    torch.manual_seed(0)
    parts = [Dense(a, b, activation=activation, bias=bias) for a, b in pairwise(widths)]
    return nn.Sequential(*parts).eval()


def layout_of(**changes):
    settings = {"pooling": "mean", "normalize": True, "dense": dense_of(8, 6, 4)}
    return SentenceLayout(**{**settings, **changes})


def test_a_dense_module_is_a_linear_layer_with_its_activation():
    dense = Dense(2, 1, activation="ReLU")
    with torch.no_grad():
        dense.linear.weight.copy_(torch.tensor([[2.0, -1.0]]))
        dense.linear.bias.fill_(1.0)
    assert dense(torch.tensor([[3.0, 1.0], [0.0, 5.0]])).tolist() == [[6.0], [0.0]]


@pytest.mark.parametrize("activation", ["Identity", "Tanh", "GELU"])
@pytest.mark.parametrize("bias", [True, False])
def test_what_is_written_is_read_again(tmp_path, activation, bias):
    (dense,) = dense_of(8, 4, activation=activation, bias=bias)
    write_dense(dense, tmp_path / "2_Dense")
    settings = json.loads((tmp_path / "2_Dense" / "config.json").read_text())
    assert torch.equal(read_dense(tmp_path / "2_Dense", settings)(VECTORS), dense(VECTORS))


def test_a_layout_keeps_its_dense_modules_between_pooling_and_normalize(tmp_path):
    written = write_layout(tmp_path, layout_of(), hidden_size=8)
    kinds = [
        m["type"].rsplit(".", 1)[-1] for m in json.loads((tmp_path / "modules.json").read_text())
    ]
    assert kinds == ["Transformer", "Pooling", "Dense", "Dense", "Normalize"]
    found = read_layout(tmp_path)
    assert torch.equal(found.dense(VECTORS), layout_of().dense(VECTORS))
    assert found.dense[-1].linear.out_features == 4
    files = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert set(written) == files


def test_averaged_layers_are_read_again(tmp_path):
    layout = layout_of(pooling_layers=3, dense=None)
    written = write_layout(tmp_path, layout, hidden_size=8, num_hidden_layers=6)
    assert read_layout(tmp_path).pooling_layers == 3
    files = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert set(written) == files


def test_layers_of_different_weights_are_refused(tmp_path):
    from safetensors.torch import save_file

    write_layout(tmp_path, layout_of(pooling_layers=2), hidden_size=8, num_hidden_layers=2)
    weights = tmp_path / "0_WeightedLayerPooling" / "model.safetensors"
    save_file({"layer_weights": torch.tensor([1.0, 2.0])}, weights)
    with pytest.raises(ModelError, match="weights its layers differently"):
        read_layout(tmp_path)


def damaged(folder, problem):
    weights, config = folder / "model.safetensors", folder / "config.json"
    settings = json.loads(config.read_text())
    match problem:
        case "pickle":
            weights.rename(folder / "pytorch_model.bin")
        case "activation":
            config.write_text(json.dumps({**settings, "activation_function": "os.system"}))
        case "residual":
            config.write_text(json.dumps({**settings, "use_residual": True}))
        case "shape":
            config.write_text(json.dumps({**settings, "out_features": 5}))
        case "cut":
            weights.write_bytes(weights.read_bytes()[:40])


@pytest.mark.parametrize(("problem", "message"), [
    ("pickle", r"pytorch_model\.bin, a format that may run code"),
    ("activation", "activation 'os.system'"),
    ("residual", "a residual connection"),
    ("shape", r"doesn't fit its config.json \(\[5, 8\]\)"),
    ("cut", "is damaged"),
])  # fmt: skip
def test_a_dense_module_that_cannot_be_used_is_refused(tmp_path, problem, message):
    write_layout(tmp_path, layout_of(dense=dense_of(8, 4)), hidden_size=8)
    damaged(tmp_path / "2_Dense", problem)
    with pytest.raises(ModelError, match=message):
        read_layout(tmp_path)


def test_a_module_outside_the_checkpoint_is_refused(tmp_path):
    write_layout(tmp_path, layout_of(), hidden_size=8)
    modules = json.loads((tmp_path / "modules.json").read_text())
    modules[2]["path"] = "../2_Dense"
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ModelError, match="which leaves it"):
        read_layout(tmp_path)


def test_a_student_of_the_same_width_has_the_teachers_dense_modules():
    teacher = dense_of(8, 6, 4)
    student = student_dense(teacher, hidden_size=8, basis=None, seed=0)
    assert torch.equal(student(VECTORS), teacher(VECTORS))
    assert student[0].linear.weight is not teacher[0].linear.weight


def test_a_projected_students_dense_reads_the_teachers_space_through_the_basis():
    teacher = dense_of(8, 4)
    basis = torch.linalg.qr(torch.randn(8, 5, dtype=torch.float64)).Q
    student = student_dense(teacher, hidden_size=5, basis=basis, seed=0)
    inside = VECTORS @ basis.float() @ basis.float().T  # what the student can hold of a vector
    torch.testing.assert_close(student(VECTORS @ basis.float()), teacher(inside))


def test_without_a_common_space_only_the_first_dense_starts_at_random():
    teacher = dense_of(8, 6, 4)
    first, second = (student_dense(teacher, hidden_size=5, basis=None, seed=s) for s in (0, 0))
    assert torch.equal(first[0].linear.weight, second[0].linear.weight)
    assert first[0].linear.weight.shape == (6, 5)
    assert torch.equal(first[1].linear.weight, teacher[1].linear.weight)


def torch_vectors(model, ids, mask, layout):
    batch = {"input_ids": ids, "attention_mask": mask, "token_type_ids": torch.zeros_like(ids)}
    wanted = Wanted(logits=False, pooled=layout.pooling, pooling_layers=layout.pooling_layers)
    vectors = forward_features(model, batch, wanted).pooled
    vectors = vectors if layout.dense is None else layout.dense(vectors)
    return torch.nn.functional.normalize(vectors, dim=-1)


@pytest.mark.slow  # the library takes ten seconds to load
@pytest.mark.filterwarnings("ignore")  # of the library
@pytest.mark.parametrize("layers", [1, 2])
def test_sentence_transformers_makes_the_same_vectors(tmp_path, layers):
    library = pytest.importorskip("sentence_transformers")
    model = write_encoder(tmp_path, initializer_range=0.3)
    layout = layout_of(pooling="max", dense=dense_of(32, 6), pooling_layers=layers)
    write_layout(tmp_path, layout, hidden_size=32, num_hidden_layers=2)
    texts = ["the good film", "dull"]
    tokens = library.SentenceTransformer(str(tmp_path), device="cpu")
    encoded = transformers_tokens(tmp_path, texts)
    with torch.no_grad():
        expected = torch_vectors(model, *encoded, layout)
    np.testing.assert_allclose(tokens.encode(texts), expected, atol=1e-5)


def transformers_tokens(directory, texts):
    from transformers import AutoTokenizer

    batch = AutoTokenizer.from_pretrained(directory)(texts, padding=True, return_tensors="pt")
    return batch["input_ids"], batch["attention_mask"]
