"""The signatures of a ``.tflite`` file: one for each of a few lengths, of one text each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

# Outputs of two axes of which the second is the text's tokens; those of three axes all are.
_PER_TOKEN = ("start_logits", "end_logits")


class UnsuitedSignatureError(Exception):
    """The file's signatures are not those of a text model for one text a call."""


@dataclass(frozen=True)
class Signature:
    """One length of a file.

    Attributes:
        name: Its key in the file.
        length: Tokens that it takes.
        inputs: Type of each input by name; each is ``[1, length]``.
        outputs: Shape of each output by name, without the first axis; None for the tokens' axis.
    """

    name: str
    length: int
    inputs: Mapping[str, npt.DTypeLike]
    outputs: Mapping[str, tuple[int | None, ...]]


def read_signatures(interpreter: Any) -> list[Signature]:
    """Read all signatures, the shortest first.

    Args:
        interpreter: Of either engine.

    Raises:
        UnsuitedSignatureError: They are not for one text a call, or don't agree with each other.
    """
    found = [
        _read(name, interpreter.get_signature_runner(name))
        for name in interpreter.get_signature_list()
    ]
    if not found:
        raise UnsuitedSignatureError("it has no signature.")
    found.sort(key=lambda signature: signature.length)
    for signature in found[1:]:
        if (signature.inputs, signature.outputs) != (found[0].inputs, found[0].outputs):
            raise UnsuitedSignatureError(
                f"its signatures {found[0].name!r} and {signature.name!r} differ in more than "
                "their length."
            )
    return found


def _read(name: str, runner: Any) -> Signature:
    inputs = runner.get_input_details()
    shapes = {tuple(map(int, detail["shape"])) for detail in inputs.values()}
    shape = shapes.pop() if len(shapes) == 1 else ()
    if len(shape) != 2 or shape[0] != 1:
        raise UnsuitedSignatureError(
            f"signature {name!r} doesn't take inputs of one shape, [1, length]."
        )
    outputs = {
        output: _shape(output, tuple(map(int, detail["shape"])), shape[1], name)
        for output, detail in runner.get_output_details().items()
    }
    kinds = {key: detail["dtype"] for key, detail in inputs.items()}
    return Signature(name, shape[1], kinds, outputs)


def _shape(
    output: str, shape: tuple[int, ...], length: int, signature: str
) -> tuple[int | None, ...]:
    rest: tuple[int | None, ...] = shape[1:]
    if len(shape) == 3 or output in _PER_TOKEN:
        rest = (None, *shape[2:])
    if shape[:1] != (1,) or (rest[:1] == (None,) and shape[1] != length):
        raise UnsuitedSignatureError(
            f"signature {signature!r} gives {output!r} of shape {list(shape)} for one text of "
            f"{length} tokens."
        )
    return rest
