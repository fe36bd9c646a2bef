"""What only shows in a process of its own: forks, exits, telemetry."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(code, *arguments, **environment):
    return start("-c", code, *arguments, **environment)


def start(*arguments, **environment):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("ORT_")}
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**kept, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


FORK = """
import os, sys
import edgebert
runtime = edgebert.Runtime(sys.argv[1], threads=2)
before = runtime.encode(["good film"]).tolist()
child = os.fork()
if not child:
    if sys.argv[2] == "uses it" and runtime.encode(["good film"]).tolist() != before:
        os._exit(3)
    sys.exit(0)
status = os.waitpid(child, 0)[1]
assert runtime.encode(["good film"]).tolist() == before
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("child", ["uses it", "leaves it alone"])
def test_a_forked_child_gets_the_same_result_and_ends(embedder_dir, child):
    done = run(FORK, embedder_dir, child)
    assert done.returncode == 0, done.stderr


TELEMETRY = """
import os, sys
import edgebert
with edgebert.Runtime(sys.argv[1], threads=1) as runtime:
    runtime.encode(["good"])
    print(len(os.listdir("/proc/self/task")))
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts threads in /proc")
def test_the_engine_starts_no_thread_and_writes_no_file_of_its_own(embedder_dir, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    done = run(
        TELEMETRY,
        embedder_dir,
        HOME=str(home),
        XDG_CACHE_HOME=str(home / "cache"),
        TOKENIZERS_PARALLELISM="false",
    )
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    assert list(home.rglob("*")) == []


UNGUARDED = """
import multiprocessing, sys
multiprocessing.set_start_method("spawn")
import edgebert
print("begun", flush=True)
with edgebert.Runtime(sys.argv[1], threads=2) as runtime:
    runtime.warmup()
    print(len(runtime.encode(["good film"] * 70)))
"""


def test_a_script_without_a_main_guard_runs_once_where_processes_are_spawned(
    embedder_dir, tmp_path
):
    """A package that starts processes of its own runs the script again in each of them."""
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    done = start(script, embedder_dir)
    assert (done.returncode, done.stdout) == (0, "begun\n70\n"), done.stderr
