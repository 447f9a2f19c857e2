"""Authentication of access tokens: of people, OAuth clients and service accounts."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from uuid import UUID

from skein_auth.api_keys.store import ApiKeyStore
from skein_auth.audit.model import AuditFields
from skein_auth.auth_sessions.auth_sessions import AuthSessions
from skein_auth.auth_sessions.model import AuthSessionState
from skein_auth.errors import TenantNotFound
from skein_auth.exchange.model import AuthenticatedIdentity, AuthenticationFailed, key_caller
from skein_auth.signing.access_tokens import AccessClaims, AccessTokens
from skein_auth.tenant_directory import TenantDirectory
from skein_kit.database.transactions import NO_TENANT
from skein_kit.errors import CredentialInvalid, RpcError
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.permissions import ACCOUNT, CREATE_TENANT, ROLE_PERMISSIONS


class AccessTokenAuthenticator:
    """Turns access tokens into identities. The permissions are looked up each time."""

    def __init__(
        self,
        *,
        tokens: AccessTokens,
        auth_sessions: AuthSessions,
        keys: ApiKeyStore,
        tenants: TenantDirectory,
        create_tenants: bool,
    ) -> None:
        """With `create_tenants`, every person may create tenants."""
        self._tokens = tokens
        self._auth_sessions = auth_sessions
        self._keys = keys
        self._tenants = tenants
        self._own_permissions = frozenset({ACCOUNT, CREATE_TENANT} if create_tenants else {ACCOUNT})

    async def authenticate(
        self, text: str, tenant_id: UUID | None, at: datetime, audience: str
    ) -> AuthenticatedIdentity:
        """Return the identity of an access token: a person's in `tenant_id`, a client's in its own tenant.

        Raises AuthenticationFailed, and TenantNotFound for a person without a membership of the tenant.
        """
        try:
            claims = await self._tokens.verify(text, audience, at)
        except RpcError as error:
            raise AuthenticationFailed(error) from None
        return await self._authenticate(claims, tenant_id, at)

    async def introspect(self, text: str, tenant_id: UUID, at: datetime) -> AuthenticatedIdentity | None:
        """Return the identity of an access token of the tenant, for any resource; None for another tenant's."""
        try:
            claims = await self._tokens.verify(text, None, at)
        except RpcError as error:
            raise AuthenticationFailed(error) from None
        return None if claims.tenant_id != tenant_id else await self._authenticate(claims, tenant_id, at)

    async def _authenticate(self, claims: AccessClaims, tenant_id: UUID | None, at: datetime) -> AuthenticatedIdentity:
        if claims.tenant_id != NO_TENANT and tenant_id not in (None, claims.tenant_id):
            raise AuthenticationFailed(CredentialInvalid())
        if claims.api_key_id is not None:
            return await self._authenticate_service_account(claims, claims.api_key_id, at)
        if claims.auth_session_id is None:
            raise AuthenticationFailed(CredentialInvalid())
        state = await self._auth_sessions.get_state(claims.tenant_id, claims.auth_session_id)
        if state is None or (str(state.account_id), state.client_id) != (claims.subject, claims.client_id):
            raise AuthenticationFailed(CredentialInvalid(), is_final=True)
        if not (state.is_live and state.account_active):
            # An account may be activated again; a dead session stays dead.
            raise AuthenticationFailed(CredentialInvalid(), is_final=not state.is_live, **_audit_fields(state))
        if state.client_id:
            return await self._authenticate_client(claims, state)
        return await self._authenticate_person(claims, state, tenant_id)

    async def _authenticate_person(
        self, claims: AccessClaims, state: AuthSessionState, tenant_id: UUID | None
    ) -> AuthenticatedIdentity:
        role = ""
        if tenant_id is not None:
            membership = await self._tenants.get_membership(tenant_id, state.account_id)
            role = membership.role if membership.tenant_is_open else ""
            if not role:
                raise TenantNotFound
        permissions = ROLE_PERMISSIONS[role] if role else frozenset({"tenant.read"})
        return AuthenticatedIdentity(
            caller=Caller(
                principal=f"account:{state.account_id}",
                tenant_id=tenant_id,
                permissions=self._own_permissions | permissions,
                account_id=state.account_id,
                auth_session_id=state.auth_session_id,
                role=role,
                email=state.email if state.email_verified else "",
            ),
            expire_time=claims.expire_time,
        )

    async def _authenticate_client(self, claims: AccessClaims, state: AuthSessionState) -> AuthenticatedIdentity:
        """A client has the permissions of its token and its grant that the person's role still has."""
        membership = await self._tenants.get_membership(state.tenant_id, state.account_id)
        if not (membership.tenant_is_open and membership.role):
            raise AuthenticationFailed(CredentialInvalid(), **_audit_fields(state))
        return AuthenticatedIdentity(
            caller=Caller(
                principal=f"account:{state.account_id}",
                tenant_id=state.tenant_id,
                permissions=claims.scopes & state.scopes & ROLE_PERMISSIONS[membership.role],
                account_id=state.account_id,
                auth_session_id=state.auth_session_id,
                client_id=state.client_id,
                role=membership.role,
                grant_ids=(state.auth_session_id,),
            ),
            expire_time=claims.expire_time,
        )

    async def _authenticate_service_account(
        self, claims: AccessClaims, api_key_id: UUID, at: datetime
    ) -> AuthenticatedIdentity:
        """A service account has the permissions of its token that the token's key still has."""
        stored_key = await self._keys.find_api_key(claims.tenant_id, api_key_id)
        if str(stored_key.service_account_id) != claims.subject:
            raise AuthenticationFailed(CredentialInvalid())
        target = f"service_account:{claims.subject}"
        try:
            stored_key.check_active(at)
        except RpcError:
            raise AuthenticationFailed(CredentialInvalid(), tenant_id=claims.tenant_id, target=target) from None
        if not (await self._tenants.get_membership(claims.tenant_id)).tenant_is_open:
            raise AuthenticationFailed(CredentialInvalid(), target=target)
        caller = key_caller(claims.tenant_id, api_key_id, stored_key)
        return AuthenticatedIdentity(
            caller=replace(caller, permissions=caller.permissions & claims.scopes, client_id=claims.client_id),
            expire_time=claims.expire_time,
        )


def _audit_fields(state: AuthSessionState) -> AuditFields:
    """Return the audit fields of a known session."""
    return {
        "tenant_id": state.tenant_id,
        "account_id": state.account_id,
        "target": f"account:{state.account_id}",
        "client_id": state.client_id,
    }
