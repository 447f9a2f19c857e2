"""The maintenance job: partitions of the coming months, and the purge of the queue's log."""

from __future__ import annotations

import asyncio
import functools
import time
from datetime import UTC, datetime, timedelta

from grpc import aio
from prometheus_client import Gauge

from skein.memory.v1 import memory_pb2, memory_pb2_grpc
from skein.session.v1 import session_pb2, session_pb2_grpc
from skein_kit.errors import RpcError
from skein_kit.telemetry import logs
from skein_worker.job_queue.job_queue import Job, JobStore
from skein_worker.settings import WorkerSettings
from skein_worker.system_identity import SystemIdentity

# The name of the job in the queue.
MAINTENANCE = "maintenance"
# The payload of a job that does not run again.
RUN_ONCE = b"once"
# The second job runs whenever a worker starts, even if the next run of the first one is far away.
MAINTENANCE_JOBS = (
    Job(name=MAINTENANCE, dedupe_key=MAINTENANCE, priority=1),
    Job(name=MAINTENANCE, dedupe_key=f"{MAINTENANCE} at start", payload=RUN_ONCE, priority=1),
)

HORIZON = Gauge("skein_partition_horizon_seconds", "Time until the end of the last partition that exists.", ["service"])

_CALL_SECONDS = 30.0
_RETRY_SECONDS = 60.0
# Partitions exist for months ahead.
_RUN_SECONDS = 3600.0
# The log of finished jobs helps to explain yesterday's incident.
_LOG_RETENTION = timedelta(days=1)

log = logs.get("worker")


class MaintenanceJob:
    """Creates partitions and purges the queue's log."""

    def __init__(
        self,
        session: session_pb2_grpc.SessionInternalServiceAsyncStub,
        memory: memory_pb2_grpc.MemoryInternalServiceAsyncStub,
        system: SystemIdentity,
        store: JobStore,
        settings: WorkerSettings,
    ) -> None:
        self._session = session
        self._memory = memory
        self._system = system
        self._store = store
        self._settings = settings

    async def run(self, payload: bytes, _stop: asyncio.Event) -> float | None:
        """Do the maintenance; return the seconds until the next run, None for a job that runs once."""
        try:
            async with self._system.as_system(seconds=_CALL_SECONDS):
                session = await self._session.EnsurePartitions(session_pb2.EnsurePartitionsRequest())
            # A time of its own: on Citus a month takes two seconds.
            async with self._system.as_system(seconds=_CALL_SECONDS):
                memory = await self._memory.EnsurePartitions(memory_pb2.EnsurePartitionsRequest())
            await self._store.purge_job_log(datetime.now(UTC) - _LOG_RETENTION)
        except aio.AioRpcError as error:
            log.warning("maintenance_failed", code=error.code().name)
            return _RETRY_SECONDS
        except RpcError as error:
            log.warning("maintenance_failed", reason=error.reason)
            return _RETRY_SECONDS
        # A function, because the time shrinks between two runs.
        for service, horizon in (("session", session.horizon_time), ("memory", memory.horizon_time)):
            HORIZON.labels(service).set_function(functools.partial(_seconds_until, horizon.seconds))
        created_count = session.created_count + memory.created_count
        if created_count:
            log.info("partitions_created", count=created_count, horizon=memory.horizon_time.ToJsonString())
        return None if payload == RUN_ONCE else _RUN_SECONDS * self._settings.pause_factor


def _seconds_until(at: float) -> float:
    return at - time.time()
