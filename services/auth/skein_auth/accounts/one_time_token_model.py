"""The form and the purposes of one-time tokens. No SQL, no clock."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth.errors import OneTimeTokenInvalid
from skein_kit.database.transactions import NO_TENANT
from skein_kit.identity.bearer_token import BearerToken

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "skein_once_"


class Purpose(Enum):
    """What a token is good for."""

    EMAIL_VERIFICATION = "email_verification"
    PASSWORD_RESET = "password_reset"  # noqa: S105 - a purpose.


PURPOSES: Mapping[pb.TokenPurpose, Purpose] = {
    pb.TOKEN_PURPOSE_EMAIL_VERIFICATION: Purpose.EMAIL_VERIFICATION,
    pb.TOKEN_PURPOSE_PASSWORD_RESET: Purpose.PASSWORD_RESET,
}


def parse(text: str) -> BearerToken:
    """Read a token, or refuse what is none."""
    token = BearerToken.read(PREFIX, text)
    if token is None or token.tenant_id != NO_TENANT:
        raise OneTimeTokenInvalid
    return token
