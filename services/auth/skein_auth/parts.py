"""What the auth service is made of: one value that the composition root fills and every group of RPCs draws from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skein_auth.identities import Identities
    from skein_auth.settings import AuthSettings
    from skein_auth.signing import Keyring
    from skein_auth.store import KeyStore
    from skein_auth.tenants import Tenants


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """The parts of a running auth service."""

    settings: AuthSettings
    keys: KeyStore
    keyring: Keyring
    tenants: Tenants
    identities: Identities
