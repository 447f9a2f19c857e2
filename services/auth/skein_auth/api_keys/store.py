"""The API keys of tenants in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.auth.v1 import auth_pb2 as pb
from skein_auth import permissions
from skein_auth.api_keys import convert
from skein_auth.api_keys.grant_end import revoke_keys_of_ended_grants
from skein_auth.api_keys.model import UNKNOWN_API_KEY, ApiKeyToken, ServiceAccountLimits, StoredApiKey
from skein_auth.api_keys.quota import count_api_keys
from skein_auth.errors import ApiKeyInactive, ApiKeyNotFound, ServiceAccountNotFound
from skein_auth.queries import QUERIES
from skein_kit.database.tx_options import TxOptions
from skein_kit.errors import PermissionEscalation
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.identity.permissions import ROLE_PERMISSIONS, TENANT_PERMISSIONS
from skein_kit.ids import new_id, now

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

    import asyncpg

    from skein_auth.api_keys.check_keys import CheckKeys
    from skein_auth.api_keys.model import Draft, Rotation
    from skein_auth.audit.recorder import AuditRecorder
    from skein_kit.database.transactions import Database, Transaction
    from skein_kit.idempotency.key import IdempotencyKey
    from skein_kit.identity.identity_token import Caller


class ApiKeyStore:
    """API keys: made, found, listed, rotated, ended.

    Methods that take `once` do their work once for each request and return the first answer whenever it is repeated.
    That holds no secret, so a repeated request gets none.
    """

    def __init__(self, database: Database, audit: AuditRecorder, check_keys: CheckKeys) -> None:
        self._database = database
        self._audit = audit
        self._check_keys = check_keys
        self._requests = IdempotencyStore(database, "auth")

    async def create_api_key(self, tenant_id: UUID, draft: Draft, once: IdempotencyKey) -> pb.CreateApiKeyResponse:
        check_key = await self._check_keys.newest()
        async with self._database.transaction(tenant_id) as tx:
            if (first := (await self._requests.claim(tx, tenant_id, once)).saved_response) is not None:
                return pb.CreateApiKeyResponse.FromString(first)
            # Later than the claim: a repeated request is answered although what it asked for has expired meanwhile.
            at = now()
            if draft.service_account_id is not None:
                draft = draft.bound(await _bounds(tx, tenant_id, draft.service_account_id))
            creator_ends = await tx.value(QUERIES["end_of_creator"], tenant_id=tenant_id, creator_id=draft.creator_id)
            key = ApiKeyToken.new(tenant_id, new_id(at), check_key)
            row = await _create(tx, key, draft, at, draft.ends(at, creator_ends))
            response = pb.CreateApiKeyResponse(api_key=convert.api_key(row))
            await self._audit.within(tx, "api_key_created", tenant_id=tenant_id, target=f"api_key:{key.key_id}")
            await self._requests.save(tx, tenant_id, once, response.SerializeToString())
            await count_api_keys(tx, tenant_id, at, made=1)
        response.secret = key.text()
        return response

    async def find_api_key(self, tenant_id: UUID, api_key_id: UUID) -> StoredApiKey:
        """Return NOBODY, which no key proves, when the tenant has no such key."""
        async with self._database.transaction(tenant_id, TxOptions(plan_once=True, read_only=True)) as tx:
            row = await tx.row(QUERIES["find_api_key"], tenant_id=tenant_id, api_key_id=api_key_id, at=now())
        if row is None:
            return UNKNOWN_API_KEY
        allowed = TENANT_PERMISSIONS.intersection(row["permissions"])
        if row["service_account_id"] is not None:
            allowed = allowed.intersection(row["most"])
        grant_ids = tuple(sorted(set(row["grant_ids"])))
        return StoredApiKey(
            secret_hash=row["secret_hash"],
            # What a grant made can do no more than the grant, which can do what its account's role can.
            permissions=allowed.intersection(*(ROLE_PERMISSIONS[role] for role in row["live_roles"])),
            agent_id=row["service_agent_id"] or row["agent_id"] or "",
            expire_time=row["expire_time"],
            revoke_time=row["revoke_time"],
            service_account_id=row["service_account_id"],
            disabled=bool(row["disabled"]) or len(row["live_roles"]) < len(grant_ids),
            use_time=row["use_time"],
            grant_ids=grant_ids,
        )

    async def list_api_keys(self, tenant_id: UUID, *, before: UUID | None, size: int) -> list[pb.ApiKey]:
        async with self._database.transaction(tenant_id) as tx:
            await revoke_keys_of_ended_grants(tx, tenant_id, now(), self._audit)
            rows = await tx.rows(QUERIES["list_api_keys"], tenant_id=tenant_id, before=before, size=size)
        return [convert.api_key(row) for row in rows]

    async def revoke_api_key(self, tenant_id: UUID, api_key_id: UUID, once: IdempotencyKey) -> pb.RevokeApiKeyResponse:
        """End a key; one that was revoked before keeps its time."""
        async with self._database.transaction(tenant_id) as tx:
            if (first := (await self._requests.claim(tx, tenant_id, once)).saved_response) is not None:
                return pb.RevokeApiKeyResponse.FromString(first)
            row = await _locked(tx, tenant_id, api_key_id)
            if row["revoke_time"] is None:
                at = now()
                row = _there(
                    await tx.row(QUERIES["revoke_api_key"], tenant_id=tenant_id, api_key_id=api_key_id, revoke_time=at)
                )
                await count_api_keys(tx, tenant_id, at)
                await self._audit.within(tx, "api_key_revoked", tenant_id=tenant_id, target=f"api_key:{api_key_id}")
            response = pb.RevokeApiKeyResponse(api_key=convert.api_key(row))
            await self._requests.save(tx, tenant_id, once, response.SerializeToString())
        return response

    async def adopt_api_key(
        self, tenant_id: UUID, api_key_id: UUID, by: Caller, once: IdempotencyKey
    ) -> pb.AdoptApiKeyResponse:
        """Let a key outlive the grants that made it. Raises ApiKeyNotFound, ApiKeyInactive and PermissionEscalation."""
        async with self._database.transaction(tenant_id) as tx:
            if (first := (await self._requests.claim(tx, tenant_id, once)).saved_response) is not None:
                return pb.AdoptApiKeyResponse.FromString(first)
            at = now()
            await revoke_keys_of_ended_grants(tx, tenant_id, at, self._audit)
            row = await _locked(tx, tenant_id, api_key_id)
            if row["revoke_time"] is not None or (row["expire_time"] is not None and row["expire_time"] <= at):
                raise ApiKeyInactive
            permissions.require_subset(row["permissions"], row["agent_id"] or "", by)
            if row["grant_ids"]:
                row = _there(await tx.row(QUERIES["adopt_api_key"], tenant_id=tenant_id, api_key_id=api_key_id))
                await self._audit.within(tx, "api_key_adopted", tenant_id=tenant_id, target=f"api_key:{api_key_id}")
            response = pb.AdoptApiKeyResponse(api_key=convert.api_key(row))
            await self._requests.save(tx, tenant_id, once, response.SerializeToString())
        return response

    async def rotate_api_key(
        self, tenant_id: UUID, rotation: Rotation, once: IdempotencyKey
    ) -> pb.RotateApiKeyResponse:
        """Make a successor of a key, and give the key the overlap to live."""
        check_key = await self._check_keys.newest()
        async with self._database.transaction(tenant_id) as tx:
            if (first := (await self._requests.claim(tx, tenant_id, once)).saved_response) is not None:
                return pb.RotateApiKeyResponse.FromString(first)
            at = now()
            await revoke_keys_of_ended_grants(tx, tenant_id, at, self._audit)
            old = await _locked(tx, tenant_id, rotation.api_key_id)
            ends: datetime | None = old["expire_time"]
            if old["revoke_time"] or old["replaced_by"] or (ends is not None and ends <= at):
                raise ApiKeyInactive
            permissions.require_subset(old["permissions"], old["agent_id"] or "", rotation.by)
            limit = await tx.value(
                QUERIES["end_of_creator"], tenant_id=tenant_id, creator_id=permissions.creator_id(rotation.by)
            )
            if limit is not None and (ends is None or ends > limit):
                raise PermissionEscalation(expire_time=limit.isoformat())
            key = ApiKeyToken.new(tenant_id, new_id(at), check_key)
            new = await _create(tx, key, rotation.successor(dict(old)), at, ends)
            replaced = await tx.row(
                QUERIES["replace_api_key"],
                tenant_id=tenant_id,
                api_key_id=rotation.api_key_id,
                replaced_by=key.key_id,
                expire_time=rotation.old_ends(at, ends),
            )
            response = pb.RotateApiKeyResponse(api_key=convert.api_key(new), replaced=convert.api_key(_there(replaced)))
            await self._audit.within(
                tx, "api_key_rotated", tenant_id=tenant_id, target=f"api_key:{rotation.api_key_id}"
            )
            await self._requests.save(tx, tenant_id, once, response.SerializeToString())
            await count_api_keys(tx, tenant_id, at, made=1)
        response.secret = key.text()
        return response

    async def record_uses(self, tenant_id: UUID, uses: Mapping[UUID, datetime]) -> None:
        """Write when keys were last used. The last ones may be lost when the server crashes."""
        async with self._database.transaction(tenant_id, TxOptions(durable=False)) as tx:
            await tx.execute(
                QUERIES["record_api_key_uses"],
                tenant_id=tenant_id,
                api_key_ids=list(uses),
                use_times=list(uses.values()),
            )


async def _create(
    tx: Transaction, key: ApiKeyToken, draft: Draft, at: datetime, ends: datetime | None
) -> asyncpg.Record:
    row = await tx.row(
        QUERIES["create_api_key"],
        tenant_id=key.tenant_id,
        api_key_id=key.key_id,
        display_name=draft.display_name,
        permissions=draft.permissions,
        agent_id=draft.agent_id or None,
        secret_hash=key.secret_hash(),
        create_time=at,
        expire_time=ends,
        created_by=draft.created_by,
        service_account_id=draft.service_account_id,
        grant_ids=list(draft.grant_ids),
    )
    return _there(row)


async def _bounds(tx: Transaction, tenant_id: UUID, service_account_id: UUID) -> ServiceAccountLimits:
    row = await tx.row(QUERIES["share_service_account"], tenant_id=tenant_id, service_account_id=service_account_id)
    if row is None:
        raise ServiceAccountNotFound
    return ServiceAccountLimits(permissions=frozenset(row["permissions"]), agent_id=row["agent_id"] or "")


async def _locked(tx: Transaction, tenant_id: UUID, api_key_id: UUID) -> asyncpg.Record:
    row = await tx.row(QUERIES["lock_api_key"], tenant_id=tenant_id, api_key_id=api_key_id)
    if row is None:
        raise ApiKeyNotFound
    return row


def _there(row: asyncpg.Record | None) -> asyncpg.Record:
    """Return the row that an insert or a change of a locked row returned."""
    if row is None:
        message = "a statement returned no row"
        raise LookupError(message)
    return row
