"""Models of two layers for tests: a WordPiece tokenizer and random BERTs, made in milliseconds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = [chr(c) for c in range(ord("a"), ord("z") + 1)]
WORDS = ["good", "bad", "film", "very", "not", "the", "plot", "fun", "dull", "hello", "world"]
VOCAB = SPECIALS + LETTERS + ["##" + x for x in LETTERS] + WORDS + list(".,!?'0123456789")
SPECIAL_IDS = {name.strip("[]").lower() + "_token_id": i for i, name in enumerate(SPECIALS)}


def write_tokenizer(
    directory: Path, *, max_length: int = 512, vocab: Sequence[str] = VOCAB
) -> None:
    """Write ``tokenizer.json`` and its configuration as transformers writes them."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.WordPiece({w: i for i, w in enumerate(vocab)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.add_special_tokens(SPECIALS)
    tokenizer.save(str(directory / "tokenizer.json"))
    names = {name.strip("[]").lower() + "_token": name for name in SPECIALS}
    settings = {"tokenizer_class": "BertTokenizer", "model_max_length": max_length, **names}
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    (directory / "vocab.txt").write_text("\n".join(vocab) + "\n")


def bert_config(**changes: Any) -> Any:
    """A `transformers.BertConfig` of 2 layers, 32 wide, 4 heads."""
    from transformers import BertConfig

    settings: dict[str, Any] = {
        "vocab_size": len(VOCAB),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 512,
        "pad_token_id": 0,
    }
    return BertConfig(**{**settings, **changes})


def write_classifier(
    directory: Path, *, labels: tuple[str, ...] = ("bad", "good"), **changes: Any
) -> Any:
    """Write a random BERT classifier with its tokenizer; give the model, in eval mode."""
    import torch
    from transformers import BertForSequenceClassification

    torch.manual_seed(0)
    names = dict(enumerate(labels))
    config = bert_config(id2label=names, label2id={v: k for k, v in names.items()}, **changes)
    return _write(directory, BertForSequenceClassification(config))


def write_encoder(directory: Path, **changes: Any) -> Any:
    """Write a random BERT without a head, with its tokenizer; give the model, in eval mode."""
    import torch
    from transformers import BertModel

    torch.manual_seed(0)
    return _write(directory, BertModel(bert_config(**changes)))


def _write(directory: Path, model: Any) -> Any:
    write_tokenizer(directory)
    model.eval().save_pretrained(directory)
    return model


def write_sentiment(path: Path, *, rows: int = 60) -> None:
    """Write a TSV that a tiny model can learn: ``good``/``fun`` against ``bad``/``dull``."""
    lines = ["sentence\tlabel"]
    for i in range(rows):
        word = ("good", "bad", "fun", "dull")[i % 4]
        filler = " ".join(WORDS[5 : 5 + i % 5])
        lines.append(f"the {word} film {filler} {i % 10}\t{('good', 'bad')[i % 2]}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
