"""Drafts and changes of rows whose ids callers choose, and steps that the stores of several features share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import asyncpg

from skein_kit.database.named_queries import Query
from skein_kit.database.transactions import Transaction
from skein_kit.errors import RevisionStale


@dataclass(frozen=True, kw_only=True, slots=True)
class RowDraft:
    """The validated content of an agent, a subject or a tool to be created."""

    # Empty: the store generates one.
    row_id: str
    # By column; JSON as text.
    values: Mapping[str, object]


@dataclass(frozen=True, kw_only=True, slots=True)
class RowChange:
    """New values for some columns of one agent, subject or tool."""

    row_id: str
    # 0: any revision.
    revision: int
    # By column; JSON as text.
    values: Mapping[str, object]


def check_revision(expected: int, current: int) -> None:
    """Raise RevisionStale unless a locked row has the expected revision; 0 expects any."""
    if expected not in (0, current):
        raise RevisionStale(requested=expected, current=current)


def require_row(row: asyncpg.Record | None, not_found: type[Exception] = LookupError) -> asyncpg.Record:
    """Return the row of a statement, or raise `not_found`.

    The default is for a row that the transaction inserted or locked, so that it cannot be missing.
    """
    if row is None:
        raise not_found
    return row


async def update_row(tx: Transaction, query: Query, values: Mapping[str, object]) -> asyncpg.Record:
    """Update a locked row; the query takes its parameters from the values of all columns."""
    return require_row(await tx.row(query, **{name: values[name] for name in query.parameters}))
