"""What people, and applications that act for them, may do: from an access token to an identity."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from skein_auth.errors import TenantNotFound
from skein_auth.exchange.model import AuthenticatedIdentity, AuthenticationFailed, key_caller
from skein_kit.database.transactions import NO_TENANT
from skein_kit.errors import CredentialInvalid, RpcError
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.permissions import ACCOUNT, CREATE_TENANT, ROLE_PERMISSIONS

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from skein_auth.api_keys.store import ApiKeyStore
    from skein_auth.audit.model import AuditFields
    from skein_auth.auth_sessions.auth_sessions import AuthSessions
    from skein_auth.auth_sessions.model import AuthSessionState
    from skein_auth.signing.access_tokens import AccessClaims, AccessTokens
    from skein_auth.tenancy.tenants import TenantDirectory


class AccessTokenAuthenticator:
    """Turns access tokens into identities. A token says who; what they may do is looked up each time."""

    def __init__(
        self,
        *,
        tokens: AccessTokens,
        sign_ins: AuthSessions,
        keys: ApiKeyStore,
        tenants: TenantDirectory,
        create_tenants: bool,
    ) -> None:
        """With `create_tenants` everybody who signs in may make tenants of their own."""
        self._tokens = tokens
        self._sign_ins = sign_ins
        self._keys = keys
        self._tenants = tenants
        self._own = frozenset({ACCOUNT, CREATE_TENANT} if create_tenants else {ACCOUNT})

    async def of_access_token(
        self, text: str, tenant_id: UUID | None, at: datetime, audience: str
    ) -> AuthenticatedIdentity:
        """Return whose access token this is: a person in the tenant they choose, an application in its own.

        Raises TenantNotFound when a person chooses a tenant that they are no member of.
        """
        try:
            claims = await self._tokens.verify(text, audience, at)
        except RpcError as refusal:
            raise AuthenticationFailed(refusal) from None
        return await self._of(claims, tenant_id, at)

    async def introspect(self, text: str, tenant_id: UUID, at: datetime) -> AuthenticatedIdentity | None:
        """Return whose access token this is, whatever resource it was made for, if it is one of the tenant."""
        try:
            claims = await self._tokens.verify(text, None, at)
        except RpcError as refusal:
            raise AuthenticationFailed(refusal) from None
        return None if claims.tenant_id != tenant_id else await self._of(claims, tenant_id, at)

    async def _of(self, claims: AccessClaims, tenant_id: UUID | None, at: datetime) -> AuthenticatedIdentity:
        if claims.tenant_id != NO_TENANT and tenant_id not in (None, claims.tenant_id):
            raise AuthenticationFailed(CredentialInvalid())
        if claims.api_key_id is not None:
            return await self._of_service_account(claims, claims.api_key_id, at)
        if claims.sign_in_id is None:
            raise AuthenticationFailed(CredentialInvalid())
        standing = await self._sign_ins.standing(claims.tenant_id, claims.sign_in_id)
        if standing is None or (str(standing.account_id), standing.client_id) != (claims.subject, claims.client_id):
            raise AuthenticationFailed(CredentialInvalid(), is_final=True)
        if not (standing.live and standing.account_active):
            # An account may be activated again; a sign-in that is over stays so.
            raise AuthenticationFailed(CredentialInvalid(), is_final=not standing.live, **_facts(standing))
        if standing.client_id:
            return await self._of_application(claims, standing)
        return await self._of_person(claims, standing, tenant_id)

    async def _of_person(
        self, claims: AccessClaims, standing: AuthSessionState, tenant_id: UUID | None
    ) -> AuthenticatedIdentity:
        role = ""
        if tenant_id is not None:
            there = await self._tenants.standing(tenant_id, standing.account_id)
            role = there.role if there.open else ""
            if not role:
                raise TenantNotFound
        permissions = ROLE_PERMISSIONS[role] if role else frozenset({"tenant.read"})
        return AuthenticatedIdentity(
            caller=Caller(
                principal=f"account:{standing.account_id}",
                tenant_id=tenant_id,
                permissions=self._own | permissions,
                account_id=standing.account_id,
                sign_in_id=standing.sign_in_id,
                role=role,
                email=standing.email if standing.email_verified else "",
            ),
            expire_time=claims.expire_time,
        )

    async def _of_application(self, claims: AccessClaims, standing: AuthSessionState) -> AuthenticatedIdentity:
        """Let an application do what it was granted, as far as the person may do it now."""
        there = await self._tenants.standing(standing.tenant_id, standing.account_id)
        if not (there.open and there.role):
            raise AuthenticationFailed(CredentialInvalid(), **_facts(standing))
        return AuthenticatedIdentity(
            caller=Caller(
                principal=f"account:{standing.account_id}",
                tenant_id=standing.tenant_id,
                permissions=claims.scopes & standing.scopes & ROLE_PERMISSIONS[there.role],
                account_id=standing.account_id,
                sign_in_id=standing.sign_in_id,
                client_id=standing.client_id,
                role=there.role,
                grant_ids=(standing.sign_in_id,),
            ),
            expire_time=claims.expire_time,
        )

    async def _of_service_account(self, claims: AccessClaims, api_key_id: UUID, at: datetime) -> AuthenticatedIdentity:
        """Let a service account do what its token says, as far as the key that got the token may do it now."""
        stored = await self._keys.find_api_key(claims.tenant_id, api_key_id)
        if str(stored.service_account_id) != claims.subject:
            raise AuthenticationFailed(CredentialInvalid())
        target = f"service_account:{claims.subject}"
        try:
            stored.check(at)
        except RpcError:
            raise AuthenticationFailed(CredentialInvalid(), tenant_id=claims.tenant_id, target=target) from None
        if not (await self._tenants.standing(claims.tenant_id)).open:
            raise AuthenticationFailed(CredentialInvalid(), target=target)
        caller = key_caller(claims.tenant_id, api_key_id, stored)
        return AuthenticatedIdentity(
            caller=replace(caller, permissions=caller.permissions & claims.scopes, client_id=claims.client_id),
            expire_time=claims.expire_time,
        )


def _facts(standing: AuthSessionState) -> AuditFields:
    """Return what a token that once was good tells the audit."""
    return {
        "tenant_id": standing.tenant_id,
        "account_id": standing.account_id,
        "target": f"account:{standing.account_id}",
        "client_id": standing.client_id,
    }
