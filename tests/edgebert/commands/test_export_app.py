"""``edgebert export-app``: what an app without Python gets, and its tokenizer against ours."""

import json
import random
import shutil
import subprocess

import numpy as np
import pytest
from tokenizers import Tokenizer as Library
from tokenizers import models, normalizers, pre_tokenizers

from edgebert.apps.folder import TARGETS, TEMPLATES
from edgebert.formats.manifest import Manifest
from edgebert.runtime import Runtime
from edgebert.text.tokenizer import Tokenizer
from tests.edgebert.bundles import write_bundle
from tests.real_texts import random_lines
from tests.tiny import SPECIAL_IDS, write_tokenizer

node = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
ALL = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    """A classifier's app for the web, made once; its bundle is beside it."""
    from edgebert.commands.export_app import export_app

    folder = tmp_path_factory.mktemp("apps")
    write_bundle(folder / "bundle", task="text-classification")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGEBERT_CACHE", "off")
        export_app(folder / "bundle", folder / "web", target="web")
    return folder / "web"


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def encoded_in_node(app, cases):
    """Encode ``[texts, max_length]`` each with wordpiece.js."""
    code = """
        import { readFileSync } from "node:fs";
        const { WordPiece } = await import(process.argv[1] + "/wordpiece.js");
        const read = (name) => readFileSync(process.argv[1] + "/assets/" + name, "utf8");
        const { tokenizer } = JSON.parse(read("app.json"));
        const words = new WordPiece(read("vocab.txt"), read("characters.txt"), tokenizer);
        const cases = JSON.parse(readFileSync(0, "utf8"));
        console.log(JSON.stringify(cases.map(([texts, most]) => words.encode(texts, most))));
    """
    command = ["node", "--input-type=module", "-e", code, str(app)]
    done = subprocess.run(
        command, input=json.dumps(cases), capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check_against_ours(app, cases):
    ours = Tokenizer(app.parent / "bundle", special_ids=SPECIAL_IDS)
    for (texts, most), found in zip(cases, encoded_in_node(app, cases), strict=True):
        pair = texts[1:] or None
        expected = ours.encode(texts[:1], pair, max_length=most)[0]
        assert found["ids"] == expected.input_ids.tolist(), texts
        assert found["types"] == expected.token_type_ids.tolist(), texts


@node
@pytest.mark.slow
def test_every_character_gets_the_ids_of_the_tokenizers_package(app):
    texts = ["".join(f"a{c}b" for c in ALL[at : at + 400]) for at in range(0, len(ALL), 400)]
    check_against_ours(app, [[[text], 5000] for text in texts])


@node
def test_lines_of_many_scripts_get_the_same_ids(app):
    check_against_ours(app, [[[text], 500] for text in random_lines(2000)])


@node
def test_texts_and_pairs_are_cut_in_the_same_way(app):
    rng = random.Random(0)
    texts = [
        " ".join(rng.choices(["good", "film", "xyz", "!"], k=rng.randrange(9))) for _ in "x" * 90
    ]
    cases = [[[text], 5] for text in texts]
    cases += [[[one, two], rng.randrange(4, 14)] for one in texts[:30] for two in texts[30:45]]
    check_against_ours(app, cases)


@node
@pytest.mark.parametrize(
    "word", ["a" * 100, "a" * 101, "goodé", "good漢", "", "[SEP]", "[MASK] good"]
)
def test_a_word_is_unknown_where_it_is_to_the_package(app, word):
    check_against_ours(app, [[[word], 200]])


@node
@pytest.mark.slow
@pytest.mark.parametrize("settings", [
    {"lowercase": False, "strip_accents": False},
    {"lowercase": True, "strip_accents": False},
    {"lowercase": False, "strip_accents": True},
    {"clean_text": False, "handle_chinese_chars": False},
])  # fmt: skip
def test_every_setting_of_the_normalizer_is_kept(tmp_path, settings):
    def tokenizer(directory):
        write_tokenizer(directory)
        library = Library.from_file(str(directory / "tokenizer.json"))
        library.normalizer = normalizers.BertNormalizer(**settings)
        library.save(str(directory / "tokenizer.json"))

    from edgebert.commands.export_app import export_app

    write_bundle(tmp_path / "bundle", task="regression", tokenizer=tokenizer)
    export_app(tmp_path / "bundle", tmp_path / "web", target="web")
    check_against_ours(tmp_path / "web", [[[text], 500] for text in random_lines(500, seed=1)])


def test_app_json_says_what_the_manifest_says(app):
    found, bundle = read(app / "assets/app.json"), app.parent / "bundle"
    manifest = Manifest.load(bundle)
    assert found["task"] == "text-classification"
    assert found["labels"] == ["bad", "fair", "good"]
    assert (found["max_length"], found["pairs"], found["pooling"]) == (32, False, None)
    assert found["model"]["sha256"] == manifest.artifacts[0].files[0].sha256
    assert sorted(port["name"] for port in found["model"]["inputs"]) == [
        "attention_mask", "input_ids", "token_type_ids",
    ]  # fmt: skip
    assert found["model"]["outputs"] == [
        {"name": "logits", "dtype": "float32", "shape": ["batch", 3]}
    ]
    single = [{"id": 2, "type": 0}, {"text": 0, "type": 0}, {"id": 3, "type": 0}]
    assert found["tokenizer"]["single"] == single
    assert found["tokenizer"]["pair"] == [*single, {"text": 1, "type": 1}, {"id": 3, "type": 1}]


def test_an_embedder_says_how_its_vectors_are_made(edgebert, embedder_dir, tmp_path):
    edgebert("export-app", embedder_dir, tmp_path / "app", "--for", "ios", "--precision", "fp32")
    found = read(tmp_path / "app/Resources/app.json")
    assert (found["pooling"], found["normalize"], found["vector_size"]) == ("mean", True, 8)
    assert found["prompts"] == {"query": "good ", "document": "the "}
    assert found["model"]["outputs"][0]["shape"] == ["batch", "length", 8]


def test_golden_json_is_what_the_runtime_gives(app):
    golden, bundle = read(app / "assets/golden.json"), app.parent / "bundle"
    with Runtime(bundle, threads=1) as runtime:
        batch = [runtime.tokenize([text]) for text in golden["texts"]]
        logits = [runtime.run(one)["logits"][0] for one in batch]
    assert [one.input_ids[0].tolist() for one in batch] == golden["input_ids"]
    np.testing.assert_allclose(logits, golden["outputs"], atol=golden["tolerance"])


def test_the_vocabulary_is_in_the_order_of_the_ids(app):
    tokens = (app / "assets/vocab.txt").read_text(encoding="utf-8").split("\n")
    library = Library.from_file(str(app.parent / "bundle/tokenizer.json"))
    assert tokens.pop() == ""
    assert [library.token_to_id(token) for token in tokens] == list(range(len(tokens)))


@pytest.mark.parametrize("target", TARGETS)
def test_each_target_has_code_a_model_and_a_readme_filled_in(
    edgebert, classifier_dir, tmp_path, target
):
    code, out, _ = edgebert(
        "export-app", classifier_dir, tmp_path / "app", "--for", target, "--json"
    )
    files = json.loads(out)["files"]
    readme = (tmp_path / "app/README.md").read_text()
    assert code == 0
    assert any(name.endswith((".onnx", ".tflite")) for name in files)
    assert any(name.endswith((".kt", ".swift", ".js", ".c")) for name in files)
    assert "onnx/int8" in readme
    assert "$artifact" not in readme


def test_for_c_the_bundle_is_slim_and_whole(edgebert, classifier_dir, tmp_path):
    edgebert("export-app", classifier_dir, tmp_path / "app", "--for", "c", "--precision", "fp32")
    with Runtime(tmp_path / "app/bundle", threads=1, self_test="always") as runtime:
        assert runtime.info.precision == "fp32"
    assert not (tmp_path / "app/bundle/onnx/model_quantized.onnx").exists()
    assert {path.suffix for path in (tmp_path / "app/src").iterdir()} == {".c", ".h", ""}


def test_an_existing_folder_is_left_alone(edgebert, classifier_dir, tmp_path):
    (tmp_path / "app").mkdir()
    code, _, err = edgebert("export-app", classifier_dir, tmp_path / "app", "--for", "web")
    assert code == 1
    assert "exists" in err
    assert list((tmp_path / "app").iterdir()) == []


def refused(edgebert, bundle, tmp_path, *more):
    code, _, err = edgebert("export-app", bundle, tmp_path / "app", "--for", "web", *more)
    assert code == 1
    assert list(tmp_path.glob("*app*")) == []  # nothing half-written either
    return err


def test_a_task_without_sample_code_is_refused(edgebert, tmp_path):
    write_bundle(tmp_path / "tagger", task="token-classification")
    err = refused(edgebert, tmp_path / "tagger", tmp_path)
    assert "is for token-classification; the sample code of an app can do feature-extraction" in err


def test_another_engine_than_the_sample_has_is_refused(edgebert, classifier_dir, tmp_path):
    err = refused(edgebert, classifier_dir, tmp_path, "--backend", "tflite")
    assert "runs on onnx, not on 'tflite'" in err


def test_a_precision_that_is_not_there_is_refused(edgebert, classifier_dir, tmp_path):
    err = refused(edgebert, classifier_dir, tmp_path, "--precision", "int4")
    assert "has no artifact onnx int4 for web; it has: onnx/fp32, onnx/int8" in err


def change_of(part):
    """Give a writer of a ``tokenizer.json`` that isn't BERT's in one part."""

    def write(directory):
        write_tokenizer(directory)
        library = Library.from_file(str(directory / "tokenizer.json"))
        if part == "model":
            library.model = models.WordLevel(library.get_vocab(), unk_token="[UNK]")
        elif part == "normalizer":
            library.normalizer = normalizers.NFKC()
        elif part == "pre_tokenizer":
            library.pre_tokenizer = pre_tokenizers.Whitespace()
        else:
            library.add_tokens(["good"])
        library.save(str(directory / "tokenizer.json"))

    return write


@pytest.mark.parametrize(("part", "told"), [
    ("model", "a model of the kind WordLevel, not WordPiece"),
    ("normalizer", "a normalizer of the kind NFKC, not BertNormalizer"),
    ("pre_tokenizer", "a pre_tokenizer of the kind Whitespace, not BertPreTokenizer"),
    ("token", "adds tokens that aren't special (good)"),
])  # fmt: skip
def test_a_tokenizer_of_another_kind_is_refused(edgebert, tmp_path, part, told):
    bundle = tmp_path / "bundle"
    write_bundle(bundle, task="text-classification", tokenizer=change_of(part))
    assert told in refused(edgebert, bundle, tmp_path)


def test_a_model_that_fails_its_test_gets_no_app(edgebert, classifier_dir, tmp_path):
    path = classifier_dir / "edgebert.json"
    data = json.loads(path.read_text())
    for artifact in data["artifacts"]:
        artifact["golden"][0][0] += 1.0
    path.write_text(json.dumps(data))
    assert "golden text 0 is off by" in refused(edgebert, classifier_dir, tmp_path)


def test_the_templates_name_no_machine_and_no_unfilled_place():
    for path in TEMPLATES.rglob("*.md"):
        text = path.read_text(encoding="utf-8")
        assert "/work" not in text
        assert "TODO" not in text
