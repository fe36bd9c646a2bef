"""Labels meet by name, never by number: two checkpoints of one task often differ in order."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from edgebert.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_NAMELESS = re.compile(r"LABEL_\d+")


def is_nameless(names: Sequence[str]) -> bool:
    """Tell whether a checkpoint has only the names that transformers makes up: ``LABEL_0``, …."""
    return bool(names) and all(_NAMELESS.fullmatch(name) for name in names)


def align_labels(model_labels: Mapping[int, str], data_labels: Sequence[str]) -> tuple[int, ...]:
    """Find the logit of each of the data's labels by name; upper and lower case are the same.

    Args:
        model_labels: Name by logit, as in a config's ``id2label``.
        data_labels: Names in the order that is wanted.

    Returns:
        A permutation: ``logits[:, permutation]`` is in the order of ``data_labels``.

    Raises:
        ModelError: The model's names are made up (``LABEL_0``), or are not those of the data.
    """
    by_name = {name: logit for logit, name in model_labels.items()}
    if set(by_name) != set(data_labels):
        if is_nameless(list(by_name)):
            raise ModelError(
                f"The teacher's labels have no names ({_listed(by_name)}), so they can't be "
                f"matched with the data's ({_listed(data_labels)}). Give the names in the order "
                f"of its logits: --teacher-labels {','.join(data_labels)} (if that is the order)."
            )
        folded = {name.casefold(): logit for name, logit in by_name.items()}
        wanted = [name.casefold() for name in data_labels]
        if (
            len(folded) < len(by_name)
            or len(set(wanted)) < len(wanted)
            or set(folded) != set(wanted)
        ):
            raise ModelError(
                f"The teacher's labels ({_listed(by_name)}) are not those of the data "
                f"({_listed(data_labels)}). Take a teacher of this task, or, where only the names "
                "differ, give the data's names in the order of its logits with --teacher-labels."
            )
        return tuple(folded[name] for name in wanted)
    if len(by_name) < len(model_labels):
        raise ModelError(f"The teacher has a label twice: {_listed(list(model_labels.values()))}.")
    return tuple(by_name[name] for name in data_labels)


def named_labels(id2label: Mapping[int, str], names: Sequence[str]) -> dict[int, str]:
    """Put given names in the place of a checkpoint's own.

    Raises:
        ModelError: There are more or fewer names than logits.
    """
    if len(names) != len(id2label):
        raise ModelError(
            f"--teacher-labels has {len(names)} names ({_listed(names)}), but the teacher has "
            f"{len(id2label)} logits; give one name a logit, in their order."
        )
    return dict(enumerate(names))


def set_labels(model: PreTrainedModel, labels: Sequence[str]) -> None:
    """Write the names, in the order of the logits, into the model's configuration."""
    model.config.id2label = dict(enumerate(labels))
    model.config.label2id = {name: logit for logit, name in enumerate(labels)}


def reorder_head(model: PreTrainedModel, permutation: Sequence[int]) -> None:
    """Reorder a head's logits in its last layer, so that nothing after it has to know.

    Args:
        model: A classifier of texts or of tokens.
        permutation: As from `align_labels`.

    Raises:
        ModelError: No linear layer of the head gives that many logits.
    """
    import torch

    if list(permutation) == list(range(len(permutation))):
        return
    inside = f"{model.base_model_prefix}."
    last = None
    for name, module in model.named_modules():
        is_linear = isinstance(module, torch.nn.Linear) and not name.startswith(inside)
        if is_linear and module.out_features == len(permutation):
            last = module
    if last is None:
        raise ModelError(f"{type(model).__name__} has no last layer of {len(permutation)} logits.")
    with torch.no_grad():
        last.weight.copy_(last.weight[list(permutation)].clone())
        if last.bias is not None:
            last.bias.copy_(last.bias[list(permutation)].clone())


def _listed(names: Sequence[str] | Mapping[str, int]) -> str:
    shown = ", ".join(list(names)[:12])
    return shown + (", …" if len(names) > 12 else "")
