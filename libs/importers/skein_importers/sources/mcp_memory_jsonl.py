"""`mcp-memory-jsonl`: the memory.jsonl of the memory server among MCP's reference servers.

| theirs | here |
|---|---|
| an entity | a memory of the type entity with its name as title |
| an observation | a memory `<name>: <observation>`, with a link `about` to its entity |
| a relation | a link between the two entities |

Nothing there has an id or a time: ids follow from the texts, so that a later file adds what is new.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from skein.memory.v1 import memory_pb2
from skein_importers.errors import SourceInvalid
from skein_importers.records import Kind, Record, UnreadableRecord
from skein_importers.sources.assistant_store import convert_rows, metadata_of
from skein_importers.sources.base import Notes
from skein_importers.sources.documents import SingleRealmSource, kept_fields, row_of
from skein_importers.sources.json_stream import entries
from skein_importers.sources.rows import InvalidRow, Row

NAME = "mcp-memory-jsonl"
_ENTITIES, _OBSERVATIONS, _RELATIONS = "entities", "observations", "relations"
_TABLES = {"entity": _ENTITIES, "relation": _RELATIONS}
# Names with which a line begins.
_FIELDS = ("type", "name", "entityType", "observations", "from", "to", "relationType")
_METADATA = "metadata.mcp_memory"
_TITLE = 1000
_LABEL = 80
_DIGITS = 32


class MemoryFile:
    """A file of entities and relations, which is read again for each kind of record."""

    def __init__(self, path: str) -> None:
        """Read the file at `path`."""
        self._path = path

    def records(self, notes: Notes) -> Iterator[Record | UnreadableRecord]:
        """Read entities and their observations, then the links between all of them."""
        names: set[str] = set()
        for number, (_, value) in enumerate(self._lines(), 1):
            if not isinstance(value, dict) or value.get("type") not in _TABLES:
                notes.read("lines")
                notes.count_ignored("lines", f"line {number} is neither an entity nor a relation")
        yield from convert_rows(self._rows(notes, "entity"), lambda row: _entity(row, names))
        yield from convert_rows(self._observations(notes, count=True), _observation)
        yield from convert_rows(self._observations(notes, count=False), _about, count_rows=False)
        yield from convert_rows(self._rows(notes, "relation"), lambda row: _relation(row, names))

    def _lines(self) -> Iterator[tuple[str, Any]]:
        return entries(self._path, (), _FIELDS)

    def _rows(self, notes: Notes, kind: str) -> Iterator[Row]:
        for number, (_, value) in enumerate(self._lines(), 1):
            if isinstance(value, dict) and value.get("type") == kind:
                key = "name" if kind == "entity" else "from"
                yield row_of(value, _TABLES[kind], key, number, notes, _METADATA)

    def _observations(self, notes: Notes, *, count: bool) -> Iterator[Row]:
        for entity in self._rows(notes, "entity"):
            name = entity.text("name").strip()
            for number, text in enumerate(entity.sequence("observations", {}) if name else (), 1):
                if isinstance(text, str) and text.strip():
                    values = {"name": name, "text": text.strip()}
                    yield Row(_OBSERVATIONS, f"{name[:_LABEL]} {number}", values, notes, _METADATA)
                elif count:
                    notes.read(_OBSERVATIONS)
                    notes.count_ignored(_OBSERVATIONS, "no text")


@contextmanager
def open_source(source: str) -> Iterator[SingleRealmSource]:
    """Open a file that begins with an entity or a relation, or is empty of them. Raises SourceInvalid."""
    for name, value in entries(source, (), _FIELDS):
        if name or not isinstance(value, dict) or value.get("type") not in _TABLES:
            raise SourceInvalid(
                f"{source} is no memory file of MCP's memory server: each line is a JSON object with the type entity "
                "or relation."
            )
        break
    yield SingleRealmSource(NAME, MemoryFile(source).records)


def _id(kind: str, *texts: str) -> str:
    digest = hashlib.sha256("\0".join(texts).encode("utf-8", "replace")).hexdigest()[:_DIGITS]
    return f"mcp-{kind}-{digest}"


def _entity(row: Row, names: set[str]) -> Iterator[Record]:
    name = row.required_text("name").strip()
    if name in names:
        raise InvalidRow("an earlier entity has the same name")
    names.add(name)
    kind = row.text("entityType").strip()
    memory = memory_pb2.Memory(
        external_id=_id("entity", name),
        type="entity",
        title=name[:_TITLE],
        content=f"{name} ({kind})" if kind else name,
        source=NAME,
    )
    extra = kept_fields(row, ("type", "name", "entityType", "observations"))
    values = {**({"entity_type": kind} if kind else {}), **extra}
    if values and (metadata := metadata_of("metadata", {"mcp_memory": values})) is not None:
        memory.metadata.CopyFrom(metadata)
    yield Record(where=row.where, kind=Kind.MEMORY, item=memory, table=row.table)


def _observation(row: Row) -> Iterator[Record]:
    name, text = row.text("name"), row.text("text")
    memory = memory_pb2.Memory(
        external_id=_id("observation", name, text), content=f"{name}: {text}", title=name[:_TITLE], source=NAME
    )
    yield Record(where=row.where, kind=Kind.MEMORY, item=memory, table=row.table)


def _about(row: Row) -> Iterator[Record]:
    name, text = row.text("name"), row.text("text")
    link = memory_pb2.Link(
        from_memory_id=_id("observation", name, text), to_memory_id=_id("entity", name), relation="about"
    )
    yield Record(where=row.where, kind=Kind.LINK, item=link, table=row.table)


def _relation(row: Row, names: set[str]) -> Iterator[Record]:
    ends = [row.required_text(column).strip() for column in ("from", "to")]
    for column, name in zip(("from", "to"), ends, strict=True):
        if name not in names:
            raise InvalidRow(f"{column} names no entity of the file")
    link = memory_pb2.Link(
        from_memory_id=_id("entity", ends[0]),
        to_memory_id=_id("entity", ends[1]),
        relation=row.name("relationType", "related"),
    )
    if link.relation != row.text("relationType"):
        link.label = row.text("relationType", _TITLE)
    extra = kept_fields(row, ("type", "from", "to", "relationType"))
    if extra and (metadata := metadata_of("metadata", {"mcp_memory": extra})) is not None:
        link.metadata.CopyFrom(metadata)
    yield Record(where=row.where, kind=Kind.LINK, item=link, table=row.table)
