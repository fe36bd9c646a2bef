"""Turn JSON back into dataclasses of known field types."""

from __future__ import annotations

import types
import typing
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar

T = TypeVar("T")


def read_record(kind: type[T], data: Any, *, where: str) -> T:
    """Build a dataclass from a JSON object; names that it doesn't know are left out.

    Args:
        kind: Dataclass whose fields are plain types, tuples, dicts by name or such dataclasses.
        data: What JSON held.
        where: Path of ``data`` in the file, for messages.

    Raises:
        ValueError: A field is missing or of the wrong form; the message names it.
    """
    if not isinstance(data, dict):
        raise ValueError(f"{where} must be an object, not {data!r:.40}")
    hints = typing.get_type_hints(kind)
    values: dict[str, Any] = {}
    for item in fields(kind):  # type: ignore[arg-type]
        if item.name in data:
            path = f"{where}.{item.name}" if where else item.name
            values[item.name] = _read(hints[item.name], data[item.name], path)
        elif item.default is MISSING and item.default_factory is MISSING:
            raise ValueError(f"{where or 'the file'} has no {item.name!r}")
    return kind(**values)


def _read(hint: Any, value: Any, where: str) -> Any:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        kind = next(part for part in inner if part is not type(None))
        return None if value is None else _read(kind, value, where)
    if hint is Any:
        return value
    if is_dataclass(hint):
        return read_record(typing.cast(type, hint), value, where=where)
    if origin is tuple:
        return _read_tuple(inner, value, where)
    if origin is dict:
        if not isinstance(value, dict):
            raise ValueError(f"{where} must be an object, not {value!r:.40}")
        return {str(k): _read(inner[1], v, f"{where}.{k}") for k, v in value.items()}
    wanted = (int, float) if hint is float else (hint,)
    if not isinstance(value, wanted) or (isinstance(value, bool) and hint is not bool):
        raise ValueError(f"{where} must be {hint.__name__}, not {value!r:.40}")
    return float(value) if hint is float else value


def _read_tuple(inner: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{where} must be a list, not {value!r:.40}")
    if len(inner) == 2 and inner[1] is Ellipsis:
        inner = (inner[0],) * len(value)
    if len(inner) != len(value):
        raise ValueError(f"{where} must have {len(inner)} items, not {len(value)}")
    return tuple(
        _read(kind, item, f"{where}[{index}]")
        for index, (kind, item) in enumerate(zip(inner, value, strict=True))
    )
