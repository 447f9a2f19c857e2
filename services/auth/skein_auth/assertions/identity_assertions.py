"""The grant of an identity assertion (ID-JAG): a configured issuer lets a client act for a person, without a browser.

An issuer speaks for one tenant: people of several tenants get no further with it than into that one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from urllib.parse import urlsplit
from uuid import UUID

from skein_auth.assertions.keys import AssertionInvalid, PublishedKeys, read_claims, read_header, verify
from skein_auth.assertions.model import IDENTITY_ASSERTION_TYPES, IdentityAssertion, read_identity_assertion
from skein_auth.attempts.store import AttemptStore
from skein_auth.auth_sessions.auth_sessions import AuthSessions
from skein_auth.auth_sessions.model import AuthSession, IssuedTokens, issue_first_tokens
from skein_auth.auth_sessions.store import AuthSessionStore
from skein_auth.errors import InvalidScope, InvalidTarget, UnauthorizedClient
from skein_auth.federation.providers import fetch_issuer_keys
from skein_auth.federation.store import IdentityStore
from skein_auth.oauth.resources import resolve_resources
from skein_auth.oauth_clients import model as clients
from skein_auth.oauth_clients.model import DEFAULT_SCOPES, OIDC_SCOPES, Client
from skein_auth.signing.access_tokens import AccessTokens
from skein_auth.tenant_directory import TenantDirectory
from skein_kit.calls.call import client_address, user_agent
from skein_kit.identity.permissions import ROLE_PERMISSIONS
from skein_kit.ids import parse_id
from skein_kit.outbound.fetch import SafeHttpClient
from skein_kit.settings import SettingInvalid


@dataclass(frozen=True, kw_only=True, slots=True)
class AssertionIssuer:
    """An issuer of identity assertions, and the tenant that it speaks for."""

    tenant_id: UUID
    keys: PublishedKeys


def parse_assertion_issuers(setting: str, outbound_allow: str = "") -> Mapping[str, AssertionIssuer]:
    """Return the issuers of SKEIN_ASSERTION_ISSUERS, by their URL. Raises SettingInvalid.

    As with SKEIN_OIDC_PROVIDERS, an issuer may lie in a private network as long as it is https.
    """
    tenants = dict(_parse_issuer(text) for text in setting.replace(",", " ").split())
    origins = [f"https://{urlsplit(url).netloc}" for url in tenants if url.startswith("https://")]
    outbound = SafeHttpClient(allow=[*outbound_allow.replace(",", " ").split(), *origins])
    return {
        url: AssertionIssuer(tenant_id=tenant_id, keys=PublishedKeys(url, partial(fetch_issuer_keys, url, outbound)))
        for url, tenant_id in tenants.items()
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class IdentityAssertions:
    """The grant of an identity assertion."""

    issuers: Mapping[str, AssertionIssuer]
    store: AuthSessionStore
    auth_sessions: AuthSessions
    identities: IdentityStore
    tenants: TenantDirectory
    tokens: AccessTokens
    attempts: AttemptStore

    async def redeem(
        self, client: Client, text: str, *, scope: str, resources: Sequence[str], at: datetime
    ) -> IssuedTokens | None:
        """Redeem an assertion, which works once; return the tokens of a new session, or None for an invalid one.

        The session has no refresh token: the issuer decides anew about each access token. Raises InvalidScope,
        InvalidTarget, UnauthorizedClient and ProviderUnavailable.
        """
        if client.token_endpoint_auth_method == clients.AUTH_METHOD_NONE:
            # Anyone could present a stolen assertion in the name of a public client.
            raise UnauthorizedClient
        try:
            assertion, tenant_id = await self._verify(client, text, at)
        except AssertionInvalid:
            return None
        account = await self.identities.find_account_of_subject(assertion.issuer, assertion.subject)
        if account is None or account.status != "active":
            return None
        membership = await self.tenants.get_membership(tenant_id, account.account_id)
        if not membership.tenant_is_open or not membership.role:
            return None
        scopes = _scopes(client, assertion, scope) & (ROLE_PERMISSIONS[membership.role] | OIDC_SCOPES)
        if not scopes:
            raise InvalidScope
        session = AuthSession(
            tenant_id=tenant_id,
            auth_session_id=self.auth_sessions.random.new_id(at),
            account_id=account.account_id,
            client_id=client.client_id,
            scopes=scopes,
            resources=self._resources(assertion, resources),
            auth_time=assertion.auth_time,
            create_time=at,
            expire_time=at,
        )
        use = ("identity_assertion", assertion.assertion_hash, assertion.expire_time)
        if not await self.attempts.use_once(*use, at):
            return None
        result = issue_first_tokens(session, self.auth_sessions.step_context(at), session.resources, None)
        await self.store.create(session, result.changes, address=client_address(), user_agent=user_agent())
        return result.tokens

    async def _verify(self, client: Client, text: str, at: datetime) -> tuple[IdentityAssertion, UUID]:
        """Return a valid assertion and the tenant of its issuer. Raises AssertionInvalid and ProviderUnavailable."""
        header = read_header(text, IDENTITY_ASSERTION_TYPES)
        name = read_claims(text).get("iss")
        issuer = self.issuers.get(name) if isinstance(name, str) else None
        if issuer is None or not isinstance(name, str):
            raise AssertionInvalid
        claims = verify(text, await issuer.keys.find(header.get("kid")))
        assertion = read_identity_assertion(
            claims, client_id=client.client_id, assertion_issuer=name, issuer=self.tokens.issuer(), at=at
        )
        if assertion.tenant and assertion.tenant != str(issuer.tenant_id):
            raise AssertionInvalid
        return assertion, issuer.tenant_id

    def _resources(self, assertion: IdentityAssertion, requested: Sequence[str]) -> tuple[str, ...]:
        """Return the resources of the assertion that the client requests. Raises InvalidTarget."""
        if not assertion.resources:
            return resolve_resources(self.tokens, requested)
        granted = resolve_resources(self.tokens, assertion.resources)
        named = resolve_resources(self.tokens, requested) if requested else granted
        if not set(named) <= set(granted):
            raise InvalidTarget
        return named


def _scopes(client: Client, assertion: IdentityAssertion, scope: str) -> frozenset[str]:
    """Return the scopes of the assertion that the client requests and registered. Raises InvalidScope.

    An assertion without scopes allows the default ones, and a request without scopes is for all that is allowed.
    """
    wanted = scope or " ".join(sorted(assertion.scopes))
    requested, allowed = client.scopes(wanted), assertion.scopes or DEFAULT_SCOPES
    if wanted and not requested <= allowed:
        raise InvalidScope
    return requested & allowed


def _parse_issuer(text: str) -> tuple[str, UUID]:
    url, _, tenant = text.partition(";")
    parts, tenant_id = urlsplit(url), parse_id(tenant)
    if parts.scheme not in {"https", "http"} or not parts.netloc or parts.query or parts.fragment or tenant_id is None:
        raise SettingInvalid(
            "SKEIN_ASSERTION_ISSUERS should be issuer;tenant_id, for example "
            "https://idp.example;0190a3c5-0000-7000-8000-000000000000."
        )
    return url, tenant_id
