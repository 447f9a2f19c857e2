"""Remember: stores memories in the memory service, then messages in the session service, under one request id."""

from __future__ import annotations

from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import memory_pb2, memory_pb2_grpc
from skein.session.v1 import session_pb2, session_pb2_grpc
from skein_kit.calls.call import Context, named_space
from skein_kit.calls.call import caller as caller_of
from skein_kit.identity.permissions import ACCESS_RULES
from skein_kit.json_values import fields
from skein_kit.rpc.request_body import MAX_MESSAGE_BYTES

_APPEND = ACCESS_RULES["/skein.session.v1.SessionService/AppendMessages"]
_CREATE = ACCESS_RULES["/skein.memory.v1.MemoryService/BatchCreateMemories"]

_READ = "memory.read"


def append_request(request: pb.RememberRequest) -> session_pb2.AppendMessagesRequest | None:
    """Return the messages of a request as an AppendMessages request; None without messages."""
    if not request.messages:
        return None
    append = session_pb2.AppendMessagesRequest(
        session_id=request.session_id,
        messages=request.messages,
        create_session=True,
        subject_id=request.subject_id,
        agent_id=request.agent_id,
        request_id=_part_request_id(request.request_id, "messages"),
    )
    fields.drop_duplicates_to_fit(append, MAX_MESSAGE_BYTES)
    return append


def create_request(request: pb.RememberRequest, *, may_read: bool) -> memory_pb2.BatchCreateMemoriesRequest | None:
    """Return the memories of a request as a BatchCreateMemories request; None without memories.

    By default what is stored already is not stored again, unless the caller may not read it.
    """
    if not request.memories:
        return None
    create = memory_pb2.BatchCreateMemoriesRequest(
        memories=request.memories,
        request_id=_part_request_id(request.request_id, "memories"),
        on_similar=request.on_similar or (memory_pb2.ON_SIMILAR_RETURN if may_read else memory_pb2.ON_SIMILAR_KEEP),
        on_conflict=request.on_conflict,
    )
    for memory in create.memories:
        memory.session_id = memory.session_id or request.session_id
        memory.subject_id = memory.subject_id or request.subject_id
        memory.agent_id = memory.agent_id or request.agent_id
    fields.drop_duplicates_to_fit(create, MAX_MESSAGE_BYTES)
    return create


class RememberHandler:
    """The Remember RPC."""

    def __init__(
        self,
        sessions: session_pb2_grpc.SessionServiceAsyncStub,
        memories: memory_pb2_grpc.MemoryServiceAsyncStub,
    ) -> None:
        """Store in these services."""
        self._sessions = sessions
        self._memories = memories

    async def Remember(self, request: pb.RememberRequest, context: Context) -> pb.RememberResponse:
        caller = caller_of(context)
        append = append_request(request)
        create = create_request(request, may_read=_READ in caller.permissions)
        # Check both permissions first, so that a caller with only one of them stores nothing.
        if append is not None:
            _APPEND.check_reach(caller, named_space())
        if create is not None:
            _CREATE.check_reach(caller, named_space())
        created, appended = memory_pb2.BatchCreateMemoriesResponse(), session_pb2.AppendMessagesResponse()
        # Memories come first: they are refused more often, and then nothing is stored.
        if create is not None:
            created = await self._memories.BatchCreateMemories(create)
        if append is not None:
            appended = await self._sessions.AppendMessages(append)
        response = pb.RememberResponse(
            messages=appended.messages,
            memories=created.memories,
            pending_embedding_count=appended.pending_embedding_count + created.pending_embedding_count,
            similar_indexes=created.similar_indexes,
            existing_indexes=created.existing_indexes,
        )
        fields.drop_duplicates_to_fit(response, MAX_MESSAGE_BYTES)
        return response


def _part_request_id(request_id: str, name: str) -> str:
    return f"remember:{request_id}:{name}" if request_id else ""
