"""What the auth service is made of: one value that the composition root fills and every group of RPCs draws from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skein_auth.access_tokens import AccessTokens
    from skein_auth.attempts import Attempts
    from skein_auth.audit import Audit
    from skein_auth.check_keys import CheckKeys
    from skein_auth.identities import Identities
    from skein_auth.linked import LinkedIdentities
    from skein_auth.oauth import OAuth
    from skein_auth.one_time import OneTime
    from skein_auth.own_accounts import OwnAccounts
    from skein_auth.settings import AuthSettings
    from skein_auth.sign_ins import SignIns
    from skein_auth.signing import Keyring
    from skein_auth.signing_in import SigningIn
    from skein_auth.store import (
        AccountStore,
        ApiKeyStore,
        AuditStore,
        KeyStore,
        LegacyStore,
        RevocationStore,
        ServiceAccountStore,
        UpkeepStore,
    )
    from skein_auth.tenants import Tenants
    from skein_auth.totp import Totp


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
