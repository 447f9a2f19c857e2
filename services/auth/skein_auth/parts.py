"""What the auth service is made of: one value that the composition root fills and every group of RPCs draws from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skein_auth.accounts.one_time_tokens import OneTimeTokens
    from skein_auth.accounts.self_service import AccountSelfService
    from skein_auth.accounts.store import AccountStore
    from skein_auth.api_keys.check_keys import CheckKeys
    from skein_auth.api_keys.legacy_token_store import LegacyStore
    from skein_auth.api_keys.store import ApiKeyStore
    from skein_auth.attempts.model import AttemptLimiter
    from skein_auth.audit.recorder import AuditRecorder
    from skein_auth.audit.store import AuditStore
    from skein_auth.auth_sessions.auth_sessions import AuthSessions
    from skein_auth.exchange.authenticator import Authenticator
    from skein_auth.federation.federated_login import FederatedLogin
    from skein_auth.login.password_login import PasswordLogin
    from skein_auth.maintenance.store import MaintenanceStore
    from skein_auth.oauth.server import OAuth
    from skein_auth.revocation.store import RevocationStore
    from skein_auth.second_factor.model import Totp
    from skein_auth.service_accounts.store import ServiceAccountStore
    from skein_auth.settings import AuthSettings
    from skein_auth.signing.access_tokens import AccessTokens
    from skein_auth.signing.keyring import Keyring
    from skein_auth.signing.store import KeyStore
    from skein_auth.tenancy.tenants import TenantDirectory


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """The parts of a running auth service."""

    settings: AuthSettings
    attempts: AttemptLimiter
    audit: AuditRecorder
    audit_events: AuditStore
    keys: KeyStore
    keyring: Keyring
    check_keys: CheckKeys
    api_keys: ApiKeyStore
    service_accounts: ServiceAccountStore
    legacy: LegacyStore
    revocation: RevocationStore
    upkeep: MaintenanceStore
    access_tokens: AccessTokens
    sign_ins: AuthSessions
    accounts: AccountStore
    own_accounts: AccountSelfService
    one_time: OneTimeTokens
    signing_in: PasswordLogin
    totp: Totp
    linked: FederatedLogin
    oauth: OAuth
    tenants: TenantDirectory
    identities: Authenticator
    # The same, with turns at lookups apart from those of exchanges.
    introspecting: Authenticator
