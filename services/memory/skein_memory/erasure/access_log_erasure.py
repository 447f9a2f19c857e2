"""The erasure of a person from the access log, the receipts of answers and the planner's statistics.

A call in flight during an erasure is logged seconds later. So each erasure is recorded. The access log is cleared
at once, half a minute later, and when the longest call has been logged. Then the record is deleted.
"""

from __future__ import annotations

import hashlib
import secrets
import unicodedata
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from skein_kit.database.named_queries import Query
from skein_kit.database.transactions import Database, Transaction
from skein_kit.ids import min_id_at, new_id
from skein_kit.lineage import purges
from skein_kit.text.unicode_form import compared_form, compared_sql
from skein_memory.queries import QUERIES

# By then every process has written the accesses of ended calls, and dropped its cached values.
ACCESS_LOG_DELAY = timedelta(seconds=30)
# Calls that began so long before an erasure may end after it.
_MAX_CALL_TIME = timedelta(minutes=10)
# Searches that began so long before an erasure lose their recorded queries, which may name the person.
_MAX_SEARCH_TIME = timedelta(minutes=1)
_SECRET_BYTES = 32
# A longer text is no name; recall reads none in it either.
_MAX_NAME_CHARACTERS = 80
# One statement looks for so many names, as one pattern: a pattern for each name would be compiled for each query.
_NAMES_AT_ONCE = 100
# Accesses that one transaction clears.
_CLEARED_BATCH_SIZE = 5000


def _in_any_form(name: str, column: str) -> Query:
    """Return a query that matches patterns with the compared form of a column too."""
    query = QUERIES[name]
    return replace(
        query, text=query.text.replace(f"{column} ~*", f"concat_ws(' ', {column}, {compared_sql(column)}) ~*")
    )


_ERASE_RECEIPTS_BY_TEXT = _in_any_form("erase_receipts_by_text", "about.query")
_CLEAR_QUERIES_BY_TEXT = _in_any_form("clear_queries_by_text", "query.words")


async def record_erasure(tx: Transaction, tenant_id: UUID, subject_id: str, *, at: datetime) -> None:
    """Record the erasure of a person, and delete the key of the tenant's hashes."""
    await _insert_erasure(tx, tenant_id, f"subject:{subject_id}", at=at)
    await tx.execute(QUERIES["delete_access_key"], tenant_id=tenant_id)


async def sessions_of(tx: Transaction, tenant_id: UUID, memory_ids: Sequence[UUID]) -> set[str]:
    """Return the sessions that memories belong or belonged to; the session service may not know them."""
    rows = await tx.rows(QUERIES["sessions_of_memories"], tenant_id=tenant_id, memory_ids=list(memory_ids))
    return {row["session_id"] for row in rows}


async def clear_sessions(
    tx: Transaction, tenant_id: UUID, subject_id: str, session_ids: Iterable[str], *, at: datetime
) -> None:
    """Clear the sessions of a person from the access log, and record their erasure."""
    if names := sorted(set(session_ids)):
        keys = {"tenant_id": tenant_id, "subject_id": subject_id, "names": names}
        async with tx.in_all_spaces():
            # The access log knows the calls of the sessions, so it comes second.
            await tx.execute(QUERIES["erase_receipts_of_sessions"], **keys)
            await tx.execute(QUERIES["clear_accesses_of_sessions"], **keys)
        for name in names:
            await _insert_erasure(tx, tenant_id, f"session:{name}", at=at)


async def clear_queries(tx: Transaction, tenant_id: UUID, memory_ids: Sequence[UUID]) -> int:
    """Clear the queries of searches that returned memories, in receipts too; return how many accesses changed.

    A search that reached more spaces than the purge does is among them.
    """
    keys = {"tenant_id": tenant_id, "memory_ids": list(memory_ids)}
    async with tx.in_all_spaces():
        await tx.execute(QUERIES["erase_receipts_of_memories"], **keys)
        return await tx.execute(QUERIES["clear_queries_of_memories"], **keys)


async def clear_entities(tx: Transaction, tenant_id: UUID, subject_id: str, memory_ids: Sequence[UUID]) -> None:
    """Note the aliases of a person's memories for the purge, and clear queries that have one of the names.

    The name of an alias about another person stays.
    """
    rows = await tx.rows(QUERIES["find_names_of_entities"], tenant_id=tenant_id, memory_ids=list(memory_ids))
    await purges.note(tx, tenant_id, [row["alias_memory_id"] for row in rows if row["is_alias"]])
    names = {row["name"] for row in rows if row["subject_id"] in (None, subject_id)}
    if names := {name for name in names if 1 < len(name) <= _MAX_NAME_CHARACTERS}:
        await _clear_names(tx, tenant_id, subject_id, names)


async def _clear_names(tx: Transaction, tenant_id: UUID, subject_id: str, names: AbstractSet[str]) -> int:
    """Clear the queries that have one of some names of a person, in any form; return how many accesses changed."""
    forms, cleared_count = sorted(_written_forms(names)), 0
    async with tx.in_all_spaces():
        for start in range(0, len(forms), _NAMES_AT_ONCE):
            parameters = {"tenant_id": tenant_id, "names": forms[start : start + _NAMES_AT_ONCE]}
            await tx.execute(_ERASE_RECEIPTS_BY_TEXT, subject_id=subject_id, **parameters)
            cleared_count += await tx.execute(_CLEAR_QUERIES_BY_TEXT, **parameters)
    return cleared_count


async def log_end(tx: Transaction) -> str:
    """Return the end of the write-ahead log."""
    position: str = await tx.value(QUERIES["log_end"])
    return position


async def _insert_erasure(tx: Transaction, tenant_id: UUID, name: str, *, at: datetime) -> None:
    secret: bytes | None = await tx.value(QUERIES["read_erasure_secret"], tenant_id=tenant_id)
    secret = secret or secrets.token_bytes(_SECRET_BYTES)
    await tx.execute(
        QUERIES["insert_erasure"],
        tenant_id=tenant_id,
        erasure_id=new_id(at),
        secret=secret,
        digest=hashlib.sha256(secret + name.encode()).digest(),
        erase_time=at,
    )


class AccessLogErasure:
    """Clears erased people and sessions from the access log and the planner's statistics."""

    def __init__(self, database: Database, *, longest_call: timedelta) -> None:
        """Keep the records of erasures until the access log has all calls that may last `longest_call`."""
        self._database = database
        self.retention = longest_call + ACCESS_LOG_DELAY

    async def clear_subject(self, tenant_id: UUID, subject_id: str) -> int:
        """Clear a person from the access log and from receipts; return how many accesses were changed."""
        async with self._database.transaction(tenant_id) as tx:
            await tx.execute(QUERIES["erase_receipts_of_subject"], tenant_id=tenant_id, subject_id=subject_id)
        cleared_count, count = 0, _CLEARED_BATCH_SIZE
        while count == _CLEARED_BATCH_SIZE:
            async with self._database.transaction(tenant_id) as tx:
                count = await tx.execute(
                    QUERIES["clear_accesses_of_subject"], tenant_id=tenant_id, subject_id=subject_id, count=count
                )
            cleared_count += count
        async with self._database.transaction(tenant_id) as tx:
            rows = await tx.rows(QUERIES["display_names"], tenant_id=tenant_id, subject_id=subject_id)
            names = {subject_id.strip(), *(row["display_name"].strip() for row in rows)} - {""}
            cleared_count += await _clear_names(tx, tenant_id, subject_id, names)
        return cleared_count

    async def finish(self, tenant_id: UUID, *, at: datetime) -> bool:
        """Clear the access log again for recorded erasures; return whether one of them was completed.

        The next call repeats what failed, because the records of the erasures are deleted last.
        """
        until = at - ACCESS_LOG_DELAY
        tenant = {"tenant_id": tenant_id}
        async with self._database.transaction(tenant_id) as tx:
            times = await tx.row(QUERIES["erasure_times"], **tenant, until_time=until)
        if times is None or times["first_time"] is None:
            return False
        since_id, before_id = (
            min_id_at(times["first_time"] - max(_MAX_CALL_TIME, self.retention)),
            min_id_at(times["last_time"]),
        )
        async with self._database.transaction(tenant_id) as tx:
            await tx.execute(QUERIES["clear_late_accesses"], **tenant, since_id=since_id)
            await tx.execute(QUERIES["clear_queries_of_missing_memories"], **tenant, since_id=since_id)
            await tx.execute(QUERIES["erase_late_receipts"], **tenant, since_id=since_id)
            since_id = min_id_at(times["first_time"] - _MAX_SEARCH_TIME)
            await tx.execute(QUERIES["clear_queries_between"], **tenant, since_id=since_id, before_id=before_id)
            await tx.execute(QUERIES["erase_receipts_between"], **tenant, since_id=since_id, before_id=before_id)
            await tx.execute(QUERIES["delete_access_key"], **tenant)
            return await tx.execute(QUERIES["delete_erasures"], **tenant, until_time=at - self.retention) > 0

    async def refresh_statistics(self, *, before: datetime) -> None:
        """Refresh planner statistics that are older than a time.

        Each table has a transaction of its own, because readers of the event log wait for open ones.
        """
        async with self._database.global_transaction() as tx:
            tables = await tx.rows(QUERIES["outdated_statistics"], before=before)
        for table in tables:
            async with self._database.global_transaction() as tx:
                await tx.value(QUERIES["refresh_statistics"], schema=table["schema"], name=table["name"], before=before)


def _written_forms(names: AbstractSet[str]) -> set[str]:
    """Return names in the form that texts are compared in, as they are, and with accents as marks of their own.

    Whole requests are bytes, which are compared with the latter two.
    """
    return {form for name in names for form in (name, compared_form(name), unicodedata.normalize("NFD", name))} - {""}
