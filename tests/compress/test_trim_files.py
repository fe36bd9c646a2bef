"""New ids wherever a tokenizer's files have ids, and the flags of its added tokens as they were."""

from __future__ import annotations

import json

import pytest
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors

from compress.trimming.choosing import choose_ids, count_pieces
from compress.trimming.tokenizer_files import TokenizerFiles
from edgebert.errors import ModelError

WORDS = ["gone", "[PAD]", "rare", "a", "[SEP]", "lost", "[CLS]", "b", "[UNK]", "c"]
KEPT = ["[PAD]", "a", "[SEP]", "[CLS]", "[UNK]"]  # of the corpus "a", in the order of the old ids


def write(folder, *, processor=None, added=(), config=None, unknown="[UNK]"):
    tokenizer = Tokenizer(
        models.WordPiece({word: i for i, word in enumerate(WORDS)}, unk_token=unknown)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(["[PAD]", "[SEP]", "[CLS]", "[UNK]"])
    tokenizer.add_tokens(list(added))
    tokenizer.enable_padding(pad_id=1, pad_token="[PAD]")
    tokenizer.enable_truncation(8)
    if processor is not None:
        tokenizer.post_processor = processor
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "sep", "cls", "unk")}
    (folder / "tokenizer_config.json").write_text(json.dumps(names | (config or {})))


def cut_to(folder, text):
    """Cut by a text and write; give the tokenizer that was written."""
    files = TokenizerFiles.read(folder)
    counts = count_pieces(files.plain, files.vocabulary, [text])
    kept = choose_ids(files.vocabulary, counts, files.needed_ids(), vocab_size=None, min_count=1)
    new_ids = {old: new for new, old in enumerate(kept)}
    (folder / "cut").mkdir()
    files.cut(new_ids).write(folder / "cut", new_ids)
    return Tokenizer.from_file(str(folder / "cut" / "tokenizer.json"))


def read(folder, name):
    return json.loads((folder / "cut" / name).read_text())


TEMPLATE = processors.TemplateProcessing(
    single="[CLS] $A [SEP]", pair=None, special_tokens=[("[CLS]", 6), ("[SEP]", 4)]
)


@pytest.mark.parametrize(
    "processor",
    [
        TEMPLATE,
        processors.BertProcessing(("[SEP]", 4), ("[CLS]", 6)),
        processors.RobertaProcessing(("[SEP]", 4), ("[CLS]", 6)),
        processors.Sequence([processors.ByteLevel(), TEMPLATE]),
    ],
    ids=["template", "bert", "roberta", "sequence"],
)
def test_a_post_processor_adds_the_new_ids(tmp_path, processor):
    write(tmp_path, processor=processor)
    cut = cut_to(tmp_path, "a")
    assert cut.encode("a").ids == [KEPT.index(word) for word in ("[CLS]", "a", "[SEP]")]


def test_ids_are_without_gaps_in_their_old_order(tmp_path):
    write(tmp_path)
    assert cut_to(tmp_path, "a").get_vocab() == {word: i for i, word in enumerate(KEPT)}


def test_a_token_that_only_the_post_processor_names_stays(tmp_path):
    write(tmp_path, processor=processors.BertProcessing(("lost", 5), ("rare", 2)))
    assert cut_to(tmp_path, "a").encode("a").tokens == ["rare", "a", "lost"]


def test_padding_fills_with_the_new_id_and_truncation_stays(tmp_path):
    write(tmp_path)
    short, long = cut_to(tmp_path, "a").encode_batch(["a", "a " * 9])
    assert long.ids == [KEPT.index("a")] * 8
    assert short.ids == [KEPT.index("a")] + [KEPT.index("[PAD]")] * 7


def test_added_tokens_keep_their_flags_and_come_behind_the_pieces(tmp_path):
    token = AddedToken("<x>", lstrip=True, single_word=True, normalized=False)
    write(tmp_path, added=[token, "plain"])
    cut = cut_to(tmp_path, "a")
    found = {t["content"]: t for t in json.loads(cut.to_str())["added_tokens"]}
    assert (found["<x>"]["id"], found["plain"]["id"]) == (len(KEPT), len(KEPT) + 1)
    assert found["<x>"]["lstrip"]
    assert found["<x>"]["single_word"]
    assert not found["<x>"]["special"]
    assert not found["<x>"]["normalized"]
    assert found["[PAD]"]["special"]


def test_the_decoder_of_added_tokens_has_the_new_ids(tmp_path):
    flags = {"lstrip": True, "special": True}
    decoder = {"1": {"content": "[PAD]"}, "4": {"content": "[SEP]", **flags}}
    write(tmp_path, config={"added_tokens_decoder": decoder, "do_lower_case": True})
    cut_to(tmp_path, "a")
    written = read(tmp_path, "tokenizer_config.json")
    assert written["added_tokens_decoder"] == {
        str(KEPT.index("[PAD]")): {"content": "[PAD]"},
        str(KEPT.index("[SEP]")): {"content": "[SEP]", **flags},
    }
    assert written["do_lower_case"]


@pytest.mark.parametrize("key", ["mask_token", "additional_special_tokens", "extra"])
def test_a_piece_that_is_named_as_a_special_token_stays(tmp_path, key):
    if key == "extra":
        config = {"extra_special_tokens": {"x_token": "rare"}}
    else:
        config = {key: "rare" if key == "mask_token" else [{"content": "rare"}]}
    write(tmp_path, config=config)
    assert "rare" in cut_to(tmp_path, "a").get_vocab()


def test_the_older_files_are_written_where_they_were(tmp_path):
    write(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS))
    (tmp_path / "added_tokens.json").write_text(json.dumps({"[SEP]": 4, "gone": 0}))
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"pad_token": "[PAD]"}))
    (tmp_path / "spiece.model").write_bytes(b"ids of old")
    cut_to(tmp_path, "a")
    assert (tmp_path / "cut" / "vocab.txt").read_text().split() == KEPT
    assert read(tmp_path, "added_tokens.json") == {"[SEP]": KEPT.index("[SEP]")}
    assert read(tmp_path, "special_tokens_map.json") == {"pad_token": "[PAD]"}
    assert not (tmp_path / "cut" / "spiece.model").exists()


def test_a_token_for_padding_and_unknown_and_an_added_one_that_is_a_piece_are_counted_once(
    tmp_path,
):
    write(tmp_path, added=["a", "plain"], unknown="[PAD]")
    files = TokenizerFiles.read(tmp_path)
    assert len(files.ids) == len(WORDS) + 1  # "a" was there
    cut = cut_to(tmp_path, "a other plain")
    assert cut.get_vocab() == {word: i for i, word in enumerate([*KEPT, "plain"])}
    assert cut.encode("other a plain").ids == [KEPT.index("[PAD]"), KEPT.index("a"), len(KEPT)]


def test_tokens_that_would_get_another_id_than_their_row_are_refused(tmp_path):
    write(tmp_path, added=["plain"])
    settings = json.loads((tmp_path / "tokenizer.json").read_text())
    settings["model"]["vocab"]["c"] = 20  # above the id of the added token
    (tmp_path / "tokenizer.json").write_text(json.dumps(settings))
    with pytest.raises(ModelError, match=r"can't be cut: the ids of \['plain'\]"):
        cut_to(tmp_path, "a c")
