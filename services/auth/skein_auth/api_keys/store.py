"""API keys, operator keys, keys of check digits and legacy tokens in the database.

Methods that take `tx` work in the caller's transaction, which sees the tenant.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

import asyncpg

from skein_auth import permissions
from skein_auth.api_keys.model import UNKNOWN_API_KEY, ApiKey, ApiKeyDraft, ApiKeyToken, Rotation, StoredApiKey
from skein_auth.audit.recorder import AuditRecorder
from skein_auth.errors import ApiKeyInactive, ApiKeyNotFound, ServiceAccountNotFound
from skein_auth.queries import QUERIES
from skein_kit.database.transactions import Database, Transaction, translate_constraint_errors
from skein_kit.database.tx_options import TxOptions
from skein_kit.errors import FieldInvalid, PermissionEscalation
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.permissions import ROLE_PERMISSIONS, TENANT_PERMISSIONS
from skein_kit.ids import new_id, now
from skein_kit.quotas.store import QuotaCounter

# Shared by all stores, because it caches which tenants have a limit.
_QUOTAS = QuotaCounter("auth")


class ApiKeyStore:
    """API keys of tenants."""

    def __init__(self, database: Database, audit: AuditRecorder) -> None:
        self._database = database
        self._audit = audit

    async def create_api_key(
        self, tx: Transaction, tenant_id: UUID, draft: ApiKeyDraft, check_key: bytes
    ) -> tuple[ApiKey, ApiKeyToken]:
        """Create a key; return it and its token, which is not stored.

        `check_key` makes the check digits; empty for none. Raises ServiceAccountNotFound, PermissionEscalation,
        FieldInvalid and QuotaExceeded.
        """
        at = now()
        if draft.service_account_id is not None:
            account = await tx.row(
                QUERIES["lock_service_account_for_share"],
                tenant_id=tenant_id,
                service_account_id=draft.service_account_id,
            )
            if account is None:
                raise ServiceAccountNotFound
            draft = draft.restrict_to(frozenset(account["permissions"]), account["agent_id"] or "")
        creator_expire_time = await tx.value(
            QUERIES["get_creator_expire_time"], tenant_id=tenant_id, creator_id=draft.creator_id
        )
        token = ApiKeyToken.new(tenant_id, new_id(at), check_key)
        api_key = await _create(tx, token, draft, at, draft.resolve_expire_time(at, creator_expire_time))
        await self._audit.record_in(tx, "api_key_created", tenant_id=tenant_id, target=f"api_key:{token.key_id}")
        await count_api_keys(tx, tenant_id, at, created_count=1)
        return api_key, token

    async def find_api_key(self, tenant_id: UUID, api_key_id: UUID) -> StoredApiKey:
        """Return UNKNOWN_API_KEY, which no token proves, when the tenant has no such key."""
        async with self._database.transaction(tenant_id, TxOptions(plan_once=True, read_only=True)) as tx:
            row = await tx.row(QUERIES["find_api_key"], tenant_id=tenant_id, api_key_id=api_key_id, at=now())
        if row is None:
            return UNKNOWN_API_KEY
        allowed_permissions = TENANT_PERMISSIONS.intersection(row["permissions"])
        if row["service_account_id"] is not None:
            allowed_permissions = allowed_permissions.intersection(row["service_permissions"])
        grant_ids = tuple(sorted(set(row["grant_ids"])))
        return StoredApiKey(
            secret_hash=row["secret_hash"],
            # A key that a grant created has no permission that the grant, or the role of its account, lacks.
            permissions=allowed_permissions.intersection(*(ROLE_PERMISSIONS[role] for role in row["live_roles"])),
            agent_id=row["service_agent_id"] or row["agent_id"] or "",
            expire_time=row["expire_time"],
            revoke_time=row["revoke_time"],
            service_account_id=row["service_account_id"],
            disabled=bool(row["disabled"]) or len(row["live_roles"]) < len(grant_ids),
            use_time=row["use_time"],
            grant_ids=grant_ids,
        )

    async def list_api_keys(self, tenant_id: UUID, *, before: UUID | None, size: int) -> list[ApiKey]:
        """Read keys, newest first, from before this id; None for the first page."""
        async with self._database.transaction(tenant_id) as tx:
            await revoke_keys_of_ended_grants(tx, tenant_id, now(), self._audit)
            rows = await tx.rows(QUERIES["list_api_keys"], tenant_id=tenant_id, before=before, size=size)
        return [ApiKey(**row) for row in rows]

    async def revoke_api_key(self, tx: Transaction, tenant_id: UUID, api_key_id: UUID) -> ApiKey:
        """Revoke a key; one that is revoked keeps its time. Raises ApiKeyNotFound."""
        row = await _lock(tx, tenant_id, api_key_id)
        if row["revoke_time"] is None:
            at = now()
            row = _require_row(
                await tx.row(QUERIES["revoke_api_key"], tenant_id=tenant_id, api_key_id=api_key_id, revoke_time=at)
            )
            await count_api_keys(tx, tenant_id, at)
            await self._audit.record_in(tx, "api_key_revoked", tenant_id=tenant_id, target=f"api_key:{api_key_id}")
        return ApiKey(**row)

    async def adopt_api_key(self, tx: Transaction, tenant_id: UUID, api_key_id: UUID, adopter: Caller) -> ApiKey:
        """Let a key outlive the grants that created it.

        Raises ApiKeyNotFound, ApiKeyInactive and PermissionEscalation.
        """
        at = now()
        await revoke_keys_of_ended_grants(tx, tenant_id, at, self._audit)
        row = await _lock(tx, tenant_id, api_key_id)
        if row["revoke_time"] is not None or (row["expire_time"] is not None and row["expire_time"] <= at):
            raise ApiKeyInactive
        permissions.require_subset(row["permissions"], row["agent_id"] or "", adopter)
        if row["grant_ids"]:
            row = _require_row(await tx.row(QUERIES["adopt_api_key"], tenant_id=tenant_id, api_key_id=api_key_id))
            await self._audit.record_in(tx, "api_key_adopted", tenant_id=tenant_id, target=f"api_key:{api_key_id}")
        return ApiKey(**row)

    async def rotate_api_key(
        self, tx: Transaction, tenant_id: UUID, rotation: Rotation, check_key: bytes
    ) -> tuple[ApiKey, ApiKey, ApiKeyToken]:
        """Create the successor of a key, which works on for the overlap.

        Return the successor, the replaced key and the successor's token, which is not stored. Raises ApiKeyNotFound,
        ApiKeyInactive, PermissionEscalation and QuotaExceeded.
        """
        at = now()
        await revoke_keys_of_ended_grants(tx, tenant_id, at, self._audit)
        old = await _lock(tx, tenant_id, rotation.api_key_id)
        expire_time: datetime | None = old["expire_time"]
        if old["revoke_time"] or old["replaced_by"] or (expire_time is not None and expire_time <= at):
            raise ApiKeyInactive
        permissions.require_subset(old["permissions"], old["agent_id"] or "", rotation.caller)
        limit = await tx.value(
            QUERIES["get_creator_expire_time"],
            tenant_id=tenant_id,
            creator_id=permissions.creator_id(rotation.caller),
        )
        if limit is not None and (expire_time is None or expire_time > limit):
            raise PermissionEscalation(expire_time=limit.isoformat())
        token = ApiKeyToken.new(tenant_id, new_id(at), check_key)
        successor = await _create(tx, token, rotation.successor(dict(old)), at, expire_time)
        replaced_key = await tx.row(
            QUERIES["replace_api_key"],
            tenant_id=tenant_id,
            api_key_id=rotation.api_key_id,
            replaced_by=token.key_id,
            expire_time=rotation.old_expire_time(at, expire_time),
        )
        await self._audit.record_in(tx, "api_key_rotated", tenant_id=tenant_id, target=f"api_key:{rotation.api_key_id}")
        await count_api_keys(tx, tenant_id, at, created_count=1)
        return successor, ApiKey(**_require_row(replaced_key)), token

    async def record_uses(self, tenant_id: UUID, uses: Mapping[UUID, datetime]) -> None:
        """Write when keys were last used. A crash of the server may lose the last ones."""
        async with self._database.transaction(tenant_id, TxOptions(durable=False)) as tx:
            await tx.execute(
                QUERIES["record_api_key_uses"],
                tenant_id=tenant_id,
                api_key_ids=list(uses),
                use_times=list(uses.values()),
            )


class OperatorKeyStore:
    """The operator's keys, and the keys of check digits."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_operator_key(self, api_key_id: UUID) -> StoredApiKey:
        """Return UNKNOWN_API_KEY, which no token proves, when there is no such key."""
        async with self._database.global_transaction() as tx:
            row = await tx.row(QUERIES["find_operator_key"], api_key_id=api_key_id)
        if row is None:
            return UNKNOWN_API_KEY
        return StoredApiKey(permissions=frozenset(), **row)

    async def list_check_keys(self) -> tuple[bytes, ...]:
        """Read the keys of check digits, the one for new keys first."""
        async with self._database.global_transaction() as tx:
            return tuple([row["secret"] for row in await tx.rows(QUERIES["list_check_keys"])])


class LegacyTokenStore:
    """Bearer tokens of earlier systems, one for a tenant, shared by its callers; stored as SHA-256."""

    def __init__(self, database: Database, audit: AuditRecorder) -> None:
        self._database = database
        self._audit = audit

    async def find_legacy_token(self, secret_hash: bytes) -> UUID | None:
        """Return the tenant of a token; None for an unknown one."""
        async with self._database.global_transaction() as tx:
            tenant_id: UUID | None = await tx.value(QUERIES["find_legacy_token"], secret_hash=secret_hash)
        return tenant_id

    async def set_legacy_token(self, tx: Transaction, tenant_id: UUID, secret_hash: bytes | None) -> None:
        """Replace the tenant's token; None removes it. Raises FieldInvalid for the token of another tenant."""
        if secret_hash is None:
            await tx.execute(QUERIES["delete_legacy_token"], tenant_id=tenant_id)
        else:
            conflict = FieldInvalid(violations=[("token", "belongs to another tenant")])
            with translate_constraint_errors({"legacy_tokens_pkey": conflict}):
                await tx.execute(
                    QUERIES["set_legacy_token"], tenant_id=tenant_id, secret_hash=secret_hash, create_time=now()
                )
        await self._audit.record_in(tx, "legacy_token_set", tenant_id=tenant_id, target="legacy:bearer")


async def count_api_keys(tx: Transaction, tenant_id: UUID, at: datetime, *, created_count: int = 0) -> None:
    """Count keys that this transaction created, and discount those that have ended. Raises QuotaExceeded.

    Call it late in a transaction: all writers of a tenant's keys wait for the row.
    """
    ended_count = await tx.execute(QUERIES["discount_ended_api_keys"], tenant_id=tenant_id, at=at)
    await _QUOTAS.charge(tx, tenant_id, {"api_keys": created_count - ended_count})


async def revoke_keys_of_ended_grants(tx: Transaction, tenant_id: UUID, at: datetime, audit: AuditRecorder) -> None:
    """Revoke the keys, and disable the service accounts, that ended grants of the tenant created.

    Exchanges look at the grants themselves and do not depend on this. It shows the end in lists, records it and
    discounts the keys from the tenant's quota.
    """
    keys = await tx.rows(QUERIES["revoke_api_keys_of_ended_grants"], tenant_id=tenant_id, at=at)
    for row in keys:
        target = f"api_key:{row['api_key_id']}"
        await audit.record_in(tx, "api_key_revoked", tenant_id=tenant_id, target=target, reason="grant_ended")
    accounts = await tx.rows(QUERIES["disable_service_accounts_of_ended_grants"], tenant_id=tenant_id, at=at)
    for row in accounts:
        target = f"service_account:{row['service_account_id']}"
        await audit.record_in(tx, "service_account_updated", tenant_id=tenant_id, target=target, reason="grant_ended")
    if keys:
        await count_api_keys(tx, tenant_id, at)


async def _create(
    tx: Transaction, token: ApiKeyToken, draft: ApiKeyDraft, at: datetime, expire_time: datetime | None
) -> ApiKey:
    row = await tx.row(
        QUERIES["create_api_key"],
        tenant_id=token.tenant_id,
        api_key_id=token.key_id,
        display_name=draft.display_name,
        permissions=draft.permissions,
        agent_id=draft.agent_id or None,
        secret_hash=token.secret_hash(),
        create_time=at,
        expire_time=expire_time,
        created_by=draft.created_by,
        service_account_id=draft.service_account_id,
        grant_ids=list(draft.grant_ids),
    )
    return ApiKey(**_require_row(row))


async def _lock(tx: Transaction, tenant_id: UUID, api_key_id: UUID) -> asyncpg.Record:
    row = await tx.row(QUERIES["lock_api_key"], tenant_id=tenant_id, api_key_id=api_key_id)
    if row is None:
        raise ApiKeyNotFound
    return row


def _require_row(row: asyncpg.Record | None) -> asyncpg.Record:
    """Return the row of an insert, or of a change of a locked row."""
    if row is None:
        message = "a statement returned no row"
        raise LookupError(message)
    return row
