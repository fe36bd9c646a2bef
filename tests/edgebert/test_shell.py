"""How a command ends: its exit code, and one line on stderr."""

import errno

import pytest

from edgebert.errors import DataError, GateError, InputError, ModelError
from edgebert.shell import run_command


def raising(error):
    def action():
        raise error

    return action


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("x"), 1),
        (DataError("x"), 1),
        (ModelError("x"), 1),
        (GateError("x"), 3),
        (MemoryError(), 1),
        (KeyboardInterrupt(), 130),
        (OSError(errno.ENOSPC, "No space left on device", "/full"), 1),
        (ModuleNotFoundError("No module named 'torch'", name="torch"), 1),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_a_known_error_ends_with_its_code_and_one_line(error, code, capsys):
    assert run_command(raising(error)) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_a_message_of_several_lines_is_printed_as_one(capsys):
    run_command(raising(InputError("first\n  second")))
    assert capsys.readouterr().err == "error: first second\n"


def test_a_full_disk_is_named_with_its_file(capsys):
    run_command(raising(OSError(errno.ENOSPC, "No space left on device", "/full")))
    line = capsys.readouterr().err
    assert line.startswith("error: No space left on device (/full). Make room there")


def test_an_install_without_the_toolchain_is_told_what_to_install(capsys):
    run_command(raising(ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn")))
    assert "pip install 'edgebert[compress]'" in capsys.readouterr().err


def test_an_unknown_error_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        run_command(raising(ZeroDivisionError()))


def test_the_exit_code_is_what_the_command_says():
    assert run_command(lambda: 3) == 3


def test_ctrl_c_that_an_engine_turned_into_an_import_error_ends_with_130(capsys):
    def action():
        raise ImportError("initialization failed") from KeyboardInterrupt()

    assert run_command(action) == 130
    assert capsys.readouterr().err == "error: interrupted\n"


def test_an_import_that_failed_by_itself_is_not_hidden():
    with pytest.raises(ImportError):
        run_command(raising(ImportError("initialization failed")))
