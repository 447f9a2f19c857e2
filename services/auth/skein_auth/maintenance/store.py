"""Deletion of expired rows, and the purge of a deleted tenant, in bounded batches."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from uuid import UUID

from skein.auth.v1 import auth_pb2 as pb
from skein_auth.api_keys.store import count_api_keys, revoke_keys_of_ended_grants
from skein_auth.audit.chain_store import AuditChain, first_open_day
from skein_auth.audit.recorder import AuditRecorder
from skein_auth.queries import QUERIES
from skein_kit import canary
from skein_kit.database import tenant_purge
from skein_kit.database.transactions import NO_TENANT, Database, Transaction
from skein_kit.idempotency.store import LIFETIME, IdempotencyStore
from skein_kit.ids import min_id_at
from skein_kit.rpc.due_tenants import list_due_tenants
from skein_kit.telemetry import logs

DEFAULT_PURGE = 1000
# Most rows of one table that one call deletes.
_BATCH = 5_000
# How long a revoked auth session is kept.
_REVOKED_RETENTION = timedelta(days=30)
# A self-registered OAuth client without grants is deleted this long after its registration or the end of its last
# grant: as long as a refresh token lives.
_CLIENT_RETENTION = timedelta(days=30)
# The canary makes a key every hour; after a day, neither the key nor its audit events are of use.
_CANARY_RETENTION = timedelta(days=1)
_EXPIRY_QUERIES = (
    "delete_expired_signing_keys",
    "delete_expired_device_codes",
    "delete_expired_one_time_tokens",
    "delete_expired_attempts",
)
# By table; a table comes after those that refer to it.
_PURGES = {
    "auth.refresh_tokens": "purge_refresh_tokens",
    "auth.authorization_codes": "purge_codes",
    "auth.auth_sessions": "purge_auth_sessions",
    "auth.api_keys": "purge_api_keys",
    "auth.service_accounts": "purge_service_accounts",
    "auth.legacy_tokens": "purge_legacy_tokens",
    "auth.usage": "purge_usage",
    "auth.requests": "purge_requests",
}
# By functions of the owner, each in a transaction of its own: on Citus a transaction acts as one role.
_OWNERS_PURGES = {
    "auth.audit_events": "purge_audit_events",
    "auth.audit_checkpoints": "purge_audit_checkpoints",
}

log = logs.get("auth")


class MaintenanceStore:
    """Deletes expired rows and the rows of deleted tenants."""

    def __init__(
        self,
        database: Database,
        audit: AuditRecorder,
        audit_chain: AuditChain,
        idempotency: IdempotencyStore,
        *,
        audit_days: int,
    ) -> None:
        self._database = database
        self._audit = audit
        self._audit_chain = audit_chain
        self._audit_retention = timedelta(days=audit_days)
        self._client_retention = _CLIENT_RETENTION
        self._idempotency = idempotency

    async def list_due_tenants(self, request: pb.ListDueTenantsRequest, at: datetime) -> pb.ListDueTenantsResponse:
        """Return a page of the tenants with this work, with those of the canary."""
        if request.work == pb.DUE_WORK_AUDIT_CHAIN:
            return await list_due_tenants(
                self._database,
                QUERIES["list_unchained_tenants"],
                request,
                pb.ListDueTenantsResponse,
                first_id=await self._audit_chain.first_unclosed_id(),
                end_id=min_id_at(datetime.combine(first_open_day(at), time(), UTC)),
            )
        return await list_due_tenants(
            self._database,
            QUERIES["list_expiry_tenants"],
            request,
            pb.ListDueTenantsResponse,
            at=at,
            requested_before=at - LIFETIME,
            revoked_before=at - _REVOKED_RETENTION,
            audited_before=(at - self._audit_retention).date(),
            canary_audited_before=(at - _CANARY_RETENTION).date(),
            canary_tenant_ids=list(canary.CANARY_TENANT_IDS),
        )

    async def delete_expired_globals(self, at: datetime) -> int:
        """Delete expired rows without a tenant; return how many."""
        deleted_count = 0
        async with self._database.transaction(NO_TENANT) as tx:
            for name in _EXPIRY_QUERIES:
                deleted_count += await tx.execute(QUERIES[name], at=at)
            unused_count = await tx.execute(
                QUERIES["delete_unused_clients"], before=at - self._client_retention, size=_BATCH
            )
            if unused_count:
                log.info("idle_clients_deleted", count=unused_count)
            deleted_count += unused_count
            deleted_count += await self._delete_expired_rows(tx, NO_TENANT, at)
        return deleted_count + await self._expire_audit_events(NO_TENANT, at)

    async def delete_expired(self, tenant_id: UUID, at: datetime) -> int:
        """Delete expired rows of the tenant, and revoke keys that ended; return how many rows."""
        async with self._database.transaction(tenant_id) as tx:
            deleted_count = await self._delete_expired_rows(tx, tenant_id, at)
            for row in await tx.rows(QUERIES["revoke_api_keys_of_purged_agents"], tenant_id=tenant_id, revoke_time=at):
                target = f"api_key:{row['api_key_id']}"
                await self._audit.record_in(tx, "api_key_revoked", tenant_id=tenant_id, target=target)
            await tx.execute(QUERIES["disable_service_accounts_of_purged_agents"], tenant_id=tenant_id, at=at)
            await revoke_keys_of_ended_grants(tx, tenant_id, at, self._audit)
            await count_api_keys(tx, tenant_id, at)
            if tenant_id in canary.CANARY_TENANT_IDS:
                deleted_count += await tx.execute(
                    QUERIES["delete_ended_api_keys"], tenant_id=tenant_id, before=at - _CANARY_RETENTION, size=_BATCH
                )
        return deleted_count + await self._expire_audit_events(tenant_id, at)

    async def purge(self, tenant_id: UUID, limit: int) -> tuple[dict[str, int], bool]:
        """Delete at most `limit` rows of a tenant; return how many by table, and whether there may be more."""
        counts: dict[str, int] = {}
        remaining = limit
        for purges in (_PURGES, *({table: name} for table, name in _OWNERS_PURGES.items())):
            async with self._database.transaction(tenant_id) as tx:
                await tenant_purge.lock(tx, tenant_id)
                for table, name in purges.items():
                    deleted_count = await tx.execute(QUERIES[name], tenant_id=tenant_id, size=remaining)
                    if deleted_count:
                        counts[table] = deleted_count
                    remaining = max(0, remaining - deleted_count)
        return counts, remaining == 0

    async def _delete_expired_rows(self, tx: Transaction, tenant_id: UUID, at: datetime) -> int:
        sessions = await tx.execute(
            QUERIES["delete_expired_auth_sessions"],
            tenant_id=tenant_id,
            at=at,
            revoked_before=at - _REVOKED_RETENTION,
            size=_BATCH,
        )
        return sessions + await self._idempotency.delete_expired(tx, tenant_id, at)

    async def _expire_audit_events(self, tenant_id: UUID, at: datetime) -> int:
        retention = _CANARY_RETENTION if tenant_id in canary.CANARY_TENANT_IDS else self._audit_retention
        return await self._audit_chain.expire(tenant_id, (at - retention).date(), at)
