"""One bundle in Chromium, through the page of examples/web, and in Node: what Python says of it."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from edgebert.runtime import Runtime
from tests.browser.conftest import run_node, run_node_raw
from tests.browser.texts import two_hundred
from tests.edgebert.bundles import change_manifest, write_bundle
from tests.shipped import shipped_classifier, shipped_embedder

pytestmark = pytest.mark.browser

TEXTS = two_hundred()
BACKENDS = {"transformers": "onnx", "litert": "tflite"}
READY = "['ready', 'failed'].includes(document.getElementById('status')?.dataset.state)"
CHOOSE = """for (const [id, value] of Object.entries(%s)) {
    document.getElementById(id).value = value;
    document.getElementById(id).dispatchEvent(new Event("change"));
}"""
ASK = "student.ask('run', {texts: %s}).then((all) => all.map((one) => one.row))"


def open_page(chromium, url, library, precision):
    """Open the page and choose; give the status that it ends with."""
    chromium.call("Page.navigate", url=url)
    chromium.wait_for("document.getElementById('library')?.options.length > 0")
    chromium.evaluate(CHOOSE % json.dumps({"library": library, "precision": precision}))
    chromium.wait_for(READY)
    return chromium.evaluate("document.getElementById('status').textContent")


def rows_of(bundle, backend, precision, *, task):
    """Python's vectors or logits."""
    with Runtime(bundle, backend, precision, threads=1) as runtime:
        if task == "feature-extraction":
            return runtime.encode(TEXTS)
        return np.stack([runtime.run(runtime.tokenize([text]))["logits"][0] for text in TEXTS])


def cosines(a, b):
    return (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def check(found, expected, precision):
    if precision == "fp32":
        np.testing.assert_allclose(found, expected, atol=1e-4)
    else:
        assert cosines(found, expected).min() >= 0.99
    assert (np.argmax(found, axis=1) == np.argmax(expected, axis=1)).all() or precision != "fp32"


@pytest.mark.parametrize("library", BACKENDS)
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_the_page_gives_the_vectors_of_python(chromium, serve, library, precision):
    bundle = shipped_embedder()
    url = serve(bundle)
    assert open_page(chromium, url, library, precision) == "Ready, without a network."
    found = np.array(chromium.evaluate(ASK % json.dumps(TEXTS)))
    expected = rows_of(bundle, BACKENDS[library], precision, task="feature-extraction")
    check(found, expected, precision)
    asked = {address.removeprefix("blob:") for address in chromium.requests}
    assert len(asked) > 8, "the worker's requests are seen, too"
    assert all(address.startswith(url) for address in asked)


@pytest.mark.parametrize("library", BACKENDS)
def test_the_page_gives_the_logits_of_python(chromium, serve, library):
    bundle = shipped_classifier()
    assert "Ready" in open_page(chromium, serve(bundle), library, "fp32")
    found = np.array(chromium.evaluate(ASK % json.dumps(TEXTS)))
    expected = rows_of(bundle, BACKENDS[library], "fp32", task="text-classification")
    check(found, expected, "fp32")


@pytest.mark.parametrize("library", BACKENDS)
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_node_gives_the_vectors_of_python(library, precision):
    bundle = shipped_embedder()
    lines = run_node(bundle, library, precision, texts=TEXTS)
    expected = rows_of(bundle, BACKENDS[library], precision, task="feature-extraction")
    check(np.array([one["vector"] for one in lines]), expected, precision)


@pytest.mark.parametrize("library", BACKENDS)
def test_node_gives_the_labels_of_python(library):
    bundle = shipped_classifier()
    lines = run_node(bundle, library, texts=TEXTS)
    with Runtime(bundle, BACKENDS[library], "fp32", threads=1) as runtime:
        expected = runtime.classify(TEXTS)
    assert [one["label"] for one in lines] == [one.label for one in expected]
    assert [one["dropped_tokens"] for one in lines] == [one.dropped_tokens for one in expected]
    found = np.array([one["score"] for one in lines])
    np.testing.assert_allclose(found, [one.score for one in expected], atol=1e-5)


def test_the_page_shows_size_time_speed_and_answers_while_typing(chromium, serve, tmp_path):
    bundle = shipped_classifier()
    chromium.size(390, 844, dark=True)
    open_page(chromium, serve(bundle), "transformers", "fp32")
    chromium.wait_for("document.querySelectorAll('#results li').length == 2")
    shown = {
        name: chromium.evaluate(f"document.getElementById('{name}').textContent")
        for name in ("size", "load", "speed", "test")
    }
    assert shown["size"].endswith(" MB")
    assert shown["load"].endswith(" s")
    assert shown["speed"].endswith(" ms")
    assert shown["test"] == "passed"
    before = chromium.evaluate("document.getElementById('results').textContent")
    chromium.evaluate("document.getElementById('query').select()")
    chromium.evaluate("document.getElementById('query').focus()")
    chromium.call("Input.insertText", text="dull " * 9)
    chromium.wait_for(f"document.getElementById('results').textContent != {before!r}")
    assert chromium.evaluate("document.documentElement.scrollWidth") <= 390
    assert chromium.problems == []
    chromium.screenshot(tmp_path / "page.png")


def test_the_page_lives_while_the_model_runs(chromium, serve):
    open_page(chromium, serve(shipped_embedder()), "litert", "fp32")
    ticks = chromium.evaluate(
        "(async () => { let ticks = 0; const clock = setInterval(() => ticks++, 5);"
        f"await student.ask('run', {{texts: {json.dumps(TEXTS * 10)}}});"
        "clearInterval(clock); return ticks; })()"
    )
    assert ticks > 10


def broken(tmp_path, change):
    folder = shutil.copytree(shipped_embedder(), tmp_path / "bundle")
    change_manifest(folder, change)
    return folder


def other_ids(manifest):
    manifest["golden"]["input_ids"][1][1] += 1


def other_outputs(manifest):
    for artifact in manifest["artifacts"]:
        artifact["golden"][1][0] += 2 * artifact["tolerance"]


CHANGES = [(other_ids, "golden text 1 other ids"), (other_outputs, "golden text 1 is off by")]


@pytest.mark.parametrize(("change", "message"), CHANGES)
def test_the_page_answers_nothing_where_the_self_test_fails(
    chromium, serve, tmp_path, change, message
):
    url = serve(broken(tmp_path, change))
    assert message in open_page(chromium, url, "transformers", "fp32")
    assert chromium.evaluate("document.getElementById('test').textContent") == "failed"
    assert chromium.evaluate("document.getElementById('query').disabled") is True
    assert chromium.evaluate("document.querySelectorAll('#results li').length") == 0


@pytest.mark.parametrize("library", BACKENDS)
@pytest.mark.parametrize(("change", "message"), CHANGES)
def test_node_answers_nothing_where_the_self_test_fails(tmp_path, library, change, message):
    done = run_node_raw(broken(tmp_path, change), library, given="good\n")
    assert done.returncode == 1
    assert message in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("changes", "settings", "message"),
    [
        ({"task": "token-classification"}, ["transformers"], "The task is token-classification"),
        ({}, ["litert"], "no fp32 artifact for tflite; it has: none"),
        ({}, ["transformers", "int4"], "no int4 artifact for onnx; it has: fp32"),
    ],
)
def test_node_names_what_a_bundle_lacks(tmp_path, changes, settings, message):
    write_bundle(tmp_path, **{"task": "text-classification", **changes})
    (tmp_path / "tokenizer_config.json").write_text("{}")
    done = run_node_raw(tmp_path, *settings)
    assert done.returncode == 1
    assert message in done.stderr


def test_pairs_are_cut_as_in_python(tmp_path):
    write_bundle(tmp_path, task="text-classification", pairs=True, max_length=8)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    pairs = [("a b c d e f", "g h"), ("a", "b c d e f g h"), ("a b c d", "e f g h"), ("", "")]
    lines = run_node(tmp_path, "transformers", texts=["\t".join(pair) for pair in pairs])
    with Runtime(tmp_path, threads=1) as runtime:
        expected = runtime.classify(pairs)
    for found, ours in zip(lines, expected, strict=True):
        assert found["dropped_tokens"] == ours.dropped_tokens
        assert found["label"] == ours.label
        assert found["score"] == pytest.approx(ours.score, abs=1e-5)


def test_nothing_outside_of_the_two_folders_is_served(serve):
    import urllib.error
    import urllib.request

    url = serve(shipped_embedder())
    for path in ("bundle/..%2f..%2fetc/passwd", "..%2f..%2fpackage.json", "bundle/", "no.html"):
        with pytest.raises(urllib.error.HTTPError, match="404") as refused:
            urllib.request.urlopen(url + path)
        refused.value.close()
    with urllib.request.urlopen(url) as page:
        assert "default-src 'self'" in page.headers["Content-Security-Policy"]
