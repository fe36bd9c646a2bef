"""Copies of texts with other words: which words, how many, which in their place, what is kept."""

from __future__ import annotations

import json
import os
import signal
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import BertForMaskedLM

from compress.data.augment import (
    Word,
    exchange,
    exchangeable_words,
    in_case_of,
    is_word,
    pick,
    plan_copies,
)
from compress.data.task_data import make_split
from compress.distillation import augmented_rows
from compress.distillation.augmented_rows import RowCopies, read_copies, write_copies
from compress.distillation.word_candidates import WordCandidates, whole_words
from edgebert.errors import DataError, ModelError
from edgebert.text.tokenizer import Tokenizer
from tests.tiny import SPECIAL_IDS, VOCAB, WORDS, bert_config, write_tokenizer

torch.set_num_threads(1)
LETTERS = {chr(code) for code in range(ord("a"), ord("z") + 1)}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder)
    return Tokenizer(folder, special_ids=SPECIAL_IDS)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return BertForMaskedLM(bert_config(initializer_range=0.3)).eval()


def words_of(tokenizer, *texts, max_length=32):
    pairs = [texts[1]] if len(texts) > 1 else None
    encoding = tokenizer.encode([texts[0]], pairs, max_length=max_length)[0]
    return encoding, exchangeable_words(texts, encoding)


def test_a_word_has_a_letter_and_nothing_but_itself():
    assert [is_word(text) for text in ("film", "don't", "7", "!", "a film", "über", "")] == [
        True,
        False,  # the signs of punctuation are words of their own
        False,
        False,
        False,
        True,
        False,
    ]


def test_words_of_both_texts_are_found_with_their_tokens_but_no_sign_or_number(tokenizer):
    encoding, words = words_of(tokenizer, "good film , 7 !", "the xyz plot")
    spans = [("good film , 7 !", "the xyz plot")[w.text][w.start : w.end] for w in words]
    assert spans == ["good", "film", "the", "xyz", "plot"]
    pieces = [[VOCAB[encoding.input_ids[token]] for token in word.tokens] for word in words]
    assert pieces == [["good"], ["film"], ["the"], ["x", "##y", "##z"], ["plot"]]


def test_a_word_that_the_maximum_length_cuts_off_or_cuts_in_two_stays(tokenizer):
    _, words = words_of(tokenizer, "good film xyz plot", max_length=6)  # [CLS] and [SEP] among them
    assert [word.start for word in words] == [0, 5]


def test_a_copy_is_drawn_from_the_seed_and_its_row_alone():
    def plan(**changes):
        settings = {"words": 9, "copies": 3, "probability": 0.4, "seed": 1, "row": 5, **changes}
        return plan_copies(settings.pop("words"), **settings)

    assert plan() == plan()
    assert plan() != plan(seed=2)
    assert plan() != plan(row=6)


def test_the_share_of_exchanged_words_is_the_probability_and_never_none():
    plans = [
        copy
        for row in range(200)
        for copy in plan_copies(20, copies=5, probability=0.3, seed=0, row=row)
    ]
    share = sum(map(len, plans)) / (20 * len(plans))
    assert share == pytest.approx(0.3, abs=0.01)  # 20,000 draws: a deviation of 0.003
    rare = [plan_copies(4, copies=6, probability=1e-9, seed=0, row=row) for row in range(9)]
    assert {len(copy) for plan in rare for copy in plan} == {1}
    assert plan_copies(0, copies=3, probability=0.5, seed=0, row=0) == []


def test_a_pick_falls_on_every_candidate_alike():
    names = ["a", "b", "c"]
    assert [pick(names, where) for where in (0.0, 0.33, 0.34, 0.66, 0.67, 0.999999)] == list(
        "aabbcc"
    )


def test_words_are_exchanged_where_they_stand_and_keep_their_case():
    texts = ("Good film, GOOD plot!", "dull")
    words = [Word(0, 0, 4, (1,)), Word(0, 5, 9, (2,)), Word(0, 11, 15, (4,)), Word(1, 0, 4, (8,))]
    assert exchange(texts, words, {0: "splendid", 2: "bad", 3: "fun"}) == (
        "Splendid film, BAD plot!",
        "fun",
    )
    assert [in_case_of("I", "we"), in_case_of("a", "the"), in_case_of("x", "X")] == [
        "We",
        "the",
        "X",
    ]


def test_only_tokens_that_are_words_by_themselves_are_candidates(tokenizer):
    ids, texts = whole_words(tokenizer, len(VOCAB))
    assert set(texts) == {*WORDS, *LETTERS}  # no ##x, no [MASK], no sign, no digit
    assert [VOCAB[token] for token in ids] == texts


def test_a_vocabulary_without_words_is_refused(tmp_path):
    write_tokenizer(tmp_path, vocab=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b", "!"])
    with pytest.raises(ModelError, match=r"Of 8 tokens 1 are words by themselves"):
        whole_words(Tokenizer(tmp_path, special_ids=SPECIAL_IDS), 8)


def test_a_word_of_one_piece_gets_what_the_model_finds_likely_in_its_place(tokenizer, model):
    encoding, words = words_of(tokenizer, "the good film")
    found = WordCandidates(model, tokenizer, masked=True, top_k=3).propose(
        [(encoding, word.tokens) for word in words]
    )
    for word, candidates in zip(words, found, strict=True):
        ids = torch.from_numpy(encoding.input_ids).clone()
        place = word.tokens[0]
        ids[place] = SPECIAL_IDS["mask_token_id"]
        with torch.no_grad():
            logits = model(input_ids=ids[None]).logits[0, place]
        ranked = [VOCAB[token] for token in logits.argsort(descending=True).tolist()]
        own = VOCAB[encoding.input_ids[place]]
        allowed = [text for text in ranked if text in {*WORDS, *LETTERS} - {own}]
        assert candidates == allowed[:3]


def test_a_word_of_several_pieces_gets_the_neighbours_of_their_mean(tokenizer, model):
    encoding, (word,) = words_of(tokenizer, "fud")
    table = model.get_input_embeddings().weight
    f, u, d = (VOCAB.index(piece) for piece in ("f", "##u", "##d"))
    with torch.no_grad():  # the mean of f, ##u and ##d shall point where "fun" does, then "dull"
        table[f], table[u], table[d] = torch.eye(32)[:3]
        table[VOCAB.index("fun")] = torch.eye(32)[:3].sum(dim=0)
        table[VOCAB.index("dull")] = torch.eye(32)[:2].sum(dim=0) * 9  # length has no say
    candidates = WordCandidates(model, tokenizer, masked=True, top_k=2)
    assert candidates.propose([(encoding, word.tokens)]) == [["fun", "dull"]]


def test_without_a_masked_lm_a_word_of_one_piece_gets_neighbours_too_but_not_itself(
    tokenizer, model
):
    encoding, (word,) = words_of(tokenizer, "good")
    with torch.no_grad():
        table = model.get_input_embeddings().weight
        table[VOCAB.index("bad")] = 2 * table[VOCAB.index("good")]
    candidates = WordCandidates(model, tokenizer, masked=False, top_k=len(VOCAB))
    (found,) = candidates.propose([(encoding, word.tokens)])
    assert found[0] == "bad"
    assert sorted(found) == sorted({*WORDS, *LETTERS} - {"good"})


TEXTS = [f"the {WORDS[i % 4]} film {WORDS[i % 7]} xyz {i % 10}" for i in range(11)]


def copies_of(tokenizer, model, texts=TEXTS, *, pairs=None, **changes):
    train = make_split("train", "here", texts, text_pairs=pairs)
    settings = {"augment": 3, "augment_probability": 0.4, "seed": 1, "max_length": 32, **changes}
    candidates = WordCandidates(model, tokenizer, masked=True, top_k=5)
    return RowCopies(train, tokenizer, candidates, SimpleNamespace(**settings))


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(augmented_rows, "_CHUNK_ROWS", 4)


def rows_in(folder):
    lines = (folder / "rows.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_a_copy_has_as_many_words_as_its_row_some_of_them_others(tokenizer, model, tmp_path):
    write_copies(tmp_path / "a", copies_of(tokenizer, model), key="k")
    rows = rows_in(tmp_path / "a")
    assert {row["row"] for row in rows} == set(range(11))
    for row in rows:
        assert row["original"] == TEXTS[row["row"]]
        ours, theirs = row["text"].split(), row["original"].split()
        assert len(ours) == len(theirs)
        assert ours != theirs
        assert ours[-1] == theirs[-1]  # a number


def test_no_row_has_a_copy_twice(tokenizer, model, tmp_path):
    few = copies_of(tokenizer, model, ["good"], augment=50)  # five candidates
    write_copies(tmp_path / "a", few, key="k")
    assert (
        len({row["text"] for row in rows_in(tmp_path / "a")}) == len(rows_in(tmp_path / "a")) == 5
    )


def test_pairs_are_changed_in_both_texts_and_read_back_as_pairs(tokenizer, model, tmp_path):
    pairs = copies_of(tokenizer, model, TEXTS, pairs=TEXTS[::-1])
    write_copies(tmp_path / "a", pairs, key="k")
    split = read_copies(tmp_path / "a", source="here")
    rows = rows_in(tmp_path / "a")
    assert (split.texts, split.text_pairs) == (
        [row["text"] for row in rows],
        [row["text_pair"] for row in rows],
    )
    assert split.labels is None
    assert any(row["text"] != row["original"] for row in rows)
    assert any(row["text_pair"] != row["original_pair"] for row in rows)


def test_an_interrupted_run_goes_on_and_ends_in_the_same_bytes(
    tokenizer, model, tmp_path, monkeypatch
):
    copies = copies_of(tokenizer, model)
    write_copies(tmp_path / "whole", copies, key="k")
    update = augmented_rows.Progress.update
    monkeypatch.setattr(
        augmented_rows.Progress,
        "update",
        lambda _, done: done == 4 and os.kill(os.getpid(), signal.SIGINT),
    )
    with pytest.raises(KeyboardInterrupt, match="interrupted at row 4 of the augmented texts"):
        write_copies(tmp_path / "cut", copies, key="k")
    monkeypatch.setattr(augmented_rows.Progress, "update", update)
    with (tmp_path / "cut" / "rows.jsonl").open("a") as stream:
        stream.write('{"half a li')  # what a killed process leaves
    seen = []
    monkeypatch.setattr(
        RowCopies,
        "lines",
        lambda self, *rows, _lines=RowCopies.lines: seen.append(rows) or _lines(self, *rows),
    )
    write_copies(tmp_path / "cut", copies, key="k")
    assert seen == [(4, 8), (8, 11)]
    assert (tmp_path / "cut" / "rows.jsonl").read_bytes() == (
        tmp_path / "whole" / "rows.jsonl"
    ).read_bytes()


def test_another_key_starts_anew(tokenizer, model, tmp_path):
    write_copies(tmp_path / "a", copies_of(tokenizer, model), key="k")
    write_copies(tmp_path / "a", copies_of(tokenizer, model, ["good film"]), key="other")
    assert {row["original"] for row in rows_in(tmp_path / "a")} == {"good film"}


def test_texts_without_a_word_to_exchange_are_an_error(tokenizer, model, tmp_path):
    write_copies(tmp_path / "a", copies_of(tokenizer, model, ["7 !", "1 2"]), key="k")
    with pytest.raises(DataError, match="found no word that it could exchange"):
        read_copies(tmp_path / "a", source="here")


def test_a_row_has_the_copies_that_it_has_among_others_alone(tokenizer, model, tmp_path):
    write_copies(tmp_path / "a", copies_of(tokenizer, model), key="k")
    write_copies(tmp_path / "b", copies_of(tokenizer, model, TEXTS[:2]), key="k")
    some = [row for row in rows_in(tmp_path / "a") if row["row"] < 2]
    assert some == rows_in(tmp_path / "b")


def test_batches_of_few_logits_propose_the_same(tokenizer, model, monkeypatch):
    from compress.distillation import word_candidates

    encoding, words = words_of(tokenizer, "the good film")
    wanted = [(encoding, word.tokens) for word in words]
    whole = WordCandidates(model, tokenizer, masked=True, top_k=3).propose(wanted)
    monkeypatch.setattr(word_candidates, "_MOST_LOGITS", 1)
    alone = WordCandidates(model, tokenizer, masked=True, top_k=3).propose(wanted)
    assert whole == alone
    assert np.unique([len(one) for one in whole]).tolist() == [3]
