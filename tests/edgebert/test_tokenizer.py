import json
from concurrent.futures import ThreadPoolExecutor

import pytest
import tokenizers

from edgebert.errors import DamagedBundleError, InputError
from edgebert.text.tokenizer import Tokenizer, longest_first
from tests.tiny import SPECIAL_IDS, VOCAB, write_tokenizer

CLS, SEP = 2, 3


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder)
    return folder


@pytest.fixture
def tokenizer(directory):
    return Tokenizer(directory, special_ids=SPECIAL_IDS)


def ids(*words):
    return [VOCAB.index(word) for word in words]


def test_ids_are_those_of_the_vocabulary(tokenizer):
    (one,) = tokenizer.encode(["Good film!"], max_length=None)
    assert one.input_ids.tolist() == [CLS, *ids("good", "film", "!"), SEP]
    assert one.special_tokens_mask.tolist() == [1, 0, 0, 0, 1]


def test_an_empty_text_is_the_special_tokens_alone(tokenizer):
    (one,) = tokenizer.encode([""], max_length=8)
    assert one.input_ids.tolist() == [CLS, SEP]


def test_a_text_that_spells_a_special_token_is_plain_text(tokenizer):
    (one,) = tokenizer.encode(["[SEP]"], max_length=None)
    assert SEP not in one.input_ids[1:-1]


def test_the_second_text_of_a_pair_has_type_1(tokenizer):
    (one,) = tokenizer.encode(["good"], ["bad film"], max_length=None)
    assert one.input_ids.tolist() == [CLS, *ids("good"), SEP, *ids("bad", "film"), SEP]
    assert one.token_type_ids.tolist() == [0, 0, 0, 1, 1, 1]


def test_truncation_counts_the_special_tokens_and_keeps_the_last_sep(tokenizer):
    (one,) = tokenizer.encode(["good bad film very fun"], max_length=5)
    assert one.input_ids.tolist() == [CLS, *ids("good", "bad", "film"), SEP]
    assert one.offsets == [(0, 0), (0, 4), (5, 8), (9, 13), (0, 0)]
    assert one.dropped_tokens == 2


def test_truncation_of_a_text_with_spelled_specials_keeps_only_the_real_ones(tokenizer):
    (one,) = tokenizer.encode(["[CLS] [SEP] good"], max_length=4)
    assert one.special_tokens_mask.tolist() == [1, 0, 0, 1]


@pytest.mark.parametrize("max_length", range(4, 20))
@pytest.mark.parametrize(("first", "second"), [(1, 9), (9, 1), (5, 5), (8, 5), (5, 8), (0, 7)])
def test_pairs_are_cut_as_the_tokenizers_library_cuts_them(directory, first, second, max_length):
    texts = " ".join(["good"] * first), " ".join(["bad"] * second)
    library = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    library.enable_truncation(max_length, strategy="longest_first")
    expected = library.encode(*texts)
    ours = Tokenizer(directory, special_ids=SPECIAL_IDS)
    (one,) = ours.encode(texts[:1], texts[1:], max_length=max_length)
    assert one.input_ids.tolist() == expected.ids
    assert one.token_type_ids.tolist() == expected.type_ids
    assert one.offsets == expected.offsets


def test_the_odd_token_goes_to_the_longer_text():
    assert longest_first(9, 8, room=7) == (4, 3)
    assert longest_first(8, 9, room=7) == (3, 4)


def test_a_long_text_raises_with_its_index_when_asked_to(tokenizer):
    with pytest.raises(InputError, match=r"texts\[1\]: 6"):
        tokenizer.encode(["good", "good bad film fun"], max_length=5, on_long="error")


def test_max_length_without_room_for_a_token_is_refused(tokenizer):
    with pytest.raises(InputError, match="must be 3 or more"):
        tokenizer.encode(["good"], max_length=2)
    with pytest.raises(InputError, match="must be 4 or more"):
        tokenizer.encode(["good"], ["bad"], max_length=3)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("good", "wrap it in a list"),
        (["good", None], r"texts\[1\] is None"),
        ([b"good"], r"texts\[0\] is of type bytes"),
        (None, "texts is None"),
        (["ok", "half \ud83d"], r"texts\[1\] has half a surrogate pair at character 5"),
    ],
)
def test_what_is_no_list_of_texts_is_refused_with_its_index(tokenizer, texts, message):
    with pytest.raises(InputError, match=message):
        tokenizer.encode(texts, max_length=None)


def test_text_pairs_of_another_length_are_refused(tokenizer):
    with pytest.raises(InputError, match="2 texts and 1 text_pairs"):
        tokenizer.encode(["a", "b"], ["c"], max_length=None)


def test_padding_and_truncation_in_the_file_are_switched_off(directory, tmp_path):
    library = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    library.enable_padding(length=40)
    library.enable_truncation(4)
    library.save(str(tmp_path / "tokenizer.json"))
    (one,) = Tokenizer(tmp_path, special_ids=SPECIAL_IDS).encode(["a b c d e"], max_length=None)
    assert len(one) == 7


def test_offsets_slice_the_callers_text(tokenizer):
    text = "T\x10his is Ünïcode, ﬁlm… 🙂 good"
    (one,) = tokenizer.encode([text], max_length=None)
    slices = [text[start:end] for start, end in one.offsets[1:-1]]
    assert slices[-1] == "good"
    starts = [start for start, _ in one.offsets[1:-1]]
    assert starts == sorted(starts)


def test_a_word_of_more_than_100_characters_is_one_unknown_token(tokenizer):
    short, long = tokenizer.encode(["hello" * 20, "hello" * 21], max_length=None)
    assert SPECIAL_IDS["unk_token_id"] not in short.input_ids
    assert long.input_ids.tolist() == [CLS, SPECIAL_IDS["unk_token_id"], SEP]
    assert long.offsets[1] == (0, 105)


def test_lowercase_and_accents_are_two_settings_that_are_both_kept(directory, tmp_path):
    settings = json.loads((directory / "tokenizer.json").read_text())
    settings["normalizer"]["strip_accents"] = False
    (tmp_path / "tokenizer.json").write_text(json.dumps(settings))
    (kept,) = Tokenizer(tmp_path, special_ids=SPECIAL_IDS).encode(["Á"], max_length=None)
    (stripped,) = Tokenizer(directory, special_ids=SPECIAL_IDS).encode(["Á"], max_length=None)
    assert kept.input_ids[1] == SPECIAL_IDS["unk_token_id"]
    (plain,) = Tokenizer(directory, special_ids=SPECIAL_IDS).encode(["a"], max_length=None)
    assert stripped.input_ids.tolist() == plain.input_ids.tolist()


@pytest.mark.parametrize(
    ("normalizer", "text", "expected"),
    [
        ({"lowercase": False, "strip_accents": None}, "mở bài lạc", ["mở", "bài", "lạc"]),
        ({"lowercase": True, "strip_accents": None}, "Mở BÀI lạc", ["mo", "bai", "lac"]),
        ({"lowercase": True, "strip_accents": False}, "Mở BÀI lạc", ["mở", "bài", "lạc"]),
        ({"handle_chinese_chars": True}, "的人有", ["的", "人", "有"]),
        ({"handle_chinese_chars": False}, "的人有", ["的人有"]),
        ({"clean_text": True}, "\uf059 mo", ["mo"]),  # of the private use area
        ({"clean_text": False}, "\uf059 mo", ["[UNK]", "mo"]),
    ],
)
def test_every_setting_of_the_normalizer_is_followed(
    directory, tmp_path, normalizer, text, expected
):
    settings = json.loads((directory / "tokenizer.json").read_text())
    settings["normalizer"].update(normalizer)
    words = ["mở", "bài", "lạc", "mo", "bai", "lac", "的", "人", "有", "的人有"]
    settings["model"]["vocab"].update({word: len(VOCAB) + i for i, word in enumerate(words)})
    (tmp_path / "tokenizer.json").write_text(json.dumps(settings))
    (one,) = Tokenizer(tmp_path, special_ids=SPECIAL_IDS).encode([text], max_length=None)
    known = [*VOCAB, *words]
    assert [known[token_id] for token_id in one.input_ids[1:-1]] == expected


def test_sixteen_threads_with_different_lengths_get_their_own(tokenizer):
    text = " ".join(["good"] * 40)

    def lengths(number):
        limit = 3 + number % 30
        return {len(tokenizer.encode([text], max_length=limit)[0]) for _ in range(50)} == {limit}

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(lengths, range(64)))


def test_a_missing_or_broken_file_is_named(tmp_path):
    with pytest.raises(DamagedBundleError, match=r"tokenizer\.json is missing"):
        Tokenizer(tmp_path, special_ids=SPECIAL_IDS)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(DamagedBundleError, match="is damaged"):
        Tokenizer(tmp_path, special_ids=SPECIAL_IDS)


def test_a_padding_id_that_no_token_has_is_refused(directory):
    with pytest.raises(DamagedBundleError, match="pad_token_id 9999"):
        Tokenizer(directory, special_ids={"pad_token_id": 9999})
