"""The form in which sources of memories are compared."""

from __future__ import annotations

_MAX_CHARACTERS = 160


def source_key(source: str | None) -> str:
    """Return the form in which sources are compared: trimmed, lower case, single spaces, 160 characters at most."""
    return " ".join((source or "").lower().split())[:_MAX_CHARACTERS].rstrip()
