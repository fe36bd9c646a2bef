"""One line less on stderr, and no other."""

import os
import subprocess
import sys
import threading
import time

from runtimes.banner import without_line


def test_lines_that_begin_so_are_left_out_and_all_others_come_through(capfd):
    with without_line(b"INFO: known"):
        os.write(2, b"first\nINFO: known line\nINFO: other\n")
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "first\nINFO: other\nafter\n"


def test_an_error_inside_leaves_stderr_as_it_was(capfd):
    try:
        with without_line(b"INFO"):
            os.write(2, b"INFO: known\n")
            raise KeyError
    except KeyError:
        os.write(2, b"after\n")
    assert capfd.readouterr().err == "after\n"


def test_two_threads_at_once_leave_stderr_as_it_was(capfd):
    def hold(before, within):
        time.sleep(before)
        with without_line(b"INFO"):
            time.sleep(within)

    threads = [threading.Thread(target=hold, args=args) for args in ((0, 0.1), (0.05, 0.1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "after\n"


def test_more_than_a_pipe_holds_does_not_block(capfd):
    with without_line(b"INFO"):
        os.write(2, b"x" * 99 + b"\n")
        for _ in range(2000):
            os.write(2, b"y" * 99 + b"\n")
    assert len(capfd.readouterr().err) == 2001 * 100


CHILD = """
import os, sys
sys.stdin.read()
os.write(2, b"INFO: known\\nlate\\n")
"""


def test_a_child_begun_meanwhile_keeps_its_stderr(capfd):
    with without_line(b"INFO: known"):
        child = subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE)
        os.write(2, b"meanwhile\n")
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "meanwhile\nafter\n"
    child.communicate()
    assert child.returncode == 0
    assert wait_for_stderr(capfd) == "late\n"


def wait_for_stderr(capfd):
    for _ in range(100):
        if found := capfd.readouterr().err:
            return found
        time.sleep(0.05)
    return ""
