"""`duyetbot-d1`: Duyetbot's users, sessions and messages, and short-term and long-term items where there are some.

| theirs | here |
|---|---|
| memory_users | subjects; github_id, github_login, name, email and avatar_url in the profile |
| memory_sessions | sessions, with their state, title, time and metadata |
| memory_messages | messages <session_id>/<id>, by session and time |
| memory_session_tokens | ignored: each login creates a new one |
| memory_short_term_items | items of their session, for as long as is left |
| memory_long_term_items | memories by their ids; importance 1 to 10 becomes 0 to 1 |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf import json_format
from google.protobuf.struct_pb2 import Value

from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_importers.records import Kind, Record, UnreadableRecord
from skein_importers.sources.assistant_store import convert_rows, metadata_of, one_realm, tags_of
from skein_importers.sources.base import Membership, Notes, OAuthClient, Person, Realm
from skein_importers.sources.rows import InvalidRow, Row, format_iso, make_storable, parse_json, to_timestamp
from skein_importers.sources.sqlite import Database, Table, open_sqlite, seconds
from skein_kit.filters.fields import importance_of
from skein_kit.json_values.number_marks import mark_numbers

NAME = "duyetbot-d1"
_USERS, _SESSIONS, _MESSAGES, _TOKENS = "memory_users", "memory_sessions", "memory_messages", "memory_session_tokens"
# Tables by their names with and without the prefix.
_SHORT = ("memory_short_term_items", "memory_short_term", "short_term_memory")
_LONG = ("memory_long_term_items", "memory_long_term", "long_term_memory")
# What the source's GitHub account says of a person.
_PROFILE = ("name", "email", "avatar_url")
# The row's own number, and whether its person exists.
_UNREAD: Mapping[str, str] = {"rowid": "", "has_user": "", "user_id": ""}
TABLES = {
    _USERS: Table(
        needs=("id",),
        may_have=("github_id", "github_login", *_PROFILE, "created_at", "updated_at"),
        unread=_UNREAD,
    ),
    _SESSIONS: Table(
        needs=("id", "user_id"),
        may_have=("title", "state", "created_at", "updated_at", "metadata", "summary"),
        unread=_UNREAD,
    ),
    _MESSAGES: Table(
        needs=("id", "session_id", "role", "content"), may_have=("timestamp", "created_at", "metadata"), unread=_UNREAD
    ),
    _TOKENS: Table(needs=(), optional=True),
    **{
        name: Table(
            needs=("session_id", "key", "value"),
            may_have=("expires_at", "created_at", "updated_at"),
            optional=True,
            unread=_UNREAD,
        )
        for name in _SHORT
    },
    **{
        name: Table(
            needs=("key",),
            may_have=(
                "id", "user_id", "category", "value", "content", "importance", "tags", "metadata", "source_session_id",
                "created_at", "updated_at", "expires_at",
            ),
            optional=True,
            unread=_UNREAD,
        )
        for name in _LONG
    },
}  # fmt: skip
_STATES = {
    "active": session_pb2.SESSION_STATE_ACTIVE,
    "paused": session_pb2.SESSION_STATE_PAUSED,
    "completed": session_pb2.SESSION_STATE_COMPLETED,
    "ended": session_pb2.SESSION_STATE_ENDED,
    "archived": session_pb2.SESSION_STATE_HIDDEN,
}
_ROLES = {
    "user": session_pb2.MESSAGE_ROLE_USER,
    "assistant": session_pb2.MESSAGE_ROLE_ASSISTANT,
    "system": session_pb2.MESSAGE_ROLE_SYSTEM,
    "tool": session_pb2.MESSAGE_ROLE_TOOL,
}
# The type whose keys are unique.
_FACT = "fact"
_DAY = timedelta(days=1)
_MAX_LIFETIME = timedelta(days=30)
_MAX_IMPORTANCE = 10


class Duyetbot:
    """An open database."""

    name = NAME

    def __init__(self, database: Database) -> None:
        """Read the database's rows."""
        self._database = database
        self._now = datetime.now(UTC)

    def tenants(self) -> list[Realm]:
        """Return its one realm."""
        return one_realm("duyetbot")

    def accounts(self, _notes: Notes) -> Iterator[Person | OAuthClient | Membership | UnreadableRecord]:
        """Return nothing: users log in with their GitHub accounts."""
        return iter(())

    def records(self, _realm: Realm, notes: Notes) -> Iterator[Record | UnreadableRecord]:
        """Read users, sessions, messages by session and time, then items."""
        yield from convert_rows(self._rows(_USERS, notes), _subject, unread=_UNREAD)
        has_user = f'EXISTS (SELECT 1 FROM "{_USERS}" WHERE "id" = "{_SESSIONS}"."user_id") AS has_user'  # noqa: S608 - our names.
        yield from convert_rows(self._rows(_SESSIONS, notes, extra_columns=has_user), _session, unread=_UNREAD)
        time = next((name for name in ("timestamp", "created_at") if self._database.has_column(_MESSAGES, name)), "")
        order = f'"session_id", {seconds(time)}, "id"' if time else '"session_id", "id"'
        has_session = f'(SELECT "user_id" FROM "{_SESSIONS}" WHERE "id" = "{_MESSAGES}"."session_id") AS user_id'  # noqa: S608 - our names.
        yield from convert_rows(
            self._rows(_MESSAGES, notes, order=order, extra_columns=has_session), _message, unread=_UNREAD
        )
        for table in _SHORT:
            yield from convert_rows(self._rows(table, notes, order='"session_id", "key"'), self._item, unread=_UNREAD)
        for table in _LONG:
            yield from convert_rows(self._rows(table, notes), _memories(self._superseded_rows(table)), unread=_UNREAD)
        for _ in self._rows(_TOKENS, notes):
            notes.read(_TOKENS)
            notes.count_ignored(_TOKENS, "session tokens: each login creates a new one")

    def _rows(self, table: str, notes: Notes, *, order: str = "", extra_columns: str = "") -> Iterator[Row]:
        for values in self._database.rows(table, order=order, extra_columns=extra_columns):
            key = values.get("id") if values.get("id") is not None else f"row {values['rowid']}"
            yield Row(table, str(key)[:80], values, notes)

    def _superseded_rows(self, table: str) -> set[int]:
        """Return the facts whose key a newer fact about the same user has: keys of other types need not be unique."""
        if not self._database.has(table):
            return set()
        columns = [
            f'"{name}"' if self._database.has_column(table, name) else f'NULL AS "{name}"'
            for name in ("user_id", "category", "key")
        ]
        newest = [
            f"{seconds(column)} DESC"
            for column in ("updated_at", "created_at")
            if self._database.has_column(table, column)
        ]
        order = ", ".join([*newest, "rowid DESC"])
        statement = f'SELECT rowid, {", ".join(columns)} FROM "{table}" WHERE "key" <> \'\' ORDER BY {order}'  # noqa: S608 - our names.
        superseded: set[int] = set()
        keys: set[tuple[str, str]] = set()
        for number, user_id, category, key in self._database.query(statement):
            if str(category).strip().lower() == _FACT:
                of_user = (str(user_id or ""), str(key).strip().lower())
                if of_user in keys:
                    superseded.add(number)
                keys.add(of_user)
        return superseded

    def _item(self, row: Row) -> Iterator[Record]:
        expire_time = row.time("expires_at")
        lifetime = _DAY if expire_time is None else expire_time - self._now
        if lifetime <= timedelta(seconds=1):
            row.notes.count_ignored(row.table, "expired items")
            return
        if lifetime > _MAX_LIFETIME:
            row.count_converted("expires_at", "an item lives for 30 days at most")
        request = states_pb2.PutSessionItemRequest(
            session_id=row.required_text("session_id"), key=row.required_text("key")
        )
        value = row.value("value")
        try:
            value = make_storable(parse_json(value) if isinstance(value, str) else value)
            json_format.ParseDict(value, Value())
        except (ValueError, RecursionError, json_format.ParseError):
            value = row.text("value")
            row.count_converted("value", "no JSON: kept as a text")
        request.value.CopyFrom(json_format.ParseDict(mark_numbers(value), Value()))
        request.ttl.FromTimedelta(timedelta(seconds=math.floor(min(lifetime, _MAX_LIFETIME).total_seconds())))
        request.expire_time.CopyFrom(to_timestamp(self._now + min(lifetime, _MAX_LIFETIME)))
        yield Record(where=row.where, kind=Kind.ITEM, item=request, table=row.table)


@contextmanager
def open_source(source: str) -> Iterator[Duyetbot]:
    """Open a database. Raises SourceInvalid."""
    with open_sqlite(source, "Duyetbot", TABLES) as database:
        yield Duyetbot(database)


def _subject(row: Row) -> Iterator[Record]:
    subject = subjects_pb2.Subject(subject_id=row.required_text("id"), display_name=row.text("github_login", 255))
    profile: dict[str, Any] = {
        name: row.text(name) for name in ("github_id", "github_login", *_PROFILE) if row.value(name)
    }
    if (create_time := row.time("created_at")) is not None:
        profile["created_at"] = format_iso(create_time)
    if (struct := metadata_of("profile", profile)) is not None:
        subject.profile.CopyFrom(struct)
    yield Record(where=row.where, kind=Kind.SUBJECT, item=subject, table=row.table)


def _session(row: Row) -> Iterator[Record]:
    extra: dict[str, Any] = {}
    metadata = {**row.mapping("metadata", extra), **extra}
    session = session_pb2.Session(
        session_id=row.required_text("id"), title=row.text("title", 1000), summary=row.text("summary", 100_000)
    )
    if row.value("user_id") is not None and row.value("has_user"):
        session.subject_id = row.text("user_id")
    elif row.value("user_id") is not None:
        row.count_converted("user_id", "no such user: kept as metadata.user_id")
        metadata["user_id"] = row.text("user_id")
    state = row.text("state").strip().lower() or "active"
    session.state = _STATES.get(state, session_pb2.SESSION_STATE_ACTIVE)
    if state not in _STATES:
        row.count_converted("state", "an unknown state: active, and kept as metadata.state")
        metadata["state"] = state
    if (create_time := row.time("created_at")) is not None:
        session.create_time.CopyFrom(to_timestamp(create_time))
    if (update_time := row.time("updated_at")) is not None and update_time != create_time:
        metadata["updated_at"] = format_iso(update_time)
        row.count_converted("updated_at", "kept as metadata.updated_at")
    if (struct := metadata_of("metadata", metadata)) is not None:
        session.metadata.CopyFrom(struct)
    yield Record(where=row.where, kind=Kind.SESSION, item=session, table=row.table)


def _message(row: Row) -> Iterator[Record]:
    session_id = row.required_text("session_id")
    if row.value("user_id") is None:
        raise InvalidRow(f"session_id names no row of {_SESSIONS}")
    extra: dict[str, Any] = {}
    metadata = {**row.mapping("metadata", extra), **extra}
    role = row.text("role").strip().lower()
    message = session_pb2.Message(
        external_id=f"{session_id}/{_identity(row)}",
        session_id=session_id,
        role=_ROLES.get(role, session_pb2.MESSAGE_ROLE_USER),
        content=row.required_text("content"),
    )
    if role not in _ROLES:
        row.count_converted("role", "missing or unknown: user")
        if role:
            metadata["role"] = role
    time_value = row.time("timestamp") or row.time("created_at")
    if time_value is not None:
        message.create_time.CopyFrom(to_timestamp(time_value))
    if (struct := metadata_of("metadata", metadata)) is not None:
        message.metadata.CopyFrom(struct)
    yield Record(where=row.where, kind=Kind.MESSAGE, item=message, table=row.table)


def _memories(superseded: Collection[int]) -> Callable[[Row], Iterator[Record]]:
    """Return the reader of long-term items; a newer item has the key of each of `superseded`."""
    return lambda row: _memory(row, has_key=row.value("rowid") not in superseded)


def _memory(row: Row, *, has_key: bool) -> Iterator[Record]:
    extra: dict[str, Any] = {}
    metadata = {**row.mapping("metadata", extra), **extra}
    content = row.text("content").strip() or row.text("value").strip()
    if not content:
        raise InvalidRow("value is empty")
    memory = memory_pb2.Memory(
        # A bare number may collide with ids of other sources.
        external_id=row.text("id") if isinstance(row.value("id"), str) else f"{row.table}/{_identity(row)}",
        type=row.name("category", "note"),
        content=content,
        subject_id=row.text("user_id", 255),
        session_id=row.text("source_session_id", 255),
        tags=tags_of(row, "tags"),
    )
    key = row.text("key", 255).strip()
    if key and has_key:
        memory.key = key
    elif key:
        row.count_converted("key", "a newer fact about the same user has the key: kept as metadata.key")
        metadata["key"] = key
    if (importance := _importance(row)) is not None:
        memory.importance = importance
    for column, field in (("created_at", memory.create_time), ("expires_at", memory.expire_time)):
        if (time_value := row.time(column)) is not None:
            field.CopyFrom(to_timestamp(time_value))
    if (update_time := row.time("updated_at")) is not None:
        metadata["updated_at"] = format_iso(update_time)
    if (struct := metadata_of("metadata", metadata)) is not None:
        memory.metadata.CopyFrom(struct)
    yield Record(where=row.where, kind=Kind.MEMORY, item=memory, table=row.table)


def _identity(row: Row) -> str:
    """Return the row's id, or its rowid without one."""
    return row.text("id") if isinstance(row.value("id"), str) else str(row.value("id") or row.value("rowid"))


def _importance(row: Row) -> float | None:
    value = row.value("importance")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        row.count_converted("importance", "no number: left out")
        return None
    clamped = min(max(float(value), 1.0), float(_MAX_IMPORTANCE))
    if clamped != value:
        row.count_converted("importance", "moved into 1 to 10")
    return importance_of(clamped)
