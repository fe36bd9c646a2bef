"""Random models of two layers with a vocabulary of each kind, and texts for them."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.tiny import VOCAB, bert_config, write_tokenizer

KINDS = ("WordPiece", "BPE", "Unigram")
SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
NAMES = {"bos": 0, "cls": 0, "pad": 1, "eos": 2, "sep": 2, "unk": 3, "mask": 4}
SYLLABLES = ("ba", "do", "ki", "lu", "mer", "ti", "son", "go")


def texts(count: int, *, seed: int, syllables: tuple[str, ...] = SYLLABLES) -> list[str]:
    """Make texts of words that share parts, a letter wrong here and there."""
    rng = random.Random(seed)
    made = []
    for _ in range(count):
        words = ["".join(rng.choices(syllables, k=rng.randint(1, 3))) for _ in range(4)]
        made.append(" ".join(words) + rng.choice(["", "!", " x", " ba?"]))
    return made


def make_tokenizer(kind: str, corpus: list[str]) -> Any:
    """Train a byte-level BPE as RoBERTa's, or a Unigram as XLM-R's, on some texts."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    mark = pre_tokenizers.Metaspace(prepend_scheme="always")
    if kind == "BPE":
        tokenizer = Tokenizer(models.BPE(continuing_subword_prefix="", end_of_word_suffix=""))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.post_processor = processors.RobertaProcessing(
            ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False
        )
        trainer = trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=SPECIALS,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
    else:
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), mark])
        tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>",
            pair="<s> $A </s> </s> $B </s>",
            special_tokens=[("<s>", 0), ("</s>", 2)],
        )
        trainer = trainers.UnigramTrainer(
            vocab_size=150, special_tokens=SPECIALS, unk_token="<unk>", show_progress=False
        )
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.enable_padding(pad_id=1, pad_token="<pad>")
    return tokenizer


def write_model(directory: Path, kind: str, head: str = "ForMaskedLM", **changes: Any) -> Any:
    """Write a random model with a tokenizer of a kind; give the model, in eval mode.

    Its vocabulary knows more than `texts` of the first syllables alone need.
    """
    import torch
    import transformers

    family = {"WordPiece": "Bert", "BPE": "Roberta", "Unigram": "XLMRoberta"}[kind]
    if kind == "WordPiece":
        parts = [form for part in SYLLABLES for form in (part, "##" + part)]
        write_tokenizer(directory, vocab=[*VOCAB, *parts, "bado", "##kilu", "doki"])
        settings: dict[str, Any] = {"vocab_size": len(VOCAB) + 19}
    else:
        directory.mkdir(parents=True)
        tokenizer = make_tokenizer(kind, texts(300, seed=1))
        tokenizer.save(str(directory / "tokenizer.json"))
        if kind == "BPE":
            tokenizer.model.save(str(directory))
        names = {f"{name}_token": SPECIALS[i] for name, i in NAMES.items()}
        config = {"tokenizer_class": f"{family}Tokenizer", "model_max_length": 64, **names}
        decoder = {str(i): {"content": t, "special": True} for i, t in enumerate(SPECIALS)}
        config["added_tokens_decoder"] = decoder
        (directory / "tokenizer_config.json").write_text(json.dumps(config))
        settings = {"vocab_size": tokenizer.get_vocab_size(), "pad_token_id": 1}
        settings |= {"bos_token_id": 0, "eos_token_id": 2}
    torch.manual_seed(0)
    shape = bert_config(initializer_range=0.2).to_dict() | settings | changes
    shape = {name: shape[name] for name in shape if name not in ("model_type", "architectures")}
    made = getattr(transformers, f"{family}Config")(**shape)
    model = getattr(transformers, f"{family}{head or 'Model'}")(made).eval()
    model.save_pretrained(directory)
    return model


def write_corpus(path: Path, lines: Sequence[str]) -> Path:
    """Write texts, one a line."""
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
