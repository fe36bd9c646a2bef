"""Texts and labels of a run: train, dev and test from files, a hub data set or Reuters R8."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from compress.data.columns import LabelKind, read_rows
from compress.data.files import Table, read_table
from compress.data.hub_dataset import read_hub_dataset
from compress.data.labelled import columns_of, labelled_split, split_of
from compress.data.reuters import read_reuters
from compress.data.splits import class_keys, grouped_rows, stratified_rows
from compress.data.task_data import Split as Split
from compress.data.task_data import TaskData as TaskData
from compress.data.task_data import label_order as label_order
from compress.data.task_data import make_split as make_split
from compress.data.task_data import take as take
from compress.settings import DataConfig
from edgebert.errors import DataError

logger = logging.getLogger(__name__)

DEV_FRACTION = 0.1
DEV_FRACTION_TEXTS = 0.05
PLAIN_TASKS = ("feature-extraction", "fill-mask")  # train on texts without labels


def load_data(config: DataConfig, *, task: str, seed: int, score_train: bool = False) -> TaskData:
    """Read and check the data of a run.

    For a task with a head every split has labels (test may have none). For
    ``feature-extraction`` train is plain text (of pairs, both texts are rows of their own), and
    dev and test may be pairs with a score. For ``fill-mask`` all is plain text. Without a dev
    file a seeded part of train becomes dev: 10 %, class by class, of questions with all that have
    the same context; or 5 % of plain text. Without any data it is Reuters R8, which has classes.

    Args:
        config: Where the data is and which columns hold it.
        task: What the model is for.
        seed: Of the dev cut and of ``max_train_samples``.
        score_train: Whether pairs with a score stay pairs in train too, for ``feature-extraction``.

    Raises:
        DataError: A file, a column or rows can't be used; rows are named by file and line.
    """
    tables = _read_tables(config, task)
    if task in PLAIN_TASKS:
        parts = set(tables) if score_train else set(tables) - {"train"}
        scored = parts if task == "feature-extraction" else set()
        data = _load_texts(tables, config, scored=scored, seed=seed)
    elif task == "text-classification":
        data = _load_classes(tables, config, seed=seed)
    else:
        data = _load_labelled(tables, config, task=task, seed=seed)
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
    table = source if isinstance(source, Table) else _read_file(config, source, task)
    if task not in (*PLAIN_TASKS, "text-classification"):
        return labelled_split(table, config, task=task, name=name, known=labels or None)
    if task == "text-classification":
        multi = problem_type == "multi_label_classification"
        kind: LabelKind = "classes" if multi else "class"
        rows = read_rows(table, columns_of(table, config, kind=kind), kind=kind)
        rows.refuse_unknown_labels(set(labels))
        return split_of(name, rows)
    return _text_split(table, config, name=name, with_scores=task == "feature-extraction")


def _read_tables(config: DataConfig, task: str) -> dict[str, Table]:
    if config.dataset is not None:
        tables = read_hub_dataset(config.dataset)
    elif config.train_file is None:
        if task not in (*PLAIN_TASKS, "text-classification"):
            raise DataError(
                f"The embedded data, Reuters R8, has nothing to train {task} on; give --train-file "
                "or --dataset."
            )
        logger.info("No data given: using the embedded Reuters R8.")
        return {split: read_reuters(split) for split in ("train", "test")}
    else:
        tables = {"train": _read_file(config, config.train_file, task)}
    for name, path in (("dev", config.dev_file), ("test", config.test_file)):
        if path is not None:
            tables[name] = _read_file(config, path, task)
    return tables


def _read_file(config: DataConfig, path: Path, task: str) -> Table:
    asked = (config.text_column, config.text_pair_column, config.label_column)
    wanted = [name for name in asked if name is not None]
    return read_table(path, wanted=wanted, tagged=task == "token-classification")


def _load_classes(tables: dict[str, Table], config: DataConfig, *, seed: int) -> TaskData:
    multi = config.problem_type == "multi_label_classification"
    kind: LabelKind = "classes" if multi else "class"
    train = read_rows(tables["train"], columns_of(tables["train"], config, kind=kind), kind=kind)
    names = {name for label in train.labels or [] for name in _names(label)}
    if len(names) < 2:
        raise DataError(
            f"{train.bad.source} has {len(names)} distinct labels ({', '.join(names)}); "
            "a classifier needs 2 or more. Check --label-column."
        )
    splits: dict[str, Split] = {"train": split_of("train", train)}
    for name in ("dev", "test"):
        if name not in tables:
            continue
        columns = columns_of(tables[name], config, kind=kind, label_optional=name == "test")
        rows = read_rows(tables[name], columns, kind=kind)
        if rows.labels is None:
            logger.warning("%s has no labels, so there is no test score.", rows.bad.source)
        rows.refuse_unknown_labels(names)
        splits[name] = split_of(name, rows)
    _refuse_mixed_pairs(list(splits.values()))
    if "dev" not in splits:
        splits["train"], splits["dev"] = _cut_dev(splits["train"], DEV_FRACTION, seed=seed)
    return TaskData(
        splits["train"],
        splits["dev"],
        splits.get("test"),
        label_order(names),
        config.problem_type,
    )


def _load_labelled(
    tables: dict[str, Table], config: DataConfig, *, task: str, seed: int
) -> TaskData:
    """Load scores, tags, answers or choices."""
    train = labelled_split(tables["train"], config, task=task, name="train")
    splits = {"train": train}
    names: set[str] = set()
    if task == "token-classification":
        names = {tag for tags in train.labels or [] for tag in _names(tags)}
        if len(names) < 2:
            raise DataError(f"{train.source} has no two tags, so there is nothing to learn.")
    for name in ("dev", "test"):
        if name in tables:
            splits[name] = labelled_split(
                tables[name],
                config,
                task=task,
                name=name,
                known=names or None,
                label_optional=name == "test",
            )
            if splits[name].labels is None:
                logger.warning("%s has no labels, so there is no %s score.", name, name)
    if "dev" not in splits:
        contexts = train.text_pairs if task == "question-answering" else None
        splits["train"], splits["dev"] = _cut_dev(train, DEV_FRACTION, seed=seed, groups=contexts)
    _refuse_mixed_pairs(list(splits.values()))
    return TaskData(splits["train"], splits["dev"], splits.get("test"), label_order(names), None)


def _refuse_mixed_pairs(splits: list[Split]) -> None:
    for split in splits[1:]:
        if (split.text_pairs is None) != (splits[0].text_pairs is None):
            raise DataError(
                f"One of {splits[0].source} and {split.source} has pairs of texts, the other "
                "single ones; say which columns with --text-column and --text-pair-column."
            )


def _names(label: object) -> tuple[str, ...]:
    return label if isinstance(label, tuple) else (str(label),)


def _load_texts(
    tables: dict[str, Table], config: DataConfig, *, scored: set[str], seed: int
) -> TaskData:
    splits = {
        name: _text_split(table, config, name=name, with_scores=name in scored)
        for name, table in tables.items()
    }
    if "dev" not in splits:
        splits["train"], splits["dev"] = _cut_dev(splits["train"], DEV_FRACTION_TEXTS, seed=seed)
    return TaskData(splits["train"], splits["dev"], splits.get("test"), (), None)


def _text_split(table: Table, config: DataConfig, *, name: str, with_scores: bool) -> Split:
    kind: LabelKind | None = "score" if with_scores else None
    optional = table.plain or config.label_column is None
    columns = columns_of(table, config, kind=kind, label_optional=optional)
    if columns.text_pair is None or columns.label is None:
        kind = None
    split = split_of(name, read_rows(table, columns, kind=kind))
    return split if kind is not None else _plain(split)


def _plain(split: Split) -> Split:
    """Make both texts of each pair a row of its own."""
    if split.text_pairs is None:
        return split
    texts = [text for pair in zip(split.texts, split.text_pairs, strict=True) for text in pair]
    logger.info("%s: %d pairs give %d texts.", split.source, len(split), len(texts))
    return make_split(split.name, split.source, texts)


def _cut_dev(
    train: Split, fraction: float, *, seed: int, groups: list[str] | None = None
) -> tuple[Split, Split]:
    """Take a part of train away as dev; rows of one group stay together."""
    count = max(1, round(len(train) * fraction))
    if groups is not None:
        rows = grouped_rows(groups, count, seed=seed)
    else:
        keys = class_keys(train.labels, len(train))
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
