"""Runs a benchmark on a cluster: a new tenant, its memories or messages, and every question, timed."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from typing import Literal, TypeAlias

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import curation_pb2, memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import tenancy_pb2
from skein_client.client import Client
from skein_client.connection import Connection
from skein_client.errors import SkeinError
from skein_cluster.api.client import open_client
from skein_cluster.api.tenants import create_tenant
from skein_cluster.bench.conversations import BenchQuestion
from skein_cluster.bench.exactness import ScoredHit
from skein_cluster.bench.measures import DEPTHS, ScoredQuestion
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.cli.recall_hits import hit_name

# What a turn becomes.
Form: TypeAlias = Literal["memories", "messages"]

LIMIT = max(DEPTHS)
_BRANCHES = {"memories": gateway_pb2.BRANCH_MEMORIES, "messages": gateway_pb2.BRANCH_MESSAGES}
# Largest batch that the services embed before they reply.
_EMBEDDED_AT_ONCE = 16
# Most links of one call.
_LINKED_AT_ONCE = 1000
_PENDING_SECONDS = 300.0
_PENDING_PAUSE_SECONDS = 0.25
# Longest part of a tenant's name that says what it holds.
_NAME_CHARACTERS = 100
# Concurrent questions when times do not matter.
_AT_ONCE = 4
# Components of a score that have no weight which a caller sets.
_ADJUSTMENTS = frozenset({"trust", "newer"})


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchItems:
    """What a temporary tenant holds, each in order."""

    memories: Sequence[memory_pb2.Memory] = ()
    messages: Sequence[session_pb2.Message] = ()
    # Links and aliases name memories by external ids.
    links: Sequence[memory_pb2.Link] = ()
    aliases: Sequence[curation_pb2.ResolveEntityRequest] = ()
    # Whether memories keep their times, as messages always do; else they are created now.
    keep_memory_times: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchResult:
    """Results of some questions, in order."""

    scored_questions: list[ScoredQuestion]
    # Of each call, in order.
    seconds: list[float]
    # Of each call, in order, with the best hit first.
    hits: list[tuple[ScoredHit, ...]]
    # Signals with a share of any score.
    signals: frozenset[str]
    # The model whose vectors were searched.
    model: str
    # Answers without vectors or without a branch; they do not count for quality.
    degraded: int


@asynccontextmanager
async def temporary_tenant(
    connection: Connection, name: str, items: BenchItems, *, keep: bool = False
) -> AsyncIterator[Client]:
    """Create a tenant that holds the items with all vectors; delete it afterwards unless `keep`.

    The connection is the operator's; the client that is returned uses the new tenant's key.
    """
    async with open_client(connection) as operator:
        # The slug is derived from the name and must be unique.
        display_name = f"bench {name[:_NAME_CHARACTERS]} {uuid.uuid4().hex[:8]}"
        tenant_id, api_key = await create_tenant(operator, display_name)
        try:
            async with open_client(dataclasses.replace(connection, api_key=api_key)) as api:
                await store_messages(api, items.messages)
                await store_memories(api, items.memories, keep_times=items.keep_memory_times)
                await store_relations(api, items.links, items.aliases)
                yield api
        finally:
            if not keep:
                request = tenancy_pb2.DeleteTenantRequest(tenant_id=tenant_id)
                request.grace.FromTimedelta(timedelta())
                # An earlier error matters more.
                with contextlib.suppress(SkeinError):
                    await operator.tenancy.DeleteTenant(request)


async def store_memories(api: Client, memories: Sequence[memory_pb2.Memory], *, keep_times: bool = False) -> None:
    """Store memories in order, and wait until all have vectors."""
    pending_batches: list[list[str]] = []
    for start in range(0, len(memories), _EMBEDDED_AT_ONCE):
        batch = memories[start : start + _EMBEDDED_AT_ONCE]
        response = await api.memories.BatchCreateMemories(
            memory_pb2.BatchCreateMemoriesRequest(memories=batch, keep_times=keep_times, request_id=uuid.uuid4().hex)
        )
        if response.pending_embedding_count:
            pending_batches.append([memory.memory_id for memory in response.memories])
    await _wait_for_vectors(api, recall_pb2.ITEM_KIND_MEMORY, pending_batches)


async def store_relations(
    api: Client, links: Sequence[memory_pb2.Link], aliases: Sequence[curation_pb2.ResolveEntityRequest]
) -> None:
    """Link stored memories, and make some of them aliases."""
    for start in range(0, len(links), _LINKED_AT_ONCE):
        await api.links.BatchCreateLinks(
            memory_pb2.BatchCreateLinksRequest(
                links=links[start : start + _LINKED_AT_ONCE], request_id=uuid.uuid4().hex
            )
        )
    for alias in aliases:
        await api.curation.ResolveEntity(alias)


async def store_messages(api: Client, messages: Sequence[session_pb2.Message]) -> None:
    """Store messages in the sessions that they name, in order, and wait until all have vectors."""
    pending_batches: list[list[str]] = []
    for session_id, of_session in groupby(messages, lambda message: message.session_id):
        turns = list(of_session)
        for start in range(0, len(turns), _EMBEDDED_AT_ONCE):
            response = await api.sessions.AppendMessages(
                session_pb2.AppendMessagesRequest(
                    session_id=session_id,
                    messages=turns[start : start + _EMBEDDED_AT_ONCE],
                    create_session=True,
                    keep_times=True,
                    request_id=uuid.uuid4().hex,
                )
            )
            if response.pending_embedding_count:
                pending_batches.append([message.message_id for message in response.messages])
    await _wait_for_vectors(api, recall_pb2.ITEM_KIND_MESSAGE, pending_batches)


async def _wait_for_vectors(api: Client, kind: recall_pb2.ItemKind, batches: Sequence[Sequence[str]]) -> None:
    """Wait until all items have vectors. Raises CommandError after _PENDING_SECONDS."""
    try:
        async with asyncio.timeout(_PENDING_SECONDS):
            for item_ids in batches:
                while not await _have_vectors(api, kind, item_ids):  # noqa: ASYNC110 - no event marks their completion.
                    await asyncio.sleep(_PENDING_PAUSE_SECONDS)
    except TimeoutError:
        raise CommandError(
            f"Items still lack vectors after {_PENDING_SECONDS:.0f} s; check that the worker runs.", ExitCode.FAULT
        ) from None


async def ask_questions(
    api: Client,
    questions: Sequence[BenchQuestion],
    form: Form | None,
    *,
    limit: int = LIMIT,
    weights: Mapping[str, float] | None = None,
    min_relevance: float | None = None,
) -> BenchResult:
    """Ask every question, of one form alone or as a caller who names no branches, with other weights for some signals.

    Without `min_relevance` the tenant's applies.
    With the tenant's weights questions run one by one, so that times are those of a single caller.
    """
    at_once = asyncio.Semaphore(1 if weights is None else _AT_ONCE)
    branches = [] if form is None else [_BRANCHES[form]]

    async def answer(question: BenchQuestion) -> tuple[float, gateway_pb2.RecallResponse]:
        request = gateway_pb2.RecallRequest(
            query=question.text,
            limit=limit,
            branches=branches,
            weights=weights,
            filter=question.filter,
            min_relevance=min_relevance,
        )
        async with at_once:
            started = time.perf_counter()
            response = await api.gateway.Recall(request)
            return time.perf_counter() - started, response

    answers = await asyncio.gather(*(answer(question) for question in questions))
    responses = [response for _, response in answers]
    return BenchResult(
        scored_questions=[
            ScoredQuestion(
                category=question.category,
                evidence=question.evidence,
                hit_ids=tuple(_name(hit, question.evidence) for hit in response.hits),
            )
            for question, response in zip(questions, responses, strict=True)
        ],
        seconds=[seconds for seconds, _ in answers],
        hits=[
            tuple(_scored_hit(hit, question.evidence) for hit in response.hits)
            for question, response in zip(questions, responses, strict=True)
        ],
        signals=frozenset(
            part.signal
            for response in responses
            for hit in response.hits
            for part in hit.components
            if part.signal not in _ADJUSTMENTS and part.weight and part.value
        ),
        model=next((response.model for response in responses if response.model), ""),
        degraded=sum(
            any(branch.state != gateway_pb2.BRANCH_STATE_OK for branch in response.branches) for response in responses
        ),
    )


async def run_ablations(
    api: Client,
    questions: Sequence[BenchQuestion],
    form: Form,
    signals: Sequence[str],
    on_progress: Callable[[int], None],
) -> dict[str, list[ScoredQuestion]]:
    """Repeat all questions without each of the signals in turn."""
    result: dict[str, list[ScoredQuestion]] = {}
    for signal in signals:
        result[signal] = (await ask_questions(api, questions, form, weights={signal: 0.0})).scored_questions
        on_progress(len(questions))
    return result


def _name(hit: recall_pb2.Hit, evidence: frozenset[str]) -> str:
    """Return the name by which the evidence expects a hit: its id, that of an older item of the same text, or any."""
    return next((item_id for item_id in (hit.item_id, *hit.duplicate_ids) if item_id in evidence), hit_name(hit))


def _scored_hit(hit: recall_pb2.Hit, evidence: frozenset[str]) -> ScoredHit:
    relevance = hit.relevance if hit.HasField("relevance") else None
    return ScoredHit(item_id=_name(hit, evidence), score=hit.score, relevance=relevance)


async def _have_vectors(api: Client, kind: recall_pb2.ItemKind, item_ids: Sequence[str]) -> bool:
    """Return whether all of some items have vectors."""
    request = recall_pb2.BatchGetIndexStatesRequest(item_ids=item_ids, kind=kind)
    response = await api.index.BatchGetIndexStates(request)
    return not any(state.pending for state in response.states)
