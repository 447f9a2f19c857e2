"""Writes of memories within a transaction: locked, inserted and updated, with all their dependent rows.

Every change of a memory goes through `insert_memories` and `update_memory`: they keep its tags, names, document in
the search index, earlier version and event together.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import asdict
from dataclasses import replace as but
from datetime import datetime
from types import MappingProxyType
from uuid import UUID

from skein_kit.admission.processor_time import run_by_size, with_pauses
from skein_kit.database.transactions import Insert, Transaction
from skein_kit.errors import ExternalIdTaken
from skein_kit.filters.fields import properties_of
from skein_kit.policies.store import PolicyCache
from skein_kit.search_text import postings
from skein_kit.search_text.postings import Document
from skein_kit.text.source_keys import source_key
from skein_memory.errors import MemoryNotFound
from skein_memory.events import writer
from skein_memory.events.model import time_of_next_record
from skein_memory.lineage import changes
from skein_memory.lineage import store as lineage
from skein_memory.lineage.model import Source
from skein_memory.memories import names, oldest
from skein_memory.memories import rows as memory_rows
from skein_memory.memories.model import DRAFT_FIELDS, Memory, archive, memory_event
from skein_memory.queries import QUERIES
from skein_memory.scoring.model import ScoreInputs, score_memory
from skein_memory.tasks.model import Task

_DRAFT_COLUMNS = tuple(name for name in DRAFT_FIELDS if name != "tags")
# Columns that no change touches.
_IMMUTABLE_COLUMNS = frozenset({"external_id", "create_time", "created_by"})


async def insert_memories(
    tx: Transaction,
    tenant_id: UUID,
    memories: Sequence[Memory],
    documents: Sequence[Document],
    *,
    at: datetime,
    sources: Mapping[UUID, Sequence[Source]] = MappingProxyType({}),
) -> None:
    """Store memories with tags, names, documents, sources and events.

    The caller charges the quota and has created the months. Raises ExternalIdTaken and FactKeyTaken, with the "index"
    of the memory, LineageCycle and LineageTooLong.
    """
    if not memories:
        return
    size = memory_rows.size_of(memories)
    events = [memory_event("memory_created", memory) for memory in memories]
    await oldest.include(tx, tenant_id, min(memory.memory_id for memory in memories))
    columns = await run_by_size(size, lambda: [_columns(memory) for memory in with_pauses(memories)])
    keys = lineage.keys_of(memories)
    ratings = await tx.insert_all(
        tenant_id,
        [
            (QUERIES["insert_memories"], columns),
            writer.new_changes(events, at=at, by=memories[0].created_by),
            (QUERIES["insert_tags"], [row for memory in memories for row in _tags(memory)]),
            _new_tasks(memories),
            _new_properties(memories),
            *await postings.new_documents(tx, tenant_id, documents),
            lineage.new_sources(sources),
        ],
        then=QUERIES["read_trust"],
        source_keys=sorted({key for listed in keys.values() for key in listed}),
    )
    await _claim_names(tx, tenant_id, memories, at=at)
    await lineage.rate_new(tx, tenant_id, keys, {row["source_key"] for row in ratings}, sources, at=at)


async def lock_memory(tx: Transaction, tenant_id: UUID, name: str) -> Memory:
    """Read a memory, by id or external id, and lock it. Raises MemoryNotFound."""
    lock_row = await names.read_by_name(tx, QUERIES["lock_memory"], tenant_id, name)
    if lock_row is None:
        raise MemoryNotFound
    rows = await tx.rows(QUERIES["get_memories"], tenant_id=tenant_id, memory_ids=[lock_row["memory_id"]])
    return memory_rows.memory_of(rows[0])


async def lock_memories(tx: Transaction, tenant_id: UUID, memory_ids: Sequence[UUID]) -> dict[UUID, Memory]:
    """Read and lock memories, deleted ones too, until the transaction ends; missing ones are left out.

    They are locked in the order of their ids, so that two transactions never wait for each other.
    """
    ids = sorted(set(memory_ids))
    await tx.rows(QUERIES["lock_memories"], tenant_id=tenant_id, memory_ids=ids)
    rows = await tx.rows(QUERIES["get_memories"], tenant_id=tenant_id, memory_ids=ids)
    return {row["memory_id"]: memory_rows.memory_of(row) for row in rows}


async def update_memory(
    tx: Transaction,
    tenant_id: UUID,
    before: Memory,
    after: Memory,
    *,
    at: datetime,
    event: str = "memory_updated",
    by: str | None = None,
) -> list[Document]:
    """Store the next revision of a locked memory and the version before, and record the event.

    `by` is the principal of the event where it differs from the memory's updated_by.

    Return the documents that were added to the index. The caller charges the quota. Raises FactKeyTaken, and
    ExternalIdTaken when an expired memory comes back.
    """
    after = but(after, record_time=time_of_next_record(before.record_time, at))
    values = {name: value for name, value in _columns(after).items() if name not in _IMMUTABLE_COLUMNS}
    await tx.insert(QUERIES["insert_versions"], tenant_id, [_version(before, until=after.record_time)])
    await tx.execute(
        QUERIES["update_memory"],
        tenant_id=tenant_id,
        is_active=after.is_active,
        delete_time=after.delete_time,
        revision=after.revision,
        **values,
    )
    await _replace_tags(tx, tenant_id, before, after)
    # While it was expired, another memory may have taken its names.
    is_revived = before.is_expired(at) and not after.is_expired(at)
    if before.fact_key != after.fact_key or is_revived:
        await _replace_fact_key(tx, tenant_id, before, after, at=at)
    if is_revived and (name := after.draft.external_id) is not None:
        conflicting_id = await names.claim_external_ids(tx, tenant_id, [(name, after.memory_id)], at=at)
        if conflicting_id is not None:
            raise ExternalIdTaken(external_id=conflicting_id)
    await _replace_task(tx, tenant_id, before, after)
    await _replace_properties(tx, tenant_id, before, after)
    await changes.record_change(tx, tenant_id, before, after, at=at)
    changed_fields = [name for name in DRAFT_FIELDS if getattr(before.draft, name) != getattr(after.draft, name)]
    await writer.insert_events(
        tx, tenant_id, [memory_event(event, after, changed_fields)], at=at, by=by or after.updated_by
    )
    if before.needs_reindex:
        return await reindex(tx, tenant_id, after, at=at)
    return await _reindex(tx, tenant_id, before.index_document, after.document(at))


async def archive_memories(
    tx: Transaction, tenant_id: UUID, memories: Iterable[Memory], *, event: str, at: datetime, by: str
) -> None:
    """Archive locked memories; those that are archived already stay as they are."""
    for before in memories:
        after = archive(before, at=at, by=by)
        if after is not before:
            await update_memory(tx, tenant_id, before, after, at=at, event=event)


async def reindex(tx: Transaction, tenant_id: UUID, memory: Memory, *, at: datetime) -> list[Document]:
    """Replace the documents of a memory in the index; return the new ones."""
    await postings.remove_documents(tx, tenant_id, [memory.memory_id])
    document = memory.document(at)
    documents = [] if document is None else [document]
    await postings.add_documents(tx, tenant_id, documents)
    return documents


async def reindex_outdated(tx: Transaction, tenant_id: UUID, *, at: datetime, count: int) -> int:
    """Compute what follows from the text of some memories again that an older release stored; return how many."""
    rows = await tx.rows(QUERIES["lock_outdated"], tenant_id=tenant_id, count=count)
    if not rows:
        return 0
    stored_words = {row["memory_id"]: row["words"] for row in rows}
    memories = await memory_rows.read_memories(tx, tenant_id, list(stored_words))
    for memory_id, memory in memories.items():
        words = memory.draft.data_text
        await tx.execute(
            QUERIES["update_text"],
            tenant_id=tenant_id,
            memory_id=memory_id,
            words=words,
            content_hash=memory.draft.content_hash,
            fingerprint=memory.draft.fingerprint,
        )
        # The same text keeps its vectors.
        if words != stored_words[memory_id]:
            await reindex(tx, tenant_id, memory, at=at)
    return len(rows)


async def _reindex(
    tx: Transaction, tenant_id: UUID, before_document: Document | None, after_document: Document | None
) -> list[Document]:
    """Update a memory's document in the index; return the documents that were added. The old one may be gone."""
    # A title that becomes the key leaves the text as it was, but the index has the key in a column of its own.
    if (
        before_document is not None
        and after_document is not None
        and _text_columns(before_document) == _text_columns(after_document)
    ):
        if but(before_document, revision=after_document.revision) == after_document:
            return []
        # The same text has the same vectors, so these stay.
        is_updated = await postings.update_document(
            tx,
            tenant_id,
            after_document,
            has_new_header=before_document.header != after_document.header,
            has_new_session=before_document.session_id != after_document.session_id,
        )
        if is_updated:
            return []
    elif before_document is not None:
        await postings.remove_documents(tx, tenant_id, [before_document.item_id])
    documents = [] if after_document is None else [after_document]
    await postings.add_documents(tx, tenant_id, documents)
    return documents


def _text_columns(document: Document) -> tuple[str | None, ...]:
    return document.text, document.embedded_text, document.key


async def _replace_tags(tx: Transaction, tenant_id: UUID, before: Memory, after: Memory) -> None:
    if before.draft.tags == after.draft.tags:
        return
    removed_tags = sorted(set(before.draft.tags) - set(after.draft.tags))
    if removed_tags:
        await tx.execute(QUERIES["delete_tags"], tenant_id=tenant_id, memory_id=after.memory_id, tags=removed_tags)
    # All tags: remaining ones may have moved, and older releases stored no positions.
    await tx.insert(QUERIES["place_tags"], tenant_id, _tags(after))


def _tags(memory: Memory) -> list[dict[str, object]]:
    return [
        {"memory_id": memory.memory_id, "tag": tag, "position": position}
        for position, tag in enumerate(memory.draft.tags)
    ]


async def _claim_names(tx: Transaction, tenant_id: UUID, memories: Sequence[Memory], *, at: datetime) -> None:
    ids = [memory.memory_id for memory in memories]
    expired_ids = {memory.memory_id for memory in memories if memory.is_expired(at)}
    indexes = {name: index for index, memory in enumerate(memories) if (name := memory.draft.external_id) is not None}
    if indexes:
        claims = [(name, ids[index]) for name, index in indexes.items()]
        conflicting_id = await names.claim_external_ids(tx, tenant_id, claims, at=at, expired_ids=expired_ids)
        if conflicting_id is not None:
            raise ExternalIdTaken(external_id=conflicting_id, index=indexes[conflicting_id])
    if keys := [(key, memory.memory_id) for memory in memories if (key := memory.fact_key) is not None]:
        conflicting_key = await names.claim_fact_keys(tx, tenant_id, keys, at=at, expired_ids=expired_ids)
        if conflicting_key is not None:
            key, memory_id, holder_id = conflicting_key
            raise names.key_taken(key, holder_id, index=ids.index(memory_id))


async def _replace_fact_key(tx: Transaction, tenant_id: UUID, before: Memory, after: Memory, *, at: datetime) -> None:
    if before.fact_key is not None:
        await tx.execute(QUERIES["release_fact_key"], tenant_id=tenant_id, memory_id=before.memory_id)
    if after.fact_key is not None:
        key, memory_id = after.fact_key, after.memory_id
        expired_ids = {memory_id} if after.is_expired(at) else set()
        taken = await names.claim_fact_keys(tx, tenant_id, [(key, memory_id)], at=at, expired_ids=expired_ids)
        if taken is not None:
            raise names.key_taken(key, taken[2])


def _columns(memory: Memory) -> dict[str, object]:
    draft = memory.draft
    return {name: getattr(draft, name) for name in _DRAFT_COLUMNS} | {
        "memory_id": memory.memory_id,
        "content_hash": draft.content_hash,
        "words": draft.data_text,
        "fingerprint": draft.fingerprint,
        "update_time": memory.update_time,
        "record_time": memory.record_time,
        "created_by": memory.created_by,
        "updated_by": memory.updated_by,
    }


def _version(memory: Memory, *, until: datetime) -> dict[str, object]:
    return {name: getattr(memory.draft, name) for name in DRAFT_FIELDS} | {
        "memory_id": memory.memory_id,
        "revision": memory.revision,
        "delete_time": memory.delete_time,
        "update_time": memory.update_time,
        "fingerprint": memory.draft.fingerprint,
        "record_time": memory.record_time,
        "until_time": until,
        "content_hash": memory.draft.content_hash,
        "words": memory.draft.data_text,
        "created_by": memory.created_by,
        "updated_by": memory.updated_by,
    }


def _new_tasks(memories: Sequence[Memory]) -> Insert:
    """Return the rows of those memories that are tasks or objectives, and how to insert or replace them."""
    return QUERIES["put_task"], [asdict(task) for memory in memories if (task := Task.of(memory)) is not None]


async def _replace_task(tx: Transaction, tenant_id: UUID, before: Memory, after: Memory) -> None:
    """Update the row of a task or objective after a change of its memory."""
    if Task.of(after) is not None:
        await tx.insert_all(tenant_id, [_new_tasks([after])])
    elif Task.of(before) is not None:
        await tx.execute(QUERIES["delete_task"], tenant_id=tenant_id, memory_id=after.memory_id)


def _new_properties(memories: Sequence[Memory]) -> Insert:
    """Return the rows of the scalar properties of memories, by which lists are filtered, and how to insert them."""
    rows = [
        {"memory_id": memory.memory_id, "name": name, "value": value}
        for memory in memories
        for name, value in properties_of(memory.draft.metadata, memory.draft.data, key=memory.draft.key)
    ]
    return QUERIES["insert_properties"], rows


async def _replace_properties(tx: Transaction, tenant_id: UUID, before: Memory, after: Memory) -> None:
    """Update the properties of a memory."""
    properties_before = properties_of(before.draft.metadata, before.draft.data, key=before.draft.key)
    if properties_before != properties_of(after.draft.metadata, after.draft.data, key=after.draft.key):
        await tx.execute(QUERIES["delete_properties"], tenant_id=tenant_id, memory_id=after.memory_id)
        await tx.insert_all(tenant_id, [_new_properties([after])])


async def score_new_memories(
    tx: Transaction, tenant_id: UUID, policies: PolicyCache, memories: Sequence[Memory], *, at: datetime
) -> list[Memory]:
    """Return new memories with their scores: they have no links and no accesses yet."""
    keys = sorted({source_key(memory.draft.source) for memory in memories} - {""})
    trust: Mapping[str, float] = {}
    if keys:
        rows = await tx.rows(QUERIES["read_trust"], tenant_id=tenant_id, source_keys=keys)
        trust = {row["source_key"]: row["trust"] for row in rows}
    formula = (await policies.get(tx, tenant_id)).importance_formula
    return await run_by_size(
        memory_rows.size_of(memories),
        lambda: [
            score_memory(memory, ScoreInputs(trust=trust.get(source_key(memory.draft.source))), formula, at)
            for memory in with_pauses(memories)
        ],
    )


async def each_space_of(tx: Transaction, tenant_id: UUID, memory_ids: Sequence[UUID]) -> AsyncIterator[UUID]:
    """Have the transaction see, one after the other, the spaces in which memories lie, and yield each.

    For what follows a message wherever its facts are, and shows a caller none of them.
    """
    if not memory_ids:
        return
    async with tx.reading_all_spaces():
        rows = await tx.rows(QUERIES["spaces_of_memories"], tenant_id=tenant_id, memory_ids=list(memory_ids))
    for row in rows:
        await tx.set_spaces([row["space_id"]])
        yield row["space_id"]
