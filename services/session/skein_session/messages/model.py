"""Messages and the rules they obey. Their value is their protobuf, so that a page converts each row once. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from skein.session.v1 import session_pb2 as pb
from skein_kit.errors import ContentEmpty
from skein_kit.ids import EPOCH, id_time, min_id_at
from skein_kit.search_text.postings import Document
from skein_session.sessions.model import MAX_CLOCK_SKEW

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

# The bounds of ids.
NO_ID = UUID(int=0)
LAST_ID = UUID(int=(1 << 128) - 1)
# Characters of a session's default title.
MAX_TITLE_CHARACTERS = 100
# The first ranges of ids, newest first.
_RANGE_SPANS = (timedelta(days=31), timedelta(days=366))


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
