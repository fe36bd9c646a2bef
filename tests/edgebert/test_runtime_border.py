"""What a Runtime opens, tells and refuses."""

import contextlib
import socket
from pathlib import Path

import pytest

from edgebert import Runtime
from edgebert.errors import BundleError, InputError
from tests.tiny import VOCAB

WORDS = {word: i for i, word in enumerate(VOCAB)}
CLS, SEP = WORDS["[CLS]"], WORDS["[SEP]"]
MIXED = [
    " ".join(["good", "bad", "film", "very", "dull"][i % 5] for i in range(n % 23))
    for n in range(60)
]


def open_sockets():
    """The sockets of this process, the engine's own too, as far as the system tells."""
    links = []
    for descriptor in Path("/proc/self/fd").glob("*"):
        with contextlib.suppress(FileNotFoundError):  # glob's own
            links.append(str(descriptor.readlink()))
    return {link for link in links if link.startswith("socket:")}


def test_no_socket_is_opened(embedder_dir, monkeypatch):
    def refuse(*_args, **_kwargs):
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    before = open_sockets()
    with Runtime(embedder_dir) as runtime:
        runtime.encode(["good"])
        assert open_sockets() == before


def test_info_says_what_runs_and_why(embedder_dir):
    with Runtime(embedder_dir, precision="int8", threads=1) as runtime:
        info = runtime.info
    assert (info.task, info.backend, info.precision) == ("feature-extraction", "onnx", "int8")
    assert (info.max_length, info.hidden_size, info.threads) == (32, 8, 1)
    assert info.artifact == "onnx/model_quantized.onnx"
    assert info.size_bytes == (embedder_dir / info.artifact).stat().st_size
    assert info.engine.startswith("onnxruntime ")
    assert "int8" in info.why


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"threads": 0}, "threads is 0"),
        ({"threads": True}, "threads is True"),
        ({"max_length": 0}, "max_length is 0"),
        ({"self_test": "never"}, "'first-load', 'always', 'off'"),
        ({"backend": "tensorrt"}, "backend is 'tensorrt'; allowed: 'auto', 'onnx'"),
        ({"precision": "int2"}, "precision is 'int2'"),
    ],
)
def test_a_wrong_argument_is_refused_with_what_is_allowed(embedder_dir, argument, message):
    with pytest.raises(InputError, match=message):
        Runtime(embedder_dir, **argument)


def test_a_graph_for_another_task_is_refused(embedder_dir):
    text = (embedder_dir / "edgebert.json").read_text()
    changed = text.replace('"feature-extraction"', '"fill-mask"', 1)
    (embedder_dir / "edgebert.json").write_text(changed)
    with pytest.raises(BundleError, match=r"needs inputs .* the outputs \['logits'\]"):
        Runtime(embedder_dir)
