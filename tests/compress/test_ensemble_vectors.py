"""An embedder that gives the vectors, beside the one that a student is built of."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

import compress
from compress.models.capture import Wanted
from compress.models.sentence_layout import SentenceLayout, write_layout
from edgebert import Runtime
from edgebert.errors import ModelError
from tests.compress.ensembles import asked, write_other_tokens
from tests.compress.steps import distill_settings

torch.set_num_threads(1)

TEXTS = ["good film", "bad plot", "the fun world"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An embedder with tokens of its own, and what it says of texts."""
    from transformers import BertModel, PreTrainedTokenizerFast

    directory = tmp_path_factory.mktemp("whole") / "embedder"
    write_other_tokens(directory)
    write_layout(directory, SentenceLayout(pooling="mean", normalize=True), hidden_size=32)
    model = BertModel.from_pretrained(directory).eval()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(directory / "tokenizer.json"), pad_token="[PAD]"
    )

    def vectors(texts):
        with torch.no_grad():
            found = [
                model(**tokenizer(one, return_tensors="pt"))[0][0].mean(dim=0) for one in texts
            ]
        return torch.stack(found)

    return directory, vectors


EMBEDS = {"task": "feature-extraction", "teacher_weights": "0,1"}


def test_an_embedder_with_other_tokens_can_give_the_vectors(lab, whole, tmp_path):
    directory, vectors = whole
    ensemble, data = asked(lab, tmp_path, directory, teacher=str(lab.embedder), **EMBEDS)
    torch.testing.assert_close(ensemble.answers, vectors(data.train.texts), atol=1e-5, rtol=0)
    wanted = Wanted(logits=False, hidden_states=(2,), pooled="mean", pooling_layers=2)
    assert ensemble.without(wanted) == Wanted(logits=False, hidden_states=(2,))


def test_a_student_learns_the_vectors_of_the_one_and_the_tokens_of_the_other(lab, whole, tmp_path):
    directory, vectors = whole
    settings = EMBEDS | {"teacher": str(lab.embedder), "student": "L=1,H=32,A=2,I=64"}
    scores = []
    for epochs in (1, 40):
        config = distill_settings(
            lab,
            tmp_path / f"b{epochs}",
            extra_teacher=(str(directory),),
            num_train_epochs=epochs,
            learning_rate=3e-3,
            backend=("onnx",),
            **settings,
        )
        compress.distill(config)
        with Runtime(tmp_path / f"b{epochs}", precision="fp32") as runtime:
            ours = torch.from_numpy(runtime.encode(TEXTS))
        scores.append(torch.cosine_similarity(ours, vectors(TEXTS)).mean())
    assert scores[1] > scores[0] + 0.1
    vocabularies = [
        json.loads((one / "tokenizer.json").read_text())["model"]["vocab"]
        for one in (tmp_path / "b40", lab.embedder, directory)
    ]
    assert vocabularies[0] == vocabularies[1] != vocabularies[2]


def test_vectors_that_are_made_otherwise_are_refused(lab, whole, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(whole[0], other, ignore=shutil.ignore_patterns("1_Pooling"))
    write_layout(other, SentenceLayout(pooling="cls", normalize=True), hidden_size=32)
    with pytest.raises(ModelError, match=r"otherwise than.*pooling cls.*not pooling mean"):
        asked(lab, tmp_path, other, teacher=str(lab.embedder), **EMBEDS)
