"""What an engine is told of the processor."""

from __future__ import annotations

import pytest

from runtimes import cpu
from runtimes.base import SessionOptions


@pytest.mark.parametrize(
    ("features", "found"),
    [(("avx2", "avx512_vnni"), True), (("avx_vnni",), True), (("avx2", "avx512f"), False)],
)
def test_both_forms_of_vnni_are_known(monkeypatch, features, found):
    monkeypatch.setattr(cpu, "cpu_features", lambda: features)
    assert cpu.has_vnni() is found


@pytest.mark.onnx
@pytest.mark.parametrize("vnni", [True, False])
def test_only_without_vnni_onnx_runtime_takes_the_slow_way_that_cannot_saturate(monkeypatch, vnni):
    onnx = pytest.importorskip("runtimes.onnx")
    monkeypatch.setattr(onnx, "has_vnni", lambda: vnni)
    settings = onnx._settings(SessionOptions())
    if vnni:
        with pytest.raises(RuntimeError):
            settings.get_session_config_entry("session.x64quantprecision")
    else:
        assert settings.get_session_config_entry("session.x64quantprecision") == "1"
