"""Reads and deletions of a session's rows that other features share. Each runs in its caller's transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.database.named_queries import Queries
from skein_kit.search_text import postings
from skein_session.errors import SessionArchived, SessionNotFound

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from asyncpg import Record

    from skein_kit.database.transactions import Transaction

_QUERIES = Queries.of("skein_session")


async def require_session(tx: Transaction, tenant_id: UUID, session_id: str) -> Record:
    """Read a session that is not deleted. Raises SessionNotFound."""
    row = await tx.row(_QUERIES["get_session"], tenant_id=tenant_id, session_id=session_id)
    if row is None:
        raise SessionNotFound(session_id=session_id)
    return row


async def require_unarchived_session(tx: Transaction, tenant_id: UUID, session_id: str) -> Record:
    """Read a session whose messages are in the tables. Raises SessionNotFound and SessionArchived."""
    row = await require_session(tx, tenant_id, session_id)
    if row["store_time"] is not None:
        raise SessionArchived(session_id=session_id)
    return row


async def lock_session(tx: Transaction, tenant_id: UUID, session_id: str) -> Record:
    """Read a session that is not deleted and lock its row against every change. Raises SessionNotFound."""
    row = await tx.row(_QUERIES["lock_session"], tenant_id=tenant_id, session_id=session_id)
    if row is None:
        raise SessionNotFound(session_id=session_id)
    return row


async def lock_session_shared(tx: Transaction, tenant_id: UUID, session_id: str) -> None:
    """Lock a session against deletion. Raises SessionNotFound."""
    if await tx.row(_QUERIES["lock_session_shared"], tenant_id=tenant_id, session_id=session_id) is None:
        raise SessionNotFound(session_id=session_id)


async def delete_session_rows(tx: Transaction, tenant_id: UUID, session_id: str, at: datetime) -> dict[str, int] | None:
    """Delete a session, its messages and items, and their rows in the search index.

    Return the change of the tenant's row counts, by kind; None when the session is deleted already.
    """
    of_session = {"tenant_id": tenant_id, "session_id": session_id}
    # First, because its lock keeps other transactions from adding or deleting messages.
    if await tx.row(_QUERIES["delete_session"], **of_session, at=at) is None:
        return None
    await tx.execute(_QUERIES["delete_session_properties"], **of_session)
    items = await tx.execute(_QUERIES["delete_items_of_session"], **of_session)
    charges = {"sessions": -1, "session_items": -items}
    archived = await tx.row(_QUERIES["get_archived_session"], **of_session)
    if archived is not None:
        charges["messages"] = -archived["message_count"]
    ids = await tx.row(_QUERIES["id_range_of_session"], **of_session)
    if ids is not None and ids["lowest"] is not None:
        messages = await tx.execute(
            _QUERIES["delete_messages_of_session"], **of_session, lowest=ids["lowest"], highest=ids["highest"]
        )
        await tx.execute(_QUERIES["delete_order_of_session"], **of_session)
        await postings.subtract_session_counts(tx, tenant_id, session_id)
        await tx.execute(_QUERIES["delete_documents_of_session"], **of_session)
        charges["messages"] = charges.get("messages", 0) - messages
    return charges
