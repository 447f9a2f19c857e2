"""Agents and subjects of sessions, for messages that were stored without, before the session had them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.database.named_queries import Queries

if TYPE_CHECKING:
    from uuid import UUID

    from skein_kit.database.transactions import Database, Transaction

_QUERIES = Queries.of("skein_session")
# Messages that one transaction changes.
BATCH = 1000


class ParticipantStore:
    """Gives messages the agent and subject of their session, a bounded number at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def inherit_batch(self, tenant_id: UUID, *, count: int) -> tuple[int, bool]:
        """Read up to `count` messages; return how many changed, and whether there may be more."""
        changed, remaining = 0, count
        while remaining > 0:
            async with self._database.transaction(tenant_id) as tx:
                counts = await inherit_participants(tx, tenant_id, count=min(remaining, BATCH))
            if counts is None:
                return changed, False
            read_count, changed_count = counts
            changed += changed_count
            # At least one, because a session whose messages are all deleted costs a transaction too.
            remaining -= max(1, read_count)
        return changed, True


async def inherit_participants(
    tx: Transaction, tenant_id: UUID, *, session_id: str | None = None, count: int = BATCH
) -> tuple[int, int] | None:
    """Give up to `count` messages of one session its agent and subject; return how many were read, and changed.

    None when no session has such messages, or other transactions lock those that have.
    """
    session = await tx.row(_QUERIES["next_session_to_inherit"], tenant_id=tenant_id, session_id=session_id)
    if session is None:
        return None
    of_session = {"tenant_id": tenant_id, "session_id": session["session_id"]}
    order = await tx.rows(_QUERIES["order_after"], **of_session, sequence=session["inherited_sequence"], limit=count)
    values = {
        "tenant_id": tenant_id,
        "message_ids": [row["message_id"] for row in order],
        "agent_id": session["agent_id"],
        "subject_id": session["subject_id"],
    }
    changed = 0
    if order:
        changed = await tx.execute(_QUERIES["inherit_messages"], **values)
        await tx.execute(_QUERIES["inherit_documents"], **values)
    inherited_sequence = order[-1]["sequence"] if len(order) == count else session["last_sequence"]
    await tx.execute(_QUERIES["mark_inherited"], **of_session, sequence=inherited_sequence)
    return len(order), changed
