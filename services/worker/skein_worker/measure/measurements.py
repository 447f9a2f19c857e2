"""Periodic measurements: of server, queue and newest backup by every worker, of waiting items by rounds over tenants.

A gauge whose measurement fails disappears after a few rounds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg

from skein_kit.backup_folder import NewestBackup, find_newest_backup
from skein_kit.database.named_queries import Queries
from skein_kit.database.transactions import Database
from skein_kit.errors import RpcError
from skein_kit.telemetry import logs
from skein_kit.telemetry.metrics import without_tracing
from skein_worker.measure.expiring_gauge import ExpiringGauge, declare_measurements, record_measurement

_QUERIES = Queries.load("skein_worker")


class MeasurementStore:
    """Reads the server's statistics, its catalog and the queue's table."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def is_citus(self) -> bool:
        """Whether the database has several machines, each to be measured."""
        return self._database.is_citus

    async def measure(self, query: str) -> list[asyncpg.Record]:
        """Return the rows of a query of this package, which says what its columns are."""
        async with self._database.global_transaction() as tx:
            return await tx.rows(_QUERIES[query])


# A statement that takes longer is cancelled until the next round.
_STATEMENT_SECONDS = 10.0
# Rounds that may fail before a gauge disappears.
_MAX_FAILED_ROUNDS = 3
_MARGIN_SECONDS = 30.0
# Rounds from one measurement of the tables to the next. With 120 months it reads 6,000 pages of the catalog.
_ROUNDS_BETWEEN_TABLES = 5
_BACKLOG, _WEBHOOKS = "embedding_backlog", "webhooks"

DATABASE_BYTES = ExpiringGauge("skein_database_bytes", "Size of the database.")
TABLE_BYTES = ExpiringGauge(
    "skein_database_table_bytes", "Size of a table with its partitions and indexes.", ["schema", "table"]
)
OLDEST_TRANSACTION = ExpiringGauge("skein_database_oldest_transaction_seconds", "Age of the oldest open transaction.")
WRAPAROUND = ExpiringGauge(
    "skein_database_wraparound_ratio", "Used share of the transaction ids; at 1 Postgres refuses writes."
)
REPLICATION_SECONDS = ExpiringGauge(
    "skein_replication_lag_seconds", "Time that a replica is behind. Absent for a disconnected one.", ["replica"]
)
REPLICATION_BYTES = ExpiringGauge(
    "skein_replication_lag_bytes",
    "Bytes of the write-ahead log that a replica is behind; also of a disconnected one with a slot.",
    ["replica"],
)
ARCHIVE_FAILURES = ExpiringGauge(
    "skein_wal_archive_failures_total", "Failed attempts to archive a file of the write-ahead log.", kind="counter"
)
ARCHIVE_DELAY = ExpiringGauge(
    "skein_wal_archive_delay_seconds",
    "Time since the oldest unarchived part of the write-ahead log was written; 0 if all is archived.",
)
MACHINE_UP = ExpiringGauge(
    "skein_citus_machine_up", "1 if a machine of the Citus cluster answers, 0 if not.", ["machine"]
)
MACHINE_BYTES = ExpiringGauge(
    "skein_citus_machine_database_bytes", "Size of the database on a machine of the Citus cluster.", ["machine"]
)
MACHINE_WRAPAROUND = ExpiringGauge(
    "skein_citus_machine_wraparound_ratio", "Used share of the transaction ids of a machine.", ["machine"]
)
MACHINE_PREPARED = ExpiringGauge(
    "skein_citus_machine_oldest_prepared_seconds",
    "Age of a machine's oldest prepared transaction, whose rows no transaction sees yet; 0 without one.",
    ["machine"],
)
LOG_LAG = ExpiringGauge(
    "skein_change_log_lag_seconds", "Delay of change notifications caused by older open transactions."
)
QUEUE_JOBS = ExpiringGauge(
    "skein_worker_queue_jobs", "Jobs in the queue: waiting (queued) or running (picked).", ["job_name", "status"]
)
QUEUE_OLDEST = ExpiringGauge(
    "skein_worker_queue_oldest_seconds", "Time that the oldest due job has waited.", ["job_name"]
)
WEBHOOKS_DUE = ExpiringGauge(
    "skein_webhook_due_deliveries", "Webhook deliveries that are due; at most 1,000 of a tenant are counted."
)
WEBHOOKS_OLDEST = ExpiringGauge(
    "skein_webhook_oldest_due_seconds", "Time that the oldest due webhook delivery has waited."
)
BACKLOG_ITEMS = ExpiringGauge(
    "skein_embedding_backlog_documents", "Documents without vectors; at most 10,000 of a tenant are counted."
)
BACKLOG_OLDEST = ExpiringGauge(
    "skein_embedding_backlog_oldest_seconds", "Time that the oldest document has waited for its vector."
)

Values = dict[tuple[str, ...], float]

log = logs.get("worker")


class ServerMeasurements:
    """Measures the server and the queue."""

    def __init__(self, store: MeasurementStore, *, seconds: float) -> None:
        """Measure every `seconds`."""
        self._store = store
        self._seconds = seconds
        self._ttl_seconds = _MAX_FAILED_ROUNDS * seconds + _MARGIN_SECONDS
        self._last_errors: dict[str, str] = {}
        self._round = 0
        self._measurements = {
            "server": self._server,
            "transactions": self._transactions,
            "replicas": self._replicas,
            "tables": self._tables,
            "queue": self._queue,
        }
        if store.is_citus:
            self._measurements["machines"] = self._machines
        declare_measurements(*self._measurements, _BACKLOG, _WEBHOOKS)

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            with without_tracing():
                await self.measure()
            await asyncio.sleep(self._seconds)

    async def measure(self) -> None:
        """Do each measurement once, also after one that fails; that of the tables in the first of five rounds."""
        for name, measurement in self._measurements.items():
            if name != "tables" or self._round % _ROUNDS_BETWEEN_TABLES == 0:
                await self._measure_one(name, measurement)
        self._round += 1

    async def _measure_one(self, name: str, measurement: Callable[[], Awaitable[None]]) -> None:
        try:
            async with asyncio.timeout(_STATEMENT_SECONDS):
                await measurement()
        except (RpcError, asyncpg.PostgresError, TimeoutError) as error:
            error_name = type(error).__name__
            if self._last_errors.get(name) != error_name:
                log.warning("measurement_failed", measurement=name, error=error_name)
            self._last_errors[name] = error_name
        else:
            self._last_errors.pop(name, None)
            record_measurement(name)

    async def _server(self) -> None:
        (row,) = await self._store.measure("measure_server")
        self._put(DATABASE_BYTES, row["bytes"])
        self._put(WRAPAROUND, row["wraparound"])
        self._put(ARCHIVE_FAILURES, row["archive_failures"])
        self._put(ARCHIVE_DELAY, row["archive_delay"])

    async def _transactions(self) -> None:
        (row,) = await self._store.measure("measure_transactions")
        self._put(OLDEST_TRANSACTION, row["oldest"])
        self._put(LOG_LAG, row["oldest_write"])

    async def _replicas(self) -> None:
        rows = await self._store.measure("measure_replicas")
        for metric, column in ((REPLICATION_SECONDS, "seconds"), (REPLICATION_BYTES, "bytes")):
            lags: Values = {}
            for row in rows:
                if row[column] is not None:
                    # Replicas that share a name count as the one that is behind the most.
                    lags[row["name"],] = max(lags.get((row["name"],), 0.0), float(row[column]))
            metric.put(lags, ttl_seconds=self._ttl_seconds)

    async def _machines(self) -> None:
        rows = await self._store.measure("measure_machines")
        MACHINE_UP.put({(row["machine"],): float(row["answers"]) for row in rows}, ttl_seconds=self._ttl_seconds)
        for metric, column in (
            (MACHINE_BYTES, "bytes"),
            (MACHINE_WRAPAROUND, "wraparound"),
            (MACHINE_PREPARED, "prepared"),
        ):
            values: Values = {(row["machine"],): row[column] for row in rows if row[column] is not None}
            metric.put(values, ttl_seconds=self._ttl_seconds)

    async def _tables(self) -> None:
        rows = await self._store.measure("measure_tables")
        sizes: Values = {(row["schema"], row["table"]): float(row["bytes"]) for row in rows}
        TABLE_BYTES.put(sizes, ttl_seconds=self._ttl_seconds + _ROUNDS_BETWEEN_TABLES * self._seconds)

    async def _queue(self) -> None:
        rows = await self._store.measure("measure_queue")
        jobs: Values = {(row["entrypoint"], row["status"]): float(row["jobs"]) for row in rows}
        oldest: Values = {(row["entrypoint"],): 0.0 for row in rows}
        for row in rows:
            if row["oldest"] is not None:
                oldest[row["entrypoint"],] = float(row["oldest"])
        QUEUE_JOBS.put(jobs, ttl_seconds=self._ttl_seconds)
        QUEUE_OLDEST.put(oldest, ttl_seconds=self._ttl_seconds)

    def _put(self, metric: ExpiringGauge, value: float | None) -> None:
        metric.put({} if value is None else {(): float(value)}, ttl_seconds=self._ttl_seconds)


@dataclass(slots=True)
class PendingCounts:
    """Counts of waiting items by tenant, as this worker has seen them.

    An imported item may be older than its import. Therefore no item counts as waiting for longer than this worker has
    seen its tenant with waiting items.
    """

    _pending: dict[str, tuple[int, float]] = field(default_factory=dict)
    _first_seen: dict[str, float] = field(default_factory=dict)

    def record(self, tenant_id: str, count: int, oldest: float, *, at: float) -> None:
        """Set a tenant's count at the time `at`; `oldest` is the time of its oldest item. Times are Unix seconds."""
        if count:
            self._pending[tenant_id] = count, oldest
            self._first_seen.setdefault(tenant_id, at)
        else:
            self._pending.pop(tenant_id, None)
            self._first_seen.pop(tenant_id, None)

    def retain_only(self, tenant_ids: Collection[str]) -> None:
        """Drop all other tenants."""
        for tenant_id in self._pending.keys() - set(tenant_ids):
            del self._pending[tenant_id], self._first_seen[tenant_id]

    @property
    def count(self) -> int:
        """The waiting items of all tenants."""
        return sum(count for count, _ in self._pending.values())

    def oldest_age(self, at: float, *, since_first_seen: bool) -> float:
        """Return the seconds that the oldest item has waited.

        With `since_first_seen`, an item waits at most since this worker first saw its tenant with waiting items.
        """
        start_times = [
            max(oldest, self._first_seen[tenant_id]) if since_first_seen else oldest
            for tenant_id, (_, oldest) in self._pending.items()
        ]
        return max(0.0, at - min(start_times, default=at))


def set_backlog_metrics(counts: PendingCounts, *, pause: float) -> None:
    """Set the metrics of items without vectors; the next scan begins after `pause` seconds."""
    _put_counts(_BACKLOG, counts, BACKLOG_ITEMS, BACKLOG_OLDEST, pause=pause, since_first_seen=True)


def set_webhook_metrics(counts: PendingCounts, *, pause: float) -> None:
    """Set the metrics of due webhook deliveries; the next round begins after `pause` seconds."""
    _put_counts(_WEBHOOKS, counts, WEBHOOKS_DUE, WEBHOOKS_OLDEST, pause=pause, since_first_seen=False)


def _put_counts(
    name: str,
    counts: PendingCounts,
    items: ExpiringGauge,
    oldest: ExpiringGauge,
    *,
    pause: float,
    since_first_seen: bool,
) -> None:
    ttl_seconds = _MAX_FAILED_ROUNDS * pause + _MARGIN_SECONDS
    items.put({(): float(counts.count)}, ttl_seconds=ttl_seconds)
    oldest.put({(): counts.oldest_age(time.time(), since_first_seen=since_first_seen)}, ttl_seconds=ttl_seconds)
    record_measurement(name)


# Rounds that may fail before a gauge disappears.

LAST_SUCCESS = ExpiringGauge(
    "skein_backup_last_success_timestamp_seconds",
    "Unix time at which the newest backup in SKEIN_BACKUP_DIR was finished. Absent if there is none.",
)
BYTES = ExpiringGauge("skein_backup_bytes", "Size of the newest backup in SKEIN_BACKUP_DIR.")


async def measure_backups(folder: Path, seconds: float) -> None:
    """Measure every `seconds`, until cancelled."""
    declare_measurements("backups")
    while True:
        newest = await asyncio.to_thread(find_newest_backup, folder)
        set_backup_metrics(newest, ttl_seconds=_MAX_FAILED_ROUNDS * seconds + _MARGIN_SECONDS)
        record_measurement("backups")
        await asyncio.sleep(seconds)


def set_backup_metrics(newest: NewestBackup | None, *, ttl_seconds: float) -> None:
    """Set the metrics of the newest backup for `ttl_seconds`; without a backup they disappear."""
    LAST_SUCCESS.put({(): newest.finish_time.timestamp()} if newest else {}, ttl_seconds=ttl_seconds)
    BYTES.put({(): float(newest.byte_count)} if newest else {}, ttl_seconds=ttl_seconds)
