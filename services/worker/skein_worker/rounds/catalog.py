"""The rounds of the worker: webhooks, decay, snapshots, trust, lifecycle, usage, expiry and the audit chain."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from google.protobuf.duration_pb2 import Duration
from prometheus_client import Gauge

from skein.auth.v1 import auth_pb2, auth_pb2_grpc
from skein.memory.v1 import memory_pb2, memory_pb2_grpc
from skein.session.v1 import archives_pb2, session_pb2, session_pb2_grpc
from skein.tenancy.v1 import limits_pb2, members_pb2, tenancy_pb2_grpc
from skein_kit.telemetry import logs
from skein_worker.measure.measurements import PendingCounts, set_webhook_metrics
from skein_worker.rounds.tenant_rounds import Round, Stage
from skein_worker.settings import WorkerSettings

# How long one worker does the rounds that are frequent before another may.
TURN_SECONDS = 60.0
# A tenant's job ends after this long, so that other tenants get a worker.
TENANT_JOB_SECONDS = 20.0
# Longest idle backoff of a tenant for rounds of the backlog, webhooks and snapshots. Each visit without progress
# doubles the backoff: a tenant without work costs three visits a minute.
MAX_BACKOFF_SECONDS = 20.0
# Seconds between two rounds; SKEIN_ADVANCED_WORKER_PAUSE_FACTOR multiplies them. Callers wait for the first two.
_WEBHOOK_SECONDS = 1.0
_TRUST_SECONDS = 1.0
# A snapshot takes minutes, so ten seconds do not matter.
_SNAPSHOT_SECONDS = 10.0
# Expired rows are hidden from reads before their purge; quotas of organizations are not exact to the minute.
_EXPIRY_SECONDS = 300.0
_USAGE_SECONDS = 300.0
# How long an audit event is without a signed checkpoint at most.
_AUDIT_CHAIN_SECONDS = 900.0
# Policies and scores count in days.
_LIFECYCLE_SECONDS = 3600.0
_DECAY_SECONDS = 86400.0
# More calls than one tenant's idle sessions need, so that one visit ends them all.
_MANY_REPEATS = 10_000
# Work of memory that reaches a tenant as a whole.
_OF_TENANT = frozenset({memory_pb2.DUE_WORK_WEBHOOKS, memory_pb2.DUE_WORK_SNAPSHOTS, memory_pb2.DUE_WORK_TRUST})

AUDIT_CHAINED = Gauge(
    "skein_worker_audit_chained_timestamp_seconds",
    "Unix time before which signed checkpoints cover all audit events, as this worker last saw it.",
)

log = logs.get("worker")


def build_rounds(
    *,
    auth: auth_pb2_grpc.AuthInternalServiceAsyncStub,
    tenancy: tenancy_pb2_grpc.TenancyInternalServiceAsyncStub,
    session: session_pb2_grpc.SessionInternalServiceAsyncStub,
    memory: memory_pb2_grpc.MemoryInternalServiceAsyncStub,
    settings: WorkerSettings,
) -> Sequence[Round]:
    """Return all rounds."""
    return [
        _webhooks(memory, settings),
        expiry(
            auth=auth, tenancy=tenancy, session=session, memory=memory, seconds=_EXPIRY_SECONDS * settings.pause_factor
        ),
        audit_chain(auth, seconds=_AUDIT_CHAIN_SECONDS * settings.pause_factor),
        Round(
            name="decay",
            seconds=_DECAY_SECONDS * settings.pause_factor,
            stages=[
                _memory_stage(
                    memory,
                    memory_pb2.DUE_WORK_DECAY,
                    lambda: memory.DecayMemories(memory_pb2.DecayMemoriesRequest()),
                )
            ],
        ),
        Round(
            name="snapshots",
            seconds=_SNAPSHOT_SECONDS * settings.pause_factor,
            stages=[
                _memory_stage(
                    memory,
                    memory_pb2.DUE_WORK_SNAPSHOTS,
                    lambda: memory.ContinueSnapshots(memory_pb2.ContinueSnapshotsRequest()),
                )
            ],
            priority=2,
            max_backoff_seconds=MAX_BACKOFF_SECONDS * settings.pause_factor,
            turn_seconds=TURN_SECONDS,
        ),
        Round(
            name="trust",
            seconds=_TRUST_SECONDS * settings.pause_factor,
            stages=[
                _memory_stage(
                    memory,
                    memory_pb2.DUE_WORK_TRUST,
                    lambda: memory.RescoreTrust(memory_pb2.RescoreTrustRequest()),
                )
            ],
            priority=2,
            turn_seconds=TURN_SECONDS,
        ),
        Round(
            name="lifecycle",
            seconds=_LIFECYCLE_SECONDS * settings.pause_factor,
            stages=[
                _memory_stage(
                    memory,
                    memory_pb2.DUE_WORK_LIFECYCLE,
                    lambda: memory.ArchiveIdleMemories(memory_pb2.ArchiveIdleMemoriesRequest()),
                    lambda: memory.ApplyRetention(memory_pb2.ApplyRetentionRequest()),
                    lambda: memory.ReindexMemories(memory_pb2.ReindexMemoriesRequest()),
                ),
                _session_stage(
                    session,
                    session_pb2.DUE_WORK_LIFECYCLE,
                    lambda: session.InheritParticipants(session_pb2.InheritParticipantsRequest()),
                    lambda: session.ArchiveHiddenSessions(archives_pb2.ArchiveHiddenSessionsRequest()),
                ),
            ],
        ),
        Round(
            name="usage",
            seconds=_USAGE_SECONDS * settings.pause_factor,
            stages=[
                _tenancy_stage(
                    tenancy,
                    members_pb2.DUE_WORK_USAGE,
                    lambda: tenancy.CollectUsage(limits_pb2.CollectUsageRequest()),
                )
            ],
            pause_factor=1.0,
        ),
    ]


def _webhooks(memory: memory_pb2_grpc.MemoryInternalServiceAsyncStub, settings: WorkerSettings) -> Round:
    due_counts = PendingCounts()

    def on_response(tenant_id: str, response: memory_pb2.DeliverWebhooksResponse) -> None:
        oldest = response.oldest_due_time.ToMilliseconds() / 1000
        due_counts.record(tenant_id, response.due_count, oldest, at=time.time())

    def on_end(tenant_ids: Collection[str], pause: float) -> None:
        due_counts.retain_only(tenant_ids)
        set_webhook_metrics(due_counts, pause=pause)

    return Round(
        name="webhooks",
        seconds=_WEBHOOK_SECONDS * settings.pause_factor,
        # No wait: memory continues the deliveries after the reply, so slow receivers delay no other tenant.
        stages=[
            _memory_stage(
                memory,
                memory_pb2.DUE_WORK_WEBHOOKS,
                lambda: memory.DeliverWebhooks(memory_pb2.DeliverWebhooksRequest(wait=Duration())),
            )
        ],
        priority=2,
        # A tenant with many events continues in the next round.
        max_repeats=1,
        max_backoff_seconds=MAX_BACKOFF_SECONDS * settings.pause_factor,
        # Short, because receivers wait for events.
        pause_factor=0.5,
        turn_seconds=TURN_SECONDS,
        on_response=on_response,
        on_end=on_end,
    )


def expiry(
    *,
    auth: auth_pb2_grpc.AuthInternalServiceAsyncStub,
    tenancy: tenancy_pb2_grpc.TenancyInternalServiceAsyncStub,
    session: session_pb2_grpc.SessionInternalServiceAsyncStub,
    memory: memory_pb2_grpc.MemoryInternalServiceAsyncStub,
    seconds: float,
) -> Round:
    """Return the round that deletes expired rows of all services and ends idle sessions."""
    deleted_count = 0

    def on_response(_tenant_id: str, response: Any) -> None:
        nonlocal deleted_count
        deleted_count += getattr(response, "deleted_count", 0)

    def on_end(tenant_ids: Collection[str], _pause: float) -> None:
        nonlocal deleted_count
        if deleted_count:
            log.info("expired_rows_deleted", tenants=len(tenant_ids), rows=deleted_count)
        deleted_count = 0

    return Round(
        name="expiry",
        seconds=seconds,
        # The rows that belong to no tenant.
        first_call=lambda: auth.DeleteExpired(auth_pb2.DeleteExpiredRequest()),
        stages=[
            Stage(
                list_due=auth.ListDueTenants,
                request=auth_pb2.ListDueTenantsRequest,
                calls=[lambda: auth.DeleteExpired(auth_pb2.DeleteExpiredRequest())],
            ),
            _tenancy_stage(
                tenancy,
                members_pb2.DUE_WORK_EXPIRY,
                lambda: tenancy.DeleteExpired(members_pb2.DeleteExpiredRequest()),
            ),
            _session_stage(
                session,
                session_pb2.DUE_WORK_EXPIRY,
                lambda: session.DeleteExpired(session_pb2.DeleteExpiredRequest()),
                lambda: session.EndIdleSessions(session_pb2.EndIdleSessionsRequest()),
            ),
            _memory_stage(
                memory,
                memory_pb2.DUE_WORK_EXPIRY,
                lambda: memory.DeleteExpired(memory_pb2.DeleteExpiredRequest()),
            ),
        ],
        max_repeats=_MANY_REPEATS,
        pause_factor=1.0,
        on_response=on_response,
        on_end=on_end,
    )


def audit_chain(auth: auth_pb2_grpc.AuthInternalServiceAsyncStub, *, seconds: float) -> Round:
    """Return the round that signs checkpoints of audit events."""

    def on_response(_tenant_id: str, response: auth_pb2.ChainAuditEventsResponse) -> None:
        if response.HasField("chained_before_time"):
            AUDIT_CHAINED.set(response.chained_before_time.ToMilliseconds() / 1000)

    return Round(
        name="audit_chain",
        seconds=seconds,
        # The events of no tenant. It closes the days of which all tenants have their checkpoints.
        first_call=lambda: auth.ChainAuditEvents(auth_pb2.ChainAuditEventsRequest()),
        stages=[
            Stage(
                list_due=auth.ListDueTenants,
                request=lambda: auth_pb2.ListDueTenantsRequest(work=auth_pb2.DUE_WORK_AUDIT_CHAIN),
                calls=[lambda: auth.ChainAuditEvents(auth_pb2.ChainAuditEventsRequest())],
            )
        ],
        max_repeats=_MANY_REPEATS,
        on_response=on_response,
    )


def _memory_stage(
    memory: memory_pb2_grpc.MemoryInternalServiceAsyncStub,
    work: memory_pb2.DueWork,
    *calls: Callable[[], Awaitable[Any]],
) -> Stage:
    return Stage(
        list_due=memory.ListDueTenants,
        request=lambda: memory_pb2.ListDueTenantsRequest(work=work),
        calls=calls,
        in_each_space=work not in _OF_TENANT,
    )


def _session_stage(
    session: session_pb2_grpc.SessionInternalServiceAsyncStub,
    work: session_pb2.DueWork,
    *calls: Callable[[], Awaitable[Any]],
) -> Stage:
    return Stage(
        list_due=session.ListDueTenants,
        request=lambda: session_pb2.ListDueTenantsRequest(work=work),
        calls=calls,
        in_each_space=True,
    )


def _tenancy_stage(
    tenancy: tenancy_pb2_grpc.TenancyInternalServiceAsyncStub,
    work: members_pb2.DueWork,
    *calls: Callable[[], Awaitable[Any]],
) -> Stage:
    return Stage(
        list_due=tenancy.ListDueTenants, request=lambda: members_pb2.ListDueTenantsRequest(work=work), calls=calls
    )
