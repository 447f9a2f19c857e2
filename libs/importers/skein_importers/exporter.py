"""Exports a tenant as records that an import reads: sessions, messages, memories, links, and related records.

Records without an external id keep the cluster's id. Concurrent writes may be missing: an export is not a snapshot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein_client.client import Client
from skein_client.pagination import iterate_pages
from skein_importers import related_records
from skein_importers.records import ITEMS, Kind, line_of

_PAGE = 500
# Include archived memories, which lists leave out by default.
_STATES = [name for name, number in session_pb2.SessionState.items() if number]


async def export(api: Client, write: Callable[[str], object]) -> Counter[str]:
    """Write every record of the tenant as a line, and return how many of each kind."""
    return await export_records(api, lambda kind, item: write(line_of(kind, item) + "\n"))


async def export_records(api: Client, on_record: Callable[[Kind, Any], object]) -> Counter[str]:
    """Call `on_record` with every record of the tenant, and return how many of each kind."""
    counts: Counter[str] = Counter()

    def put(kind: Kind, item: Any) -> None:
        if kind in ITEMS:
            related_records.clear_revision(item)
        on_record(kind, item)
        counts[kind] += 1

    await related_records.export_agents_and_subjects(api, put)
    # Lists are newest first and may repeat a session that is updated meanwhile; write each once, oldest first.
    request = session_pb2.ListSessionsRequest(page_size=_PAGE, states=_STATES)
    newest_first = iterate_pages(api.sessions.ListSessions, request, "sessions")
    sessions = {session.session_id: session async for session in newest_first}
    for session in reversed(sessions.values()):
        put(Kind.SESSION, session)
        turns = session_pb2.ListMessagesRequest(session_id=session.session_id, page_size=_PAGE, show_archived=True)
        async for message in iterate_pages(api.sessions.ListMessages, turns, "messages"):
            message.external_id = message.external_id or message.message_id
            put(Kind.MESSAGE, message)
    await related_records.export_session_items(api, sessions, put)
    names: dict[str, str] = {}
    memories = memory_pb2.ListMemoriesRequest(page_size=_PAGE, show_archived=True)
    async for memory in iterate_pages(api.memories.ListMemories, memories, "memories"):
        memory.external_id = memory.external_id or memory.memory_id
        names[memory.memory_id] = memory.external_id
        put(Kind.MEMORY, memory)
    await related_records.export_vectors(api, names, put)
    for memory_id in names:
        outgoing = memory_pb2.ListLinksRequest(
            memory_id=memory_id, direction=memory_pb2.LINK_DIRECTION_OUTGOING, page_size=_PAGE
        )
        async for link in iterate_pages(api.links.ListLinks, outgoing, "links"):
            if link.to_memory_id in names:
                link.from_memory_id, link.to_memory_id = names[link.from_memory_id], names[link.to_memory_id]
                put(Kind.LINK, link)
    await related_records.export_curation(api, names, put)
    return counts
