"""The OAuth 2.1 authorization server in one value: its applications, questions, devices and tokens."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from skein_auth.auth_sessions.store import AuthSessionStore
from skein_auth.exchange.refusal_cache import RejectedCredentialCache
from skein_auth.oauth.authorizations import Authorizations
from skein_auth.oauth.device_authorization import DeviceFlow
from skein_auth.oauth.device_store import DeviceStore
from skein_auth.oauth.token_endpoint import TokenEndpoint
from skein_auth.oauth_clients.registry import ClientRegistry
from skein_auth.oauth_clients.store import ClientStore
from skein_kit.settings import SettingInvalid

if TYPE_CHECKING:
    from skein_auth.accounts.passwords import Passwords
    from skein_auth.api_keys.credential_lookup import CredentialLookup
    from skein_auth.api_keys.store import ApiKeyStore
    from skein_auth.attempts.model import AttemptLimiter
    from skein_auth.audit.recorder import AuditRecorder
    from skein_auth.auth_sessions.auth_sessions import AuthSessions
    from skein_auth.encryption import SecretCipher
    from skein_auth.settings import AuthSettings
    from skein_auth.signing.access_tokens import AccessTokens
    from skein_auth.tenancy.tenants import TenantDirectory
    from skein_kit.database.transactions import Database
    from skein_kit.outbound.fetch import SafeHttpClient

_REGISTRATION = ("open", "token", "closed")
_LEAST_TOKEN = 32
_MOST_CODE_SECONDS = 600
_AT_LEAST_ONE = (
    "access_token_seconds",
    "refresh_token_seconds",
    "sign_in_seconds",
    "device_code_seconds",
    "client_unused_days",
    "unused_clients_per_address_most",
    "unused_clients_most",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ingredients:
    """What it is made of."""

    settings: AuthSettings
    database: Database
    outbound: SafeHttpClient
    sealer: SecretCipher
    sign_ins: AuthSessions
    tokens: AccessTokens
    tenants: TenantDirectory
    keys: ApiKeyStore
    passwords: Passwords
    # Of callers that have proved nothing.
    lookup: CredentialLookup
    attempts: AttemptLimiter
    audit: AuditRecorder


@dataclass(frozen=True, kw_only=True, slots=True)
class OAuth:
    """What the RPCs of OAuthService draw from."""

    applications: ClientRegistry
    authorizations: Authorizations
    devices: DeviceFlow
    endpoint: TokenEndpoint

    @classmethod
    def of(cls, parts: Ingredients) -> OAuth:
        """Put it together. Raises SettingInvalid."""
        check_oauth_settings(parts.settings)
        store = AuthSessionStore(parts.database)
        applications = ClientRegistry(
            ClientStore(parts.database),
            parts.outbound,
            parts.settings,
            parts.passwords,
            parts.attempts,
            parts.audit,
        )
        authorizations = Authorizations(
            applications=applications,
            store=store,
            sign_ins=parts.sign_ins,
            tokens=parts.tokens,
            tenants=parts.tenants,
            sealer=parts.sealer,
            audit=parts.audit,
        )
        devices = DeviceFlow(
            store=DeviceStore(parts.database),
            applications=applications,
            authorizations=authorizations,
            sign_ins=parts.sign_ins,
            tokens=parts.tokens,
            attempts=parts.attempts,
            audit=parts.audit,
            lifetime=timedelta(seconds=parts.settings.device_code_seconds),
        )
        endpoint = TokenEndpoint(
            applications=applications,
            store=store,
            sign_ins=parts.sign_ins,
            tokens=parts.tokens,
            devices=devices,
            keys=parts.keys,
            lookup=parts.lookup,
            refusals=RejectedCredentialCache(),
            attempts=parts.attempts,
            tenants=parts.tenants,
            audit=parts.audit,
            lifetime=timedelta(seconds=parts.settings.access_token_seconds),
        )
        return cls(applications=applications, authorizations=authorizations, devices=devices, endpoint=endpoint)


def check_oauth_settings(settings: AuthSettings) -> None:
    """Raise SettingInvalid for a setting that OAuth cannot work with."""
    if settings.registration not in _REGISTRATION:
        raise SettingInvalid(f"SKEIN_REGISTRATION should be one of {', '.join(_REGISTRATION)}.")
    if settings.registration == "token" and len(settings.initial_access_token) < _LEAST_TOKEN:
        raise SettingInvalid(f"SKEIN_INITIAL_ACCESS_TOKEN needs at least {_LEAST_TOKEN} characters.")
    if not 1 <= settings.code_seconds <= _MOST_CODE_SECONDS:
        raise SettingInvalid(f"SKEIN_CODE_SECONDS should be 1 to {_MOST_CODE_SECONDS}.")
    for name in _AT_LEAST_ONE:
        if getattr(settings, name) < 1:
            raise SettingInvalid(f"SKEIN_{name.upper()} should be at least 1.")
    if settings.refresh_grace_seconds < 0:
        raise SettingInvalid("SKEIN_REFRESH_GRACE_SECONDS should be 0 or more.")
    issuer = urlsplit(settings.issuer.rstrip("/"))
    if settings.issuer and (
        issuer.scheme not in {"https", "http"} or issuer.geturl() != f"{issuer.scheme}://{issuer.netloc}"
    ):
        raise SettingInvalid("SKEIN_ISSUER should be an origin such as https://skein.example, without a path.")
    for resource in settings.more_resources():
        if not urlsplit(resource).scheme or "#" in resource:
            raise SettingInvalid("SKEIN_RESOURCES should be absolute URIs without a fragment.")
