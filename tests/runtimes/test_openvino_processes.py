"""OpenVINO in a process of its own: its threads, forks, memory and Ctrl-C."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.openvino

pytest.importorskip("openvino")

from tests.runtimes.openvino_model import write_openvino_model  # noqa: E402


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    return write_openvino_model(tmp_path_factory.mktemp("openvino"))


def run_python(code, *arguments):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_importing_it_starts_no_thread_and_sends_nothing():
    code = (
        "import sys, threading, runtimes.openvino\n"
        "print(threading.active_count(), sys.modules.get('openvino_telemetry'))"
    )
    assert run_python(code).stdout == "1 None\n"


FORKING = """
import ctypes, os, sys
from pathlib import Path
import numpy as np
from runtimes.openvino import OpenVinoBackend
from runtimes import SessionOptions
from edgebert.engines.forking import NATIVE_WORK
from edgebert.types import Batch
one = np.array([[2, 57, 3]])
batch = Batch(one, np.ones_like(one), np.zeros_like(one), np.zeros(1, dtype=np.int64))
path, options = Path(sys.argv[1]), SessionOptions(threads=2)
with NATIVE_WORK:  # as edgebert.engines.engine does: a fork waits until OpenVINO's threads sleep
    parent = OpenVinoBackend(path, options)
    expected = parent.run(batch)["last_hidden_state"]
child = os.fork()
if child == 0:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(parent))  # and so does its child
    own = OpenVinoBackend(path, options)
    same = np.array_equal(own.run(batch)["last_hidden_state"], expected)
    sys.exit(0 if same else 3)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_opens_its_own_and_ends(artifact):
    done = run_python(FORKING, artifact)
    assert (done.stdout, done.stderr) == ("0\n", "")


SOAKING = """
import sys, threading
from pathlib import Path
import numpy as np
from runtimes.openvino import OpenVinoBackend
from runtimes import SessionOptions
from edgebert.types import Batch

def resident():
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * 4096 / 1e6

def run(backend, draw):
    shape = draw.integers(1, 17), draw.integers(1, 51)
    ids = draw.integers(5, 80, shape)
    mask = (np.arange(shape[1]) < draw.integers(1, shape[1] + 1, shape[0])[:, None]).astype(int)
    backend.run(Batch(ids, mask, np.zeros_like(ids), np.zeros(shape[0], dtype=np.int64)))
    return shape[0]

backend = OpenVinoBackend(Path(sys.argv[1]), SessionOptions(threads=1))
draw = np.random.default_rng(0)
texts, marks = 0, []
for wanted in (5_000, 20_000):
    while texts < wanted:
        texts += run(backend, draw)
    marks.append(resident())
for _ in range(2000):  # a thread for each call
    thread = threading.Thread(target=run, args=(backend, draw))
    thread.start()
    thread.join()
print(marks[1] - marks[0], resident() - marks[1])
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads memory from /proc")
def test_memory_is_flat_on_texts_of_random_length_and_with_ever_new_threads(artifact):
    growth, more = map(float, run_python(SOAKING, artifact).stdout.split())
    assert growth < 3  # MB
    assert more < 3


def test_ctrl_c_is_survived_after_two_were_closed_in_the_order_of_their_start(artifact):
    code = f"""
import signal
from pathlib import Path
from runtimes import SessionOptions, load_backend
first, second = (
    load_backend("openvino", Path({str(artifact)!r}), SessionOptions(threads=1)) for _ in range(2)
)
first.close()
del first
second.close()
del second
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""
    command = [sys.executable, "-X", "faulthandler", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr
