"""What is measured now and then: the server and the queue by every worker, what tenants have waiting by rounds.

Nothing here reads a tenant's rows: the server's statistics, its catalog, the queue's table, and what services say of
the tenant that they were asked for. What could not be measured is not shown.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import asyncpg

from skein_kit.errors import RpcError
from skein_kit.telemetry import logs
from skein_kit.telemetry.expiring_gauge import ExpiringGauge, declare_measurements, record_measurement
from skein_kit.telemetry.metrics import without_tracing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from skein_worker.job_queue.store import Store

# A statement that takes longer is given up until the next round.
_STATEMENT_SECONDS = 10.0
# Rounds that may fail before the last values are shown no more.
_ROUNDS = 3
_MARGIN_SECONDS = 30.0
_BACKLOG, _WEBHOOKS = "embedding_backlog", "webhooks"

DATABASE_BYTES = ExpiringGauge("skein_database_bytes", "Size of the database.")
TABLE_BYTES = ExpiringGauge(
    "skein_database_table_bytes", "Size of a table with its partitions and indexes.", ["schema", "table"]
)
OLDEST_TRANSACTION = ExpiringGauge(
    "skein_database_oldest_transaction_seconds", "How long the oldest transaction has been at work."
)
WRAPAROUND = ExpiringGauge(
    "skein_database_wraparound_ratio", "Share of the range of transaction ids that is used up; at 1 writes end."
)
REPLICATION_SECONDS = ExpiringGauge(
    "skein_replication_lag_seconds", "Time that a replica is behind. Absent for one that is disconnected.", ["replica"]
)
REPLICATION_BYTES = ExpiringGauge(
    "skein_replication_lag_bytes",
    "Bytes of the log that a replica is behind, also of one that is disconnected and has a slot.",
    ["replica"],
)
ARCHIVE_FAILURES = ExpiringGauge(
    "skein_wal_archive_failures_total", "Files of the server's log that could not be archived.", kind="counter"
)
ARCHIVE_AGE = ExpiringGauge(
    "skein_wal_archive_age_seconds",
    "Age of the oldest part of the write-ahead log that is not archived; 0 when all is archived.",
)
LOG_LAG = ExpiringGauge(
    "skein_change_log_lag_seconds", "Delay of change notifications caused by older open transactions."
)
QUEUE_JOBS = ExpiringGauge(
    "skein_worker_queue_jobs", "Jobs in the queue: waiting (queued) or at work (picked).", ["entrypoint", "status"]
)
QUEUE_OLDEST = ExpiringGauge(
    "skein_worker_queue_oldest_seconds", "How long the oldest job that is due has waited.", ["entrypoint"]
)
WEBHOOKS_DUE = ExpiringGauge(
    "skein_webhook_due", "Webhook deliveries that are due and not tried yet; of one tenant 1,000 at most are counted."
)
WEBHOOKS_OLDEST = ExpiringGauge(
    "skein_webhook_oldest_due_seconds", "How long the oldest webhook delivery has been due."
)
BACKLOG_ITEMS = ExpiringGauge(
    "skein_embedding_backlog_items", "Items without vectors; of one tenant 10,000 at most are counted."
)
BACKLOG_OLDEST = ExpiringGauge(
    "skein_embedding_backlog_oldest_seconds", "How long the oldest item has waited for vectors."
)

Values = dict[tuple[str, ...], float]

log = logs.get("worker")


class ServerMeasurements:
    """Looks at the server and the queue, round by round."""

    def __init__(self, store: Store, *, seconds: float) -> None:
        """Ask `store` every so many `seconds`."""
        self._store = store
        self._seconds = seconds
        self._lasting = _ROUNDS * seconds + _MARGIN_SECONDS
        self._complaints: dict[str, str] = {}
        self._looks = {
            "server": self._server,
            "transactions": self._transactions,
            "replicas": self._replicas,
            "tables": self._tables,
            "queue": self._queue,
        }
        declare_measurements(*self._looks, _BACKLOG, _WEBHOOKS)

    async def keep(self) -> None:
        """Measure for ever."""
        while True:
            with without_tracing():
                await self.measure()
            await asyncio.sleep(self._seconds)

    async def measure(self) -> None:
        """Measure everything once; what fails keeps the rest from nothing."""
        for name, look in self._looks.items():
            await self._one(name, look)

    async def _one(self, name: str, look: Callable[[], Awaitable[None]]) -> None:
        try:
            async with asyncio.timeout(_STATEMENT_SECONDS):
                await look()
        except (RpcError, asyncpg.PostgresError, TimeoutError) as error:
            complaint = type(error).__name__
            if self._complaints.get(name) != complaint:
                log.warning("not_measured", measurement=name, error=complaint)
            self._complaints[name] = complaint
        else:
            self._complaints.pop(name, None)
            record_measurement(name)

    async def _server(self) -> None:
        row = await self._store.measure_server()
        self._put(DATABASE_BYTES, row["bytes"])
        self._put(WRAPAROUND, row["wraparound"])
        self._put(ARCHIVE_FAILURES, row["archive_failures"])
        self._put(ARCHIVE_AGE, row["archive_age"])

    async def _transactions(self) -> None:
        row = await self._store.measure_transactions()
        self._put(OLDEST_TRANSACTION, row["oldest"])
        self._put(LOG_LAG, row["oldest_write"])

    async def _replicas(self) -> None:
        rows = await self._store.measure_replicas()
        for metric, column in ((REPLICATION_SECONDS, "seconds"), (REPLICATION_BYTES, "bytes")):
            found: Values = {}
            for row in rows:
                if row[column] is not None:
                    # Replicas that share a name are one: the one that is behind the most.
                    found[row["name"],] = max(found.get((row["name"],), 0.0), float(row[column]))
            metric.put(found, lasting=self._lasting)

    async def _tables(self) -> None:
        rows = await self._store.measure_tables()
        sizes: Values = {(row["schema"], row["table"]): float(row["bytes"]) for row in rows}
        TABLE_BYTES.put(sizes, lasting=self._lasting)

    async def _queue(self) -> None:
        rows = await self._store.measure_queue()
        jobs: Values = {(row["entrypoint"], row["status"]): float(row["jobs"]) for row in rows}
        oldest: Values = {(row["entrypoint"],): 0.0 for row in rows}
        for row in rows:
            if row["oldest"] is not None:
                oldest[row["entrypoint"],] = float(row["oldest"])
        QUEUE_JOBS.put(jobs, lasting=self._lasting)
        QUEUE_OLDEST.put(oldest, lasting=self._lasting)

    def _put(self, metric: ExpiringGauge, value: float | None) -> None:
        metric.put({} if value is None else {(): float(value)}, lasting=self._lasting)


@dataclass(slots=True)
class WaitingCounts:
    """What each tenant has waiting, as far as it is known; tenants with nothing take no room.

    Items that were imported are as old as they say. So none has waited for longer than its tenant has had something
    waiting, as seen by this worker.
    """

    _waiting: dict[str, tuple[int, float]] = field(default_factory=dict)
    _since: dict[str, float] = field(default_factory=dict)

    def note(self, tenant_id: str, count: int, oldest: float, *, at: float) -> None:
        """Note that a tenant has so many waiting, the oldest from the time `oldest`; times are those of Unix."""
        if count:
            self._waiting[tenant_id] = count, oldest
            self._since.setdefault(tenant_id, at)
        else:
            self._waiting.pop(tenant_id, None)
            self._since.pop(tenant_id, None)

    def keep(self, tenant_ids: Collection[str]) -> None:
        """Forget all other tenants: they are gone."""
        for gone in self._waiting.keys() - set(tenant_ids):
            del self._waiting[gone], self._since[gone]

    @property
    def count(self) -> int:
        """Return how many wait in all."""
        return sum(count for count, _ in self._waiting.values())

    def oldest(self, at: float, *, seen: bool) -> float:
        """Return for how long the oldest waits; with `seen` no longer than it has been seen."""
        begins = [max(oldest, self._since[tenant]) if seen else oldest for tenant, (_, oldest) in self._waiting.items()]
        return max(0.0, at - min(begins, default=at))


def set_backlog_metrics(tally: WaitingCounts, *, pause: float) -> None:
    """Show what waits for vectors, after a sweep that another follows after a `pause`."""
    _put_waiting(_BACKLOG, tally, BACKLOG_ITEMS, BACKLOG_OLDEST, pause=pause, seen=True)


def set_webhook_metrics(tally: WaitingCounts, *, pause: float) -> None:
    """Show what webhooks wait for, after a round that another follows after a `pause`."""
    _put_waiting(_WEBHOOKS, tally, WEBHOOKS_DUE, WEBHOOKS_OLDEST, pause=pause, seen=False)


def _put_waiting(
    name: str, tally: WaitingCounts, counted: ExpiringGauge, oldest: ExpiringGauge, *, pause: float, seen: bool
) -> None:
    lasting = _ROUNDS * pause + _MARGIN_SECONDS
    counted.put({(): float(tally.count)}, lasting=lasting)
    oldest.put({(): tally.oldest(time.time(), seen=seen)}, lasting=lasting)
    record_measurement(name)
