"""What an install of the runtime side takes on disk, by platform and engine, and what others take.

Wheels of each platform are unpacked into an empty folder, which is measured: nothing is run, so one
machine measures all of them. An interrupted run goes on where it was::

    python -m benchmarks.install_sizes

Only a package registry is asked. ``pip`` is that of the Python that runs this.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS, ROOT, save

# What a platform's pip accepts, the newest first; 2_36 is Raspberry Pi OS 12's.
PLATFORMS: dict[str, list[str]] = {
    "Linux x86-64": [f"manylinux_2_{n}_x86_64" for n in range(36, 16, -1)]
    + ["manylinux2014_x86_64"],
    "Linux aarch64 (Pi 5, 4, 3)": [f"manylinux_2_{n}_aarch64" for n in range(36, 16, -1)]
    + ["manylinux2014_aarch64"],
    "Linux armv7l (32-bit Pi OS)": [f"manylinux_2_{n}_armv7l" for n in range(36, 16, -1)]
    + ["manylinux2014_armv7l"],
    "macOS arm64": [f"macosx_{n}_0_arm64" for n in range(15, 10, -1)],
    "Windows x86-64": ["win_amd64"],
}
ENGINES = {"onnx": "onnxruntime", "openvino": "openvino", "tflite": "ai-edge-litert"}
# armv7l has no wheel of numpy: it is the distribution's (apt install python3-numpy), 24 MB.
ARMV7L = {"tflite": "tflite-runtime"}
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
OTHERS = {"fastembed": ["fastembed"], "sentence-transformers": ["sentence-transformers", "torch"]}


def main() -> None:
    """Measure what isn't in the result yet, and save after each row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python-version", default="3.11")
    version = parser.parse_args().python_version
    path = RESULTS / "install_sizes.json"
    result: dict[str, Any] = {"python": version, "rows": [], "wheels": [], "others": []}
    if path.is_file():
        result = json.loads(path.read_text(encoding="utf-8"))
    jobs = [("rows", key, measure) for key in sets()]
    jobs += [("wheels", key, find_wheels) for key in sets(backends=ENGINES)]
    jobs += [("others", (name,), measure_other) for name in (*OTHERS, "transformers.js")]
    for part, key, action in jobs:
        if any(row["key"] == list(key) for row in result[part]):
            continue
        print(" ".join(key), file=sys.stderr, flush=True)
        result[part].append({"key": list(key), **action(version, *key)})
        save("install_sizes", result)


def sets(backends: Any = ("", *ENGINES)) -> list[tuple[str, str]]:
    """List platform and engine, ``""`` for none, of each set that could be."""
    return [
        (platform, backend)
        for platform in PLATFORMS
        for backend in backends
        if "armv7l" not in platform or backend in ("", *ARMV7L)
    ]


def packages(platform: str, backend: str) -> list[str]:
    """Name the packages of a set, `tokenizers` and numpy first."""
    small = "armv7l" in platform
    base = ["tokenizers"] if small else ["tokenizers", "numpy"]
    return base + ([(ARMV7L if small else ENGINES)[backend]] if backend else [])


def measure(version: str, platform: str, backend: str) -> dict[str, Any]:
    """Measure a set with all that is declared, and without: none needs more than these to run."""
    wanted = packages(platform, backend)
    whole = None if "armv7l" in platform else install(wanted, platform, version)
    return {
        "packages": wanted,
        "declared": whole,
        "needed": install(["--no-deps", *wanted], platform, version),
        "edgebert_bytes": own_size(),
    }


def find_wheels(version: str, platform: str, backend: str) -> dict[str, Any]:  # noqa: ARG001
    """Name the newest wheel of an engine for each Python, None where there is none."""
    package = packages(platform, backend)[-1]
    found = {}
    for python in PYTHONS:
        flags = ["--no-deps", "--dry-run", "--ignore-installed", "--report", "-", "--quiet"]
        done = pip([*flags, *target(platform, python), "--target", "unused", package])
        items = json.loads(done.stdout)["install"] if done.returncode == 0 else []
        found[python] = items[0]["metadata"]["version"] if items else None
    return {"package": package, "versions": found}


def measure_other(version: str, name: str) -> dict[str, Any]:
    """Measure what another library brings on Linux x86-64."""
    if name != "transformers.js":
        pinned = [f"torch=={_torch()}" if one == "torch" else one for one in OTHERS[name]]
        return {"declared": install(pinned, None, version)}
    npm = shutil.which("npm")
    if npm is None:
        return {"declared": None}
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "install", "--ignore-scripts", "--prefix", folder]
        subprocess.run([*command, "@huggingface/transformers"], check=True, stdout=sys.stderr)
        return {"declared": {"bytes": size(Path(folder))}}


def install(wanted: list[str], platform: str | None, version: str) -> dict[str, Any] | None:
    """Unpack packages into a folder and measure it; None where a wheel is missing."""
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--only-binary=:all:"] if platform is None else target(platform, version)
        done = pip(["--quiet", *flags, "--target", folder, *wanted])
        if done.returncode:
            print(done.stderr[-600:], file=sys.stderr)
            return None
        found = sorted(path.name for path in Path(folder).glob("*.dist-info"))
        return {"bytes": size(Path(folder)), "installed": [_spelled(name) for name in found]}


def target(platform: str, version: str) -> list[str]:
    """Give the flags that make pip choose another machine's wheels."""
    names = [flag for name in PLATFORMS[platform] for flag in ("--platform", name)]
    return ["--only-binary=:all:", "--python-version", version, *names]


def pip(flags: list[str]) -> subprocess.CompletedProcess[str]:
    """Run ``pip install``; nothing is compiled, as a device compiles when it first imports."""
    command = [sys.executable, "-m", "pip", "install", "--no-compile", *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def size(folder: Path) -> int:
    """Add up the bytes of a folder's files."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def own_size() -> int:
    """Add up what of this project the runtime side needs."""
    folders = (ROOT / "edgebert", ROOT / "runtimes")
    return sum(path.stat().st_size for folder in folders for path in folder.rglob("*.py"))


def _torch() -> str:
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    found = re.search(r"^torch==(\S+)", pins, re.MULTILINE)
    assert found is not None
    return found[1]


def _spelled(folder: str) -> str:
    return folder.removesuffix(".dist-info").replace("-", " ")


if __name__ == "__main__":
    main()
