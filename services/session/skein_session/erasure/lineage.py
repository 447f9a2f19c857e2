"""Messages that memories were made of: before they are purged, their memories learn that the source is erased."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from skein_kit.database.named_queries import Queries
from skein_kit.text.source_keys import source_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skein_kit.database.transactions import Transaction

_QUERIES = Queries.load("skein_session")
_FIRST = UUID(int=0)
# Trust of a message whose author is not rated, or is in cold storage.
_NEUTRAL_TRUST = 0.5


async def mark_erased(tx: Transaction, tenant_id: UUID, message_ids: Sequence[UUID]) -> None:
    """Mark messages as erased sources, each with its trust, and have the memories that derive from them rescored."""
    rows = await tx.rows(_QUERIES["find_sources"], tenant_id=tenant_id, message_ids=list(message_ids))
    source_ids = [row["source_id"] for row in rows]
    if not source_ids:
        return
    authors = await tx.rows(_QUERIES["read_authors"], tenant_id=tenant_id, message_ids=source_ids)
    keys = {
        row["message_id"]: {source_key(row[name]) for name in ("created_by", "sender_id", "name")} for row in authors
    }
    ratings = {
        row["source_key"]: row["trust"]
        for row in await tx.rows(
            _QUERIES["read_ratings"], tenant_id=tenant_id, source_keys=sorted(set().union(*keys.values()))
        )
    }
    trusts = [
        min((ratings[key] for key in keys.get(id_, ()) if key in ratings), default=_NEUTRAL_TRUST) for id_ in source_ids
    ]
    for query in ("mark_sources_erased", "mark_former_sources_erased"):
        await tx.execute(_QUERIES[query], tenant_id=tenant_id, source_ids=source_ids, trusts=trusts)
    work = [{"memory_id": id_, "after_id": _FIRST} for id_ in source_ids]
    await tx.insert(_QUERIES["note_rescores"], tenant_id, work)
