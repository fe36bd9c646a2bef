"""``edgebert serve``: a bundle behind HTTP, for what speaks OpenAI's API."""

from __future__ import annotations

import argparse
import json
import logging
import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from edgebert.commands.arguments import add_bundle, add_on_long, add_runtime, open_as, positive
from edgebert.errors import InputError, PackageMissingError
from edgebert.shell import EXIT_DONE, EXIT_INTERRUPTED

if TYPE_CHECKING:
    from edgebert.serving.settings import ServeSettings

logger = logging.getLogger(__name__)

_KEY = "EDGEBERT_API_KEY"
_MOST_PORT = 65_535
_LIMITS = {  # of `ServeSettings`, which has the defaults
    "max-batch-tokens": "Tokens taken for the engine at once (default: 4096)",
    "max-queue": "Requests under way or waiting; the next gets a 429 (default: 256)",
    "max-body-bytes": "Bytes of a request (default: 4 MiB)",
    "max-inputs": "Texts of a request (default: 2048)",
    "timeout-ms": "Then a request gets a 504; a stop waits as long (default: 30000)",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_bundle(parser)
    parser.add_argument("--host", default="127.0.0.1", help="Address to listen at (127.0.0.1)")
    parser.add_argument("--port", type=_port, default=8000, help="0 for a free one (default: 8000)")
    parser.add_argument("--name", help="Model that requests ask for (default: the directory's)")
    parser.add_argument(
        "--api-key-file",
        type=Path,
        help=f"File of keys, one a line, that open /v1 (default: the variable {_KEY}, else open)",
    )
    for name, about in _LIMITS.items():
        parser.add_argument(f"--{name}", type=positive, help=about)
    add_on_long(parser)
    add_runtime(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until a signal; print the URL, with ``--json`` an object, once requests are taken.

    A connection whose request's header isn't there within 10 seconds is closed.

    Ends with 0 after SIGTERM and with 130 after Ctrl+C, either once what was under way is answered.
    """
    _check_packages()
    from edgebert.serving.runtime import ServedRuntime
    from edgebert.serving.server import open_socket, serve, url_of
    from edgebert.serving.service import Service

    settings = _settings(args)
    _warn_of_open_door(args.host, settings)
    with open_socket(args.host, args.port) as opened, open_as(ServedRuntime, args) as runtime:
        service = Service(runtime, settings)
        runtime.warmup()
        url, path = url_of(opened), service.endpoint.path
        facts = {"url": url, "path": path, "model": settings.model}
        told = json.dumps(facts, ensure_ascii=False) if args.json else url + path
        interrupted = serve(service, opened, on_start=lambda: print(told, flush=True))
    logger.info("stopped")
    return EXIT_INTERRUPTED if interrupted else EXIT_DONE


def _check_packages() -> None:
    for name in ("starlette", "uvicorn"):
        if find_spec(name) is None:
            raise PackageMissingError(
                f"serve needs the package {name!r}, which is not installed. "
                "Install it with: pip install 'edgebert[serve]'"
            )


def _settings(args: argparse.Namespace) -> ServeSettings:
    from edgebert.serving.settings import ServeSettings

    names = [name.replace("-", "_") for name in _LIMITS]
    limits = {name: value for name in names if (value := getattr(args, name)) is not None}
    return ServeSettings(
        model=args.bundle.resolve().name if args.name is None else args.name,
        api_keys=_api_keys(args.api_key_file),
        on_long=args.on_long,
        **limits,
    )


def _api_keys(path: Path | None) -> tuple[str, ...]:
    """Read the keys; a file or a variable that holds none doesn't open the door to all."""
    if path is None:
        if _KEY not in os.environ:
            return ()
        keys, where = [os.environ[_KEY].strip()], f"The variable {_KEY}"
    else:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError as error:
            raise InputError(f"--api-key-file {path} is not UTF-8.") from error
        except OSError as error:
            raise InputError(f"--api-key-file {path} can't be read: {error.strerror}.") from error
        keys, where = [line.strip() for line in lines], f"--api-key-file {path}"
    found = tuple(key for key in keys if key)
    if not found:
        raise InputError(f"{where} holds no key; put one there, or take it away to serve all.")
    return found


def _warn_of_open_door(host: str, settings: ServeSettings) -> None:
    if host not in ("127.0.0.1", "::1", "localhost") and not settings.api_keys:
        logger.warning("without an API key, %s answers whoever reaches it", host)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > _MOST_PORT:
        raise argparse.ArgumentTypeError(f"must be from 0 to {_MOST_PORT}, got {text!r}")
    return int(text)
