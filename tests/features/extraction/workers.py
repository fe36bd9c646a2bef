"""Workers that die: jobs that workers of any kind take, see `edgebert.features.job.Job`."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace

from edgebert.features.job import Job

POISON = "dull"


class PoisonedJob(Job):
    """A worker dies of every text with a certain word."""

    def open(self):
        model = super().open()
        prepare = model.prepare

        def poisoned(rows):
            if any(POISON in row.text for row in rows):
                os.kill(os.getpid(), signal.SIGKILL)
            return prepare(rows)

        model.prepare = poisoned
        return model


class OtherJob(Job):
    """A worker finds another bundle than the one that the run began with."""

    def open(self):
        other = replace(self.identity, bundle="0")
        return Job(self.bundle, self.engine, other).open()


class NotedJob(Job):
    """A worker takes its time, and leaves its number beside the bundle when it has run a block."""

    def open(self):
        model = super().open()
        embed = model.embed

        def noted(prepared):
            time.sleep(0.05)
            numbers(self.bundle).joinpath(str(os.getpid())).touch()
            return embed(prepared)

        model.embed = noted
        return model


def numbers(bundle):
    folder = bundle.with_name("numbers")
    folder.mkdir(exist_ok=True)
    return folder


def kill_one(bundle):
    """Kill the first worker that leaves its number; give a list that will hold it."""
    killed = []

    def wait():
        while not (there := sorted(numbers(bundle).iterdir())):
            time.sleep(0.005)
        os.kill(int(there[0].name), signal.SIGKILL)
        killed.append(int(there[0].name))

    threading.Thread(target=wait, daemon=True).start()
    return killed
