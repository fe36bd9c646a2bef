"""The server's process: its socket, its signals, its end."""

from __future__ import annotations

import math
import os
import signal
import socket
import time
from collections.abc import Callable
from types import FrameType

import uvicorn

from edgebert.errors import InputError
from edgebert.serving.app import make_app
from edgebert.serving.protocol import HEADER_BYTES, BoundedProtocol
from edgebert.serving.service import Service

_SEND_SECONDS = 5  # for the last responses, once they are made


class Server(uvicorn.Server):
    """Ends in two steps: first new requests get 503 while those under way are finished.

    Attributes:
        stopped_by: The signal that ended it, or None.
    """

    def __init__(self, service: Service, *, on_start: Callable[[], object]) -> None:
        """Make it; ``on_start`` is called once requests are taken."""
        super().__init__(
            uvicorn.Config(
                make_app(service),
                http=BoundedProtocol,
                h11_max_incomplete_event_size=HEADER_BYTES,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=_SEND_SECONDS,
            )
        )
        self._service = service
        self._on_start = on_start
        self._stop_at = math.inf
        self.stopped_by: int | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        self._on_start()

    def stop(self) -> None:
        """Take no new requests, finish what is under way within its time, and end."""
        self._service.draining = True
        self._stop_at = min(
            self._stop_at, time.monotonic() + self._service.settings.timeout_seconds
        )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop at the first signal; at a second one wait no longer."""
        del frame
        if self.stopped_by is not None:
            self.should_exit = self.force_exit = True
        self.stopped_by = self.stopped_by or sig
        self.stop()

    async def on_tick(self, counter: int) -> bool:
        """End once nothing is under way any more; called ten times a second."""
        idle = self._service.draining and not self._service.in_flight
        if idle or time.monotonic() >= self._stop_at:
            self.should_exit = True
        return await super().on_tick(counter)


def open_socket(host: str, port: int) -> socket.socket:
    """Take a port; requests are refused until the server starts.

    Args:
        host: A name or an address, of IPv4 or IPv6.
        port: 0 for any that is free.

    Raises:
        InputError: There is no such host here, or the port is taken.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        opened = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InputError(f"--host {host!r} is no address: {error.strerror}.") from error
    try:
        if os.name == "posix":  # so that a server can follow another at once; Windows shares it
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
    except OSError as error:
        opened.close()
        raise InputError(
            f"Can't listen at {host} port {port}: {error.strerror}; give another --host or --port."
        ) from error
    return opened


def url_of(opened: socket.socket) -> str:
    """Give the root of a server at this socket."""
    host, port = opened.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(service: Service, opened: socket.socket, *, on_start: Callable[[], object]) -> bool:
    """Serve until a signal, and close the service.

    A request that is under way is finished within ``timeout_ms``; a second signal ends it at once.

    Args:
        service: Its Runtime is closed too.
        opened: From `open_socket`.
        on_start: Called once requests are taken.

    Returns:
        Whether Ctrl+C ended it.
    """
    server = Server(service, on_start=on_start)
    try:
        server.run(sockets=[opened])
    finally:
        service.close()
    return server.stopped_by == signal.SIGINT
