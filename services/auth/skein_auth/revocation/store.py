"""Revocation of many credentials at once, in the database. Methods work in the caller's transaction."""

from __future__ import annotations

from uuid import UUID

from skein_auth.api_keys.store import count_api_keys
from skein_auth.audit.recorder import AuditRecorder
from skein_auth.auth_sessions.store import revoke_all_sessions
from skein_auth.queries import QUERIES
from skein_kit.database.transactions import Transaction
from skein_kit.ids import now

_EVENT = "credentials_revoked"


class RevocationStore:
    """Revokes credentials; each method returns how many."""

    def __init__(self, audit: AuditRecorder) -> None:
        self._audit = audit

    async def revoke_account(self, tx: Transaction, account_id: UUID) -> int:
        """Revoke every auth session of an account, grants included, and its known devices."""
        await self._audit.record_in(tx, _EVENT, account_id=account_id, target=f"account:{account_id}")
        return await revoke_all_sessions(tx, account_id, now(), _EVENT)

    async def revoke_tenant(self, tx: Transaction, tenant_id: UUID, *, include_api_keys: bool) -> int:
        """Revoke the grants of a tenant; with `include_api_keys`, also API keys, service accounts and legacy token."""
        at = now()
        count = await tx.execute(QUERIES["revoke_auth_sessions_of_tenant"], tenant_id=tenant_id, at=at, reason=_EVENT)
        if include_api_keys:
            count += await tx.execute(QUERIES["revoke_api_keys"], tenant_id=tenant_id, revoke_time=at)
            await count_api_keys(tx, tenant_id, at)
            count += await tx.execute(QUERIES["disable_service_accounts"], tenant_id=tenant_id, update_time=at)
            count += await tx.execute(QUERIES["delete_legacy_token"], tenant_id=tenant_id)
        await self._audit.record_in(tx, _EVENT, tenant_id=tenant_id, target=f"tenant:{tenant_id}")
        return count

    async def revoke_client(self, tx: Transaction, client_id: str) -> int:
        """Revoke all grants of an OAuth client."""
        await self._audit.record_in(tx, _EVENT, client_id=client_id, target=f"client:{client_id}")
        return await tx.execute(QUERIES["revoke_client"], client_id=client_id, at=now())
