"""Architectures by name, and where a student's first weights come from."""

from __future__ import annotations

import logging

import pytest
import torch
import transformers
from transformers import AutoModelForSequenceClassification

from compress.models.capture import Wanted, forward_features
from compress.models.layer_map import layer_map
from compress.models.student import (
    PRESETS,
    Architecture,
    build_student,
    parse_student,
    student_config,
)
from compress.training.losses import scaled_products
from edgebert.errors import InputError
from tests.compress.test_capture import CONFIGS
from tests.tiny import bert_config

torch.set_num_threads(1)


def teacher_of(config):
    torch.manual_seed(1)
    model = AutoModelForSequenceClassification.from_config(config).eval()
    with torch.no_grad():  # biases and norms start at 0 and 1, which would hide a mistake
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model


@pytest.fixture(scope="module")
def teacher():
    return teacher_of(bert_config(num_hidden_layers=4))


@pytest.fixture(scope="module")
def batch():
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 80, (8, 12), generator=generator)
    mask = (torch.arange(12) < torch.tensor([12, 5, 7, 12, 9, 3, 12, 10])[:, None]).long()
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": torch.zeros_like(ids)}


def build(teacher, text, **changes):
    architecture = parse_student(text, teacher.config)
    layers = layer_map("uniform", architecture.num_hidden_layers, teacher.config.num_hidden_layers)
    return build_student(architecture, teacher, **{"layer_map": layers, "seed": 0, **changes})


def test_presets_are_the_published_architectures():
    assert PRESETS["tinybert-4l-312d"] == Architecture(4, 312, 12, 1200)
    assert PRESETS["minilm-3l-384d"] == Architecture(3, 384, 12, 1536)
    assert PRESETS["mini-2l-128d"] == Architecture(2, 128, 2, 512)


def test_numbers_that_are_not_given_are_the_teachers():
    assert parse_student("L=1, I=16", bert_config()) == Architecture(1, 32, 4, 16)


def test_an_architecture_reads_back_what_it_writes():
    architecture = Architecture(1, 24, 3, 16)
    assert parse_student(str(architecture), bert_config()) == architecture


@pytest.mark.parametrize("text", ["tinybert", "L=2;H=8", "L=two", "", "X=3"])
def test_unknown_student_is_refused_with_the_presets(text):
    with pytest.raises(InputError, match="minilm-3l-384d"):
        parse_student(text, bert_config())


@pytest.mark.parametrize(("text", "named"), [("H=30,A=4", "multiple"), ("L=0", "1 or more")])
def test_impossible_sizes_are_refused(text, named):
    with pytest.raises(InputError, match=named):
        parse_student(text, bert_config())


@pytest.mark.parametrize("family", [name for name in CONFIGS if name != "mobilebert"])
def test_student_of_every_family_runs_and_keeps_family_and_vocabulary(family, batch):
    teacher = teacher_of(CONFIGS[family]())
    student = build(teacher, "L=2,H=16,A=2,I=24", init="random").model.eval()
    assert type(student) is type(teacher)
    assert student.config.vocab_size == teacher.config.vocab_size
    small = {**batch, "input_ids": batch["input_ids"] % 50}
    features = forward_features(student, small, Wanted(hidden_states=(2,), relations=(2,)))
    assert features.hidden[2].shape == (8, 12, 16)
    assert features.num_heads == 2


def test_distilbert_student_gets_its_intermediate_size():
    config = student_config(Architecture(1, 16, 2, 20), CONFIGS["distilbert"]())
    assert (config.n_layers, config.dim, config.n_heads, config.hidden_dim) == (1, 16, 2, 20)


def test_mobilebert_student_of_another_width_is_refused_with_what_it_can_do():
    with pytest.raises(InputError, match="--student L=1"):
        student_config(Architecture(1, 16, 2, 20), CONFIGS["mobilebert"]())


def test_teachers_configuration_is_left_alone(teacher):
    before = teacher.config.to_dict()
    build(teacher, "L=1,H=16,A=2,I=8")
    assert teacher.config.to_dict() == before


@pytest.mark.parametrize("family", CONFIGS)
def test_student_of_the_same_shape_computes_what_its_teacher_does(family, batch):
    teacher = teacher_of(CONFIGS[family]())
    built = build(teacher, "L=3")
    small = {**batch, "input_ids": batch["input_ids"] % 50}
    with torch.no_grad():
        expected = forward_features(teacher, small, Wanted()).logits
        found = forward_features(built.model.eval(), small, Wanted()).logits
    assert built.init == "layers"
    torch.testing.assert_close(found, expected)


def test_layers_are_copied_by_the_map(teacher):
    student = build(teacher, "L=2", layer_map=(1, 4)).model
    for own, origin in ((0, 0), (1, 3)):
        ours, theirs = (m.bert.encoder.layer[i] for m, i in ((student, own), (teacher, origin)))
        for name, parameter in ours.named_parameters():
            assert torch.equal(parameter, theirs.get_parameter(name))


def test_dropping_neurons_that_do_nothing_changes_nothing(batch):
    teacher = teacher_of(bert_config())
    with torch.no_grad():
        for layer in teacher.bert.encoder.layer:
            layer.output.dense.weight[:, 1::2] = 0.0
        expected = forward_features(teacher, batch, Wanted()).logits
        built = build(teacher, "I=32")
        found = forward_features(built.model.eval(), batch, Wanted()).logits
    assert built.init == "layers"
    torch.testing.assert_close(found, expected)


def test_auto_projects_where_the_width_differs_and_logs_it(teacher, caplog):
    with caplog.at_level(logging.INFO):
        assert build(teacher, "L=2,H=16,A=4,I=32").init == "projected"
    assert "starts from init 'projected': the student's hidden_size is 16, not 32" in caplog.text


def test_auto_warns_when_only_random_weights_are_left(teacher, caplog):
    built = build(teacher, "L=2,H=64,A=4,I=32")
    assert (built.init, built.basis) == ("random", None)
    assert caplog.records[-1].levelno == logging.WARNING


@pytest.mark.parametrize(("init", "text"), [("layers", "H=16"), ("projected", "H=64")])
def test_init_that_the_shapes_do_not_allow_is_refused(teacher, init, text):
    with pytest.raises(InputError, match=f"init '{init}' can't be used: the student's hidden_size"):
        build(teacher, text, init=init)


@pytest.mark.parametrize("init", ["random", "projected"])
def test_same_seed_gives_same_weights_and_leaves_torchs_generator_alone(teacher, init):
    state = torch.get_rng_state()
    first, second = (build(teacher, "L=2,H=16,A=2,I=80", init=init).model for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)


def test_projection_to_the_same_width_computes_what_the_teacher_does(teacher, batch):
    built = build(teacher, "L=4", init="projected")
    with torch.no_grad():
        expected = forward_features(teacher, batch, Wanted()).logits
        found = forward_features(built.model.eval(), batch, Wanted()).logits
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_projected_student_keeps_the_attention_scores_of_its_first_layer(batch):
    teacher = teacher_of(bert_config(num_hidden_layers=1))
    built = build(teacher, "L=1,H=28,A=4,I=64", calibration=[batch])
    student = built.model.eval()
    assert built.init == "projected"
    with torch.no_grad():
        a, b = (forward_features(m, batch, Wanted(relations=(1,))) for m in (student, teacher))
    real = batch["attention_mask"].bool()
    pairs = real[:, None, :, None] & real[:, None, None, :]
    ours, theirs = (scaled_products(f.query[1], f.key[1], 4) for f in (a, b))
    pairs = pairs.expand_as(ours)
    correlation = torch.corrcoef(torch.stack([ours[pairs], theirs[pairs]]))[0, 1]
    assert correlation > 0.95


def test_projected_student_starts_nearer_to_its_teacher_than_a_random_one(teacher, batch):
    wanted = Wanted(hidden_states=(2,), logits=False)
    far = {}
    with torch.no_grad():
        target = forward_features(teacher, batch, Wanted(hidden_states=(4,), logits=False)).hidden[
            4
        ]
        for name, calibration in (("random", ()), ("levelled", ()), ("fitted", [batch])):
            init = "random" if name == "random" else "projected"
            built = build(teacher, "L=2,H=24,A=4,I=48", init=init, calibration=calibration)
            hidden = forward_features(built.model.eval(), batch, wanted).hidden[2]
            basis = build(teacher, "L=2,H=24,A=4,I=48", calibration=calibration).basis
            error = (hidden @ basis.float().T - target)[batch["attention_mask"].bool()]
            far[name] = error.square().mean().item()
    assert far["fitted"] < far["levelled"] < far["random"]


def test_basis_has_orthonormal_columns(teacher, batch):
    for calibration in ((), [batch]):
        basis = build(teacher, "L=2,H=24,A=4,I=48", calibration=calibration).basis
        torch.testing.assert_close(basis.T @ basis, torch.eye(24, dtype=torch.float64))


def test_fewer_heads_keep_the_ones_that_do_something(batch):
    teacher = teacher_of(bert_config(num_hidden_layers=1))
    attention = teacher.bert.encoder.layer[0].attention
    with torch.no_grad():
        for head in (0, 2):  # silent: they write nothing
            attention.output.dense.weight[:, head * 8 : head * 8 + 8] = 0.0
    built = build(teacher, "L=1,A=2", init="projected")
    with torch.no_grad():
        found, expected = (
            forward_features(m, batch, Wanted()).logits for m in (built.model.eval(), teacher)
        )
    # Twice as wide, the two kept heads have a half to spare: it starts at random, near 0.
    torch.testing.assert_close(found, expected, atol=0.002, rtol=0)


def test_student_saves_and_loads_with_plain_transformers(teacher, tmp_path):
    student = build(teacher, "L=2,H=16,A=4,I=24").model
    student.save_pretrained(tmp_path)
    loaded = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    for a, b in zip(student.parameters(), loaded.parameters(), strict=True):
        assert torch.equal(a, b)


def test_each_kind_of_fit_brings_copied_layers_nearer_to_the_teacher(teacher, batch):
    wanted = Wanted(hidden_states=(2,), logits=False)
    aim = Wanted(hidden_states=(4,), logits=False)
    errors = []
    with torch.no_grad():
        target = forward_features(teacher, batch, aim).hidden[4]
        for calibration, outputs in (((), False), ([batch], False), ([batch], True)):
            built = build(teacher, "L=2", calibration=calibration, fit_outputs=outputs)
            assert built.init == "layers"
            hidden = forward_features(built.model.eval(), batch, wanted).hidden[2]
            errors.append((hidden - target)[batch["attention_mask"].bool()].square().mean())
    assert errors[2] < errors[1] < errors[0]


def test_calibration_ends_at_its_limit_of_tokens(teacher, batch, caplog):
    large = {k: v.repeat(100, 1) for k, v in batch.items()}  # 800 texts, 9,600 tokens
    with caplog.at_level(logging.INFO):
        build(teacher, "L=2", calibration=[large, large])
    assert "fitted on 800 texts" in caplog.text


def test_fitting_leaves_a_student_of_all_layers_as_it_is(teacher, batch):
    fitted = build(teacher, "L=4", calibration=[batch]).model
    for name, parameter in fitted.named_parameters():
        torch.testing.assert_close(parameter, teacher.get_parameter(name), atol=1e-4, rtol=1e-3)


def test_calibration_batches_of_different_lengths_count_only_their_real_tokens(teacher, batch):
    short = {k: v[[1, 5]][:, :5] for k, v in batch.items()}
    padded = {k: v[[1, 5]] for k, v in batch.items()}
    rest = {k: v[[0, 2, 3]] for k, v in batch.items()}
    first, second = (
        build(teacher, "L=2", calibration=[rest, part]).model for part in (short, padded)
    )
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)
