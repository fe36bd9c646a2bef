"""INT8 files: every weight is counted, none is missed in silence, two engines read them right."""

from __future__ import annotations

import copy
import dataclasses
import re

import numpy as np
import pytest
import torch

pytest.importorskip("litert_torch")
pytest.importorskip("ai_edge_quantizer")
pytestmark = pytest.mark.tflite

from compress.artifacts import quantize_tflite as module  # noqa: E402
from compress.artifacts.quantize_tflite import RECIPES  # noqa: E402
from compress.artifacts.tflite_model import read_tflite, values_of, weight_uses  # noqa: E402
from edgebert.errors import GateError, InputError  # noqa: E402
from tests.compress.tflite_files import (  # noqa: E402
    EXPORTER,
    GATHERS,
    MATMULS,
    batch_of,
    by_engine,
    by_torch,
)

CALIBRATION = [batch_of(*range(2, 17)), batch_of(16, 7)]
FOUR = "weights-int4"
EIGHT = [name for name in RECIPES if name != FOUR]


@pytest.fixture
def lab(tflite_lab):
    return tflite_lab


@pytest.fixture(scope="module")
def made(tflite_lab, tmp_path_factory):
    folder = tmp_path_factory.mktemp("int8")
    return {
        recipe: (
            path,
            EXPORTER.quantize(tflite_lab.path, path, recipe=recipe, calibration=CALIBRATION),
        )
        for recipe in RECIPES
        for path in [folder / f"{recipe}.tflite"]
    }


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_matrix_and_table_is_converted(made, recipe):
    _, converted = made[recipe]
    assert (converted.matmuls, converted.matmuls_total) == (MATMULS, MATMULS)
    assert (converted.gathers, converted.gathers_total) == (GATHERS, GATHERS)
    assert converted.missed == ()


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_file_is_less_than_half_as_large(lab, made, recipe):
    path, converted = made[recipe]
    assert converted.size_bytes == path.stat().st_size < lab.path.stat().st_size / 2


@pytest.mark.parametrize("recipe", RECIPES)
def test_outputs_stay_close_to_torchs(lab, made, recipe):
    batch = batch_of(3, 8, 11, 16)
    expected = by_torch(lab.module, batch)["logits"]
    found = by_engine(made[recipe][0], batch)["logits"]
    if recipe == FOUR:  # a random model is rough: 4 bits cost it half
        same = with_matrices(lab.module, dict(four_bit_matrices(read_tflite(made[FOUR][0]))))
        expected = by_torch(same, batch)["logits"]
    assert np.abs(found - expected).max() < 0.1 * np.abs(expected).max()


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_texts_result_does_not_depend_on_its_batch_mates(made, recipe):
    path, _ = made[recipe]
    batch = batch_of(16, 5)
    alone = dataclasses.replace(
        batch, **{name: getattr(batch, name)[1:, :5] for name in ("input_ids", "attention_mask")}
    )
    alone = dataclasses.replace(alone, token_type_ids=batch.token_type_ids[1:, :5])
    np.testing.assert_array_equal(
        by_engine(path, batch)["logits"][1], by_engine(path, alone)["logits"][0]
    )


def test_both_recipes_round_to_the_same_numbers(made):
    by_row, levelled = (
        {
            use.name: values_of(model, use.weight)
            for model in [read_tflite(made[recipe][0])]
            for use in weight_uses(model)
        }
        for recipe in ("dynamic", "compatible")
    )
    for name in by_row.keys() | levelled.keys():
        np.testing.assert_array_equal(levelled[name], by_row[name])


def four_bit_matrices(model):
    """Give the matrices of 4 bits by name and signature, by the format's own rules."""
    for use in weight_uses(model):
        if use.bits == 4:
            tensors, form = model.subgraphs[use.graph].tensors, use.weight.quantization.details
            scales = model.buffers[tensors[form.scales].buffer].data
            scales = np.frombuffer(bytes(scales), np.float16).reshape(-1, 1)
            packed = np.frombuffer(bytes(model.buffers[use.buffer].data), np.uint8)
            steps = np.stack([packed & 15, packed >> 4], axis=1).astype(np.int8)
            steps = np.where(steps > 7, steps - 16, steps).reshape(-1, form.blockSize)
            yield (
                (use.name, use.graph),
                (steps * scales.astype(np.float32)).reshape(use.weight.shape),
            )


def with_matrices(module, found):
    """Copy a torch module, with other matrices."""
    copied = copy.deepcopy(module)
    for path, part in copied.named_modules():
        node = re.sub(r"/(\d+)", r".\1", "/" + path.replace(".", "/")) + "/MatMul"
        if (node, 0) in found:
            part.weight.data = torch.from_numpy(found[node, 0])
    return copied


def test_every_signature_has_the_same_matrices_of_4_bits_near_to_those_of_fp32(lab, made):
    found = dict(four_bit_matrices(read_tflite(made[FOUR][0])))
    fp32 = read_tflite(lab.path)
    exact = {use.name: values_of(fp32, use.weight) for use in weight_uses(fp32)}
    assert len(found) == 2 * MATMULS
    for (name, _), values in found.items():
        np.testing.assert_array_equal(values, found[name, 0])
        error = np.linalg.norm(values - exact[name]) / np.linalg.norm(exact[name])
        assert error < 0.2


def test_a_compatible_file_has_one_scale_a_weight(made):
    model = read_tflite(made["compatible"][0])
    assert {tuple(use.weight.quantization.scale) for use in weight_uses(model)} == {(1.0,)}


@pytest.mark.parametrize("recipe", EIGHT)
def test_excluded_parts_keep_their_float_weights(lab, tmp_path, recipe):
    kept = EXPORTER.parts(lab.path)["layer.1/attention"]
    converted = EXPORTER.quantize(lab.path, tmp_path / "q.tflite", recipe=recipe, exclude=kept)
    assert (len(kept), converted.matmuls, converted.missed) == (4, MATMULS - 4, ())
    found = {use.name for use in weight_uses(read_tflite(tmp_path / "q.tflite")) if not use.int8}
    assert found == set(kept)


def test_parts_are_those_of_every_engine(lab):
    layers = {f"layer.{n}/{part}" for n in (0, 1) for part in ("attention", "ffn-up", "ffn-down")}
    assert set(EXPORTER.parts(lab.path)) == layers | {"embeddings", "head"}


def test_a_recipe_that_converts_nothing_is_seen(lab, tmp_path, monkeypatch):
    lazy = dataclasses.replace(RECIPES["dynamic"], convert=lambda source, _: read_tflite(source))
    monkeypatch.setitem(module.RECIPES, "lazy", lazy)
    converted = EXPORTER.quantize(lab.path, tmp_path / "q.tflite", recipe="lazy")
    assert (converted.names, len(converted.missed)) == ((), MATMULS + GATHERS)


@pytest.mark.parametrize("signature", [0, 1])
@pytest.mark.parametrize("recipe", EIGHT)
def test_a_weight_that_vanishes_from_one_signature_is_missed(
    lab, tmp_path, monkeypatch, recipe, signature
):
    lost = "/model/bert/encoder/layer.1/output/dense/MatMul"

    def convert(source, exclude):
        model = RECIPES[recipe].convert(source, exclude)
        for use in list(weight_uses(model)):
            if (use.name, use.graph) == (lost, signature):
                model.subgraphs[signature].operators.remove(use.operator)
        return model

    monkeypatch.setitem(
        module.RECIPES, "spoiled", dataclasses.replace(RECIPES[recipe], convert=convert)
    )
    converted = EXPORTER.quantize(lab.path, tmp_path / "q.tflite", recipe="spoiled")
    assert converted.missed == (lost,)
    assert (converted.matmuls, converted.gathers) == (MATMULS - 1, GATHERS)


def test_a_quantizer_that_fails_is_a_refusal(lab, tmp_path, monkeypatch):
    broken = dataclasses.replace(RECIPES["dynamic"], convert=lambda *_: {}["scale"])
    monkeypatch.setitem(module.RECIPES, "broken", broken)
    with pytest.raises(GateError, match="INT8 recipe 'broken' failed: 'scale'"):
        EXPORTER.quantize(lab.path, tmp_path / "q.tflite", recipe="broken")


def test_int4_refuses_a_model_of_which_nothing_can_be_cut_into_the_engines_blocks(
    lab, tmp_path, monkeypatch
):
    monkeypatch.setattr("compress.artifacts.tflite_four_bits.BLOCK_SIZE", 48)  # of 64 and 128
    with pytest.raises(GateError, match="INT4 in blocks of 48, and no matrix has an inner"):
        type(EXPORTER)(buckets=(8,)).quantize(
            lab.path, tmp_path / "q.tflite", recipe=FOUR, calibration=CALIBRATION
        )


def test_what_is_left_out_of_int4_is_int8(lab, tmp_path):
    kept = EXPORTER.parts(lab.path)["layer.1/attention"]
    converted = EXPORTER.quantize(
        lab.path, tmp_path / "q.tflite", recipe=FOUR, exclude=kept, calibration=CALIBRATION
    )
    assert (converted.matmuls, converted.missed) == (MATMULS - 4, ())
    uses = weight_uses(read_tflite(tmp_path / "q.tflite"))
    bits = {use.name: use.bits for use in uses if use.kind == "MatMul"}
    assert {name for name, found in bits.items() if found == 8} == set(kept)
    assert set(bits.values()) == {4, 8}


def test_an_unknown_recipe_names_the_known_ones(lab, tmp_path):
    with pytest.raises(InputError, match="Known recipes: dynamic, compatible, weights-int4"):
        EXPORTER.quantize(lab.path, tmp_path / "q.tflite", recipe="magic")


def test_an_excluded_node_must_exist(lab, tmp_path):
    with pytest.raises(InputError, match="no_such_node"):
        EXPORTER.quantize(
            lab.path, tmp_path / "q.tflite", recipe="dynamic", exclude=["no_such_node"]
        )


def test_the_source_is_left_as_it_was(lab, tmp_path):
    before = lab.path.read_bytes()
    for recipe in RECIPES:
        EXPORTER.quantize(lab.path, tmp_path / "q.tflite", recipe=recipe, calibration=CALIBRATION)
    assert lab.path.read_bytes() == before
