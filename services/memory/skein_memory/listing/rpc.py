"""Handlers of the RPCs that read memories: one, as of a time, in lists, and earlier versions."""

from __future__ import annotations

from collections.abc import Sequence

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.admission.processor_time import run_by_size, with_pauses
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import PageTokenInvalid
from skein_kit.ids import now
from skein_kit.policies.history import read_as_of_time
from skein_kit.rpc.pagination import read_token, resolve_page_size, write_token
from skein_kit.rpc.well_known_types import to_timestamp
from skein_memory.errors import MemoryNotFound
from skein_memory.listing.convert import list_filter, named_days
from skein_memory.listing.order import Order, PageCursor
from skein_memory.listing.store import MemoryListStore, MemoryVersion
from skein_memory.memories import convert as memories_convert
from skein_memory.memories.model import Memory, changed_fields
from skein_memory.memories.rows import size_of
from skein_memory.memories.store import MemoryStore
from skein_memory.paging import PageBuilder


class ListingHandlers:
    """Reads of memories and of their earlier versions."""

    def __init__(self, store: MemoryListStore, *, memories: MemoryStore) -> None:
        self._store = store
        self._memories = memories

    async def GetMemory(self, request: pb.GetMemoryRequest, context: Context) -> pb.GetMemoryResponse:
        at, tenant_id = now(), caller_of(context).require_tenant()
        as_of_time = read_as_of_time(request, at=at)
        memory: Memory | None
        if as_of_time is not None:
            memory = await self._store.get_memory_as_of(tenant_id, request.memory_id, as_of_time)
        else:
            memories = await self._memories.get_memories(tenant_id, [request.memory_id], at=at)
            memory = memories.get(request.memory_id)
        if memory is None or memory.is_expired(as_of_time or at) or not (memory.is_active or request.show_deleted):
            raise MemoryNotFound
        return pb.GetMemoryResponse(memory=memories_convert.memory(memory), read_time=to_timestamp(at))

    async def ListMemories(self, request: pb.ListMemoriesRequest, context: Context) -> pb.ListMemoriesResponse:
        tenant_id, size, at = caller_of(context).require_tenant(), resolve_page_size(request.page_size), now()
        zone = await self._store.zone_of_days(tenant_id, *named_days(request.filter))
        filter_ = list_filter(request, zone, at=at)
        order = Order.of(request.order_by, is_past=request.HasField("as_of_time"))
        after = PageCursor.of(read_token(request.page_token, tenant_id, request), order)
        builder = PageBuilder[pb.Memory]()
        page = await self._store.list_memories(
            tenant_id, filter_, order, after=after, count=size, batch_size=builder.next_batch_size(size), at=at
        )
        memories, remaining_ids = page.memories, page.remaining_ids
        has_room = True
        while has_room and memories:
            visible = [memory for memory in memories if memory.is_active or request.show_deleted]
            added_count = await run_by_size(size_of(visible), _add, builder, visible)
            has_room = added_count == len(visible)
            if not has_room:
                break
            batch_size = builder.next_batch_size(len(remaining_ids)) if remaining_ids else 0
            memories = await self._store.read_memories(tenant_id, remaining_ids[:batch_size], filter_.as_of_time, at=at)
            remaining_ids = remaining_ids[batch_size:]
        cursor = page.after if has_room else page.cursors[builder.items[-1].memory_id]
        total_size: int | None = None
        if request.show_total_size:
            is_complete = after is None and cursor is None
            total_size = (
                len(builder.items) if is_complete else await self._store.count_memories(tenant_id, filter_, at=at)
            )
        return pb.ListMemoriesResponse(
            memories=builder.items,
            next_page_token=write_token(cursor.token, tenant_id, request) if cursor else "",
            total_size=total_size,
        )

    async def ListMemoryVersions(
        self, request: pb.ListMemoryVersionsRequest, context: Context
    ) -> pb.ListMemoryVersionsResponse:
        tenant_id, size = caller_of(context).require_tenant(), resolve_page_size(request.page_size)
        cursor = read_token(request.page_token, tenant_id, request)
        if cursor is not None and not (len(cursor) == 1 and cursor[0].isdecimal()):
            raise PageTokenInvalid
        before = None if cursor is None else int(cursor[0])
        versions, is_all = await self._store.list_versions(
            tenant_id, request.memory_id, before=before, count=size, at=now()
        )
        builder = PageBuilder[pb.MemoryVersion]()
        text_size = size_of(version.memory for version in versions)
        messages = await run_by_size(text_size, versions_of, versions, size, is_all=is_all)
        added_count = builder.add(messages)
        has_more = not is_all or added_count < len(messages)
        token = (
            write_token([str(versions[added_count - 1].memory.revision)], tenant_id, request)
            if has_more and added_count
            else ""
        )
        return pb.ListMemoryVersionsResponse(versions=builder.items, next_page_token=token)


def _add(builder: PageBuilder[pb.Memory], memories: Sequence[Memory]) -> int:
    """Add memories to a page; return how many fitted."""
    return builder.add(memories_convert.memory(memory) for memory in with_pauses(memories))


def versions_of(versions: list[MemoryVersion], count: int, *, is_all: bool) -> list[pb.MemoryVersion]:
    """Convert up to `count` versions, newest first; the one after the last only serves to compare."""
    # The oldest version has no predecessor.
    predecessors = [*(version.memory for version in versions[1:]), *([None] if is_all else [])]
    messages = [
        pb.MemoryVersion(
            memory=memories_convert.memory(version.memory),
            until_time=to_timestamp(version.until_time),
            changed_fields=changed_fields(memory, version.memory),
        )
        for version, memory in zip(versions, predecessors, strict=False)
    ]
    return messages[:count]
