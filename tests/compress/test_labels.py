"""Labels meet by name: permutations, made-up names, sets that differ."""

from __future__ import annotations

import pytest
import torch

from compress.models.labels import align_labels, named_labels, reorder_head
from compress.models.loading import load_teacher
from edgebert.errors import ModelError
from tests.tiny import bert_config, write_classifier, write_tokenizer

IDS = torch.tensor([[2, 35, 40, 3]])


def test_the_permutation_puts_logits_in_the_order_of_the_data():
    model = {0: "entailment", 1: "neutral", 2: "contradiction"}
    permutation = align_labels(model, ("contradiction", "entailment", "neutral"))
    assert permutation == (2, 0, 1)


def test_upper_and_lower_case_are_the_same_name():
    assert align_labels({0: "NEGATIVE", 1: "POSITIVE"}, ("positive", "negative")) == (1, 0)


def test_names_that_differ_only_in_case_stay_apart():
    assert align_labels({0: "a", 1: "A"}, ("A", "a")) == (1, 0)
    with pytest.raises(ModelError, match="are not those of the data"):
        align_labels({0: "a", 1: "A"}, ("a", "b"))


def test_made_up_names_are_refused_with_the_remedy():
    with pytest.raises(ModelError, match="--teacher-labels negative,positive"):
        align_labels({0: "LABEL_0", 1: "LABEL_1"}, ("negative", "positive"))


def test_sets_that_differ_are_both_named():
    with pytest.raises(ModelError, match=r"\(yes, no\) are not those of the data \(a, b, c\)"):
        align_labels({0: "yes", 1: "no"}, ("a", "b", "c"))


def test_given_names_must_be_one_a_logit():
    assert named_labels({0: "LABEL_0", 1: "LABEL_1"}, ("b", "a")) == {0: "b", 1: "a"}
    with pytest.raises(ModelError, match=r"has 1 names \(a\).*2 logits"):
        named_labels({0: "LABEL_0", 1: "LABEL_1"}, ("a",))


def logits(model):
    with torch.no_grad():
        return model(input_ids=IDS).logits[0]


def test_a_loaded_teacher_has_its_logits_in_the_order_of_the_data(tmp_path):
    original = write_classifier(tmp_path, labels=("neutral", "good", "bad"))
    loaded = load_teacher(tmp_path, task="text-classification", labels=("bad", "good", "neutral"))
    torch.testing.assert_close(logits(loaded.model), logits(original)[[2, 1, 0]])
    assert loaded.model.config.id2label == {0: "bad", 1: "good", 2: "neutral"}
    assert loaded.has_head


def test_given_names_stand_for_those_that_are_made_up(tmp_path):
    original = write_classifier(tmp_path, labels=("LABEL_0", "LABEL_1"))
    loaded = load_teacher(
        tmp_path,
        task="text-classification",
        labels=("bad", "good"),
        teacher_labels=("good", "bad"),
    )
    torch.testing.assert_close(logits(loaded.model), logits(original)[[1, 0]])


@pytest.mark.parametrize("family", ["roberta", "electra", "distilbert", "albert"])
def test_the_last_layer_of_other_families_is_found_too(family):
    import transformers

    sizes = {"vocab_size": 90, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    if family == "distilbert":
        sizes = {"vocab_size": 90, "dim": 32, "n_layers": 1, "n_heads": 2}
    config = transformers.AutoConfig.for_model(family, **sizes, num_labels=3)
    model = transformers.AutoModelForSequenceClassification.from_config(config).eval()
    before = logits(model)
    reorder_head(model, (2, 0, 1))
    torch.testing.assert_close(logits(model), before[[2, 0, 1]])


def test_a_regression_head_does_not_pass_for_a_classifier(tmp_path):
    from transformers import BertForSequenceClassification

    write_tokenizer(tmp_path)
    BertForSequenceClassification(bert_config(num_labels=1)).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="LABEL_0"):
        load_teacher(tmp_path, task="text-classification", labels=("a", "b"))
