"""Parquet files as rows, a few at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from edgebert.errors import DataError, PackageMissingError
from edgebert.features.rows import Columns


def parquet_batches(
    path: Path, columns: Columns, choose: Callable[[list[str]], str], size: int
) -> Iterator[tuple[str, float, Iterator[dict[str, object]]]]:
    """Read the wanted columns of a file.

    Args:
        path: The file.
        columns: Those that were asked for.
        choose: Gives the column of the texts, of the names of all.
        size: Rows that are read at once.

    Yields:
        The column of the texts; the part of the rows that was read before, 0 to 1; the cells by
        name of each row.

    Raises:
        PackageMissingError: pyarrow isn't installed.
        DataError: The file is damaged.
    """
    try:
        import pyarrow  # type: ignore[import-untyped]
        import pyarrow.parquet  # type: ignore[import-untyped]
    except ImportError as error:
        raise PackageMissingError(
            f"{path} needs the package 'pyarrow', which is not installed. "
            "Install it with: pip install 'edgebert[features]'"
        ) from error
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            text_column = choose(list(file.schema_arrow.names))
            wanted = list(dict.fromkeys([text_column, *columns.asked]))
            total, done = max(1, file.metadata.num_rows), 0
            for batch in file.iter_batches(batch_size=size, columns=wanted):
                yield text_column, done / total, _records(batch, wanted)
                done += batch.num_rows
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{path} is damaged or not Parquet ({error}).") from error


def _records(batch: Any, names: list[str]) -> Iterator[dict[str, object]]:
    cells = [_cells(batch.column(name)) for name in names]
    for values in zip(*cells, strict=True):
        yield dict(zip(names, values, strict=True))


def _cells(column: Any) -> list[object]:
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:  # one of them isn't UTF-8, which a file may hold all the same
        return [_cell(value) for value in column]


def _cell(value: Any) -> object:
    try:
        return value.as_py()
    except UnicodeDecodeError:
        return value.as_buffer().to_pybytes().decode("utf-8", "surrogateescape")
