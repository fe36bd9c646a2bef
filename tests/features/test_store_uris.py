"""What names a store, and what may be printed of it."""

from __future__ import annotations

import pytest

from edgebert.errors import InputError
from edgebert.features.stores import STORES, open_store, shown_uri


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("sqlite:a@b:c.db", "sqlite:a@b:c.db"),
        ("postgresql://me@host/db?table=t", "postgresql://me@host/db?table=t"),
        ("postgresql://me:s3cret@host:5432/db", "postgresql://me:***@host:5432/db"),
        ("postgresql://me:s3/cr@t@host/db?table=t", "postgresql://me:***@host/db?table=t"),
        (
            "postgresql://host/db?password=s3cret&table=t",
            "postgresql://host/db?password=***&table=t",
        ),
        (
            "qdrant:http://host:6333/notes?api_key=s3cret",
            "qdrant:http://host:6333/notes?api_key=***",
        ),
    ],
)
def test_no_password_is_shown(uri, shown):
    assert shown_uri(uri) == shown


@pytest.mark.parametrize("uri", ["sqlite:", "oracle:x", "mysql://me:s3cret@host/db", ":x"])
def test_what_names_no_store_is_told_all_that_do(uri):
    with pytest.raises(InputError, match="names no store") as error:
        open_store(uri)
    assert all(kind in str(error.value) for kind in STORES)
    assert "s3cret" not in str(error.value)
