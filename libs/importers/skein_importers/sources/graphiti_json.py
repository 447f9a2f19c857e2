"""`graphiti-json`: a temporal graph of Graphiti or Zep, as a JSON object with the lists that their APIs return.

| theirs | here |
|---|---|
| nodes (entities) | memories of the type entity; attributes are metadata, labels are tags |
| edges (facts) | memories of the type fact, with links subject and object to the entities |
| valid_at, invalid_at | valid_from_time, valid_to_time |
| episodes | memories of the type episode; facts have links derived_from to them |
| communities, community_edges | memories of the type community, with links has_member |
| episodic_edges | links mentions from an episode to an entity |
| users, threads, messages (Zep) | subjects, sessions, messages |
| group_id, or the user of a Zep graph | subject_id |
| other fields | metadata.graphiti |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_importers.records import Kind, Record, UnreadableRecord
from skein_importers.sources.agent_fields import message_role
from skein_importers.sources.assistant_store import convert_rows, metadata_of
from skein_importers.sources.base import Notes
from skein_importers.sources.documents import SingleRealmSource, ids_of, kept_fields, read_document, rows_of
from skein_importers.sources.rows import Row, make_storable, struct, to_timestamp

NAME = "graphiti-json"
_NODES, _EDGES, _EPISODES, _COMMUNITIES = "nodes", "edges", "episodes", "communities"
_USERS, _THREADS, _MESSAGES = "users", "threads", "messages"
_LINKS = {"episodic_edges": "mentions", "community_edges": "has_member"}
_LISTS = (_NODES, _EDGES, _EPISODES)
_KNOWN = frozenset({*_LISTS, _COMMUNITIES, _USERS, _THREADS, _MESSAGES, *_LINKS})
# Fields of every element with a place here.
_COMMON = ("uuid", "uuid_", "name", "created_at", "group_id", "graph_uuid", "user_uuid", "attributes", "metadata")
_VECTORS = ("name_embedding", "fact_embedding")
# Results of a search, not of the graph.
_OF_A_SEARCH = ("score", "relevance", "degree")
_EPISODE_LISTS = ("episodes", "episode_uuids")
_LONGEST_ID = 255
_TITLE = 1000


class Graph:
    """A graph that was read."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        """Read the lists of `document`."""
        self._document = document
        self._names = {
            _uuid(node): str(node.get("name") or "")
            for table in (_NODES, _COMMUNITIES)
            for node in self._objects(table)
        }
        self._episodes = {_uuid(episode) for episode in self._objects(_EPISODES)}
        self._users = {_uuid(user): str(user.get("user_id") or _uuid(user)) for user in self._objects(_USERS)}
        self._threads = {
            _uuid(thread): str(thread.get("thread_id") or _uuid(thread)) for thread in self._objects(_THREADS)
        }

    def records(self, notes: Notes) -> Iterator[Record | UnreadableRecord]:
        """Read people, conversations, then the graph."""
        for table, convert in (
            (_USERS, self._user),
            (_THREADS, self._thread),
            (_MESSAGES, self._message),
            (_NODES, self._node),
            (_COMMUNITIES, self._community),
            (_EPISODES, self._episode),
            (_EDGES, self._fact),
        ):
            yield from convert_rows(self._rows(table, notes), convert)
        yield from convert_rows(self._rows(_EDGES, notes), self._fact_links, count_rows=False)
        for table in _LINKS:
            yield from convert_rows(self._rows(table, notes), self._link)
        for name, values in self._document.items():
            if name not in _KNOWN and isinstance(values, list) and values:
                notes.rows[name] += len(values)
                notes.ignored[name, "no such list in a graph"] += len(values)

    def _objects(self, table: str) -> list[dict[str, Any]]:
        values = self._document.get(table)
        return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []

    def _rows(self, table: str, notes: Notes) -> Iterator[Row]:
        rows = rows_of(self._document.get(table), table, "uuid", notes, "metadata.graphiti")
        return (
            Row(row.table, row.key, {**row.values, "uuid": _uuid(row.values)}, notes, row.metadata_path) for row in rows
        )

    def _user(self, row: Row) -> Iterator[Record]:
        names = [row.text("first_name").strip(), row.text("last_name").strip()]
        subject = subjects_pb2.Subject(
            subject_id=self._users[row.text("uuid")], display_name=" ".join(filter(None, names))[:_LONGEST_ID]
        )
        profile = row.mapping("metadata", {})
        if email := row.text("email"):
            profile = {**profile, "email": email}
        if zone := row.text("time_zone"):
            profile = {**profile, "time_zone": zone}
        if profile:
            subject.profile.CopyFrom(struct(profile))
        yield Record(where=row.where, kind=Kind.SUBJECT, item=subject, table=row.table)

    def _thread(self, row: Row) -> Iterator[Record]:
        session = session_pb2.Session(session_id=self._threads[row.text("uuid")], subject_id=self._subject(row))
        _set_time(session, "create_time", row, "created_at")
        yield Record(where=row.where, kind=Kind.SESSION, item=session, table=row.table)

    def _message(self, row: Row) -> Iterator[Record]:
        thread = row.text("thread_uuid") or row.text("thread_id")
        message = session_pb2.Message(
            external_id=row.required_text("uuid"),
            session_id=self._threads.get(thread, thread),
            role=message_role(row),
            content=row.required_text("content"),
            name=row.text("name", _LONGEST_ID),
        )
        _set_time(message, "create_time", row, "created_at")
        mapped = (*_COMMON, "role", "content", "thread_uuid", "thread_id", "processed")
        _set_metadata(row, message, mapped)
        yield Record(where=row.where, kind=Kind.MESSAGE, item=message, table=row.table)

    def _node(self, row: Row) -> Iterator[Record]:
        name, summary = row.required_text("name"), row.text("summary").strip()
        memory = self._memory(row, "entity", f"{name}: {summary}" if summary else name)
        memory.title = name[:_TITLE]
        memory.tags.extend(row.tags("labels", row.sequence("labels", {})))
        _set_metadata(row, memory, (*_COMMON, "summary", "labels", "episode_uuids", "episode_uuids_truncated"))
        yield Record(where=row.where, kind=Kind.MEMORY, item=memory, table=row.table)

    def _community(self, row: Row) -> Iterator[Record]:
        memory = self._memory(row, "community", row.text("summary").strip() or row.required_text("name"))
        memory.title = row.text("name", _TITLE)
        _set_metadata(row, memory, (*_COMMON, "summary", "labels"))
        yield Record(where=row.where, kind=Kind.MEMORY, item=memory, table=row.table)

    def _episode(self, row: Row) -> Iterator[Record]:
        memory = self._memory(row, "episode", row.required_text("content"))
        memory.title = row.text("name", _TITLE)
        memory.source = row.text("source_description", _TITLE)
        _set_time(memory, "valid_from_time", row, "valid_at" if row.value("valid_at") else "reference_time")
        mapped = (*_COMMON, "content", "source_description", "valid_at", "reference_time", "entity_edges", "processed")
        _set_metadata(row, memory, (*mapped, "labels"))
        yield Record(where=row.where, kind=Kind.MEMORY, item=memory, table=row.table)

    def _fact(self, row: Row) -> Iterator[Record]:
        ends = [self._names.get(row.text(column), "") for column in ("source_node_uuid", "target_node_uuid")]
        text = row.text("fact").strip()
        if not text:
            row.count_converted("fact", "empty: made of the entities' and the relation's names")
            text = " ".join(filter(None, (ends[0], row.required_text("name").replace("_", " ").lower(), ends[1])))
        memory = self._memory(row, "fact", text)
        _set_time(memory, "valid_from_time", row, "valid_at")
        _set_time(memory, "valid_to_time", row, "invalid_at")
        if not memory.HasField("valid_to_time") and row.value("expired_at"):
            row.count_converted("expired_at", "the end of validity, as invalid_at is empty")
            _set_time(memory, "valid_to_time", row, "expired_at")
        extra: dict[str, Any] = {"relation": row.text("name")}
        if (
            memory.HasField("valid_from_time")
            and memory.HasField("valid_to_time")
            and memory.valid_to_time.ToNanoseconds() <= memory.valid_from_time.ToNanoseconds()
        ):
            row.count_converted("valid_at", "not before invalid_at: kept as metadata.graphiti")
            extra["valid_at"] = row.text("valid_at")
            memory.ClearField("valid_from_time")
        mapped = ("fact", "source_node_uuid", "target_node_uuid", "valid_at", "invalid_at", *_EPISODE_LISTS)
        _set_metadata(row, memory, (*_COMMON, *mapped), extra)
        yield Record(where=row.where, kind=Kind.MEMORY, item=memory, table=row.table)

    def _fact_links(self, row: Row) -> Iterator[Record]:
        for column, relation in (("source_node_uuid", "subject"), ("target_node_uuid", "object")):
            if row.text(column) in self._names:
                yield _link(row, row.text("uuid"), relation, row.text(column))
            else:
                row.count_converted(column, "no such node in the file: the link is left out")
        for column in _EPISODE_LISTS:
            for episode in ids_of(row, column):
                if episode in self._episodes:
                    yield _link(row, row.text("uuid"), "derived_from", episode)
                else:
                    row.count_converted(column, "no such episode in the file: the link is left out")

    def _link(self, row: Row) -> Iterator[Record]:
        ends = row.text("source_node_uuid"), row.text("target_node_uuid")
        if all(end in self._names or end in self._episodes for end in ends):
            yield _link(row, ends[0], _LINKS[row.table], ends[1])
        else:
            row.notes.count_ignored(row.table, "one of its ends is not in the file")

    def _memory(self, row: Row, type_name: str, content: str) -> memory_pb2.Memory:
        memory = memory_pb2.Memory(
            external_id=row.required_text("uuid"), type=type_name, content=content, subject_id=self._subject(row)
        )
        _set_time(memory, "create_time", row, "created_at")
        return memory

    def _subject(self, row: Row) -> str:
        """Return the person whose graph an element belongs to."""
        if user := row.text("user_uuid", _LONGEST_ID):
            return self._users.get(user, user)
        if group := row.text("group_id", _LONGEST_ID):
            row.count_converted("group_id", "the partition of the graph became the subject_id")
        return group


@contextmanager
def open_source(source: str) -> Iterator[SingleRealmSource]:
    """Read a file as a whole. Raises SourceInvalid."""
    yield SingleRealmSource(NAME, Graph(read_document(source, "graph of Graphiti or Zep", _LISTS)).records)


def _uuid(values: Mapping[str, Any]) -> str:
    """Return an element's id; Zep's Python client names it `uuid_`."""
    return str(make_storable(str(values.get("uuid") or values.get("uuid_") or "")))


def _link(row: Row, from_id: str, relation: str, to_id: str) -> Record:
    link = memory_pb2.Link(from_memory_id=from_id, to_memory_id=to_id, relation=relation)
    return Record(where=row.where, kind=Kind.LINK, item=link, table=row.table)


def _set_time(item: Any, field: str, row: Row, column: str) -> None:
    if (value := row.time(column)) is not None:
        getattr(item, field).CopyFrom(to_timestamp(value))


def _set_metadata(row: Row, item: Any, mapped: tuple[str, ...], extra: Mapping[str, Any] | None = None) -> None:
    """Set the metadata to an element's attributes, and to its other fields under `graphiti`."""
    own = dict(extra or {})
    values = {**row.mapping("attributes", own), **row.mapping("metadata", own)}
    for name in _VECTORS:
        if row.value(name):
            row.count_converted(name, "made again by the cluster: the graph names no model")
    own |= kept_fields(row, (*mapped, *_VECTORS, *_OF_A_SEARCH))
    if (struct_value := metadata_of("metadata", {**values, "graphiti": own} if own else values)) is not None:
        item.metadata.CopyFrom(struct_value)
