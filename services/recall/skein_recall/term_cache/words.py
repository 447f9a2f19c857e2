"""The words of one search in a cached table that the database has proved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

import asyncpg

from skein_kit.telemetry.metrics import RECALL_WORD_SEARCHES
from skein_recall.models.model import EmbeddingModel
from skein_recall.search.model import Query
from skein_recall.search.query_terms import MAX_COUNTED, NO_TERMS, ItemMeasurements, QueryTerms, without_absent_joins
from skein_recall.search.store import NewVectors, QueryTransaction
from skein_recall.term_cache.cache import MAX_CHANGED, TermCache
from skein_recall.term_cache.table import TermTable

_SEARCHES = {path: RECALL_WORD_SEARCHES.labels(path) for path in ("cached", "database")}


@dataclass(frozen=True, kw_only=True, slots=True)
class CachedWords:
    """Answers what `QueryTransaction` does of words, for a query without other readings and without a filter."""

    query_terms: QueryTerms
    # Session ids by the term that is in their title.
    titles: Mapping[str, set[str]]
    # Of the `NewVectors`: item, kind and cosine of each chunk.
    new_vectors: Sequence[tuple[UUID, str, float]]
    # Of the server that answered.
    server_start: datetime
    # Items of the tenant that have no vector yet, up to a limit.
    pending_count: int
    table: TermTable

    def match_terms(self, kinds: Sequence[str], *, count: int, min_items: int) -> list[tuple[UUID, float]]:
        """Return up to `count` best items and their BM25, as `QueryTransaction.match_terms` does."""
        matches: list[tuple[UUID, float]] = []
        for attempt in self.query_terms.attempts():
            weights = self.query_terms.index_weights(attempt)
            matches = self.table.match(weights, self.query_terms.mean_length, kinds, count)
            if len(matches) >= min_items:
                break
        return matches

    def measure(
        self,
        kinds: Sequence[str],
        item_ids: Iterable[UUID],
        centres: Iterable[UUID],
        *,
        reach: int,
        changed_since: int | None,
    ) -> ItemMeasurements:
        """Measure items and their neighbours as `QueryTransaction.measure` does."""
        items = self.table.measure(
            self.query_terms, kinds, item_ids, centres, self.titles, reach=reach, changed_since=changed_since
        )
        return replace(items, pending_count=self.pending_count)


async def read_cached_words(
    cache: TermCache,
    tx: QueryTransaction,
    tenant_id: UUID,
    model: EmbeddingModel,
    query: Query,
    language: str,
    new_vectors: NewVectors | None,
) -> CachedWords | None:
    """Find the terms of a query in the cached table of its tenant; None when the database has to be searched."""
    words, kinds = None, query.searched_kinds
    # A transaction that sees some spaces alone proves nothing about all documents.
    table = (
        None if query.mentions or tx.is_replica or "space" in query.filter.index_conditions else cache.table(tenant_id)
    )
    if table is not None:
        row = await tx.read_search_state(
            model,
            query.text,
            kinds,
            language,
            horizon=table.horizon.transaction,
            max_changed=MAX_CHANGED,
            new_vectors=new_vectors,
        )
        if await _is_proved(cache, tx, tenant_id, table, row):
            words = await _words(tx, table, query, kinds, row)
    _SEARCHES["database" if words is None else "cached"].inc()
    return words


async def _is_proved(
    cache: TermCache, tx: QueryTransaction, tenant_id: UUID, table: TermTable, row: asyncpg.Record
) -> bool:
    changed = dict(zip(row["changed_items"] or (), row["changed_transactions"] or (), strict=True))
    unknown = [item_id for item_id, number in changed.items() if table.changed.get(item_id) != number]
    if unknown and len(changed) <= MAX_CHANGED:
        cache.put_documents(table, await tx.read_documents_with_postings(unknown))
    return cache.is_proved(tenant_id, table, row["server"], changed, _totals(row))


def _totals(row: asyncpg.Record) -> dict[str, tuple[int, int]]:
    """Return number and length of the documents of each kind."""
    numbers = zip(row["corpus_documents"] or (), row["corpus_lengths"] or (), strict=True)
    return dict(zip(row["corpus_kinds"] or (), numbers, strict=True))


async def _words(
    tx: QueryTransaction, table: TermTable, query: Query, kinds: Sequence[str], row: asyncpg.Record
) -> CachedWords | None:
    """Return the words of a query whose terms have no other readings; else None."""
    terms: Sequence[str] = row["terms"] or ()
    counts = {
        term: max(known, min(MAX_COUNTED, table.count(term, kinds)) if known < MAX_COUNTED else 0)
        for term, known in zip(terms, row["known_documents"] or (), strict=True)
    }
    counts = without_absent_joins(counts, query.text)
    if await tx.near_terms(counts, query.is_typo):
        return None
    totals = [total for kind, total in _totals(row).items() if kind in kinds]
    titles: dict[str, set[str]] = {}
    for session_id, ordinal in zip(row["titled_sessions"] or (), row["titled_terms"] or (), strict=True):
        titles.setdefault(terms[ordinal - 1], set()).add(session_id)
    return CachedWords(
        query_terms=QueryTerms.of_counts(counts, sum(each[0] for each in totals), sum(each[1] for each in totals))
        if terms
        else NO_TERMS,
        titles=titles,
        new_vectors=list(zip(row["new_items"] or (), row["new_kinds"] or (), row["new_cosines"] or (), strict=True)),
        server_start=row["server"],
        pending_count=row["pending_count"],
        table=table,
    )
