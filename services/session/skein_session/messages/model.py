"""Messages on their way into a session, and the rules they obey. No gRPC, no SQL, no clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self
from uuid import UUID

from skein.session.v1 import session_pb2 as pb
from skein_kit.errors import (
    ContentEmpty,
    ContentTooLong,
    DuplicateInBatch,
    FieldInvalid,
    PageTokenInvalid,
    RpcError,
    TextNotStorable,
)
from skein_kit.ids import min_id_at, month_start, new_ids
from skein_kit.json_values import fields as json_fields
from skein_kit.rpc.row_times import read_past_time
from skein_kit.rpc.well_known_types import json_text, read_time, updated_fields
from skein_kit.search_text.postings import Document
from skein_session.sessions import convert as wire
from skein_session.sessions.model import MAX_CLOCK_SKEW, title_of

# What bigint holds; sequence numbers in page tokens are read against it.
_MAX_SEQUENCE = 2**63 - 1
_JSON_FIELDS = ("parts", "tool_calls", "tool_returns", "metadata")


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageBatch:
    """Messages to append, complete but for their sequence numbers, which only the session can give."""

    session_id: str
    create_session: bool
    at: datetime
    # Of a session that is opened for the batch: now, or when the oldest message of an import was made.
    create_time: datetime
    # When the session counts as updated: now, or when the newest message of an import was.
    update_time: datetime
    by: str
    # The agent that the caller acts as; a session opened for the batch is with it.
    agent_id: str | None
    # As they will be answered.
    messages: tuple[pb.Message, ...]
    # As they will be stored, in the same order.
    rows: tuple[dict[str, object], ...]
    # Places of the messages that name no agent, or no subject, of their own.
    without_agent: frozenset[int]
    without_subject: frozenset[int]
    # The months that they fall in.
    months: frozenset[datetime]
    # The title of a session that has none.
    title: str | None

    @classmethod
    def of(
        cls, request: pb.AppendMessagesRequest, *, at: datetime, by: str, max_content: int, agent_id: str = ""
    ) -> Self:
        """Check the messages and give them ids at the time `at`; `agent_id` is the agent that the caller acts as.

        Refusals name the place of the message at fault in the metadata "index".
        """
        times: list[datetime] = []
        stored: list[dict[str, str | None]] = []
        external_ids: set[str] = set()
        for index, message in enumerate(request.messages):
            with _error_index(index):
                times.append(_checked(message, at, max_content))
                stored.append({field: json_text(message, field) for field in _JSON_FIELDS})
                if message.external_id in external_ids:
                    raise DuplicateInBatch(violations=[("external_id", "comes twice in the batch")])
                if message.external_id:
                    external_ids.add(message.external_id)
        changes = [_changed(message, time, at, request) for message, time in zip(request.messages, times, strict=True)]
        ids = _ids(times)
        messages = tuple(
            _complete(message, request.session_id, id_, created, changed, by, texts)
            for message, id_, created, changed, texts in zip(request.messages, ids, times, changes, stored, strict=True)
        )
        return cls(
            session_id=request.session_id,
            create_session=request.create_session,
            at=at,
            create_time=min(times) if request.keep_times else at,
            update_time=max(changes) if request.keep_times else at,
            by=by,
            agent_id=agent_id or None,
            messages=messages,
            rows=tuple(
                wire.row(message, id_, created) | {"update_time": None if changed == created else changed} | json
                for message, id_, created, changed, json in zip(messages, ids, times, changes, stored, strict=True)
            ),
            without_agent=frozenset(place for place, message in enumerate(messages) if not message.agent_id),
            without_subject=frozenset(place for place, message in enumerate(messages) if not message.subject_id),
            months=frozenset(month_start(created) for created in times),
            title=title_of(request.messages),
        )

    @property
    def documents(self) -> list[Document]:
        """Return what search will know of the messages."""
        return [document for message in self.messages if (document := document_of(message)) is not None]

    @property
    def inherits(self) -> bool:
        """Say whether a message takes its agent or its subject from the session."""
        return bool(self.without_agent or self.without_subject)

    def inherit(self, agent_id: str | None, subject_id: str | None) -> None:
        """Give the session's agent and subject to the messages that name none; the caller's agent where both lack."""
        for field, value, places in (
            ("agent_id", agent_id or self.agent_id, self.without_agent),
            ("subject_id", subject_id, self.without_subject),
        ):
            for place in places:
                setattr(self.messages[place], field, value or "")
                self.rows[place][field] = value or None

    def number(self, last_sequence: int) -> None:
        """Give the messages the sequence numbers that end with `last_sequence`."""
        first = last_sequence - len(self.messages) + 1
        for sequence, (message, row) in enumerate(zip(self.messages, self.rows, strict=True), first):
            message.sequence = sequence
            row["sequence"] = sequence

    @property
    def external_ids(self) -> list[dict[str, object]]:
        """Return the external ids given, each with the message that it names."""
        return [
            {"external_id": row["external_id"], "message_id": row["message_id"]}
            for row in self.rows
            if row["external_id"] is not None
        ]


UPDATABLE = frozenset({"content", "name", *_JSON_FIELDS})


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageChange:
    """An update of a message: the values of `fields`, and nothing else, take effect. Lists and metadata are JSON."""

    # Its id or external id.
    name_of: str
    # 0: whatever is current.
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
        """Read an update; whether something is left to say only the message itself can tell."""
        message = request.message
        if not (message.message_id or message.external_id):
            raise FieldInvalid(violations=[("message.message_id", "names the message to update")])
        fields = updated_fields(request.update_mask, UPDATABLE)
        if "content" in fields:
            _check_content(message.content, max_content)
        return cls(
            name_of=message.message_id or message.external_id,
            revision=message.revision,
            fields=fields,
            content=message.content,
            name=message.name or None,
            **{field: json_text(message, field) for field in _JSON_FIELDS},
        )


def require_content(message: pb.Message) -> None:
    """Raise ContentEmpty for a message that says nothing in any of the ways that there are."""
    if not (
        message.content.strip() or message.parts.values or message.tool_calls.values or message.tool_returns.values
    ):
        raise ContentEmpty


def document_of(message: pb.Message) -> Document | None:
    """Return what search knows of a message as it is answered; None of one without text."""
    if not message.content.strip():
        return None
    return replace(_document(message, UUID(message.message_id)), revision=message.revision)


def sequence_of(place: Sequence[str] | None) -> int | None:
    """Read the sequence number that a page token names; None for the first page."""
    if place is None:
        return None
    try:
        (text,) = place
        sequence = int(text)
    except ValueError:
        raise PageTokenInvalid from None
    if not 0 <= sequence <= _MAX_SEQUENCE:
        raise PageTokenInvalid
    return sequence


def _checked(message: pb.Message, at: datetime, max_content: int) -> datetime:
    if message.role == pb.MESSAGE_ROLE_UNSPECIFIED:
        raise FieldInvalid(violations=[("role", "says who speaks: user, assistant, system or tool")])
    require_content(message)
    _check_content(message.content, max_content)
    created = read_time(message, "create_time") or at
    if created > at + MAX_CLOCK_SKEW:
        raise FieldInvalid(violations=[("create_time", "lies in the future")])
    return created


def _changed(message: pb.Message, created: datetime, at: datetime, request: pb.AppendMessagesRequest) -> datetime:
    """Return when a message was last changed: what an import that keeps times says, else when it was made."""
    return (read_past_time(message, "update_time", at) if request.keep_times else None) or created


def _check_content(content: str, max_content: int) -> None:
    if len(content) > max_content:
        raise ContentTooLong(limit=max_content, length=len(content))
    if "\0" in content:
        raise TextNotStorable(violations=[("content", "holds a NUL character")])


def _ids(times: Sequence[datetime]) -> list[UUID]:
    """Return an id for each time; of those that share a millisecond the later place has the higher id."""
    places: dict[UUID, list[int]] = {}
    for place, created in enumerate(times):
        places.setdefault(min_id_at(created), []).append(place)
    ids: dict[int, UUID] = {}
    for group in places.values():
        ids.update(zip(group, new_ids(times[group[0]], len(group)), strict=True))
    return [ids[place] for place in range(len(times))]


def _complete(
    given: pb.Message,
    session_id: str,
    message_id: UUID,
    created: datetime,
    changed: datetime,
    by: str,
    texts: Mapping[str, str | None],
) -> pb.Message:
    message = pb.Message()
    message.CopyFrom(given)
    message.message_id = str(message_id)
    message.session_id = session_id
    message.create_time.FromDatetime(created)
    message.created_by = by
    message.revision = 1
    message.update_time.FromDatetime(changed)
    message.updated_by = by
    for field, text in texts.items():
        if text is not None:
            json_fields.write(message, field, text)
    return message


def _document(message: pb.Message, message_id: UUID) -> Document:
    return Document(
        item_id=message_id,
        kind="message",
        text=message.content,
        agent_id=message.agent_id or None,
        subject_id=message.subject_id or None,
        session_id=message.session_id,
    )


@contextmanager
def _error_index(index: int) -> Iterator[None]:
    try:
        yield
    except RpcError as refusal:
        violations = [(f"messages[{index}].{field}", what) for field, what in refusal.violations]
        raise type(refusal)(violations=violations, index=index, **refusal.facts) from None
