"""Run on 32-bit ARM: opens what can't be run rightly there, and writes what that came to.

    refusals.py OUT HONEST MISLEADING

HONEST and MISLEADING are bundles whose INT8 tflite-runtime computes wrong; see
`tests.arm.bundles.claiming_old_engine` for what the second one claims.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.arm.worker import ask_all


def main(out: str, honest: str, misleading: str) -> None:
    said = {
        "honest": ask_all(Path(honest), "tflite", "int8"),
        "misleading": ask_all(Path(misleading), "tflite", "int8"),
        **{name: ask_all(Path(honest), name, "fp32") for name in ("onnx", "openvino")},
    }
    from runtimes.tflite import _Worker

    _Worker.has_row_scales = lambda _: False  # as if nobody had known
    said["unguarded"] = ask_all(Path(misleading), "tflite", "int8")
    Path(out).write_text(json.dumps(said), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
