"""The extraction job: facts out of the messages that session leases, stored by memory in the name of the extractor.

A worker that dies loses nothing: its leases end, and the request of a message is the same again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import replace
from zoneinfo import ZoneInfo

import grpc
from grpc import aio
from prometheus_client import Counter

from skein.memory.v1 import memory_pb2, memory_pb2_grpc
from skein.session.v1 import session_pb2, session_pb2_grpc
from skein_kit.telemetry import logs
from skein_kit.telemetry.metrics import without_tracing
from skein_worker.extraction.drafts import Origin, refusals_of, request_of
from skein_worker.extraction.language_model import FactModels
from skein_worker.extraction.model import EXTRACTOR, MODEL_EXTRACTOR, AnsweredMessage, Extraction, Message
from skein_worker.extraction.rules import extract, takes_back_message_before
from skein_worker.extraction.sentences import is_pasted
from skein_worker.job_queue.job_queue import Job
from skein_worker.rounds.catalog import TURN_SECONDS
from skein_worker.rounds.tenant_rounds import run_turn
from skein_worker.rounds.tenant_visits import TenantVisitor
from skein_worker.settings import WorkerSettings
from skein_worker.system_identity import SystemIdentity

EXTRACTION_JOB = Job(name="extraction", dedupe_key="extraction")

FACTS = Counter("skein_worker_extracted_facts_total", "Facts that extractors found in messages.")
REFUSALS = Counter(
    "skein_worker_refused_facts_total",
    "Facts that rules or a model proposed and the message does not support.",
    ["reason"],
)
UNSTORED = Counter(
    "skein_worker_unstored_facts_total", "Facts of messages whose write the memory service refused.", ["code"]
)
CALL_SECONDS = 30.0
# Leases of one visit, so that other tenants get their turn.
_MAX_LEASES = 20
# Seconds between two rounds that find facts in messages: the next turn of a conversation may need them.
ROUND_SECONDS = 1.0
# What another attempt would get too: the guard, the policy's types, a source that is gone meanwhile.
FINAL_REFUSALS = frozenset(
    {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.NOT_FOUND}
)
# Where the tenant has too many refused facts already, no more are kept. Facts wait for room.
_FINAL_OF_REFUSED = FINAL_REFUSALS | {grpc.StatusCode.RESOURCE_EXHAUSTED}

log = logs.get("worker")


class FactWriter:
    """Writes what extractors find, in their names."""

    def __init__(
        self,
        memories: memory_pb2_grpc.MemoryServiceAsyncStub,
        memory: memory_pb2_grpc.MemoryInternalServiceAsyncStub,
        system: SystemIdentity,
    ) -> None:
        self._memories = memories
        self._memory = memory
        self._system = system

    async def store(
        self, tenant_id: str, space_id: str, message: Message, origin: Origin, extraction: Extraction
    ) -> None:
        """Store the facts of a message where it lies, and keep what was refused. Raises AioRpcError."""
        if not (extraction.facts or extraction.refusals):
            return
        async with self._system.as_extractor(
            origin.extractor, tenant_id=tenant_id, space_id=space_id, seconds=CALL_SECONDS
        ):
            if extraction.facts:
                request = request_of(message, origin, extraction.facts)
                with _counts_unstored(tenant_id, origin.message_id, len(request.memories), FINAL_REFUSALS):
                    response = await self._memories.BatchCreateMemories(request)
                    FACTS.inc(len(response.memories) - len(response.existing_indexes) - len(response.similar_indexes))
            if extraction.refusals:
                refusals = refusals_of(message, origin, extraction.refusals)
                for refusal in refusals.facts:
                    REFUSALS.labels(refusal.reason).inc()
                with _counts_unstored(tenant_id, origin.message_id, len(refusals.facts), _FINAL_OF_REFUSED):
                    await self._memory.KeepRefusedFacts(refusals)


class ExtractionJob:
    """Visits the tenants with messages whose facts are due."""

    def __init__(
        self,
        session: session_pb2_grpc.SessionInternalServiceAsyncStub,
        memory: memory_pb2_grpc.MemoryInternalServiceAsyncStub,
        system: SystemIdentity,
        visitor: TenantVisitor,
        settings: WorkerSettings,
        writer: FactWriter,
        models: FactModels,
    ) -> None:
        self._session = session
        self._memory = memory
        self._system = system
        self._visitor = visitor
        self._settings = settings
        self._writer = writer
        self._models = models

    async def run(self, _payload: bytes, stop: asyncio.Event) -> float:
        """Run round after round for a turn; return the seconds until the next one."""
        return await run_turn(lambda: self._run_round(stop), stop, seconds=TURN_SECONDS)

    async def _run_round(self, stop: asyncio.Event) -> float:
        progress = self._visitor.begin(stop)

        async def visit(tenant_id: str) -> bool:
            for space_id in await self._system.spaces(tenant_id, seconds=CALL_SECONDS):
                for _ in range(_MAX_LEASES):
                    if stop.is_set() or not await self.extract_session(tenant_id, space_id):
                        break
            return True

        request = session_pb2.ListDueTenantsRequest(work=session_pb2.DUE_WORK_EXTRACTION)
        with without_tracing():
            await self._visitor.visit_due(self._session.ListDueTenants, request, visit, progress)
        if progress.failures:
            log.warning("extraction_interrupted", failures=progress.failures)
        return ROUND_SECONDS * self._settings.pause_factor

    async def extract_session(self, tenant_id: str, space_id: str = "") -> bool:
        """Extract the due messages of one session of a space by rules; return whether there was one.

        The facts lie in the space, where their messages lie. Raises AioRpcError.
        """
        request = session_pb2.LeaseExtractionRequest(
            endpoints=endpoints_of(self._models), model_extractor=MODEL_EXTRACTOR
        )
        async with self._system.as_extractor(EXTRACTOR, tenant_id=tenant_id, space_id=space_id, seconds=CALL_SECONDS):
            leased = await self._session.LeaseExtraction(request)
        if not leased.messages:
            return False
        purged_ids = [due.message_id for due in leased.messages if due.is_purged]
        if purged_ids:
            async with self._system.as_system(tenant_id=tenant_id, space_id=space_id, seconds=CALL_SECONDS):
                await self._memory.PurgeFacts(memory_pb2.PurgeFactsRequest(message_ids=purged_ids))
        for due in leased.messages:
            if not due.is_purged:
                await self._extract_message(tenant_id, space_id, due, leased.memory_types)
        # A pasted text has no facts, so no model needs to read it.
        done = [
            session_pb2.DueMessage(
                message_id=due.message_id,
                change_time=due.change_time,
                needs_model=leased.uses_model
                and due.HasField("message")
                and not due.is_exempt
                and not is_pasted(due.message.content),
                session_id=due.message.session_id,
            )
            for due in leased.messages
        ]
        extractor = MODEL_EXTRACTOR if leased.uses_model else EXTRACTOR
        async with self._system.as_extractor(extractor, tenant_id=tenant_id, space_id=space_id, seconds=CALL_SECONDS):
            await self._session.CompleteExtraction(session_pb2.CompleteExtractionRequest(messages=done))
        return True

    async def _extract_message(
        self, tenant_id: str, space_id: str, due: session_pb2.DueMessage, memory_types: Container[str]
    ) -> None:
        if not (due.is_new and due.message.revision == 1):
            async with self._system.as_extractor(
                EXTRACTOR, tenant_id=tenant_id, space_id=space_id, seconds=CALL_SECONDS
            ):
                await self._memory.RetractFacts(
                    memory_pb2.RetractFactsRequest(
                        message_id=due.message_id,
                        before_time=due.change_time,
                        revision=due.message.revision or due.revision,
                    )
                )
        if due.HasField("message"):
            message = message_of(due)
            if due.previous_message_id and takes_back_message_before(message.text):
                await self._take_back(tenant_id, space_id, due)
            if takes_back_message_before(due.following_text):
                return
            extraction = of_types(await asyncio.to_thread(extract, message), memory_types)
            await self._writer.store(tenant_id, space_id, message, origin_of(due), extraction)

    async def _take_back(self, tenant_id: str, space_id: str, due: session_pb2.DueMessage) -> None:
        """End the facts of the message before one that says "forget that"."""
        request = memory_pb2.RetractFactsRequest(message_id=due.previous_message_id, before_time=due.change_time)
        async with self._system.as_extractor(EXTRACTOR, tenant_id=tenant_id, space_id=space_id, seconds=CALL_SECONDS):
            await self._memory.RetractFacts(request)


def endpoints_of(models: FactModels) -> session_pb2.Endpoints:
    """Return which endpoints this worker may use."""
    return session_pb2.Endpoints(has_own=models.operator is not None, allows_tenants=models.allows_tenants)


@contextmanager
def _counts_unstored(
    tenant_id: str, message_id: str, count: int, final_codes: Container[grpc.StatusCode]
) -> Iterator[None]:
    """Count what the memory service refuses for good, so that the message is done. Raises other AioRpcErrors."""
    try:
        yield
    except aio.AioRpcError as error:
        if error.code() not in final_codes:
            raise
        UNSTORED.labels(error.code().name).inc(count)
        log.warning("facts_not_stored", tenant_id=tenant_id, message_id=message_id, code=error.code().name)


def of_types(extraction: Extraction, memory_types: Container[str]) -> Extraction:
    """Return an extraction with the facts of some types alone; all of them where none is named."""
    if not memory_types:
        return extraction
    return replace(extraction, facts=tuple(fact for fact in extraction.facts if fact.type in memory_types))


def message_of(due: session_pb2.DueMessage) -> Message:
    """Return a leased message as extractors read it."""
    stored, zone = due.message, ZoneInfo(due.time_zone)
    answered = None
    if due.HasField("answered"):
        answered = AnsweredMessage(
            message_id=due.answered.message_id,
            text=due.answered.content,
            time=due.answered.create_time.ToDatetime(tzinfo=zone),
            revision=due.answered.revision,
        )
    return Message(
        text=stored.content,
        speaker=stored.name,
        time=stored.create_time.ToDatetime(tzinfo=zone),
        zone=zone,
        answered=answered,
    )


def origin_of(due: session_pb2.DueMessage) -> Origin:
    """Return where a leased message lies."""
    stored = due.message
    return Origin(
        message_id=due.message_id,
        revision=stored.revision,
        session_id=stored.session_id,
        subject_id=stored.subject_id,
        agent_id=stored.agent_id,
        change_time=due.change_time.ToJsonString(),
        is_of_person=stored.role == session_pb2.MESSAGE_ROLE_USER,
        is_new=due.is_new,
    )
