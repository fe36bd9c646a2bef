"""``edgebert pull`` against a hub of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import edgebert
from edgebert.cli import main
from edgebert.formats.manifest import Manifest
from tests.edgebert.bundles import write_bundle
from tests.edgebert.hub_stand_in import COMMIT, stand_in

pytest.importorskip("huggingface_hub", reason="pull needs the hub's client")
pytestmark = pytest.mark.onnx

REPO = "someone/a-bundle"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Give a hub with one bundle, with what only a toolchain needs and a paper beside it."""
    from huggingface_hub import HfApi, constants

    folder = tmp_path / "repository"
    write_bundle(folder, task="text-classification", precisions=("fp32", "int8"))
    (folder / "model.safetensors").write_bytes(b"for a toolchain")
    (folder / "README.md").write_text("a card")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with stand_in(REPO, folder) as served:
        monkeypatch.setattr("huggingface_hub.HfApi", partial(HfApi, endpoint=served.url))
        yield served


def change_manifest(hub, change) -> None:
    path = hub.folder / "edgebert.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def refused(tmp_path: Path, capsys, *options: str, repo: str = REPO) -> str:
    """Pull, make sure that nothing at all was written, and give the error."""
    assert main(["pull", repo, str(tmp_path / "out"), *options]) == 1
    left = {path.name for path in tmp_path.iterdir()} - {"repository", "cache"}
    assert left == set()
    return capsys.readouterr().err


def test_a_pulled_bundle_runs(hub, tmp_path):
    assert main(["pull", REPO, str(tmp_path / "out")]) == 0
    runtime = edgebert.Runtime(tmp_path / "out", precision="fp32", self_test="always")
    here = edgebert.Runtime(hub.folder, precision="fp32")
    assert runtime.classify(["good film"]) == here.classify(["good film"])


@pytest.mark.usefixtures("hub")
def test_what_the_manifest_lists_is_taken_and_the_papers(tmp_path):
    main(["pull", REPO, str(tmp_path / "out")])
    files = {p.relative_to(tmp_path / "out").as_posix() for p in (tmp_path / "out").rglob("*.*")}
    assert files == {
        *("edgebert.json", "tokenizer.json", "README.md"),
        *("onnx/model.onnx", "onnx/model_quantized.onnx"),
    }


def test_the_manifest_of_a_whole_bundle_stays_byte_for_byte(hub, tmp_path):
    main(["pull", REPO, str(tmp_path / "out")])
    found = (tmp_path / "out" / "edgebert.json").read_bytes()
    assert found == (hub.folder / "edgebert.json").read_bytes()


@pytest.mark.usefixtures("hub")
def test_stdout_is_the_result(tmp_path, capsys):
    main(["pull", REPO, str(tmp_path / "out"), "--json", "--precision", "fp32"])
    facts = json.loads(capsys.readouterr().out)
    assert facts["artifacts"] == ["onnx/model.onnx"]


def test_one_precision_is_all_that_is_downloaded(hub, tmp_path):
    main(["pull", REPO, str(tmp_path / "out"), "--backend", "onnx", "--precision", "int8"])
    assert sorted(hub.asked) == ["edgebert.json", "onnx/model_quantized.onnx", "tokenizer.json"]
    (artifact,) = Manifest.load(tmp_path / "out").artifacts
    assert artifact.precision == "int8"
    assert edgebert.Runtime(tmp_path / "out").info.precision == "int8"


def test_an_artifact_that_is_not_there_is_refused_with_those_that_are(hub, tmp_path, capsys):
    error = refused(tmp_path, capsys, "--backend", "tflite")
    assert "onnx/fp32, onnx/int8" in error
    assert hub.asked == ["edgebert.json"]


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize("revision", ["main", COMMIT])
def test_a_revision_can_be_named(tmp_path, revision):
    assert main(["pull", REPO, str(tmp_path / "out"), "--revision", revision]) == 0


@pytest.mark.usefixtures("hub")
def test_an_unknown_revision_is_refused(tmp_path, capsys):
    assert "RevisionNotFoundError" in refused(tmp_path, capsys, "--revision", "v9")


@pytest.mark.usefixtures("hub")
def test_an_unknown_repository_is_refused(tmp_path, capsys):
    error = refused(tmp_path, capsys, repo="someone/else")
    assert "'someone/else'" in error
    assert "check the name" in error


@pytest.mark.parametrize("name", ["../../etc", "a/b/c", "", "a b"])
def test_a_name_that_is_no_repository_is_refused(hub, tmp_path, capsys, name):
    assert "OWNER/NAME" in refused(tmp_path, capsys, repo=name)
    assert hub.asked == []


def test_a_repository_without_a_manifest_is_told_how_to_become_a_bundle(hub, tmp_path, capsys):
    (hub.folder / "edgebert.json").unlink()
    assert f"compress.export --model {REPO}" in refused(tmp_path, capsys)


def test_a_changed_file_is_refused(hub, tmp_path, capsys):
    path = hub.folder / "onnx" / "model.onnx"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    assert "onnx/model.onnx has sha256" in refused(tmp_path, capsys)


def test_a_file_of_another_size_is_refused_before_it_is_downloaded(hub, tmp_path, capsys):
    with (hub.folder / "onnx" / "model.onnx").open("ab") as stream:
        stream.write(b"more")
    assert "'onnx/model.onnx' of" in refused(tmp_path, capsys)
    assert hub.asked == ["edgebert.json"]


def test_a_missing_file_is_refused_before_anything_large_is_downloaded(hub, tmp_path, capsys):
    (hub.folder / "onnx" / "model.onnx").unlink()
    assert "lacks the file 'onnx/model.onnx'" in refused(tmp_path, capsys)
    assert hub.asked == ["edgebert.json"]


def test_a_download_that_breaks_off_leaves_nothing(hub, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda _: None)
    hub.broken = "onnx/model.onnx"
    assert "Nothing was written" in refused(tmp_path, capsys)


@pytest.mark.usefixtures("hub")
def test_a_killed_download_is_forgotten_by_the_next(tmp_path):
    left = tmp_path / ".out.999999999.part"
    left.mkdir()
    (left / "half").write_bytes(b"half")
    assert main(["pull", REPO, str(tmp_path / "out")]) == 0
    assert not left.exists()


@pytest.mark.parametrize("path", ["../stolen", "/etc/stolen", "onnx/../../stolen", "C:/stolen"])
def test_a_path_out_of_the_bundle_is_never_asked_for(hub, tmp_path, capsys, path):
    change_manifest(hub, lambda data: data["files"][0].update(path=path))
    assert "leaves the bundle" in refused(tmp_path, capsys)
    assert hub.asked == ["edgebert.json"]


def test_a_manifest_of_monstrous_size_is_not_downloaded(hub, tmp_path, capsys):
    hub.sizes["edgebert.json"] = 1 << 40
    assert f"has {1 << 40} bytes" in refused(tmp_path, capsys)
    assert hub.asked == []


def test_what_stands_there_is_never_replaced(hub, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    assert main(["pull", REPO, str(tmp_path / "out")]) == 1
    assert "exists" in capsys.readouterr().err
    assert hub.asked == []


def test_without_a_network_it_fails_in_one_line(tmp_path, capsys, monkeypatch):
    from huggingface_hub import HfApi, constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    nobody = partial(HfApi, endpoint="http://127.0.0.1:9")
    monkeypatch.setattr("huggingface_hub.HfApi", nobody)
    assert "The hub failed on" in refused(tmp_path, capsys)


@pytest.mark.usefixtures("hub")
def test_an_offline_client_is_told_from_a_missing_network(tmp_path, capsys, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert "unset HF_HUB_OFFLINE" in refused(tmp_path, capsys)


def test_without_the_client_the_error_has_its_install_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert "pip install huggingface_hub" in refused(tmp_path, capsys)


def test_the_hubs_address_is_taken_from_the_environment(hub, tmp_path):
    names = {"HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0", "HF_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "edgebert", "pull", REPO, str(tmp_path / "out"), "--json"]
    done = subprocess.run(
        command, env={**os.environ, **names}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["output"] == str(tmp_path / "out")
