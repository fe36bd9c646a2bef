"""Items of every task as batches: what stays together, what is true, and losses of the two."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers

from compress.data.load import make_split
from compress.data.tagged import word_spans
from compress.data.task_data import TaskData
from compress.models.capture import Wanted, forward_features
from compress.models.pretrained import MODEL_CLASSES
from compress.models.task_head import TaskHead
from compress.training.finetune import encode_data
from compress.training.target_terms import hard_term, soft_term
from compress.training.terms import VectorHeads, pair_term
from compress.training.training_rows import Masking
from edgebert.text.tokenizer import Tokenizer
from tests.tiny import SPECIAL_IDS, VOCAB, bert_config, write_tokenizer

torch.set_num_threads(1)

TEXTS = ["good film", "the plot is dull", "bad", "hello very fun world"]
LONG = "the plot is not very fun but the film is good and the world is bad"
HEADS = {
    "text-classification": {"labels": ("a", "b")},
    "regression": {},
    "token-classification": {"labels": ("B-X", "O")},
    "question-answering": {},
    "multiple-choice": {},
    "fill-mask": {},
}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder)
    return Tokenizer(folder, special_ids=SPECIAL_IDS)


def split_of(task):
    texts, pairs, labels, more = TEXTS, None, None, {}
    if task == "text-classification":
        labels = ["a", "b", "b", "a"]
    elif task == "regression":
        labels = [0.5, 3.0, 1.0, -1.0]
    elif task == "token-classification":
        labels = [tuple("O" if len(word) > 3 else "B-X" for word in x.split()) for x in texts]
        more["word_spans"] = [word_spans(text.split()) for text in texts]
    elif task == "question-answering":
        pairs = ["the good film", LONG, "bad plot", "fun"]
        labels = [(("good", 4),), (("world", pairs[1].index("world")),), (), (("fun", 0),)]
    elif task == "multiple-choice":
        more["choices"] = [("good", "a bad plot"), ("x", "y", "z"), ("fun", "no"), ("hello", "a b")]
        labels = [0, 2, 1, 0]
    return make_split("train", "here", texts, text_pairs=pairs, labels=labels, **more)


def rows_of(tokenizer, task, *, max_length=16):
    train = split_of(task)
    head = TaskHead(task=task, **HEADS[task])
    data = TaskData(train, train, None, head.labels, None)
    masking = None
    if task == "fill-mask":
        masking = Masking(SPECIAL_IDS["mask_token_id"], tuple(SPECIAL_IDS.values()), len(VOCAB))
    return encode_data(tokenizer, data, head, max_length=max_length, masking=masking).train


def model_of(task, *, seed):
    torch.manual_seed(seed)
    labels = 1 if task == "regression" else 2
    config = bert_config(num_labels=labels, initializer_range=0.3)
    maker = getattr(transformers, f"Bert{MODEL_CLASSES[task].removeprefix('Model')}")
    return maker(config).eval()


def losses(task, rows, items, student, teacher):
    torch.manual_seed(0)
    batch = rows.batch(np.asarray(items))
    with torch.no_grad():
        ours, theirs = (forward_features(m, batch, Wanted()) for m in (student, teacher))
    terms = (soft_term(task, 2.0, weight=1.0), hard_term(task, None))
    return torch.stack([term.loss(ours, theirs, batch) for term in terms])


@pytest.mark.parametrize("task", [task for task in HEADS if task != "fill-mask"])
def test_the_loss_of_a_batch_is_the_mean_of_its_items_losses(tokenizer, task):
    rows = rows_of(tokenizer, task)
    student, teacher = model_of(task, seed=0), model_of(task, seed=1)
    items = range(len(rows.lengths))
    assert len(items) >= 4
    together = losses(task, rows, items, student, teacher)
    alone = torch.stack([losses(task, rows, [item], student, teacher) for item in items])
    torch.testing.assert_close(together, alone.mean(dim=0), atol=1e-5, rtol=1e-4)
    assert together.min() > 1e-4


def test_hidden_tokens_are_the_labels_of_fill_mask(tokenizer):
    rows = rows_of(tokenizer, "fill-mask")
    batch, plain = rows.batch(np.arange(4)), rows_of(tokenizer, "text-classification")
    hidden = batch["labels"] != -100
    assert hidden.any(dim=1).all()
    original = plain.batch(np.arange(4))["input_ids"]
    assert torch.equal(batch["labels"][hidden], original[hidden])
    found = losses(
        "fill-mask", rows, range(4), model_of("fill-mask", seed=0), model_of("fill-mask", seed=1)
    )
    assert found.isfinite().all()


def test_a_question_comes_with_all_its_choices_and_is_as_long_as_the_longest(tokenizer):
    rows = rows_of(tokenizer, "multiple-choice")
    assert rows.rows_of(np.array([3, 1])).tolist() == [7, 8, 2, 3, 4]
    batch = rows.batch(np.array([3, 1]))
    assert batch["questions"].tolist() == [0, 0, 1, 1, 1]
    assert batch["labels"].tolist() == [0, 2]
    lengths = rows.rows.encoded.lengths
    assert rows.lengths.tolist() == [
        lengths[:2].max(),
        lengths[2:5].max(),
        lengths[5:7].max(),
        lengths[7:].max(),
    ]


def test_batches_are_of_questions_and_give_each_once(tokenizer):
    order = rows_of(tokenizer, "multiple-choice").batches(batch_size=3, seed=0).epoch(0)
    assert sorted(np.concatenate(order).tolist()) == [0, 1, 2, 3]
    assert [len(part) for part in sorted(order, key=len)] == [1, 3]


def test_windows_without_the_answer_point_at_the_first_token(tokenizer):
    rows = rows_of(tokenizer, "question-answering", max_length=12)
    owners = rows.rows.owners
    windows = np.flatnonzero(owners == 1)
    assert len(windows) > 2
    batch = rows.batch(windows)
    places = batch["labels"].tolist()
    assert [0, 0] in places
    world = VOCAB.index("world")
    for (first, last), ids in zip(places, batch["input_ids"], strict=True):
        if first:
            assert ids[first : last + 1].tolist() == [world]
    assert any(first for first, _ in places)
    assert rows.batch(np.flatnonzero(owners == 2))["labels"].tolist() == [[0, 0]]


def scored(tokenizer, scores):
    train = make_split("train", "here", TEXTS, text_pairs=TEXTS[::-1], labels=scores)
    head = TaskHead(task="feature-extraction", pooling="mean", normalize=True)
    return encode_data(tokenizer, TaskData(train, train, None, (), None), head, max_length=16).train


def test_scored_pairs_are_items_and_their_scores_are_brought_to_a_cosines_scale(tokenizer):
    rows = scored(tokenizer, [0.0, 5.0, 2.5, 1.0])
    batch = rows.batch(np.array([2, 1]))
    assert batch["rows"].tolist() == [4, 5, 2, 3]
    assert batch["labels"].tolist() == [0.5, 1.0]
    assert scored(tokenizer, [0.0, 0.5, 1.0, 0.9]).batch(np.array([1]))["labels"].item() == 0.5


def test_a_pairs_loss_compares_its_own_cosine(tokenizer):
    rows, torch_model = (
        scored(tokenizer, [0.0, 5.0, 2.5, 1.0]),
        model_of("text-classification", seed=0),
    )
    term = pair_term(VectorHeads(pooling="mean"))
    found = []
    for items in ([0, 1, 2, 3], [0], [1], [2], [3]):
        batch = rows.batch(np.array(items))
        with torch.no_grad():
            features = forward_features(torch_model, batch, term.student_wanted)
        found.append(term.loss(features, features, batch).item())
    assert found[0] == pytest.approx(np.mean(found[1:]), rel=1e-4)
