"""Curves keep the mean of what they thin, the last step, and each term."""

from __future__ import annotations

import pytest

from compress.reporting.curves import MAX_POINTS, phase_record


def test_a_short_history_is_kept_step_by_step():
    history = [{"step": 1, "soft": 3.0, "hard": 1.0}, {"step": 2, "soft": 2.0, "hard": 0.5}]
    record = phase_record("prediction", history)
    assert record.steps == (1, 2)
    assert record.terms == {"soft": (3.0, 2.0), "hard": (1.0, 0.5)}


def test_neighbouring_steps_of_a_long_history_are_averaged():
    history = [{"step": s, "soft": float(s % 2)} for s in range(1, 2 * MAX_POINTS + 1)]
    record = phase_record("prediction", history)
    assert len(record.steps) == MAX_POINTS
    assert record.terms["soft"] == pytest.approx([0.5] * MAX_POINTS)


def test_the_last_point_stands_at_the_last_step():
    history = [{"step": s, "soft": 1.0} for s in range(1, 1002)]
    assert phase_record("prediction", history).steps[-1] == 1001


def test_the_rate_and_the_gradients_norm_are_no_loss_terms():
    history = [{"step": 1, "lr": 0.1, "grad_norm": 2.0, "soft": 1.0}]
    assert list(phase_record("prediction", history).terms) == ["soft"]


def test_the_sum_of_a_single_term_is_left_out():
    history = [{"step": 1, "loss": 1.0, "soft": 1.0}]
    assert list(phase_record("prediction", history).terms) == ["soft"]


def test_the_sum_of_several_terms_is_kept():
    history = [{"step": 1, "loss": 3.0, "soft": 1.0, "hard": 2.0}]
    assert list(phase_record("prediction", history).terms) == ["loss", "soft", "hard"]


def test_scores_are_those_of_the_metric():
    evals = [{"step": 5, "accuracy": 0.5, "macro_f1": 0.4}, {"step": 9, "accuracy": 0.6}]
    record = phase_record("prediction", [], evals, metric="accuracy", best_step=9)
    assert record.scores == ((5, 0.5), (9, 0.6))
    assert record.metric == "accuracy"


def test_an_empty_history_gives_empty_curves():
    record = phase_record("prediction", [])
    assert record.steps == ()
    assert record.terms == {}
