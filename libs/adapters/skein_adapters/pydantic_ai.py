"""Conversations of Pydantic AI on Skein: each message of a conversation is one that every client reads and recalls.

async with Client.from_environment() as skein:
    store = SkeinConversationStore(skein, subject_id="anna")
    conversation = await store.load("anna-42") or Conversation(conversation_id="anna-42")
    result = await agent.run("What did I order?", conversation=conversation)
    await store.save(result)
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import Value
from pydantic import TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    TextPart,
    ToolReturnPart,
    UserPromptPart,
)

from skein.session.v1 import session_pb2
from skein_adapters import messages
from skein_client import Client
from skein_client.errors import Aborted, AlreadyExists, NotFound
from skein_client.exact_json import get_json, set_json

_FRAMEWORK = "pydantic-ai"
# Where a session's metadata have the record.
_KEY = "pydantic_ai"
_SCOPE_PATH = f"metadata.{_KEY}.scope"
# Longest text of which sessions have an index.
_MAX_SCOPE = 255
_record_json = TypeAdapter(ConversationRecord)


class SkeinConversationStore(ConversationStore):
    """A store whose conversations are sessions of the same ids, of the type "pydantic-ai".

    An entry is a message. The record is in the session's metadata, and is replaced only in the revision that was read.
    `delete` removes the record and keeps the messages, which forks may share: `DeleteSession` and `PurgeSession` of
    the contract remove them. Methods raise SkeinError. The client stays open as long as the store is used, on one
    event loop.
    """

    def __init__(self, client: Client, *, subject_id: str = "", agent_id: str = "") -> None:
        """Keep conversations by an open client.

        `subject_id` is the person whose conversations this store writes, by whom recall finds them, and `agent_id` the
        agent. Every store reads all conversations.
        """
        self._client = client
        self._subject_id = subject_id
        self._agent_id = agent_id

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation; None without one."""
        session = await self._read_session(conversation_id)
        return None if session is None else _record_of(session)

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        """Return the records of a scope, last saved first."""
        request = session_pb2.ListSessionsRequest(session_type=_FRAMEWORK, page_size=messages.MAX_LISTED)
        if scope and len(scope) <= _MAX_SCOPE:
            request.properties.add(path=_SCOPE_PATH, value=Value(string_value=scope))
        records: list[ConversationRecord] = []
        while True:
            listed = await self._client.sessions.ListSessions(request)
            records += [record for record in map(_record_of, listed.sessions) if record is not None]
            request.page_token = listed.next_page_token
            if not listed.next_page_token:
                break
        # A session that changes while it is listed may come twice.
        newest = {record.conversation_id: record for record in records if scope is None or record.scope == scope}
        return sorted(newest.values(), key=lambda record: record.updated_at, reverse=True)[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Append the new entries, then replace the record. After a conflict the entries are purged again."""
        stored = await self.read_record(record.conversation_id)
        await self._check(stored, record, new_entries, expected_revision)
        for batch in messages.batches(_to_message(entry) for entry in new_entries):
            await self._client.sessions.AppendMessages(
                messages.append_request(
                    record.conversation_id, batch, subject_id=self._subject_id, agent_id=self._agent_id
                )
            )
        try:
            await self._replace_record(record.conversation_id, record, expected_revision)
        except ConversationConflict:
            ids = [_external_id(entry.id) for entry in new_entries]
            for request in messages.purge_requests(ids):
                await self._client.sessions.PurgeMessages(request)
            raise

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete the record of a conversation and keep its entries."""
        await self._replace_record(conversation_id, None, expected_revision)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return an entry. Raises LookupError."""
        _, entry = await self._read_entry(entry_id)
        return entry

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """Return the entries up to one, oldest first, or only the last `limit` of them. Raises LookupError."""
        read: dict[str, ConversationEntry] = {}
        listed: set[str] = set()
        history: list[ConversationEntry] = []
        entry_id = head_id
        while entry_id is not None and (limit is None or len(history) < limit):
            if entry_id not in read:
                session_id, read[entry_id] = await self._read_entry(entry_id)
                if session_id not in listed:
                    listed.add(session_id)
                    read |= await self._read_newest(session_id, limit)
            history.append(read[entry_id])
            entry_id = read[entry_id].parent_id
        history.reverse()
        return history

    async def _read_entry(self, entry_id: str) -> tuple[str, ConversationEntry]:
        """Return an entry and the session that has it. Raises LookupError."""
        try:
            response = await self._client.sessions.GetMessage(
                session_pb2.GetMessageRequest(message_id=_external_id(entry_id))
            )
        except NotFound:
            raise LookupError(entry_id) from None
        entry = _to_entry(response.message)
        if entry is None:
            raise LookupError(entry_id)
        return response.message.session_id, entry

    async def _read_newest(self, session_id: str, limit: int | None) -> dict[str, ConversationEntry]:
        """Return the newest entries of a session by id, all of them without a limit."""
        result: dict[str, ConversationEntry] = {}
        page_size = min(limit or messages.MAX_LISTED, messages.MAX_LISTED)
        async for message in self._client.list_messages(session_id, newest_first=True, page_size=page_size):
            entry = _to_entry(message)
            if entry is not None:
                result[entry.id] = entry
            if len(result) == limit:
                break
        return result

    async def _read_session(self, conversation_id: str) -> session_pb2.Session | None:
        try:
            request = session_pb2.GetSessionRequest(session_id=conversation_id)
            return (await self._client.sessions.GetSession(request)).session
        except NotFound:
            return None

    async def _check(
        self,
        stored: ConversationRecord | None,
        record: ConversationRecord,
        new_entries: Sequence[ConversationEntry],
        expected_revision: str | None,
    ) -> None:
        """Raise ConversationConflict for another revision, or for a head that is stored nowhere."""
        if _revision_of(stored) != expected_revision:
            raise ConversationConflict(record.conversation_id)
        if record.head_id is not None and record.head_id not in {entry.id for entry in new_entries}:
            try:
                await self._read_entry(record.head_id)
            except LookupError:
                raise ConversationConflict(record.conversation_id) from None

    async def _replace_record(
        self, conversation_id: str, record: ConversationRecord | None, expected_revision: str | None
    ) -> None:
        """Replace the record of a session, which is created if needed. Raises ConversationConflict."""
        while True:
            session = await self._read_session(conversation_id)
            if _revision_of(None if session is None else _record_of(session)) != expected_revision:
                raise ConversationConflict(conversation_id)
            changed = session_pb2.Session(session_id=conversation_id, session_type=_FRAMEWORK)
            if session is None:
                changed.subject_id, changed.agent_id = self._subject_id, self._agent_id
            # The session may have metadata of other clients.
            metadata: dict[str, Any] = {} if session is None else dict(get_json(session, "metadata") or {})
            metadata.pop(_KEY, None)
            if record is not None:
                metadata[_KEY] = {"record": _record_json.dump_json(record).decode(), "scope": record.scope}
            set_json(changed, "metadata", metadata)
            try:
                if session is None:
                    await self._client.sessions.CreateSession(session_pb2.CreateSessionRequest(session=changed))
                else:
                    changed.revision = session.revision
                    mask = FieldMask(paths=["metadata", "session_type"])
                    request = session_pb2.UpdateSessionRequest(session=changed, update_mask=mask)
                    await self._client.sessions.UpdateSession(request)
            except (Aborted, AlreadyExists):
                # The session changed meanwhile, perhaps by a message of another client.
                continue
            return


def _revision_of(record: ConversationRecord | None) -> str | None:
    return None if record is None else record.revision


def _record_of(session: session_pb2.Session) -> ConversationRecord | None:
    stored = (get_json(session, "metadata") or {}).get(_KEY)
    return None if stored is None else _record_json.validate_json(stored["record"])


def _external_id(entry_id: str) -> str:
    return f"{_FRAMEWORK}:{entry_id}"


def _to_message(entry: ConversationEntry) -> session_pb2.Message:
    (message,) = json.loads(ModelMessagesTypeAdapter.dump_json([entry.message]))
    role, text = _role_and_text(entry.message)
    return messages.to_message(
        role,
        text,
        framework=_FRAMEWORK,
        original=json.dumps({"id": entry.id, "parent_id": entry.parent_id, "message": message}),
        external_id=_external_id(entry.id),
    )


def _to_entry(message: session_pb2.Message) -> ConversationEntry | None:
    original = messages.original_of(message, _FRAMEWORK)
    if original is None:
        return None
    stored = json.loads(original)
    # Bytes are base64 in JSON alone.
    (model_message,) = ModelMessagesTypeAdapter.validate_json(json.dumps([stored["message"]]))
    return ConversationEntry(id=stored["id"], parent_id=stored["parent_id"], message=model_message)


def _role_and_text(message: ModelMessage) -> tuple[session_pb2.MessageRole, str]:
    """Return who speaks and what is searched: texts of persons and models, and what tools return."""
    if not isinstance(message, ModelRequest):
        texts = [part.content for part in message.parts if isinstance(part, TextPart)]
        return session_pb2.MESSAGE_ROLE_ASSISTANT, "\n".join(texts)
    prompts = [part.content for part in message.parts if isinstance(part, UserPromptPart)]
    if prompts:
        contents = [one for prompt in prompts for one in ([prompt] if isinstance(prompt, str) else prompt)]
        return session_pb2.MESSAGE_ROLE_USER, "\n".join(one for one in contents if isinstance(one, str))
    returns = [part for part in message.parts if isinstance(part, ToolReturnPart)]
    if returns:
        return session_pb2.MESSAGE_ROLE_TOOL, "\n".join(part.model_response_str() for part in returns)
    return session_pb2.MESSAGE_ROLE_SYSTEM, ""
