"""Which workers may be asked for, and what is said where that can't be."""

from __future__ import annotations

import argparse
import sys
import types

import pytest

from edgebert.commands import extract as command
from edgebert.errors import (
    BackendError,
    BackendUnavailableError,
    DataError,
    InputError,
    PackageMissingError,
)
from edgebert.features import extract
from edgebert.features.job import Answer
from edgebert.features.scaling import Scale
from edgebert.features.summary import Summary


@pytest.fixture
def uri(tmp_path):
    return f"sqlite:{tmp_path / 's.db'}"


@pytest.fixture
def no_cluster(monkeypatch):
    """A Ray that can't be reached."""

    def init(*_, **__):
        raise ConnectionError("nobody listens")

    module = types.ModuleType("ray")
    module.is_initialized, module.init = lambda: False, init
    monkeypatch.setitem(sys.modules, "ray", module)


def test_another_scale_than_ray_is_refused():
    with pytest.raises(InputError, match="'spark'"):
        Scale(on="spark")


def test_an_address_without_ray_is_refused():
    with pytest.raises(InputError, match="it needs scale='ray'"):
        Scale(ray_address="auto")


def test_an_open_runtime_can_not_go_to_ray(embedder, uri):
    with pytest.raises(InputError, match="give its path"):
        extract(embedder, ["good"], uri, scale="ray")


def test_a_missing_ray_is_told_with_the_line_that_installs_it(embedder_dir, uri, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(PackageMissingError, match=r"pip install 'edgebert\[scale\]'"):
        extract(embedder_dir, ["good"], uri, scale="ray")


@pytest.mark.usefixtures("no_cluster")
def test_an_address_where_nobody_listens_is_told(embedder_dir, uri):
    with pytest.raises(InputError, match=r"no Ray at --ray-address h:1 \(nobody listens\)"):
        extract(embedder_dir, ["good"], uri, scale="ray", ray_address="h:1")


def test_an_error_goes_from_worker_to_caller_as_what_it_is():
    with pytest.raises(DataError, match="so it is"):
        Answer.of(DataError("so it is")).unpack()


def test_an_error_that_is_not_made_of_a_text_goes_as_its_parent():
    error = BackendUnavailableError("onnx", extra="onnx", missing="onnxruntime")
    with pytest.raises(BackendError, match="needs the package 'onnxruntime'"):
        Answer.of(error).unpack()


def test_what_is_printed_meanwhile_is_no_part_of_the_result(monkeypatch, capsys):
    """Ray prints what happens to its workers."""

    def noisy(*_, **__):
        print("a worker died")
        return Summary(store="here", rows=1, added=1)

    monkeypatch.setattr(command, "extract", noisy)
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    assert command.run(parser.parse_args(["bundle", "notes.txt", "--to", "s.db"])) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("1 rows")
    assert printed.err == "a worker died\n"
