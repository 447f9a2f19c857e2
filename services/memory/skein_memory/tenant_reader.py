"""Reads of one tenant's rows by named queries, as they are now or as they were at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Self
from uuid import UUID

import asyncpg

from skein_kit.database.named_queries import Query, as_of
from skein_kit.database.transactions import Database, Transaction
from skein_kit.policies.history import read_as_of
from skein_kit.policies.store import Policy, PolicyCache, read_policy_as_of
from skein_memory.errors import MemoryNotFound, MemoryNotYetKnown
from skein_memory.memories import names
from skein_memory.queries import QUERIES


@dataclass(frozen=True, kw_only=True, slots=True)
class TenantReader:
    """Runs named queries in one transaction."""

    tx: Transaction
    tenant_id: UUID
    # The time at which memories must not be expired: that of the read, or as_of_time.
    at: datetime
    as_of_time: datetime | None = None

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        database: Database,
        tenant_id: UUID,
        *,
        at: datetime,
        as_of_time: datetime | None,
        repeatable_read: bool = False,
    ) -> AsyncIterator[Self]:
        """Read as of a time, or what there is at the time `at` of the read. Raises HistoryNotKept and NotKnownThen."""
        async with read_as_of(database, tenant_id, as_of_time, at=at, repeatable_read=repeatable_read) as tx:
            yield cls(tx=tx, tenant_id=tenant_id, at=as_of_time or at, as_of_time=as_of_time)

    async def rows(self, name: str, **values: object) -> list[asyncpg.Record]:
        """Return all rows of a query."""
        return await self.tx.rows(self._query(name), tenant_id=self.tenant_id, **values)

    async def row(self, name: str, **values: object) -> asyncpg.Record | None:
        """Return the first row of a query; None when there is none."""
        return await self.tx.row(self._query(name), tenant_id=self.tenant_id, **values)

    async def rows_of_memories(
        self, name: str, memory_names: Sequence[str], **values: object
    ) -> Mapping[str, asyncpg.Record]:
        """Run a query of `memory_ids` for names of memories and return its row for each name.

        An external id means the memory that has it now. Raises MemoryNotFound, and MemoryNotYetKnown for a memory that
        was recorded later.
        """
        rows = await names.read_by_names(self.tx, self._query(name), self.tenant_id, memory_names, **values)
        missing_names = set(memory_names) - rows.keys()
        if missing_names:
            await self._check_known(missing_names)
            raise MemoryNotFound
        return rows

    async def find_visible(self, memory_names: Sequence[str]) -> dict[str, UUID]:
        """Return the ids of memories by name. Raises as `rows_of_memories` does, also for deleted and expired ones."""
        rows = await self.rows_of_memories("find_visible", memory_names, at=self.at)
        return {name: row["memory_id"] for name, row in rows.items()}

    async def find_hidden(self, memory_ids: Iterable[UUID]) -> set[UUID]:
        """Return which of some memories have expired, or are for another agent than that of the credential."""
        ids = set(memory_ids)
        rows = await self.rows("find_unexpired", memory_ids=list(ids), at=self.at) if ids else []
        return ids - {row["memory_id"] for row in rows}

    async def charge_scan(self) -> None:
        """Charge the tenant for a read of all memories of then; a read of the present costs nothing here.

        Raises ReadTooCostly while the tenant has no budget left.
        """
        if self.as_of_time is None:
            return
        query = QUERIES["count_memories_of_all_times"]
        await self.tx.database.scan_buckets.charge_history(
            self.tenant_id, lambda: self.tx.value(query, tenant_id=self.tenant_id)
        )

    async def policy(self, policies: PolicyCache) -> Policy:
        """Return the tenant's policy, of then if the read is as of a time."""
        if self.as_of_time is None:
            return await policies.get(self.tx, self.tenant_id)
        return await read_policy_as_of(self.tx, self.tenant_id)

    async def _check_known(self, memory_names: Iterable[str]) -> None:
        if self.as_of_time is None:
            return
        rows = await names.read_by_names(self.tx, QUERIES["find_first_known"], self.tenant_id, memory_names)
        known_times = [row["known_time"] for row in rows.values()]
        if known_times and min(known_times) > self.as_of_time:
            raise MemoryNotYetKnown(known_since=min(known_times).isoformat())

    def _query(self, name: str) -> Query:
        return QUERIES[name] if self.as_of_time is None else _query_as_of(name)


@cache
def _query_as_of(name: str) -> Query:
    return as_of(QUERIES[name])
