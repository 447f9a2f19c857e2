"""Checks of rows that a transaction has locked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.errors import RevisionStale

if TYPE_CHECKING:
    import asyncpg


def check_revision(expected: int, current: int) -> None:
    """Raise RevisionStale unless a locked row has the expected revision; 0 expects any."""
    if expected not in (0, current):
        raise RevisionStale(given=expected, current=current)


def require_row(row: asyncpg.Record | None) -> asyncpg.Record:
    """Return a row that a statement cannot miss: the transaction inserted or locked it."""
    if row is None:
        message = "a locked row disappeared"
        raise LookupError(message)
    return row
