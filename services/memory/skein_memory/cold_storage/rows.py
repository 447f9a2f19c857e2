"""Archived rows: read from the tables, written as lines of a file, and inserted again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any
from uuid import UUID, uuid4

from skein_kit.database.transactions import Transaction
from skein_kit.json_values import exact
from skein_memory.memories.model import fold_key
from skein_memory.queries import QUERIES

# The tables of a memory's rows, parents before children, with the columns that name memories. A row comes back when all
# memories that it names exist. A memory with a secret is never archived.
ARCHIVED_TABLES: Mapping[str, Sequence[str]] = {
    "memories": ("memory_id",),
    "tags": ("memory_id",),
    "versions": ("memory_id",),
    "access_counts": ("memory_id",),
    "properties": ("memory_id",),
    "external_ids": ("memory_id",),
    "fact_keys": ("memory_id",),
    "tasks": ("memory_id",),
    "sources": ("memory_id",),
    "trust": ("memory_id",),
    "links": ("from_memory_id", "to_memory_id"),
    "revisions": ("memory_id", "other_memory_id"),
    "aliases": ("alias_memory_id", "canonical_memory_id"),
    "conflict_resolutions": ("a_memory_id", "b_memory_id"),
    "sources_history": ("memory_id",),
    "trust_history": ("memory_id",),
    "aliases_history": ("alias_memory_id", "canonical_memory_id"),
    "conflict_resolutions_history": ("a_memory_id", "b_memory_id"),
    "pending_rows": ("memory_id", "other_memory_id"),
}
# Those whose rows name their space.
_SPACE_TABLES = frozenset({"memories", "versions", "external_ids", "fact_keys", "tasks"})
# For each table the queries that archive and unarchive its rows.
_STATEMENTS: Mapping[str, tuple[str, str]] = {
    "memories": ("archive_memories", "unarchive_memories"),
    "tags": ("archive_tags", "unarchive_tags"),
    "versions": ("archive_versions", "unarchive_versions"),
    "access_counts": ("archive_access_counts", "unarchive_access_counts"),
    "properties": ("archive_properties", "unarchive_properties"),
    "external_ids": ("archive_external_ids", "unarchive_external_ids"),
    "fact_keys": ("archive_fact_keys", "unarchive_fact_keys"),
    "tasks": ("archive_tasks", "unarchive_tasks"),
    "sources": ("archive_sources", "unarchive_sources"),
    "trust": ("archive_trust", "unarchive_trust"),
    "links": ("archive_links", "unarchive_links"),
    "revisions": ("archive_revisions", "unarchive_revisions"),
    "aliases": ("archive_aliases", "unarchive_aliases"),
    "conflict_resolutions": ("archive_conflict_resolutions", "unarchive_conflict_resolutions"),
    "sources_history": ("archive_sources_history", "unarchive_sources_history"),
    "trust_history": ("archive_trust_history", "unarchive_trust_history"),
    "aliases_history": ("archive_aliases_history", "unarchive_aliases_history"),
    "conflict_resolutions_history": (
        "archive_conflict_resolutions_history",
        "unarchive_conflict_resolutions_history",
    ),
    # Pending rows are inserted into their target table, or stay pending.
    "pending_rows": ("list_pending_rows_of_table", "insert_pending_rows"),
}


async def read_rows(tx: Transaction, tenant_id: UUID, memory_ids: Sequence[UUID]) -> dict[str, list[dict[str, Any]]]:
    """Read all that some memories have, by table."""
    return {
        table: [
            exact.loads(row["row"])
            for row in await tx.rows(QUERIES[_STATEMENTS[table][0]], tenant_id=tenant_id, memory_ids=list(memory_ids))
        ]
        for table in ARCHIVED_TABLES
    }


def referenced_memory_ids(rows: Mapping[str, Sequence[dict[str, Any]]]) -> set[UUID]:
    """Return every memory that some rows name."""
    return {
        UUID(row[column])
        for table, table_rows in rows.items()
        for row in table_rows
        for column in ARCHIVED_TABLES[table]
        if row[column] is not None
    }


def in_space(rows: Mapping[str, Sequence[dict[str, Any]]], space_id: UUID) -> dict[str, list[dict[str, Any]]]:
    """Return rows that lie in the space of their archive; files of older versions do not name it."""
    return {
        table: [{**row, "space_id": str(space_id)} if table in _SPACE_TABLES else row for row in table_rows]
        for table, table_rows in rows.items()
    }


async def insert_rows(
    tx: Transaction,
    tenant_id: UUID,
    rows: Mapping[str, Sequence[dict[str, Any]]],
    new_ids: set[UUID],
    archived_ids: Collection[UUID],
) -> int:
    """Insert rows whose memories all exist, and rows that waited for them; return how many links were inserted.

    A row that names one memory of those in `archived_ids` waits for it.
    """
    archived_rows = {table: list(rows.get(table, ())) for table in ARCHIVED_TABLES}
    subjects = {row["memory_id"]: row.get("subject_id") for row in archived_rows["memories"]}
    # Files of older versions have neither the subject of a key nor its folded form.
    archived_rows["fact_keys"] = [
        {"subject_id": subjects.get(row["memory_id"]), **row, "folded_key": fold_key(row["key"])}
        for row in archived_rows["fact_keys"]
    ]
    stored_rows = await tx.rows(QUERIES["read_pending_rows"], tenant_id=tenant_id, memory_ids=sorted(new_ids))
    due_rows = [{"row_table": row["row_table"], "row_data": exact.loads(row["row_data"])} for row in stored_rows]
    for row in [*archived_rows.pop("pending_rows"), *due_rows]:
        archived_rows[row["row_table"]].append(row["row_data"])
    existing_ids = new_ids | await existing_memory_ids(
        tx, tenant_id, sorted(referenced_memory_ids(archived_rows) - new_ids)
    )
    links, pending_rows = 0, list[dict[str, object]]()
    for table, table_rows in archived_rows.items():
        complete_rows = list[dict[str, Any]]()
        for row in table_rows:
            named_ids = {UUID(row[column]) for column in ARCHIVED_TABLES[table] if row[column] is not None}
            if named_ids.isdisjoint(new_ids):
                continue
            if named_ids <= existing_ids:
                complete_rows.append(row)
            elif len(named_ids - existing_ids) == 1 and named_ids - existing_ids <= set(archived_ids):
                pending_rows.append(_pending_row(table, row, named_ids & new_ids, named_ids - existing_ids))
        if complete_rows:
            row_count = await tx.execute(
                QUERIES[_STATEMENTS[table][1]], tenant_id=tenant_id, rows=exact.dumps(complete_rows)
            )
            links += row_count if table == "links" else 0
    await tx.insert(QUERIES[_STATEMENTS["pending_rows"][1]], tenant_id, pending_rows)
    return links


def _pending_row(
    table: str, row: Mapping[str, Any], new_ids: AbstractSet[UUID], missing_ids: AbstractSet[UUID]
) -> dict[str, object]:
    return {
        "pending_row_id": uuid4(),
        "memory_id": min(new_ids),
        "other_memory_id": min(missing_ids),
        "row_table": table,
        "row_data": exact.dumps(row),
    }


async def existing_memory_ids(tx: Transaction, tenant_id: UUID, memory_ids: Sequence[UUID]) -> set[UUID]:
    rows = await tx.rows(QUERIES["find_existing"], tenant_id=tenant_id, memory_ids=list(memory_ids))
    return {row["memory_id"] for row in rows}


def write_lines(rows: Mapping[str, Iterable[Mapping[str, Any]]]) -> Iterable[str]:
    # Each file has a name of its own, so that a late process deletes only its own file.
    yield exact.dumps({"format": "skein_archive_v1", "file_id": str(uuid4())})
    for table, table_rows in rows.items():
        for row in table_rows:
            yield exact.dumps({"table": table, "row": row})


def parse_lines(lines: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = {table: [] for table in ARCHIVED_TABLES}
    for line in lines[1:]:
        line_values = exact.loads(line)
        rows[line_values["table"]].append(line_values["row"])
    return rows
