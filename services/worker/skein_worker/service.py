"""How the worker is put together."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from google.protobuf.duration_pb2 import Duration

from skein.auth.v1 import auth_pb2_grpc
from skein.memory.v1 import memory_pb2, memory_pb2_grpc
from skein.recall.v1 import recall_pb2_grpc
from skein.session.v1 import archives_pb2, session_pb2, session_pb2_grpc
from skein.tenancy.v1 import tenancy_pb2_grpc
from skein_kit.background import background_tasks
from skein_kit.backup_folder import BackupSettings
from skein_kit.canary import CanarySettings
from skein_kit.host.process import Host, Service, ServicerRegistry
from skein_worker.canary.isolation_check import CANARY, IsolationCheck
from skein_worker.canary.isolation_check import STANDING as CANARY_STANDING
from skein_worker.job_queue.job_queue import JobQueue
from skein_worker.job_queue.store import Store
from skein_worker.measure import newest_backup
from skein_worker.measure.measurements import ServerMeasurements, WaitingCounts, set_webhook_metrics
from skein_worker.rounds import reindex, tenant_deletion
from skein_worker.rounds.jobs import STANDING, Clients, Jobs
from skein_worker.rounds.tenant_rounds import Round, TenantRounds
from skein_worker.settings import WorkerSettings, check
from skein_worker.system_identity import SystemIdentity

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

# So long one worker looks for webhooks; then any may.
_WEBHOOK_TURN_SECONDS = 60.0


@asynccontextmanager
async def start(host: Host) -> AsyncIterator[ServicerRegistry]:
    """Open the pool and the queue, and do jobs meanwhile. The worker has no RPCs of its own."""
    settings = WorkerSettings.read(host.environment)
    check(host.settings)
    clients = Clients(
        auth=auth_pb2_grpc.IdentityServiceStub(host.channel("auth")),
        tenancy=tenancy_pb2_grpc.TenancyServiceStub(host.channel("tenancy")),
        upkeep=tenancy_pb2_grpc.UpkeepServiceStub(host.channel("tenancy")),
        index=recall_pb2_grpc.IndexServiceStub(host.channel("recall")),
        memory=memory_pb2_grpc.UpkeepServiceStub(host.channel("memory")),
        session=session_pb2_grpc.UpkeepServiceStub(host.channel("session")),
    )
    queue = JobQueue(
        # It listens, and a PgBouncer in transaction mode passes on no notification.
        host.settings.database_direct_url or host.settings.database_url,
        poll_seconds=settings.backlog_seconds,
        silence_seconds=settings.silence_seconds,
        stop_seconds=settings.stop_seconds,
    )
    servicers = ServicerRegistry()
    servicers.ready_checks.append(queue.is_connected)
    async with host.database("worker", servicers) as database:
        system = SystemIdentity(clients.auth, key=host.settings.system_key)
        store = Store(database)
        jobs = Jobs(clients, system, store, settings, queue.add)
        measuring = ServerMeasurements(store, seconds=settings.measure_seconds)
        deletions = tenant_deletion.TenantDeletionJob(
            tenant_deletion.Clients(
                session=clients.session,
                memory=clients.memory,
                recall=clients.index,
                auth=clients.auth,
                tenancy=clients.upkeep,
            ),
            system,
            seconds=settings.deletion_seconds,
        )
        rounds = TenantRounds(jobs, system, _tasks(clients, settings))
        reindexes = reindex.Reindexing(clients.index, system, settings)
        seconds = CanarySettings.read(host.environment).canary_seconds
        looking = IsolationCheck(
            host.channel("gateway"), auth_pb2_grpc.AuthServiceStub(host.channel("auth")), system, seconds=seconds
        )
        works = {
            **jobs.works(),
            tenant_deletion.DELETION: deletions.run,
            reindex.REINDEXING: reindexes.run,
            **rounds.works(),
            CANARY: looking.run,
        }
        standing = [*STANDING, tenant_deletion.STANDING, reindex.STANDING, *rounds.standing]
        if seconds > 0:
            standing.append(CANARY_STANDING)
        # Beside the queue: it is what tells when the queue stands still.
        lasting = {"measuring": measuring.keep}
        backup_dir = BackupSettings.read(host.environment).backup_dir
        if backup_dir is not None:
            lasting["backups"] = lambda: newest_backup.keep(backup_dir, settings.measure_seconds)
        async with background_tasks(**lasting), queue.running(works, standing=standing):
            yield servicers


def _tasks(clients: Clients, settings: WorkerSettings) -> list[Round]:
    memory = clients.memory
    due = WaitingCounts()

    def note_webhooks(tenant_id: str, response: memory_pb2.DeliverWebhooksResponse) -> None:
        oldest = response.oldest_due_time.ToMilliseconds() / 1000
        due.note(tenant_id, response.due_count, oldest, at=time.time())

    def end_webhooks(tenant_ids: Collection[str], pause: float) -> None:
        due.keep(tenant_ids)
        set_webhook_metrics(due, pause=pause)

    return [
        Round(
            name="webhooks",
            seconds=settings.webhook_seconds,
            # Memory goes on with what receivers have not answered yet: no tenant's receivers hold up another's.
            calls=[lambda: memory.DeliverWebhooks(memory_pb2.DeliverWebhooksRequest(wait=Duration()))],
            priority=2,
            # One with many events has its next turn with all the others.
            calls_per_turn=1,
            rest_seconds=settings.rest_seconds,
            # Receivers wait for events.
            pauses=0.5,
            turn_seconds=_WEBHOOK_TURN_SECONDS,
            note=note_webhooks,
            end=end_webhooks,
        ),
        Round(
            name="decay",
            seconds=settings.decay_seconds,
            calls=[lambda: memory.DecayMemories(memory_pb2.DecayMemoriesRequest())],
        ),
        Round(
            name="snapshots",
            seconds=settings.snapshot_seconds,
            calls=[lambda: memory.ContinueSnapshots(memory_pb2.ContinueSnapshotsRequest())],
            priority=2,
            rest_seconds=settings.rest_seconds,
        ),
        Round(
            name="lifecycle",
            seconds=settings.lifecycle_seconds,
            calls=[
                lambda: memory.ArchiveIdle(memory_pb2.ArchiveIdleRequest()),
                lambda: memory.ApplyRetention(memory_pb2.ApplyRetentionRequest()),
                lambda: memory.ReindexMemories(memory_pb2.ReindexMemoriesRequest()),
                lambda: clients.session.InheritParticipants(session_pb2.InheritParticipantsRequest()),
                lambda: clients.session.StoreArchived(archives_pb2.StoreArchivedRequest()),
            ],
        ),
    ]


SERVICE = Service(
    name="worker", port=50056, calls=("auth", "tenancy", "session", "memory", "recall", "gateway"), start=start
)
