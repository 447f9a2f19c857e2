"""The metric of how far partitions reach is current, not that of the last look."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from fix_metrics import sample

from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein_worker.rounds.maintenance import MaintenanceJob
from skein_worker.settings import WorkerSettings


class ScriptedServices:
    """Services whose partitions reach a thousand seconds ahead."""

    def __init__(self, response: Any) -> None:
        response.horizon_time.seconds = int(time.time()) + 1000
        self._response = response

    async def EnsurePartitions(self, _request: Any) -> Any:
        return self._response


class System:
    @asynccontextmanager
    async def as_system(self, *, seconds: float) -> AsyncIterator[None]:
        yield


class Store:
    async def purge_job_log(self, before: Any) -> int:
        return 0


def shown(service: str) -> float:
    result = sample("skein_partition_horizon_seconds", service=service)
    assert result is not None
    return result


async def test_the_horizon_comes_nearer_without_upkeep() -> None:
    session = cast("Any", ScriptedServices(session_pb2.EnsurePartitionsResponse()))
    memory = cast("Any", ScriptedServices(memory_pb2.EnsurePartitionsResponse()))
    job = MaintenanceJob(session, memory, cast("Any", System()), cast("Any", Store()), WorkerSettings())

    await job.run(b"", asyncio.Event())

    for service in ("memory", "session"):
        first, later = shown(service), shown(service)
        assert 1000 >= first > later > 0
