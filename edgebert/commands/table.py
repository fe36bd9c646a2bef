"""Plain tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Align columns: the first to the left, numbers (and dashes) to the right."""
    table = [list(header), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    right = [_is_numeric([row[i] for row in rows]) for i in range(len(header))]
    lines = []
    for row in table:
        cells = (
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(row, widths, right, strict=True)
        )
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def megabytes(size_bytes: int) -> str:
    """Show a size as ``12.3 MB``, of a million bytes each."""
    return f"{size_bytes / 1e6:.1f} MB"


def _is_numeric(cells: Sequence[str]) -> bool:
    return bool(cells) and all(cell == "-" or cell[:1].isdigit() for cell in cells)
