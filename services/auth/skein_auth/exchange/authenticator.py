"""Authentication of credentials: the rules of exchange and introspection."""

from __future__ import annotations

import hmac
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from skein_auth.api_keys.credential_lookup import CredentialLookup
from skein_auth.api_keys.last_use import LastUseRecorder
from skein_auth.api_keys.model import UNKNOWN_API_KEY, ApiKeyToken, StoredApiKey
from skein_auth.audit.recorder import AuditRecorder
from skein_auth.errors import TenantNotFound
from skein_auth.exchange.access_token_authenticator import AccessTokenAuthenticator
from skein_auth.exchange.model import AuthenticatedIdentity, AuthenticationFailed, key_caller
from skein_auth.exchange.rejected_credentials import RejectedCredentialCache
from skein_auth.settings import SystemKeys
from skein_auth.tenant_directory import TenantDirectory
from skein_kit import canary
from skein_kit.errors import CredentialInvalid, RpcError
from skein_kit.identity.bearer_token import MIN_LEGACY, is_jwt
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.permissions import (
    EXTRACTOR_PERMISSIONS,
    OPERATOR_PERMISSIONS,
    ROLE_PERMISSIONS,
    SYSTEM_PERMISSIONS,
)
from skein_kit.identity.spaces import WRITER

# Services that exchange the system key for their identity; auth signs its own, others need none.
EXCHANGING_SERVICES = frozenset({"worker"})


class Authenticator:
    """Turns credentials into identities."""

    def __init__(
        self,
        *,
        lookup: CredentialLookup,
        access_tokens: AccessTokenAuthenticator,
        tenants: TenantDirectory,
        system_keys: SystemKeys,
        audit: AuditRecorder,
        last_uses: LastUseRecorder,
    ) -> None:
        self._lookup = lookup
        self._rejected_credentials = RejectedCredentialCache()
        self._access_tokens = access_tokens
        self._tenants = tenants
        self._system_keys = tuple(key.encode() for key in system_keys.keys)
        self._audit = audit
        self._last_uses = last_uses

    async def authenticate_bearer(
        self, credential: str, tenant_id: UUID | None, at: datetime, *, audience: str = ""
    ) -> AuthenticatedIdentity:
        """Return the identity of a credential in `tenant_id`: the operator's in any, a person's in one of their own.

        The credential of a tenant may name that one or none. Every refusal, also for a deleted tenant, gives the same
        error and is recorded.
        """
        try:
            self._check_rejected(credential)
            identity = await self._authenticate(credential, tenant_id, at, audience)
            return replace(identity, caller=await self._tenants.with_spaces(identity.caller))
        except AuthenticationFailed as failure:
            if failure.is_final:
                self._rejected_credentials.put(credential, failure.error, failure.fields)
            await self._audit.record_rejected_credential(credential, failure.error, **failure.fields)
            raise failure.error from None

    def _check_rejected(self, credential: str) -> None:
        """Raises AuthenticationFailed for a credential that was rejected for good a moment ago."""
        if (rejection := self._rejected_credentials.find(credential)) is not None:
            error, fields = rejection
            raise AuthenticationFailed(error, **fields)

    async def authenticate_system(
        self,
        system_key: str,
        service: str,
        tenant_id: UUID | None,
        *,
        extractor: str = "",
        space_id: UUID | None = None,
    ) -> AuthenticatedIdentity:
        """Return the identity of one of the cluster's own services, which also acts in deleted tenants.

        With an `extractor` it is that one's, in a tenant that is not deleted. It acts in one space: None is the default
        one.

        Only EXCHANGING_SERVICES get one: with the key alone, no service acts as another.
        """
        presented_key = system_key.encode()
        # Every key is compared, so that the time taken does not tell which one came close.
        is_valid = any([hmac.compare_digest(presented_key, key) for key in self._system_keys])  # noqa: C419 - see above.
        if not is_valid or service not in EXCHANGING_SERVICES:
            error = CredentialInvalid()
            await self._audit.record_rejected_credential(system_key, error, target="system")
            raise error
        is_deleted = False
        if tenant_id is not None:
            membership = await self._tenants.get_membership(tenant_id)
            is_deleted = membership.tenant_is_deleted
            if not (membership.tenant_is_open or is_deleted):
                raise TenantNotFound
        spaces = None if space_id is None else ((space_id, WRITER),)
        if extractor:
            if tenant_id is None or is_deleted:
                raise TenantNotFound
            return AuthenticatedIdentity(
                caller=Caller(
                    principal=f"extractor:{extractor}",
                    tenant_id=tenant_id,
                    permissions=EXTRACTOR_PERMISSIONS,
                    spaces=spaces,
                )
            )
        # The canary's tenants have no other admin than the cluster, which creates the keys of its probes.
        permissions = SYSTEM_PERMISSIONS | (
            ROLE_PERMISSIONS["admin"] if tenant_id in canary.CANARY_TENANT_IDS else frozenset()
        )
        return AuthenticatedIdentity(
            caller=Caller(
                principal=f"system:{service}",
                tenant_id=tenant_id,
                permissions=permissions,
                is_tenant_deleted=is_deleted,
                spaces=spaces,
            )
        )

    async def space_ids(self, tenant_id: UUID) -> list[str]:
        """Return every space of a tenant beside the default one."""
        return await self._tenants.space_ids(tenant_id)

    async def introspect(self, credential: str, tenant_id: UUID, at: datetime) -> AuthenticatedIdentity | None:
        """Return the identity of a valid credential of the tenant; None for any other."""
        try:
            if (key := ApiKeyToken.parse(credential)) is not None:
                identity = None if key.tenant_id != tenant_id else await self._authenticate_api_key(key, at)
            elif is_jwt(credential):
                identity = await self._access_tokens.introspect(credential, tenant_id, at)
            else:
                identity = await self._authenticate_legacy_token(credential, tenant_id)
        except AuthenticationFailed:
            return None
        return identity

    async def _authenticate(
        self, credential: str, tenant_id: UUID | None, at: datetime, audience: str
    ) -> AuthenticatedIdentity:
        key = ApiKeyToken.parse(credential)
        if key is None:
            if is_jwt(credential):
                return await self._access_tokens.authenticate(credential, tenant_id, at, audience)
            return await self._authenticate_legacy_token(credential, tenant_id)
        if key.is_operator_key:
            return await self._authenticate_operator_key(key, tenant_id, at)
        if tenant_id not in (None, key.tenant_id):
            raise AuthenticationFailed(CredentialInvalid())
        return await self._authenticate_api_key(key, at)

    async def _authenticate_operator_key(
        self, key: ApiKeyToken, tenant_id: UUID | None, at: datetime
    ) -> AuthenticatedIdentity:
        stored_key = await self._find_stored_key(key)
        target = f"operator:{key.key_id}" if stored_key is not UNKNOWN_API_KEY else ""
        try:
            stored_key.verify(key, at)
        except RpcError as error:
            raise AuthenticationFailed(error, is_final=stored_key is not UNKNOWN_API_KEY, target=target) from None
        if tenant_id is not None and not (await self._tenants.get_membership(tenant_id)).tenant_is_open:
            raise TenantNotFound
        return AuthenticatedIdentity(
            caller=Caller(
                principal=f"operator:{key.key_id}", tenant_id=tenant_id, permissions=frozenset(OPERATOR_PERMISSIONS)
            ),
            expire_time=stored_key.expire_time,
        )

    async def _authenticate_api_key(self, key: ApiKeyToken, at: datetime) -> AuthenticatedIdentity:
        stored_key = await self._find_stored_key(key)
        if stored_key is UNKNOWN_API_KEY:
            # The same work as for a known key.
            key.matches_hash(stored_key.secret_hash)
            raise AuthenticationFailed(CredentialInvalid(), is_final=True)
        target = f"api_key:{key.key_id}"
        try:
            stored_key.verify(key, at)
        except RpcError as error:
            # A disabled service account may be enabled again.
            is_final = not stored_key.disabled
            raise AuthenticationFailed(error, is_final=is_final, tenant_id=key.tenant_id, target=target) from None
        if not (await self._tenants.get_membership(key.tenant_id)).tenant_is_open:
            raise AuthenticationFailed(CredentialInvalid(), target=target)
        self._last_uses.record(key.tenant_id, key.key_id, at, stored_key.use_time)
        return AuthenticatedIdentity(
            caller=key_caller(key.tenant_id, key.key_id, stored_key), expire_time=stored_key.expire_time
        )

    async def _find_stored_key(self, key: ApiKeyToken) -> StoredApiKey:
        try:
            return await self._lookup.find_in_slot(key)
        except CredentialInvalid as error:
            raise AuthenticationFailed(error) from None

    async def _authenticate_legacy_token(self, credential: str, tenant_id: UUID | None) -> AuthenticatedIdentity:
        token_tenant_id = None
        if len(credential) >= MIN_LEGACY:
            token_tenant_id = await self._lookup.find_legacy_tenant(credential)
        if (
            token_tenant_id is None
            or tenant_id not in (None, token_tenant_id)
            or not (await self._tenants.get_membership(token_tenant_id)).tenant_is_open
        ):
            raise AuthenticationFailed(
                CredentialInvalid(), target="legacy:bearer" if token_tenant_id is not None else ""
            )
        return AuthenticatedIdentity(
            caller=Caller(principal="legacy:bearer", tenant_id=token_tenant_id, permissions=ROLE_PERMISSIONS["member"])
        )
