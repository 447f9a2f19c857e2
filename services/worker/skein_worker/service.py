"""How the worker is put together."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from skein.auth.v1 import auth_pb2_grpc
from skein.memory.v1 import memory_pb2, memory_pb2_grpc
from skein.recall.v1 import recall_pb2_grpc
from skein.session.v1 import archives_pb2, session_pb2_grpc
from skein.tenancy.v1 import tenancy_pb2_grpc
from skein_kit.service import Host, Service, Servicers
from skein_kit.settings import SettingInvalid
from skein_worker import deletion, reindexing
from skein_worker.jobs import STANDING, Clients, Jobs
from skein_worker.queue import Queue
from skein_worker.rounds import Rounds, Task
from skein_worker.settings import WorkerSettings
from skein_worker.store import Store
from skein_worker.system import System

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_SHORTEST_KEY = 32


@asynccontextmanager
async def start(host: Host) -> AsyncIterator[Servicers]:
    """Open the pool and the queue, and do jobs meanwhile. The worker has no RPCs of its own."""
    settings = WorkerSettings.read(host.environment)
    if len(host.settings.system_key) < _SHORTEST_KEY:
        message = f"SKEIN_SYSTEM_KEY should hold at least {_SHORTEST_KEY} characters: the worker acts with it."
        raise SettingInvalid(message)
    clients = Clients(
        auth=auth_pb2_grpc.IdentityServiceStub(host.channel("auth")),
        tenancy=tenancy_pb2_grpc.TenancyServiceStub(host.channel("tenancy")),
        upkeep=tenancy_pb2_grpc.UpkeepServiceStub(host.channel("tenancy")),
        index=recall_pb2_grpc.IndexServiceStub(host.channel("recall")),
        memory=memory_pb2_grpc.UpkeepServiceStub(host.channel("memory")),
        session=session_pb2_grpc.UpkeepServiceStub(host.channel("session")),
    )
    queue = Queue(
        host.settings.database_url,
        poll_seconds=settings.backlog_seconds,
        silence_seconds=settings.silence_seconds,
        stop_seconds=settings.stop_seconds,
    )
    servicers = Servicers()
    servicers.ready_checks.append(queue.is_connected)
    async with host.database("worker", servicers) as database:
        system = System(clients.auth, key=host.settings.system_key)
        jobs = Jobs(clients, system, Store(database), settings, queue.add)
        deletions = deletion.Deletions(
            deletion.Clients(
                session=clients.session,
                memory=clients.memory,
                recall=clients.index,
                auth=clients.auth,
                tenancy=clients.upkeep,
            ),
            system,
            seconds=settings.deletion_seconds,
        )
        rounds = Rounds(jobs, system, _tasks(clients, settings))
        reindexes = reindexing.Reindexing(clients.index, system, settings)
        works = {
            **jobs.works(),
            deletion.DELETION: deletions.run,
            reindexing.REINDEXING: reindexes.run,
            **rounds.works(),
        }
        async with queue.running(works, standing=(*STANDING, deletion.STANDING, reindexing.STANDING, *rounds.standing)):
            yield servicers


def _tasks(clients: Clients, settings: WorkerSettings) -> list[Task]:
    memory = clients.memory
    return [
        Task(
            name="webhooks",
            seconds=settings.webhook_seconds,
            calls=[lambda: memory.DeliverWebhooks(memory_pb2.DeliverWebhooksRequest())],
            priority=2,
            # Receivers that hang are waited for: nobody's hold up everybody's for long.
            calls_per_turn=2,
            rest_seconds=settings.rest_seconds,
        ),
        Task(
            name="decay",
            seconds=settings.decay_seconds,
            calls=[lambda: memory.DecayMemories(memory_pb2.DecayMemoriesRequest())],
        ),
        Task(
            name="snapshots",
            seconds=settings.snapshot_seconds,
            calls=[lambda: memory.ContinueSnapshots(memory_pb2.ContinueSnapshotsRequest())],
            priority=2,
            rest_seconds=settings.rest_seconds,
        ),
        Task(
            name="lifecycle",
            seconds=settings.lifecycle_seconds,
            calls=[
                lambda: memory.ArchiveIdle(memory_pb2.ArchiveIdleRequest()),
                lambda: memory.ApplyRetention(memory_pb2.ApplyRetentionRequest()),
                lambda: clients.session.StoreArchived(archives_pb2.StoreArchivedRequest()),
            ],
        ),
    ]


SERVICE = Service(name="worker", port=50056, calls=("auth", "tenancy", "session", "memory", "recall"), start=start)
