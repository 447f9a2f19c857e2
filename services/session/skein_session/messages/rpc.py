"""RPCs of messages: append, read, correct, delete, and stream. A claim saves an empty response."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

from skein.session.v1 import session_pb2 as pb
from skein_kit import message_rows
from skein_kit.admission.processor_time import run_by_size
from skein_kit.approval.gate import APPROVE
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.database.tx_options import TxOptions
from skein_kit.errors import ApprovalRequired, PermissionMissing
from skein_kit.idempotency.store import IdempotencyKey
from skein_kit.ids import now
from skein_kit.policies.history import read_as_of_time
from skein_kit.rpc.pagination import require_fit
from skein_kit.rpc.row_times import require_keep_times
from skein_kit.search_text.embedding_requests import EmbeddingClient
from skein_session.idempotency import SessionIdempotencyStore
from skein_session.messages import convert
from skein_session.messages.store import MessageStore
from skein_session.messages.stream import StreamHub

if TYPE_CHECKING:
    from skein_kit.approval.gate import Handler

_PLAN_ONCE = TxOptions(plan_once=True)


class MessageHandlers:
    """Appends, reads, changes, deletes and streams messages."""

    def __init__(
        self,
        store: MessageStore,
        idempotency: SessionIdempotencyStore,
        streams: StreamHub,
        embeddings: EmbeddingClient,
        *,
        max_content_characters: int,
    ) -> None:
        self._store = store
        self._idempotency = idempotency
        self._streams = streams
        self._embeddings = embeddings
        self._max_content = max_content_characters

    @property
    def waiting(self) -> Mapping[str, Handler]:
        """The methods of sources whose messages wait for approval."""
        return {
            "AppendMessages": partial(self._append_messages, must_wait=True),
            "UpdateMessage": partial(self._update_message, must_wait=True),
        }

    async def AppendMessages(self, request: pb.AppendMessagesRequest, context: Context) -> pb.AppendMessagesResponse:
        return await self._append_messages(request, context, must_wait=False)

    async def UpdateMessage(self, request: pb.UpdateMessageRequest, context: Context) -> pb.UpdateMessageResponse:
        if "pending_approval" in request.update_mask.paths and APPROVE not in caller_of(context).permissions:
            raise PermissionMissing(permission=APPROVE)
        return await self._update_message(request, context, must_wait=False)

    async def _append_messages(
        self, request: pb.AppendMessagesRequest, context: Context, *, must_wait: bool
    ) -> pb.AppendMessagesResponse:
        caller = caller_of(context)
        tenant_id = caller.require_tenant()
        if request.keep_times:
            require_keep_times(caller)
        key = IdempotencyKey.of(caller, request)
        size = request.ByteSize()
        batch = await run_by_size(
            size,
            convert.batch,
            request,
            at=now(),
            principal=caller.principal,
            max_content=self._max_content,
            agent_id=caller.agent_id,
            must_wait=must_wait,
        )
        expected_pending = self._embeddings.has_pending_embeddings(
            batch.documents, should_defer=request.defer_embedding
        )
        async with (
            self._store.prepare_append(tenant_id, batch),
            self._idempotency.begin_with_key(tenant_id, key, _PLAN_ONCE) as write,
        ):
            await self._store.append_messages(write.tx, tenant_id, batch)
            messages = await run_by_size(size, message_rows.messages, batch.rows)
            response = pb.AppendMessagesResponse(messages=messages, pending_embedding_count=expected_pending)
            require_fit(response)
            await write.save(response)
        pending = await self._embeddings.request_embeddings(
            batch.documents, remaining=context.time_remaining(), should_defer=request.defer_embedding
        )
        if pending != expected_pending:
            response.pending_embedding_count = pending
            await self._idempotency.replace_response(tenant_id, key, response)
        return response

    async def GetMessage(self, request: pb.GetMessageRequest, context: Context) -> pb.GetMessageResponse:
        at, tenant_id = now(), caller_of(context).require_tenant()
        row = await self._store.get_message(
            tenant_id,
            request.message_id,
            at=at,
            as_of_time=read_as_of_time(request, at=at),
            revision=request.revision,
        )
        return pb.GetMessageResponse(message=message_rows.message(row))

    async def _update_message(
        self, request: pb.UpdateMessageRequest, context: Context, *, must_wait: bool
    ) -> pb.UpdateMessageResponse:
        caller = caller_of(context)
        if must_wait and "pending_approval" in request.update_mask.paths:
            raise ApprovalRequired
        change = convert.change(request, max_content=self._max_content, must_wait=must_wait)
        async with self._idempotency.begin(caller, request) as write:
            row, document = await self._store.update_message(
                write.tx, caller.require_tenant(), change, at=now(), updated_by=caller.principal
            )
            response = pb.UpdateMessageResponse(message=message_rows.message(row))
            require_fit(response)
            await write.save(response)
        if document is not None:
            pending = await self._embeddings.request_embeddings([document], remaining=context.time_remaining())
            response.embedding_pending = pending > 0
        return response

    async def DeleteMessage(self, request: pb.DeleteMessageRequest, context: Context) -> pb.DeleteMessageResponse:
        caller = caller_of(context)
        async with self._idempotency.begin(caller, request) as write:
            await self._store.delete_message(
                write.tx, caller.require_tenant(), request.message_id, at=now(), by=caller.principal
            )
        return pb.DeleteMessageResponse()

    async def UndeleteMessage(self, request: pb.UndeleteMessageRequest, context: Context) -> pb.UndeleteMessageResponse:
        caller = caller_of(context)
        async with self._idempotency.begin(caller, request) as write:
            row, document = await self._store.undelete_message(write.tx, caller.require_tenant(), request.message_id)
            response = pb.UndeleteMessageResponse(message=message_rows.message(row))
            require_fit(response)
            await write.save(response)
        if document is not None:
            pending = await self._embeddings.request_embeddings([document], remaining=context.time_remaining())
            response.embedding_pending = pending > 0
        return response

    async def StreamMessages(
        self, request: pb.StreamMessagesRequest, context: Context
    ) -> AsyncGenerator[pb.StreamMessagesResponse]:
        after = request.after_sequence if request.HasField("after_sequence") else None
        async with aclosing(
            self._streams.stream(caller_of(context).require_tenant(), request.session_id, after)
        ) as responses:
            async for response in responses:
                yield response
