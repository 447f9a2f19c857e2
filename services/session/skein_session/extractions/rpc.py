"""RPCs of extractors: the messages whose facts are due, leased by session; and backfills of earlier ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import cast
from uuid import UUID

from asyncpg import Record

from skein.session.v1 import session_pb2 as pb
from skein_kit import message_rows
from skein_kit.access_log.writer import AccessLog
from skein_kit.calls.call import Call, Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.database.named_queries import Queries
from skein_kit.database.transactions import Database, Transaction
from skein_kit.ids import min_id_at, now
from skein_kit.jobs.model import BLOCKED_SECONDS, MAX_COUNTED, Grant, JobKind, Progress, retry_delay
from skein_kit.jobs.store import JobStore
from skein_kit.policies.store import PolicyCache
from skein_kit.rpc.pagination import fit_rows, read_token, resolve_page_size
from skein_kit.rpc.well_known_types import to_timestamp
from skein_session.errors import ExtractionOff
from skein_session.extractions.model_queue import Endpoints, Failure, ModelQueue
from skein_session.extractions.store import LEASE, MAX_LEASED, DueMessage, ExtractionStore, read_due, roles_of
from skein_session.idempotency import SessionIdempotencyStore
from skein_session.page_tokens import id_from_page_token

_DEFAULT_MAX_MESSAGES = 10_000
_QUERIES = Queries.load("skein_session")
_FIRST, _LAST = UUID(int=0), UUID(int=2**128 - 1)
# Messages that one lease looks at, read or not.
_WINDOW = 2000


class ExtractionHandlers:
    """Leases messages, takes them off the queue, and starts and ends backfills."""

    def __init__(
        self,
        store: ExtractionStore,
        backfills: BackfillStore,
        idempotency: SessionIdempotencyStore,
        *,
        models: ModelQueue,
        jobs: JobStore,
        access_log: AccessLog,
    ) -> None:
        self._store = store
        self._backfills = backfills
        self._idempotency = idempotency
        self._models = models
        self._jobs = jobs
        self._access_log = access_log

    async def StartExtraction(self, request: pb.StartExtractionRequest, context: Context) -> pb.StartExtractionResponse:
        caller = caller_of(context)
        tenant_id = caller.require_tenant()
        since = request.since_time.ToDatetime(tzinfo=UTC) if request.HasField("since_time") else None
        async with self._idempotency.begin(caller, request) as write:
            max_count = request.max_messages or _DEFAULT_MAX_MESSAGES
            await self._backfills.start(write.tx, tenant_id, since=since, max_count=max_count, at=now())
            await write.save(pb.StartExtractionResponse())
        await self._backfills.show_started(tenant_id)
        return pb.StartExtractionResponse()

    async def CancelExtraction(
        self, request: pb.CancelExtractionRequest, context: Context
    ) -> pb.CancelExtractionResponse:
        caller = caller_of(context)
        tenant_id = caller.require_tenant()
        async with self._idempotency.begin(caller, request) as write:
            await self._backfills.cancel(write.tx, tenant_id)
            await write.save(pb.CancelExtractionResponse())
        await self._backfills.show_ended(tenant_id)
        return pb.CancelExtractionResponse()

    async def ListFailedExtractions(
        self, request: pb.ListFailedExtractionsRequest, context: Context
    ) -> pb.ListFailedExtractionsResponse:
        tenant_id, size = caller_of(context).require_tenant(), resolve_page_size(request.page_size)
        before = id_from_page_token(read_token(request.page_token, tenant_id, request))
        rows = await self._models.list_failures(tenant_id, before=before, count=size + 1)
        failures, token = fit_rows(
            rows, _failure_message, lambda row: [str(row["message_id"])], request, tenant_id, size=size
        )
        return pb.ListFailedExtractionsResponse(failures=failures, next_page_token=token)

    async def LeaseExtraction(self, request: pb.LeaseExtractionRequest, context: Context) -> pb.LeaseExtractionResponse:
        caller, at = caller_of(context), now()
        tenant_id = caller.require_tenant()
        policy = await self._store.policy(tenant_id)
        uses_model = _endpoints(request.endpoints).serve(policy)
        due = await self._store.lease(tenant_id, at=at)
        if not due:
            extractor = request.model_extractor if uses_model else caller.principal
            due = await self._backfills.lease(tenant_id, extractor, at=at)
        return pb.LeaseExtractionResponse(
            messages=map(_due_message, due), uses_model=uses_model, memory_types=policy.extraction_types
        )

    async def CompleteExtraction(
        self, request: pb.CompleteExtractionRequest, context: Context
    ) -> pb.CompleteExtractionResponse:
        for_model = {UUID(one.message_id): one.session_id for one in request.messages if one.needs_model}
        caller = caller_of(context)
        await self._store.complete(
            caller.require_tenant(), caller.principal, _change_times(request.messages), for_model, at=now()
        )
        return pb.CompleteExtractionResponse()

    async def LeaseModelExtraction(
        self, request: pb.LeaseModelExtractionRequest, context: Context
    ) -> pb.LeaseModelExtractionResponse:
        tenant_id = caller_of(context).require_tenant()
        endpoints = _endpoints(request.endpoints)
        due = await self._models.lease(tenant_id, endpoints, message_seconds=request.message_seconds, at=now())
        if not due:
            return pb.LeaseModelExtractionResponse()
        policy = await self._store.policy(tenant_id)
        model = pb.ModelInstructions(instructions=policy.extraction_instructions)
        if policy.extraction_url:
            model.url, model.model = policy.extraction_url, policy.extraction_model
            model.has_key = bool(policy.extraction_key_id)
        return pb.LeaseModelExtractionResponse(
            messages=map(_due_message, due),
            model=model,
            memory_types=policy.extraction_types,
            waiting_count=await self._models.count(tenant_id),
        )

    async def StartModelCall(self, request: pb.StartModelCallRequest, context: Context) -> pb.StartModelCallResponse:
        tenant_id, at = caller_of(context).require_tenant(), now()
        if request.sent_count:
            progress = Progress(done_count=request.sent_count, cost=request.tokens, has_more=True)
            await self._jobs.report(tenant_id, JobKind.MODEL_EXTRACTION, progress)
        grant = await self._jobs.acquire(tenant_id, JobKind.MODEL_EXTRACTION, 1)
        day_cost = 0 if grant.job is None else grant.job.cost_of_day(at)
        if not grant.count or 0 < request.max_tokens_per_day <= day_cost:
            if grant.count:
                await self._jobs.settle(tenant_id, grant, Progress(done_count=0, cost=0, has_more=True))
            return pb.StartModelCallResponse(retry_delay=retry_delay(grant.retry_seconds or BLOCKED_SECONDS))

        async def permit(_request: object, _context: object) -> pb.StartModelCallResponse:
            return pb.StartModelCallResponse()

        details = {
            "message_id": request.message_id,
            "endpoint": request.endpoint,
            "model": request.model,
            "characters": request.character_count,
        }
        await self._access_log.call_and_record(permit, request, cast("Call", context), details=details)
        return pb.StartModelCallResponse()

    async def CompleteModelExtraction(
        self, request: pb.CompleteModelExtractionRequest, context: Context
    ) -> pb.CompleteModelExtractionResponse:
        caller = caller_of(context)
        tenant_id = caller.require_tenant()
        waiting_count = await self._models.complete(
            tenant_id,
            caller.principal,
            _change_times(request.messages),
            [_failure(one) for one in request.failures],
            {UUID(one.message_id): one.read_revision for one in request.messages if one.read_revision},
            at=now(),
        )
        progress = Progress(
            done_count=request.sent_count,
            cost=request.tokens,
            remaining_count=waiting_count,
            has_more=waiting_count > 0,
        )
        await self._jobs.report(tenant_id, JobKind.MODEL_EXTRACTION, progress)
        return pb.CompleteModelExtractionResponse()


def _endpoints(message: pb.Endpoints) -> Endpoints:
    return Endpoints(has_own=message.has_own, allows_tenants=message.allows_tenants)


def _change_times(messages: Iterable[pb.DueMessage]) -> dict[UUID, datetime]:
    return {UUID(one.message_id): one.change_time.ToDatetime(tzinfo=UTC) for one in messages}


def _due_message(due: DueMessage) -> pb.DueMessage:
    message = pb.DueMessage(
        message_id=str(due.message_id),
        change_time=to_timestamp(due.change_time),
        message=None if due.row is None else message_rows.message(due.row),
        is_new=due.kind == "new",
        is_purged=due.kind == "purged",
        time_zone=due.zone,
        is_exempt=due.is_exempt,
        revision=due.revision,
    )
    if (around := due.neighbours) is not None:
        message.previous_message_id = str(around.previous_id or "")
        message.following_text = around.following_text
        if around.answered is not None:
            message.answered.CopyFrom(
                pb.AnsweredMessage(
                    message_id=str(around.answered["message_id"]),
                    content=around.answered["content"],
                    create_time=to_timestamp(around.answered["create_time"]),
                    revision=around.answered["revision"],
                )
            )
    return message


def _failure(message: pb.ExtractionFailure) -> Failure:
    return Failure(
        message_id=UUID(message.message_id),
        reason=message.reason,
        delay_seconds=message.retry_delay.ToTimedelta().total_seconds(),
        is_final=message.is_final,
        attempt_count=message.attempt_count,
    )


def _failure_message(row: Record) -> pb.ExtractionFailure:
    return pb.ExtractionFailure(
        message_id=str(row["message_id"]),
        session_id=row["session_id"],
        reason=row["reason"],
        attempt_count=row["attempt_count"],
        last_attempt_time=to_timestamp(row["attempt_time"]),
    )


class BackfillStore:
    """Starts, leases and ends the backfill of a tenant."""

    def __init__(self, database: Database, policies: PolicyCache, jobs: JobStore) -> None:
        self._database = database
        self._policies = policies
        self._jobs = jobs

    async def start(
        self, tx: Transaction, tenant_id: UUID, *, since: datetime | None, max_count: int, at: datetime
    ) -> None:
        """Start a backfill, in place of one that is not done. Raises ExtractionOff."""
        if (await self._policies.get(tx, tenant_id)).extraction == "off":
            raise ExtractionOff
        first_id = _FIRST if since is None else min_id_at(since)
        await tx.execute(
            _QUERIES["put_backfill"], tenant_id=tenant_id, first_id=first_id, before_id=_LAST, count=max_count, at=at
        )

    async def show_started(self, tenant_id: UUID) -> None:
        """Show the job as running before its first batch, which counts what is left."""
        await self._jobs.finish(tenant_id, JobKind.EXTRACTION)
        await self._jobs.settle(
            tenant_id, Grant(kind=JobKind.EXTRACTION, count=0), Progress(done_count=0, has_more=True)
        )

    async def cancel(self, tx: Transaction, tenant_id: UUID) -> None:
        """End a backfill; none is no error."""
        await tx.execute(_QUERIES["delete_backfill"], tenant_id=tenant_id, create_time=None)

    async def show_ended(self, tenant_id: UUID) -> None:
        """Show that the job has nothing left."""
        await self._jobs.finish(tenant_id, JobKind.EXTRACTION)

    async def lease(self, tenant_id: UUID, extractor: str, *, at: datetime) -> list[DueMessage]:
        """Lease messages of the backfill that is due; none where there is none, or its job is paused or limited."""
        async with self._database.transaction(tenant_id) as tx:
            lease = {"tenant_id": tenant_id, "at": at, "lease_end_time": at + LEASE}
            backfill = await tx.row(_QUERIES["lease_backfill"], **lease)
            if backfill is None:
                return []
            create_time = backfill["create_time"]
            if backfill["leased_ids"]:
                # The extractor that had them ended before they were done.
                return await self._due(tx, tenant_id, backfill["leased_ids"], create_time)
            policy = await self._policies.get(tx, tenant_id)
            span = {"tenant_id": tenant_id, "first_id": backfill["first_id"], "before_id": backfill["before_id"]}
            unread = {**span, "roles": roles_of(policy), "extractor": extractor}
            is_over = policy.extraction == "off" or backfill["remaining_count"] <= 0
            rows = []
            if not is_over:
                count = min(MAX_LEASED, backfill["remaining_count"])
                rows = await tx.rows(_QUERIES["find_backfill_messages"], **unread, window=_WINDOW, count=count)
            if not rows and not is_over:
                skip = {**span, "window": _WINDOW, "create_time": create_time, "at": at}
                is_over = not await tx.execute(_QUERIES["skip_backfill_window"], **skip)
            if is_over:
                await tx.execute(_QUERIES["delete_backfill"], tenant_id=tenant_id, create_time=create_time)
        if is_over:
            await self.show_ended(tenant_id)
        if not rows:
            return []
        async with self._jobs.batch(tenant_id, JobKind.EXTRACTION, len(rows)) as batch:
            ids = [row["message_id"] for row in rows[: batch.grant.count]]
            async with self._database.transaction(tenant_id) as tx:
                await tx.execute(
                    _QUERIES["update_backfill_lease"],
                    tenant_id=tenant_id,
                    message_ids=ids,
                    due_time=at + (LEASE if ids else timedelta(seconds=batch.grant.retry_seconds)),
                    create_time=create_time,
                )
                due = await self._due(tx, tenant_id, ids, create_time)
                left_count = None
                if ids and batch.grant.begins_run:
                    count = min(MAX_COUNTED, backfill["remaining_count"])
                    counted = await tx.rows(
                        _QUERIES["find_backfill_messages"], **unread, window=MAX_COUNTED, count=count
                    )
                    left_count = len(counted) - len(ids)
            if ids:
                batch.progress = Progress(done_count=len(ids), remaining_count=left_count, has_more=True)
        return due

    async def _due(
        self, tx: Transaction, tenant_id: UUID, message_ids: Sequence[UUID], change_time: datetime
    ) -> list[DueMessage]:
        # The time of the backfill: a repeated read makes the same requests.
        queued = [{"message_id": id_, "kind": "changed", "change_time": change_time} for id_ in message_ids]
        return await read_due(tx, tenant_id, queued, await self._policies.get(tx, tenant_id))
