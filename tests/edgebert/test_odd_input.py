"""What callers hand over by mistake: named in an error of ours, never taken for something else."""

import copy
import json
import pickle
import shutil
from types import MappingProxyType

import numpy as np
import pytest

from edgebert.errors import InputError, ManifestError
from edgebert.runtime import Runtime
from edgebert.types import Batch
from tests.edgebert.bundles import write_bundle


class Table:
    """Like a data frame: it has two axes, and gives the names of its columns one by one."""

    ndim = 2

    def __iter__(self):
        return iter(["good", "bad"])


@pytest.mark.parametrize(
    "given",
    [{"good"}, frozenset(["good"]), MappingProxyType({"good": 1}), Table(), np.array("good"), str],
    ids=lambda given: type(given).__name__,
)
def test_what_has_no_order_of_texts_is_refused(classifier, given):
    with pytest.raises(InputError, match=r"texts is of type .*; give a list of strings"):
        classifier.classify(given)


@pytest.mark.parametrize(
    "given",
    [dict.fromkeys(["good", "bad"]).keys(), np.array(["good", "bad"]), iter(["good", "bad"])],
)
def test_texts_in_order_are_taken_from_anything(classifier, given):
    assert classifier.classify(given) == classifier.classify(["good", "bad"])


def test_a_wrong_list_is_told_what_its_method_takes(runtime_of):
    with pytest.raises(InputError, match=r"is None; give a list of tuples \(question, context\)"):
        runtime_of("question-answering").answer(None)
    with pytest.raises(InputError, match=r"give a list of tuples \(prompt, \[choice, …\]\)"):
        runtime_of("multiple-choice").choose(5)


def test_numbers_may_be_numpys(embedder_dir):
    one, two = np.int64(1), np.int32(2)
    with Runtime(embedder_dir, "onnx", "fp32", threads=one, max_length=np.int64(16)) as runtime:
        assert runtime.encode(["good"], truncate_dim=two, batch_size=one).shape == (1, 2)
        assert len(runtime.rank("good", ["bad", "film", "a"], top_k=two)) == 2


@pytest.mark.parametrize("wrong", ["no", 0, 1.0])
def test_a_switch_is_true_or_false(embedder_dir, embedder, wrong):
    with pytest.raises(InputError, match=r"fallback is .*; it must be True or False"):
        Runtime(embedder_dir, fallback=wrong)
    with pytest.raises(InputError, match=r"normalize is .*; it must be True or False"):
        embedder.encode(["good"], normalize=wrong)


def test_a_wrong_batch_size_is_told_without_a_text_too(embedder):
    with pytest.raises(InputError, match="batch_size is 0"):
        embedder.encode([], batch_size=0)


@pytest.mark.parametrize("threads", [1025, 10**30])
def test_no_engine_is_told_to_start_a_million_threads(classifier_dir, threads, monkeypatch):
    with pytest.raises(InputError, match=rf"threads is {threads}; it must be from 1 to 1024"):
        Runtime(classifier_dir, threads=threads)
    monkeypatch.setenv("EDGEBERT_NUM_THREADS", str(threads))
    with pytest.raises(InputError, match=rf"threads is {threads}; it must be from 1 to 1024"):
        Runtime(classifier_dir)


@pytest.mark.parametrize("wrong", [None, 5, b"folder", ["folder"]])
def test_a_bundle_is_a_path(wrong):
    with pytest.raises(InputError, match=r"bundle is of type \w+; give the path of a directory"):
        Runtime(wrong)


def test_a_path_that_is_no_directory_is_told_as_such(tmp_path):
    (tmp_path / "file").touch()
    for path, reason in {
        tmp_path / "nothing": "is not a bundle: there is no such directory",
        tmp_path / "file": "is not a bundle: it is a file",
        tmp_path: r"is not a bundle: it has no edgebert\.json",
        tmp_path / ("x" * 5000): r"x can't be read \(File name too long\)",
    }.items():
        with pytest.raises(ManifestError, match=reason):
            Runtime(path)


@pytest.mark.parametrize("do", [copy.copy, copy.deepcopy, pickle.dumps], ids=lambda do: do.__name__)
def test_a_runtime_is_neither_copied_nor_pickled(classifier, do):
    with pytest.raises(InputError, match=r"can't be pickled or copied: .* edgebert\.Runtime"):
        do(classifier)
    assert classifier.classify(["good"])


def test_what_is_no_batch_is_refused(classifier):
    for wrong in (None, {"input_ids": [[2, 3]]}):
        with pytest.raises(InputError, match=r"batch is of type .*; give a Batch of tokenize"):
            classifier.run(wrong)
    with pytest.raises(InputError, match="input_ids is of type list; give a numpy array"):
        classifier.run(Batch([[2, 3]], [[1, 1]], [[0, 0]], [0]))


@pytest.mark.parametrize("segment", [-1, 2])
def test_a_segment_that_the_model_has_no_row_for_is_refused(tmp_path, segment):
    write_bundle(tmp_path / "b", task="text-classification")
    (tmp_path / "b/config.json").write_text(json.dumps({"type_vocab_size": 2}))
    ids = np.array([[2, 57, 3]])
    with Runtime(tmp_path / "b") as runtime:
        batch = Batch(ids, np.ones_like(ids), np.full_like(ids, segment), np.array([0]))
        with pytest.raises(
            InputError, match=rf"token_type_ids holds {segment}; ids are from 0 to 1"
        ):
            runtime.run(batch)


def test_once_opened_the_bundles_folder_is_not_read_again(classifier_dir):
    (classifier_dir / "config.json").write_text(json.dumps({"max_position_embeddings": 40}))
    with Runtime(classifier_dir, precision="fp32") as runtime:
        shutil.rmtree(classifier_dir)
        assert runtime.classify(["good"])[0].dropped_tokens == 0
        ids = np.full((1, 41), 57)
        with pytest.raises(InputError, match="the model has 40 positions"):
            runtime.run(Batch(ids, np.ones_like(ids), np.zeros_like(ids), np.array([0])))


def test_similarity_takes_arrays_of_texts_as_texts(embedder):
    texts, others = ["good film", "bad"], ["the plot"]
    found = embedder.similarity(np.array(texts), np.array(others, dtype=object))
    np.testing.assert_array_equal(found, embedder.similarity(texts, others))


def test_texts_to_compare_are_named_as_the_caller_does(embedder):
    with pytest.raises(InputError, match=r"b\[0\] is None"):
        embedder.similarity(["good"], [None])
    with pytest.raises(InputError, match=r"\(a\[1\]: 52\)"):
        embedder.similarity(["good", "bad " * 50], ["good"], on_long="error")
    with pytest.raises(InputError, match=r"documents\[0\]: 53"):
        embedder.rank("good", ["bad " * 50], on_long="error")
    with pytest.raises(InputError, match=r"query\[0\] has half a surrogate pair"):
        embedder.rank("\ud800", ["good"])
