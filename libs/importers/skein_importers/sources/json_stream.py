"""Reads large JSON documents entry by entry, with one entry in memory at a time."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NoReturn, TextIO

from skein_importers.errors import SourceInvalid, SourceTooLarge
from skein_importers.sources.reading_limits import MAX_DOCUMENT_BYTES
from skein_kit.json_values.exact import MAX_NUMBER_CHARACTERS

_CHUNK = 65_536
_SPACE = " \t\r\n"


def entries(source: str, containers: Collection[str], fields: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Yield the entries of a document: those of a list with "", those of an object with their names.

    Members named in `containers` are lists or objects of entries. An object that begins with one of
    `fields` is an entry, and others may follow it (JSON lines). Raises SourceInvalid.
    """
    try:
        with Path(source).open("r", encoding="utf-8-sig", errors="surrogateescape") as file:
            yield from _entries(_JsonStream(file, source), containers, fields)
    except OSError as error:
        raise SourceInvalid(
            f"{source} cannot be read ({error.strerror}): check its name and who may read it."
        ) from None


def _entries(document: _JsonStream, containers: Collection[str], fields: Collection[str]) -> Iterator[tuple[str, Any]]:
    first = document.peek()
    if first == "[":
        yield from (("", value) for value in document.elements())
    elif first == "{":
        names = document.names()
        name = next(names, "")
        if name in fields:
            yield "", {name: document.value(), **{other: document.value() for other in names}}
            while document.peek() == "{":
                yield "", document.value()
        elif name:
            yield from _member(document, name, containers)
            for other in names:
                yield from _member(document, other, containers)
    else:
        document.fail()
    document.end()


def _member(document: _JsonStream, name: str, containers: Collection[str]) -> Iterator[tuple[str, Any]]:
    first = document.peek()
    if name in containers and first == "[":
        yield from (("", value) for value in document.elements())
    elif name in containers and first == "{":
        yield from ((key, document.value()) for key in document.names())
    else:
        yield name, document.value()


def _integer(text: str) -> int | str:
    """Return a whole number; one too large for any field stays text."""
    return int(text) if len(text) <= MAX_NUMBER_CHARACTERS else text


class _JsonStream:
    """A buffered file of JSON text."""

    def __init__(self, file: TextIO, path: str) -> None:
        self._file = file
        self._path = path
        self._text = ""
        self._position = 0
        self._read = 0
        self._decoder = json.JSONDecoder(parse_int=_integer)

    def peek(self) -> str:
        """Return the next character after spaces; "" at the end."""
        while True:
            while self._position < len(self._text) and self._text[self._position] in _SPACE:
                self._position += 1
            if self._position < len(self._text):
                return self._text[self._position]
            if not self._fill():
                return ""

    def elements(self) -> Iterator[Any]:
        """Yield the values of the list that begins here."""
        self._expect("[")
        if self.peek() == "]":
            self._expect("]")
            return
        while True:
            yield self.value()
            if self._expect(",]") == "]":
                return

    def names(self) -> Iterator[str]:
        """Yield the names of the object that begins here; the caller reads the value after each."""
        self._expect("{")
        if self.peek() == "}":
            self._expect("}")
            return
        while True:
            name = self.value()
            if not isinstance(name, str):
                self.fail()
            self._expect(":")
            yield name
            if self._expect(",}") == "}":
                return

    def value(self) -> Any:
        """Read one value."""
        self.peek()
        chunk = _CHUNK
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._position)
            except RecursionError:
                self.fail()
            except json.JSONDecodeError:
                if not self._fill(chunk):
                    self.fail()
            else:
                # A number at the end of the buffer may continue.
                if end < len(self._text) or not self._fill(chunk):
                    self._position = end
                    return value
            # Read ever longer pieces, so that a long value is not parsed again too often.
            chunk *= 2
            if len(self._text) - self._position > MAX_DOCUMENT_BYTES:
                raise SourceTooLarge(f"{self._path} has an entry of more than {MAX_DOCUMENT_BYTES} characters.")

    def end(self) -> None:
        """Raise SourceInvalid when more text follows."""
        if self.peek():
            self.fail()

    def fail(self) -> NoReturn:
        """Raise SourceInvalid, with the position."""
        raise SourceInvalid(
            f"{self._path} is no JSON store: it cannot be read as JSON at character {self._read + self._position + 1}. "
            "Check that the file is complete."
        )

    def _expect(self, allowed: str) -> str:
        result = self.peek()
        if not result or result not in allowed:
            self.fail()
        self._position += 1
        return result

    def _fill(self, count: int = _CHUNK) -> bool:
        chunk = self._file.read(count)
        if chunk:
            self._read += self._position
            self._text, self._position = self._text[self._position :] + chunk, 0
        return bool(chunk)
