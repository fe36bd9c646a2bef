"""Methods: which phases and terms they are, and that they train a student."""

from __future__ import annotations

import pytest
import torch

from compress.distillation.methods import MethodSettings, Term, build_phases
from compress.models.capture import Wanted, forward_features
from compress.training.losses import hard_label_loss, soft_target_loss
from edgebert.errors import InputError
from tests.compress.phases import PAIRS, models, phases_of

torch.set_num_threads(1)


@pytest.fixture
def batch():
    ids = torch.tensor([[2, 11, 12, 13, 3], [2, 14, 3, 0, 0], [2, 40, 41, 3, 0]])
    return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": torch.tensor([0, 1, 1])}


def labelled(batch, task):
    if task == "fill-mask":
        labels = batch["input_ids"].masked_fill(batch["input_ids"] < 11, -100)
        return {**batch, "labels": labels}
    if task == "feature-extraction":
        return {k: v for k, v in batch.items() if k != "labels"}
    labels = {
        "regression": torch.tensor([0.5, 1.0, -2.0]),
        "token-classification": (batch["input_ids"] % 2).masked_fill(batch["input_ids"] < 11, -100),
        "question-answering": torch.tensor([[1, 2], [1, 1], [0, 0]]),
        "multiple-choice": torch.tensor([1, 0]),  # of a question of two choices and one of one
    }
    return {
        **batch,
        "labels": labels.get(task, batch["labels"]),
        "questions": torch.tensor([0, 0, 1]),
    }


def losses_of(phase, pair, batch):
    with torch.no_grad():
        teacher = forward_features(pair["teacher"], batch, phase.teacher_wanted)
    return phase.losses(
        forward_features(pair["student"], batch, phase.student_wanted), teacher, batch
    )


@pytest.mark.parametrize(
    ("method", "task", "expected"),
    [
        ("logits", "text-classification", {"prediction": ["soft", "hidden"]}),
        (
            "tinybert",
            "text-classification",
            {"intermediate": ["embedding", "hidden", "attention"], "prediction": ["soft"]},
        ),
        ("distilbert", "text-classification", {"prediction": ["soft", "cosine"]}),
        ("distilbert", "fill-mask", {"prediction": ["soft", "hidden_token", "cosine"]}),
        (
            "minilm",
            "text-classification",
            {
                "relations": ["query_relation", "key_relation", "value_relation"],
                "prediction": ["soft"],
            },
        ),
        ("embedding", "feature-extraction", {"embedding": ["pooled", "similarity", "hidden"]}),
    ],
)
def test_method_is_made_of_the_terms_of_its_paper(method, task, expected):
    _, phases = phases_of(method, task)
    assert {phase.name: list(phase.terms) for phase in phases} == expected


@pytest.mark.parametrize(("method", "task"), PAIRS)
@pytest.mark.parametrize("width", [32, 16])
def test_a_few_steps_lower_the_loss_of_every_phase(method, task, width, batch):
    pair, phases = phases_of(
        method, task, student={"hidden_size": width, "num_attention_heads": 4}, hard_weight=0.2
    )
    batch = labelled(batch, task)
    for phase in phases:
        trained = [*pair["student"].parameters(), *phase.projections.parameters()]
        optimizer = torch.optim.Adam(trained, lr=2e-3)
        history = []
        for _ in range(8):
            loss = torch.stack(list(losses_of(phase, pair, batch).values())).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            history.append(loss.item())
        assert history[-1] < history[0]
        assert all(p.grad is not None for p in phase.projections.parameters())


@pytest.mark.parametrize(("method", "task"), PAIRS)
def test_student_that_is_its_teacher_has_no_loss(method, task, batch):
    pair = models(task, student={"num_hidden_layers": 2})
    pair["student"].load_state_dict(pair["teacher"].state_dict())
    config = MethodSettings(hidden_token_weight=0.0)
    for phase in build_phases(method, **pair, layer_map=(1, 2), config=config, task=task):
        for name, loss in losses_of(phase, pair, labelled(batch, task)).items():
            assert abs(loss.item()) < 1e-5, name


def test_hard_weight_shares_the_loss_with_the_soft_targets(batch):
    pair, (phase,) = phases_of("logits", "text-classification", hard_weight=0.25, hidden_weight=0.0)
    found = losses_of(phase, pair, batch)
    student, teacher = (forward_features(pair[k], batch, Wanted()).logits for k in pair)
    torch.testing.assert_close(found["soft"], 0.75 * soft_target_loss(student, teacher, 2.0))
    torch.testing.assert_close(found["hard"], 0.25 * hard_label_loss(student, batch["labels"]))


def test_many_labels_a_text_train_on_float_labels(batch):
    pair, (phase,) = phases_of(
        "logits",
        "text-classification",
        hard_weight=0.5,
        problem_type="multi_label_classification",
    )
    many = {**batch, "labels": torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])}
    assert all(loss.isfinite() for loss in losses_of(phase, pair, many).values())


def test_only_what_the_terms_read_is_wanted():
    _, (phase,) = phases_of("logits", "text-classification", hidden_weight=0.0)
    assert phase.teacher_wanted == Wanted()
    _, phases = phases_of("minilm", "text-classification", teacher_layer=1)
    assert phases[0].teacher_wanted == Wanted(relations=(1,), logits=False)
    assert phases[0].student_wanted == Wanted(relations=(1,), logits=False)
    _, (phase,) = phases_of("embedding", "feature-extraction", hidden_weight=0.0)
    assert phase.teacher_wanted == Wanted(logits=False, pooled="mean")


def test_phase_that_leaves_the_head_untrained_reports_no_score_and_says_why():
    for method in ("tinybert", "minilm"):
        _, (first, last) = phases_of(method, "text-classification")
        assert (first.reports_score, last.reports_score) == (False, True)
        assert "losses only" in first.note


def test_losses_are_float32_within_an_autocast(batch):
    pair, phases = phases_of("tinybert", "text-classification", student={"hidden_size": 16})
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for phase in phases:
            assert {x.dtype for x in losses_of(phase, pair, batch).values()} == {torch.float32}


def test_projection_is_trained_only_where_the_widths_differ():
    _, (same, _) = phases_of("tinybert", "text-classification")
    _, (other, _) = phases_of("tinybert", "text-classification", student={"hidden_size": 16})
    assert dict(same.projections) == {}
    assert {k: v.weight.shape for k, v in other.projections.items()} == {
        "embedding": (32, 16),
        "hidden": (32, 16),
    }


def test_projection_starts_at_the_basis_of_a_projected_student():
    pair = models("text-classification", student={"hidden_size": 16})
    basis = torch.linalg.qr(torch.randn(32, 16)).Q
    phases = build_phases(
        "tinybert",
        **pair,
        layer_map=(2,),
        config=MethodSettings(),
        task="text-classification",
        basis=basis,
    )
    assert torch.equal(phases[0].projections["hidden"].weight, basis)


def test_building_phases_twice_gives_the_same_projections_and_draws_nothing():
    pair = models("text-classification", student={"hidden_size": 16})
    arguments = {"layer_map": (2,), "config": MethodSettings(), "task": "text-classification"}
    state = torch.get_rng_state()
    first, second = (build_phases("logits", **pair, **arguments)[0] for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first.projections["hidden"].weight, second.projections["hidden"].weight)


def test_callers_term_joins_the_last_phase(batch):
    pair = models("text-classification")
    term = Term(
        loss=lambda student, _teacher, _batch: student.logits.square().mean(),
        weight=3.0,
        student_wanted=Wanted(),
    )
    phases = build_phases(
        "minilm",
        **pair,
        layer_map=(2,),
        config=MethodSettings(),
        task="text-classification",
        extra_terms={"small": term},
    )
    logits = forward_features(pair["student"], batch, Wanted()).logits
    found = losses_of(phases[1], pair, batch)["small"]
    torch.testing.assert_close(found, 3 * logits.square().mean())


def test_minilm_takes_any_two_head_counts(batch):
    pair, phases = phases_of(
        "minilm",
        "text-classification",
        student={"hidden_size": 24, "num_attention_heads": 3},
        teacher={"hidden_size": 32, "num_attention_heads": 16},
    )
    assert all(loss.isfinite() for loss in losses_of(phases[0], pair, batch).values())


def test_hard_labels_that_are_not_there_are_asked_for(batch):
    pair, (phase,) = phases_of("logits", "text-classification", hard_weight=0.5)
    del batch["labels"]
    with pytest.raises(InputError, match=r"needs batch\['labels'\]"):
        losses_of(phase, pair, batch)
