"""Every database call of the auth service, one method for each thing that is done."""

from __future__ import annotations

from skein_auth.store.accounts import AccountStore
from skein_auth.store.api_keys import ApiKeyStore
from skein_auth.store.attempts import AttemptStore
from skein_auth.store.audit import AuditStore
from skein_auth.store.clients import ClientStore
from skein_auth.store.devices import DeviceStore
from skein_auth.store.grants import GrantStore
from skein_auth.store.identities import IdentityStore
from skein_auth.store.keys import KeyStore
from skein_auth.store.legacy import LegacyStore
from skein_auth.store.one_time import OneTimeStore
from skein_auth.store.queries import QUERIES
from skein_auth.store.revocation import RevocationStore
from skein_auth.store.service_accounts import ServiceAccountStore
from skein_auth.store.totp import TotpStore
from skein_auth.store.upkeep import UpkeepStore

__all__ = [
    "QUERIES",
    "AccountStore",
    "ApiKeyStore",
    "AttemptStore",
    "AuditStore",
    "ClientStore",
    "DeviceStore",
    "GrantStore",
    "IdentityStore",
    "KeyStore",
    "LegacyStore",
    "OneTimeStore",
    "RevocationStore",
    "ServiceAccountStore",
    "TotpStore",
    "UpkeepStore",
]
