"""Pages in the database, and the memories that answer one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from uuid import UUID

import asyncpg
from prometheus_client import Histogram

from skein_kit.database.transactions import Database, Transaction
from skein_kit.idempotency.store import LIFETIME
from skein_kit.ids import parse_id
from skein_kit.quotas.store import QuotaCounter
from skein_memory.errors import PageNotFound
from skein_memory.events import writer
from skein_memory.events.model import Event
from skein_memory.lineage import store as lineage
from skein_memory.lineage.model import TrustCalculator
from skein_memory.listing import store as listing
from skein_memory.listing.filter import Filter
from skein_memory.memories import names, oldest
from skein_memory.memories.model import Memory
from skein_memory.pages.model import PROFILE_TYPES
from skein_memory.queries import QUERIES
from skein_memory.scoring.model import NEUTRAL_TRUST
from skein_memory.tenant_reader import TenantReader

# Of an entity: links of each of its names in each direction, aliases, and the newest memories of all these.
_MAX_LINKS, _MAX_ALIASES, _MAX_LINKED = 200, 20, 1000
_FIRST = UUID(int=0)

PAGE_LAG = Histogram(
    "skein_page_lag_seconds",
    "How old the state that a page shows is when it is composed: what was committed since is not in it.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredPage:
    """A page without its answer."""

    page_id: UUID
    subject_id: str | None
    entity_memory_id: UUID | None
    is_pinned: bool
    # Title, filter and sections, as JSON text.
    question: str
    revision: int
    create_time: datetime
    update_time: datetime
    created_by: str
    updated_by: str


class PageStore:
    """Reads and writes pages."""

    def __init__(self, database: Database, quotas: QuotaCounter) -> None:
        self._database = database
        self._quotas = quotas

    async def create_page(self, tx: Transaction, tenant_id: UUID, page: StoredPage) -> None:
        """Store a page. Raises QuotaExceeded."""
        await tx.execute(QUERIES["insert_page"], tenant_id=tenant_id, **asdict(page))
        await _record(tx, tenant_id, "page_created", [page.page_id], at=page.create_time, by=page.created_by)
        await self._quotas.charge(tx, tenant_id, {"pages": 1})

    async def get_page(self, tenant_id: UUID, page_id: str) -> StoredPage:
        """Read a page. Raises PageNotFound."""
        async with self._database.transaction(tenant_id) as tx:
            return await _read(tx, tenant_id, page_id, query="get_page")

    async def lock_page(self, tx: Transaction, tenant_id: UUID, page_id: str) -> StoredPage:
        """Read a page and lock it. Raises PageNotFound."""
        return await _read(tx, tenant_id, page_id, query="lock_page")

    async def find_entity(self, tx: Transaction, tenant_id: UUID, name: str, *, at: datetime) -> UUID | None:
        """Return the memory of a name; None for an empty one. Raises MemoryNotFound."""
        return (await names.find_visible(tx, tenant_id, [name], at=at))[name] if name else None

    async def list_pages(self, tenant_id: UUID, *, is_pinned: bool, after: UUID | None, count: int) -> list[StoredPage]:
        """Read up to `count` pages that are pinned, or not, in the order of their ids, after the id `after`."""
        async with self._database.transaction(tenant_id) as tx:
            rows = await tx.rows(
                QUERIES["list_pages"], tenant_id=tenant_id, is_pinned=is_pinned, after_id=after or _FIRST, count=count
            )
        return [_page_of(row) for row in rows]

    async def list_profiles(self, tenant_id: UUID, *, after: str, count: int, at: datetime) -> list[str]:
        """Read up to `count` subjects with facts in the order of their ids, after the id `after`."""
        async with self._database.transaction(tenant_id) as tx:
            rows = await tx.rows(
                QUERIES["list_profiles"],
                tenant_id=tenant_id,
                after_id=after,
                before_first_id=await oldest.skip_empty_months(tx, tenant_id, UUID(int=0)),
                count=count,
                types=PROFILE_TYPES,
                at=at,
            )
        return [row["subject_id"] for row in rows]

    async def update_page(self, tx: Transaction, tenant_id: UUID, page: StoredPage) -> None:
        """Store the next revision of a locked page."""
        columns = {name: value for name, value in asdict(page).items() if name not in {"create_time", "created_by"}}
        await tx.execute(QUERIES["update_page"], tenant_id=tenant_id, **columns)
        await _record(tx, tenant_id, "page_updated", [page.page_id], at=page.update_time, by=page.updated_by)

    async def delete_page(self, tx: Transaction, tenant_id: UUID, page_id: UUID, *, at: datetime, by: str) -> None:
        """Remove a locked page."""
        await tx.execute(QUERIES["delete_page"], tenant_id=tenant_id, page_id=page_id)
        await _record(tx, tenant_id, "page_deleted", [page_id], at=at, by=by)
        await self._quotas.charge(tx, tenant_id, {"pages": -1})

    async def read_answer(
        self,
        tenant_id: UUID,
        filters: Sequence[Filter],
        *,
        counts: Sequence[int],
        entity_memory_id: UUID | None,
        as_of_time: datetime | None,
        at: datetime,
    ) -> tuple[list[list[Memory]], bool]:
        """Read the memories that each filter chooses, up to a count, and that may be shown at this moment.

        A memory is in the first list that has it. Return as well whether some were not read. What the worker
        still has to follow is followed here: superseding links, ratings along the chains of sources, and messages
        that no longer say a fact. Raises NotKnownThen, HistoryNotKept and ReadTooCostly.
        """
        started = time.perf_counter()
        # All statements see one state, and that of the primary, which no replica has yet.
        async with TenantReader.open(
            self._database, tenant_id, at=at, as_of_time=as_of_time, repeatable_read=True
        ) as reader:
            linked_ids: list[UUID] | None = None
            if entity_memory_id is not None:
                rows = await reader.rows(
                    "list_entity_memories",
                    memory_id=entity_memory_id,
                    link_count=_MAX_LINKS,
                    alias_count=_MAX_ALIASES,
                    count=_MAX_LINKED,
                )
                linked_ids = [row["memory_id"] for row in rows]
            section_ids: list[list[UUID]] = []
            seen, is_truncated = set[UUID](), linked_ids is not None and len(linked_ids) == _MAX_LINKED
            for filter_, count in zip(filters, counts, strict=True):
                if linked_ids is None:
                    found = await listing.find(reader.tx, tenant_id, filter_, after=None, count=count, at=at)
                else:
                    found = await listing.filter_ids(
                        reader.tx, tenant_id, filter_, linked_ids, after=None, count=count, at=at
                    )
                is_truncated |= found.after is not None
                section_ids.append([id_ for id_ in found.memory_ids if id_ not in seen])
                seen.update(found.memory_ids)
            memory_ids = [id_ for ids in section_ids for id_ in ids]
            memories = {
                memory.memory_id: memory for memory in await listing.read(reader.tx, tenant_id, memory_ids, as_of_time)
            }
            for id_ in await _hidden_ids(reader, list(memories.values())):
                del memories[id_]
        PAGE_LAG.observe(time.perf_counter() - started)
        return [[memories[id_] for id_ in ids if id_ in memories] for ids in section_ids], is_truncated


async def purge_pages(
    tx: Transaction, tenant_id: UUID, subject_id: str | None, memory_ids: Sequence[UUID], *, at: datetime, by: str
) -> dict[str, int]:
    """Remove the pages about a subject and about some entities, and saved responses with them; return rows by table."""
    rows = await tx.rows(
        QUERIES["purge_pages"], tenant_id=tenant_id, subject_id=subject_id, memory_ids=list(memory_ids)
    )
    page_ids = [row["page_id"] for row in rows]
    if not page_ids:
        return {}
    cleared_count = await tx.execute(
        QUERIES["clear_block_responses"],
        tenant_id=tenant_id,
        since_time=at - LIFETIME,
        names=[str(page_id).encode() for page_id in page_ids],
    )
    await _record(tx, tenant_id, "page_deleted", page_ids, at=at, by=by)
    return {"memory.pages": len(page_ids), "memory.requests": cleared_count}


async def _hidden_ids(reader: TenantReader, memories: Sequence[Memory]) -> set[UUID]:
    """Return which memories are superseded, distrusted, or no longer said by their messages."""
    ids = [memory.memory_id for memory in memories]
    if not ids:
        return set()
    hidden = {row["memory_id"] for row in await reader.rows("find_superseded", memory_ids=ids, at=reader.at)}
    if extracted_ids := [memory.memory_id for memory in memories if memory.is_extracted]:
        hidden |= {row["memory_id"] for row in await reader.rows("find_unsaid", memory_ids=extracted_ids)}
    is_as_of = reader.as_of_time is not None
    # The stored trust counts too: of a chain into cold storage the worker knows more than can be read here.
    hidden |= await lineage.find_distrusted(reader.tx, reader.tenant_id, ids, is_as_of=is_as_of)
    read = await lineage.read_lineage(reader.tx, reader.tenant_id, ids, at=reader.at, is_as_of=is_as_of)
    calculator = TrustCalculator(read.graph)
    return hidden | {id_ for id_ in ids if calculator.trust(("memory", id_)) < NEUTRAL_TRUST}


async def _read(tx: Transaction, tenant_id: UUID, page_id: str, *, query: str) -> StoredPage:
    id_ = parse_id(page_id)
    row = None if id_ is None else await tx.row(QUERIES[query], tenant_id=tenant_id, page_id=id_)
    if row is None:
        raise PageNotFound
    return _page_of(row)


def _page_of(row: asyncpg.Record) -> StoredPage:
    return StoredPage(**{field.name: row[field.name] for field in fields(StoredPage)})


async def _record(
    tx: Transaction, tenant_id: UUID, kind: str, page_ids: Sequence[UUID], *, at: datetime, by: str
) -> None:
    events = [
        Event(type=kind, entity_type="page", entity_id=str(page_id), summary=kind.replace("_", " "))
        for page_id in page_ids
    ]
    await writer.insert_events(tx, tenant_id, events, at=at, by=by)
