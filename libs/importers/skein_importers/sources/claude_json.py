"""`claude-json`: the conversations.json of a Claude export.

| theirs | here |
|---|---|
| conversations | sessions `claude:<uuid>`, with title and summary |
| chat_messages | messages; calls of tools and their results in their fields |
| attachments with a text, files, thinking and other blocks | parts of the message, without the files' bytes |
| other fields | metadata.claude |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from skein.session.v1 import session_pb2
from skein_importers.sources.conversation_exports import MESSAGES, ExportFormat, set_metadata, set_parts
from skein_importers.sources.documents import SingleRealmSource, kept_fields, rows_of
from skein_importers.sources.rows import Row, list_value, to_timestamp

_PREFIX = "claude"
_ROLES = {
    "human": session_pb2.MESSAGE_ROLE_USER,
    "user": session_pb2.MESSAGE_ROLE_USER,
    "assistant": session_pb2.MESSAGE_ROLE_ASSISTANT,
    "system": session_pb2.MESSAGE_ROLE_SYSTEM,
}
_MAPPED = ("uuid", "text", "content", "sender", "created_at", "updated_at", "attachments", "files")


def _rows(conversation: Row) -> Iterable[Row]:
    return rows_of(conversation.value("chat_messages"), MESSAGES, "uuid", conversation.notes, "metadata.claude")


def _message(row: Row) -> session_pb2.Message | None:
    extra = kept_fields(row, _MAPPED)
    blocks = [block for block in row.sequence("content", extra) if isinstance(block, dict)]
    texts = [block["text"] for block in blocks if block.get("type") == "text" and isinstance(block.get("text"), str)]
    text = "\n".join(part for part in texts if part.strip()) or row.text("text")
    calls, returns = _of_type(blocks, "tool_use"), _of_type(blocks, "tool_result")
    parts = [block for block in blocks if block.get("type") not in {"text", "tool_use", "tool_result"}]
    parts += [{"type": "attachment", "attachment": value} for value in row.sequence("attachments", extra)]
    parts += [{"type": "file", "file": value} for value in row.sequence("files", extra)]
    if not (text.strip() or calls or returns or parts):
        row.notes.count_ignored(row.table, "without a text")
        return None
    sender = row.text("sender").strip().lower()
    message = session_pb2.Message(role=_ROLES.get(sender, session_pb2.MESSAGE_ROLE_USER), content=text)
    if sender not in _ROLES:
        row.count_converted("sender", "missing or unknown: user")
    for values, field in ((calls, message.tool_calls), (returns, message.tool_returns)):
        if values:
            field.CopyFrom(list_value(values))
    if (create_time := row.time("created_at")) is not None:
        message.create_time.CopyFrom(to_timestamp(create_time))
    set_parts(message, parts)
    set_metadata(message, _PREFIX, extra)
    return message


def _of_type(blocks: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [block for block in blocks if block.get("type") == kind]


FORMAT = ExportFormat(
    name="claude-json",
    system="Claude",
    prefix=_PREFIX,
    ids=("uuid",),
    title="name",
    summary="summary",
    create_time="created_at",
    update_time="updated_at",
    messages="chat_messages",
    mapped=(),
    is_hidden=lambda _row: False,
    rows=_rows,
    message=_message,
)


@contextmanager
def open_source(source: str) -> Iterator[SingleRealmSource]:
    """Open an export. Raises SourceInvalid."""
    yield FORMAT.open(source)
