"""A checkpoint for a task: whether its head is there or is another task's, and its labels."""

from __future__ import annotations

import pytest
import torch
import transformers

from compress.models.capture import Wanted, forward_features
from compress.models.loading import load_teacher
from compress.models.pretrained import MODEL_CLASSES, task_config
from edgebert.errors import InputError, ModelError
from tests.tiny import bert_config, write_classifier, write_encoder, write_tokenizer

IDS = torch.tensor([[2, 35, 40, 3]])
HEADED = [task for task in MODEL_CLASSES if task != "feature-extraction"]
TAGS = {0: "O", 1: "I-X", 2: "B-X"}


def write_model(directory, task, **changes):
    torch.manual_seed(0)
    write_tokenizer(directory)
    maker = getattr(transformers, f"Bert{MODEL_CLASSES[task].removeprefix('Model')}")
    changes = {"num_labels": 1} | changes if task == "regression" else changes
    model = maker(bert_config(**changes)).eval()
    model.save_pretrained(directory)
    return model


def names(task):
    return {"labels": ("LABEL_0", "LABEL_1")} if task.endswith("-classification") else {}


@pytest.mark.parametrize("task", HEADED)
def test_a_head_of_the_task_is_found_and_kept(tmp_path, task):
    model = write_model(tmp_path, task)
    loaded = load_teacher(tmp_path, task=task, **names(task))
    assert loaded.has_head
    assert type(loaded.model) is type(model)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, loaded.model.get_parameter(name)), name


@pytest.mark.parametrize("task", HEADED)
def test_an_encoder_has_no_head_and_gets_one_with_the_tasks_logits(tmp_path, task):
    write_encoder(tmp_path)
    loaded = load_teacher(tmp_path, task=task, **names(task))
    assert not loaded.has_head
    batch = {"input_ids": IDS, "attention_mask": torch.ones_like(IDS)}
    logits = forward_features(loaded.model, batch, Wanted()).logits
    vocabulary = loaded.model.config.vocab_size
    width = {"regression": 1, "multiple-choice": 1, "fill-mask": vocabulary}.get(task, 2)
    assert logits.shape[-1] == width


@pytest.mark.parametrize("task", ["token-classification", "multiple-choice", "question-answering"])
def test_the_head_of_another_task_is_no_head_of_this_one(tmp_path, task):
    write_classifier(tmp_path, labels=("LABEL_0", "LABEL_1"))
    assert not load_teacher(tmp_path, task=task, **names(task)).has_head


def test_a_classifiers_many_labels_do_not_widen_a_head_for_answers(tmp_path):
    write_classifier(tmp_path, labels=("a", "b", "c", "d", "e"))
    model = load_teacher(tmp_path, task="question-answering").model
    assert model(input_ids=IDS).start_logits.shape == (1, 4)
    assert task_config(tmp_path, "question-answering").num_labels == 2


def test_a_classifier_is_no_regression(tmp_path):
    write_classifier(tmp_path, labels=("a", "b", "c"))
    with pytest.raises(ModelError, match="more than one logit, so it is no regression"):
        load_teacher(tmp_path, task="regression")


def test_a_regression_says_so_in_its_configuration(tmp_path):
    write_encoder(tmp_path)
    config = load_teacher(tmp_path, task="regression").model.config
    assert (config.num_labels, config.problem_type) == (1, "regression")


def test_tags_get_the_order_of_the_datas_by_name(tmp_path):
    model = write_model(tmp_path, "token-classification", id2label=TAGS, label2id={})
    loaded = load_teacher(tmp_path, task="token-classification", labels=("B-X", "I-X", "O"))
    with torch.no_grad():
        found, before = (m(input_ids=IDS).logits for m in (loaded.model, model))
    torch.testing.assert_close(found, before[..., [2, 1, 0]])
    assert loaded.model.config.id2label == {0: "B-X", 1: "I-X", 2: "O"}


def test_tags_that_are_not_those_of_the_data_are_refused(tmp_path):
    write_model(tmp_path, "token-classification", id2label=TAGS, label2id={})
    with pytest.raises(ModelError, match="are not those of the data"):
        load_teacher(tmp_path, task="token-classification", labels=("B-Y", "I-Y", "O"))


def test_an_unknown_task_is_refused_with_those_there_are(tmp_path):
    with pytest.raises(InputError, match="multiple-choice"):
        load_teacher(tmp_path, task="translation")


def test_mobileberts_texts_do_not_see_padding(tmp_path):
    torch.manual_seed(0)
    write_tokenizer(tmp_path)
    sizes = {"embedding_size": 16, "intra_bottleneck_size": 16, "intermediate_size": 16}
    shared = bert_config().to_dict() | sizes | {"initializer_range": 0.2}
    names = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", *sizes)
    config = transformers.MobileBertConfig(**{name: shared[name] for name in names})
    model = transformers.MobileBertModel(config)
    model.get_input_embeddings().weight.data[0] = 1.0  # as in a checkpoint of another framework
    model.save_pretrained(tmp_path)
    loaded = load_teacher(tmp_path, task="feature-extraction").model
    mask = torch.ones_like(IDS)
    padded = torch.nn.functional.pad(IDS, (0, 3)), torch.nn.functional.pad(mask, (0, 3))
    alone = loaded(input_ids=IDS, attention_mask=mask).last_hidden_state
    beside = loaded(input_ids=padded[0], attention_mask=padded[1]).last_hidden_state
    torch.testing.assert_close(beside[:, :4], alone)
