"""The token, revocation, introspection and userinfo endpoints of OAuth. Knows no HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from skein_auth.api_keys.credential_lookup import CredentialLookup
from skein_auth.api_keys.model import UNKNOWN_API_KEY, ApiKeyToken, StoredApiKey
from skein_auth.api_keys.store import ApiKeyStore
from skein_auth.assertions.identity_assertions import IdentityAssertions
from skein_auth.attempts.limiter import AttemptLimiter
from skein_auth.audit.model import AuditFields
from skein_auth.audit.recorder import AuditRecorder
from skein_auth.auth_sessions import model as grants
from skein_auth.auth_sessions.auth_sessions import AuthSessions
from skein_auth.auth_sessions.model import (
    AuthSession,
    AuthSessionState,
    CodeRequest,
    GrantError,
    GrantResult,
    IssuedTokens,
    RefreshRequest,
)
from skein_auth.auth_sessions.store import AuthSessionStore
from skein_auth.errors import (
    AccessDenied,
    AuthorizationPending,
    ExpiredToken,
    InsufficientScope,
    InvalidClient,
    InvalidGrant,
    InvalidScope,
    InvalidTarget,
    InvalidToken,
    SlowDown,
)
from skein_auth.exchange.rejected_credentials import RejectedCredentialCache
from skein_auth.oauth.device_authorization import DeviceFlow
from skein_auth.oauth.resources import resolve_resources
from skein_auth.oauth_clients import model as clients
from skein_auth.oauth_clients.model import OIDC_SCOPES, Client, ClientCredentials
from skein_auth.oauth_clients.registry import ClientRegistry
from skein_auth.signing.access_tokens import AccessClaims, AccessTokens, TokenSubject
from skein_auth.tenant_directory import TenantDirectory
from skein_kit.calls.call import client_address
from skein_kit.database.transactions import NO_TENANT
from skein_kit.errors import RpcError, Unauthenticated
from skein_kit.identity.bearer_token import BearerToken
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.permissions import ROLE_PERMISSIONS, TENANT_PERMISSIONS
from skein_kit.ids import now, parse_id

_ERRORS: Mapping[GrantError, type[RpcError]] = {
    GrantError.INVALID: InvalidGrant,
    GrantError.EXPIRED: InvalidGrant,
    GrantError.REUSED: InvalidGrant,
    GrantError.SCOPE: InvalidScope,
    GrantError.TARGET: InvalidTarget,
    GrantError.PENDING: AuthorizationPending,
    GrantError.SLOW_DOWN: SlowDown,
    GrantError.DENIED: AccessDenied,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenResponse:
    """The tokens for a grant (RFC 6749, 5.1)."""

    access_token: str
    seconds: int
    refresh_token: str = ""
    scope: str
    id_token: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenIntrospection:
    """The introspection of a live token (RFC 7662)."""

    kind: str
    scopes: frozenset[str]
    client_id: str
    subject: str
    tenant_id: UUID
    audiences: tuple[str, ...]
    token_id: str
    issue_time: datetime
    expire_time: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenEndpoint:
    """Issues, revokes and introspects tokens."""

    registry: ClientRegistry
    store: AuthSessionStore
    auth_sessions: AuthSessions
    tokens: AccessTokens
    devices: DeviceFlow
    identity_assertions: IdentityAssertions
    keys: ApiKeyStore
    # With slots of its own: unauthenticated callers must not block exchanges.
    lookup: CredentialLookup
    rejected_credentials: RejectedCredentialCache
    attempts: AttemptLimiter
    tenants: TenantDirectory
    audit: AuditRecorder
    # Of a service account's access token.
    lifetime: timedelta

    async def redeem_code(
        self, credentials: ClientCredentials, *, code: str, redirect_uri: str, verifier: str, resources: Sequence[str]
    ) -> TokenResponse:
        """Issue tokens for an authorization code and its PKCE verifier. Raises the errors of OAuth."""
        at = now()
        client, named_resources = await self._authenticate(credentials, clients.AUTHORIZATION_CODE, resources)
        presented_token = BearerToken.decode(grants.CODE_PREFIX, code)
        if presented_token is None:
            raise InvalidGrant
        request = CodeRequest(
            client_id=client.client_id,
            redirect_uri=redirect_uri,
            verifier=verifier,
            resources=named_resources,
            refreshes=clients.REFRESH_TOKEN in client.grant_types,
        )
        result, session = await self.store.redeem(presented_token, request, self.auth_sessions.step_context(at))
        tokens = await self._require_tokens(result, session, reuse_event="code_replayed")
        return await self._issue(tokens, at, event="code_used")

    async def refresh(
        self, credentials: ClientCredentials, refresh_token: str, *, scope: str, resources: Sequence[str]
    ) -> TokenResponse:
        """Replace a refresh token. Raises the errors of OAuth."""
        at = now()
        client, named_resources = await self._authenticate(credentials, clients.REFRESH_TOKEN, resources)
        presented_token = BearerToken.decode(grants.REFRESH_PREFIX, refresh_token)
        if presented_token is None:
            raise InvalidGrant
        # Before the token is spent: a failure of tenancy must not cost a grant.
        token_state = await self.store.get_refresh_token_state(presented_token)
        grantable_scopes: frozenset[str] = frozenset()
        if token_state is not None:
            session_scopes = await self._grantable_scopes(token_state.session.tenant_id, token_state.session.account_id)
            if session_scopes is None:
                raise InvalidGrant
            grantable_scopes = session_scopes
        request = RefreshRequest(client_id=client.client_id, scopes=frozenset(scope.split()), resources=named_resources)
        result, session = await self.store.refresh(presented_token, request, self.auth_sessions.step_context(at))
        tokens = await self._require_tokens(result, session, reuse_event="refresh_reused")
        # Resource servers that read the token itself do not look up the role.
        return await self._issue(replace(tokens, scopes=tokens.scopes & grantable_scopes), at)

    async def redeem_device_code(
        self, credentials: ClientCredentials, device_code: str, *, resources: Sequence[str]
    ) -> TokenResponse:
        """Issue tokens for a device that a person approved. Raises the errors of OAuth."""
        at = now()
        client, named_resources = await self._authenticate(credentials, clients.DEVICE_CODE, resources)
        result, session = await self.devices.redeem(client, device_code, named_resources, at)
        if result.error is GrantError.EXPIRED:
            raise ExpiredToken
        return await self._issue(await self._require_tokens(result, session, reuse_event="code_replayed"), at)

    async def redeem_identity_assertion(
        self, credentials: ClientCredentials, assertion: str, *, scope: str, resources: Sequence[str]
    ) -> TokenResponse:
        """Issue an access token for an identity assertion of a configured issuer. Raises the errors of OAuth."""
        at = now()
        client, _ = await self._authenticate(credentials, clients.JWT_BEARER, resources)
        tokens = await self.identity_assertions.redeem(client, assertion, scope=scope, resources=resources, at=at)
        if tokens is None:
            # Limits the audit events of a client that anyone could register.
            await self.attempts.charge("refused_client", client.client_id)
            await self.audit.record(
                "token_refused", outcome="refused", reason=InvalidGrant.reason, client_id=client.client_id
            )
            raise InvalidGrant
        return await self._issue(tokens, at)

    async def issue_to_service_account(
        self, credentials: ClientCredentials, *, scope: str, resources: Sequence[str]
    ) -> TokenResponse:
        """Issue a service account's access token for one of its keys, within the key's permissions.

        Raises the errors of OAuth.
        """
        at = now()
        key, stored_key = await self._verify_service_key(credentials, at)
        requested_scopes = frozenset(scope.split())
        if not requested_scopes <= TENANT_PERMISSIONS & stored_key.permissions:
            raise InvalidScope
        until = at + self.lifetime
        if stored_key.expire_time is not None:
            until = min(until, stored_key.expire_time)
        subject = TokenSubject(
            subject=UUID(credentials.client_id),
            client_id=credentials.client_id,
            tenant_id=key.tenant_id,
            api_key_id=key.key_id,
        )
        scopes = requested_scopes or stored_key.permissions
        text, access_expire_time = await self.tokens.sign(
            subject, scopes=scopes, resources=resolve_resources(self.tokens, resources), at=at, until=until
        )
        await self.audit.record(
            "token_issued",
            tenant_id=key.tenant_id,
            principal=f"service_account:{credentials.client_id}",
            target=f"api_key:{key.key_id}",
            client_id=credentials.client_id,
        )
        return TokenResponse(
            access_token=text,
            seconds=max(0, int((access_expire_time - at).total_seconds())),
            scope=" ".join(sorted(scopes)),
        )

    async def revoke(self, credentials: ClientCredentials, text: str) -> None:
        """Revoke the session of a token of this client; ignore any other token."""
        client = await self.registry.authenticate(credentials)
        at = now()
        if (presented_token := BearerToken.decode(grants.REFRESH_PREFIX, text)) is not None:
            token_state = await self.store.get_refresh_token_state(presented_token)
            session = None if token_state is None else token_state.session
            if session is None or session.client_id != client.client_id:
                return
            tenant_id, auth_session_id, account_id = session.tenant_id, session.auth_session_id, session.account_id
        else:
            try:
                claims = await self.tokens.verify(text, None, at)
            except Unauthenticated:
                return
            account = parse_id(claims.subject)
            if claims.client_id != client.client_id or claims.auth_session_id is None or account is None:
                return
            tenant_id, auth_session_id, account_id = claims.tenant_id, claims.auth_session_id, account
        if await self.store.revoke(tenant_id, auth_session_id, at, "revoked_by_client"):
            await self.audit.record(
                "token_revoked",
                client_id=client.client_id,
                account_id=account_id,
                tenant_id=tenant_id,
                target=f"sign_in:{auth_session_id}",
            )

    async def introspect(self, client: Client | None, caller: Caller | None, text: str) -> TokenIntrospection | None:
        """Introspect a token for its own client or a caller of its tenant; None for others and for a dead token."""
        at = now()
        presented_token = BearerToken.decode(grants.REFRESH_PREFIX, text)
        introspection = (
            await self._introspect_refresh_token(presented_token, at)
            if presented_token is not None
            else await self._introspect_access_token(text, at)
        )
        if introspection is None:
            return None
        is_own_token = client is not None and introspection.client_id == client.client_id
        is_tenant_token = (
            caller is not None and caller.tenant_id is not None and introspection.tenant_id == caller.tenant_id
        )
        return introspection if is_own_token or is_tenant_token else None

    async def get_user(self, text: str) -> tuple[AuthSessionState, frozenset[str]]:
        """Return the state of the token's session, and the scopes. Raises InvalidToken and InsufficientScope."""
        at = now()
        try:
            claims = await self.tokens.verify(text, None, at)
        except Unauthenticated:
            raise InvalidToken from None
        state = await self._find_live_state(claims)
        if state is None:
            raise InvalidToken
        scopes = claims.scopes & state.scopes
        if "openid" not in scopes:
            raise InsufficientScope(scope="openid")
        return state, scopes

    async def _authenticate(
        self, credentials: ClientCredentials, grant_type: str, resources: Sequence[str]
    ) -> tuple[Client, tuple[str, ...]]:
        """Return the client and the resources that it names; none for all that were granted.

        Raises InvalidClient, InvalidTarget and UnauthorizedClient.
        """
        client = await self.registry.authenticate(credentials)
        named_resources = resolve_resources(self.tokens, resources) if resources else ()
        client.require_grant_type(grant_type)
        return client, named_resources

    async def _require_tokens(
        self, result: GrantResult, session: AuthSession | None, *, reuse_event: str
    ) -> IssuedTokens:
        """Return the tokens of a grant. Raises the errors of OAuth, and records them for a known session.

        No attempt is counted: a refused code or token of 256 random bits is a dead one, not a guess.
        """
        if result.tokens is not None and result.error is None:
            return result.tokens
        if session is not None:
            refusal: AuditFields = {
                **session.audit_fields(),
                "outcome": "refused",
                "reason": InvalidGrant.reason,
            }
            event = reuse_event if result.error is GrantError.REUSED else "token_refused"
            await self.audit.record(event, **refusal)
        raise _ERRORS[result.error or GrantError.INVALID]

    async def _grantable_scopes(self, tenant_id: UUID, account_id: UUID) -> frozenset[str] | None:
        """Return the scopes that an account can grant in a tenant; None when it is no member."""
        if tenant_id == NO_TENANT:
            return OIDC_SCOPES
        membership = await self.tenants.get_membership(tenant_id, account_id)
        is_member = membership.tenant_is_open and bool(membership.role)
        return ROLE_PERMISSIONS[membership.role] | OIDC_SCOPES if is_member else None

    async def _issue(self, tokens: IssuedTokens, at: datetime, *, event: str = "token_issued") -> TokenResponse:
        """Sign the tokens of a grant, and record the first ones of a session as this event."""
        session = tokens.session
        subject = TokenSubject(
            subject=session.account_id,
            client_id=session.client_id,
            tenant_id=session.tenant_id,
            auth_session_id=session.auth_session_id,
            auth_time=session.auth_time,
        )
        text, access_expire_time = await self.tokens.sign(
            subject,
            scopes=tokens.scopes,
            resources=tokens.resources,
            at=at,
            until=tokens.expire_time,
        )
        id_token = ""
        if "openid" in tokens.scopes:
            state = await self.auth_sessions.get_state(session.tenant_id, session.auth_session_id)
            id_token = await self.tokens.sign_id(
                subject,
                nonce=session.nonce if tokens.is_first else "",
                access_token=text,
                at=at,
                until=access_expire_time,
                account_claims={} if state is None else account_claims(state, tokens.scopes),
            )
        if tokens.is_first:
            await self.audit.record(event, **session.audit_fields())
        return TokenResponse(
            access_token=text,
            seconds=max(0, int((access_expire_time - at).total_seconds())),
            refresh_token="" if tokens.refresh is None else tokens.refresh.encode(),
            scope=" ".join(sorted(tokens.scopes)),
            id_token=id_token,
        )

    async def _verify_service_key(
        self, credentials: ClientCredentials, at: datetime
    ) -> tuple[ApiKeyToken, StoredApiKey]:
        key = ApiKeyToken.parse(credentials.client_secret)
        service_account_id = parse_id(credentials.client_id)
        if (
            key is None
            or key.is_operator_key
            or service_account_id is None
            or credentials.method == clients.AUTH_METHOD_NONE
        ):
            raise InvalidClient
        if self.rejected_credentials.find(credentials.client_secret) is not None:
            raise InvalidClient
        # Only the database tells a key without check digits from an invented one, so wrong ones count by source.
        source = "" if key.mac else client_address()
        try:
            async with self.lookup.slot(key), self.attempts.limit_failures(("unchecked_key", source)):
                stored_key = await self._verify_key(key, credentials.client_secret, at)
        except Unauthenticated:
            raise InvalidClient from None
        if stored_key.service_account_id != service_account_id:
            raise InvalidClient
        if not (await self.tenants.get_membership(key.tenant_id)).tenant_is_open:
            raise InvalidClient
        return key, stored_key

    async def _verify_key(self, key: ApiKeyToken, text: str, at: datetime) -> StoredApiKey:
        """Return a stored key that the token proves. Raises Unauthenticated, and caches an error that is final."""
        stored_key = await self.lookup.find(key)
        try:
            stored_key.verify(key, at)
        except Unauthenticated as error:
            if stored_key is UNKNOWN_API_KEY or not stored_key.disabled:
                self.rejected_credentials.put(text, error, {})
            raise
        return stored_key

    async def _introspect_refresh_token(self, presented_token: BearerToken, at: datetime) -> TokenIntrospection | None:
        token_state = await self.store.get_refresh_token_state(presented_token)
        if token_state is None:
            return None
        session, token = token_state.session, token_state.token
        if not session.is_live(at) or token.replace_time is not None or at >= token.expire_time:
            return None
        grantable_scopes = await self._grantable_scopes(session.tenant_id, session.account_id)
        if grantable_scopes is None:
            return None
        return TokenIntrospection(
            kind="refresh_token",
            scopes=session.scopes & grantable_scopes,
            client_id=session.client_id,
            subject=str(session.account_id),
            tenant_id=session.tenant_id,
            audiences=session.resources,
            token_id=str(token.refresh_token_id),
            issue_time=token.create_time,
            expire_time=token.expire_time,
        )

    async def _introspect_access_token(self, text: str, at: datetime) -> TokenIntrospection | None:
        try:
            claims = await self.tokens.verify(text, None, at)
        except Unauthenticated:
            return None
        scopes = claims.scopes
        if claims.api_key_id is not None:
            stored_key = await self.keys.find_api_key(claims.tenant_id, claims.api_key_id)
            try:
                stored_key.check_active(at)
            except Unauthenticated:
                return None
            if str(stored_key.service_account_id) != claims.subject:
                return None
            if not (await self.tenants.get_membership(claims.tenant_id)).tenant_is_open:
                return None
            scopes &= stored_key.permissions
        else:
            state = await self._find_live_state(claims)
            grantable_scopes = (
                None if state is None else await self._grantable_scopes(claims.tenant_id, state.account_id)
            )
            if state is None or grantable_scopes is None:
                return None
            scopes &= state.scopes & grantable_scopes
        return TokenIntrospection(
            kind="access_token",
            scopes=scopes,
            client_id=claims.client_id,
            subject=claims.subject,
            tenant_id=claims.tenant_id,
            audiences=claims.audiences,
            token_id=claims.token_id,
            issue_time=claims.issue_time,
            expire_time=claims.expire_time,
        )

    async def _find_live_state(self, claims: AccessClaims) -> AuthSessionState | None:
        """Return the live session of a token; None when it is revoked, expired or another client's."""
        if claims.auth_session_id is None:
            return None
        state = await self.auth_sessions.get_state(claims.tenant_id, claims.auth_session_id)
        if state is None or not state.is_live or not state.account_active:
            return None
        return state if state.client_id == claims.client_id else None


def account_claims(state: AuthSessionState, scopes: frozenset[str]) -> dict[str, Any]:
    """Return the claims about the account that these scopes allow (OpenID Connect)."""
    claims: dict[str, Any] = {}
    if "email" in scopes and state.email:
        claims |= {"email": state.email, "email_verified": state.email_verified}
    if "profile" in scopes and state.display_name:
        claims["name"] = state.display_name
    return claims
