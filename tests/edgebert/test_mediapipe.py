"""A ``.tflite`` with MediaPipe's metadata: still a model, and what it says of itself.

MediaPipe itself (1.2.3, in an environment of its own) gave the logits of this runtime for a student
of eight labels, FP32 and INT8; here its file is read by the schema's own code.
"""

import io
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest

from edgebert.apps.flatbuffer import Byte, Table, flatbuffer
from edgebert.apps.mediapipe import check_mediapipe, with_metadata
from edgebert.errors import InputError
from runtimes.tflite_file import check_whole, field, number

schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
from ai_edge_litert.interpreter import Interpreter  # noqa: E402

from tests.runtimes.tflite_graph import write_tflite_graph  # noqa: E402

pytestmark = pytest.mark.tflite
MANIFEST = SimpleNamespace(labels=("bad", "good"), max_length=8)
VOCAB = "[PAD]\n[UNK]\ngood\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("mediapipe") / "model.tflite"
    write_tflite_graph(path, lengths=(4, 8))
    return path


@pytest.fixture(scope="module")
def made(model):
    path = model.with_name("made.tflite")
    path.write_bytes(with_metadata(model, MANIFEST, VOCAB))
    return path


def test_the_first_graph_is_the_longest_and_gives_the_same(model, made):
    old, new = Interpreter(str(model)), Interpreter(str(made))
    feed = {
        "input_ids": np.array([[2, 7, 9, 3, 0, 0, 0, 0]], dtype=np.int32),
        "attention_mask": np.array([[1, 1, 1, 1, 0, 0, 0, 0]], dtype=np.int32),
        "token_type_ids": np.zeros((1, 8), dtype=np.int32),
    }
    key = next(k for k, v in old.get_signature_list().items() if "8" in k)
    expected = old.get_signature_runner(key)(**feed)
    new.allocate_tensors()
    metadata = SimpleNamespace(names=names_in(made.read_bytes()))
    for detail, name in zip(new.get_input_details(), metadata.names, strict=True):
        new.set_tensor(detail["index"], feed[name])
    new.invoke()
    for detail, (_, values) in zip(new.get_output_details(), expected.items(), strict=True):
        np.testing.assert_array_equal(new.get_tensor(detail["index"]), values)


def metadata_of(data):
    """Find the metadata by the code that the schema's compiler made."""
    model = schema.Model.GetRootAs(data, 0)
    assert model.MetadataLength() == 1
    assert model.Metadata(0).Name() == b"TFLITE_METADATA"
    found = model.Buffers(model.Metadata(0).Buffer()).DataAsNumpy().tobytes()
    assert found[4:8] == b"M001"
    return found


def follow(data, place, which):
    at = field(data, place, which)
    assert at is not None
    return at + number(data, "<I", at)


def text(data, place):
    return data[place + 4 : place + 4 + number(data, "<I", place)].decode()


def items(data, place, which):
    vector = follow(data, place, which)
    ends = range(vector + 4, vector + 4 + 4 * number(data, "<I", vector), 4)
    return [at + number(data, "<I", at) for at in ends]


def names_in(data):
    """Give the model's inputs in the order of the metadata, by their descriptions."""
    found = metadata_of(data)
    (graph,) = items(found, number(found, "<I", 0), 3)
    return [text(found, follow(found, one, 1)) for one in items(found, graph, 2)]


def test_each_input_has_the_name_that_mediapipe_looks_for(made):
    data = metadata_of(made.read_bytes())
    (graph,) = items(data, number(data, "<I", 0), 3)
    found = {
        text(data, follow(data, one, 1)): text(data, follow(data, one, 0))
        for one in items(data, graph, 2)
    }
    assert found == {
        "input_ids": "ids", "attention_mask": "mask", "token_type_ids": "segment_ids",
    }  # fmt: skip


def test_vocabulary_and_labels_are_packed_behind_the_model(made):
    with zipfile.ZipFile(io.BytesIO(made.read_bytes())) as archive:
        assert archive.read("vocab.txt").decode() == VOCAB
        assert archive.read("labels.txt").decode() == "bad\ngood\n"


def places_in(path):
    """Give the places of the buffers that hold something."""
    model = schema.Model.GetRootAs(path.read_bytes(), 0)
    buffers = [model.Buffers(i) for i in range(model.BuffersLength())]
    return [b._tab.Vector(b._tab.Offset(4)) for b in buffers if b.DataLength() > 0]


def test_the_weights_keep_their_alignment(model, made):
    *old, metadata = places_in(made)
    assert [place % 64 for place in old] == [place % 64 for place in places_in(model)]
    assert metadata % 16 == 0


def test_the_file_is_whole_to_our_own_check(made):
    check_whole(made)


def test_a_model_with_other_inputs_is_refused(model, tmp_path):
    renamed = model.read_bytes().replace(b"token_type_ids", b"something_else")
    (tmp_path / "m.tflite").write_bytes(renamed)
    with pytest.raises(InputError, match=r"input_ids, something_else; MediaPipe gives three"):
        with_metadata(tmp_path / "m.tflite", MANIFEST, VOCAB)


@pytest.mark.parametrize(("task", "pairs", "backend", "told"), [
    ("regression", False, "tflite", "is for regression; MediaPipe"),
    ("text-classification", True, "tflite", "is for text-classification of pairs"),
    ("text-classification", False, "onnx", "needs a .tflite"),
])  # fmt: skip
def test_what_mediapipe_has_no_task_for_is_refused(task, pairs, backend, told):
    manifest = SimpleNamespace(task=task, pairs=pairs)
    artifact = SimpleNamespace(backend=backend, precision="int8")
    with pytest.raises(InputError, match=told):
        check_mediapipe(manifest, artifact, "b")


def test_a_small_file_is_laid_out_as_the_format_says():
    data = flatbuffer(Table({0: 7, 2: Byte(9), 3: "ab", 4: [Table({}), Table({0: 1})]}), b"TEST")
    root = number(data, "<I", 0)
    assert data[4:8] == b"TEST"
    assert number(data, "<I", field(data, root, 0)) == 7
    assert field(data, root, 1) is None
    assert number(data, "<B", field(data, root, 2)) == 9
    assert text(data, follow(data, root, 3)) == "ab"
    first, second = items(data, root, 4)
    assert field(data, first, 0) is None
    assert number(data, "<I", field(data, second, 0)) == 1
