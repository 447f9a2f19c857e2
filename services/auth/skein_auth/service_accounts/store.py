"""Service accounts in the database. Methods that take `tx` work in the caller's transaction, which sees the tenant."""

from __future__ import annotations

from uuid import UUID

import asyncpg

from skein_auth import permissions
from skein_auth.api_keys.store import count_api_keys, revoke_keys_of_ended_grants
from skein_auth.audit.recorder import AuditRecorder
from skein_auth.errors import ServiceAccountNotFound
from skein_auth.queries import QUERIES
from skein_auth.service_accounts.model import ServiceAccount, ServiceAccountChange, ServiceAccountDraft
from skein_kit.database.transactions import Database, Transaction
from skein_kit.errors import RevisionStale
from skein_kit.identity.identity_token import Caller
from skein_kit.ids import new_id, now


class ServiceAccountStore:
    """The service accounts of a tenant."""

    def __init__(self, database: Database, audit: AuditRecorder) -> None:
        self._database = database
        self._audit = audit

    async def create_service_account(
        self, tx: Transaction, tenant_id: UUID, draft: ServiceAccountDraft
    ) -> ServiceAccount:
        at = now()
        row = await tx.row(
            QUERIES["create_service_account"],
            tenant_id=tenant_id,
            service_account_id=new_id(at),
            display_name=draft.display_name,
            permissions=draft.permissions,
            agent_id=draft.agent_id or None,
            disabled=draft.disabled,
            create_time=at,
            created_by=draft.created_by,
            grant_ids=list(draft.grant_ids),
        )
        account = _account(row)
        await self._record(tx, "created", tenant_id, account.service_account_id)
        return account

    async def get_service_account(self, tenant_id: UUID, service_account_id: UUID) -> ServiceAccount:
        """Raises ServiceAccountNotFound."""
        async with self._database.transaction(tenant_id) as tx:
            await revoke_keys_of_ended_grants(tx, tenant_id, now(), self._audit)
            row = await tx.row(
                QUERIES["get_service_account"], tenant_id=tenant_id, service_account_id=service_account_id
            )
        return _account(row)

    async def list_service_accounts(self, tenant_id: UUID, *, before: UUID | None, size: int) -> list[ServiceAccount]:
        """Read service accounts, newest first, from before this id; None for the first page."""
        async with self._database.transaction(tenant_id) as tx:
            await revoke_keys_of_ended_grants(tx, tenant_id, now(), self._audit)
            rows = await tx.rows(QUERIES["list_service_accounts"], tenant_id=tenant_id, before=before, size=size)
        return [ServiceAccount(**row) for row in rows]

    async def update_service_account(
        self, tx: Transaction, tenant_id: UUID, change: ServiceAccountChange
    ) -> ServiceAccount:
        """Raises ServiceAccountNotFound, RevisionStale and PermissionEscalation."""
        await revoke_keys_of_ended_grants(tx, tenant_id, now(), self._audit)
        current = await _lock(tx, tenant_id, change.service_account_id)
        if change.revision not in (0, current.revision):
            raise RevisionStale(requested=change.revision, current=current.revision)
        row = await tx.row(
            QUERIES["update_service_account"],
            tenant_id=tenant_id,
            service_account_id=change.service_account_id,
            update_time=now(),
            **change.apply(current),
        )
        await self._record(tx, "updated", tenant_id, change.service_account_id)
        return _account(row)

    async def adopt_service_account(
        self, tx: Transaction, tenant_id: UUID, service_account_id: UUID, adopter: Caller
    ) -> ServiceAccount:
        """Let a service account outlive the grants that created it; one that has ended stays disabled.

        Raises ServiceAccountNotFound and PermissionEscalation.
        """
        at = now()
        await revoke_keys_of_ended_grants(tx, tenant_id, at, self._audit)
        account = await _lock(tx, tenant_id, service_account_id)
        permissions.require_subset(account.permissions, account.agent_id or "", adopter)
        if account.grant_ids:
            account = _account(
                await tx.row(
                    QUERIES["adopt_service_account"],
                    tenant_id=tenant_id,
                    service_account_id=service_account_id,
                    update_time=at,
                )
            )
            await self._record(tx, "adopted", tenant_id, service_account_id)
        return account

    async def delete_service_account(self, tx: Transaction, tenant_id: UUID, service_account_id: UUID) -> None:
        """Delete a service account. Its keys are revoked, and stay in the list. Raises ServiceAccountNotFound."""
        await _lock(tx, tenant_id, service_account_id)
        key = {"tenant_id": tenant_id, "service_account_id": service_account_id}
        at = now()
        await tx.execute(QUERIES["revoke_api_keys_of_service_account"], revoke_time=at, **key)
        await count_api_keys(tx, tenant_id, at)
        await tx.execute(QUERIES["detach_api_keys_of_service_account"], **key)
        await tx.execute(QUERIES["delete_service_account"], **key)
        await self._record(tx, "deleted", tenant_id, service_account_id)

    async def _record(self, tx: Transaction, event: str, tenant_id: UUID, service_account_id: UUID) -> None:
        target = f"service_account:{service_account_id}"
        await self._audit.record_in(tx, f"service_account_{event}", tenant_id=tenant_id, target=target)


async def _lock(tx: Transaction, tenant_id: UUID, service_account_id: UUID) -> ServiceAccount:
    return _account(
        await tx.row(QUERIES["lock_service_account"], tenant_id=tenant_id, service_account_id=service_account_id)
    )


def _account(row: asyncpg.Record | None) -> ServiceAccount:
    if row is None:
        raise ServiceAccountNotFound
    return ServiceAccount(**row)
