"""`Runtime.fill_mask`, and masks in a text as the model's own tokenizer reads them."""

import json

import numpy as np
import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from edgebert.errors import BundleError, DamagedBundleError, InputError
from edgebert.text.tokenizer import Tokenizer
from tests.edgebert.bundles import TABLE, hidden_by_hand
from tests.tiny import SPECIAL_IDS, VOCAB, write_tokenizer

MASK = SPECIAL_IDS["mask_token_id"]


def best_by_hand(ids, place):
    """Order the vocabulary by its logit at a place, with its probabilities."""
    logits = hidden_by_hand(ids)[place] @ TABLE.T
    weights = np.exp(logits - logits.max())
    return np.argsort(-logits, kind="stable"), weights / weights.sum()


def ids_of(*words):
    return [VOCAB.index(word) for word in words]


def test_a_mask_gets_the_tokens_of_the_largest_logits(runtime_of):
    (masks,) = runtime_of("fill-mask").fill_mask(["the [MASK] film"])
    (mask,) = masks
    order, probabilities = best_by_hand(ids_of("[CLS]", "the", "[MASK]", "film", "[SEP]"), 2)
    assert [one.token_id for one in mask] == order[:5].tolist()
    assert [one.score for one in mask] == pytest.approx(probabilities[order[:5]], rel=1e-4)
    assert [one.token for one in mask] == [VOCAB[i].removeprefix("##") for i in order[:5]]


def test_each_mask_of_a_text_has_a_list_of_its_own_in_order(runtime_of):
    runtime = runtime_of("fill-mask")
    one, two = runtime.fill_mask(["[MASK]", "[MASK] good [MASK]!"], top_k=3)
    assert [len(one), len(two)] == [1, 2]
    ids = ids_of("[CLS]", "[MASK]", "good", "[MASK]", "!", "[SEP]")
    for mask, place in zip(two, (1, 3), strict=True):
        assert [f.token_id for f in mask] == best_by_hand(ids, place)[0][:3].tolist()


def test_a_text_without_a_mask_is_an_error_with_its_index_and_the_mask(runtime_of):
    with pytest.raises(InputError, match=r"texts\[1\] has no mask .*write '\[MASK\]'"):
        runtime_of("fill-mask").fill_mask(["[MASK]", "good"])


def test_a_mask_that_the_tokenizer_takes_for_text_is_refused_by_place(
    runtime_of, monkeypatch, tmp_path
):
    path = tmp_path / "tokenizer.json"
    write_tokenizer(tmp_path)
    settings = json.loads(path.read_text())
    for token in settings["added_tokens"]:
        token["single_word"] = True  # so that it is none at the end of a word
    path.write_text(json.dumps(settings))
    runtime = runtime_of("fill-mask")
    monkeypatch.setattr(runtime, "_tokenizer", Tokenizer(tmp_path, special_ids=SPECIAL_IDS))
    with pytest.raises(InputError, match=r"1 masks of texts\[1\] are no mask to the tokenizer"):
        runtime.fill_mask(["[MASK] film", "good[MASK]"])


def test_more_tokens_than_there_are_give_all(runtime_of):
    (masks,) = runtime_of("fill-mask").fill_mask(["[MASK]"], top_k=10_000)
    assert len(masks[0]) == len(VOCAB)
    assert sum(one.score for one in masks[0]) == pytest.approx(1.0, abs=1e-4)
    with pytest.raises(InputError, match="top_k is 0"):
        runtime_of("fill-mask").fill_mask(["[MASK]"], top_k=0)


def with_gaps(directory):
    """Take away the tokens with two ids in the midst, as a trimmed vocabulary may lack some."""
    write_tokenizer(directory)
    path = directory / "tokenizer.json"
    settings = json.loads(path.read_text())
    for word in ("film", "very"):
        del settings["model"]["vocab"][word]
    path.write_text(json.dumps(settings))


def test_every_token_may_fill_a_mask_and_no_id_without_a_token(runtime_of):
    ((mask,),) = runtime_of("fill-mask", tokenizer=with_gaps).fill_mask(["[MASK]"], top_k=10_000)
    assert {one.token_id for one in mask} == set(range(len(VOCAB))) - set(ids_of("film", "very"))
    assert all(one.token for one in mask)


def test_logits_for_no_token_at_all_are_refused(runtime_of, monkeypatch):
    runtime = runtime_of("fill-mask")
    monkeypatch.setattr(runtime._tokenizer, "ids", np.array([len(VOCAB)]))
    with pytest.raises(BundleError, match=f"gives {len(VOCAB)} logits a token"):
        runtime.fill_mask(["[MASK]"])


def test_masks_come_back_in_the_order_of_the_texts(runtime_of):
    runtime = runtime_of("fill-mask")
    texts = [
        " ".join(["good", "[MASK]", "film"][i % 3] for i in range(2 + n % 23)) for n in range(40)
    ]
    alone = [runtime.fill_mask([text], top_k=2)[0] for text in texts]
    together = runtime.fill_mask(texts, top_k=2)
    assert [[f[0].token_id for f in one] for one in together] == [
        [f[0].token_id for f in one] for one in alone
    ]
    assert runtime.fill_mask([]) == []


def test_other_special_tokens_in_a_text_are_plain_text(runtime_of):
    runtime = runtime_of("fill-mask")
    (encoding,) = runtime._tokenizer.encode(["[SEP] [MASK]"], max_length=None, masks=True)
    assert encoding.input_ids.tolist().count(SPECIAL_IDS["sep_token_id"]) == 1
    assert encoding.input_ids.tolist().count(MASK) == 1


def test_a_batch_for_a_model_that_fills_masks_has_them(runtime_of):
    batch = runtime_of("fill-mask").tokenize(["the [MASK] film"])
    assert batch.input_ids.tolist() == [ids_of("[CLS]", "the", "[MASK]", "film", "[SEP]")]


def test_a_mask_is_plain_text_to_every_other_task(runtime_of):
    batch = runtime_of("feature-extraction").tokenize(["[MASK]"])
    assert MASK not in batch.input_ids


def test_a_bundle_without_a_mask_id_says_so(tmp_path):
    write_tokenizer(tmp_path)
    tokenizer = Tokenizer(tmp_path, special_ids={"pad_token_id": 0})
    with pytest.raises(DamagedBundleError, match="no token with the mask_token_id None"):
        tokenizer.encode(["[MASK]"], max_length=None, masks=True)


def word_piece():
    made = tokenizers.Tokenizer(
        models.WordPiece({w: i for i, w in enumerate(VOCAB)}, unk_token="[UNK]")
    )
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    return _finish(made, "[MASK]", lstrip=False, names=("[CLS]", "[SEP]", "[PAD]"))


def byte_pairs():
    """As RoBERTa: the mask swallows the space before it."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("Ġ", "g"), ("o", "o")]
    vocabulary = [*letters, "Ġg", "oo"]
    made = tokenizers.Tokenizer(models.BPE({w: i for i, w in enumerate(vocabulary)}, merges))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return _finish(made, "<mask>", lstrip=True, names=("<s>", "</s>", "<pad>"))


def unigram():
    """As XLM-RoBERTa: a space is a letter of the word behind it."""
    pieces = [("<unk>", 0.0), ("▁", -2.0), *((c, -3.0) for c in "abcdefghijklmnopqrstuvwxyz.!")]
    made = tokenizers.Tokenizer(models.Unigram([*pieces, ("▁good", -1.0)], unk_id=0))
    made.normalizer = normalizers.NFKC()
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    return _finish(made, "<mask>", lstrip=True, names=("<s>", "</s>", "<pad>"))


def _finish(made, mask, *, lstrip, names):
    made.add_special_tokens([*names, tokenizers.AddedToken(mask, lstrip=lstrip)])
    first, last, _ = names
    made.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}",
        pair=f"{first} $A {last} $B {last}",
        special_tokens=[(name, made.token_to_id(name)) for name in (first, last)],
    )
    return made, mask, names[2]


@pytest.mark.parametrize("make", [word_piece, byte_pairs, unigram])
@pytest.mark.parametrize(
    "text",
    [
        "the {} film",
        "{}",
        "{}{}",
        "a{}b",
        "good{} good  {}  . {}",
        "Good film{}!",
        " {} ",
        "good\n{}\tgood",
    ],
)
def test_a_mask_in_a_text_gives_the_ids_of_the_training_tokenizer(tmp_path, make, text):
    # a tokenizer of transformers finds its special tokens in a text, as this library does by itself
    library, mask, padding = make()
    library.save(str(tmp_path / "tokenizer.json"))
    special_ids = {
        "pad_token_id": library.token_to_id(padding),
        "mask_token_id": library.token_to_id(mask),
    }
    ours = Tokenizer(tmp_path, special_ids=special_ids)
    written = text.replace("{}", mask)
    (found,) = ours.encode([written], max_length=None, masks=True)
    expected = library.encode(written)
    assert found.input_ids.tolist() == expected.ids
    assert found.offsets == expected.offsets
    assert found.input_ids.tolist().count(special_ids["mask_token_id"]) == text.count("{}")


@pytest.mark.parametrize(
    ("make", "token", "text"),
    [
        (word_piece, "##a", "a"),
        (word_piece, "good", "good"),
        (byte_pairs, "Ġg", "g"),
        (unigram, "▁good", "good"),
    ],
)
def test_a_token_is_shown_as_it_would_stand_in_a_text(tmp_path, make, token, text):
    library, _, padding = make()
    library.save(str(tmp_path / "tokenizer.json"))
    ours = Tokenizer(tmp_path, special_ids={"pad_token_id": library.token_to_id(padding)})
    assert ours.text_of(library.token_to_id(token)) == text
