"""Checks that Postgres can store a text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from skein_kit.errors import TextNotStorable

if TYPE_CHECKING:
    from collections.abc import Iterable

# An escaped NUL in JSON text, not an escaped backslash before "u0000".
_JSON_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def check_storable(texts: Iterable[tuple[str, str | None]], json: Iterable[tuple[str, str | None]]) -> None:
    """Reject NUL characters, which Postgres has no place for, in fields of plain and of JSON text."""
    for field, text in texts:
        if text is not None and "\0" in text:
            raise TextNotStorable(violations=[(field, "holds a NUL character")])
    for field, text in json:
        if text is not None and _JSON_NUL.search(text):
            raise TextNotStorable(violations=[(field, "holds a NUL character")])
