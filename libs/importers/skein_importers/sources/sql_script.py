"""Splits the SQL of an export into statements, in one pass over its text. Executes nothing.

Comments outside of texts are left out, so that a statement begins with its first word. Only statements that an import
executes are kept in memory: CREATE TABLE, and INSERT INTO another table than SQLite's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TextIO

_PIECE_CHARACTERS = 1024 * 1024
# What ends a run of plain SQL, and what ends each thing that it begins.
_SPECIAL = re.compile(r"""['"`\[;]|--|/\*""")
_ENDS = {"'": "'", '"': '"', "`": "`", "[": "]", "--": "\n", "/*": "*/"}
_COMMENTS = frozenset({"--", "/*"})
# The first half of something of two characters, at the end of a piece.
_HALVES = ("-", "/", "*")
_HEAD_CHARACTERS = 400
_IMPORTED = re.compile(
    r'(CREATE\s+TABLE|INSERT\s+(OR\s+\w+\s+)?INTO)\s+(?!["`\[]?(sqlite_|_cf_))',
    re.IGNORECASE,
)
_TRIGGER = re.compile(r"CREATE\s+(TEMP(ORARY)?\s+)?TRIGGER\b", re.IGNORECASE)
_END_OF_TRIGGER = re.compile(r"\bEND\s*$", re.IGNORECASE)
_TAIL_CHARACTERS = 40


class StatementTooLong(Exception):
    """A statement to execute is longer than the limit."""


@dataclass(slots=True)
class _Statement:
    """A statement while it is read."""

    line: int = 0
    # Its first and its last characters, and all of them as long as it may be one to execute.
    head: str = ""
    tail: str = ""
    parts: list[str] = field(default_factory=list)
    length: int = 0
    is_kept: bool = True

    def add(self, text: str, line: int, max_characters: int) -> None:
        """Add text without comments."""
        if not self.head:
            start = len(text) - len(text.lstrip())
            self.line = line + text.count("\n", 0, start)
            text = text[start:]
        if not text:
            return
        if len(self.head) < _HEAD_CHARACTERS:
            self.head = (self.head + text)[:_HEAD_CHARACTERS]
        self.tail = (self.tail + text)[-_TAIL_CHARACTERS:]
        if len(self.head) >= _HEAD_CHARACTERS and self.is_kept and not _IMPORTED.match(self.head):
            self.is_kept = False
            self.parts.clear()
        if self.is_kept:
            self.length += len(text)
            if self.length > max_characters:
                raise StatementTooLong
            self.parts.append(text)

    @property
    def is_complete(self) -> bool:
        """Whether a semicolon ends it: in a trigger, that after END."""
        return not _TRIGGER.match(self.head) or _END_OF_TRIGGER.search(self.tail) is not None


def statements(file: TextIO, max_characters: int) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each statement to execute. Raises StatementTooLong."""
    statement, inside, line = _Statement(), "", 1
    for piece in _pieces(file):
        position = 0
        while position < len(piece):
            if inside:
                end = piece.find(_ENDS[inside], position)
                stop = len(piece) if end < 0 else end + len(_ENDS[inside])
                # A comment is white space.
                statement.add(" " if inside in _COMMENTS else piece[position:stop], line, max_characters)
                inside = inside if end < 0 else ""
            else:
                special = _SPECIAL.search(piece, position)
                stop = len(piece) if special is None else special.start()
                statement.add(piece[position:stop], line, max_characters)
                if special is not None:
                    inside, stop = special.group(), special.end()
                    if inside not in _COMMENTS and inside != ";":
                        statement.add(inside, line, max_characters)
            if inside == ";":
                inside = ""
                if statement.is_complete:
                    if statement.is_kept and _IMPORTED.match(statement.head):
                        yield statement.line, "".join(statement.parts)
                    statement = _Statement()
                else:
                    statement.add(";", line, max_characters)
            line += piece.count("\n", position, stop)
            position = stop


def _pieces(file: TextIO) -> Iterator[str]:
    """Yield pieces that do not end within something of two characters."""
    rest = ""
    while text := file.read(_PIECE_CHARACTERS):
        text, rest = rest + text, ""
        if text.endswith(_HALVES):
            text, rest = text[:-1], text[-1]
        yield text
    if rest:
        yield rest
