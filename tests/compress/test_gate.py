"""Gates let through what is right, and nothing that is wrong in silence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from compress.artifacts.gate import (
    Shape,
    fp32_parity,
    int8_gate,
    mates_difference,
    most_cells,
    parity_shapes,
    torch_outputs,
    vanished_classes,
)
from compress.data.load import make_split
from compress.scoring.probe import TaskHead, engine_rows, make_probe, torch_rows
from compress.scoring.scores import cosines, score_rows
from edgebert.text.tokenizer import Tokenizer
from tests.tiny import SPECIAL_IDS, bert_config, write_classifier, write_encoder, write_tokenizer

HEAD = TaskHead(
    task="text-classification",
    labels=("bad", "good"),
    problem_type="single_label_classification",
)
TEXTS = ["good film", "bad", "the very dull plot , not fun", "hello world ! " * 9, "a film"] * 20


class TorchBackend:
    """Gives what a torch model gives, spoilt by a function of the outputs and the batch."""

    engine = "torch"
    inputs = ("input_ids", "attention_mask", "token_type_ids")

    def __init__(self, model, head=HEAD, spoil=lambda values, _: values):
        self.model, self.head, self.spoil = model, head, spoil
        self.outputs = head.outputs

    def run(self, batch):
        found = torch_outputs(self.model, batch, self.head)
        return {name: self.spoil(values, batch) for name, values in found.items()}

    def close(self):
        pass


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder)
    return Tokenizer(folder, special_ids=SPECIAL_IDS)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    return write_classifier(tmp_path_factory.mktemp("classifier"))


def probe_of(tokenizer, head=HEAD, *, labels=None, texts=TEXTS, text_pairs=None, mask_id=None):
    split = make_split("dev", "made up", list(texts), labels=labels, text_pairs=text_pairs)
    return make_probe(split, head, tokenizer, max_length=64, mask_id=mask_id)


@pytest.fixture
def probe(tokenizer):
    return probe_of(tokenizer)


def rows_of(*classes):
    return np.array([[1.0, 0.0] if c == "bad" else [0.0, 1.0] for c in classes], dtype=np.float32)


def test_shapes_cover_batches_of_1_2_7_32_and_lengths_of_1_to_512_with_padding_and_without():
    shapes = parity_shapes(512, most_cells=32 * 512)
    for batch in (1, 2, 7, 32):
        for padded in (True, False):
            lengths = {x.length for x in shapes if (x.batch, x.padded) == (batch, padded)}
            assert min(lengths) == 1
            assert max(lengths) == 512 or not padded
    for batch in (1, 2):
        assert Shape(batch, 512, padded=False) in shapes


@pytest.mark.parametrize(("layers", "width", "longest"), [(3, 384, 512), (12, 768, 128)])
def test_the_longest_batch_of_32_fits_the_cost_of_the_model(layers, width, longest):
    config = bert_config(num_hidden_layers=layers, hidden_size=width, vocab_size=30_522)
    shapes = parity_shapes(512, most_cells=most_cells(config, fill_mask=False))
    assert max(shape.length for shape in shapes if shape.batch == 32) == longest
    assert Shape(7, 512, padded=True) in shapes


def test_logits_of_a_whole_vocabulary_are_kept_below_half_a_gigabyte():
    config = bert_config(vocab_size=30_522)
    assert most_cells(config, fill_mask=True) * 30_522 * 4 <= 0.52e9


def test_shapes_end_at_the_maximum_length():
    assert max(shape.length for shape in parity_shapes(50, most_cells=10**6)) == 50


def test_the_torch_model_itself_passes_parity(classifier, probe):
    backend = TorchBackend(classifier)
    record = fp32_parity(classifier, backend, probe, max_length=64)
    assert record.passed
    assert record.numbers["max_abs"] < 1e-6


def test_an_error_at_one_batch_size_alone_is_found(classifier, probe):
    def spoil(values, batch):
        return values + (1e-3 if len(batch.input_ids) == 7 else 0.0)

    backend = TorchBackend(classifier, spoil=spoil)
    record = fp32_parity(classifier, backend, probe, max_length=64)
    assert not record.passed
    assert "batch 7" in record.reasons[0]


def test_an_engine_that_ignores_the_mask_is_found(classifier, probe):
    class Deaf(TorchBackend):
        def run(self, batch):
            ones = np.ones_like(batch.attention_mask)
            return super().run(replace(batch, attention_mask=ones))

    record = fp32_parity(classifier, Deaf(classifier), probe, max_length=64)
    assert "with padding" in record.reasons[0]


def test_nan_is_no_pass(classifier, probe):
    backend = TorchBackend(classifier, spoil=lambda values, _: values * np.nan)
    assert not fp32_parity(classifier, backend, probe, max_length=64).passed


def test_what_stands_in_padding_does_not_count(tmp_path, tokenizer):
    model = write_encoder(tmp_path)
    head = TaskHead(task="feature-extraction", pooling="mean")

    def spoil(values, batch):
        if values.ndim == 2:  # the pooled vectors
            return values
        return np.where(batch.attention_mask[:, :, None] == 1, values, 9.0)

    backend = TorchBackend(model, head, spoil)
    probe = probe_of(tokenizer, head)
    assert fp32_parity(model, backend, probe, max_length=64).passed


def test_dependence_on_batch_mates_is_measured(classifier, probe):
    steady = TorchBackend(classifier)
    swayed = TorchBackend(classifier, spoil=lambda values, batch: values + len(batch.input_ids))
    assert mates_difference(steady, probe) < 1e-5
    assert mates_difference(swayed, probe) > 0.5


@pytest.mark.parametrize("batch_invariant", [True, False])
def test_an_engines_rows_are_torchs_rows_in_the_order_of_the_texts(
    classifier, probe, batch_invariant
):
    backend = TorchBackend(classifier)
    found = engine_rows(backend, probe, batch_invariant=batch_invariant)
    np.testing.assert_allclose(found.values, torch_rows(classifier, probe).values, atol=1e-6)


def test_int8_may_lose_one_percent_of_the_metric(tokenizer):
    labels = ["bad"] * 100 + ["good"] * 100
    texts = ["a film"] * 200
    probe = probe_of(tokenizer, labels=labels, texts=texts)
    reference = rows_of(*labels)
    two_wrong = rows_of(*(["good"] * 2 + labels[2:]))
    three_wrong = rows_of(*(["good"] * 3 + labels[3:]))
    assert int8_gate(probe, two_wrong, reference).passed
    refused = int8_gate(probe, three_wrong, reference)
    assert not refused.passed
    assert refused.numbers["relative_loss"] == pytest.approx(0.015)


def test_a_loss_is_relative_to_the_reference(tokenizer):
    labels = ["bad"] * 100 + ["good"] * 100
    probe = probe_of(tokenizer, labels=labels, texts=["a film"] * 200)
    reference = rows_of(*(["good"] * 100 + ["good"] * 100))  # half right
    worse = rows_of(*(["good"] * 100 + ["bad"] * 2 + ["good"] * 98))  # 98 of 200
    assert int8_gate(probe, worse, reference).numbers["relative_loss"] == pytest.approx(0.02)


def test_where_fp32_is_right_nowhere_int8_must_point_its_way(tokenizer):
    probe = probe_of(tokenizer, labels=["bad"] * 4, texts=["a film"] * 4)
    reference = rows_of(*(["good"] * 4))
    assert int8_gate(probe, 1.1 * reference, reference).passed
    refused = int8_gate(probe, reference + np.array([2.0, 0.0], dtype=np.float32), reference)
    assert "The mean cosine with FP32 is 0.4472" in refused.reasons[0]


def test_a_class_that_vanishes_is_refused_even_where_the_metric_holds(tokenizer):
    labels = ["bad"] * 3 + ["good"] * 997
    probe = probe_of(tokenizer, labels=labels, texts=["a film"] * 1000)
    record = int8_gate(probe, rows_of(*(["good"] * 1000)), rows_of(*labels))
    assert record.numbers["relative_loss"] < 0.01
    assert record.reasons == ("Class 'bad' is never predicted any more.",)


def test_a_class_that_was_never_predicted_can_not_vanish(tokenizer):
    probe = probe_of(tokenizer)
    good = rows_of(*(["good"] * 100))
    assert vanished_classes(probe, good, good) == []


def test_without_labels_int8_must_agree_with_fp32(tokenizer):
    probe = probe_of(tokenizer)
    reference = rows_of(*(["good", "bad"] * 50))
    flipped = reference.copy()
    flipped[:2] = flipped[:2, ::-1]
    record = int8_gate(probe, flipped, reference)
    assert record.numbers["agreement_int8"] == pytest.approx(0.98)
    assert not record.passed


def test_vectors_that_turned_too_far_are_refused(tokenizer):
    head = TaskHead(task="feature-extraction", pooling="mean", normalize=True)
    probe = probe_of(tokenizer, head)
    reference = np.tile(np.array([[1.0, 0.0]], dtype=np.float32), (100, 1))
    angle = np.arccos(0.985)
    turned = np.tile(np.array([[np.cos(angle), np.sin(angle)]], dtype=np.float32), (100, 1))
    record = int8_gate(probe, turned, reference)
    assert record.numbers["cosine_mean"] == pytest.approx(0.985, abs=1e-4)
    assert not record.passed


def test_int8_outputs_that_are_not_finite_are_refused(tokenizer):
    probe = probe_of(tokenizer)
    reference = rows_of(*(["good", "bad"] * 50))
    assert "NaN" in int8_gate(probe, reference * np.nan, reference).reasons[0]


def test_scored_pairs_are_ranked_by_the_cosine_of_their_vectors(tokenizer):
    head = TaskHead(task="feature-extraction", pooling="mean")
    firsts, seconds = ["a film", "good", "bad"], ["the film", "dull", "fun"]
    probe = probe_of(tokenizer, head, texts=firsts, text_pairs=seconds, labels=[5.0, 3.0, 1.0])
    east = np.array([[1, 0]] * 3, dtype=np.float32)
    away = np.array([[1, 0.1], [1, 1], [0.1, 1]], dtype=np.float32)
    rows = np.stack([east, away], axis=1).reshape(6, 2)  # each pair's two texts together
    score = score_rows(probe, rows, rows)
    assert (score.metric, score.value) == ("spearman", pytest.approx(1.0))


def test_a_masked_token_counts_as_right_when_its_logit_is_the_largest(tokenizer):
    probe = probe_of(tokenizer, TaskHead(task="fill-mask"), texts=["good film"] * 4, mask_id=4)
    assert [
        ids[place] for ids, place in zip(probe.encoded.input_ids, probe.masked, strict=True)
    ] == [4] * 4
    values = np.zeros((4, 100), dtype=np.float32)
    values[np.arange(3), probe.answers[:3]] = 1.0  # the fourth says token 0
    assert score_rows(probe, values, values).value == pytest.approx(0.75)


def test_a_row_of_zeros_has_a_cosine_of_zero():
    zero, one = np.zeros((1, 2), dtype=np.float32), np.ones((1, 2), dtype=np.float32)
    assert cosines(zero, one).tolist() == [0.0]


def test_multi_label_rows_agree_when_every_label_does(tokenizer):
    head = replace(HEAD, problem_type="multi_label_classification")
    probe = probe_of(tokenizer, head, texts=["a film"] * 2)
    reference = np.array([[1, 1], [1, -1]], dtype=np.float32)
    values = np.array([[1, -1], [2, -2]], dtype=np.float32)
    assert score_rows(probe, values, reference).value == pytest.approx(0.5)


def test_torch_rows_leave_the_model_in_its_mode(classifier, probe):
    classifier.train()
    torch_rows(classifier, probe)
    assert classifier.training
    classifier.eval()
    assert torch.is_grad_enabled()
