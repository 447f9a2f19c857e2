"""The counts that BM25 needs: documents and lengths per kind, and in how many documents a frequent term occurs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

import asyncpg

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.database.transactions import Database, Transaction
from skein_kit.database.tx_options import TxOptions
from skein_kit.rpc.due_tenants import list_due_tenants
from skein_recall.queries import QUERIES

# Terms of at least this many documents have their frequency stored; rarer ones are counted by the queries.
MIN_FREQUENCY = 256
# Removed documents after which frequencies are counted again: a fifth of all, and at least this many.
_MIN_REMOVED = 1000
# Terms that one call counts again.
_RECOUNTED_TERMS = 200


class TermCountStore:
    """Keeps the counts up to date."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_due_tenants(self, request: pb.ListDueTenantsRequest) -> pb.ListDueTenantsResponse:
        """Return a page of the tenants with documents to embed or to count."""
        return await list_due_tenants(
            self._database,
            QUERIES["list_backlog_tenants"],
            request,
            pb.ListDueTenantsResponse,
            min_removed=_MIN_REMOVED,
        )

    async def count(self, tenant_id: UUID, limit: int) -> tuple[int, bool]:
        """Add up to `limit` new documents to the counts; return how many, and whether there are more.

        Concurrent calls count different documents, one after another where these are of one kind.
        """
        async with self._database.transaction(tenant_id, TxOptions(durable=False)) as tx:
            status = await tx.row(QUERIES["counting_status"], tenant_id=tenant_id, min_documents=_MIN_REMOVED)
            if status is None or not (status["fresh"] or status["gone"] or status["stale"]):
                return 0, False
            added = await tx.rows(QUERIES["mark_counted"], tenant_id=tenant_id, count=limit)
            removed = await tx.rows(QUERIES["take_removed_documents"], tenant_id=tenant_id, count=limit)
            has_more = len(added) == limit or len(removed) == limit
            await _update_corpora(tx, tenant_id, added, removed)
            if added:
                await _add_frequencies(tx, tenant_id, [row["item_id"] for row in added], has_more=has_more)
            if removed:
                await tx.execute(QUERIES["delete_unused_frequencies"], tenant_id=tenant_id)
            # A recount subtracts what is not counted yet: too much while there is more.
            if not has_more:
                status = await tx.row(QUERIES["counting_status"], tenant_id=tenant_id, min_documents=_MIN_REMOVED)
                for kind in [] if status is None else status["stale"]:
                    has_more = await _recount(tx, tenant_id, kind) or has_more
        return len(added), has_more


async def _update_corpora(
    tx: Transaction, tenant_id: UUID, added: Iterable[asyncpg.Record], removed: Iterable[asyncpg.Record]
) -> None:
    """Update documents and lengths of each kind."""
    sums: dict[str, Counter[str]] = {}
    for row in added:
        sums.setdefault(row["kind"], Counter()).update(documents=1, length=row["length"])
    for row in removed:
        of_kind = sums.setdefault(row["kind"], Counter())
        of_kind.update(documents=-row["documents"], length=-row["length"], removed=row["documents"])
    # In one order, so that two concurrent calls do not deadlock.
    for kind, change in sorted(sums.items()):
        await tx.execute(
            QUERIES["add_to_corpus"],
            tenant_id=tenant_id,
            kind=kind,
            documents=change["documents"],
            length=change["length"],
            removed=change["removed"],
        )


async def _add_frequencies(tx: Transaction, tenant_id: UUID, item_ids: Sequence[UUID], *, has_more: bool) -> None:
    """Add the terms of newly counted documents to the frequencies; store those of terms that became frequent."""
    rows = await tx.rows(QUERIES["terms_of_items"], tenant_id=tenant_id, item_ids=item_ids)
    counts: dict[tuple[str, str], int] = {(row["term"], row["kind"]): row["documents"] for row in rows}
    stored = await tx.rows(
        QUERIES["add_to_frequencies"],
        tenant_id=tenant_id,
        terms=[term for term, _ in counts],
        kinds=[kind for _, kind in counts],
        documents=list(counts.values()),
    )
    new = sorted(set(counts) - {(row["term"], row["kind"]) for row in stored})
    frequent = await _frequent_terms(tx, tenant_id, new)
    # While more documents are uncounted, the postings are ahead of the counts, so a new frequency starts from these.
    await _insert_frequencies(
        tx, tenant_id, {key: counts[key] if has_more else documents for key, documents in frequent.items()}
    )


async def _recount(tx: Transaction, tenant_id: UUID, kind: str) -> bool:
    """Count the next frequencies from the postings again; return whether there are more."""
    rows = await tx.rows(QUERIES["list_frequencies"], tenant_id=tenant_id, kind=kind, count=_RECOUNTED_TERMS)
    frequent = await _frequent_terms(tx, tenant_id, [(row["term"], kind) for row in rows])
    rare = [row["term"] for row in rows if (row["term"], kind) not in frequent]
    await tx.execute(QUERIES["delete_frequencies"], tenant_id=tenant_id, kind=kind, terms=rare)
    await _insert_frequencies(tx, tenant_id, frequent)
    has_more = len(rows) == _RECOUNTED_TERMS
    last = rows[-1]["term"] if has_more else None
    await tx.execute(QUERIES["set_recount_position"], tenant_id=tenant_id, kind=kind, term=last)
    return has_more


async def _frequent_terms(
    tx: Transaction, tenant_id: UUID, terms: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], int]:
    """Return the counted documents of those terms, each with its kind, that occur in MIN_FREQUENCY and more."""
    if not terms:
        return {}
    rows = await tx.rows(
        QUERIES["frequent_terms"],
        tenant_id=tenant_id,
        terms=[term for term, _ in terms],
        kinds=[kind for _, kind in terms],
        min_documents=MIN_FREQUENCY,
    )
    return {(row["term"], row["kind"]): row["documents"] for row in rows}


async def _insert_frequencies(tx: Transaction, tenant_id: UUID, frequencies: Mapping[tuple[str, str], int]) -> None:
    await tx.insert(
        QUERIES["insert_frequencies"],
        tenant_id,
        [{"term": term, "kind": kind, "documents": documents} for (term, kind), documents in frequencies.items()],
    )
