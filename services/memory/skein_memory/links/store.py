"""Links in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from skein_kit.errors import DuplicateInBatch
from skein_kit.ids import new_ids
from skein_memory.errors import LinkExists, LinkNotFound, MemoryNotFound
from skein_memory.links import rows as link_rows
from skein_memory.links.model import Link
from skein_memory.memories import names
from skein_memory.queries import QUERIES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import asyncpg

    from skein_kit.database.transactions import Database, Transaction
    from skein_kit.quotas.store import QuotaCounter
    from skein_memory.links.model import LinkDraft, LinkFilter

_AFTER_ALL = UUID(int=(1 << 128) - 1)


class LinkStore:
    """Reads and writes links."""

    def __init__(self, database: Database, quotas: QuotaCounter) -> None:
        self._database = database
        self._quotas = quotas

    async def create_links(
        self, tx: Transaction, tenant_id: UUID, drafts: Sequence[LinkDraft], *, at: datetime, by: str
    ) -> list[Link]:
        """Store links, all or none.

        Raises MemoryNotFound, LinkToItself, LinkExists and, of two for one pair and relation, DuplicateInBatch, each
        with the "index" of the link when there are several; and QuotaExceeded.
        """
        ends = await _ends(tx, tenant_id, drafts, at=at)
        links: list[Link] = []
        seen_pairs: dict[tuple[UUID, UUID, str], int | None] = {}
        # The later in a batch is the newer.
        for index, (draft, link_id) in enumerate(zip(drafts, new_ids(at, len(drafts)), strict=True)):
            batch_index = index if len(drafts) > 1 else None
            if not ends.keys() >= {draft.from_name, draft.to_name}:
                raise MemoryNotFound(index=batch_index)
            start, end = ends[draft.from_name], ends[draft.to_name]
            link = draft.between(start, end, at=at, by=by, link_id=link_id, index=batch_index)
            if link.pair in seen_pairs:
                raise DuplicateInBatch(index=batch_index)
            seen_pairs[link.pair] = batch_index
            links.append(link)
        new = await link_rows.insert(tx, tenant_id, links, at=at, by=by)
        if len(new) < len(links):
            existing = next(link for link in links if link not in new)
            raise LinkExists(index=seen_pairs[existing.pair])
        await self._quotas.charge(tx, tenant_id, {"links": len(links)})
        return links

    async def upsert_link(
        self,
        tx: Transaction,
        tenant_id: UUID,
        draft: LinkDraft,
        *,
        either_direction: bool,
        at: datetime,
        by: str,
    ) -> tuple[Link, bool]:
        """Store a link or change the one that its pair and relation have; return it, and whether it is new.

        With `either_direction` a link that leads the other way is the pair's, too.
        Raises MemoryNotFound, LinkToItself and QuotaExceeded.
        """
        ends = await names.find_visible(tx, tenant_id, [draft.from_name, draft.to_name], at=at)
        link = draft.between(ends[draft.from_name], ends[draft.to_name], at=at, by=by)
        if either_direction:
            # A concurrent upsert in the other direction waits here.
            both = sorted((link.from_memory_id, link.to_memory_id))
            await tx.rows(QUERIES["lock_memories"], tenant_id=tenant_id, memory_ids=both)
        before = await _find_link(tx, tenant_id, link, either_direction=either_direction)
        while before is None:
            if await link_rows.insert(tx, tenant_id, [link], at=at, by=by):
                break
            # Another transaction was first, and may have deleted the link since.
            before = await _find_link(tx, tenant_id, link, either_direction=either_direction)
        if before is not None and (after := before.revise(draft, at=at, by=by)) is not before:
            await link_rows.replace(tx, tenant_id, before, after)
        await self._quotas.charge(tx, tenant_id, {"links": int(before is None)})
        return (link, True) if before is None else (after, False)

    async def lock_link(self, tx: Transaction, tenant_id: UUID, link_id: UUID, *, at: datetime) -> Link:
        """Read a link and lock it. Raises LinkNotFound, also when one of its memories has expired."""
        link = await link_rows.lock_link(tx, tenant_id, link_id)
        await _check_ends(tx, tenant_id, link, at=at)
        return link

    async def update_link(self, tx: Transaction, tenant_id: UUID, before: Link, after: Link) -> None:
        """Store the next revision of a locked link, unless `after` is `before`. Raises LinkExists."""
        if after is not before:
            await link_rows.replace(tx, tenant_id, before, after)

    async def delete_link(
        self, tx: Transaction, tenant_id: UUID, link_id: UUID, *, revision: int, at: datetime, by: str
    ) -> None:
        """Remove a link. Raises LinkNotFound and RevisionStale."""
        removed = await link_rows.remove(tx, tenant_id, [link_id], at=at, by=by)
        if not removed:
            raise LinkNotFound
        removed[0].check_revision(revision)
        await self._quotas.charge(tx, tenant_id, {"links": -1})

    async def get_link(self, tenant_id: UUID, link_id: UUID, *, at: datetime) -> Link:
        """Read a link. Raises LinkNotFound, also when one of its memories has expired."""
        async with self._database.transaction(tenant_id) as tx:
            links = await link_rows.read_links(tx, tenant_id, [link_id])
            if link_id not in links:
                raise LinkNotFound
            await _check_ends(tx, tenant_id, links[link_id], at=at)
        return links[link_id]

    async def list_links(
        self,
        tenant_id: UUID,
        name: str,
        link_filter: LinkFilter,
        *,
        before: UUID | None,
        count: int,
        at: datetime,
        as_of_time: datetime | None = None,
    ) -> list[Link]:
        """Read up to `count` links of a memory that are older than `before`, newest first.

        With `as_of_time` as they were at that time. Raises MemoryNotFound.
        """
        last = before or _AFTER_ALL
        query, values = QUERIES["list_links"], {}
        if as_of_time is not None:
            query, values = QUERIES["list_links_as_of"], {"at": as_of_time}
        links: list[asyncpg.Record] = []
        async with self._database.transaction(tenant_id) as tx:
            memory_id = (await names.find_visible(tx, tenant_id, [name], at=as_of_time or at))[name]
            while len(links) < count:
                rows = await tx.rows(
                    query,
                    tenant_id=tenant_id,
                    memory_id=memory_id,
                    before_id=last,
                    outgoing=link_filter.outgoing,
                    incoming=link_filter.incoming,
                    relations=link_filter.relations,
                    min_weight=link_filter.min_weight,
                    count=count,
                    **values,
                )
                links += await _alive(tx, tenant_id, rows, at=as_of_time or at)
                if len(rows) < count:
                    break
                last = rows[-1]["link_id"]
        return [Link(**dict(row)) for row in links[:count]]


async def _ends(tx: Transaction, tenant_id: UUID, drafts: Sequence[LinkDraft], *, at: datetime) -> dict[str, UUID]:
    memory_names = [name for draft in drafts for name in (draft.from_name, draft.to_name)]
    rows = await names.read_by_names(tx, QUERIES["find_visible"], tenant_id, memory_names, at=at)
    return {name: row["memory_id"] for name, row in rows.items()}


async def _find_link(tx: Transaction, tenant_id: UUID, link: Link, *, either_direction: bool) -> Link | None:
    """Return the locked link that the pair and relation of a new one have; None when there is none."""
    pairs = [link.pair]
    if either_direction:
        pairs.append((link.to_memory_id, link.from_memory_id, link.relation))
    existing = await link_rows.find_link_ids(tx, tenant_id, pairs)
    for pair in pairs:
        row = (
            await tx.row(QUERIES["lock_link"], tenant_id=tenant_id, link_id=existing[pair])
            if pair in existing
            else None
        )
        # A concurrent change may have given it another relation.
        if row is not None and row["relation"] == link.relation:
            return Link(**dict(row))
    return None


async def _check_ends(tx: Transaction, tenant_id: UUID, link: Link, *, at: datetime) -> None:
    """Reject a link of an expired memory as if it were not there. Raises LinkNotFound."""
    if await names.find_expired(tx, tenant_id, [link.from_memory_id, link.to_memory_id], at=at):
        raise LinkNotFound


async def _alive(
    tx: Transaction, tenant_id: UUID, links: list[asyncpg.Record], *, at: datetime
) -> list[asyncpg.Record]:
    """Leave out links to deleted and expired memories. Ids are values: a join would plan every month."""
    if not links:
        return []
    ends = {row[end] for row in links for end in ("from_memory_id", "to_memory_id")}
    rows = await tx.rows(QUERIES["find_visible"], tenant_id=tenant_id, memory_ids=list(ends), at=at)
    active = {row["memory_id"] for row in rows}
    return [row for row in links if row["from_memory_id"] in active and row["to_memory_id"] in active]
