"""Composition root of the worker: settings, database, clients, jobs, queue."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from skein.auth.v1 import auth_pb2_grpc
from skein.memory.v1 import memory_pb2_grpc
from skein.recall.v1 import recall_pb2_grpc
from skein.session.v1 import session_pb2_grpc
from skein.tenancy.v1 import tenancy_pb2_grpc
from skein_kit.background import background_tasks
from skein_kit.backup_folder import BackupSettings
from skein_kit.canary import CanarySettings
from skein_kit.database.connection_settings import service_url
from skein_kit.host.process import Host, Service, ServicerRegistry
from skein_kit.outbound.fetch import OutboundSettings
from skein_worker.canary.isolation_check import CANARY_JOB, IsolationCheck
from skein_worker.extraction.language_model import FactModels
from skein_worker.job_queue.job_queue import JobQueue, JobStore
from skein_worker.measure.measurements import MeasurementStore, ServerMeasurements, measure_backups
from skein_worker.rounds import catalog
from skein_worker.rounds.backlog import BACKLOG_SCAN_JOB, SCAN_SECONDS, BacklogJobs
from skein_worker.rounds.extraction import EXTRACTION_JOB, ExtractionJob, FactWriter
from skein_worker.rounds.maintenance import MAINTENANCE, MAINTENANCE_JOBS, MaintenanceJob
from skein_worker.rounds.model_extraction import MODEL_EXTRACTION_JOB, ModelExtractionJob
from skein_worker.rounds.reindex import REINDEX_JOB, ReindexJob
from skein_worker.rounds.tenant_deletion import DELETION_JOB, TenantDeletionJob, purge_stages
from skein_worker.rounds.tenant_rounds import TenantRounds
from skein_worker.rounds.tenant_visits import TenantVisitor
from skein_worker.settings import WorkerSettings, check_system_key
from skein_worker.system_identity import SystemIdentity

# Tenants that one round visits at the same time: enough to hide the services' delay, too few to crowd out callers.
_TENANTS_AT_ONCE = 4
# Most seconds that running jobs get to finish at the end of a process; then another worker takes them.
STOP_SECONDS = 5.0
# Seconds between two rounds that purge deleted tenants, whose grace counts in days.
_DELETION_SECONDS = 60.0
# Seconds between two measurements of the server and the queue: Prometheus scrapes as often.
_MEASURE_SECONDS = 15.0


@asynccontextmanager
async def start(host: Host) -> AsyncIterator[ServicerRegistry]:
    """Open the database and run the jobs of the queue. The worker has no RPCs. Raises SettingInvalid."""
    settings = WorkerSettings.read(host.environment)
    check_system_key(host.settings)
    auth = auth_pb2_grpc.AuthInternalServiceStub(host.channel("auth", caller="worker"))
    tenancy = tenancy_pb2_grpc.TenancyInternalServiceStub(host.channel("tenancy", caller="worker"))
    index = recall_pb2_grpc.RecallInternalServiceStub(host.channel("recall", caller="worker"))
    memory = memory_pb2_grpc.MemoryInternalServiceStub(host.channel("memory", caller="worker"))
    session = session_pb2_grpc.SessionInternalServiceStub(host.channel("session", caller="worker"))
    queue = JobQueue(
        # A PgBouncer in transaction mode passes on no notifications, for which the queue listens.
        service_url(host.settings.database_direct_url or host.settings.database_url, "worker", host.environment),
        poll_seconds=SCAN_SECONDS * settings.pause_factor,
        silence_seconds=settings.heartbeat_timeout_seconds,
        stop_seconds=min(STOP_SECONDS, host.settings.grace_seconds),
    )
    registry = ServicerRegistry()
    registry.ready_checks.append(queue.is_connected)
    async with host.database("worker", registry) as database:
        store = JobStore(database)
        system = SystemIdentity(auth, key=host.settings.system_key)
        visitor = TenantVisitor(system, at_once=_TENANTS_AT_ONCE, has_machines=host.settings.database_citus)
        rounds = TenantRounds(
            visitor,
            system,
            catalog.build_rounds(auth=auth, tenancy=tenancy, session=session, memory=memory, settings=settings),
        )
        maintenance = MaintenanceJob(session, memory, system, store, settings)
        stages = purge_stages(session=session, memory=memory, recall=index, auth=auth, tenancy=tenancy)
        models = FactModels.of(settings, OutboundSettings.read(host.environment))
        writer = FactWriter(memory_pb2_grpc.MemoryServiceStub(host.channel("memory", caller="worker")), memory, system)
        extraction = ExtractionJob(session, memory, system, visitor, settings, writer, models)
        model_extraction = ModelExtractionJob(session, memory, system, visitor, settings, writer, models)
        canary_seconds = CanarySettings.read(host.environment).canary_seconds
        isolation_check = IsolationCheck(
            host.channel("gateway", caller="worker"),
            auth_pb2_grpc.AuthServiceStub(host.channel("auth", caller="worker")),
            system,
            seconds=canary_seconds,
        )
        handlers = {
            **rounds.handlers(),
            **BacklogJobs(index, system, visitor, store, queue.add, settings).handlers(),
            MAINTENANCE: maintenance.run,
            REINDEX_JOB.name: ReindexJob(index, system, visitor, settings).run,
            DELETION_JOB.name: TenantDeletionJob(
                tenancy, auth, stages, system, seconds=_DELETION_SECONDS * settings.pause_factor
            ).run,
            EXTRACTION_JOB.name: extraction.run,
            MODEL_EXTRACTION_JOB.name: model_extraction.run,
            CANARY_JOB.name: isolation_check.run,
        }
        periodic_jobs = [
            *rounds.periodic_jobs,
            BACKLOG_SCAN_JOB,
            *MAINTENANCE_JOBS,
            REINDEX_JOB,
            EXTRACTION_JOB,
            MODEL_EXTRACTION_JOB,
            DELETION_JOB,
            *([CANARY_JOB] if canary_seconds > 0 else []),
        ]
        measure_seconds = _MEASURE_SECONDS * settings.pause_factor
        # Not jobs, because they measure a queue that stands still too.
        measurements = {"measuring": ServerMeasurements(MeasurementStore(database), seconds=measure_seconds).run}
        backup_dir = BackupSettings.read(host.environment).backup_dir
        if backup_dir is not None:
            measurements["backups"] = partial(measure_backups, backup_dir, measure_seconds)
        async with background_tasks(**measurements), queue.run(handlers, periodic_jobs=periodic_jobs):
            yield registry


SERVICE = Service(
    name="worker", port=50056, depends_on=("auth", "tenancy", "session", "memory", "recall", "gateway"), start=start
)
