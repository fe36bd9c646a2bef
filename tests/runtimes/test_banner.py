"""One line less on stderr, and no other."""

import os

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
