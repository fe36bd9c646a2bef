"""What ``auto`` takes: engines that stand in for others, at a pace of their own."""

import json
import logging
import os
from functools import partial

import pytest

from edgebert import Runtime, loading, selection
from edgebert.bundle import Bundle, why_not_here
from edgebert.errors import (
    BackendError,
    BackendRunError,
    BackendUnavailableError,
    DamagedBundleError,
    SelfTestError,
)
from edgebert.installed import why_unsuited
from runtimes import BACKENDS, BackendSpec
from tests.edgebert import fakes
from tests.edgebert.fakes import Fake

pytestmark = pytest.mark.onnx


@pytest.fixture
def engines(monkeypatch):
    fakes.install(monkeypatch, "slow", "quick", "sick")


@pytest.fixture
def three(embedder_dir, engines):
    """A bundle in which the preferred artifact, the first of int8, is not the fastest."""
    del engines
    fakes.move_artifacts(embedder_dir, "slow/int8", "quick/fp32", "slow/fp32")
    return embedder_dir


@pytest.fixture
def measurements(monkeypatch):
    """One entry for each measurement that was made."""
    calls = []
    real = selection.measure
    monkeypatch.setattr(
        selection, "measure", lambda *args, **more: calls.append(1) or real(*args, **more)
    )
    return calls


def change(directory, what):
    path = directory / "edgebert.json"
    data = json.loads(path.read_text())
    what(data)
    path.write_text(json.dumps(data))


def test_auto_takes_the_fastest_and_says_of_how_many(three):
    with Runtime(three, threads=1) as runtime:
        assert (runtime.info.backend, runtime.info.precision) == ("quick", "fp32")
        assert runtime.info.why.startswith("quick/fp32: fastest of 3 measured now (geometric mean ")
        assert "8, 32 tokens" in runtime.info.why  # max_length is 32
        assert "; next slow/" in runtime.info.why
        assert runtime.encode(["good film"]).shape == (1, 8)


def test_the_choice_is_logged(three, caplog):
    with caplog.at_level(logging.INFO, loading.logger.name), Runtime(three, threads=1) as runtime:
        assert f"running {three}: {runtime.info.why}" in caplog.messages


def test_the_losers_are_closed(three):
    with Runtime(three, threads=1):
        assert Fake.open_now == 1
    assert Fake.open_now == 0
    assert len(Fake.opened) == 3


def test_a_later_load_opens_what_was_found_and_says_so(three, measurements):
    Runtime(three, threads=1).close()
    del Fake.opened[:]
    with Runtime(three, threads=1) as runtime:
        assert "fastest of 3 measured at an earlier load" in runtime.info.why
    assert len(measurements) == 1
    assert [path[-21:] for path in Fake.opened] == ["quick/model_fp32.onnx"]


def test_another_number_of_threads_or_cpu_or_engine_is_measured_again(
    three, measurements, monkeypatch
):
    Runtime(three, threads=1).close()
    Runtime(three, threads=2).close()
    assert len(measurements) == 2
    monkeypatch.setattr(selection, "cpu_features", lambda: ("another",))
    Runtime(three, threads=1).close()
    assert len(measurements) == 3
    monkeypatch.setattr(selection, "engine_versions", lambda _: ["quick 2"])
    Runtime(three, threads=1).close()
    assert len(measurements) == 4


def test_a_changed_manifest_is_measured_again(three, measurements):
    Runtime(three, threads=1).close()
    change(three, lambda data: data.update(lineage=[{"step": "slim"}]))
    Runtime(three, threads=1).close()
    assert len(measurements) == 2


def test_what_time_did_not_reach_is_told_of_and_kept(three, measurements, monkeypatch):
    monkeypatch.setattr(selection, "measure", partial(selection.measure, budget_seconds=0.0))
    for when in ("now", "at an earlier load"):
        with Runtime(three, threads=1) as runtime:
            why = runtime.info.why
            assert why.startswith(f"slow/int8: fastest of 1 measured {when} (")
            assert "; measured 1 of 3 in the time there is)" in why
    assert measurements == [1]


@pytest.mark.parametrize("setting", ["off", "/proc/nowhere"])
def test_without_a_cache_each_load_measures_and_says_so(three, measurements, monkeypatch, setting):
    monkeypatch.setenv("EDGEBERT_CACHE", setting)
    for _ in range(2):
        with Runtime(three, threads=1) as runtime:
            assert "measured now, as the result can't be kept" in runtime.info.why
    assert len(measurements) == 2


@pytest.mark.parametrize("spoilt", ["{", "[]", '{"latency_ms": {"a": {"8": 1}}}', '{"x": NaN}'])
def test_a_broken_record_is_measured_again(three, cache, measurements, spoilt):
    Runtime(three, threads=1).close()
    for record in cache.iterdir():
        record.write_text(spoilt)
    Runtime(three, threads=1).close()
    assert len(measurements) == 2


def test_a_named_backend_is_not_measured(three, measurements):
    with Runtime(three, backend="slow", threads=1) as runtime:
        assert runtime.info.precision == "int8"
        assert "preferred over slow/fp32, not measured" in runtime.info.why
    assert measurements == []


def test_a_named_precision_is_measured_among_its_own(three, measurements):
    with Runtime(three, precision="fp32", threads=1) as runtime:
        assert "quick/fp32: fastest of 2" in runtime.info.why
    assert measurements == [1]


def test_one_candidate_is_not_measured(three, measurements):
    with Runtime(three, precision="int8", threads=1) as runtime:
        assert runtime.info.backend == "slow"
    assert measurements == []


def test_what_does_not_fit_in_memory_together_is_not_opened(three, monkeypatch):
    size = (three / "quick/model_fp32.onnx").stat().st_size
    monkeypatch.setattr(selection, "memory_limit", lambda: 6 * 2 * size)  # half of it, by three
    with Runtime(three, threads=1) as runtime:
        assert "fastest of 2 measured" in runtime.info.why
    assert [path.rpartition("/")[2] for path in Fake.opened] == [
        "model_int8.onnx",
        "model_fp32.onnx",
    ]
    monkeypatch.setattr(selection, "memory_limit", lambda: 6 * size)
    with Runtime(three, threads=1) as runtime:
        assert runtime.info.why == "slow/int8: preferred, as there's no memory to measure others"


def test_auto_never_takes_what_fails_its_self_test(three):
    def spoil(data):
        data["artifacts"][1]["golden"][0][0] += 0.5

    change(three, spoil)
    with pytest.raises(SelfTestError, match=r"quick/model_fp32.onnx on .* is off by 0\.5"):
        Runtime(three, threads=1)
    assert Fake.open_now == 0
    with Runtime(three, threads=1, fallback=True) as runtime:
        assert runtime.info.backend == "slow"
        assert "fallback, as quick/fp32 can't be used" in runtime.info.why
        assert "fastest of 2 measured" in runtime.info.why


def test_auto_names_a_damaged_artifact_among_others_that_are_well(three, caplog):
    os.truncate(three / "quick/model_fp32.onnx", 10)
    with pytest.raises(DamagedBundleError, match=r"quick/model_fp32.onnx has 10 bytes"):
        Runtime(three, threads=1)
    with Runtime(three, threads=1, fallback=True) as runtime:
        assert runtime.info.backend == "slow"
    warned = [r.message for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warned) == 1
    assert warned[0].startswith("quick/fp32 can't be used, going on with another artifact: ")


def test_what_was_measured_without_a_damaged_artifact_is_not_kept(three, measurements):
    spare = (three / "quick/model_fp32.onnx").read_bytes()
    os.truncate(three / "quick/model_fp32.onnx", 10)
    Runtime(three, threads=1, fallback=True).close()
    (three / "quick/model_fp32.onnx").write_bytes(spare)
    with Runtime(three, threads=1) as runtime:
        assert runtime.info.backend == "quick"
    assert len(measurements) == 2


def test_a_remembered_winner_that_is_damaged_is_an_error(three):
    Runtime(three, threads=1).close()
    os.truncate(three / "quick/model_fp32.onnx", 10)
    with pytest.raises(DamagedBundleError, match=r"quick/model_fp32.onnx has 10 bytes"):
        Runtime(three, threads=1)
    with Runtime(three, threads=1, fallback=True) as runtime:
        assert runtime.info.backend == "slow"
        assert "fallback, as quick/fp32 can't be used (Bundle damaged" in runtime.info.why


def test_an_engine_that_fails_while_it_is_timed_is_an_error(embedder_dir, engines):
    del engines
    fakes.move_artifacts(embedder_dir, "sick/int8", "slow/fp32")
    with pytest.raises(BackendRunError, match="sick 1 failed at 32 tokens"):
        Runtime(embedder_dir, threads=1)
    assert Fake.open_now == 0
    with Runtime(embedder_dir, threads=1, fallback=True) as runtime:
        assert runtime.info.backend == "slow"
    assert Fake.open_now == 0


def test_an_engine_that_is_not_installed_is_no_candidate(three, monkeypatch):
    absent = BackendSpec("nowhere:Nothing", requires=("no_such_engine",), extra="quick")
    monkeypatch.setitem(loading.Bundle.candidates.__globals__["BACKENDS"], "quick", absent)
    with Runtime(three, threads=1) as runtime:
        assert "slow/" in runtime.info.why
        assert "fastest of 2" in runtime.info.why
    with pytest.raises(BackendUnavailableError, match=r"edgebert\[quick\]"):
        Runtime(three, backend="quick")
    with Runtime(three, backend="quick", fallback=True) as runtime:
        assert runtime.info.backend == "slow"
        assert "fallback, as quick/fp32 can't be used" in runtime.info.why


def test_a_fallback_keeps_to_the_precision_and_then_to_the_engine_that_was_asked_for(three):
    def fallbacks(*asked):
        return [f"{one.backend}/{one.precision}" for one in Bundle(three).fallbacks(*asked)]

    assert fallbacks("quick", "fp32") == ["quick/fp32", "slow/fp32", "slow/int8"]
    assert fallbacks("slow", "auto") == ["slow/int8", "slow/fp32", "quick/fp32"]
    assert fallbacks("auto", "auto")[0] == "slow/int8"


def artifact_of(directory, min_engine):
    change(directory, lambda data: data["artifacts"][0].update(min_engine=min_engine))
    return Bundle(directory).manifest.artifacts[0]


@pytest.mark.parametrize(
    ("needed", "installed", "suits"),
    [
        ("onnxruntime 1.22", "1.22.0", True),
        ("onnxruntime 1.22.0", "1.22", True),
        ("onnxruntime 1.9", "1.22.1", True),
        ("onnxruntime 1.22", "1.9.1", False),
        ("onnxruntime 1.22", "1.22.1.dev3", True),
        ("onnxruntime 1.22", None, True),
        ("tflite-runtime 2.14", "1.22", False),
    ],
)
def test_an_engine_must_be_new_enough(pairs_dir, monkeypatch, needed, installed, suits):
    monkeypatch.setattr(
        "edgebert.installed.installed_version", lambda _: ("onnxruntime", installed)
    )
    reason = why_unsuited(artifact_of(pairs_dir, needed))
    assert (reason is None) is suits
    assert suits or reason.startswith(f"it needs {needed}")


@pytest.mark.parametrize(
    ("needed", "installed", "suits"),
    [
        ("tflite-runtime 2.14", ("ai-edge-litert", "2.3.0"), True),
        ("ai-edge-litert 2.1", ("tflite-runtime", "2.14.0"), False),
        ("tflite-runtime 2.14", ("tflite-runtime", "2.14.0"), True),
    ],
)
def test_a_successor_suits_and_a_predecessor_does_not(
    pairs_dir, monkeypatch, needed, installed, suits
):
    spec = BackendSpec("x:Y", requires=("ai_edge_litert", "tflite_runtime"), extra="tflite")
    monkeypatch.setitem(BACKENDS, "onnx", spec)
    monkeypatch.setattr("edgebert.installed.installed_version", lambda _: installed)
    assert (why_unsuited(artifact_of(pairs_dir, needed)) is None) is suits


def test_an_artifact_for_a_newer_engine_is_left_out_by_auto_and_refused_by_name(embedder_dir):
    def ask(data):
        data["artifacts"][1]["min_engine"] = "onnxruntime 99.1"

    change(embedder_dir, ask)
    with Runtime(embedder_dir) as runtime:
        assert runtime.info.precision == "fp32"
        assert "onnx/int8 is left out: it needs onnxruntime 99.1 or newer" in runtime.info.why
    with pytest.raises(BackendError, match=r"onnx/int8: it needs onnxruntime 99\.1 or newer, inst"):
        Runtime(embedder_dir, precision="int8")
    with Runtime(embedder_dir, precision="int8", fallback=True) as runtime:
        assert runtime.info.precision == "fp32"


def test_a_backend_of_a_newer_edgebert_is_no_candidate(embedder_dir):
    change(embedder_dir, lambda data: data["artifacts"][1].update(backend="marvel"))
    bundle = Bundle(embedder_dir)
    assert [item.backend for item in bundle.candidates()] == ["onnx"]
    assert "pip install -U edgebert" in why_not_here(bundle.manifest.artifacts[1])
