"""Every store killed twenty times and resumed: ``python -m tests.features.extraction.kills``.

It prints a table, and writes ``benchmarks/results/kills.json``. ``workers`` and ``ray`` are SQLite
with two workers, of which one is killed; then the process that they belong to is.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from edgebert.features.stores import STORES
from tests.edgebert.bundles import write_bundle
from tests.features.extraction.killing import ROOT, Trial, of_session, write_inputs
from tests.features.postgres_server import postgres_server

RESULTS = ROOT / "benchmarks" / "results" / "kills.json"
TEAMS = {"workers": ("--workers", "2"), "ray": ("--workers", "2", "--scale", "ray")}
TEAM_KILLS = 5
PHASES = ("opening", "writing", "between writes", "closing")
HOWS = ("make", "update", "into-new")
SIGNALS = ("SIGKILL", "SIGINT")
TEAM_KILLS = 5


def kill_store(kind, folder, server, *, kills, seed):
    """Kill a store as it's made, updated and made anew by turns; give what happened."""
    draw = random.Random(f"{kind} {seed}")
    hows = HOWS if kind != "postgresql" else HOWS[:2]
    killed = Counter()
    trials = [Trial(kind, folder, server, how, killed=killed) for how in hows]
    wholes = [trial.whole() for trial in trials]
    rounds = 0
    while rounds < len(hows) or killed.total() < kills:
        expected, seconds = wholes[rounds % len(hows)]
        trial = trials[rounds % len(hows)]
        done = trial.round(min(kills, killed.total() + max(1, kills // 4)), seconds, draw)
        trial.check(*done, expected)
        rounds += 1
    return {**told(killed), **sizes(wholes), "rounds": rounds}


def kill_team(name, folder, *, kills, seed):
    """Kill one of two workers in one run after the other, then the process that they belong to."""
    draw = random.Random(f"{name} {seed}")
    alone, team = Trial("sqlite", folder), Trial("sqlite", folder, flags=TEAMS[name])
    team.count = 100  # other places
    expected, _ = alone.whole()
    place, uri = team.new_place()
    whole = team.run(uri)
    assert whole.code == 0, whole.err
    team.check(place, uri, expected)
    died = 0
    while died < kills:
        place, uri = team.new_place()
        dead = []
        stop = partial(kill_worker, draw=draw, dead=dead)
        done = team.run(uri, stop=team.moment(draw, whole.seconds, stop))
        assert done.code == 0, done.err
        team.check(place, uri, expected)
        died += len(dead)
    rounds = 0
    while team.killed.total() < kills:
        team.check(*team.round(kills, whole.seconds, draw), expected)
        rounds += 1
    return {"workers killed": died, **told(team.killed), **sizes([(expected, 0)]), "rounds": rounds}


def kill_worker(process, *, draw, dead):
    """Kill one of the workers of a run, as soon as there is one, and add it to ``dead``."""
    while process.poll() is None:
        there = of_session(process.pid).items()
        workers = [
            pid for pid, line in there if b"spawn_main" in line or line.startswith(b"ray::Actor")
        ]
        if workers:
            dead.append(draw.choice(sorted(workers)))
            os.kill(dead[-1], signal.SIGKILL)
            return
        time.sleep(0.01)


def told(killed):
    """Give how many were killed, by signal and by phase."""
    signals = {name: sum(n for (one, _), n in killed.items() if one == name) for name in SIGNALS}
    phases = {name: sum(n for (_, one), n in killed.items() if one == name) for name in PHASES}
    assert sum(phases.values()) == killed.total(), killed
    return {**signals, **phases}


def sizes(wholes):
    """Give how many entries a store has, after each way to be killed."""
    return {"entries": [len(expected["entries"]) for expected, _ in wholes]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stores", nargs="*", metavar="STORE", help="Default: all, workers and ray")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    known = [*STORES, *TEAMS]
    if wrong := set(args.stores) - set(known):
        sys.exit(f"{wrong} are no stores; allowed: {known}.")
    done = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    with ExitStack() as stack:
        os.environ["EDGEBERT_CACHE"] = "off"
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kills-")))
        bundle = {"task": "feature-extraction", "prompts": {"document": "the "}, "max_length": 16}
        write_bundle(folder / "bundle", **bundle)
        write_inputs(folder)
        for name in args.stores or known:
            server = stack.enter_context(postgres_server()) if name == "postgresql" else None
            some = {"kills": args.kills, "seed": args.seed}
            if name in TEAMS:
                some["kills"] = min(args.kills, TEAM_KILLS)
                found = kill_team(name, folder, **some)
            else:
                found = kill_store(name, folder, server, **some)
            done[name] = {**found, "seed": args.seed}
            print(name, json.dumps(found), file=sys.stderr, flush=True)
            ordered = {name: done[name] for name in known if name in done}
            RESULTS.write_text(json.dumps(ordered, indent=2) + "\n")
    columns = (*SIGNALS, *PHASES, "rounds")
    print("| store | " + " | ".join(columns) + " |")
    print("|---|" + "---|" * len(columns))
    for name, row in ordered.items():
        print(f"| {name} | " + " | ".join(str(row[column]) for column in columns) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
