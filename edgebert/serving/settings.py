"""What a server holds to."""

from __future__ import annotations

from dataclasses import dataclass

from edgebert.engines.batching import MAX_TOKENS
from edgebert.errors import InputError
from edgebert.formats.strict_json import MAX_BYTES
from edgebert.inputs import ON_LONG, check_choice, check_count

_MOST_QUEUE = 1024  # each request under way has a thread, which waits most of the time


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """Limits and names of a server.

    Attributes:
        model: The one name that requests may ask for.
        api_keys: Any of them opens ``/v1``; none leaves it open to all.
        max_batch_tokens: Most tokens that are taken for the engine at once; a text that is longer
            is taken alone.
        max_queue: Most requests that are under way or wait; the next one gets a 429.
        max_body_bytes: Most bytes of a request.
        max_inputs: Most texts of a request, as many as OpenAI allows.
        timeout_ms: After so long a request gets a 504; a stop waits as long for what is under way.
        on_long: What becomes of a text too long where a request doesn't say; None for the bundle's.
    """

    model: str
    api_keys: tuple[str, ...] = ()
    max_batch_tokens: int = MAX_TOKENS
    max_queue: int = 256
    max_body_bytes: int = 4 << 20
    max_inputs: int = 2048
    timeout_ms: int = 30_000
    on_long: str | None = None

    def __post_init__(self) -> None:
        if not self.model:
            raise InputError("model is empty; give the name that requests ask for.")
        if not all(self.api_keys):
            raise InputError("An API key is empty; give one of a character or more.")
        check_count("max_batch_tokens", self.max_batch_tokens)
        check_count("max_queue", self.max_queue, most=_MOST_QUEUE)
        check_count("max_body_bytes", self.max_body_bytes, most=MAX_BYTES)
        check_count("max_inputs", self.max_inputs)
        check_count("timeout_ms", self.timeout_ms)
        if self.on_long is not None:
            check_choice("on_long", self.on_long, ON_LONG)

    @property
    def timeout_seconds(self) -> float:
        """``timeout_ms`` as Python's clocks count."""
        return self.timeout_ms / 1000
