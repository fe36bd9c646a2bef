"""What only the TFLite backend has: signatures by length, interpreters for many threads."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from edgebert.errors import BackendRunError, InputError
from edgebert.types import Batch
from runtimes import SessionOptions, installed_engine, load_backend
from runtimes.tflite_signatures import UnsuitedSignatureError, read_signatures
from tests.edgebert.bundles import hidden_by_hand

pytest.importorskip("ai_edge_litert")
pytestmark = pytest.mark.tflite

from runtimes import tflite  # noqa: E402
from tests.runtimes.tflite_graph import write_tflite_graph  # noqa: E402

LENGTHS = (4, 8, 32)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    target = tmp_path_factory.mktemp("tflite") / "model.tflite"
    write_tflite_graph(target, lengths=LENGTHS)
    return target


def opened(path, *, threads=1):
    return load_backend("tflite", path, SessionOptions(threads=threads))


def batch_of(*lengths, width=None):
    width = width or max(lengths)
    ids = np.zeros((len(lengths), width), dtype=np.int64)
    mask = np.zeros_like(ids)
    for row, length in enumerate(lengths):
        ids[row, :length] = (np.arange(length) + row) % 50 + 5
        mask[row, :length] = 1
    return Batch(ids, mask, np.zeros_like(ids), np.zeros(len(lengths), dtype=np.int64))


def by_hand(batch, row):
    length = int(batch.attention_mask[row].sum())
    return hidden_by_hand(batch.input_ids[row, :length])


@pytest.mark.parametrize("length", [1, 3, 4, 5, 8, 9, 31, 32])
def test_a_text_of_any_length_up_to_the_longest_signature_is_right(path, length):
    batch = batch_of(length)
    found = opened(path).run(batch)["last_hidden_state"][0]
    np.testing.assert_allclose(found, by_hand(batch, 0), atol=1e-5)


def test_a_text_runs_on_the_shortest_signature_that_holds_it(path, monkeypatch):
    used = []
    run = tflite._Worker.run

    def spy(self, signature, batch, row):
        used.append(signature.name)
        return run(self, signature, batch, row)

    monkeypatch.setattr(tflite._Worker, "run", spy)
    opened(path).run(batch_of(3, 4, 5, 8, 9))
    assert sorted(used) == ["s32", "s4", "s4", "s8", "s8"]


def test_a_text_beyond_the_longest_signature_is_refused_with_the_limit(path):
    with pytest.raises(BackendRunError, match=r"has 33 tokens; .* holds up to 32"):
        opened(path).run(batch_of(5, 33))


def test_only_real_tokens_count_toward_the_limit(path):
    batch = batch_of(5, 7, width=100)
    found = opened(path).run(batch)["last_hidden_state"]
    assert found.shape == (2, 100, 8)
    np.testing.assert_allclose(found[1, :7], by_hand(batch, 1), atol=1e-5)


def test_outputs_of_padding_are_zero(path):
    found = opened(path).run(batch_of(2, 6))["last_hidden_state"]
    assert not found[0, 2:].any()


def test_a_batch_without_texts_gives_outputs_without_rows(path):
    empty = np.zeros((0, 5), dtype=np.int64)
    found = opened(path).run(Batch(empty, empty, empty, np.zeros(0, dtype=np.int64)))
    assert found["last_hidden_state"].shape == (0, 5, 8)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_batch_is_its_texts_alone_whatever_the_threads(path, threads):
    batch = batch_of(*range(1, 33))
    found = opened(path, threads=threads).run(batch)["last_hidden_state"]
    for row in range(32):
        np.testing.assert_allclose(found[row, : row + 1], by_hand(batch, row), atol=1e-5)


def test_many_threads_get_the_same_results_from_a_bounded_number_of_interpreters(path):
    backend = opened(path, threads=2)
    batches = [batch_of(3), batch_of(20), batch_of(4, 9, 30)]
    expected = [backend.run(batch)["last_hidden_state"] for batch in batches]
    wrong = []

    def call():
        for turn in range(60):
            found = backend.run(batches[turn % 3])["last_hidden_state"]
            if not np.array_equal(found, expected[turn % 3]):
                wrong.append(turn)

    workers = [threading.Thread(target=call) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []
    assert (len(backend._small._idle), len(backend._large._idle)) == (2, 1)


def test_a_failed_call_gives_its_interpreter_up_and_the_next_one_works(path, monkeypatch):
    backend = opened(path, threads=2)
    batch = batch_of(3, 5, 7)
    with monkeypatch.context() as patch:
        patch.setattr(tflite._Worker, "run", lambda *_: 1 / 0)
        with pytest.raises(BackendRunError, match=r"\[3, 7\] tokens: division by zero"):
            backend.run(batch)
    found = backend.run(batch)["last_hidden_state"]
    np.testing.assert_allclose(found[2], by_hand(batch, 2), atol=1e-5)


def test_a_file_cut_anywhere_is_refused_before_the_engine_sees_it(path, tmp_path, monkeypatch):
    monkeypatch.setattr(tflite, "_INTERPRETER", None)
    whole = path.read_bytes()
    for size in [0, 1, 7, 8, 11, 40, *range(100, len(whole), 997), len(whole) - 1]:
        (tmp_path / "cut.tflite").write_bytes(whole[:size])
        with pytest.raises(BackendRunError, match=r"can't open .*cut.tflite: (bytes|its offsets)"):
            opened(tmp_path / "cut.tflite")


def test_a_file_that_claims_countless_tables_is_refused_at_once(path, tmp_path):
    content = bytearray(path.read_bytes())
    root = int.from_bytes(content[:4], "little")
    names = root - int.from_bytes(content[root : root + 4], "little", signed=True)
    field = root + int.from_bytes(content[names + 12 : names + 14], "little")  # the buffers
    vector = field + int.from_bytes(content[field : field + 4], "little")
    content[vector : vector + 4] = b"\xff\xff\xff\x7f"
    (tmp_path / "many.tflite").write_bytes(content)
    with pytest.raises(BackendRunError, match="its offsets"):
        opened(tmp_path / "many.tflite")


def test_an_absent_file_is_named(tmp_path):
    with pytest.raises(BackendRunError, match=r"No such file .*gone.tflite"):
        opened(tmp_path / "gone.tflite")


class Described:
    """Stands for an interpreter, with the shapes of each signature's inputs and outputs."""

    def __init__(self, **signatures):
        self.signatures = signatures

    def get_signature_list(self):
        return self.signatures

    def get_signature_runner(self, name):
        inputs, outputs = (
            {key: {"shape": np.array(shape), "dtype": np.int32} for key, shape in part.items()}
            for part in self.signatures[name]
        )
        return SimpleNamespace(get_input_details=lambda: inputs, get_output_details=lambda: outputs)


@pytest.mark.parametrize(
    ("signatures", "reason"),
    [
        ({}, "no signature"),
        ({"s": ({"input_ids": (2, 4)}, {"logits": (2, 3)})}, r"one shape, \[1, length\]"),
        ({"s": ({"input_ids": (1, 4), "attention_mask": (1, 5)}, {})}, "one shape"),
        ({"s": ({"input_ids": (1, 4)}, {"logits": (1, 5, 3)})}, r"\[1, 5, 3\] .* of 4 tokens"),
        ({"s": ({"input_ids": (1, 4)}, {"start_logits": (1, 5)})}, r"\[1, 5\] .* of 4 tokens"),
        (
            {
                "s4": ({"input_ids": (1, 4)}, {"logits": (1, 3)}),
                "s8": ({"input_ids": (1, 8)}, {"logits": (1, 2)}),
            },
            "'s4' and 's8' differ",
        ),
    ],
)
def test_signatures_that_are_not_for_one_text_are_refused(signatures, reason):
    with pytest.raises(UnsuitedSignatureError, match=reason):
        read_signatures(Described(**signatures))


def test_as_many_labels_as_tokens_are_no_axis_of_tokens():
    (found,) = read_signatures(Described(s=({"input_ids": (1, 4)}, {"logits": (1, 4)})))
    assert found.outputs == {"logits": (4,)}


def test_row_scales_are_refused_on_the_engine_that_misreads_them(tmp_path, monkeypatch):
    write_tflite_graph(tmp_path / "rows.tflite", row_scales=True)
    opened(tmp_path / "rows.tflite").close()
    monkeypatch.setattr(tflite, "_PACKAGE", "tflite-runtime")
    with pytest.raises(BackendRunError, match="one scale a row"):
        opened(tmp_path / "rows.tflite")


def test_a_batch_that_is_closed_on_the_way_starts_no_thread(path, monkeypatch):
    backend = opened(path, threads=2)
    plan = backend._zeros  # called before the first text is run

    def close_first(*shape):
        backend.close()
        return plan(*shape)

    monkeypatch.setattr(backend, "_zeros", close_first)
    with pytest.raises(BackendRunError, match=r"^\S+ was closed; open it again\.$"):
        backend.run(batch_of(3, 5))
    assert backend._helpers is None


def test_the_engine_announces_itself_to_nobody(path):
    code = (
        "import sys, numpy as np; from pathlib import Path\n"
        "from edgebert.types import Batch; from runtimes import SessionOptions, load_backend\n"
        "backend = load_backend('tflite', Path(sys.argv[1]), SessionOptions(threads=1))\n"
        "ones = np.ones((1, 4), dtype=np.int64)\n"
        "backend.run(Batch(ones, ones, ones, ones[0, :1]))\n"
        "print('ours', file=sys.stderr)"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "ours\n")


def test_the_package_that_would_be_used_is_named_without_importing_it(monkeypatch):
    assert installed_engine("tflite") == "ai-edge-litert"
    monkeypatch.setattr("runtimes.find_spec", lambda name: name == "tflite_runtime" or None)
    assert installed_engine("tflite") == "tflite-runtime"
    monkeypatch.setattr("runtimes.find_spec", lambda _: None)
    assert installed_engine("tflite") is None


def test_the_package_of_an_unknown_backend_is_an_error():
    with pytest.raises(InputError, match="Unknown backend 'cuda'"):
        installed_engine("cuda")
