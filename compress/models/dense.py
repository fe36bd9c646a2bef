"""What some embedders have behind the pooling: linear layers with an activation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from compress.models.files import check_safetensors
from edgebert.errors import ModelError
from edgebert.files import write_json

ACTIVATIONS: dict[str, type[nn.Module]] = {
    name: getattr(nn, name) for name in ("Identity", "Tanh", "ReLU", "GELU", "Sigmoid", "SiLU")
}
_INPUT = "sentence_embedding"


class Dense(nn.Module):
    """One linear layer with an activation, as sentence-transformers' module of that name.

    Attributes:
        linear: ``Linear(in_features, out_features)``.
        activation: One of `ACTIVATIONS`.
    """

    def __init__(
        self, in_features: int, out_features: int, *, bias: bool = True, activation: str = "Tanh"
    ) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features, bias=bias)
        self.activation = ACTIVATIONS[activation]()

    def forward(self, vectors: Tensor) -> Tensor:
        """Map vectors ``[B, in_features]`` to ``[B, out_features]``."""
        found: Tensor = self.activation(self.linear(vectors))
        return found


def read_dense(directory: Path, settings: dict[str, Any]) -> Dense:
    """Read one Dense module.

    Args:
        directory: Its own, with ``model.safetensors``.
        settings: What its ``config.json`` says.

    Raises:
        ModelError: Its weights are damaged or only there as a pickle, or it does what `Dense`
            doesn't.
    """
    kind = str(settings.get("activation_function", "torch.nn.modules.activation.Tanh"))
    package, _, name = kind.rpartition(".")
    residual = settings.get("use_residual", False)
    named = {settings.get(f"module_{end}_name") or _INPUT for end in ("input", "output")}
    if (
        name not in ACTIVATIONS
        or not package.startswith("torch.nn")
        or residual
        or named != {_INPUT}
    ):
        raise ModelError(
            f"{directory} is a Dense module with activation {kind!r}"
            f"{', a residual connection' if residual else ''} on {', '.join(sorted(named))}; a "
            f"bundle can hold plain ones on {_INPUT} with {', '.join(ACTIVATIONS)} of torch.nn."
        )
    weights = directory / "model.safetensors"
    if not weights.is_file() and (directory / "pytorch_model.bin").is_file():
        raise ModelError(
            f"{directory} has its weights only in pytorch_model.bin, a format that may run code "
            "when it is opened. If you trust it, open the model in sentence-transformers and save "
            "it again: that writes model.safetensors."
        )
    check_safetensors(weights)
    tensors = load_file(weights)
    wanted = {"linear.weight", "linear.bias"} if settings.get("bias", True) else {"linear.weight"}
    shape = [settings.get("out_features"), settings.get("in_features")]
    if set(tensors) != wanted or list(tensors["linear.weight"].shape) != shape:
        raise ModelError(f"{weights} doesn't fit its config.json ({shape}); get it again.")
    dense = Dense(shape[1], shape[0], bias="linear.bias" in wanted, activation=name)
    try:
        dense.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
    except RuntimeError as error:
        raise ModelError(
            f"{weights} doesn't fit its config.json ({shape}); get it again."
        ) from error
    return dense.eval()


def write_dense(dense: Dense, directory: Path) -> None:
    """Write one Dense module into a new directory."""
    directory.mkdir()
    linear, activation = dense.linear, type(dense.activation)
    settings = {
        "in_features": linear.in_features,
        "out_features": linear.out_features,
        "bias": linear.bias is not None,
        "activation_function": f"{activation.__module__}.{activation.__name__}",
    }
    write_json(directory / "config.json", settings)
    tensors = {
        name: tensor.detach().cpu().contiguous() for name, tensor in dense.state_dict().items()
    }
    weights = directory / "model.safetensors"
    save_file(tensors, weights, {"format": "pt"})
    weights.chmod((directory / "config.json").stat().st_mode)  # written for the owner's eyes only


def dense_parts(dense: nn.Module | None) -> list[Dense]:
    """List the Dense modules that a head's ``dense`` is made of, in their order."""
    if dense is None:
        return []
    return [module for module in dense.modules() if isinstance(module, Dense)]


@torch.no_grad()
def student_dense(
    dense: nn.Module | None, *, hidden_size: int, basis: Tensor | None, seed: int
) -> nn.Module | None:
    """Make a student's Dense modules from the teacher's.

    They are the same where the widths agree. In a narrower student the first one reads the
    student's own axes; without a common space it starts at random.

    Args:
        dense: The teacher's, left as it is; None for none.
        hidden_size: Of the student.
        basis: ``[H_teacher, H_student]`` of a projected student, else None.
        seed: Of a random start.
    """
    parts = dense_parts(dense)
    if not parts:
        return None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = []
        for place, part in enumerate(parts):
            linear, width = part.linear, part.linear.in_features if place else hidden_size
            copy = Dense(
                width,
                linear.out_features,
                bias=linear.bias is not None,
                activation=type(part.activation).__name__,
            )
            made.append(copy)
            weight: Tensor | None = linear.weight
            if width != linear.in_features:
                weight = None if basis is None else linear.weight.cpu().double() @ basis
            if weight is not None:
                copy.linear.weight.copy_(weight)
                if linear.bias is not None:
                    copy.linear.bias.copy_(linear.bias)
    return nn.Sequential(*made)
