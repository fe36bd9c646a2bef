"""A cut vocabulary: the same pieces, ids of one count in all files, and the same outputs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
import transformers

import compress
from compress.trimming.result import TrimResult
from tests.compress.steps import run_step
from tests.compress.trim_models import KINDS, SYLLABLES, texts, write_corpus, write_model
from tests.tiny import WORDS

CORPUS = texts(60, seed=2, syllables=SYLLABLES[:4])
OTHERS = texts(200, seed=3)


@dataclass(frozen=True)
class Trimmed:
    """A model before and after, on disk."""

    source: Path
    output: Path
    result: TrimResult


def plain(directory: Path) -> Any:
    tokenizer = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.no_padding()
    return tokenizer


def trimmed_model(
    folder: Path,
    kind: str,
    *,
    head: str = "ForMaskedLM",
    lines: Sequence[str] = CORPUS,
    **changes: Any,
) -> Trimmed:
    write_model(folder / "source", kind, head)
    corpus = write_corpus(folder / "corpus.txt", lines)
    settings = {"held_out_ratio": 0.0, **changes}
    config = compress.TrimConfig(
        model=str(folder / "source"), corpus=(corpus,), output_dir=folder / "output", **settings
    )
    return Trimmed(folder / "source", folder / "output", compress.trim(config))


@pytest.fixture(scope="module", params=KINDS)
def trimmed(request, tmp_path_factory) -> Trimmed:
    return trimmed_model(tmp_path_factory.mktemp(request.param), request.param)


def test_some_of_the_vocabulary_goes(trimmed):
    before, after = trimmed.result.before, trimmed.result.after
    assert after.vocab_size < 0.9 * before.vocab_size
    assert after.params < before.params
    assert after.size_bytes == (trimmed.output / "model.safetensors").stat().st_size


def test_every_text_of_the_corpus_has_the_same_pieces(trimmed):
    before, after = plain(trimmed.source), plain(trimmed.output)
    for text in CORPUS:
        assert after.encode(text).tokens == before.encode(text).tokens
    assert trimmed.result.unchanged == 1


def kept_texts(trimmed: Trimmed) -> tuple[list[str], list[str]]:
    before, kept = plain(trimmed.source), set(plain(trimmed.output).get_vocab())
    whole = [text for text in OTHERS if kept.issuperset(before.encode(text).tokens)]
    return whole, [text for text in OTHERS if text not in whole]


def test_a_text_all_of_whose_pieces_were_kept_has_the_same_pieces(trimmed):
    whole, cut = kept_texts(trimmed)
    before, after = plain(trimmed.source), plain(trimmed.output)
    assert whole
    assert cut
    for text in whole:
        assert after.encode(text).tokens == before.encode(text).tokens


def test_a_text_all_of_whose_pieces_were_kept_has_the_same_outputs(trimmed):
    old, new = (
        transformers.AutoModelForMaskedLM.from_pretrained(path).eval()
        for path in (trimmed.source, trimmed.output)
    )
    before, after = plain(trimmed.source), plain(trimmed.output)
    rows = [before.token_to_id(after.id_to_token(i)) for i in range(after.get_vocab_size())]
    for text in [*CORPUS[:5], *kept_texts(trimmed)[0][:5]]:
        with torch.no_grad():
            expected = old(torch.tensor([before.encode(text).ids])).logits[..., rows]
            found = new(torch.tensor([after.encode(text).ids])).logits
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


def test_transformers_gives_the_ids_that_the_library_gives(trimmed):
    tokenizer = transformers.AutoTokenizer.from_pretrained(trimmed.output)
    after = plain(trimmed.output)
    for text in [*CORPUS, *OTHERS, f"ba {tokenizer.mask_token} do"]:
        assert tokenizer(text).input_ids == after.encode(text).ids
    assert len(tokenizer) == after.get_vocab_size() == trimmed.result.after.vocab_size


def test_every_file_names_a_special_token_by_its_new_id(trimmed):
    config = json.loads((trimmed.output / "config.json").read_text())
    settings = json.loads((trimmed.output / "tokenizer_config.json").read_text())
    written = json.loads((trimmed.output / "tokenizer.json").read_text())
    after = plain(trimmed.output)
    assert config["vocab_size"] == after.get_vocab_size()
    assert config["pad_token_id"] == after.token_to_id(settings["pad_token"])
    for token in written["added_tokens"]:
        assert after.token_to_id(token["content"]) == token["id"]
        assert token["special"]
    for i, token in settings.get("added_tokens_decoder", {}).items():
        assert after.token_to_id(token["content"]) == int(i)
    if written["padding"] is not None:
        assert written["padding"]["pad_id"] == config["pad_token_id"]


@pytest.mark.parametrize(("kind", "name"), [("WordPiece", "vocab.txt"), ("BPE", "vocab.json")])
def test_the_vocabulary_beside_tokenizer_json_is_the_same(tmp_path, kind, name):
    output = trimmed_model(tmp_path, kind).output
    ids = plain(output).get_vocab()
    if name == "vocab.txt":
        assert (output / name).read_text().splitlines() == sorted(ids, key=ids.get)
    else:
        assert json.loads((output / name).read_text()) == ids
        merges = (output / "merges.txt").read_text().splitlines()[1:]
        assert all("".join(line.split(" ")) in ids for line in merges)


@pytest.mark.parametrize("head", ["ForSequenceClassification", "ForTokenClassification", ""])
def test_the_head_is_kept(tmp_path, head):
    done = trimmed_model(tmp_path, "WordPiece", head=head)
    maker = getattr(transformers, f"Bert{head or 'Model'}")
    old, new = (maker.from_pretrained(path).eval() for path in (done.source, done.output))
    before, after = plain(done.source), plain(done.output)
    for text in CORPUS[:3]:
        with torch.no_grad():
            expected = old(torch.tensor([before.encode(text).ids]))
            found = new(torch.tensor([after.encode(text).ids]))
        for name in ("logits", "last_hidden_state", "pooler_output"):
            if name in expected:
                torch.testing.assert_close(found[name], expected[name], atol=1e-6, rtol=0)


def test_an_encoder_that_has_no_pooler_gets_none(tmp_path):
    model = write_model(tmp_path / "source", "WordPiece", "")
    model.pooler = None
    model.save_pretrained(tmp_path / "source")
    corpus = write_corpus(tmp_path / "corpus.txt", CORPUS)
    output = tmp_path / "output"
    compress.trim(
        compress.TrimConfig(model=str(tmp_path / "source"), corpus=(corpus,), output_dir=output)
    )
    from safetensors import safe_open

    with safe_open(output / "model.safetensors", framework="np") as weights:
        assert not [name for name in weights.keys() if "pooler" in name]  # noqa: SIM118


def test_weights_of_half_precision_stay_so(tmp_path):
    write_model(tmp_path / "source", "WordPiece").half().save_pretrained(tmp_path / "source")
    corpus = write_corpus(tmp_path / "corpus.txt", CORPUS)
    compress.trim(
        compress.TrimConfig(
            model=str(tmp_path / "source"), corpus=(corpus,), output_dir=tmp_path / "output"
        )
    )
    model = transformers.AutoModel.from_pretrained(tmp_path / "output", dtype="auto")
    assert {weight.dtype for weight in model.parameters()} == {torch.float16}


def held_out_words(folder: Path, **changes: Any) -> tuple[Trimmed, set[str]]:
    """Trim by texts of a word each, of which half are held out; give the words that stayed."""
    done = trimmed_model(folder, "WordPiece", lines=list(WORDS), held_out_ratio=0.5, **changes)
    return done, set(WORDS) & set(plain(done.output).get_vocab())


def test_texts_that_are_held_out_choose_no_piece(tmp_path):
    done, kept = held_out_words(tmp_path)
    assert done.result.held_out
    assert len(kept) == done.result.corpus_texts == len(WORDS) - done.result.measured_texts
    assert done.result.unchanged == 0
    assert done.result.before.measured.tokens_per_word == 1
    assert done.result.after.measured.tokens_per_word > 1


def test_the_seed_says_what_is_held_out(tmp_path):
    runs = [held_out_words(tmp_path / str(run), seed=seed)[1] for run, seed in enumerate((1, 1, 2))]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_what_is_measured_is_written_and_replayed(tmp_path, capsys):
    done = trimmed_model(tmp_path, "WordPiece", min_count=2, vocab_size=60)
    assert json.loads((done.output / "trim.json").read_text()) == asdict(done.result)
    again = str(tmp_path / "again")
    run = str(done.output / "run.json")
    assert run_step("trim", "--config", run, "--output-dir", again) == 0
    assert plain(tmp_path / "again").to_str() == plain(done.output).to_str()
    sizes = [f"{side.vocab_size}" for side in (done.result.before, done.result.after)]
    table = capsys.readouterr().out
    assert table.isascii()
    assert ["tokens", *sizes] in [line.split() for line in table.splitlines()]


@pytest.mark.parametrize(
    ("name", "content", "settings"),
    [
        ("a.tsv", "review\tlabel\ngood film\t1\n", {"text_column": "review"}),
        ("a.csv", "text,label\ngood film,1\n", {}),
        ("a.csv", "a,b\ngood,film\n", {"text_column": "a", "text_pair_column": "b"}),
        ("a.jsonl", '{"sentence1": "good", "sentence2": "film"}\n', {}),
        ("a.conll", "good O\nfilm O\n", {}),
    ],
)
def test_a_corpus_may_have_the_forms_of_other_data(tmp_path, name, content, settings):
    write_model(tmp_path / "source", "WordPiece")
    (tmp_path / name).write_text(content)
    corpus = (write_corpus(tmp_path / "fun.txt", ["fun"]), tmp_path / name)
    own = {"corpus": corpus, "output_dir": tmp_path / "output", "held_out_ratio": 0.0}
    compress.trim(compress.TrimConfig(model=str(tmp_path / "source"), **own, **settings))
    assert set(WORDS).intersection(plain(tmp_path / "output").get_vocab()) == {
        "good",
        "film",
        "fun",
    }
