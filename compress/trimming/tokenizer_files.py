"""A tokenizer's files with other ids: ``tokenizer.json``, and what stands beside it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers

from compress.trimming.kinds import Vocabulary, vocabulary_of
from edgebert.errors import ModelError
from edgebert.files import write_json
from edgebert.formats.checkpoint_files import read_object
from edgebert.text.tokenizer_errors import blamed_on

_LISTS = ("additional_special_tokens", "extra_special_tokens")
_MODEL_FILES = ("vocab.txt", "vocab.json")  # what the library writes too, merges.txt with the last


@dataclass(frozen=True, eq=False)
class TokenizerFiles:
    """A tokenizer that can be cut.

    Attributes:
        directory: Where its files are, or those of the one that it was cut from.
        settings: What its ``tokenizer.json`` holds.
        plain: It, without truncation and padding; ``[SEP]`` in a text is plain text to it.
        vocabulary: Its model.
    """

    directory: Path
    settings: dict[str, Any]
    plain: tokenizers.Tokenizer
    vocabulary: Vocabulary

    @classmethod
    def read(cls, directory: Path) -> TokenizerFiles:
        """Read ``directory/tokenizer.json``.

        Raises:
            DamagedBundleError: The library can't open it.
            ModelError: Its vocabulary is of a kind that can't be cut.
        """
        path = directory / "tokenizer.json"
        with blamed_on(path):
            text = tokenizers.Tokenizer.from_file(str(path)).to_str()  # in the form of today
        return cls._of(directory, json.loads(text), path)

    @classmethod
    def _of(cls, directory: Path, settings: dict[str, Any], source: object) -> TokenizerFiles:
        vocabulary = vocabulary_of(settings["model"], source=source)
        plain = tokenizers.Tokenizer.from_str(json.dumps(settings))
        plain.no_truncation()
        plain.no_padding()
        plain.encode_special_tokens = True
        return cls(directory, settings, plain, vocabulary)

    @property
    def ids(self) -> dict[str, int]:
        """Id of each token, added ones too."""
        found: dict[str, int] = self.plain.get_vocab(with_added_tokens=True)
        return found

    def needed_ids(self) -> set[int]:
        """Give the ids that the files name: of added and special tokens, and of padding."""
        found = {token["id"] for token in self.settings["added_tokens"]}
        found.update(_processor_ids(self.settings["post_processor"] or {}))
        if self.settings["padding"] is not None:
            found.add(self.settings["padding"]["pad_id"])
        ids = self.ids
        for name in ("special_tokens_map.json", "tokenizer_config.json"):
            named = _named_tokens(read_object(self.directory / name, missing_ok=True))
            found.update(ids[token] for token in named if token in ids)
        return found

    def cut(self, new_ids: Mapping[int, int]) -> TokenizerFiles:
        """Leave some tokens and give them their new ids wherever there are ids.

        Args:
            new_ids: By old id, of all tokens that stay, rising with it, without gaps.

        Raises:
            ModelError: The library gives the tokens other ids than these.
        """
        padding, processor = self.settings["padding"], self.settings["post_processor"]
        settings = {
            **self.settings,
            "padding": padding and {**padding, "pad_id": new_ids[padding["pad_id"]]},
            "added_tokens": [
                {**token, "id": new_ids[token["id"]]} for token in self.settings["added_tokens"]
            ],
            "post_processor": processor and _with_processor_ids(processor, new_ids),
            "model": self.vocabulary.cut(new_ids),
        }
        made = self._of(self.directory, settings, self.directory)
        expected = {token: new_ids[i] for token, i in self.ids.items() if i in new_ids}
        found = made.ids
        if found != expected:
            wrong = sorted(t for t in expected | found if found.get(t) != expected.get(t))
            raise ModelError(
                f"{self.directory / 'tokenizer.json'} can't be cut: the ids of {wrong[:3]} would "
                "not be those of their rows in the embeddings. An added token's id may be below "
                "that of a piece; give the added tokens the highest ids."
            )
        return made

    def write(self, target: Path, new_ids: Mapping[int, int]) -> None:
        """Write the files, those that the source has, with the new ids.

        A SentencePiece model is left out: its ids would be the old ones, and nobody needs it
        beside ``tokenizer.json``.

        Args:
            target: Where they go.
            new_ids: As it was cut by.
        """
        whole = tokenizers.Tokenizer.from_str(json.dumps(self.settings))
        whole.save(str(target / "tokenizer.json"))
        if any((self.directory / name).is_file() for name in _MODEL_FILES):
            whole.model.save(str(target))
        names = self.directory / "special_tokens_map.json"
        if names.is_file():
            shutil.copyfile(names, target / names.name)
        added = read_object(self.directory / "added_tokens.json", missing_ok=True)
        if added:
            kept = {token: new_ids[i] for token, i in added.items() if i in new_ids}
            write_json(target / "added_tokens.json", kept)
        config = read_object(self.directory / "tokenizer_config.json", missing_ok=True)
        if "added_tokens_decoder" in config:
            config["added_tokens_decoder"] = {
                str(new_ids[int(i)]): token
                for i, token in config["added_tokens_decoder"].items()
                if int(i) in new_ids
            }
        if config:
            write_json(target / "tokenizer_config.json", config)


def _named_tokens(config: Mapping[str, Any]) -> Iterator[str]:
    """Give the tokens that are named in a file beside ``tokenizer.json``."""
    values = [value for name, value in config.items() if name.endswith("_token")]
    for name in _LISTS:
        many = config.get(name) or ()
        values += many.values() if isinstance(many, dict) else many
    values += (config.get("added_tokens_decoder") or {}).values()
    for value in values:
        token = value.get("content") if isinstance(value, dict) else value
        if isinstance(token, str):
            yield token


def _processor_ids(processor: Mapping[str, Any]) -> Iterator[int]:
    """Give the ids of a post-processor: of templates, of BERT's and RoBERTa's, and of several."""
    for part in processor.get("processors", ()):
        yield from _processor_ids(part)
    for token in processor.get("special_tokens", {}).values():
        yield from token["ids"]
    for name in ("sep", "cls"):
        if name in processor:
            yield processor[name][1]


def _with_processor_ids(processor: Mapping[str, Any], new_ids: Mapping[int, int]) -> dict[str, Any]:
    made = dict(processor)
    if "processors" in made:
        made["processors"] = [_with_processor_ids(part, new_ids) for part in made["processors"]]
    if "special_tokens" in made:
        made["special_tokens"] = {
            name: {**token, "ids": [new_ids[i] for i in token["ids"]]}
            for name, token in made["special_tokens"].items()
        }
    for name in ("sep", "cls"):
        if name in made:
            made[name] = [made[name][0], new_ids[made[name][1]]]
    return made
