"""What an engine would read beside the file that it is given."""

import json
import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgebert import Runtime
from edgebert.bundles.bundle import Bundle
from edgebert.errors import DamagedBundleError
from edgebert.formats.manifest import FileRecord
from edgebert.formats.onnx_files import external_files

pytestmark = pytest.mark.onnx


def tensor_in(location, *, name="w"):
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[2])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="offset", value="0")
    tensor.external_data.add(key="location", value=location)
    return tensor


def graph_of(*nodes, tensors=(), sparse=()):
    return helper.make_graph(list(nodes), "g", [], [], list(tensors), sparse_initializer=sparse)


def initializer(location):
    return helper.make_model(graph_of(tensors=[tensor_in(location)]))


def constant(location):
    return helper.make_model(
        graph_of(helper.make_node("Constant", [], ["c"], value=tensor_in(location)))
    )


def list_of_constants(location):
    node = helper.make_node("Odd", [], ["c"])
    node.attribute.add(name="v", type=onnx.AttributeProto.TENSORS).tensors.append(
        tensor_in(location)
    )
    return helper.make_model(graph_of(node))


def branch(location):
    inner = graph_of(tensors=[tensor_in(location)])
    return helper.make_model(graph_of(helper.make_node("If", ["x"], [], then_branch=inner)))


def sparse_values(location):
    values, indices = tensor_in(location), numpy_helper.from_array(np.array([0, 1]), "i")
    return helper.make_model(graph_of(sparse=[helper.make_sparse_tensor(values, indices, [9])]))


def function(location):
    node = helper.make_node("Constant", [], ["c"], value=tensor_in(location))
    own = helper.make_function("d", "f", [], ["c"], [node], [helper.make_opsetid("", 17)])
    return helper.make_model(graph_of(), functions=[own])


def training(location):
    model = helper.make_model(graph_of())
    model.training_info.add().algorithm.CopyFrom(graph_of(tensors=[tensor_in(location)]))
    return model


PLACES = [initializer, constant, list_of_constants, branch, sparse_values, function, training]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_a_file_is_found_wherever_a_tensor_may_be(tmp_path, place):
    (tmp_path / "m.onnx").write_bytes(place("weights.data").SerializeToString())
    assert external_files(tmp_path / "m.onnx") == {"weights.data"}


def test_a_model_whole_in_its_file_asks_for_no_other(tmp_path):
    array = numpy_helper.from_array(np.zeros(1000, dtype=np.float32), "location")
    model = helper.make_model(graph_of(tensors=[array]))
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    assert external_files(tmp_path / "m.onnx") == set()


def field(number, content, *, kind=2):
    return varint(number << 3 | kind) + varint(len(content)) + content


def varint(value):
    groups = []
    while True:
        value, group = value >> 7, value & 0x7F
        groups.append(group | (0x80 if value else 0))
        if not value:
            return bytes(groups)


ENTRY = field(13, field(1, b"location") + field(2, b"x"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        # protobuf keeps 32 bits of a tag, so that this is the field 7 to an engine
        (varint((1 << 32) | 7 << 3 | 2) + varint(len(ENTRY)) + ENTRY, "no tag"),
        (field(7, ENTRY)[:-1], "goes on behind"),
        (varint(7 << 3 | 3) + ENTRY, "kind 3"),
        (b"\xff" * 11, "no end"),
        (b"\xff", "no end"),
    ],
)
def test_what_two_readers_may_take_differently_is_refused(tmp_path, content, message):
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        external_files(tmp_path / "m.onnx")


def test_a_key_that_is_set_twice_counts_as_protobuf_counts_it(tmp_path):
    twice = field(1, b"offset") + field(2, b"x") + field(1, b"location") + field(2, b"y")
    (tmp_path / "m.onnx").write_bytes(field(7, field(5, field(13, twice))))
    assert external_files(tmp_path / "m.onnx") == {"y"}


def test_graphs_without_end_are_refused(tmp_path):
    content = ENTRY
    for _ in range(150):  # node, attribute, graph
        content = field(1, field(5, field(6, content)))
    (tmp_path / "m.onnx").write_bytes(field(7, content))
    with pytest.raises(ValueError, match="nested more than 100 deep"):
        external_files(tmp_path / "m.onnx")


def test_millions_of_fields_are_refused_in_bounded_time(tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"\x08\x01" * (1 << 21))
    with pytest.raises(ValueError, match="more than 1048576 fields"):
        external_files(tmp_path / "m.onnx")


def with_external_weights(directory, location, *, listed=()):
    """Move the bundle's weights to a file, and say in the manifest what an attacker may say."""
    path = directory / "onnx/model.onnx"
    model = onnx.load(path)
    onnx.save_model(
        model, path, save_as_external_data=True, location="weights.data", size_threshold=64
    )
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = location
    path.write_bytes(model.SerializeToString())
    data = json.loads((directory / "edgebert.json").read_text())
    names = ["onnx/model.onnx", *listed]
    data["artifacts"][0]["files"] = [vars(FileRecord.of(directory, name)) for name in names]
    (directory / "edgebert.json").write_text(json.dumps(data))


def test_weights_in_a_file_that_is_listed_are_read(pairs_dir):
    with_external_weights(pairs_dir, "weights.data", listed=["onnx/weights.data"])
    with Runtime(pairs_dir) as runtime:
        assert len(runtime.classify([("good", "film")])) == 1


@pytest.mark.parametrize(
    "location",
    [
        *("weights.data", "../onnx/weights.data", "/etc/passwd", "../../x", "", "./weights.data"),
        *("weights.data/", "*/_ORT_MEM_ADDR_/*", "\udce9".encode("utf-8", "ignore").decode()),
    ],
)
def test_weights_in_any_other_file_are_refused_before_an_engine_sees_it(
    pairs_dir, location, monkeypatch
):
    with_external_weights(pairs_dir, location)
    monkeypatch.setattr(
        "edgebert.engines.engine.load_backend", lambda *_: pytest.fail("engine saw it")
    )
    with pytest.raises(DamagedBundleError, match="which the manifest doesn't list for it"):
        Runtime(pairs_dir)


def test_listed_weights_that_were_changed_are_named(pairs_dir):
    with_external_weights(pairs_dir, "weights.data", listed=["onnx/weights.data"])
    data = bytearray((pairs_dir / "onnx/weights.data").read_bytes())
    data[0] ^= 1
    (pairs_dir / "onnx/weights.data").write_bytes(data)
    with pytest.raises(DamagedBundleError, match=r"weights\.data has sha256"):
        Runtime(pairs_dir)


def test_missing_weights_are_named(pairs_dir):
    with_external_weights(pairs_dir, "weights.data", listed=["onnx/weights.data"])
    (pairs_dir / "onnx/weights.data").unlink()
    with pytest.raises(DamagedBundleError, match=r"weights\.data is missing"):
        Runtime(pairs_dir)


def directory_of(path, _):
    path.mkdir()


def pipe(path, _):
    os.mkfifo(path)


def link_out(path, spare):
    path.symlink_to(spare)


def link_to_a_link_out(path, spare):
    path.with_name("between").symlink_to(spare)
    path.symlink_to("between")


def link_to_itself(path, _):
    path.symlink_to(path.name)


def link_to_nothing(path, _):
    path.symlink_to("nowhere")


def device(path, _):
    path.symlink_to("/dev/zero")


@pytest.mark.skipif(os.name == "nt", reason="links and pipes of POSIX")
@pytest.mark.parametrize(
    "trick",
    [directory_of, pipe, link_out, link_to_a_link_out, link_to_itself, link_to_nothing, device],
)
@pytest.mark.parametrize("name", ["onnx/model.onnx", "tokenizer.json"])
def test_only_a_file_of_the_bundle_itself_is_read(pairs_dir, tmp_path, trick, name, monkeypatch):
    bundle = Bundle(pairs_dir)
    (pairs_dir / name).rename(tmp_path / "spare")
    trick(pairs_dir / name, tmp_path / "spare")
    monkeypatch.setattr(
        "edgebert.bundles.bundle.sha256_file", lambda path: pytest.fail(f"{path} was read")
    )
    with pytest.raises(DamagedBundleError, match=name):
        bundle.check_files(bundle.manifest.artifacts[0])


def test_a_folder_that_is_a_link_out_is_refused(pairs_dir, tmp_path):
    (pairs_dir / "onnx").rename(tmp_path / "onnx")
    (pairs_dir / "onnx").symlink_to(tmp_path / "onnx")
    with pytest.raises(DamagedBundleError, match="outside of the bundle"):
        Runtime(pairs_dir)


def test_a_link_within_the_bundle_is_read(pairs_dir):
    (pairs_dir / "onnx/model.onnx").rename(pairs_dir / "onnx/blob")
    (pairs_dir / "onnx/model.onnx").symlink_to("blob")
    Runtime(pairs_dir).close()


def test_all_sizes_are_compared_before_anything_is_read(pairs_dir, monkeypatch):
    bundle = Bundle(pairs_dir)
    os.truncate(pairs_dir / "onnx/model.onnx", 10)
    monkeypatch.setattr(
        "edgebert.bundles.bundle.sha256_file", lambda path: pytest.fail(f"{path} was read")
    )
    with pytest.raises(DamagedBundleError, match="has 10 bytes"):
        bundle.check_files(bundle.manifest.artifacts[0])
