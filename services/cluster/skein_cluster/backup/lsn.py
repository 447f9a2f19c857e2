"""Positions in the write-ahead log (LSN), and names of its segments."""

from __future__ import annotations

import re
from dataclasses import dataclass

SEGMENT = re.compile(r"([0-9A-F]{8})([0-9A-F]{8})([0-9A-F]{8})")
HISTORY = re.compile(r"([0-9A-F]{8})\.history")
_WORD = 1 << 32


def parse_lsn(text: str) -> int:
    """Return an LSN as a number: "0/3000028" is 50331688. Raises ValueError."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


def format_lsn(position: int) -> str:
    """Return an LSN as Postgres writes it."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


@dataclass(frozen=True, order=True, slots=True)
class Segment:
    """One segment of the log: its timeline and number."""

    timeline: int
    number: int

    @classmethod
    def of(cls, name: str, size: int) -> Segment | None:
        """Parse a file name; None for other files."""
        match = SEGMENT.fullmatch(name)
        if match is None:
            return None
        timeline, high, low = (int(part, 16) for part in match.groups())
        return cls(timeline, high * (_WORD // size) + low)

    def name(self, size: int) -> str:
        """Return the file's name."""
        per_word = _WORD // size
        return f"{self.timeline:08X}{self.number // per_word:08X}{self.number % per_word:08X}"
