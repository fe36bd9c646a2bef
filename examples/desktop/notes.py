"""Search a folder of notes by meaning, as you type: a window, a student, SQLite; no network.

python notes.py BUNDLE FOLDER        (frozen by freeze.py, the bundle is inside of the program)
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from html import escape
from pathlib import Path
from typing import Any

from PySide6.QtCore import QStandardPaths, QTimer, Signal
from PySide6.QtWidgets import QApplication, QLabel, QLineEdit, QTextBrowser, QVBoxLayout, QWidget

import edgebert
from edgebert.errors import EdgeBertError
from edgebert.features import extract, open_store, search

FROZEN = getattr(sys, "_MEIPASS", None)  # where the frozen program's files lie
STYLE = """
QWidget { font-size: 15px; }
QLineEdit { padding: 10px; border-radius: 8px; border: 1px solid palette(mid); font-size: 18px; }
QTextBrowser { border: none; background: transparent; }
QLabel { color: palette(placeholder-text); font-size: 13px; }
"""


class Notes(QWidget):
    """The window. The model works in one thread beside it, whose results come as signals."""

    done = Signal(object, object)  # what takes a result here, and the result
    settled = Signal()  # what was asked is shown
    failed = Signal(str)

    def __init__(self, bundle: Path, folder: Path, store: Path) -> None:
        super().__init__()
        self.setWindowTitle(f"Notes in {folder.name}")
        self.resize(680, 560)
        self.setStyleSheet(STYLE)
        self.query = QLineEdit(placeholderText="What are you looking for?", clearButtonEnabled=True)
        self.results = QTextBrowser(openExternalLinks=True)
        self.status = QLabel("Loading…")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(20, 20, 20, 12)
        for widget in (self.query, self.results, self.status):
            layout.addWidget(widget)
        self._folder, self._uri = folder, f"sqlite:{store}"
        self._runtime: Any = None
        self._store: Any = None
        self._wanted = ""
        self._pause = QTimer(singleShot=True, interval=80)  # until typing pauses
        self._pause.timeout.connect(self._ask)
        self.query.textChanged.connect(lambda: self._pause.start())
        self.done.connect(lambda show, result: show(result))
        self.failed.connect(self.status.setText)
        self._thread = ThreadPoolExecutor(1)
        self._later(lambda: self._open(bundle), self._opened)

    def _later(self, work: Callable[[], Any], show: Callable[[Any], None]) -> None:
        def run() -> None:
            try:
                result = work()
            except EdgeBertError as error:
                self.failed.emit(str(error))
            else:
                self.done.emit(show, result)

        self._thread.submit(run)

    def _open(self, bundle: Path) -> Any:
        """Test the student with its golden texts, then embed what is new or has changed."""
        self._runtime = edgebert.Runtime(bundle, self_test="always")
        summary = extract(
            self._runtime,
            self._folder,
            self._uri,
            on_long="chunks",
            update=True,
            max_bad=None,  # what is no text is set aside, and counted below
            max_removed=None,
        )
        self._store = open_store(self._uri, read_only=True)
        return summary

    def _opened(self, summary: Any) -> None:
        aside = f", {summary.quarantined} can't be read" if summary.quarantined else ""
        model = f"{self._runtime.info.precision} on {self._runtime.info.engine}"
        self.status.setText(f"{summary.rows - summary.quarantined} notes{aside} · {model}")
        self._ask()

    def _ask(self) -> None:
        text = self._wanted = self.query.text()
        if self._store is None or not text.strip():
            self.results.clear()
            return

        def find() -> Any:
            if text != self._wanted:  # typed on meanwhile
                return None
            return search(self._store, text, self._runtime, k=8)

        self._later(find, self._show)

    def _show(self, hits: Any) -> None:
        if hits is None:
            return
        ink = self.palette().text().color().name()  # of a link; Qt's is blue in the dark, too
        rows = []
        for hit in hits:
            path = self._folder.parent / hit.entry.key
            style = f"color:{ink};text-decoration:none;font-weight:600"
            name = f'<a href="{path.as_uri()}" style="{style}">{escape(path.name)}</a>'
            text = escape(" ".join(hit.entry.text.split())[:220])
            score = f"<span style='color:gray'>&nbsp; {hit.score:.2f}</span>"
            rows.append(f"<p style='margin:0 0 14px'>{name}{score}<br>{text}</p>")
        self.results.setHtml("".join(rows))
        self.settled.emit()

    def closeEvent(self, event: Any) -> None:  # noqa: N802  Qt's name
        """Let the thread end before the model does."""
        self._thread.shutdown(cancel_futures=True)
        for one in (self._store, self._runtime):
            if one is not None:
                one.close()
        super().closeEvent(event)


def main(given: list[str] | None = None) -> int:
    """Open the window; with --query, show its results in a picture and end."""
    parser = argparse.ArgumentParser(description="Search a folder of notes by meaning.")
    if not FROZEN:
        parser.add_argument("bundle", type=Path)
    parser.add_argument("folder", type=Path, nargs="?", default=Path.home() / "Documents")
    parser.add_argument("--store", type=Path, help="SQLite file of the vectors")
    parser.add_argument("--query", help="typed at the start; the program ends when it is answered")
    parser.add_argument("--screenshot", type=Path, help="PNG of the window at that moment")
    options = parser.parse_args(given)
    app = QApplication.instance() or QApplication(["notes"])
    place = QStandardPaths.StandardLocation.AppDataLocation
    folder = options.folder.resolve()
    store = options.store or Path(QStandardPaths.writableLocation(place)) / f"{folder.name}.db"
    store.parent.mkdir(parents=True, exist_ok=True)
    window = Notes(Path(FROZEN) / "student" if FROZEN else options.bundle, folder, store)
    window.show()
    if options.query:

        def finish() -> None:
            if options.screenshot:
                window.grab().save(str(options.screenshot))
            print(window.results.toPlainText())
            window.close()

        def give_up(message: str) -> None:
            print(message, file=sys.stderr)
            window.close()
            app.exit(1)

        window.settled.connect(finish)
        window.failed.connect(give_up)
        window.query.setText(options.query)
    return int(app.exec())


if __name__ == "__main__":
    sys.exit(main())
