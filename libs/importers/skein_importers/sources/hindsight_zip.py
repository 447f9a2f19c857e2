"""`hindsight-zip`: the transfer archive of a Hindsight bank, schema version 1.

| theirs | here |
|---|---|
| documents with a text | memories of the type document |
| facts | memories of the type fact (of another fact_type that type), with links derived_from to their document |
| occurred_start | valid_from_time |
| entities of a fact, by name | memories of the type entity, with links mentions to them |
| causal_relations | links of that relation |
| observations | memories of the type observation, with links derived_from to their facts |
| mental_models, directives | memories of these types |
| other fields | metadata.hindsight |
| chunks, attachments, history, operations, webhooks, bank configuration | left out, and named in the report |
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any

from skein.memory.v1 import memory_pb2
from skein_importers.errors import SourceInvalid, SourceTooLarge
from skein_importers.records import Kind, Record, UnreadableRecord, derived_id
from skein_importers.sources.assistant_store import convert_rows, metadata_of
from skein_importers.sources.base import Notes
from skein_importers.sources.documents import SingleRealmSource, kept_fields, row_of, rows_of
from skein_importers.sources.reading_limits import MAX_DOCUMENT_BYTES, check_unpacked
from skein_importers.sources.rows import InvalidRow, Row, make_storable, to_timestamp
from skein_kit.json_values import exact

NAME = "hindsight-zip"
_VERSION = 1
_MANIFEST = "manifest.json"
_DOCUMENTS, _FACTS, _ENTITIES, _OBSERVATIONS = "documents", "facts", "entities", "observations"
_MODELS = {"mental_models": "mental_model", "directives": "directive"}
_IGNORED = {
    "attachments": "files beside the texts",
    "knowledge_pages": "the order of mental models, whose texts come as memories",
    "banks": "the bank's configuration, which has other settings here",
    "webhooks": "their secrets are not in the archive",
    "mental_model_history": "what happened there; the history here begins with the import",
    "audit_log": "what happened there; the history here begins with the import",
    "llm_requests": "what happened there; the history here begins with the import",
    "async_operations": "work that was under way there",
    "graph_maintenance_queue": "work that was under way there",
    "entity_maintenance_queue": "work that was under way there",
    "invalidated_memory_units": "facts that were withdrawn there",
}
_TYPES = {"world": "fact", "": "fact"}
_LONGEST_ID = 255
_TITLE = 1000
_FACT_FIELDS = (
    *("text", "source_id", "fact_type", "metadata", "tags", "entities", "causal_relations", "occurred_start"),
    *("created_at", "document_id", "fact_index"),
)

_MODEL_FIELDS = ("id", "bank_id", "name", "content", "tags", "created_at", "updated_at", "embedding", "is_active")


class Archive:
    """An open transfer archive."""

    def __init__(self, file: zipfile.ZipFile, path: str) -> None:
        """Read the members of `file`."""
        self._file = file
        self._path = path
        names = sorted(file.namelist())
        self._blobs = sum(name.startswith("blobs/") for name in names)
        self._documents = [name for name in names if name.startswith("documents/") and name.endswith(".json")]
        # Lists outside of documents, by their tables.
        self._members = {
            PurePosixPath(name).stem: name
            for name in names
            if name.endswith(".json") and name not in {_MANIFEST, *self._documents}
        }

    def check(self) -> None:
        """Raise SourceInvalid unless it is an archive of the known version, and of a size that an archive has."""
        members = self._file.infolist()
        check_unpacked(
            self._path, sum(member.compress_size for member in members), sum(member.file_size for member in members)
        )
        if _MANIFEST not in self._file.namelist():
            raise SourceInvalid(f"{self._path} is no transfer archive of Hindsight: it has no {_MANIFEST}.")
        manifest = self._read(_MANIFEST)
        version = manifest.get("schema_version", _VERSION) if isinstance(manifest, dict) else None
        if version != _VERSION:
            raise SourceInvalid(
                f"{self._path} is a transfer archive of version {version}; this importer reads {_VERSION}."
            )

    def records(self, notes: Notes) -> Iterator[Record | UnreadableRecord]:
        """Read documents, facts, entities, observations and models, then links."""
        texts, facts, entities = set[str](), set[str](), dict[str, None]()
        for row in self._document_rows(notes):
            for record in convert_rows([row], _document):
                texts.update([record.name] if isinstance(record, Record) else ())
                yield record
            for record in convert_rows(_fact_rows(row), _fact):
                facts.update([record.name] if isinstance(record, Record) else ())
                yield record
            for fact in _fact_rows(row):
                entities.update(dict.fromkeys(_entities(fact)))
        yield from convert_rows((_entity_row(name, notes) for name in entities), _entity, count_rows=False)
        observations = set[str]()
        for record in convert_rows(self._rows(_OBSERVATIONS, "source_id", notes), _observation):
            observations.update([record.name] if isinstance(record, Record) else ())
            yield record
        for table in _MODELS:
            yield from convert_rows(self._rows(table, "id", notes), _model)
        yield from self._links(notes, texts, facts, observations)
        self._note_ignored(notes)

    def _links(
        self, notes: Notes, texts: set[str], facts: set[str], observations: set[str]
    ) -> Iterator[Record | UnreadableRecord]:
        """Read the links of facts and observations that were not refused."""
        # The facts' ids by their documents, as observations refer to them.
        ids: dict[str, list[str]] = {}
        for row in self._document_rows(notes):
            rows = list(_fact_rows(row))
            ids[row.text("id")] = names = [_fact_id(fact) for fact in rows]
            for fact in rows:
                if _fact_id(fact) in facts:
                    yield from _fact_links(fact, names, facts, texts)
        for row in self._rows(_OBSERVATIONS, "source_id", notes):
            if _observation_id(row) not in observations:
                continue
            for source in row.sequence("sources", {}):
                fact_id = _source_id(source, ids)
                if fact_id in facts:
                    yield _link(row, _observation_id(row), "derived_from", fact_id)
                else:
                    row.count_converted("sources", "no such fact in the archive: the link is left out")

    def _note_ignored(self, notes: Notes) -> None:
        if self._blobs:
            notes.rows["blobs"] += self._blobs
            notes.ignored["blobs", _IGNORED["attachments"]] += self._blobs
        for table, member in self._members.items():
            if table not in {_OBSERVATIONS, *_MODELS}:
                values = self._read(member)
                if count := len(values) if isinstance(values, list) else 1:
                    notes.rows[table] += count
                    notes.ignored[table, _IGNORED.get(table, "no place here")] += count

    def _document_rows(self, notes: Notes) -> Iterator[Row]:
        for number, name in enumerate(self._documents, 1):
            document = self._read(name)
            if isinstance(document, dict):
                yield row_of(document, _DOCUMENTS, "id", number, notes, "metadata.hindsight")
            else:
                raise SourceInvalid(f"{self._path} is damaged: {name} is no JSON object.")

    def _rows(self, table: str, key: str, notes: Notes) -> Iterator[Row]:
        values = self._read(self._members[table]) if table in self._members else []
        return rows_of(values, table, key, notes, "metadata.hindsight")

    def _read(self, name: str) -> Any:
        # No member is longer than the archive says.
        if self._file.getinfo(name).file_size > MAX_DOCUMENT_BYTES:
            raise SourceTooLarge(f"{self._path} has a member of more than {MAX_DOCUMENT_BYTES} bytes: {name}.")
        try:
            text = self._file.read(name)
        except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError, OSError):
            raise SourceInvalid(f"{self._path} is damaged at {name}: make the export again.") from None
        try:
            return exact.loads_mixed(text)
        except (ValueError, ArithmeticError, RecursionError):
            raise SourceInvalid(f"{self._path} is damaged: {name} is no JSON.") from None


@contextmanager
def open_source(source: str) -> Iterator[SingleRealmSource]:
    """Open an archive. Raises SourceInvalid."""
    try:
        file = zipfile.ZipFile(source)
    except zipfile.BadZipFile:
        raise SourceInvalid(f"{source} is no transfer archive of Hindsight: it is no ZIP file.") from None
    except OSError as error:
        raise SourceInvalid(
            f"{source} cannot be read ({error.strerror}): check its name and who may read it."
        ) from None
    with file:
        archive = Archive(file, source)
        archive.check()
        yield SingleRealmSource(NAME, archive.records)


def _fact_rows(document: Row) -> Iterator[Row]:
    """Yield a document's facts, each with its document and its number there."""
    facts = document.value(_FACTS)
    for number, fact in enumerate(facts if isinstance(facts, list) else ()):
        values = fact if isinstance(fact, dict) else {}
        entry = {**values, "document_id": document.value("id"), "fact_index": number}
        yield Row(_FACTS, f"{document.key}#{number}", entry, document.notes, "metadata.hindsight")


def _fact_id(row: Row) -> str:
    return row.text("source_id") or _numbered(row.text("document_id"), row.value("fact_index"))


def _numbered(document_id: str, number: object) -> str:
    return f"{document_id[: _LONGEST_ID - 12]}#{number}"


def _document(row: Row) -> Iterator[Record]:
    text = row.text("original_text")
    if not text.strip():
        row.notes.count_ignored(row.table, "the archive has no text of it; its facts come")
        return
    memory = _memory(row, row.required_text("id"), "document", text)
    _set_metadata(row, memory, ("id", "original_text", "tags", "created_at", "chunks", "facts"))
    if row.value("chunks"):
        row.count_converted("chunks", "made again by the cluster")
    yield Record(where=row.where, kind=Kind.MEMORY, item=memory, table=row.table)


def _fact(row: Row) -> Iterator[Record]:
    fact_type = row.text("fact_type")
    type_name = _TYPES.get(fact_type) or row.name("fact_type", "fact")
    memory = _memory(row, _fact_id(row), type_name, row.required_text("text"))
    _set_time(memory, "valid_from_time", row, "occurred_start")
    _set_metadata(row, memory, _FACT_FIELDS)
    yield Record(where=row.where, kind=Kind.MEMORY, item=memory, table=row.table)


def _fact_links(row: Row, names: list[str], facts: set[str], texts: set[str]) -> Iterator[Record]:
    fact_id = _fact_id(row)
    if row.text("document_id") in texts:
        yield _link(row, fact_id, "derived_from", row.text("document_id"))
    for name in _entities(row):
        yield _link(row, fact_id, "mentions", _entity_id(name))
    for relation in row.sequence("causal_relations", {}):
        values = relation if isinstance(relation, dict) else {}
        number = values.get("target_fact_index")
        target = names[number] if isinstance(number, int) and 0 <= number < len(names) else ""
        if target in facts:
            name = Row(_FACTS, row.key, values, row.notes).name("relation_type", "causes")
            yield _link(row, fact_id, name, target)
        else:
            row.count_converted("causal_relations", "no such fact in the document: the link is left out")


def _entities(row: Row) -> list[str]:
    names = [make_storable(name).strip() for name in row.sequence(_ENTITIES, {}) if isinstance(name, str)]
    return list(dict.fromkeys(filter(None, names)))


def _entity_id(name: str) -> str:
    identity = f"entity/{name}"
    return identity if len(identity) <= _LONGEST_ID else derived_id({"entity": name})


def _entity_row(name: str, notes: Notes) -> Row:
    return Row(_ENTITIES, name[:80], {"name": name}, notes, "metadata.hindsight")


def _entity(row: Row) -> Iterator[Record]:
    name = row.required_text("name")
    memory = memory_pb2.Memory(
        external_id=_entity_id(name), type="entity", title=name[:_TITLE], content=name, source="hindsight"
    )
    yield Record(where=row.where, kind=Kind.MEMORY, item=memory, table=row.table)


def _observation_id(row: Row) -> str:
    return row.text("source_id") or derived_id({"observation": row.text("text")})


def _observation(row: Row) -> Iterator[Record]:
    memory = _memory(row, _observation_id(row), "observation", row.required_text("text"))
    _set_time(memory, "valid_from_time", row, "occurred_start")
    _set_metadata(row, memory, ("text", "source_id", "tags", "sources", "created_at", "occurred_start"))
    yield Record(where=row.where, kind=Kind.MEMORY, item=memory, table=row.table)


def _model(row: Row) -> Iterator[Record]:
    if not row.boolean("is_active", default=True):
        row.notes.count_ignored(row.table, "switched off there")
        return
    memory = _memory(row, row.required_text("id"), _MODELS[row.table], _text_of_model(row))
    memory.title = row.text("name", _TITLE)
    _set_metadata(
        row, memory, ("id", "bank_id", "name", "content", "tags", "created_at", "updated_at", "embedding", "is_active")
    )
    yield Record(where=row.where, kind=Kind.MEMORY, item=memory, table=row.table)


def _text_of_model(row: Row) -> str:
    text = row.text("content") if row.value("content") else row.text("name")
    if not text.strip():
        raise InvalidRow("content is empty")
    return text


def _source_id(source: Any, ids: Mapping[str, list[str]]) -> str:
    """Return the id of an observation's fact, "" when the archive does not have it."""
    if not isinstance(source, dict):
        return ""
    names, number = ids.get(str(source.get("document_id")), []), source.get("fact_index")
    return names[number] if isinstance(number, int) and 0 <= number < len(names) else ""


def _memory(row: Row, external_id: str, type_name: str, content: str) -> memory_pb2.Memory:
    memory = memory_pb2.Memory(
        external_id=external_id,
        type=type_name,
        content=content,
        tags=row.tags("tags", row.sequence("tags", {})),
        source="hindsight",
    )
    _set_time(memory, "create_time", row, "created_at")
    return memory


def _link(row: Row, from_id: str, relation: str, to_id: str) -> Record:
    link = memory_pb2.Link(from_memory_id=from_id, to_memory_id=to_id, relation=relation)
    return Record(where=row.where, kind=Kind.LINK, item=link, table=row.table)


def _set_time(item: Any, field: str, row: Row, column: str) -> None:
    if (value := row.time(column)) is not None:
        getattr(item, field).CopyFrom(to_timestamp(value))


def _set_metadata(row: Row, memory: memory_pb2.Memory, mapped: tuple[str, ...]) -> None:
    own: dict[str, Any] = {}
    values = row.mapping("metadata", own)
    own |= kept_fields(row, (*mapped, "metadata"))
    if (converted := metadata_of("metadata", {**values, "hindsight": own} if own else values)) is not None:
        memory.metadata.CopyFrom(converted)
