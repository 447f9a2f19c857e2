"""The job queue: pgqueuer on a connection of its own, which is opened again when it is lost.

This module uses names that the package pgqueuer exports at its top. DBSettings, Durability, Channel and the three query
builders come from submodules, because only they put the tables into a schema without reading environment variables.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

import asyncpg
from pgqueuer import AsyncpgDriver, Queries, QueueManager, RetryRequested
from pgqueuer import Job as JobRow
from pgqueuer.adapters.persistence.qb import QueryBuilderEnvironment, QueryQueueBuilder, QuerySchedulerBuilder
from pgqueuer.domain.settings import DBSettings, Durability
from pgqueuer.types import Channel
from prometheus_client import Counter, Histogram

from skein_kit.database import named_queries
from skein_kit.database.connection_settings import connect_arguments, database_role
from skein_kit.database.transactions import Database
from skein_kit.telemetry import logs

# Runs a job with its payload. The event is set when the job should stop soon, because the process stops or the queue is
# disconnected. Returns the seconds until the job runs again, None when it is done. Running a job twice must do no harm.
JobHandler = Callable[[bytes, asyncio.Event], Awaitable[float | None]]

# The label is not "job", which Prometheus sets to the name of the scraped target.
JOBS = Counter("skein_worker_jobs_total", "Jobs that ended, by outcome.", ["job_name", "outcome"])
JOB_TIME = Histogram(
    "skein_worker_job_duration_seconds",
    "Duration of a job.",
    ["job_name"],
    buckets=(0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 30.0, 60.0, 300.0),
)

_CONNECT_SECONDS = 5.0
# The connection counts as lost when a statement takes longer.
_STATEMENT_SECONDS = 15.0
_MIN_RECONNECT_SECONDS = 0.1
_MAX_RECONNECT_SECONDS = 2.0
_MAX_POLL_SECONDS = 5.0
# The pause before a job runs again after an exception.
_FAILED_JOB_SECONDS = 30.0
_JOBS_PER_BATCH = 4
# Three rounds run nearly all the time.
_JOBS_AT_ONCE = 3 * _JOBS_PER_BATCH

# All fields are set, because pgqueuer reads others from environment variables such as CHANNEL or FUNCTION.
_TABLES = DBSettings(
    prefix="",
    db_schema="worker",
    channel=Channel("ch_pgqueuer"),
    function="fn_pgqueuer_changed",
    statistics_table="pgqueuer_statistics",
    queue_status_type="pgqueuer_status",
    queue_table="pgqueuer",
    queue_table_log="pgqueuer_log",
    trigger="tg_pgqueuer_changed",
    schedules_table="pgqueuer_schedules",
    durability=Durability.durable,
    widen_id=False,
)

log = logs.get("worker")
# This module logs lost connections and failed jobs once each; pgqueuer would add a traceback to each.
logging.getLogger("pgqueuer").setLevel(logging.CRITICAL)


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A job of the queue. Of the jobs with one dedupe key, over all workers, only one is queued or runs at a time."""

    # The name of its handler.
    name: str
    dedupe_key: str
    payload: bytes = b""
    # The highest runs first; among equals the oldest.
    priority: int = 0


class JobQueue:
    """Runs jobs, several at once, and reconnects when the connection is lost."""

    def __init__(
        self,
        url: str,
        *,
        poll_seconds: float,
        silence_seconds: float,
        stop_seconds: float,
    ) -> None:
        """Take jobs of workers that were silent for `silence_seconds`; give jobs `stop_seconds` to stop."""
        self._url = url
        self._poll = timedelta(seconds=min(poll_seconds, _MAX_POLL_SECONDS))
        self._silence = timedelta(seconds=silence_seconds)
        self._stop_seconds = stop_seconds
        self._queries: Queries | None = None
        self._stopping = asyncio.Event()
        self._last_error = ""

    async def is_connected(self) -> bool:
        """Return whether the queue runs jobs."""
        return self._queries is not None

    async def add(self, *jobs: Job) -> None:
        """Add jobs, but for those whose dedupe key is queued or runs.

        Adds nothing while the connection is lost: the next round adds the job.
        """
        if self._queries is not None:
            await _add(self._queries, jobs)

    @asynccontextmanager
    async def run(self, handlers: Mapping[str, JobHandler], *, periodic_jobs: Sequence[Job]) -> AsyncIterator[None]:
        """Run jobs until the block ends, and then stop those that run.

        `handlers` are those of the jobs by name. Each worker adds missing `periodic_jobs` whenever it connects.
        """
        task = asyncio.create_task(self._reconnect_forever(handlers, periodic_jobs))
        try:
            yield
        finally:
            self._stopping.set()
            await asyncio.wait({task}, timeout=self._stop_seconds)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _reconnect_forever(self, handlers: Mapping[str, JobHandler], periodic_jobs: Sequence[Job]) -> None:
        pause = _MIN_RECONNECT_SECONDS
        while not self._stopping.is_set():
            start = time.monotonic()
            try:
                await self._consume(handlers, periodic_jobs)
            except Exception as error:  # noqa: BLE001 - the next connection may work after any error.
                self._log_error(error)
            if time.monotonic() - start > _MAX_RECONNECT_SECONDS:
                pause = _MIN_RECONNECT_SECONDS
            await _wait_first(self._stopping, seconds=pause)
            pause = min(2 * pause, _MAX_RECONNECT_SECONDS)

    async def _consume(self, handlers: Mapping[str, JobHandler], periodic_jobs: Sequence[Job]) -> None:
        """Connect and run jobs until the process stops. Raises an error when the connection is lost."""
        connection = await asyncpg.connect(
            **connect_arguments(self._url, database_role("worker")),
            timeout=_CONNECT_SECONDS,
            command_timeout=_STATEMENT_SECONDS,
        )
        disconnected = asyncio.Event()
        connection.add_termination_listener(lambda _connection: disconnected.set())
        stop = asyncio.Event()
        queries = Queries(
            AsyncpgDriver(connection),
            QueryBuilderEnvironment(_TABLES),
            QueryQueueBuilder(_TABLES),
            QuerySchedulerBuilder(_TABLES),
        )
        manager = QueueManager(queries, _TABLES.channel)
        for name, handler in handlers.items():
            manager.entrypoint(name, accepts_context=False)(_job_runner(name, handler, stop))
        try:
            await _add(queries, periodic_jobs)
            consumer = asyncio.create_task(
                manager.run(
                    dequeue_timeout=self._poll,
                    batch_size=_JOBS_PER_BATCH,
                    max_concurrent_tasks=_JOBS_AT_ONCE,
                    shutdown_on_listener_failure=True,
                    heartbeat_timeout=self._silence,
                    # Prometheus has the statistics.
                    log_aggregation_interval=timedelta(0),
                )
            )
            self._queries = queries
            self._last_error = ""
            log.info("queue_connected")
            try:
                await _wait_first(disconnected, self._stopping, task=consumer)
                self._queries = None
                stop.set()
                manager.shutdown.set()
                await consumer
            finally:
                self._queries = None
                consumer.cancel()
                await asyncio.gather(consumer, return_exceptions=True)
            if disconnected.is_set():
                message = "the server closed the connection"
                raise ConnectionResetError(message)
        finally:
            await _close(connection)

    def _log_error(self, error: Exception) -> None:
        """Log an error unless the attempt before failed with the same."""
        text = f"{type(error).__name__}: {error}"
        if text != self._last_error:
            self._last_error = text
            log.warning("queue_connection_failed", error=text)


def _job_runner(name: str, handler: JobHandler, stop: asyncio.Event) -> Callable[[JobRow], Awaitable[None]]:
    timer = JOB_TIME.labels(name)
    done_counter, failed_counter = JOBS.labels(name, "done"), JOBS.labels(name, "failed")

    async def run_job(row: JobRow) -> None:
        start = time.perf_counter()
        try:
            pause = await handler(row.payload or b"", stop)
            done_counter.inc()
        except Exception:
            failed_counter.inc()
            log.exception("job_failed", job=name, job_id=row.id)
            pause = _FAILED_JOB_SECONDS
        finally:
            timer.observe(time.perf_counter() - start)
        if pause is not None:
            raise RetryRequested(delay=timedelta(seconds=pause))

    return run_job


async def _add(queries: Queries, jobs: Sequence[Job]) -> None:
    await queries.enqueue(
        [job.name for job in jobs],
        [job.payload for job in jobs],
        [job.priority for job in jobs],
        dedupe_key=[job.dedupe_key for job in jobs],
        on_conflict="skip",
    )


async def _wait_first(
    *events: asyncio.Event, task: asyncio.Task[None] | None = None, seconds: float | None = None
) -> None:
    """Wait until an event is set, the task is done, or `seconds` are over."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait({*waits, *([task] if task else [])}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


async def _close(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    try:
        await connection.close(timeout=1.0)
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
        connection.terminate()


_QUERIES = named_queries.Queries.load("skein_worker")


class JobStore:
    """Jobs and the log of those that ended."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_active_dedupe_keys(self, job_name: str) -> frozenset[str]:
        """Return the dedupe keys of the jobs of one name that are queued or run."""
        async with self._database.global_transaction() as tx:
            rows = await tx.rows(_QUERIES["list_active_dedupe_keys"], entrypoint=job_name)
        return frozenset(row["dedupe_key"] for row in rows)

    async def purge_job_log(self, before: datetime) -> int:
        """Delete the log of jobs that ended before a time; return how many lines."""
        async with self._database.global_transaction() as tx:
            return await tx.execute(_QUERIES["purge_job_log"], before=before)
