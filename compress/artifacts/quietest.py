"""Times of artifacts on a machine that may be busy: by turns, in the quietest of a few rounds."""

from __future__ import annotations

from collections.abc import Mapping

from compress.artifacts.timing import QUIET_SHARE, core_share, one_text_latency
from edgebert.types import IntArray
from runtimes.base import Backend

ROUNDS = 4  # on a busy machine; on a quiet one the first will do
SHARE_SECONDS = 0.05


def quietest_latency(
    backends: Mapping[str, Backend],
    *,
    tokens: IntArray,
    max_length: int,
    threads: int,
    repeats: int,
) -> tuple[dict[str, float], float]:
    """Time one text of 32 tokens by turns on each engine, until a round has been quiet.

    Others on the machine can only make a call longer, so of several medians the least is the
    nearest to what the artifact takes.

    Args:
        backends: Opened artifacts by name.
        tokens: Real token ids, int64 ``[n]``.
        max_length: A text is no longer.
        threads: Of the engines.
        repeats: Calls of each in a round.

    Returns:
        Milliseconds by name, and the part of a core that each thread got in the quietest round.
    """
    best: dict[str, float] = {}
    quietest = 0.0
    for _ in range(ROUNDS):
        share = core_share(threads, seconds=SHARE_SECONDS)
        times = one_text_latency(backends, tokens=tokens, max_length=max_length, repeats=repeats)
        share = min(share, core_share(threads, seconds=SHARE_SECONDS))
        best = {name: min(value, best.get(name, value)) for name, value in times.items()}
        quietest = max(quietest, share)
        if quietest >= QUIET_SHARE:
            break
    return best, quietest
