"""``edgebert.json`` as strangers may write it."""

import copy
import json
import os

import pytest

from edgebert.bundles.bundle import Bundle
from edgebert.errors import DamagedBundleError, EdgeBertError, ManifestError
from edgebert.formats.manifest import Manifest
from edgebert.formats.paths import check_distinct
from edgebert.formats.strict_json import MAX_VALUES, parse_json

VERSION_1 = """{
  "task": "feature-extraction", "max_length": 64, "hidden_size": 3, "pooling": "mean",
  "normalize": true, "special_ids": {"pad_token_id": 0},
  "files": [{"path": "tokenizer.json", "sha256": "HASH", "size_bytes": 10}],
  "artifacts": [{
    "backend": "onnx", "precision": "fp32", "recipe": {}, "gated_on": "a CPU",
    "files": [{"path": "onnx/model.onnx", "sha256": "HASH", "size_bytes": 20}],
    "min_engine": "onnxruntime 1.17", "batch_invariant": true, "golden": [[0.5, 0, -1e-3]],
    "tolerance": 0.0001
  }],
  "golden": {"texts": ["a"], "text_pairs": null, "input_ids": [[2, 7, 3]]},
  "labels": [], "problem_type": null, "pairs": false, "prompts": {"query": "q: "},
  "on_long": "truncate", "int8_scale": null, "lineage": [{"step": "export"}], "format_version": 1
}""".replace("HASH", "0" * 64)


def written(directory, data):
    text = data if isinstance(data, str) else json.dumps(data)
    (directory / "edgebert.json").write_text(text, encoding="utf-8")
    return directory


@pytest.fixture
def data():
    return json.loads(VERSION_1)


def test_version_1_is_read_and_what_it_lacks_means_what_it_meant(tmp_path):
    manifest = Manifest.load(written(tmp_path, VERSION_1))
    assert manifest.format_version == 3  # what is saved of it is of this version
    assert (manifest.pooling_layers, manifest.embedding_size, manifest.vector_size) == (1, None, 3)
    assert (manifest.stride, manifest.no_answer_threshold) == (None, None)
    assert manifest.prompts == {"query": "q: "}
    assert manifest.artifacts[0].golden == ((0.5, 0.0, -0.001),)


def test_what_was_read_is_saved_and_read_again(tmp_path):
    manifest = Manifest.load(written(tmp_path, VERSION_1))
    manifest.save(tmp_path)
    assert Manifest.load(tmp_path) == manifest


@pytest.mark.parametrize("version", [0, -1, 1.0, "2", True, None, [], 10**17])
def test_a_version_that_is_none_is_refused(tmp_path, data, version):
    data["format_version"] = version
    with pytest.raises(ManifestError, match="format_version"):
        Manifest.load(written(tmp_path, data))


def test_a_newer_version_is_refused_with_what_to_install(tmp_path, data):
    with pytest.raises(ManifestError, match=r"reads up to 3\. .*pip install -U edgebert"):
        Manifest.load(written(tmp_path, {**data, "format_version": 4}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": NaN}', "number NaN"),
        ('{"a": [-Infinity]}', "number -Infinity"),
        ('{"a": 1e999}', "'a' has a number that is too large"),
        ('{"a": 1, "b": 2, "a": 1}', "key 'a' twice"),
        ('{"a": ' + "9" * 5000 + "}", "more than 18 digits"),
        ("[" * 200_000, "nested too deep"),
        ('{"a": "\\ud800"}', "surrogate"),
        ('{"a\\udc00": 1}', "surrogate"),
        ('{"a": ["b", "\\ud800"]}', "surrogate"),
        ("\ufeff{}", "BOM"),
        ("[" + "[]," * MAX_VALUES, "more than 1000000 values"),
        ("", "Expecting value"),
        ('{"a": 1}}', "Extra data"),
    ],
)
def test_json_with_two_meanings_or_without_bounds_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse_json(text.encode("utf-8"))


def test_json_that_is_not_utf8_is_refused(tmp_path):
    (tmp_path / "edgebert.json").write_bytes(b'{"task": "\xff"}')
    with pytest.raises(ManifestError, match="can't be read as JSON"):
        Manifest.load(tmp_path)


def test_a_manifest_that_is_too_large_is_not_parsed(tmp_path):
    with (tmp_path / "edgebert.json").open("wb") as stream:
        stream.truncate(1 << 40)  # a terabyte, of which nothing is on the disk
    with pytest.raises(ManifestError, match="bytes, more than 16777216"):
        Manifest.load(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in folders on this system")
def test_a_pipe_in_place_of_the_manifest_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "edgebert.json")
    with pytest.raises(ManifestError, match="no regular file"):
        Manifest.load(tmp_path)


# field -> values that it may not have; the last key is set in what the others lead to
REFUSED = {
    "task": ["", "translation", 5, None, ["regression"]],
    "max_length": [0, -1, 1 << 40, 64.0, "64", True, None],
    "hidden_size": [0, 1 << 20, "3", None],
    "embedding_size": [0, -5, 1.5],
    "pooling": [None, "sum", 3],
    "pooling_layers": [0, 5000, "1"],
    "normalize": [0, "yes", None],
    "special_ids": [{}, {"pad_token_id": "0"}, {"pad_token_id": -1}, {"pad_token_id": True}, []],
    "prompts": [{"query": 5}, [], None],
    "on_long": ["drop", None],
    "stride": [-1, "8"],
    "no_answer_threshold": ["0", True],
    "max_answer_length": [0, None, 513, 1 << 30],
    "int8_scale": [[0.1], [0.1, 0.1, "x"], [0.1, 0.1, None], [0.1, 0.1, 0], [0.1, -1, 0.1], 3],
    "labels": ["ab", [5], [None], {"a": 1}],
    "lineage": [["export"], {}, None],
    "files": [None, {}, [5], [{}]],
    "artifacts": [[], None, {}, [5], [{}]],
    "golden": [None, [], {}, {"texts": ["a"], "text_pairs": None}],
    "golden.texts": [[], ["a", "b"], [5], "a", None],
    "golden.text_pairs": [[], ["a", "b"], [None]],
    "golden.input_ids": [
        [],
        [[2], [3]],
        [[]],
        [["2"]],
        [[2.5]],
        [[True]],
        [[-1]],
        [[1 << 40]],
        [2],
    ],
    "files.0.path": ["", "../x", "/x", 5, None],
    "files.0.sha256": ["", "0" * 63, "G" * 64, "A" * 64, None, 0],
    "files.0.size_bytes": [-1, 1 << 50, "10", 1.0, None, True],
    "artifacts.0.backend": ["", "ONNX", "../onnx", "a" * 40, 5, None],
    "artifacts.0.precision": ["int3", "", None],
    "artifacts.0.files": [[], None, {}],
    "artifacts.0.recipe": [[], "x", None],
    "artifacts.0.gated_on": [None, 5],
    "artifacts.0.min_engine": ["", "onnxruntime", "1.17", "onnxruntime 1.17; rm", None],
    "artifacts.0.batch_invariant": [1, "yes", None],
    "artifacts.0.golden": [[], [[0.5], [1.0]], [["x"]], [[None]], [[True]], [0.5], None],
    "artifacts.0.tolerance": [0, -1, "1", None, True],
}


def put(data, field, value):
    *way, last = [int(part) if part.isdigit() else part for part in field.split(".")]
    for part in way:
        data = data[part]
    data[last] = value


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, values in REFUSED.items() for value in values]
)
def test_a_field_with_a_value_that_is_not_allowed_is_refused(tmp_path, data, field, value):
    put(data, field, value)
    with pytest.raises(ManifestError, match=r"edgebert\.json"):
        Manifest.load(written(tmp_path, data))


@pytest.mark.parametrize("field", ["", "golden", "files.0", "artifacts.0"])
def test_a_field_that_is_not_known_is_refused_and_named(tmp_path, data, field):
    put(data, f"{field}.extra".lstrip("."), 1)
    with pytest.raises(ManifestError, match=r"unknown fields \['extra'\]"):
        Manifest.load(written(tmp_path, data))


NEEDED = ["task", "max_length", "hidden_size", "special_ids", "files", "artifacts", "golden"]
NEEDED += [f"files.0.{name}" for name in ("path", "sha256", "size_bytes")]
NEEDED += ["artifacts.0.tolerance", "artifacts.0.golden", "artifacts.0.files", "golden.input_ids"]


@pytest.mark.parametrize("field", NEEDED)
def test_a_field_that_is_needed_is_missed_by_name(tmp_path, data, field):
    *way, last = field.split(".")
    inner = data
    for part in way:
        inner = inner[int(part) if part.isdigit() else part]
    del inner[last]
    with pytest.raises(ManifestError, match=last):
        Manifest.load(written(tmp_path, data))


def test_paths_that_differ_in_case_only_are_refused(tmp_path, data):
    check_distinct(["a/b", "a/c", "a/b"])
    with pytest.raises(ManifestError, match="'a/b' and 'A/b' differ in case only"):
        check_distinct(["a/b", "A/b"])
    data["files"].append({**data["files"][0], "path": "Tokenizer.json"})
    with pytest.raises(ManifestError, match="differ in case only"):
        Manifest.load(written(tmp_path, data))


def test_one_file_with_two_contents_is_refused(tmp_path, data):
    data["files"].append({**data["files"][0], "size_bytes": 11})
    with pytest.raises(ManifestError, match="listed twice, with other contents"):
        Manifest.load(written(tmp_path, data))


def test_two_artifacts_of_one_file_are_refused(tmp_path, data):
    data["artifacts"].append({**copy.deepcopy(data["artifacts"][0]), "precision": "int8"})
    with pytest.raises(ManifestError, match="Two artifacts are the same file"):
        Manifest.load(written(tmp_path, data))


def test_the_tokenizer_must_be_listed(tmp_path, data):
    put(data, "files.0.path", "vocab.txt")
    with pytest.raises(ManifestError, match=r"files doesn't list tokenizer\.json"):
        Manifest.load(written(tmp_path, data))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("artifacts.0.files.0.path", "onnx/model.ort", "must end with .onnx"),
        ("artifacts.0.backend", "tflite", "must end with .tflite"),
        ("artifacts.0.backend", "openvino", "must end with .xml"),
    ],
)
def test_an_artifact_is_of_its_backends_kind(tmp_path, data, field, value, message):
    put(data, field, value)
    bundle = Bundle(written(tmp_path, data))
    with pytest.raises(ManifestError, match=message):
        bundle.check_files(bundle.manifest.artifacts[0])


def test_the_weights_of_an_openvino_artifact_must_be_listed(tmp_path, data):
    put(data, "artifacts.0.backend", "openvino")
    put(data, "artifacts.0.files.0.path", "openvino/model.xml")
    bundle = Bundle(written(tmp_path, data))
    with pytest.raises(ManifestError, match=r"without openvino/model\.bin"):
        bundle.check_files(bundle.manifest.artifacts[0])


def test_the_position_limit_of_an_odd_configuration_is_an_error_of_ours(tmp_path):
    written(tmp_path, VERSION_1)
    (tmp_path / "config.json").write_text("[" * 100_000)
    with pytest.raises(DamagedBundleError, match=r"config\.json"):
        Bundle(tmp_path).position_limit()


def test_every_refusal_is_one_of_ours(tmp_path):
    with pytest.raises(EdgeBertError, match="is not a bundle"):
        Manifest.load(tmp_path)
