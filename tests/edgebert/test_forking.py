"""A fork waits for native work, and native work for a fork."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")

HEAD = """
import os, threading, time
from edgebert.engines.forking import NATIVE_WORK as gate

def fork(code=0):
    child = os.fork()
    if not child:
        with gate:  # the child's own is open
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == code
"""

WAITS = """
done, entered = [], threading.Event()
def work():
    with gate, gate:
        entered.set()
        time.sleep(0.3)
        done.append("work")
thread = threading.Thread(target=work)
thread.start()
entered.wait()
fork()
done.append("fork")
thread.join()
assert done == ["work", "fork"], done
"""

FROM_INSIDE = """
with gate:
    fork()
    with gate:
        pass
fork()
"""

USES_LOCKS_OF_PYTHON = """
import logging
from concurrent.futures import ThreadPoolExecutor
pool, entered = ThreadPoolExecutor(1), threading.Event()
def work():
    with gate:
        entered.set()
        time.sleep(0.3)  # the fork waits by then
        assert pool.submit(int, "5").result() == 5
        logging.getLogger("edgebert").warning("done")
thread = threading.Thread(target=work)
thread.start()
entered.wait()
fork()
thread.join()
"""

MANY = """
stop = threading.Event()
counts = [0] * 4
def work(i):
    while not stop.is_set():
        with gate:
            counts[i] += 1
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
threads += [threading.Thread(target=lambda: [fork(n) for n in range(5)]) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads[4:]:
    thread.join()
before = list(counts)
time.sleep(0.2)
stop.set()
for thread in threads[:4]:
    thread.join()
assert all(a < b for a, b in zip(before, counts)), (before, counts)
"""


@pytest.mark.parametrize(
    "code",
    [WAITS, FROM_INSIDE, USES_LOCKS_OF_PYTHON, MANY],
    ids=["waits", "from inside", "uses locks of Python", "many"],
)
def test_forks_and_native_work_take_turns_and_none_is_stuck(code):
    done = subprocess.run(
        [sys.executable, "-c", HEAD + code],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
