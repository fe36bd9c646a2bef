"""Embedding tables in INT8: each row by a scale of its own."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from compress.artifacts.onnx_tables import quantize_tables

TABLE = np.array([[1.27, -0.64, 0.0], [0.0127, 0.01, -0.004], [0.0, 0.0, 0.0]], dtype=np.float32)


def lookups(count: int = 1) -> onnx.ModelProto:
    """Make a graph that looks ids up in one table, so many times."""
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "seq"])
    outputs = [
        helper.make_tensor_value_info(f"out{i}", TensorProto.FLOAT, None) for i in range(count)
    ]
    nodes = [
        helper.make_node("Gather", ["table", "ids"], [f"out{i}"], name=f"words{i}")
        for i in range(count)
    ]
    table = numpy_helper.from_array(TABLE, "table")
    graph = helper.make_graph(nodes, "lookup", [ids], outputs, [table])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def run(model: onnx.ModelProto, ids: list[list[int]]) -> list[np.ndarray]:
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"ids": np.array(ids)})


def test_small_rows_are_as_exact_as_large_ones():
    model = lookups()
    quantize_tables(model, ())
    (found,) = run(model, [[0, 1], [2, 1]])
    half_a_step = np.abs(TABLE).max(axis=1) / 127 / 2
    wrong = np.abs(found - TABLE[[[0, 1], [2, 1]]]).max(axis=-1)
    assert (wrong <= half_a_step[[[0, 1], [2, 1]]] * 1.001).all()


def test_a_table_that_is_looked_up_twice_is_stored_once():
    model = lookups(2)
    quantize_tables(model, ())
    stored = [
        (t.name, list(t.dims)) for t in model.graph.initializer if t.name.startswith("table_")
    ]
    assert stored[:2] == [
        ("table_int8", [3, 3]),
        ("table_scales", [3]),
    ]


def test_a_look_up_that_is_left_out_stays_exact():
    model = lookups(2)
    quantize_tables(model, ["words0"])
    exact, rounded = run(model, [[0, 1, 2]])
    np.testing.assert_array_equal(exact[0], TABLE)
    assert np.abs(rounded[0] - TABLE).max() > 0


@pytest.mark.parametrize("value", [-1.27, 1.27])
def test_the_largest_number_of_a_row_is_kept(value):
    model = lookups()
    row = numpy_helper.from_array(np.array([[value, 0.3]], dtype=np.float32), "table")
    model.graph.initializer[0].CopyFrom(row)
    quantize_tables(model, ())
    (found,) = run(model, [[0]])
    assert found[0, 0, 0] == pytest.approx(value)
