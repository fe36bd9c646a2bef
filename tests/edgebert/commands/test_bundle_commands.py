"""``edgebert info``, ``verify``, ``bench``, ``slim`` and ``backends``."""

import json
import re

import pytest

from edgebert.commands import bench
from edgebert.formats.manifest import Manifest
from edgebert.runtime import Runtime


def test_info_says_what_the_manifest_says(classifier_dir, edgebert):
    code, out, _ = edgebert("info", classifier_dir, "--json")
    facts = json.loads(out)
    assert code == 0
    assert facts["labels"] == ["bad", "fair", "good"]
    assert facts["max_length"] == 32
    assert [a["precision"] for a in facts["artifacts"]] == ["fp32", "int8"]
    assert [a["batch_invariant"] for a in facts["artifacts"]] == [True, False]
    assert facts["runs_here"].startswith("the fastest of onnx/int8, onnx/fp32; the first load")


def test_info_prints_a_line_for_each_artifact(classifier_dir, edgebert):
    _, out, _ = edgebert("info", classifier_dir)
    assert "bad, fair, good" in out
    assert out.splitlines()[-1].endswith("onnx/model_quantized.onnx")


def test_verify_passes_a_whole_bundle(classifier_dir, edgebert):
    code, out, _ = edgebert("verify", classifier_dir, "--json")
    report = json.loads(out)
    assert (code, report["passed"]) == (0, True)
    assert {(a["files"], a["self_test"]) for a in report["artifacts"]} == {("passed", "passed")}


def test_verify_names_the_damaged_file_and_goes_on(classifier_dir, edgebert):
    with (classifier_dir / "onnx/model.onnx").open("ab") as stream:
        stream.write(b"x")
    code, out, _ = edgebert("verify", classifier_dir, "--json")
    fp32, int8 = json.loads(out)["artifacts"]
    assert code == 1
    assert (fp32["files"], fp32["self_test"]) == ("failed", "not run")
    assert "onnx/model.onnx" in fp32["detail"]
    assert (int8["files"], int8["self_test"]) == ("passed", "passed")


def test_verify_finds_golden_outputs_that_do_not_come_out(classifier_dir, edgebert):
    path = classifier_dir / "edgebert.json"
    data = json.loads(path.read_text())
    data["artifacts"][0]["golden"][0][0] += 1.0
    path.write_text(json.dumps(data))
    code, out, _ = edgebert("verify", classifier_dir)
    assert code == 1
    assert re.search(r"fp32 +passed +failed", out)


def test_verify_does_not_pass_what_could_not_run(classifier_dir, edgebert, monkeypatch):
    monkeypatch.setattr("runtimes.BackendSpec.installed", lambda _: False)
    code, out, _ = edgebert("verify", classifier_dir, "--json")
    report = json.loads(out)
    assert (code, report["passed"]) == (1, False)
    assert {a["self_test"] for a in report["artifacts"]} == {"not run"}
    assert "pip install 'edgebert[onnx]'" in report["artifacts"][0]["detail"]


def test_bench_times_the_lengths_that_the_bundle_takes(classifier_dir, edgebert):
    code, out, _ = edgebert("bench", classifier_dir, "--json", "--repeats", 2, "--threads", 1)
    report = json.loads(out)
    assert code == 0
    assert report["threads"] == 1
    assert [list(row["latency_ms"]) for row in report["rows"]] == [["b1_s8", "b1_s32"]] * 2
    fp32, int8 = (row["latency_ms"]["b1_s8"]["p50"] for row in report["rows"])
    assert report["speedup_int8_over_fp32"]["onnx"]["b1_s8"] == pytest.approx(fp32 / int8)


def test_bench_prints_machine_threads_and_ratio(classifier_dir, edgebert, monkeypatch):
    monkeypatch.setattr(
        "edgebert.commands.bench.machine", lambda: {"cpu": "Chip", "features": ("avx2", "vnni")}
    )
    _, out, _ = edgebert("bench", classifier_dir, "--repeats", 1, "--threads", 1)
    assert "Chip (avx2 vnni), threads: 1" in out
    assert re.search(r"onnx fp32 / int8 .*x", out)


def test_bench_gives_every_artifact_the_same_threads(classifier_dir, edgebert, monkeypatch):
    given = []
    open_artifact = bench.open_artifact

    def spy(bundle, artifact, options, self_test):
        given.append(options.threads)
        return open_artifact(bundle, artifact, options, self_test)

    monkeypatch.setattr(bench, "open_artifact", spy)
    _, out, _ = edgebert("bench", classifier_dir, "--json", "--repeats", 1, "--threads", 2)
    assert given == [2, 2]
    assert json.loads(out)["threads"] == 2


def test_slim_keeps_one_artifact_and_what_it_needs(classifier_dir, edgebert, tmp_path):
    (classifier_dir / "model.safetensors").write_bytes(b"large")
    target = tmp_path / "slim"
    code, _, _ = edgebert("slim", classifier_dir, target, "--precision", "int8")
    files = sorted(p.relative_to(target).as_posix() for p in target.rglob("*") if p.is_file())
    assert code == 0
    assert files == ["edgebert.json", "onnx/model_quantized.onnx", "tokenizer.json"]
    assert Manifest.load(target).lineage[-1]["step"] == "slim"


def test_a_slim_bundle_gives_the_results_of_the_whole_one(classifier_dir, edgebert, tmp_path):
    edgebert("slim", classifier_dir, tmp_path / "slim", "--precision", "fp32")
    with (
        Runtime(classifier_dir, precision="fp32") as whole,
        Runtime(tmp_path / "slim") as slim,
    ):
        assert slim.classify(["good film"]) == whole.classify(["good film"])


def test_slim_writes_nothing_of_a_damaged_bundle(classifier_dir, edgebert, tmp_path):
    (classifier_dir / "tokenizer.json").write_text("{}")
    code, _, err = edgebert("slim", classifier_dir, tmp_path / "slim")
    assert code == 1
    assert "tokenizer.json" in err
    assert not (tmp_path / "slim").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--backend", "tflite"], "it has: onnx/fp32, onnx/int8"), ([], "exists")],
)
def test_slim_refuses_what_it_cannot_mean(classifier_dir, edgebert, tmp_path, arguments, message):
    target = tmp_path / "slim" if arguments else classifier_dir
    code, _, err = edgebert("slim", classifier_dir, target, *arguments)
    assert code == 1
    assert message in err


def test_backends_tells_the_installed_engine(edgebert):
    code, out, _ = edgebert("backends", "--json")
    row = next(r for r in json.loads(out)["backends"] if r["backend"] == "onnx")
    assert code == 0
    assert row["installed"] is True
    assert re.fullmatch(r"onnxruntime \d+\.\d+.*", row["engine"])


def test_backends_tells_how_to_install_one(edgebert, monkeypatch):
    monkeypatch.setattr("runtimes.BackendSpec.installed", lambda _: False)
    _, out, _ = edgebert("backends")
    assert re.search(r"onnx +no +- +pip install 'edgebert\[onnx\]'", out)
