"""From a credential to the identity that it stands for: the rules of exchange and introspection."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from skein_auth.errors import TenantNotFound
from skein_auth.keys import Key
from skein_kit.access import OPERATOR_PERMISSIONS, SYSTEM_PERMISSIONS, TENANT_PERMISSIONS
from skein_kit.errors import CredentialExpired, CredentialInvalid, Unauthenticated
from skein_kit.identity import Caller

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skein_auth.settings import SystemKeys
    from skein_auth.store import KeyStore
    from skein_auth.tenants import Tenants

# What a key that is not there is compared with, so that a wrong secret takes the same path.
_NOBODYS_HASH = bytes(32)


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """What the database keeps about one API key."""

    secret_hash: bytes = field(repr=False)
    permissions: Sequence[str]
    agent_id: str = ""
    expire_time: datetime | None
    revoke_time: datetime | None

    def judge(self, key: Key, at: datetime) -> None:
        """Refuse a key that does not prove itself, was revoked or has expired, in this order.

        Only who holds the right secret learns more than that the credential is not valid.
        """
        if not key.proves(self.secret_hash) or self.revoke_time is not None:
            raise CredentialInvalid
        if self.expire_time is not None and at >= self.expire_time:
            raise CredentialExpired


NOBODY = Stored(secret_hash=_NOBODYS_HASH, permissions=(), expire_time=None, revoke_time=None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """Who a credential stands for, and until when."""

    caller: Caller
    # None: the credential never expires.
    expire_time: datetime | None = None


class Identities:
    """Turns credentials into identities."""

    def __init__(self, store: KeyStore, tenants: Tenants, system_keys: SystemKeys) -> None:
        self._store = store
        self._tenants = tenants
        self._system_keys = tuple(key.encode() for key in system_keys.keys)

    async def of_bearer(self, credential: str, tenant_id: UUID | None, at: datetime) -> Identity:
        """Return whose API key this is. The operator acts in `tenant_id`; a tenant's key in no tenant but its own.

        Whatever is wrong with a tenant's key, a deleted tenant included, is refused in the same words.
        """
        key = Key.parse(credential)
        if key is None:
            raise CredentialInvalid
        if key.is_operators:
            return await self._of_operator(key, tenant_id, at)
        if tenant_id not in (None, key.tenant_id):
            raise CredentialInvalid
        identity = await self._of_tenant(key, at)
        if not await self._tenants.exists(key.tenant_id):
            raise CredentialInvalid
        return identity

    async def of_system(self, system_key: str, service: str, tenant_id: UUID | None) -> Identity:
        """Return the identity of one of the cluster's own services."""
        given = system_key.encode()
        # Every key is compared, so that the time taken does not tell which one came close.
        if not any([hmac.compare_digest(given, key) for key in self._system_keys]):  # noqa: C419 - as said above.
            raise CredentialInvalid
        await self._must_exist(tenant_id)
        return Identity(
            caller=Caller(principal=f"system:{service}", tenant_id=tenant_id, permissions=SYSTEM_PERMISSIONS)
        )

    async def introspect(self, credential: str, tenant_id: UUID, at: datetime) -> Identity | None:
        """Return whose valid key this is, if it is one of the tenant; None for everything else."""
        key = Key.parse(credential)
        if key is None or key.tenant_id != tenant_id:
            return None
        try:
            identity = await self._of_tenant(key, at)
        except Unauthenticated:
            return None
        return identity if await self._tenants.exists(tenant_id) else None

    async def _of_operator(self, key: Key, tenant_id: UUID | None, at: datetime) -> Identity:
        stored = await self._store.find_operator_key(key.key_id)
        stored.judge(key, at)
        await self._must_exist(tenant_id)
        return Identity(
            caller=Caller(
                principal=f"operator:{key.key_id}", tenant_id=tenant_id, permissions=frozenset(OPERATOR_PERMISSIONS)
            ),
            expire_time=stored.expire_time,
        )

    async def _of_tenant(self, key: Key, at: datetime) -> Identity:
        stored = await self._store.find_api_key(key.tenant_id, key.key_id)
        stored.judge(key, at)
        return Identity(
            caller=Caller(
                principal=f"api_key:{key.key_id}",
                tenant_id=key.tenant_id,
                permissions=TENANT_PERMISSIONS.intersection(stored.permissions),
                agent_id=stored.agent_id,
            ),
            expire_time=stored.expire_time,
        )

    async def _must_exist(self, tenant_id: UUID | None) -> None:
        if tenant_id is not None and not await self._tenants.exists(tenant_id):
            raise TenantNotFound
