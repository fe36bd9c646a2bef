"""What is OpenVINO's own: precision, shapes, threads, damaged files."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from edgebert.errors import BackendRunError
from edgebert.types import Batch
from runtimes import SessionOptions
from tests.edgebert.bundles import hidden_by_hand

pytestmark = pytest.mark.openvino

pytest.importorskip("openvino")

from runtimes import openvino as module  # noqa: E402
from runtimes.openvino import OpenVinoBackend, ov  # noqa: E402
from tests.runtimes.openvino_model import LIMIT, write_openvino_model  # noqa: E402

ONE_THREAD = SessionOptions(threads=1)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    return write_openvino_model(tmp_path_factory.mktemp("openvino"))


@pytest.fixture
def backend(artifact):
    opened = OpenVinoBackend(artifact, ONE_THREAD)
    yield opened
    opened.close()


def batch_of(*rows):
    longest = max(map(len, rows))
    ids = np.array([[*row, *[0] * (longest - len(row))] for row in rows], dtype=np.int64)
    mask = np.array([[i < len(row) for i in range(longest)] for row in rows]).astype(np.int64)
    return Batch(ids, mask, np.zeros_like(ids), np.zeros(len(rows), dtype=np.int64))


def random_rows(count, *, seed=0):
    draw = np.random.default_rng(seed)
    return [draw.integers(5, 80, draw.integers(1, LIMIT + 1)).tolist() for _ in range(count)]


def copy_of(artifact, folder):
    for suffix in (".xml", ".bin"):
        (folder / f"copy{suffix}").write_bytes(artifact.with_suffix(suffix).read_bytes())
    return folder / "copy.xml"


def test_it_computes_in_float32_on_every_cpu(artifact, monkeypatch):
    opened = []
    core = ov.Core

    def spying_core():
        def compile_model(*args):
            opened.append(core().compile_model(*args))
            return opened[0]

        return SimpleNamespace(compile_model=compile_model)

    monkeypatch.setattr(ov, "Core", spying_core)
    OpenVinoBackend(artifact, ONE_THREAD)
    assert opened[0].get_property("INFERENCE_PRECISION_HINT") == ov.Type.f32
    assert opened[0].get_property("INFERENCE_NUM_THREADS") == 1
    assert opened[0].get_property("NUM_STREAMS") == 1


def test_an_engine_that_would_not_compute_in_float32_is_refused(artifact, monkeypatch):
    compiled = SimpleNamespace(get_property=lambda _: ov.Type.bf16)
    stub = SimpleNamespace(compile_model=lambda *_: compiled)
    monkeypatch.setattr(ov, "Core", lambda: stub)
    with pytest.raises(BackendRunError, match=r"would run .*m\.xml in .*bfloat16"):
        OpenVinoBackend(artifact, ONE_THREAD)


def test_texts_of_any_length_keep_their_place(backend):
    rows = random_rows(90)  # more than fit into one piece
    found = backend.run(batch_of(*rows))["last_hidden_state"]
    for values, row in zip(found, rows, strict=True):
        np.testing.assert_allclose(values[: len(row)], hidden_by_hand(row), atol=1e-5)
        assert not values[len(row) + 7 :].any()


def test_a_text_longer_than_its_limit_is_run_as_it_is(backend):
    row = [7] * (LIMIT + 3)
    found = backend.run(batch_of(row))["last_hidden_state"][0]
    np.testing.assert_allclose(found, hidden_by_hand(row), atol=1e-5)


@pytest.fixture
def shapes_seen(monkeypatch):
    seen = set()
    feed = module.feed

    def spy(batch, ranks):
        seen.add(batch.input_ids.shape)
        return feed(batch, ranks)

    monkeypatch.setattr(module, "feed", spy)
    return seen


def test_it_sees_few_shapes(backend, shapes_seen):
    for seed in range(60):
        backend.run(batch_of(*random_rows(1 + seed % 40, seed=seed)))
    assert {rows for rows, _ in shapes_seen} <= {1, 2, 4, 8, 16, 32, 64}
    assert {length for _, length in shapes_seen} <= {8, 16, 24, 32, 40, 48, LIMIT}


@pytest.fixture(scope="module")
def foreign(artifact):
    """The same model as another exporter writes it: it doesn't say how many tokens it takes."""
    model = ov.convert_model(str(artifact.with_suffix(".onnx")))
    ov.save_model(model, str(artifact.with_name("foreign.xml")), compress_to_fp16=False)
    return artifact.with_name("foreign.xml")


def test_a_model_without_a_limit_is_run_at_each_length_as_it_is(foreign):
    row = [2, 57, 3]
    found = OpenVinoBackend(foreign, ONE_THREAD).run(batch_of(row, [5] * 9))
    np.testing.assert_allclose(found["last_hidden_state"][0, :3], hidden_by_hand(row), atol=1e-5)


def test_a_model_that_does_not_say_its_limit_sees_few_shapes_up_to_the_one_given(
    foreign, shapes_seen
):
    backend = OpenVinoBackend(foreign, SessionOptions(threads=1, max_length=LIMIT))
    for seed in range(20):
        rows = random_rows(1 + seed % 5, seed=seed)
        found = backend.run(batch_of(*rows))["last_hidden_state"]
        for values, row in zip(found, rows, strict=True):
            np.testing.assert_allclose(values[: len(row)], hidden_by_hand(row), atol=1e-5)
    assert {length for _, length in shapes_seen} <= {8, 16, 24, 32, 40, 48, LIMIT}


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("sentence_embedding", [-1, -1], False),
        ("logits", [-1, -1], False),  # of labels, or choices
        ("logits", [-1, -1, 9], True),
        ("start_logits", [-1, -1], True),
        ("last_hidden_state", [-1, -1, -1], True),
        ("attentions", [-1, 12, -1, -1], False),
    ],
)
def test_an_output_has_an_axis_of_tokens_by_its_name_or_rank(name, shape, expected):
    assert module._is_per_token(name, ov.PartialShape(shape)) is expected


def test_a_text_vector_of_open_width_comes_back_whole(tmp_path):
    op = ov.opset13
    inputs = [op.parameter([-1, -1], ov.Type.i64) for _ in range(2)]
    for parameter, name in zip(inputs, ("input_ids", "attention_mask"), strict=True):
        parameter.output(0).set_names({name})
    ids, mask = inputs
    total = op.reduce_sum(op.multiply(ids, mask), np.array([1]), keep_dims=True)
    # three times the largest 1 of the mask, which no converter can foresee
    width = op.multiply(op.reduce_max(mask, np.array([0, 1])), op.constant(np.array([1, 3])))
    vector = op.convert(op.tile(total, width), "f32")
    vector.output(0).set_names({"sentence_embedding"})
    model = ov.Model([vector], inputs, "m")
    assert model.output(0).get_partial_shape()[1].is_dynamic
    ov.save_model(model, str(tmp_path / "m.xml"))
    batch = batch_of([2, 3], [4] * 9, [1])
    found = OpenVinoBackend(tmp_path / "m.xml", ONE_THREAD).run(batch)["sentence_embedding"]
    np.testing.assert_array_equal(found, [[5.0] * 3, [36.0] * 3, [1.0] * 3])


def test_sixteen_threads_get_their_own_results(backend):
    rows = random_rows(64)
    alone = [backend.run(batch_of(row))["last_hidden_state"] for row in rows]

    def many(worker):
        order = np.random.default_rng(worker).integers(0, len(rows), 100)
        return [(i, backend.run(batch_of(rows[i]))["last_hidden_state"]) for i in order]

    with ThreadPoolExecutor(16) as threads:
        for results in threads.map(many, range(16)):
            for i, found in results:
                np.testing.assert_array_equal(found, alone[i])


def test_results_are_not_overwritten_by_later_calls(backend):
    first = backend.run(batch_of([2, 57, 3]))["last_hidden_state"]
    kept = first.copy()
    backend.run(batch_of([2, 58, 3]))
    np.testing.assert_array_equal(first, kept)


def test_it_runs_again_after_a_batch_that_failed(backend):
    bad = batch_of([2, 57, 3])
    with pytest.raises(BackendRunError, match=r"failed on .*m\.xml with a batch of \[1, 3\]"):
        backend.run(
            Batch(bad.input_ids, bad.attention_mask[:, :0], bad.token_type_ids, bad.dropped_tokens)
        )
    found = backend.run(bad)["last_hidden_state"][0]
    np.testing.assert_allclose(found, hidden_by_hand([2, 57, 3]), atol=1e-5)


def test_a_missing_bin_is_an_error_of_ours(artifact, tmp_path):
    copy = copy_of(artifact, tmp_path)
    copy.with_suffix(".bin").unlink()
    with pytest.raises(BackendRunError, match=r"can't open .*copy\.xml"):
        OpenVinoBackend(copy, ONE_THREAD)


@pytest.mark.parametrize("suffix", [".xml", ".bin"])
@pytest.mark.parametrize("kept", [0, 1, 100])
def test_a_file_cut_short_is_an_error_of_ours(artifact, tmp_path, suffix, kept):
    copy = copy_of(artifact, tmp_path)
    copy.with_suffix(suffix).write_bytes(copy.with_suffix(suffix).read_bytes()[:kept])
    with pytest.raises(BackendRunError, match=r"can't open .*copy\.xml.* is damaged") as caught:
        OpenVinoBackend(copy, ONE_THREAD)
    assert "\n" not in str(caught.value)
    assert "Exception from" not in str(caught.value)


def test_a_model_of_another_format_is_not_read(artifact, tmp_path):
    (tmp_path / "m.xml").write_bytes(artifact.with_suffix(".onnx").read_bytes())
    with pytest.raises(BackendRunError, match=r"can't open .*m\.xml"):
        OpenVinoBackend(tmp_path / "m.xml", ONE_THREAD)


def test_opening_and_running_writes_no_file(artifact, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    copy = copy_of(artifact, tmp_path)
    OpenVinoBackend(copy, ONE_THREAD).run(batch_of([2, 3]))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.bin", "copy.xml"]


def test_of_an_outputs_names_the_known_one_is_taken(artifact, tmp_path):
    model = ov.Core().read_model(str(artifact))
    model.outputs[0].get_tensor().set_names({"12", "last_hidden_state"})
    ov.save_model(model, str(tmp_path / "m.xml"), compress_to_fp16=False)
    assert OpenVinoBackend(tmp_path / "m.xml", ONE_THREAD).outputs == ["last_hidden_state"]
