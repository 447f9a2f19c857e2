"""Messages and the rules they obey. Their value is their protobuf, so that a page converts each row once. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self
from uuid import UUID

from skein.session.v1 import session_pb2 as pb
from skein_kit.errors import (
    ContentEmpty,
    ContentTooLong,
    DuplicateInBatch,
    FieldInvalid,
    RpcError,
    TextNotStorable,
)
from skein_kit.ids import EPOCH, id_time, min_id_at, month_start, new_ids
from skein_kit.json_values import fields as json_fields
from skein_kit.rpc.row_times import read_past_time
from skein_kit.rpc.well_known_types import json_text, read_time, updated_fields
from skein_kit.search_text.postings import Document
from skein_session.messages.convert import message_row
from skein_session.sessions.model import MAX_CLOCK_SKEW

# The bounds of ids.
NO_ID = UUID(int=0)
LAST_ID = UUID(int=(1 << 128) - 1)
# Characters of a session's default title.
MAX_TITLE_CHARACTERS = 100
# The first ranges of ids, newest first.
_RANGE_SPANS = (timedelta(days=31), timedelta(days=366))
_JSON_FIELDS = ("parts", "tool_calls", "tool_returns", "metadata")


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageBatch:
    """Messages to append, complete except for the sequence numbers, which the session assigns."""

    session_id: str
    create_session: bool
    append_time: datetime
    # The create_time of a session that is created for the batch: now, or the oldest time of an import.
    create_time: datetime
    # The update_time of the session: now, or the newest time of an import.
    update_time: datetime
    created_by: str
    # The agent of the caller, and of a session that is created for the batch.
    agent_id: str | None
    # The messages of the response.
    messages: tuple[pb.Message, ...]
    # Their rows in session.messages, in the same order.
    rows: tuple[dict[str, object], ...]
    # Indexes of messages without an agent, or a subject, of their own.
    without_agent: frozenset[int]
    without_subject: frozenset[int]
    # The months of their create_times.
    months: frozenset[datetime]
    # The default title of the session.
    title: str | None

    @classmethod
    def of(
        cls, request: pb.AppendMessagesRequest, *, at: datetime, principal: str, max_content: int, agent_id: str = ""
    ) -> Self:
        """Validate the messages and give them ids at the time `at`; `agent_id` is the caller's agent.

        Errors have the index of the invalid message in their metadata "index".
        """
        times: list[datetime] = []
        json_columns: list[dict[str, str | None]] = []
        external_ids: set[str] = set()
        for index, message in enumerate(request.messages):
            with _error_index(index):
                times.append(_check(message, at, max_content))
                json_columns.append({field: json_text(message, field) for field in _JSON_FIELDS})
                if message.external_id in external_ids:
                    raise DuplicateInBatch(violations=[("external_id", "comes twice in the batch")])
                if message.external_id:
                    external_ids.add(message.external_id)
        update_times = [
            _update_time(message, time, at, request) for message, time in zip(request.messages, times, strict=True)
        ]
        ids = _ids(times)
        messages = tuple(
            _to_stored_message(message, request.session_id, id_, create_time, update_time, principal, columns)
            for message, id_, create_time, update_time, columns in zip(
                request.messages, ids, times, update_times, json_columns, strict=True
            )
        )
        return cls(
            session_id=request.session_id,
            create_session=request.create_session,
            append_time=at,
            create_time=min(times) if request.keep_times else at,
            update_time=max(update_times) if request.keep_times else at,
            created_by=principal,
            agent_id=agent_id or None,
            messages=messages,
            rows=tuple(
                message_row(message, id_, create_time)
                | {"update_time": None if update_time == create_time else update_time}
                | columns
                for message, id_, create_time, update_time, columns in zip(
                    messages, ids, times, update_times, json_columns, strict=True
                )
            ),
            without_agent=frozenset(index for index, message in enumerate(messages) if not message.agent_id),
            without_subject=frozenset(index for index, message in enumerate(messages) if not message.subject_id),
            months=frozenset(month_start(time) for time in times),
            title=default_title(request.messages),
        )

    @property
    def documents(self) -> list[Document]:
        """The search documents of the messages that have text."""
        return [document for message in self.messages if (document := to_document(message)) is not None]

    @property
    def needs_participants(self) -> bool:
        """Whether a message takes its agent or its subject from the session."""
        return bool(self.without_agent or self.without_subject)

    def inherit(self, agent_id: str | None, subject_id: str | None) -> None:
        """Set the session's agent and subject on messages without; the default agent is the caller's."""
        for field, value, indexes in (
            ("agent_id", agent_id or self.agent_id, self.without_agent),
            ("subject_id", subject_id, self.without_subject),
        ):
            for index in indexes:
                setattr(self.messages[index], field, value or "")
                self.rows[index][field] = value or None

    def assign_sequences(self, last_sequence: int) -> None:
        """Set consecutive sequence numbers; the last message gets `last_sequence`."""
        first = last_sequence - len(self.messages) + 1
        for sequence, (message, row) in enumerate(zip(self.messages, self.rows, strict=True), first):
            message.sequence = sequence
            row["sequence"] = sequence

    @property
    def external_ids(self) -> list[dict[str, object]]:
        """Rows of session.message_external_ids."""
        return [
            {"external_id": row["external_id"], "message_id": row["message_id"]}
            for row in self.rows
            if row["external_id"] is not None
        ]


UPDATABLE = frozenset({"content", "name", *_JSON_FIELDS})


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageChange:
    """An update of a message; only the values of `fields` take effect. Lists and metadata are JSON text."""

    # The id or external id.
    message_name: str
    # 0 for any revision.
    revision: int
    fields: frozenset[str]
    content: str
    name: str | None
    parts: str | None
    tool_calls: str | None
    tool_returns: str | None
    metadata: str | None

    @classmethod
    def of(cls, request: pb.UpdateMessageRequest, *, max_content: int) -> Self:
        """Read an update. The store checks that the message keeps content. Raises FieldInvalid and ContentTooLong."""
        message = request.message
        if not (message.message_id or message.external_id):
            raise FieldInvalid(violations=[("message.message_id", "names the message to update")])
        fields = updated_fields(request.update_mask, UPDATABLE)
        if "content" in fields:
            _check_content(message.content, max_content)
        return cls(
            message_name=message.message_id or message.external_id,
            revision=message.revision,
            fields=fields,
            content=message.content,
            name=message.name or None,
            **{field: json_text(message, field) for field in _JSON_FIELDS},
        )


def require_content(message: pb.Message) -> None:
    """Raise ContentEmpty for a message without text, parts, tool calls and tool returns."""
    if not (
        message.content.strip() or message.parts.values or message.tool_calls.values or message.tool_returns.values
    ):
        raise ContentEmpty


def default_title(messages: Sequence[pb.Message]) -> str | None:
    """Return the default title of a session: the start of its first user message; None without one."""
    for message in messages:
        if message.role == pb.MESSAGE_ROLE_USER and message.content.strip():
            return message.content.strip()[:MAX_TITLE_CHARACTERS]
    return None


def id_ranges(lowest: UUID | None, below: UUID | None, at: datetime) -> Iterator[tuple[UUID, UUID]]:
    """Yield ranges (inclusive, exclusive) of ids from `below` down to `lowest`; None is no bound.

    The first ranges are short, so that most reads plan only the partitions of the newest months. No message lies
    further ahead of `at` than MAX_CLOCK_SKEW.
    """
    bottom = NO_ID if lowest is None else lowest
    end = min_id_at(at + 2 * MAX_CLOCK_SKEW)
    before = end if below is None else min(below, end)
    for span in _RANGE_SPANS:
        since = max(id_time(before) - span, EPOCH)
        from_id = max(bottom, min_id_at(since))
        if from_id < before:
            yield from_id, before
        before = min(before, from_id)
    if bottom < before:
        yield bottom, before


def to_document(message: pb.Message) -> Document | None:
    """Return the search document of a message; None without text."""
    if not message.content.strip():
        return None
    return Document(
        item_id=UUID(message.message_id),
        kind="message",
        text=message.content,
        agent_id=message.agent_id or None,
        subject_id=message.subject_id or None,
        session_id=message.session_id,
        revision=message.revision,
    )


def _check(message: pb.Message, at: datetime, max_content: int) -> datetime:
    if message.role == pb.MESSAGE_ROLE_UNSPECIFIED:
        raise FieldInvalid(violations=[("role", "says who speaks: user, assistant, system or tool")])
    require_content(message)
    _check_content(message.content, max_content)
    create_time = read_time(message, "create_time") or at
    if create_time > at + MAX_CLOCK_SKEW:
        raise FieldInvalid(violations=[("create_time", "lies in the future")])
    return create_time


def _update_time(
    message: pb.Message, create_time: datetime, at: datetime, request: pb.AppendMessagesRequest
) -> datetime:
    """Return the update_time of an import that keeps times, else the create_time."""
    return (read_past_time(message, "update_time", at) if request.keep_times else None) or create_time


def _check_content(content: str, max_content: int) -> None:
    if len(content) > max_content:
        raise ContentTooLong(limit=max_content, length=len(content))
    if "\0" in content:
        raise TextNotStorable(violations=[("content", "holds a NUL character")])


def _ids(times: Sequence[datetime]) -> list[UUID]:
    """Return an id for each time; within a millisecond ids ascend in the order of `times`."""
    indexes: dict[UUID, list[int]] = {}
    for index, time in enumerate(times):
        indexes.setdefault(min_id_at(time), []).append(index)
    ids: dict[int, UUID] = {}
    for group in indexes.values():
        ids.update(zip(group, new_ids(times[group[0]], len(group)), strict=True))
    return [ids[index] for index in range(len(times))]


def _to_stored_message(
    draft: pb.Message,
    session_id: str,
    message_id: UUID,
    create_time: datetime,
    update_time: datetime,
    principal: str,
    json_columns: Mapping[str, str | None],
) -> pb.Message:
    message = pb.Message()
    message.CopyFrom(draft)
    message.message_id = str(message_id)
    message.session_id = session_id
    message.create_time.FromDatetime(create_time)
    message.created_by = principal
    message.revision = 1
    message.update_time.FromDatetime(update_time)
    message.updated_by = principal
    for field, text in json_columns.items():
        if text is not None:
            json_fields.write(message, field, text)
    return message


@contextmanager
def _error_index(index: int) -> Iterator[None]:
    try:
        yield
    except RpcError as error:
        violations = [(f"messages[{index}].{field}", text) for field, text in error.violations]
        raise type(error)(violations=violations, index=index, **error.facts) from None
