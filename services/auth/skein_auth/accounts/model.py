"""Accounts, drafts and changes of them, and the forms of e-mail addresses and one-time tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from uuid import UUID

from skein_auth.errors import OneTimeTokenInvalid
from skein_kit.database.transactions import NO_TENANT
from skein_kit.errors import FieldInvalid
from skein_kit.identity.bearer_token import BearerToken

ONE_TIME_PREFIX = "skein_once_"
_MAX_EMAIL = 254
# The form of an e-mail address in HTML, which the protos check elsewhere.
_EMAIL = re.compile(
    r"[a-z0-9.!#$%&'*+/=?^_`{|}~-]+@[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*"
)


def normalize_email(text: str) -> str:
    """Return the form in which an address is looked up: in lower case, without spaces around it."""
    return text.strip().lower()


def parse_email(text: str, name: str = "email") -> str:
    """Return the form in which an address is stored. Raises FieldInvalid."""
    email = normalize_email(text)
    if len(email) > _MAX_EMAIL or _EMAIL.fullmatch(email) is None:
        raise FieldInvalid(violations=[(name, "is no e-mail address")])
    return email


@dataclass(frozen=True, kw_only=True, slots=True)
class Account:
    """An account, without its secrets."""

    account_id: UUID
    email: str | None
    email_verify_time: datetime | None
    display_name: str
    # "active" or "deactivated".
    status: str
    has_password: bool
    has_totp: bool
    revision: int
    create_time: datetime
    update_time: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class AccountDraft:
    """The validated content of an account to be created."""

    email: str
    display_name: str
    # None: the account has no password login.
    password_hash: str | None = field(default=None, repr=False)
    email_verified: bool = False
    # Times of an imported account; None: now.
    create_time: datetime | None = None
    update_time: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AccountChange:
    """New values for some fields of one account."""

    account_id: UUID
    # 0: any revision.
    revision: int
    values: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class LoginCredentials:
    """What a login to an account is checked against."""

    account_id: UUID
    # Empty for an account without an address.
    email: str
    # The address that replaces it once verified; empty for none.
    new_email: str
    email_verified: bool
    password_hash: str | None = field(repr=False)
    active: bool
    has_second_factor: bool
    # Devices of an earlier generation are unknown.
    device_generation: int
    revision: int


class TokenPurpose(Enum):
    """What a one-time token allows its holder to do."""

    EMAIL_VERIFICATION = "email_verification"
    PASSWORD_RESET = "password_reset"  # noqa: S105 - a purpose.


def parse_one_time_token(text: str) -> BearerToken:
    """Raises OneTimeTokenInvalid for a text that is no one-time token."""
    token = BearerToken.decode(ONE_TIME_PREFIX, text)
    if token is None or token.tenant_id != NO_TENANT:
        raise OneTimeTokenInvalid
    return token
