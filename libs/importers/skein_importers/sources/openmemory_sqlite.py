"""`openmemory-sqlite`: the openmemory.db of OpenMemory, mem0's memory of one's own for MCP clients.

| theirs | here |
|---|---|
| users | subjects, by their user_id; the address in the profile |
| apps | the memory's source_agent |
| memories | memories; categories are tags; archived and paused ones are archived |
| deleted memories, access rules, logs | left out, and counted |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from skein.memory.v1 import memory_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_importers.records import Kind, Record, UnreadableRecord
from skein_importers.sources.assistant_store import convert_rows, metadata_of
from skein_importers.sources.base import Notes
from skein_importers.sources.documents import SingleRealmSource
from skein_importers.sources.rows import Row, make_storable, to_timestamp
from skein_importers.sources.sqlite import Database, Table, open_sqlite

NAME = "openmemory-sqlite"
_UNREAD: Mapping[str, str] = {
    **dict.fromkeys(("rowid", "user_id", "app_id", "person", "app", "categories"), ""),
    "vector": "made again by the cluster",
}
_table = partial(Table, unread=_UNREAD)
_TIMES = ("created_at", "updated_at")
TABLES = {
    "users": _table(needs=("id", "user_id"), may_have=("name", "email", "metadata", *_TIMES)),
    "apps": Table(needs=("id", "name"), may_have=("description", "metadata", "is_active", *_TIMES)),
    "memories": _table(
        needs=("id", "user_id", "content"),
        may_have=("app_id", "vector", "metadata", "state", "archived_at", "deleted_at", *_TIMES),
    ),
    "categories": Table(needs=("id", "name"), optional=True),
    "memory_categories": Table(needs=("memory_id", "category_id"), optional=True),
    "access_controls": Table(needs=(), optional=True),
    "archive_policies": Table(needs=(), optional=True),
    "memory_status_history": Table(needs=(), optional=True),
    "memory_access_logs": Table(needs=(), optional=True),
}
_IGNORED = {
    "apps": "an app is the source_agent of its memories; description and settings stay behind",
    "access_controls": "who may read what there; scopes and policies say it here",
    "archive_policies": "rules of that server; a policy of the tenant says it here",
    "memory_status_history": "what happened there; the history here begins with the import",
    "memory_access_logs": "who read what there; the access log here tells of this cluster",
}
_ARCHIVED = {"archived", "paused"}
_MAX_ID = 255


class OpenMemory:
    """An open database."""

    def __init__(self, database: Database) -> None:
        """Read the database's rows."""
        self._database = database

    def records(self, notes: Notes) -> Iterator[Record | UnreadableRecord]:
        """Read people, then memories."""
        yield from convert_rows(self._rows("users", notes), _subject, unread=_UNREAD)
        joined = (
            '(SELECT users.user_id FROM users WHERE users.id = memories.user_id) AS "person", '
            '(SELECT apps.name FROM apps WHERE apps.id = memories.app_id) AS "app"'
        )
        if self._database.has("categories") and self._database.has("memory_categories"):
            joined += (
                ", (SELECT json_group_array(categories.name) FROM memory_categories "
                "JOIN categories ON categories.id = memory_categories.category_id "
                'WHERE memory_categories.memory_id = memories.id) AS "categories"'
            )
        yield from convert_rows(self._rows("memories", notes, joined), _memory, unread=_UNREAD)
        for table, reason in _IGNORED.items():
            if self._database.has(table) and (
                count := self._database.query(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608 - our names.
            ):
                notes.rows[table] += count
                notes.ignored[table, reason] += count

    def _rows(self, table: str, notes: Notes, extra_columns: str = "") -> Iterator[Row]:
        for values in self._database.rows(table, extra_columns=extra_columns):
            yield Row(table, str(make_storable(str(values["id"])))[:80], values, notes, "metadata.openmemory")


@contextmanager
def open_source(source: str) -> Iterator[SingleRealmSource]:
    """Open a database. Raises SourceInvalid."""
    with open_sqlite(source, "OpenMemory", TABLES) as database:
        yield SingleRealmSource(NAME, OpenMemory(database).records)


def _subject(row: Row) -> Iterator[Record]:
    extra: dict[str, Any] = {}
    profile = {**row.mapping("metadata", extra), **extra}
    if email := row.text("email"):
        profile["email"] = email
    subject = subjects_pb2.Subject(subject_id=row.required_text("user_id"), display_name=row.text("name", 255))
    row.value("id")
    if (values := metadata_of("profile", profile)) is not None:
        subject.profile.CopyFrom(values)
    yield Record(where=row.where, kind=Kind.SUBJECT, item=subject, table=row.table)


def _memory(row: Row) -> Iterator[Record]:
    state = row.text("state").strip().lower()
    if state == "deleted" or row.value("deleted_at") is not None:
        row.notes.count_ignored(row.table, "deleted there")
        return
    extra: dict[str, Any] = {}
    metadata = row.mapping("metadata", extra)
    memory = memory_pb2.Memory(
        external_id=row.required_text("id"),
        content=row.required_text("content"),
        subject_id=row.text("person", _MAX_ID),
        source_agent=row.text("app", _MAX_ID),
        tags=row.tags("categories") if row.value("categories") else [],
        source="openmemory",
    )
    for column, field in (("created_at", memory.create_time), ("updated_at", memory.update_time)):
        if (time := row.time(column)) is not None:
            field.CopyFrom(to_timestamp(time))
    archive_time = row.time("archived_at") or row.time("updated_at") or row.time("created_at")
    if state in _ARCHIVED and archive_time is not None:
        memory.archive_time.CopyFrom(to_timestamp(archive_time))
    if state == "paused":
        row.count_converted("state", "paused: archived, so that no search finds it")
        extra["state"] = state
    metadata = {**metadata, **({"openmemory": extra} if extra else {})}
    if (values := metadata_of("metadata", metadata)) is not None:
        memory.metadata.CopyFrom(values)
    yield Record(where=row.where, kind=Kind.MEMORY, item=memory, table=row.table)
