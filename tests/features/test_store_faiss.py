from __future__ import annotations

import pytest

from tests.features.store_contract import StoreContract


class TestFaiss(StoreContract):
    kind = "faiss"
