"""Memories: each RPC reads its request, makes one call, and replies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.calls.call import Context, caller
from skein_kit.errors import FieldInvalid, UpdateMaskInvalid
from skein_kit.idempotency.store import IdempotencyKey
from skein_kit.ids import now
from skein_kit.rpc.pagination import require_fit
from skein_kit.rpc.well_known_types import merge_masked, read_time, to_timestamp, updated_fields
from skein_kit.search_text import vector_columns
from skein_memory.errors import MemoryNotFound
from skein_memory.memories import convert as wire
from skein_memory.memories.model import (
    Draft,
    Memory,
    create_memories,
    documents_of,
    drafts_of,
    embeddings_of,
    prefix_field_paths,
    secrets_of,
    with_times,
)
from skein_memory.page_builder import PageBuilder
from skein_memory.parts import Rpcs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skein_kit.search_text.postings import Document

UPDATABLE = frozenset(
    {
        "type", "title", "key", "content", "data", "tags", "source", "source_agent", "agent_id", "subject_id",
        "session_id", "scope", "level", "confidence", "importance", "expire_time", "archive_time", "valid_from_time",
        "valid_to_time", "metadata", "secret_value",
    }
)  # fmt: skip
# What decides who sees a memory.
_READERS = frozenset({"scope", "subject_id", "expire_time"})


class MemoryHandlers(Rpcs):
    """Storing, reading and changing memories one by one."""

    async def CreateMemory(self, request: pb.CreateMemoryRequest, context: Context) -> pb.CreateMemoryResponse:
        who, at = caller(context), now()
        # What is shown of a secret is said by the service alone.
        request.memory.ClearField("secret")
        with prefix_field_paths("memory"):
            draft = Draft.of(request.memory, at=at, max_content=self._max_content, agent_id=who.agent_id)
            if not request.keep_times:
                draft.must_have_readers(at)
        (memory,) = create_memories([draft], at=at, by=who.principal)
        if request.keep_times:
            (memory,) = with_times([memory], [request.memory], who, at=at)
        asked = request.memory.embedding
        given = {memory.memory_id: vector_columns.normalize(asked, field="memory.embedding")} if asked else {}
        documents = documents_of([memory], at=at, embeddings=given)
        expected = bool(self._parts.embeddings.expected_pending(documents, deferred=request.defer_embedding))
        response = pb.CreateMemoryResponse(embedding_pending=expected)

        def show(stored: Sequence[Memory]) -> None:
            response.memory.CopyFrom(wire.memory(stored[0]))

        once, tenant_id = IdempotencyKey.of(who, request), who.tenant()
        secrets = secrets_of([memory], [request.memory])
        first = await self._parts.memories.create_memories(
            tenant_id, once, [memory], documents, response, show, at=at, secrets=secrets
        )
        if first is not None:
            return pb.CreateMemoryResponse.FromString(first)
        response.embedding_pending = bool(await self._pending(documents, context, deferred=request.defer_embedding))
        if request.suggest_links:
            found = await self._parts.graph.suggest_links(tenant_id, str(memory.memory_id), at=at)
            response.suggested_links.extend(wire.suggestion(one) for one in found)
        if response.embedding_pending != expected or response.suggested_links:
            await self._parts.memories.correct_answer(who.tenant(), once, response)
        return response

    async def BatchCreateMemories(
        self, request: pb.BatchCreateMemoriesRequest, context: Context
    ) -> pb.BatchCreateMemoriesResponse:
        who, at = caller(context), now()
        for asked in request.memories:
            asked.ClearField("secret")
        drafts = drafts_of(
            request.memories,
            at=at,
            max_content=self._max_content,
            agent_id=who.agent_id,
            is_import=request.keep_times,
        )
        memories = create_memories(drafts, at=at, by=who.principal)
        if request.keep_times:
            memories = with_times(memories, request.memories, who, at=at)
        given = embeddings_of(memories, request.memories)
        documents = documents_of(memories, at=at, embeddings=given)
        expected = self._parts.embeddings.expected_pending(documents, deferred=request.defer_embedding)
        response = pb.BatchCreateMemoriesResponse(pending_embedding_count=expected)

        def show(stored: Sequence[Memory]) -> None:
            response.memories.extend(wire.memory(memory) for memory in stored)
            require_fit(response)

        once, tenant_id = IdempotencyKey.of(who, request), who.tenant()
        secrets = secrets_of(memories, request.memories)
        first = await self._parts.memories.create_memories(
            tenant_id, once, memories, documents, response, show, at=at, secrets=secrets
        )
        if first is not None:
            return pb.BatchCreateMemoriesResponse.FromString(first)
        response.pending_embedding_count = await self._pending(documents, context, deferred=request.defer_embedding)
        if response.pending_embedding_count != expected:
            await self._parts.memories.correct_answer(who.tenant(), once, response)
        return response

    async def GetMemory(self, request: pb.GetMemoryRequest, context: Context) -> pb.GetMemoryResponse:
        at, tenant_id, as_of_time = now(), caller(context).tenant(), read_time(request, "as_of_time")
        memory: Memory | None
        if as_of_time is not None:
            memory = await self._parts.finding.memory_then(tenant_id, request.memory_id, as_of_time)
        else:
            found = await self._parts.memories.get_memories(tenant_id, [request.memory_id], at=at)
            memory = found.get(request.memory_id)
        if memory is None or memory.is_expired(as_of_time or at) or not (memory.is_active or request.show_deleted):
            raise MemoryNotFound
        return pb.GetMemoryResponse(memory=wire.memory(memory), read_time=to_timestamp(at))

    async def BatchGetMemories(
        self, request: pb.BatchGetMemoriesRequest, context: Context
    ) -> pb.BatchGetMemoriesResponse:
        tenant_id, names, at = caller(context).tenant(), list(request.memory_ids), now()
        answer, looked_up = PageBuilder[pb.Memory](), 0
        not_found: list[str] = []
        while looked_up < len(names) and not answer.is_full:
            portion = names[looked_up : looked_up + answer.portion(len(names) - looked_up)]
            found = await self._parts.memories.get_memories(tenant_id, portion, at=at)
            for name in portion:
                memory = found.get(name)
                if memory is None or not memory.is_visible(at):
                    not_found.append(name)
                elif not answer.take([wire.memory(memory)]):
                    break
                looked_up += 1
        return pb.BatchGetMemoriesResponse(memories=answer.items, not_found=not_found, deferred=names[looked_up:])

    async def UpdateMemory(self, request: pb.UpdateMemoryRequest, context: Context) -> pb.UpdateMemoryResponse:
        who, at = caller(context), now()
        if not request.memory.memory_id:
            raise FieldInvalid(violations=[("memory.memory_id", "must name the memory")])
        if not request.update_mask.paths:
            raise UpdateMaskInvalid(violations=[("update_mask", "must name at least one field")])
        fields = updated_fields(request.update_mask, UPDATABLE)
        secret = request.memory.secret_value if "secret_value" in fields else ""
        if "secret_value" in fields and not secret:
            raise FieldInvalid(violations=[("memory.secret_value", "must not be empty; delete the memory instead")])

        def change(memory: Memory) -> Memory:
            memory.must_be_visible(at)
            memory.must_be(request.memory.revision)
            said = wire.memory(memory)
            merge_masked(request.update_mask, request.memory, said)
            with prefix_field_paths("memory"):
                draft = Draft.of(said, at=at, max_content=self._max_content)
                # What an import stored may be for a user who is not named: its other fields can change.
                if fields & _READERS:
                    draft.must_have_readers(at)
            return memory.revised(draft, at=at, by=who.principal)

        def respond(memory: Memory) -> pb.UpdateMemoryResponse:
            return pb.UpdateMemoryResponse(memory=wire.memory(memory))

        once = IdempotencyKey.of(who, request)
        changed = await self._parts.memories.change_memory(
            who.tenant(), request.memory.memory_id, change, respond, at=at, once=once, secret=secret
        )
        if isinstance(changed, bytes):
            return pb.UpdateMemoryResponse.FromString(changed)
        response = changed.response
        response.embedding_pending = bool(
            await self._pending(changed.documents, context, deferred=request.defer_embedding)
        )
        if response.embedding_pending:
            await self._parts.memories.correct_answer(who.tenant(), once, response)
        return response

    async def DeleteMemory(self, request: pb.DeleteMemoryRequest, context: Context) -> pb.DeleteMemoryResponse:
        who, at = caller(context), now()

        def change(memory: Memory) -> Memory:
            memory.must_be_visible(at)
            memory.must_be(request.revision)
            return memory.deleted(at=at, by=who.principal)

        once = IdempotencyKey.of(who, request)
        await self._parts.memories.change_memory(
            who.tenant(), request.memory_id, change, _nothing, at=at, once=once, event="memory_deleted"
        )
        return pb.DeleteMemoryResponse()

    async def RestoreMemory(self, request: pb.RestoreMemoryRequest, context: Context) -> pb.RestoreMemoryResponse:
        who, at = caller(context), now()

        def change(memory: Memory) -> Memory:
            if memory.is_expired(at):
                raise MemoryNotFound
            return memory if memory.is_active else memory.restored(at=at, by=who.principal)

        def respond(memory: Memory) -> pb.RestoreMemoryResponse:
            return pb.RestoreMemoryResponse(memory=wire.memory(memory))

        once = IdempotencyKey.of(who, request)
        changed = await self._parts.memories.change_memory(
            who.tenant(), request.memory_id, change, respond, at=at, once=once, event="memory_restored"
        )
        if isinstance(changed, bytes):
            return pb.RestoreMemoryResponse.FromString(changed)
        response = changed.response
        response.embedding_pending = bool(await self._pending(changed.documents, context))
        if response.embedding_pending:
            await self._parts.memories.correct_answer(who.tenant(), once, response)
        return response

    @property
    def _max_content(self) -> int:
        return self._parts.settings.max_content_characters

    async def _pending(self, documents: Sequence[Document], context: Context, *, deferred: bool = False) -> int:
        return await self._parts.embeddings.make(documents, remaining=context.time_remaining(), deferred=deferred)


def _nothing(_memory: Memory) -> pb.DeleteMemoryResponse:
    return pb.DeleteMemoryResponse()
