"""The job queue: pgqueuer on one connection of its own, which comes back by itself when it is lost.

Nothing here knows what jobs do. A job is a name, a payload and, so that it exists once, a key.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import asyncpg
from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver
from pgqueuer.adapters.persistence.qb import QueryBuilderEnvironment, QueryQueueBuilder, QuerySchedulerBuilder
from pgqueuer.adapters.persistence.queries import Queries
from pgqueuer.core.qm import QueueManager
from pgqueuer.domain.settings import DBSettings, Durability
from pgqueuer.domain.types import Channel
from pgqueuer.errors import RetryRequested
from prometheus_client import Counter, Histogram

from skein_kit.database.connection_settings import connect_arguments, database_role
from skein_kit.telemetry import logs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from pgqueuer.models import Job as Row

# What does a job: payload, and an event that asks it to leave off soon (the process stops or the queue is lost). It
# returns the seconds after which the same job is to run again, or None when it is done. Doing a job twice does no harm.
Work = Callable[[bytes, asyncio.Event], Awaitable[float | None]]

# Not labelled "job": Prometheus has a label of that name for what it scrapes.
JOBS = Counter("skein_worker_jobs_total", "Jobs that ended.", ["name", "outcome"])
JOB_TIME = Histogram(
    "skein_worker_job_duration_seconds",
    "Time that a job took.",
    ["name"],
    buckets=(0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 30.0, 60.0, 300.0),
)

_CONNECT_SECONDS = 5.0
# A statement that takes longer means that the connection is of no more use.
_STATEMENT_SECONDS = 15.0
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 2.0
_LONGEST_POLL_SECONDS = 5.0
# After a fault of ours the same job is tried again, unhurriedly.
_FAULT_PAUSE_SECONDS = 30.0
_JOBS_PER_BATCH = 4
_JOBS_AT_ONCE = 2 * _JOBS_PER_BATCH

# Every name is said: what is left unsaid would be read from environment variables such as CHANNEL or FUNCTION.
_NAMES = DBSettings(
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
# A lost connection and a failed job are events here, once each; the library would add a traceback to every one.
logging.getLogger("pgqueuer").setLevel(logging.CRITICAL)


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """Something to do. Of the jobs with one key only one waits or works at a time, over all workers."""

    name: str
    key: str
    payload: bytes = b""
    # The highest goes first; among equals the oldest.
    priority: int = 0


class JobQueue:
    """Takes jobs and does them, several at once, while the connection lasts."""

    def __init__(
        self,
        url: str,
        *,
        poll_seconds: float,
        silence_seconds: float,
        stop_seconds: float,
    ) -> None:
        self._url = url
        self._poll = timedelta(seconds=min(poll_seconds, _LONGEST_POLL_SECONDS))
        self._silence = timedelta(seconds=silence_seconds)
        self._stop_seconds = stop_seconds
        self._queries: Queries | None = None
        self._stopping = asyncio.Event()
        self._complaint = ""

    async def is_connected(self) -> bool:
        """Say whether jobs are being taken."""
        return self._queries is not None

    async def add(self, *jobs: Job) -> None:
        """Put jobs into the queue, passing over those whose key waits or works already.

        While the connection is lost nothing is added: whoever finds work finds it again.
        """
        if self._queries is not None:
            await _add(self._queries, jobs)

    @asynccontextmanager
    async def running(self, works: Mapping[str, Work], *, standing: Sequence[Job]) -> AsyncIterator[None]:
        """Do jobs until the block ends, then let those at work leave off.

        `works` is what does the jobs of each name. Every worker adds the `standing` jobs that are missing whenever it
        connects, so they exist for ever.
        """
        task = asyncio.create_task(self._keep_working(works, standing))
        try:
            yield
        finally:
            self._stopping.set()
            await asyncio.wait({task}, timeout=self._stop_seconds)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _keep_working(self, works: Mapping[str, Work], standing: Sequence[Job]) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while not self._stopping.is_set():
            started = time.monotonic()
            try:
                await self._work(works, standing)
            except Exception as error:  # noqa: BLE001 - whatever broke this connection, the next one may work.
                self._complain(error)
            if time.monotonic() - started > _LONGEST_PAUSE_SECONDS:
                pause = _FIRST_PAUSE_SECONDS
            await _either(self._stopping, seconds=pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _work(self, works: Mapping[str, Work], standing: Sequence[Job]) -> None:
        """Connect and do jobs until the connection is lost (an error) or the process stops."""
        connection = await asyncpg.connect(
            **connect_arguments(self._url, database_role("worker")),
            timeout=_CONNECT_SECONDS,
            command_timeout=_STATEMENT_SECONDS,
        )
        lost = asyncio.Event()
        connection.add_termination_listener(lambda _connection: lost.set())
        leave_off = asyncio.Event()
        queries = Queries(
            AsyncpgDriver(connection),
            QueryBuilderEnvironment(_NAMES),
            QueryQueueBuilder(_NAMES),
            QuerySchedulerBuilder(_NAMES),
        )
        manager = QueueManager(queries, _NAMES.channel)
        for name, work in works.items():
            manager.entrypoint(name, accepts_context=False)(_doing(name, work, leave_off))
        try:
            await _add(queries, standing)
            working = asyncio.create_task(
                manager.run(
                    dequeue_timeout=self._poll,
                    batch_size=_JOBS_PER_BATCH,
                    max_concurrent_tasks=_JOBS_AT_ONCE,
                    shutdown_on_listener_failure=True,
                    heartbeat_timeout=self._silence,
                    # Statistics are Prometheus' business.
                    log_aggregation_interval=timedelta(0),
                )
            )
            self._queries = queries
            self._complaint = ""
            log.info("queue_connected")
            try:
                await _either(lost, self._stopping, task=working)
                self._queries = None
                leave_off.set()
                manager.shutdown.set()
                await working
            finally:
                self._queries = None
                working.cancel()
                await asyncio.gather(working, return_exceptions=True)
            if lost.is_set():
                message = "the server closed the connection"
                raise ConnectionResetError(message)
        finally:
            await _close(connection)

    def _complain(self, error: Exception) -> None:
        """Log a reason once, not at every attempt."""
        complaint = f"{type(error).__name__}: {error}"
        if complaint != self._complaint:
            self._complaint = complaint
            log.warning("queue_lost", error=complaint)


def _doing(name: str, work: Work, leave_off: asyncio.Event) -> Callable[[Row], Awaitable[None]]:
    timer = JOB_TIME.labels(name)
    done, failed = JOBS.labels(name, "done"), JOBS.labels(name, "failed")

    async def do(row: Row) -> None:
        started = time.perf_counter()
        try:
            again = await work(row.payload or b"", leave_off)
            done.inc()
        except Exception:
            failed.inc()
            log.exception("job_failed", job=name, job_id=row.id)
            again = _FAULT_PAUSE_SECONDS
        finally:
            timer.observe(time.perf_counter() - started)
        if again is not None:
            raise RetryRequested(delay=timedelta(seconds=again))

    return do


async def _add(queries: Queries, jobs: Sequence[Job]) -> None:
    await queries.enqueue(
        [job.name for job in jobs],
        [job.payload for job in jobs],
        [job.priority for job in jobs],
        dedupe_key=[job.key for job in jobs],
        on_conflict="skip",
    )


async def _either(*events: asyncio.Event, task: asyncio.Task[None] | None = None, seconds: float | None = None) -> None:
    """Wait until an event is set, the task is done or the time is over."""
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
