"""Workers as actors of Ray."""

from __future__ import annotations

import os
import signal
from typing import ClassVar

import pytest

from edgebert.features import Engine
from tests.features.scale_contract import ScaleContract

ray = pytest.importorskip("ray")

pytestmark = pytest.mark.stores


@pytest.fixture(scope="module")
def cluster():
    """A Ray of this process, which extraction finds and leaves alone."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    before = signal.getsignal(signal.SIGTERM)
    ray.init(
        "local",
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=80 << 20,
        log_to_driver=False,
        logging_level="ERROR",
    )
    yield
    ray.shutdown()
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("cluster")
class TestRay(ScaleContract):
    how: ClassVar = {"scale": "ray", "workers": 2, "engine": Engine(threads=1)}
