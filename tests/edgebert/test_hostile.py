"""Bundles with something changed: a named error, and the engine has not seen the file.

The slow tests take 10,000 mutations; the others a few of each kind. What the parsers of engines
make of a file whose hash is right is in `tests.edgebert.hostile` and in ``SECURITY.md``.
"""

import json
import re
import shutil
import struct
import tracemalloc

import pytest

from edgebert import Runtime
from edgebert.bundles.bundle import Bundle
from edgebert.errors import (
    BackendRunError,
    DamagedBundleError,
    EdgeBertError,
    InputError,
    ManifestError,
    SelfTestError,
)
from edgebert.formats.manifest import FileRecord, Manifest
from edgebert.formats.strict_json import MAX_BYTES, MAX_VALUES
from runtimes import available_backends
from tests.edgebert.bundles import write_bundle
from tests.edgebert.hostile import attack
from tests.edgebert.mutations import mutate

pytestmark = pytest.mark.onnx

XML = b"""<?xml version="1.0"?><net name="m" version="11"><layers>
<layer id="0" name="w" type="Const"><data element_type="f32" shape="2,3" offset="0" size="24"/>
<output><port id="0" precision="FP32"><dim>2</dim><dim>3</dim></port></output></layer></layers>
<edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/></edges></net>"""
HEADER = json.dumps({"w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}).encode()
OTHERS = {
    "openvino/openvino_model.xml": XML,
    "openvino/openvino_model.bin": bytes(range(24)),
    "tflite/model.tflite": b"\x1c\x00\x00\x00TFL3" + bytes(range(100)),
}
COMMON = {
    "config.json": b'{"model_type": "bert", "max_position_embeddings": 512, "id2label": {}}',
    "model.safetensors": struct.pack("<Q", len(HEADER)) + HEADER + bytes(24),
}
ARTIFACTS = {
    "onnx": ["onnx/model.onnx"],
    "openvino": ["openvino/openvino_model.xml", "openvino/openvino_model.bin"],
    "tflite": ["tflite/model.tflite"],
}
MANIFEST = "edgebert.json"
FILES = {name: backend for backend, names in ARTIFACTS.items() for name in names}
FILES |= {"tokenizer.json": "onnx", **dict.fromkeys(COMMON, "tflite")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A bundle with artifacts of three engines, and more files that are hashed."""
    folder = tmp_path_factory.mktemp("hostile") / "whole"
    write_bundle(folder, task="text-classification")
    for name, content in (COMMON | OTHERS).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    data = json.loads((folder / MANIFEST).read_text())
    model = data["artifacts"][0]
    data["files"] += [vars(FileRecord.of(folder, name)) for name in COMMON]
    data["artifacts"] = [
        {
            **model,
            "backend": backend,
            "files": [vars(FileRecord.of(folder, name)) for name in names],
        }
        for backend, names in ARTIFACTS.items()
    ]
    data["lineage"] = [{"step": "export", "config": {"seed": 1, "names": ["a", None, 1.5]}}]
    (folder / MANIFEST).write_text(json.dumps(data))
    Manifest.load(folder)
    return folder


@pytest.fixture
def victim(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "victim")


@pytest.fixture
def seen(monkeypatch):
    """Files that an engine was given; any engine is there, suits, and fails."""
    paths = []

    def spy(_, path, *__):
        paths.append(path)
        raise BackendRunError("the spy runs nothing")

    monkeypatch.setenv("EDGEBERT_CACHE", "off")
    monkeypatch.setattr("edgebert.engines.engine.load_backend", spy)
    monkeypatch.setattr("edgebert.bundles.bundle.why_unsuited", lambda _: None)
    monkeypatch.setattr("runtimes.BackendSpec.installed", lambda _: True)
    return paths


def test_the_bundle_is_whole_until_it_is_changed(whole, seen):
    for backend, names in ARTIFACTS.items():
        with pytest.raises(BackendRunError, match="spy"):
            Runtime(whole, backend)
        assert seen.pop() == whole / names[0]


def attack_files(victim, seen, *, times):
    for name, backend in FILES.items():
        content = (victim / name).read_bytes()
        for seed in range(times):
            (victim / name).write_bytes(mutate(name, content, seed))
            with pytest.raises(DamagedBundleError, match=re.escape(name)):
                Runtime(victim, "auto" if seed % 2 else backend)
            assert seen == [], (name, seed)
        (victim / name).write_bytes(content)


def attack_manifest(victim, seen, *, times):
    """Load with a changed manifest: only files whose own hashes hold may reach an engine."""
    content = (victim / MANIFEST).read_bytes()
    first = {victim / names[0] for names in ARTIFACTS.values()}
    refused = 0
    for seed in range(times):
        (victim / MANIFEST).write_bytes(mutate(MANIFEST, content, seed))
        try:
            Runtime(victim, ("onnx", "openvino", "auto")[seed % 3]).close()
        except ManifestError:
            refused += 1
        except EdgeBertError:
            pass
        assert set(seen) <= first, seed
        del seen[:]
    assert refused > times / 3


def test_a_changed_file_is_named_and_no_engine_has_seen_it(victim, seen):
    attack_files(victim, seen, times=12)


def test_a_changed_manifest_ends_in_an_error_of_ours(victim, seen):
    attack_manifest(victim, seen, times=120)


@pytest.mark.slow
def test_7000_changed_files_are_named_and_no_engine_has_seen_them(victim, seen):
    attack_files(victim, seen, times=1000)


@pytest.mark.slow
def test_3000_changed_manifests_end_in_errors_of_ours(victim, seen):
    attack_manifest(victim, seen, times=3000)


def peak_bytes(action, error):
    tracemalloc.start()
    try:
        with pytest.raises(error):
            action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_manifest_of_a_terabyte_takes_no_more_memory_than_the_largest_allowed(victim):
    with (victim / MANIFEST).open("wb") as stream:
        stream.truncate(1 << 40)
    assert peak_bytes(lambda: Bundle(victim), ManifestError) < 2 * MAX_BYTES + (1 << 20)


@pytest.mark.parametrize("value", ["[]", "{}", "0.5", '""', "[[[]]]"])
def test_a_manifest_of_many_values_is_refused_before_it_is_parsed(victim, value):
    text = '{"lineage": [' + f"{value}," * MAX_VALUES + "1]}"
    (victim / MANIFEST).write_text(text)
    assert peak_bytes(lambda: Bundle(victim), ManifestError) < 2 * len(text) + (1 << 20)


@pytest.mark.parametrize("name", ["onnx/model.onnx", "model.safetensors", "tokenizer.json"])
def test_a_large_file_is_hashed_in_little_memory(victim, name):
    with (victim / name).open("r+b") as stream:
        stream.truncate(64 << 20)
    data = json.loads((victim / MANIFEST).read_text())
    for record in (*data["files"], *data["artifacts"][0]["files"]):
        record["size_bytes"] = (victim / record["path"]).stat().st_size
    (victim / MANIFEST).write_text(json.dumps(data))
    assert peak_bytes(lambda: Runtime(victim, "onnx"), DamagedBundleError) < 8 << 20


def test_sizes_of_a_header_are_never_believed(victim, seen):
    """The runtime hashes safetensors and never parses it, whatever its header claims."""
    claims = struct.pack("<Q", 2**63) + b'{"w":{"dtype":"F32","shape":[4294967295,4294967295]}}'
    (victim / "model.safetensors").write_bytes(claims)
    data = json.loads((victim / MANIFEST).read_text())
    own = vars(FileRecord.of(victim, "model.safetensors"))
    data["files"] = [own if item["path"] == own["path"] else item for item in data["files"]]
    (victim / MANIFEST).write_text(json.dumps(data))
    assert peak_bytes(lambda: Runtime(victim, "onnx"), BackendRunError) < 4 << 20
    assert seen == [victim / "onnx/model.onnx"]


TEMPLATE = {"SpecialToken": {"id": "[NONE]", "type_id": 0}}


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data["post_processor"]["single"].append(TEMPLATE),  # its Rust code panics
        lambda data: data["model"].update(unk_token="[NONE]"),  # fails at an unknown character
        lambda data: data["model"].update(type="Nothing"),
        lambda data: data["model"].update(vocab={}),
        lambda data: data.update(normalizer={"type": "Replace", "pattern": {"Regex": "("}}),
    ],
)
def test_a_tokenizer_that_fails_or_panics_is_a_damaged_bundle(classifier_dir, change, capfd):
    data = json.loads((classifier_dir / "tokenizer.json").read_text())
    change(data)
    (classifier_dir / "tokenizer.json").write_text(json.dumps(data))
    manifest = json.loads((classifier_dir / MANIFEST).read_text())
    manifest["files"] = [vars(FileRecord.of(classifier_dir, "tokenizer.json"))]
    manifest["golden"]["texts"][0] = "\u4e16"
    (classifier_dir / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(DamagedBundleError, match=r"tokenizer\.json"):
        Runtime(classifier_dir, "onnx")
    capfd.readouterr()  # the panic has its say on stderr


def test_vectors_of_zeros_are_a_failed_self_test(embedder_dir, monkeypatch):
    def refuse(*_):
        raise InputError("Vectors [0] are all zeros and can't be normalized.")

    monkeypatch.setattr("edgebert.engines.loading.run_self_test", refuse)
    with pytest.raises(SelfTestError, match="onnx/int8 gives unusable outputs"):
        Runtime(embedder_dir, "onnx")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["onnx/model.onnx", "tokenizer.json"])
def test_with_the_hashes_written_anew_a_child_ends_in_errors_of_ours(embedder_dir, name):
    if "onnx" not in available_backends():
        pytest.skip("needs edgebert[onnx]")
    found = attack(embedder_dir, "onnx", name, seeds=range(100))
    assert sum(found.outcomes.values()) == 100
    assert not [outcome for outcome in found.outcomes if outcome.startswith("NOT OURS")], found
    assert "hang" not in found.outcomes, found
