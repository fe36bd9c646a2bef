"""Imports go one way, and nothing heavy is loaded before it is needed."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgebert.commands import COMMANDS

ROOT = Path(__file__).parents[1]
OURS = ("edgebert", "runtimes", "compress")
TRAINING = {"torch", "transformers", "safetensors", "datasets", "onnx", "nncf", "litert_torch"}
ENGINES = {"onnxruntime", "openvino", "ai_edge_litert", "tflite_runtime"}
FOUNDATION = ("edgebert.errors", "edgebert.types")
# Folders of a package, each of which may import those before it.
PARTS = {
    "edgebert": (
        "formats",
        "foreign",
        "bundles",
        "text",
        "engines",
        "tasks",
        "apps",
        "features",
        "serving",
        "commands",
        "adapters",
    ),
    "compress": (
        "models",
        "data",
        "reporting",
        "scoring",
        "trimming",
        "training",
        "pruning",
        "sharing",
        "artifacts",
        "distillation",
        "bundles",
        "searching",
    ),
}
MODULES = sorted(path for package in OURS for path in (ROOT / package).rglob("*.py"))
STEPS = [
    path.stem for path in sorted((ROOT / "compress").glob("*.py")) if "__main__" in path.read_text()
]


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_by(path: Path) -> Iterator[str]:
    """Name what a module imports anywhere in it, inside functions and for type checkers too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            yield str(node.module)
            if node.module in OURS:  # `from runtimes import base` may mean a module
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def loaded_after(code: str) -> set[str]:
    """Run code in a fresh Python; give the top names of all modules that it has loaded."""
    tail = "\nimport json, sys; print(json.dumps(sorted({n.split('.')[0] for n in sys.modules})))"
    done = subprocess.run(
        [sys.executable, "-c", code + tail], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def help_of(module: str, *arguments: str) -> str:
    """Write code that asks a command for its help and goes on afterwards."""
    return (
        "import runpy, sys\n"
        f"sys.argv = {[module, *arguments, '--help']}\n"
        "try:\n"
        f"    runpy.run_module({module!r}, run_name='__main__', alter_sys=True)\n"
        "    raise AssertionError('--help came back')\n"
        "except SystemExit as end:\n"
        "    if end.code: raise\n"
    )


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_go_one_way(path):
    module, package = name_of(path), path.relative_to(ROOT).parts[0]
    names = [name for name in imported_by(path) if name.split(".")[0] in OURS]
    if module in FOUNDATION:
        assert names == []
    elif package == "runtimes":
        assert [n for n in names if not n.startswith(("runtimes", *FOUNDATION))] == []
    elif package == "edgebert":
        assert [n for n in names if n.startswith("compress")] == []


@pytest.mark.parametrize(
    ("package", "part"), [(package, part) for package, parts in PARTS.items() for part in parts]
)
def test_parts_of_a_package_import_one_way(package, part):
    names = {name for path in (ROOT / package / part).rglob("*.py") for name in imported_by(path)}
    parts = PARTS[package]
    later = tuple(f"{package}.{other}." for other in parts[parts.index(part) + 1 :])
    assert [name for name in names if name.startswith(later)] == []


@pytest.mark.parametrize("package", PARTS)
def test_every_folder_of_a_package_is_a_part(package):
    folders = {path.parent.name for path in (ROOT / package).glob("*/__init__.py")}
    assert folders == set(PARTS[package])


@pytest.mark.parametrize("path", [p for p in MODULES if "compress" not in name_of(p)], ids=name_of)
def test_the_runtime_side_never_names_a_training_package(path):
    assert TRAINING.isdisjoint(name.split(".")[0] for name in imported_by(path))


@pytest.mark.parametrize("path", sorted((ROOT / "edgebert").rglob("*.py")), ids=name_of)
def test_only_a_backend_imports_its_engine(path):
    assert ENGINES.isdisjoint(name.split(".")[0] for name in imported_by(path))


def test_importing_edgebert_loads_numpy_and_the_standard_library_only():
    extra = loaded_after("import edgebert") - loaded_after("import numpy")
    assert {n for n in extra if n not in sys.stdlib_module_names} <= {"edgebert"}


def test_naming_the_runtime_class_loads_no_engine():
    loaded = loaded_after("import edgebert; edgebert.Runtime")
    assert loaded.isdisjoint(TRAINING | ENGINES)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_the_help_of_a_command_loads_no_engine(command):
    loaded = loaded_after(help_of("edgebert", *([command] if command else [])))
    assert loaded.isdisjoint(TRAINING | ENGINES)


@pytest.mark.parametrize("step", STEPS)
def test_the_help_of_a_step_loads_no_torch(step):
    assert loaded_after(help_of(f"compress.{step}")).isdisjoint({"torch", "transformers"})
