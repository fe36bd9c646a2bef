"""The loop of a command that gives each of its inputs one result."""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import edgebert
from edgebert.commands.arguments import open_runtime
from edgebert.commands.texts import CHUNK, chunked, counted_from

logger = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")


def each_result(
    args: argparse.Namespace,
    inputs: Iterable[T],
    call: Callable[[edgebert.Runtime, list[T]], Iterable[R]],
    *,
    done: str,
    size: int = CHUNK,
) -> Iterator[tuple[int, T, R]]:
    """Open the bundle and run the inputs through it, a chunk at a time.

    Args:
        args: Those of `add_runtime`.
        inputs: Read as they are needed.
        call: Gives one result for each input of a chunk.
        done: What is logged at the end of how many inputs and how many seconds.
        size: Inputs a chunk.

    Yields:
        The input's number, from 1; the input; its result.
    """
    count, start = 0, time.perf_counter()
    with open_runtime(args) as runtime:
        for chunk in chunked(inputs, size=size):
            with counted_from(count):
                results = call(runtime, chunk)
            for one, result in zip(chunk, results, strict=True):
                count += 1
                yield count, one, result
    logger.info(done, count, time.perf_counter() - start)
