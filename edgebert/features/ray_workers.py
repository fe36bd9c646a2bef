"""Workers as actors of Ray, on one machine or many; each opens the bundle once.

Plain actors, not Ray Data: there a block that ran is no block that is stored, and what a retry or a
restart runs again can't be seen from outside, so a journal of rows could not be exact. Here the
process that called cuts the blocks, hands each to an actor, and alone writes store and journal.
Ray places the actors, and tells when one has died.

Every machine needs edgebert, and the bundle at the same path; a worker that finds another one there
ends the run. Bits of vectors are those of one process on the same kind of processor.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from edgebert.cpu import default_threads
from edgebert.errors import EdgeBertError, InputError, PackageMissingError
from edgebert.features.job import Answer, Job, answer
from edgebert.features.model import Embedded, Model
from edgebert.features.rows import Row
from edgebert.features.summary import Clock
from edgebert.features.team import Team, WorkerDiedError

logger = logging.getLogger(__name__)

_PATIENCE_SECONDS = 60.0
_STORE_BYTES = 256 << 20  # shared memory of a Ray of ours; blocks under way need some MB each


@contextmanager
def ray_team(job: Job, clock: Clock, *, address: str | None, count: int) -> Iterator[Team]:
    """Begin workers on Ray; at the end they end, and so does a Ray that was begun for them.

    Args:
        job: What each opens.
        clock: Counts the seconds of each stage, of all workers together.
        address: Of a running Ray: ``auto`` or ``host:port``; None for the one that this process
            has, or else begins on this machine.
        count: How many workers; 0 for all CPUs that Ray has.

    Raises:
        PackageMissingError: Ray isn't installed.
        InputError: There is no Ray at this address, or one without a CPU.
    """
    threads = job.engine.threads or 1
    with _connected(address, cpus=count * threads or default_threads()) as ray:
        cpus = int(ray.cluster_resources().get("CPU", 0))
        if cpus < threads:
            raise InputError(
                f"Ray has {cpus} CPUs, and a worker takes {threads}; take fewer --threads, or "
                "another --ray-address."
            )
        count = count or cpus // threads
        if count * threads > cpus:
            logger.warning("Ray has %d CPUs now; some of %d workers wait for more", cpus, count)
        logger.info("%d workers of %d threads on Ray", count, threads)
        team = Team(partial(RayWorker, job), clock, count=count)
        try:
            yield team
        finally:
            team.stop()


class Actor:
    """What runs in a process of Ray's."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._model: Model | None = None

    def open(self) -> Answer | None:
        """Open the bundle; give what went wrong."""
        logging.getLogger("edgebert").setLevel(logging.ERROR)  # the caller has told the rest
        try:
            self._model = self._job.open()
        except EdgeBertError as error:
            return Answer.of(error)
        return None

    def embed(self, rows: list[Row]) -> Answer:
        """Run a block."""
        assert self._model is not None
        return answer(self._model, rows)


class RayWorker:
    """One actor; see `edgebert.features.team.Remote`."""

    def __init__(self, job: Job) -> None:
        """Begin it, wherever Ray has room."""
        ray = _ray()
        kind = ray.remote(num_cpus=job.engine.threads, max_restarts=0, max_task_retries=0)(Actor)
        self._actor = kind.remote(job)

    def open(self) -> None:
        """See `Remote`."""
        ready = self._actor.open.remote()
        if not _ray().wait([ready], timeout=_PATIENCE_SECONDS)[0]:
            logger.warning("A worker isn't ready yet; it may wait for a free CPU of Ray's")
        if failure := self._wait(ready):
            failure.unpack()

    def embed(self, rows: list[Row]) -> tuple[Embedded, Mapping[str, float]]:
        """See `Remote`."""
        found: Answer = self._wait(self._actor.embed.remote(rows))
        return found.unpack()

    def stop(self) -> None:
        """See `Remote`."""
        ray = _ray()
        with suppress(ray.exceptions.RayError, RuntimeError, ValueError):  # it's gone, or Ray is
            ray.kill(self._actor)

    def _wait(self, reference: Any) -> Any:  # what an actor gives has no type here
        ray = _ray()
        try:
            return ray.get(reference)
        except ray.exceptions.RayError as error:
            self.stop()  # it may be out of reach alone
            raise WorkerDiedError(_reason(error)) from error


def _reason(error: Exception) -> str:
    """Give the line of Ray's message that tells most."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if line.startswith("The actor is dead")]
    line = (told or lines[-1:] or [type(error).__name__])[0]
    return line.partition(" Some common causes")[0][:300]


@contextmanager
def _connected(address: str | None, *, cpus: int) -> Iterator[Any]:
    """Give Ray, connected; at the end disconnect from what wasn't there before."""
    ray = _ray()
    if ray.is_initialized():
        if address is not None:
            raise InputError(
                f"This process has a Ray already, so leave --ray-address {address} out."
            )
        yield ray
        return
    _connect(ray, address, cpus=cpus)
    try:
        yield ray
    finally:
        with _own_handlers():
            ray.shutdown()


def _connect(ray: Any, address: str | None, *, cpus: int) -> None:
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    with _own_handlers():
        if address is None:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would tell its makers
            ray.init(
                "local",
                num_cpus=cpus,
                include_dashboard=False,
                object_store_memory=_STORE_BYTES,
                **quiet,
            )
            return
        try:
            ray.init(address, **quiet)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise InputError(
                f"There is no Ray at --ray-address {address} ({error!s:.200}); begin one with "
                "`ray start --head`, or leave it out for one on this machine."
            ) from error


@contextmanager
def _own_handlers() -> Iterator[None]:
    """Keep what SIGTERM does: Ray would set a handler of its own, which ends a process at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _ray() -> Any:  # its types aren't needed to check ours
    try:
        import ray
    except ImportError as error:
        raise PackageMissingError(
            "Ray isn't installed. Install it with: pip install 'edgebert[scale]'"
        ) from error
    return ray
