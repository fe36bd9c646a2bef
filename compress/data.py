"""Texts and labels of a run: train, dev and test from files, a hub data set or Reuters R8."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from compress.columns import Columns, LabelKind, Labels, Rows, choose_columns, read_rows
from compress.data_files import Table, read_table
from compress.hub_dataset import read_hub_dataset
from compress.reuters import read_reuters
from compress.settings import DataConfig
from compress.splits import class_keys, stratified_rows
from edgebert.errors import DataError

logger = logging.getLogger(__name__)

DEV_FRACTION = 0.1
DEV_FRACTION_TEXTS = 0.05

T = TypeVar("T")


@dataclass(frozen=True)
class Split:
    """One part of the data, as it is used.

    Attributes:
        name: ``train``, ``dev`` or ``test``.
        source: Where it came from: a path, a data set, or the split that it was cut from.
        texts: Never empty ones.
        text_pairs: Second texts of pairs, or None.
        labels: Names; for multi-label tuples of names; scores of a regression or of pairs; one tag
            a word, as a tuple; the true answers with where they start in the context, none for a
            question without one; the number of the right choice; or None.
        sha256: Of texts, pairs, labels, words and choices in their order.
        word_spans: Where each word of a text starts and ends, in characters; or None.
        choices: Texts to choose from; or None.
        ids: Name of each row in its file, as of a question; or None.
    """

    name: str
    source: str
    texts: list[str]
    text_pairs: list[str] | None
    labels: Labels | None
    sha256: str
    word_spans: list[list[tuple[int, int]]] | None = None
    choices: list[tuple[str, ...]] | None = None
    ids: list[str] | None = None

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True)
class TaskData:
    """What a step trains on, chooses by, and reports.

    Attributes:
        train: Training rows.
        dev: Rows to choose by, given or cut from train.
        test: Rows that are read once, at the end; or None.
        labels: Label names in the order of the logits: by number if all are integers, else by
            name. Empty for a task without labels.
        problem_type: Of a text-classification, else None.
    """

    train: Split
    dev: Split
    test: Split | None
    labels: tuple[str, ...]
    problem_type: str | None


def make_split(
    name: str,
    source: str,
    texts: list[str],
    *,
    text_pairs: list[str] | None = None,
    labels: Labels | None = None,
    word_spans: list[list[tuple[int, int]]] | None = None,
    choices: list[tuple[str, ...]] | None = None,
    ids: list[str] | None = None,
) -> Split:
    """Build a split of one's own data; its hash is computed here."""
    digest = hashlib.sha256()
    columns: list[Sequence[object]] = [texts]
    columns += [column or [None] * len(texts) for column in (text_pairs, labels)]
    columns += [column for column in (word_spans, choices) if column is not None]
    for row in zip(*columns, strict=True):
        digest.update(json.dumps(row, ensure_ascii=True).encode() + b"\n")
    return Split(
        name,
        source,
        texts,
        text_pairs,
        labels,
        digest.hexdigest(),
        word_spans=word_spans,
        choices=choices,
        ids=ids,
    )


def take(split: Split, rows: npt.NDArray[np.int64], *, name: str, source: str) -> Split:
    """Make a split of some rows of another, in the order of ``rows``, int64 ``[n]``."""
    chosen = rows.tolist()

    def of(column: list[T] | None) -> list[T] | None:
        return [column[row] for row in chosen] if column else None

    labels: list[Any] | None = split.labels
    return make_split(
        name,
        source,
        of(split.texts) or [],
        text_pairs=of(split.text_pairs),
        labels=of(labels),
        word_spans=of(split.word_spans),
        choices=of(split.choices),
        ids=of(split.ids),
    )


def label_order(names: set[str]) -> tuple[str, ...]:
    """Order label names: as numbers if all are integers, else as text."""
    if all(name.removeprefix("-").isdecimal() for name in names):
        return tuple(sorted(names, key=lambda name: (int(name), name)))
    return tuple(sorted(names))


def load_data(config: DataConfig, *, task: str, seed: int) -> TaskData:
    """Read and check the data of a run.

    For ``text-classification`` every split has labels (test may have none). For
    ``feature-extraction`` train is plain text (of pairs, both texts are rows of their own), and
    dev and test may be pairs with a score. For ``fill-mask`` all is plain text. Without a dev
    file a seeded part of train becomes dev: 10 %, class by class, or 5 % of plain text. Without
    any data it is Reuters R8.

    Args:
        config: Where the data is and which columns hold it.
        task: What the model is for.
        seed: Of the dev cut and of ``max_train_samples``.

    Raises:
        DataError: A file, a column or rows can't be used; rows are named by file and line.
    """
    tables = _read_tables(config)
    if task != "text-classification":
        data = _load_texts(tables, config, with_scores=task == "feature-extraction", seed=seed)
    else:
        data = _load_classes(tables, config, seed=seed)
    if config.max_train_samples is not None and config.max_train_samples < len(data.train):
        keys = class_keys(data.train.labels, len(data.train))
        rows = stratified_rows(keys, config.max_train_samples, seed=seed)
        logger.warning("Using %d of the %d train rows, as asked.", len(rows), len(data.train))
        source = f"{data.train.source} ({len(rows)} rows, seed {seed})"
        data = replace(data, train=take(data.train, rows, name="train", source=source))
    for split in (data.train, data.dev, data.test):
        if split is not None:
            logger.info("%s: %d rows of %s", split.name, len(split), split.source)
    return data


def load_split(
    config: DataConfig,
    source: Path | Table,
    *,
    task: str,
    labels: Sequence[str] = (),
    problem_type: str | None = None,
    name: str = "test",
) -> Split:
    """Read one file or table alone, for a model that is trained already.

    Args:
        config: Names the columns.
        source: The file, or a table that is read.
        task: What the model is for.
        labels: The model's; a row with another one is bad. Empty for a task without labels.
        problem_type: The model's, which says how a label is written.
        name: Of the split.

    Raises:
        DataError: The file, a column or rows can't be used.
    """
    table = source if isinstance(source, Table) else _read_file(config, source)
    if task == "text-classification":
        multi = problem_type == "multi_label_classification"
        kind: LabelKind = "classes" if multi else "class"
        rows = read_rows(table, _columns(table, config, kind=kind), kind=kind)
        rows.refuse_unknown_labels(set(labels))
        return _split(name, rows)
    return _text_split(table, config, name=name, with_scores=task == "feature-extraction")


def _read_tables(config: DataConfig) -> dict[str, Table]:
    if config.dataset is not None:
        tables = read_hub_dataset(config.dataset)
    elif config.train_file is None:
        logger.info("No data given: using the embedded Reuters R8.")
        return {split: read_reuters(split) for split in ("train", "test")}
    else:
        tables = {"train": _read_file(config, config.train_file)}
    for name, path in (("dev", config.dev_file), ("test", config.test_file)):
        if path is not None:
            tables[name] = _read_file(config, path)
    return tables


def _read_file(config: DataConfig, path: Path) -> Table:
    asked = (config.text_column, config.text_pair_column, config.label_column)
    return read_table(path, wanted=[name for name in asked if name is not None])


def _columns(
    table: Table, config: DataConfig, *, kind: LabelKind | None, label_optional: bool = False
) -> Columns:
    return choose_columns(
        table,
        text=config.text_column,
        text_pair=config.text_pair_column,
        label=config.label_column,
        kind=kind,
        label_optional=label_optional,
    )


def _split(name: str, rows: Rows) -> Split:
    return make_split(
        name, rows.bad.source, rows.texts, text_pairs=rows.text_pairs, labels=rows.labels
    )


def _load_classes(tables: dict[str, Table], config: DataConfig, *, seed: int) -> TaskData:
    multi = config.problem_type == "multi_label_classification"
    kind: LabelKind = "classes" if multi else "class"
    train = read_rows(tables["train"], _columns(tables["train"], config, kind=kind), kind=kind)
    names = {name for label in train.labels or [] for name in _names(label)}
    if len(names) < 2:
        raise DataError(
            f"{train.bad.source} has {len(names)} distinct labels ({', '.join(names)}); "
            "a classifier needs 2 or more. Check --label-column."
        )
    splits: dict[str, Split] = {"train": _split("train", train)}
    for name in ("dev", "test"):
        if name not in tables:
            continue
        columns = _columns(tables[name], config, kind=kind, label_optional=name == "test")
        rows = read_rows(tables[name], columns, kind=kind)
        if rows.labels is None:
            logger.warning("%s has no labels, so there is no test score.", rows.bad.source)
        rows.refuse_unknown_labels(names)
        if (rows.text_pairs is None) != (train.text_pairs is None):
            raise DataError(
                f"One of {train.bad.source} and {rows.bad.source} has pairs of texts, the other "
                "single ones; say which columns with --text-column and --text-pair-column."
            )
        splits[name] = _split(name, rows)
    if "dev" not in splits:
        splits["train"], splits["dev"] = _cut_dev(splits["train"], DEV_FRACTION, seed=seed)
    return TaskData(
        splits["train"],
        splits["dev"],
        splits.get("test"),
        label_order(names),
        config.problem_type,
    )


def _names(label: object) -> tuple[str, ...]:
    return label if isinstance(label, tuple) else (str(label),)


def _load_texts(
    tables: dict[str, Table], config: DataConfig, *, with_scores: bool, seed: int
) -> TaskData:
    splits = {
        name: _text_split(table, config, name=name, with_scores=with_scores and name != "train")
        for name, table in tables.items()
    }
    if "dev" not in splits:
        splits["train"], splits["dev"] = _cut_dev(splits["train"], DEV_FRACTION_TEXTS, seed=seed)
    return TaskData(splits["train"], splits["dev"], splits.get("test"), (), None)


def _text_split(table: Table, config: DataConfig, *, name: str, with_scores: bool) -> Split:
    kind: LabelKind | None = "score" if with_scores else None
    optional = table.plain or config.label_column is None
    columns = _columns(table, config, kind=kind, label_optional=optional)
    if columns.text_pair is None or columns.label is None:
        kind = None
    split = _split(name, read_rows(table, columns, kind=kind))
    return split if kind is not None else _plain(split)


def _plain(split: Split) -> Split:
    """Make both texts of each pair a row of its own."""
    if split.text_pairs is None:
        return split
    texts = [text for pair in zip(split.texts, split.text_pairs, strict=True) for text in pair]
    logger.info("%s: %d pairs give %d texts.", split.source, len(split), len(texts))
    return make_split(split.name, split.source, texts)


def _cut_dev(train: Split, fraction: float, *, seed: int) -> tuple[Split, Split]:
    keys = class_keys(train.labels, len(train))
    count = max(1, round(len(train) * fraction))
    rows = stratified_rows(keys, count, seed=seed, leave_one=True)
    if not len(rows):
        raise DataError(
            f"{train.source} has too few rows ({len(train)}) to cut a dev part; give --dev-file."
        )
    rest = np.setdiff1d(np.arange(len(train)), rows)
    logger.info("No dev file: %d of %d train rows become dev.", len(rows), len(train))
    part = f"seed {seed}, cut from {train.source}"
    return (
        take(train, rest, name="train", source=f"{train.source} (without dev)"),
        take(train, rows, name="dev", source=f"{fraction:.0%}, {part}"),
    )
