"""Messages from protobuf to values and rows; skein_kit.message_rows converts rows to protobuf."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from skein.session.v1 import session_pb2 as pb
from skein_kit.errors import ContentTooLong, DuplicateInBatch, FieldInvalid, RpcError, TextNotStorable
from skein_kit.ids import min_id_at, month_start, new_ids
from skein_kit.json_values import fields as json_fields
from skein_kit.rpc.row_times import read_past_time
from skein_kit.rpc.well_known_types import json_text, read_time, updated_fields
from skein_session.messages.model import MessageBatch, MessageChange, default_title, require_content
from skein_session.sessions.model import MAX_CLOCK_SKEW

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

ROLES: Mapping[pb.MessageRole, str] = {
    pb.MESSAGE_ROLE_USER: "user",
    pb.MESSAGE_ROLE_ASSISTANT: "assistant",
    pb.MESSAGE_ROLE_SYSTEM: "system",
    pb.MESSAGE_ROLE_TOOL: "tool",
}
_JSON_FIELDS = ("parts", "tool_calls", "tool_returns", "metadata")
_UPDATABLE = frozenset({"content", "name", *_JSON_FIELDS})


def batch(
    request: pb.AppendMessagesRequest, *, at: datetime, principal: str, max_content: int, agent_id: str = ""
) -> MessageBatch:
    """Validate the messages and give them ids at the time `at`; `agent_id` is the caller's agent.

    Errors have the index of the invalid message in their metadata "index".
    """
    times: list[datetime] = []
    json_columns: list[dict[str, str | None]] = []
    external_ids: set[str] = set()
    for index, draft in enumerate(request.messages):
        with _error_index(index):
            times.append(_check(draft, at, max_content))
            json_columns.append({field: json_text(draft, field) for field in _JSON_FIELDS})
            if draft.external_id in external_ids:
                raise DuplicateInBatch(violations=[("external_id", "must be unique in the batch")])
            if draft.external_id:
                external_ids.add(draft.external_id)
    messages: list[pb.Message] = []
    rows: list[dict[str, object]] = []
    update_times: list[datetime] = []
    for draft, message_id, create_time, columns in zip(request.messages, _ids(times), times, json_columns, strict=True):
        # Only imports have times of their own.
        imported_time = read_past_time(draft, "update_time", at) if request.keep_times else None
        update_time = imported_time or create_time
        message = pb.Message()
        message.CopyFrom(draft)
        message.message_id = str(message_id)
        message.session_id = request.session_id
        message.create_time.FromDatetime(create_time)
        message.created_by = principal
        message.revision = 1
        message.update_time.FromDatetime(update_time)
        message.updated_by = principal
        for field, text in columns.items():
            if text is not None:
                json_fields.write(message, field, text)
        row = _row(message, message_id, create_time)
        row["update_time"] = None if update_time == create_time else update_time
        messages.append(message)
        rows.append(row | columns)
        update_times.append(update_time)
    return MessageBatch(
        session_id=request.session_id,
        create_session=request.create_session,
        append_time=at,
        create_time=min(times) if request.keep_times else at,
        update_time=max(update_times) if request.keep_times else at,
        created_by=principal,
        agent_id=agent_id or None,
        messages=tuple(messages),
        rows=tuple(rows),
        without_agent=frozenset(index for index, message in enumerate(messages) if not message.agent_id),
        without_subject=frozenset(index for index, message in enumerate(messages) if not message.subject_id),
        months=frozenset(month_start(time) for time in times),
        title=default_title(request.messages),
    )


def change(request: pb.UpdateMessageRequest, *, max_content: int) -> MessageChange:
    """Read an update. The store checks that the message keeps content. Raises FieldInvalid and ContentTooLong."""
    message = request.message
    if not (message.message_id or message.external_id):
        raise FieldInvalid(violations=[("message.message_id", "must be set, unless message.external_id is set")])
    fields = updated_fields(request.update_mask, _UPDATABLE)
    if "content" in fields:
        _check_content(message.content, max_content)
    return MessageChange(
        message_name=message.message_id or message.external_id,
        revision=message.revision,
        fields=fields,
        content=message.content,
        name=message.name or None,
        **{field: json_text(message, field) for field in _JSON_FIELDS},
    )


def _row(message: pb.Message, message_id: UUID, create_time: datetime) -> dict[str, object]:
    """Return a message's columns but for its sequence number, its update_time and its JSON."""
    return {
        "message_id": message_id,
        "session_id": message.session_id,
        "external_id": message.external_id or None,
        "role": ROLES[message.role],
        "content": message.content,
        "name": message.name or None,
        "subject_id": message.subject_id or None,
        "agent_id": message.agent_id or None,
        "tool_call_id": message.tool_call_id or None,
        "model": message.model or None,
        "step_id": message.step_id or None,
        "group_id": message.group_id or None,
        "sender_id": message.sender_id or None,
        "offline_thread_id": message.offline_thread_id or None,
        "create_time": create_time,
        "created_by": message.created_by,
    }


def _check(message: pb.Message, at: datetime, max_content: int) -> datetime:
    if message.role == pb.MESSAGE_ROLE_UNSPECIFIED:
        raise FieldInvalid(violations=[("role", "must be user, assistant, system or tool")])
    require_content(message)
    _check_content(message.content, max_content)
    create_time = read_time(message, "create_time") or at
    if create_time > at + MAX_CLOCK_SKEW:
        raise FieldInvalid(violations=[("create_time", "must not be in the future")])
    return create_time


def _check_content(content: str, max_content: int) -> None:
    if len(content) > max_content:
        raise ContentTooLong(limit=max_content, length=len(content))
    if "\0" in content:
        raise TextNotStorable(violations=[("content", "must not contain a NUL character")])


def _ids(times: Sequence[datetime]) -> list[UUID]:
    """Return an id for each time; within a millisecond ids ascend in the order of `times`."""
    indexes: dict[UUID, list[int]] = {}
    for index, time in enumerate(times):
        indexes.setdefault(min_id_at(time), []).append(index)
    ids: dict[int, UUID] = {}
    for group in indexes.values():
        ids.update(zip(group, new_ids(times[group[0]], len(group)), strict=True))
    return [ids[index] for index in range(len(times))]


@contextmanager
def _error_index(index: int) -> Iterator[None]:
    try:
        yield
    except RpcError as error:
        violations = [(f"messages[{index}].{field}", text) for field, text in error.violations]
        raise type(error)(violations=violations, index=index, **error.metadata) from None
