"""Taking a session out of sight: what a deletion does, and a purge first of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.database.named_queries import Queries
from skein_kit.search_text import postings

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from skein_kit.database.transactions import Transaction

_QUERIES = Queries.of("skein_session")


async def delete_session_rows(tx: Transaction, tenant_id: UUID, session_id: str, at: datetime) -> dict[str, int] | None:
    """Take a session, its messages, its items and what search knows of it away.

    Return what the tenant has less of now, by kind; None when the session is gone already.
    """
    of_session = {"tenant_id": tenant_id, "session_id": session_id}
    # First, for its lock: no message can be added or deleted from here on.
    if await tx.row(_QUERIES["delete_session"], **of_session, at=at) is None:
        return None
    await tx.execute(_QUERIES["delete_session_properties"], **of_session)
    items = await tx.execute(_QUERIES["delete_items_of_session"], **of_session)
    gone = {"sessions": -1, "session_items": -items}
    stored = await tx.row(_QUERIES["get_stored_session"], **of_session)
    if stored is not None:
        gone["messages"] = -stored["message_count"]
    ids = await tx.row(_QUERIES["id_range_of_session"], **of_session)
    if ids is not None and ids["lowest"] is not None:
        messages = await tx.execute(
            _QUERIES["delete_messages_of_session"], **of_session, lowest=ids["lowest"], highest=ids["highest"]
        )
        await tx.execute(_QUERIES["delete_order_of_session"], **of_session)
        await postings.subtract_session_counts(tx, tenant_id, session_id)
        await tx.execute(_QUERIES["delete_documents_of_session"], **of_session)
        gone["messages"] = gone.get("messages", 0) - messages
    return gone
