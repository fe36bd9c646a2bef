"""Weights in 4 bits: packed as engines read them, and rounded so that the outputs stay."""

from __future__ import annotations

import numpy as np
import pytest

from compress.artifacts.four_bits import (
    FourBits,
    Linked,
    block_scales,
    round_weight,
    round_weights,
)
from edgebert.errors import GateError

RNG = np.random.default_rng(0)
WEIGHT = RNG.normal(size=(24, 64)).astype(np.float32)
# Activations whose channels go together, so that one can make up for another.
INPUTS = (RNG.normal(size=(500, 8)) @ RNG.normal(size=(8, 64)) + 0.2).astype(np.float32)
MOMENTS = INPUTS.T @ INPUTS


def nearest(weight, scales):
    """Round each number to the nearest step of its block's scale, one by one."""
    wide = np.repeat(scales.astype(np.float64), 32, axis=1)[:, : weight.shape[1]]
    return np.clip(np.rint(weight / wide), -8, 7) * wide


def output_error(made):
    return np.linalg.norm(INPUTS @ (made - WEIGHT).T) / np.linalg.norm(INPUTS @ WEIGHT.T)


def test_steps_stand_for_their_distance_from_8_times_the_scale_of_their_block():
    steps = np.array([[[0, 8], [15, 9]]], dtype=np.uint8)
    bits = FourBits(steps, np.array([[0.5, -2.0]], dtype=np.float16))
    np.testing.assert_array_equal(bits.values(), [[-4.0, 0.0, -14.0, -2.0]])


def test_two_steps_share_a_byte_the_first_in_its_low_half():
    steps = np.array([[[1, 15, 8, 0]]], dtype=np.uint8)
    bits = FourBits(steps, np.ones((1, 1), dtype=np.float16))
    np.testing.assert_array_equal(bits.packed(), [[[0xF1, 0x08]]])
    # as -7, 7, 0 and -8 in two's complement
    np.testing.assert_array_equal(bits.packed(signed=True), [[[0x79, 0x80]]])


def test_where_channels_go_together_the_outputs_are_nearer_than_by_rounding_each_number():
    bits = round_weight(WEIGHT, MOMENTS)
    assert output_error(bits.values()) < 0.6 * output_error(nearest(WEIGHT, bits.scales))


def test_where_channels_have_nothing_to_do_with_each_other_each_number_is_rounded_to_the_nearest():
    bits = round_weight(WEIGHT, np.diag(RNG.uniform(1, 2, 64)))
    np.testing.assert_allclose(bits.values(), nearest(WEIGHT, bits.scales), atol=1e-6)


def test_what_is_in_4_bits_already_stays():
    once = round_weight(WEIGHT, MOMENTS).values()
    np.testing.assert_allclose(round_weight(once, MOMENTS).values(), once, atol=2e-3)


def test_a_channel_that_was_never_seen_is_rounded_too():
    moments = MOMENTS.copy()
    moments[5] = moments[:, 5] = 0
    bits = round_weight(WEIGHT, moments)
    np.testing.assert_allclose(bits.values()[:, 5], nearest(WEIGHT, bits.scales)[:, 5], atol=1e-6)


def test_activations_that_are_not_finite_are_a_refusal():
    with pytest.raises(GateError, match="not finite"):
        round_weight(WEIGHT, MOMENTS * np.nan)


@pytest.mark.parametrize("inner", [32, 48, 64])
def test_no_number_is_further_off_than_clipping_and_half_a_step_explain(inner):
    weight = WEIGHT[:, :inner]
    bits = round_weight(weight, np.eye(inner))
    assert bits.steps.shape == (24, -(-inner // 32), 32)
    made = bits.values()[:, :inner]
    scale = np.abs(np.repeat(bits.scales.astype(np.float64), 32, axis=1)[:, :inner])
    inside = np.abs(made) < 7 * scale
    assert (np.abs(made - weight)[inside] <= 0.501 * scale[inside]).all()
    np.testing.assert_array_equal(bits.values()[:, inner:], 0)


def test_a_scale_is_never_0_and_positive_where_an_engine_asks_for_that():
    block = np.concatenate([np.zeros((1, 32)), WEIGHT[:, :32]])
    assert (block_scales(block) != 0).all()
    assert (block_scales(block, positive=True) > 0).all()


def groups():
    return [
        Linked(("a",), {"first": WEIGHT}),
        Linked(("b", "c"), {"shared": WEIGHT[:, :32], "beside": WEIGHT[:8, :32]}),
    ]


def look(log):
    def run(names):
        log.append(tuple(names))
        for start in (0, 250):  # two texts
            for name in names:
                yield name, INPUTS[start : start + 250, : 64 if name == "a" else 32]

    return run


def test_moments_of_more_than_the_memory_are_seen_in_piles_and_nothing_changes():
    once, twice = [], []
    whole = round_weights(groups(), look(once))
    piled = round_weights(groups(), look(twice), most=4 * 64 * 64)
    assert once == [("a", "b", "c")]
    assert twice == [("a",), ("b", "c")]
    assert list(whole) == ["first", "shared", "beside"]
    for name, bits in whole.items():
        np.testing.assert_array_equal(bits.steps, piled[name].steps)


def test_texts_add_up_to_the_moments_of_all_tokens():
    found = round_weights(groups()[:1], look([]))["first"]
    np.testing.assert_array_equal(found.steps, round_weight(WEIGHT, MOMENTS).steps)


def test_blocks_are_smaller_where_an_engine_knows_no_padding():
    only = [Linked(("a",), {"odd": WEIGHT[:, :52]})]
    found = round_weights(only, lambda _: iter([("a", INPUTS[:, :52])]), whole_blocks=True)
    assert found["odd"].steps.shape == (24, 2, 26)
