"""A bundle served from a thread of the test's own process, and plain HTTP to ask it."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgebert.serving.runtime import ServedRuntime
from edgebert.serving.server import Server, open_socket
from edgebert.serving.service import Service
from edgebert.serving.settings import ServeSettings

WAIT_SECONDS = 30.0  # until something happens that must happen at once; for a busy machine


@dataclass(frozen=True)
class Reply:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        found: dict[str, Any] = self.json["error"]
        return found


@dataclass(frozen=True)
class Served:
    """A server and what it stands on."""

    service: Service
    server: Server
    port: int

    @property
    def runtime(self) -> ServedRuntime:
        return self.service.runtime

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Reply:
        """Send one request; a body that isn't bytes becomes JSON, and gets its Content-Type."""
        return ask(self.port, method, path, body, headers)

    def post(self, **fields: Any) -> Reply:
        """Ask the task's endpoint, of the model that is served."""
        body = {"model": self.service.settings.model, **fields}
        return self.ask("POST", self.service.endpoint.path, body)


def ask(
    port: int, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> Reply:
    given = dict(headers or {})
    if body is not None and not isinstance(body, bytes) and not hasattr(body, "__next__"):
        body = json.dumps(body).encode()
        given.setdefault("Content-Type", "application/json")
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_SECONDS)
    try:
        connection.request(method, path, body, given, encode_chunked=hasattr(body, "__next__"))
        found = connection.getresponse()
        names = {name.lower(): value for name, value in found.getheaders()}
        return Reply(found.status, names, found.read())
    finally:
        connection.close()


@contextmanager
def running(folder: Path, *, precision: str = "fp32", **settings: Any) -> Iterator[Served]:
    """Serve a bundle until the end of the block."""
    runtime = ServedRuntime(folder, "onnx", precision, threads=1, self_test="off")
    service = Service(runtime, ServeSettings(model=folder.name, **settings))
    started = threading.Event()
    server = Server(service, on_start=started.set)
    opened = open_socket("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]})
    thread.start()
    try:
        assert started.wait(WAIT_SECONDS)
        yield Served(service, server, opened.getsockname()[1])
    finally:
        server.stop()
        thread.join(WAIT_SECONDS)
        opened.close()
        service.close()
    assert not thread.is_alive()


@contextmanager
def held_engine(runtime: ServedRuntime) -> Iterator[list[Any]]:
    """Let no batch through before the end of the block; give the batches that came."""
    engine = runtime._engine
    run, free, seen = engine.run, threading.Event(), []

    def held(batch: Any) -> Any:
        seen.append(batch)
        assert free.wait(WAIT_SECONDS)
        return run(batch)

    engine.run = held  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        engine.run = run  # type: ignore[method-assign]
        free.set()


def wait_until(true: Callable[[], bool]) -> None:
    """Wait for something that another thread does."""
    end = time.monotonic() + WAIT_SECONDS
    while not true():
        assert time.monotonic() < end, "it didn't happen"
        time.sleep(0.005)
