"""The ``edgebert`` command line: its help, its usage, its exit codes."""

import json
import re
import subprocess
import sys

import pytest

from edgebert import __version__
from edgebert.cli import main
from edgebert.commands import COMMANDS
from edgebert.commands.table import format_table


def test_the_help_names_every_command(capsys):
    with pytest.raises(SystemExit) as end:
        main([])
    assert end.value.code == 0
    out = capsys.readouterr().out
    assert [name for name in COMMANDS if f"\n  {name} " not in out] == []


def test_the_version_is_the_packages(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"edgebert {__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [["nonsense"], ["info"], ["classify", "b", "--no-such-flag"], ["bench", "b", "--repeats", "0"]],
)
def test_a_wrong_usage_ends_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert "usage: edgebert" in capsys.readouterr().err


def test_texts_and_input_together_are_a_wrong_usage(capsys):
    with pytest.raises(SystemExit) as end:
        main(["classify", "bundle", "text", "--input", "file"])
    assert end.value.code == 2
    assert "give texts or --input, not both" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["classify", "encode"])
def test_only_what_can_be_done_with_a_long_text_is_offered(command, capsys):
    with pytest.raises(SystemExit) as end:
        main([command, "bundle", "text", "--on-long", "drop"])
    assert end.value.code == 2
    err = capsys.readouterr().err
    assert all(word in err for word in ("(choose from", "error", "truncate", "window"))


@pytest.mark.parametrize("command", ["info", "verify", "classify", "encode", "bench"])
def test_a_folder_that_is_no_bundle_ends_with_1_and_one_line(command, tmp_path, edgebert, stdin):
    stdin(b"")
    code, out, err = edgebert(command, tmp_path)
    assert (code, out) == (1, "")
    assert re.fullmatch(r"error: .* is not a bundle: .*\n", err)


def test_flags_may_stand_between_the_bundle_and_the_texts(classifier_dir, edgebert):
    _, out, _ = edgebert("classify", classifier_dir, "--json", "good", "--top-k", 2, "bad")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["text"] for row in rows] == ["good", "bad"]
    assert [len(row["scores"]) for row in rows] == [2, 2]


def test_a_text_after_two_dashes_may_begin_with_one(classifier_dir, edgebert):
    code, out, _ = edgebert("classify", classifier_dir, "--", "-5 degrees")
    assert code == 0
    assert out.endswith("\t-5 degrees\n")


def test_a_command_that_does_not_fit_the_task_ends_with_1(classifier_dir, edgebert):
    code, _, err = edgebert("encode", classifier_dir, "good")
    assert code == 1
    assert "classify" in err


def test_a_reader_that_leaves_early_makes_no_traceback(classifier_dir):
    command = f"{sys.executable} -m edgebert classify {classifier_dir} | true"
    lines = b"film\n" * 5000
    done = subprocess.run(command, shell=True, input=lines, capture_output=True, check=False)
    assert b"Traceback" not in done.stderr


def test_numbers_of_a_table_end_at_the_same_column():
    table = format_table(["name", "ms"], [["a", "1.5"], ["long", "12.25"], ["b", "-"]])
    assert table.splitlines() == ["name     ms", "a       1.5", "long  12.25", "b         -"]


def test_a_number_that_is_none_is_a_wrong_usage_in_words(capsys):
    with pytest.raises(SystemExit) as end:
        main(["classify", "bundle", "text", "--threads", "two"])
    assert end.value.code == 2
    assert "--threads: must be a whole number, 1 or more, got 'two'" in capsys.readouterr().err


def test_ctrl_c_while_the_command_is_imported_ends_with_130(monkeypatch, capsys):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("edgebert.cli.import_module", interrupted)
    assert main(["info", "bundle"]) == 130
    assert capsys.readouterr().err == "error: interrupted\n"


@pytest.mark.parametrize(
    ("closed", "message"),
    [("stdin", "stdin is closed; give the input"), ("stdout", "stdout is closed, so there is no")],
)
def test_without_a_stream_it_ends_with_1_and_one_line(classifier_dir, closed, message):
    arguments = [sys.executable, "-m", "edgebert", "classify", str(classifier_dir)]
    redirect = "<&-" if closed == "stdin" else ">&-"
    ended = subprocess.run(
        ["sh", "-c", f'exec "$@" {redirect}', "sh", *arguments], input=b"", capture_output=True
    )
    assert ended.returncode == 1
    errors = [line for line in ended.stderr.decode().splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert message in errors[0]
    assert "Traceback" not in ended.stderr.decode()
