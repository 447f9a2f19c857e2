"""Memories in the database: entries with their tags, names, stored answers and place in the search index."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from google.protobuf.message import Message

from skein_kit import postings
from skein_kit.errors import ExternalIdTaken, Refusal
from skein_kit.purging import purge
from skein_memory.errors import FactKeyTaken, MemoryNotFound
from skein_memory.memories import Draft, Memory
from skein_memory.purging import TABLES
from skein_memory.store import names
from skein_memory.store.queries import QUERIES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    import asyncpg

    from skein_kit.database import Database, Transaction
    from skein_kit.months import Months
    from skein_kit.postings import Document
    from skein_kit.quotas import Quotas
    from skein_kit.requests import Once, Requests
    from skein_memory.filters import Filter

Response = TypeVar("Response", bound=Message)
Change = Callable[[Memory], Memory]


_SAID = tuple(field.name for field in dataclasses.fields(Draft))
_SAID_COLUMNS = tuple(name for name in _SAID if name != "tags")
# Columns that no change touches.
_WRITTEN_ONCE = frozenset({"external_id", "create_time", "created_by"})

# Expired memories that one transaction takes out of the index, and transactions of one call.
_EXPIRED_AT_ONCE = 200
_EXPIRED_PORTIONS = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Changed(Generic[Response]):
    """What came of a change: its answer, and the documents whose vectors are still to be made, one or none."""

    response: Response
    documents: list[Document]


class MemoryStore:
    """Reads and writes memories."""

    def __init__(self, database: Database, months: Months, requests: Requests, quotas: Quotas) -> None:
        """Use the service's pool, partitions, stored answers and counts."""
        self._database = database
        self._months = months
        self._requests = requests
        self._quotas = quotas

    async def create_memories(
        self,
        tenant_id: UUID,
        once: Once,
        memories: Sequence[Memory],
        documents: Sequence[Document],
        response: Message,
    ) -> bytes | None:
        """Store memories, all or none, with their documents in the search index, and keep the answer.

        Return the first answer when the request came before; nothing is stored then. Raises ExternalIdTaken and
        FactKeyTaken, with the "index" of the memory, and QuotaExceeded.
        """
        await self._months.ensure(memory.draft.create_time for memory in memories)
        async with self._database.tenant(tenant_id) as tx:
            first = await self._requests.claim(tx, tenant_id, once, answer=response)
            if first is not None:
                return first
            await tx.insert(QUERIES["insert_entries"], tenant_id, [_entry(memory) for memory in memories])
            await _add_tags(
                tx, tenant_id, [(memory.memory_id, tag) for memory in memories for tag in memory.draft.tags]
            )
            await _take_names(tx, tenant_id, memories)
            await postings.put(tx, tenant_id, documents)
            await self._quotas.charge(tx, tenant_id, {"memories": len(memories)})
        return None

    async def correct_answer(self, tenant_id: UUID, once: Once, response: Message) -> None:
        """Replace a stored answer that turned out otherwise, so that a repeated request gets the same as the first.

        The work is committed: when this fails, the repeated request gets what was expected of the first, and no more is
        lost.
        """
        if once.request_id:
            with suppress(Refusal):
                async with self._database.tenant(tenant_id) as tx:
                    await self._requests.answer(tx, tenant_id, once, response)

    async def get_memories(self, tenant_id: UUID, wanted: Sequence[str]) -> dict[str, Memory]:
        """Read memories by id or external id, deleted ones too, by the name they were asked by."""
        async with self._database.tenant(tenant_id) as tx:
            rows = await names.read(tx, QUERIES["get_memories"], tenant_id, wanted)
        return {name: _memory(row) for name, row in rows.items()}

    async def list_memories(
        self, tenant_id: UUID, wanted: Filter, *, after: UUID | None, count: int, at: datetime
    ) -> list[Memory]:
        """Read up to `count` memories that pass, newest first, from the one after `after` on."""
        conditions: dict[str, object] = {
            field.name: getattr(wanted, field.name)
            for field in dataclasses.fields(wanted)
            if not field.name.startswith("tags_")
        }
        if not wanted.tags:
            query = QUERIES["list_memories"]
        elif wanted.one_tag_is_enough:
            query = QUERIES["list_tagged_memories"]
            conditions |= {"tags": wanted.tags}
        else:
            query = QUERIES["list_strictly_tagged_memories"]
            conditions |= {"tags": wanted.tags, "tags_all": wanted.tags_all, "tags_any": wanted.tags_any}
        found: list[asyncpg.Record] = []
        async with self._database.tenant(tenant_id) as tx:
            for from_id, before_id in wanted.spans(after, at):
                found += await tx.rows(
                    query,
                    tenant_id=tenant_id,
                    from_id=from_id,
                    before_id=before_id,
                    at=at,
                    count=count - len(found),
                    **conditions,
                )
                if len(found) == count:
                    break
        return [_memory(row) for row in found]

    async def change_memory(
        self,
        tenant_id: UUID,
        name: str,
        change: Change,
        respond: Callable[[Memory], Response],
        *,
        at: datetime,
        once: Once,
    ) -> Changed[Response] | bytes:
        """Replace a memory by what `change` makes of it, with tags, key and place in the index, and keep the answer.

        Return the first answer when the request came before. `change` may refuse; when it returns the memory itself,
        nothing is written. Raises MemoryNotFound, FactKeyTaken and QuotaExceeded.
        """
        async with self._database.tenant(tenant_id) as tx:
            first = await self._requests.claim(tx, tenant_id, once)
            if first is not None:
                return first
            before = await _locked(tx, tenant_id, name)
            after = change(before)
            documents = [] if after is before else await _replace(tx, tenant_id, before, after, at)
            response = respond(after)
            await self._requests.answer(tx, tenant_id, once, response)
            await self._quotas.charge(tx, tenant_id, {"memories": int(after.is_active) - int(before.is_active)})
        return Changed(response=response, documents=documents)

    async def delete_expired(self, tenant_id: UUID, at: datetime) -> int:
        """Remove the tenant's stored answers whose time is over, and expired memories from the search index.

        Return how many. So many memories go at once that nobody waits long for the rows; the next call goes on.
        """
        async with self._database.tenant(tenant_id) as tx:
            deleted = await self._requests.delete_expired(tx, tenant_id, at)
            removed = await postings.remove_expired(tx, tenant_id, "memory", at=at, count=_EXPIRED_AT_ONCE)
        deleted += removed
        for _ in range(1, _EXPIRED_PORTIONS):
            if removed < _EXPIRED_AT_ONCE:
                break
            async with self._database.tenant(tenant_id) as tx:
                removed = await postings.remove_expired(tx, tenant_id, "memory", at=at, count=_EXPIRED_AT_ONCE)
            deleted += removed
        return deleted

    async def purge_tenant(self, tenant_id: UUID, limit: int) -> tuple[dict[str, int], bool]:
        """Remove some of what is left of a deleted tenant; return rows by table, and whether there may be more."""
        return await purge(self._database, tenant_id, TABLES, limit)


async def _locked(tx: Transaction, tenant_id: UUID, name: str) -> Memory:
    """Read a memory that nobody else changes until the transaction ends. Raises MemoryNotFound."""
    locked = await names.read_one(tx, QUERIES["lock_memory"], tenant_id, name)
    if locked is None:
        raise MemoryNotFound
    rows = await tx.rows(QUERIES["get_memories"], tenant_id=tenant_id, memory_ids=[locked["memory_id"]])
    return _memory(rows[0])


async def _replace(tx: Transaction, tenant_id: UUID, before: Memory, after: Memory, at: datetime) -> list[Document]:
    """Store a memory's next revision; return what was put into the index anew."""
    values = {name: value for name, value in _entry(after).items() if name not in _WRITTEN_ONCE}
    await tx.execute(
        QUERIES["update_memory"],
        tenant_id=tenant_id,
        is_active=after.is_active,
        delete_time=after.delete_time,
        revision=after.revision,
        **values,
    )
    dropped = sorted(set(before.draft.tags) - set(after.draft.tags))
    if dropped:
        await tx.execute(QUERIES["delete_tags"], tenant_id=tenant_id, memory_id=after.memory_id, tags=dropped)
    added = sorted(set(after.draft.tags) - set(before.draft.tags))
    await _add_tags(tx, tenant_id, [(after.memory_id, tag) for tag in added])
    if before.fact_key != after.fact_key:
        await _move_key(tx, tenant_id, before, after)
    return await _reindex(tx, tenant_id, before.indexed, after.document(at))


async def _reindex(tx: Transaction, tenant_id: UUID, was: Document | None, is_now: Document | None) -> list[Document]:
    """Bring a memory's place in the index up to date; return what was put there anew. `was` may be gone already."""
    if was is not None and is_now is not None and was.text == is_now.text:
        if replace(was, revision=is_now.revision) == is_now:
            return []
        # The same text has the same vectors, so only what filters ask for changes.
        if await postings.update(tx, tenant_id, is_now):
            return []
    elif was is not None:
        await postings.remove(tx, tenant_id, [was.item_id])
    documents = [] if is_now is None else [is_now]
    await postings.put(tx, tenant_id, documents)
    return documents


async def _add_tags(tx: Transaction, tenant_id: UUID, tags: Sequence[tuple[UUID, str]]) -> None:
    await tx.insert(QUERIES["insert_tags"], tenant_id, [{"memory_id": id_, "tag": tag} for id_, tag in tags])


async def _take_names(tx: Transaction, tenant_id: UUID, memories: Sequence[Memory]) -> None:
    ids = [memory.memory_id for memory in memories]
    places = {name: place for place, memory in enumerate(memories) if (name := memory.draft.external_id) is not None}
    held = await names.taken(tx, "external_id", tenant_id, [(name, ids[place]) for name, place in places.items()])
    if held is not None:
        raise ExternalIdTaken(external_id=held, index=places[held])
    places = {key: place for place, memory in enumerate(memories) if (key := memory.fact_key) is not None}
    held = await names.taken(tx, "fact_key", tenant_id, [(key, ids[place]) for key, place in places.items()])
    if held is not None:
        raise FactKeyTaken(key=held, index=places[held])


async def _move_key(tx: Transaction, tenant_id: UUID, before: Memory, after: Memory) -> None:
    if before.fact_key is not None:
        await tx.execute(QUERIES["free_fact_key"], tenant_id=tenant_id, key=before.fact_key, memory_id=before.memory_id)
    if after.fact_key is not None:
        held = await names.taken(tx, "fact_key", tenant_id, [(after.fact_key, after.memory_id)])
        if held is not None:
            raise FactKeyTaken(key=held)


def _entry(memory: Memory) -> dict[str, object]:
    draft = memory.draft
    return {name: getattr(draft, name) for name in _SAID_COLUMNS} | {
        "memory_id": memory.memory_id,
        "content_hash": draft.content_hash,
        "update_time": memory.update_time,
        "created_by": memory.created_by,
        "updated_by": memory.updated_by,
    }


def _memory(row: asyncpg.Record) -> Memory:
    said = {name: row[name] for name in _SAID}
    # Sorted here, as the database's order of texts depends on how it was set up.
    said["tags"] = tuple(sorted(said["tags"]))
    return Memory(
        memory_id=row["memory_id"],
        draft=Draft(**said),
        revision=row["revision"],
        update_time=row["update_time"],
        delete_time=row["delete_time"],
        created_by=row["created_by"],
        updated_by=row["updated_by"],
    )
