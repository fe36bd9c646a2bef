"""Which teacher layer each student layer imitates."""

from __future__ import annotations

import itertools

from edgebert.errors import InputError

STRATEGIES = ("uniform", "alternate", "last", "first")


def layer_map(strategy: str, student_layers: int, teacher_layers: int) -> tuple[int, ...]:
    """Give each student layer its teacher layer; both count from 1.

    ``uniform`` is TinyBERT's ``g(m) = m * N / M`` (Jiao et al., 2020), rounded down where it
    doesn't divide: the last student layer always imitates the last teacher layer. ``alternate`` is
    its counterpart from the first layer on, as DistilBERT is initialised (Sanh et al., 2019):
    1, 3, 5 of six.

    Args:
        strategy: One of `STRATEGIES`, or the teacher layers themselves: ``1,3,5``.
        student_layers: ``M``.
        teacher_layers: ``N``, at least ``M``.

    Returns:
        ``M`` layers, from 1 to ``N``, rising.

    Raises:
        InputError: The student is deeper, the strategy is unknown, or an explicit map has not one
            rising layer of the teacher for each student layer.
    """
    if not 1 <= student_layers <= teacher_layers:
        raise InputError(
            f"A student of {student_layers} layers can't imitate a teacher of {teacher_layers}; "
            f"give it 1 to {teacher_layers} layers."
        )
    if strategy == "uniform":
        return tuple(m * teacher_layers // student_layers for m in range(1, student_layers + 1))
    if strategy == "alternate":
        return tuple(m * teacher_layers // student_layers + 1 for m in range(student_layers))
    if strategy == "last":
        return tuple(range(teacher_layers - student_layers + 1, teacher_layers + 1))
    if strategy == "first":
        return tuple(range(1, student_layers + 1))
    return _explicit(strategy, student_layers, teacher_layers)


def _explicit(text: str, student_layers: int, teacher_layers: int) -> tuple[int, ...]:
    remedy = (
        f"Give {', '.join(STRATEGIES)}, or {student_layers} rising teacher layers from 1 to "
        f"{teacher_layers}, like {','.join(map(str, range(1, student_layers + 1)))}."
    )
    try:
        layers = tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(f"Unknown layer map {text!r}. {remedy}") from error
    if len(layers) != student_layers:
        raise InputError(
            f"Layer map {text!r} names {len(layers)} layers for a student of {student_layers}. "
            f"{remedy}"
        )
    outside = [layer for layer in layers if not 1 <= layer <= teacher_layers]
    if outside:
        raise InputError(f"Layer map {text!r} names {outside}, which don't exist. {remedy}")
    if any(b <= a for a, b in itertools.pairwise(layers)):
        raise InputError(f"Layer map {text!r} doesn't rise. {remedy}")
    return layers
