"""Display names of memories, messages and sessions, for pages that have only their ids.

Names of memories come from ListMemories, because a read would count as a use of them.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable
from typing import NamedTuple

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein_gateway.console import formats
from skein_gateway.console.browser_sessions import PageContext
from skein_gateway.console.problems import PageError, or_page_error

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
# Most ids that fit into one filter condition.
_MAX_MEMORIES = 90
# Messages have no list by ids: each is one call.
_MAX_MESSAGES = 25
_LENGTH = 60


class ItemLink(NamedTuple):
    """The name of an item, and the page that has its text."""

    name: str
    url: str


async def memory_names(context: PageContext, memory_ids: Iterable[str]) -> dict[str, str]:
    """Return display names of the memories that the caller may list, by id; also of archived and deleted ones."""
    named_ids = [memory_id for memory_id in dict.fromkeys(memory_ids) if _ID.fullmatch(memory_id)][:_MAX_MEMORIES]
    if not named_ids:
        return {}
    list_request = memory_pb2.ListMemoriesRequest(
        page_size=len(named_ids),
        filter=memory_pb2.MemoryFilter(where=f"memory_id IN ({', '.join(map(json.dumps, named_ids))})"),
        show_archived=True,
        show_deleted=True,
    )
    response = await or_page_error(context.api.memory.ListMemories(list_request))
    if isinstance(response, PageError):
        return {}
    return {memory.memory_id: formats.name_of(memory, _LENGTH) for memory in response.memories}


async def item_links(context: PageContext, items: Iterable[tuple[recall_pb2.ItemKind, str]]) -> dict[str, ItemLink]:
    """Return names and pages of memories and messages by id; those that are gone are left out."""
    kinds = {item_id: kind for kind, item_id in items}
    message_ids = [item_id for item_id, kind in kinds.items() if kind == recall_pb2.ITEM_KIND_MESSAGE]
    names, messages = await asyncio.gather(
        memory_names(context, [id_ for id_, kind in kinds.items() if kind == recall_pb2.ITEM_KIND_MEMORY]),
        asyncio.gather(
            *(
                or_page_error(context.api.sessions.GetMessage(session_pb2.GetMessageRequest(message_id=message_id)))
                for message_id in message_ids[:_MAX_MESSAGES]
            )
        ),
    )
    links = {memory_id: ItemLink(name, context.url("memory", id=memory_id)) for memory_id, name in names.items()}
    for response in messages:
        if not isinstance(response, PageError):
            message = response.message
            links[message.message_id] = ItemLink(
                formats.short(message.content, _LENGTH) or "Message without text", message_url(context, message)
            )
    return links


def message_url(context: PageContext, message: session_pb2.Message) -> str:
    """Return the URL of a message: its session's page, which shows it."""
    url = context.url("session", id=message.session_id, message=message.message_id)
    return f"{url}#m{message.sequence}"


async def session_names(context: PageContext, sessions: Iterable[session_pb2.Session]) -> dict[str, str]:
    """Return display names by id. A session that has only a UUID is called by the beginning of its first message."""
    names = {session.session_id: session_name(session) for session in sessions}
    unnamed = [session_id for session_id, name in names.items() if _ID.fullmatch(name)]
    responses = await asyncio.gather(
        *(
            or_page_error(
                context.api.sessions.ListMessages(session_pb2.ListMessagesRequest(session_id=session_id, page_size=1))
            )
            for session_id in unnamed
        )
    )
    for session_id, response in zip(unnamed, responses, strict=True):
        if not isinstance(response, PageError) and response.messages:
            names[session_id] = formats.short(response.messages[0].content, 90) or session_id
    return names


def session_name(session: session_pb2.Session) -> str:
    """Return what a session says of itself: its title, else the beginning of its summary, else its id."""
    return formats.short(session.title or session.summary or session.session_id, 90)
