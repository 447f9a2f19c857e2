"""Sessions of the OpenAI Agents SDK on Skein: each item of a conversation is a message that every client reads.

async with Client.from_environment() as skein:
    session = SkeinSession(skein, "anna-42", subject_id="anna")
    await Runner.run(agent, "What did I order?", session=session)
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from skein.session.v1 import session_pb2
from skein_adapters import messages
from skein_client import Client
from skein_client.errors import NotFound

if TYPE_CHECKING:
    from agents.items import TResponseInputItem
    from agents.memory import SessionSettings

_FRAMEWORK = "openai-agents"
_ROLES = {
    "user": session_pb2.MESSAGE_ROLE_USER,
    "assistant": session_pb2.MESSAGE_ROLE_ASSISTANT,
    "system": session_pb2.MESSAGE_ROLE_SYSTEM,
    "developer": session_pb2.MESSAGE_ROLE_SYSTEM,
}
_ROLE_NAMES = {
    session_pb2.MESSAGE_ROLE_USER: "user",
    session_pb2.MESSAGE_ROLE_ASSISTANT: "assistant",
    session_pb2.MESSAGE_ROLE_SYSTEM: "system",
}


class SkeinSession:
    """A conversation of the SDK (its `Session` protocol) in the session of the same id.

    Texts of persons and models, and what tools return, are found by recall. Calls of tools and reasoning are kept and
    not searched. Methods raise SkeinError. The client stays open as long as the session is used, on one event loop.
    """

    def __init__(
        self,
        client: Client,
        session_id: str,
        *,
        subject_id: str = "",
        agent_id: str = "",
        session_settings: SessionSettings | None = None,
    ) -> None:
        """Keep the conversation `session_id` (up to 255 characters) by an open client.

        `subject_id` is the person whose conversation it is, by whom recall finds it, and `agent_id` the agent.
        `session_settings.limit` is the number of items that `get_items` returns unless it is told another.
        """
        self.session_id = session_id
        self.session_settings = session_settings
        self._participants = {"subject_id": subject_id, "agent_id": agent_id}
        self._client = client

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the latest `limit` items, oldest first; all of them without a limit."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        if limit is not None and limit <= 0:
            return []
        page_size = min(limit or messages.MAX_LISTED, messages.MAX_LISTED)
        newest: list[session_pb2.Message] = []
        try:
            async for message in self._client.list_messages(self.session_id, newest_first=True, page_size=page_size):
                newest.append(message)
                if len(newest) == limit:
                    break
        except NotFound:
            return []
        return [_to_item(message) for message in reversed(newest)]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items; more than 500 take several calls, each of which is atomic."""
        for batch in messages.batches(_to_message(item) for item in items):
            request = messages.append_request(self.session_id, batch, **self._participants)
            await self._client.sessions.AppendMessages(request)

    async def pop_item(self) -> TResponseInputItem | None:
        """Delete the latest item and return it; None when there is none. No two callers get the same item."""
        while (message := await self._newest()) is not None:
            request = session_pb2.DeleteMessageRequest(message_id=message.message_id)
            try:
                await self._client.sessions.DeleteMessage(request)
            except NotFound:
                # Another caller got it.
                continue
            item: TResponseInputItem = _to_item(message)
            return item
        return None

    async def clear_session(self) -> None:
        """Purge all items; the session stays and takes new ones."""
        try:
            listed = self._client.list_messages(self.session_id, page_size=messages.MAX_LISTED)
            ids = [message.message_id async for message in listed]
        except NotFound:
            return
        for request in messages.purge_requests(ids):
            await self._client.sessions.PurgeMessages(request)

    async def _newest(self) -> session_pb2.Message | None:
        """Return the latest message. A page may be empty beside those of concurrent callers, and not be the last."""
        try:
            async for message in self._client.list_messages(self.session_id, newest_first=True, page_size=1):
                return message
        except NotFound:
            pass
        return None


def _to_message(item: TResponseInputItem) -> session_pb2.Message:
    fields: dict[str, Any] = dict(item)
    role = fields.get("role")
    content = fields.get("content")
    if role in _ROLE_NAMES.values() and isinstance(content, str) and fields.keys() == {"role", "content"}:
        original = "" if content else json.dumps(fields)
        return messages.to_message(_ROLES[str(role)], content, framework=_FRAMEWORK, original=original)
    original = json.dumps(fields)
    if role in _ROLES:
        return messages.to_message(_ROLES[str(role)], _text(content), framework=_FRAMEWORK, original=original)
    if "output" in fields:
        return messages.to_message(
            session_pb2.MESSAGE_ROLE_TOOL, _text(fields["output"]), framework=_FRAMEWORK, original=original
        )
    return messages.to_message(session_pb2.MESSAGE_ROLE_ASSISTANT, "", framework=_FRAMEWORK, original=original)


def _to_item(message: session_pb2.Message) -> Any:
    original = messages.original_of(message, _FRAMEWORK)
    if original is not None:
        value = json.loads(original)
        if isinstance(value, dict):
            return value
        return {"role": _ROLE_NAMES[message.role], "content": value}
    # What a tool said to another client is no answer to a call of this conversation.
    return {"role": _ROLE_NAMES.get(message.role, "assistant"), "content": message.content}


def _text(content: object) -> str:
    """Return the texts of a content, which is a text or a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))
