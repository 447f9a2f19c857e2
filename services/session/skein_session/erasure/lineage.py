"""Messages that memories were made of: their memories learn that the source is erased, or has another author."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from skein_kit.database.named_queries import Queries
from skein_kit.database.transactions import Transaction
from skein_kit.text.source_keys import NEUTRAL_TRUST, MessageAuthors

_QUERIES = Queries.load("skein_session")
_FIRST = UUID(int=0)


async def mark_erased(tx: Transaction, tenant_id: UUID, message_ids: Sequence[UUID]) -> None:
    """Mark messages as erased sources, each with its trust, and have the memories that derive from them rescored.

    A memory that waits for approval and names one of them goes, wherever it waits: the message may have moved.
    """
    async with tx.in_all_spaces():
        await tx.execute(_QUERIES["drop_pending_memories"], tenant_id=tenant_id, message_ids=list(message_ids))
    rows = await tx.rows(_QUERIES["find_sources"], tenant_id=tenant_id, message_ids=list(message_ids))
    source_ids = [row["source_id"] for row in rows]
    if not source_ids:
        return
    rows = await tx.rows(_QUERIES["read_authors"], tenant_id=tenant_id, message_ids=source_ids)
    authors = {row["message_id"]: MessageAuthors.of_row(row) for row in rows}
    source_keys = sorted({key for one in authors.values() for key in one.keys})
    rows = await tx.rows(_QUERIES["read_ratings"], tenant_id=tenant_id, source_keys=source_keys)
    ratings = {row["source_key"]: row["trust"] for row in rows}
    # The authors of a message in cold storage are not known.
    trusts = [authors[id_].trust(ratings) if id_ in authors else NEUTRAL_TRUST for id_ in source_ids]
    for query in ("mark_sources_erased", "mark_former_sources_erased"):
        await tx.execute(_QUERIES[query], tenant_id=tenant_id, source_ids=source_ids, trusts=trusts)
    await _note(tx, tenant_id, source_ids)


async def note_authors(tx: Transaction, tenant_id: UUID, message_id: UUID) -> None:
    """Have the memories that derive from a message rescored, because its authors changed."""
    rows = await tx.rows(_QUERIES["find_sources"], tenant_id=tenant_id, message_ids=[message_id])
    await _note(tx, tenant_id, [row["source_id"] for row in rows])


async def _note(tx: Transaction, tenant_id: UUID, source_ids: Sequence[UUID]) -> None:
    work = [{"memory_id": id_, "after_id": _FIRST} for id_ in source_ids]
    await tx.insert(_QUERIES["note_rescores"], tenant_id, work)
