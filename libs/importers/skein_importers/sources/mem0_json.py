"""`mem0-json`: a file with what mem0's `get_all` returns, or with points of its Qdrant collections.

A page of Qdrant's scroll API is `{"result": {"points": [{"id": ..., "payload": {...}}]}}`; pages follow one another as
lines. An entity's links follow all memories.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from skein_importers.errors import SourceInvalid
from skein_importers.records import Record, UnreadableRecord
from skein_importers.sources.assistant_store import convert_rows
from skein_importers.sources.base import Notes
from skein_importers.sources.documents import SingleRealmSource, ids_of, row_of
from skein_importers.sources.json_stream import entries
from skein_importers.sources.mem0 import (
    MEMORIES,
    RELATIONS,
    memory_records,
    mention,
    payload_entry,
    relation_records,
)
from skein_importers.sources.rows import Row

NAME = "mem0-json"
_CONTAINERS = ("results", "memories", "points")
# Names with which an entry or a page of points begins.
_FIELDS = ("id", "memory", "payload", "result", "usage")
# Members of a page that hold no memories.
_PAGING = frozenset({"count", "next", "previous", "total", "page", "page_size", "status", "time", "next_page_offset"})


class Mem0File:
    """A file of entries, which is read again for each kind of record."""

    def __init__(self, path: str) -> None:
        """Read the file at `path`."""
        self._path = path

    def records(self, notes: Notes) -> Iterator[Record | UnreadableRecord]:
        """Read memories, relations and entities, then the links of entities."""
        memories: set[str] = set()
        for record in convert_rows(self._rows(notes, MEMORIES), memory_records):
            if isinstance(record, Record):
                memories.add(record.name)
            yield record
        yield from convert_rows(self._rows(notes, RELATIONS), relation_records)
        for row in self._rows(notes, MEMORIES):
            for memory_id in ids_of(row, "linked_memory_ids"):
                if memory_id in memories:
                    yield mention(row, memory_id, row.text("id"))
                else:
                    row.count_converted("linked_memory_ids", "no such memory in the file: the link is left out")

    def _rows(self, notes: Notes, table: str) -> Iterator[Row]:
        for number, entry in enumerate(self._entries(notes, table), 1):
            yield row_of(entry, table, "id", number, notes, "metadata.mem0")

    def _entries(self, notes: Notes, table: str) -> Iterator[dict[str, Any]]:
        for name, value in entries(self._path, _CONTAINERS, _FIELDS):
            if name == RELATIONS:
                if table == RELATIONS:
                    yield from _relations(value, notes)
            elif table != MEMORIES or (name in _PAGING):
                continue
            elif name or not isinstance(value, dict):
                notes.count_ignored(MEMORIES, "a member of the file that is no memory")
            else:
                yield from _memories(value)


@contextmanager
def open_source(source: str) -> Iterator[SingleRealmSource]:
    """Open a file that has an entry with an id or none at all. Raises SourceInvalid."""
    for name, value in entries(source, _CONTAINERS, _FIELDS):
        is_entry = not name and isinstance(value, dict) and any(field in value for field in _FIELDS)
        if not (is_entry or name in _PAGING or name == RELATIONS):
            raise SourceInvalid(
                f"{source} holds no memories of mem0: SOURCE is what get_all returns, or pages of Qdrant's scroll API."
            )
        if is_entry:
            break
    yield SingleRealmSource(NAME, Mem0File(source).records)


def _memories(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the memories of an entry: itself, a point's payload, or the points of a page."""
    if isinstance(page := value.get("result"), dict):
        for point in _list(page.get("points")):
            if isinstance(point, dict):
                yield from _memories(point)
    elif isinstance(payload := value.get("payload"), dict):
        yield payload_entry(value.get("id"), payload)
    else:
        yield value


def _relations(value: Any, notes: Notes) -> Iterator[dict[str, Any]]:
    for relation in _list(value):
        if isinstance(relation, dict):
            yield relation
        else:
            notes.count_ignored(RELATIONS, "no JSON object")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
