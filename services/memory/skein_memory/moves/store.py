"""Moves in the database: all rows of a memory or block leave a space and arrive in another one together."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from uuid import UUID

from skein_kit.calls.call import bound_agent_id
from skein_kit.database.transactions import Transaction, translate_constraint_errors
from skein_kit.errors import ExternalIdTaken
from skein_kit.ids import parse_id
from skein_memory.blocks import store as blocks
from skein_memory.blocks.model import MAX_BLOCKS_PER_AGENT
from skein_memory.errors import (
    AgentBlocksFull,
    AliasApart,
    BlockExists,
    BlockLabelTaken,
    BlockNotFound,
    MemoryArchived,
    MemoryNotFound,
)
from skein_memory.events import writer
from skein_memory.events.model import Event
from skein_memory.memories import names, writes
from skein_memory.memories.model import FactKey, Memory
from skein_memory.queries import QUERIES

# Of what a memory has rows with its space.
_MOVES = (
    "move_memories",
    "move_links",
    "move_versions",
    "move_tasks",
    "move_pending_changes",
    "move_documents",
    "move_former_documents",
)


async def move_memories(
    tx: Transaction,
    tenant_id: UUID,
    memory_names: Sequence[str],
    source_id: UUID,
    target_id: UUID,
    *,
    at: datetime,
    by: str,
) -> list[UUID]:
    """Move memories, deleted and expired ones too, from the space that the transaction reaches to another one.

    Their names and fact keys move along where they have them. Neither revision nor times change. Return their ids.
    Raises MemoryNotFound, MemoryArchived, AliasApart, ExternalIdTaken and FactKeyTaken.
    """
    # As every change of aliases does, before memories are locked.
    await tx.execute(QUERIES["lock_aliases"], tenant_id=tenant_id)
    rows = await names.read_by_names(tx, QUERIES["find_memories"], tenant_id, memory_names)
    ids = list(dict.fromkeys(row["memory_id"] for row in rows.values()))
    memories = await writes.lock_memories(tx, tenant_id, ids)
    if len(rows) < len(set(memory_names)) or len(memories) < len(ids):
        await _refuse_archived(tx, tenant_id, set(memory_names) - rows.keys())
        raise MemoryNotFound
    apart_id = await tx.value(QUERIES["find_alias_apart"], tenant_id=tenant_id, memory_ids=ids)
    if apart_id is not None:
        raise AliasApart(memory_id=apart_id)
    held_names, held_keys = await _release_names(tx, tenant_id, memories.values())
    # A restore of a copy in the former space would bring the text back there.
    await tx.execute(QUERIES["purge_memory_snapshot_items"], tenant_id=tenant_id, memory_ids=ids)

    # A link may lead to a third space, and a former version may be another agent's.
    await tx.set_spaces(None)
    for name in _MOVES:
        await tx.execute(QUERIES[name], tenant_id=tenant_id, space_id=target_id, memory_ids=ids)
    await tx.execute(
        QUERIES["move_changes"], tenant_id=tenant_id, space_id=target_id, entity_ids=[str(id_) for id_ in ids]
    )

    await tx.set_spaces([source_id])
    await writer.insert_events(tx, tenant_id, [_event(memories[id_], "left") for id_ in ids], at=at, by=by)
    await tx.set_spaces([target_id])
    await writer.insert_events(tx, tenant_id, [_event(memories[id_], "arrived") for id_ in ids], at=at, by=by)
    taken_name = await names.claim_external_ids(tx, tenant_id, held_names, at=at)
    if taken_name is not None:
        raise ExternalIdTaken(external_id=taken_name)
    taken_key = await names.claim_fact_keys(tx, tenant_id, held_keys, at=at)
    if taken_key is not None:
        raise names.key_taken(taken_key[0], taken_key[2])
    await tx.set_spaces([source_id])
    return ids


async def _refuse_archived(tx: Transaction, tenant_id: UUID, memory_names: Collection[str]) -> None:
    """Raise MemoryArchived if one of some memories lies in cold storage: its file has the rows of one space.

    Whose agent's it is stands in the file too, so a caller that is bound to an agent learns of none.
    """
    if bound_agent_id():
        return
    archived = await tx.row(
        QUERIES["find_archived"],
        tenant_id=tenant_id,
        memory_ids=[id_ for name in memory_names if (id_ := parse_id(name)) is not None],
        external_ids=list(memory_names),
    )
    if archived is not None:
        raise MemoryArchived(memory_id=archived["memory_id"], archive_id=archived["archive_id"])


async def _release_names(
    tx: Transaction, tenant_id: UUID, memories: Collection[Memory]
) -> tuple[list[tuple[str, UUID]], list[tuple[FactKey, UUID]]]:
    """Delete the external ids and fact keys that memories hold, and return them: an expired one may hold none."""
    name_holders = await names.external_id_holders(tx, tenant_id, [memory.draft.external_id for memory in memories])
    key_holders = await names.fact_key_holders(tx, tenant_id, [memory.fact_key for memory in memories])
    ids = [memory.memory_id for memory in memories]
    await tx.execute(QUERIES["purge_memory_external_ids"], tenant_id=tenant_id, memory_ids=ids)
    await tx.execute(QUERIES["purge_memory_fact_keys"], tenant_id=tenant_id, memory_ids=ids)
    return (
        [
            (name, memory.memory_id)
            for memory in memories
            if (name := memory.draft.external_id) is not None and name_holders.get(name) == memory.memory_id
        ],
        [
            (key, memory.memory_id)
            for memory in memories
            if (key := memory.fact_key) is not None and key_holders.get(key) == memory.memory_id
        ],
    )


async def move_block(
    tx: Transaction, tenant_id: UUID, block_id: str, source_id: UUID, target_id: UUID, *, at: datetime, by: str
) -> None:
    """Move a block, a deleted one too, with its agents, from the space that the transaction reaches to another one.

    Neither revision nor times change. Raises BlockNotFound, BlockExists, BlockLabelTaken and AgentBlocksFull.
    """
    block = await blocks.lock_if_exists(tx, tenant_id, block_id)
    if block is None:
        raise BlockNotFound
    key = {"tenant_id": tenant_id, "block_id": block_id}
    agents = [row["agent_id"] for row in await tx.rows(QUERIES["list_agents_of_block"], **key)]
    # A restore of a copy in the former space would bring the text back there.
    await tx.execute(QUERIES["purge_memory_block_copies"], tenant_id=tenant_id, block_ids=[block_id])

    await tx.set_spaces([target_id])
    label, subject_id = block.draft.label, block.draft.subject_id
    for agent_id in agents:
        agent_key = {"tenant_id": tenant_id, "agent_id": agent_id, "subject_id": subject_id}
        await tx.rows(QUERIES["lock_agent"], tenant_id=tenant_id, agent_id=agent_id)
        if block.is_active and await tx.value(QUERIES["count_agent_blocks"], **agent_key) >= MAX_BLOCKS_PER_AGENT:
            raise AgentBlocksFull(limit=MAX_BLOCKS_PER_AGENT)
        await tx.execute(QUERIES["release_label"], **agent_key, label=label)
    await tx.set_spaces(None)
    taken = {"blocks_pkey": BlockExists(block_id=block_id), "block_agents_label_key": BlockLabelTaken(label=label)}
    with translate_constraint_errors(taken):
        await tx.execute(QUERIES["move_block"], **key, space_id=target_id, source_id=source_id)
    for space_id, direction in ((source_id, "left"), (target_id, "arrived")):
        await tx.set_spaces([space_id])
        event = Event(
            type="block_moved",
            entity_type="block",
            entity_id=block_id,
            summary=f"block {direction} by a move between spaces",
            payload={"revision": block.revision, "direction": direction},
        )
        await writer.insert_events(tx, tenant_id, [event], at=at, by=by)
    await tx.set_spaces([source_id])


def _event(memory: Memory, direction: str) -> Event:
    """Return the event of one of the two spaces, which does not name the other one: its readers may not see that."""
    return Event(
        type="memory_moved",
        entity_type="memory",
        entity_id=str(memory.memory_id),
        summary=f"{memory.draft.type} {direction} by a move between spaces",
        payload={"type": memory.draft.type, "revision": memory.revision, "direction": direction},
    )
