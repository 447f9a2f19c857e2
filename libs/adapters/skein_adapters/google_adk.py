"""The memory service of Google's Agent Development Kit on Skein: what a user said to one app, every client recalls.

async with Client.from_environment() as skein:
    runner = Runner(agent=agent, app_name="shop", session_service=sessions, memory_service=SkeinMemoryService(skein))

For recall and remember as tools, give an agent those of `skein_adapters.tools`, or ADK's own `load_memory`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein_adapters import messages
from skein_client import Client
from skein_client.errors import AlreadyExists, NotFound

if TYPE_CHECKING:
    from google.adk.events.event import Event
    from google.adk.sessions.session import Session

_FRAMEWORK = "google-adk"
_MAX_ID = 255
_MAX_QUERY = 10_000
_AUTHOR_USER = "user"


class SkeinMemoryService(BaseMemoryService):
    """A user is the person (subject) of the same id, an app the agent, and an event with a text a message.

    A search finds everything that is known about the user: what other apps and clients stored, too. Methods raise
    SkeinError. The client stays open as long as the service is used, on one event loop.
    """

    def __init__(self, client: Client, *, limit: int = 10) -> None:
        """Search by an open client; `limit` is the most memories that a search returns."""
        self._client = client
        self._limit = limit

    async def add_session_to_memory(self, session: Session) -> None:
        """Store the events of a session that are not stored yet. A session may be added many times."""
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, events=session.events, session_id=session.id
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store events with a text that are not stored yet; without a session they share one of the user."""
        name = _session_id(app_name, user_id, session_id or "")
        while True:
            stored = await self._stored_ids(name)
            new = [message for message in map(_to_message, events) if message and message.external_id not in stored]
            try:
                for batch in messages.batches(new):
                    request = messages.append_request(name, batch, subject_id=user_id, agent_id=app_name)
                    await self._client.sessions.AppendMessages(request)
            except AlreadyExists:
                # Another caller stored some of them meanwhile.
                continue
            return

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store memories of a user; one with the words of a stored one is not stored again."""
        texts = [text for entry in memories if (text := _text(entry.content))]
        if texts:
            request = memory_pb2.BatchCreateMemoriesRequest(
                memories=[memory_pb2.Memory(content=text, subject_id=user_id, agent_id=app_name) for text in texts],
                on_similar=memory_pb2.ON_SIMILAR_RETURN,
            )
            await self._client.memories.BatchCreateMemories(request)

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Return what is known about the user, best first."""
        if not query.strip():
            return SearchMemoryResponse()
        response = await self._client.recall(query[:_MAX_QUERY], subject_id=user_id, limit=self._limit)
        return SearchMemoryResponse(memories=_entries(response))

    async def _stored_ids(self, session_id: str) -> frozenset[str]:
        listed = self._client.list_messages(session_id, page_size=messages.MAX_LISTED)
        try:
            return frozenset([message.external_id async for message in listed])
        except NotFound:
            return frozenset()


def _session_id(app_name: str, user_id: str, session_id: str) -> str:
    """Return the id of a session here: ADK's ids are unique within an app and a user."""
    name = f"{_FRAMEWORK}:{app_name}:{user_id}:{session_id}"
    return name if len(name) <= _MAX_ID else f"{_FRAMEWORK}:{hashlib.sha256(name.encode()).hexdigest()}"


def _to_message(event: Event) -> session_pb2.Message | None:
    """Return the message of an event; None for one without a text, and for a part of a stream."""
    text = _text(event.content)
    if not text or event.partial:
        return None
    is_user = event.author == _AUTHOR_USER
    role = session_pb2.MESSAGE_ROLE_USER if is_user else session_pb2.MESSAGE_ROLE_ASSISTANT
    message = messages.to_message(role, text, framework=_FRAMEWORK, external_id=f"{_FRAMEWORK}:{event.id}")
    message.create_time.FromNanoseconds(int(event.timestamp * 1e9))
    return message


def _text(content: types.Content | None) -> str:
    parts = (content.parts or []) if content else []
    return "\n".join(part.text for part in parts if part.text and not part.thought)


def _entries(response: gateway_pb2.RecallResponse) -> list[MemoryEntry]:
    entries = []
    for hit in response.hits:
        if hit.HasField("block"):
            text, time = hit.block.value, hit.block.update_time
        else:
            item = hit.message if hit.HasField("message") else hit.memory
            text, time = item.content, item.create_time
        is_user = hit.HasField("message") and hit.message.role == session_pb2.MESSAGE_ROLE_USER
        content = types.Content(role="user" if is_user else "model", parts=[types.Part(text=text)])
        author = _AUTHOR_USER if is_user else "memory"
        entries.append(MemoryEntry(content=content, id=hit.item_id, author=author, timestamp=time.ToJsonString()))
    return entries
