"""Memories in the database: entries with their tags, names, stored answers and place in the search index."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from google.protobuf.message import Message

from skein_kit import postings
from skein_kit.errors import Refusal
from skein_kit.purging import purge
from skein_memory.memories import Memory
from skein_memory.purging import TABLES
from skein_memory.store import entries, names
from skein_memory.store.queries import QUERIES
from skein_memory.store.tables import Store

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    import asyncpg

    from skein_kit.months import Months
    from skein_kit.postings import Document
    from skein_kit.requests import Once
    from skein_memory.filters import Filter
    from skein_memory.store.tables import Tables

Response = TypeVar("Response", bound=Message)
Change = Callable[[Memory], Memory]


# Expired memories that one transaction takes out of the index, and transactions of one call.
_EXPIRED_AT_ONCE = 200
_EXPIRED_PORTIONS = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Changed(Generic[Response]):
    """What came of a change: its answer, and the documents whose vectors are still to be made, one or none."""

    response: Response
    documents: list[Document]


class MemoryStore(Store):
    """Reads and writes memories."""

    def __init__(self, tables: Tables, months: Months) -> None:
        """Use what all stores share, and the months' partitions."""
        super().__init__(tables)
        self._months = months

    async def create_memories(
        self,
        tenant_id: UUID,
        once: Once,
        memories: Sequence[Memory],
        documents: Sequence[Document],
        response: Message,
        *,
        at: datetime,
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
            await entries.insert(tx, tenant_id, memories, documents, at=at)
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
        return {name: entries.memory_of(row) for name, row in rows.items()}

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
        return [entries.memory_of(row) for row in found]

    async def change_memory(
        self,
        tenant_id: UUID,
        name: str,
        change: Change,
        respond: Callable[[Memory], Response],
        *,
        at: datetime,
        once: Once,
        event: str = "memory_updated",
    ) -> Changed[Response] | bytes:
        """Replace a memory by what `change` makes of it, and keep the answer; `event` is its type in the log.

        Return the first answer when the request came before. `change` may refuse; when it returns the memory itself,
        nothing is written. Raises MemoryNotFound, FactKeyTaken and QuotaExceeded.
        """
        async with self._database.tenant(tenant_id) as tx:
            first = await self._requests.claim(tx, tenant_id, once)
            if first is not None:
                return first
            before = await entries.locked(tx, tenant_id, name)
            after = change(before)
            documents: list[Document] = []
            if after is not before:
                documents = await entries.replace(tx, tenant_id, before, after, at=at, event=event)
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
