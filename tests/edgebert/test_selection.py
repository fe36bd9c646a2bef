"""What ``auto`` takes: engines that stand in for others, at a pace of their own."""

import logging
import os
from functools import partial

import pytest

from edgebert import Runtime
from edgebert.bundles.bundle import Bundle
from edgebert.commands.verify import verify
from edgebert.engines import loading, selection
from edgebert.errors import (
    BackendRunError,
    BackendUnavailableError,
    DamagedBundleError,
    SelfTestError,
)
from runtimes import BackendSpec, SessionOptions
from tests.edgebert import fakes
from tests.edgebert.bundles import change_manifest
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


def test_auto_takes_the_fastest_and_says_of_how_many(three):
    with Runtime(three, threads=1) as runtime:
        assert (runtime.info.backend, runtime.info.precision) == ("quick", "fp32")
        assert runtime.info.why.startswith("quick/fp32: fastest of 3 measured now (geometric mean ")
        assert "8, 32 tokens" in runtime.info.why  # max_length is 32
        assert "; next slow/" in runtime.info.why
        assert runtime.encode(["good film"]).shape == (1, 8)


def test_int4_is_opened_by_its_name_and_stands_between_int8_and_fp32(embedder_dir, engines):
    del engines
    fakes.move_artifacts(embedder_dir, "slow/fp32", "slow/int4", "slow/int8")
    order = [one.precision for one in Bundle(embedder_dir).candidates("slow")]
    assert order == ["int8", "int4", "fp32"]
    with Runtime(embedder_dir, precision="int4", threads=1) as runtime:
        assert runtime.info.precision == "int4"
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
    change_manifest(three, lambda data: data.update(lineage=[{"step": "slim"}]))
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

    change_manifest(three, spoil)
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


def test_a_loser_that_was_cut_short_is_an_error_at_every_load(three):
    Runtime(three, threads=1).close()
    os.truncate(three / "slow/model_int8.onnx", 10)
    with pytest.raises(DamagedBundleError, match=r"slow/model_int8.onnx has 10 bytes"):
        Runtime(three, threads=1)
    with Runtime(three, threads=1, fallback=True) as runtime:
        assert "quick/fp32: fastest of 3 measured at an earlier load" in runtime.info.why
        assert "fallback, as slow/int8 can't be used (Bundle damaged" in runtime.info.why


def test_a_changed_byte_of_a_loser_is_found_at_the_first_load_and_by_verify(three):
    whole = (three / "slow/model_int8.onnx").read_bytes()
    changed = whole[:-1] + bytes([whole[-1] ^ 1])
    (three / "slow/model_int8.onnx").write_bytes(changed)
    with pytest.raises(DamagedBundleError, match=r"slow/model_int8.onnx has sha256 "):
        Runtime(three, threads=1)
    assert Fake.opened == []
    (three / "slow/model_int8.onnx").write_bytes(whole)
    Runtime(three, threads=1).close()
    (three / "slow/model_int8.onnx").write_bytes(changed)
    Runtime(three, threads=1).close()  # opens the fastest alone, and hashes nothing else
    bundle = Bundle(three)
    verdicts = [verify(bundle, one, SessionOptions(threads=1)) for one in bundle.manifest.artifacts]
    assert [one.files for one in verdicts] == ["failed", "passed", "passed"]
    assert "slow/model_int8.onnx has sha256 " in verdicts[0].detail


def test_a_named_backend_does_not_look_at_the_files_of_others(three):
    os.truncate(three / "slow/model_int8.onnx", 10)
    with Runtime(three, backend="quick", threads=1) as runtime:
        assert runtime.info.backend == "quick"


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
