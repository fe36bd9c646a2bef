"""From a torch model to one TFLite file: a signature for each of a few lengths, weights once.

The format has no dynamic shapes that its engines run well, so there is one graph a length; the
operators' names are those of the torch modules, so that a weight can be found and left out of INT8.
"""

from __future__ import annotations

import copy
import hashlib
import logging
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from compress.artifacts.tflite_model import operator_names, parse_tflite, weight_uses, write_tflite
from edgebert.errors import GateError, InputError, ModelError

BUCKETS = (8, 16, 32, 64, 128, 256, 512)
MAX_GROWTH = 1.1  # of the file over the bytes of the parameters
_QUIET = {
    "LITERT_TORCH_SHOW_PROGRESS": "n",
    "LITERT_TORCH_SILENCE_TORCH_LOGS": "n",  # it would be for good
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_ENABLE_ONEDNN_OPTS": "0",  # it announces itself when it is on
}
_SIGNATURE_BYTES = 2**19  # the nodes of one length; MiniLM's take 0.1 MB


def lengths_for(max_length: int, buckets: Sequence[int] = BUCKETS) -> tuple[int, ...]:
    """Choose the signatures' lengths: the buckets below a limit, and the limit."""
    if max_length < 1:
        raise InputError(f"max_length is {max_length}; it must be 1 or more.")
    return (*(length for length in sorted(buckets) if length < max_length), max_length)


def export_tflite(module: Any, path: Path, *, lengths: Sequence[int]) -> None:
    """Write a module as TFLite, FP32, one text a call.

    Args:
        module: With ``input_names`` and ``output_names``, like a `GraphModule`:
            takes int32 ``[1, length]`` each and gives a tuple of tensors, batch first.
        path: Of the file; its folder exists.
        lengths: One signature each, named ``s32`` and so on.

    Raises:
        ModelError: The converter can't convert the model, or not with builtin operators alone.
        GateError: The file is larger than the parameters: a shared weight was copied.
    """
    model = parse_tflite(_convert(module, lengths))
    foreign = [c.customCode for c in model.operatorCodes if c.customCode]
    if foreign or "CUSTOM" in operator_names(model):
        raise ModelError(
            f"As TFLite the model would need operators that engines don't have: {foreign}. Leave "
            "this backend out."
        )
    _name_tensors(model, module)
    write_tflite(model, path)
    parameter_bytes = 4 * sum(parameter.numel() for parameter in module.parameters())
    found = path.stat().st_size
    # The rows of a position table stand in each signature as a constant.
    limit = MAX_GROWTH * parameter_bytes + len(lengths) * _SIGNATURE_BYTES
    if found > limit:
        path.unlink()
        raise GateError(
            f"{path.name} has {found} bytes, more than {MAX_GROWTH} times the {parameter_bytes} "
            f"bytes of the parameters and {_SIGNATURE_BYTES} bytes a signature: the converter "
            "copied shared weights."
        )


class _Named(nn.Module):
    """Takes its inputs and gives its outputs by name, which become the signature's."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module: Any = module

    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        found = self.module(*(inputs[name] for name in self.module.input_names))
        return dict(zip(self.module.output_names, found, strict=True))


class _LayerNorm(nn.Module):
    """A layer norm in 9 operators, for 14 of the converter's own.

    With a scale and shift of more than one axis the converter doesn't multiply them into the
    matrices that come next. It would do so for each use, and a matrix that layers share would be
    stored twice.
    """

    def __init__(self, plain: nn.LayerNorm) -> None:
        super().__init__()
        self.eps = plain.eps
        self.weight = nn.Parameter(plain.weight.detach()[None, None])
        bias = torch.zeros_like(plain.weight) if plain.bias is None else plain.bias
        self.bias = nn.Parameter(bias.detach()[None, None])  # [1, 1, H]

    def forward(self, hidden: Tensor) -> Tensor:
        centred = hidden - hidden.mean(dim=-1, keepdim=True)
        variance = (centred * centred).mean(dim=-1, keepdim=True)
        normalized: Tensor = centred * torch.rsqrt(variance + self.eps)
        axes = (1,) * (hidden.dim() - 1)  # a head may norm one vector a text
        return normalized * self.weight.view(*axes, -1) + self.bias.view(*axes, -1)


def _with_own_norms(module: nn.Module) -> nn.Module:
    """Copy a module; every layer norm with a scale is a `_LayerNorm`."""
    copied = copy.deepcopy(module)
    for part in list(copied.modules()):
        for name, child in list(part.named_children()):
            if type(child) is nn.LayerNorm and child.elementwise_affine:
                setattr(part, name, _LayerNorm(child))
    return copied


def _convert(module: Any, lengths: Sequence[int]) -> bytes:
    with quiet_converter(), _wide_numbers(), torch.no_grad():
        import litert_torch  # type: ignore[import-untyped]

        named = _Named(_with_own_norms(module)).eval()
        converter = litert_torch
        for length in lengths:
            # A tensor each: inputs that are the same object become one input.
            example = {
                name: torch.ones(1, length, dtype=torch.int32) for name in module.input_names
            }
            converter = converter.signature(f"s{length}", named, sample_kwargs=example)
        try:
            content: bytes = converter.convert().model_content()
        except Exception as error:  # of torch, JAX or MLIR
            reason = " ".join(str(error).split())[:300]
            raise ModelError(
                f"litert-torch can't convert the model: {reason} Leave this backend out."
            ) from error
    return content


def _name_tensors(model: Any, module: nn.Module) -> None:
    """Give short names that are unique in the file, and to what has a weight the module's.

    The converter's own names are whole paths of classes, run together where operators were: half a
    megabyte a signature.
    """
    for number, graph in enumerate(model.subgraphs):
        for place, tensor in enumerate(graph.tensors):
            tensor.name = f"t{place}:{number}".encode()
    names = _names_by_weight(module)
    for place, use in enumerate(weight_uses(model)):
        content = hashlib.sha256(bytes(model.buffers[use.buffer].data)).digest()
        node = names.get((use.kind, content), f"/constant.{use.buffer}/{use.kind}")
        output = model.subgraphs[use.graph].tensors[use.operator.outputs[0]]
        output.name = f"{node}:{place}".encode()


def _names_by_weight(module: nn.Module) -> dict[tuple[str, bytes], str]:
    """Name modules by the weight they have and what they do with it: a tied one has two names."""
    names: dict[tuple[str, bytes], str] = {}
    for path, part in module.named_modules(remove_duplicate=False):
        weight = getattr(part, "weight", None)
        if not isinstance(weight, Tensor) or weight.dim() != 2:
            continue
        kind = "Gather" if isinstance(part, nn.Embedding) else "MatMul"
        content = hashlib.sha256(weight.detach().numpy().tobytes()).digest()
        # as in ONNX graphs, so that parts have the same names: /encoder/layer.0/attention
        node = re.sub(r"/(\d+)", r".\1", "/" + path.replace(".", "/"))
        names.setdefault((kind, content), f"{node}/{kind}")
    return names


@contextmanager
def _wide_numbers() -> Iterator[None]:
    """Let JAX have int64 while it converts; litert-torch, once imported, would leave it so."""
    import jax

    config: Any = jax.config
    before = config.jax_enable_x64
    config.update("jax_enable_x64", True)
    try:
        yield
    finally:
        config.update("jax_enable_x64", before)


@contextmanager
def quiet_converter() -> Iterator[None]:
    """Keep converters' progress and warnings from the user, and their settings from the process."""
    root, before, disabled = logging.getLogger(), dict(os.environ), logging.root.manager.disable
    handlers, level = root.handlers[:], root.level
    os.environ.update(_QUIET)
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        root.handlers[:] = handlers  # a warning of theirs sets up logging where nobody has
        root.setLevel(level)
        for name in _QUIET:
            if name in before:
                os.environ[name] = before[name]
            else:
                del os.environ[name]
