"""What the auth service is made of: one value that the composition root fills and every group of RPCs draws from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skein_auth.accounts.one_time_tokens import OneTime
    from skein_auth.accounts.self_service import OwnAccounts
    from skein_auth.accounts.store import AccountStore
    from skein_auth.api_keys.check_keys import CheckKeys
    from skein_auth.api_keys.legacy_token_store import LegacyStore
    from skein_auth.api_keys.store import ApiKeyStore
    from skein_auth.attempts.model import Attempts
    from skein_auth.audit.recorder import Audit
    from skein_auth.audit.store import AuditStore
    from skein_auth.auth_sessions.auth_sessions import SignIns
    from skein_auth.exchange.authenticator import Identities
    from skein_auth.federation.federated_login import LinkedIdentities
    from skein_auth.login.password_login import SigningIn
    from skein_auth.maintenance.store import UpkeepStore
    from skein_auth.oauth.server import OAuth
    from skein_auth.revocation.store import RevocationStore
    from skein_auth.second_factor.model import Totp
    from skein_auth.service_accounts.store import ServiceAccountStore
    from skein_auth.settings import AuthSettings
    from skein_auth.signing.access_tokens import AccessTokens
    from skein_auth.signing.keyring import Keyring
    from skein_auth.signing.store import KeyStore
    from skein_auth.tenancy.tenants import Tenants


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """The parts of a running auth service."""

    settings: AuthSettings
    attempts: Attempts
    audit: Audit
    audit_events: AuditStore
    keys: KeyStore
    keyring: Keyring
    check_keys: CheckKeys
    api_keys: ApiKeyStore
    service_accounts: ServiceAccountStore
    legacy: LegacyStore
    revocation: RevocationStore
    upkeep: UpkeepStore
    access_tokens: AccessTokens
    sign_ins: SignIns
    accounts: AccountStore
    own_accounts: OwnAccounts
    one_time: OneTime
    signing_in: SigningIn
    totp: Totp
    linked: LinkedIdentities
    oauth: OAuth
    tenants: Tenants
    identities: Identities
    # The same, with turns at lookups apart from those of exchanges.
    introspecting: Identities
