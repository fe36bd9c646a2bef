"""``edgebert doctor``: what this device has, what of a bundle it takes, and why not the others."""

import json
import os

import pytest

from edgebert.bundles.bundle import Bundle
from edgebert.commands import doctor
from edgebert.engines import probing
from edgebert.engines.choice import gate_report, what_auto_takes
from tests.edgebert.bundles import change_manifest


@pytest.fixture(autouse=True)
def engines(monkeypatch):
    """Let the imports of engines end as told; None for all right."""
    told = {}
    monkeypatch.setattr(doctor, "why_no_import", lambda backend: told.get(backend))
    return told


def diagnosis(edgebert, *arguments):
    code, out, _ = edgebert("doctor", *arguments, "--json")
    return code, json.loads(out)


def test_the_device_is_described_without_a_bundle(edgebert, cache, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    code, found = diagnosis(edgebert)
    assert (code, "bundle" in found) == (0, False)
    assert found["machine"]["threads"] == 3
    assert found["environment"] == {"OMP_NUM_THREADS": "3", "EDGEBERT_CACHE": str(cache)}
    assert found["cache"] == {"path": str(cache), "state": "writable", "records": 0}
    assert [one["backend"] for one in found["engines"]] == ["onnx", "openvino", "tflite"]
    assert set(found["packages"]) == {"edgebert", "numpy", "tokenizers"}


def test_a_first_load_is_made_so_that_the_choice_is_known(edgebert, classifier_dir):
    code, found = diagnosis(edgebert, classifier_dir, "--threads", 1)
    taken = [item for item in found["bundle"]["artifacts"] if item["taken"]]
    left = [item for item in found["bundle"]["artifacts"] if not item["taken"]]
    assert code == 0
    assert [item["artifact"] for item in taken] == [found["bundle"]["takes"]]
    assert [item["why_not"].split(":")[0] for item in left] == ["slower here"]


def test_what_the_first_load_takes_is_what_the_doctor_says(edgebert, classifier_dir):
    _, before = diagnosis(edgebert, classifier_dir, "--threads", 1)
    _, out, _ = edgebert("info", classifier_dir, "--json", "--threads", 1)
    assert json.loads(out)["runs_here"] == before["bundle"]["why"]


def test_an_artifact_without_its_engine_says_how_to_get_it(edgebert, classifier_dir):
    change_manifest(classifier_dir, lambda data: data["artifacts"][1].update(backend="later"))
    code, found = diagnosis(edgebert, classifier_dir)
    fp32, unknown = found["bundle"]["artifacts"]
    assert (code, fp32["taken"]) == (0, True)
    assert "pip install -U edgebert" in unknown["why_not"]


def test_an_engine_that_ends_the_process_is_not_loaded(edgebert, classifier_dir, engines, mocker):
    engines["onnx"] = "the process died of SIGILL"
    loads = mocker("why_no_load")
    code, found = diagnosis(edgebert, classifier_dir)
    assert (code, loads) == (1, [])
    assert found["bundle"]["why"] == "nothing: the process died of SIGILL"
    assert {item["why_not"] for item in found["bundle"]["artifacts"]} == {
        "the process died of SIGILL"
    }


@pytest.fixture
def mocker(monkeypatch):
    """Note the calls of a function of the command instead of making them."""

    def replace(name):
        calls = []
        monkeypatch.setattr(doctor, name, lambda *given, **named: calls.append((given, named)))
        return calls

    return replace


def test_a_bundle_that_fails_its_self_test_is_told(edgebert, classifier_dir):
    def spoil(data):
        for artifact in data["artifacts"]:
            artifact["golden"][0][0] += 1.0

    change_manifest(classifier_dir, spoil)
    code, found = diagnosis(edgebert, classifier_dir)
    assert code == 1
    assert "golden text 0 is off by" in found["bundle"]["why"]


def test_without_any_engine_the_table_says_what_to_install(edgebert, monkeypatch):
    monkeypatch.setattr("runtimes.BackendSpec.installed", lambda _: False)
    code, out, _ = edgebert("doctor")
    assert code == 1
    assert out.count("no engine") == 3
    assert "pip install 'edgebert[onnx]'" in out


def test_what_the_gate_kept_out_is_told_with_its_reason(edgebert, classifier_dir):
    report = {
        "rows": [{"path": "onnx/model.onnx", "latency_ms": {"b1_s32": {"p50": 2.5}}}],
        "refused": [{"path": "tflite/model.tflite", "gate": {"reasons": ["too far off."]}}],
        "machine": {"cpu": "Chip"},
    }
    (classifier_dir / "report.json").write_text(json.dumps(report))
    _, out, _ = edgebert("doctor", classifier_dir)
    assert "(made on Chip)" in " ".join(out.split())
    assert "2.5 ms" in out
    assert out.splitlines()[-1].endswith("refused: too far off.")


@pytest.mark.parametrize("text", ["", "[]", '{"rows": 3, "refused": [1, {"path": "x"}]}'])
def test_a_report_of_another_shape_says_nothing(classifier_dir, text):
    (classifier_dir / "report.json").write_text(text)
    found = gate_report(Bundle(classifier_dir))
    assert (found["latency_ms"], found["cpu"]) == ({}, None)


def test_nothing_is_known_before_a_first_load(classifier_dir):
    choice = what_auto_takes(Bundle(classifier_dir), threads=1)
    assert choice.taken is None
    assert set(choice.others.values()) == {"not measured here yet"}


def test_too_little_memory_is_a_reason(classifier_dir, monkeypatch):
    monkeypatch.setattr("edgebert.engines.selection.memory_limit", lambda: 100)
    choice = what_auto_takes(Bundle(classifier_dir), threads=1)
    assert choice.taken is not None
    assert choice.others == {
        "onnx/model.onnx": "no memory to open it beside the others; name it to run it"
    }


def test_a_process_that_dies_is_told_by_its_signal():
    assert probing._failure("import os; os.kill(os.getpid(), 4)") == "the process died of SIGILL"


def test_an_import_that_fails_is_told_by_its_error():
    assert probing._failure("import nowhere") == "ModuleNotFoundError: No module named 'nowhere'"


def test_a_cache_that_cannot_be_written_is_told(edgebert, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    _, found = diagnosis(edgebert)
    assert found["cache"]["state"].startswith("read-only")


def test_a_cache_that_is_off_is_told(edgebert, monkeypatch):
    monkeypatch.setenv("EDGEBERT_CACHE", "off")
    _, found = diagnosis(edgebert)
    assert found["cache"] == {"path": None, "state": "off", "records": 0}
