"""Aliases in the database, each of a canonical memory. One transaction at a time changes a tenant's aliases."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from uuid import UUID

from skein_kit.database.transactions import Database, Transaction, translate_constraint_errors
from skein_memory.aliases.model import MAX_MOVED, Alias, AliasDraft
from skein_memory.errors import AliasCycle, AliasesTooMany, AliasNotFound, AliasToItself, MemoryNotFound
from skein_memory.events import writer
from skein_memory.events.model import Event
from skein_memory.events.writer import Revision
from skein_memory.memories import names, writes
from skein_memory.queries import QUERIES
from skein_memory.tenant_reader import TenantReader

_KIND = "alias"
_FIRST = UUID(int=0)
# A concurrent purge removes the memory.
_CONSTRAINTS = {"aliases_alias_fkey": MemoryNotFound, "aliases_canonical_fkey": MemoryNotFound}


class AliasStore:
    """Reads and writes aliases."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def resolve_entity(
        self, tx: Transaction, tenant_id: UUID, draft: AliasDraft, *, at: datetime, by: str
    ) -> tuple[Alias, int]:
        """Make a memory an alias; its own aliases move along. Return the alias, and how many moved.

        Raises MemoryNotFound, AliasCycle and AliasesTooMany.
        """
        # Every change of aliases takes this lock before it locks memories.
        await tx.execute(QUERIES["lock_aliases"], tenant_id=tenant_id)
        ids = await names.find_visible(tx, tenant_id, [draft.alias_name, draft.canonical_name], at=at)
        alias_id, canonical_id = ids[draft.alias_name], ids[draft.canonical_name]
        if alias_id == canonical_id:
            raise AliasToItself
        aliases = await _aliases(tx, tenant_id, [alias_id, canonical_id])
        root = aliases[canonical_id].canonical_memory_id if canonical_id in aliases else canonical_id
        if alias_id == root:
            raise AliasCycle
        followers = await _followers(tx, tenant_id, alias_id)
        before = aliases.get(alias_id)
        last_revision = 0 if before else await writer.last_revision(tx, tenant_id, _KIND, str(alias_id))
        after = draft.to_alias(before, last_revision, alias_id, root, at=at, by=by)
        changes = [(before, after), *((follower, follower.repoint(root, at=at, by=by)) for follower in followers)]
        await writer.insert_revisions(
            tx,
            tenant_id,
            [revision_of(before_change, at) for before_change, _ in changes if before_change is not None],
        )
        with translate_constraint_errors(_CONSTRAINTS):
            for _, alias in changes:
                await tx.execute(QUERIES["put_alias"], tenant_id=tenant_id, **asdict(alias))
        events = [_event("memory_entity_resolved", alias) for _, alias in changes]
        await writer.insert_events(tx, tenant_id, events, at=at, by=by)
        if draft.archive:
            memories = await writes.lock_memories(tx, tenant_id, [alias_id])
            await writes.archive_memories(tx, tenant_id, memories.values(), event="memory_archived", at=at, by=by)
        return after, len(followers)

    async def get_canonical_memory(
        self, tenant_id: UUID, name: str, *, at: datetime, as_of_time: datetime | None = None
    ) -> tuple[UUID, Alias | None]:
        """Return the canonical id of a memory, and its alias if it is one.

        Raises MemoryNotFound, MemoryNotYetKnown and HistoryNotKept.
        """
        async with TenantReader.open(self._database, tenant_id, at=at, as_of_time=as_of_time) as reader:
            return await _canonical(reader, name)

    async def list_aliases(
        self, tenant_id: UUID, name: str, *, after: UUID | None, count: int, at: datetime,
        as_of_time: datetime | None = None,
    ) -> list[Alias]:  # fmt: skip
        """Read up to `count` aliases of the canonical memory of `name`, or of all without a name, after the id `after`.

        Aliases of expired memories are left out. Raises MemoryNotFound, MemoryNotYetKnown and HistoryNotKept.
        """
        values: dict[str, object] = {"after": after or _FIRST, "count": count}
        query_name = "list_aliases"
        async with TenantReader.open(self._database, tenant_id, at=at, as_of_time=as_of_time) as reader:
            if name:
                canonical_id, _ = await _canonical(reader, name)
                query_name, values = "list_aliases_of", {**values, "canonical_memory_id": canonical_id}
            visible: list[Alias] = []
            while len(visible) < count:
                aliases = [Alias(**dict(row)) for row in await reader.rows(query_name, **values)]
                visible += await _visible(reader, aliases)
                if len(aliases) < count:
                    break
                values["after"] = aliases[-1].alias_memory_id
        return visible[:count]

    async def delete_alias(self, tx: Transaction, tenant_id: UUID, name: str, *, at: datetime, by: str) -> None:
        """Delete the alias of a memory. Raises AliasNotFound."""
        await tx.execute(QUERIES["lock_aliases"], tenant_id=tenant_id)
        rows = await names.read_by_names(tx, QUERIES["find_memories"], tenant_id, [name])
        aliases = await _aliases(tx, tenant_id, [row["memory_id"] for row in rows.values()])
        if not aliases:
            raise AliasNotFound
        (alias,) = aliases.values()
        await writer.insert_revisions(tx, tenant_id, [revision_of(alias, at)])
        await tx.execute(QUERIES["delete_alias"], tenant_id=tenant_id, alias_memory_id=alias.alias_memory_id)
        await writer.insert_events(tx, tenant_id, [_event("memory_entity_separated", alias)], at=at, by=by)


async def _aliases(tx: Transaction, tenant_id: UUID, memory_ids: list[UUID]) -> dict[UUID, Alias]:
    rows = await tx.rows(QUERIES["get_aliases"], tenant_id=tenant_id, memory_ids=memory_ids)
    return {row["alias_memory_id"]: Alias(**dict(row)) for row in rows}


async def _followers(tx: Transaction, tenant_id: UUID, memory_id: UUID) -> list[Alias]:
    rows = await tx.rows(
        QUERIES["list_aliases_of"],
        tenant_id=tenant_id,
        canonical_memory_id=memory_id,
        after=_FIRST,
        count=MAX_MOVED + 1,
    )
    if len(rows) > MAX_MOVED:
        raise AliasesTooMany(limit=MAX_MOVED)
    return [Alias(**dict(row)) for row in rows]


async def _visible(reader: TenantReader, aliases: list[Alias]) -> list[Alias]:
    """Leave out aliases of expired memories."""
    memory_ids = {id_ for alias in aliases for id_ in (alias.alias_memory_id, alias.canonical_memory_id)}
    expired_ids = await reader.find_hidden(memory_ids)
    return [alias for alias in aliases if expired_ids.isdisjoint({alias.alias_memory_id, alias.canonical_memory_id})]


async def _canonical(reader: TenantReader, name: str) -> tuple[UUID, Alias | None]:
    memory_id = (await reader.find_visible([name]))[name]
    rows = await reader.rows("get_aliases", memory_ids=[memory_id])
    aliases = await _visible(reader, [Alias(**dict(row)) for row in rows])
    alias = next(iter(aliases), None)
    return (memory_id, None) if alias is None else (alias.canonical_memory_id, alias)


def revision_of(before: Alias, until: datetime) -> Revision:
    """Return the revision that is stored when an alias changes or is deleted."""
    columns = {
        "canonical_memory_id": str(before.canonical_memory_id),
        "confidence": before.confidence,
        "note": before.note,
    }
    return Revision(
        kind=_KIND,
        item_id=str(before.alias_memory_id),
        revision=before.revision,
        state=json.dumps(columns, ensure_ascii=False, separators=(",", ":")),
        from_time=before.update_time,
        until_time=until,
        changed_by=before.updated_by,
        memory_id=before.alias_memory_id,
        other_memory_id=before.canonical_memory_id,
    )


def _event(kind: str, alias: Alias) -> Event:
    return Event(
        type=kind,
        entity_type=_KIND,
        entity_id=str(alias.alias_memory_id),
        summary=f"alias {kind.removeprefix('memory_entity_')}",
        payload={"canonical_memory_id": str(alias.canonical_memory_id), "revision": alias.revision},
    )
