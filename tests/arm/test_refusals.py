"""What 32-bit ARM can't run, or would run wrong, is refused there in one clear error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.arm.machines import run

pytestmark = [pytest.mark.arm, pytest.mark.tflite]

TASK = "feature-extraction"


@pytest.fixture(scope="module")
def refused(machines, bundle_of, misleading, tmp_path_factory):
    """Give what it says of bundles that aren't for it; see `tests.arm.refusals`."""
    out = tmp_path_factory.mktemp("refusals") / "out.json"
    script = Path(__file__).parent / "refusals.py"
    run(machines["cortex-a7"], script, out, bundle_of(TASK), misleading)
    return json.loads(out.read_text(encoding="utf-8"))


def test_int8_for_a_newer_engine_is_no_candidate_there(refused):
    assert refused["honest"]["kind"] == "BackendError"
    assert (
        "it needs ai-edge-litert 2.1, installed is tflite-runtime 2.14.0"
        in (refused["honest"]["error"])
    )


def test_int8_that_the_engine_misreads_is_refused_when_it_is_opened(refused):
    assert refused["misleading"]["kind"] == "BackendRunError"
    assert "'compatible'" in refused["misleading"]["error"]


def test_the_self_test_alone_finds_int8_that_the_engine_misreads(refused):
    assert refused["unguarded"]["kind"] == "SelfTestError"


@pytest.mark.parametrize("backend", ["onnx", "openvino"])
def test_an_engine_without_a_wheel_there_is_named_with_its_remedy(refused, backend):
    assert refused[backend]["kind"] == "BackendUnavailableError"
    assert f"edgebert[{backend}]" in refused[backend]["error"]
