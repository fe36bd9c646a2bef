"""Engines and recipes are chosen by name before any work, and what is missing is said."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from compress.artifacts import exporters
from compress.artifacts.exporters import EXPORTERS, get_exporter, plan_export
from compress.export import ExportConfig
from compress.options import load_run
from edgebert.errors import BackendUnavailableError, InputError
from runtimes import BACKENDS


@pytest.fixture
def without(monkeypatch):
    """Make a package absent that an exporter needs."""

    def remove(backend):
        spec = replace(EXPORTERS[backend], requires=("no_such_package",))
        monkeypatch.setitem(exporters.EXPORTERS, backend, spec)

    return remove


def test_there_is_an_exporter_for_every_engine():
    assert list(EXPORTERS) == list(BACKENDS)


@pytest.mark.parametrize("backend", EXPORTERS)
def test_an_exporter_writes_into_its_backends_folder_and_has_the_default_recipes(backend):
    exporter = get_exporter(backend)
    assert exporter.backend == backend
    for path in (exporter.fp32_path, exporter.int8_path):
        assert all(name.startswith(f"{backend}/") for name in exporter.files(path))
        assert exporter.files(path)[0] == path
    assert set(EXPORTERS[backend].default_recipes) <= set(exporter.recipes)


def test_the_table_imports_no_converter():
    code = (
        "import sys, compress.artifacts.exporters as e; e.plan_export();"
        "print(*{'onnx', 'nncf', 'litert_torch', 'ai_edge_quantizer'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"onnx"}  # whose graphs are read to count


def test_every_installed_engine_gets_its_default_recipes():
    plan = plan_export()
    assert plan.recipes["onnx"] == ("dynamic",)
    assert plan.recipes["openvino"] == ("static", "weights")
    assert plan.recipes["tflite"] == ("dynamic",)
    assert plan.missing == {}


def test_a_recipe_by_name_is_for_every_engine_that_has_it_and_the_others_keep_theirs():
    plan = plan_export(("onnx", "openvino"), ("weights", "blockwise"))
    assert plan.recipes == {"onnx": ("weights", "blockwise"), "openvino": ("weights",)}
    assert plan_export(("onnx", "openvino"), ("blockwise",)).recipes["openvino"] == (
        "static",
        "weights",
    )


def test_several_recipes_of_one_engine_are_tried_in_the_order_given():
    plan = plan_export(("onnx",), ("onnx=blockwise", "dynamic", "blockwise"))
    assert plan.recipes == {"onnx": ("blockwise", "dynamic")}


@pytest.mark.parametrize("recipe", ["magic", "onnx=compatible", "openvino=static", "=dynamic"])
def test_a_recipe_that_no_chosen_engine_has_is_refused_with_the_known_ones(recipe):
    with pytest.raises(InputError, match=r"Known recipes: onnx: dynamic, .*blockwise, weights"):
        plan_export(("onnx",), (recipe,))


def test_every_recipe_of_an_engine_can_be_asked_for_at_once():
    plan = plan_export(recipes=("onnx=dynamic",), every=True)
    assert plan.recipes["onnx"] == ("dynamic",)
    assert plan.recipes["tflite"] == tuple(get_exporter("tflite").recipes)


def test_a_calibration_leaves_out_the_others_but_no_recipe_that_has_no_choice():
    plan = plan_export(every=True, calibration="percentile")
    assert "static-percentile" in plan.recipes["onnx"]
    assert not {"static", "static-entropy"} & set(plan.recipes["onnx"])
    assert {"dynamic", "weights"} <= set(plan.recipes["onnx"])
    assert "static-percentile" in plan.recipes["openvino"]
    assert "static" not in plan.recipes["openvino"]
    assert "static" in plan_export(every=True, calibration="min-max").recipes["openvino"]
    for recipes in plan.recipes.values():  # it learns something else of the texts
        assert "weights-int4" in recipes


def test_a_calibration_that_leaves_an_engine_no_recipe_is_refused():
    with pytest.raises(InputError, match="leaves onnx none of the recipes static"):
        plan_export(("onnx",), ("static",), calibration="entropy")


def test_an_unknown_engine_is_refused_with_the_known_ones():
    with pytest.raises(InputError, match="Known backends: onnx, openvino, tflite"):
        plan_export(("coreml",))
    with pytest.raises(InputError, match="Known backends: onnx, openvino, tflite"):
        get_exporter("coreml")


def test_an_engine_that_is_not_installed_is_left_out_and_named(without):
    without("openvino")
    plan = plan_export()
    assert "openvino" not in plan.recipes
    assert "'no_such_package'" in plan.missing["openvino"]
    assert "pip install 'edgebert[compress]'" in plan.missing["openvino"]


def test_an_engine_that_was_asked_for_and_is_not_installed_is_an_error(without):
    without("openvino")
    with pytest.raises(BackendUnavailableError, match=r"edgebert\[compress\]"):
        plan_export(("onnx", "openvino"))


def test_without_any_engine_there_is_nothing_to_export(without):
    for backend in EXPORTERS:
        without(backend)
    with pytest.raises(BackendUnavailableError):
        plan_export()


def test_a_run_from_when_there_was_one_recipe_is_replayed(tmp_path):
    (tmp_path / "run.json").write_text('{"step": "ExportConfig", "recipe": "blockwise"}')
    assert load_run(ExportConfig, tmp_path / "run.json") == {"recipe": ("blockwise",)}
