"""Purposes and form of one-time tokens."""

from __future__ import annotations

from enum import Enum

from skein_auth.errors import OneTimeTokenInvalid
from skein_kit.database.transactions import NO_TENANT
from skein_kit.identity.bearer_token import BearerToken

PREFIX = "skein_once_"


class Purpose(Enum):
    """What a token allows its holder to do."""

    EMAIL_VERIFICATION = "email_verification"
    PASSWORD_RESET = "password_reset"  # noqa: S105 - a purpose.


def parse(text: str) -> BearerToken:
    """Raises OneTimeTokenInvalid for a text that is no one-time token."""
    token = BearerToken.decode(PREFIX, text)
    if token is None or token.tenant_id != NO_TENANT:
        raise OneTimeTokenInvalid
    return token
