"""Recall: embed the query, collect the candidates of all signals, rank them, read the best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from skein_kit.calls.call import bound_agent_id, current_space_ids
from skein_kit.ids import now
from skein_kit.telemetry.metrics import RECALL_SEARCHES
from skein_recall.errors import DocumentNotFound, ModelNotFound, ModelUnavailable
from skein_recall.index.embedding_queue import EmbeddingQueue
from skein_recall.models.model import EmbeddingModel, ModelRegistry, Purpose
from skein_recall.providers.provider import QueryEmbedding
from skein_recall.providers.text_embedder import TextEmbedder
from skein_recall.search.cues import NamedDays
from skein_recall.search.expansion import words_of
from skein_recall.search.model import Mode, Query, RecallResult, Reference, ReferenceItem, SearchOptions, SearchPins
from skein_recall.search.name_cache import NameCache
from skein_recall.search.nearest import APPROXIMATE, shortlist_size
from skein_recall.search.search_transaction import SearchTransaction
from skein_recall.search.store import QueryStore
from skein_recall.term_cache.cache import TermCache
from skein_recall.vector_cache.cache import VectorCache
from skein_recall.vector_cache.matrix import Shortlist

_SEARCHES = {path: RECALL_SEARCHES.labels(path) for path in ("cached", APPROXIMATE, "exact", "rescored", "none")}
# For the vectors of a reference item that was written just before.
_REFERENCE_WAIT_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchCaches:
    """What a process caches of the tenants that search most."""

    vectors: VectorCache
    terms: TermCache


class RecallSearcher:
    """Answers queries from the index of one cluster."""

    def __init__(
        self,
        store: QueryStore,
        registry: ModelRegistry,
        embedder: TextEmbedder,
        queue: EmbeddingQueue,
        caches: SearchCaches,
        reader: QueryReader,
        *,
        wait_seconds: float,
    ) -> None:
        """Wait up to `wait_seconds` for vectors of items that the tenant wrote just before."""
        self._store = store
        self._registry = registry
        self._embedder = embedder
        self._queue = queue
        self._vector_cache = caches.vectors
        self._term_cache = caches.terms
        self._reader = reader
        self._wait_seconds = wait_seconds

    async def recall(
        self,
        tenant_id: UUID,
        query: Query,
        *,
        seconds: float,
        has_receipt: bool = False,
        pins: SearchPins | None = None,
    ) -> RecallResult:
        """Find the best items for a query within `seconds`. Embedding uses no database connection.

        With `has_receipt` all statements see one state, and the result has its basis. With a time
        the result is that of then, by exact statements: caches have the present. A replay has the `pins` of its
        receipt. Raises ModelUnavailable or ModelNotFound in the semantic mode without a vector: an empty result would
        mean that nothing exists. Raises NotKnownThen, ModelDroppedSince and HistoryNotKept for a time that
        cannot be searched, and ReadTooCostly while the tenant may not search any.
        """
        at = pins.at if pins is not None else query.as_of_time or now()
        if pins is None:
            model = await self._registry.active(tenant_id, query.as_of_time)
        else:
            model = replace((await self._registry.models()).get(pins.model), similarity_scale=pins.scale)
        if query.mode is Mode.SEMANTIC and query.vector is None and not model.can_embed:
            raise ModelNotFound(model=model.model)
        query = query.for_agent(bound_agent_id()).for_spaces(current_space_ids())
        query = await self._reader.read(tenant_id, query, at)
        if pins is not None:
            query = query.with_entities(pins.entity_ids)
        has_vector = pins is None or pins.has_vector
        embedding = await self._embed_query(tenant_id, model, query, seconds) if has_vector else None
        vector = None if embedding is None else embedding.vector
        if query.mode is Mode.SEMANTIC and vector is None:
            raise ModelUnavailable(model=model.model, cause="no answer")
        shortlist = await self._shortlist(tenant_id, model, query, vector)
        basis = None
        options = SearchOptions.of(query, repeatable_read=has_receipt, pins=pins)
        async with self._store.transaction(tenant_id, options) as tx:
            policy = await tx.policy()
            if query.as_of_time is not None:
                await tx.charge_history()
            # What was purged has no space any more, so that its number would tell of hidden ones.
            counts_from = query.as_of_time if current_space_ids() is None else None
            purged_count = 0 if counts_from is None else await tx.count_purged(counts_from)
            search = SearchTransaction(tx, model, query, embedding, self._vector_cache, shortlist, policy, at)
            if query.as_of_time is None:
                await search.read_cached_words(self._term_cache, tenant_id)
            hits, is_truncated = await search.hits()
            excluding = await search.excluding_conditions() if not hits and query.filter.all_names else []
            pending_count = await search.pending_count()
            if has_receipt:
                basis = await search.basis()
        relevant_hits = search.with_relevance(hits)
        _SEARCHES[search.path].inc()
        return RecallResult(
            model="" if query.mode is Mode.KEYWORD else model.model,
            dense_unavailable=vector is None and not query.is_lexical_only,
            dense_path=search.path,
            formula=search.formula.name,
            hits=relevant_hits,
            nothing_relevant=bool(hits) and not relevant_hits,
            asks_for_all=search.formula.asks_for_all,
            pending_count=pending_count,
            purged_count=purged_count,
            expansions=search.expansions(relevant_hits),
            excluding_conditions=excluding,
            filter_truncated=is_truncated,
            basis=basis,
        )

    async def zone_of_days(self, tenant_id: UUID, days: NamedDays, as_of_time: datetime | None) -> tzinfo | None:
        """Return the zone of the days that a request names, as of a time; None where the tenant's will do.

        Raises as `recall`.
        """
        if not days.need_zone:
            return None
        async with self._store.transaction(tenant_id, SearchOptions(as_of_time=as_of_time)) as tx:
            return await tx.zone(days.person_id)

    async def read_reference_item(
        self, tenant_id: UUID, reference: Reference, as_of_time: datetime | None, *, seconds: float
    ) -> ReferenceItem:
        """Read the item that FindSimilar starts from, as it is or as it was at a time.

        Raises DocumentNotFound; and as `recall` does for a time that cannot be searched.
        """
        model = await self._registry.active(tenant_id, as_of_time)
        if as_of_time is None:
            await self._queue.wait_drained(tenant_id, min(_REFERENCE_WAIT_SECONDS, seconds / 4))
        async with self._store.transaction(tenant_id, SearchOptions(as_of_time=as_of_time)) as tx:
            if as_of_time is not None:
                # It refuses a time before the tenant's history.
                await tx.policy()
            item_id = reference.item_id
            if item_id is None:
                item_id = await tx.find_item_id(reference.external_id, reference.kind)
            item = None if item_id is None else await tx.read_reference_item(model, item_id, as_of_time or now())
        if item is None:
            raise DocumentNotFound
        return item

    async def _embed_query(
        self, tenant_id: UUID, model: EmbeddingModel, query: Query, seconds: float
    ) -> QueryEmbedding | None:
        """Return the query's vector (dimensions,), with its tokens if there are any.

        None when it needs none, or the model fails.
        """
        if query.vector is not None:
            model.check_dimensions(len(query.vector))
        if query.is_lexical_only:
            return None
        if query.vector is None and not model.can_embed:
            return None
        if query.as_of_time is None:
            await self._queue.wait_drained(tenant_id, min(self._wait_seconds, seconds / 4))
        if query.vector is not None:
            return QueryEmbedding(query.vector)
        purpose = Purpose.QUERY if query.excluded_id is None else Purpose.PASSAGE
        embedding = await self._embedder.embed_query(
            model, query.embedded_text, tenant_id=tenant_id, seconds=seconds, purpose=purpose
        )
        share = model.readable_share(query.text)
        # A ranking by all signals lowers the weight of the cosine instead; nothing that is read has no cosine anywhere.
        is_weighted = query.mode is Mode.HYBRID and query.excluded_id is None and share > 0
        if embedding is None or share == 1 or is_weighted:
            return embedding
        return replace(embedding, vector=embedding.vector * np.float32(share))

    async def _shortlist(
        self, tenant_id: UUID, model: EmbeddingModel, query: Query, vector: NDArray[np.float32] | None
    ) -> Shortlist | None:
        """Return what the vector cache proposes.

        None without a vector, with a filter or a time, or when nothing is cached.
        """
        if vector is None or query.filter.has_index_conditions or query.as_of_time is not None:
            return None
        depth = query.candidate_count(uses_terms=query.uses_terms(has_vector=True))
        return await self._vector_cache.shortlist(tenant_id, model, vector, query.searched_kinds, shortlist_size(depth))


class QueryReader:
    """Adds to queries what their texts mean: names that have other names, and words that are no typos."""

    def __init__(self, names: NameCache, has_word: Callable[[str], bool]) -> None:
        """`has_word` is a dictionary of lower-case words: these are no typos, even if no item has them."""
        self._names = names
        self._has_word = has_word

    async def read(self, tenant_id: UUID, query: Query, at: datetime) -> Query:
        """Return the query with the mentions and the known words of its text, if these are searched."""
        if not query.reads_names:
            return query
        return replace(
            query,
            mentions=await self._names.read_mentions(
                tenant_id, query.text, query.name_condition, at, as_of_time=query.as_of_time
            ),
            known_words=frozenset(filter(self._has_word, words_of(query.text))),
        )
