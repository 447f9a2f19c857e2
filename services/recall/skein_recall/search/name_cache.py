"""Names of entities that have aliases: cached by tenant, and read again for the query that mentions one."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from skein_kit.database.named_queries import as_of, with_condition
from skein_kit.database.transactions import Database, Transaction
from skein_kit.database.tx_options import TxOptions
from skein_kit.filters.compiler import ENTRIES, compile_to_sql
from skein_kit.filters.expression import Expression
from skein_kit.policies.store import read_policy_as_of, shared_policy_cache
from skein_kit.search_text.segmentation import segment
from skein_recall.queries import QUERIES
from skein_recall.search.expansion import MAX_NAME_CHARACTERS, EntityName, NameTable, ReadMention, read_mentions

# Seconds after which a new or deleted alias takes effect at the latest.
CACHE_SECONDS = 1.0
# Seconds after which all names are read again, because a memory's text may have changed.
RELOAD_SECONDS = 60.0
# Seconds without a query after which a tenant's names are removed, when another tenant's are read.
IDLE_SECONDS = 600.0
# The newest aliases of a tenant, which count.
MAX_ALIASES = 1000
# Names of all tenants together, about 300 bytes each; and tenants, most of which have none.
_MAX_CACHED_NAMES = 100_000
_MAX_CACHED_TENANTS = 10_000
_BYTES_PER_CHARACTER = 4
_READ_ONLY = TxOptions(plan_once=True, read_only=True)
# A replica may still have names that were erased before `drop`.
_PRIMARY = TxOptions(plan_once=True, read_only=True, skip_replica=True, has_all_agents=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class _CachedNames:
    """The names of one tenant."""

    table: NameTable
    # Number and latest change of the aliases when they were read.
    state: tuple[int, datetime | None]
    load_time: float
    check_time: float


class NameCache:
    """Finds names of entities in queries. It never decides who may see a name: the database does, for each query."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds and never goes back."""
        self._database = database
        self._whole_database = database.for_all_spaces()
        self._clock = clock
        self._tenants: OrderedDict[UUID, _CachedNames] = OrderedDict()
        self._name_count = 0
        # Calls of `drop`: names that were read before one are not kept after it.
        self._drop_count = 0

    async def read_mentions(
        self,
        tenant_id: UUID,
        text: str,
        condition: Expression | None,
        at: datetime,
        *,
        as_of_time: datetime | None = None,
    ) -> tuple[ReadMention, ...]:
        """Return the names in a text that have other names.

        Of a name, the memory and its canonical memory may be recalled at the time `at` and pass the condition. Names of
        an `as_of_time` are not cached.
        """
        if as_of_time is not None:
            async with self._database.transaction(tenant_id, replace(_READ_ONLY, as_of_time=as_of_time)) as tx:
                table = await _read_table(tx, tenant_id, is_as_of=True)
                return await _visible_mentions(tx, tenant_id, table, text, condition, at, is_as_of=True)
        table = await self._table(tenant_id)
        if not table.candidates(text):
            return ()
        async with self._database.transaction(tenant_id, _READ_ONLY) as tx:
            return await _visible_mentions(tx, tenant_id, table, text, condition, at, is_as_of=False)

    def __len__(self) -> int:
        return self._name_count

    def drop(self, tenant_id: UUID | None) -> None:
        """Remove the names of a tenant, those that are being read included; None: of every tenant."""
        self._drop_count += 1
        for known_id in [known_id for known_id in self._tenants if tenant_id in (None, known_id)]:
            self._remove(known_id)

    async def _table(self, tenant_id: UUID) -> NameTable:
        """Return a tenant's names; at most one statement a second where its aliases are unchanged."""
        cached, at = self._tenants.get(tenant_id), self._clock()
        if cached is not None and at < cached.check_time + CACHE_SECONDS:
            self._tenants.move_to_end(tenant_id)
            return cached.table
        drop_count = self._drop_count
        async with self._whole_database.transaction(tenant_id, _PRIMARY) as tx:
            row = await tx.row(QUERIES["aliases_state"], tenant_id=tenant_id, count=MAX_ALIASES)
            state = (0, None) if row is None else (row["aliases"], row["update_time"])
            is_current = cached is not None and cached.state == state and at < cached.load_time + RELOAD_SECONDS
            if cached is not None and is_current:
                table, load_time = cached.table, cached.load_time
            else:
                table, load_time = await _read_table(tx, tenant_id) if state[0] else NameTable(()), at
        if drop_count == self._drop_count:
            self._put(tenant_id, _CachedNames(table=table, state=state, load_time=load_time, check_time=at))
        return table

    def _put(self, tenant_id: UUID, cached: _CachedNames) -> None:
        self._remove(tenant_id)
        self._tenants[tenant_id] = cached
        self._name_count += len(cached.table)
        while len(self._tenants) > _MAX_CACHED_TENANTS or self._name_count > _MAX_CACHED_NAMES:
            self._remove(next(iter(self._tenants)))
        while next(iter(self._tenants.values())).check_time < cached.check_time - IDLE_SECONDS:
            self._remove(next(iter(self._tenants)))

    def _remove(self, tenant_id: UUID) -> None:
        cached = self._tenants.pop(tenant_id, None)
        self._name_count -= 0 if cached is None else len(cached.table)


async def _read_table(tx: Transaction, tenant_id: UUID, *, is_as_of: bool = False) -> NameTable:
    """Read a tenant's names."""
    query = QUERIES["list_entity_names"]
    rows = await tx.rows(
        as_of(query) if is_as_of else query,
        tenant_id=tenant_id,
        count=MAX_ALIASES,
        bytes=MAX_NAME_CHARACTERS * _BYTES_PER_CHARACTER,
    )
    return NameTable(
        EntityName(
            entity_id=row["entity_id"],
            memory_id=row["memory_id"],
            text=row["name"] if len(row["name"]) <= MAX_NAME_CHARACTERS else "",
        )
        for row in rows
    )


async def _visible_mentions(
    tx: Transaction,
    tenant_id: UUID,
    table: NameTable,
    text: str,
    condition: Expression | None,
    at: datetime,
    *,
    is_as_of: bool,
) -> tuple[ReadMention, ...]:
    """Return the names of a table in a text that may be recalled at the time `at` and pass the condition."""
    candidates = table.candidates(text)
    if not candidates:
        return ()
    names = {name.memory_id: name for name in table.names(text, candidates)}
    visible = compile_to_sql(condition, ENTRIES)
    query = with_condition(QUERIES["visible_names"], visible.text)
    cache = shared_policy_cache(tx.database)
    policy = await (read_policy_as_of(tx, tenant_id) if is_as_of else cache.get(tx, tenant_id))
    rows = await tx.rows(
        as_of(query) if is_as_of else query,
        tenant_id=tenant_id,
        memory_ids=list(names),
        names=[name.text for name in names.values()],
        words=[segment(name.text) for name in names.values()],
        language=policy.search_language,
        at=at,
        **visible.values,
    )
    return read_mentions(text, candidates, ((names[row["memory_id"]], row["stems"]) for row in rows))
