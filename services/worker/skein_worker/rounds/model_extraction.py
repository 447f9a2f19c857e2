"""The job of the language model: facts out of messages that rules have read, while no connection is held.

A worker that dies loses nothing: the lease of a message ends, and its write has the same request id again, so the first
answer that was stored stands.
"""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass, field, replace

from google.protobuf.duration_pb2 import Duration
from grpc import aio
from prometheus_client import Counter, Gauge

from skein.memory.v1 import memory_pb2, memory_pb2_grpc
from skein.session.v1 import session_pb2, session_pb2_grpc
from skein_kit.jobs.model import retry_delay
from skein_kit.language_model.chat_client import BREAKER, ChatModelError
from skein_kit.telemetry import logs
from skein_kit.telemetry.metrics import without_tracing
from skein_worker.extraction.language_model import FactModel, FactModels, judge
from skein_worker.extraction.model import MODEL_EXTRACTOR
from skein_worker.extraction.rules import extract, takes_back_message_before
from skein_worker.job_queue.job_queue import Job
from skein_worker.rounds.catalog import TURN_SECONDS
from skein_worker.rounds.extraction import (
    CALL_SECONDS,
    FINAL_REFUSALS,
    ROUND_SECONDS,
    FactWriter,
    endpoints_of,
    message_of,
    origin_of,
)
from skein_worker.rounds.tenant_rounds import run_turn
from skein_worker.rounds.tenant_visits import TenantVisitor
from skein_worker.settings import WorkerSettings
from skein_worker.system_identity import SystemIdentity

MODEL_EXTRACTION_JOB = Job(name="model_extraction", dedupe_key="model_extraction")

FAILURES = Counter(
    "skein_worker_failed_extractions_total",
    "Messages that the language model did not read, by the reason: they wait for another attempt, or had the last.",
    ["reason"],
)
WAITING = Gauge(
    "skein_worker_waiting_messages",
    "Messages that wait for the language model in the tenants that the last round visited.",
)

# The reasons of messages that are not sent: the tenant's budget or the pause of its job; a key that cannot be read.
_BUDGET, _KEY = "budget", "key"
_KEY_DELAY_SECONDS = 60.0
# A changed key is used after this time at the latest.
_KEY_SECONDS = 300.0
_TOO_MANY_REQUESTS = 429

log = logs.get("worker")


@dataclass(slots=True)
class _Work:
    """One lease: what the model is told, and what it did."""

    tenant_id: str
    space_id: str
    model: FactModel
    instructions: str
    memory_types: frozenset[str]
    # Why no more messages of the lease are sent, and the pause until their next attempt.
    stop_reason: str = ""
    delay: Duration | None = None
    failures: list[session_pb2.ExtractionFailure] = field(default_factory=list)
    # Messages that were sent since the last report to session, and their tokens.
    sent_count: int = 0
    tokens: int = 0
    has_sent: bool = False

    def add_failure(self, due: session_pb2.DueMessage, error: ChatModelError | None = None) -> None:
        """Record a message that the model did not read; without an error it was not sent."""
        reason = self.stop_reason if error is None else error.reason
        is_attempt = error is not None and error.reason != BREAKER and error.status != _TOO_MANY_REQUESTS
        FAILURES.labels(reason).inc()
        self.failures.append(
            session_pb2.ExtractionFailure(
                message_id=due.message_id,
                reason=reason,
                attempt_count=int(is_attempt),
                retry_delay=self.delay if error is None else retry_delay(error.retry_after or 0.0),
                is_final=error is not None and error.is_final,
            )
        )


class ModelExtractionJob:
    """Visits the tenants with messages that the language model has still to read."""

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
        # By tenant and space, in the round that runs.
        self._waiting_counts: dict[tuple[str, str], int] = {}
        # Keys of tenants' own endpoints, by tenant and URL, and until when they are used.
        self._keys: dict[tuple[str, str], tuple[str, float]] = {}

    async def run(self, _payload: bytes, stop: asyncio.Event) -> float:
        """Run round after round for a turn; return the seconds until the next one."""
        return await run_turn(lambda: self._run_round(stop), stop, seconds=TURN_SECONDS)

    async def _run_round(self, stop: asyncio.Event) -> float:
        progress = self._visitor.begin(stop)
        self._waiting_counts = {}
        request = session_pb2.ListDueTenantsRequest(work=session_pb2.DUE_WORK_MODEL_EXTRACTION)
        with without_tracing():
            # One lease each, so that a slow model holds up no other tenant for long.
            await self._visitor.visit_due(self._session.ListDueTenants, request, self._visit, progress)
        WAITING.set(sum(self._waiting_counts.values()))
        if progress.failures:
            log.warning("model_extraction_interrupted", failures=progress.failures)
        return ROUND_SECONDS * self._settings.pause_factor

    async def _visit(self, tenant_id: str) -> bool:
        spaces = await self._system.spaces(tenant_id, seconds=CALL_SECONDS)
        return any([await self.read_messages(tenant_id, space_id) for space_id in spaces])

    async def read_messages(self, tenant_id: str, space_id: str = "") -> bool:
        """Have the model read some messages of a space; return whether any was sent. Raises AioRpcError."""
        request = session_pb2.LeaseModelExtractionRequest(
            endpoints=endpoints_of(self._models), message_seconds=math.ceil(self._models.seconds)
        )
        async with self._system.as_extractor(
            MODEL_EXTRACTOR, tenant_id=tenant_id, space_id=space_id, seconds=CALL_SECONDS
        ):
            leased = await self._session.LeaseModelExtraction(request)
        if not leased.messages:
            return False
        work = await self._begin(tenant_id, space_id, leased)
        done: list[session_pb2.DueMessage] = []
        try:
            for due in leased.messages:
                # Without a text it is deleted, or counts no more.
                is_due = due.HasField("message") and not due.is_exempt
                is_read = is_due and not takes_back_message_before(due.following_text) and await self._read(due, work)
                done.append(
                    session_pb2.DueMessage(
                        message_id=due.message_id,
                        change_time=due.change_time,
                        read_revision=due.message.revision if is_read else 0,
                    )
                )
        except aio.AioRpcError:
            # What is not done stays leased. The tokens are used in any case.
            await self._complete(work, done)
            raise
        await self._complete(work, done)
        self._waiting_counts[tenant_id, space_id] = leased.waiting_count - len(leased.messages) + len(work.failures)
        return work.has_sent

    async def _begin(self, tenant_id: str, space_id: str, leased: session_pb2.LeaseModelExtractionResponse) -> _Work:
        """Return the work of a lease, with the tenant's own model or the operator's."""
        model = self._models.operator
        key: str | None = ""
        if leased.model.url:
            key = await self._key_of(tenant_id, leased.model.url) if leased.model.has_key else ""
            model = self._models.of_tenant(leased.model.url, leased.model.model, key or "")
        if model is None:
            message = "a lease of messages for an endpoint that this worker does not have"
            raise LookupError(message)
        work = _Work(
            tenant_id=tenant_id,
            space_id=space_id,
            model=model,
            instructions=leased.model.instructions,
            memory_types=frozenset(leased.memory_types),
        )
        if key is None:
            work.stop_reason, work.delay = _KEY, retry_delay(_KEY_DELAY_SECONDS)
        return work

    async def _complete(self, work: _Work, done: list[session_pb2.DueMessage]) -> None:
        request = session_pb2.CompleteModelExtractionRequest(
            messages=done, failures=work.failures, sent_count=work.sent_count, tokens=work.tokens
        )
        async with self._system.as_extractor(
            MODEL_EXTRACTOR, tenant_id=work.tenant_id, space_id=work.space_id, seconds=CALL_SECONDS
        ):
            await self._session.CompleteModelExtraction(request)

    async def _key_of(self, tenant_id: str, url: str) -> str | None:
        """Return the key of a tenant's endpoint, revealed once in some minutes; None where it cannot be read."""
        at = time.monotonic()
        self._keys = {name: (key, until) for name, (key, until) in self._keys.items() if at < until}
        if (tenant_id, url) not in self._keys:
            try:
                async with self._system.as_system(tenant_id=tenant_id, seconds=CALL_SECONDS):
                    response = await self._memory.RevealModelKey(memory_pb2.RevealModelKeyRequest())
            except aio.AioRpcError as error:
                if error.code() not in FINAL_REFUSALS:
                    raise
                return None
            self._keys[tenant_id, url] = response.secret_value, at + _KEY_SECONDS
        return self._keys[tenant_id, url][0]

    async def _read(self, due: session_pb2.DueMessage, work: _Work) -> bool:
        """Have the model read a message, and store its facts; return False for a failure, which waits."""
        if not work.stop_reason:
            work.delay = await self._start_call(due, work)
            work.stop_reason = "" if work.delay is None else _BUDGET
        if work.stop_reason:
            work.add_failure(due)
            return False
        message = message_of(due)
        work.sent_count, work.has_sent = 1, True
        try:
            proposals, tokens = await work.model.propose(
                message.text, instructions=work.instructions, memory_types=work.memory_types
            )
        except ChatModelError as error:
            work.tokens += error.tokens
            work.add_failure(due, error)
            if not error.is_final:
                # The endpoint does not work, or wants a pause: the others would wait for it in vain.
                work.stop_reason, work.delay = error.reason, retry_delay(error.retry_after or 0.0)
            return False
        work.tokens += tokens
        known = await asyncio.to_thread(extract, message)
        extraction = await asyncio.to_thread(
            judge, message, proposals, known=known.facts, memory_types=work.memory_types
        )
        origin = replace(origin_of(due), extractor=MODEL_EXTRACTOR)
        await self._writer.store(work.tenant_id, work.space_id, message, origin, extraction)
        return True

    async def _start_call(self, due: session_pb2.DueMessage, work: _Work) -> Duration | None:
        """Record whom a message is sent to; return the pause instead where it may not be sent now."""
        endpoint = work.model.endpoint
        request = session_pb2.StartModelCallRequest(
            message_id=due.message_id,
            session_id=due.message.session_id,
            subject_id=due.message.subject_id,
            endpoint=endpoint.origin,
            model=endpoint.model,
            character_count=len(due.message.content),
            # At its own endpoint a tenant has its own limits.
            max_tokens_per_day=self._settings.extraction_tokens_per_day if work.model.is_of_operator else 0,
            sent_count=work.sent_count,
            tokens=work.tokens,
        )
        async with self._system.as_extractor(
            MODEL_EXTRACTOR, tenant_id=work.tenant_id, space_id=work.space_id, seconds=CALL_SECONDS
        ):
            response = await self._session.StartModelCall(request)
        work.sent_count = work.tokens = 0
        return response.retry_delay if response.HasField("retry_delay") else None
