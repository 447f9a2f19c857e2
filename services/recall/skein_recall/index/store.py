"""Vectors of items, and the counts that BM25 needs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from skein_kit.database.tx_options import READ_ONLY, TxOptions
from skein_recall.providers.text_embedder import IndexItem
from skein_recall.queries import QUERIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from uuid import UUID

    import asyncpg

    from skein_kit.database.transactions import Database, Transaction

# Lists of this many postings and more have their length kept: shorter ones are counted when they are read.
LEAST_KEPT = 256
# What went away before the frequencies are counted anew: a fifth of the documents, and at least so many.
_LEAST_DEPARTED = 1000
# Terms that are counted anew by one call.
_COUNTED_ANEW = 200


class IndexStore:
    """What the worker and the writers of items do to the index."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_pending(self, tenant_id: UUID, limit: int, *, but: Sequence[UUID] = ()) -> list[asyncpg.Record]:
        """Return the oldest documents, `but` some, whose vectors are still to be made."""
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            return await tx.rows(QUERIES["list_pending"], tenant_id=tenant_id, passed_over=list(but), limit=limit)

    async def pending(self, tenant_id: UUID, limit: int) -> tuple[int, UUID | None]:
        """Return how many documents' vectors are still to be made, `limit` at most, and the oldest one's id."""
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            row = await tx.row(QUERIES["pending_backlog"], tenant_id=tenant_id, limit=limit)
        return (0, None) if row is None else (row["count"], row["oldest_id"])

    async def read_texts(self, tenant_id: UUID, pending: Sequence[asyncpg.Record]) -> list[IndexItem]:
        """Read the text of pending documents.

        It is read after the document, so a text that changed meanwhile belongs to a newer revision than is said here,
        and is passed over when its vectors are stored. An item that is gone has no text.
        """
        ids: dict[str, list[UUID]] = {"memory": [], "message": []}
        for row in pending:
            ids[row["kind"]].append(row["item_id"])
        rows: list[asyncpg.Record] = []
        async with self._database.transaction(tenant_id, TxOptions(plan_once=True)) as tx:
            if ids["memory"]:
                rows += await tx.rows(QUERIES["memory_texts"], tenant_id=tenant_id, memory_ids=ids["memory"])
            if ids["message"]:
                rows += await tx.rows(QUERIES["message_texts"], tenant_id=tenant_id, message_ids=ids["message"])
        texts: dict[UUID, str] = {row["item_id"]: row["text"] for row in rows}
        return [IndexItem(row["item_id"], row["revision"], texts.get(row["item_id"], "")) for row in pending]

    async def count(self, tenant_id: UUID, limit: int) -> tuple[int, bool]:
        """Bring the counts up to date by up to `limit` documents; return how many, and whether there are more.

        Several at once count different documents, one after another where they are of one kind.
        """
        async with self._database.transaction(tenant_id, TxOptions(durable=False)) as tx:
            todo = await tx.row(QUERIES["what_to_count"], tenant_id=tenant_id, least=_LEAST_DEPARTED)
            if todo is None or not (todo["fresh"] or todo["gone"] or todo["stale"]):
                return 0, False
            fresh = await tx.rows(QUERIES["count_uncounted"], tenant_id=tenant_id, count=limit)
            gone = await tx.rows(QUERIES["take_departures"], tenant_id=tenant_id, count=limit)
            more = len(fresh) == limit or len(gone) == limit
            await _sum(tx, tenant_id, fresh, gone)
            if fresh:
                await _follow(tx, tenant_id, [row["item_id"] for row in fresh], more=more)
            if gone:
                await tx.execute(QUERIES["drop_unused_frequencies"], tenant_id=tenant_id)
            # Not while much waits to be counted: all of that would have to be told from what was.
            if not more:
                todo = await tx.row(QUERIES["what_to_count"], tenant_id=tenant_id, least=_LEAST_DEPARTED)
                for kind in [] if todo is None else todo["stale"]:
                    more = await _count_anew(tx, tenant_id, kind) or more
        return len(fresh), more


async def _sum(
    tx: Transaction, tenant_id: UUID, fresh: Iterable[asyncpg.Record], gone: Iterable[asyncpg.Record]
) -> None:
    """Add to the sums of each kind."""
    sums: dict[str, Counter[str]] = {}
    for row in fresh:
        sums.setdefault(row["kind"], Counter()).update(documents=1, length=row["length"])
    for row in gone:
        of_kind = sums.setdefault(row["kind"], Counter())
        of_kind.update(documents=-row["documents"], length=-row["length"], departed=row["documents"])
    # In one order, so that two who count wait for one another.
    for kind, more in sorted(sums.items()):
        await tx.execute(
            QUERIES["add_to_corpus"],
            tenant_id=tenant_id,
            kind=kind,
            documents=more["documents"],
            length=more["length"],
            departed=more["departed"],
        )


async def _follow(tx: Transaction, tenant_id: UUID, item_ids: Sequence[UUID], *, more: bool) -> None:
    """Add the terms of documents that were counted just now to the frequencies that are kept, and keep new ones."""
    rows = await tx.rows(QUERIES["terms_of_items"], tenant_id=tenant_id, item_ids=item_ids)
    counts: dict[tuple[str, str], int] = {(row["term"], row["kind"]): row["documents"] for row in rows}
    kept = await tx.rows(
        QUERIES["add_to_frequencies"],
        tenant_id=tenant_id,
        terms=[term for term, _ in counts],
        kinds=[kind for _, kind in counts],
        documents=list(counts.values()),
    )
    new = sorted(set(counts) - {(row["term"], row["kind"]) for row in kept})
    found = await _long(tx, tenant_id, new)
    # While more documents wait to be counted, the lists are ahead of the counts: what was counted here is the start.
    await _keep(tx, tenant_id, {key: counts[key] if more else documents for key, documents in found.items()})


async def _count_anew(tx: Transaction, tenant_id: UUID, kind: str) -> bool:
    """Count the next frequencies from the postings; say whether there are more."""
    rows = await tx.rows(QUERIES["list_frequencies"], tenant_id=tenant_id, kind=kind, count=_COUNTED_ANEW)
    found = await _long(tx, tenant_id, [(row["term"], kind) for row in rows])
    short = [row["term"] for row in rows if (row["term"], kind) not in found]
    await tx.execute(QUERIES["drop_frequencies"], tenant_id=tenant_id, kind=kind, terms=short)
    await _keep(tx, tenant_id, found)
    more = len(rows) == _COUNTED_ANEW
    await tx.execute(QUERIES["recount_to"], tenant_id=tenant_id, kind=kind, term=rows[-1]["term"] if more else None)
    return more


async def _long(tx: Transaction, tenant_id: UUID, terms: Sequence[tuple[str, str]]) -> dict[tuple[str, str], int]:
    if not terms:
        return {}
    rows = await tx.rows(
        QUERIES["long_lists"],
        tenant_id=tenant_id,
        terms=[term for term, _ in terms],
        kinds=[kind for _, kind in terms],
        least=LEAST_KEPT,
    )
    return {(row["term"], row["kind"]): row["documents"] for row in rows}


async def _keep(tx: Transaction, tenant_id: UUID, frequencies: Mapping[tuple[str, str], int]) -> None:
    await tx.insert(
        QUERIES["put_frequencies"],
        tenant_id,
        [{"term": term, "kind": kind, "documents": documents} for (term, kind), documents in frequencies.items()],
    )
