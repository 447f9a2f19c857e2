"""RPCs that purge sessions, messages and persons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.session.v1 import states_pb2 as pb
from skein_kit.calls.call import Context, caller
from skein_kit.idempotency.key import IdempotencyKey
from skein_kit.ids import now
from skein_session.erasure import convert

if TYPE_CHECKING:
    from skein_session.erasure.store import ErasureStore


class ErasureRpc:
    """Purges within the limit of each request."""

    def __init__(self, erasure: ErasureStore) -> None:
        self._erasure = erasure

    async def PurgeSession(self, request: pb.PurgeSessionRequest, context: Context) -> pb.PurgeSessionResponse:
        identity = caller(context)
        return await self._erasure.purge_session(
            identity.tenant(),
            IdempotencyKey.of(identity, request),
            request.session_id,
            convert.purge_options(request),
            now(),
        )

    async def PurgeMessages(self, request: pb.PurgeMessagesRequest, context: Context) -> pb.PurgeMessagesResponse:
        identity = caller(context)
        return await self._erasure.purge_messages(
            identity.tenant(),
            IdempotencyKey.of(identity, request),
            request.message_ids,
            is_dry_run=request.dry_run,
            at=now(),
        )

    async def PurgeSubject(self, request: pb.PurgeSubjectRequest, context: Context) -> pb.PurgeSubjectResponse:
        identity = caller(context)
        return await self._erasure.purge_subject(
            identity.tenant(),
            IdempotencyKey.of(identity, request),
            request.subject_id,
            convert.purge_options(request),
            now(),
        )
