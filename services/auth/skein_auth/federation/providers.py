"""Identity providers: verification of the tokens of GitHub and of OpenID Connect issuers.

Knows no account. An e-mail address identifies no person: the provider's name for an account is its `subject`.
"""

from __future__ import annotations

import base64
import re
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from skein_auth.assertions.keys import AssertionInvalid, PublishedKeys, log_unavailable, read_header, verify
from skein_auth.errors import IdentityRefused, ProviderNotFound, ProviderUnavailable
from skein_auth.federation.store import ProviderIdentity
from skein_kit.outbound.fetch import OutboundError, SafeHttpClient
from skein_kit.settings import SettingInvalid, Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    from skein_auth.federation.store import IdentityProof
    from skein_kit.outbound.fetch import JsonResponse

    class Provider(Protocol):
        """An identity provider."""

        async def verify_token(self, token: str, nonce: str) -> ProviderIdentity:
            """Return the identity of a token. Raises IdentityRefused and ProviderUnavailable."""


GITHUB = "github"
GITHUB_URL = "https://api.github.com"
# Clocks of two machines may differ by this much.
_LEEWAY_SECONDS = 30
_KEYS_LIMIT_BYTES = 262_144
_ID_TOKEN_TYPES = frozenset({"jwt"})
_END_OF_TIME = 2**53
_MAX_TEXT = 255
_EMAIL_LENGTH = range(3, 255)
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_TOKEN = re.compile(r"[\x21-\x7e]+")
_HTTP_NOT_FOUND = 404
_HTTP_UNPROCESSABLE = 422
_HTTP_REFUSED = (401, 403)


@dataclass(frozen=True, kw_only=True)
class ProviderSettings(Settings):
    """Settings of the identity providers."""

    # OpenID Connect providers, separated by spaces or commas: name=issuer;client_id, with ;client_id for each further
    # client. Callers use the name.
    oidc_providers: str = ""
    # The OAuth app whose tokens are accepted from GitHub; needs SKEIN_GITHUB_CLIENT_SECRET.
    github_client_id: str = ""
    # The secret of SKEIN_GITHUB_CLIENT_ID.
    github_client_secret: str = field(default="", repr=False)
    # Accept GitHub tokens of every app. Then any app that has a person's token can log in as that person. For
    # migrations from systems that did so.
    github_any_app: bool = False
    # URL of GitHub's API; for GitHub Enterprise https://<host>/api/v3.
    github_url: str = GITHUB_URL


class Providers:
    """All identity providers that are configured, by the name that callers use."""

    def __init__(self, providers: Mapping[str, Provider]) -> None:
        self._providers = providers

    @classmethod
    def of(cls, settings: ProviderSettings, outbound_allow: str = "") -> Providers:
        """Read the settings, or raise SettingInvalid.

        What the operator names may lie in a private network as long as it is https; `outbound_allow` is that of
        OutboundSettings.
        """
        issuers = dict(_issuer(text) for text in settings.oidc_providers.replace(",", " ").split())
        urls = [settings.github_url, *(issuer for issuer, _ in issuers.values())]
        origins = [_origin(url) for url in urls if url.startswith("https://")]
        outbound = SafeHttpClient(allow=[*outbound_allow.replace(",", " ").split(), *origins])
        providers: dict[str, Provider] = {
            name: Oidc(issuer, client_ids, outbound) for name, (issuer, client_ids) in issuers.items()
        }
        if bool(settings.github_client_id) != bool(settings.github_client_secret):
            raise SettingInvalid("SKEIN_GITHUB_CLIENT_ID and SKEIN_GITHUB_CLIENT_SECRET are needed together.")
        if settings.github_client_id or settings.github_any_app:
            providers[GITHUB] = GitHub(settings, outbound)
        return cls(providers)

    def is_called_for_each_token(self, provider: str) -> bool:
        """Return whether auth calls the provider for each token."""
        return isinstance(self._providers.get(provider), GitHub)

    async def verify_token(self, proof: IdentityProof) -> ProviderIdentity:
        """Return the identity of a token. Raises ProviderNotFound, ProviderUnavailable and IdentityRefused."""
        provider = self._providers.get(proof.provider)
        if provider is None:
            raise ProviderNotFound
        if not _TOKEN.fullmatch(proof.token):
            raise IdentityRefused
        return await provider.verify_token(proof.token, proof.nonce)


class GitHub:
    """GitHub's access tokens, whose user and app only GitHub knows."""

    def __init__(self, settings: ProviderSettings, outbound: SafeHttpClient) -> None:
        self._outbound = outbound
        self._url = settings.github_url.rstrip("/")
        # User numbers of two installations overlap.
        self._provider = GITHUB if self._url == GITHUB_URL else self._url
        self._client_id = settings.github_client_id
        self._secret = settings.github_client_secret

    async def verify_token(self, token: str, nonce: str) -> ProviderIdentity:
        """GitHub's tokens contain no nonce: `nonce` is ignored."""
        user = await (
            self._fetch_user_of_configured_app(token) if self._client_id else self._fetch_user_of_any_app(token)
        )
        number, login = user.get("id"), user.get("login")
        if not isinstance(number, int) or isinstance(number, bool) or number <= 0 or not isinstance(login, str):
            raise _unavailable(self._provider, "user")
        name = user.get("name")
        return ProviderIdentity(
            provider=self._provider,
            subject=str(number),
            login=login[:_MAX_TEXT],
            display_name=(name if isinstance(name, str) else login)[:_MAX_TEXT],
        )

    async def _fetch_user_of_configured_app(self, token: str) -> dict[str, Any]:
        """Ask GitHub as the configured app, for which a token of another app is unknown."""
        credentials = base64.b64encode(f"{self._client_id}:{self._secret}".encode()).decode("ascii")
        url = f"{self._url}/applications/{quote(self._client_id, safe='')}/token"
        try:
            response = await self._outbound.post_json(
                url, {"access_token": token}, headers={**_GITHUB_HEADERS, "Authorization": f"Basic {credentials}"}
            )
        except OutboundError as error:
            if error.status in (_HTTP_NOT_FOUND, _HTTP_UNPROCESSABLE):
                raise IdentityRefused from None
            raise _unavailable(self._provider, str(error)) from None
        app, user = response.document.get("app"), response.document.get("user")
        if not isinstance(app, dict) or app.get("client_id") != self._client_id or not isinstance(user, dict):
            raise IdentityRefused
        return user

    async def _fetch_user_of_any_app(self, token: str) -> dict[str, Any]:
        try:
            response = await self._outbound.fetch_json(
                f"{self._url}/user", headers={**_GITHUB_HEADERS, "Authorization": f"Bearer {token}"}
            )
        except OutboundError as error:
            if error.status in _HTTP_REFUSED:
                raise IdentityRefused from None
            raise _unavailable(self._provider, str(error)) from None
        return response.document


_GITHUB_HEADERS = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}


class Oidc:
    """An issuer's ID tokens, verified with its published keys."""

    def __init__(
        self,
        issuer: str,
        client_ids: frozenset[str],
        outbound: SafeHttpClient,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._issuer = issuer
        self._client_ids = client_ids
        self._clock = clock
        self._keys = PublishedKeys(issuer, partial(fetch_issuer_keys, issuer, outbound), clock=clock)

    async def verify_token(self, token: str, nonce: str) -> ProviderIdentity:
        try:
            # Access tokens and logout tokens of the same issuer have types of their own (RFC 9068, OpenID Connect).
            header = read_header(token, _ID_TOKEN_TYPES)
            claims = verify(token, await self._keys.find(header.get("kid")))
        except AssertionInvalid:
            raise IdentityRefused from None
        return self._identity(claims, nonce)

    def _identity(self, claims: dict[str, Any], nonce: str) -> ProviderIdentity:
        at = self._clock()
        subject = claims.get("sub")
        if (
            claims.get("iss") != self._issuer
            or not self._is_for_configured_client(claims)
            or at >= _time(claims, "exp") + _LEEWAY_SECONDS
            or at < _time(claims, "iat") - _LEEWAY_SECONDS
            or ("nbf" in claims and at < _time(claims, "nbf") - _LEEWAY_SECONDS)
            or claims.get("nonce", "") != nonce
            or not isinstance(subject, str)
            or not 0 < len(subject) <= _MAX_TEXT
            or not subject.isprintable()
        ):
            raise IdentityRefused
        email = _email(claims)
        login = _text(claims, "preferred_username") or email or subject
        return ProviderIdentity(
            provider=self._issuer, subject=subject, login=login, display_name=_text(claims, "name"), email=email
        )

    def _is_for_configured_client(self, claims: Mapping[str, Any]) -> bool:
        """Return whether audience and authorized party, if there is one, are configured clients."""
        audience, authorized_party = claims.get("aud"), claims.get("azp")
        audiences = audience if isinstance(audience, list) else [audience]
        if not any(isinstance(each, str) and each in self._client_ids for each in audiences):
            return False
        if authorized_party is None:
            return len(audiences) == 1
        return isinstance(authorized_party, str) and authorized_party in self._client_ids


async def fetch_issuer_keys(issuer: str, outbound: SafeHttpClient) -> JsonResponse:
    """Fetch the JWK Set that an issuer's discovery document names. Raises OutboundError."""
    discovery = await outbound.fetch_json(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
    jwks_uri = discovery.document.get("jwks_uri")
    if discovery.document.get("issuer") != issuer or not isinstance(jwks_uri, str):
        raise OutboundError("discovery")
    return await outbound.fetch_json(jwks_uri, limit_bytes=_KEYS_LIMIT_BYTES)


def _time(claims: Mapping[str, Any], name: str) -> float:
    """Return a claim in Unix seconds."""
    value = claims.get(name)
    # Python's JSON numbers may be NaN, infinite or very long.
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < _END_OF_TIME:
        raise IdentityRefused
    return value


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    return value[:_MAX_TEXT] if isinstance(value, str) and value.isprintable() else ""


def _email(claims: Mapping[str, Any]) -> str:
    email = claims.get("email")
    # Lower case maps some letters of other scripts to ASCII: an address must not become another person's.
    if claims.get("email_verified") is not True or not isinstance(email, str) or not email.isascii():
        return ""
    email = email.lower() if email.isprintable() else ""
    return email if len(email) in _EMAIL_LENGTH and email.count("@") == 1 and " " not in email else ""


def _unavailable(provider: str, reason: str) -> ProviderUnavailable:
    log_unavailable(provider, reason)
    return ProviderUnavailable()


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _issuer(text: str) -> tuple[str, tuple[str, frozenset[str]]]:
    name, _, value = text.partition("=")
    issuer, *client_ids = value.split(";")
    parts = urlsplit(issuer)
    if (
        not _NAME.fullmatch(name)
        or name == GITHUB
        or parts.scheme not in {"https", "http"}
        or not parts.netloc
        or parts.query
        or parts.fragment
        or not client_ids
        or not all(client_ids)
    ):
        raise SettingInvalid(
            "SKEIN_OIDC_PROVIDERS should be name=issuer;client_id, for example "
            "google=https://accounts.google.com;1234.apps.googleusercontent.com; the name github is taken."
        )
    return name, (issuer, frozenset(client_ids))
