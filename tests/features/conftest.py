"""Contracts are plain modules that test files inherit from; their asserts shall tell as much."""

from __future__ import annotations

import pytest

for part in ("place", "search", "store", "table"):
    pytest.register_assert_rewrite(f"tests.features.{part}_contract")
