"""Handlers of the RPCs that decide on what waits for approval, and of the writes that begin to wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message

from skein.memory.v1 import approvals_pb2 as pb
from skein.memory.v1 import memory_pb2
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.content_guard.guard import ContentGuard, GuardRules
from skein_kit.database.transactions import Transaction
from skein_kit.errors import ApprovalRequired
from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore
from skein_kit.identity.identity_token import Caller
from skein_kit.ids import new_id, now
from skein_kit.rpc.pagination import read_id, require_fit, resolve_page_size
from skein_kit.rpc.well_known_types import merge_masked, to_timestamp, updated_fields
from skein_kit.search_text.embedding_requests import EmbeddingClient
from skein_kit.search_text.postings import Document
from skein_memory.approvals.model import PendingMemory
from skein_memory.approvals.store import ApprovalStore
from skein_memory.lineage import convert as lineage_convert
from skein_memory.lineage.model import Source
from skein_memory.memories import convert as memories_convert
from skein_memory.memories import key_conflicts, memory_type
from skein_memory.memories.key_conflicts import KeyConflict
from skein_memory.memories.model import FACT, FactKey, Memory, create_memories, documents_of
from skein_memory.memories.sealed_secrets import SealedSecrets
from skein_memory.memories.store import MemoryStore
from skein_memory.paging import cut_page
from skein_memory.validation import MEMORIES, MEMORY, ItemPaths, prefix_field_paths

if TYPE_CHECKING:
    from skein_kit.approval import Handler


Response = TypeVar("Response", bound=Message)
_FACTS = ItemPaths("facts", is_batch=True)
# How long refused facts are kept.
_REFUSED_KEPT = timedelta(days=30)
# A secret never waits: it would lie in the open beside the vault.
_EDITABLE = memories_convert.UPDATABLE - {"secret_value"}


class PendingWriteHandlers:
    """CreateMemory, BatchCreateMemories and UpdateMemory of sources whose memories wait, and facts that are refused."""

    def __init__(
        self,
        store: ApprovalStore,
        idempotency: IdempotencyStore,
        *,
        memories: MemoryStore,
        guard: ContentGuard,
        max_content: int,
    ) -> None:
        """Contents have at most `max_content` characters."""
        self._store = store
        self._idempotency = idempotency
        self._memories = memories
        self._guard = guard
        self._max_content = max_content

    def by_path(self) -> Mapping[str, Handler]:
        """Return the methods that hold a write, by the path of the one whose write it is."""
        methods = (self.CreateMemory, self.BatchCreateMemories, self.UpdateMemory)
        return {f"/skein.memory.v1.MemoryService/{method.__name__}": method for method in methods}

    async def CreateMemory(
        self, request: memory_pb2.CreateMemoryRequest, context: Context
    ) -> memory_pb2.CreateMemoryResponse:
        def respond(messages: Sequence[memory_pb2.Memory], existing: Sequence[int]) -> memory_pb2.CreateMemoryResponse:
            return memory_pb2.CreateMemoryResponse(memory=messages[0], is_existing=bool(existing))

        return await self._create(request, [request.memory], MEMORY, context, respond)

    async def BatchCreateMemories(
        self, request: memory_pb2.BatchCreateMemoriesRequest, context: Context
    ) -> memory_pb2.BatchCreateMemoriesResponse:
        def respond(
            messages: Sequence[memory_pb2.Memory], existing: Sequence[int]
        ) -> memory_pb2.BatchCreateMemoriesResponse:
            response = memory_pb2.BatchCreateMemoriesResponse(memories=messages, existing_indexes=existing)
            require_fit(response)
            return response

        return await self._create(request, request.memories, MEMORIES, context, respond)

    async def _create(
        self,
        request: memory_pb2.CreateMemoryRequest | memory_pb2.BatchCreateMemoriesRequest,
        messages: Sequence[memory_pb2.Memory],
        paths: ItemPaths,
        context: Context,
        respond: Callable[[Sequence[memory_pb2.Memory], Sequence[int]], Response],
    ) -> Response:
        """Store new memories that wait, and changes of facts whose keys they have, if the request wants these."""
        caller, at = caller_of(context), now()
        key_conflicts.check_may_return(caller, request)
        _check_can_wait(messages, keep_times=request.keep_times)
        memories = await self._new_memories(caller, messages, paths, at=at)
        async with self._idempotency.begin(caller, request) as write:
            # What waits takes no key, so it ends no fact that has one.
            waits_alone = key_conflicts.is_superseding(request)
            new = {} if waits_alone else dict(enumerate(memories))
            conflicts = await key_conflicts.find_conflicts(
                write.tx, self._memories, caller, new, messages, paths, request, at=at
            )
            masks = [key_conflicts.mask_of(message, request) for message in messages]
            answers = await self._add(write.tx, context, memories, messages, conflicts, masks, at=at)
            return await write.save(respond(answers, sorted(conflicts)))

    async def KeepRefusedFacts(
        self, request: memory_pb2.KeepRefusedFactsRequest, context: Context
    ) -> memory_pb2.KeepRefusedFactsResponse:
        caller, at = caller_of(context), now()
        messages = [fact.memory for fact in request.facts]
        _check_can_wait(messages, keep_times=False)
        memories = await self._new_memories(caller, messages, _FACTS, at=at)
        async with self._idempotency.begin(caller, request) as write:
            refused = [
                replace(
                    await self._waiting(write.tx, context, memory, fact.memory, at=at, expire_time=at + _REFUSED_KEPT),
                    refusal_reason=fact.reason,
                )
                for memory, fact in zip(memories, request.facts, strict=True)
            ]
            types = [memory.draft.type for memory in memories]
            await self._store.add(write.tx, caller.require_tenant(), refused, types, at=at)
            return await write.save(memory_pb2.KeepRefusedFactsResponse())

    async def _new_memories(
        self, caller: Caller, messages: Sequence[memory_pb2.Memory], paths: ItemPaths, *, at: datetime
    ) -> list[Memory]:
        """Screen and check new memories as if they were stored."""
        rules = await self._guard.rules(caller.require_tenant())
        for index, message in enumerate(messages):
            # Sealing is redaction here: a secret in the vault would be a memory that did not wait.
            await self._guard.apply(rules, message, path=paths.path(index))
        drafts = memories_convert.drafts(
            messages, paths, at=at, max_content=self._max_content, agent_id=caller.agent_id
        )
        memories = create_memories(drafts, at=at, by=caller.principal)
        # Raises FieldInvalid for a vector of length zero.
        memories_convert.caller_vectors(memories, messages, paths)
        await self._memories.prepare_months([draft.create_time for draft in drafts])
        return memories

    @staticmethod
    async def _waiting(
        tx: Transaction,
        context: Context,
        memory: Memory,
        request: memory_pb2.Memory,
        *,
        at: datetime,
        expire_time: datetime,
    ) -> PendingMemory:
        """Return a new memory as a write that waits. Raises SourceNotFound."""
        caller = caller_of(context)
        # Without a caller vector: an approver does not see what a text would be found by.
        content = memories_convert.memory(memory)
        content.derived_from.extend(request.derived_from)
        sources = await _sources(tx, caller.require_tenant(), request, at=at)
        return PendingMemory(
            pending_id=memory.memory_id,
            memory_id=memory.memory_id,
            update_mask=None,
            revision=0,
            content=content.SerializeToString(),
            external_id=memory.draft.external_id,
            subject_id=memory.draft.subject_id,
            session_id=memory.draft.session_id,
            memory_agent_id=memory.draft.agent_id,
            agent_id=_agent_id(caller, context),
            source_ids=_source_ids(sources),
            created_by=caller.principal,
            create_time=at,
            expire_time=expire_time,
        )

    async def UpdateMemory(
        self, request: memory_pb2.UpdateMemoryRequest, context: Context
    ) -> memory_pb2.UpdateMemoryResponse:
        caller, at = caller_of(context), now()
        fields = memories_convert.update_fields(request)
        if "secret_value" in fields:
            raise ApprovalRequired
        tenant_id, idempotency_key = caller.require_tenant(), IdempotencyKey.of(caller, request)
        changes = memory_pb2.Memory()
        merge_masked(request.update_mask, request.memory, changes)
        await self._guard.apply(await self._guard.rules(tenant_id), changes, path="memory")
        async with self._idempotency.begin_with_key(tenant_id, idempotency_key) as write:
            before = await self._memories.lock_memory(write.tx, tenant_id, request.memory.memory_id)
            before.check_visible(at)
            before.check_revision(request.memory.revision)
            message = memories_convert.memory(before)
            merge_masked(request.update_mask, changes, message)
            with prefix_field_paths("memory"):
                draft = memories_convert.draft(message, at=at, max_content=self._max_content)
                if fields & memories_convert.READER_FIELDS:
                    draft.check_has_readers(at)
            sources = await _sources(write.tx, tenant_id, changes, at=at)
            pending = PendingMemory(
                pending_id=new_id(at),
                memory_id=before.memory_id,
                update_mask=tuple(request.update_mask.paths),
                revision=request.memory.revision,
                content=changes.SerializeToString(),
                external_id=draft.external_id,
                subject_id=draft.subject_id,
                session_id=draft.session_id,
                memory_agent_id=draft.agent_id,
                agent_id=_agent_id(caller, context),
                source_ids=_source_ids(sources),
                created_by=caller.principal,
                create_time=at,
                expire_time=await self._store.expire_time(write.tx, tenant_id, at),
            )
            await self._store.add(write.tx, tenant_id, [pending], [draft.type], at=at)
            memory, _ = await self._memories.update_memory(write.tx, tenant_id, before, before, at=at)
            return await write.save(
                memory_pb2.UpdateMemoryResponse(
                    memory=memories_convert.memory(memory), pending_id=str(pending.pending_id)
                )
            )

    async def _add(
        self,
        tx: Transaction,
        context: Context,
        memories: Sequence[Memory],
        requested: Sequence[memory_pb2.Memory],
        conflicts: Mapping[int, KeyConflict],
        masks: Sequence[tuple[str, ...] | None],
        *,
        at: datetime,
    ) -> list[memory_pb2.Memory]:
        """Store writes that wait; return their memories as their source is told.

        `masks` have the fields that new facts set of those that have their keys by the time of the approval.
        """
        caller = caller_of(context)
        tenant_id = caller.require_tenant()
        expire_time = await self._store.expire_time(tx, tenant_id, at)
        pending = []
        answers = []
        for index, (memory, request) in enumerate(zip(memories, requested, strict=True)):
            conflict = conflicts.get(index)
            if conflict is not None and not conflict.is_change:
                (scored,) = await self._memories.with_scores(tx, tenant_id, [conflict.before], at=at)
                answers.append(memories_convert.memory(scored))
                continue
            waiting = await self._waiting(tx, context, memory, request, at=at, expire_time=expire_time)
            if conflict is None:
                waiting = replace(waiting, conflict_mask=masks[index])
            else:
                draft = conflict.after.draft
                waiting = replace(
                    waiting,
                    memory_id=conflict.after.memory_id,
                    update_mask=conflict.update_mask,
                    external_id=draft.external_id,
                    subject_id=draft.subject_id,
                    session_id=draft.session_id,
                    memory_agent_id=draft.agent_id,
                )
            pending.append(waiting)
            answers.append(pending_answer(pending[-1]))
        if pending:
            await self._store.add(tx, tenant_id, pending, [memory.draft.type for memory in memories], at=at)
        return answers


class ApprovalHandlers:
    """Listing what waits for approval, and deciding on it."""

    def __init__(
        self,
        store: ApprovalStore,
        idempotency: IdempotencyStore,
        *,
        memories: MemoryStore,
        guard: ContentGuard,
        embeddings: EmbeddingClient,
        max_content: int,
    ) -> None:
        """Contents have at most `max_content` characters."""
        self._store = store
        self._idempotency = idempotency
        self._memories = memories
        self._guard = guard
        self._embeddings = embeddings
        self._max_content = max_content

    async def ListPendingMemories(
        self, request: pb.ListPendingMemoriesRequest, context: Context
    ) -> pb.ListPendingMemoriesResponse:
        tenant_id, size, at = caller_of(context).require_tenant(), resolve_page_size(request.page_size), now()
        pending = await self._store.list_pending(tenant_id, after=read_id(tenant_id, request), count=size + 1, at=at)
        messages = [pending_memory(write) for write in pending]
        changed_ids = [write.memory_id for write in pending if KEY_FIELDS.intersection(write.update_mask or ())]
        changed = await self._store.read_memories(tenant_id, changed_ids)
        keys = [
            fact_key(message, changed.get(write.memory_id)) for write, message in zip(pending, messages, strict=True)
        ]
        holders = await self._store.visible_key_holders(tenant_id, [key for key in keys if key is not None], at=at)
        for write, message, key in zip(pending, messages, keys, strict=True):
            if key in holders and holders[key] != write.memory_id:
                message.key_holder_id = str(holders[key])
        page, token = cut_page(messages, size, "pending_id", tenant_id, request)
        return pb.ListPendingMemoriesResponse(pending_memories=page, next_page_token=token)

    async def ListRefusedFacts(
        self, request: pb.ListRefusedFactsRequest, context: Context
    ) -> pb.ListRefusedFactsResponse:
        tenant_id, size = caller_of(context).require_tenant(), resolve_page_size(request.page_size)
        refused = await self._store.list_pending(
            tenant_id, after=read_id(tenant_id, request), count=size + 1, at=now(), is_refused=True
        )
        page, token = cut_page(list(map(pending_memory, refused)), size, "pending_id", tenant_id, request)
        return pb.ListRefusedFactsResponse(refused_facts=page, next_page_token=token)

    async def ApproveMemory(self, request: pb.ApproveMemoryRequest, context: Context) -> pb.ApproveMemoryResponse:
        caller, at = caller_of(context), now()
        if request.update_mask.paths:
            updated_fields(request.update_mask, _EDITABLE)
        tenant_id, idempotency_key = caller.require_tenant(), IdempotencyKey.of(caller, request)
        rules = await self._guard.rules(tenant_id)
        await self._memories.prepare_months([at])
        async with self._idempotency.begin_with_key(tenant_id, idempotency_key) as write:
            pending = await self._store.take(
                write.tx,
                tenant_id,
                UUID(request.pending_id),
                event="memory_approved",
                at=at,
                by=caller.principal,
            )
            message = memory_pb2.Memory.FromString(pending.content)
            if request.update_mask.paths:
                merge_masked(request.update_mask, request.memory, message)
            apply = self._change if pending.is_change else self._create
            memory, documents = await apply(write.tx, caller, pending, message, request, rules, at=at)
            response = await write.save(pb.ApproveMemoryResponse(memory=memories_convert.memory(memory)))
        if await self._embeddings.request_embeddings(documents, remaining=context.time_remaining()):
            response.embedding_pending = True
            await self._memories.replace_response(tenant_id, idempotency_key, response.SerializeToString())
        return response

    async def RefuseMemory(self, request: pb.RefuseMemoryRequest, context: Context) -> pb.RefuseMemoryResponse:
        caller, at = caller_of(context), now()
        tenant_id = caller.require_tenant()
        async with self._idempotency.begin(caller, request) as write:
            pending_id = UUID(request.pending_id)
            await self._store.take(write.tx, tenant_id, pending_id, event="memory_refused", at=at, by=caller.principal)
            await write.save(pb.RefuseMemoryResponse())
        return pb.RefuseMemoryResponse()

    async def _create(
        self,
        tx: Transaction,
        caller: Caller,
        pending: PendingMemory,
        message: memory_pb2.Memory,
        request: pb.ApproveMemoryRequest,
        rules: GuardRules,
        *,
        at: datetime,
    ) -> tuple[Memory, list[Document]]:
        """Store a new memory; return it with its scores, and its documents.

        If the key of a fact was taken meanwhile, the fact that has it changes or is returned, as its source wanted.
        """
        holder = await self._find_holder(tx, caller.require_tenant(), pending, message, at=at)
        if holder is not None:
            if not pending.conflict_mask:
                (unchanged,) = await self._memories.with_scores(tx, caller.require_tenant(), [holder], at=at)
                return unchanged, []
            archived = {"archive_time"} if holder.draft.archive_time is not None else set[str]()
            mask = tuple(sorted(archived.union(pending.conflict_mask)))
            change = replace(pending, memory_id=holder.memory_id, update_mask=mask)
            return await self._change(tx, caller, change, message, request, rules, at=at)
        sealed = SealedSecrets(at=at, by=pending.created_by, agent_id=pending.agent_id or "")
        await self._guard.apply(rules, message, path="memory", seal=partial(sealed.seal, message), built_in_only=True)
        with prefix_field_paths("memory"):
            draft = memories_convert.draft(message, at=at, max_content=self._max_content)
            draft.check_has_readers(at)
        memory = Memory(
            memory_id=pending.memory_id,
            draft=draft,
            revision=1,
            update_time=min(at, draft.create_time),
            record_time=at,
            delete_time=None,
            created_by=pending.created_by,
            # Who accepts a refused fact vouches for it.
            updated_by=caller.principal if request.update_mask.paths or pending.refusal_reason else pending.created_by,
        )
        documents = documents_of([memory], at=at)
        memories = [memory, *sealed.memories]
        tenant_id = caller.require_tenant()
        sources = {memory.memory_id: await _sources(tx, tenant_id, message, at=at)} if message.derived_from else {}
        await self._memories.create_memories(
            tx, tenant_id, memories, documents, at=at, secrets=sealed.secrets, sources=sources
        )
        (scored,) = await self._memories.score_new_memories(tx, tenant_id, [memory], at=at)
        return scored, documents

    async def _find_holder(
        self, tx: Transaction, tenant_id: UUID, pending: PendingMemory, message: memory_pb2.Memory, *, at: datetime
    ) -> Memory | None:
        """Lock and return the fact that has the key of a new one, if its source sees it and wanted no refusal."""
        if pending.conflict_mask is None or message.type != FACT or not message.key:
            return None
        key = FactKey(message.subject_id, message.key)
        holder = (await key_conflicts.lock_holders(tx, self._memories, tenant_id, [key])).get(key)
        if holder is None or not holder.is_visible(at):
            return None
        draft = holder.draft
        is_seen = pending.agent_id in (None, draft.agent_id) or draft.scope == "global"
        return holder if is_seen or (draft.agent_id is None and draft.scope != "agent") else None

    async def _change(
        self,
        tx: Transaction,
        caller: Caller,
        pending: PendingMemory,
        changes: memory_pb2.Memory,
        request: pb.ApproveMemoryRequest,
        rules: GuardRules,
        *,
        at: datetime,
    ) -> tuple[Memory, list[Document]]:
        """Change a memory; return it with its scores, and the documents that need an embedding."""
        tenant_id = caller.require_tenant()
        before = await self._memories.lock_memory(tx, tenant_id, str(pending.memory_id))
        before.check_visible(at)
        before.check_revision(pending.revision)
        sealed = SealedSecrets(at=at, by=pending.created_by, agent_id=pending.agent_id or "")
        message = memories_convert.memory(before)
        mask = update_mask(pending, request.update_mask.paths)
        merge_masked(mask, changes, message)
        await self._guard.apply(rules, changes, path="memory", seal=partial(sealed.seal, message), built_in_only=True)
        merge_masked(mask, changes, message)
        with prefix_field_paths("memory"):
            draft = memories_convert.draft(message, at=at, max_content=self._max_content)
            if memories_convert.READER_FIELDS.intersection(mask.paths):
                draft.check_has_readers(at)
        after = before.revise(draft, at=at, by=caller.principal if request.update_mask.paths else pending.created_by)
        await self._memories.create_memories(tx, tenant_id, sealed.memories, [], at=at, secrets=sealed.secrets)
        memory, documents = await self._memories.update_memory(tx, tenant_id, before, after, at=at)
        if "derived_from" in mask.paths:
            sources = await _sources(tx, tenant_id, changes, at=at)
            await self._memories.replace_sources(tx, tenant_id, after.memory_id, sources, at=at, by=after.updated_by)
        return memory, documents


async def _sources(tx: Transaction, tenant_id: UUID, message: memory_pb2.Memory, *, at: datetime) -> list[Source]:
    """Read what a memory was made of. Raises SourceNotFound where a source is not there (any more)."""
    with prefix_field_paths("memory"):
        return await lineage_convert.read_sources(tx, tenant_id, message.derived_from, at=at, path="derived_from")


def _source_ids(sources: Sequence[Source]) -> tuple[UUID, ...]:
    return tuple(source.source_id for source in sources if source.source_id is not None)


def _check_can_wait(messages: Sequence[memory_pb2.Memory], *, keep_times: bool) -> None:
    """Reject secrets and imports, which cannot wait. Raises ApprovalRequired."""
    if keep_times or any(message.secret_value or message.type == memory_type.VAULT for message in messages):
        raise ApprovalRequired


def _agent_id(caller: Caller, context: Context) -> str | None:
    """Return the agent that the caller acts as, by its credential or by its claim."""
    return caller.agent_id or getattr(context, "claimed_agent_id", "") or None


# Fields of which a fact key consists.
KEY_FIELDS = frozenset({"type", "subject_id", "key"})


def pending_memory(value: PendingMemory) -> pb.PendingMemory:
    """Return a write that waits as approvers read it."""
    memory = memory_pb2.Memory.FromString(value.content)
    memory.memory_id = str(value.memory_id)
    memory.pending_approval = True
    return pb.PendingMemory(
        pending_id=str(value.pending_id),
        memory=memory,
        update_mask=update_mask(value, ()) if value.is_change else None,
        created_by=value.created_by,
        agent_id=value.agent_id or "",
        create_time=to_timestamp(value.create_time),
        expire_time=to_timestamp(value.expire_time),
        refusal_reason=value.refusal_reason or "",
    )


def fact_key(message: pb.PendingMemory, before: Memory | None) -> FactKey | None:
    """Return the fact key that a write would take: of a new fact, or of the changed memory `before`; None for none."""
    memory, mask = message.memory, message.update_mask.paths
    if not mask:
        type_, subject_id, key = memory.type, memory.subject_id, memory.key
    elif before is None:
        return None
    else:
        type_ = memory.type if "type" in mask else before.draft.type
        subject_id = memory.subject_id if "subject_id" in mask else before.draft.subject_id or ""
        key = memory.key if "key" in mask else before.draft.key or ""
    return FactKey(subject_id, key) if type_ == FACT and key else None


def pending_answer(value: PendingMemory) -> memory_pb2.Memory:
    """Return a new memory that waits, as its source is told: without content, so that saved responses hold none."""
    return memory_pb2.Memory(
        memory_id=str(value.memory_id),
        create_time=to_timestamp(value.create_time),
        created_by=value.created_by,
        pending_approval=True,
    )


def update_mask(value: PendingMemory, edited_paths: Iterable[str]) -> FieldMask:
    """Return the fields that a change sets, with those that its approver edits."""
    return FieldMask(paths=dict.fromkeys([*(value.update_mask or ()), *edited_paths]))
