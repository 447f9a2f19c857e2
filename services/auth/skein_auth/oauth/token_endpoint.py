"""What /token, /revoke, /introspect and /userinfo do: tokens for grants, and what tokens are worth. Knows no HTTP."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from skein_auth.api_keys.model import UNKNOWN_API_KEY, ApiKeyToken
from skein_auth.auth_sessions import model as grants
from skein_auth.auth_sessions.model import CodeRequest, GrantError, RefreshRequest
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
from skein_auth.oauth.authorizations import requested_resources
from skein_auth.oauth_clients import model as clients
from skein_auth.oauth_clients.model import OIDC_SCOPES
from skein_auth.oauth_clients.registry import address
from skein_auth.signing.access_tokens import TokenSubject
from skein_kit.database.transactions import NO_TENANT
from skein_kit.errors import RpcError, Unauthenticated
from skein_kit.identity.bearer_token import BearerToken
from skein_kit.identity.permissions import ROLE_PERMISSIONS, TENANT_PERMISSIONS
from skein_kit.ids import now, parse_id

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    from skein.auth.v1 import oauth_pb2 as pb
    from skein_auth.api_keys.credential_lookup import CredentialLookup
    from skein_auth.api_keys.model import StoredApiKey
    from skein_auth.api_keys.store import ApiKeyStore
    from skein_auth.attempts.model import AttemptLimiter
    from skein_auth.audit.recorder import AuditRecorder
    from skein_auth.auth_sessions.auth_sessions import AuthSessions
    from skein_auth.auth_sessions.model import AuthSession, AuthSessionState, GrantResult, IssuedTokens
    from skein_auth.auth_sessions.store import AuthSessionStore
    from skein_auth.exchange.refusal_cache import RejectedCredentialCache
    from skein_auth.oauth.device_authorization import DeviceFlow
    from skein_auth.oauth_clients.model import Client
    from skein_auth.oauth_clients.registry import ClientRegistry
    from skein_auth.signing.access_tokens import AccessClaims, AccessTokens
    from skein_auth.tenancy.tenants import TenantDirectory
    from skein_kit.identity.identity_token import Caller

_REFUSALS: Mapping[GrantError, type[RpcError]] = {
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
    """What a client gets."""

    access_token: str
    seconds: int
    refresh_token: str = ""
    scope: str
    id_token: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenIntrospection:
    """What a live token is worth (RFC 7662)."""

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
    """Tokens for grants."""

    applications: ClientRegistry
    store: AuthSessionStore
    sign_ins: AuthSessions
    tokens: AccessTokens
    devices: DeviceFlow
    keys: ApiKeyStore
    # With turns apart from those of exchanges: who asks here has proved nothing.
    lookup: CredentialLookup
    refusals: RejectedCredentialCache
    attempts: AttemptLimiter
    tenants: TenantDirectory
    audit: AuditRecorder
    # Of a service account's access token.
    lifetime: timedelta

    async def exchange(self, request: pb.ExchangeTokenRequest) -> TokenResponse:
        """Give tokens for a grant, or refuse in OAuth's words."""
        at = now()
        if request.WhichOneof("grant") == "client_credentials":
            return await self._for_service_account(request, at)
        client = await self.applications.authenticated(request.client)
        # Not an attempt: a refused code or token of 256 random bits is a dead one, never a guess at a live one.
        issue = await self._issue(client, request, at)
        given = await self._given(issue, at)
        if issue.is_first:
            issued = issue.sign_in
            await self.audit.record(
                "code_used" if request.HasField("authorization_code") else "token_issued",
                client_id=client.client_id,
                account_id=issued.account_id,
                tenant_id=issued.tenant_id,
                target=f"sign_in:{issued.sign_in_id}",
            )
        return given

    async def revoke(self, given: pb.ClientAuthentication, text: str) -> None:
        """End what a token of this client's belongs to; say nothing of any other."""
        client = await self.applications.authenticated(given)
        at = now()
        if (presented := BearerToken.read(grants.REFRESH_PREFIX, text)) is not None:
            found = await self.store.get_refresh_token_state(presented)
            sign_in = None if found is None else found.sign_in
            if sign_in is None or sign_in.client_id != client.client_id:
                return
            tenant_id, sign_in_id, account_id = sign_in.tenant_id, sign_in.sign_in_id, sign_in.account_id
        else:
            try:
                claims = await self.tokens.verify(text, None, at)
            except Unauthenticated:
                return
            account = parse_id(claims.subject)
            if claims.client_id != client.client_id or claims.sign_in_id is None or account is None:
                return
            tenant_id, sign_in_id, account_id = claims.tenant_id, claims.sign_in_id, account
        if await self.store.revoke(tenant_id, sign_in_id, at, "revoked_by_client"):
            await self.audit.record(
                "token_revoked",
                client_id=client.client_id,
                account_id=account_id,
                tenant_id=tenant_id,
                target=f"sign_in:{sign_in_id}",
            )

    async def introspect(self, client: Client | None, caller: Caller | None, text: str) -> TokenIntrospection | None:
        """Return what a token is worth to the client that it was given to, or to a caller of its tenant; else None."""
        at = now()
        presented = BearerToken.read(grants.REFRESH_PREFIX, text)
        worth = await self._of_refresh(presented, at) if presented is not None else await self._of_access(text, at)
        if worth is None:
            return None
        is_clients = client is not None and worth.client_id == client.client_id
        is_tenants = caller is not None and caller.tenant_id is not None and worth.tenant_id == caller.tenant_id
        return worth if is_clients or is_tenants else None

    async def user(self, text: str) -> tuple[AuthSessionState, frozenset[str]]:
        """Return who an application acts for, and what it may know. Raises InvalidToken and InsufficientScope."""
        at = now()
        try:
            claims = await self.tokens.verify(text, None, at)
        except Unauthenticated:
            raise InvalidToken from None
        standing = await self._standing(claims)
        if standing is None:
            raise InvalidToken
        scopes = claims.scopes & standing.scopes
        if "openid" not in scopes:
            raise InsufficientScope(scope="openid")
        return standing, scopes

    async def _issue(self, client: Client, request: pb.ExchangeTokenRequest, at: datetime) -> IssuedTokens:
        """Return what the grant is worth, or refuse it."""
        step, sign_in = await self._decided(client, request, at)
        if step.issue is not None and step.fault is None:
            return step.issue
        if sign_in is not None:
            await self._record_refusal(request, sign_in, step.fault)
        if step.fault is GrantError.EXPIRED and request.HasField("device_code"):
            raise ExpiredToken
        raise _REFUSALS[step.fault or GrantError.INVALID]

    async def _decided(
        self, client: Client, request: pb.ExchangeTokenRequest, at: datetime
    ) -> tuple[GrantResult, AuthSession | None]:
        resources = requested_resources(self.tokens, request.resources) if request.resources else ()
        if request.HasField("authorization_code"):
            client.must_use(clients.AUTHORIZATION_CODE)
            return await self._redeemed(client, request.authorization_code, resources, at)
        if request.HasField("refresh_token"):
            client.must_use(clients.REFRESH_TOKEN)
            return await self._refreshed(client, request.refresh_token, resources, at)
        client.must_use(clients.DEVICE_CODE)
        return await self.devices.redeem(client, request.device_code.device_code, resources, at)

    async def _redeemed(
        self, client: Client, grant: pb.AuthorizationCodeGrant, resources: Sequence[str], at: datetime
    ) -> tuple[GrantResult, AuthSession | None]:
        presented = BearerToken.read(grants.CODE_PREFIX, grant.code)
        if presented is None:
            raise InvalidGrant
        redemption = CodeRequest(
            client_id=client.client_id,
            redirect_uri=grant.redirect_uri,
            verifier=grant.code_verifier,
            resources=tuple(resources),
            refreshes=clients.REFRESH_TOKEN in client.grant_types,
        )
        now_ = self.sign_ins.now(at)
        return await self.store.redeem(presented, lambda state: grants.redeem(state, presented, redemption, now_))

    async def _refreshed(
        self, client: Client, grant: pb.RefreshTokenGrant, resources: Sequence[str], at: datetime
    ) -> tuple[GrantResult, AuthSession | None]:
        presented = BearerToken.read(grants.REFRESH_PREFIX, grant.refresh_token)
        if presented is None:
            raise InvalidGrant
        # Asked before anything is spent: while tenancy does not answer, nobody loses a grant.
        found = await self.store.get_refresh_token_state(presented)
        allowed = None if found is None else await self._allowed(found.sign_in.tenant_id, found.sign_in.account_id)
        if found is not None and allowed is None:
            raise InvalidGrant
        renewal = RefreshRequest(
            client_id=client.client_id, scopes=frozenset(grant.scope.split()), resources=tuple(resources)
        )
        now_ = self.sign_ins.now(at)
        step, sign_in = await self.store.refresh(
            presented, lambda chain: grants.refresh(chain, presented, renewal, now_)
        )
        if step.issue is not None:
            # Resource servers that read the token itself ask nobody what the role allows now.
            issue = replace(step.issue, scopes=step.issue.scopes & (allowed or frozenset()))
            step = replace(step, issue=issue)
        return step, sign_in

    async def _allowed(self, tenant_id: UUID, account_id: UUID) -> frozenset[str] | None:
        """Return the scopes that an account can let applications have in a tenant now; None: it is no member."""
        if tenant_id == NO_TENANT:
            return OIDC_SCOPES
        standing = await self.tenants.standing(tenant_id, account_id)
        return ROLE_PERMISSIONS[standing.role] | OIDC_SCOPES if standing.open and standing.role else None

    async def _given(self, issue: IssuedTokens, at: datetime) -> TokenResponse:
        sign_in = issue.sign_in
        bearer = TokenSubject(
            subject=sign_in.account_id,
            client_id=sign_in.client_id,
            tenant_id=sign_in.tenant_id,
            sign_in_id=sign_in.sign_in_id,
            auth_time=sign_in.auth_time,
        )
        text, ends = await self.tokens.sign(
            bearer, scopes=issue.scopes, resources=issue.resources, at=at, until=issue.expire_time
        )
        id_token = ""
        if "openid" in issue.scopes:
            standing = await self.sign_ins.standing(sign_in.tenant_id, sign_in.sign_in_id)
            id_token = await self.tokens.sign_id(
                bearer,
                nonce=sign_in.nonce if issue.is_first else "",
                access_token=text,
                at=at,
                until=ends,
                facts={} if standing is None else account_claims(standing, issue.scopes),
            )
        return TokenResponse(
            access_token=text,
            seconds=max(0, int((ends - at).total_seconds())),
            refresh_token="" if issue.refresh is None else issue.refresh.text(),
            scope=" ".join(sorted(issue.scopes)),
            id_token=id_token,
        )

    async def _for_service_account(self, request: pb.ExchangeTokenRequest, at: datetime) -> TokenResponse:
        """Give a service account a token for one of its keys: no more than the key may do, and no refresh token."""
        given = request.client
        key, stored = await self._service_key(given, at)
        asked = frozenset(request.client_credentials.scope.split())
        if not asked <= TENANT_PERMISSIONS & stored.permissions:
            raise InvalidScope
        resources = requested_resources(self.tokens, request.resources)
        until = at + self.lifetime
        if stored.expire_time is not None:
            until = min(until, stored.expire_time)
        bearer = TokenSubject(
            subject=UUID(given.client_id), client_id=given.client_id, tenant_id=key.tenant_id, api_key_id=key.key_id
        )
        scopes = asked or stored.permissions
        text, ends = await self.tokens.sign(bearer, scopes=scopes, resources=resources, at=at, until=until)
        await self.audit.record(
            "token_issued",
            tenant_id=key.tenant_id,
            principal=f"service_account:{given.client_id}",
            target=f"api_key:{key.key_id}",
            client_id=given.client_id,
        )
        return TokenResponse(
            access_token=text, seconds=max(0, int((ends - at).total_seconds())), scope=" ".join(sorted(scopes))
        )

    async def _service_key(self, given: pb.ClientAuthentication, at: datetime) -> tuple[ApiKeyToken, StoredApiKey]:
        key = ApiKeyToken.parse(given.client_secret)
        service_account_id = parse_id(given.client_id)
        if key is None or key.is_operators or service_account_id is None or given.method == clients.AUTH_METHOD_NONE:
            raise InvalidClient
        if self.refusals.find(given.client_secret) is not None:
            raise InvalidClient
        # Only the database tells a key without check digits from an invented one, so wrong ones count at their source.
        source = "" if key.check_digits else address()
        try:
            async with self.lookup.turn(key), self.attempts.failing(("unchecked_key", source)):
                stored = await self._judged(key, given.client_secret, at)
        except Unauthenticated:
            raise InvalidClient from None
        if stored.service_account_id != service_account_id:
            raise InvalidClient
        if not (await self.tenants.standing(key.tenant_id)).open:
            raise InvalidClient
        return key, stored

    async def _judged(self, key: ApiKeyToken, text: str, at: datetime) -> StoredApiKey:
        """Return what is stored of a key that is good; remember a refusal that no later change takes back."""
        stored = await self.lookup.find(key)
        try:
            stored.judge(key, at)
        except Unauthenticated as refusal:
            if stored is UNKNOWN_API_KEY or not stored.disabled:
                self.refusals.put(text, refusal, {})
            raise
        return stored

    async def _of_refresh(self, presented: BearerToken, at: datetime) -> TokenIntrospection | None:
        found = await self.store.get_refresh_token_state(presented)
        if found is None:
            return None
        sign_in, token = found.sign_in, found.token
        if not sign_in.lives(at) or token.replace_time is not None or at >= token.expire_time:
            return None
        allowed = await self._allowed(sign_in.tenant_id, sign_in.account_id)
        if allowed is None:
            return None
        return TokenIntrospection(
            kind="refresh_token",
            scopes=sign_in.scopes & allowed,
            client_id=sign_in.client_id,
            subject=str(sign_in.account_id),
            tenant_id=sign_in.tenant_id,
            audiences=sign_in.resources,
            token_id=str(token.refresh_token_id),
            issue_time=token.create_time,
            expire_time=token.expire_time,
        )

    async def _of_access(self, text: str, at: datetime) -> TokenIntrospection | None:
        try:
            claims = await self.tokens.verify(text, None, at)
        except Unauthenticated:
            return None
        scopes = claims.scopes
        if claims.api_key_id is not None:
            stored = await self.keys.find_api_key(claims.tenant_id, claims.api_key_id)
            try:
                stored.check(at)
            except Unauthenticated:
                return None
            if str(stored.service_account_id) != claims.subject:
                return None
            if not (await self.tenants.standing(claims.tenant_id)).open:
                return None
            scopes &= stored.permissions
        else:
            standing = await self._standing(claims)
            allowed = None if standing is None else await self._allowed(claims.tenant_id, standing.account_id)
            if standing is None or allowed is None:
                return None
            scopes &= standing.scopes & allowed
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

    async def _standing(self, claims: AccessClaims) -> AuthSessionState | None:
        """Return the live sign-in that a token belongs to."""
        if claims.sign_in_id is None:
            return None
        standing = await self.sign_ins.standing(claims.tenant_id, claims.sign_in_id)
        if standing is None or not standing.live or not standing.account_active:
            return None
        return standing if standing.client_id == claims.client_id else None

    async def _record_refusal(
        self, request: pb.ExchangeTokenRequest, sign_in: AuthSession, fault: GrantError | None
    ) -> None:
        """Record that something which once was good was refused; of anything else nobody knows whose it is."""
        reuse = "refresh_reused" if request.HasField("refresh_token") else "code_replayed"
        await self.audit.record(
            reuse if fault is GrantError.REUSED else "token_refused",
            outcome="refused",
            reason=InvalidGrant.reason,
            client_id=sign_in.client_id,
            account_id=sign_in.account_id,
            tenant_id=sign_in.tenant_id,
            target=f"sign_in:{sign_in.sign_in_id}",
        )


def account_claims(standing: AuthSessionState, scopes: frozenset[str]) -> dict[str, Any]:
    """Return what an application with these scopes may know of the account, as OpenID Connect calls it."""
    facts: dict[str, Any] = {}
    if "email" in scopes and standing.email:
        facts |= {"email": standing.email, "email_verified": standing.email_verified}
    if "profile" in scopes and standing.display_name:
        facts["name"] = standing.display_name
    return facts
