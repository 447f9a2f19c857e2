"""Statements of searches: their conditions, how they are planned, and of which time they read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from types import MappingProxyType
from uuid import UUID

import asyncpg
import numpy as np
from numpy.typing import NDArray

from skein_kit.database import named_queries
from skein_kit.database.named_queries import Query, as_of, left_join, with_condition
from skein_kit.database.transactions import Transaction
from skein_kit.filters.compiler import ENTRIES, MESSAGES, FilterTable
from skein_kit.ids import now
from skein_kit.policies.days import read_zone_of_subject
from skein_kit.policies.history import check_history
from skein_kit.policies.store import Policy, read_policy_as_of, shared_policy_cache
from skein_kit.search_text.vector_columns import vector_columns
from skein_recall.queries import QUERIES
from skein_recall.search.filter import Filter
from skein_recall.search.model import LogPosition
from skein_recall.vector_cache.matrix import Shortlist


@dataclass(frozen=True, kw_only=True, slots=True)
class RowTest:
    """The table that has the rows of a kind of items, and the statements that test them without and with a budget."""

    table: FilterTable
    filter_query: named_queries.Query
    scan_query: named_queries.Query


ROW_TESTS = MappingProxyType(
    {
        "memory": RowTest(table=ENTRIES, filter_query=QUERIES["filter_memories"], scan_query=QUERIES["scan_memories"]),
        "message": RowTest(
            table=MESSAGES, filter_query=QUERIES["filter_messages"], scan_query=QUERIES["scan_messages"]
        ),
    }
)

# SQL of the conditions of a filter, by name; `d` is the document. A statement has only the conditions of its filter, so
# that it is planned for them.
_CONDITIONS = MappingProxyType(
    {
        "types": "d.type = ANY (:types::text[])",
        "scopes": "d.scope = ANY (:scopes::text[])",
        "source": "d.source = :source::text",
        "key": "lower(d.key) = lower(:key::text)",
        "min_importance": "d.importance >= :min_importance::double precision",
        "agent_id": "d.agent_id = :agent_id::text",
        "subject_id": "d.subject_id = :subject_id::text",
        "session_id": "d.session_id = :session_id::text",
        # A memory without a row has the neutral trust. That of a message is tested when it is read; it is never higher.
        "min_trust": """CASE WHEN :min_trust::double precision <= 0.5
            THEN d.item_id <> ALL (ARRAY(
                SELECT s.memory_id FROM memory.trust AS s
                WHERE s.tenant_id = :tenant_id AND s.trust < :min_trust::double precision))
            ELSE d.item_id = ANY (ARRAY(
                SELECT s.memory_id FROM memory.trust AS s
                WHERE s.tenant_id = :tenant_id AND s.trust >= :min_trust::double precision))
            END""",
        # Memories have neither role nor speaker.
        "roles": "d.kind = 'memory' OR d.role = ANY (:roles::text[])",
        "speakers": "d.kind = 'memory' OR d.speaker = ANY (:speakers::text[])",
        "start_time": "d.item_id >= :start_time::uuid",
        "end_time": "d.item_id < :end_time::uuid",
        "tags_any": """d.item_id = ANY (ARRAY(
            SELECT t.memory_id FROM memory.tags AS t
            WHERE t.tenant_id = :tenant_id AND t.tag = ANY (:tags_any::text[])))""",
        "tags_all": """d.item_id = ANY (ARRAY(
            SELECT t.memory_id FROM memory.tags AS t
            WHERE t.tenant_id = :tenant_id AND t.tag = ANY (:tags_all::text[])
            GROUP BY t.memory_id HAVING count(*) = cardinality(:tags_all::text[])))""",
        # Row-level security keeps other agents' memories out of what is read; here they take no place of others.
        "bound_agent": """d.kind = 'message' OR d.scope = 'global' OR d.agent_id = :bound_agent_id::text
            OR (d.agent_id IS NULL AND d.scope <> 'agent')""",
        # As for agents.
        "space": "d.space_id = ANY (:seen_space_ids::uuid[])",
        # A message, which has no scope, belongs to its session and to its subject.
        "visible_to": """(d.subject_id IS NULL OR d.subject_id = coalesce(:seeing_subject_id::text, d.subject_id))
            AND CASE d.scope
                WHEN 'global' THEN true
                WHEN 'agent' THEN d.agent_id = :seeing_agent_id::text
                ELSE (d.agent_id IS NULL OR d.agent_id = coalesce(:seeing_agent_id::text, d.agent_id))
                    AND CASE d.scope
                        WHEN 'user' THEN d.subject_id = :seeing_subject_id::text
                        WHEN 'session' THEN d.session_id = :seeing_session_id::text
                        ELSE d.session_id = :seeing_session_id::text OR d.subject_id = :seeing_subject_id::text
                        END
                END""",
    }
)


def condition_sql(filter_: Filter) -> str:
    """Return the conditions that the index tests as SQL; "true" without any."""
    return " AND ".join(f"({_CONDITIONS[name]})" for name in filter_.index_conditions) or "true"


# Purged items, and items without a vector, are counted up to these.
MAX_PURGED, MAX_PENDING = 10_000, 1000


class SearchStatements:
    """Runs the statements of one transaction that searches one tenant."""

    def __init__(
        self, tx: Transaction, tenant_id: UUID, *, plans_each: bool, as_of_time: datetime | None = None
    ) -> None:
        """`plans_each`: the transaction begins by planning each statement for its values.

        `as_of_time` is the transaction's; None: it reads the present.
        """
        self._tx = tx
        self._tenant_id = tenant_id
        self._plans_each = plans_each
        self._as_of_time = as_of_time
        # Of the server that numbers transactions, where a statement on a tenant's rows cannot tell.
        self._server_start: datetime | None = None

    @property
    def is_as_of(self) -> bool:
        """Whether the transaction reads what was valid at a time."""
        return self._as_of_time is not None

    @property
    def is_replica(self) -> bool:
        """Whether a replica answers, which may lag behind data from elsewhere."""
        return self._tx.database.is_replica

    @property
    def tenant_id(self) -> UUID:
        """The tenant whose items the transaction reads."""
        return self._tenant_id

    async def policy(self) -> Policy:
        """Return the tenant's policy of the transaction's time. Raises NotKnownThen where its history begins later."""
        if self._as_of_time is None:
            return await shared_policy_cache(self._tx.database).get(self._tx, self._tenant_id)
        await check_history(self._tx, self._tenant_id, self._as_of_time, at=now())
        return await read_policy_as_of(self._tx, self._tenant_id)

    async def zone(self, person_id: str) -> tzinfo:
        """Return the zone of the days that a query about a person names, in the transaction's time.

        Raises NotKnownThen as `policy` does.
        """
        policy = await self.policy()
        if not person_id:
            return policy.zone
        zone = await read_zone_of_subject(self._tx, self._tenant_id, person_id, self._as_of_time)
        return zone or policy.zone

    async def charge_history(self) -> None:
        """Charge the tenant for a search as of a time, which reads the index and what it was before.

        Raises ReadTooCostly while the tenant has no budget left.
        """
        query = QUERIES["count_documents_of_all_times"]
        await self._tx.database.scan_buckets.charge_history(
            self._tenant_id, lambda: self._tx.value(query, tenant_id=self._tenant_id)
        )

    async def count_purged(self, as_of_time: datetime) -> int:
        """Return the number of the tenant's items that were known at a time and purged since, at most MAX_PURGED."""
        (row,) = await self._rows(QUERIES["count_purged"], as_of_time=as_of_time, most=MAX_PURGED)
        return min(int(row["item_count"]), MAX_PURGED)

    async def count_pending(self) -> int:
        """Return the number of the tenant's items that have no vector yet, at most MAX_PENDING."""
        (row,) = await self._rows(QUERIES["count_pending"], most_pending=MAX_PENDING)
        count: int = row["pending_count"]
        return count

    async def log_position(self) -> LogPosition:
        """Return what the transaction sees, if it is repeatable."""
        (row,) = await self._rows(QUERIES["read_log_position"])
        return LogPosition.of(**row)

    async def _rows(self, query: Query, **values: object) -> list[asyncpg.Record]:
        """Run a statement that has one good plan. Planning it takes longer than running it."""
        if self._plans_each:
            self._plans_each = False
            await self._tx.set_plan_mode(replan=False)
        return await self._read(query, **values)

    async def _filtered_rows(self, query: Query, filter_: Filter, **values: object) -> list[asyncpg.Record]:
        """Run a statement among the items that pass a filter: its values decide which index serves it."""
        await self._plan_each()
        return await self._read(with_condition(query, condition_sql(filter_)), **values, **filter_.values)

    async def _read(self, query: Query, **values: object) -> list[asyncpg.Record]:
        """Run a statement on the rows of the transaction's time; every statement on tenants' rows goes through here."""
        if self.is_as_of:
            query = as_of(query)
        return await self._tx.rows(query, tenant_id=self._tenant_id, **values)

    async def _read_server_start(self) -> datetime | None:
        """Return the start time of the server, where a statement on a tenant's rows would tell that of a worker.

        None elsewhere: there the statement tells it, without a round trip of its own.
        """
        if self._server_start is None and self._tx.database.is_citus:
            self._server_start = await self._tx.value(QUERIES["read_server_start"])
        return self._server_start

    async def _plan_each(self) -> None:
        """From now on plan each statement for its values."""
        if not self._plans_each:
            self._plans_each = True
            await self._tx.set_plan_mode(replan=True)


def mean_direction(vectors: Sequence[NDArray[np.float32]]) -> NDArray[np.float32] | None:
    """Return the mean of vectors (dimensions,), of unit length; None without vectors, or where they cancel out."""
    if not vectors:
        return None
    mean = np.sum(vectors, axis=0, dtype=np.float64)
    length = np.linalg.norm(mean)
    return np.asarray(mean / length, dtype=np.float32) if length > 0 else None


def shortlist_values(shortlist: Shortlist, vector: NDArray[np.float32]) -> dict[str, object]:
    columns = vector_columns(vector)
    return {
        "item_ids": shortlist.item_ids,
        "horizon": shortlist.horizon.transaction,
        "kinds": list(shortlist.kinds),
        "vector": columns["embedding"],
        "rest": columns["rest"],
        "most": shortlist.max_new,
    }


COMPARE_AND_READ_SHORTLIST = left_join(
    QUERIES["compare_shortlist"],
    QUERIES["get_memories"],
    on="other.memory_id = found.item_id AND found.chunk = 0 AND NOT found.is_new",
    # The planner must not know the length of the array: for one element it would take any index.
    memory_ids="ARRAY(SELECT found.item_id FROM found WHERE found.kind = 'memory' "
    "AND found.chunk = 0 AND NOT found.is_new AND found.item_id = ANY (:shown_ids::uuid[]))",
    first_of_memory_ids=":first_of_shown_ids",
    last_of_memory_ids=":last_of_shown_ids",
)
NEAREST_AND_READ = left_join(
    QUERIES["nearest"],
    QUERIES["get_memories"],
    # Of a long memory with several chunks, the row of the nearest one has its columns.
    columns="*, row_number() OVER (PARTITION BY given.item_id ORDER BY given.distance) AS place",
    on="other.memory_id = found.item_id AND found.place = 1",
    memory_ids="ARRAY(SELECT found.item_id FROM found "
    "WHERE found.kind = 'memory' AND found.place = 1 ORDER BY found.distance LIMIT :first)",
    # No id is known before.
    first_of_memory_ids="'00000000-0000-0000-0000-000000000000'",
    last_of_memory_ids="'ffffffff-ffff-ffff-ffff-ffffffffffff'",
)
