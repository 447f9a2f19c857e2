"""Searches in the database: transactions that find and read items of one tenant."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg
import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector

from skein_kit.admission.scan_budget import ScanBudget
from skein_kit.database.named_queries import with_condition
from skein_kit.database.transactions import Database, Transaction
from skein_kit.database.tx_options import TxOptions
from skein_kit.errors import ReadTooCostly
from skein_kit.filters import scan_cost
from skein_kit.filters.compiler import compile_to_sql
from skein_kit.filters.expression import Expression
from skein_kit.search_text.segmentation import segment
from skein_kit.search_text.vector_columns import COVERED_DIMENSIONS, for_table, read_vector, vector_columns
from skein_kit.text.source_keys import MessageAuthors
from skein_recall.embedded_model.token_vectors import unpack
from skein_recall.models.model import EmbeddingModel
from skein_recall.queries import QUERIES
from skein_recall.search.expansion import MAX_CORRECTED_TERMS, NearRange, ReadMention, max_distance, near_terms
from skein_recall.search.filter import Filter
from skein_recall.search.model import ReferenceItem, SearchOptions, SearchPins
from skein_recall.search.query_terms import (
    K1,
    MAX_COUNTED,
    NO_TERMS,
    TITLE_WEIGHT,
    B,
    ItemMeasurements,
    QueryTerms,
    corrected_items,
    names_by_term,
    reading_parts,
    rows_of_previous,
    without_absent_joins,
)
from skein_recall.search.statements import (
    COMPARE_AND_READ_SHORTLIST,
    MAX_PENDING,
    NEAREST_AND_READ,
    ROW_TESTS,
    RowTest,
    SearchStatements,
    mean_direction,
    shortlist_values,
)
from skein_recall.vector_cache.item_ids import to_uuids, unpack_ids
from skein_recall.vector_cache.matrix import Shortlist
from skein_recall.vector_cache.quantization import cosines as quantized_cosines
from skein_recall.vector_cache.store import ChunkVectors, row_type

if TYPE_CHECKING:
    from skein_recall.search.model import ItemRow

# The first terms of a query, which are searched. A text of Chinese has two for each letter.
_MAX_TERMS = 200
# Postings per item up to which a term's list is read whole to measure items, each with about one neighbour: eight
# postings cost as much as one lookup. A list beyond MAX_COUNTED may be longer than known.
_POSTINGS_PER_LOOKUP = 16
# Terms of one range that are compared with a term without a document: one step of the index each.
_MAX_RANGE_TERMS = 1500
# Items whose vectors are read at once: half a megabyte to two.
_VECTORS_PER_STATEMENT = 500
# Titles of sessions that may have a term.
_MAX_TITLES = 1000
# Weight of a name in the memory that it means: a text of the name alone, the alias, must not make it irrelevant.
_NAMED_WEIGHT = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class NewVectors:
    """The vectors of a transaction and later ones, up to `max_count`, compared with another vector."""

    # float32 (dimensions,).
    vector: NDArray[np.float32]
    horizon: int
    max_count: int


class QueryStore:
    """The search index of one cluster."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @asynccontextmanager
    async def transaction(self, tenant_id: UUID, options: SearchOptions) -> AsyncIterator[QueryTransaction]:
        """Begin a transaction that ends with the block. Raises HistoryNotKept where no former rows are kept."""
        tx_options = TxOptions(
            plan_once=not options.is_filtered,
            read_only=True,
            repeatable_read=options.repeatable_read,
            as_of_time=options.as_of_time,
            unseen_times=() if options.pins is None else options.pins.unseen_times,
        )
        async with self._database.transaction(tenant_id, tx_options) as tx:
            yield QueryTransaction(
                tx, tenant_id, plans_each=options.is_filtered, as_of_time=options.as_of_time, pins=options.pins
            )


class QueryTransaction(SearchStatements):
    """One transaction that finds and reads items of one tenant."""

    def __init__(
        self,
        tx: Transaction,
        tenant_id: UUID,
        *,
        plans_each: bool,
        as_of_time: datetime | None = None,
        pins: SearchPins | None = None,
    ) -> None:
        """`plans_each`: the transaction begins by planning each statement for its values.

        `as_of_time` is the transaction's; None: it reads the present. A replay counts terms as its `pins` do.
        """
        self.pins = pins
        super().__init__(tx, tenant_id, plans_each=plans_each, as_of_time=as_of_time)
        # Documents of a term that a query counts itself. As of a time, frequencies are counts already, of any term.
        self._max_counted = MAX_COUNTED if as_of_time is None else 0
        self._scan_budget: ScanBudget | None = None
        # Near terms of terms without a document, with their distance.
        self._near_terms: dict[str, tuple[int, list[str]]] = {}

    async def nearest(
        self,
        model: EmbeddingModel,
        vector: NDArray[np.float32],
        kinds: Sequence[str],
        filter_: Filter,
        *,
        chunks: int,
    ) -> list[asyncpg.Record]:
        """Return the chunks nearest to a vector (dimensions,), the nearest first: item_id, kind, distance.

        The distance is minus the cosine, over the dimensions that the index covers.
        """
        values = {"vector": HalfVector(vector[:COVERED_DIMENSIONS]), "kinds": list(kinds), "count": chunks}
        if not filter_.has_index_conditions:
            return await self._rows(for_table(QUERIES["nearest"], model.table_name), **values)
        return await self._filtered_rows(for_table(QUERIES["nearest_filtered"], model.table_name), filter_, **values)

    async def nearest_and_read(
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
        """Return `nearest` without a filter, with the `first` memories in the rows of their nearest chunks."""
        rows = await self._rows(
            for_table(NEAREST_AND_READ, model.table_name),
            vector=HalfVector(vector[:COVERED_DIMENSIONS]),
            kinds=list(kinds),
            count=chunks,
            first=first,
            at=at,
            show_superseded=show_superseded,
        )
        return sorted(rows, key=itemgetter("distance"))

    async def compare_shortlist(
        self, model: EmbeddingModel, vector: NDArray[np.float32], shortlist: Shortlist
    ) -> list[asyncpg.Record]:
        """Compare the items of a shortlist, and up to its `max_new` newer chunks, with a vector (dimensions,).

        Return chunks, the nearest first: item_id, kind, distance, is_new, and the server's start time. The distance is
        minus the cosine over all dimensions. Without chunks there is one row without an item.
        """
        return await self._rows(
            for_table(QUERIES["compare_shortlist"], model.table_name),
            **shortlist_values(shortlist, vector),
            server_start=await self._read_server_start(),
        )

    async def compare_and_read_shortlist(
        self,
        model: EmbeddingModel,
        vector: NDArray[np.float32],
        shortlist: Shortlist,
        at: datetime,
        *,
        first: int,
        show_superseded: bool,
    ) -> list[asyncpg.Record]:
        """Return `compare_shortlist`, with the memories among the `first` items in the rows of their first chunks."""
        rows = await self._rows(
            for_table(COMPARE_AND_READ_SHORTLIST, model.table_name),
            **shortlist_values(shortlist, vector),
            server_start=await self._read_server_start(),
            shown_ids=shortlist.item_ids[:first],
            at=at,
            show_superseded=show_superseded,
        )
        return sorted(rows, key=itemgetter("distance"))

    async def filter_ids(self, filter_: Filter, kinds: Sequence[str], max_count: int) -> NDArray[np.uint64] | None:
        """Return the ids (n, 2) of the items that pass the conditions that the index can test.

        None when they are more than `max_count`.
        """
        (row,) = await self._filtered_rows(QUERIES["filter_ids"], filter_, kinds=list(kinds), count=max_count + 1)
        ids = unpack_ids(row["item_ids"] or b"")
        return None if len(ids) > max_count else ids

    async def filter_candidates(
        self, filter_: Filter, kinds: Sequence[str], item_ids: Sequence[UUID]
    ) -> NDArray[np.uint64]:
        """Return the ids (n, 2) of those of some items that pass the conditions that the index can test."""
        (row,) = await self._filtered_rows(
            QUERIES["filter_candidates"], filter_, kinds=list(kinds), item_ids=list(item_ids)
        )
        return unpack_ids(row["item_ids"] or b"")

    async def nearest_exact(
        self,
        model: EmbeddingModel,
        vector: NDArray[np.float32],
        kinds: Sequence[str],
        filter_: Filter,
        *,
        count: int,
    ) -> dict[UUID, float]:
        """Return the items nearest to a vector (dimensions,) with their cosines, the nearest first.

        All items that pass the filter are compared over all dimensions.
        """
        columns = vector_columns(vector)
        rows = await self._filtered_rows(
            for_table(QUERIES["nearest_exact"], model.table_name),
            filter_,
            vector=columns["embedding"],
            rest=columns["rest"],
            kinds=list(kinds),
            count=count,
        )
        return {row["item_id"]: row["similarity"] for row in rows}

    async def similarities(
        self, model: EmbeddingModel, vector: NDArray[np.float32], item_ids: Collection[UUID]
    ) -> dict[UUID, float]:
        """Return the cosine of a vector (dimensions,) and each item's best chunk; some items have no vector.

        The database computes it, as in the order of the index.
        """
        if not item_ids:
            return {}
        columns = vector_columns(vector)
        rows = await self._rows(
            for_table(QUERIES["similarities"], model.table_name),
            item_ids=list(item_ids),
            vector=columns["embedding"],
            rest=columns["rest"],
        )
        return {row["item_id"]: row["similarity"] for row in rows}

    async def quantized_similarities(
        self, model: EmbeddingModel, vector: NDArray[np.float32], item_ids: Collection[UUID]
    ) -> dict[UUID, float]:
        """Return the cosine of a vector (dimensions,) and each item's best chunk, to the bit that of the vector cache.

        Some items have no vector.
        """
        query = for_table(QUERIES["vectors_of_items"], model.table_name)
        similarities: dict[UUID, float] = {}
        remaining = iter(item_ids)
        while batch := list(islice(remaining, _VECTORS_PER_STATEMENT)):
            (row,) = await self._rows(query, item_ids=batch)
            chunks = ChunkVectors.of(np.frombuffer(row["chunks"] or b"", dtype=row_type(model.dimensions)))
            computed = quantized_cosines(vector, chunks.vectors).tolist()
            for item_id, cosine in zip(to_uuids(chunks.ids), computed, strict=True):
                similarities[item_id] = max(cosine, similarities.get(item_id, cosine))
        return similarities

    async def tokens_of_items(
        self, model: EmbeddingModel, vector: NDArray[np.float32], item_ids: Sequence[UUID]
    ) -> dict[UUID, NDArray[np.int8]]:
        """Return the codes (tokens, 32) of items, of each one's chunk that is nearest to a vector (dimensions,).

        Some items have none.
        """
        rows = await self._rows(
            for_table(QUERIES["tokens_of_items"], model.table_name),
            item_ids=list(item_ids),
            vector=HalfVector(vector[:COVERED_DIMENSIONS]),
        )
        return {row["item_id"]: unpack(row["tokens"]) for row in rows}

    async def terms(
        self,
        text: str,
        kinds: Sequence[str],
        language: str,
        mentions: Sequence[ReadMention] = (),
        *,
        is_typo: Callable[[str], bool] | None = None,
    ) -> QueryTerms:
        """Split a query into its terms, each with its readings: the other names of `mentions`, or near terms of a typo.

        A term that no document has is a typo if `is_typo` says so.
        """
        rows = await self._rows(
            QUERIES["query_terms"],
            words=segment(text),
            kinds=list(kinds),
            language=language,
            terms=_MAX_TERMS,
            most=self._max_counted,
        )
        if not rows:
            return NO_TERMS
        documents, length = rows[0]["corpus_documents"], rows[0]["corpus_length"]
        counts = without_absent_joins({row["term"]: row["documents"] for row in rows}, text)
        near = await self.near_terms(counts, is_typo) if is_typo is not None else {}
        if not near and not mentions and self.pins is None:
            return QueryTerms.of_counts(counts, documents, length)
        own_terms, names = list(counts), names_by_term(counts, mentions)
        counts |= await self._count_terms(reading_parts(names, near) - counts.keys(), kinds)
        query_terms = QueryTerms.with_readings(own_terms, counts, documents, length, names, near, mentions)
        if self.pins is None or len(self.pins.term_documents) != len(query_terms.counts):
            return query_terms
        # The worker counts frequent terms later, so the counts of then are not those of the documents of then.
        counts |= zip(sorted(query_terms.counts), self.pins.term_documents, strict=True)
        documents, length = self.pins.corpus_documents, self.pins.corpus_length
        return QueryTerms.with_readings(own_terms, counts, documents, length, names, near, mentions)

    async def near_terms(
        self, counts: Mapping[str, int], is_typo: Callable[[str], bool]
    ) -> dict[str, tuple[int, list[str]]]:
        """Return near terms, with their distance, of the first typos among the terms without a document."""
        typos = (term for term, count in counts.items() if not count and max_distance(term) and is_typo(term))
        unknown = list(islice(typos, MAX_CORRECTED_TERMS))
        ranges = [NearRange.of(term) for term in unknown if term not in self._near_terms]
        if ranges:
            doubled = [(ordinal, range_) for ordinal, range_ in enumerate(ranges) for _ in range_.bounds]
            rows = await self._rows(
                QUERIES["near_terms"],
                ordinals=[ordinal for ordinal, _ in doubled],
                starts=[first for range_ in ranges for first, _ in range_.bounds],
                ends=[beyond for range_ in ranges for _, beyond in range_.bounds],
                shortest=[range_.lengths[0] for _, range_ in doubled],
                longest=[range_.lengths[1] for _, range_ in doubled],
                guess_ordinals=[ordinal for ordinal, range_ in enumerate(ranges) for _ in range_.guesses],
                guesses=[guess for range_ in ranges for guess in range_.guesses],
                most=_MAX_RANGE_TERMS,
            )
            for ordinal, range_ in enumerate(ranges):
                known = [row["term"] for row in rows if row["ordinal"] == ordinal]
                self._near_terms[range_.term] = near_terms(range_.term, known)
        near = {term: self._near_terms[term] for term in unknown}
        return {term: (edits, others) for term, (edits, others) in near.items() if others}

    async def _count_terms(self, terms: Iterable[str], kinds: Sequence[str]) -> dict[str, int]:
        """Return the number of documents of each of some terms."""
        counted = sorted(terms)
        if not counted:
            return {}
        rows = await self._rows(QUERIES["count_terms"], terms=counted, kinds=list(kinds), most=self._max_counted)
        return {row["term"]: row["documents"] for row in rows}

    async def match_terms(
        self, terms: QueryTerms, kinds: Sequence[str], filter_: Filter, *, count: int, min_items: int
    ) -> list[asyncpg.Record]:
        """Return up to `count` best items for a query's rarest terms, best first: item_id, bm25.

        More terms are read while these find fewer than `min_items`.
        """
        rows: list[asyncpg.Record] = []
        for attempt in terms.attempts():
            weights = terms.index_weights(attempt)
            values = {
                "terms": list(weights),
                "idfs": list(weights.values()),
                "per_stem": K1 * B / terms.mean_length,
                "kinds": list(kinds),
                "count": count,
            }
            if filter_.has_index_conditions:
                rows = await self._filtered_rows(QUERIES["match_terms_filtered"], filter_, **values)
            else:
                rows = await self._rows(QUERIES["match_terms"], **values)
            if len(rows) >= min_items:
                break
        return rows

    async def measure(
        self,
        terms: QueryTerms,
        kinds: Sequence[str],
        item_ids: Iterable[UUID],
        centres: Iterable[UUID],
        *,
        reach: int,
        horizon: int | None = None,
    ) -> ItemMeasurements:
        """Measure items, and their neighbours: those of the same session, up to `reach` before and after `centres`.

        Items whose document was written by the transaction `horizon` or a later one count as changed; without it none
        do.
        """
        measured_ids = list(item_ids)
        max_postings = min(MAX_COUNTED, _POSTINGS_PER_LOOKUP * len(measured_ids))
        (row,) = await self._rows(
            QUERIES["measure_items"],
            item_ids=measured_ids,
            centres=list(centres),
            kinds=list(kinds),
            terms=list(terms.counts),
            reach=reach,
            titles=_MAX_TITLES,
            most_pending=MAX_PENDING,
            horizon=horizon,
            rare=sum(count < max_postings for count in terms.counts.values()),
        )
        ids = row["item_ids"] or []
        counts, header_counts = np.zeros((2, len(ids), len(terms.counts)))
        row_of = dict(zip(ids, range(len(ids)), strict=True))
        if row["posting_items"]:
            cells = np.array([row_of[id_] for id_ in row["posting_items"]]), np.array(row["posting_terms"]) - 1
            counts[cells] = row["posting_counts"]
            header_counts[cells] = row["header_counts"]
        if row["titled_items"]:
            cells = np.array(row["titled_items"]) - 1, np.array(row["titled_terms"]) - 1
            header_counts[cells] += TITLE_WEIGHT
        for column, term in enumerate(terms.counts):
            rows = [row_of[item_id] for item_id in terms.entities.get(term, ()) if item_id in row_of]
            header_counts[rows, column] += _NAMED_WEIGHT
        frequencies = terms.frequencies(counts)
        return ItemMeasurements(
            item_ids=ids,
            kinds=row["kinds"] or [],
            lengths=np.array(row["lengths"] or (), dtype=np.float64),
            is_question=np.array(row["is_question"] or (), dtype=np.bool_),
            is_assistant=np.array(row["is_assistant"] or (), dtype=np.bool_),
            mentions_time=np.array(row["mentions_time"] or (), dtype=np.bool_),
            changed=np.array(row["changed"] or (), dtype=np.bool_),
            frequencies=frequencies,
            # Of a name, some words may be in the text and the others in the header.
            header_frequencies=terms.frequencies(counts + header_counts) - frequencies,
            corrected=corrected_items(terms, ids, counts + header_counts),
            previous=rows_of_previous(ids, dict(zip(row["followers"] or (), row["previous"] or (), strict=True))),
            pending_count=row["pending_count"],
        )

    async def read_search_state(
        self,
        model: EmbeddingModel,
        text: str,
        kinds: Sequence[str],
        language: str,
        *,
        horizon: int,
        max_changed: int,
        new_vectors: NewVectors | None,
    ) -> asyncpg.Record:
        """Return the terms of a query, what proves the cached documents of its tenant, and the cosines of new vectors.

        Changed documents are those of the transaction `horizon` and later ones, up to one more than `max_changed`.
        """
        columns = {"embedding": None, "rest": None} if new_vectors is None else vector_columns(new_vectors.vector)
        (row,) = await self._rows(
            for_table(QUERIES["read_search_state"], model.table_name),
            words=segment(text),
            kinds=list(kinds),
            language=language,
            terms=_MAX_TERMS,
            titles=_MAX_TITLES,
            horizon=horizon,
            most_changed=max_changed + 1,
            vector=columns["embedding"],
            rest=columns["rest"],
            server_start=await self._read_server_start(),
            vector_horizon=0 if new_vectors is None else new_vectors.horizon,
            most_vectors=0 if new_vectors is None else new_vectors.max_count,
            most_pending=MAX_PENDING,
        )
        return row

    async def read_documents_with_postings(self, item_ids: Iterable[UUID]) -> list[asyncpg.Record]:
        """Return documents as searches measure them, with their postings."""
        await self._plan_each()
        return await self._read(QUERIES["read_documents_with_postings"], item_ids=list(item_ids))

    async def filter_items(self, item_ids: Iterable[UUID], tests: Mapping[str, Expression | None]) -> set[UUID]:
        """Return the items that pass the test of their kind: None for a kind whose items all pass.

        Items of other kinds are left out. Raises ReadTooCostly when the tests would scan more than one call, or the
        tenant, may.
        """
        remaining = list(item_ids)
        passing: set[UUID] = set()
        for kind, test in tests.items():
            passing |= await self._filter_rows(ROW_TESTS[kind], remaining, test)
            remaining = [item_id for item_id in remaining if item_id not in passing]
        return passing

    async def _filter_rows(self, test: RowTest, item_ids: list[UUID], where: Expression | None) -> set[UUID]:
        """Return the items that have a row in the table, if it passes a condition."""
        condition, scanned = compile_to_sql(where, test.table), scan_cost.scan_cost_sql(where, test.table)
        values = {"item_ids": item_ids, **condition.values}
        if not scanned:
            rows = await self._rows(with_condition(test.filter_query, condition.text), **values)
            return {row["item_id"] for row in rows}
        if self._scan_budget is None:
            self._scan_budget = self._tx.database.scan_buckets.begin(self._tenant_id)
        query = scan_cost.with_scan_budget(test.scan_query, scanned)
        values["scan_bytes"] = max(1, self._scan_budget.remaining)
        rows = await self._scan_budget.run_and_charge(self._rows(with_condition(query, condition.text), **values))
        if any(row["passes"] is None for row in rows):
            raise ReadTooCostly
        return {row["item_id"] for row in rows if row["passes"]}

    async def items(self, kinds: Mapping[UUID, str], at: datetime, *, show_superseded: bool) -> dict[UUID, ItemRow]:
        """Read the rows of items, named with their kinds; those that may not be recalled any more are missing.

        Their `trust` is None where no source is rated.
        """
        memory_ids = [item_id for item_id, kind in kinds.items() if kind == "memory"]
        message_ids = [item_id for item_id, kind in kinds.items() if kind == "message"]
        items: dict[UUID, ItemRow] = {}
        if memory_ids:
            rows = await self._rows(
                QUERIES["get_memories"],
                memory_ids=memory_ids,
                at=at,
                show_superseded=show_superseded,
            )
            items.update((row["memory_id"], row) for row in rows)
        if message_ids:
            rows = await self._rows(QUERIES["get_messages"], message_ids=message_ids)
            items.update((row["message_id"], row) for row in rows)
            items.update(await self._with_trust(row for row in rows if row["has_ratings"]))
        return items

    async def _with_trust(self, rows: Iterable[asyncpg.Record]) -> dict[UUID, ItemRow]:
        """Return those of some messages that have a rated author, each with its trust."""
        authors = [(row, MessageAuthors.of_row(row)) for row in rows]
        source_keys = sorted({key for _, of_row in authors for key in of_row.keys})
        if not source_keys:
            return {}
        rated = await self._rows(QUERIES["read_ratings"], source_keys=source_keys)
        ratings = {row["source_key"]: row["trust"] for row in rated}
        return {
            row["message_id"]: dict(row) | {"trust": of_row.trust(ratings)}
            for row, of_row in authors
            if not ratings.keys().isdisjoint(of_row.keys)
        }

    async def find_item_id(self, external_id: str, kind: str) -> UUID | None:
        """Return the id of the memory or message with an external id."""
        rows = await self._rows(QUERIES["document_of_external_id"], external_id=external_id, kind=kind)
        return rows[0]["item_id"] if rows else None

    async def read_reference_item(self, model: EmbeddingModel, item_id: UUID, at: datetime) -> ReferenceItem | None:
        """Read an item's text and the mean of its vectors; None where it may not be recalled."""
        rows = await self._rows(for_table(QUERIES["item_vectors"], model.table_name), item_id=item_id)
        kind = rows[0]["kind"] if rows else ""
        if not kind or item_id not in await self.items({item_id: kind}, at, show_superseded=True):
            return None
        (text,) = await self._rows(QUERIES[f"{kind}_texts"], **{f"{kind}_ids": [item_id]})
        chunks = [read_vector(row["embedding"], row["rest"]) for row in rows if row["embedding"] is not None]
        return ReferenceItem(item_id=item_id, text=text["text"], vector=mean_direction(chunks))
