"""RPCs of messages: append, read, correct, delete, and stream."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from skein.session.v1 import session_pb2 as pb
from skein_kit.calls.call import Context, caller
from skein_kit.idempotency.key import IdempotencyKey
from skein_kit.ids import now
from skein_kit.rpc.row_times import require_keep_times
from skein_session.messages.model import MessageBatch, MessageChange

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from skein_kit.search_text.embedding_requests import EmbeddingClient
    from skein_session.messages.store import MessageStore
    from skein_session.messages.stream import StreamHub


class MessageRpc:
    """Appends, reads, changes, deletes and streams messages."""

    def __init__(
        self, messages: MessageStore, streams: StreamHub, embeddings: EmbeddingClient, *, max_content_characters: int
    ) -> None:
        self._messages = messages
        self._streams = streams
        self._embeddings = embeddings
        self._max_content = max_content_characters

    async def AppendMessages(self, request: pb.AppendMessagesRequest, context: Context) -> pb.AppendMessagesResponse:
        identity = caller(context)
        if request.keep_times:
            require_keep_times(identity)
        key = IdempotencyKey.of(identity, request)
        batch = MessageBatch.of(
            request,
            at=now(),
            principal=identity.principal,
            max_content=self._max_content,
            agent_id=identity.agent_id,
        )
        expected_pending = self._embeddings.expected_pending(batch.documents, deferred=request.defer_embedding)
        result = await self._messages.append_messages(identity.tenant(), key, batch, pending=expected_pending)
        response = result.response
        if not result.is_first:
            return response
        pending = await self._embeddings.make(
            batch.documents, remaining=context.time_remaining(), deferred=request.defer_embedding
        )
        if pending != expected_pending:
            response.pending_embedding_count = pending
            if key.request_id:
                await self._messages.replace_saved_response(identity.tenant(), key, response)
        return response

    async def GetMessage(self, request: pb.GetMessageRequest, context: Context) -> pb.GetMessageResponse:
        message = await self._messages.get_message(caller(context).tenant(), request.message_id)
        return pb.GetMessageResponse(message=message)

    async def UpdateMessage(self, request: pb.UpdateMessageRequest, context: Context) -> pb.UpdateMessageResponse:
        identity = caller(context)
        change = MessageChange.of(request, max_content=self._max_content)
        result = await self._messages.update_message(identity, IdempotencyKey.of(identity, request), change, now())
        response = result.response
        if result.document is not None:
            pending = await self._embeddings.make([result.document], remaining=context.time_remaining())
            response.embedding_pending = pending > 0
        return response

    async def DeleteMessage(self, request: pb.DeleteMessageRequest, context: Context) -> pb.DeleteMessageResponse:
        identity = caller(context)
        return await self._messages.delete_message(
            identity.tenant(), IdempotencyKey.of(identity, request), request.message_id
        )

    async def StreamMessages(
        self, request: pb.StreamMessagesRequest, context: Context
    ) -> AsyncGenerator[pb.StreamMessagesResponse]:
        after = request.after_sequence if request.HasField("after_sequence") else None
        async with aclosing(self._streams.stream(caller(context).tenant(), request.session_id, after)) as responses:
            async for response in responses:
                yield response
