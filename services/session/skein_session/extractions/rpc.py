"""RPCs of extractors: the messages whose facts are due, leased by session; and backfills of earlier ones."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING
from uuid import UUID

from skein.session.v1 import session_pb2 as pb
from skein_kit import message_rows
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.ids import now
from skein_kit.rpc.well_known_types import to_timestamp

if TYPE_CHECKING:
    from skein_session.extractions.backfill import BackfillStore
    from skein_session.extractions.store import DueMessage, ExtractionStore
    from skein_session.idempotency import SessionIdempotencyStore

_DEFAULT_MAX_MESSAGES = 10_000


class ExtractionHandlers:
    """Leases messages, takes them off the queue, and starts and ends backfills."""

    def __init__(self, store: ExtractionStore, backfills: BackfillStore, idempotency: SessionIdempotencyStore) -> None:
        self._store = store
        self._backfills = backfills
        self._idempotency = idempotency

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

    async def LeaseExtraction(
        self, _request: pb.LeaseExtractionRequest, context: Context
    ) -> pb.LeaseExtractionResponse:
        caller, at = caller_of(context), now()
        tenant_id = caller.require_tenant()
        due = await self._store.lease(tenant_id, at=at)
        if not due:
            due = await self._backfills.lease(tenant_id, caller.principal, at=at)
        return pb.LeaseExtractionResponse(messages=map(_due_message, due))

    async def CompleteExtraction(
        self, request: pb.CompleteExtractionRequest, context: Context
    ) -> pb.CompleteExtractionResponse:
        times = {UUID(one.message_id): one.change_time.ToDatetime(tzinfo=UTC) for one in request.messages}
        caller = caller_of(context)
        await self._store.complete(caller.require_tenant(), caller.principal, times, at=now())
        return pb.CompleteExtractionResponse()


def _due_message(due: DueMessage) -> pb.DueMessage:
    return pb.DueMessage(
        message_id=str(due.message_id),
        change_time=to_timestamp(due.change_time),
        message=None if due.row is None else message_rows.message(due.row),
        is_new=due.kind == "new",
        is_purged=due.kind == "purged",
        time_zone=due.zone,
    )
