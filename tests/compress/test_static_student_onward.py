"""What other steps make of a static student, or why they don't."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import load_file

import compress
import edgebert
from compress.pruning.config import PruneConfig
from compress.pruning.plan import make_plan as plan_pruning
from compress.pruning.units import shape_of
from compress.sharing.albert import make_plan as plan_sharing
from compress.sharing.config import ShareConfig
from edgebert.errors import ModelError
from tests.compress.steps import distill_settings

TABLE = "embeddings.word_embeddings.weight"


@pytest.fixture(scope="module")
def student(lab, tmp_path_factory):
    folder = tmp_path_factory.mktemp("static") / "student"
    given = {"task": "feature-extraction", "student": "static-16d", "num_train_epochs": 0}
    compress.distill(distill_settings(lab, folder, teacher=str(lab.embedder), **given))
    return folder


@pytest.fixture(scope="module")
def model(student):
    from transformers import AutoModel

    return AutoModel.from_pretrained(student)


def test_transformers_opens_it_without_a_layer(model):
    assert type(model).__name__ == "BertModel"
    assert len(model.encoder.layer) == 0


@pytest.mark.parametrize("goal", [{"sparsity": 0.5}, {"num_hidden_layers": 1}, {"hidden_size": 8}])
def test_there_is_nothing_to_prune(student, model, goal, tmp_path):
    config = PruneConfig(model=str(student), output_dir=tmp_path, **goal)
    with pytest.raises(ModelError, match=r"no layers to prune; .*compress\.trim.*static-64d"):
        plan_pruning(shape_of(model), config, family="bert")


@pytest.mark.parametrize("goal", [{"num_hidden_groups": 1}, {"embedding_size": 8}])
def test_there_is_nothing_to_share(student, model, goal, tmp_path):
    config = ShareConfig(model=str(student), output_dir=tmp_path, **goal)
    with pytest.raises(ModelError, match=r"no layers to share.*static-64d"):
        plan_sharing(model.config, config)


def test_its_vocabulary_is_trimmed_and_the_rest_keeps_its_vectors(student, lab, tmp_path):
    corpus = tmp_path / "corpus.txt"
    lines = [f"the good film {i}, very dull" for i in range(50)]  # some lines are held out
    corpus.write_text("\n".join(lines) + "\n")
    compress.trim(
        compress.TrimConfig(model=str(student), corpus=(corpus,), output_dir=tmp_path / "trimmed")
    )
    compress.export(
        compress.ExportConfig(
            model=str(tmp_path / "trimmed"),
            task="feature-extraction",
            train_file=lab.train,
            output_dir=tmp_path / "bundle",
            max_length=16,
            threads=1,
            backend=("onnx",),
        )
    )
    texts = ["the good film", "very dull"]
    found = []
    for folder in (student, tmp_path / "bundle"):
        with edgebert.Runtime(folder, precision="fp32") as runtime:
            found.append(runtime.encode(texts))
    np.testing.assert_allclose(*found, atol=1e-6)
    rows = [
        len(load_file(one / "model.safetensors")[TABLE]) for one in (student, tmp_path / "bundle")
    ]
    assert rows[1] < rows[0]
