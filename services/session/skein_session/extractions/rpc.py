"""RPCs of extractors: the messages whose facts are due, leased by session."""

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
    from skein_session.extractions.store import DueMessage, ExtractionStore


class ExtractionHandlers:
    """Leases messages, and takes them off the queue."""

    def __init__(self, store: ExtractionStore) -> None:
        self._store = store

    async def LeaseExtraction(
        self, _request: pb.LeaseExtractionRequest, context: Context
    ) -> pb.LeaseExtractionResponse:
        due = await self._store.lease(caller_of(context).require_tenant(), at=now())
        return pb.LeaseExtractionResponse(messages=map(_due_message, due))

    async def CompleteExtraction(
        self, request: pb.CompleteExtractionRequest, context: Context
    ) -> pb.CompleteExtractionResponse:
        times = {UUID(one.message_id): one.change_time.ToDatetime(tzinfo=UTC) for one in request.messages}
        await self._store.complete(caller_of(context).require_tenant(), times)
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
