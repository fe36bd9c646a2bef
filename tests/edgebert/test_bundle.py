import json
import logging
import os

import pytest

import runtimes
from edgebert import Runtime
from edgebert.bundles.bundle import Bundle
from edgebert.engines import loading
from edgebert.errors import (
    BackendRunError,
    BackendUnavailableError,
    DamagedBundleError,
    InputError,
    SelfTestError,
)
from edgebert.formats.manifest import Manifest

INT8 = "onnx/model_quantized.onnx"


def change_manifest(directory, change):
    path = directory / "edgebert.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def spoil_golden(data, *, precision="int8"):
    for artifact in data["artifacts"]:
        if artifact["precision"] == precision:
            artifact["golden"][1][0] += 0.5


def test_int8_comes_first_where_nothing_is_measured(embedder_dir):
    with Runtime(embedder_dir, backend="onnx") as runtime:
        assert runtime.info.precision == "int8"
        assert "preferred over onnx/fp32, not measured as the backend is named" in runtime.info.why


def test_a_precision_that_is_asked_for_is_taken(embedder_dir):
    with Runtime(embedder_dir, "onnx", "fp32") as runtime:
        assert runtime.info.precision == "fp32"
        assert "asked for onnx/fp32" in runtime.info.why


def test_a_precision_that_the_bundle_lacks_is_refused_with_what_it_has(pairs_dir):
    with pytest.raises(InputError, match=r"no artifact auto/int8; it has: onnx/fp32"):
        Bundle(pairs_dir).candidates("auto", "int8")


def test_a_missing_engine_is_named_with_its_extra(embedder_dir, monkeypatch):
    absent = runtimes.BackendSpec("nowhere:Nothing", requires=("no_such_engine",), extra="onnx")
    monkeypatch.setitem(runtimes.BACKENDS, "onnx", absent)
    with pytest.raises(BackendUnavailableError, match=r"pip install 'edgebert\[onnx\]'"):
        Runtime(embedder_dir)


def test_a_missing_file_is_named(embedder_dir):
    (embedder_dir / INT8).unlink()
    with pytest.raises(DamagedBundleError, match=f"{INT8} is missing"):
        Runtime(embedder_dir)


def test_a_truncated_file_is_named_with_both_sizes(embedder_dir):
    size = (embedder_dir / INT8).stat().st_size
    os.truncate(embedder_dir / INT8, 1024)
    with pytest.raises(DamagedBundleError, match=f"{INT8} has 1024 bytes, expected {size}"):
        Runtime(embedder_dir)


@pytest.mark.parametrize("name", [INT8, "tokenizer.json"])
def test_a_changed_byte_is_named_with_both_hashes(embedder_dir, name):
    Runtime(embedder_dir, precision="int8").close()  # passes, and is remembered
    data = bytearray((embedder_dir / name).read_bytes())
    data[len(data) // 2] ^= 1
    (embedder_dir / name).write_bytes(data)
    with pytest.raises(DamagedBundleError, match=rf"{name} has sha256 \w+, expected \w+"):
        Runtime(embedder_dir, precision="int8")


def test_a_link_out_of_the_bundle_is_refused(embedder_dir, tmp_path):
    (embedder_dir / INT8).rename(tmp_path / "elsewhere.onnx")
    (embedder_dir / INT8).symlink_to(tmp_path / "elsewhere.onnx")
    with pytest.raises(DamagedBundleError, match="outside of the bundle"):
        Runtime(embedder_dir)


def test_a_damaged_bundle_is_no_silent_fallback(embedder_dir, caplog):
    os.truncate(embedder_dir / INT8, 1024)
    with pytest.raises(DamagedBundleError):
        Runtime(embedder_dir)
    with caplog.at_level(logging.WARNING, loading.logger.name):
        runtime = Runtime(embedder_dir, fallback=True)
    assert runtime.info.precision == "fp32"
    assert "fallback" in runtime.info.why
    assert any("1024 bytes" in record.message for record in caplog.records)


def test_without_any_other_artifact_the_first_failure_is_raised(pairs_dir):
    os.truncate(pairs_dir / "onnx/model.onnx", 10)
    with pytest.raises(DamagedBundleError, match="10 bytes"):
        Runtime(pairs_dir, fallback=True)


def test_a_file_that_is_no_model_is_an_error_of_the_engine(pairs_dir):
    (pairs_dir / "onnx/model.onnx").write_bytes(bytes([8, 8]))  # ir_version 8, and no graph

    def rehash(data):
        from edgebert.formats.manifest import FileRecord

        record = FileRecord.of(pairs_dir, "onnx/model.onnx")
        data["artifacts"][0]["files"] = [vars(record)]

    change_manifest(pairs_dir, rehash)
    with pytest.raises(BackendRunError, match=r"can't open .*onnxruntime 1\.17 or newer"):
        Runtime(pairs_dir)


def test_another_output_on_this_machine_is_refused_with_the_number(embedder_dir):
    change_manifest(embedder_dir, spoil_golden)
    with pytest.raises(SelfTestError, match=r"golden text 1 is off by 0\.5, allowed is 0\.0001"):
        Runtime(embedder_dir, precision="int8")
    assert Runtime(embedder_dir, precision="int8", fallback=True).info.precision == "fp32"
    assert Runtime(embedder_dir, precision="int8", self_test="off").info.precision == "int8"


def test_a_changed_tokenizer_is_named(embedder_dir):
    def change(data):
        data["golden"]["input_ids"][0][1] = 5

    change_manifest(embedder_dir, change)
    with pytest.raises(SelfTestError, match="tokenizer has changed: golden text 0"):
        Runtime(embedder_dir, precision="int8")


@pytest.fixture
def self_tests(monkeypatch):
    """One entry for each self-test that has run."""
    calls = []
    real = loading.run_self_test
    monkeypatch.setattr(loading, "run_self_test", lambda *args: calls.append(1) or real(*args))
    return calls


def test_the_self_test_runs_once_a_machine(embedder_dir, self_tests, monkeypatch):
    for _ in range(2):
        Runtime(embedder_dir, precision="int8").close()
    assert len(self_tests) == 1
    Runtime(embedder_dir, precision="int8", self_test="always").close()
    assert len(self_tests) == 2
    monkeypatch.setattr(loading, "cpu_name", lambda: "another CPU")
    Runtime(embedder_dir, precision="int8").close()
    assert len(self_tests) == 3


@pytest.mark.parametrize(
    "changed",
    [
        *("edgebert.__version__", "tokenizers.__version__", "numpy.__version__"),
        "runtimes.onnx.OnnxBackend.engine",
    ],
)
def test_another_version_of_what_computes_is_tested_again(
    embedder_dir, self_tests, monkeypatch, changed
):
    Runtime(embedder_dir, precision="int8").close()
    monkeypatch.setattr(changed, "99.0")
    Runtime(embedder_dir, precision="int8").close()
    assert len(self_tests) == 2


def test_a_changed_manifest_is_tested_again(embedder_dir, self_tests):
    Runtime(embedder_dir, precision="int8").close()  # passes, and is remembered
    change_manifest(embedder_dir, lambda data: data.update(pooling="cls"))
    with pytest.raises(SelfTestError, match="golden text 0 is off by"):
        Runtime(embedder_dir, precision="int8")
    assert len(self_tests) == 2


def test_a_changed_hash_in_the_manifest_is_compared_again(embedder_dir):
    Runtime(embedder_dir, precision="int8").close()

    def change(data):
        data["files"][0]["sha256"] = "0" * 64

    change_manifest(embedder_dir, change)
    with pytest.raises(DamagedBundleError, match="expected 0000"):
        Runtime(embedder_dir, precision="int8")


@pytest.mark.parametrize("setting", ["off", "/dev/full", "/proc/nowhere"])
def test_a_cache_that_is_off_or_cannot_be_written_is_no_error(embedder_dir, monkeypatch, setting):
    monkeypatch.setenv("EDGEBERT_CACHE", setting)
    for _ in range(2):
        with Runtime(embedder_dir, precision="int8") as runtime:
            assert runtime.encode(["good"]).shape == (1, 8)


@pytest.mark.parametrize("spoilt", ["{", "[" * 100_000], ids=["cut", "deep"])
def test_a_broken_cache_record_only_means_another_test(embedder_dir, cache, self_tests, spoilt):
    Runtime(embedder_dir, precision="int8").close()
    for record in cache.iterdir():
        record.write_text(spoilt)
    for _ in range(2):
        Runtime(embedder_dir, precision="int8").close()
    assert len(self_tests) == 2


def test_nothing_is_written_into_the_bundle(embedder_dir):
    before = {path: path.stat().st_mtime_ns for path in embedder_dir.rglob("*")}
    with Runtime(embedder_dir, precision="int8") as runtime:
        runtime.encode(["good"])
    assert {path: path.stat().st_mtime_ns for path in embedder_dir.rglob("*")} == before


def test_golden_outputs_of_a_masked_language_model_are_one_number_a_token():
    import numpy as np

    from edgebert.engines.selftest import golden_outputs
    from edgebert.text.tokenizer import Encoding

    class Echo:
        def run(self, batch):
            return {"logits": np.stack([batch.input_ids, batch.input_ids * 0], axis=-1)}

    class Words:
        pad_id = 0

        def encode(self, texts, *_args, **_kwargs):
            ids = np.array([4, 5, 6])
            return [Encoding(ids, *[ids * 0] * 5, 0) for _ in texts]

    class Masked:
        task = "fill-mask"
        max_length = 8
        golden = type("golden", (), {"texts": ("a",), "text_pairs": None})

    (row,) = golden_outputs(Echo(), Words(), Masked())
    assert row.tolist() == [4, 5, 6]


def test_the_position_limit_falls_back_to_the_manifest(embedder_dir):
    assert Bundle(embedder_dir).position_limit() == Manifest.load(embedder_dir).max_length
    (embedder_dir / "config.json").write_text('{"max_position_embeddings": 512}')
    assert Bundle(embedder_dir).position_limit() == 512


def test_roberta_without_a_padding_id_has_the_positions_of_its_family(embedder_dir):
    config = '{"model_type": "roberta", "max_position_embeddings": 514}'
    (embedder_dir / "config.json").write_text(config)
    assert Bundle(embedder_dir).position_limit() == 512
