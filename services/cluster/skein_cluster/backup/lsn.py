"""Places in the write-ahead log, and the names of its files."""

from __future__ import annotations

import re
from dataclasses import dataclass

SEGMENT = re.compile(r"([0-9A-F]{8})([0-9A-F]{8})([0-9A-F]{8})")
HISTORY = re.compile(r"([0-9A-F]{8})\.history")
_WORD = 1 << 32


def parse_lsn(text: str) -> int:
    """Return a place as a number: "0/3000028" is 50331688. Raises ValueError."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


def format_lsn(place: int) -> str:
    """Return a place as Postgres writes it."""
    return f"{place >> 32:X}/{place & 0xFFFFFFFF:X}"


@dataclass(frozen=True, order=True, slots=True)
class Segment:
    """One file of the log: on which timeline, and which in the row."""

    timeline: int
    number: int

    @classmethod
    def of(cls, name: str, size: int) -> Segment | None:
        """Read a file's name; None for one that is no segment."""
        match = SEGMENT.fullmatch(name)
        if match is None:
            return None
        timeline, high, low = (int(part, 16) for part in match.groups())
        return cls(timeline, high * (_WORD // size) + low)

    def name(self, size: int) -> str:
        """Return the file's name."""
        per_word = _WORD // size
        return f"{self.timeline:08X}{self.number // per_word:08X}{self.number % per_word:08X}"
