"""The example of examples/web: built by tests/browser/setup.sh, served, in Chromium and in Node."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.browser.chromium import Chromium
from tests.conftest import require_tools

ROOT = Path(__file__).parents[2]
EXAMPLE, BUILT = ROOT / "examples" / "web", ROOT / "build" / "web"


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEBERT_CACHE", "off")


@pytest.fixture(scope="session", autouse=True)
def _tools() -> None:
    require_tools(BUILT / "ready", "tests/browser/setup.sh")


@pytest.fixture(scope="session")
def serve() -> Iterator[Callable[[Path], str]]:
    """Serve the site with a bundle; give its address. Ended with the session."""
    with ExitStack() as stack:

        def start(bundle: Path) -> str:
            command = ["node", EXAMPLE / "serve.mjs", BUILT / "site", bundle, "0"]
            server = stack.enter_context(
                subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, text=True)
            )
            stack.callback(server.terminate)  # run before the wait for it
            assert server.stdout is not None
            return server.stdout.readline().strip()

        yield start


@pytest.fixture
def chromium(tmp_path: Path) -> Iterator[Chromium]:
    browser = Chromium(tmp_path / "profile")
    yield browser
    browser.close()


def run_node(bundle: Path, *settings: str, texts: list[str]) -> list[Any]:
    """Give what run.mjs says of each text."""
    done = run_node_raw(bundle, *settings, given="".join(f"{text}\n" for text in texts))
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def run_node_raw(bundle: Path, *settings: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run run.mjs to its end, without a network: its names lead nowhere."""
    command = ["node", EXAMPLE / "run.mjs", BUILT, bundle, *settings]
    return subprocess.run(
        [*map(str, command)],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={"PATH": "/usr/bin:/bin", "HTTPS_PROXY": "http://127.0.0.1:9"},
    )
