"""Run ``edgebert`` in this process."""

import io
import sys

import pytest

from edgebert.cli import main


@pytest.fixture
def edgebert(capsys):
    """Run a command in this process: its exit code, stdout and stderr."""

    def call(*arguments):
        code = main([str(argument) for argument in arguments])
        return (code, *capsys.readouterr())

    return call


@pytest.fixture
def stdin(monkeypatch):
    def give(data):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return give
