"""Build a dataclass from what JSON holds, field by field."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any, TypeVar

from edgebert.errors import ManifestError

T = TypeVar("T")

_SIMPLE: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "bool": (bool,),
    "bool | None": (bool, type(None)),
    "float": (int, float),
    "str | None": (str, type(None)),
    "int | None": (int, type(None)),
    "float | None": (int, float, type(None)),
    "dict[str, Any]": (dict,),
    "dict[str, int]": (dict,),
    "dict[str, str]": (dict,),
}
_VALUES: dict[str, type] = {"dict[str, int]": int, "dict[str, str]": str}


def build(kind: type[T], data: Any) -> T:
    """Make a ``kind`` of a JSON object of simple fields.

    Raises:
        ManifestError: It is no object, has a field that ``kind`` lacks, or lacks one of its own, or
            a value is of another type.
    """
    return checked(kind, known(kind, data))


def known(kind: type[Any], data: Any) -> dict[str, Any]:
    """Give ``data`` when it is an object whose keys are fields of ``kind``."""
    if not isinstance(data, dict):
        raise ManifestError(f"{kind.__name__} must be a JSON object, not {data!r:.80}.")
    unknown = set(data) - {item.name for item in fields(kind)}
    if unknown:
        raise ManifestError(f"{kind.__name__} has unknown fields {sorted(unknown)!r:.200}.")
    return data


def checked(kind: type[T], values: dict[str, Any]) -> T:
    """Make a ``kind``, checking the values of its simple fields."""
    for item in fields(kind):  # type: ignore[arg-type]
        name, form = item.name, str(item.type)
        if form not in _SIMPLE or name not in values:
            continue
        value = values[name]
        _check(name, value, _SIMPLE[form], form)
        if form in _VALUES:
            for key, inner in value.items():
                _check(f"{name}[{key!r:.40}]", inner, (_VALUES[form],), _VALUES[form].__name__)
    try:
        return kind(**values)
    except TypeError as error:  # a field is missing
        raise ManifestError(f"{kind.__name__}: {error}.") from error


def texts(name: str, values: Any) -> tuple[str, ...]:
    """Give a list of strings as a tuple."""
    return tuple(_check(f"{name}[{i}]", value, (str,), "str") for i, value in _items(name, values))


def integers(name: str, values: Any) -> tuple[int, ...]:
    """Give a list of whole numbers as a tuple."""
    return tuple(_check(f"{name}[{i}]", value, (int,), "int") for i, value in _items(name, values))


def numbers(name: str, values: Any) -> tuple[float, ...]:
    """Give a list of finite numbers as a tuple."""
    # all at once: a manifest holds tens of thousands of them, and is read at every start
    whole = isinstance(values, list) and set(map(type, values)) <= {int, float}
    if not whole or not all(map(math.isfinite, values)):
        raise ManifestError(f"{name} must be a list of finite numbers, not {values!r:.80}.")
    return tuple(map(float, values))


def objects(name: str, values: Any) -> tuple[dict[str, Any], ...]:
    """Give a list of JSON objects as a tuple."""
    return tuple(
        _check(f"{name}[{i}]", value, (dict,), "a JSON object") for i, value in _items(name, values)
    )


def rows(name: str, values: Any) -> list[tuple[str, Any]]:
    """Give the items of a list, each with its name."""
    return [(f"{name}[{i}]", value) for i, value in _items(name, values)]


def in_span(name: str, value: float | None, least: float, most: float) -> None:
    """Make sure that a number, if there is one, is from ``least`` to ``most``."""
    if value is not None and not least <= value <= most:
        raise ManifestError(f"{name} is {value}; it must be from {least} to {most}.")


def one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Make sure that a value is one of those allowed."""
    if value not in allowed:
        raise ManifestError(f"{name} is {value!r:.80}; allowed: {', '.join(allowed)}.")


def _items(name: str, values: Any) -> Any:
    if not isinstance(values, list):
        raise ManifestError(f"{name} must be a list, not {values!r:.80}.")
    return enumerate(values)


def _check(name: str, value: Any, expected: tuple[type, ...], form: str) -> Any:
    wrong_bool = isinstance(value, bool) and bool not in expected
    if wrong_bool or not isinstance(value, expected):
        raise ManifestError(f"{name} must be {form}, not {value!r:.80}.")
    if isinstance(value, float) and not math.isfinite(value):
        raise ManifestError(f"{name} is {value}; it must be finite.")
    return value
