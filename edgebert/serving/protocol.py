"""HTTP on a connection: who sends no request, or a very long header, doesn't hold it."""

from __future__ import annotations

import asyncio
import sys

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from edgebert.serving.refusals import RefusalError

HEADER_BYTES = 64 << 10  # of a request's line and its headers
HEADER_SECONDS = 10.0  # until they are there, from the connection or from their first byte
_MAY_ANSWER = (h11.IDLE, h11.SEND_RESPONSE)


class BoundedProtocol(H11Protocol):
    """Closes a connection whose next request isn't there in time; what is under way is left alone.

    That is all the time but from a whole header to the end of the response, for which the service
    has its own limit, and the pause after a response, which has uvicorn's.
    """

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take bytes; with those of a request that isn't whole, time goes on."""
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._wait()
        else:
            self._wait_no_more()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._wait_no_more()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, and a header that is too long."""
        error = sys.exc_info()[1]
        if isinstance(error, h11.RemoteProtocolError) and error.error_status_hint == 431:
            msg = f"The request's line and headers have more than {HEADER_BYTES} bytes."
            self._refuse(RefusalError(431, msg, code="headers_too_large"))
        else:
            self._refuse(RefusalError(400, msg, code="invalid_http"))

    def _wait(self) -> None:
        if self._timer is None and not self.transport.is_closing():
            self._timer = self.loop.call_later(HEADER_SECONDS, self._late)

    def _wait_no_more(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def _late(self) -> None:
        if not self.conn.trailing_data[0]:  # nothing of a header
            self.transport.close()
            return
        message = f"The request's headers were not there within {HEADER_SECONDS:g} seconds."
        self._refuse(RefusalError(408, message, code="headers_too_slow"))

    def _refuse(self, refusal: RefusalError) -> None:
        """Answer in the shape of all errors, if a response isn't begun, and close."""
        if self.conn.our_state in _MAY_ANSWER:
            found = refusal.response()
            headers = [*found.raw_headers, (b"connection", b"close")]
            for event in (
                h11.Response(status_code=refusal.status, headers=headers),
                h11.Data(data=bytes(found.body)),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
