"""What every backend must do. A new one joins by adding its file to PATHS."""

import numpy as np
import onnx
import pytest

from edgebert.errors import BackendRunError, BackendUnavailableError, InputError
from edgebert.types import Batch
from runtimes import BACKENDS, BackendSpec, SessionOptions, available_backends, load_backend
from tests.edgebert.bundles import hidden_by_hand, write_graph

PATHS = {
    "onnx": "onnx/model.onnx",
    "openvino": "openvino/openvino_model.xml",
    "tflite": "tflite/model.tflite",
}


def write_models(folder, *, backwards=False):
    """Write one model for each engine; its inputs may be declared in another order."""
    write_graph(folder / PATHS["onnx"], output="last_hidden_state")
    if backwards:
        model = onnx.load(folder / PATHS["onnx"])
        inputs = list(model.graph.input)[::-1]
        del model.graph.input[:]
        model.graph.input.extend(inputs)
        onnx.save(model, folder / PATHS["onnx"])
    if "openvino" in available_backends():
        from runtimes.openvino import ov

        graph = ov.convert_model(str(folder / PATHS["onnx"]))
        ov.save_model(graph, str(folder / PATHS["openvino"]), compress_to_fp16=False)
    if "tflite" in available_backends():
        from tests.runtimes.tflite_graph import write_tflite_graph

        write_tflite_graph(folder / PATHS["tflite"], backwards=backwards)
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return write_models(tmp_path_factory.mktemp("models"))


@pytest.fixture(params=[pytest.param(name, marks=getattr(pytest.mark, name)) for name in PATHS])
def backend_name(request):
    if request.param not in available_backends():
        pytest.skip(f"needs edgebert[{BACKENDS[request.param].extra}]")
    return request.param


@pytest.fixture
def backend(backend_name, models):
    opened = load_backend(backend_name, models / PATHS[backend_name], SessionOptions(threads=1))
    yield opened
    opened.close()


def batch_of(*rows):
    longest = max(map(len, rows))
    ids = np.array([[*row, *[0] * (longest - len(row))] for row in rows], dtype=np.int64)
    mask = np.array([[i < len(row) for i in range(longest)] for row in rows]).astype(np.int64)
    return Batch(ids, mask, np.zeros_like(ids), np.zeros(len(rows), dtype=np.int64))


def test_every_backend_of_the_table_is_under_contract():
    assert set(PATHS) == set(BACKENDS)


def test_it_names_its_engine_and_version(backend):
    name, version = backend.engine.split(" ")
    assert name
    assert version[0].isdigit()


def test_it_names_inputs_and_outputs(backend):
    assert set(backend.inputs) == {"input_ids", "attention_mask", "token_type_ids"}
    assert list(backend.outputs) == ["last_hidden_state"]


def test_outputs_are_float32_of_the_batchs_shape(backend):
    found = backend.run(batch_of([2, 57, 3], [2, 3]))["last_hidden_state"]
    assert (found.dtype, found.shape) == (np.float32, (2, 3, 8))


def test_the_result_is_that_of_a_hand_calculation(backend):
    found = backend.run(batch_of([2, 57, 3]))["last_hidden_state"][0]
    np.testing.assert_allclose(found, hidden_by_hand([2, 57, 3]), atol=1e-5)


def test_inputs_are_bound_by_name_whatever_their_order_in_the_file(backend_name, tmp_path):
    write_models(tmp_path, backwards=True)
    path = tmp_path / PATHS[backend_name]
    backend = load_backend(backend_name, path, SessionOptions(threads=1))
    ids = np.array([[2, 57, 3]])
    types = np.array([[0, 1, 1]])
    found = backend.run(Batch(ids, np.ones_like(ids), types, np.zeros(1, dtype=np.int64)))
    backend.close()
    expected = hidden_by_hand([2, 57, 3], [0, 1, 1])
    np.testing.assert_allclose(found["last_hidden_state"][0], expected, atol=1e-5)


def test_padding_does_not_change_the_real_tokens(backend):
    alone = backend.run(batch_of([2, 57, 3]))["last_hidden_state"][0]
    padded = backend.run(batch_of([2, 57, 3], [2, 58, 59, 58, 59, 3]))["last_hidden_state"][0, :3]
    np.testing.assert_allclose(padded, alone, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 2, 7, 32])
def test_batches_of_any_size_agree_with_each_text_alone(backend, rows):
    texts = [[2, *range(10, 11 + row % 5), 3] for row in range(rows)]
    together = backend.run(batch_of(*texts))["last_hidden_state"]
    for row, text in enumerate(texts):
        alone = backend.run(batch_of(text))["last_hidden_state"][0]
        np.testing.assert_allclose(together[row, : len(text)], alone, atol=1e-5)


def test_a_closed_backend_cannot_run(backend):
    backend.close()
    with pytest.raises(BackendRunError, match="closed"):
        backend.run(batch_of([2, 3]))


def test_a_file_that_is_no_model_is_named(backend_name, tmp_path):
    (tmp_path / "broken").write_bytes(b"\x08broken")
    with pytest.raises(BackendRunError, match="broken"):
        load_backend(backend_name, tmp_path / "broken", SessionOptions())


def test_an_unknown_backend_is_refused_with_the_known_ones(tmp_path):
    with pytest.raises(InputError, match=r"Unknown backend 'cuda'\. Known backends: onnx"):
        load_backend("cuda", tmp_path, SessionOptions())


def test_an_absent_engine_is_left_out_and_told_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(BACKENDS, "ghost", BackendSpec("x:Y", requires=("no_engine",), extra="g"))
    assert "ghost" not in available_backends()
    with pytest.raises(BackendUnavailableError, match=r"pip install 'edgebert\[g\]'"):
        load_backend("ghost", tmp_path, SessionOptions())


@pytest.mark.parametrize("name", ["threads", "max_length"])
def test_a_number_below_one_is_refused(name):
    with pytest.raises(InputError, match=f"{name} is 0"):
        SessionOptions(**{name: 0})
