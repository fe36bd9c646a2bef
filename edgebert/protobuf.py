"""Step through a protobuf message that a stranger wrote, without its schema's package."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import NamedTuple

_VARINT, _BYTES = 0, 2  # kinds of fields
_SIZES = {1: 8, 5: 4}  # of the other kinds, in bytes
_MAX_TAG = 0xFFFFFFFF
_MAX_FIELDS = 1 << 20  # a second's work; MiniLM has 20,000


class Field(NamedTuple):
    """One field of a message.

    Attributes:
        number: As the schema numbers it.
        start: Where its bytes begin.
        end: Where they end.
        value: Of a field that is one whole number; None for one with a length of its own.
    """

    number: int
    start: int
    end: int
    value: int | None


class Wire:
    """A mapped file that is one message; it may have so many fields in all."""

    def __init__(self, content: mmap.mmap) -> None:
        self.content = content
        self._fields_left = _MAX_FIELDS

    def fields(self, place: int, end: int) -> Iterator[Field]:
        """Give the fields between two places: whole numbers, and those with a length.

        Raises:
            ValueError: They are no such message, or there are too many.
        """
        while place < end:
            self._fields_left -= 1
            if self._fields_left < 0:
                raise ValueError(f"it has more than {_MAX_FIELDS} fields")
            tag, place = self._varint(place, end)
            if tag > _MAX_TAG:  # protobuf would drop the upper bits and see another field
                raise ValueError(f"the number before byte {place} is no tag")
            start, size = place, _SIZES.get(tag & 7)
            if tag & 7 == _VARINT:
                value, place = self._varint(place, end)
                yield Field(tag >> 3, start, place, value)
                continue
            if tag & 7 == _BYTES:
                size, place = self._varint(place, end)
            if size is None:  # a group, which is out of use
                raise ValueError(f"byte {place} begins a field of the kind {tag & 7}")
            if size > end - place:
                raise ValueError(f"a field goes on behind byte {end}")
            if tag & 7 == _BYTES:
                yield Field(tag >> 3, place, place + size, None)
            place += size

    def messages(self, place: int, end: int, number: int) -> Iterator[Field]:
        """Give the fields of one number that have a length."""
        return (f for f in self.fields(place, end) if f.number == number and f.value is None)

    def varints(self, field: Field) -> Iterator[int]:
        """Give the whole numbers of a repeated field: one, or many packed together."""
        if field.value is not None:
            yield field.value
            return
        place = field.start
        while place < field.end:
            value, place = self._varint(place, field.end)
            yield value

    def _varint(self, place: int, end: int) -> tuple[int, int]:
        value = 0
        for shift in range(0, 70, 7):
            if place >= end:
                break
            byte = self.content[place]
            place += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, place
        raise ValueError(f"the number before byte {place} has no end")
