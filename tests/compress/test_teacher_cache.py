from __future__ import annotations

import logging
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from compress.data.encoding import EncodedTexts, collate
from compress.distillation import teacher_cache
from compress.distillation.teacher_cache import TeacherCache
from compress.models.capture import Features, Wanted, forward_features
from edgebert.errors import EdgeBertError, InputError, ModelError
from tests.tiny import VOCAB, bert_config, write_classifier

EVERYTHING = Wanted(hidden_states=(0, 2), relations=(1,), pooled="mean")


@pytest.fixture(scope="module")
def teacher(tmp_path_factory) -> Any:
    return write_classifier(tmp_path_factory.mktemp("teacher"), labels=("a", "b", "c"))


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(teacher_cache, "_CHUNK_ROWS", 8)


def texts(rows: int = 21, *, seed: int = 0) -> EncodedTexts:
    random = np.random.default_rng(seed)
    ids = [random.integers(5, len(VOCAB), random.integers(3, 12), np.int32) for _ in range(rows)]
    return EncodedTexts(ids, [np.zeros_like(row) for row in ids], sha256=f"{rows} {seed}")


def prepared(
    directory: Path, teacher: Any, wanted: Wanted = EVERYTHING, **changes: Any
) -> TeacherCache:
    settings = {"key": "k", "limit_bytes": 10**7, "encoded": texts(), "live": False, **changes}
    cache = TeacherCache(
        directory / "cache",
        key=settings["key"],
        limit_bytes=settings["limit_bytes"],
        shared=settings.get("shared"),
    )
    cache.prepare(
        teacher, settings["encoded"], wanted, pad_id=0, batch_size=4, live=settings["live"]
    )
    return cache


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note the number of rows of every forward pass of the teacher."""
    seen: list[int] = []

    def forward(model: Any, batch: Any, wanted: Wanted) -> Features:
        seen.append(len(batch["input_ids"]))
        return forward_features(model, batch, wanted)

    monkeypatch.setattr(teacher_cache, "forward_features", forward)
    return seen


def test_kept_outputs_are_those_of_the_teacher(tmp_path, teacher):
    rows = np.array([13, 2, 20])
    batch = collate(texts(), rows, pad_id=0)
    found = prepared(tmp_path, teacher).features(rows, batch)
    with torch.no_grad():
        real = forward_features(teacher, batch, EVERYTHING)
    mask = batch["attention_mask"][:, :, None]
    torch.testing.assert_close(found.logits, real.logits, atol=1e-5, rtol=0)
    torch.testing.assert_close(found.pooled, real.pooled, atol=1e-5, rtol=0)
    for kind in ("hidden", "query", "key", "value"):
        kept, expected = getattr(found, kind), getattr(real, kind)
        assert kept.keys() == expected.keys()
        for layer in kept:  # float16 has 11 bits
            torch.testing.assert_close(kept[layer], expected[layer] * mask, atol=1e-3, rtol=1e-3)
            assert kept[layer].dtype == torch.float32
    assert found.num_heads == 4


@pytest.mark.parametrize("live", [False, True])
def test_the_second_text_of_a_pair_stays_the_second_to_the_teacher(tmp_path, live):
    """Whatever the student takes: with segments of zeros the logits are others."""
    torch.manual_seed(0)
    config = bert_config(initializer_range=0.3)
    teacher = transformers.BertForSequenceClassification(config).eval()
    pairs = texts()
    pairs.token_type_ids[:] = [np.arange(len(row)) // 2 % 2 for row in pairs.input_ids]
    rows = np.array([13, 2, 20])
    batch = collate(pairs, rows, pad_id=0)
    found = prepared(tmp_path, teacher, Wanted(), encoded=pairs, live=live).features(rows, batch)
    names = ("input_ids", "attention_mask", "token_type_ids")
    given = {name: batch[name] for name in names}
    with torch.no_grad():
        own = teacher(**given).logits
        blind = teacher(**given | {"token_type_ids": torch.zeros_like(batch["input_ids"])}).logits
    torch.testing.assert_close(found.logits, own, atol=1e-5, rtol=0)
    assert (own - blind).abs().max() > 0.1


def test_padding_is_zero(tmp_path, teacher):
    rows = np.arange(6)
    batch = collate(texts(), rows, pad_id=0)
    hidden = prepared(tmp_path, teacher).features(rows, batch).hidden[2]
    assert not hidden[batch["attention_mask"] == 0].any()


def test_a_second_run_computes_nothing_but_the_probe(tmp_path, teacher, monkeypatch):
    prepared(tmp_path, teacher)
    seen = counted(monkeypatch)
    prepared(tmp_path, teacher)
    assert seen == [1]


@pytest.mark.parametrize(
    "change", [{"key": "other"}, {"encoded": texts(seed=1)}, {"wanted": Wanted(hidden_states=(1,))}]
)
def test_another_teacher_text_or_want_starts_anew(tmp_path, teacher, monkeypatch, change):
    prepared(tmp_path, teacher)
    seen = counted(monkeypatch)
    prepared(tmp_path, teacher, **change)
    assert sum(seen) == 1 + 21


def test_an_interrupted_run_goes_on_after_its_last_whole_chunk(tmp_path, teacher, monkeypatch):
    seen = counted(monkeypatch)
    progress = SimpleNamespace(
        update=lambda done: done == 8 and os.kill(os.getpid(), signal.SIGINT)
    )
    monkeypatch.setattr(
        teacher_cache.Progress,
        "update",
        lambda _, done: progress.update(done),
    )
    with pytest.raises(KeyboardInterrupt, match="interrupted at row 8 of the teacher outputs"):
        prepared(tmp_path, teacher)
    seen.clear()
    prepared(tmp_path, teacher)
    assert sum(seen) == 1 + 13


def test_beyond_the_limit_the_teacher_runs_live_and_that_is_said(tmp_path, teacher, caplog):
    rows = np.array([3, 1])
    batch = collate(texts(), rows, pad_id=0)
    with caplog.at_level(logging.INFO):
        cache = prepared(tmp_path, teacher, limit_bytes=1000)
    assert cache.live
    assert "allowed, so the teacher runs in every step" in caplog.text
    with torch.no_grad():
        expected = forward_features(teacher, batch, EVERYTHING)
    found = cache.features(rows, batch)
    assert torch.equal(found.logits, expected.logits)
    assert torch.equal(found.hidden[2], expected.hidden[2])
    assert not found.logits.requires_grad


def test_the_size_counts_two_bytes_a_hidden_number_and_four_a_logit(tmp_path, teacher):
    wanted, tokens = Wanted(hidden_states=(1,)), int(texts().lengths.sum())
    size = 21 * 3 * 4 + tokens * 32 * 2
    assert not prepared(tmp_path, teacher, wanted, limit_bytes=size).live
    assert sum(path.stat().st_size for path in (tmp_path / "cache").glob("*.bin")) == size
    assert prepared(tmp_path / "b", teacher, wanted, limit_bytes=size - 1).live


def test_live_can_be_asked_for(tmp_path, teacher):
    assert prepared(tmp_path, teacher, live=True).live
    assert not (tmp_path / "cache").exists()


def test_large_hidden_states_are_kept_in_float32(tmp_path, teacher):
    wanted = Wanted(hidden_states=(0,), logits=False)
    weight = teacher.bert.embeddings.LayerNorm.weight
    with torch.no_grad():
        weight.mul_(1e5)
    try:
        cache = prepared(tmp_path, teacher, wanted)
    finally:
        with torch.no_grad():
            weight.div_(1e5)
    rows = np.array([0])
    hidden = cache.features(rows, collate(texts(), rows, pad_id=0)).hidden[0]
    assert hidden.abs().max() > 65504
    assert torch.isfinite(hidden).all()


def test_a_teacher_that_gives_nan_is_refused(tmp_path, teacher, monkeypatch):
    def forward(*arguments: Any) -> Features:
        features = forward_features(*arguments)
        features.logits[0, 0] = float("nan")
        return features

    monkeypatch.setattr(teacher_cache, "forward_features", forward)
    with pytest.raises(ModelError, match="NaN, infinity or too large numbers in logits"):
        prepared(tmp_path, teacher)


def test_a_disk_without_room_is_an_error_before_the_work(tmp_path, teacher, monkeypatch):
    monkeypatch.setattr(
        teacher_cache.shutil,
        "disk_usage",
        lambda _: SimpleNamespace(free=100),
    )
    seen = counted(monkeypatch)
    with pytest.raises(EdgeBertError, match=r"which has 0\.0 GB free; make room there"):
        prepared(tmp_path, teacher)
    assert seen == [1]


def test_a_student_with_other_tokens_is_refused(tmp_path, teacher):
    rows = np.array([0, 1])
    other = collate(texts(seed=3), rows, pad_id=0)
    with pytest.raises(InputError, match="other tokens; use a method of logits"):
        prepared(tmp_path, teacher).features(rows, other)


def test_logits_and_pooled_vectors_need_no_common_tokens(tmp_path, teacher):
    rows = np.array([0, 1])
    other = collate(texts(seed=3), rows, pad_id=0)
    found = prepared(tmp_path, teacher, Wanted(pooled="cls")).features(rows, other)
    assert found.logits.shape == (2, 3)
    assert found.pooled.shape == (2, 32)


@pytest.mark.parametrize("maker", ["TokenClassification", "QuestionAnswering"])
def test_logits_of_tokens_are_kept_exactly_and_padded_with_zeros(tmp_path, maker):
    torch.manual_seed(0)
    model = getattr(transformers, f"BertFor{maker}")(bert_config(initializer_range=0.3)).eval()
    cache, rows = prepared(tmp_path, model, Wanted()), np.array([13, 2, 20])
    assert not cache.live
    batch = collate(texts(), rows, pad_id=0)
    found = cache.features(rows, batch).logits
    with torch.no_grad():
        real = forward_features(model, batch, Wanted()).logits
    mask = batch["attention_mask"][:, :, None]
    torch.testing.assert_close(found, real * mask, atol=1e-5, rtol=0)
    size = int(texts().lengths.sum()) * 2 * 4
    assert (tmp_path / "cache" / "logits.bin").stat().st_size == size


def test_logits_of_tokens_need_the_teachers_tokens(tmp_path):
    model = transformers.BertForTokenClassification(bert_config()).eval()
    rows = np.array([0, 1])
    with pytest.raises(InputError, match="other tokens"):
        prepared(tmp_path, model, Wanted()).features(rows, collate(texts(seed=3), rows, pad_id=0))


def test_a_choice_is_kept_as_a_row_of_its_own(tmp_path):
    torch.manual_seed(0)
    model = transformers.BertForMultipleChoice(bert_config(initializer_range=0.3)).eval()
    rows = np.array([4, 5, 6])
    batch = collate(texts(), rows, pad_id=0)
    found = prepared(tmp_path, model, Wanted()).features(rows, batch).logits
    names = ("input_ids", "attention_mask", "token_type_ids")
    with torch.no_grad():
        question = model(**{name: batch[name][None] for name in names}).logits  # of three choices
    torch.testing.assert_close(found, question.T, atol=1e-5, rtol=0)


def test_a_shared_cache_is_found_by_another_run_and_another_teacher_has_its_own(
    tmp_path, teacher, monkeypatch
):
    seen, shared = counted(monkeypatch), tmp_path / "shared"
    rows = np.array([13, 2, 20])
    batch = collate(texts(), rows, pad_id=0)
    first = prepared(tmp_path / "one", teacher, shared=shared).features(rows, batch)
    assert sum(seen) == 1 + 21  # a text to learn the sizes, then all
    assert list((tmp_path / "one" / "cache").iterdir()) == []
    seen.clear()
    second = prepared(tmp_path / "two", teacher, shared=shared).features(rows, batch)
    assert sum(seen) == 1
    assert not (tmp_path / "two" / "cache").exists()
    assert torch.equal(first.pooled, second.pooled)
    assert torch.equal(first.hidden[2], second.hidden[2])
    prepared(tmp_path / "two", teacher, shared=shared, key="other")
    assert len(list(shared.iterdir())) == 2


def test_a_run_that_ends_while_it_shares_loses_and_leaves_nothing(tmp_path, teacher, monkeypatch):
    shared = tmp_path / "shared"

    def full(*_: object) -> None:
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(teacher_cache.shutil, "move", full)
        with pytest.raises(OSError, match="No space"):
            prepared(tmp_path, teacher, shared=shared)
    assert list(shared.iterdir()) == []
    seen = counted(monkeypatch)
    prepared(tmp_path, teacher, shared=shared)
    assert sum(seen) == 1  # all rows were kept in the run's own folder
