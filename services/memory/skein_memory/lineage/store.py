"""Sources of memories and their trust in the database.

Functions that take `tx` work in the caller's transaction, which holds the locks of the memories that it changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

import asyncpg

from skein_kit.database.named_queries import Query, as_of
from skein_kit.database.transactions import Database, Insert, Transaction
from skein_kit.database.tx_options import READ_ONLY
from skein_kit.lineage import purges
from skein_kit.text.source_keys import MessageAuthors
from skein_memory.errors import LineageCycle, LineageTooLong
from skein_memory.lineage.model import (
    MAX_DEPTH,
    MAX_NODES,
    Graph,
    ImpactFinder,
    Kind,
    Node,
    NodeKey,
    Source,
    TrustCalculator,
    node_keys,
    principals_of,
)
from skein_memory.memories.model import Memory
from skein_memory.queries import QUERIES
from skein_memory.scoring.model import NEUTRAL_TRUST
from skein_memory.tenant_reader import TenantReader

# The row of the work that stands for all memories, or those of a rated name; that which stands for the messages of a
# rated author; and the place before the first memory.
ALL_MEMORIES = UUID(int=0)
MESSAGES = UUID(int=1)
_FIRST = UUID(int=0)
# The positions of sources that Skein added, after those that callers declared; and of principals.
_FIRST_ADDED = 100
PRINCIPAL_POSITIONS: Mapping[Kind, int] = {"writer": -1, "editor": -2, "declarer": -3}
# Memories that one page of impacted ones scans.
_PAGE_MEMORIES = 500
# Memories whose chains are read together.
_READ_AT_ONCE = 200
# Differences below this are rounding.
_EPSILON = 1e-9


@dataclass(frozen=True, kw_only=True, slots=True)
class Lineage:
    """Memories with all that they derive from: the graph, and the rows of what is stored there."""

    graph: Graph
    memories: Mapping[UUID, asyncpg.Record]
    messages: Mapping[UUID, asyncpg.Record]

    @property
    def missing(self) -> set[NodeKey]:
        """The memories and messages that are neither here nor erased: they are in cold storage."""
        return {
            source.node
            for node in self.graph.nodes.values()
            for source in node.sources
            if source.source_id is not None
            and not source.is_erased
            and source.node not in self.graph.nodes
            and source.node not in self.graph.cut
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class ImpactedMemory:
    """A memory that derives from a source, with its stored trust."""

    memory_id: UUID
    trust: float
    has_erased_source: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ImpactedPage:
    """Some memories that derive from a source, and the last one that was scanned; None at the end.

    `is_truncated`: a chain was not followed to its origin.
    """

    memories: Sequence[ImpactedMemory]
    after_id: UUID | None
    is_truncated: bool


async def read_lineage(
    tx: Transaction, tenant_id: UUID, memory_ids: Iterable[UUID], *, at: datetime, is_as_of: bool = False
) -> Lineage:
    """Read memories with their sources, up to the origins: two statements more than there are steps.

    `is_as_of`: as they were at the transaction's time.
    """
    walk = await _walk(tx, tenant_id, memory_ids, is_as_of=is_as_of)
    sources, cut_ids = walk.sources, walk.cut_ids
    query = _query("read_lineage_memories", is_as_of=is_as_of)
    memory_rows = await tx.rows(query, tenant_id=tenant_id, memory_ids=list(sources), at=at)
    memories = {row["memory_id"]: row for row in memory_rows}
    message_ids = sorted(
        {
            source.source_id
            for listed in sources.values()
            for source in listed
            if source.kind == "message" and source.source_id
        }
    )
    messages: dict[UUID, asyncpg.Record] = {}
    if message_ids:
        query = _query("read_lineage_messages", is_as_of=is_as_of)
        message_rows = await tx.rows(query, tenant_id=tenant_id, message_ids=message_ids)
        messages = {row["message_id"]: row for row in message_rows}
    nodes: dict[NodeKey, Node] = {}
    for memory_id, row in memories.items():
        principals = principals_of(sources[memory_id], row["created_by"])
        nodes["memory", memory_id] = Node(
            keys=node_keys(*principals, row["source"], row["source_agent"]),
            sources=tuple(sources[memory_id]),
            principals=node_keys(*principals),
        )
    for message_id, row in messages.items():
        authors = MessageAuthors.of_row(row)
        nodes["message", message_id] = Node(keys=authors.keys, principals=authors.principals)
    for listed in sources.values():
        for source in listed:
            if source.source_id is None:
                nodes.setdefault(source.node, Node(keys=node_keys(source.name)))
    keys = {key for node in nodes.values() for key in node.keys}
    cut_trusts = await _read_trust(tx, tenant_id, cut_ids, is_as_of=is_as_of)
    graph = Graph(
        nodes=nodes,
        ratings=await read_ratings(tx, tenant_id, keys, is_as_of=is_as_of),
        cut={("memory", id_): trust for id_, trust in cut_trusts.items()},
    )
    return Lineage(graph=graph, memories=memories, messages=messages)


async def read_ratings(
    tx: Transaction, tenant_id: UUID, keys: Iterable[str], *, is_as_of: bool = False
) -> dict[str, float]:
    """Return the trust of source keys; those without a rating are left out."""
    source_keys = sorted(set(keys))
    if not source_keys:
        return {}
    rows = await tx.rows(_query("read_trust", is_as_of=is_as_of), tenant_id=tenant_id, source_keys=source_keys)
    return {row["source_key"]: row["trust"] for row in rows}


async def read_sources(
    tx: Transaction, tenant_id: UUID, memory_ids: Sequence[UUID], *, is_as_of: bool = False
) -> dict[UUID, list[Source]]:
    """Return the sources of memories, in order; those of the writers too."""
    query = _query("read_sources", is_as_of=is_as_of)
    rows = await tx.rows(query, tenant_id=tenant_id, memory_ids=list(memory_ids))
    sources: dict[UUID, list[Source]] = {}
    for row in rows:
        source = Source(
            kind=row["kind"],
            source_id=row["source_id"],
            name=row["name"],
            role=row["role"],
            erased_trust=row["erased_trust"],
            is_declared=0 <= row["position"] < _FIRST_ADDED,
            characters=None if row["end_character"] is None else (row["start_character"], row["end_character"]),
        )
        sources.setdefault(row["memory_id"], []).append(source)
    return sources


def keys_of(memories: Iterable[Memory]) -> dict[UUID, tuple[str, ...]]:
    """Return the source keys of what new memories were made by."""
    return {
        memory.memory_id: node_keys(memory.created_by, memory.draft.source, memory.draft.source_agent)
        for memory in memories
    }


async def rate_new(
    tx: Transaction,
    tenant_id: UUID,
    keys: Mapping[UUID, Sequence[str]],
    rated_keys: AbstractSet[str],
    sources: Mapping[UUID, Sequence[Source]],
    *,
    at: datetime,
) -> None:
    """Store the trust of those new memories, with the `keys` of each, that have stored sources or rated keys.

    Raises LineageCycle and LineageTooLong.
    """
    for memory_id, listed in sources.items():
        await check_acyclic(tx, tenant_id, memory_id, listed, is_new=True)
    due_ids = [id_ for id_, listed in keys.items() if sources.get(id_) or not rated_keys.isdisjoint(listed)]
    if due_ids:
        await rescore(tx, tenant_id, due_ids, at=at)


async def replace_sources(
    tx: Transaction, tenant_id: UUID, memory_id: UUID, sources: Sequence[Source], *, at: datetime, by: str
) -> None:
    """Replace the sources of a memory that callers declared; those that Skein added stay.

    The principal `by` counts for the trust of the memory from now on. Raises LineageCycle and LineageTooLong.
    """
    await check_acyclic(tx, tenant_id, memory_id, sources)
    listed = (await read_sources(tx, tenant_id, [memory_id])).get(memory_id, [])
    declared = {source.node for source in listed if source.is_declared}
    added = {source.node for source in listed if not source.is_declared}
    replacing = [source for source in sources if source.node not in added]
    if declared == {source.node for source in replacing}:
        return
    await tx.execute(
        QUERIES["delete_declared_sources"], tenant_id=tenant_id, memory_id=memory_id, first_added=_FIRST_ADDED
    )
    await tx.insert_all(tenant_id, [new_sources({memory_id: replacing})])
    await put_principal(tx, tenant_id, memory_id, "declarer", by)
    await rescore_with_derived(tx, tenant_id, [memory_id], at=at)


async def put_principal(
    tx: Transaction, tenant_id: UUID, memory_id: UUID, kind: Kind, name: str, *, position: int | None = None
) -> bool:
    """Store which principal changed a part of a memory last; return whether it was another one before."""
    (name_key,) = node_keys(name) or ("",)
    return bool(
        await tx.execute(
            QUERIES["put_principal"],
            tenant_id=tenant_id,
            memory_id=memory_id,
            position=PRINCIPAL_POSITIONS[kind] if position is None else position,
            kind=kind,
            name=name,
            name_key=name_key,
        )
    )


async def rescore(tx: Transaction, tenant_id: UUID, memory_ids: Sequence[UUID], *, at: datetime) -> list[UUID]:
    """Compute and store the trust of memories; return those whose trust changed."""
    changed_ids, _ = await rescore_with_cuts(tx, tenant_id, memory_ids, at=at)
    return changed_ids


async def rescore_with_cuts(
    tx: Transaction, tenant_id: UUID, memory_ids: Sequence[UUID], *, at: datetime
) -> tuple[list[UUID], set[UUID]]:
    """Compute and store the trust of memories; return those whose trust changed.

    Return too those of their sources behind which a chain was not followed to its origin.
    """
    if not memory_ids:
        return [], set()
    lineage = await read_lineage(tx, tenant_id, memory_ids, at=at)
    stored = await _read_trust(tx, tenant_id, memory_ids)
    calculator = TrustCalculator(lineage.graph)
    trusts = {id_: calculator.trust(("memory", id_)) for id_ in memory_ids if id_ in lineage.memories}
    # What is in cold storage is not known now: until it is back, no trust rises.
    finder = ImpactFinder(lineage.graph, lineage.missing)
    trusts = {
        id_: min(trust, stored[id_]) if finder.is_impacted(("memory", id_)) else trust for id_, trust in trusts.items()
    }
    changed = {id_: trust for id_, trust in trusts.items() if abs(trust - stored[id_]) > _EPSILON}
    rows = [
        {"memory_id": id_, "trust": trust} for id_, trust in changed.items() if abs(trust - NEUTRAL_TRUST) > _EPSILON
    ]
    await tx.insert(QUERIES["put_trust"], tenant_id, rows)
    neutral_ids = [id_ for id_ in changed if abs(changed[id_] - NEUTRAL_TRUST) <= _EPSILON]
    if neutral_ids:
        await tx.execute(QUERIES["delete_trust"], tenant_id=tenant_id, memory_ids=neutral_ids)
    computed, cut = set(memory_ids), ImpactFinder(lineage.graph, set(lineage.graph.cut))
    cut_sources = {
        source.source_id
        for id_ in trusts
        for source in lineage.graph.nodes["memory", id_].sources
        if source.source_id is not None and source.source_id not in computed and cut.is_impacted(source.node)
    }
    return list(changed), cut_sources


async def rescore_with_derived(tx: Transaction, tenant_id: UUID, memory_ids: Sequence[UUID], *, at: datetime) -> None:
    """Compute the trust of memories, and note what derives from those that changed for the worker."""
    await note(tx, tenant_id, await rescore(tx, tenant_id, memory_ids, at=at))


async def rescore_unarchived(tx: Transaction, tenant_id: UUID, memory_ids: Sequence[UUID], *, at: datetime) -> None:
    """Compute the trust of memories that are back from cold storage, and note those that others derive from."""
    for start in range(0, len(memory_ids), _READ_AT_ONCE):
        batch = memory_ids[start : start + _READ_AT_ONCE]
        await rescore(tx, tenant_id, batch, at=at)
        await note_used(tx, tenant_id, batch)


async def note_used(tx: Transaction, tenant_id: UUID, memory_ids: Sequence[UUID]) -> None:
    """Note those of some memories that others derive from: each row of the work costs a step."""
    rows = await tx.rows(QUERIES["find_used_sources"], tenant_id=tenant_id, source_ids=list(memory_ids))
    await note(tx, tenant_id, [row["source_id"] for row in rows])


async def note(tx: Transaction, tenant_id: UUID, memory_ids: Iterable[UUID]) -> None:
    """Have the worker compute the trust of what derives from memories and messages; of all for ALL_MEMORIES."""
    rows = [{"memory_id": id_, "source_key": "", "after_id": _FIRST} for id_ in sorted(set(memory_ids))]
    await tx.insert(QUERIES["note_rescores"], tenant_id, rows)


async def note_rating(tx: Transaction, tenant_id: UUID, key: str) -> None:
    """Have the worker compute the trust of what a source with a new rating made, and of what derives from it."""
    rows = [{"memory_id": id_, "source_key": key, "after_id": _FIRST} for id_ in (ALL_MEMORIES, MESSAGES)]
    await tx.insert(QUERIES["note_rescores"], tenant_id, rows)


async def mark_erased(tx: Transaction, tenant_id: UUID, memory_ids: Sequence[UUID], *, with_person: bool) -> None:
    """Mark memories that are purged as erased sources; call this before their rows go.

    If they are purged `with_person`, note what was made of them, so that the purge follows it.
    """
    if with_person:
        await purges.note_made_of(tx, tenant_id, memory_ids)
    trusts = await _read_trust(tx, tenant_id, memory_ids)
    rows = await tx.rows(
        QUERIES["mark_erased"], tenant_id=tenant_id, source_ids=list(trusts), trusts=list(trusts.values())
    )
    await tx.execute(
        QUERIES["mark_former_erased"], tenant_id=tenant_id, source_ids=list(trusts), trusts=list(trusts.values())
    )
    await note(tx, tenant_id, {row["source_id"] for row in rows})


async def check_acyclic(
    tx: Transaction, tenant_id: UUID, memory_id: UUID, sources: Sequence[Source], *, is_new: bool = False
) -> None:
    """Raise LineageCycle if a source is the memory or derives from it, LineageTooLong if that cannot be told.

    LineageTooLong too if a chain through the memory would be longer than is followed; from a new one nothing derives.
    """
    source_ids = [source.source_id for source in sources if source.kind == "memory" and source.source_id]
    if memory_id in source_ids:
        raise LineageCycle
    if not source_ids:
        return
    walk = await _walk(tx, tenant_id, source_ids)
    if memory_id in walk.sources:
        raise LineageCycle
    derived_count = 1 if is_new else await _count_derived_levels(tx, tenant_id, memory_id)
    if walk.cut_ids or walk.level_count + derived_count > MAX_DEPTH:
        raise LineageTooLong


async def add_sources(
    tx: Transaction, tenant_id: UUID, memory_id: UUID, added: Sequence[Source], *, at: datetime, max_count: int
) -> None:
    """Add sources to a memory, up to `max_count` of them all.

    A source that derives from the memory itself is replaced by its own sources, so that no cycle arises. So is one
    whose chain would become too long.
    """
    listed = [
        source
        for source in (await read_sources(tx, tenant_id, [memory_id])).get(memory_id, [])
        if not source.is_principal
    ]
    known = {source.node for source in listed}
    pending, seen = list(added), set[UUID]()
    derived_count = await _count_derived_levels(tx, tenant_id, memory_id)
    while pending:
        source = pending.pop(0)
        if source.node in known or source.node == ("memory", memory_id):
            continue
        if source.kind == "memory" and source.source_id is not None:
            walk = await _walk(tx, tenant_id, [source.source_id])
            ancestors = walk.sources
            if memory_id in ancestors or walk.cut_ids or walk.level_count + derived_count > MAX_DEPTH:
                if source.source_id not in seen and source.role == "part":
                    seen.add(source.source_id)
                    pending += [
                        replace(one, is_declared=False) for one in ancestors[source.source_id] if not one.is_principal
                    ]
                    pending += await _writers_of(tx, tenant_id, source.source_id, ancestors[source.source_id], at=at)
                continue
        known.add(source.node)
        listed.append(source)
    await tx.execute(QUERIES["delete_sources"], tenant_id=tenant_id, memory_id=memory_id)
    # Of too many sources the parts stay: others do not limit the trust.
    listed.sort(key=lambda source: source.role != "part")
    await tx.insert_all(tenant_id, [new_sources({memory_id: listed[:max_count]})])
    await rescore_with_derived(tx, tenant_id, [memory_id], at=at)


async def own_origin(tx: Transaction, tenant_id: UUID, memory_id: UUID, *, at: datetime) -> list[Source]:
    """Return the principals that wrote a memory, as sources of a text that takes it in."""
    listed = (await read_sources(tx, tenant_id, [memory_id])).get(memory_id, [])
    return await _writers_of(tx, tenant_id, memory_id, listed, at=at)


async def find_distrusted(
    tx: Transaction, tenant_id: UUID, memory_ids: Sequence[UUID], *, is_as_of: bool = False
) -> set[UUID]:
    """Return which of some memories have less than the neutral trust."""
    trusts = await _read_trust(tx, tenant_id, memory_ids, is_as_of=is_as_of)
    return {id_ for id_, trust in trusts.items() if trust < NEUTRAL_TRUST}


async def is_distrusted(tx: Transaction, tenant_id: UUID, principal: str) -> bool:
    """Return whether a principal is rated below the neutral trust."""
    ratings = await read_ratings(tx, tenant_id, node_keys(principal))
    return any(trust < NEUTRAL_TRUST for trust in ratings.values())


def _query(name: str, *, is_as_of: bool) -> Query:
    return as_of(QUERIES[name]) if is_as_of else QUERIES[name]


class LineageStore:
    """Reads lineages, and computes the trust of what derives from changed sources."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(
        self, tenant_id: UUID, memory_names: Sequence[str], as_of_time: datetime | None, *, at: datetime
    ) -> tuple[list[UUID], Lineage]:
        """Return the ids of memories, by id or external id, each once, and their lineage, as of a time.

        Raises MemoryNotFound; and for a time MemoryNotYetKnown, NotKnownThen and HistoryNotKept.
        """
        async with TenantReader.open(self._database, tenant_id, at=at, as_of_time=as_of_time) as reader:
            ids = await reader.find_visible(memory_names)
            memory_ids = list(dict.fromkeys(ids[name] for name in memory_names))
            return memory_ids, await read_lineage(
                reader.tx, tenant_id, memory_ids, at=reader.at, is_as_of=as_of_time is not None
            )

    async def list_impacted(
        self, tenant_id: UUID, source: NodeKey, *, after_id: UUID | None, count: int, at: datetime
    ) -> ImpactedPage:
        """Return some memories after one that derive from a source, and where the next page begins."""
        is_named = source[0] not in {"message", "memory"}
        query = QUERIES["walk_memory_ids" if is_named else "walk_derived_ids"]
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            rows = await tx.rows(query, tenant_id=tenant_id, after_id=after_id or _FIRST, count=_PAGE_MEMORIES)
            memory_ids = [row["memory_id"] for row in rows]
            is_last = len(memory_ids) < _PAGE_MEMORIES
            lineage = await read_lineage(tx, tenant_id, memory_ids, at=at)
            while lineage.graph.cut and len(memory_ids) > 1:
                # Fewer memories have fewer sources, so that their chains may be followed to the end.
                memory_ids, is_last = memory_ids[: max(1, len(memory_ids) // 8)], False
                lineage = await read_lineage(tx, tenant_id, memory_ids, at=at)
            trusts = await _read_trust(tx, tenant_id, memory_ids)
        finder = ImpactFinder(lineage.graph, {source})
        impacted = [id_ for id_ in memory_ids if ("memory", id_) != source and finder.is_impacted(("memory", id_))]
        next_id = None if is_last else memory_ids[-1]
        if len(impacted) > count:
            impacted = impacted[:count]
            next_id = impacted[-1]
        return ImpactedPage(
            memories=[
                ImpactedMemory(
                    memory_id=id_,
                    trust=trusts[id_],
                    has_erased_source=any(one.is_erased for one in lineage.graph.nodes["memory", id_].sources),
                )
                for id_ in impacted
            ],
            after_id=next_id,
            is_truncated=bool(lineage.graph.cut),
        )


async def _writers_of(
    tx: Transaction, tenant_id: UUID, memory_id: UUID, sources: Sequence[Source], *, at: datetime
) -> list[Source]:
    """Return the statements of the principals that wrote a memory, as sources."""
    row = await tx.row(QUERIES["read_lineage_memories"], tenant_id=tenant_id, memory_ids=[memory_id], at=at)
    return [
        Source(kind="agent", name=name) for name in principals_of(sources, None if row is None else row["created_by"])
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Walk:
    """Memories and all that they derive from with their sources, and those that were not followed any more."""

    sources: Mapping[UUID, list[Source]]
    cut_ids: AbstractSet[UUID]
    # Steps that were followed; the memories themselves are the first.
    level_count: int


async def _walk(tx: Transaction, tenant_id: UUID, memory_ids: Iterable[UUID], *, is_as_of: bool = False) -> _Walk:
    sources: dict[UUID, list[Source]] = {}
    frontier, level_count = list(dict.fromkeys(memory_ids)), 0
    while frontier and level_count < MAX_DEPTH and len(sources) + len(frontier) <= MAX_NODES:
        level_count += 1
        found = await read_sources(tx, tenant_id, frontier, is_as_of=is_as_of)
        sources |= {id_: found.get(id_, []) for id_ in frontier}
        frontier = list(
            dict.fromkeys(
                source.source_id
                for listed in found.values()
                for source in listed
                if source.kind == "memory"
                and source.source_id not in sources
                and not source.is_erased
                and source.source_id
            )
        )
    return _Walk(sources=sources, cut_ids=set(frontier), level_count=level_count)


async def _count_derived_levels(tx: Transaction, tenant_id: UUID, memory_id: UUID) -> int:
    """Return how many steps derive from a memory, itself included; more than MAX_DEPTH where there are too many."""
    frontier, seen, level_count = [memory_id], {memory_id}, 0
    while frontier:
        level_count += 1
        if level_count > MAX_DEPTH or len(seen) > MAX_NODES:
            return MAX_DEPTH + 1
        rows = await tx.rows(
            QUERIES["find_derived_of_some"], tenant_id=tenant_id, source_ids=frontier, count=MAX_NODES + 1
        )
        frontier = [row["memory_id"] for row in rows if row["memory_id"] not in seen]
        seen.update(frontier)
    return level_count


def new_sources(sources: Mapping[UUID, Sequence[Source]]) -> Insert:
    """Return the rows of the sources of memories, and how to insert them."""
    rows = [
        {
            "memory_id": memory_id,
            "position": place + (0 if source.is_declared else _FIRST_ADDED),
            "kind": source.kind,
            "role": source.role,
            "source_id": source.source_id,
            "name": source.name,
            "name_key": source.name_key,
            "erased_trust": source.erased_trust,
            "start_character": None if source.characters is None else source.characters[0],
            "end_character": None if source.characters is None else source.characters[1],
        }
        for memory_id, listed in sources.items()
        for place, source in enumerate(listed)
    ]
    return QUERIES["insert_sources"], rows


async def _read_trust(
    tx: Transaction, tenant_id: UUID, memory_ids: Iterable[UUID], *, is_as_of: bool = False
) -> dict[UUID, float]:
    """Return the stored trust of memories."""
    ids = list(memory_ids)
    if not ids:
        return {}
    rows = await tx.rows(_query("read_stored_trust", is_as_of=is_as_of), tenant_id=tenant_id, memory_ids=ids)
    return dict.fromkeys(ids, NEUTRAL_TRUST) | {row["memory_id"]: row["trust"] for row in rows}
