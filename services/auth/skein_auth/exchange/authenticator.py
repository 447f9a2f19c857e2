"""From a credential to the identity that it stands for: the rules of exchange and introspection."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from skein_auth.api_keys.model import UNKNOWN_API_KEY, ApiKeyToken
from skein_auth.errors import TenantNotFound
from skein_auth.exchange.model import AuthenticatedIdentity, AuthenticationFailed, key_caller
from skein_auth.exchange.refusal_cache import RejectedCredentialCache
from skein_kit import canary
from skein_kit.errors import CredentialInvalid, RpcError
from skein_kit.identity.bearer_token import MIN_LEGACY, is_jwt
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.permissions import OPERATOR_PERMISSIONS, ROLE_PERMISSIONS, SYSTEM_PERMISSIONS

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from skein_auth.api_keys.credential_lookup import CredentialLookup
    from skein_auth.api_keys.last_use import LastUseRecorder
    from skein_auth.api_keys.model import StoredApiKey
    from skein_auth.audit.recorder import AuditRecorder
    from skein_auth.exchange.access_token_authenticator import AccessTokenAuthenticator
    from skein_auth.settings import SystemKeys
    from skein_auth.tenancy.tenants import TenantDirectory

# The services that exchange the system key for their identity; auth signs its own, others have none.
EXCHANGING_SERVICES = frozenset({"worker"})


class Authenticator:
    """Turns credentials into identities."""

    def __init__(
        self,
        *,
        lookup: CredentialLookup,
        people: AccessTokenAuthenticator,
        tenants: TenantDirectory,
        system_keys: SystemKeys,
        audit: AuditRecorder,
        uses: LastUseRecorder,
    ) -> None:
        self._lookup = lookup
        self._refusals = RejectedCredentialCache()
        self._people = people
        self._tenants = tenants
        self._system_keys = tuple(key.encode() for key in system_keys.keys)
        self._audit = audit
        self._uses = uses

    async def of_bearer(
        self, credential: str, tenant_id: UUID | None, at: datetime, *, audience: str = ""
    ) -> AuthenticatedIdentity:
        """Return whose credential this is, acting in `tenant_id`: the operator in any, a person in one of their own.

        What belongs to one tenant may name that one or none. Whatever is wrong with it, a deleted tenant included, is
        refused in the same words, and recorded.
        """
        try:
            self._must_not_be_refused(credential)
            return await self._of(credential, tenant_id, at, audience)
        except AuthenticationFailed as refused:
            if refused.is_final:
                self._refusals.put(credential, refused.refusal, refused.facts)
            await self._audit.refused(credential, refused.refusal, **refused.facts)
            raise refused.refusal from None

    def _must_not_be_refused(self, credential: str) -> None:
        """Refuse again what was refused for good a moment ago."""
        if (known := self._refusals.find(credential)) is not None:
            refusal, facts = known
            raise AuthenticationFailed(refusal, **facts)

    async def of_system(self, system_key: str, service: str, tenant_id: UUID | None) -> AuthenticatedIdentity:
        """Return the identity of one of the cluster's own services, which also acts in deleted tenants.

        Only services that have no other way to their identity get one: with the key alone none speaks for another.
        """
        given = system_key.encode()
        # Every key is compared, so that the time taken does not tell which one came close.
        is_right = any([hmac.compare_digest(given, key) for key in self._system_keys])  # noqa: C419 - as said above.
        if not is_right or service not in EXCHANGING_SERVICES:
            refusal = CredentialInvalid()
            await self._audit.refused(system_key, refusal, target="system")
            raise refusal
        closed = False
        if tenant_id is not None:
            standing = await self._tenants.standing(tenant_id)
            closed = standing.closed
            if not (standing.open or closed):
                raise TenantNotFound
        # The canary's tenants have no admin but the cluster, which makes the keys that they are probed with.
        permissions = SYSTEM_PERMISSIONS | (ROLE_PERMISSIONS["admin"] if tenant_id in canary.TENANTS else frozenset())
        return AuthenticatedIdentity(
            caller=Caller(principal=f"system:{service}", tenant_id=tenant_id, permissions=permissions, closed=closed)
        )

    async def introspect(self, credential: str, tenant_id: UUID, at: datetime) -> AuthenticatedIdentity | None:
        """Return whose valid credential this is, if it is one of the tenant; None for everything else."""
        try:
            if (key := ApiKeyToken.parse(credential)) is not None:
                identity = None if key.tenant_id != tenant_id else await self._of_key(key, at)
            elif is_jwt(credential):
                identity = await self._people.introspect(credential, tenant_id, at)
            else:
                identity = await self._of_legacy(credential, tenant_id)
        except AuthenticationFailed:
            return None
        return identity

    async def _of(self, credential: str, tenant_id: UUID | None, at: datetime, audience: str) -> AuthenticatedIdentity:
        key = ApiKeyToken.parse(credential)
        if key is None:
            if is_jwt(credential):
                return await self._people.of_access_token(credential, tenant_id, at, audience)
            return await self._of_legacy(credential, tenant_id)
        if key.is_operators:
            return await self._of_operator(key, tenant_id, at)
        if tenant_id not in (None, key.tenant_id):
            raise AuthenticationFailed(CredentialInvalid())
        return await self._of_key(key, at)

    async def _of_operator(self, key: ApiKeyToken, tenant_id: UUID | None, at: datetime) -> AuthenticatedIdentity:
        stored = await self._stored(key)
        target = f"operator:{key.key_id}" if stored is not UNKNOWN_API_KEY else ""
        try:
            stored.judge(key, at)
        except RpcError as refusal:
            raise AuthenticationFailed(refusal, is_final=stored is not UNKNOWN_API_KEY, target=target) from None
        if tenant_id is not None and not (await self._tenants.standing(tenant_id)).open:
            raise TenantNotFound
        return AuthenticatedIdentity(
            caller=Caller(
                principal=f"operator:{key.key_id}", tenant_id=tenant_id, permissions=frozenset(OPERATOR_PERMISSIONS)
            ),
            expire_time=stored.expire_time,
        )

    async def _of_key(self, key: ApiKeyToken, at: datetime) -> AuthenticatedIdentity:
        stored = await self._stored(key)
        if stored is UNKNOWN_API_KEY:
            # The same work as for a key that is there.
            key.proves(stored.secret_hash)
            raise AuthenticationFailed(CredentialInvalid(), is_final=True)
        target = f"api_key:{key.key_id}"
        try:
            stored.judge(key, at)
        except RpcError as refusal:
            # A service account that is disabled may be enabled again.
            is_final = not stored.disabled
            raise AuthenticationFailed(refusal, is_final=is_final, tenant_id=key.tenant_id, target=target) from None
        if not (await self._tenants.standing(key.tenant_id)).open:
            raise AuthenticationFailed(CredentialInvalid(), target=target)
        self._uses.note(key.tenant_id, key.key_id, at, stored.use_time)
        return AuthenticatedIdentity(
            caller=key_caller(key.tenant_id, key.key_id, stored), expire_time=stored.expire_time
        )

    async def _stored(self, key: ApiKeyToken) -> StoredApiKey:
        try:
            return await self._lookup.stored(key)
        except CredentialInvalid as refusal:
            raise AuthenticationFailed(refusal) from None

    async def _of_legacy(self, credential: str, tenant_id: UUID | None) -> AuthenticatedIdentity:
        found = None
        if len(credential) >= MIN_LEGACY:
            found = await self._lookup.legacy_tenant(credential)
        if found is None or tenant_id not in (None, found) or not (await self._tenants.standing(found)).open:
            raise AuthenticationFailed(CredentialInvalid(), target="legacy:bearer" if found is not None else "")
        return AuthenticatedIdentity(
            caller=Caller(principal="legacy:bearer", tenant_id=found, permissions=ROLE_PERMISSIONS["member"])
        )
