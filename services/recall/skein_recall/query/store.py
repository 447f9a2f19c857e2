"""One transaction that finds and reads items of one tenant."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter
from typing import TYPE_CHECKING, Self

import numpy as np
from pgvector import HalfVector

from skein_kit.database.named_queries import with_condition
from skein_kit.errors import ReadTooCostly
from skein_kit.filters import scan_cost
from skein_kit.filters.compiler import ENTRIES, compile_to_sql
from skein_kit.policies.store import shared_policy_cache
from skein_kit.search_text.vector_columns import COVERED_DIMENSIONS, for_table, vector_columns, vector_of
from skein_recall.queries import LISTED_READ, NEAREST_READ, QUERIES
from skein_recall.query.model import ReferenceItem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime
    from types import TracebackType
    from uuid import UUID

    import asyncpg
    from numpy.typing import NDArray

    from skein_kit.admission.scan_budget import ScanBudget
    from skein_kit.database.named_queries import Query
    from skein_kit.database.transactions import Transaction
    from skein_kit.filters.expression import Expression
    from skein_kit.policies.store import Policy
    from skein_recall.models.model import EmbeddingModel
    from skein_recall.query.filter import Filter
    from skein_recall.vector_cache.matrix import Shortlist

# Terms of a query that are looked for: its first ones.
_MOST_TERMS = 100
# Documents that a term is counted in at most when a query asks; of longer lists the worker keeps the length.
_MOST_COUNTED = 2000
# Postings that a query reads: the lists of its rarest terms until so many are read, and always that of the rarest.
# What the rest would add is little, because frequent terms weigh little; the items found are weighed by every term.
POSTINGS_READ = 8000
# To see which items say a term its list is read whole where it has fewer postings than this for each item asked for,
# which has about one neighbour: eight cost as much as to look for one. Beyond _MOST_COUNTED lists may be longer than is
# known.
_LISTED = 16
# Where too little is found so, more lists are read: up to this many times as many postings.
_MORE_READ = (1, 8, 64)


@dataclass(frozen=True, kw_only=True, slots=True)
class Term:
    """One term of a query: in how many documents it occurs, and what that is worth."""

    term: str
    documents: int
    idf: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """A query's terms, the rarest first, and what is known of all documents."""

    terms: tuple[Term, ...]
    mean_length: float

    @property
    def max_bm25(self) -> float:
        """The BM25 that no document can pass for this query."""
        return 2.2 * sum(term.idf for term in self.terms)

    def bm25(self, frequencies: NDArray[np.float64], lengths: NDArray[np.float64]) -> NDArray[np.float64]:
        """BM25 (k1 = 1.2, b = 0.75) of documents, each a row of how often it says each term, and its length."""
        idf = np.array([term.idf for term in self.terms])
        free = 1.2 * (0.25 + 0.75 * lengths / self.mean_length)
        found: NDArray[np.float64] = (idf * 2.2 * frequencies / (frequencies + free[:, np.newaxis])).sum(axis=1)
        return found

    def read(self, postings: int) -> tuple[Term, ...]:
        """Return the terms whose lists are read to find items: the rarest, up to so many postings, at least one."""
        sums = accumulate(term.documents for term in self.terms)
        return self.terms[: max(1, sum(read <= postings for read in sums))]

    def portions(self) -> list[tuple[Term, ...]]:
        """Return the terms whose lists are read first, and those that are read where too little is found by them."""
        portions = dict.fromkeys(self.read(POSTINGS_READ * times) for times in _MORE_READ)
        return [portion for portion in portions if portion]


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemMeasurements:
    """Items and their neighbours column by column, in order of their ids."""

    item_ids: list[UUID]
    kinds: list[str]
    # In stems.
    lengths: NDArray[np.float64]
    # The text ends with a question; it tells of a time.
    asks: NDArray[np.bool_]
    dated: NDArray[np.bool_]
    # It was written since the moment that is asked about, as far as one is.
    changed: NDArray[np.bool_]
    # The cosine of the vector and the item's best chunk, over all dimensions; NaN without one of them.
    similarities: NDArray[np.float64]
    # How often each says each of the terms, in their order.
    frequencies: NDArray[np.float64]
    # The item right before each that stands around a centre, in its session.
    previous: dict[UUID, UUID]


class QueryTransaction:
    """One transaction that finds and reads items of one tenant, while its block runs."""

    def __init__(
        self, transaction: AbstractAsyncContextManager[Transaction], tenant_id: UUID, *, plans_again: bool
    ) -> None:
        """Read in a transaction which `plans_again`, or not, and begins and ends with the block."""
        self._transaction = transaction
        self._tenant_id = tenant_id
        self._plans_again = plans_again
        self._scans: ScanBudget | None = None

    async def __aenter__(self) -> Self:
        self._tx = await self._transaction.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._transaction.__aexit__(kind, error, at)

    async def _rows(self, query: Query, **values: object) -> list[asyncpg.Record]:
        """Run a statement that has one good plan: to make it again would take longer, of items ten times as long."""
        if self._plans_again:
            self._plans_again = False
            await self._tx.plan(again=False)
        return await self._tx.rows(query, tenant_id=self._tenant_id, **values)

    async def _rows_allowed(self, query: Query, filter_: Filter, **values: object) -> list[asyncpg.Record]:
        """Run a statement among the items that pass a filter: which index serves that depends on its values."""
        if not self._plans_again:
            self._plans_again = True
            await self._tx.plan(again=True)
        condition = filter_.condition if filter_.restricts else "true"
        return await self._tx.rows(
            with_condition(query, condition), tenant_id=self._tenant_id, **values, **filter_.values
        )

    async def policy(self) -> Policy:
        """Return the rules that the tenant searches by."""
        return await shared_policy_cache(self._tx.database).of(self._tx, self._tenant_id)

    async def nearest(
        self,
        model: EmbeddingModel,
        vector: NDArray[np.float32],
        kinds: Sequence[str],
        filter_: Filter,
        *,
        chunks: int,
    ) -> list[asyncpg.Record]:
        """Return the chunks nearest to a vector, the nearest first: item_id, kind, distance, which is minus the cosine.

        Of a model with more dimensions than the index covers, it is that of the dimensions covered.
        """
        values = {"vector": HalfVector(vector[:COVERED_DIMENSIONS]), "kinds": list(kinds), "count": chunks}
        if not filter_.restricts:
            return await self._rows(for_table(QUERIES["nearest"], model.table_name), **values)
        return await self._rows_allowed(for_table(QUERIES["nearest_allowed"], model.table_name), filter_, **values)

    async def nearest_read(
        self,
        model: EmbeddingModel,
        vector: NDArray[np.float32],
        kinds: Sequence[str],
        at: datetime,
        *,
        chunks: int,
        first: int,
        show_superseded: bool,
    ) -> list[asyncpg.Record]:
        """Do so for all that the tenant has, and read the `first` memories: each in the row of its nearest chunk."""
        rows = await self._rows(
            for_table(NEAREST_READ, model.table_name),
            vector=HalfVector(vector[:COVERED_DIMENSIONS]),
            kinds=list(kinds),
            count=chunks,
            first=first,
            at=at,
            show_superseded=show_superseded,
        )
        return sorted(rows, key=itemgetter("distance"))

    @property
    def follows(self) -> bool:
        """Say whether a replica answers, which may be behind what was read elsewhere."""
        return self._tx.database.follows

    async def nearest_listed(
        self, model: EmbeddingModel, vector: NDArray[np.float32], shortlist: Shortlist, *, most_new: int
    ) -> list[asyncpg.Record]:
        """Compare the items of a shortlist, and up to `most_new` chunks that came since, with a vector.

        Return chunks, the nearest first: item_id, kind, distance, which is minus the cosine over all dimensions,
        whether each is_new, and the server. One row without an item when there are none.
        """
        return await self._rows(
            for_table(QUERIES["nearest_listed"], model.table_name), **_of(shortlist, vector, most_new=most_new)
        )

    async def listed_read(
        self,
        model: EmbeddingModel,
        vector: NDArray[np.float32],
        shortlist: Shortlist,
        at: datetime,
        *,
        first: int,
        most_new: int,
        show_superseded: bool,
    ) -> list[asyncpg.Record]:
        """Do as nearest_listed, and read the `first` of the shortlist that are memories: in their first chunk's row."""
        rows = await self._rows(
            for_table(LISTED_READ, model.table_name),
            **_of(shortlist, vector, most_new=most_new),
            shown_ids=shortlist.item_ids[:first],
            at=at,
            show_superseded=show_superseded,
        )
        return sorted(rows, key=itemgetter("distance"))

    async def exactly_nearest(
        self,
        model: EmbeddingModel,
        vector: NDArray[np.float32],
        kinds: Sequence[str],
        filter_: Filter,
        *,
        count: int,
    ) -> dict[UUID, float]:
        """Return the items nearest to a vector and their cosines, the nearest first, by comparing all of them."""
        given = vector_columns(vector)
        rows = await self._rows_allowed(
            for_table(QUERIES["exactly_nearest"], model.table_name),
            filter_,
            vector=given["embedding"],
            rest=given["rest"],
            kinds=list(kinds),
            count=count,
        )
        return {row["item_id"]: row["similarity"] for row in rows}

    async def similarities(
        self, model: EmbeddingModel, vector: NDArray[np.float32], item_ids: Sequence[UUID]
    ) -> dict[UUID, float]:
        """Return the cosine of a vector and each item's best chunk, over all dimensions; none for an item without."""
        if not item_ids:
            return {}
        given = vector_columns(vector)
        rows = await self._rows(
            for_table(QUERIES["similarities"], model.table_name),
            item_ids=list(item_ids),
            vector=given["embedding"],
            rest=given["rest"],
        )
        return {row["item_id"]: row["similarity"] for row in rows}

    async def terms(self, text: str, kinds: Sequence[str], language: str) -> Terms:
        """Break a query into its terms."""
        rows = await self._rows(
            QUERIES["query_terms"],
            words=text,
            kinds=list(kinds),
            language=language,
            terms=_MOST_TERMS,
            most=_MOST_COUNTED,
        )
        if not rows:
            return Terms(terms=(), mean_length=1.0)
        documents = max(1, rows[0]["corpus_documents"])
        terms = [
            # Counts that the worker is behind with may say more documents than there are.
            Term(term=row["term"], documents=row["documents"], idf=_idf(min(row["documents"], documents), documents))
            for row in rows
        ]
        terms.sort(key=lambda term: (term.documents, term.term))
        return Terms(terms=tuple(terms), mean_length=max(1.0, rows[0]["corpus_length"] / documents))

    async def matching(
        self, terms: Terms, kinds: Sequence[str], filter_: Filter, *, count: int, least: int
    ) -> list[asyncpg.Record]:
        """Return the items that say the most of a query's rarest terms, the best first: item_id, bm25.

        Where that finds fewer than `least`, more terms are looked for.
        """
        found: list[asyncpg.Record] = []
        for read in terms.portions():
            found = await self._saying(read, terms.mean_length, kinds, filter_, count)
            if len(found) >= least:
                break
        return found

    async def _saying(
        self, read: Sequence[Term], mean_length: float, kinds: Sequence[str], filter_: Filter, count: int
    ) -> list[asyncpg.Record]:
        values = {
            "terms": [term.term for term in read],
            "idfs": [term.idf for term in read],
            "per_stem": 0.9 / mean_length,
            "kinds": list(kinds),
            "count": count,
        }
        if not filter_.restricts:
            return await self._rows(QUERIES["matching"], **values)
        return await self._rows_allowed(QUERIES["matching_allowed"], filter_, **values)

    async def measured(
        self,
        model: EmbeddingModel,
        vector: NDArray[np.float32] | None,
        terms: Terms,
        kinds: Sequence[str],
        item_ids: Iterable[UUID],
        centres: Iterable[UUID],
        *,
        reach: int,
        horizon: int | None = None,
    ) -> ItemMeasurements:
        """Measure items, and their neighbours: those of the same session, up to `reach` before and after `centres`.

        `horizon` is that of a moment to tell the changed ones of; without it none are told.
        """
        wanted = list(item_ids)
        given = {"embedding": None, "rest": None} if vector is None else vector_columns(vector)
        (row,) = await self._rows(
            for_table(QUERIES["measured"], model.table_name),
            item_ids=wanted,
            centres=list(centres),
            kinds=list(kinds),
            terms=[term.term for term in terms.terms],
            vector=given["embedding"],
            rest=given["rest"],
            reach=reach,
            horizon=horizon,
            rare=sum(term.documents < min(_MOST_COUNTED, _LISTED * len(wanted)) for term in terms.terms),
        )
        found = row["item_ids"] or []
        frequencies = np.zeros((len(found), len(terms.terms)))
        if row["said_by"]:
            place_of = dict(zip(found, range(len(found)), strict=True))
            said_by = [place_of[item_id] for item_id in row["said_by"]]
            frequencies[said_by, np.array(row["said_terms"]) - 1] = row["said_often"]
        similarities = np.full(len(found), np.nan)
        if row["compared"]:
            similarities[np.array(row["compared"]) - 1] = row["cosines"]
        return ItemMeasurements(
            item_ids=found,
            kinds=row["kinds"] or [],
            lengths=np.array(row["lengths"] or (), dtype=np.float64),
            asks=np.array(row["asks"] or (), dtype=np.bool_),
            dated=np.array(row["dated"] or (), dtype=np.bool_),
            changed=np.array(row["changed"] or (), dtype=np.bool_),
            similarities=similarities,
            frequencies=frequencies,
            previous=dict(zip(row["followers"] or (), row["previous"] or (), strict=True)),
        )

    async def passing(self, memory_ids: Iterable[UUID], where: Expression) -> set[UUID]:
        """Return those memories that pass a condition.

        Raises ReadTooCostly when they are more than the conditions of one call, or of the tenant, may scan.
        """
        condition, scanned = compile_to_sql(where, ENTRIES), scan_cost.scan_cost_sql(where, ENTRIES)
        values = {"memory_ids": list(memory_ids), **condition.values}
        if not scanned:
            rows = await self._rows(with_condition(QUERIES["passing_memories"], condition.text), **values)
            return {row["memory_id"] for row in rows}
        if self._scans is None:
            self._scans = self._tx.database.scans.begin(self._tenant_id)
        query = scan_cost.with_scan_budget(QUERIES["look_at_memories"], scanned)
        values["scan_bytes"] = max(1, self._scans.remaining)
        rows = await self._scans.charged(self._rows(with_condition(query, condition.text), **values))
        if any(row["passes"] is None for row in rows):
            raise ReadTooCostly
        return {row["memory_id"] for row in rows if row["passes"]}

    async def items(
        self, kinds: Mapping[UUID, str], at: datetime, *, show_superseded: bool
    ) -> dict[UUID, asyncpg.Record]:
        """Read items by id, each given with its kind; those that may not be recalled any more are missing."""
        memory_ids = [item_id for item_id, kind in kinds.items() if kind == "memory"]
        message_ids = [item_id for item_id, kind in kinds.items() if kind == "message"]
        found: dict[UUID, asyncpg.Record] = {}
        if memory_ids:
            rows = await self._rows(
                QUERIES["get_memories"],
                memory_ids=memory_ids,
                at=at,
                show_superseded=show_superseded,
            )
            found.update((row["memory_id"], row) for row in rows)
        if message_ids:
            rows = await self._rows(QUERIES["get_messages"], message_ids=message_ids)
            found.update((row["message_id"], row) for row in rows)
        return found

    async def item_of(self, external_id: str, kind: str) -> UUID | None:
        """Return the id of the memory or message that another system gave an id."""
        rows = await self._rows(QUERIES["document_of_external_id"], external_id=external_id, kind=kind)
        return rows[0]["item_id"] if rows else None

    async def similar_to(self, model: EmbeddingModel, item_id: UUID, at: datetime) -> ReferenceItem | None:
        """Read an item's text and the mean of its vectors; None where it may not be recalled."""
        rows = await self._rows(for_table(QUERIES["item_vectors"], model.table_name), item_id=item_id)
        kind = rows[0]["kind"] if rows else ""
        if not kind or item_id not in await self.items({item_id: kind}, at, show_superseded=True):
            return None
        (text,) = await self._rows(QUERIES[f"{kind}_texts"], **{f"{kind}_ids": [item_id]})
        chunks = [vector_of(row["embedding"], row["rest"]) for row in rows if row["embedding"] is not None]
        return ReferenceItem(item_id=item_id, text=text["text"], vector=_mean_direction(chunks))


def _of(shortlist: Shortlist, vector: NDArray[np.float32], *, most_new: int) -> dict[str, object]:
    given = vector_columns(vector)
    return {
        "item_ids": shortlist.item_ids,
        "horizon": shortlist.moment.horizon,
        "kinds": list(shortlist.kinds),
        "vector": given["embedding"],
        "rest": given["rest"],
        "most": most_new,
    }


def _idf(documents: int, all_documents: int) -> float:
    """How much a term tells; the form of BM25 that is never negative."""
    return math.log(1 + (all_documents - documents + 0.5) / (documents + 0.5))


def _mean_direction(vectors: Sequence[NDArray[np.float32]]) -> NDArray[np.float32] | None:
    """Return the mean of vectors, of unit length; None where there are none, or where they cancel out."""
    if not vectors:
        return None
    mean = np.sum(vectors, axis=0, dtype=np.float64)
    length = np.linalg.norm(mean)
    return np.asarray(mean / length, dtype=np.float32) if length > 0 else None
