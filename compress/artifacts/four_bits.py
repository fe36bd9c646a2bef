"""Weights in 4 bits: in blocks of 32 with a scale each, rounded so that the outputs stay.

Rounded each to the nearest step, MiniLM's mean cosine fell to 0.971; rounded column by column,
each error made up for by the columns that are still to come, it is 0.992: GPTQ (Frantar et al.,
2022), those first that weigh most, with the scales of the blocks fixed before. A zero point for
each block would have been 0.001 nearer; it takes an eighth of a bit a weight, and not every engine
knows one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgebert.errors import GateError
from edgebert.types import FloatArray

logger = logging.getLogger(__name__)

MOMENT_BYTES = 2**28  # of moments that are held at once; MiniLM's are a quarter of it
BLOCK_SIZE = 32  # along the inner dimension
_STRIPE = 128  # columns whose errors are handed on together; it changes no result
ZERO = 8  # the step that stands for 0
_STEPS = 15
# A block's scale may be less than its largest weight asks for: that is clipped, the rest is nearer.
# With 8/7, a block that has 7 steps on each side, as `compress.training.fake_quant` does, stays.
_SHRINKS = np.array([*np.linspace(0.7, 1.1, 9), 8 / 7], dtype=np.float32)
_LEAST = 2.0**-14  # of a scale: float16 has fewer bits below it
_DAMPING = 0.01  # of the mean of the diagonal, as in the paper

Steps = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]
Scales = np.ndarray[tuple[int, ...], np.dtype[np.float16]]


@dataclass(frozen=True, eq=False)
class FourBits:
    """A matrix in 4 bits.

    Attributes:
        steps: 0 to 15, 8 for zero, uint8 ``[outer, blocks, size]``; the last block may be padded.
        scales: What one step is worth, float16 ``[outer, blocks]``; it may be below 0.
    """

    steps: Steps
    scales: Scales

    def values(self) -> FloatArray:
        """Give the matrix that the steps stand for, float32 ``[outer, blocks * size]``."""
        signed = self.steps.astype(np.float32) - ZERO
        return (signed * self.scales.astype(np.float32)[:, :, None]).reshape(len(self.steps), -1)

    def packed(self, *, signed: bool = False) -> Steps:
        """Put two steps into a byte, the first in its low half: uint8, half as wide.

        Args:
            signed: As the two's complement of -8 to 7, not as 0 to 15.
        """
        steps = (self.steps - ZERO) & 15 if signed else self.steps
        return np.asarray(steps[:, :, 0::2] | (steps[:, :, 1::2] << 4), dtype=np.uint8)


@dataclass(frozen=True, eq=False)
class Linked:
    """Weights with the inputs that they are multiplied with, all of which go together.

    Attributes:
        inputs: Names of activations.
        weights: By name, float32 ``[outer, inner]``.
    """

    inputs: tuple[str, ...]
    weights: Mapping[str, FloatArray]

    @property
    def moment_bytes(self) -> int:
        """Memory that the moments of its inputs take."""
        inner = int(next(iter(self.weights.values())).shape[1])
        return 4 * inner**2 * len(self.inputs)


# Takes names of activations; gives them of each text, of real tokens alone, float32 [tokens, inner]
Look = Callable[[Sequence[str]], Iterator[tuple[str, FloatArray]]]


def round_weights(
    groups: Sequence[Linked],
    look: Look,
    *,
    positive: bool = False,
    whole_blocks: bool = False,
    most: int = MOMENT_BYTES,
) -> dict[str, FourBits]:
    """Round all weights of a model to 4 bits by what their inputs are on real texts.

    Args:
        groups: All of them.
        look: Runs the model on the texts, once for each pile of groups that fits the memory.
        positive: See `block_scales`.
        whole_blocks: Let blocks be smaller where 32 isn't a divisor of a weight's inner dimension,
            for engines that know no padding.
        most: Bytes of moments at once; a group that takes more is alone.

    Returns:
        By the weight's name.
    """
    found: dict[str, FourBits] = {}
    for pile in _piles(groups, most):
        sums: dict[str, FloatArray] = {}
        for name, values in look([name for group in pile for name in group.inputs]):
            rows = values.reshape(-1, values.shape[-1])
            sums[name] = sums.get(name, 0.0) + rows.T @ rows  # [inner, inner]
        for group in pile:
            moments = np.sum([sums[name] for name in group.inputs], axis=0)
            for name, weight in group.weights.items():
                size = _divisor(weight.shape[1]) if whole_blocks else BLOCK_SIZE
                found[name] = round_weight(weight, moments, positive=positive, block_size=size)
        logger.info("4 bits: rounded %d weights", len(found))
    return found


def _pieces(weight: FloatArray, size: int) -> Any:
    """Cut a matrix into blocks, float64 ``[outer, blocks, size]``, the last one padded."""
    outer, inner = weight.shape
    blocks = -(-inner // size)
    padded = np.zeros((outer, blocks * size))
    padded[:, :inner] = weight
    return padded.reshape(outer, blocks, size)


def _divisor(inner: int) -> int:
    """Give the largest even size of up to 32 that cuts a row into whole blocks; 32 for none."""
    return next((size for size in range(BLOCK_SIZE, 1, -2) if inner % size == 0), BLOCK_SIZE)


def _piles(groups: Sequence[Linked], most: int) -> Iterator[list[Linked]]:
    pile: list[Linked] = []
    for group in groups:
        if pile and sum(one.moment_bytes for one in (*pile, group)) > most:
            yield pile
            pile = []
        pile.append(group)
    if pile:
        yield pile


def round_weight(
    weight: FloatArray,
    moments: FloatArray,
    *,
    positive: bool = False,
    block_size: int = BLOCK_SIZE,
) -> FourBits:
    """Round a matrix to 4 bits so that its products with what was seen change least.

    Args:
        weight: float32 ``[outer, inner]``.
        moments: Sum of ``x xᵀ`` over its inputs, ``[inner, inner]``.
        positive: See `block_scales`.
        block_size: Of the blocks; the last one is padded.
    """
    pieces = _pieces(weight, block_size)
    outer, blocks, _ = pieces.shape
    scales = np.stack(
        [block_scales(pieces[:, block], positive=positive) for block in range(blocks)], axis=1
    )
    order = np.argsort(-np.diagonal(moments), kind="stable")  # what weighs most is rounded first
    every = np.repeat(scales.astype(np.float64), block_size, axis=1)[:, order]
    padded = pieces.reshape(outer, -1)
    steps = np.full(padded.shape, ZERO, dtype=np.uint8)
    steps[:, order] = _in_turn(padded[:, order], every, _factors(moments[np.ix_(order, order)]))
    return FourBits(steps.reshape(outer, blocks, block_size), scales)


def round_table(values: FloatArray) -> FourBits:
    """Round a table of embeddings to 4 bits, each number to the nearest step.

    Args:
        values: float32 ``[rows, width]``.
    """
    pieces = _pieces(values, BLOCK_SIZE)
    scales = np.stack([block_scales(pieces[:, block]) for block in range(pieces.shape[1])], axis=1)
    steps = _nearest(pieces, scales.astype(np.float64)[:, :, None])
    return FourBits(steps.astype(np.uint8), scales)


def _in_turn(left: Any, scales: Any, factors: Any) -> Any:  # float64 [outer, inner] each
    """Round columns from the left, the rest making up for each error; give the steps."""
    steps = np.empty(left.shape, dtype=np.uint8)
    for start in range(0, left.shape[1], _STRIPE):
        end = min(start + _STRIPE, left.shape[1])
        errors = np.empty((len(left), end - start))
        for column in range(start, end):
            steps[:, column] = _nearest(left[:, column], scales[:, column])
            made = (steps[:, column] - float(ZERO)) * scales[:, column]
            error = (left[:, column] - made) / factors[column, column]
            left[:, column:end] -= error[:, None] * factors[column, column:end]
            errors[:, column - start] = error
        left[:, end:] -= errors @ factors[start:end, end:]
    return steps


def block_scales(block: Any, *, positive: bool = False) -> Scales:  # floats of any width
    """Choose a scale for each row's block: of ten, the one with the least squared error.

    Args:
        block: ``[outer, size]``.
        positive: Give no scale below 0, for engines that refuse one. Else the largest weight,
            whatever its sign, is on the side of 0 that has 8 steps, where the other has 7.
    """
    rows = np.arange(len(block))
    largest = block[rows, np.abs(block).argmax(axis=1)]  # [outer]
    whole = np.abs(largest) / (ZERO - 1) if positive else largest / -ZERO
    tries = (whole[:, None] * _SHRINKS).astype(np.float16)
    tries[np.abs(tries) < _LEAST] = _LEAST
    errors = np.empty(tries.shape)
    for place in range(tries.shape[1]):
        scale = tries[:, [place]].astype(np.float64)
        errors[:, place] = (((_nearest(block, scale) - ZERO) * scale - block) ** 2).sum(axis=1)
    return np.asarray(tries[rows, errors.argmin(axis=1)])


def _nearest(values: Any, scale: Any) -> Any:
    return np.clip(np.rint(values / scale) + ZERO, 0, _STEPS)


def _factors(moments: FloatArray) -> Any:
    """Give the upper triangle ``U`` of ``UᵀU``, the inverse of the damped moments.

    Its row ``j``, divided by its diagonal, says how later columns make up for an error in ``j``.

    Raises:
        GateError: There is none: activations were not finite.
    """
    damped = moments.astype(np.float64)
    diagonal = np.diagonal(damped).copy()
    diagonal[diagonal <= 0] = 1.0  # an input that is always 0
    np.fill_diagonal(damped, diagonal + _DAMPING * diagonal.mean())
    with suppress(np.linalg.LinAlgError):
        factors = np.linalg.cholesky(np.linalg.inv(damped)).T
        if np.isfinite(factors).all():
            return factors
    raise GateError(
        "INT4 can't be made: what a product takes on the calibration's texts is not finite. Leave "
        "the recipe out."
    )
