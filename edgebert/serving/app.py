"""The ASGI application: paths, keys, and every error in one shape."""

from __future__ import annotations

import hmac
import json
import logging
import time
import uuid
from typing import cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from edgebert.errors import EdgeBertError, InputError
from edgebert.serving.endpoints import ENDPOINTS
from edgebert.serving.fields import no_model
from edgebert.serving.metrics import CONTENT_TYPE
from edgebert.serving.refusals import RefusalError, failed
from edgebert.serving.service import Service

logger = logging.getLogger(__name__)

_MODELS = "/v1/models"
_OTHER = "other"  # the path of every request that has none of ours, in the metrics


def make_app(service: Service) -> Starlette:
    """Make the application of one bundle."""
    pages = _Pages(service)
    return Starlette(
        routes=[
            Route(service.endpoint.path, service.answer, methods=["POST"]),
            Route(_MODELS, pages.models),
            Route(_MODELS + "/{model:path}", pages.model),
            Route("/health", pages.health),
            Route("/ready", pages.ready),
            Route("/metrics", pages.metrics),
        ],
        middleware=[Middleware(_Gate, service=service)],
        exception_handlers={
            RefusalError: _refused,
            EdgeBertError: _failed,
            HTTPException: pages.unrouted,
            Exception: _failed,
        },
    )


class _Gate:
    """Numbers, times and counts every request; ``/v1`` opens for a key only."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service
        self._keys = [key.encode("utf-8") for key in service.settings.api_keys]
        self._paths = {service.endpoint.path, _MODELS, "/health", "/ready", "/metrics"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request_id = scope.setdefault("state", {})["request_id"] = uuid.uuid4().hex
        start, status = time.perf_counter(), 500  # where no response is begun

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"].append((b"x-request-id", request_id.encode("ascii")))
            await send(message)

        try:
            if self._may_pass(Request(scope)):
                await self._app(scope, receive, sending)
            else:
                await _no_key().response()(scope, receive, sending)
        finally:
            path = self._path(scope["path"])
            self._service.metrics.requests.add(1, path, str(status))
            self._service.metrics.seconds.observe(time.perf_counter() - start, path)

    def _may_pass(self, request: Request) -> bool:
        if not self._keys or not request.scope["path"].startswith("/v1"):
            return True
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        given = key.strip().encode("latin-1")
        fits = [hmac.compare_digest(given, one) for one in self._keys]  # each, in constant time
        return scheme.lower() == "bearer" and any(fits)

    def _path(self, path: str) -> str:
        if path.startswith(_MODELS + "/"):
            return _MODELS + "/{model}"
        return path if path in self._paths else _OTHER


class _Pages:
    """What is asked for without a text."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._created = int(time.time())

    async def models(self, request: Request) -> Response:
        del request
        return _json({"object": "list", "data": [self._model()]})

    async def model(self, request: Request) -> Response:
        name = request.path_params["model"]
        if name != self._service.settings.model:
            raise no_model(name, self._service.settings)
        return _json(self._model())

    async def health(self, request: Request) -> Response:
        del request
        return _json({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        del request
        ready = self._service.ready
        return _json({"status": "ready" if ready else "not ready"}, status=200 if ready else 503)

    async def metrics(self, request: Request) -> Response:
        del request
        text = self._service.metrics.text(in_flight=self._service.in_flight)
        return Response(text, headers={"content-type": CONTENT_TYPE})

    async def unrouted(self, request: Request, error: Exception) -> Response:
        """Say where to ask instead of a path or a method that isn't there."""
        error = cast(HTTPException, error)
        own, path = self._service.endpoint.path, request.url.path
        message = f"{request.method} {path[:200]!r} isn't served here; POST to {own}."
        if path in {one.path for one in ENDPOINTS.values()} - {own}:
            task = self._service.runtime.info.task
            message = f"{path} doesn't fit this server's {task} bundle; POST to {own}."
        elif error.status_code == 405:
            allowed = (error.headers or {}).get("Allow", "")
            message = f"{path} doesn't take {request.method}, only {allowed}."
        return RefusalError(error.status_code, message, headers=error.headers).response()

    def _model(self) -> dict[str, object]:
        runtime = self._service.runtime
        info = runtime.info
        found: dict[str, object] = {
            "id": self._service.settings.model,
            "object": "model",
            "created": self._created,
            "owned_by": "edgebert",
            "task": info.task,
            "backend": info.backend,
            "precision": info.precision,
            "max_length": info.max_length,
        }
        if info.task == "feature-extraction":
            return found | {"dimensions": runtime.vector_size}
        return found | {"labels": info.labels}


def _json(value: object, *, status: int = 200) -> Response:
    return Response(
        json.dumps(value, ensure_ascii=False), status_code=status, media_type="application/json"
    )


def _no_key() -> RefusalError:
    return RefusalError(
        401,
        "The API key is missing or wrong; send the header 'Authorization: Bearer KEY'.",
        code="invalid_api_key",
        headers={"www-authenticate": "Bearer"},
    )


async def _refused(request: Request, error: Exception) -> Response:
    del request
    return cast(RefusalError, error).response()


async def _failed(request: Request, error: Exception) -> Response:
    """Tell the client of its own mistakes; of ours tell the log, for their text names files."""
    if isinstance(error, InputError):
        return RefusalError(400, str(error), code="invalid_value").response()
    request_id = request.state.request_id
    logger.error("request %s failed: %s: %s", request_id, type(error).__name__, error)
    return failed(request_id).response()
