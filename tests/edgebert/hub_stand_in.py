"""A model hub on this machine, as far as its client asks: one repository, served from a folder."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class StandIn(ThreadingHTTPServer):
    """Serves one repository.

    Attributes:
        repo_id: Its name.
        folder: Its files.
        revisions: What it goes by, beside `COMMIT`.
        broken: Path of a file whose connection ends after half of its bytes.
        sizes: What is told of a file's size in the place of the truth, by path.
        asked: Paths of the files that were downloaded, in order.
    """

    daemon_threads = True

    def __init__(self, repo_id: str, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repo_id, self.folder = repo_id, folder
        self.revisions = {"main", COMMIT}
        self.broken = ""
        self.sizes: dict[str, int] = {}
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def info(self) -> dict[str, object]:
        files = sorted(path for path in self.folder.rglob("*") if path.is_file())
        names = [path.relative_to(self.folder).as_posix() for path in files]
        siblings = [
            {"rfilename": name, "size": self.sizes.get(name, path.stat().st_size)}
            for name, path in zip(names, files, strict=True)
        ]
        return {"id": self.repo_id, "sha": COMMIT, "tags": [], "siblings": siblings}


class _Handler(BaseHTTPRequestHandler):
    server: StandIn

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, *, body: bool) -> None:
        hub = self.server
        place = unquote(urlsplit(self.path).path)
        api, files = f"/api/models/{hub.repo_id}", f"/{hub.repo_id}/resolve/{COMMIT}/"
        if place == api or place.startswith(f"{api}/revision/"):
            known = place == api or place.rpartition("/")[2] in hub.revisions
            self._send_info() if known else self._refuse("RevisionNotFound")
        elif place.startswith(files) and (hub.folder / place.removeprefix(files)).is_file():
            self._send_file(place.removeprefix(files), body=body)
        else:
            self._refuse("EntryNotFound" if place.startswith(files) else "RepoNotFound")

    def _send_info(self) -> None:
        data = json.dumps(self.server.info()).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _send_file(self, path: str, *, body: bool) -> None:
        data = (self.server.folder / path).read_bytes()
        self.send_response(200)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if not body:
            return
        self.server.asked.append(path)
        if path == self.server.broken:
            self.wfile.write(data[: len(data) // 2])
            self.close_connection = True
            return
        self.wfile.write(data)

    def _refuse(self, code: str) -> None:
        self.send_response(404)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()


@contextmanager
def stand_in(repo_id: str, folder: Path) -> Iterator[StandIn]:
    """Serve while the block runs."""
    hub = StandIn(repo_id, folder)
    thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()
        thread.join()
