"""`session-memory-agent`: SessionMemoryAgent's sessions with their conversations.

| theirs | here |
|---|---|
| session_id | the session's id |
| conversation_history | its messages |
| session_data | its metadata |
| session_summary | its summary |
| created_at | when it began |
| last_interaction | update_time, metadata.last_interaction |
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from skein.session.v1 import session_pb2
from skein_importers.records import Kind, Record, UnreadableRecord
from skein_importers.sources.assistant_store import (
    AssistantStore,
    StoreFormat,
    convert_rows,
    metadata_of,
    one_realm,
    open_store,
    text_of,
    unmapped_fields,
)
from skein_importers.sources.base import Membership, Notes, OAuthClient, Person, Realm
from skein_importers.sources.rows import Row, format_iso, make_storable, to_timestamp

NAME = "session-memory-agent"
STORE_FORMAT = StoreFormat(
    table="sessions",
    key="session_id",
    fields=("conversation_history", "session_data", "session_summary"),
    containers=("sessions",),
)
_TURNS = "conversation_history"
_MAPPED = (
    "session_id", "conversation_history", "session_data", "session_summary", "created_at", "last_interaction",
    "user_id", "session_type", "title",
)  # fmt: skip
_ROLES = {
    "user": session_pb2.MESSAGE_ROLE_USER,
    "human": session_pb2.MESSAGE_ROLE_USER,
    "assistant": session_pb2.MESSAGE_ROLE_ASSISTANT,
    "agent": session_pb2.MESSAGE_ROLE_ASSISTANT,
    "ai": session_pb2.MESSAGE_ROLE_ASSISTANT,
    "bot": session_pb2.MESSAGE_ROLE_ASSISTANT,
    "system": session_pb2.MESSAGE_ROLE_SYSTEM,
    "tool": session_pb2.MESSAGE_ROLE_TOOL,
}
_SPEAKERS = ("role", "speaker", "sender", "type")
_TIMES = ("timestamp", "created_at", "time")
_CONTENTS = ("content", "text", "message")
# Keys of a user's turn and its answer in one entry.
_PAIRS = (("user", "assistant"), ("user_input", "response"), ("user_input", "assistant_response"), ("input", "output"))


class SessionMemoryAgent:
    """A store of sessions."""

    name = NAME

    def __init__(self, store: AssistantStore) -> None:
        """Read an open store."""
        self._store = store

    def tenants(self) -> list[Realm]:
        """Return its one realm."""
        return one_realm(NAME)

    def accounts(self, _notes: Notes) -> Iterator[Person | OAuthClient | Membership | UnreadableRecord]:
        """Return nothing: it has no accounts."""
        return iter(())

    def records(self, _realm: Realm, notes: Notes) -> Iterator[Record | UnreadableRecord]:
        """Read sessions, then their messages."""
        yield from convert_rows(self._store.rows(notes), _session)
        yield from convert_rows(self._store.rows(notes, _TURNS), _messages, count_rows=False)


@contextmanager
def open_source(source: str) -> Iterator[SessionMemoryAgent]:
    """Open a store. Raises SourceInvalid."""
    with open_store(source, NAME, STORE_FORMAT) as store:
        yield SessionMemoryAgent(store)


def _session(row: Row) -> Iterator[Record]:
    session = session_pb2.Session(
        session_id=row.required_text("session_id"),
        title=row.text("title", 1000),
        summary=row.text("session_summary", 100_000),
        session_type=row.text("session_type", 100),
        subject_id=row.text("user_id", 255),
    )
    if (create_time := row.time("created_at")) is not None:
        session.create_time.CopyFrom(to_timestamp(create_time))
    extra = unmapped_fields(row, _MAPPED)
    metadata = {**row.mapping("session_data", extra), **extra}
    if (last_interaction := row.time("last_interaction")) is not None:
        session.update_time.CopyFrom(to_timestamp(last_interaction))
        metadata["last_interaction"] = format_iso(last_interaction)
        row.count_converted("last_interaction", "also kept as metadata.last_interaction")
    if (struct := metadata_of("session_data", metadata)) is not None:
        session.metadata.CopyFrom(struct)
    yield Record(where=row.where, kind=Kind.SESSION, item=session, table=row.table)


def _messages(row: Row) -> Iterator[Record]:
    session_id = row.text("session_id")
    if not session_id.strip():
        # The session was refused, so its messages are too.
        return
    extra: dict[str, Any] = {}
    turns = row.sequence(_TURNS, extra)
    if extra:
        # Without readable turns, the whole text is one message.
        turns = [{"role": "system", "content": next(iter(extra.values()))}]
        row.count_converted(_TURNS, "no turns: became one message of the system")
    number, previous_time = 0, row.time("created_at") if turns else None
    for turn in turns:
        entry = turn if isinstance(turn, dict) else {"content": turn}
        pair = next((pair for pair in _PAIRS if all(isinstance(entry.get(name), str) for name in pair)), None)
        parts = [("", entry)]
        if pair is not None:
            row.count_converted(_TURNS, "an entry with a question and its answer became two messages")
            parts = [
                (role, {**entry, "content": entry[name]})
                for role, name in zip(("user", "assistant"), pair, strict=True)
            ]
            parts = [(role, {name: value for name, value in part.items() if name not in pair}) for role, part in parts]
        for role, part in parts:
            number += 1
            row.notes.read(row.table)
            record, previous_time = _message(row, f"{session_id}/{number}", role, part, previous_time)
            if record is not None:
                yield record


def _message(
    row: Row, external_id: str, role: str, entry: dict[str, Any], previous_time: datetime | None
) -> tuple[Record | None, datetime | None]:
    """Return a message and its time, which a following message without a time gets."""
    turn = Row(row.table, external_id, entry, row.notes)
    value = next((entry[name] for name in _CONTENTS if entry.get(name) not in (None, "")), None)
    content = text_of(turn, _TURNS, value)
    if not content:
        row.notes.count_ignored(row.table, "empty turns")
        return None, previous_time
    speaker = role or str(next((entry[name] for name in _SPEAKERS if isinstance(entry.get(name), str)), "")).strip()
    message = session_pb2.Message(
        external_id=external_id,
        session_id=row.text("session_id"),
        role=_ROLES.get(speaker.lower(), session_pb2.MESSAGE_ROLE_USER),
        content=content,
    )
    if speaker.lower() not in _ROLES:
        message.name = make_storable(speaker)[:255]
        turn.count_converted("role", "an unknown speaker: a user by that name" if speaker else "no speaker: a user")
    column = next((name for name in _TIMES if entry.get(name) is not None), "")
    time_value = turn.time(column) if column else None
    if time_value is None and previous_time is not None:
        turn.count_converted("timestamp", "missing: the time of the previous message")
    time_value = time_value or previous_time
    if time_value is not None:
        message.create_time.CopyFrom(to_timestamp(time_value))
    extra = {name: value for name, value in entry.items() if name not in {*_SPEAKERS, *_CONTENTS, column}}
    if (struct := metadata_of(_TURNS, extra)) is not None:
        message.metadata.CopyFrom(struct)
    return Record(where=turn.where, kind=Kind.MESSAGE, item=message, table=turn.table), time_value
