"""Distillation methods: each a list of phases, each phase a composition of small losses."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from compress.distillation.method_names import METHODS, Method, fitting_methods
from compress.distillation.method_settings import MethodSettings
from compress.distillation.phase_builder import PhaseBuilder
from compress.settings import Task
from compress.training.phase import Phase, Term
from edgebert.errors import InputError

__all__ = [
    "METHODS",
    "Method",
    "MethodSettings",
    "Phase",
    "Term",
    "build_phases",
]


def build_phases(
    method: str,
    *,
    student: nn.Module,
    teacher: nn.Module,
    layer_map: tuple[int, ...],
    config: MethodSettings,
    task: Task,
    basis: Tensor | None = None,
    dense: tuple[nn.Module, nn.Module] | None = None,
    extra_terms: Mapping[str, Term] | None = None,
) -> list[Phase]:
    """Compose a method for a student and its teacher.

    Args:
        method: One of `METHODS`.
        student: A transformers model.
        teacher: A transformers model, its labels in the student's order.
        layer_map: 1-based teacher layer of each student layer.
        config: Weights, temperature, heads.
        task: Decides the last phase: targets of its labels, hidden tokens or pooled vectors.
        basis: ``[H_teacher, H_student]`` of a projected student, where projections start.
        dense: The student's and the teacher's module after the pooling, where there is one.
        extra_terms: The caller's own, added to the last phase.

    Returns:
        Phases to train one after another.

    Raises:
        InputError: Method and task don't fit, student and teacher can't be compared in the way
            the method does, or no term is left.
    """
    if method not in METHODS:
        raise InputError(f"Unknown method {method!r}. Known methods: {', '.join(METHODS)}.")
    if task not in METHODS[method]:
        fitting = " or ".join(fitting_methods(task))
        raise InputError(f"Method {method!r} doesn't fit {task}; use {fitting}.")
    builder = PhaseBuilder(student, teacher, layer_map, config, task, basis, dense)
    phases = builder.build(method)
    for name, term in (extra_terms or {}).items():
        if name in phases[-1].terms:
            raise InputError(f"The method has a term {name!r} already; name yours otherwise.")
        phases[-1].terms[name] = term
    for phase in phases:
        if not phase.terms:
            raise InputError(f"All weights of phase {phase.name!r} are 0; raise one of them.")
    return phases
