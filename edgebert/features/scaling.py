"""Where rows are embedded: in this process, in workers on this machine, or on Ray."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from edgebert.errors import InputError
from edgebert.features.chain import Chain, Embedder
from edgebert.features.job import Job
from edgebert.features.model import Model
from edgebert.features.processes import ProcessWorker, bounded, check_script
from edgebert.features.ray_workers import ray_team
from edgebert.features.settings import Engine
from edgebert.features.summary import Clock
from edgebert.features.team import Team
from edgebert.inputs import check_choice
from edgebert.runtime import Runtime

logger = logging.getLogger(__name__)

SCALES = ("ray",)
MOST_WORKERS = 1024

E = TypeVar("E", bound=Embedder)


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Who embeds.

    Attributes:
        workers: How many; 0 for as many as there is room for; None for this process alone, or on
            Ray for as many as it has CPUs.
        on: One of `SCALES`; None for this machine.
        ray_address: Of a running Ray, ``auto`` or ``host:port``; None begins one here.
    """

    workers: int | None = None
    on: str | None = None
    ray_address: str | None = None

    def __post_init__(self) -> None:
        count = self.workers
        if count is not None and (
            isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MOST_WORKERS
        ):
            raise InputError(
                f"workers is {count!r}; it must be a whole number from 0 to {MOST_WORKERS}."
            )
        if self.on is not None:
            check_choice("scale", self.on, SCALES)
        elif self.ray_address is not None:
            raise InputError(f"ray_address is {self.ray_address!r}; it needs scale='ray'.")

    def check(self, bundle: object) -> None:
        """Make sure that a bundle can be opened elsewhere, where it has to.

        Raises:
            InputError: It is open here, or worker processes can't read the script.
        """
        check_script(workers=self.on is None and self.workers not in (None, 1))
        if isinstance(bundle, Runtime) and (self.on or self.workers not in (None, 1)):
            raise InputError(
                "bundle is a Runtime, which belongs to this process; for workers give its path."
            )


@contextmanager
def embedding(
    scale: Scale,
    bundle: str | Path | Runtime,
    runtime: Runtime,
    model: Model,
    clock: Clock,
    engine: Engine | None,
) -> Iterator[Embedder]:
    """Begin who embeds, and end it.

    Args:
        scale: Who that is.
        bundle: As it was given; where it's a Runtime, there are no workers.
        runtime: Of the bundle; it's closed where workers have their own.
        model: Of the runtime.
        clock: Counts the seconds of each stage.
        engine: How the bundle was to be opened.
    """
    asked, info, local = engine or Engine(), runtime.info, scale.on is None
    count, threads = scale.workers or 0, asked.threads or 1
    if local:
        wanted = 1 if scale.workers is None else scale.workers
        count, threads = bounded(wanted, size_bytes=info.size_bytes, threads=info.threads)
    if isinstance(bundle, Runtime) or (local and count == 1):
        with ending(Chain(model, clock)) as chain:
            yield chain
        return
    opened = replace(
        asked,
        backend=info.backend,
        precision=info.precision,
        max_length=info.max_length,
        threads=threads,
        fallback=False,
    )
    job = Job(Path(bundle).absolute(), opened, model.identity)
    runtime.close()  # each worker has its own
    if local:
        logger.info("%d worker processes of %d threads each", count, threads)
        with ending(Team(partial(ProcessWorker, job), clock, count=count)) as team:
            yield team
        return
    with ray_team(job, clock, address=scale.ray_address, count=count) as team:
        yield team


@contextmanager
def ending(embedder: E) -> Iterator[E]:
    """Stop an embedder at the end."""
    try:
        yield embedder
    finally:
        embedder.stop()
