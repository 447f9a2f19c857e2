"""Reads of a tenant's memory as items, kind by kind in batches, now or as of a recent time.

Memories, links and blocks are read as of the time. Trust, aliases and conflicts are few, and are read as they are now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg

from skein.memory.v1 import curation_pb2, memory_pb2, snapshots_pb2
from skein_kit.database.transactions import Database, Transaction
from skein_kit.ids import parse_id
from skein_kit.json_values import exact
from skein_kit.rpc.well_known_types import to_timestamp
from skein_memory.blocks import convert as blocks_convert
from skein_memory.blocks.model import Block, revision_of
from skein_memory.blocks.store import block_of
from skein_memory.lineage import convert as lineage_convert
from skein_memory.lineage import store as lineage
from skein_memory.lineage.model import Source
from skein_memory.links import convert as links_convert
from skein_memory.links import store as link_store
from skein_memory.links.model import Link
from skein_memory.memories import convert as memories_convert
from skein_memory.memories import names, oldest
from skein_memory.memories import rows as memory_rows
from skein_memory.memories.model import Memory
from skein_memory.queries import QUERIES
from skein_memory.transfer.model import TransferItem

# Items, and the id of the last scanned one; None at the end of the kind.
ItemBatch = tuple[list[TransferItem], str | None]
# Waits for transactions that were open when a copy began.
_WAIT_SECONDS = 0.05
_WAIT_TRIES = 20
_NIL = UUID(int=0)
# After every id, as text.
_LAST_ID = "~"


async def wait_for_transactions(database: Database, tenant_id: UUID, horizon: int) -> bool:
    """Wait about a second for all transactions below a number; return whether they have ended."""
    for _ in range(_WAIT_TRIES):
        async with database.transaction(tenant_id) as tx:
            row = await tx.row(QUERIES["read_horizon"])
        if row is not None and row["oldest"] >= horizon:
            return True
        await asyncio.sleep(_WAIT_SECONDS)
    return False


async def next_transaction(database: Database, tenant_id: UUID) -> int:
    """Return the number of the next transaction."""
    async with database.transaction(tenant_id) as tx:
        row = await tx.row(QUERIES["read_horizon"])
    return 0 if row is None else int(row["next"])


async def read_batch(
    tx: Transaction, tenant_id: UUID, kind: str, *, after: str, count: int, at: datetime | None = None, now: datetime
) -> ItemBatch:
    """Read items of a kind in its own order, after the id `after`; with `at`, as of that time.

    Memories that have expired at the time `now` are left out, and items that name them.
    """
    items, last = await _BATCH_READERS[kind](tx, tenant_id, after, count, at)
    return await _without_expired(tx, tenant_id, kind, items, now=now), last


async def with_spaces(tx: Transaction, tenant_id: UUID, items: Sequence[TransferItem]) -> list[TransferItem]:
    """Return items with the spaces of their memories, where these do not lie in the default one."""
    memory_ids = [item.memory_id for item in items if item.memory_id is not None]
    rows = await tx.rows(QUERIES["find_other_spaces"], tenant_id=tenant_id, memory_ids=memory_ids)
    space_ids = {row["memory_id"]: row["space_id"] for row in rows}
    return [item if item.memory_id is None else replace(item, space_id=space_ids.get(item.memory_id)) for item in items]


async def read_by_ids(
    tx: Transaction, tenant_id: UUID, kind: str, item_ids: Sequence[str], *, now: datetime
) -> dict[str, TransferItem]:
    """Read existing items by id that have not expired at the time `now`."""
    items = await _READERS_BY_ID[kind](tx, tenant_id, item_ids)
    return {item.item_id: item for item in await _without_expired(tx, tenant_id, kind, items, now=now)}


def is_expired(item: TransferItem, now: datetime) -> bool:
    """Return whether an item is a memory that has expired at the time `now`."""
    message = item.message
    if not isinstance(message, memory_pb2.Memory) or not message.HasField("expire_time"):
        return False
    return message.expire_time.ToDatetime(tzinfo=UTC) <= now


async def _without_expired(
    tx: Transaction, tenant_id: UUID, kind: str, items: list[TransferItem], *, now: datetime
) -> list[TransferItem]:
    """Leave out expired memories, and items that name one."""
    if kind == "memory":
        return [item for item in items if not is_expired(item, now)]
    named_ids = {id_ for item in items for id_ in (item.memory_id, item.other_memory_id) if id_ is not None}
    expired = await names.find_hidden(tx, tenant_id, named_ids, at=now)
    return [item for item in items if expired.isdisjoint({item.memory_id, item.other_memory_id})]


async def _memories(tx: Transaction, tenant_id: UUID, after: str, count: int, at: datetime | None) -> ItemBatch:
    after_id = await oldest.skip_empty_months(tx, tenant_id, _id(after))
    rows = await tx.rows(QUERIES["next_memory_ids"], tenant_id=tenant_id, after_id=after_id, count=count)
    ids = [row["memory_id"] for row in rows]
    memories = await memory_rows.read_memories(tx, tenant_id, ids)
    if at is not None:
        newer_ids = [id_ for id_, memory in memories.items() if memory.record_time > at]
        if newer_ids:
            versions = await tx.rows(QUERIES["versions_as_of"], tenant_id=tenant_id, memory_ids=newer_ids, at=at)
            earlier_versions = {row["memory_id"]: memory_rows.memory_of(row) for row in versions}
            memories = {id_: memory for id_, memory in memories.items() if id_ not in set(newer_ids)} | earlier_versions
    sources = await lineage.read_sources(tx, tenant_id, ids)
    items = [_memory(memories[id_], sources.get(id_, ())) for id_ in ids if id_ in memories and memories[id_].is_active]
    return items, _next_cursor(ids, count)


async def _memories_by_ids(tx: Transaction, tenant_id: UUID, item_ids: Sequence[str]) -> list[TransferItem]:
    memories = await memory_rows.read_memories(tx, tenant_id, _ids(item_ids))
    sources = await lineage.read_sources(tx, tenant_id, list(memories))
    return [_memory(memory, sources.get(id_, ())) for id_, memory in memories.items() if memory.is_active]


async def _links(tx: Transaction, tenant_id: UUID, after: str, count: int, at: datetime | None) -> ItemBatch:
    rows = await tx.rows(QUERIES["next_link_ids"], tenant_id=tenant_id, after_id=_id(after), count=count)
    ids = [row["link_id"] for row in rows]
    last = _next_cursor(ids, count)
    links = await link_store.read_links(tx, tenant_id, ids)
    if at is not None:
        revisions = await tx.rows(
            QUERIES["revisions_between"],
            tenant_id=tenant_id,
            kind="link",
            after_id=after,
            last_id=last or _LAST_ID,
            at=at,
        )
        links = {id_: link for id_, link in links.items() if link.record_time <= at}
        links |= {UUID(row["item_id"]): _earlier_link(row) for row in revisions}
    return [_link(links[id_]) for id_ in sorted(links)], last


async def _links_by_ids(tx: Transaction, tenant_id: UUID, item_ids: Sequence[str]) -> list[TransferItem]:
    return [_link(link) for link in (await link_store.read_links(tx, tenant_id, _ids(item_ids))).values()]


async def _blocks(tx: Transaction, tenant_id: UUID, after: str, count: int, at: datetime | None) -> ItemBatch:
    rows = await tx.rows(QUERIES["next_block_ids"], tenant_id=tenant_id, after_id=after, count=count)
    ids = [row["block_id"] for row in rows]
    if at is not None:
        # A concurrent purge then finds the copies.
        await tx.rows(QUERIES["lock_blocks_with_agents"], tenant_id=tenant_id, block_ids=ids)
    blocks = {row["block_id"]: block_of(row) for row in await _read_blocks(tx, tenant_id, ids)}
    if at is not None:
        newer_ids = [id_ for id_, block in blocks.items() if block.record_time > at]
        revisions = await tx.rows(
            QUERIES["revisions_as_of"], tenant_id=tenant_id, kind="block", item_ids=newer_ids, at=at
        )
        blocks = {id_: block for id_, block in blocks.items() if id_ not in set(newer_ids)}
        blocks |= {
            row["item_id"]: revision_of(
                row["item_id"], row["state"], revision=row["revision"], record_time=row["from_time"]
            )
            for row in revisions
        }
    items = await _with_agents(tx, tenant_id, [blocks[id_] for id_ in ids if id_ in blocks])
    return items, _next_cursor(ids, count)


async def _blocks_by_ids(tx: Transaction, tenant_id: UUID, item_ids: Sequence[str]) -> list[TransferItem]:
    rows = await _read_blocks(tx, tenant_id, item_ids)
    return await _with_agents(tx, tenant_id, [block_of(row) for row in rows])


async def _read_blocks(tx: Transaction, tenant_id: UUID, block_ids: Sequence[str]) -> list[asyncpg.Record]:
    return await tx.rows(QUERIES["read_blocks"], tenant_id=tenant_id, block_ids=list(block_ids))


async def _with_agents(tx: Transaction, tenant_id: UUID, blocks: Sequence[Block]) -> list[TransferItem]:
    blocks = [block for block in blocks if block.is_active]
    agents: dict[str, list[str]] = {block.block_id: [] for block in blocks}
    for row in await tx.rows(QUERIES["agents_of_blocks"], tenant_id=tenant_id, block_ids=list(agents)):
        agents[row["block_id"]].append(row["agent_id"])
    return [
        TransferItem(
            kind="block",
            item_id=block.block_id,
            message=snapshots_pb2.PortableBlock(block=blocks_convert.block(block), agent_ids=agents[block.block_id]),
        )
        for block in blocks
    ]


async def _trusts(tx: Transaction, tenant_id: UUID, after: str, count: int, at: datetime | None) -> ItemBatch:
    rows = await tx.rows(QUERIES["list_source_trust"], tenant_id=tenant_id, after=after, count=count)
    items = [_trust(row) for row in rows if at is None or row["create_time"] <= at]
    return items, _next_cursor([row["source_key"] for row in rows], count)


async def _trusts_by_ids(tx: Transaction, tenant_id: UUID, item_ids: Sequence[str]) -> list[TransferItem]:
    rows = await tx.rows(QUERIES["read_source_trusts"], tenant_id=tenant_id, source_keys=list(item_ids))
    return [_trust(row) for row in rows]


async def _aliases(tx: Transaction, tenant_id: UUID, after: str, count: int, at: datetime | None) -> ItemBatch:
    rows = await tx.rows(QUERIES["list_aliases"], tenant_id=tenant_id, after=_id(after), count=count)
    items = [_alias(row) for row in rows if at is None or row["create_time"] <= at]
    return items, _next_cursor([row["alias_memory_id"] for row in rows], count)


async def _aliases_by_ids(tx: Transaction, tenant_id: UUID, item_ids: Sequence[str]) -> list[TransferItem]:
    rows = await tx.rows(QUERIES["get_aliases"], tenant_id=tenant_id, memory_ids=_ids(item_ids))
    return [_alias(row) for row in rows]


async def _conflicts(tx: Transaction, tenant_id: UUID, after: str, count: int, at: datetime | None) -> ItemBatch:
    a_id, _, b_id = after.partition("|")
    rows = await tx.rows(
        QUERIES["next_resolutions"], tenant_id=tenant_id, after_a=_id(a_id), after_b=_id(b_id), count=count
    )
    items = [_conflict(row) for row in rows if at is None or row["create_time"] <= at]
    return items, _next_cursor([f"{row['a_memory_id']}|{row['b_memory_id']}" for row in rows], count)


async def _conflicts_by_ids(tx: Transaction, tenant_id: UUID, item_ids: Sequence[str]) -> list[TransferItem]:
    pairs = [item_id.partition("|") for item_id in item_ids]
    rows = await tx.rows(
        QUERIES["get_resolutions"],
        tenant_id=tenant_id,
        a_ids=[_id(a) for a, _, _ in pairs],
        b_ids=[_id(b) for _, _, b in pairs],
    )
    return [_conflict(row) for row in rows]


def _memory(memory: Memory, sources: Sequence[Source]) -> TransferItem:
    message = memories_convert.memory(memory)
    # An import takes it for the writer of the text.
    message.created_by = next((one.name for one in sources if one.kind == "writer" and one.name), memory.created_by)
    message.derived_from.extend(lineage_convert.references(sources, (message.created_by, message.updated_by)))
    return TransferItem(
        kind="memory",
        item_id=str(memory.memory_id),
        message=message,
        memory_id=memory.memory_id,
    )


def _link(link: Link) -> TransferItem:
    return TransferItem(
        kind="link",
        item_id=str(link.link_id),
        message=links_convert.link(link),
        memory_id=link.from_memory_id,
        other_memory_id=link.to_memory_id,
    )


def _earlier_link(row: asyncpg.Record) -> Link:
    state = exact.loads(row["state"])
    metadata = state.pop("metadata")
    values = {
        **state,
        "weight": float(state["weight"]),
        "link_id": UUID(row["item_id"]),
        "from_memory_id": row["memory_id"],
        "to_memory_id": row["other_memory_id"],
        "revision": row["revision"],
        "record_time": row["from_time"],
        # An older version kept no update_time beside it.
        "update_time": datetime.fromisoformat(state["update_time"]) if "update_time" in state else row["from_time"],
        "create_time": datetime.fromisoformat(state["create_time"]),
        "metadata": None if metadata is None else exact.dumps(metadata),
    }
    return Link(**{field.name: values[field.name] for field in fields(Link)})


def _trust(row: asyncpg.Record) -> TransferItem:
    message = _fill(curation_pb2.SourceTrust(), row)
    return TransferItem(kind="source_trust", item_id=row["source_key"], message=message)


def _alias(row: asyncpg.Record) -> TransferItem:
    return TransferItem(
        kind="alias",
        item_id=str(row["alias_memory_id"]),
        message=_fill(curation_pb2.Alias(), row),
        memory_id=row["alias_memory_id"],
        other_memory_id=row["canonical_memory_id"],
    )


def _conflict(row: asyncpg.Record) -> TransferItem:
    status: Any = f"CONFLICT_STATUS_{row['status'].upper()}"
    message = curation_pb2.ConflictResolution(
        status=status,
        pair_key=f"{row['a_memory_id']}|{row['b_memory_id']}",
    )
    return TransferItem(
        kind="conflict",
        item_id=message.pair_key,
        message=_fill(message, row),
        memory_id=row["a_memory_id"],
        other_memory_id=row["b_memory_id"],
    )


def _fill(message: Any, row: asyncpg.Record) -> Any:
    """Copy the columns of a row into the fields of the same names."""
    names = {field.name for field in message.DESCRIPTOR.fields}
    for name, value in row.items():
        if name not in names or name == "status" or value is None:
            continue
        if isinstance(value, datetime):
            getattr(message, name).CopyFrom(to_timestamp(value))
        else:
            setattr(message, name, str(value) if isinstance(value, UUID) else value)
    return message


def _id(text: str) -> UUID:
    return parse_id(text) or _NIL


def _ids(texts: Sequence[str]) -> list[UUID]:
    return [_id(text) for text in texts]


def _next_cursor(ids: Sequence[object], count: int) -> str | None:
    """Return the next cursor after a batch; None when it was not full."""
    return str(ids[-1]) if len(ids) == count else None


_BATCH_READERS: Mapping[str, Callable[[Any, UUID, str, int, datetime | None], Awaitable[ItemBatch]]] = {
    "memory": _memories,
    "link": _links,
    "source_trust": _trusts,
    "alias": _aliases,
    "conflict": _conflicts,
    "block": _blocks,
}
_READERS_BY_ID: Mapping[str, Callable[[Any, UUID, Sequence[str]], Awaitable[list[TransferItem]]]] = {
    "memory": _memories_by_ids,
    "link": _links_by_ids,
    "source_trust": _trusts_by_ids,
    "alias": _aliases_by_ids,
    "conflict": _conflicts_by_ids,
    "block": _blocks_by_ids,
}
