"""A narrower student from a teacher's weights, by a low-rank projection.

The student lives in a subspace of the teacher's hidden space: ``x_student = P^T x_teacher``, where
``P`` (``[H_teacher, H_student]``, orthonormal columns) spans what the hidden states use most. A
matrix that reads or writes hidden states is multiplied by ``P`` on that side. Where a head is
narrower too, the two matrices whose product is all that counts are factorised anew by a truncated
SVD: queries with keys, so that attention scores are kept, and values with the attention output.
Both are weighted by the second moment of the hidden states, so that the cut falls on directions
that texts don't use. Between nonlinearities that act on single neurons (feed-forward part,
classifier), the most important neurons are kept.

LayerNorm doesn't commute with a rotation: it removes the mean over the axes and scales axis by
axis. So ``P`` is turned until the removed direction is the one with the least energy, and the
scales are levelled, or fitted by least squares on calibration texts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from compress.models.blocks import Block, important_neurons, paired_blocks
from edgebert.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# Dense layer and output layer around a pointwise function, by name from the model's root.
CLASSIFIERS = (
    ("classifier.dense", "classifier.out_proj"),  # RoBERTa, ELECTRA
    ("pre_classifier", "classifier"),  # DistilBERT
    ("bert.pooler.dense", "classifier"),
    ("albert.pooler", "classifier"),
    ("roberta.pooler.dense", "classifier"),  # of choices
    ("sequence_summary.summary", "classifier"),  # ELECTRA, of choices
)


@torch.no_grad()
def project_weights(
    student: PreTrainedModel,
    teacher: PreTrainedModel,
    layer_map: tuple[int, ...],
    *,
    basis: Tensor,
    moment: Tensor,
) -> None:
    """Fill a student with the teacher's projected weights, in place.

    Args:
        student: Of the teacher's class; no wider, with no more heads.
        teacher: The source.
        layer_map: 1-based teacher layer of each student layer.
        basis: ``P``, as `find_basis` gives it.
        moment: As `find_basis` gives it.

    Raises:
        ModelError: A module of the student has no counterpart.
    """
    projection = _Projection(basis, moment)
    done: set[int] = set()
    for block, origin in paired_blocks(student, teacher, layer_map):
        projection.attention(block, origin, _heads(student), _heads(teacher))
        projection.feed_forward(block, origin)
        projection.norm(block.attention_norm, origin.attention_norm)
        projection.norm(block.output_norm, origin.output_norm)
        done |= {id(part) for part in vars(block).values()}
    modules = dict(teacher.named_modules())
    for dense, output in CLASSIFIERS:
        pair = _linears(student, dense, output)
        if pair:
            projection.classifier(pair, _linears(teacher, dense, output))
            done |= {id(part) for part in pair}
    for name, module in student.named_modules():
        if id(module) not in done:
            projection.other(module, modules.get(name), name)


def _heads(model: PreTrainedModel) -> int:
    return int(model.config.num_attention_heads)


def _linears(model: nn.Module, *names: str) -> list[nn.Linear]:
    modules = dict(model.named_modules())
    found = [modules.get(name) for name in names]
    linears = [module for module in found if isinstance(module, nn.Linear)]
    return linears if len(linears) == len(names) else []


class _Projection:
    """``P``, the root of the second moment within it, and what they do to each kind of module."""

    def __init__(self, basis: Tensor, moment: Tensor) -> None:
        self.basis = basis
        inner = basis.T @ moment @ basis  # second moment of the student's hidden states
        values, vectors = torch.linalg.eigh(inner)
        values = values.clamp(min=float(values.max()) * 1e-8)
        self.root = vectors @ values.sqrt().diag() @ vectors.T
        self.inverse_root = vectors @ values.rsqrt().diag() @ vectors.T
        self.kept_energy = float(inner.trace() / moment.trace())

    def attention(self, block: Block, origin: Block, heads: int, origin_heads: int) -> None:
        """Factorise each kept head anew, with scores on the scale of the teacher's."""
        read = self.basis @ self.root  # [H_teacher, H_student]
        q, k, v = (
            _per_head(part, origin_heads) for part in (origin.query, origin.key, origin.value)
        )
        out = origin.attention_output.weight.double().cpu()
        width, origin_width = block.query.out_features // heads, out.shape[1] // origin_heads
        scale = math.sqrt(width / origin_width)
        writes = (self.basis.T @ out).chunk(origin_heads, dim=1)  # [H_student, d] a head
        for head, source in enumerate(_important_heads(q, k, v, writes, heads)):
            rows = slice(head * width, head * width + min(width, origin_width))
            size = rows.stop - rows.start  # a wider head keeps its random start in the rest
            left, right = (
                torch.cat([part[source][:, :-1] @ read, part[source][:, -1:]], dim=1)
                for part in (q, k)
            )  # [d, H_student + 1], the bias last
            query, key = factorise(left * scale, right, size)
            for linear, new in ((block.query, query), (block.key, key)):
                linear.weight[rows] = (new[:, :-1] @ self.inverse_root).to(linear.weight)
                linear.bias[rows] = new[:, -1].to(linear.bias)
            write, value = factorise(writes[source].T, v[source][:, :-1] @ read, size)
            block.value.weight[rows] = (value @ self.inverse_root).to(block.value.weight)
            block.attention_output.weight[:, rows] = write.T.to(block.value.weight)
        # Attention weights sum to 1, so what the value biases add is a constant.
        bias = out @ origin.value.bias.double().cpu() + origin.attention_output.bias.double().cpu()
        block.value.bias.zero_()
        block.attention_output.bias.copy_(self.basis.T @ bias)

    def feed_forward(self, block: Block, origin: Block) -> None:
        """Keep the most important neurons, read and written through ``P``."""
        up, down = (x.double().cpu() for x in (origin.up.weight, origin.down.weight))
        up, down = up @ self.basis, self.basis.T @ down
        chosen = important_neurons(up, down, block.up.out_features)
        count = len(chosen)
        block.up.weight[:count] = up[chosen].to(block.up.weight)
        block.up.bias[:count] = origin.up.bias.cpu()[chosen]
        block.down.weight[:, :count] = down[:, chosen].to(block.down.weight)
        block.down.bias.copy_(self.basis.T @ origin.down.bias.double().cpu())

    def norm(self, norm: nn.LayerNorm, origin: nn.LayerNorm) -> None:
        """Level the scales so that the norm's output keeps the energy of the projected one."""
        if norm.weight.shape == origin.weight.shape:
            norm.load_state_dict(origin.state_dict())
            return
        energy = origin.weight.double().square().sum().item() * self.kept_energy
        norm.weight.fill_(math.sqrt(energy / norm.weight.numel()))
        norm.bias.copy_(self.basis.T @ origin.bias.double().cpu())

    def classifier(self, pair: list[nn.Linear], origin: list[nn.Linear]) -> None:
        """Keep the neurons of the classifier's dense layer that its outputs weigh most."""
        dense, output = origin
        reads = dense.weight.double().cpu() @ self.basis
        chosen = important_neurons(reads, output.weight.double().cpu(), pair[0].out_features)
        pair[0].weight.copy_(reads[chosen])
        pair[0].bias.copy_(dense.bias.cpu()[chosen])
        pair[1].weight.copy_(output.weight.cpu()[:, chosen])
        pair[1].bias.copy_(output.bias)

    def other(self, module: nn.Module, origin: nn.Module | None, name: str) -> None:
        """Project a matrix, table or bias on each side that has the teacher's hidden size."""
        own = dict(module.named_parameters(recurse=False))
        theirs = dict(origin.named_parameters(recurse=False)) if origin else {}
        if isinstance(module, nn.LayerNorm) and isinstance(origin, nn.LayerNorm):
            self.norm(module, origin)
            return
        for key, parameter in own.items():
            if key not in theirs:
                raise ModelError(f"The teacher has no {name}.{key}; use --init random.")
            values = theirs[key].double().cpu()
            for axis, (size, wanted) in enumerate(zip(values.shape, parameter.shape, strict=True)):
                if size != wanted:
                    values = torch.tensordot(values, self.basis, dims=([axis], [0])).movedim(
                        -1, axis
                    )
            parameter.copy_(values)


def _per_head(linear: nn.Linear, heads: int) -> tuple[Tensor, ...]:
    """Cut a projection into heads, its bias as a last column: ``[d, H + 1]`` each."""
    whole = torch.cat([linear.weight, linear.bias[:, None]], dim=1).double().cpu()
    return whole.chunk(heads)


def _important_heads(
    query: Sequence[Tensor],
    key: Sequence[Tensor],
    value: Sequence[Tensor],
    writes: Sequence[Tensor],
    count: int,
) -> list[int]:
    """Choose the heads that score and write most, in their order; all where as many are wanted."""
    if count == len(query):
        return list(range(count))
    importance = [
        float((q.T @ k).norm() * (w @ v).norm())
        for q, k, v, w in zip(query, key, value, writes, strict=True)
    ]
    return sorted(sorted(range(len(query)), key=lambda i: -importance[i])[:count])


def factorise(left: Tensor, right: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Find the best pair of fewer rows whose product ``left^T right`` is closest.

    Args:
        left: ``[d, m]``.
        right: ``[d, n]``.
        rank: At most ``d``.

    Returns:
        ``[rank, m]`` and ``[rank, n]``, of equal energy (Eckart and Young, 1936).
    """
    left_q, left_r = torch.linalg.qr(left.T)  # [m, d], [d, d]
    right_q, right_r = torch.linalg.qr(right.T)
    u, values, v = torch.linalg.svd(left_r @ right_r.T)
    root = values[:rank].sqrt()[:, None]
    return root * (left_q @ u[:, :rank]).T, root * (right_q @ v[:rank].T).T
