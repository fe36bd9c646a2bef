"""How a report writes numbers, on the page and on the terminal; "-" where one is missing."""

from __future__ import annotations

import math
import re

MISSING = "-"
TIMES = "\N{MULTIPLICATION SIGN}"
_BACKENDS = {"onnx": "ONNX", "openvino": "OpenVINO", "tflite": "TFLite"}
_NAMES = {"mcc": "MCC", "macro_f1": "Macro F1", "micro_f1": "Micro F1"}
_LIMITS = {"max_abs": "Largest difference", "relative_loss": "Relative loss of the score"}


def megabytes(size_bytes: int | None) -> str:
    """Write a size in units of 10**6 bytes, like ``17.4 MB``."""
    if size_bytes is None:
        return MISSING
    return f"{size_bytes / 1e6:,.1f} MB" if size_bytes >= 1e5 else f"{size_bytes / 1e3:,.1f} kB"


def milliseconds(value: float | None) -> str:
    """Write a time of one call with three digits, like ``1.94 ms``."""
    return MISSING if value is None else f"{digits(value)} ms"


def duration(seconds: float) -> str:
    """Write a wall time, like ``4 s``, ``3 min 20 s`` or ``1 h 05 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def score(value: float | None) -> str:
    """Write a metric with four decimals."""
    return MISSING if value is None else f"{value:.4f}"


def rounded_down(value: float) -> str:
    """Write a lower bound with four decimals: rounded up it would say too much."""
    return f"{math.floor(value * 1e4) / 1e4:.4f}"


def interval(value: tuple[float, float] | None) -> str:
    """Write a 95 % interval, like ``0.8741 to 0.9102``."""
    return MISSING if value is None else f"{value[0]:.4f} to {value[1]:.4f}"


def percent(value: float | None) -> str:
    """Write a fraction in percent with one decimal."""
    return MISSING if value is None else f"{100 * value:.1f} %"


def ratio(value: float | None) -> str:
    """Write how many times, with two or three digits and no sign behind."""
    return MISSING if value is None else f"{value:.0f}" if value >= 99.5 else f"{value:.1f}"


def count(value: float | None) -> str:
    """Write a count with thousands separators."""
    return MISSING if value is None else f"{value:,.0f}"


def params(value: int) -> str:
    """Write a number of parameters, like ``22.7 M``."""
    return f"{value / 1e6:,.1f} M" if value >= 1e5 else f"{value:,}"


def small(value: float | None) -> str:
    """Write a number that may be tiny, like ``3.1e-6`` or ``0.997``."""
    if value is None:
        return MISSING
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}"


def metric_name(name: str) -> str:
    """Write a metric's name for people: ``macro_f1`` is ``Macro F1``."""
    return _NAMES.get(name, name.replace("_", " ").capitalize())


def backend_name(backend: str) -> str:
    """Write a backend's name as its makers do: ``openvino`` is ``OpenVINO``."""
    return _BACKENDS.get(backend, backend)


def latency_name(key: str) -> str:
    """Write a latency's key for people: ``b1_s32`` is ``1 text, 32 tokens``."""
    found = re.fullmatch(r"b(\d+)_s(\d+)", key)
    if found is None:
        return key
    texts = "1 text" if found[1] == "1" else f"{found[1]} texts"
    return f"{texts}, {found[2]} tokens"


def limit_name(name: str) -> str:
    """Write a gate's limit for people: ``max_abs`` is ``Largest difference``."""
    return _LIMITS.get(name, name.replace("_", " ").capitalize())


def at_least(limit: str) -> bool:
    """Whether a gate's limit of this name is the smallest value allowed, not the largest."""
    return "cosine" in limit or limit.endswith("_min")


def digits(value: float) -> str:
    """Write a number with about three digits, like ``1.94`` or ``31.2``."""
    decimals = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:,.{decimals}f}"
