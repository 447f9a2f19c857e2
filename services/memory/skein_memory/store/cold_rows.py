"""Whole rows of memories and of all that hangs on them: out of the tables, as lines of a file, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from skein_memory.store.queries import QUERIES

if TYPE_CHECKING:
    from skein_kit.database import Transaction

# What a memory has, parents before children; for each table the columns that name memories, all of which must be there
# when a row comes back. Secrets are apart: what has one stays.
KEPT: Mapping[str, Sequence[str]] = {
    "entries": ("memory_id",),
    "tags": ("memory_id",),
    "versions": ("memory_id",),
    "accesses": ("memory_id",),
    "properties": ("memory_id",),
    "external_ids": ("memory_id",),
    "fact_keys": ("memory_id",),
    "tasks": ("memory_id",),
    "links": ("from_memory_id", "to_memory_id"),
    "revisions": ("memory_id", "other_memory_id"),
    "aliases": ("alias_memory_id", "canonical_memory_id"),
    "conflict_resolutions": ("a_memory_id", "b_memory_id"),
}
# For each table the statements that take rows out of it and bring them back.
_STATEMENTS: Mapping[str, tuple[str, str]] = {
    "entries": ("cold_entries", "warm_entries"),
    "tags": ("cold_tags", "warm_tags"),
    "versions": ("cold_versions", "warm_versions"),
    "accesses": ("cold_accesses", "warm_accesses"),
    "properties": ("cold_properties", "warm_properties"),
    "external_ids": ("cold_external_ids", "warm_external_ids"),
    "fact_keys": ("cold_fact_keys", "warm_fact_keys"),
    "tasks": ("cold_tasks", "warm_tasks"),
    "links": ("cold_links", "warm_links"),
    "revisions": ("cold_revisions", "warm_revisions"),
    "aliases": ("cold_aliases", "warm_aliases"),
    "conflict_resolutions": ("cold_conflict_resolutions", "warm_conflict_resolutions"),
}


async def kept(tx: Transaction, tenant_id: UUID, memory_ids: Sequence[UUID]) -> dict[str, list[dict[str, Any]]]:
    """Read all that some memories have, by table."""
    return {
        table: [
            json.loads(row["row"])
            for row in await tx.rows(QUERIES[_STATEMENTS[table][0]], tenant_id=tenant_id, memory_ids=list(memory_ids))
        ]
        for table in KEPT
    }


async def put_back(
    tx: Transaction, tenant_id: UUID, rows: Mapping[str, Sequence[dict[str, Any]]], coming: set[UUID]
) -> int:
    """Store rows whose memories are all there; return how many links came back."""
    named = {
        UUID(row[column])
        for table, held in rows.items()
        for row in held
        for column in KEPT[table]
        if row[column] is not None
    }
    there = coming | await existing(tx, tenant_id, sorted(named - coming))
    links = 0
    for table, columns in KEPT.items():
        own = [
            row
            for row in rows.get(table, ())
            if all(row[column] is None or UUID(row[column]) in there for column in columns)
            and any(row[column] is not None and UUID(row[column]) in coming for column in columns)
        ]
        if own:
            stored = await tx.execute(QUERIES[_STATEMENTS[table][1]], tenant_id=tenant_id, rows=json.dumps(own))
            links += stored if table == "links" else 0
    return links


async def existing(tx: Transaction, tenant_id: UUID, memory_ids: Sequence[UUID]) -> set[UUID]:
    rows = await tx.rows(QUERIES["find_existing"], tenant_id=tenant_id, memory_ids=list(memory_ids))
    return {row["memory_id"] for row in rows}


def lines(rows: Mapping[str, Iterable[Mapping[str, Any]]]) -> Iterable[str]:
    # No two files are the same one: whoever comes too late removes its own, and nobody else's.
    yield json.dumps({"format": "skein_archive_v1", "file_id": str(uuid4())})
    for table, held in rows.items():
        for row in held:
            yield json.dumps({"table": table, "row": row}, separators=(",", ":"))


def read(lines: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = {table: [] for table in KEPT}
    for line in lines[1:]:
        said = json.loads(line)
        rows[said["table"]].append(said["row"])
    return rows
