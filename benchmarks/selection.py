"""How far what ``auto`` takes is from the best artifact, at 8, 32, 128 and 512 tokens.

Each of some runs starts without a record of an earlier choice, chooses as a first load does, and
then times every artifact by turns (``edgebert bench``). Wants an idle machine.

python benchmarks/selection.py BUNDLE …
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import ROOT, save
from engine_tables import selection

RUNS = 3
MOST_OVER = 1.05


def choose_and_time(bundle: Path) -> dict[str, Any]:
    """Run ``edgebert bench`` as on a machine that has never seen the bundle."""
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, "-m", "edgebert", "bench", str(bundle), "--json"],
            cwd=ROOT,
            env=os.environ | {"EDGEBERT_CACHE": cache},
            check=True,
            stdout=subprocess.PIPE,
        )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measure(bundle: Path) -> dict[str, Any]:
    """Choose and time a few times; latencies are those of the last."""
    reports = [choose_and_time(bundle) for _ in range(RUNS)]
    last = reports[-1]
    autos = [report["auto"] for report in reports]
    return {"machine": last["machine"], "rows": last["rows"], "auto": autos}


results = {bundle.name: measure(bundle) for bundle in map(Path, sys.argv[1:])}
save("selection", results)
print("\n".join(selection(results)))
worst = max(
    value
    for one in results.values()
    for auto in one["auto"]
    for value in auto["over_best"].values()
)
sys.exit(f"auto is up to {worst:.2f} times slower than the best" if worst > MOST_OVER else 0)
