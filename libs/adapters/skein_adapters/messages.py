"""Messages of a framework ↔ messages of a session: the text is searched, and the original comes back exactly.

A message that is more than a text keeps its original as JSON text in `parts`, because a framework compares what it
reads with what it wrote, and nests it as deep as it likes. A text alone has no parts, as a message of other clients.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from skein.session.v1 import session_pb2, states_pb2
from skein_client.exact_json import get_json, set_json

# Default limit of a message's content, in characters.
MAX_CONTENT = 100_000
# Of one call; a reply repeats the messages, and has 4 MiB at most.
_MAX_APPENDED = 500
_MAX_APPENDED_BYTES = 1 << 20
_MAX_PURGED = 1000
# Of one page.
MAX_LISTED = 1000


def to_message(
    role: session_pb2.MessageRole, text: str, *, framework: str, original: str = "", external_id: str = ""
) -> session_pb2.Message:
    """Return a message with a text to search and the original as JSON; without one the text is all there is."""
    content = text.encode("utf-8", "replace").decode().replace("\0", "")
    message = session_pb2.Message(role=role, content=content[:MAX_CONTENT], external_id=external_id)
    if original or message.content != text or not text:
        set_json(message, "parts", [{"framework": framework, "json": original or json.dumps(text)}])
    return message


def original_of(message: session_pb2.Message, framework: str) -> str | None:
    """Return the JSON that a framework stored; None for a text alone, or a message of another client."""
    parts: Any = get_json(message, "parts") if message.HasField("parts") else None
    match parts:
        case [{"framework": stored_by, "json": str(original)}] if stored_by == framework:
            return original
    return None


def batches(messages: Iterable[session_pb2.Message]) -> Iterator[list[session_pb2.Message]]:
    """Yield the messages in groups within the limits of one call."""
    batch: list[session_pb2.Message] = []
    size = 0
    for message in messages:
        size += message.ByteSize()
        if batch and (len(batch) == _MAX_APPENDED or size > _MAX_APPENDED_BYTES):
            yield batch
            batch, size = [], message.ByteSize()
        batch.append(message)
    if batch:
        yield batch


def append_request(
    session_id: str, batch: Sequence[session_pb2.Message], *, subject_id: str, agent_id: str
) -> session_pb2.AppendMessagesRequest:
    """Return the request that appends a group to a session of a person and an agent, which it creates if needed."""
    return session_pb2.AppendMessagesRequest(
        session_id=session_id, messages=batch, create_session=True, subject_id=subject_id, agent_id=agent_id
    )


def purge_requests(message_ids: Sequence[str]) -> Iterator[states_pb2.PurgeMessagesRequest]:
    """Yield the requests that purge messages."""
    for start in range(0, len(message_ids), _MAX_PURGED):
        yield states_pb2.PurgeMessagesRequest(message_ids=message_ids[start : start + _MAX_PURGED])
