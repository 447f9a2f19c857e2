"""PurgeSession with the memories that belong to the conversation: those that only its session shows, and its entries.

What was learned in a conversation outlives it. The memories go first, so that a call that is cut off can be repeated.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc import aio

from skein.memory.v1 import memory_pb2, memory_pb2_grpc
from skein.session.v1 import states_pb2
from skein_kit.calls.call import Call
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import FieldInvalid, UpstreamError, status_code
from skein_kit.rpc.interceptors import Handler, translate_upstream

PURGE_SESSION = "/skein.session.v1.SessionService/PurgeSession"
_NEEDED = "memory.write"
# The type of the entries of conversations that voice assistants and imports bring as memories.
_ENTRIES = "conversation"
_PAGE_SIZE = 100


class SessionPurge:
    """Purges the memories of a conversation before its session."""

    def __init__(self, memories: memory_pb2_grpc.MemoryServiceAsyncStub) -> None:
        self._memories = memories

    def handlers(self, forwarders: Mapping[str, Handler]) -> dict[str, Handler]:
        """Return the handler of PurgeSession over the one that forwards it."""
        forward = forwarders[PURGE_SESSION]

        async def purge_session(data: bytes, call: Call) -> bytes:
            try:
                request = states_pb2.PurgeSessionRequest.FromString(data)
            except DecodeError:
                raise FieldInvalid(violations=[("", "is not a message of this method")]) from None
            memory_ids: list[str] = []
            # Without the session nothing is purged, except that a repeated request gets its first answer.
            if await _exists(forward, request, call):
                memory_ids = await self._purge_memories(request, call)
                answer: Any = await forward(data, call)
            else:
                answer = await forward(data, call)
                memory_ids = await self._purge_memories(request, call)
            response = states_pb2.PurgeSessionResponse.FromString(answer)
            response.memory_ids.extend(memory_ids)
            return response.SerializeToString()

        return {PURGE_SESSION: purge_session}

    async def _purge_memories(self, request: states_pb2.PurgeSessionRequest, call: Call) -> list[str]:
        """Purge the memories of the conversation, if the caller may; return their ids."""
        if _NEEDED not in caller_of(call).permissions:
            return []
        filters = (
            memory_pb2.MemoryFilter(session_id=request.session_id, scopes=[memory_pb2.SCOPE_SESSION]),
            memory_pb2.MemoryFilter(session_id=request.session_id, types=[_ENTRIES]),
        )
        # An id has up to 255 characters, and so has this one's.
        digest = hashlib.sha256(request.request_id.encode()).hexdigest()
        memory_ids: list[str] = []
        for number, filter_ in enumerate(filters):
            page_token, page = "", 0
            while page == 0 or page_token:
                page_request = memory_pb2.PurgeMemoriesRequest(
                    selection=memory_pb2.MemorySelection(filter=filter_),
                    dry_run=request.dry_run,
                    page_size=_PAGE_SIZE,
                    page_token=page_token,
                    request_id=f"session:{digest}:{number}:{page}" if request.request_id else "",
                )
                try:
                    purged = await self._memories.PurgeMemories(page_request)
                except aio.AioRpcError as error:
                    raise translate_upstream(error, service="memory") from None
                memory_ids += [*purged.receipt.memory_ids, *purged.archived_memory_ids]
                page_token, page = purged.next_page_token, page + 1
        return list(dict.fromkeys(memory_ids))


async def _exists(forward: Handler, request: states_pb2.PurgeSessionRequest, call: Call) -> bool:
    """Return whether there is a session to purge, deleted or not."""
    trial = states_pb2.PurgeSessionRequest(session_id=request.session_id, dry_run=True)
    try:
        await forward(trial.SerializeToString(), call)
    except UpstreamError as error:
        if status_code(error.status()) is not grpc.StatusCode.NOT_FOUND:
            raise
        return False
    return True
