"""Names and shapes of a model's inputs and outputs, as other exporters have them."""

from __future__ import annotations

from collections.abc import Mapping

from edgebert.types import Batch, FloatArray, IntArray

_OUTPUTS = {"token_embeddings": "last_hidden_state"}  # what sentence-transformers calls it
_WITH_CHOICES = 3  # axes: batch, choices, seq


def known_name(output: str) -> str:
    """Give the name by which edgebert knows an output, or its own."""
    return _OUTPUTS.get(output, output)


def feed(batch: Batch, ranks: Mapping[str, int | None]) -> dict[str, IntArray | FloatArray]:
    """Bind a batch to a model's inputs by name.

    Args:
        batch: Rows, each a text, a pair, or a prompt with one choice; for a later segment of a
            model a `HiddenBatch`.
        ranks: How many axes each input has, or None where the model doesn't say.

    Returns:
        int64 ``[batch, seq]``; ``[batch, 1, seq]`` for a model of multiple-choice that takes all
        choices of a question at once, so that each row is a question of one choice; hidden states
        as they are.
    """
    bound = {name: getattr(batch, name) for name in ranks}
    return {
        name: values[:, None] if ranks[name] == _WITH_CHOICES and values.ndim == 2 else values
        for name, values in bound.items()
    }
