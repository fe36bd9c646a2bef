"""Names, shapes and weights of a model file, read without its engine, also of hostile files."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgebert.foreign.onnx_ports import read_onnx_ports
from edgebert.foreign.openvino_ports import read_openvino_ports
from tests.edgebert.bundles import write_graph

IR = """<?xml version="1.0"?>
<net name="m" version="11">
  <layers>
    <layer id="0" name="ids" type="Parameter" version="opset1">
      <data shape="?,?" element_type="i64"/>
      <output><port id="0" precision="I64" names="input_ids"><dim>-1</dim><dim>-1</dim></port></output>
    </layer>
    <layer id="1" name="w" type="Const" version="opset1">
      <data element_type="{kind}" shape="4, 3" offset="0" size="48"/>
      <output><port id="0" precision="FP32"><dim>4</dim><dim>3</dim></port></output>
    </layer>
    <layer id="2" name="loop" type="TensorIterator" version="opset1">
      <input><port id="0"><dim>-1</dim></port></input>
      <output><port id="1" precision="FP32" names="logits"><dim>-1</dim><dim>3</dim></port></output>
      <body><layers>
        <layer id="0" name="inner" type="Parameter"><output><port id="0" names="inner"/></output></layer>
      </layers></body>
    </layer>
    <layer id="3" name="out" type="Result" version="opset1"{result}>
      <input><port id="0" precision="FP32"><dim>-1</dim><dim>3</dim></port></input>
    </layer>
  </layers>
  <edges>
    <edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>
    <edge from-layer="2" from-port="1" to-layer="3" to-port="0"/>
  </edges>
</net>
"""  # noqa: E501


def write_ir(folder: Path, *, kind: str = "f32", result: str = "") -> Path:
    path = folder / "openvino_model.xml"
    path.write_text(IR.format(kind=kind, result=result))
    return path


@pytest.mark.parametrize("result", ["", ' output_names="logits"'])  # older and newer releases
def test_openvinos_names_and_shapes_are_those_of_its_own_ports(tmp_path, result):
    ports = read_openvino_ports(write_ir(tmp_path, result=result))
    assert ports.inputs == {"input_ids": (None, None)}
    assert ports.outputs == {"logits": (None, 3)}


@pytest.mark.parametrize(
    ("kind", "found"), [("f32", "f32"), ("u8", "i8"), ("i4", "i4"), ("boolean", "other")]
)
def test_openvinos_weights_tell_the_precision(tmp_path, kind, found):
    assert read_openvino_ports(write_ir(tmp_path, kind=kind)).weight_types == {found}


def test_entities_that_grow_without_end_are_not_expanded(tmp_path):
    path = tmp_path / "m.xml"
    path.write_text('<!DOCTYPE n [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><net>&b;</net>')
    with pytest.raises(ValueError, match="document type"):
        read_openvino_ports(path)


def test_onnx_names_and_shapes_are_those_of_the_onnx_package(tmp_path):
    path = tmp_path / "m.onnx"
    write_graph(path, output="sentence_embedding")
    graph, ports = onnx.load(str(path)).graph, read_onnx_ports(path)
    for values, found in ((graph.input, ports.inputs), (graph.output, ports.outputs)):
        dims = {value.name: value.type.tensor_type.shape.dim for value in values}
        assert found == {
            name: tuple(d.dim_value if d.HasField("dim_value") else None for d in own)
            for name, own in dims.items()
        }


@pytest.mark.parametrize(
    ("dtype", "found"),
    [(np.float32, "f32"), (np.int8, "i8"), (np.uint8, "i8"), (np.int64, "other")],
)
def test_onnx_weights_tell_the_precision(tmp_path, dtype, found):
    path = write_onnx(tmp_path, numpy_helper.from_array(np.ones((2, 2), dtype=dtype), "w"))
    assert read_onnx_ports(path).weight_types == {found}


def test_an_input_that_is_a_weight_is_no_input(tmp_path):
    """Files of before 2019 list their weights among the inputs."""
    path = write_onnx(tmp_path, numpy_helper.from_array(np.ones((2, 2), np.float32), "x"))
    assert read_onnx_ports(path).inputs == {}


def write_onnx(folder: Path, weight: TensorProto) -> Path:
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 2]) for n in ("x", "y")]
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], [weight])
    path = folder / "m.onnx"
    onnx.save(helper.make_model(graph), str(path))
    return path


def test_a_shape_of_a_billion_axes_takes_no_memory(tmp_path):
    dims = b"\x01" * 100_000
    tensor = b"\x0a" + varint(len(dims)) + dims  # field 1, packed
    graph = b"\x2a" + varint(len(tensor)) + tensor  # field 5, a weight
    path = tmp_path / "m.onnx"
    path.write_bytes(b"\x3a" + varint(len(graph)) + graph)  # field 7, the graph
    with pytest.raises(ValueError, match="more than 256 numbers"):
        read_onnx_ports(path)


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


@pytest.mark.parametrize("kind", ["onnx", "openvino"])
def test_any_damage_ends_in_an_error_of_one_kind(tmp_path, kind):
    read = read_onnx_ports if kind == "onnx" else read_openvino_ports
    path = tmp_path / "m.onnx"
    write_graph(path, output="logits")
    data = (path if kind == "onnx" else write_ir(tmp_path)).read_bytes()
    damaged, chance = tmp_path / "damaged", random.Random(0)
    refused = 0
    for _ in range(300):
        changed = bytearray(data)
        for _ in range(chance.randint(1, 8)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        damaged.write_bytes(changed[: chance.choice([len(data), chance.randrange(len(data))])])
        try:
            read(damaged)
        except ValueError:
            refused += 1
    assert refused > 100


def test_an_empty_file_is_no_model(tmp_path):
    path = tmp_path / "m.onnx"
    path.touch()
    with pytest.raises(ValueError, match="empty"):
        read_onnx_ports(path)
    with pytest.raises(ValueError, match="no XML"):
        read_openvino_ports(path)
