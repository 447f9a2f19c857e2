"""The RPCs of the memory service: each reads its request, makes one call, and replies."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from skein.memory.v1 import memory_pb2 as pb
from skein.memory.v1 import memory_pb2_grpc as rpc
from skein_kit.call import Context, caller
from skein_kit.errors import FieldInvalid, PageTokenInvalid, UpdateMaskInvalid
from skein_kit.ids import now, parse_id
from skein_kit.pages import fitting, must_fit, page_size, read_token, write_token
from skein_kit.requests import Once
from skein_kit.wire import masked, time
from skein_memory import wire
from skein_memory.answers import Answer
from skein_memory.errors import MemoryNotFound
from skein_memory.filters import Filter
from skein_memory.links import Link, LinkDraft
from skein_memory.memories import Draft, Memory, documents_of, drafts_of, remembered, speaking_of
from skein_memory.store.links import Question

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skein_kit.embeddings import Embeddings
    from skein_kit.months import Months
    from skein_kit.postings import Document
    from skein_memory.settings import MemorySettings
    from skein_memory.store import LinkStore, MemoryStore

UPDATABLE = frozenset(
    {
        "type", "title", "key", "content", "data", "tags", "source", "source_agent", "agent_id", "subject_id",
        "session_id", "scope", "level", "confidence", "importance", "expire_time", "archive_time", "valid_from_time",
        "valid_to_time", "metadata",
    }
)  # fmt: skip
DEFAULT_MONTHS_AHEAD = 3


class MemoryServicer(rpc.MemoryServiceServicer):
    """Answers `skein.memory.v1.MemoryService`."""

    def __init__(self, store: MemoryStore, embeddings: Embeddings, settings: MemorySettings) -> None:
        """Keep memories in `store`, have their vectors made by `embeddings`."""
        self._store = store
        self._embeddings = embeddings
        self._max_content = settings.max_content_characters

    async def CreateMemory(self, request: pb.CreateMemoryRequest, context: Context) -> pb.CreateMemoryResponse:
        who, at = caller(context), now()
        with speaking_of("memory"):
            draft = Draft.of(request.memory, at=at, max_content=self._max_content, agent_id=who.agent_id)
        (memory,) = remembered([draft], at=at, by=who.principal)
        documents = documents_of([memory], at=at)
        expected = bool(self._embeddings.expected_pending(documents))
        response = pb.CreateMemoryResponse(memory=wire.memory(memory), embedding_pending=expected)
        once = Once.of(who, request)
        first = await self._store.create_memories(who.tenant(), once, [memory], documents, response)
        if first is not None:
            return pb.CreateMemoryResponse.FromString(first)
        response.embedding_pending = bool(await self._pending(documents, context))
        if response.embedding_pending != expected:
            await self._store.correct_answer(who.tenant(), once, response)
        return response

    async def BatchCreateMemories(
        self, request: pb.BatchCreateMemoriesRequest, context: Context
    ) -> pb.BatchCreateMemoriesResponse:
        who, at = caller(context), now()
        drafts = drafts_of(request.memories, at=at, max_content=self._max_content, agent_id=who.agent_id)
        memories = remembered(drafts, at=at, by=who.principal)
        documents = documents_of(memories, at=at)
        expected = self._embeddings.expected_pending(documents)
        response = pb.BatchCreateMemoriesResponse(
            memories=[wire.memory(memory) for memory in memories], pending_embedding_count=expected
        )
        must_fit(response)
        once = Once.of(who, request)
        first = await self._store.create_memories(who.tenant(), once, memories, documents, response)
        if first is not None:
            return pb.BatchCreateMemoriesResponse.FromString(first)
        response.pending_embedding_count = await self._pending(documents, context)
        if response.pending_embedding_count != expected:
            await self._store.correct_answer(who.tenant(), once, response)
        return response

    async def GetMemory(self, request: pb.GetMemoryRequest, context: Context) -> pb.GetMemoryResponse:
        found = await self._store.get_memories(caller(context).tenant(), [request.memory_id])
        memory = found.get(request.memory_id)
        if memory is None or not (memory.is_active or request.show_deleted):
            raise MemoryNotFound
        return pb.GetMemoryResponse(memory=wire.memory(memory))

    async def BatchGetMemories(
        self, request: pb.BatchGetMemoriesRequest, context: Context
    ) -> pb.BatchGetMemoriesResponse:
        tenant_id, names = caller(context).tenant(), list(request.memory_ids)
        answer, looked_up = Answer[pb.Memory](), 0
        not_found: list[str] = []
        while looked_up < len(names) and not answer.is_full:
            portion = names[looked_up : looked_up + answer.portion(len(names) - looked_up)]
            found = await self._store.get_memories(tenant_id, portion)
            for name in portion:
                memory = found.get(name)
                if memory is None or not memory.is_active:
                    not_found.append(name)
                elif not answer.take([wire.memory(memory)]):
                    break
                looked_up += 1
        return pb.BatchGetMemoriesResponse(memories=answer.items, not_found=not_found, deferred=names[looked_up:])

    async def ListMemories(self, request: pb.ListMemoriesRequest, context: Context) -> pb.ListMemoriesResponse:
        tenant_id, size, at = caller(context).tenant(), page_size(request.page_size), now()
        after, wanted = _place(request, tenant_id), Filter.of(request)
        answer, more = Answer[pb.Memory](), True
        while more and len(answer.items) < size and not answer.is_full:
            count = answer.portion(size - len(answer.items))
            memories = await self._store.list_memories(tenant_id, wanted, after=after, count=count + 1, at=at)
            more = answer.take(wire.memory(memory) for memory in memories[:count]) < len(memories)
            after = memories[:count][-1].memory_id if memories else None
        page = answer.items
        return pb.ListMemoriesResponse(
            memories=page, next_page_token=write_token([page[-1].memory_id], tenant_id, request) if more else ""
        )

    async def UpdateMemory(self, request: pb.UpdateMemoryRequest, context: Context) -> pb.UpdateMemoryResponse:
        who, at = caller(context), now()
        if not request.memory.memory_id:
            raise FieldInvalid(violations=[("memory.memory_id", "must name the memory")])
        if not request.update_mask.paths:
            raise UpdateMaskInvalid(violations=[("update_mask", "must name at least one field")])
        masked(request.update_mask, UPDATABLE)

        def change(memory: Memory) -> Memory:
            memory.must_be_active()
            memory.must_be(request.memory.revision)
            said = wire.memory(memory)
            request.update_mask.MergeMessage(
                request.memory, said, replace_message_field=True, replace_repeated_field=True
            )
            with speaking_of("memory"):
                draft = Draft.of(said, at=at, max_content=self._max_content)
            return memory.revised(draft, at=at, by=who.principal)

        def respond(memory: Memory) -> pb.UpdateMemoryResponse:
            return pb.UpdateMemoryResponse(memory=wire.memory(memory))

        once = Once.of(who, request)
        changed = await self._store.change_memory(
            who.tenant(), request.memory.memory_id, change, respond, at=at, once=once
        )
        if isinstance(changed, bytes):
            return pb.UpdateMemoryResponse.FromString(changed)
        response = changed.response
        response.embedding_pending = bool(await self._pending(changed.documents, context))
        if response.embedding_pending:
            await self._store.correct_answer(who.tenant(), once, response)
        return response

    async def DeleteMemory(self, request: pb.DeleteMemoryRequest, context: Context) -> pb.DeleteMemoryResponse:
        who, at = caller(context), now()

        def change(memory: Memory) -> Memory:
            memory.must_be_active()
            memory.must_be(request.revision)
            return memory.deleted(at=at, by=who.principal)

        once = Once.of(who, request)
        await self._store.change_memory(who.tenant(), request.memory_id, change, _nothing, at=at, once=once)
        return pb.DeleteMemoryResponse()

    async def RestoreMemory(self, request: pb.RestoreMemoryRequest, context: Context) -> pb.RestoreMemoryResponse:
        who, at = caller(context), now()

        def change(memory: Memory) -> Memory:
            return memory if memory.is_active else memory.restored(at=at, by=who.principal)

        def respond(memory: Memory) -> pb.RestoreMemoryResponse:
            return pb.RestoreMemoryResponse(memory=wire.memory(memory))

        once = Once.of(who, request)
        changed = await self._store.change_memory(who.tenant(), request.memory_id, change, respond, at=at, once=once)
        if isinstance(changed, bytes):
            return pb.RestoreMemoryResponse.FromString(changed)
        response = changed.response
        response.embedding_pending = bool(await self._pending(changed.documents, context))
        if response.embedding_pending:
            await self._store.correct_answer(who.tenant(), once, response)
        return response

    async def _pending(self, documents: Sequence[Document], context: Context) -> int:
        return await self._embeddings.make(documents, remaining=context.time_remaining())


class LinkServicer(rpc.LinkServiceServicer):
    """Answers `skein.memory.v1.LinkService`."""

    def __init__(self, store: LinkStore) -> None:
        """Keep links in `store`."""
        self._store = store

    async def CreateLink(self, request: pb.CreateLinkRequest, context: Context) -> pb.CreateLinkResponse:
        who, at = caller(context), now()
        with speaking_of("link"):
            draft = LinkDraft.of(request.link)

        def between(from_id: UUID, to_id: UUID) -> Link:
            return draft.between(from_id, to_id, at=at, by=who.principal)

        def respond(link: Link) -> pb.CreateLinkResponse:
            return pb.CreateLinkResponse(link=wire.link(link))

        ends = draft.from_name, draft.to_name
        stored = await self._store.create_link(who.tenant(), Once.of(who, request), ends, between, respond)
        return pb.CreateLinkResponse.FromString(stored) if isinstance(stored, bytes) else stored

    async def DeleteLink(self, request: pb.DeleteLinkRequest, context: Context) -> pb.DeleteLinkResponse:
        who, response = caller(context), pb.DeleteLinkResponse()
        await self._store.delete_link(who.tenant(), Once.of(who, request), UUID(request.link_id), response)
        return response

    async def ListLinks(self, request: pb.ListLinksRequest, context: Context) -> pb.ListLinksResponse:
        tenant_id, size = caller(context).tenant(), page_size(request.page_size)
        question = Question(
            outgoing=request.direction != pb.LINK_DIRECTION_INCOMING,
            incoming=request.direction != pb.LINK_DIRECTION_OUTGOING,
            relation=request.relation or None,
        )
        links = await self._store.list_links(
            tenant_id, request.memory_id, question, before=_place(request, tenant_id), count=size + 1
        )
        page = fitting(wire.link(link) for link in links[:size])
        more = len(links) > len(page)
        return pb.ListLinksResponse(
            links=page, next_page_token=write_token([page[-1].link_id], tenant_id, request) if more else ""
        )


class UpkeepServicer(rpc.UpkeepServiceServicer):
    """Answers `skein.memory.v1.UpkeepService`."""

    def __init__(self, store: MemoryStore, months: Months) -> None:
        """Keep `months` made ahead, and `store` free of what is past its time."""
        self._store = store
        self._months = months

    async def EnsurePartitions(
        self, request: pb.EnsurePartitionsRequest, context: Context
    ) -> pb.EnsurePartitionsResponse:
        ahead = request.months_ahead or DEFAULT_MONTHS_AHEAD
        created, horizon = await self._months.ensure_ahead(now(), ahead)
        return pb.EnsurePartitionsResponse(created_count=created, horizon_time=time(horizon))

    async def DeleteExpired(self, request: pb.DeleteExpiredRequest, context: Context) -> pb.DeleteExpiredResponse:
        deleted = await self._store.delete_expired(caller(context).tenant(), now())
        return pb.DeleteExpiredResponse(deleted_count=deleted)

    async def PurgeTenant(self, request: pb.PurgeTenantRequest, context: Context) -> pb.PurgeTenantResponse:
        counts, more = await self._store.purge_tenant(caller(context).tenant(), request.limit)
        return pb.PurgeTenantResponse(deleted_counts=counts, more=more)


def _place(request: pb.ListMemoriesRequest | pb.ListLinksRequest, tenant_id: UUID) -> UUID | None:
    """Return the last id of the page before; None for the first page."""
    place = read_token(request.page_token, tenant_id, request)
    if place is None:
        return None
    id_ = parse_id(place[0]) if len(place) == 1 else None
    if id_ is None:
        raise PageTokenInvalid
    return id_


def _nothing(_memory: Memory) -> pb.DeleteMemoryResponse:
    return pb.DeleteMemoryResponse()
