"""RPCs that purge sessions, messages and persons."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

from skein.session.v1 import states_pb2 as pb
from skein_kit.calls.call import Call, Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import TransactionConflict
from skein_kit.idempotency.store import IdempotencyKey
from skein_kit.identity.spaces import DEFAULT_SPACE
from skein_kit.ids import now
from skein_session.cold_storage.store import ColdStorageStore
from skein_session.erasure.store import DEFAULT_LIMIT, ErasureStore, MessagesArchived, PurgeOptions, Receipt
from skein_session.idempotency import SessionIdempotencyStore

# Attempts while concurrent calls archive the messages.
_MAX_ATTEMPTS = 5


class ErasureHandlers:
    """Purges within the limit of each request. Files are deleted after the commit, also those of an earlier call."""

    def __init__(self, store: ErasureStore, idempotency: SessionIdempotencyStore, archives: ColdStorageStore) -> None:
        self._store = store
        self._idempotency = idempotency
        self._archives = archives

    async def PurgeSession(self, request: pb.PurgeSessionRequest, context: Context) -> pb.PurgeSessionResponse:
        caller, at = caller_of(context), now()
        tenant_id, receipt = caller.require_tenant(), Receipt()
        async with self._idempotency.begin_with_key(
            tenant_id, IdempotencyKey.of(caller, request), sees_repeats=True
        ) as write:
            if write.saved_response is not None:
                response = pb.PurgeSessionResponse.FromString(write.saved_response)
            else:
                receipt = await self._store.purge_session(
                    write.tx, tenant_id, request.session_id, _options(request), at
                )
                response = await write.save(pb.PurgeSessionResponse(receipt=_receipt(receipt)))
        await self._archives.delete_cancelled_files(tenant_id, receipt.cancelled_files, at)
        return response

    async def PurgeMessages(self, request: pb.PurgeMessagesRequest, context: Context) -> pb.PurgeMessagesResponse:
        caller, at = caller_of(context), now()
        tenant_id, receipt = caller.require_tenant(), Receipt()
        key = IdempotencyKey.of(caller, request)
        for _ in range(_MAX_ATTEMPTS):
            if not request.dry_run:
                await self._store.unarchive_messages(tenant_id, request.message_ids, at)
            with suppress(MessagesArchived):
                async with self._idempotency.begin_with_key(tenant_id, key, sees_repeats=True) as write:
                    if write.saved_response is not None:
                        response = pb.PurgeMessagesResponse.FromString(write.saved_response)
                    else:
                        receipt = await self._store.purge_messages(
                            write.tx, tenant_id, request.message_ids, is_dry_run=request.dry_run, at=at
                        )
                        response = await write.save(pb.PurgeMessagesResponse(receipt=_receipt(receipt)))
                await self._archives.delete_cancelled_files(tenant_id, receipt.cancelled_files, at)
                return response
        raise TransactionConflict

    async def PurgeSubject(self, request: pb.PurgeSubjectRequest, context: Context) -> pb.PurgeSubjectResponse:
        caller, at = caller_of(context), now()
        tenant_id, receipt, key = caller.require_tenant(), Receipt(), IdempotencyKey.of(caller, request)
        is_partial = False
        if not request.dry_run:
            is_partial = await self._narrow(context, tenant_id, request.subject_id)
            await self._store.unarchive_subject(tenant_id, request.subject_id, at)
        async with self._idempotency.begin_with_key(tenant_id, key, sees_repeats=True) as write:
            if write.saved_response is not None:
                response = pb.PurgeSubjectResponse.FromString(write.saved_response)
            else:
                receipt = await self._store.purge_subject(
                    write.tx, tenant_id, request.subject_id, _options(request), at
                )
                receipt.has_more = receipt.has_more or is_partial
                response = pb.PurgeSubjectResponse(receipt=_receipt(receipt))
                # The saved response must not keep the ids of the subject's sessions.
                saved_response = pb.PurgeSubjectResponse()
                saved_response.CopyFrom(response)
                saved_response.receipt.ClearField("session_ids")
                await write.save(saved_response)
        await self._archives.delete_cancelled_files(tenant_id, receipt.cancelled_files, at)
        # For a repeated request too, because the process of the first may have died before this step.
        if not request.dry_run and not response.receipt.more:
            await self._store.purge_access_log(tenant_id, request.subject_id)
        return response

    async def _narrow(self, context: Context, tenant_id: UUID, subject_id: str) -> bool:
        """Narrow a call in a tenant with spaces to the next one that has something of a subject.

        An id of a session is that of one space, so each call purges in one. Return whether others may remain.
        """
        if not isinstance(context, Call) or context.space_ids is None:
            return False
        space_id = await self._store.next_space_of_subject(tenant_id, subject_id)
        context.narrow_to(space_id or DEFAULT_SPACE)
        return space_id is not None


def _options(request: pb.PurgeSessionRequest | pb.PurgeSubjectRequest) -> PurgeOptions:
    """Read the limit and the dry run of a request."""
    return PurgeOptions(limit=request.limit or DEFAULT_LIMIT, is_dry_run=request.dry_run)


def _receipt(values: Receipt) -> pb.PurgeReceipt:
    """Convert a receipt."""
    return pb.PurgeReceipt(
        session_ids=values.session_ids,
        message_ids=map(str, values.message_ids),
        counts=values.counts,
        more=values.has_more,
        tombstones=values.tombstones,
        subject_tombstone=values.subject_tombstone,
    )
