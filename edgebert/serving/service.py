"""A request's way: admitted, read, answered in a thread, or given up."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from edgebert.serving.batcher import Call
from edgebert.serving.endpoints import Endpoint, endpoint_of
from edgebert.serving.metrics import Metrics
from edgebert.serving.refusals import RefusalError, full, stopping
from edgebert.serving.runtime import ServedRuntime
from edgebert.serving.settings import ServeSettings

CLIENT_GONE = 499  # as web servers log it; nobody reads the response


class Service:
    """One bundle behind HTTP. All but `close` is called by the event loop's thread.

    Attributes:
        endpoint: The one of the bundle's task.
        metrics: What was counted.
        in_flight: Requests that are under way or wait.
        draining: Whether new requests are refused, so that the server can stop.
    """

    def __init__(self, runtime: ServedRuntime, settings: ServeSettings) -> None:
        """Begin to share the Runtime's batches.

        Raises:
            TaskError: The bundle's task can't be served.
        """
        self.runtime, self.settings = runtime, settings
        self.endpoint: Endpoint = endpoint_of(runtime.info.task)
        self.metrics = Metrics()
        self.in_flight = 0
        self.draining = False
        runtime.share_batches(max_tokens=settings.max_batch_tokens, on_batch=self.metrics.saw_batch)
        self._pool = ThreadPoolExecutor(settings.max_queue, thread_name_prefix="request")

    @property
    def ready(self) -> bool:
        """Whether a request would be answered."""
        return self.runtime.ready and not self.draining

    async def answer(self, request: Request) -> Response:
        """Answer a POST.

        Raises:
            RefusalError, EdgeBertError: See `Endpoint.reply`; or the body is too large or of
                another type, the queue is full, the server stops, or the time is over.
        """
        if self.draining:
            raise stopping()
        _check_type(request)
        if self.in_flight >= self.settings.max_queue:
            raise full(self.settings.max_queue)
        self.in_flight += 1
        try:
            return await self._admitted(request)
        except ClientDisconnect:
            return Response(status_code=CLIENT_GONE)
        finally:
            self.in_flight -= 1

    async def _admitted(self, request: Request) -> Response:
        seconds = self.settings.timeout_seconds
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        try:
            data = await asyncio.wait_for(self._body(request), seconds)
        except asyncio.TimeoutError as error:
            raise RefusalError(
                408, f"The body didn't come within {seconds:g} s.", code="timeout"
            ) from error
        call = Call()
        reply = partial(self.endpoint.reply, self.runtime, data, self.settings, self.metrics, call)
        work = loop.run_in_executor(self._pool, reply)
        gone = asyncio.ensure_future(request.receive())  # comes when the client hangs up
        try:
            either: set[asyncio.Future[Any]] = {work, gone}
            left = end - loop.time()
            await asyncio.wait(either, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hung_up = gone.done()
            gone.cancel()
            if not work.done():
                call.abandon()
                work.add_done_callback(_forget)
        if work.done():
            return Response(work.result(), media_type="application/json")
        if hung_up:
            return Response(status_code=CLIENT_GONE)
        raise RefusalError(
            504,
            f"No answer came within {seconds:g} s (--timeout-ms). Send fewer or shorter texts.",
            code="timeout",
        )

    async def _body(self, request: Request) -> bytes:
        most = self.settings.max_body_bytes
        told = request.headers.get("content-length", "")
        if told.isdecimal() and int(told) > most:
            raise _too_large(most)
        data = bytearray()
        async for chunk in request.stream():
            data += chunk
            if len(data) > most:
                raise _too_large(most)
        return bytes(data)

    def close(self) -> None:
        """Fail what waits, end the threads, and close the Runtime."""
        self.draining = True
        self.runtime.close()
        self._pool.shutdown(wait=False, cancel_futures=True)


def _check_type(request: Request) -> None:
    kind = request.headers.get("content-type", "")
    if kind.partition(";")[0].strip().lower() != "application/json":
        raise RefusalError(415, f"The Content-Type is {kind!r:.80}; it must be application/json.")
    coding = request.headers.get("content-encoding", "identity")
    if coding.strip().lower() != "identity":
        raise RefusalError(415, f"The Content-Encoding is {coding!r:.80}; send the body as it is.")


def _too_large(most: int) -> RefusalError:
    return RefusalError(
        413,
        f"The body has more than {most} bytes (--max-body-bytes). Send it in several requests.",
        code="body_too_large",
    )


def _forget(work: asyncio.Future[bytes]) -> None:
    """Look at a result that nobody waits for, or asyncio would warn of it."""
    with suppress(asyncio.CancelledError):
        work.exception()
