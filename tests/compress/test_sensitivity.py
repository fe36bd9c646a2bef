"""INT8 that fails its gate gets its worst parts back in FP32, or is refused, on any engine."""

from __future__ import annotations

import time

import pytest

from compress.artifacts import sensitivity
from compress.artifacts.sensitivity import Quantization, quantize_until_passed, rank_parts, together
from compress.reporting.records import GateRecord
from edgebert.errors import GateError
from tests.compress.fake_exporter import WEIGHTS, FakeExporter, int8_names, int8_parts

WORST = ("layer.1/ffn-down", "layer.0/ffn-down")


def quantization_of(folder, exporter=None):
    exporter = exporter or FakeExporter()
    source = folder / "fp32.net"
    exporter.export_fp32(None, None, source, max_length=8)
    return Quantization(exporter, source, "first")


@pytest.fixture
def quantization(tmp_path):
    return quantization_of(tmp_path)


def measure(path):
    (part,) = int8_parts(path)
    return float(WORST[::-1].index(part) + 2) if part in WORST else 1.0


def gate_against(*harmful):
    """Pass once no part of ``harmful`` is INT8."""

    def gate(path):
        passed = not set(harmful) & set(int8_parts(path))
        return GateRecord(passed=passed, limits={}, reasons=() if passed else ("Too lossy.",))

    return gate


def left_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_recipe_that_leaves_weights_in_fp32_is_refused_with_their_count(tmp_path):
    quantization = quantization_of(tmp_path, FakeExporter(missed=("q0", "k0")))
    with pytest.raises(GateError, match="converted 5 of 7 weights; not in INT8: q0, k0"):
        quantization.convert_all(tmp_path / "int8.net")
    assert left_in(tmp_path) == ["fp32.bin", "fp32.net"]


def test_an_artifact_that_grew_is_refused_by_the_bytes_of_all_files(tmp_path):
    quantization = quantization_of(tmp_path, FakeExporter(int8_bytes=1100))
    with pytest.raises(GateError, match=r"made 1100 bytes out of 10\d\d"):
        quantization.convert_all(tmp_path / "int8.net")
    assert left_in(tmp_path) == ["fp32.bin", "fp32.net"]


def test_each_part_is_measured_alone_and_the_worst_comes_first(quantization, tmp_path):
    errors = rank_parts(quantization, dict(WEIGHTS), tmp_path / "trial.net", measure=measure)
    assert list(errors)[:2] == list(WORST)
    assert len(errors) == len(WEIGHTS)
    assert left_in(tmp_path) == ["fp32.bin", "fp32.net"]


def test_parts_of_int4_that_hurt_most_stay_in_int8_and_are_named_so(tmp_path):
    quantization = quantization_of(tmp_path, FakeExporter(precision="int4"))
    target = tmp_path / "int4.net"
    outcome = quantize_until_passed(
        quantization, target, gate=gate_against(*WORST), measure=measure
    )
    assert outcome.gate.passed
    assert (outcome.gate.kept_int8, outcome.gate.kept_fp32) == (WORST, ())


def test_the_search_of_int4_has_its_time_after_the_weights_were_rounded(tmp_path):
    class Rounding(FakeExporter):
        def quantize(self, source, target, **how):
            if not self.calls:
                time.sleep(0.5)
            return super().quantize(source, target, **how)

    for precision, found in (("int8", False), ("int4", True)):
        (tmp_path / precision).mkdir()
        quantization = quantization_of(tmp_path / precision, Rounding(precision=precision))
        outcome = quantize_until_passed(
            quantization,
            tmp_path / precision / "made.net",
            gate=gate_against(*WORST),
            measure=lambda path: measure(path) if len(int8_parts(path)) == 1 else 1.0,
            seconds=0.4,
        )
        assert outcome.gate.passed is found


def test_int4_that_leaves_weights_out_is_refused_as_int4(tmp_path):
    quantization = quantization_of(tmp_path, FakeExporter(missed=("q0",), precision="int4"))
    with pytest.raises(GateError, match=r"INT4 recipe 'first' converted 6 of 7.*not in INT4: q0"):
        quantization.convert_all(tmp_path / "int4.net")


def test_an_artifact_that_passes_at_once_keeps_nothing_in_fp32(quantization, tmp_path):
    target = tmp_path / "int8.net"
    outcome = quantize_until_passed(quantization, target, gate=gate_against(), measure=measure)
    assert outcome.gate.passed
    assert outcome.gate.kept_fp32 == ()
    assert int8_parts(target) == list(WEIGHTS)


def test_the_worst_parts_stay_in_fp32_one_after_another_until_the_gate_passes(
    quantization, tmp_path
):
    outcome = quantize_until_passed(
        quantization, tmp_path / "int8.net", gate=gate_against(WORST[1]), measure=measure
    )
    assert outcome.gate.passed
    assert outcome.gate.kept_fp32 == WORST
    assert not int8_names(tmp_path / "int8.net") & {"d0", "d1"}
    assert left_in(tmp_path) == ["fp32.bin", "fp32.net", "int8.bin", "int8.net"]


def test_an_artifact_that_can_not_pass_is_refused_with_the_reasons(quantization, tmp_path):
    outcome = quantize_until_passed(
        quantization, tmp_path / "int8.net", gate=gate_against(*WEIGHTS), measure=measure
    )
    assert outcome.converted is None
    assert outcome.gate.reasons == ("Too lossy.",)
    assert left_in(tmp_path) == ["fp32.bin", "fp32.net"]


def test_a_conversion_that_fails_on_the_way_is_told_and_the_next_is_tried(tmp_path, monkeypatch):
    exporter = FakeExporter()
    quantization = quantization_of(tmp_path, exporter)
    first_kept = set(WEIGHTS[WORST[0]])
    convert = exporter.quantize

    def grows_once(source, target, **settings):
        converted = convert(source, target, **settings)
        if set(settings["exclude"]) == first_kept:
            raise GateError("It grew.")
        return converted

    monkeypatch.setattr(exporter, "quantize", grows_once)
    outcome = quantize_until_passed(
        quantization, tmp_path / "int8.net", gate=gate_against(*WORST), measure=measure
    )
    assert outcome.gate.kept_fp32 == WORST


def test_like_parts_of_all_layers_are_put_together():
    assert together(dict(WEIGHTS)) == {
        "embeddings": ("words",),
        "attention": ("q0", "k0", "q1", "k1"),
        "ffn-down": ("d0", "d1"),
    }


def test_a_slow_search_tries_like_parts_of_all_layers_together(tmp_path, monkeypatch):
    exporter = FakeExporter()
    quantization = quantization_of(tmp_path, exporter)
    clock = iter(range(0, 1000))  # one second a look
    monkeypatch.setattr(sensitivity.time, "monotonic", lambda: float(next(clock)))
    outcome = quantize_until_passed(
        quantization,
        tmp_path / "int8.net",
        gate=gate_against(*WORST),
        measure=lambda path: float("d0" in int8_names(path)),
        seconds=9.0,  # five parts, tried twice, take ten
    )
    assert outcome.gate.kept_fp32 == ("ffn-down",)
    assert set(outcome.error_by_part) == {"embeddings", "attention", "ffn-down"}


def test_a_search_ends_when_its_time_is_up_and_says_so(tmp_path, monkeypatch):
    quantization = quantization_of(tmp_path)
    clock = iter([0.0, 5.0, 8.0])
    monkeypatch.setattr(sensitivity.time, "monotonic", lambda: next(clock))
    outcome = quantize_until_passed(
        quantization,
        tmp_path / "int8.net",
        gate=gate_against(*WEIGHTS),
        measure=lambda _: 1.0,
        seconds=10.0,
    )
    assert outcome.converted is None
    assert outcome.gate.reasons[-1].endswith("was stopped after 10 s.")
    assert left_in(tmp_path) == ["fp32.bin", "fp32.net"]


def test_many_parts_stay_in_fp32_in_growing_steps():
    steps = sensitivity._growing(tuple(map(str, range(20))))
    assert [len(step) for step in steps] == [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 18]
