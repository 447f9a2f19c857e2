"""Handlers of the RPCs for curation."""

from __future__ import annotations

from uuid import UUID

from skein.memory.v1 import memory_pb2, scores_pb2
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.database.transactions import Transaction
from skein_kit.errors import JobLimited, JobPaused, PageTokenInvalid
from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore
from skein_kit.ids import now, parse_id
from skein_kit.jobs.model import Grant, JobKind, JobState, Progress
from skein_kit.jobs.store import JobStore
from skein_kit.rpc.pagination import read_token, require_fit, write_token
from skein_kit.rpc.well_known_types import read_time, to_timestamp
from skein_kit.search_text.embedding_requests import EmbeddingClient
from skein_memory.curation import model as curation
from skein_memory.curation.store import FIRST, CurationStore, DuplicateGroup, Reinforcement
from skein_memory.errors import MemoryNotFound
from skein_memory.memories import convert as memories_convert
from skein_memory.memories.model import Memory
from skein_memory.memories.store import MemoryStore

_DEFAULT_DECAY_LIMIT = 100
_DEFAULT_GROUPS = 20


class CurationHandlers:
    """Explaining scores, reinforcing, decaying, merging and consolidating memories."""

    def __init__(
        self,
        store: CurationStore,
        idempotency: IdempotencyStore,
        *,
        memories: MemoryStore,
        embeddings: EmbeddingClient,
        jobs: JobStore,
        max_content: int,
    ) -> None:
        """Merged contents have at most `max_content` characters."""
        self._store = store
        self._idempotency = idempotency
        self._memories = memories
        self._embeddings = embeddings
        self._jobs = jobs
        self._max_content = max_content

    async def ExplainScore(
        self, request: scores_pb2.ExplainScoreRequest, context: Context
    ) -> scores_pb2.ExplainScoreResponse:
        at = read_time(request, "read_time") or now()
        memory_id, explanation = await self._store.explain(
            caller_of(context).require_tenant(), request.memory_id, at=at
        )
        return scores_pb2.ExplainScoreResponse(
            memory_id=str(memory_id),
            scores=memories_convert.scores(explanation.scores),
            confidence_components=[memories_convert.component(part) for part in explanation.confidence],
            importance_components=[memories_convert.component(part) for part in explanation.importance],
            read_time=to_timestamp(at),
        )

    async def ReinforceMemory(
        self, request: scores_pb2.ReinforceMemoryRequest, context: Context
    ) -> scores_pb2.ReinforceMemoryResponse:
        caller, at = caller_of(context), now()
        has_field = request.HasField
        reinforcement = Reinforcement(
            confidence=request.confidence_delta if has_field("confidence_delta") else curation.REINFORCE_CONFIDENCE,
            importance=request.importance_delta if has_field("importance_delta") else curation.REINFORCE_IMPORTANCE,
            spread=request.spread if has_field("spread") else curation.REINFORCE_SPREAD,
        )

        async with self._idempotency.begin(caller, request) as write:
            memories, truncated = await self._store.reinforce(
                write.tx, caller.require_tenant(), request.memory_id, reinforcement, at=at, by=caller.principal
            )
            return await write.save(
                scores_pb2.ReinforceMemoryResponse(memories=map(_reinforced_memory, memories), truncated=truncated)
            )

    async def DecayScores(
        self, request: scores_pb2.DecayScoresRequest, context: Context
    ) -> scores_pb2.DecayScoresResponse:
        caller, at = caller_of(context), now()
        async with self._idempotency.begin(caller, request) as write:
            decayed_count, more = await self._store.decay(
                write.tx,
                caller.require_tenant(),
                limit=request.limit or _DEFAULT_DECAY_LIMIT,
                at=at,
                by=caller.principal,
            )
            return await write.save(scores_pb2.DecayScoresResponse(decayed_count=decayed_count, more=more))

    async def MergeMemories(
        self, request: scores_pb2.MergeMemoriesRequest, context: Context
    ) -> memory_pb2.MergeMemoriesResponse:
        caller, at = caller_of(context), now()
        tenant_id, idempotency_key = caller.require_tenant(), IdempotencyKey.of(caller, request)
        try:
            async with self._idempotency.begin_with_key(tenant_id, idempotency_key) as write:
                result = await self._store.merge(
                    write.tx,
                    tenant_id,
                    list(request.memory_ids),
                    max_content=self._max_content,
                    at=at,
                    by=caller.principal,
                )
                response = memory_pb2.MergeMemoriesResponse(
                    memory=memories_convert.memory(result.memory),
                    archived_memory_ids=[str(id_) for id_ in result.archived_ids],
                    moved_link_count=result.moved_links,
                )
                require_fit(response)
                await write.save(response)
        except MemoryNotFound:
            await self._store.check_same_space(tenant_id, list(request.memory_ids), caller.spaces or ())
            raise
        if await self._embeddings.request_embeddings(result.documents, remaining=context.time_remaining()):
            response.embedding_pending = True
            await self._memories.replace_response(tenant_id, idempotency_key, response.SerializeToString())
        return response

    async def ConsolidateMemories(
        self, request: scores_pb2.ConsolidateMemoriesRequest, context: Context
    ) -> scores_pb2.ConsolidateMemoriesResponse:
        caller, at = caller_of(context), now()
        tenant_id, token_request = (
            caller.require_tenant(),
            scores_pb2.ConsolidateMemoriesRequest(dry_run=request.dry_run),
        )
        token = read_token(request.page_token, tenant_id, token_request)
        after = FIRST if token is None else parse_id(token[0]) if len(token) == 1 else None
        if after is None:
            raise PageTokenInvalid

        async with self._idempotency.begin(caller, request) as write:
            grant = (
                None
                if request.dry_run
                else await self._grant(write.tx, tenant_id, request.page_size or _DEFAULT_GROUPS)
            )
            groups, cursor = await self._store.consolidate(
                write.tx,
                tenant_id,
                after=after,
                max_groups=(request.page_size or _DEFAULT_GROUPS) if grant is None else grant.count,
                dry_run=request.dry_run,
                at=at,
                by=caller.principal,
            )
            response = await write.save(
                scores_pb2.ConsolidateMemoriesResponse(
                    groups=[_group(group) for group in groups],
                    next_page_token="" if cursor is None else write_token([str(cursor)], tenant_id, token_request),
                )
            )
        if grant is not None:
            count = sum(len(group.archived_ids) for group in groups)
            await self._jobs.settle(tenant_id, grant, Progress(done_count=count, has_more=cursor is not None))
        return response

    async def _grant(self, tx: Transaction, tenant_id: UUID, count: int) -> Grant:
        """Take the groups of one call from the tenant's limits. Raises JobPaused and JobLimited."""
        grant = await self._jobs.acquire_in(tx, tenant_id, JobKind.CONSOLIDATION, count)
        if grant.state is JobState.PAUSED:
            raise JobPaused(kind=grant.kind)
        if not grant.count:
            error = JobLimited(kind=grant.kind)
            error.retry_after = grant.retry_seconds
            raise error
        return grant


def _reinforced_memory(value: Memory) -> scores_pb2.ReinforcedMemory:
    return scores_pb2.ReinforcedMemory(
        memory_id=str(value.memory_id),
        confidence=value.draft.confidence,
        importance=value.draft.importance,
        revision=value.revision,
    )


def _group(value: DuplicateGroup) -> scores_pb2.DuplicateGroup:
    return scores_pb2.DuplicateGroup(
        kept_memory_id=str(value.kept_id), archived_memory_ids=[str(id_) for id_ in value.archived_ids]
    )
