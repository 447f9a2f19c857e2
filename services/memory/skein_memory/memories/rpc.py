"""Handlers of the RPCs that create, read, update and delete memories, and list their types."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TypeVar
from uuid import UUID

from google.protobuf.message import Message

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.admission.processor_time import run_by_size, with_pauses
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.content_guard.guard import ContentGuard
from skein_kit.database.transactions import Transaction
from skein_kit.errors import PermissionMissing
from skein_kit.idempotency.store import AnsweredBefore, IdempotencyKey, IdempotencyStore
from skein_kit.identity.identity_token import Caller
from skein_kit.ids import now
from skein_kit.json_values import exact
from skein_kit.json_values.fields import fields
from skein_kit.policies.store import Policy
from skein_kit.rpc.pagination import MAX_UNPAGED, paginate, require_fit
from skein_kit.rpc.well_known_types import merge_masked
from skein_kit.search_text.embedding_requests import EmbeddingClient
from skein_kit.search_text.postings import Document
from skein_memory.errors import FactKeyTaken, MemoryNotFound
from skein_memory.lineage import convert as lineage_convert
from skein_memory.lineage.model import Source
from skein_memory.memories import convert, key_conflicts, memory_type
from skein_memory.memories.key_conflicts import KeyConflict
from skein_memory.memories.model import Memory, create_memories, documents_of
from skein_memory.memories.near_duplicates import ComparedDraft
from skein_memory.memories.sealed_secrets import SealedSecrets
from skein_memory.memories.similar_writes import Reinforce, SimilarWrites, compare_drafts
from skein_memory.memories.store import MemoryStore
from skein_memory.paging import PageBuilder
from skein_memory.validation import MEMORIES, MEMORY, ItemPaths, prefix_field_paths

_COMPARING = frozenset({pb.ON_SIMILAR_RETURN, pb.ON_SIMILAR_REINFORCE})
_READ = "memory.read"

Response = TypeVar("Response", bound=Message)
# Returns suggested links of a new memory: tenant, memory, time.
SuggestLinks = Callable[[UUID, UUID, datetime], Awaitable[Sequence[pb.LinkSuggestion]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Created:
    """What a request for new memories is answered with."""

    # As readers get them; similar stored ones stand in the place of those that were left to them.
    memories: Sequence[Memory]
    pending_count: int
    similar_indexes: Sequence[int] = ()
    existing_indexes: Sequence[int] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _NewMemories:
    """The memories of a request before they are stored."""

    messages: Sequence[pb.Memory]
    paths: ItemPaths
    memories: Sequence[Memory]
    sealed: SealedSecrets
    documents: Sequence[Document]
    compared: Mapping[int, ComparedDraft]


class MemoryHandlers:
    """Storing, reading and changing memories one by one."""

    def __init__(
        self,
        store: MemoryStore,
        idempotency: IdempotencyStore,
        *,
        guard: ContentGuard,
        embeddings: EmbeddingClient,
        suggest_links: SuggestLinks,
        reinforce: Reinforce,
        max_content: int,
    ) -> None:
        """Contents have at most `max_content` characters."""
        self._store = store
        self._guard = guard
        self._idempotency = idempotency
        self._embeddings = embeddings
        self._suggest_links = suggest_links
        self._similar_writes = SimilarWrites(store, reinforce)
        self._max_content = max_content

    async def CreateMemory(self, request: pb.CreateMemoryRequest, context: Context) -> pb.CreateMemoryResponse:
        def respond(created: _Created) -> pb.CreateMemoryResponse:
            return pb.CreateMemoryResponse(
                memory=convert.memory(created.memories[0]),
                embedding_pending=bool(created.pending_count),
                is_similar=bool(created.similar_indexes),
                is_existing=bool(created.existing_indexes),
            )

        response = await self._create(request, [request.memory], MEMORY, context, respond)
        if request.suggest_links and not (response.is_similar or response.is_existing):
            caller = caller_of(context)
            tenant_id, memory_id = caller.require_tenant(), UUID(response.memory.memory_id)
            response.suggested_links.extend(await self._suggest_links(tenant_id, memory_id, now()))
            if response.suggested_links:
                key = IdempotencyKey.of(caller, request)
                await self._store.replace_response(tenant_id, key, response.SerializeToString())
        return response

    async def BatchCreateMemories(
        self, request: pb.BatchCreateMemoriesRequest, context: Context
    ) -> pb.BatchCreateMemoriesResponse:
        def respond(created: _Created) -> pb.BatchCreateMemoriesResponse:
            response = pb.BatchCreateMemoriesResponse(
                memories=[convert.memory(memory) for memory in with_pauses(created.memories)],
                pending_embedding_count=created.pending_count,
                similar_indexes=created.similar_indexes,
                existing_indexes=created.existing_indexes,
            )
            require_fit(response)
            return response

        return await self._create(request, request.memories, MEMORIES, context, respond)

    async def _create(
        self,
        request: pb.CreateMemoryRequest | pb.BatchCreateMemoriesRequest,
        messages: Sequence[pb.Memory],
        paths: ItemPaths,
        context: Context,
        respond: Callable[[_Created], Response],
    ) -> Response:
        """Store the messages of a request, all or none, but those that the request leaves to stored ones.

        Raises AnsweredBefore for a repeat.
        """
        caller, at = caller_of(context), now()
        _check_may_compare(caller, request.on_similar)
        key_conflicts.check_may_return(caller, request)
        tenant_id, idempotency_key = caller.require_tenant(), IdempotencyKey.of(caller, request)
        sealed = SealedSecrets(at=at, by=caller.principal, agent_id=caller.agent_id)
        rules = await self._guard.rules(tenant_id)
        for index, message in enumerate(messages):
            # The service alone sets what readers see of a secret.
            message.ClearField("secret")
            await self._guard.apply(rules, message, path=paths.path(index), seal=partial(sealed.seal, message))
        size = request.ByteSize()
        drafts = await run_by_size(
            size,
            convert.drafts,
            messages,
            paths,
            at=at,
            max_content=self._max_content,
            agent_id=caller.agent_id,
            is_import=request.keep_times,
        )
        memories = create_memories(drafts, at=at, by=caller.principal)
        if request.keep_times:
            memories = convert.with_update_times(memories, messages, caller, at=at)
        vectors = convert.caller_vectors(memories, messages, paths)
        documents = await run_by_size(size, documents_of, with_pauses(memories), at=at, embeddings=vectors)
        new = _NewMemories(
            messages=messages,
            paths=paths,
            memories=memories,
            sealed=sealed,
            documents=documents,
            compared=await _compared(memories, messages, request, at=at),
        )
        try:
            response, created, documents = await self._write(request, new, caller, idempotency_key, respond, at=at)
        except FactKeyTaken:
            if not key_conflicts.is_answered(request):
                raise
            # Another call may have taken the key after this one looked for it: the second look finds that fact.
            response, created, documents = await self._write(request, new, caller, idempotency_key, respond, at=at)
        should_defer = request.defer_embedding
        pending_count = await self._request_embeddings(documents, context, should_defer=should_defer)
        if pending_count != created.pending_count:
            response = await run_by_size(size, respond, replace(created, pending_count=pending_count))
            await self._store.replace_response(tenant_id, idempotency_key, response.SerializeToString())
        return response

    async def _write(
        self,
        request: pb.CreateMemoryRequest | pb.BatchCreateMemoriesRequest,
        new: _NewMemories,
        caller: Caller,
        key: IdempotencyKey,
        respond: Callable[[_Created], Response],
        *,
        at: datetime,
    ) -> tuple[Response, _Created, list[Document]]:
        """Store new memories in one transaction; return the documents that may need vectors after it.

        `key` is of the request as it arrived: the guard may have changed its texts since.
        """
        tenant_id, memories = caller.require_tenant(), new.memories
        has_pending = partial(self._embeddings.has_pending_embeddings, should_defer=request.defer_embedding)
        if key_conflicts.is_answered(request):
            await self._store.prepare_months([at])
        async with self._store.begin_create(tenant_id, [*memories, *new.sealed.memories], at=at) as (tx, scored):
            created = _Created(memories=scored[: len(memories)], pending_count=has_pending(new.documents))
            response = await run_by_size(request.ByteSize(), respond, created)
            write = await self._idempotency.claim(tx, tenant_id, key, response=response.SerializeToString())
            if write.saved_response is not None:
                raise AnsweredBefore(write.saved_response)
            similar = await self._similar(tx, caller, scored, new.compared, request, at=at)
            remaining = {index: memory for index, memory in enumerate(memories) if index not in similar}
            conflicts = await key_conflicts.find_conflicts(
                tx, self._store, caller, remaining, new.messages, new.paths, request, at=at
            )
            superseded = {index: conflict for index, conflict in conflicts.items() if conflict.is_superseded}
            conflicts = {index: conflict for index, conflict in conflicts.items() if index not in superseded}
            left_out = {memories[index].memory_id for index in (*similar, *conflicts)}
            documents = [document for document in new.documents if document.item_id not in left_out]
            # Before the new ones are stored, because they take the keys.
            documents += (await self._update_existing(tx, new, caller, superseded, at=at))[1]
            if left_out:
                existing, changed_documents = await self._update_existing(tx, new, caller, conflicts, at=at)
                documents += changed_documents
                stored = similar | existing
                created = _Created(
                    memories=[stored.get(index, memory) for index, memory in enumerate(created.memories)],
                    pending_count=has_pending(documents),
                    similar_indexes=sorted(similar),
                    existing_indexes=sorted(conflicts),
                )
                response = await write.save(respond(created))
            if len(left_out) < len(memories) or any(conflict.is_change for conflict in conflicts.values()):
                # What is left out brings no secret into the vault.
                stored_messages = [
                    message
                    for index, message in enumerate(new.messages)
                    if index in remaining and (index not in conflicts or conflicts[index].is_change)
                ]
                sealed = new.sealed.of_messages(stored_messages)
                new_memories = [memory for memory in memories if memory.memory_id not in left_out]
                secrets = convert.secrets(memories, new.messages) | new.sealed.secrets
                stored_ids = {memory.memory_id for memory in (*new_memories, *sealed)}
                await self._store.create_memories(
                    tx,
                    tenant_id,
                    [*new_memories, *sealed],
                    [document for document in new.documents if document.item_id not in left_out],
                    at=at,
                    secrets={memory_id: secret for memory_id, secret in secrets.items() if memory_id in stored_ids},
                    sources=await _sources(tx, tenant_id, memories, new.messages, new.paths, left_out, at=at),
                )
            if superseded:
                pairs = [(memories[index].memory_id, each.before.memory_id) for index, each in superseded.items()]
                await self._store.link_superseded(tx, tenant_id, pairs, at=at, by=caller.principal)
        return response, created, documents

    async def _update_existing(
        self, tx: Transaction, new: _NewMemories, caller: Caller, conflicts: Mapping[int, KeyConflict], *, at: datetime
    ) -> tuple[dict[int, Memory], list[Document]]:
        """Change the facts whose keys new ones have; return them with their scores, by index, and their documents."""
        tenant_id = caller.require_tenant()
        existing: dict[int, Memory] = {}
        documents: list[Document] = []
        for index, conflict in conflicts.items():
            before, after = conflict.before, conflict.after
            if conflict.is_reinforced:
                existing[index] = await self._similar_writes.reinforce(tx, tenant_id, before, at, caller.principal)
                continue
            existing[index], changed = await self._store.update_memory(tx, tenant_id, before, after, at=at)
            documents += changed
            if "derived_from" in conflict.fields:
                with new.paths.prefix(index):
                    sources = await lineage_convert.read_sources(
                        tx, tenant_id, new.messages[index].derived_from, at=at, path="derived_from"
                    )
                await self._store.replace_sources(tx, tenant_id, before.memory_id, sources, at=at, by=caller.principal)
        return existing, documents

    async def BatchGetMemories(
        self, request: pb.BatchGetMemoriesRequest, context: Context
    ) -> pb.BatchGetMemoriesResponse:
        tenant_id, names, at = caller_of(context).require_tenant(), list(request.memory_ids), now()
        builder, read_count = PageBuilder[pb.Memory](), 0
        not_found: list[str] = []
        while read_count < len(names) and not builder.is_full:
            batch = names[read_count : read_count + builder.next_batch_size(len(names) - read_count)]
            memories = await self._store.get_memories(tenant_id, batch, at=at)
            for name in batch:
                memory = memories.get(name)
                if memory is None or not memory.is_visible(at):
                    not_found.append(name)
                elif not builder.add([convert.memory(memory)]):
                    break
                read_count += 1
        return pb.BatchGetMemoriesResponse(
            memories=builder.items, not_found_ids=not_found, unread_ids=names[read_count:]
        )

    async def UpdateMemory(self, request: pb.UpdateMemoryRequest, context: Context) -> pb.UpdateMemoryResponse:
        caller, at = caller_of(context), now()
        fields = convert.update_fields(request)
        secret = request.memory.secret_value if "secret_value" in fields else ""
        tenant_id, idempotency_key = caller.require_tenant(), IdempotencyKey.of(caller, request)
        sealed = SealedSecrets(at=at, by=caller.principal, agent_id=caller.agent_id)
        rules = await self._guard.rules(tenant_id)
        await self._store.prepare_months([at])
        async with self._idempotency.begin_with_key(tenant_id, idempotency_key) as write:
            before = await self._store.lock_memory(write.tx, tenant_id, request.memory.memory_id)
            before.check_visible(at)
            before.check_revision(request.memory.revision)
            message = convert.memory(before)
            changes = pb.Memory()
            merge_masked(request.update_mask, request.memory, changes)
            merge_masked(request.update_mask, changes, message)
            await self._guard.apply(rules, changes, path="memory", seal=partial(sealed.seal, message))
            merge_masked(request.update_mask, changes, message)
            with prefix_field_paths("memory"):
                draft = convert.draft(message, at=at, max_content=self._max_content)
                # An import may store a user's memory without a subject; its other fields can still change.
                if fields & convert.READER_FIELDS:
                    draft.check_has_readers(at)
            after = before.revise(draft, at=at, by=caller.principal)
            await self._store.create_memories(write.tx, tenant_id, sealed.memories, [], at=at, secrets=sealed.secrets)
            memory, documents = await self._store.update_memory(
                write.tx, tenant_id, before, after, at=at, secret=secret
            )
            if "derived_from" in fields:
                with prefix_field_paths("memory"):
                    sources = await lineage_convert.read_sources(
                        write.tx, tenant_id, request.memory.derived_from, at=at, path="derived_from"
                    )
                await self._store.replace_sources(
                    write.tx, tenant_id, after.memory_id, sources, at=at, by=caller.principal
                )
            response = await write.save(pb.UpdateMemoryResponse(memory=convert.memory(memory)))
        if await self._request_embeddings(documents, context, should_defer=request.defer_embedding):
            response.embedding_pending = True
            await self._store.replace_response(tenant_id, idempotency_key, response.SerializeToString())
        return response

    async def DeleteMemory(self, request: pb.DeleteMemoryRequest, context: Context) -> pb.DeleteMemoryResponse:
        caller, at = caller_of(context), now()
        async with self._idempotency.begin(caller, request) as write:
            before = await self._store.lock_memory(write.tx, caller.require_tenant(), request.memory_id)
            before.check_visible(at)
            before.check_revision(request.revision)
            after = before.delete(at=at, by=caller.principal)
            await self._store.update_memory(
                write.tx, caller.require_tenant(), before, after, at=at, event="memory_deleted"
            )
            await write.save(pb.DeleteMemoryResponse())
        return pb.DeleteMemoryResponse()

    async def UndeleteMemory(self, request: pb.UndeleteMemoryRequest, context: Context) -> pb.UndeleteMemoryResponse:
        caller, at = caller_of(context), now()
        tenant_id, idempotency_key = caller.require_tenant(), IdempotencyKey.of(caller, request)
        async with self._idempotency.begin_with_key(tenant_id, idempotency_key) as write:
            before = await self._store.lock_memory(write.tx, tenant_id, request.memory_id)
            if before.is_expired(at):
                raise MemoryNotFound
            after = before if before.is_active else before.undelete(at=at, by=caller.principal)
            memory, documents = await self._store.update_memory(
                write.tx, tenant_id, before, after, at=at, event="memory_restored"
            )
            response = await write.save(pb.UndeleteMemoryResponse(memory=convert.memory(memory)))
        if await self._request_embeddings(documents, context):
            response.embedding_pending = True
            await self._store.replace_response(tenant_id, idempotency_key, response.SerializeToString())
        return response

    async def ListMemoryTypes(self, request: pb.ListMemoryTypesRequest, context: Context) -> pb.ListMemoryTypesResponse:
        tenant_id = caller_of(context).require_tenant()
        policy = await self._store.policy(tenant_id)
        tenant_types = [name for name in policy.memory_types if name not in memory_type.BUILT_IN]
        types = [
            *(_type(type_, policy) for type_ in memory_type.BUILT_IN.values()),
            *(
                _type(memory_type.MemoryType(name=name, description="The tenant's own."), policy)
                for name in tenant_types
            ),
        ]
        page, token = paginate(
            types, lambda type_: type_.type, request, tenant_id, size=request.page_size or MAX_UNPAGED
        )
        return pb.ListMemoryTypesResponse(
            memory_types=page, others_accepted=not policy.memory_types, next_page_token=token
        )

    async def _similar(
        self,
        tx: Transaction,
        caller: Caller,
        scored: Sequence[Memory],
        compared: Mapping[int, ComparedDraft],
        request: pb.CreateMemoryRequest | pb.BatchCreateMemoriesRequest,
        *,
        at: datetime,
    ) -> dict[int, Memory]:
        """Return, by index, what is returned in place of new memories: stored ones, or earlier ones of the batch.

        As the request says, stored ones are reinforced, each once.
        """
        if not compared:
            return {}
        tenant_id = caller.require_tenant()
        if request.on_similar == pb.ON_SIMILAR_REINFORCE:
            found, repeats = await self._similar_writes.find_and_reinforce(
                tx, tenant_id, compared, at=at, by=caller.principal
            )
        else:
            found, repeats = await self._similar_writes.find(tx, tenant_id, compared, at=at)
        return found | {index: scored[earlier] for index, earlier in repeats.items()}

    async def _request_embeddings(
        self, documents: Sequence[Document], context: Context, *, should_defer: bool = False
    ) -> int:
        return await self._embeddings.request_embeddings(
            documents, remaining=context.time_remaining(), should_defer=should_defer
        )


async def _compared(
    memories: Sequence[Memory],
    messages: Sequence[pb.Memory],
    request: pb.CreateMemoryRequest | pb.BatchCreateMemoriesRequest,
    *,
    at: datetime,
) -> dict[int, ComparedDraft]:
    """Return, by index, the new memories that the request wants compared."""
    if request.keep_times or request.on_similar not in _COMPARING:
        return {}
    # The same words of another time or another source are another memory. A statement that extractors found is not.
    drafts = {
        index: memory.draft
        for index, (memory, message) in enumerate(zip(memories, messages, strict=True))
        if memory.draft.create_time == at
        and (not message.derived_from or (memory.is_extracted and not memory.draft.key))
    }
    return dict(zip(drafts, await compare_drafts(drafts.values()), strict=True))


async def _sources(
    tx: Transaction,
    tenant_id: UUID,
    memories: Sequence[Memory],
    messages: Sequence[pb.Memory],
    paths: ItemPaths,
    left_out: Container[UUID],
    *,
    at: datetime,
) -> dict[UUID, list[Source]]:
    """Read what new memories were made of; errors name the field, and in a batch the "index" of the memory."""
    sources: dict[UUID, list[Source]] = {}
    for index, (memory, message) in enumerate(zip(memories, messages, strict=True)):
        if message.derived_from and memory.memory_id not in left_out:
            with paths.prefix(index):
                sources[memory.memory_id] = await lineage_convert.read_sources(
                    tx, tenant_id, message.derived_from, at=at, path="derived_from"
                )
    return sources


def _check_may_compare(caller: Caller, on_similar: pb.OnSimilar) -> None:
    """Reject a caller that would get a stored memory without the right to read one. Raises PermissionMissing."""
    if on_similar in _COMPARING and _READ not in caller.permissions:
        raise PermissionMissing(permission=_READ)


def _type(type_: memory_type.MemoryType, policy: Policy) -> pb.MemoryType:
    return pb.MemoryType(
        type=type_.name,
        description=type_.description,
        built_in=type_.name in memory_type.BUILT_IN,
        searched_fields=type_.searched_fields,
        accepted=not policy.memory_types or type_.name in policy.memory_types,
        **fields(json_schema=exact.dumps(type_.schema)),
    )
