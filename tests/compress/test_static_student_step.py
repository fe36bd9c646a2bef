"""``distill --student static-16d``: from a teacher to a bundle whose texts are means of rows."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

import compress
import edgebert
from compress.distillation.static_start import lone_tokens
from compress.models.dense import Dense
from compress.models.sentence_layout import SentenceLayout, write_layout
from edgebert.errors import InputError, ModelError
from edgebert.text.tokenizer import Tokenizer
from tests.compress.steps import distill_settings
from tests.tiny import SPECIAL_IDS, VOCAB, write_encoder, write_tokenizer

TEXTS = ["the good film", "a very dull plot", "world"]
TABLE = "embeddings.word_embeddings.weight"


def settings(lab, folder, **changes):
    given = {"teacher": str(lab.embedder), "task": "feature-extraction", "student": "static-16d"}
    return distill_settings(lab, folder, **{**given, **changes})


@pytest.fixture(scope="module")
def trained(lab, tmp_path_factory):
    folder = tmp_path_factory.mktemp("static") / "student"
    return folder, compress.distill(settings(lab, folder))


@pytest.fixture(scope="module")
def untrained(lab, tmp_path_factory):
    folder = tmp_path_factory.mktemp("static") / "student"
    return folder, compress.distill(settings(lab, folder, num_train_epochs=0))


def vectors_of(folder, texts, **changes):
    with edgebert.Runtime(folder, precision="fp32", **changes) as runtime:
        return runtime.encode(texts)


def rows_of(folder):
    """Give what each token counts for; the norm takes away what a training adds to whole rows."""
    table = load_file(folder / "model.safetensors")[TABLE]
    return table - table.mean(axis=1, keepdims=True)


def test_a_vector_is_the_mean_of_its_tokens_rows(trained):
    table = rows_of(trained[0])
    ids = [[2, *(VOCAB.index(word) for word in text.split()), 3] for text in TEXTS]
    expected = np.stack([table[row].mean(axis=0) for row in ids])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors_of(trained[0], TEXTS), expected, atol=1e-6)


def test_the_order_of_words_has_no_say(trained):
    here, there = vectors_of(trained[0], ["good film not dull", "dull film not good"])
    np.testing.assert_allclose(here, there, atol=1e-6)


def test_a_text_without_a_word_has_a_vector_too(untrained):
    found = vectors_of(untrained[0], ["", "\N{SNOWMAN}"])
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, atol=1e-5)


def test_training_moves_the_table_alone(trained, untrained):
    before, after = (load_file(one[0] / "model.safetensors") for one in (untrained, trained))
    changed = [name for name in before if not np.array_equal(before[name], after[name])]
    assert changed == [TABLE]


def test_both_precisions_pass_their_gates_and_the_report_says_how_it_was_made(trained, untrained):
    for _, report in (trained, untrained):
        assert [row.precision for row in report.rows] == ["fp32", "int8"]
        assert (report.student.name, report.student.init) == ("static-16d", "static")
    assert (trained[1].student.method, untrained[1].student.method) == ("embedding", "static")
    assert len(trained[1].phases) == 1
    assert not untrained[1].phases


def test_tokens_are_asked_for_one_by_one_between_the_specials(tmp_path):
    write_tokenizer(tmp_path)
    found = lone_tokens(Tokenizer(tmp_path, special_ids=SPECIAL_IDS), 7)
    assert [ids.tolist() for ids in found.input_ids] == [[2, token, 3] for token in range(7)]


def test_a_tokens_vector_is_its_row_in_any_text(trained):
    with edgebert.Runtime(trained[0], precision="fp32") as runtime:
        tokens = runtime.encode_tokens(["the good film"])[0]
    table = rows_of(trained[0])
    ids = [VOCAB.index(word) for word in ("the", "good", "film")]
    np.testing.assert_allclose(tokens.vectors, table[ids], atol=1e-6)


def test_whatever_the_teacher_pools_by_the_student_takes_the_mean(lab, tmp_path):
    compress.distill(settings(lab, tmp_path / "student", pooling="cls", max_steps=2))
    manifest = json.loads((tmp_path / "student" / "edgebert.json").read_text())
    assert manifest["pooling"] == "mean"


def test_a_teacher_with_dense_modules_is_refused_with_what_does_take_it(lab, tmp_path):
    write_encoder(tmp_path / "teacher", initializer_range=0.2)
    torch.manual_seed(0)
    layout = SentenceLayout(pooling="mean", normalize=True, dense=torch.nn.Sequential(Dense(32, 6)))
    write_layout(tmp_path / "teacher", layout, hidden_size=32)
    given = settings(lab, tmp_path / "student", teacher=str(tmp_path / "teacher"), max_steps=2)
    with pytest.raises(ModelError, match=r"Dense modules behind its pooling; .*--student L=1"):
        compress.distill(given)
    assert not (tmp_path / "student").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "text-classification"}, r"no token has seen the text.*--student L=1"),
        ({"method": "minilm"}, r"--method minilm is about layers"),
        ({"hidden_weight": 1.0}, r"--hidden-weight 1.0 is about layers"),
        ({"layer_map": "last"}, r"--layer-map last is about layers"),
        ({"init": "random"}, r"--init random is about layers"),
        ({"student": "L=1", "num_train_epochs": 0}, "num_train_epochs must be 1 or more"),
    ],
)
def test_what_has_no_meaning_without_layers_is_refused(lab, tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        settings(lab, tmp_path / "student", **changes)


def test_a_width_above_the_teachers_is_refused_before_any_work(lab, tmp_path):
    with pytest.raises(InputError, match=r"at most the width of its teacher's vectors, 32"):
        compress.distill(settings(lab, tmp_path / "student", student="static-64d"))
    assert not (tmp_path / "student.work").exists()


def test_a_trimmed_teacher_makes_a_smaller_table(lab, tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("the good film\nvery dull\n")
    trim = compress.TrimConfig(
        model=str(lab.embedder), corpus=(corpus,), output_dir=tmp_path / "trimmed"
    )
    compress.trim(trim)
    given = settings(lab, tmp_path / "student", teacher=str(tmp_path / "trimmed"))
    compress.distill(replace(given, num_train_epochs=0))
    assert len(load_file(tmp_path / "student" / "model.safetensors")[TABLE]) < len(VOCAB)


@pytest.mark.slow  # three converters
def test_every_engine_gives_the_same_vectors_and_int8_takes_a_byte_a_number(lab, tmp_path):
    vocab = [*VOCAB, *(f"w{i}" for i in range(20_000))]
    write_encoder(tmp_path / "teacher", vocab_size=len(vocab), initializer_range=0.2)
    write_tokenizer(tmp_path / "teacher", vocab=vocab)
    write_layout(
        tmp_path / "teacher", SentenceLayout(pooling="mean", normalize=True), hidden_size=32
    )
    given = settings(
        lab,
        tmp_path / "student",
        teacher=str(tmp_path / "teacher"),
        student="static-32d",
        num_train_epochs=0,
        backend=("onnx", "openvino", "tflite"),
    )
    report = compress.distill(given)
    assert len(report.rows) == 6
    texts = [f"w{i} w{7 * i} the w{3 * i}" for i in range(1, 40)]
    reference = vectors_of(tmp_path / "student", texts, backend="onnx")
    for row in report.rows:
        with edgebert.Runtime(
            tmp_path / "student", backend=row.backend, precision=row.precision
        ) as runtime:
            found = runtime.encode(texts)
        if row.precision == "fp32":
            np.testing.assert_allclose(found, reference, atol=1e-6)
        else:
            assert (found * reference).sum(axis=1).min() > 0.9995
            # a row has its scale, in TFLite a zero point too: 12 bytes; graph and positions 60 kB
            assert row.size_bytes < len(vocab) * (32 + 12) + 60_000


@pytest.mark.slow  # the library takes ten seconds to load
@pytest.mark.filterwarnings("ignore")  # of the library
def test_sentence_transformers_gives_the_same_vectors(trained):
    library = pytest.importorskip("sentence_transformers")
    theirs = library.SentenceTransformer(str(trained[0]), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(theirs, vectors_of(trained[0], TEXTS), atol=1e-6)
