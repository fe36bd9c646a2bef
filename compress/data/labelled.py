"""One file's rows as a split, by what the task reads in them."""

from __future__ import annotations

from collections.abc import Collection

from compress.data.answered import answered_split
from compress.data.cells import Table
from compress.data.choices import choices_split
from compress.data.columns import Columns, LabelKind, Rows, choose_columns, read_rows
from compress.data.tagged import tagged_split
from compress.data.task_data import Split, make_split
from compress.settings import DataConfig


def labelled_split(
    table: Table,
    config: DataConfig,
    *,
    task: str,
    name: str,
    known: Collection[str] | None = None,
    label_optional: bool = False,
) -> Split:
    """Read scores, tags, answers or choices with their texts.

    Args:
        table: The file.
        config: Names the columns.
        task: ``regression``, ``token-classification``, ``question-answering`` or
            ``multiple-choice``.
        name: Of the split.
        known: The tags that are allowed; None for all.
        label_optional: Whether a file without labels is fine.

    Raises:
        DataError: A column is missing, or rows are bad; all are named.
    """
    text, pair, label = config.text_column, config.text_pair_column, config.label_column
    if task == "token-classification":
        return tagged_split(
            table, name=name, tokens=text, tags=label, tags_optional=label_optional, known=known
        )
    if task == "question-answering":
        return answered_split(
            table,
            name=name,
            question=text,
            context=pair,
            answers=label,
            answers_optional=label_optional,
        )
    if task == "multiple-choice":
        return choices_split(
            table, name=name, prompt=text, choices=pair, right=label, right_optional=label_optional
        )
    columns = columns_of(table, config, kind="score", label_optional=label_optional)
    return split_of(name, read_rows(table, columns, kind="score"))


def columns_of(
    table: Table, config: DataConfig, *, kind: LabelKind | None, label_optional: bool = False
) -> Columns:
    """Pick the columns that the settings ask for; see `choose_columns`."""
    return choose_columns(
        table,
        text=config.text_column,
        text_pair=config.text_pair_column,
        label=config.label_column,
        kind=kind,
        label_optional=label_optional,
    )


def split_of(name: str, rows: Rows) -> Split:
    """Make a split of checked rows."""
    return make_split(
        name, rows.bad.source, rows.texts, text_pairs=rows.text_pairs, labels=rows.labels
    )
