"""A static student: a BERT of no layers whose rows are its teacher's vectors of single tokens."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import BertModel, RobertaConfig

from compress.models.architecture import Architecture, parse_student, student_config
from compress.models.capture import Wanted, forward_features
from compress.models.static_student import COMMON, SPECIAL_WEIGHT, build_static
from compress.models.student import same_parts
from edgebert.errors import InputError
from tests.tiny import bert_config

SPECIALS = (0, 2, 3)
TOKENS, WIDTH = 40, 8


@pytest.fixture(scope="module")
def teacher():
    torch.manual_seed(0)
    return BertModel(bert_config(vocab_size=TOKENS)).eval()


def vectors_of(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1)) + 3.0


def table_of(teacher, *, counts=None, vectors=None, width=WIDTH):
    vectors = vectors_of(TOKENS, 32) if vectors is None else vectors
    built = build_static(
        Architecture(0, width, 1, width),
        teacher,
        vectors=vectors,
        counts=torch.zeros(TOKENS) if counts is None else counts,
        special_ids=SPECIALS,
        pad_id=0,
    )
    return built, built.model.embeddings.word_embeddings.weight.detach().double()


def test_the_model_gives_the_rows_of_its_table(teacher):
    built, table = table_of(teacher)
    ids = torch.arange(TOKENS)[None]
    with torch.no_grad():
        found = built.model.eval()(input_ids=ids, token_type_ids=ids % 2).last_hidden_state[0]
    assert (found.double() - table).abs().max() < 1e-8


@pytest.mark.parametrize("size", [1e-2, 1.0, 50.0])
def test_the_norm_does_nothing_to_rows_of_any_usual_size(teacher, size):
    built, table = table_of(teacher)
    built.model.embeddings.word_embeddings.weight.data.mul_(size)
    ids = torch.arange(TOKENS)[None]
    with torch.no_grad():
        found = built.model.eval()(input_ids=ids).last_hidden_state[0]
    assert (found.double() / size - table).abs().max() < 1e-6


def test_every_row_has_a_mean_of_zero_and_padding_is_zero(teacher):
    _, table = table_of(teacher)
    assert table.mean(dim=1).abs().max() < 1e-7
    assert table[0].abs().max() == 0


def test_rows_are_the_centred_vectors_cut_to_their_principal_components(teacher):
    vectors = vectors_of(TOKENS, 32)
    _, table = table_of(teacher, vectors=vectors)
    x = vectors.double().numpy()
    usual = np.setdiff1d(np.arange(TOKENS), SPECIALS)
    left, sizes, _ = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    kept = left[:, : WIDTH - 1] * sizes[: WIDTH - 1]  # principal components of each row
    expected = (kept @ kept.T)[np.ix_(usual, usual)]
    found = (table @ table.T).numpy()[np.ix_(usual, usual)]
    np.testing.assert_allclose(found / found[0, 0], expected / expected[0, 0], atol=1e-4)


def test_a_frequent_token_weighs_less_and_a_special_one_next_to_nothing(teacher):
    same = vectors_of(1, 32).repeat(TOKENS, 1)
    same[10:] = vectors_of(TOKENS, 32)[10:]
    counts = torch.zeros(TOKENS)
    counts[5], counts[20], counts[3] = 1, round(1 / COMMON) - 1, 10**6  # of all, 5 is COMMON
    _, table = table_of(teacher, vectors=same, counts=counts)
    rare, common, special = (table[i].norm() for i in (4, 5, 3))
    assert float(common / rare) == pytest.approx(1 / 2, rel=1e-4)
    assert float(special / rare) == pytest.approx(SPECIAL_WEIGHT, rel=1e-4)


def test_what_the_texts_have_in_common_is_taken_away(teacher):
    counts = torch.zeros(TOKENS)
    counts[[7, 8, 9]] = torch.tensor([5.0, 3.0, 2.0])
    _, table = table_of(teacher, counts=counts)
    assert (counts.double() @ table).abs().max() < 1e-5 * float(table.norm(dim=1).max())


def test_only_the_table_is_trained(teacher):
    built, _ = table_of(teacher)
    trained = [name for name, one in built.model.named_parameters() if one.requires_grad]
    assert trained == ["embeddings.word_embeddings.weight"]


def test_the_axes_of_the_student_are_those_of_its_basis(teacher):
    vectors = vectors_of(TOKENS, 32)
    built, table = table_of(teacher, vectors=vectors)
    expected = (vectors - vectors[20]).double() @ built.basis
    scale = (expected[10] / (table[10] - table[20])).mean()
    np.testing.assert_allclose(expected[30] / scale, table[30] - table[20], atol=1e-5)


def test_a_width_above_the_teachers_is_refused(teacher):
    with pytest.raises(
        InputError, match=r"width of its teacher's vectors, 32, got 33; .*static-32d"
    ):
        table_of(teacher, width=33)


def test_a_student_is_named_by_its_width():
    architecture = parse_student("static-64d", bert_config())
    assert (architecture.static, architecture.hidden_size) == (True, 64)
    assert str(architecture) == "static-64d"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("static-1d", "2 or more"),
        ("L=0", "one without layers is static-256d"),
        ("static", "static"),
    ],
)
def test_what_is_no_static_student_is_refused_with_what_is(text, message):
    with pytest.raises(InputError, match=message):
        parse_student(text, bert_config())


def test_of_any_family_it_is_a_bert_with_the_teachers_limits():
    theirs = RobertaConfig(
        vocab_size=50, pad_token_id=1, max_position_embeddings=130, type_vocab_size=1
    )
    config = student_config(Architecture(0, 16, 1, 16), theirs)
    assert isinstance(same_parts(None, config), BertModel)
    found = (config.vocab_size, config.pad_token_id, config.max_position_embeddings)
    assert found == (50, 1, 128)  # RoBERTa's first two rows are no positions


def test_a_model_without_layers_has_vectors_and_no_relations(teacher):
    built, table = table_of(teacher)
    batch = {"input_ids": torch.tensor([[5, 6]]), "attention_mask": torch.tensor([[1, 1]])}
    wanted = Wanted(logits=False, pooled="mean", hidden_states=(0,))
    found = forward_features(built.model.eval(), batch, wanted)
    np.testing.assert_allclose(found.pooled.detach()[0], table[5:7].mean(dim=0), atol=1e-7)
    np.testing.assert_allclose(found.hidden[0].detach()[0], table[5:7], atol=1e-7)
    with pytest.raises(InputError, match="not \\[1\\]"):
        forward_features(built.model, batch, Wanted(relations=(1,), logits=False))
