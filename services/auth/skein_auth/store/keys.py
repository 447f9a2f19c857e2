"""Every database call of the auth service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.auth.v1 import auth_pb2 as pb
from skein_auth import wire
from skein_auth.errors import ApiKeyNotFound
from skein_auth.identities import NOBODY, Stored
from skein_auth.keys import Key
from skein_auth.store.queries import QUERIES
from skein_kit.database import NO_TENANT
from skein_kit.ids import new_id, now
from skein_kit.requests import Requests

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    import asyncpg

    from skein_auth.keys import Draft
    from skein_auth.signing import NewKey
    from skein_kit.database import Database
    from skein_kit.requests import Once


class KeyStore:
    """API keys, the operator's keys, and the keys that sign."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._requests = Requests("auth")

    async def create_api_key(self, tenant_id: UUID, draft: Draft, once: Once) -> pb.CreateApiKeyResponse:
        """Make a key once for each request. The stored answer holds no secret, so a repeated request gets none."""
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.CreateApiKeyResponse.FromString(first)
            # Later than the claim: a repeated request is answered although what it asked for has expired meanwhile.
            at = now()
            creator_ends = await tx.value(QUERIES["end_of_creator"], tenant_id=tenant_id, api_key_id=draft.creator_id)
            key = Key.new(tenant_id, new_id(at))
            row = await tx.row(
                QUERIES["create_api_key"],
                tenant_id=tenant_id,
                api_key_id=key.key_id,
                display_name=draft.display_name,
                permissions=draft.permissions,
                agent_id=draft.agent_id or None,
                secret_hash=key.secret_hash(),
                create_time=at,
                expire_time=draft.ends(at, creator_ends),
                created_by=draft.created_by,
            )
            response = pb.CreateApiKeyResponse(api_key=wire.api_key(_there(row)))
            await self._requests.answer(tx, tenant_id, once, response)
        response.secret = key.text()
        return response

    async def find_api_key(self, tenant_id: UUID, api_key_id: UUID) -> Stored:
        """Return NOBODY, which no key proves, when the tenant has no such key."""
        async with self._database.tenant(tenant_id) as tx:
            row = await tx.row(QUERIES["find_api_key"], tenant_id=tenant_id, api_key_id=api_key_id)
        if row is None:
            return NOBODY
        return Stored(
            secret_hash=row["secret_hash"],
            permissions=row["permissions"],
            agent_id=row["agent_id"] or "",
            expire_time=row["expire_time"],
            revoke_time=row["revoke_time"],
        )

    async def list_api_keys(self, tenant_id: UUID, *, before: UUID | None, size: int) -> list[pb.ApiKey]:
        async with self._database.tenant(tenant_id) as tx:
            rows = await tx.rows(QUERIES["list_api_keys"], tenant_id=tenant_id, before=before, size=size)
        return [wire.api_key(row) for row in rows]

    async def revoke_api_key(self, tenant_id: UUID, api_key_id: UUID, once: Once) -> pb.RevokeApiKeyResponse:
        """End a key once for each request."""
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.RevokeApiKeyResponse.FromString(first)
            row = await tx.row(QUERIES["revoke_api_key"], tenant_id=tenant_id, api_key_id=api_key_id, revoke_time=now())
            if row is None:
                raise ApiKeyNotFound
            response = pb.RevokeApiKeyResponse(api_key=wire.api_key(row))
            await self._requests.answer(tx, tenant_id, once, response)
        return response

    async def find_operator_key(self, api_key_id: UUID) -> Stored:
        """Return NOBODY, which no key proves, when there is no such key."""
        async with self._database.shared() as tx:
            row = await tx.row(QUERIES["find_operator_key"], api_key_id=api_key_id)
        if row is None:
            return NOBODY
        return Stored(
            secret_hash=row["secret_hash"],
            permissions=(),
            expire_time=row["expire_time"],
            revoke_time=row["revoke_time"],
        )

    async def active_signing_key(self) -> asyncpg.Record | None:
        """Read the id and the sealed private half of the key that signs; None before the first one."""
        async with self._database.shared() as tx:
            return await tx.row(QUERIES["active_signing_key"])

    async def create_signing_key(self, new: NewKey) -> None:
        """Make it the key that signs, unless there is one."""
        async with self._database.shared() as tx:
            await tx.execute(
                QUERIES["create_signing_key"],
                key_id=new.key_id,
                public_jwk=new.public_jwk,
                sealed_private_jwk=new.sealed_private_jwk,
                create_time=new.create_time,
            )

    async def rotate_signing_key(self, new: NewKey, old_expires: datetime, once: Once) -> pb.RotateSigningKeyResponse:
        """Make it the key that signs, whatever signed before; or return the first answer, which names another key."""
        async with self._database.tenant(NO_TENANT) as tx:
            if (first := await self._requests.claim(tx, NO_TENANT, once)) is not None:
                return pb.RotateSigningKeyResponse.FromString(first)
            await tx.execute(QUERIES["lock_signing_keys"])
            await tx.execute(QUERIES["retire_signing_key"], expire_time=old_expires)
            await tx.execute(
                QUERIES["create_signing_key"],
                key_id=new.key_id,
                public_jwk=new.public_jwk,
                sealed_private_jwk=new.sealed_private_jwk,
                create_time=new.create_time,
            )
            response = pb.RotateSigningKeyResponse(signing_key=wire.new_signing_key(new))
            await self._requests.answer(tx, NO_TENANT, once, response)
        return response

    async def list_signing_keys(self, at: datetime) -> list[pb.SigningKey]:
        async with self._database.shared() as tx:
            return [wire.signing_key(row) for row in await tx.rows(QUERIES["list_signing_keys"], at=at)]

    async def delete_expired(self, tenant_id: UUID, at: datetime) -> int:
        """Remove what is past its time: signing keys, answers to the operator and to the tenant; return how many."""
        async with self._database.tenant(NO_TENANT) as tx:
            keys = await tx.execute(QUERIES["delete_expired_signing_keys"], at=at)
            operators = await self._requests.delete_expired(tx, NO_TENANT, at)
        async with self._database.tenant(tenant_id) as tx:
            return keys + operators + await self._requests.delete_expired(tx, tenant_id, at)


def _there(row: asyncpg.Record | None) -> asyncpg.Record:
    """Return the row that the insert returned."""
    if row is None:
        message = "an insert returned no row"
        raise LookupError(message)
    return row
