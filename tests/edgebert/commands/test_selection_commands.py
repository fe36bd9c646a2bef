"""What the commands say of the choice between artifacts."""

import json

import pytest

from edgebert import Runtime

pytestmark = pytest.mark.onnx


def change(directory, what):
    path = directory / "edgebert.json"
    data = json.loads(path.read_text())
    what(data)
    path.write_text(json.dumps(data))


def test_info_says_what_an_earlier_load_has_measured(classifier_dir, edgebert):
    _, before, _ = edgebert("info", classifier_dir, "--json")
    with Runtime(classifier_dir) as runtime:
        chosen = f"{runtime.info.backend}/{runtime.info.precision}"
    _, after, _ = edgebert("info", classifier_dir, "--json")
    assert "the first load measures which that is" in json.loads(before)["runs_here"]
    assert json.loads(after)["runs_here"].startswith(
        f"{chosen}: fastest of 2 measured at an earlier load (geometric mean of 8, 32 tokens: "
    )


def test_info_says_why_an_artifact_does_not_run_here(classifier_dir, edgebert):
    change(classifier_dir, lambda data: data["artifacts"][1].update(min_engine="onnxruntime 99"))
    _, out, _ = edgebert("info", classifier_dir, "--json")
    facts = json.loads(out)
    assert facts["runs_here"] == "onnx/fp32: the only artifact that can run here"
    assert facts["artifacts"][0]["why_not_here"] is None
    assert facts["artifacts"][1]["why_not_here"].startswith("it needs onnxruntime 99 or newer")


def test_bench_says_what_auto_takes_and_how_far_it_is_from_the_best(classifier_dir, edgebert):
    code, out, _ = edgebert("bench", classifier_dir, "--json", "--repeats", 3, "--threads", 1)
    report = json.loads(out)
    chosen = next(row for row in report["rows"] if row["path"] == report["auto"]["path"])
    best = min(row["latency_ms"]["b1_s32"]["p50"] for row in report["rows"])
    assert code == 0
    assert "fastest of 2 measured" in report["auto"]["why"]
    assert report["auto"]["over_best"]["b1_s32"] == pytest.approx(
        chosen["latency_ms"]["b1_s32"]["p50"] / best
    )


def test_bench_prints_the_choice(classifier_dir, edgebert):
    _, out, _ = edgebert("bench", classifier_dir, "--repeats", 1)
    assert "auto takes onnx/" in out
    assert "Its median over the best one's at each length: " in out


def test_verify_does_not_run_what_needs_a_newer_engine(classifier_dir, edgebert):
    change(classifier_dir, lambda data: data["artifacts"][0].update(min_engine="onnxruntime 99"))
    code, out, _ = edgebert("verify", classifier_dir, "--json")
    first, second = json.loads(out)["artifacts"]
    assert code == 0
    assert (first["files"], first["self_test"]) == ("passed", "not run")
    assert "it needs onnxruntime 99 or newer" in first["detail"]
    assert second["self_test"] == "passed"


def test_verify_tells_two_artifacts_of_one_kind_apart(classifier_dir, edgebert):
    def spoil(data):
        for artifact in data["artifacts"]:
            artifact["precision"] = "int8"
        data["artifacts"][1]["golden"][0][0] += 1

    change(classifier_dir, spoil)
    code, out, _ = edgebert("verify", classifier_dir, "--json")
    assert code == 1
    assert [a["self_test"] for a in json.loads(out)["artifacts"]] == ["passed", "failed"]
