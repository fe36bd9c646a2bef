"""Which keys a run has met."""

from __future__ import annotations

import hashlib

from edgebert.errors import DataError
from edgebert.features.local_sql import LocalSql
from edgebert.features.rows import Row

_AT_ONCE = 500  # values of one statement


class Seen:
    """Keys of this run, on disk where they get many."""

    def __init__(self) -> None:
        self._sql = LocalSql(None)
        self._sql.execute("CREATE TABLE seen (name BLOB PRIMARY KEY) WITHOUT ROWID")

    def add(self, rows: list[Row]) -> None:
        """Take rows.

        Raises:
            DataError: One has the key of another.
        """
        keys = [row.key for row in rows if row.key is not None]
        before = self.which(keys)
        for row in rows:
            if row.key in before:
                raise DataError(
                    f"{row.place} has the key {row.key!r:.200}, as another row before it; every "
                    "row needs its own. Say which column tells rows apart with --id-column, or "
                    "rename one of two files of the same name."
                )
            if row.key is not None:
                before.add(row.key)
        self._sql.execute_many("INSERT INTO seen VALUES (?)", [(_name(key),) for key in keys])

    def which(self, keys: list[str]) -> set[str]:
        """Give those that are there."""
        names = {_name(key): key for key in keys}
        listed, found = list(names), set[str]()
        for first in range(0, len(listed), _AT_ONCE):
            some = listed[first : first + _AT_ONCE]
            marks = ", ".join("?" * len(some))
            rows = self._sql.execute(f"SELECT name FROM seen WHERE name IN ({marks})", some)
            found.update(names[name] for (name,) in rows)
        return found

    def close(self) -> None:
        """Forget them."""
        self._sql.close()


def _name(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8")).digest()[:16]
