"""Extractions that are killed at random moments and resumed, and what must be the same then.

A moment is drawn from all the time that a run takes, from before the store is opened until after
it's closed, or, as often, from a write. A run that ends before its moment has come is compared
with one that nobody killed. `tests.features.extraction.kills` does that twenty times a store.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from edgebert.features import Engine, extract, open_store, pipeline
from edgebert.features.journal import Journal
from tests.features.extraction.child import BLOCK_ROWS, PHASES
from tests.features.extraction.memory_store import held

ROOT = Path(__file__).parents[3]
WORDS = ("good", "bad", "film", "very", "not", "the", "plot", "fun", "dull", "hello", "world")
ROWS = 320
INTERRUPTS = 4  # one of so many kills is a SIGINT
COLUMNS = {"id_column": "id", "metadata_columns": ("n",)}
FLAGS = ("--id-column", "id", "--metadata-column", "n", "--on-long", "chunks", "--threads", "1")


def write_inputs(folder, rows=ROWS):
    """Write ``before.jsonl``, and ``after.jsonl`` in which rows are new, changed and gone."""
    draw = random.Random(7)

    def text():
        return " ".join(draw.choices(WORDS, k=draw.randint(1, 30)))

    before = [{"id": f"k{i}", "text": text(), "n": i} for i in range(rows)]
    after = [{**row, "text": text()} if draw.random() < 0.3 else row for row in before]
    after = [row for row in after if draw.random() > 0.1]
    after += [{"id": f"new{i}", "text": text(), "n": i} for i in range(rows // 5)]
    for name, some in (("before", before), ("after", after)):
        lines = "\n".join(json.dumps(row) for row in some)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")


@dataclass
class Run:
    """How a process ended.

    Attributes:
        code: Its exit code.
        phase: The last one that it told of.
        seconds: From its first phase to its last.
        err: What it said.
    """

    code: int
    phase: str
    seconds: float
    err: str


@dataclass
class Trial:
    """A kind of store with what is extracted into it.

    Attributes:
        kind: Of the store.
        folder: Has ``bundle`` and the inputs.
        server: Of PostgreSQL.
        how: ``update`` or ``into-new`` where a round begins with a whole store; else ``make``.
        flags: More of the command line, which bring workers.
        killed: How many, by signal and phase.
        struck: In which phase the last one was.
    """

    kind: str
    folder: Path
    server: object = None
    how: str = "make"
    flags: tuple[str, ...] = ()
    count: int = 0
    killed: Counter = field(default_factory=Counter)
    struck: str = ""

    def new_place(self):
        """Give the folder of a new store and its URI."""
        self.count += 1
        name = f"{self.kind}_{self.how.replace('-', '_')}_{self.count}"
        place = self.folder / name
        place.mkdir()
        if self.kind == "postgresql":
            return place, self.server.url(table=name)
        return place, f"{self.kind}:{place / 'store'}"

    def prepare(self, uri):
        if self.how != "make":
            self.extract("before", uri)

    def extract(self, source, uri, *, update=False):
        """Extract in this process, in the blocks of the others."""
        path, engine = self.folder / f"{source}.jsonl", Engine(threads=1)
        parts = {**COLUMNS, "on_long": "chunks", "engine": engine, "update": update}
        bundle = self.folder / "bundle"
        size, pipeline.BLOCK_ROWS = pipeline.BLOCK_ROWS, BLOCK_ROWS
        try:
            return extract(bundle, path, uri, quarantine=self.folder / "bad.jsonl", **parts)
        finally:
            pipeline.BLOCK_ROWS = size

    @property
    def source(self):
        return "before" if self.how == "make" else "after"

    def run(self, uri, *, stop=None, flags=None):
        """Run the command in a process; ``stop`` is called with it once it's at work."""
        phases, err = self.folder / "phases", self.folder / "err"
        phases.unlink(missing_ok=True)
        command = [sys.executable, "-m", "tests.features.extraction.child", self.folder / "bundle"]
        command += [self.folder / f"{self.source}.jsonl", "--to", uri, *FLAGS]
        command += ["--quarantine", self.folder / "bad.jsonl"]
        command += self.flags if flags is None else flags
        command += [f"--{self.how}"] if self.how != "make" else []
        with err.open("w") as stream:
            process = subprocess.Popen(
                list(map(str, command)),
                cwd=ROOT,
                env={**os.environ, PHASES: str(phases), "EDGEBERT_CACHE": "off"},
                stdout=subprocess.DEVNULL,
                stderr=stream,
                start_new_session=True,
            )
        try:
            while not (phases.exists() and phases.stat().st_size) and process.poll() is None:
                time.sleep(0.002)
            assert phases.exists(), err.read_text()
            begun = time.time()
            if stop is not None:
                stop(process)
            code = process.wait(180)
        finally:
            end_session(process.pid)
            process.wait()
        phase = phases.read_text().splitlines()[-1]
        return Run(code, phase, phases.stat().st_mtime - begun, err.read_text())

    def whole(self):
        """Extract without a kill; give what is there then, and the seconds that it took."""
        place, uri = self.new_place()
        self.prepare(uri)
        done = self.run(uri, flags=())
        assert done.code == 0, done.err
        found = state_of(place, uri)
        assert found["entries"]
        return found, done.seconds

    def round(self, kills, seconds, draw, *, at=None):
        """Kill and resume until it's done, with so many kills at most.

        Args:
            kills: Of all rounds.
            seconds: That an unbroken run takes.
            draw: Draws the moments.
            at: Folder and URI of a store that is prepared; None for a new one.

        Returns:
            The store's folder and its URI.
        """
        place, uri = at or self.new_place()
        if at is None:
            self.prepare(uri)
        while True:
            left = kills - self.killed.total()
            soft = self.killed.total() % INTERRUPTS == 2
            number = signal.SIGINT if soft else signal.SIGKILL
            moment = self.moment(draw, seconds, partial(self.strike, number=number))
            done = self.run(uri, stop=moment if left > 0 else None)
            if done.code == 0 or done.phase == "ended":  # the interpreter was ending
                return place, uri
            expected = -9 if number == signal.SIGKILL else 130
            assert left > 0, done.err
            assert done.code == expected, (done.code, number.name, done.phase, done.err)
            self.killed[number.name, self.struck] += 1

    def strike(self, process, number):
        """Send a signal to all processes of a run; where it has workers, to the first one alone."""
        self.struck = (self.folder / "phases").read_text().split("\n")[-2]
        (os.kill if self.flags else os.killpg)(process.pid, number)

    def moment(self, draw, seconds, action):
        """Draw when an action is done: by turns any time of a run, and while it writes a block."""
        if draw.random() < 0.5:
            return after(draw.uniform(0, seconds), action)
        block, more = draw.randint(1, 6), draw.uniform(0, 0.03)

        def stop(process):
            phases = self.folder / "phases"
            while phases.read_text().count("writing\n") < block and process.poll() is None:
                time.sleep(0.001)
            after(more, action)(process)

        return stop

    def check(self, place, uri, expected):
        """Compare a store with the one that nobody killed, and see that a rerun adds nothing."""
        found = state_of(place, uri)
        for name, value in expected.items():
            assert found[name] == value, (self.kind, name, difference(found[name], value))
        again = self.extract(self.source, uri, update=self.how != "make")
        assert (again.entries, again.added, again.changed, again.removed) == (0, 0, 0, 0), again
        assert again.unchanged == again.rows
        assert state_of(place, uri)["entries"] == expected["entries"]


def state_of(place, uri):
    """Give all that a store holds, what its journal says, and what kinds of files it has."""
    names = {
        re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{12,}|\d+", "#", str(path.relative_to(place)))
        for path in place.rglob("*")
    }
    with open_store(uri, read_only=True) as store:
        entries = held(store)
        count = len(store)
    with open_store(uri) as store, closing(Journal(store)) as journal:
        marks = list(journal.every())
    ids = [one for mark in marks for one in mark.ids]
    assert count == len(entries)
    assert sorted(ids) == [entry.id for entry, _ in entries]
    assert all(mark.digest for mark in marks)
    return {"entries": entries, "marks": marks, "names": names}


def difference(found, expected):
    """Show what one has and the other hasn't."""
    more = [one for one in found if one not in expected]
    less = [one for one in expected if one not in found]
    return f"{len(more)} more, {len(less)} less: {more[:3]!r:.600} {less[:3]!r:.600}"


def after(seconds, action):
    """Let an action be done on a process that is still there after so many seconds."""

    def stop(process):
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            action(process)

    return stop


def of_session(number):
    """Give the processes of a session, which all that a process starts belong to."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == number and fields[0] != "Z":
                found[int(path.name)] = (path / "cmdline").read_bytes()[:200]
        except OSError:  # it has ended meanwhile
            continue
    return found


def end_session(number):
    for pid in of_session(number):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
