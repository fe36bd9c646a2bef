"""One line less on stderr, and no other."""

import os
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
