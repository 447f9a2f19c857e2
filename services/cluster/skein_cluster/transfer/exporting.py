"""Writing a tenant's sessions, messages, memories and links as records that an import takes.

What has no external id is written under the id that the cluster gave it. What is written meanwhile may be missing: an
export is no snapshot.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein_cluster.transfer.records import Kind, line_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from skein_cluster.calling import Api
    from skein_cluster.transfer.records import Item

_PAGE = 500


async def export(api: Api, write: Callable[[str], object]) -> Counter[str]:
    """Write every record of the tenant as a line, and return how many of each kind."""
    counts: Counter[str] = Counter()

    def put(kind: Kind, item: Item) -> None:
        write(line_of(kind, item) + "\n")
        counts[kind] += 1

    # Listed newest first and perhaps twice when one is updated meanwhile; written oldest first and once.
    sessions = {session.session_id: session async for session in _sessions(api)}
    for session in reversed(sessions.values()):
        put(Kind.SESSION, session)
        async for message in _messages(api, session.session_id):
            message.external_id = message.external_id or message.message_id
            put(Kind.MESSAGE, message)
    names: dict[str, str] = {}
    async for memory in _memories(api):
        memory.external_id = memory.external_id or memory.memory_id
        names[memory.memory_id] = memory.external_id
        put(Kind.MEMORY, memory)
    for memory_id in names:
        async for link in _links(api, memory_id):
            if link.to_memory_id in names:
                link.from_memory_id, link.to_memory_id = names[link.from_memory_id], names[link.to_memory_id]
                put(Kind.LINK, link)
    return counts


async def _sessions(api: Api) -> AsyncIterator[session_pb2.Session]:
    request = session_pb2.ListSessionsRequest(page_size=_PAGE)
    while True:
        page = await api.sessions.ListSessions(request)
        for session in page.sessions:
            yield session
        if not page.next_page_token:
            return
        request.page_token = page.next_page_token


async def _messages(api: Api, session_id: str) -> AsyncIterator[session_pb2.Message]:
    request = session_pb2.ListMessagesRequest(session_id=session_id, page_size=_PAGE)
    while True:
        page = await api.sessions.ListMessages(request)
        for message in page.messages:
            yield message
        if not page.next_page_token:
            return
        request.page_token = page.next_page_token


async def _memories(api: Api) -> AsyncIterator[memory_pb2.Memory]:
    request = memory_pb2.ListMemoriesRequest(page_size=_PAGE, show_archived=True)
    while True:
        page = await api.memories.ListMemories(request)
        for memory in page.memories:
            yield memory
        if not page.next_page_token:
            return
        request.page_token = page.next_page_token


async def _links(api: Api, memory_id: str) -> AsyncIterator[memory_pb2.Link]:
    request = memory_pb2.ListLinksRequest(
        memory_id=memory_id, direction=memory_pb2.LINK_DIRECTION_OUTGOING, page_size=_PAGE
    )
    while True:
        page = await api.links.ListLinks(request)
        for link in page.links:
            yield link
        if not page.next_page_token:
            return
        request.page_token = page.next_page_token
