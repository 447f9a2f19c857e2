"""RPCs of SessionInternalService, which the worker calls periodically."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from skein.session.v1 import archives_pb2
from skein.session.v1 import session_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.database.monthly_partitions import MonthlyPartitions
from skein_kit.database.named_queries import Queries, Query
from skein_kit.database.tenant_purge import purge_tenant_rows
from skein_kit.database.transactions import Database
from skein_kit.idempotency.store import LIFETIME, IdempotencyStore
from skein_kit.ids import now
from skein_kit.jobs.model import JobKind, Progress, retry_delay
from skein_kit.jobs.store import JobStore
from skein_kit.rpc.due_tenants import list_due_tenants
from skein_kit.rpc.well_known_types import to_timestamp
from skein_session.cold_storage.store import ColdStorageStore
from skein_session.sessions.store import SessionStore

_QUERIES = Queries.load("skein_session")
# The tables with rows of a tenant, and their purge queries, children before parents.
_TENANT_TABLES: Mapping[str, Query] = {
    "session.message_external_ids": _QUERIES["purge_tenant_message_external_ids"],
    "session.message_order": _QUERIES["purge_tenant_message_order"],
    "session.messages": _QUERIES["purge_tenant_messages"],
    "session.messages_history": _QUERIES["purge_tenant_messages_history"],
    "session.session_properties": _QUERIES["purge_tenant_session_properties"],
    "session.title_terms": _QUERIES["purge_tenant_title_terms"],
    "session.title_terms_history": _QUERIES["purge_tenant_title_terms_history"],
    "session.items": _QUERIES["purge_tenant_items"],
    "session.agent_states": _QUERIES["purge_tenant_agent_states"],
    "session.context_ledgers": _QUERIES["purge_tenant_context_ledgers"],
    "session.tombstones": _QUERIES["purge_tenant_tombstones"],
    "session.tombstone_salts": _QUERIES["purge_tenant_tombstone_salts"],
    "session.archived_messages": _QUERIES["purge_tenant_archived_messages"],
    "session.archived_sessions": _QUERIES["purge_tenant_archived_sessions"],
    "session.unreferenced_files": _QUERIES["purge_tenant_pending_files"],
    "session.extraction_failures": _QUERIES["purge_tenant_extraction_failures"],
    "session.extraction_messages": _QUERIES["purge_tenant_extraction_messages"],
    "session.extracted_messages": _QUERIES["purge_tenant_extracted_messages"],
    "session.extraction_backfills": _QUERIES["purge_tenant_extraction_backfills"],
    "session.extractions": _QUERIES["purge_tenant_extractions"],
    "session.sessions": _QUERIES["purge_tenant_sessions"],
    "session.sessions_history": _QUERIES["purge_tenant_sessions_history"],
    "session.usage": _QUERIES["purge_tenant_usage"],
    "session.requests": _QUERIES["purge_tenant_requests"],
}
_DEFAULT_MONTHS_AHEAD = 3
_DEFAULT_IDLE_LIMIT = 500
_DEFAULT_ARCHIVE_LIMIT = 20
_DEFAULT_INHERIT_LIMIT = 10_000
# Rows of each kind that one call deletes.
_EXPIRED_LIMIT = 1000


class ExpiringStore(Protocol):
    """Rows that expire."""

    async def delete_expired(self, tenant_id: UUID, at: datetime, *, count: int) -> int:
        """Delete up to `count` rows that have expired; return how many."""


class MaintenanceHandlers:
    """Creates partitions, deletes expired rows, ends idle sessions, archives hidden ones, and purges tenants."""

    def __init__(
        self,
        database: Database,
        months: MonthlyPartitions,
        *,
        idempotency: IdempotencyStore,
        sessions: SessionStore,
        expiring: Sequence[ExpiringStore],
        archives: ColdStorageStore,
        jobs: JobStore,
    ) -> None:
        self._database = database
        self._months = months
        self._idempotency = idempotency
        self._sessions = sessions
        self._expiring = expiring
        self._archives = archives
        self._jobs = jobs

    async def EnsurePartitions(
        self, request: pb.EnsurePartitionsRequest, _context: Context
    ) -> pb.EnsurePartitionsResponse:
        months_ahead = request.months_ahead or _DEFAULT_MONTHS_AHEAD
        created_count, horizon = await self._months.ensure_ahead(now(), months_ahead)
        return pb.EnsurePartitionsResponse(created_count=created_count, horizon_time=to_timestamp(horizon))

    async def ListDueTenants(self, request: pb.ListDueTenantsRequest, _context: Context) -> pb.ListDueTenantsResponse:
        at = now()
        if request.work == pb.DUE_WORK_LIFECYCLE:
            return await list_due_tenants(
                self._database, _QUERIES["list_lifecycle_tenants"], request, pb.ListDueTenantsResponse, at=at
            )
        if request.work == pb.DUE_WORK_EXTRACTION:
            return await list_due_tenants(
                self._database, _QUERIES["list_extraction_tenants"], request, pb.ListDueTenantsResponse, at=at
            )
        if request.work == pb.DUE_WORK_MODEL_EXTRACTION:
            return await list_due_tenants(
                self._database, _QUERIES["list_unread_tenants"], request, pb.ListDueTenantsResponse, at=at
            )
        return await list_due_tenants(
            self._database,
            _QUERIES["list_expiry_tenants"],
            request,
            pb.ListDueTenantsResponse,
            at=at,
            requested_before=at - LIFETIME,
        )

    async def DeleteExpired(self, _request: pb.DeleteExpiredRequest, context: Context) -> pb.DeleteExpiredResponse:
        tenant_id = caller_of(context).require_tenant()
        async with self._database.transaction(tenant_id) as tx:
            deleted_count = await self._idempotency.delete_expired(tx, tenant_id, now())
        for store in self._expiring:
            deleted_count += await store.delete_expired(tenant_id, now(), count=_EXPIRED_LIMIT)
        return pb.DeleteExpiredResponse(deleted_count=deleted_count)

    async def EndIdleSessions(self, request: pb.EndIdleSessionsRequest, context: Context) -> pb.EndIdleSessionsResponse:
        limit = request.limit or _DEFAULT_IDLE_LIMIT
        ended_count = await self._sessions.end_idle(caller_of(context).require_tenant(), now(), count=limit)
        return pb.EndIdleSessionsResponse(ended_count=ended_count, more=ended_count == limit)

    async def InheritParticipants(
        self, request: pb.InheritParticipantsRequest, context: Context
    ) -> pb.InheritParticipantsResponse:
        changed_count, has_more = await self._sessions.inherit_participants(
            caller_of(context).require_tenant(), count=request.limit or _DEFAULT_INHERIT_LIMIT
        )
        return pb.InheritParticipantsResponse(changed_count=changed_count, more=has_more)

    async def ArchiveHiddenSessions(
        self, request: archives_pb2.ArchiveHiddenSessionsRequest, context: Context
    ) -> archives_pb2.ArchiveHiddenSessionsResponse:
        caller = caller_of(context)
        tenant_id, limit = caller.require_tenant(), request.limit or _DEFAULT_ARCHIVE_LIMIT
        async with self._jobs.batch(tenant_id, JobKind.SESSION_ARCHIVE, limit) as batch:
            grant = batch.grant
            if not grant.count:
                return archives_pb2.ArchiveHiddenSessionsResponse(retry_delay=retry_delay(grant.retry_seconds))
            archived_count, has_more = await self._archives.archive_batch(
                tenant_id, at=now(), archived_by=caller.principal, count=grant.count
            )
            batch.progress = Progress(done_count=archived_count, has_more=has_more)
        seconds = grant.rest(has_more=has_more)
        return archives_pb2.ArchiveHiddenSessionsResponse(
            archived_count=archived_count, more=has_more and not seconds, retry_delay=retry_delay(seconds)
        )

    async def PurgeTenant(self, request: pb.PurgeTenantRequest, context: Context) -> pb.PurgeTenantResponse:
        tenant_id = caller_of(context).require_tenant()
        deleted_counts, has_more = await purge_tenant_rows(self._database, tenant_id, _TENANT_TABLES, request.limit)
        # In every call, because a call that was cut off may have written a file since the last one.
        await self._archives.delete_tenant_files(tenant_id)
        return pb.PurgeTenantResponse(deleted_counts=deleted_counts, more=has_more)
