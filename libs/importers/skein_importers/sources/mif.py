"""`mif`: documents of the Memory Interchange Format 2.x, Skein's own and those of other programs.

| MIF | here |
|---|---|
| memories | memories; `external_id`, or else `id`, is the external id |
| related_memory_ids, parent_id | links related and parent; of Skein's own documents the links that they name |
| embeddings | the caller's vectors |
| knowledge_graph.entities | memories of the type entity |
| knowledge_graph.relationships | links of that relation |
| vendor_extensions.skein.records | the records of a tenant beside its memories |
| other fields | metadata.mif |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein_importers.errors import SourceInvalid
from skein_importers.interchange import OF_SOURCE, OWN
from skein_importers.records import FIELDS, Kind, Record, RecordInvalid, UnreadableRecord, parse_values
from skein_importers.sources.assistant_store import convert_rows, metadata_of, vector_of
from skein_importers.sources.base import Notes
from skein_importers.sources.documents import SingleRealmSource, ids_of, kept_fields, read_document, rows_of
from skein_importers.sources.rows import InvalidRow, Row, struct, to_timestamp
from skein_kit.json_values import exact

NAME = "mif"
_MEMORIES, _ENTITIES, _RELATIONSHIPS = "memories", "entities", "relationships"
_KINDS = list(Kind)
# The type of a memory that names none.
_DEFAULT_TYPE = "observation"
_MAPPED = (
    *("id", "external_id", "content", "memory_type", "created_at", "updated_at", "tags", "agent_id", "metadata"),
    *("source", "related_memory_ids", "parent_id", "embeddings", OWN),
)
_LINKS = {"parent_id": "parent", "related_memory_ids": "related"}
_TITLE = 1000
_LABEL = 1000


class Document:
    """A document that was read."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        """Read the members of `document`."""
        self._document = document
        graph = document.get("knowledge_graph")
        self._graph: Mapping[str, Any] = graph if isinstance(graph, dict) else {}
        extensions = document.get("vendor_extensions")
        self._extensions: Mapping[str, Any] = extensions if isinstance(extensions, dict) else {}
        own = self._extensions.get(OWN)
        records = own.get("records") if isinstance(own, dict) else None
        # None for a document of another program.
        self._records: list[Any] | None = records if isinstance(records, list) else None
        # External ids by MIF's ids.
        self._names = {
            str(memory.get("id")): str(memory.get("external_id") or memory.get("id"))
            for memory in document.get(_MEMORIES) or ()
            if isinstance(memory, dict)
        }

    def records(self, notes: Notes) -> Iterator[Record | UnreadableRecord]:
        """Read what memories refer to, the memories, then what refers to them."""
        first_memory = _KINDS.index(Kind.MEMORY)
        yield from (record for record in self._own_records(notes) if _place(record) < first_memory)
        yield from convert_rows(self._memory_rows(notes), _memory)
        yield from convert_rows(self._graph_rows(_ENTITIES, notes), _entity)
        if self._records is None:
            yield from convert_rows(self._memory_rows(notes), _embedding, count_rows=False)
            yield from convert_rows(self._memory_rows(notes), self._links, count_rows=False)
        yield from self._relationships(notes)
        yield from (record for record in self._own_records(None) if _place(record) > first_memory)
        for name in self._extensions:
            if name != OWN:
                notes.count_ignored(f"vendor_extensions.{name}", "data of another program in its own form")

    def _own_records(self, notes: Notes | None) -> Iterator[Record | UnreadableRecord]:
        """Read the records beside the memories; without notes only the readable ones."""
        for number, values in enumerate(self._records or (), 1):
            try:
                yield _own_record(f"record {number}", values)
            except RecordInvalid as error:
                if notes is not None:
                    yield UnreadableRecord(where=f"record {number}", reason=str(error), hint=error.hint)

    def _memory_rows(self, notes: Notes) -> Iterator[Row]:
        return rows_of(self._document.get(_MEMORIES), _MEMORIES, "id", notes, "metadata.mif")

    def _graph_rows(self, table: str, notes: Notes) -> Iterator[Row]:
        return rows_of(self._graph.get(table), table, "id", notes, "metadata.mif")

    def _links(self, row: Row) -> Iterator[Record]:
        for column, relation in _LINKS.items():
            for target in ids_of(row, column):
                if target in self._names:
                    link = memory_pb2.Link(
                        from_memory_id=self._names[row.text("id")], to_memory_id=self._names[target], relation=relation
                    )
                    yield Record(where=row.where, kind=Kind.LINK, item=link, table=row.table)
                else:
                    row.count_converted(column, "no such memory in the document: the link is left out")

    def _relationships(self, notes: Notes) -> Iterator[Record | UnreadableRecord]:
        entities = {row.text("id") for row in self._graph_rows(_ENTITIES, notes)}
        written: set[tuple[str, str, str]] = set()
        for row in self._graph_rows(_RELATIONSHIPS, notes):
            for record in convert_rows([row], _relationship):
                if isinstance(record, Record):
                    link = record.item
                    key = link.from_memory_id, link.to_memory_id, link.relation
                    if not entities.issuperset(key[:2]):
                        notes.count_ignored(row.table, "one of its entities is not in the document")
                        continue
                    if key in written:
                        notes.count_ignored(row.table, "another one of its kind between the same entities")
                        continue
                    written.add(key)
                yield record


@contextmanager
def open_source(source: str) -> Iterator[SingleRealmSource]:
    """Read a document as a whole. Raises SourceInvalid."""
    document = read_document(source, "document of MIF", (_MEMORIES,))
    version = document.get("mif_version")
    if not isinstance(version, str) or not version.startswith("2."):
        raise SourceInvalid(f"{source} is no document of MIF 2: its mif_version should begin with 2.")
    yield SingleRealmSource(NAME, Document(document).records)


def _place(record: Record | UnreadableRecord) -> int:
    return _KINDS.index(record.kind) if isinstance(record, Record) else -1


def _own_record(where: str, values: Any) -> Record:
    if not isinstance(values, dict):
        raise RecordInvalid("is no JSON object")
    return parse_values(where, exact.to_decimals(values))


def _memory(row: Row) -> Iterator[Record]:
    extra: dict[str, Any] = {}
    own, source = row.mapping(OWN, extra), row.mapping("source", extra)
    metadata = row.mapping("metadata", extra)
    extra |= kept_fields(row, _MAPPED)
    extra |= {f"source_{name}": value for name, value in source.items() if name not in OF_SOURCE.values()}
    values = {
        **{name: value for name, value in own.items() if name in FIELDS[Kind.MEMORY]},
        "external_id": row.text("external_id") or row.required_text("id"),
        "content": row.text("content"),
        "type": row.name("memory_type", _DEFAULT_TYPE),
        "tags": row.tags("tags", row.sequence("tags", extra)),
        "agent_id": row.text("agent_id"),
        "metadata": {**metadata, "mif": extra} if extra else metadata,
        **{field: source[name] for field, name in OF_SOURCE.items() if source.get(name)},
    }
    present = {name: value for name, value in values.items() if value not in ("", [], {}, None)}
    try:
        record = parse_values(row.where, exact.to_decimals({**present, "record": str(Kind.MEMORY)}))
    except RecordInvalid as error:
        raise InvalidRow(str(error)) from None
    if (create_time := row.time("created_at")) is not None:
        record.item.create_time.CopyFrom(to_timestamp(create_time))
    yield Record(where=row.where, kind=Kind.MEMORY, item=record.item, table=row.table)


def _embedding(row: Row) -> Iterator[Record]:
    embedding = row.value("embeddings")
    if not isinstance(embedding, dict):
        return
    vector = vector_of(embedding.get("vector"))
    if vector is None or not isinstance(embedding.get("model"), str):
        row.count_converted("embeddings", "computed again: no vector with the name of its model")
        return
    request = recall_pb2.PutEmbeddingRequest(
        external_id=row.text("external_id") or row.text("id"),
        model=embedding["model"],
        embeddings=[recall_pb2.Embedding(values=vector)],
    )
    yield Record(where=row.where, kind=Kind.EMBEDDING, item=request, table=row.table)


def _entity(row: Row) -> Iterator[Record]:
    name, summary = row.required_text("name"), row.text("summary").strip()
    extra: dict[str, Any] = {}
    attributes = row.mapping("attributes", extra)
    extra |= kept_fields(row, ("id", "name", "types", "attributes", "summary", "created_at"))
    memory = memory_pb2.Memory(
        external_id=row.required_text("id"),
        type="entity",
        title=name[:_TITLE],
        content=f"{name}: {summary}" if summary else name,
        tags=row.tags("types", row.sequence("types", extra)),
    )
    _set_create_time(memory, row)
    if (converted := metadata_of("attributes", {**attributes, "mif": extra} if extra else attributes)) is not None:
        memory.metadata.CopyFrom(converted)
    yield Record(where=row.where, kind=Kind.MEMORY, item=memory, table=row.table)


def _relationship(row: Row) -> Iterator[Record]:
    link = memory_pb2.Link(
        from_memory_id=row.required_text("source_entity_id"),
        to_memory_id=row.required_text("target_entity_id"),
        relation=row.name("relation_type", "related"),
        label=row.text("context", _LABEL),
        weight=row.share("confidence"),
    )
    _set_create_time(link, row)
    mapped = ("source_entity_id", "target_entity_id", "relation_type", "context", "confidence", "created_at")
    if extra := kept_fields(row, mapped):
        link.metadata.CopyFrom(struct({"mif": extra}))
    yield Record(where=row.where, kind=Kind.LINK, item=link, table=row.table)


def _set_create_time(item: Any, row: Row) -> None:
    if (create_time := row.time("created_at")) is not None:
        item.create_time.CopyFrom(to_timestamp(create_time))
