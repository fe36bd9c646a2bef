"""``python -m compress.trim``: cut a model's vocabulary to what a corpus needs."""

from __future__ import annotations

import logging
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from compress.export import check_output
from compress.options import StepModule, check_values, main, option, save_run
from compress.settings import DataConfig, require_at_least
from edgebert.errors import DataError, InputError
from edgebert.files import whole_directory, write_json

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from compress.trimming.result import Measured, Side, TrimResult
    from compress.trimming.tokenizer_files import TokenizerFiles

logger = logging.getLogger(__name__)

RESULT_NAME = "trim.json"


@dataclass(frozen=True, kw_only=True)
class TrimConfig:
    """Cut a model's vocabulary, tokenizer and embeddings together, to what a corpus needs."""

    model: str = option(help="Alias (--list-teachers), checkpoint, bundle or hub id")
    corpus: tuple[Path, ...] = option(
        help="Texts as the model will see them, repeatable: plain text, TSV, CSV, JSONL, JSON, "
        "CoNLL or Parquet, plain or .gz"
    )
    text_column: str | None = option(
        None, help="Name, or number from 0 in a file without header (default: sentence, text, …)"
    )
    text_pair_column: str | None = option(None, help="Second text of a pair: name or number")
    output_dir: Path = option(help="Where the checkpoint goes; a directory")
    overwrite_output_dir: bool = option(False, help="Replace what stands there")
    vocab_size: int | None = option(
        None, help="Most tokens that are kept, the most frequent ones (default: all that are used)"
    )
    min_count: int = option(1, help="Keep what the corpus uses so often")
    held_out_ratio: float = option(
        0.1,
        help="Part of the corpus that pieces aren't chosen by but measured on; 0 measures on the "
        "corpus itself",
    )
    seed: int = option(42, help="Of what is held out")

    def __post_init__(self) -> None:
        check_values(self)
        if not self.corpus:
            raise InputError("Give one --corpus or more: files of texts.")
        require_at_least("min_count", self.min_count, 1)
        if self.vocab_size is not None:
            require_at_least("vocab_size", self.vocab_size, 1)
        if not 0 <= self.held_out_ratio < 1:
            raise InputError(
                f"held_out_ratio must be from 0 to below 1, got {self.held_out_ratio}."
            )


def trim(config: TrimConfig) -> TrimResult:
    """Write a model with fewer tokens, which treats texts without the others as before.

    Special and added tokens stay, and every single character of the corpus that has a piece of its
    own. ``output_dir`` becomes a Hugging Face checkpoint, with the head and the sentence files of
    the model, ``trim.json`` and ``run.json``.

    Raises:
        ModelError: The model can't be found or used, its tokenizer has ids that it has no row for,
            or a vocabulary of a kind that can't be cut.
        DataError: A corpus can't be used, or nothing can be held out of it.
        InputError: ``output_dir`` is not empty or can't be written, or ``vocab_size`` is less than
            what stays in any case.
    """
    check_output(config.output_dir, overwrite=config.overwrite_output_dir)
    from compress.bundles.lineage import model_place, save_lineage
    from compress.data.encoding import require_known_id
    from compress.models.loading import prepare_tokenizer
    from compress.models.pretrained import load_as_saved
    from compress.models.teachers import resolve_teacher
    from compress.models.vocabulary import vocab_rows
    from compress.trimming.result import TrimResult, count_unchanged, measure, split_texts
    from compress.trimming.tokenizer_files import TokenizerFiles

    found = resolve_teacher(config.model, no_fallback=True)
    texts, measured = _texts(config)
    files = TokenizerFiles.read(prepare_tokenizer(found.path))
    model = load_as_saved(found.path)
    kept = _kept_ids(config, files, model, texts, source=found.path)
    require_known_id(kept[-1], vocab_rows(model))
    new_ids = {old: new for new, old in enumerate(kept)}
    cut = files.cut(new_ids)
    old_splits, new_splits = (split_texts(one, measured) for one in (files, cut))
    before = _side(model, found.path, measure(files, measured, old_splits))
    with whole_directory(config.output_dir) as building:
        _write(building, model, cut, new_ids, source=found.path)
        result = TrimResult(
            model=found.used,
            kind=files.settings["model"]["type"],
            corpus_texts=len(texts),
            measured_texts=len(measured),
            held_out=config.held_out_ratio > 0,
            unchanged=count_unchanged(old_splits, new_splits, new_ids) / len(measured),
            before=before,
            after=_side(model, building, measure(cut, measured, new_splits)),
        )
        write_json(building / RESULT_NAME, asdict(result))
        save_run(config, building)
        save_lineage(building, found.path, config, baseline=model_place(found.path))
    logger.info("Wrote %s", config.output_dir)
    return result


def _texts(config: TrimConfig) -> tuple[list[str], list[str]]:
    """Read the corpus: texts that pieces are chosen by, and others that are measured.

    The same text is never in both.
    """
    from compress.data.files import file_kind
    from compress.data.load import load_split
    from compress.data.splits import grouped_rows

    texts: list[str] = []
    for path in config.corpus:
        columns = DataConfig(
            train_file=path,
            text_column=config.text_column,
            text_pair_column=config.text_pair_column,
        )
        task = "token-classification" if file_kind(path) == ".conll" else "fill-mask"
        texts += load_split(columns, path, task=task, name="corpus").texts
    if not config.held_out_ratio:
        return texts, texts
    rows = set(
        grouped_rows(texts, max(1, round(config.held_out_ratio * len(texts))), seed=config.seed)
    )
    if not rows:
        raise DataError(
            f"The corpus has no two different texts, so none can be held out of its {len(texts)}; "
            "give more, or measure on the corpus itself with --held-out-ratio 0."
        )
    held_out = [text for row, text in enumerate(texts) if row in rows]
    return [text for row, text in enumerate(texts) if row not in rows], held_out


def _kept_ids(
    config: TrimConfig,
    files: TokenizerFiles,
    model: PreTrainedModel,
    texts: list[str],
    *,
    source: Path,
) -> list[int]:
    from compress.models.loading import special_token_ids
    from compress.models.vocabulary import named_ids
    from compress.trimming.choosing import choose_ids, count_pieces

    special_ids = special_token_ids(files.directory, source)
    needed = files.needed_ids().union(special_ids.values(), *named_ids(model.config).values())
    needed.update(range(special_ids["pad_token_id"]))  # RoBERTa counts positions from that id
    return choose_ids(
        files.vocabulary,
        count_pieces(files.plain, files.vocabulary, texts),
        needed.intersection(files.ids.values()),
        vocab_size=config.vocab_size,
        min_count=config.min_count,
    )


def _side(model: PreTrainedModel, directory: Path, measured: Measured) -> Side:
    from compress.models.vocabulary import vocab_rows
    from compress.trimming.result import Side

    return Side(
        vocab_size=vocab_rows(model),
        params=sum(parameter.numel() for parameter in model.parameters()),
        size_bytes=sum(file.stat().st_size for file in directory.glob("model*.safetensors")),
        measured=measured,
    )


def _write(
    directory: Path,
    model: PreTrainedModel,
    cut: TokenizerFiles,
    new_ids: dict[int, int],
    *,
    source: Path,
) -> None:
    """Write the checkpoint; the model's rows are cut here."""
    from compress.models.exits import copy_exits
    from compress.models.saving import save_model
    from compress.models.sentence_layout import copy_layout
    from compress.models.vocabulary import rename_ids, take_rows

    take_rows(model, list(new_ids))
    for settings in (model.config, getattr(model, "generation_config", None)):
        if settings is not None:
            rename_ids(settings, new_ids)
    save_model(model, directory)
    cut.write(directory, new_ids)
    copy_layout(source, directory)
    copy_exits(source, directory)


def command(config: TrimConfig) -> None:
    from compress.trimming.result import format_result

    print(format_result(trim(config)))


sys.modules[__name__].__class__ = StepModule

if __name__ == "__main__":
    from compress.settings import list_teachers

    sys.exit(
        main(
            TrimConfig,
            command,
            prog="python -m compress.trim",
            tables={"list-teachers": list_teachers},
        )
    )
