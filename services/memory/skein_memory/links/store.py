"""Links in the database.

Every change of a link goes through `insert`, `replace` and `remove`; the caller counts them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from dataclasses import replace as but
from datetime import datetime
from uuid import UUID

import asyncpg

from skein_kit.calls.call import current_space_ids
from skein_kit.database.transactions import Database, Transaction, translate_constraint_errors
from skein_kit.errors import DuplicateInBatch
from skein_kit.ids import new_ids
from skein_kit.quotas.store import QuotaCounter
from skein_memory.errors import LinkExists, LinkNotFound, MemoryNotFound
from skein_memory.events import writer
from skein_memory.events.model import time_of_next_record
from skein_memory.events.writer import Revision
from skein_memory.links.model import Link, LinkDraft, LinkFilter, link_event
from skein_memory.memories import names
from skein_memory.queries import QUERIES
from skein_memory.tenant_reader import TenantReader

_AFTER_ALL = UUID(int=(1 << 128) - 1)
_CONTENT_COLUMNS = ("relation", "label", "weight", "metadata")
_CONSTRAINT_ERRORS = {"links_from_fkey": MemoryNotFound, "links_to_fkey": MemoryNotFound}


class LinkStore:
    """Reads and writes links."""

    def __init__(self, database: Database, quotas: QuotaCounter) -> None:
        self._database = database
        self._quotas = quotas

    async def create_links(
        self, tx: Transaction, tenant_id: UUID, drafts: Sequence[LinkDraft], *, at: datetime, by: str
    ) -> list[Link]:
        """Store links, all or none.

        Raises MemoryNotFound, LinkToItself, LinkExists, and DuplicateInBatch for two links of one pair and relation.
        Each has the "index" of the link in a batch of several. Raises QuotaExceeded too.
        """
        memory_ids = await _find_memories(tx, tenant_id, drafts, at=at)
        links: list[Link] = []
        indexes: dict[tuple[UUID, UUID, str], int | None] = {}
        # The later in a batch is the newer.
        for index, (draft, link_id) in enumerate(zip(drafts, new_ids(at, len(drafts)), strict=True)):
            batch_index = index if len(drafts) > 1 else None
            if not memory_ids.keys() >= {draft.from_name, draft.to_name}:
                raise MemoryNotFound(index=batch_index)
            start, end = memory_ids[draft.from_name], memory_ids[draft.to_name]
            link = draft.create_link(start, end, at=at, by=by, link_id=link_id, index=batch_index)
            if link.pair in indexes:
                raise DuplicateInBatch(index=batch_index)
            indexes[link.pair] = batch_index
            links.append(link)
        new_links = await insert(tx, tenant_id, links, at=at, by=by)
        if len(new_links) < len(links):
            existing = next(link for link in links if link not in new_links)
            raise LinkExists(index=indexes[existing.pair])
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
        memory_ids = await names.find_visible(tx, tenant_id, [draft.from_name, draft.to_name], at=at)
        link = draft.create_link(memory_ids[draft.from_name], memory_ids[draft.to_name], at=at, by=by)
        if either_direction:
            # A concurrent upsert in the other direction waits here.
            pair_ids = sorted((link.from_memory_id, link.to_memory_id))
            await tx.rows(QUERIES["lock_memories"], tenant_id=tenant_id, memory_ids=pair_ids)
        before = await _find_link(tx, tenant_id, link, either_direction=either_direction)
        while before is None:
            if await insert(tx, tenant_id, [link], at=at, by=by):
                break
            # Another transaction was first, and may have deleted the link since.
            before = await _find_link(tx, tenant_id, link, either_direction=either_direction)
        if before is not None and (after := before.revise(draft, at=at, by=by)) is not before:
            await replace(tx, tenant_id, before, after)
        await self._quotas.charge(tx, tenant_id, {"links": int(before is None)})
        return (link, True) if before is None else (after, False)

    async def lock_link(self, tx: Transaction, tenant_id: UUID, link_id: UUID, *, at: datetime) -> Link:
        """Read a link and lock it. Raises LinkNotFound, also when one of its memories has expired."""
        link = await lock_link(tx, tenant_id, link_id)
        await _check_shown(tx, tenant_id, link, at=at)
        return link

    async def update_link(self, tx: Transaction, tenant_id: UUID, before: Link, after: Link) -> None:
        """Store the next revision of a locked link, unless `after` is `before`. Raises LinkExists."""
        if after is not before:
            await replace(tx, tenant_id, before, after)

    async def delete_link(
        self, tx: Transaction, tenant_id: UUID, link_id: UUID, *, revision: int, at: datetime, by: str
    ) -> None:
        """Remove a link. Raises LinkNotFound and RevisionStale."""
        links = await remove(tx, tenant_id, [link_id], at=at, by=by)
        if not links:
            raise LinkNotFound
        await _check_shown(tx, tenant_id, links[0], at=at)
        links[0].check_revision(revision)
        await self._quotas.charge(tx, tenant_id, {"links": -1})

    async def get_link(self, tenant_id: UUID, link_id: UUID, *, at: datetime) -> Link:
        """Read a link. Raises LinkNotFound, also when one of its memories has expired."""
        async with self._database.transaction(tenant_id) as tx:
            links = await read_links(tx, tenant_id, [link_id])
            if link_id not in links:
                raise LinkNotFound
            await _check_shown(tx, tenant_id, links[link_id], at=at)
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

        With `as_of_time` as they were at that time. Raises MemoryNotFound, MemoryNotYetKnown and NotKnownThen.
        """
        last = before or _AFTER_ALL
        links: list[asyncpg.Record] = []
        async with TenantReader.open(self._database, tenant_id, at=at, as_of_time=as_of_time) as reader:
            memory_id = (await reader.find_visible([name]))[name]
            while len(links) < count:
                rows = await reader.rows(
                    "list_links",
                    memory_id=memory_id,
                    before_id=last,
                    outgoing=link_filter.outgoing,
                    incoming=link_filter.incoming,
                    relations=link_filter.relations,
                    min_weight=link_filter.min_weight,
                    count=count,
                )
                links += await _visible_links(reader, rows)
                if len(rows) < count:
                    break
                last = rows[-1]["link_id"]
        return [Link(**dict(row)) for row in links[:count]]


async def _find_memories(
    tx: Transaction, tenant_id: UUID, drafts: Sequence[LinkDraft], *, at: datetime
) -> dict[str, UUID]:
    memory_names = [name for draft in drafts for name in (draft.from_name, draft.to_name)]
    rows = await names.read_by_names(tx, QUERIES["find_visible"], tenant_id, memory_names, at=at)
    return {name: row["memory_id"] for name, row in rows.items()}


async def _find_link(tx: Transaction, tenant_id: UUID, link: Link, *, either_direction: bool) -> Link | None:
    """Return the locked link that the pair and relation of a new one have; None when there is none."""
    pairs = [link.pair]
    if either_direction:
        pairs.append((link.to_memory_id, link.from_memory_id, link.relation))
    existing = await find_link_ids(tx, tenant_id, pairs)
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


async def _check_shown(tx: Transaction, tenant_id: UUID, link: Link, *, at: datetime) -> None:
    """Reject a link of an expired memory, or of another agent's, as if it were not there. Raises LinkNotFound."""
    if await names.find_hidden(tx, tenant_id, [link.from_memory_id, link.to_memory_id], at=at):
        raise LinkNotFound


async def _visible_links(reader: TenantReader, links: list[asyncpg.Record]) -> list[asyncpg.Record]:
    """Leave out links to deleted and expired memories. Ids are values: a join would plan every month."""
    if not links:
        return []
    memory_ids = {row[column] for row in links for column in ("from_memory_id", "to_memory_id")}
    rows = await reader.rows("find_visible", memory_ids=list(memory_ids), at=reader.at)
    visible_ids = {row["memory_id"] for row in rows}
    return [row for row in links if row["from_memory_id"] in visible_ids and row["to_memory_id"] in visible_ids]


async def insert(tx: Transaction, tenant_id: UUID, links: Sequence[Link], *, at: datetime, by: str) -> list[Link]:
    """Store new links of different pairs or relations, and record the event; return those that did not exist.

    Nothing is written for the others. Raises MemoryNotFound when a memory was purged, or moved to another space.
    """
    if current_space_ids() is not None:
        # A link has the spaces of its memories, which must not move meanwhile.
        ids = sorted({id_ for link in links for id_ in (link.from_memory_id, link.to_memory_id)})
        if len(await tx.rows(QUERIES["lock_memories"], tenant_id=tenant_id, memory_ids=ids)) < len(ids):
            raise MemoryNotFound
    # In one order everywhere, so that two batches never wait for each other.
    rows = [_columns(link) for link in sorted(links, key=lambda link: link.pair)]
    with translate_constraint_errors(_CONSTRAINT_ERRORS):
        inserted_count = await tx.insert(QUERIES["insert_links"], tenant_id, rows)
    new_links = list(links)
    if inserted_count < len(links):
        existing_ids = await find_link_ids(tx, tenant_id, [link.pair for link in links])
        new_links = [link for link in links if existing_ids.get(link.pair) == link.link_id]
    await writer.insert_events(
        tx, tenant_id, [link_event("memory_link_created", link) for link in new_links], at=at, by=by
    )
    return new_links


async def find_link_ids(
    tx: Transaction, tenant_id: UUID, pairs: Sequence[tuple[UUID, UUID, str]]
) -> dict[tuple[UUID, UUID, str], UUID]:
    """Return the ids of the links that lead from one memory to another by a relation; others are left out."""
    rows = await tx.rows(
        QUERIES["find_pairs"],
        tenant_id=tenant_id,
        from_ids=[pair[0] for pair in pairs],
        to_ids=[pair[1] for pair in pairs],
        relations=[pair[2] for pair in pairs],
    )
    return {(row["from_memory_id"], row["to_memory_id"], row["relation"]): row["link_id"] for row in rows}


async def lock_link(tx: Transaction, tenant_id: UUID, link_id: UUID) -> Link:
    """Read a link and lock it. Raises LinkNotFound."""
    row = await tx.row(QUERIES["lock_link"], tenant_id=tenant_id, link_id=link_id)
    if row is None:
        raise LinkNotFound
    return Link(**dict(row))


async def read_links(tx: Transaction, tenant_id: UUID, link_ids: Sequence[UUID]) -> dict[UUID, Link]:
    """Read links by id; missing ones are left out."""
    rows = await tx.rows(QUERIES["get_links"], tenant_id=tenant_id, link_ids=list(link_ids))
    return {row["link_id"]: Link(**dict(row)) for row in rows}


async def replace(tx: Transaction, tenant_id: UUID, before: Link, after: Link) -> None:
    """Store the next revision of a locked link, keep the one before, and record the event. Raises LinkExists."""
    after = but(after, record_time=time_of_next_record(before.record_time, after.record_time))
    await writer.insert_revisions(
        tx, tenant_id, [_earlier_revision(before, until=after.record_time, by=after.updated_by)]
    )
    columns = {
        name: getattr(after, name)
        for name in (*_CONTENT_COLUMNS, "revision", "updated_by", "update_time", "author_keys", "record_time")
    }
    with translate_constraint_errors({"links_pair_key": LinkExists}):
        await tx.execute(QUERIES["update_link"], tenant_id=tenant_id, link_id=after.link_id, **columns)
    changed_fields = [name for name in _CONTENT_COLUMNS if getattr(before, name) != getattr(after, name)]
    event = link_event("memory_link_updated", after, changed_fields)
    await writer.insert_events(tx, tenant_id, [event], at=after.record_time, by=after.updated_by)


async def remove(tx: Transaction, tenant_id: UUID, link_ids: Sequence[UUID], *, at: datetime, by: str) -> list[Link]:
    """Remove links for good, store their revisions and events, and return them."""
    rows = await tx.rows(QUERIES["delete_links"], tenant_id=tenant_id, link_ids=list(link_ids))
    links = sorted((Link(**dict(row)) for row in rows), key=lambda link: link.link_id)
    revisions = [_earlier_revision(link, until=time_of_next_record(link.record_time, at), by=by) for link in links]
    await writer.insert_revisions(tx, tenant_id, revisions)
    await writer.insert_events(tx, tenant_id, [link_event("memory_link_removed", link) for link in links], at=at, by=by)
    return links


def _columns(link: Link) -> dict[str, object]:
    """Return the columns of a new link; it was changed by another principal if an import or a merge brings it."""
    columns = {name: value for name, value in asdict(link).items() if name != "revision"}
    updated_by = None if link.updated_by == link.created_by else link.updated_by
    return columns | {"updated_by": updated_by, "author_keys": link.author_keys}


def _earlier_revision(link: Link, *, until: datetime, by: str) -> Revision:
    return Revision(
        kind="link",
        item_id=str(link.link_id),
        revision=link.revision,
        state=link.state,
        from_time=link.record_time,
        until_time=until,
        changed_by=by,
        memory_id=link.from_memory_id,
        other_memory_id=link.to_memory_id,
    )
