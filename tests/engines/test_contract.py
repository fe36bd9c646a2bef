"""The contract of `Runtime`: seven tasks, every engine, both precisions; none has its own case."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from edgebert.errors import InputError
from edgebert.formats.manifest import Manifest
from edgebert.types import Batch
from runtimes import BACKENDS
from tests.engines.bundles import MAX_LENGTH, missing
from tests.engines.methods import METHODS, ask, numbers, texts_of_all_lengths, worst
from tests.tiny import VOCAB

QUICK = ("encode", "encode_tokens")  # of one bundle, which takes some 15 s to make
LONG = " ".join(["the", "good", "film", "very", "dull", "plot"] * 20)
INT8_DISTANCE = 0.2  # of INT8 outputs from those in FP32, in units of their length


@pytest.fixture(
    params=[pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in METHODS]
)
def method(request):
    return request.param


@pytest.fixture
def runtime(method, artifact, runtime_of):
    return runtime_of(METHODS[method].task, *artifact)


def full_engines(runtime_of, method):
    """Give a Runtime in FP32 for each engine that is here."""
    here = [name for name in BACKENDS if missing(name) is None]
    return {name: runtime_of(METHODS[method].task, name, "fp32") for name in here}


def test_engines_agree_in_fp32_and_predict_the_same(method, runtime_of):
    engines = full_engines(runtime_of, method)
    texts = texts_of_all_lengths(method, MAX_LENGTH)
    says = METHODS[method].says
    for one, other in combinations(engines.values(), 2):
        assert worst(numbers(one, method, texts), numbers(other, method, texts)) <= 1e-4
        found, expected = ask(one, method, texts), ask(other, method, texts)
        assert [says(x) for x in found] == [says(x) for x in expected]


def test_long_texts_give_the_same_windows_on_every_engine(method, runtime_of):
    found = [
        numbers(engine, method, [LONG, "fun"], on_long="window")
        for engine in full_engines(runtime_of, method).values()
    ]
    assert all(worst(one, found[0]) <= 1e-4 for one in found)


def test_an_artifact_gives_what_its_model_gives_in_fp32(method, artifact, runtime, runtime_of):
    full = runtime_of(METHODS[method].task, artifact[0], "fp32")
    texts = texts_of_all_lengths(method, MAX_LENGTH)
    found, expected = (raw_numbers(one, method, texts) for one in (runtime, full))
    assert np.linalg.norm(found - expected) <= INT8_DISTANCE * np.linalg.norm(expected)


def raw_numbers(runtime, method, texts):
    """Run each input alone; give all that the model gives, one number after the other."""
    outputs = []
    for text in texts:
        given = METHODS[method].ask(text)
        if method == "choose":
            given = (given[0], given[1][0])
        outputs += runtime.run(runtime.tokenize([given])).values()
    return np.concatenate([values.ravel() for values in outputs])


@pytest.mark.parametrize("size", [2, 7, 32])
def test_a_text_has_one_result_whatever_its_batch_mates(method, runtime, size):
    texts = texts_of_all_lengths(method, MAX_LENGTH)
    alone = [numbers(runtime, method, [text])[0] for text in texts]
    together = [
        one
        for start in range(0, len(texts), size)
        for one in numbers(runtime, method, texts[start : start + size])
    ]
    assert worst(together, alone) <= 1e-5


def test_results_are_in_the_order_of_the_texts(method, runtime):
    texts = texts_of_all_lengths(method, MAX_LENGTH)
    shuffled = np.random.default_rng(1).permutation(len(texts))
    found = numbers(runtime, method, [texts[i] for i in shuffled])
    in_order = numbers(runtime, method, texts)
    assert worst(found, [in_order[i] for i in shuffled]) <= 1e-5


def test_no_text_gives_no_result(method, runtime):
    assert ask(runtime, method, []) == []


def test_an_empty_text_has_finite_numbers_of_its_own(method, runtime):
    (alone,) = numbers(runtime, method, [""])
    beside = numbers(runtime, method, ["very good", "", "dull " * 20])[1]
    assert np.isfinite(alone).all()
    assert worst([beside], [alone]) <= 1e-5


def test_a_long_text_is_refused_cut_or_read_in_windows_as_asked(method, runtime):
    with pytest.raises(InputError, match=f"more than {MAX_LENGTH} tokens"):
        ask(runtime, method, [LONG], on_long="error")
    if method != "fill_mask":  # its second mask would be cut off
        (cut,) = ask(runtime, method, [LONG], on_long="truncate")
        assert np.max(getattr(cut, "dropped_tokens", 1)) > 0
    (whole,) = ask(runtime, method, [LONG], on_long="window")
    assert np.max(getattr(whole, "dropped_tokens", 0)) == 0


def test_windows_do_not_depend_on_batch_mates(method, runtime):
    (alone,) = numbers(runtime, method, [LONG], on_long="window")
    beside = numbers(runtime, method, ["fun", LONG, LONG + " bad"], on_long="window")[1]
    assert worst([beside], [alone]) <= 1e-5


def batch_of(lengths):
    """Make rows of random words, padded to the longest."""
    rng = np.random.default_rng(len(lengths))
    mask = (np.arange(max(lengths)) < np.asarray(lengths)[:, None]).astype(np.int64)
    ids = np.where(mask == 1, rng.integers(5, len(VOCAB), mask.shape), 0)
    return Batch(ids, mask, np.zeros_like(ids), np.zeros(len(ids), dtype=np.int64))


def row_of(batch, row):
    length = int(batch.attention_mask[row].sum())
    arrays = (batch.input_ids, batch.attention_mask, batch.token_type_ids)
    return Batch(*(array[row : row + 1, :length] for array in arrays), batch.dropped_tokens[:1])


@pytest.mark.parametrize("rows", [1, 2, 7, 32])
def test_padding_has_no_say_in_an_artifact_that_is_run_in_batches(
    method, artifact, runtime, bundle_of, rows
):
    manifest = Manifest.load(bundle_of(METHODS[method].task))
    (own,) = [a for a in manifest.artifacts if (a.backend, a.precision) == artifact]
    if not own.batch_invariant:
        assert own.precision == "int8"  # run one text a call, as the tests above show
        return
    lengths = [MAX_LENGTH, *(1 + i % MAX_LENGTH for i in range(rows - 1))]
    batch = batch_of(lengths)
    together = runtime.run(batch)
    for row in range(rows):
        alone = runtime.run(row_of(batch, row))
        for name, (values,) in alone.items():
            beside = together[name][row, : len(values)]  # what is behind is padding
            np.testing.assert_allclose(beside, values, atol=1e-5)
