"""An answer that is an error, in the shape of OpenAI's API."""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.responses import Response

RETRY_SECONDS = 1  # what a full queue of short texts takes, and OpenAI's client at the least waits


class RefusalError(Exception):
    """A request gets this status and message instead of a result.

    Attributes:
        status: Of HTTP, 400 to 599.
        param: The field of the request that is wrong, if it is one.
        code: A word for programs.
        headers: Of the response.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code
        self.headers = dict(headers or {})

    def response(self) -> Response:
        """Give it as OpenAI's clients read it."""
        kind = "invalid_request_error"
        if self.status == 429:
            kind = "rate_limit_error"
        elif self.status >= 500:
            kind = "server_error"
        error = {"message": str(self), "type": kind, "param": self.param, "code": self.code}
        return Response(
            json.dumps({"error": error}, ensure_ascii=False),
            status_code=self.status,
            headers=self.headers,
            media_type="application/json",
        )


def wrong(param: str, message: str) -> RefusalError:
    """Make the 400 of a field."""
    return RefusalError(400, f"{param} {message}", param=param, code="invalid_value")


def full(most: int) -> RefusalError:
    """Make the 429 of a full queue."""
    return RefusalError(
        429,
        f"{most} requests are under way or wait already (--max-queue). Try again later.",
        code="queue_full",
        headers={"retry-after": str(RETRY_SECONDS)},
    )


def stopping() -> RefusalError:
    """Make the 503 of a server that finishes what it has."""
    return RefusalError(
        503,
        "The server is stopping and takes no new requests. Try again later.",
        code="stopping",
        headers={"retry-after": str(RETRY_SECONDS), "connection": "close"},
    )


def failed(request_id: str) -> RefusalError:
    """Make the 500 of a failure of ours; only the log says which files and engine it was."""
    return RefusalError(
        500,
        f"The server failed on this request; its log says why, under the request id {request_id}.",
        code="internal_error",
    )
