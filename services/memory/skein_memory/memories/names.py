"""Names of memories: ids, external ids and fact keys, and the memory of each."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

import asyncpg

from skein_kit.calls.call import current_space_ids
from skein_kit.database.named_queries import Query
from skein_kit.database.transactions import Transaction
from skein_kit.errors import ExternalIdTaken
from skein_kit.ids import id_time, new_id, parse_id
from skein_memory.errors import FactKeyTaken, MemoryNotFound
from skein_memory.memories.model import FactKey, Memory
from skein_memory.queries import QUERIES


async def read_by_names(
    tx: Transaction, query: Query, tenant_id: UUID, names: Iterable[str], **values: object
) -> dict[str, asyncpg.Record]:
    """Run a query of `memory_ids` for names and return its rows by name; unknown names are left out.

    `values` are further parameters of the query. An external id may look like an id, so a name that is no id of a
    memory is looked up as an external id. Memories are read by value: a join would plan every month for each of them.
    """
    unique_names = list(dict.fromkeys(names))
    ids = {name: id_ for name in unique_names if (id_ := parse_id(name)) is not None}
    rows_by_name = await _read_ids(tx, query, tenant_id, ids, values)
    other_names = [name for name in unique_names if name not in rows_by_name]
    if other_names:
        rows = await tx.rows(QUERIES["find_external_ids"], tenant_id=tenant_id, external_ids=other_names)
        by_name = {row["external_id"]: row["memory_id"] for row in rows}
        rows_by_name |= await _read_ids(tx, query, tenant_id, by_name, values)
    return rows_by_name


async def read_by_name(tx: Transaction, query: Query, tenant_id: UUID, name: str) -> asyncpg.Record | None:
    """Run a query of one `memory_id` for a name; None for an unknown name."""
    id_ = parse_id(name)
    row = None if id_ is None else await tx.row(query, tenant_id=tenant_id, memory_id=id_)
    if row is None:
        external = await tx.row(QUERIES["find_external_ids"], tenant_id=tenant_id, external_ids=[name])
        if external is not None:
            row = await tx.row(query, tenant_id=tenant_id, memory_id=external["memory_id"])
    return row


async def find_visible(tx: Transaction, tenant_id: UUID, names: Sequence[str], *, at: datetime) -> dict[str, UUID]:
    """Return the ids of memories by name. Raises MemoryNotFound for an unknown, deleted or expired one."""
    rows = await read_by_names(tx, QUERIES["find_visible"], tenant_id, names, at=at)
    if not rows.keys() >= set(names):
        raise MemoryNotFound
    return {name: row["memory_id"] for name, row in rows.items()}


async def find_hidden(tx: Transaction, tenant_id: UUID, memory_ids: Iterable[UUID], *, at: datetime) -> set[UUID]:
    """Return which of some memories have expired, or are for another agent than that of the credential."""
    ids = set(memory_ids)
    rows = await tx.rows(QUERIES["find_unexpired"], tenant_id=tenant_id, memory_ids=list(ids), at=at) if ids else []
    return ids - {row["memory_id"] for row in rows}


async def claim_external_ids(
    tx: Transaction,
    tenant_id: UUID,
    claims: Sequence[tuple[str, UUID]],
    *,
    at: datetime,
    expired_ids: Container[UUID] = (),
) -> str | None:
    """Claim external ids for memories; return one that another memory has, which the caller must reject.

    An expired memory loses its id to the next claim, except to a claim of one of `expired_ids`. So a repeated import
    finds the memories of the first. All claims are in one order, so that two batches cannot wait for each other.
    """
    if not claims:
        return None
    rows: list[dict[str, object]] = [{"external_id": name, "memory_id": id_} for name, id_ in sorted(claims)]
    claim = QUERIES["claim_external_ids"]
    if await tx.insert(claim, tenant_id, rows) == len(rows):
        return None
    by_name = await external_id_holders(tx, tenant_id, [name for name, _ in claims])
    holders = [by_name[name] for name, id_ in claims if name in by_name and id_ not in expired_ids]
    if await _release_expired(tx, tenant_id, QUERIES["purge_memory_external_ids"], holders, at=at):
        await tx.insert(claim, tenant_id, rows)
        by_name = await external_id_holders(tx, tenant_id, [name for name, _ in claims])
    return next((name for name, id_ in claims if by_name.get(name) != id_), None)


async def external_id_holders(tx: Transaction, tenant_id: UUID, names: Sequence[str | None]) -> dict[str, UUID]:
    """Return the memories of external ids; unused ids and None are left out."""
    external_ids = [name for name in names if name is not None]
    if not external_ids:
        return {}
    rows = await tx.rows(QUERIES["find_external_ids"], tenant_id=tenant_id, external_ids=external_ids)
    return {row["external_id"]: row["memory_id"] for row in rows}


async def check_external_id_free(tx: Transaction, tenant_id: UUID, memory: Memory, *, at: datetime) -> None:
    """Reject a memory whose external id another unexpired memory has. Raises ExternalIdTaken."""
    name = memory.draft.external_id
    holder = (await external_id_holders(tx, tenant_id, [name])).get(name or "", memory.memory_id)
    if holder == memory.memory_id:
        return
    if not await tx.rows(QUERIES["lock_expired"], tenant_id=tenant_id, memory_ids=[holder], at=at):
        raise ExternalIdTaken(external_id=name)


async def claim_fact_keys(
    tx: Transaction,
    tenant_id: UUID,
    claims: Sequence[tuple[FactKey, UUID]],
    *,
    at: datetime,
    expired_ids: Container[UUID] = (),
) -> tuple[FactKey, UUID, UUID | None] | None:
    """Claim keys for facts; return one that another fact has, with the fact that the caller must reject and that other.

    An expired fact loses its key to the next claim. Facts among `expired_ids` get only free keys, after all others,
    and no key otherwise. Keys are claimed in the order of their folded form, so that two batches cannot wait for each
    other.
    """
    if not claims:
        return None
    rows: list[dict[str, object]] = [
        {"subject_id": key.subject_id or None, "key": key.key, "folded_key": key.folded[1], "memory_id": id_}
        for key, id_ in sorted(claims, key=lambda item: (item[0].folded, item[1] in expired_ids))
    ]
    claim = QUERIES["claim_fact_keys"]
    if await tx.insert(claim, tenant_id, rows) == len(rows):
        return None
    by_key = await fact_key_holders(tx, tenant_id, [key for key, _ in claims])
    holders = [by_key[key] for key, id_ in claims if key in by_key and id_ not in expired_ids]
    if await _release_expired(tx, tenant_id, QUERIES["purge_memory_fact_keys"], holders, at=at):
        await tx.insert(claim, tenant_id, rows)
        by_key = await fact_key_holders(tx, tenant_id, [key for key, _ in claims])
    rejected = ((key, id_, by_key.get(key)) for key, id_ in claims if id_ not in expired_ids)
    return next((each for each in rejected if each[1] != each[2]), None)


def key_taken(key: FactKey, holder_id: UUID | None, *, index: int | None = None) -> FactKeyTaken:
    """Return the error of a key and the fact that has it; `index` is the place of the refused fact in its batch."""
    return FactKeyTaken(key=key.key, subject_id=key.subject_id or None, memory_id=holder_id, index=index)


async def fact_key_holders(
    tx: Transaction, tenant_id: UUID, keys: Sequence[FactKey | None]
) -> dict[FactKey | None, UUID]:
    """Return the facts of keys; unused keys and None are left out."""
    fact_keys = [key for key in keys if key is not None]
    if not fact_keys:
        return {}
    rows = await tx.rows(
        QUERIES["find_fact_keys"],
        tenant_id=tenant_id,
        subject_ids=[key.subject_id for key in fact_keys],
        folded_keys=[key.folded[1] for key in fact_keys],
    )
    return {fact_keys[row["place"] - 1]: row["memory_id"] for row in rows}


async def _release_expired(
    tx: Transaction, tenant_id: UUID, release: Query, holders: Iterable[UUID], *, at: datetime
) -> bool:
    """Delete the names of one kind of the expired ones of some memories; return whether there were any."""
    rows = await tx.rows(QUERIES["lock_expired"], tenant_id=tenant_id, memory_ids=list(set(holders)), at=at)
    if not rows:
        return False
    return await tx.execute(release, tenant_id=tenant_id, memory_ids=[row["memory_id"] for row in rows]) > 0


async def _read_ids(
    tx: Transaction, query: Query, tenant_id: UUID, ids: dict[str, UUID], values: Mapping[str, object]
) -> dict[str, asyncpg.Record]:
    if not ids:
        return {}
    rows = await tx.rows(query, tenant_id=tenant_id, memory_ids=list(ids.values()), **values)
    by_id = {row["memory_id"]: row for row in rows}
    return {name: by_id[id_] for name, id_ in ids.items() if id_ in by_id}


async def avoid_taken_ids(tx: Transaction, tenant_id: UUID, memories: Sequence[Memory]) -> list[Memory]:
    """Return memories under ids that no message has, because search uses one space of ids for both.

    Nor has a memory of another space of the tenant these ids. A memory that gets a new id keeps its old one as its
    external id.
    """
    ids = [memory.memory_id for memory in memories]
    rows = await tx.rows(QUERIES["find_other_documents"], tenant_id=tenant_id, item_ids=ids)
    taken_ids = {row["item_id"] for row in rows}
    if current_space_ids() is not None:
        taken_ids |= await _find_hidden_ids(tx, tenant_id, ids)
    return [
        replace(
            memory,
            memory_id=new_id(id_time(memory.memory_id)),
            draft=replace(memory.draft, external_id=memory.draft.external_id or str(memory.memory_id)),
        )
        if memory.memory_id in taken_ids
        else memory
        for memory in memories
    ]


async def _find_hidden_ids(tx: Transaction, tenant_id: UUID, ids: Sequence[UUID]) -> set[UUID]:
    """Return those of some ids that belong to memories which the transaction does not see."""
    keys = {"tenant_id": tenant_id, "memory_ids": list(ids)}
    visible_ids = {row["memory_id"] for row in await tx.rows(QUERIES["find_existing"], **keys)}
    async with tx.reading_all_spaces():
        return {row["memory_id"] for row in await tx.rows(QUERIES["find_existing"], **keys)} - visible_ids
