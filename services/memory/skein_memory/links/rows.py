"""Links within a transaction: inserted, updated and deleted, each with its revision and event.

Every change of a link goes through `insert`, `replace` and `remove`; the caller counts them.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from skein_kit.database.transactions import translate_constraint_errors
from skein_memory.errors import LinkExists, LinkNotFound, MemoryNotFound
from skein_memory.events import writer
from skein_memory.events.writer import Revision
from skein_memory.links.model import Link, link_event
from skein_memory.queries import QUERIES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from skein_kit.database.transactions import Transaction

_CONTENT_COLUMNS = ("relation", "label", "weight", "metadata")
# A new link has no earlier state, so these are left to the first change.
_MUTABLE_COLUMNS = ("revision", "updated_by")
_MISSING_ENDS = {"links_from_fkey": MemoryNotFound, "links_to_fkey": MemoryNotFound}


async def insert(tx: Transaction, tenant_id: UUID, links: Sequence[Link], *, at: datetime, by: str) -> list[Link]:
    """Store new links of different pairs or relations, and record the event; return those whose place was free.

    The others have left no trace. Raises MemoryNotFound when an end is gone for good.
    """
    # In one order everywhere, so that two batches never wait for each other.
    rows = [_columns(link) for link in sorted(links, key=lambda link: link.pair)]
    with translate_constraint_errors(_MISSING_ENDS):
        inserted = await tx.insert(QUERIES["insert_links"], tenant_id, rows)
    new = list(links)
    if inserted < len(links):
        existing_ids = await find_link_ids(tx, tenant_id, [link.pair for link in links])
        new = [link for link in links if existing_ids.get(link.pair) == link.link_id]
    await writer.insert_events(tx, tenant_id, [link_event("memory_link_created", link) for link in new], at=at, by=by)
    return new


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
    await writer.insert_revisions(tx, tenant_id, [_former(before, until=after.record_time, by=after.updated_by)])
    columns = {
        name: getattr(after, name) for name in (*_CONTENT_COLUMNS, *_MUTABLE_COLUMNS, "update_time", "record_time")
    }
    with translate_constraint_errors({"links_pair_key": LinkExists}):
        await tx.execute(QUERIES["update_link"], tenant_id=tenant_id, link_id=after.link_id, **columns)
    changed = [name for name in _CONTENT_COLUMNS if getattr(before, name) != getattr(after, name)]
    event = link_event("memory_link_updated", after, changed)
    await writer.insert_events(tx, tenant_id, [event], at=after.record_time, by=after.updated_by)


async def remove(tx: Transaction, tenant_id: UUID, link_ids: Sequence[UUID], *, at: datetime, by: str) -> list[Link]:
    """Remove links for good, store their revisions and events, and return them."""
    rows = await tx.rows(QUERIES["delete_links"], tenant_id=tenant_id, link_ids=list(link_ids))
    links = sorted((Link(**dict(row)) for row in rows), key=lambda link: link.link_id)
    await writer.insert_revisions(tx, tenant_id, [_former(link, until=at, by=by) for link in links])
    await writer.insert_events(tx, tenant_id, [link_event("memory_link_removed", link) for link in links], at=at, by=by)
    return links


def _columns(link: Link) -> dict[str, object]:
    return {name: value for name, value in asdict(link).items() if name not in _MUTABLE_COLUMNS}


def _former(link: Link, *, until: datetime, by: str) -> Revision:
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
