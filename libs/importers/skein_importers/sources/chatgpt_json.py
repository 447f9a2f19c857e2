"""`chatgpt-json`: the conversations.json of a ChatGPT export.

A conversation is a tree, because an edited question or a new answer begins a branch. The branch that ChatGPT shows is
imported; messages of the others are ignored and counted.

| theirs | here |
|---|---|
| conversations | sessions `chatgpt:<id>`; archived ones are hidden |
| messages of the branch that is shown | messages, with the model |
| images, files and other parts | parts of the message, without their bytes, which are other files |
| other fields | metadata.chatgpt |
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from skein.session.v1 import session_pb2
from skein_importers.sources.conversation_exports import MESSAGES, ExportFormat, set_metadata, set_parts
from skein_importers.sources.documents import SingleRealmSource, kept_fields, row_of
from skein_importers.sources.rows import Row, make_storable, to_timestamp

_PREFIX = "chatgpt"
_ROLES = {
    "user": session_pb2.MESSAGE_ROLE_USER,
    "assistant": session_pb2.MESSAGE_ROLE_ASSISTANT,
    "system": session_pb2.MESSAGE_ROLE_SYSTEM,
    "tool": session_pb2.MESSAGE_ROLE_TOOL,
}
_MAPPED = (
    "id",
    "author",
    "create_time",
    "update_time",
    "content",
    "metadata",
    "status",
    "end_turn",
    "weight",
    "channel",
)
_MAX_NAME = 255


def _rows(conversation: Row) -> Iterator[Row]:
    """Yield the messages of the branch that is shown, oldest first; count those of other branches."""
    nodes = {str(name): node for name, node in (conversation.value("mapping") or {}).items() if isinstance(node, dict)}
    shown: dict[str, dict[str, Any]] = {}
    name = str(conversation.value("current_node") or _last_leaf(nodes))
    while name in nodes and name not in shown:
        shown[name] = nodes[name]
        name = str(nodes[name].get("parent") or "")
    for name, node in nodes.items():
        if name not in shown and isinstance(node.get("message"), dict):
            conversation.notes.read(MESSAGES)
            conversation.notes.count_ignored(MESSAGES, "of a branch that ChatGPT does not show")
    for number, node in enumerate(reversed(shown.values()), 1):
        if isinstance(message := node.get("message"), dict):
            yield row_of(message, MESSAGES, "id", number, conversation.notes, "metadata.chatgpt")


def _last_leaf(nodes: dict[str, dict[str, Any]]) -> str:
    return next((name for name, node in reversed(nodes.items()) if not node.get("children")), "")


def _message(row: Row) -> session_pb2.Message | None:
    details = row.mapping("metadata", {})
    author = row.mapping("author", {})
    text, parts = _text_and_parts(row.mapping("content", {}))
    if details.get("is_visually_hidden_from_conversation") is True:
        row.notes.count_ignored(row.table, "hidden in the conversation: instructions and what tools say to the model")
        return None
    if not text.strip() and not parts:
        row.notes.count_ignored(row.table, "without a text")
        return None
    role = str(author.get("role") or "").lower()
    extra = kept_fields(row, _MAPPED)
    if extra.get("recipient") == "all":
        del extra["recipient"]
    message = session_pb2.Message(
        role=_ROLES.get(role, session_pb2.MESSAGE_ROLE_TOOL),
        content=text,
        name=str(make_storable(str(author.get("name") or "")))[:_MAX_NAME],
        model=str(make_storable(str(details.get("model_slug") or "")))[:_MAX_NAME],
    )
    if role not in _ROLES:
        row.count_converted("author", "an unknown role: a tool")
    if (create_time := row.time("create_time")) is not None:
        message.create_time.CopyFrom(to_timestamp(create_time))
    set_parts(message, parts)
    set_metadata(message, _PREFIX, extra)
    return message


def _text_and_parts(content: dict[str, Any]) -> tuple[str, list[Any]]:
    """Return the text of a content, and what is no text."""
    values = content.get("parts")
    values = values if isinstance(values, list) else []
    texts = [value for value in values if isinstance(value, str)]
    others = [value for value in values if not isinstance(value, str)]
    # Spoken words are parts with a text.
    texts += [value["text"] for value in others if isinstance(value, dict) and isinstance(value.get("text"), str)]
    texts += [content[name] for name in ("text", "result") if isinstance(content.get(name), str)]
    kind = content.get("content_type")
    if not texts and not others and kind not in {None, "text"}:
        rest = {name: value for name, value in content.items() if name != "content_type" and value}
        others = [{"type": kind, **rest}] if rest else []
    return "\n".join(text for text in texts if text.strip()), others


FORMAT = ExportFormat(
    name="chatgpt-json",
    system="ChatGPT",
    prefix=_PREFIX,
    ids=("conversation_id", "id"),
    title="title",
    summary="summary",
    create_time="create_time",
    update_time="update_time",
    messages="mapping",
    mapped=("current_node", "is_archived"),
    is_hidden=lambda row: row.boolean("is_archived", default=False),
    rows=_rows,
    message=_message,
)


@contextmanager
def open_source(source: str) -> Iterator[SingleRealmSource]:
    """Open an export. Raises SourceInvalid."""
    yield FORMAT.open(source)
