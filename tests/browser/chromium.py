"""A headless Chromium that is driven through its own pipe: no driver, no network."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import time
from fcntl import F_DUPFD, fcntl
from itertools import count
from pathlib import Path
from typing import Any

SECONDS = 120.0  # the longest that a page may take; the machine may be busy
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--force-prefers-reduced-motion", "--remote-debugging-pipe"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


class Chromium:
    """One browser with one page.

    Attributes:
        requests: Every address that the page or one of its workers asked for.
        problems: What they wrote to the console as an error, and what was thrown and not caught.
    """

    def __init__(self, folder: Path) -> None:
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()

        # the browser looks for its pipe at 3 and 4, which may be taken here: by way of higher ones
        high = [fcntl(end, F_DUPFD, 10) for end in (theirs_in, theirs_out)]
        shell = f'exec "$@" 3<&{high[0]} 4>&{high[1]}'
        browser = ["chromium", *FLAGS, f"--user-data-dir={folder}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", shell, "browser", *browser],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=high,
        )
        for end in (theirs_in, theirs_out, *high):
            os.close(end)
        self._in, self._out = os.fdopen(ours_in, "rb"), os.fdopen(ours_out, "wb")
        self._numbers = count(1)
        self._held = b""
        self.requests: list[str] = []
        self.problems: list[str] = []
        targets = self._call("Target.getTargets")["targetInfos"]
        page = next(one["targetId"] for one in targets if one["type"] == "page")
        attached = self._call("Target.attachToTarget", targetId=page, flatten=True)
        self._page = attached["sessionId"]
        self._listen(self._page)
        self.call("Page.enable")

    def call(self, method: str, **given: Any) -> Any:
        """Send a command of the DevTools protocol to the page; give its result."""
        return self._call(method, session=self._page, **given)

    def evaluate(self, expression: str) -> Any:
        """Run JavaScript in the page; wait for its promise; give its value."""
        done = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def wait_for(self, expression: str) -> Any:
        """Ask again until it is true; fail with what the page shows after a while."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            found = self.evaluate(expression)
            if found:
                return found
            time.sleep(0.1)
        shown = self.evaluate("document.body.innerText")
        raise AssertionError(f"{expression} never came; {self.problems}; the page: {shown}")

    def size(self, width: int, height: int, *, dark: bool = False) -> None:
        """Show the page as on a screen of that size, in pixels, light or dark."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            **{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self, path: Path) -> None:
        """Write what is seen as a PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        self._process.wait(timeout=30)
        self._in.close()
        self._out.close()

    def _listen(self, session: str) -> None:
        for domain in ("Runtime", "Network", "Log"):
            self._send(f"{domain}.enable", session=session)
        self._send(
            "Target.setAutoAttach",
            session=session,
            **{"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True},
        )
        self._send("Runtime.runIfWaitingForDebugger", session=session)

    def _send(self, method: str, *, session: str | None = None, **given: Any) -> int:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": given}
        if session:
            message["sessionId"] = session
        self._out.write(json.dumps(message).encode() + b"\0")
        self._out.flush()
        return number

    def _call(self, method: str, *, session: str | None = None, **given: Any) -> Any:
        number = self._send(method, session=session, **given)
        while True:
            message = self._receive()
            if message.get("id") == number:
                assert "error" not in message, f"{method}: {message['error']}"
                return message["result"]
            self._note(message)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._held:
            more = os.read(self._in.fileno(), 1 << 16)
            assert more, "Chromium ended"
            self._held += more
        message, self._held = self._held.split(b"\0", 1)
        return dict(json.loads(message))

    def _note(self, message: dict[str, Any]) -> None:
        params = message.get("params", {})
        match message.get("method"):
            case "Target.attachedToTarget":  # a worker
                self._listen(params["sessionId"])
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Runtime.exceptionThrown":
                self.problems.append(json.dumps(params["exceptionDetails"])[:1000])
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                self.problems.append(json.dumps(params["entry"])[:1000])
            case _:
                pass
