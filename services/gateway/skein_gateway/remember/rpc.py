"""Remember: memories to the memory service, then messages to the session service, under one request id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein_kit.identity.permissions import ACCESS_RULES
from skein_kit.json_values import fields
from skein_kit.rpc.request_body import MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    from skein.memory.v1 import memory_pb2_grpc
    from skein.session.v1 import session_pb2_grpc
    from skein_kit.identity.identity_token import Caller

_APPEND = ACCESS_RULES["/skein.session.v1.SessionService/AppendMessages"]
_CREATE = ACCESS_RULES["/skein.memory.v1.MemoryService/BatchCreateMemories"]


def append_request(request: pb.RememberRequest) -> session_pb2.AppendMessagesRequest | None:
    """Return the session's part of a request; None when it has none."""
    if not request.messages:
        return None
    part = session_pb2.AppendMessagesRequest(
        session_id=request.session_id,
        messages=request.messages,
        create_session=True,
        request_id=_part(request.request_id, "messages"),
    )
    fields.drop_duplicates_to_fit(part, MAX_MESSAGE_BYTES)
    return part


def create_request(request: pb.RememberRequest) -> memory_pb2.BatchCreateMemoriesRequest | None:
    """Return the memories' part of a request; None when it has none."""
    if not request.memories:
        return None
    part = memory_pb2.BatchCreateMemoriesRequest(
        memories=request.memories, request_id=_part(request.request_id, "memories")
    )
    for memory in part.memories:
        memory.session_id = memory.session_id or request.session_id
    fields.drop_duplicates_to_fit(part, MAX_MESSAGE_BYTES)
    return part


class Remembering:
    """The two services that a thing remembered goes to."""

    def __init__(
        self,
        sessions: session_pb2_grpc.SessionServiceAsyncStub,
        memories: memory_pb2_grpc.MemoryServiceAsyncStub,
    ) -> None:
        """Call both through these stubs."""
        self._sessions = sessions
        self._memories = memories

    async def remember(self, caller: Caller, request: pb.RememberRequest) -> pb.RememberResponse:
        """Store the memories, then the messages: memories are refused more often, and nothing is stored then."""
        appending, creating = append_request(request), create_request(request)
        # Asked before either part begins, so that a caller who may do only one of them does neither.
        if appending is not None:
            _APPEND.check(caller)
        if creating is not None:
            _CREATE.check(caller)
        created = await self._create(creating)
        appended = await self._append(appending)
        answer = pb.RememberResponse(
            messages=appended.messages,
            memories=created.memories,
            pending_embedding_count=appended.pending_embedding_count + created.pending_embedding_count,
        )
        fields.drop_duplicates_to_fit(answer, MAX_MESSAGE_BYTES)
        return answer

    async def _append(self, request: session_pb2.AppendMessagesRequest | None) -> session_pb2.AppendMessagesResponse:
        if request is None:
            return session_pb2.AppendMessagesResponse()
        return await self._sessions.AppendMessages(request)

    async def _create(
        self, request: memory_pb2.BatchCreateMemoriesRequest | None
    ) -> memory_pb2.BatchCreateMemoriesResponse:
        if request is None:
            return memory_pb2.BatchCreateMemoriesResponse()
        return await self._memories.BatchCreateMemories(request)


def _part(request_id: str, name: str) -> str:
    return f"remember:{request_id}:{name}" if request_id else ""
