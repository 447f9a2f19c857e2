"""Identities: as a provider states them, and as they are linked to accounts."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, kw_only=True, slots=True)
class IdentityProof:
    """The token of an identity provider that a caller presents, not verified yet."""

    # The name of the provider in the settings.
    provider: str
    token: str = field(repr=False)
    # That of the ID token; empty for none.
    nonce: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderIdentity:
    """A person, as an identity provider states."""

    # "github", or the URL of the issuer.
    provider: str
    subject: str
    # Their name in logins there.
    login: str
    display_name: str = ""
    # In lower case, and only when the provider has verified it; else empty.
    email: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkedIdentity:
    """An identity that is linked to an account."""

    identity_id: UUID
    provider: str
    subject: str
    login: str
    create_time: datetime
