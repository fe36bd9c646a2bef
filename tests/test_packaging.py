"""What is published: the wheel, its extras, and an install that has no torch."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import tomllib
from packaging.requirements import Requirement

from tests.edgebert.bundles import write_bundle

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = {
    name: [Requirement(line) for line in lines]
    for name, lines in PROJECT["optional-dependencies"].items()
}


def pins(file: str) -> list[Requirement]:
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    return [Requirement(text) for line in lines if (text := line.split("#")[0].strip())]


def brought_by(extra: str) -> set[str]:
    """Name all packages of an extra, those of the extras that it names too."""
    names = set()
    for requirement in EXTRAS[extra]:
        if requirement.name == "edgebert":
            names |= set().union(*map(brought_by, requirement.extras))
        else:
            names.add(requirement.name)
    return names


def test_the_base_install_is_numpy_and_tokenizers():
    assert {Requirement(line).name for line in PROJECT["dependencies"]} == {"numpy", "tokenizers"}


def test_all_is_every_extra_but_optimum_and_dev():
    others = set(EXTRAS) - {"all", "optimum", "dev"}
    assert brought_by("all") == set().union(*map(brought_by, others))


@pytest.mark.parametrize("extra", ["onnx", "openvino", "tflite", "stores", "serve"])
def test_an_extra_of_the_runtime_side_brings_no_torch(extra):
    assert brought_by(extra).isdisjoint({"torch", "transformers", "safetensors", "datasets"})


@pytest.mark.parametrize("extra", ["all", "dev"])
def test_constraints_pin_what_an_extra_brings(extra):
    pinned = {pin.name for pin in pins("constraints.txt")}
    only_on_32_bit_arm = {"tflite-runtime"}
    assert brought_by(extra) - pinned - only_on_32_bit_arm == set()


def test_the_constraints_of_optimum_pin_what_its_extra_brings():
    pinned = {pin.name for pin in pins("constraints-optimum.txt")}
    assert brought_by("optimum") - pinned == set()


@pytest.mark.parametrize("file", ["constraints-optimum.txt", "constraints-optimum-intel.txt"])
def test_every_environment_has_one_torch(file):
    (ours,) = [str(pin) for pin in pins("constraints.txt") if pin.name == "torch"]
    assert [str(pin) for pin in pins(file) if pin.name == "torch"] == [ours]


def test_the_runtime_side_is_written_for_the_oldest_python():
    """Imports of newer modules are found by the tests; newer syntax is found here."""
    oldest = (3, 10)
    assert f">={oldest[0]}.{oldest[1]}" == PROJECT["requires-python"]
    for folder in ("edgebert", "runtimes"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            ast.parse(path.read_text(encoding="utf-8"), feature_version=oldest)


def test_the_runtime_side_imports_nothing_newer_than_the_oldest_python():
    newer = {"tomllib", "wsgiref.types"}  # of the standard library since 3.11
    found = set()
    for folder in ("edgebert", "runtimes"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found |= {(path.name, name) for name in imported(tree) if is_newer(name, newer)}
    assert found == set()


# Names that modules of the standard library have since 3.11, as far as anyone would use them here.
NEWER_NAMES = {
    "typing": {"Self", "Never", "LiteralString", "assert_never", "assert_type", "override",
               "reveal_type", "Required", "NotRequired", "Unpack", "TypeVarTuple", "TypeAliasType"},
    "enum": {"StrEnum", "ReprEnum", "verify"},
    "datetime": {"UTC"},
    "contextlib": {"chdir"},
    "itertools": {"batched"},
    "asyncio": {"TaskGroup", "Runner", "timeout"},
    "warnings": {"deprecated"},
}  # fmt: skip


def imported(tree: ast.AST) -> set[str]:
    """List what is imported, as ``module`` and ``module.name``, and ``module.name`` where used."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {str(node.module)} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names.add(f"{node.value.id}.{node.attr}")
    return names


def is_newer(name: str, modules: set[str]) -> bool:
    module, _, attribute = name.rpartition(".")
    return name in modules or attribute in NEWER_NAMES.get(module, set())


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13", "3.14"])
def test_constraints_never_pin_a_package_twice_on_one_python(version):
    here = {"python_version": version}
    names = [p.name for p in pins("constraints.txt") if not p.marker or p.marker.evaluate(here)]
    assert len(names) == len(set(names))


def test_every_install_line_names_torch_with_the_pinned_version():
    (pinned,) = [str(pin) for pin in pins("constraints.txt") if pin.name == "torch"]
    files = ("Makefile", "README.md", "CONTRIBUTING.md")
    text = "\n".join((ROOT / file).read_text(encoding="utf-8") for file in files)
    lines = re.findall(r"^.*pip install .*-c constraints\.txt.*\[.*(?:dev|compress).*$", text, re.M)
    assert len(lines) == 3
    assert [line for line in lines if pinned not in line] == []


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    options = ("--no-deps", "--no-build-isolation", "-w", folder)
    run(sys.executable, "-m", "pip", "wheel", *options, ROOT)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """Install the wheel in a bare environment, without pip's help; give its programs' folder.

    Its own dependencies, and one engine, come from the constraints; the rest of what they bring, a
    client of the hub with it, stays away.

    Needs the package index; without it the test is skipped, but not in CI.
    """
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", folder)
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    pip = (programs / "python", "-m", "pip", "install", "-q", "--no-deps")
    run(*pip, wheel)
    engine = ("onnxruntime", "flatbuffers", "packaging", "protobuf")
    try:
        run(*pip, "-c", "constraints.txt", "numpy", "tokenizers", *engine)
    except AssertionError as error:
        if "CI" in os.environ or "onnection" not in str(error):
            raise
        pytest.skip("needs the package index")
    return programs


@pytest.mark.slow
def test_the_wheel_is_pure_python_and_typed_and_holds_its_licence(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    tags = zipfile.ZipFile(wheel).read(next(n for n in names if n.endswith("/WHEEL"))).decode()
    assert "Root-Is-Purelib: true" in tags
    assert re.findall(r"^Tag: (.*)$", tags, re.M) == ["py3-none-any"]
    assert wheel.name.endswith("-py3-none-any.whl")
    assert {f"{p}/py.typed" for p in ("edgebert", "runtimes", "compress")} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {n.split("/")[0] for n in names if ".dist-info" not in n} == {
        *("edgebert", "runtimes", "compress")
    }


@pytest.mark.slow
def test_a_runtime_install_has_no_torch_and_runs_a_bundle(installed, tmp_path):
    write_bundle(tmp_path / "bundle", task="text-classification", precisions=("fp32", "int8"))
    packages = run(installed / "python", "-m", "pip", "list", "--format=freeze").lower()
    label, score, text = run(
        *(installed / "edgebert", "classify", tmp_path / "bundle", "good film"), cwd=tmp_path
    ).split("\t")
    assert re.findall(r"^(?:torch|transformers|safetensors)\b.*", packages, re.M) == []
    assert label in ("bad", "fair", "good")
    assert 1 / 3 < float(score) <= 1
    assert text == "good film\n"


@pytest.mark.slow
def test_an_installed_wheel_needs_nothing_of_the_checkout(installed, tmp_path):
    code = "import edgebert, runtimes, sys; print(edgebert.__file__, runtimes.__file__, *sys.path)"
    assert str(ROOT) not in run(installed / "python", "-I", "-c", code, cwd=tmp_path)


@pytest.mark.slow
def test_the_commands_of_an_installed_wheel_work_without_the_hubs_client(installed, tmp_path):
    write_bundle(tmp_path / "bundle", task="text-classification")
    assert "passed" in run(installed / "edgebert", "verify", tmp_path / "bundle", cwd=tmp_path)
    assert "onnxruntime" in run(installed / "edgebert", "backends", cwd=tmp_path)
    command = [installed / "edgebert", "pull", "someone/something", tmp_path / "out"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install huggingface_hub" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "flags"),
    [
        ("distill", ["--teacher", "m"]),
        ("export", ["--model", "m"]),
        ("quantize", ["--model", "m"]),
        ("share", ["--model", "m", "--num-hidden-groups", "1"]),
        ("train", ["--model", "m"]),
    ],
)
def test_the_toolchain_of_an_installed_wheel_names_what_it_lacks(installed, tmp_path, step, flags):
    """The wheel holds it too, so that `pip install 'edgebert[compress]'` needs no second one."""
    command = [installed / "python", "-m", f"compress.{step}", *flags, "--output-dir", "o"]
    done = subprocess.run(
        list(map(str, command)), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "edgebert[compress]" in done.stderr
