"""Stored text within a text that a model reads: it makes no line that the text around it could have made itself.

Three forms keep the promise. `quote` marks each further line of a stored text; a line that begins with MARK, after
spaces, is stored text, and no other line begins so. `one_line` has no line end, for a name behind words of the
surrounding text. `one_line_json` is for JSON and lists, whose names are stored text too.
"""

from __future__ import annotations

from typing import Final

from skein_kit.json_values import exact

MARK: Final = "| "


def quote(text: str, indent: str = "") -> str:
    """Return a text to follow the beginning of a line: every further line begins with `indent` and MARK."""
    # splitlines knows every line end of Unicode, which a model or a terminal may take for one.
    return f"\n{indent}{MARK}".join(text.strip().splitlines())


def one_line(text: str) -> str:
    """Return a text on one line, with single spaces."""
    return " ".join(text.split())


def one_line_json(value: object) -> str:
    """Return JSON values as JSON text on one line, with spaces between them."""
    return exact.escape_active(exact.dumps(value, separators=(", ", ": ")))
