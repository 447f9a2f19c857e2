"""Sources and lineages: protobuf to model and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

import asyncpg

from skein.memory.v1 import curation_pb2 as pb
from skein.memory.v1 import memory_pb2
from skein_kit.database.transactions import Transaction
from skein_kit.errors import FieldInvalid
from skein_kit.filters.evaluator import matches
from skein_kit.filters.expression import Expression
from skein_kit.filters.visibility import message_visible_to, visible_to
from skein_kit.ids import parse_id
from skein_kit.rpc.well_known_types import to_timestamp
from skein_kit.text.source_keys import source_key
from skein_memory.errors import SourceNotFound
from skein_memory.lineage.model import MAX_DECLARED_SOURCES, Kind, NodeKey, Role, Source, TrustCalculator
from skein_memory.lineage.store import Lineage
from skein_memory.memories import memory_type, names
from skein_memory.queries import QUERIES
from skein_memory.validation import check_storable

# Names as the database has them, by number.
KINDS: Mapping[int, Kind] = {
    memory_pb2.SOURCE_KIND_MESSAGE: "message",
    memory_pb2.SOURCE_KIND_MEMORY: "memory",
    memory_pb2.SOURCE_KIND_DOCUMENT: "document",
    memory_pb2.SOURCE_KIND_IMPORT: "import",
    memory_pb2.SOURCE_KIND_AGENT: "agent",
    memory_pb2.SOURCE_KIND_PERSON: "person",
    memory_pb2.SOURCE_KIND_TOOL: "tool",
}
_NUMBERS: Mapping[str, memory_pb2.SourceKind] = {
    "message": memory_pb2.SOURCE_KIND_MESSAGE,
    "memory": memory_pb2.SOURCE_KIND_MEMORY,
    "document": memory_pb2.SOURCE_KIND_DOCUMENT,
    "import": memory_pb2.SOURCE_KIND_IMPORT,
    "agent": memory_pb2.SOURCE_KIND_AGENT,
    "person": memory_pb2.SOURCE_KIND_PERSON,
    "tool": memory_pb2.SOURCE_KIND_TOOL,
}
_ROLES: Mapping[Role, pb.SourceRole] = {
    "part": pb.SOURCE_ROLE_PART,
    "repeat": pb.SOURCE_ROLE_REPEAT,
    "replaced": pb.SOURCE_ROLE_REPLACED,
}
_LABEL_CHARACTERS = 100


async def read_sources(
    tx: Transaction,
    tenant_id: UUID,
    references: Sequence[memory_pb2.SourceReference],
    *,
    at: datetime,
    path: str,
    is_import: bool = False,
) -> list[Source]:
    """Read what a caller says that a memory was made of, each source once; `path` is that of the field.

    A message and a memory must be there and visible, unless an import brings them. Raises FieldInvalid,
    TextNotStorable and SourceNotFound.
    """
    _check(references, path)
    memories = await _memory_ids(tx, tenant_id, references, at=at, is_import=is_import)
    messages = await _message_ids(tx, tenant_id, references, path=path, is_import=is_import)
    sources: dict[NodeKey, Source] = {}
    for reference in references:
        kind = KINDS[reference.kind]
        ids = memories if kind == "memory" else messages if kind == "message" else None
        if ids is not None and reference.id not in ids:
            if is_import:
                continue
            raise SourceNotFound(id=reference.id)
        source = Source(
            kind=kind,
            source_id=None if ids is None else ids[reference.id],
            name=" ".join(reference.name.split()) or None,
            is_declared=True,
            characters=(reference.start_character, reference.end_character) if reference.end_character else None,
        )
        sources.setdefault(source.node, source)
    return list(sources.values())


def _check(references: Sequence[memory_pb2.SourceReference], path: str) -> None:
    """Raise FieldInvalid and TextNotStorable for ids and names that nothing can have."""
    check_storable([(f"{path}.name", reference.name) for reference in references], [])
    for place, reference in enumerate(references):
        if KINDS[reference.kind] == "message" and parse_id(reference.id) is None:
            raise FieldInvalid(violations=[(f"{path}[{place}].id", "is no UUID")])
        if not reference.id and not source_key(reference.name):
            raise FieldInvalid(violations=[(f"{path}[{place}].name", "holds only spaces")])


async def _memory_ids(
    tx: Transaction,
    tenant_id: UUID,
    references: Sequence[memory_pb2.SourceReference],
    *,
    at: datetime,
    is_import: bool,
) -> dict[str, UUID]:
    """Return the ids of the named memories that are visible; of an import those of the others too."""
    named = [one.id for one in references if one.kind == memory_pb2.SOURCE_KIND_MEMORY]
    if not named:
        return {}
    rows = await names.read_by_names(tx, QUERIES["find_visible"], tenant_id, named, at=at)
    unknown = {name: id_ for name in named if is_import and (id_ := parse_id(name)) is not None}
    return unknown | {name: row["memory_id"] for name, row in rows.items()}


async def _message_ids(
    tx: Transaction, tenant_id: UUID, references: Sequence[memory_pb2.SourceReference], *, path: str, is_import: bool
) -> dict[str, UUID]:
    """Return the ids of the messages that are there; of an import all of them. Raises FieldInvalid."""
    ids = {
        one.id: id_
        for one in references
        if one.kind == memory_pb2.SOURCE_KIND_MESSAGE and (id_ := parse_id(one.id)) is not None
    }
    if not ids or is_import:
        return ids
    rows = await tx.rows(QUERIES["read_lineage_messages"], tenant_id=tenant_id, message_ids=sorted(set(ids.values())))
    counts = {row["message_id"]: row["character_count"] for row in rows if row["is_active"]}
    for place, one in enumerate(references):
        if one.id in ids and one.end_character > counts.get(ids[one.id], one.end_character):
            raise FieldInvalid(violations=[(f"{path}[{place}].end_character", "is behind the end of the message")])
    return {name: id_ for name, id_ in ids.items() if id_ in counts}


def references(sources: Sequence[Source], written_by: Iterable[str]) -> list[memory_pb2.SourceReference]:
    """Return sources as an export has them: what the text was made of, without what is erased.

    An export names two principals that wrote it, `written_by`. Others are agents there. No more sources than an import
    takes.
    """
    others = {source.name for source in sources if source.is_principal and source.name} - set(written_by)
    return [
        *(memory_pb2.SourceReference(kind=memory_pb2.SOURCE_KIND_AGENT, name=name) for name in sorted(others)),
        *_declarable(sources),
    ][:MAX_DECLARED_SOURCES]


def _characters(source: Source) -> dict[str, int]:
    start, end = source.characters or (0, 0)
    return {"start_character": start, "end_character": end}


def _declarable(sources: Iterable[Source]) -> list[memory_pb2.SourceReference]:
    return [
        memory_pb2.SourceReference(
            kind=_NUMBERS[source.kind],
            id="" if source.source_id is None else str(source.source_id),
            name=source.name or "",
            **_characters(source),
        )
        for source in sources
        if not source.is_principal and source.role == "part" and not source.is_erased
    ]


def lineage(
    value: Lineage, memory_ids: Sequence[UUID], reader: memory_pb2.ScopeContext | None, *, may_read_messages: bool
) -> pb.GetLineageResponse:
    """Return the graph of some memories as a reader sees it."""
    calculator = TrustCalculator(value.graph)
    numbers: dict[NodeKey, int] = {}
    response = pb.GetLineageResponse(truncated=bool(value.graph.cut))
    pending: list[tuple[NodeKey, Source | None]] = [(("memory", id_), None) for id_ in memory_ids]
    while pending:
        key, source = pending.pop(0)
        if key in numbers:
            continue
        numbers[key] = len(numbers)
        node = value.graph.nodes.get(key)
        shown = _node(value, key, source, reader, may_read_messages=may_read_messages)
        shown.number = numbers[key]
        erased_trust = None if source is None else source.erased_trust
        shown.trust = calculator.trust(key) if erased_trust is None else min(0.5, erased_trust)
        sources = [one for one in (() if node is None else node.sources) if not one.is_principal]
        shown.is_origin = key not in value.graph.cut and not any(one.role == "part" for one in sources)
        response.nodes.append(shown)
        if shown.state == pb.LINEAGE_STATE_HIDDEN and key[0] == "memory":
            # What a hidden memory was made of may tell what it says.
            continue
        pending += [(one.node, one) for one in sources]
    for key, number in numbers.items():
        if response.nodes[number].state == pb.LINEAGE_STATE_HIDDEN:
            continue
        node = value.graph.nodes.get(key)
        for source in () if node is None else node.sources:
            if not source.is_principal:
                source_number = numbers[source.node]
                is_shown = response.nodes[source_number].state == pb.LINEAGE_STATE_SHOWN
                response.edges.add(
                    memory_number=number,
                    source_number=source_number,
                    role=_ROLES[source.role],
                    **(_characters(source) if is_shown else {}),
                )
    return response


def _node(
    value: Lineage,
    key: NodeKey,
    source: Source | None,
    reader: memory_pb2.ScopeContext | None,
    *,
    may_read_messages: bool,
) -> pb.LineageNode:
    kind, id_ = key
    node = pb.LineageNode(kind=_NUMBERS[kind], state=pb.LINEAGE_STATE_HIDDEN)
    if source is not None and source.is_erased:
        node.state = pb.LINEAGE_STATE_ERASED
    elif kind == "memory":
        row = value.memories.get(id_)  # type: ignore[arg-type] # a memory has an id.
        if row is not None and row["is_visible"] and _sees(reader, row, visible_to):
            node.MergeFrom(_memory(row, value.graph.nodes[key].sources))
    elif kind == "message":
        row = value.messages.get(id_)  # type: ignore[arg-type] # a message has an id.
        is_readable = row is not None and row["is_active"] and may_read_messages
        if row is not None and is_readable and _sees(reader, row, message_visible_to):
            node.state = pb.LINEAGE_STATE_SHOWN
            node.id, node.label, node.written_by = str(id_), row["session_id"], row["created_by"]
            node.MergeFrom(pb.LineageNode(create_time=to_timestamp(row["create_time"])))
    elif source is not None:
        node.state, node.name = pb.LINEAGE_STATE_SHOWN, source.name or ""
    return node


def _memory(row: asyncpg.Record, sources: Iterable[Source]) -> pb.LineageNode:
    writer = next((source.name for source in sources if source.kind == "writer"), None)
    label = row["title"] or row["key"] or ("" if row["type"] == memory_type.VAULT else row["beginning"])
    return pb.LineageNode(
        state=pb.LINEAGE_STATE_SHOWN,
        id=str(row["memory_id"]),
        label=" ".join(label.split())[:_LABEL_CHARACTERS],
        written_by=writer or row["created_by"],
        create_time=to_timestamp(row["create_time"]),
    )


def _sees(
    reader: memory_pb2.ScopeContext | None, row: asyncpg.Record, condition: Callable[[str, str, str], Expression]
) -> bool:
    """Return whether a reader sees a row; without a reader every row is seen."""
    return reader is None or matches(condition(reader.agent_id, reader.subject_id, reader.session_id), dict(row))
