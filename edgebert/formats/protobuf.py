"""Step through a protobuf message that a stranger wrote, without its schema's package."""

from __future__ import annotations

import mmap
from collections.abc import Iterator

_VARINT, _BYTES = 0, 2  # kinds of fields
_SIZES = {1: 8, 5: 4}  # of the other kinds, in bytes
_MAX_TAG = 0xFFFFFFFF
_MAX_FIELDS = 1 << 20  # a second's work; MiniLM has 7,000
_MAX_NUMBERS = 256  # of the fields that are asked for: no tensor has so many axes


class Wire:
    """A mapped file that is one message; it may have so many fields in all.

    Attributes:
        content: The file.
    """

    def __init__(self, content: mmap.mmap) -> None:
        self.content = content
        self._fields_left = _MAX_FIELDS

    def messages(self, place: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Give number, start and end of each field between two places that has a length.

        Raises:
            ValueError: They hold no message, or there are too many fields.
        """
        for number, start, stop, is_number in self._fields(place, end):
            if not is_number:
                yield number, start, stop

    def numbers(self, place: int, end: int, number: int) -> list[int]:
        """Give the whole numbers of a field, repeated or packed, in their order.

        Raises:
            ValueError: As `messages`.
        """
        found = []
        for own, start, stop, _ in self._fields(place, end):
            while own == number and start < stop:
                value, start = self._varint(start, stop)
                found.append(value)
                if len(found) > _MAX_NUMBERS:
                    raise ValueError(f"a field has more than {_MAX_NUMBERS} numbers")
        return found

    def _fields(self, place: int, end: int) -> Iterator[tuple[int, int, int, bool]]:
        """Give number, start, end, and whether it's a whole number, of fields of the two kinds."""
        while place < end:
            self._fields_left -= 1
            if self._fields_left < 0:
                raise ValueError(f"it has more than {_MAX_FIELDS} fields")
            tag, place = self._varint(place, end)
            if tag > _MAX_TAG:  # protobuf would drop the upper bits and see another field
                raise ValueError(f"the number before byte {place} is no tag")
            start, kind = place, tag & 7
            size = _SIZES.get(kind)
            if kind == _VARINT:
                _, place = self._varint(place, end)
                yield tag >> 3, start, place, True
                continue
            if kind == _BYTES:
                size, place = self._varint(place, end)
            if size is None:  # a group, which is out of use
                raise ValueError(f"byte {place} begins a field of the kind {kind}")
            if size > end - place:
                raise ValueError(f"a field goes on behind byte {end}")
            if kind == _BYTES:
                yield tag >> 3, place, place + size, False
            place += size

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
